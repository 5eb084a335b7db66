//! [`PerWorker`]: native code on several workers, each with rewrites of its own, so that none waits for another.
//!
//! Tables and objects are shared, rewrites are not: a flow comes to one worker (RSS), and that one keeps it. A write has all workers wait between two batches, and takes out of
//! each cache what it makes stale before any of them goes on; so packets of the next batch see it, on all workers. What a cache has counted goes to its own worker's
//! counters, which readers add up.

use super::engine::RewriteCache;
use super::runs::Runs;
use super::seat::{Seat, Visit};
use super::stats::RewriteStats;
use entries::{Change, Update, UpdateKind, WriteBatch, WriteError};
use interp::LoadError;
use jit::Jit;
use packet::{Batch, Engine, Output, ReasonTable};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Rows that are settled before a worker may go on.
const AT_ONCE: usize = 256;

/// Whether an update says what a counter has: what came before it is counted before.
fn sets_counts(update: &Update) -> bool {
    match update {
        Update::Counter(..) | Update::DirectCounter(..) => true,
        Update::Entry(UpdateKind::Modify, entry) => entry.counter.is_some(),
        Update::Packed(UpdateKind::Modify, entry) => entry.counter.is_some(),
        _ => false,
    }
}

/// See the module. A clone is the same caches.
#[derive(Clone)]
pub struct PerWorker(Arc<Mutex<Shared>>);

struct Shared {
    /// As workers' caches are made. It runs no packets: by its engine tables are written and counters read.
    model: RewriteCache<Jit>,
    seats: Vec<Arc<Seat<RewriteCache<Jit>>>>,
    /// What caches of workers that are gone have counted.
    gone: RewriteStats,
}

/// What all caches hold together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Caches, one for each worker.
    pub caches: usize,
    /// Rewrites.
    pub flows: usize,
    /// Room for so many.
    pub room: usize,
    /// Shapes that are tried, in the cache that has most.
    pub shapes: usize,
    /// Ways that are known, in the cache that knows most.
    pub ways: usize,
    /// Bytes in use, about.
    pub bytes: usize,
}

impl PerWorker {
    /// Workers' caches are as this one is now: its room, its times, and for each of them its budget and pace.
    pub fn new(model: RewriteCache<Jit>) -> PerWorker {
        PerWorker(Arc::new(Mutex::new(Shared { model, seats: Vec::new(), gone: RewriteStats::default() })))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock()
    }

    /// A cache for another thread. When it is dropped, what it has counted stays.
    ///
    /// # Errors
    /// Those of [`RewriteCache::new`].
    pub fn worker(&self) -> Result<WorkerCache, LoadError> {
        let mut shared = self.shared();
        let cache = shared.model.another()?;
        let reasons = cache.reasons().clone();
        let seat = Arc::new(Seat::new(cache));
        shared.seats.push(seat.clone());
        Ok(WorkerCache { all: self.clone(), seat, reasons })
    }

    /// The engine that workers' engines share tables and objects with. Counters do not have all that is counted yet ([`PerWorker::settle`]).
    pub fn with<T>(&self, at: impl FnOnce(&mut Jit) -> T) -> T {
        at(self.shared().model.engine_mut())
    }

    /// Counters, tallies and idle times have what rewritten packets add to them: all that came before this is called. Workers go on between a few rows and the next.
    pub fn settle(&self) {
        let seats = self.shared().seats.clone();
        seats.iter().for_each(|seat| seat.visit().inside.begin_to_settle());
        for seat in &seats {
            while seat.visit().inside.settle_some(AT_ONCE) {}
        }
    }

