//! Two workers against one: the same tables, a thread, a core and a ring of packets each.

use crate::forward::{self, BATCH};
use crate::machine;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::ring::{Ring, Template};
use crate::run::{Clock, Contest, Options, Unit, Work};
use crate::world::{Choice, Entries, Flows, Layout, World};
use interp::Config;
use jit::Jit;
use packet::Output;
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

/// The chart.
pub const CHART: &str = "workers, many tenants, uniform";

/// The world of the measurement.
const WORLD: World = World { layout: Layout::ManyTenants, vms: 100_000 };

/// One worker, and two at the same time.
///
/// # Errors
/// The program is missing or not run by native code.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("workers: left out: it takes two cores");
        return Ok(());
    }
    let program = Program::load(Kind::Overlay, programs)?;
    let mut first = Jit::new(program.pipeline.clone(), Config::default())?;
    Entries::new(WORLD, &program)?.all(|batch| first.write(batch))?;
    let second = RefCell::new(first.worker());
    let first = RefCell::new(first);
    let other = if core == 0 { 1 } else { 0 };
    let mut contest = Contest::new(CHART, "VMs", "100k", Unit::Mpps);
    contest.entrant("one worker", || together(vec![(&mut *first.borrow_mut(), core)], options));
    contest.entrant("two workers", || {
        together(vec![(&mut *first.borrow_mut(), core), (&mut *second.borrow_mut(), other)], options)
    });
    report.push(contest.run(options));
    Ok(())
}

/// All workers at once, each on its core. The time is such that the rate is the sum of theirs, each in its own processor time: other
/// work on a core does not count.
fn together(workers: Vec<(&mut Jit, usize)>, options: &Options) -> Work {
    let length = options.window / 2;
    let work: Vec<(u64, Duration)> = std::thread::scope(|scope| {
        let start = |(worker, core): (_, usize)| {
            let seed = options.seed + core as u64;
            scope.spawn(move || alone(worker, core, seed, length))
        };
        let threads: Vec<_> = workers.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let rate: f64 = work.iter().map(|(packets, took)| *packets as f64 / took.as_secs_f64().max(1e-9)).sum();
    let packets: u64 = work.iter().map(|(packets, _)| packets).sum();
    Work { operations: packets, took: Some(Duration::from_secs_f64(packets as f64 / rate.max(1.0))) }
}

/// Packets that a worker sends, and the time that it takes for them.
fn alone(worker: &mut Jit, core: usize, seed: u64, length: Duration) -> (u64, Duration) {
    machine::pin(core);
    let mut ring = Ring::new(Template::new(64), BATCH);
    let mut flows = Flows::new(&WORLD, Choice::Uniform, 1 << 18, seed);
    let (mut output, clock) = (Output::new(), Clock::start());
    let (mut packets, mut took) = (0, Duration::ZERO);
    while took < length && clock.elapsed() < length * 20 {
        let work = forward::process(worker, &mut ring, &mut flows, &mut output);
        packets += work.operations;
        took += work.took.unwrap_or_default();
    }
    (packets, took)
}
