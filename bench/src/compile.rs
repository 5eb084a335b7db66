//! How long the compiler takes for the gateway: `terrace compile` as a user runs it, from its start to its end, with reading source and writing IR.

use crate::machine;
use crate::report::Report;
use crate::run::Options;
use anyhow::{Context, ensure};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Its place in the report.
pub const GROUP: &str = "terrace compile, gateway.p4";

/// The figure that is judged.
pub const MEDIAN: &str = "median";

/// Compiles it again and again.
///
/// # Errors
/// `terrace` is not beside this program, or does not compile the gateway.
pub fn run(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let terrace = std::env::current_exe()?.with_file_name("terrace");
    let source = machine::root().join("programs/gateway/gateway.p4");
    let mut took = Vec::new();
    // The first one reads from disk and does not count.
    for run in 0..=options.windows.max(5) * 2 {
        let mut command = Command::new(&terrace);
        command.arg("compile").arg(&source).stdout(Stdio::null()).stderr(Stdio::piped());
        let start = Instant::now();
        let done = command.output().with_context(|| format!("{}: build it first", terrace.display()))?;
        let time = start.elapsed();
        ensure!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
        if run > 0 {
            took.push(time.as_secs_f64() * 1e3);
        }
    }
    took.sort_by(f64::total_cmp);
    report.fact(GROUP, MEDIAN, took[took.len() / 2], "ms");
    report.fact(GROUP, "the fastest", took[0], "ms");
    report.fact(GROUP, "the slowest", took[took.len() - 1], "ms");
    Ok(())
}
