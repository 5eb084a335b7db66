//! Conformance: runs p4c's tests on Terrace. Checks accepted and refused programs, error lines,
//! output packets, and the control-plane API.
//!
//! | file | decides |
//! |---|---|
//! | `select` | the category of each program |
//! | `pool` | running cases concurrently, each in its own process, with a time limit |
//! | `case` | running one case, and whether it passes |
//! | `stderr` | the lines that p4c names in its error output |
//! | `report`, `markdown` | the form of the results |

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
    /// Checkout of p4lang/p4c.
    #[arg(long, value_name = "DIR")]
    p4c: PathBuf,
    /// Run only this category (may be repeated).
    #[arg(long, value_name = "CATEGORY")]
    category: Vec<Category>,
    /// Run only programs with TEXT in their name.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// List each failure with its cause.
    #[arg(long)]
    list_failures: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Write the tables of docs/reference/conformance.md.
    #[arg(long, conflicts_with = "filter", conflicts_with = "category")]
    markdown: bool,
    /// Write CATEGORY.txt into DIR: a line `name: cause` for each failure.
    #[arg(long, value_name = "DIR")]
    lists: Option<PathBuf>,
    /// Exit with 1 if a category is below its target.
    #[arg(long)]
    check: bool,
    /// Time limit for one program, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    time_limit: u64,
    /// Number of concurrent cases. Default: the number of processors.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Category of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// v1model programs with an STF test: the test passes.
    Stf,
    /// Programs for v1model, PNA, or core.p4 alone: accepted.
    Accept,
    /// Invalid programs of the same architectures: refused with an error at a line that p4c names.
    Errors,
    /// v1model programs: P4Info equal to p4c's.
    P4info,
}

/// Target of a category.
#[derive(Clone, Copy, Debug)]
pub enum CategoryTarget {
    /// Number of programs.
    Count(usize),
    /// Percentage of programs.
    Percent(usize),
}

impl Category {
    /// All categories, in the order of the report.
    pub const ALL: [Category; 4] = [Category::Stf, Category::Accept, Category::Errors, Category::P4info];

    /// Returns the name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Category::Stf => "stf",
            Category::Accept => "accept",
            Category::Errors => "errors",
            Category::P4info => "p4info",
        }
    }

    /// Returns a one-line description.
    pub fn meaning(self) -> &'static str {
        match self {
            Category::Stf => "v1model programs with a passing STF test",
            Category::Accept => "accepted programs for v1model, PNA or only core.p4",
            Category::Errors => "invalid programs refused at a line that p4c reports",
            Category::P4info => "v1model programs with the same P4Info as p4c",
        }
    }

    /// Returns the target of the category.
    pub fn category_target(self) -> CategoryTarget {
        match self {
            Category::Stf => CategoryTarget::Count(195),
            Category::Accept => CategoryTarget::Percent(97),
            Category::Errors | Category::P4info => CategoryTarget::Percent(90),
        }
    }
}

/// Outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum CaseOutcome {
    /// The case passed.
    Pass,
    /// The case failed.
    Fail {
        /// Kind of the cause, by which failures are grouped.
        cause: String,
        /// Details for the developer.
        detail: String,
    },
    /// The case is not counted.
    Skip {
        /// Reason for skipping it.
        reason: String,
    },
}

impl CaseOutcome {
    /// Creates a failure. The detail is joined to one line.
    pub fn fail(cause: impl Into<String>, detail: impl Into<String>) -> CaseOutcome {
        let detail: String = detail.into();
        let detail = detail.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        CaseOutcome::Fail { cause: cause.into(), detail }
    }
}

/// Outcome of a case, with its program.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    /// Category.
    pub category: Category,
    /// Path of the program, relative to `testdata`.
    pub program: String,
    /// Outcome of the case.
    #[serde(flatten)]
    pub outcome: CaseOutcome,
}

impl ConformanceArgs {
    /// Runs the task. Returns false if a target is missed with `--check`.
    pub fn run(self) -> Result<bool> {
        let testdata = self.p4c.join("testdata");
        ensure!(
            testdata.join("p4_16_samples").is_dir(),
            "{} has no testdata/p4_16_samples; name a checkout of p4lang/p4c",
            self.p4c.display()
        );
        let is_selected = |category: Category| self.category.is_empty() || self.category.contains(&category);
        let matches = |program: &str| self.filter.as_deref().is_none_or(|text| program.contains(text));
        let mut cases = select::select_cases(&testdata).context("reading the checkout")?;
        cases.retain(|case| is_selected(case.category) && matches(&case.program));
        let limit = Duration::from_secs(self.time_limit.max(1));
        let results = pool::run(&testdata, cases, limit, self.jobs)?;
        if let Some(dir) = &self.lists {
            report::write_lists(dir, &results, &is_selected)?;
        }
        if self.markdown {
            markdown::write(&results)?;
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report::json(&results))?);
        } else {
            print!("{}", report::text(&results, self.list_failures));
        }
        Ok(!self.check || report::missed_categories(&results).is_empty())
    }
}
