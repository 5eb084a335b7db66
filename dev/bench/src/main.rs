//! `make bench`: runs the selected parts and writes `target/bench/`.

use anyhow::bail;
use bench::machine::{self, HugePages, Machine};
use bench::needs;
use bench::peers::Eal;
use bench::report::{self, Report};
use bench::run::Options;
use clap::Parser;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run all measurements and compare them in one run.
#[derive(Parser)]
struct Arguments {
    /// Run only these parts: lookups, updates, overlay (or gateway, forward), state, services,
    /// workers, memif, switches, compile.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Smoke run: short windows, small tables. Its figures are not meaningful.
    #[arg(long)]
    quick: bool,
    /// Number of windows for each entrant.
    #[arg(long, default_value_t = 5)]
    windows: usize,
    /// Length of a window, in milliseconds.
    #[arg(long, default_value_t = 300)]
    window: u64,
    /// Maximum size to measure (entries, VMs, flows). 16 million take 20 GiB of memory and most of
    /// the time.
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    largest: usize,
    /// Core to run on.
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder with the programs' IR, as `terrace compile` writes it.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Folder of a build of VPP, to measure it beside `state` and `services`.
    #[arg(long)]
    vpp: Option<PathBuf>,
    /// Huge pages to reserve during the run, in GiB.
    #[arg(long, default_value_t = 6)]
    huge: usize,
}

/// Runs the selected parts, writes the report, and fails if a part failed or a target was missed.
fn main() -> anyhow::Result<()> {
    // The program starts two processes from its own binary, and restarts itself when it is
    // interrupted.
    let words: Vec<String> = std::env::args().skip(1).collect();
    bench::external_resources::run_restarted(&words);
    if let Some(outcome) = bench::memif::role(&words).or_else(|| bench::profile::run(&words)) {
        return outcome;
    }
    let arguments = Arguments::parse();
    if let Some(part) = arguments.only.iter().find(|part| !part.is_empty() && !PARTS.contains(&part.as_str())) {
        bail!("there is no part `{part}`; the parts are {}", PARTS.join(", "));
    }
    let options = Options {
        windows: if arguments.quick { 3 } else { arguments.windows.max(1) },
        window: Duration::from_millis(if arguments.quick { 30 } else { arguments.window.max(1) }),
        quick: arguments.quick,
        largest: arguments.largest,
        only: arguments.only.iter().filter(|part| !part.is_empty()).cloned().collect(),
        seed: arguments.seed,
    };
    let mut report = Report { run: describe_options(&options), ..Report::default() };
    bench::external_resources::release_on_signals()?;
    for missing in needs::missing_requirements(&options) {
        report.note(missing);
    }
    let has_priority = machine::prefer_session();
    let core = if arguments.core < machine::cores() { arguments.core } else { 0 };
    if !machine::pin_to_core(core) {
        report.note(format!("not pinned: core {core} is not to be had"));
    }
    let huge_pages = HugePages::reserve(arguments.huge << 30);
    if huge_pages.reserved == 0 {
        report.note("no huge pages (not root, or memory in pieces): tables measure the TLB, too");
    }
    report.machine = Some(Machine::here(&huge_pages, has_priority));
    let eal = match Eal::start(core, huge_pages.reserved > 0) {
        Ok(eal) => Some(eal),
        Err(error) => {
            report.note(format!("without DPDK's lookups: {error}"));
            None
        }
    };
    let programs = arguments.programs.unwrap_or_else(|| machine::results().join("programs"));
    let vpp = arguments.vpp.as_deref();
    let result = run_parts((eal.as_ref(), vpp), &programs, core, &options, &mut report);
    report.bars = report::judge_targets(&report);
    report.write(&machine::results())?;
    print!("{}", report.text());
    println!("\nwritten to {}", machine::results().display());
    drop((eal, huge_pages));
    result?;
    // Quick runs only check that all parts work; their figures are not meaningful.
    let missed_targets: Vec<&str> = report.missed().filter(|_| !options.quick).collect();
    if missed_targets.is_empty() {
        Ok(())
    } else {
        bail!("bars that were measured and missed: {}", missed_targets.join("; "))
    }
}

/// Names of the parts.
const PARTS: [&str; 12] = [
    "lookups",
    "updates",
    "overlay",
    "gateway",
    "forward",
    "state",
    "services",
    "workers",
    "memif",
    "switches",
    "compile",
    "criterion",
];

/// Runs the selected parts. A failure of one does not prevent the others from running.
fn run_parts(
    (eal, vpp): (Option<&Eal>, Option<&Path>),
    programs: &Path,
    core: usize,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut failed_parts = Vec::new();
    let mut run_part = |names: &[&str], report: &mut Report, run: &dyn Fn(&mut Report) -> anyhow::Result<()>| {
        if names.iter().any(|name| options.is_selected(name))
            && let Err(error) = run(report)
        {
            report.note(format!("{} FAILED: {error:#}", names[0]));
            failed_parts.push(names[0].to_owned());
        }
    };
    run_part(&["lookups"], report, &|report| bench::lookups::run(eal, options, report));
    run_part(&["updates"], report, &|report| bench::updates::run(programs, core, options, report));
    run_part(&["overlay", "gateway", "forward"], report, &|report| bench::forward::run(programs, options, report));
    run_part(&["state"], report, &|report| bench::state::run(programs, vpp, core, options, report));
    run_part(&["services"], report, &|report| bench::services::run(programs, vpp, core, options, report));
    run_part(&["workers"], report, &|report| bench::workers::run(programs, core, options, report));
    run_part(&["memif"], report, &|report| bench::memif::run(programs, core, options, report));
    run_part(&["switches"], report, &|report| bench::switches::run(programs, core, options, report));
    run_part(&["compile"], report, &|report| bench::compile::run(programs, options, report));
    if failed_parts.is_empty() { Ok(()) } else { bail!("failed: {}", failed_parts.join(", ")) }
}

fn describe_options(options: &Options) -> String {
    let quick = if options.quick { "a quick run without meaningful figures: " } else { "" };
    format!(
        "{quick}{} windows of {} ms for each, in turn; seed {}",
        options.windows,
        options.window.as_millis(),
        options.seed
    )
}
