//! `terrace cache-eval`.

use super::failure::Failure;
use super::ui::Ui;
use crate::cache_eval::cache::CacheKind;
use crate::cache_eval::flow_sizes::FlowSizes;
use crate::cache_eval::flows::Locality;
use crate::cache_eval::report::{Published, Report, published};
use crate::cache_eval::rules::{self, Rule};
use crate::cache_eval::suite::{Event, LocalityName, Sizes, Suite};
use crate::cache_eval::vswitch::NAMES;
use crate::cache_eval::{capture, chart, filter_sets, flow_cache, page, text};
use clap::Args;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest file of rules or sizes that is read, in bytes.
const MAX_FILE: u64 = 256 << 20;
/// Entries of all tables that --full sweeps over.
const ALL_SIZES: [usize; 5] = [2_000, 8_000, 16_000, 32_000, 64_000];

/// How much of a virtual switch's traffic do flow caches serve, and what do they cost?
///
/// Five pipelines of published virtual switches, filled from a filter set, get traffic of high and of low locality through each cache. Says hit
/// rates, misses, entries, masks, the rule space covered, sharing, and the costs; with --html as a page with plots. docs/cache-eval.md says how
/// rules and traffic are made.
#[derive(Debug, Args)]
pub struct CacheEvalArgs {
    /// Pipelines: ofd, psc, ols, ant, otl; all unless given.
    #[arg(value_name = "PIPELINE")]
    pipelines: Vec<String>,
    /// How often flows share what tables look at; both unless given.
    #[arg(long, value_enum)]
    locality: Vec<LocalityName>,
    /// Kinds of caches; all unless given.
    #[arg(long, value_enum)]
    cache: Vec<CacheKind>,
    /// Tables of a cache that has several.
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=8))]
    tables: u64,
    /// Entries of all its tables together.
    #[arg(long, value_name = "N", default_value_t = 32_000, value_parser = clap::value_parser!(u64).range(1..=16_000_000))]
    entries: u64,
    /// More runs with other numbers of tables and as many entries together, for sub-traversals at high locality: 1,2,3.
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=8))]
    sweep_tables: Vec<u64>,
    /// More runs with other numbers of entries, at high locality: 8000,16000.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=16_000_000))]
    sweep_entries: Vec<u64>,
    /// More runs in which the workload changes suddenly, at high locality.
    #[arg(long)]
    change: bool,
    /// All of it: 1 to 8 tables, 2,000 to 64,000 entries, and a change.
    #[arg(long, conflicts_with_all = ["sweep_tables", "sweep_entries", "change"])]
    full: bool,
    /// The filter set, in ClassBench's form; one in its manner is made unless given.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Rules that are made, or the most that are taken from the file.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rule_count: u64,
    /// The distribution of flow sizes, a line BYTES,SHARE for each step; VL2's unless given.
    #[arg(long, value_name = "FILE.csv", conflicts_with = "capture")]
    flow_sizes: Option<PathBuf>,
    /// Take sizes and times of flows from captures (pcap).
    #[arg(long, value_name = "FILE.pcap")]
    capture: Vec<PathBuf>,
    /// Flows, no two alike.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=2_000_000))]
    flows: u64,
    /// Packets of a flow on average: larger flows are cut off. The pipeline's own number unless given.
    #[arg(long, value_name = "N")]
    packets_per_flow: Option<f64>,
    /// At high locality: the exponent of Zipf's law by which rules are drawn, and the share of the rules that are. The pipeline's own unless
    /// given: 1,0.25.
    #[arg(long, value_name = "S,SHARE", value_delimiter = ',', num_args = 1)]
    zipf: Vec<f64>,
    /// Seconds in which flows begin.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    window: f64,
    /// Seconds between two packets of a flow on average; captures have their own.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    gap: f64,
    /// Compare each of so many packets with what the interpreter does with it; 0: none.
    #[arg(long, value_name = "N", default_value_t = 100)]
    compare: usize,
    /// Where random choices begin: the same seed gives the same rules and traffic.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Hit rates to show beside the measured ones: CSV with the columns figure, locality, pipeline, cache, value.
    #[arg(long, value_name = "FILE.csv")]
    published: Option<PathBuf>,
    /// Write the report as a page that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write each plot as SVG into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Write the report as JSON, beside what is shown.
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
}

