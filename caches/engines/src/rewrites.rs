//! Rewrite caches before native code: the exact cache of the DPU tier in user space, and the source
//! of the kernel's flow cache ([`crate::xdp`]).

use crate::plan::{CachePlan, no_tenant};
use crate::wrapped::NodeCacheEngine;
use entries::{WriteBatch, WriteError};
use flowcache::rewrite::{BackingEngine, CacheTotals, NativeError, PerWorkerCaches, RewriteCache, RewriteStats};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use jit::Jit;
use node::engine::{CapacityError, EngineControl, WorkerEngines, WorkerSet, WrappingEngine, shared_control};
use packet::Engine;
use std::sync::Arc;

/// Rewrite cache of native code, or of the reference engine if native code does not support the
/// program.
pub(crate) enum LoadedCache {
    Native(Box<RewriteCache<Jit>>),
    /// With the reason why native code is not used.
    Reference(Box<RewriteCache>, String),
}

/// Creates a cache with a capacity in rewrites. Of the plan, only timeouts, slow path and tenants
/// are used.
pub(crate) fn load_cache(
    plan: &CachePlan,
    capacity: usize,
    pipeline: &Arc<Pipeline>,
    settings: &Config,
) -> Result<LoadedCache, String> {
    match RewriteCache::native(pipeline.clone(), settings.clone(), capacity) {
        Ok(mut cache) => configure_cache(&mut cache, plan).map(|()| LoadedCache::Native(Box::new(cache))),
        Err(NativeError::Unsupported(reason)) => {
            let cache = RewriteCache::new(pipeline.clone(), settings.clone(), capacity);
            let mut cache = cache.map_err(|error| error.to_string())?;
            configure_cache(&mut cache, plan).map(|()| LoadedCache::Reference(Box::new(cache), reason.to_string()))
        }
        Err(error @ NativeError::Load(_)) => Err(error.to_string()),
    }
}

/// Sets timeouts, tenants and the slow path of a cache. Fails if the program lacks the tenant's
/// field.
fn configure_cache<R: BackingEngine>(cache: &mut RewriteCache<R>, plan: &CachePlan) -> Result<(), String> {
    cache.set_idle_timeout_ns(plan.cache.idle_ns);
    if let Some(tenant) = plan.tenant.as_ref().filter(|tenant| !cache.set_tenant_variable(tenant)) {
        return Err(no_tenant(tenant));
    }
    if let Some(budget) = plan.cache.slow_path {
        cache.admit_up_to(budget);
    }
    if let Some(share) = plan.min_slow_path_share {
        cache.enable_pacing(share);
    }
    Ok(())
}

/// Creates the engine of a node with a cache of rewrites: one cache for each worker with native
/// code, otherwise one that workers share.
pub(crate) fn load(
    plan: &CachePlan,
    pipeline: &Arc<Pipeline>,
    settings: &Config,
) -> Result<Box<dyn EngineControl>, String> {
    Ok(match load_cache(plan, plan.cache.max_segments, pipeline, settings)? {
        LoadedCache::Native(cache) => {
            WorkerEngines::new_control(pipeline, NodeCacheEngine(PerWorkerCaches::new(*cache)), None)
        }
        LoadedCache::Reference(cache, reason) => shared_control(pipeline, NodeCacheEngine(*cache), Some(reason)),
    })
}

impl WorkerSet for NodeCacheEngine<PerWorkerCaches> {
    type Inner = Jit;

    const NAME: &'static str = "flowcache";

    fn new_worker(&self) -> Box<dyn Engine> {
        // The first cache was created from the same program, so this one cannot fail.
        Box::new(self.0.add_worker().unwrap_or_else(|error| unreachable!("{error}")))
    }

    fn with_inner<T>(&self, at: impl FnOnce(&mut Jit) -> T) -> T {
        self.0.with_engine(at)
    }

    fn merge_counts(&self) {
        self.0.flush_counters();
    }

