//! [`PerWorkerCaches`]: native code on several workers, each with its own rewrites, so that none
//! waits for another.
//!
//! Workers share tables and objects, but not rewrites, because RSS sends a flow to one worker. A
//! write stops all workers between two batches and removes stale rewrites from all caches before
//! any worker continues. So the next batch of each worker sees the write. Each cache adds its
//! counts to its own worker's counters, which readers sum up.

use super::backing_engine::BackingEngine;
use super::engine::RewriteCache;
use super::stats::RewriteStats;
use super::worker_cell::{WorkerCell, WorkerCellGuard};
use entries::{StateChange, StateUpdate, UpdateKind, WriteBatch, WriteError};
use interp::{IdleEntry, LoadError};
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, ReasonTable};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Rows flushed before the worker can continue.
const ROWS_PER_VISIT: usize = 256;

/// Returns whether an update sets a counter. Earlier counts must be flushed before it.
fn sets_counters(update: &StateUpdate) -> bool {
    match update {
        StateUpdate::Counter(..) | StateUpdate::DirectCounter(..) => true,
        StateUpdate::Entry(UpdateKind::Modify, entry) => entry.counter.is_some(),
        StateUpdate::Packed(UpdateKind::Modify, entry) => entry.counter.is_some(),
        _ => false,
    }
}

/// Caches of several workers over shared tables. Clones share the caches.
#[derive(Clone)]
pub struct PerWorkerCaches(Arc<Mutex<SharedCaches>>);

struct SharedCaches {
    /// Template of the workers' caches. It runs no packets. Its engine writes tables and reads
    /// counters.
    model: RewriteCache<Jit>,
    cells: Vec<Arc<WorkerCell<RewriteCache<Jit>>>>,
    /// Statistics of the caches of former workers.
    former_stats: RewriteStats,
}

/// Totals over all caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTotals {
    /// Caches, one for each worker.
    pub caches: usize,
    /// Rewrites.
    pub flows: usize,
    /// Capacity in flows.
    pub capacity: usize,
    /// Active key masks of the cache that has most.
    pub key_masks: usize,
    /// Known paths of the cache that has most.
    pub paths: usize,
    /// Approximate memory use in bytes.
    pub bytes: usize,
}

impl PerWorkerCaches {
    /// Creates caches for workers with the configuration of `model`: capacity, timeouts, and each
    /// worker's budget and pacing.
    pub fn new(model: RewriteCache<Jit>) -> PerWorkerCaches {
        PerWorkerCaches(Arc::new(Mutex::new(SharedCaches {
            model,
            cells: Vec::new(),
            former_stats: RewriteStats::default(),
        })))
    }

    fn lock_shared(&self) -> MutexGuard<'_, SharedCaches> {
        self.0.lock()
    }

    /// Adds a worker and returns its cache. Its counts are kept when it is dropped.
    ///
    /// # Errors
    /// Those of [`RewriteCache::new`].
    pub fn add_worker(&self) -> Result<WorkerCache, LoadError> {
        let mut shared = self.lock_shared();
        let cache = shared.model.new_for_worker()?;
        let reasons = cache.reasons().clone();
        let cell = Arc::new(WorkerCell::new(cache));
        shared.cells.push(cell.clone());
        Ok(WorkerCache { all: self.clone(), cell, reasons })
    }

    /// Calls `at` with the engine that shares tables and objects with the workers. Counters can
    /// lack deferred counts ([`PerWorkerCaches::flush_counters`]).
    pub fn with_engine<T>(&self, at: impl FnOnce(&mut Jit) -> T) -> T {
        at(self.lock_shared().model.engine_mut())
    }

    /// Applies all deferred counts up to this call to counters, tallies and idle times. Workers can
    /// continue after every few rows.
    pub fn flush_counters(&self) {
        let cells = self.lock_shared().cells.clone();
        cells.iter().for_each(|cell| cell.lock_for_visitor().inside.start_flush());
        for cell in &cells {
            while cell.lock_for_visitor().inside.flush_counters_bounded(ROWS_PER_VISIT) {}
        }
    }

    /// Applies a batch atomically. The next batch of each worker sees it.
    ///
    /// # Errors
    /// No state has changed.
    pub fn write(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        let mut shared = self.lock_shared();
        let SharedCaches { model, cells, .. } = &mut *shared;
        let mut caches: Vec<WorkerCellGuard<'_, RewriteCache<Jit>>> =
            cells.iter().map(|cell| cell.lock_for_visitor()).collect();
        let must_flush = batch.updates.iter().any(sets_counters);
        for guard in &mut caches {
            // Removing the stale rewrites flushes the counts of a modified entry. Counts of a
            // deleted entry are not needed.
            if must_flush {
                guard.inside.flush_counters();
            }
            // A worker that waits for its cell must not block the writer.
            guard.inside.engine_mut().park();
        }
        let mut changes: Vec<(StateChange, Option<u32>)> = Vec::new();
        model.engine_mut().write_noting(batch, |change, number| changes.push((change.clone(), number)))?;
        for guard in &mut caches {
            let cache = &mut *guard.inside;
            let stale = cache.stale_places(&changes);
            cache.builder.stats.stale += stale.len() as u64;
            cache.discard_places(&stale.into_iter().collect::<Vec<u32>>());
        }
        Ok(())
    }

    /// Applies many batches before the first worker exists ([`Jit::load_batches`]).
    ///
    /// # Panics
    /// If a worker exists.
    pub fn load(&self, batches: &mut dyn Iterator<Item = WriteBatch>) {
        let mut shared = self.lock_shared();
        assert!(shared.cells.is_empty(), "workers' rewrites would not know of what is loaded");
        let Ok(()) = shared.model.engine_mut().load_batches(batches.map(Ok::<_, std::convert::Infallible>));
    }

    /// Advances time, and searches a part of each cache for idle rewrites. Returns idle entries:
    /// they are of tables that packets write, so no rewrite depends on them.
    pub fn advance_time(&self, now: u64) -> Vec<IdleEntry> {
        let mut shared = self.lock_shared();
        let idle = shared.model.engine_mut().advance_time(now);
        shared.cells.iter().for_each(|cell| cell.lock_for_visitor().inside.discard_idle(now));
        idle
    }

    /// Returns the sum of the statistics.
    pub fn stats(&self) -> RewriteStats {
        let shared = self.lock_shared();
        let mut stats = shared.former_stats.clone();
        shared.cells.iter().for_each(|cell| stats.add(cell.lock_for_visitor().inside.stats()));
        stats
    }

    /// Returns the totals over all caches.
    pub fn totals(&self) -> CacheTotals {
        let shared = self.lock_shared();
        shared
            .cells
            .iter()
            .fold(CacheTotals::default(), |held, cell| held.add_totals(cell.lock_for_visitor().inside.totals()))
    }
}

