//! `terrace cache-eval`.

use super::failure::CommandError;
use super::ui::OutputSettings;
use crate::cache_eval::cache::CacheKind;
use crate::cache_eval::flow_sizes::FlowSizes;
use crate::cache_eval::flows::Locality;
use crate::cache_eval::report::{EvaluationReport, Published, published};
use crate::cache_eval::rules::{self, Rule};
use crate::cache_eval::suite::{EvaluationEvent, EvaluationSuite, FlowSizeSource, LocalityName};
use crate::cache_eval::vswitch::NAMES;
use crate::cache_eval::{capture, chart, filter_sets, flow_cache, page, text};
use clap::Args;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a rule or flow size file, in bytes.
const MAX_FILE: u64 = 256 << 20;
/// Total entries of the caches in the sweep of --full.
const ALL_SIZES: [usize; 5] = [2_000, 8_000, 16_000, 32_000, 64_000];

/// Evaluate flow caches on a virtual switch: how much traffic do they serve, and at what cost?
///
/// Five pipelines of published virtual switches are filled from a filter set. Traffic of high and
/// of low locality is sent through each cache. The report shows hit rates, misses, entries, masks,
/// covered rule space, sharing and costs; --html adds plots.
/// docs/journal/2026-11-cache-evaluation.md describes how rules and traffic are generated.
#[derive(Debug, Args)]
pub struct CacheEvalArgs {
    /// Pipelines to run: ofd, psc, ols, ant, otl. Default: all.
    #[arg(value_name = "PIPELINE")]
    pipelines: Vec<String>,
    /// How often flows share table entries. Default: both.
    #[arg(long, value_enum)]
    locality: Vec<LocalityName>,
    /// Kinds of caches to run. Default: all.
    #[arg(long, value_enum)]
    cache: Vec<CacheKind>,
    /// Number of tables, for kinds with several tables.
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=8))]
    tables: u64,
    /// Total number of entries over all tables of a cache.
    #[arg(long, value_name = "N", default_value_t = 32_000, value_parser = clap::value_parser!(u64).range(1..=16_000_000))]
    entries: u64,
    /// Additional runs with these numbers of tables and the same total entries, for sub-traversal
    /// caches at high locality: 1,2,3.
    #[arg(long, value_name = "K,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=8))]
    sweep_tables: Vec<u64>,
    /// Additional runs with these total numbers of entries, at high locality: 8000,16000.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=16_000_000))]
    sweep_entries: Vec<u64>,
    /// Additional runs with a sudden workload change, at high locality.
    #[arg(long)]
    change: bool,
    /// Run everything: 1 to 8 tables, 2,000 to 64,000 entries, and a workload change.
    #[arg(long, conflicts_with_all = ["sweep_tables", "sweep_entries", "change"])]
    full: bool,
    /// Filter set in the ClassBench format. Default: a synthetic one of similar structure.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Number of rules to generate, or the maximum number to take from the file.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rule_count: u64,
    /// Flow size distribution, one line BYTES,SHARE for each step. Default: that of VL2.
    #[arg(long, value_name = "FILE.csv", conflicts_with = "capture")]
    flow_sizes: Option<PathBuf>,
    /// Take sizes and times of flows from captures (pcap).
    #[arg(long, value_name = "FILE.pcap")]
    capture: Vec<PathBuf>,
    /// Number of distinct flows.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=2_000_000))]
    flows: u64,
    /// Average number of packets of a flow; larger flows are truncated. Default: that of the
    /// pipeline.
    #[arg(long, value_name = "N")]
    packets_per_flow: Option<f64>,
    /// Exponent of Zipf's law by which rules are drawn, and share of the rules to draw from, at
    /// high locality: 1,0.25. Default: those of the pipeline.
    #[arg(long, value_name = "S,SHARE", value_delimiter = ',', num_args = 1)]
    zipf: Vec<f64>,
    /// Length of the window in which flows start, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    window: f64,
    /// Average time between two packets of a flow, in seconds. Ignored with captures, which have
    /// their own times.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    gap: f64,
    /// Compare every Nth packet with the interpreter; 0: none.
    #[arg(long, value_name = "N", default_value_t = 100)]
    compare: usize,
    /// Seed of all random choices. The same seed gives the same rules and traffic.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Published hit rates to show with the measured ones: CSV with the columns figure, locality,
    /// pipeline, cache, value.
    #[arg(long, value_name = "FILE.csv")]
    published: Option<PathBuf>,
    /// Write the report as a self-contained HTML page.
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Write each plot as SVG into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Also write the report as JSON to this file.
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
}

