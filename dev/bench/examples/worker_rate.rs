//! Measures the benefit of a second worker for rewrites, with gateway.p4: where workers take turns
//! at one cache, and where each has its own.
//!
//! `cargo run --release -p bench --example worker_rate [VMS [ROUNDS]]`, after `make bench
//! ONLY=compile QUICK=1` has compiled the programs. There is a flow to each VM. Each worker has its
//! share of them, stays on a core, and processes batches of 32, prepared beforehand, at the same
//! time as the others. Seconds are elapsed time while batches run, of the slowest worker. Then one
//! worker continues while the other core deletes and restores a VM's entry repeatedly: how long a
//! write takes, and the remaining throughput of the worker.

use bench::machine::{pin_to_core, set_realtime_priority};
use bench::program::{BenchProgram as Which, Program};
use bench::ring::Template;
use bench::workload::{Entries, Flow, Flows, TenantLayout, Workload};
use entries::{UpdateKind, WriteBatch};
use flowcache::rewrite::{PerWorkerCaches, RewriteCache, RewriteStats};
use interp::Config;
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, Verdict};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Packets per batch, and number of batches prepared before the clock runs.
const BATCH: usize = 32;
const READY: usize = 32;

/// Number of measured writes.
const WRITES: usize = 2_000;

/// Cache, or caches, of several workers.
trait Caches {
    fn worker(&self) -> anyhow::Result<Box<dyn Engine>>;
    fn write(&self, batch: &WriteBatch) -> anyhow::Result<()>;
    fn look(&self, at: &mut dyn FnMut(&Jit));
    fn stats(&self) -> RewriteStats;
}

impl Caches for PerWorkerCaches {
    fn worker(&self) -> anyhow::Result<Box<dyn Engine>> {
        Ok(Box::new(PerWorkerCaches::add_worker(self)?))
    }
    fn write(&self, batch: &WriteBatch) -> anyhow::Result<()> {
        Ok(PerWorkerCaches::write(self, batch)?)
    }
    fn look(&self, at: &mut dyn FnMut(&Jit)) {
        self.with_engine(|jit| at(jit));
    }
    fn stats(&self) -> RewriteStats {
        PerWorkerCaches::stats(self)
    }
}

/// One cache, locked for each batch or write.
#[derive(Clone)]
struct InTurns(Arc<Mutex<RewriteCache<Jit>>>);

impl InTurns {
    fn turn<T>(&self, at: impl FnOnce(&mut RewriteCache<Jit>) -> T) -> T {
        at(&mut self.0.lock())
    }
}

struct Turn(InTurns, packet::ReasonTable);

impl Engine for Turn {
    fn name(&self) -> &str {
        "in turns"
    }
    fn reasons(&self) -> &packet::ReasonTable {
        &self.1
    }
    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.0.turn(|cache| cache.process(batch, out));
    }
}

impl Caches for InTurns {
    fn worker(&self) -> anyhow::Result<Box<dyn Engine>> {
        let reasons = self.turn(|cache| Engine::reasons(cache).clone());
        Ok(Box::new(Turn(self.clone(), reasons)))
    }
    fn write(&self, batch: &WriteBatch) -> anyhow::Result<()> {
        Ok(self.turn(|cache| cache.write_and_release(batch))?)
    }
    fn look(&self, at: &mut dyn FnMut(&Jit)) {
        self.turn(|cache| at(cache.engine()));
    }
    fn stats(&self) -> RewriteStats {
        self.turn(|cache| cache.stats().clone())
    }
}

/// Barrier where workers wait for each other without sleeping.
struct Line {
    workers: usize,
    came: AtomicUsize,
}

impl Line {
    fn wait(&self) {
        let round = self.came.fetch_add(1, Ordering::SeqCst) / self.workers;
        while self.came.load(Ordering::SeqCst) / self.workers == round {
            std::hint::spin_loop();
        }
    }
}

/// Runs a worker once through its flows. Returns the time while batches ran, and the longest batch.
fn run_flows(
    engine: &mut dyn Engine,
    flows: &[Flow],
    (batches, now): (&mut [Batch], u64),
    line: &Line,
) -> [Duration; 2] {
    let (template, mut out, mut used) = (Template::new(64), BatchOutput::new(), Duration::ZERO);
    let mut longest = Duration::ZERO;
    for flows in flows.chunks(BATCH * READY) {
        for (batch, flows) in batches.iter_mut().zip(flows.chunks(BATCH)) {
            batch.clear();
            for flow in flows {
                template.receive(*flow, batch.push().expect("a batch has room"), now);
            }
        }
        line.wait();
        let start = Instant::now();
        for (batch, _) in batches.iter_mut().zip(flows.chunks(BATCH)) {
            out.clear();
            let batch_start = Instant::now();
            engine.process(batch, &mut out);
            longest = longest.max(batch_start.elapsed());
            assert!(out.verdicts().iter().all(|emission| matches!(emission.verdict, Verdict::Forward { .. })));
        }
        used += start.elapsed();
    }
    [used, longest]
}

