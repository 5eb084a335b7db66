//! Tests caches of several workers over the same tables. Together they equal the interpreter, and
//! none uses rewrites that a write has made stale.

use crate::entries::entry;
use crate::floods::{TENANTS, pipeline, verdicts};
use crate::subject::{Totals, add};
use entries::{Counter, EntryId, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use flowcache::rewrite::{PerWorkerCaches, RewriteCache, WorkerCache};
use interp::Config;
use jit::Jit;
use packet::{Batch, BatchOutput, Verdict};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{BatchResult, EngineUnderTest, IdleReport, idle_entries, through_engine};

/// Distributes packets over workers in turn, a few to each.
pub struct Several {
    caches: PerWorkerCaches,
    workers: Vec<WorkerCache>,
    /// Engine with the combined counts.
    view: Jit,
    batch: Batch,
    out: BatchOutput,
    rng: fastrand::Rng,
    /// Time of the latest packet. A worker that has not seen it yet treats a packet of an earlier
    /// time as of this time, as workers that have seen it do.
    latest: u64,
    totals: Totals,
}

impl Several {
    /// Creates workers with caches configured as `model`.
    pub fn new(model: RewriteCache<Jit>, seed: u64) -> Several {
        let caches = PerWorkerCaches::new(model);
        let workers = (0..3).map(|_| caches.add_worker().expect("it was loaded")).collect();
        let view = caches.with_engine(|jit| jit.new_worker());
        let (batch, out, rng) = (Batch::new(), BatchOutput::new(), fastrand::Rng::with_seed(seed));
        Several { caches, workers, view, batch, out, rng, latest: 0, totals: Totals::default() }
    }

    /// Returns the engine with all pending counts applied, which writes do not wait for.
    fn settled(&self) -> &Jit {
        self.caches.flush_counters();
        &self.view
    }
}

impl Drop for Several {
    fn drop(&mut self) {
        let stats = self.caches.stats();
        self.totals.by_workers = stats.rewritten;
        self.workers.clear();
        assert_eq!(self.caches.stats(), stats, "who goes leaves its counts");
        add(&self.totals, &stats);
    }
}

impl EngineUnderTest for Several {
    fn name(&self) -> String {
        "rewrites of several workers".to_owned()
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.caches.write(batch).map_err(|error| error.to_string())
    }
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        let mut answer = BatchResult::default();
        let mut first = 0;
        while first < packets.len() {
            let count = self.rng.usize(1..=12).min(packets.len() - first);
            let mut some = packets[first..first + count].to_vec();
            for packet in &mut some {
                self.latest = self.latest.max(packet.at);
                packet.at = self.latest;
            }
            let worker = self.rng.usize(0..self.workers.len());
            if self.rng.u8(0..40) == 0 {
                self.workers[worker] = self.caches.add_worker().expect("it was loaded");
            }
            let of_some = through_engine(&mut self.workers[worker], &mut self.batch, &mut self.out, &some, None);
            answer.faults.extend(of_some.faults);
            answer.emitted.extend(of_some.emitted.into_iter().map(|mut emitted| {
                emitted.input = emitted.input.map(|input| first + input);
                emitted
            }));
            first += count;
        }
        answer
    }
    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        self.caches.advance_time(now);
        idle_entries(self.view.pipeline(), &[])
    }
    testkit::jit_accessors!([settled()], [view]);
}

/// Returns a write that sends each tenant's packets to that port.
fn all_by(pipeline: &ir::Pipeline, kind: UpdateKind, port: u64) -> WriteBatch {
    (1..=TENANTS).map(|tenant| entry(pipeline, kind, ir::KeyMatch::Exact(tenant.into()), "leave", &[port])).collect()
}

/// While a writer moves all tenants from port to port, the packets of a batch all leave by one
/// port, and never by one that was replaced before they arrived. This holds on both workers.
#[test]
fn no_worker_goes_on_with_what_is_stale() {
    const ROUNDS: u64 = 2_000;
    let pipeline = pipeline();
    let model = RewriteCache::native(pipeline.clone(), Config::default(), 1 << 10).expect("it is made native");
    let caches = PerWorkerCaches::new(model);
    caches.write(&all_by(&pipeline, UpdateKind::Insert, 1)).expect("good entries");
    let (begun, done, stop) = (AtomicU64::new(1), AtomicU64::new(1), AtomicBool::new(false));
    let batches: u64 = std::thread::scope(|scope| {
        let workers = [0, 1].map(|worker: u32| {
            let (mut cache, begun, done, stop) = (caches.add_worker().expect("it was loaded"), &begun, &done, &stop);
            scope.spawn(move || {
                let (mut batches, mut ports) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    let flows: Vec<_> =
                        (1..=TENANTS).map(|tenant| (tenant, 100 + worker, batches as u32 % 8)).collect();
                    let before = done.load(Ordering::SeqCst);
                    let became = verdicts(&mut cache, &flows, batches);
                    let after = begun.load(Ordering::SeqCst);
                    let Verdict::Forward { port } = became[0] else { panic!("{became:?}") };
                    assert!(became.iter().all(|verdict| *verdict == became[0]), "half of a write: {became:?}");
                    let port = u64::from(port.0);
                    assert!(
                        (before..=after).contains(&port),
                        "by port {port}, between the writes of {before} and {after}"
                    );
                    assert!(port >= ports, "back to port {port} from {ports}");
                    ports = port;
                    batches += 1;
                }
                batches
            })
        });
        for port in 2..ROUNDS {
            begun.store(port, Ordering::SeqCst);
            caches.write(&all_by(&pipeline, UpdateKind::Modify, port)).expect("good entries");
            done.store(port, Ordering::SeqCst);
            if port.is_multiple_of(4) {
                // Lets workers create rewrites again.
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("a worker")).sum()
    });
    let (stats, packets) = (caches.stats(), batches * u64::from(TENANTS));
    println!("{batches} batches beside {ROUNDS} writes: {stats:?}");
    assert_eq!((stats.rewritten + stats.slow_path_packets, stats.faults), (packets, 0));
    assert!(stats.rewritten > 1_000 && stats.stale > ROUNDS, "{stats:?}");
    // The counts of a worker that ended are kept.
    let table = pipeline.tables.keys().next().expect("a table");
    let counted = caches.with_engine(|jit| testkit::differ::native::applied(jit, table));
    assert_eq!(counted.iter().map(|[_, hits]| hits.packets).sum::<u64>(), packets);
    assert_eq!(caches.totals().caches, 0);
}

