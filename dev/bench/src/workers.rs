//! Two workers compared with one: the same tables, with a thread, a core and a ring of packets
//! each.

use crate::forward::{self, BATCH};
use crate::machine;
use crate::program::{BenchProgram, Program};
use crate::report::Report;
use crate::ring::{Ring, Template};
use crate::run::{CallResult, Clock, EntrantComparison, Options, Unit};
use crate::workload::{Entries, FlowDistribution, Flows, TenantLayout, Workload};
use interp::Config;
use jit::Jit;
use packet::BatchOutput;
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

/// Name of the chart.
pub const CHART: &str = "workers, many tenants, uniform";

/// The workload.
const WORLD: Workload = Workload { layout: TenantLayout::ManyTenants, vms: 100_000 };

/// Measures one worker, and two at the same time.
///
/// # Errors
/// If the program is missing, or falls back to the interpreter.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("workers: left out: it takes two cores");
        return Ok(());
    }
    let program = Program::load(BenchProgram::Overlay, programs)?;
    let mut first = Jit::new(program.pipeline.clone(), Config::default())?;
    Entries::new(WORLD, &program)?.write_all(|batch| first.write(batch))?;
    let second = RefCell::new(first.new_worker());
    let first = RefCell::new(first);
    let other = if core == 0 { 1 } else { 0 };
    let mut contest = EntrantComparison::new(CHART, "VMs", "100k", Unit::Mpps);
    contest.entrant("one worker", || run_together(vec![(&mut *first.borrow_mut(), core)], options));
    contest.entrant("two workers", || {
        run_together(vec![(&mut *first.borrow_mut(), core), (&mut *second.borrow_mut(), other)], options)
    });
    report.push(contest.run(options));
    Ok(())
}

/// Runs all workers at once, each on its core. The returned time makes the rate the sum of the
/// workers' rates in their own processor time, so that other work on a core is not counted.
fn run_together(workers: Vec<(&mut Jit, usize)>, options: &Options) -> CallResult {
    let length = options.window / 2;
    let work: Vec<(u64, Duration)> = std::thread::scope(|scope| {
        let start = |(worker, core): (_, usize)| {
            let seed = options.seed + core as u64;
            scope.spawn(move || run_worker(worker, core, seed, length))
        };
        let threads: Vec<_> = workers.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let rate: f64 = work.iter().map(|(packets, took)| *packets as f64 / took.as_secs_f64().max(1e-9)).sum();
    let packets: u64 = work.iter().map(|(packets, _)| packets).sum();
    CallResult { operations: packets, took: Some(Duration::from_secs_f64(packets as f64 / rate.max(1.0))) }
}

/// Returns the number of packets that a worker sends, and its processor time.
fn run_worker(worker: &mut Jit, core: usize, seed: u64, length: Duration) -> (u64, Duration) {
    machine::pin_to_core(core);
    let mut ring = Ring::new(Template::new(64), BATCH);
    let mut flows = Flows::new(&WORLD, FlowDistribution::Uniform, 1 << 18, seed);
    let (mut output, clock) = (BatchOutput::new(), Clock::start());
    let (mut packets, mut took) = (0, Duration::ZERO);
    while took < length && clock.elapsed() < length * 20 {
        let work = forward::process_round(worker, &mut ring, &mut flows, &mut output);
        packets += work.operations;
        took += work.took.unwrap_or_default();
    }
    (packets, took)
}
