//! p4c's tests, run on Terrace: what is accepted, what is refused and where, what packets become, and the control-plane API.
//!
//! | file | decides |
//! |---|---|
//! | `select` | which programs belong to which category |
//! | `pool` | running cases side by side, each in a process of its own, with a time limit |
//! | `case` | what one case does, and whether it passes |
//! | `stderr` | which lines p4c names in its own error output |
//! | `report`, `markdown` | how the results are shown |

mod case;
mod markdown;
mod pool;
mod report;
mod select;
mod stderr;

pub use case::CaseArgs;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Run a checkout of p4c's tests and print a table by category, with the failures by cause.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    /// The checkout of p4lang/p4c.
    #[arg(long, value_name = "DIR")]
    p4c: PathBuf,
    /// Only this category (may be repeated).
    #[arg(long, value_name = "CATEGORY")]
    category: Vec<Category>,
    /// Only programs whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Name each failure with its cause.
    #[arg(long)]
    list_failures: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Write the tables of docs/conformance.md.
    #[arg(long, conflicts_with = "filter", conflicts_with = "category")]
    markdown: bool,
    /// Write CATEGORY.txt into DIR: a line `name: cause` for each failure.
    #[arg(long, value_name = "DIR")]
    lists: Option<PathBuf>,
    /// Exit with 1 if a category is below its bar.
    #[arg(long)]
    check: bool,
    /// Seconds that one program may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    time_limit: u64,
    /// How many run at a time; as many as there are processors unless given.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// v1model programs with an STF test: the test passes.
    Stf,
    /// Programs for v1model, PNA, or core.p4 alone: accepted.
    Accept,
    /// Wrong programs of the same kind: refused with an error at a line that p4c names.
    Errors,
    /// v1model programs: P4Info equal to p4c's.
    P4info,
}

/// What has to be reached.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// So many programs.
    Count(usize),
    /// So many of a hundred.
    Percent(usize),
}

impl Category {
    /// All, in the order in which they are shown.
    pub const ALL: [Category; 4] = [Category::Stf, Category::Accept, Category::Errors, Category::P4info];

    /// As on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Category::Stf => "stf",
            Category::Accept => "accept",
            Category::Errors => "errors",
            Category::P4info => "p4info",
        }
    }

    /// One line on what is measured.
    pub fn meaning(self) -> &'static str {
        match self {
            Category::Stf => "v1model programs whose STF test passes",
            Category::Accept => "programs for v1model, PNA or core.p4 alone that are accepted",
            Category::Errors => "wrong programs that are refused at a line that p4c names",
            Category::P4info => "v1model programs whose P4Info equals p4c's",
        }
    }

    /// What has to be reached.
    pub fn bar(self) -> Bar {
        match self {
            Category::Stf => Bar::Count(195),
            Category::Accept => Bar::Percent(97),
            Category::Errors | Category::P4info => Bar::Percent(90),
        }
    }
}

/// What a case came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// As it has to be.
    Pass,
    /// Not so: the kind of cause, and in detail.
    Fail {
        /// Groups failures with the same cause.
        cause: String,
        /// For whoever mends it.
        detail: String,
    },
    /// Not counted, and why.
    Skip {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// A failure. The detail becomes one line.
    pub fn fail(cause: impl Into<String>, detail: impl Into<String>) -> Outcome {
        let detail: String = detail.into();
        let detail = detail.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        Outcome::Fail { cause: cause.into(), detail }
    }
}

/// A case's outcome under the program's name.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// Category.
    pub category: Category,
    /// The program, relative to `testdata`.
    pub program: String,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl ConformanceArgs {
    /// Runs the task; false if a bar is missed and `--check` asks for it.
    pub fn run(self) -> Result<bool> {
        let testdata = self.p4c.join("testdata");
        ensure!(
            testdata.join("p4_16_samples").is_dir(),
            "{} has no testdata/p4_16_samples; name a checkout of p4lang/p4c",
            self.p4c.display()
        );
        let wanted = |category: Category| self.category.is_empty() || self.category.contains(&category);
        let matches = |program: &str| self.filter.as_deref().is_none_or(|text| program.contains(text));
        let mut cases = select::cases(&testdata).context("reading the checkout")?;
        cases.retain(|case| wanted(case.category) && matches(&case.program));
        let limit = Duration::from_secs(self.time_limit.max(1));
        let done = pool::run(&testdata, cases, limit, self.jobs)?;
        if let Some(dir) = &self.lists {
            report::write_lists(dir, &done, &wanted)?;
        }
        if self.markdown {
            markdown::write(&done)?;
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report::json(&done))?);
        } else {
            print!("{}", report::text(&done, self.list_failures));
        }
        Ok(!self.check || report::missed(&done).is_empty())
    }
}