impl CacheTotals {
    /// Adds the totals of other caches.
    fn add_totals(self, other: CacheTotals) -> CacheTotals {
        CacheTotals {
            caches: self.caches + other.caches,
            flows: self.flows + other.flows,
            capacity: self.capacity + other.capacity,
            key_masks: self.key_masks.max(other.key_masks),
            paths: self.paths.max(other.paths),
            bytes: self.bytes + other.bytes,
        }
    }
}

impl<R: BackingEngine> RewriteCache<R> {
    /// Returns the totals of this cache.
    pub fn totals(&self) -> CacheTotals {
        let flows = self.flows();
        CacheTotals {
            caches: 1,
            flows: flows.len(),
            capacity: flows.capacity(),
            key_masks: flows.key_masks().len(),
            paths: self.path_count(),
            bytes: flows.memory() + self.slow_path.doorkeeper.memory(),
        }
    }
}

/// Cache of one worker.
pub struct WorkerCache {
    all: PerWorkerCaches,
    cell: Arc<WorkerCell<RewriteCache<Jit>>>,
    reasons: ReasonTable,
}

impl Engine for WorkerCache {
    fn name(&self) -> &str {
        "rewrites"
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.cell.lock_for_worker().process(batch, out);
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        self.cell.lock_for_worker().take_trace_notes()
    }

    fn tick(&mut self, now: u64, _out: &mut BatchOutput) {
        self.cell.lock_for_worker().discard_idle(now);
    }

    fn on_idle(&mut self) {
        self.cell.lock_for_worker().on_idle();
    }
}

impl Drop for WorkerCache {
    fn drop(&mut self) {
        let mut shared = self.all.lock_shared();
        shared.cells.retain(|cell| !Arc::ptr_eq(cell, &self.cell));
        let mut cache = self.cell.lock_for_worker();
        cache.flush_counters();
        cache.on_idle();
        shared.former_stats.add(cache.stats());
    }
}

impl RewriteCache<Jit> {
    /// Creates an empty cache for another worker, with the same tables, objects and configuration.
    fn new_for_worker(&self) -> Result<RewriteCache<Jit>, LoadError> {
        let facts = self.builder.facts.clone();
        let mut cache = RewriteCache::from_engine(
            self.backing.new_worker(),
            facts,
            self.config.clone(),
            self.builder.flows.capacity(),
        )?;
        cache.builder.tenants.slot = self.builder.tenants.slot;
        cache.admission = self.admission.clone();
        cache.idle_timeout_ns = self.idle_timeout_ns;
        cache.native_threshold = self.native_threshold;
        Ok(cache)
    }

    /// Discards idle rewrites.
    fn discard_idle(&mut self, now: u64) {
        let unused = self.idle_places(now);
        self.discard_places(&unused);
    }
}
