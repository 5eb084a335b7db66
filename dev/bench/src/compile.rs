//! How long the gateway takes to be compiled: `terrace compile` as a user runs it, from its start to its end, with reading source and writing IR; and native code made of
//! that, as a node does when it loads a program: by as many threads as there are cores.

use crate::machine;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::run::Options;
use anyhow::{Context, ensure};
use interp::Config;
use jit::Jit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Its place in the report.
pub const GROUP: &str = "terrace compile, gateway.p4";

/// The place in the report of the native code.
pub const NATIVE: &str = "native code, gateway.p4";

/// The figure that is judged.
pub const MEDIAN: &str = "median";

/// Compiles it again and again, and makes native code of it.
///
/// # Errors
/// `terrace` is not beside this program, or does not compile the gateway; its IR is not there.
pub fn run(programs: &Path, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    // As a node's threads that do not carry packets, which are not kept to one core.
    std::thread::scope(|scope| {
        let native = scope.spawn(|| machine::unpin().then(|| native(programs, options)));
        native.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
    .context("the machine refuses to let a thread run on all cores")?
    .map(|took| tell(NATIVE, took, report))?;
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
    tell(GROUP, took, report);
    Ok(())
}

fn native(programs: &Path, options: &Options) -> anyhow::Result<Vec<f64>> {
    let program = Program::load(Kind::Gateway, programs)?;
    // A worker's counters take 32 MiB of it.
    machine::large_memory_goes_back();
    let mut took = Vec::new();
    for run in 0..=options.windows.max(5) * 2 {
        let start = Instant::now();
        let jit = Jit::new(program.pipeline.clone(), Config::default())?;
        let time = start.elapsed();
        ensure!(jit.unsupported().is_none() && jit.code_bytes() > 0, "there is no native code of the gateway");
        if run > 0 {
            took.push(time.as_secs_f64() * 1e3);
        }
    }
    Ok(took)
}

fn tell(group: &str, mut took: Vec<f64>, report: &mut Report) {
    took.sort_by(f64::total_cmp);
    report.fact(group, MEDIAN, took[took.len() / 2], "ms");
    report.fact(group, "the fastest", took[0], "ms");
    report.fact(group, "the slowest", took[took.len() - 1], "ms");
}