/// Measures new flows, and then packets of known ones, per second; and the longest batch of new
/// flows.
fn rates(caches: &dyn Caches, workers: usize, flows: &[Flow], rounds: u64) -> anyhow::Result<([f64; 2], Duration)> {
    let flows_per_worker = flows.len() / workers / (BATCH * READY) * (BATCH * READY);
    let line = &Line { workers, came: AtomicUsize::new(0) };
    let engines = (0..workers).map(|_| caches.worker()).collect::<anyhow::Result<Vec<_>>>()?;
    let times: Vec<[Duration; 3]> = std::thread::scope(|scope| {
        let spawn_worker = |(core, (mut engine, flows)): (usize, (Box<dyn Engine>, &'_ [Flow]))| {
            let flows = flows.to_vec();
            scope.spawn(move || {
                pin_to_core(core);
                let mut batches: Vec<Batch> = (0..READY).map(|_| Batch::with_capacity(BATCH)).collect();
                let [new, longest] = run_flows(&mut *engine, &flows, (&mut batches, 1), line);
                let mut known: Vec<Duration> = (0..rounds)
                    .map(|round| run_flows(&mut *engine, &flows, (&mut batches, 2 + round), line)[0])
                    .collect();
                known.sort();
                [new, known[known.len() / 2], longest]
            })
        };
        let parts = engines.into_iter().zip(flows.chunks(flows_per_worker)).enumerate();
        let threads: Vec<_> = parts.map(spawn_worker).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker")).collect()
    });
    let longest = times.iter().map(|times| times[2]).max().unwrap_or_default();
    let rates = [0, 1].map(|kind| {
        let slowest = times.iter().map(|times| times[kind]).max().unwrap_or_default();
        (workers * flows_per_worker) as f64 / slowest.as_secs_f64()
    });
    Ok((rates, longest))
}

/// Measures the duration of writes while a worker continues: the median, the 99th percentile, the
/// maximum.
fn writes(caches: &dyn Caches, program: &Program, world: Workload, flows: &[Flow]) -> anyhow::Result<[Duration; 3]> {
    let table = Entries::new(world, program)?.vm_table();
    let mut entries = Vec::new();
    caches.look(&mut |jit| {
        jit.with_state(|state| entries.extend(state.entries(table).take(WRITES / 2).cloned()));
    });
    let mut engine = caches.worker()?;
    let stop = AtomicBool::new(false);
    let mut times = Vec::new();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        scope.spawn(|| {
            pin_to_core(1);
            set_realtime_priority();
            let (template, mut out) = (Template::new(64), BatchOutput::new());
            let mut batch = Batch::with_capacity(BATCH);
            let mut flows = flows.chunks_exact(BATCH).cycle();
            while !stop.load(Ordering::Relaxed) {
                batch.clear();
                out.clear();
                for flow in flows.next().unwrap_or_default() {
                    template.receive(*flow, batch.push().expect("a batch has room"), 9);
                }
                engine.process(&mut batch, &mut out);
            }
        });
        pin_to_core(0);
        std::thread::sleep(Duration::from_millis(200));
        for entry in &entries {
            for kind in [UpdateKind::Delete, UpdateKind::Insert] {
                let mut batch = WriteBatch::new();
                batch.push_stored(kind, table, entry);
                let start = Instant::now();
                caches.write(&batch)?;
                times.push(start.elapsed());
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        stop.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    times.sort();
    Ok([times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1]])
}

/// Compares workers that take turns at one cache with workers that each have their own.
fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let vms = words.next().map_or(Ok(100_000), |vms| vms.parse())?;
    let rounds: u64 = words.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let program = Program::load(Which::Gateway, Path::new("target/bench/programs"))?;
    let world = Workload { layout: TenantLayout::ManyTenants, vms };
    let mut flows = Flows::each(&world);
    fastrand::Rng::with_seed(1).shuffle(&mut flows);
    for has_own_cache in [false, true, false, true] {
        let name = if has_own_cache { "each its own" } else { "in turns" };
        let load = || -> anyhow::Result<Box<dyn Caches>> {
            let mut model = RewriteCache::native(program.pipeline.clone(), Config::default(), vms)?;
            Entries::new(world, &program)?.write_all(|batch| model.write(batch).map(drop))?;
            Ok(match has_own_cache {
                true => Box::new(PerWorkerCaches::new(model)),
                false => Box::new(InTurns(Arc::new(Mutex::new(model)))),
            })
        };
        for workers in [1, 2] {
            let ([new, known], longest) = rates(&*load()?, workers, &flows, rounds)?;
            println!(
                "{name}, {workers} workers: {new:.0} new flows a second, the longest batch {longest:?}; {known:.0} packets of known ones"
            );
        }
        let caches = load()?;
        let times = writes(&*caches, &program, world, &flows)?;
        let RewriteStats { rewritten, slow_path_packets: slow_path, stale, .. } = caches.stats();
        println!(
            "{name}, writes beside a worker: median {:?}, 99 % {:?}, longest {:?}; {rewritten} packets rewritten, {slow_path} not, {stale} stale",
            times[0], times[1], times[2]
        );
    }
    Ok(())
}