    /// Applies a batch as a whole: packets of each worker's next batch see it.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn write(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        let mut shared = self.shared();
        let Shared { model, seats, .. } = &mut *shared;
        let mut caches: Vec<Visit<'_, RewriteCache<Jit>>> = seats.iter().map(|seat| seat.visit()).collect();
        let counts = batch.updates.iter().any(sets_counts);
        for visit in &mut caches {
            // What was counted for an entry that changes is settled when its rewrites go; for one that goes, nobody asks.
            if counts {
                visit.inside.settle();
            }
            // Who waits for its turn must not keep the writer waiting.
            visit.inside.engine_mut().park();
        }
        let mut noted: Vec<(Change, Option<u32>)> = Vec::new();
        model.engine_mut().write_noting(batch, |change, number| noted.push((change.clone(), number)))?;
        for visit in &mut caches {
            let cache = &mut *visit.inside;
            let stale = cache.contradicted(&noted);
            cache.maker.stats.stale += stale.len() as u64;
            cache.discard_all(&stale.into_iter().collect::<Vec<u32>>());
        }
        Ok(())
    }

    /// Applies many batches while there are no workers: [`Jit::load`].
    ///
    /// # Panics
    /// If there are any.
    pub fn load(&self, batches: &mut dyn Iterator<Item = WriteBatch>) {
        let mut shared = self.shared();
        assert!(shared.seats.is_empty(), "workers' rewrites would not know of what is loaded");
        let Ok(()) = shared.model.engine_mut().load(batches.map(Ok::<_, std::convert::Infallible>));
    }

    /// Time passes: of each cache a part is looked through for rewrites that had no packets for too long.
    pub fn advance_time(&self, now: u64) {
        let mut shared = self.shared();
        shared.model.engine_mut().advance_time(now);
        shared.seats.iter().for_each(|seat| seat.visit().inside.expire(now));
    }

    /// What was counted, by all.
    pub fn stats(&self) -> RewriteStats {
        let shared = self.shared();
        let mut stats = shared.gone.clone();
        shared.seats.iter().for_each(|seat| stats.add(seat.visit().inside.stats()));
        stats
    }

    /// What there is of rewrites.
    pub fn held(&self) -> Held {
        let shared = self.shared();
        shared.seats.iter().fold(Held::default(), |held, seat| held.and(seat.visit().inside.held()))
    }
}

impl Held {
    /// With what others hold.
    fn and(self, other: Held) -> Held {
        Held {
            caches: self.caches + other.caches,
            flows: self.flows + other.flows,
            room: self.room + other.room,
            shapes: self.shapes.max(other.shapes),
            ways: self.ways.max(other.ways),
            bytes: self.bytes + other.bytes,
        }
    }
}

impl<R: Runs> RewriteCache<R> {
    /// What it holds.
    pub fn held(&self) -> Held {
        let flows = self.flows();
        Held {
            caches: 1,
            flows: flows.len(),
            room: flows.room(),
            shapes: flows.shapes().len(),
            ways: self.ways(),
            bytes: flows.memory() + self.slow.newcomers.memory(),
        }
    }
}

/// A worker's cache.
pub struct WorkerCache {
    all: PerWorker,
    seat: Arc<Seat<RewriteCache<Jit>>>,
    reasons: ReasonTable,
}

impl Engine for WorkerCache {
    fn name(&self) -> &str {
        "rewrites"
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.seat.take().process(batch, out);
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        self.seat.take().told()
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        self.seat.take().expire(now);
    }

    fn rest(&mut self) {
        self.seat.take().rest();
    }
}

impl Drop for WorkerCache {
    fn drop(&mut self) {
        let mut shared = self.all.shared();
        shared.seats.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        let mut cache = self.seat.take();
        cache.settle();
        cache.rest();
        shared.gone.add(cache.stats());
    }
}

impl RewriteCache<Jit> {
    /// One for another worker, over the same tables and objects, that keeps what this one would, but nothing yet.
    fn another(&self) -> Result<RewriteCache<Jit>, LoadError> {
        let known = self.maker.known.clone();
        let mut cache = RewriteCache::with(self.runs.worker(), known, self.config.clone(), self.maker.flows.room())?;
        cache.maker.tenants.slot = self.maker.tenants.slot;
        cache.admission = self.admission.clone();
        cache.idle_after = self.idle_after;
        cache.often = self.often;
        Ok(cache)
    }

    /// Rewrites that had no packets for too long go.
    fn expire(&mut self, now: u64) {
        let unused = self.unused(now);
        self.discard_all(&unused);
    }
}