    fn write_batch(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.0.write(batch)
    }

    fn load(&self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), CapacityError> {
        self.0.load(batches);
        // The tables can hold all valid entries.
        Ok(())
    }

    fn expire_entries(&self, now: u64) -> Vec<IdleEntry> {
        self.0.advance_time(now)
    }

    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        served_packets(&self.0.stats())
    }

    fn status_notes(&self) -> Vec<String> {
        cache_notes(&self.0.totals(), &self.0.stats())
    }
}

impl WrappingEngine for NodeCacheEngine<RewriteCache> {
    type Inner = Interp;

    const NAME: &'static str = "flowcache";

    fn inner_mut(&mut self) -> &mut Interp {
        self.0.engine_mut()
    }

    fn write_batch(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.0.write_and_release(batch)
    }

    fn expire_entries(&mut self, now: u64) -> Vec<IdleEntry> {
        let (idle, removed) = self.0.advance_time(now);
        removed.into_iter().for_each(|(place, _)| self.0.release(place));
        idle
    }

    fn merge_counts(&mut self) {
        self.0.flush_counters();
    }

    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        served_packets(self.0.stats())
    }

    fn status_notes(&self) -> Vec<String> {
        cache_notes(&self.0.totals(), self.0.stats())
    }
}

/// Returns the number of rewritten packets, and of packets on the slow path.
pub(crate) fn served_packets(stats: &RewriteStats) -> Vec<(&'static str, u64)> {
    vec![("dpu", stats.rewritten), ("cpu", stats.slow_path_packets)]
}

/// Returns notes about the size of the caches and their packets.
fn cache_notes(totals: &CacheTotals, stats: &RewriteStats) -> Vec<String> {
    let CacheTotals { caches, flows, capacity, key_masks, bytes, .. } = totals;
    let caches_note = if *caches == 1 { String::new() } else { format!(", in {caches} caches, one for each worker") };
    let first = format!(
        "cache: rewrites, {flows} of {capacity}, under {key_masks} key masks; {} KiB{caches_note}",
        bytes >> 10
    );
    let second =
        format!("cache: {} packets were rewritten, {} took the slow path", stats.rewritten, stats.slow_path_packets);
    [first, second].into_iter().chain(rewrite_notes(totals.paths, stats, "cache")).collect()
}

/// Returns notes for operators about rewrites, and about packets without one. `paths`: number of
/// known paths; `name`: prefix of each note.
pub(crate) fn rewrite_notes(paths: usize, stats: &RewriteStats, name: &str) -> Vec<String> {
    let RewriteStats {
        from_template,
        symbolic_runs,
        refused_by_path,
        stale,
        evicted,
        fragmentation_flushes,
        expired,
        refused_admission,
        ..
    } = stats;
    let RewriteStats { not_inserted, faults, refused, .. } = stats;
    let mut notes = vec![
        format!(
            "{name}: {paths} known paths: {from_template} rewrites from their templates, {refused_by_path} packets without a possible rewrite; {symbolic_runs} packets executed symbolically"
        ),
        format!(
            "{name}: {stale} stale, {evicted} evicted, {expired} expired, {refused_admission} packets refused the slow path"
        ),
    ];
    if *not_inserted > 0 {
        notes.push(format!(
            "{name}: {not_inserted} packets were not considered for insertion, because the cache was nearly full"
        ));
    }
    if *fragmentation_flushes > 0 {
        notes.push(format!(
            "{name}: all rewrites were removed {fragmentation_flushes} times, because row memory was fragmented"
        ));
    }
    notes.extend(
        refused.iter().map(|(why, count)| format!("{name}: {count} packets without a rewrite: {}", why.description())),
    );
    if *faults > 0 {
        notes.push(format!(
            "{name}: {faults} rewrites did not reproduce the result of their packets and were rejected; please report it"
        ));
    }
    notes
}