impl CacheEvalArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        self.check_arguments()?;
        let published = self.published()?;
        let suite = self.build_suite()?;
        let progress = ui.progress_of("", suite.run_count() as u64 * 100);
        let mut tell = |event: EvaluationEvent<'_>| match event {
            EvaluationEvent::Begins(what, run) => {
                progress.set_description(&what);
                progress.at(run as u64 * 100);
            }
            EvaluationEvent::Packets(run, packets, all) => progress.at((run * 100 + packets * 100 / all.max(1)) as u64),
            EvaluationEvent::Done(_) => {}
        };
        let mut report = suite.run(&flow_cache::build_cache, &mut tell).map_err(CommandError::Bug)?;
        drop(progress);
        report.published = published;
        self.write(&report)?;
        ui.result(&report, || text::render_report(&report))
    }

    /// Checks arguments that clap cannot check.
    fn check_arguments(&self) -> Result<(), CommandError> {
        for name in &self.pipelines {
            if !NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(CommandError::Usage(format!(
                    "there is no pipeline `{name}`; there are {}",
                    NAMES.join(", ")
                )));
            }
        }
        let between = |name: &str, value: f64, low: f64, high: f64| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(CommandError::Usage(format!("--{name} is a number from {low} to {high}"))),
        };
        between("packets-per-flow", self.packets_per_flow.unwrap_or(1.0), 1.0, 10_000.0)?;
        match self.zipf[..] {
            [] => {}
            [exponent, share] if (0.0..=10.0).contains(&exponent) && share > 0.0 && share <= 1.0 => {}
            _ => {
                return Err(CommandError::Usage(
                    "--zipf is an exponent up to 10 and a share up to 1: 1,0.25".to_owned(),
                ));
            }
        }
        between("window", self.window, 0.001, 1e6)?;
        between("gap", self.gap, 0.0, 1e6)
    }

    /// Builds the suite from the arguments. `--full` runs all pipelines' sweeps and the workload
    /// change.
    fn build_suite(&self) -> Result<EvaluationSuite, CommandError> {
        let (rules, rules_from) = self.read_rules()?;
        let (flow_sizes, sizes_from) = self.read_sizes()?;
        let names_or_all = |names: &[String]| match names {
            [] => NAMES.map(str::to_owned).to_vec(),
            names => names.to_vec(),
        };
        let numbers_or_full = |numbers: &[u64], full: &[usize]| match self.full {
            true => full.to_vec(),
            false => numbers.iter().map(|number| *number as usize).collect(),
        };
        Ok(EvaluationSuite {
            pipelines: names_or_all(&self.pipelines),
            localities: given_or_all(&self.locality, &[LocalityName::High, LocalityName::Low]),
            kinds: given_or_all(
                &self.cache,
                &[CacheKind::Exact, CacheKind::Megaflow, CacheKind::SubTraversal, CacheKind::Adaptive],
            ),
            tables: self.tables as usize,
            total_entries: self.entries as usize,
            swept_table_counts: numbers_or_full(&self.sweep_tables, &[1, 2, 3, 4, 5, 6, 7, 8]),
            swept_entries: numbers_or_full(&self.sweep_entries, &ALL_SIZES),
            change: self.change || self.full,
            rules,
            flow_sizes,
            flows: self.flows as usize,
            packets_per_flow: self.packets_per_flow,
            high_locality: match self.zipf[..] {
                [exponent, share] => Some(Locality { exponent, share, variants: 1 }),
                _ => None,
            },
            window_and_gap: (self.window, self.gap),
            compare_interval: self.compare,
            seed: self.seed,
            source_names: (rules_from, sizes_from),
        })
    }

    fn read_rules(&self) -> Result<(Vec<Rule>, String), CommandError> {
        let Some(path) = &self.rules else {
            return Ok((filter_sets::generate(self.rule_count as usize, self.seed), "made by terrace".to_owned()));
        };
        let mut rules = rules::parse(&read_file(path)?).map_err(|why| refused_file(path, &why))?;
        rules.truncate(self.rule_count as usize);
        Ok((rules, display_name(path)))
    }

    fn read_sizes(&self) -> Result<(FlowSizeSource, String), CommandError> {
        if let Some(path) = &self.flow_sizes {
            let sizes = FlowSizes::parse(&read_file(path)?).map_err(|why| refused_file(path, &why))?;
            return Ok((FlowSizeSource::Distribution(sizes), display_name(path)));
        }
        if self.capture.is_empty() {
            return Ok((FlowSizeSource::Distribution(FlowSizes::built_in()), "VL2".to_owned()));
        }
        let one = |path: &PathBuf| {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            capture::read(BufReader::new(file)).map_err(|why| refused_file(path, &why))
        };
        let patterns = self.capture.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = self.capture.iter().map(|path| display_name(path)).collect();
        Ok((FlowSizeSource::Captures(patterns), names.join(", ")))
    }

    fn published(&self) -> Result<Vec<Published>, CommandError> {
        let Some(path) = &self.published else { return Ok(Vec::new()) };
        published(&read_file(path)?).map_err(|why| refused_file(path, &why))
    }

    fn write(&self, report: &EvaluationReport) -> Result<(), CommandError> {
        if let Some(path) = &self.html {
            write(path, &page::render_page(report))?;
        }
        if let Some(path) = &self.out {
            let json = serde_json::to_string_pretty(report).map_err(|error| CommandError::Bug(error.to_string()))?;
            write(path, &json)?;
        }
        if let Some(folder) = &self.svg {
            let failed =
                |error| CommandError::environment(format!("cannot make {}: {error}; check the path", folder.display()));
            std::fs::create_dir_all(folder).map_err(failed)?;
            for plot in chart::build_plots(report) {
                write(&folder.join(format!("{}.svg", plot.name.replace(' ', "-"))), &chart::svg(&plot))?;
            }
        }
        Ok(())
    }
}

/// Returns the given values, or all values if none are given.
fn given_or_all<T: Copy>(given: &[T], all: &[T]) -> Vec<T> {
    if given.is_empty() { all.to_vec() } else { given.to_vec() }
}

fn display_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn refused_file(path: &Path, why: &str) -> CommandError {
    CommandError::Refused(format!("{}: {why}", path.display()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Refused(format!("cannot read {}: {error}; check the path", path.display()))
}

fn read_file(path: &Path) -> Result<String, CommandError> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut text = String::new();
    let length = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
    if length as u64 > MAX_FILE {
        return Err(refused_file(path, &format!("is longer than {MAX_FILE} bytes")));
    }
    Ok(text)
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let failed = |error| CommandError::environment(format!("cannot write {}: {error}; check the path", path.display()));
    std::fs::write(path, text).map_err(failed)
}
