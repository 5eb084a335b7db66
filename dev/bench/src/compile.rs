//! Compile time of the gateway: of `terrace compile` as a user runs it, including start, reading
//! source and writing IR; and of native code from that IR, as when a node loads a program, with one
//! thread per core.

use crate::machine;
use crate::program::{BenchProgram, Program};
use crate::report::Report;
use crate::run::Options;
use anyhow::{Context, ensure};
use interp::Config;
use jit::Jit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Group of the compile times in the report.
pub const GROUP: &str = "terrace compile, gateway.p4";

/// Group of the native code's times in the report.
pub const NATIVE: &str = "native code, gateway.p4";

/// Name of the figure that is judged.
pub const MEDIAN: &str = "median";

/// Compiles the gateway repeatedly, and makes native code of it.
///
/// # Errors
/// If `terrace` is not in this program's directory, does not compile the gateway, or writes no IR.
pub fn run(programs: &Path, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    // Not pinned to one core, like the threads of a node that do not carry packets.
    std::thread::scope(|scope| {
        let native = scope.spawn(|| machine::unpin_thread().then(|| native_code_times(programs, options)));
        native.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
    .context("the machine refuses to let a thread run on all cores")?
    .map(|times| report_times(NATIVE, times, report))?;
    let terrace = std::env::current_exe()?.with_file_name("terrace");
    let source = machine::root().join("programs/gateway/gateway.p4");
    let mut times_ms = Vec::new();
    // The first run reads from disk and is not counted.
    for run in 0..=options.windows.max(5) * 2 {
        let mut command = Command::new(&terrace);
        command.arg("compile").arg(&source).stdout(Stdio::null()).stderr(Stdio::piped());
        let start = Instant::now();
        let output = command.output().with_context(|| format!("{}: build it first", terrace.display()))?;
        let time = start.elapsed();
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
        if run > 0 {
            times_ms.push(time.as_secs_f64() * 1e3);
        }
    }
    report_times(GROUP, times_ms, report);
    Ok(())
}

fn native_code_times(programs: &Path, options: &Options) -> anyhow::Result<Vec<f64>> {
    let program = Program::load(BenchProgram::Gateway, programs)?;
    // The counters of a worker take 32 MiB of memory.
    machine::unmap_large_blocks();
    let mut took = Vec::new();
    for run in 0..=options.windows.max(5) * 2 {
        let start = Instant::now();
        let jit = Jit::new(program.pipeline.clone(), Config::default())?;
        let time = start.elapsed();
        ensure!(jit.fallback_reason().is_none() && jit.code_bytes() > 0, "there is no native code of the gateway");
        if run > 0 {
            took.push(time.as_secs_f64() * 1e3);
        }
    }
    Ok(took)
}

fn report_times(group: &str, mut took: Vec<f64>, report: &mut Report) {
    took.sort_by(f64::total_cmp);
    report.fact(group, MEDIAN, took[took.len() / 2], "ms");
    report.fact(group, "the fastest", took[0], "ms");
    report.fact(group, "the slowest", took[took.len() - 1], "ms");
}
