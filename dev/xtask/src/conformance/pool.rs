//! Runs cases concurrently, each in its own process, so that a panic, a stack overflow or an
//! endless loop is a failure of only that case.

use super::select::ConformanceCase;
use super::{CaseOutcome, CaseResult};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use std::env;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use wait_timeout::ChildExt;

/// Maximum number of bytes to keep of a child's output.
const MAX_OUTPUT: u64 = 1 << 20;

/// Runs all cases. Returns the results in the order of the cases.
pub fn run(
    testdata: &Path,
    cases: Vec<ConformanceCase>,
    limit: Duration,
    jobs: Option<usize>,
) -> Result<Vec<CaseResult>> {
    let program = env::current_exe().context("finding this program")?;
    let jobs = jobs.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1).max(1);
    let bar = ProgressBar::new(cases.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("[{bar:40}] {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let queue = Mutex::new(cases.into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let next_case = queue.lock().next();
                    let Some((index, case)) = next_case else { break };
                    bar.set_message(case.program.clone());
                    let outcome = run_one(&program, testdata, &case, limit);
                    let result = CaseResult { category: case.category, program: case.program, outcome };
                    results.lock().push((index, result));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut results = results.into_inner();
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

fn run_one(program: &Path, testdata: &Path, case: &ConformanceCase, limit: Duration) -> CaseOutcome {
    let child = Command::new(program)
        .args(["conformance-case", "--category", case.category.name(), "--program", &case.program, "--testdata"])
        .arg(testdata)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    match child {
        Ok(child) => wait_for_outcome(child, limit),
        Err(error) => CaseOutcome::fail("not started", error.to_string()),
    }
}

/// Waits for a case's process, and returns the outcome that it printed last. A process without one
/// has crashed; one that exceeds the limit is killed.
fn wait_for_outcome(mut child: Child, limit: Duration) -> CaseOutcome {
    let stdout = drain_pipe(child.stdout.take());
    let stderr = drain_pipe(child.stderr.take());
    let status = match child.wait_timeout(limit) {
        Ok(Some(status)) => status,
        Ok(None) => {
            let _ = child.kill();
            let _ = child.wait();
            return CaseOutcome::fail("time limit", format!("still running after {} s", limit.as_secs()));
        }
        Err(error) => return CaseOutcome::fail("not waited for", error.to_string()),
    };
    let stdout = stdout.join().unwrap_or_default();
    if let Some(outcome) = stdout.lines().last().and_then(|line| serde_json::from_str(line).ok()) {
        return outcome;
    }
    let stderr = stderr.join().unwrap_or_default();
    let message: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
    CaseOutcome::fail("crash", format!("{status}: {}", message.join(" | ")))
}

/// Reads a pipe on a thread, so that a child with much output does not block.
fn drain_pipe(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