impl CacheEvalArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        self.check()?;
        let published = self.published()?;
        let suite = self.suite()?;
        let progress = ui.progress_of("", suite.runs() as u64 * 100);
        let mut tell = |event: Event<'_>| match event {
            Event::Begins(what, run) => {
                progress.say(&what);
                progress.at(run as u64 * 100);
            }
            Event::Packets(run, packets, all) => progress.at((run * 100 + packets * 100 / all.max(1)) as u64),
            Event::Done(_) => {}
        };
        let mut report = suite.run(&flow_cache::make, &mut tell).map_err(Failure::Bug)?;
        drop(progress);
        report.published = published;
        self.write(&report)?;
        ui.result(&report, || text::report(&report))
    }

    /// What clap cannot look at.
    fn check(&self) -> Result<(), Failure> {
        for name in &self.pipelines {
            if !NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(Failure::Usage(format!("there is no pipeline `{name}`; there are {}", NAMES.join(", "))));
            }
        }
        let between = |name: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(Failure::Usage(format!("--{name} is a number from {low} to {high}"))),
        };
        between("packets-per-flow", self.packets_per_flow.unwrap_or(1.0), 1.0, 10_000.0)?;
        match self.zipf[..] {
            [] => {}
            [exponent, share] if (0.0..=10.0).contains(&exponent) && share > 0.0 && share <= 1.0 => {}
            _ => return Err(Failure::Usage("--zipf is an exponent up to 10 and a share up to 1: 1,0.25".to_owned())),
        }
        between("window", self.window, 0.001, 1e6)?;
        between("gap", self.gap, 0.0, 1e6)
    }

    fn suite(&self) -> Result<Suite, Failure> {
        let (rules, rules_from) = self.read_rules()?;
        let (flow_sizes, sizes_from) = self.read_sizes()?;
        let all = |given: &[String]| match given {
            [] => NAMES.map(str::to_owned).to_vec(),
            given => given.to_vec(),
        };
        let numbers = |given: &[u64], full: &[usize]| match self.full {
            true => full.to_vec(),
            false => given.iter().map(|number| *number as usize).collect(),
        };
        Ok(Suite {
            pipelines: all(&self.pipelines),
            localities: or(&self.locality, &[LocalityName::High, LocalityName::Low]),
            kinds: or(
                &self.cache,
                &[CacheKind::Exact, CacheKind::Megaflow, CacheKind::SubTraversal, CacheKind::Adaptive],
            ),
            tables: self.tables as usize,
            total: self.entries as usize,
            ks: numbers(&self.sweep_tables, &[1, 2, 3, 4, 5, 6, 7, 8]),
            sizes: numbers(&self.sweep_entries, &ALL_SIZES),
            change: self.change || self.full,
            rules,
            flow_sizes,
            flows: self.flows as usize,
            packets_per_flow: self.packets_per_flow,
            high: match self.zipf[..] {
                [exponent, share] => Some(Locality { exponent, share, variants: 1 }),
                _ => None,
            },
            window: (self.window, self.gap),
            compare: self.compare,
            seed: self.seed,
            sources: (rules_from, sizes_from),
        })
    }

    fn read_rules(&self) -> Result<(Vec<Rule>, String), Failure> {
        let Some(path) = &self.rules else {
            return Ok((filter_sets::generate(self.rule_count as usize, self.seed), "made by terrace".to_owned()));
        };
        let mut rules = rules::parse(&read(path)?).map_err(|why| refused(path, &why))?;
        rules.truncate(self.rule_count as usize);
        Ok((rules, name(path)))
    }

    fn read_sizes(&self) -> Result<(Sizes, String), Failure> {
        if let Some(path) = &self.flow_sizes {
            let sizes = FlowSizes::parse(&read(path)?).map_err(|why| refused(path, &why))?;
            return Ok((Sizes::Distribution(sizes), name(path)));
        }
        if self.capture.is_empty() {
            return Ok((Sizes::Distribution(FlowSizes::built_in()), "VL2".to_owned()));
        }
        let one = |path: &PathBuf| {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            capture::read(BufReader::new(file)).map_err(|why| refused(path, &why))
        };
        let patterns = self.capture.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = self.capture.iter().map(|path| name(path)).collect();
        Ok((Sizes::Captures(patterns), names.join(", ")))
    }

    fn published(&self) -> Result<Vec<Published>, Failure> {
        let Some(path) = &self.published else { return Ok(Vec::new()) };
        published(&read(path)?).map_err(|why| refused(path, &why))
    }

    fn write(&self, report: &Report) -> Result<(), Failure> {
        if let Some(path) = &self.html {
            write(path, &page::page(report))?;
        }
        if let Some(path) = &self.out {
            let json = serde_json::to_string_pretty(report).map_err(|error| Failure::Bug(error.to_string()))?;
            write(path, &json)?;
        }
        if let Some(folder) = &self.svg {
            let failed =
                |error| Failure::environment(format!("cannot make {}: {error}; check the path", folder.display()));
            std::fs::create_dir_all(folder).map_err(failed)?;
            for plot in chart::plots(report) {
                write(&folder.join(format!("{}.svg", plot.name.replace(' ', "-"))), &chart::svg(&plot))?;
            }
        }
        Ok(())
    }
}

/// What is given, or all.
fn or<T: Copy>(given: &[T], all: &[T]) -> Vec<T> {
    if given.is_empty() { all.to_vec() } else { given.to_vec() }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::Refused(format!("{}: {why}", path.display()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Refused(format!("cannot read {}: {error}; check the path", path.display()))
}

fn read(path: &Path) -> Result<String, Failure> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut text = String::new();
    let length = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
    if length as u64 > MAX_FILE {
        return Err(refused(path, &format!("is longer than {MAX_FILE} bytes")));
    }
    Ok(text)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}
