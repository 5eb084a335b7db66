//! Model of a SmartNIC's cache, before the reference engine.

use crate::plan::{CachePlan, no_tenant};
use crate::wrapped::NodeCacheEngine;
use entries::{WriteBatch, WriteError};
use flowcache::{SegmentCache, SegmentCacheKind, SegmentCacheStats};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use node::engine::{EngineControl, REFERENCE_REQUESTED, WrappingEngine, shared_control};
use std::sync::Arc;

/// Creates the engine of a node with a model of a SmartNIC's cache.
pub(crate) fn load(
    plan: &CachePlan,
    pipeline: &Arc<Pipeline>,
    settings: &Config,
) -> Result<Box<dyn EngineControl>, String> {
    let mut engine =
        SegmentCache::new(pipeline.clone(), settings.clone(), plan.cache).map_err(|error| error.to_string())?;
    if let Some(tenant) = &plan.tenant
        && !engine.set_tenant_variable(tenant)
    {
        return Err(no_tenant(tenant));
    }
    if let Some(share) = plan.min_slow_path_share {
        engine.enable_pacing(share);
    }
    Ok(shared_control(pipeline, NodeCacheEngine(engine), Some(REFERENCE_REQUESTED.to_owned())))
}

impl WrappingEngine for NodeCacheEngine<SegmentCache> {
    type Inner = Interp;

    const NAME: &'static str = "flowcache";

    fn inner_mut(&mut self) -> &mut Interp {
        self.0.interp_mut()
    }

    fn write_batch(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.0.write(batch)
    }

    fn expire_entries(&mut self, now: u64) -> Vec<IdleEntry> {
        self.0.advance_time(now)
    }

    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        let SegmentCacheStats { packets, misses, .. } = self.0.stats();
        vec![("dpu", packets.saturating_sub(*misses)), ("cpu", *misses)]
    }

    /// Returns notes for operators about the cache's occupancy and its packets.
    fn status_notes(&self) -> Vec<String> {
        let SegmentCacheStats {
            packets,
            misses,
            partial,
            second_passes,
            evicted,
            expired,
            stale,
            rejected,
            refused,
            ..
        } = self.0.stats();
        let kind = match self.0.config().kind {
            kind @ (SegmentCacheKind::Exact | SegmentCacheKind::Megaflow) => kind.to_string(),
            kind => format!("{kind}, {} tables", kind.table_count()),
        };
        let occupancy: Vec<String> =
            self.0.table_usage().map(|table| format!("{} under {} masks", table.entries, table.masks)).collect();
        let hit_percent = 100.0 * self.0.stats().hit_rate();
        let mut notes = vec![
            format!(
                "cache: {kind} of {} entries; held: {}; {} KiB",
                self.0.config().max_segments,
                occupancy.join(", "),
                self.0.memory() >> 10
            ),
            format!(
                "cache: {hit_percent:.2} % of {packets} packets hit, {misses} took the slow path, {partial} of them after cached segments; {second_passes} passed the tables twice"
            ),
            format!(
                "cache: {evicted} evicted, {expired} expired, {rejected} rejected, {refused} packets refused the slow path; {stale} stale"
            ),
        ];
        let uncacheable = self.0.stats().uncacheable.iter();
        notes.extend(uncacheable.map(|(reason, count)| format!("cache: {count} not kept: {}", reason.description())));
        notes
    }
}