/// Budget, tenants and times are separate for each worker.
#[test]
fn workers_are_as_their_model() {
    use flowcache::admission::SlowPathBudget;
    let pipeline = pipeline();
    let mut model = RewriteCache::native(pipeline.clone(), Config::default(), 64).expect("it is made native");
    model.set_idle_timeout_ns(Some(1_000));
    assert!(model.set_tenant_variable("hdr.overlay.vni"));
    model.admit_up_to(SlowPathBudget { packets_per_second: 4_000, window_ns: 1_000_000 });
    let caches = PerWorkerCaches::new(model);
    caches.load(&mut std::iter::once(all_by(&pipeline, UpdateKind::Insert, 7)));
    let mut workers = [0, 1].map(|_| caches.add_worker().expect("it was loaded"));
    for (at, worker) in workers.iter_mut().enumerate() {
        let flows: Vec<_> = (0..10).map(|flow| (1, 100 + flow, 3)).collect();
        let became = verdicts(worker, &flows, 5);
        let left = became.iter().filter(|verdict| matches!(verdict, Verdict::Forward { port } if port.0 == 7)).count();
        assert_eq!((left, caches.totals().flows), (4, 4 * (at + 1)), "{became:?}");
    }
    caches.advance_time(500);
    assert_eq!(caches.totals().flows, 8);
    caches.advance_time(2_000);
    let held = caches.totals();
    assert_eq!((held.flows, held.caches, held.capacity), (0, 2, 128));
    assert_eq!((caches.stats().expired, caches.stats().refused_admission), (8, 12));
}

/// A write that sets a counter restarts it at that value, whatever rewritten packets are uncounted.
/// A write without a value continues from the sum.
#[test]
fn what_a_write_sets_is_counted_from_there() {
    let pipeline = pipeline();
    let model = RewriteCache::native(pipeline.clone(), Config::default(), 64).expect("it is made native");
    let caches = PerWorkerCaches::new(model);
    caches.load(&mut std::iter::once(all_by(&pipeline, UpdateKind::Insert, 7)));
    let mut workers = [0, 1].map(|_| caches.add_worker().expect("it was loaded"));
    let send = |workers: &mut [WorkerCache]| {
        for worker in workers {
            for now in 0..5 {
                verdicts(worker, &[(1, 100, 3), (2, 100, 3)], now);
            }
        }
    };
    let table = pipeline.tables.keys().next().expect("a table");
    let (all, _) = pipeline.externs.iter().find(|(_, it)| it.preamble.name.ends_with("all")).expect("a counter");
    let id = |tenant: u32| EntryId { table, keys: vec![ir::KeyMatch::Exact(tenant.into())], priority: 0 };
    let counted = |what: &str, expected: [u64; 3]| {
        caches.flush_counters();
        let found = caches.with_engine(|jit| {
            [jit.direct_counter(&id(1)), jit.direct_counter(&id(2)), jit.counter(all, 1)]
                .map(|found| found.expect("there is one").packets)
        });
        assert_eq!(found, expected, "{what}");
    };
    send(&mut workers);
    counted("two workers, five packets of each tenant", [10, 10, 20]);
    let data = |packets: u64| Counter { packets, bytes: 1_000 };
    let modified = |tenant: u32, port: u64, counter: Option<Counter>| {
        let key = ir::KeyMatch::Exact(tenant.into());
        let StateUpdate::Entry(_, entry) = entry(&pipeline, UpdateKind::Modify, key, "leave", &[port]) else {
            unreachable!()
        };
        StateUpdate::Entry(UpdateKind::Modify, TableEntry { counter, ..entry })
    };
    let mut expected = [10, 10, 20];
    for (what, update, sets) in [
        ("an entry's counter", StateUpdate::DirectCounter(id(1), data(100)), [Some(100), None, None]),
        ("a counter", StateUpdate::Counter(all, 1, data(3)), [None, None, Some(3)]),
        ("an entry with its counter", modified(2, 7, Some(data(50))), [None, Some(50), None]),
        ("an entry without", modified(1, 8, None), [None; 3]),
        ("another one", StateUpdate::DirectCounter(id(2), data(0)), [None, Some(0), None]),
    ] {
        // Nothing of this is flushed before the write.
        send(&mut workers);
        expected = [expected[0] + 10, expected[1] + 10, expected[2] + 20];
        caches.write(&[update].into_iter().collect()).expect("a good write");
        expected = [0, 1, 2].map(|at| sets[at].unwrap_or(expected[at]));
        counted(what, expected);
    }
    send(&mut workers);
    counted("and on", [expected[0] + 10, expected[1] + 10, expected[2] + 20]);
    let stats = caches.stats();
    assert!(stats.rewritten > 80 && stats.stale == 4, "{stats:?}");
}
