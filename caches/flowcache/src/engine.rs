//! [`SegmentCache`]: an engine that interprets the first packet of each traversal and replays
//! cached segments for the rest.

use crate::admission::SlowPathAdmission;
use crate::cache::SegmentTables;
use crate::config::{SegmentCacheConfig, SegmentCacheKind};
use crate::explain::{CacheExplainer, TraversalExplanation};
use crate::invalidation::{CacheItemRef, may_match};
use crate::pacer::MinSlowPathShare;
use crate::path_sampler::PathSampler;
use crate::rule_space;
use crate::segment::LookupDependency;
use crate::stats::SegmentCacheStats;
use entries::{StateChange, StoredEntry, WriteBatch, WriteError};
use interp::block_hook::{BlockCode, DecodedProgram};
use interp::{Config, Interp, LoadError, Outputs};
use ir::{ControlKind, Entity, Pipeline, TableId};
use packet::{Batch, BatchOutput, Engine, ReasonTable};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Pipeline with a segment cache for its main control. The crate documentation describes the cache.
pub struct SegmentCache {
    interp: Interp,
    caches: SegmentTables,
    /// Explanations of the traced packets of the last batch, by trace id.
    packet_explanations: Vec<(u16, String)>,
}

/// Occupancy of a table of a segment cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentTableUse {
    /// Number of segments.
    pub entries: usize,
    /// Number of different masks.
    pub masks: usize,
    /// Approximate memory use in bytes.
    pub memory_bytes: usize,
}

impl SegmentCache {
    /// Loads a verified pipeline.
    ///
    /// # Errors
    /// Those of [`Interp::new`]; and a program without a main control.
    pub fn new(pipeline: Arc<Pipeline>, config: Config, cache: SegmentCacheConfig) -> Result<SegmentCache, LoadError> {
        let interp = Interp::new(pipeline.clone(), config)?;
        let program = interp.program().clone();
        let empty = BlockCode::empty();
        let mut caches = SegmentTables::new(&pipeline, &program, main_control_code(&program).unwrap_or(&empty), cache);
        for table in pipeline.tables.keys() {
            interp.state().entries(table).for_each(|entry| caches.wildcard_trackers[table.index()].insert_entry(entry));
        }
        Ok(SegmentCache { interp, caches, packet_explanations: Vec::new() })
    }

    /// Returns the slow path's engine, which holds all state.
    pub fn interp(&self) -> &Interp {
        &self.interp
    }

    /// Returns the slow path's engine to set counters and other state. Tables must be changed by
    /// [`SegmentCache::write`] only.
    pub fn interp_mut(&mut self) -> &mut Interp {
        &mut self.interp
    }

    /// Returns the configuration.
    pub fn config(&self) -> &SegmentCacheConfig {
        &self.caches.config
    }

    /// Returns the statistics.
    pub fn stats(&self) -> &SegmentCacheStats {
        &self.caches.stats
    }

    /// Selects the variable with the tenant id, such as `hdr.vxlan.vni`, as it is at the start of
    /// the main control. Tenants share the slow path. Without a variable, all packets belong to one
    /// tenant. Returns false if the program has no such variable, or it is wider than 64 bits.
    pub fn set_tenant_variable(&mut self, variable: &str) -> bool {
        let program = self.interp.program();
        let found = program.var_names.iter().position(|name| name == variable);
        let reg = found.map(|at| program.var_regs[at]).filter(|reg| reg.words == 1 && !reg.is_varbit);
        self.caches.tenant_slot = reg.map(|reg| reg.first_word);
        reg.is_some()
    }

    /// Returns the admission state, with the refused packets of each tenant.
    pub fn admission(&self) -> Option<&SlowPathAdmission> {
        self.caches.admission.as_ref()
    }

    /// Limits the slow path to the time that other packets leave ([`crate::pacer`]), within its
    /// budget. Returns false without a budget ([`SegmentCacheConfig::slow_path`]). Only packets of
    /// batches ([`Engine::process`]) are measured.
    pub fn enable_pacing(&mut self, min_share: MinSlowPathShare) -> bool {
        self.caches.admission.as_mut().map(|admission| admission.enable_pacing(min_share)).is_some()
    }

    /// Returns the occupancy of each table.
    pub fn table_usage(&self) -> impl Iterator<Item = SegmentTableUse> + '_ {
        self.caches.stores.iter().map(|store| SegmentTableUse {
            entries: store.len(),
            masks: store.mask_count(),
            memory_bytes: store.memory(),
        })
    }

    /// Returns the approximate memory use of segments and invalidation index in bytes.
    pub fn memory(&self) -> usize {
        let samples = self.caches.sampler.as_ref().map_or(0, PathSampler::memory);
        self.table_usage().map(|table| table.memory_bytes).sum::<usize>() + self.caches.invalidation.memory() + samples
    }

    /// Checks the invalidation index, for tests.
    ///
    /// # Errors
    /// A description of the inconsistency, which is a bug.
    pub fn check_index(&self) -> Result<(), String> {
        let caches = &self.caches;
        let segments = caches.stores.iter().enumerate().flat_map(|(at, store)| {
            store.iter().map(move |(place, kept)| (&kept.segment, kept.nodes, (at as u32, place)))
        });
        caches.invalidation.check_lists(&caches.wildcard_trackers, segments)
    }

    /// Lets the adaptive cache sample every packet and decide by few samples, for tests.
    pub fn sample_eagerly(&mut self) {
        self.caches.sampler.iter_mut().for_each(PathSampler::sample_eagerly);
    }

    /// Returns an upper bound of the number of whole traversals that the segments form, if each can
    /// follow each that ends at its tag.
    pub fn count_chains(&self) -> f64 {
        rule_space::count_chains(&self.caches.stores)
    }

    /// Returns Gigaflow's published estimate of the covered rule space ([`crate::rule_space`]).
    pub fn rule_space(&self) -> f64 {
        rule_space::gigaflow_rule_space(&self.caches.stores)
    }

    /// Processes a packet that arrives on a port at `now` (ns).
    pub fn process(&mut self, bytes: &[u8], port: u32, now: u64) -> Outputs {
        let mut out = Outputs::new();
        self.process_into(bytes, port, now, &mut out);
        out
    }

    /// Processes a packet as [`SegmentCache::process`] does, into `out`. The previous contents of
    /// `out` are lost, and its buffers are reused.
    pub fn process_into(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.interp.process_by(&mut self.caches, bytes, port, now, out);
    }

    /// Applies a batch atomically: if one update is refused, no state changes. Removes all stale
    /// segments before the next packet.
    ///
    /// # Errors
    /// Those of [`Interp::write`].
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let mut changes = Vec::new();
        self.interp.write_observed(batch, |change, number| changes.push((change.clone(), number)))?;
        let mut stale = BTreeSet::new();
        for (change, number) in &changes {
            self.collect_stale(change, *number, &mut stale);
        }
        for (table, index) in stale {
            self.caches.invalidate_segment(table, index);
        }
        Ok(())
    }

    /// Collects the segments that a change makes stale, and updates the wildcard trackers.
    /// `number`: number of the changed entry, if known.
    fn collect_stale(&mut self, change: &StateChange, number: Option<u32>, stale: &mut BTreeSet<CacheItemRef>) {
        match change {
            StateChange::Inserted(table, entry, _) => {
                self.collect_dependents_of_new_entry(*table, entry, stale);
                self.caches.wildcard_trackers[table.index()].insert_entry(entry);
            }
            StateChange::Modified(table, entry, ..) => self.collect_dependents_of_entry(*table, entry, number, stale),
            StateChange::Deleted(table, entry) => {
                self.collect_dependents_of_entry(*table, entry, number, stale);
                self.caches.wildcard_trackers[table.index()].remove_entry(entry);
            }
            StateChange::DefaultAction(table) => stale.extend(self.caches.invalidation.items_that_missed(table.0)),
            // Groups and meters are evaluated for each packet, also for packets that hit.
            _ => {}
        }
    }

    /// Collects the segments that found entry `number`, or if the number is unknown, any entry by a
    /// key that `entry` matches.
    fn collect_dependents_of_entry(
        &self,
        table: TableId,
        entry: &StoredEntry,
        number: Option<u32>,
        stale: &mut BTreeSet<CacheItemRef>,
    ) {
        let tracker = &self.caches.wildcard_trackers[table.index()];
        self.collect_dependents((table, entry, number), stale, |lookup| match number {
            Some(number) => lookup.found_entry == Some(number),
            None => lookup.found_entry.is_some() && may_match(tracker, lookup, entry),
        });
    }

    /// Collects the segments that would find the new entry.
    fn collect_dependents_of_new_entry(&self, table: TableId, entry: &StoredEntry, stale: &mut BTreeSet<CacheItemRef>) {
        let tracker = &self.caches.wildcard_trackers[table.index()];
        self.collect_dependents((table, entry, None), stale, |lookup| {
            let found = lookup.found_entry.and_then(|number| self.interp.entry_in_slot(table, number));
            found.is_none_or(|found| tracker.has_precedence(entry, found)) && may_match(tracker, lookup, entry)
        });
    }

    /// Collects the segments with a lookup in the table under the entry's exact keys, or that found
    /// entry `number`, for which `concerns` is true.
    fn collect_dependents(
        &self,
        (table, entry, number): (TableId, &StoredEntry, Option<u32>),
        stale: &mut BTreeSet<CacheItemRef>,
        concerns: impl Fn(&LookupDependency) -> bool,
    ) {
        let caches = &self.caches;
        let items =
            caches.invalidation.items_under_entry(&caches.wildcard_trackers[table.index()], table.0, entry, number);
        stale.extend(items.filter(|(store, index)| {
            let Some(stored) = caches.stores[*store as usize].get(*index) else { return false };
            stored.segment.dependencies.iter().any(|lookup| lookup.table == table.0 && concerns(lookup))
        }));
    }

    /// Advances time to `now` (ns). Removes idle table entries and idle segments.
    pub fn advance_time(&mut self, now: u64) -> Vec<interp::IdleEntry> {
        let idle = self.interp.advance_time(now);
        let mut stale = BTreeSet::new();
        for removed in idle.iter().filter(|removed| removed.deleted) {
            self.collect_dependents_of_entry(removed.table, &removed.entry, None, &mut stale);
            self.caches.wildcard_trackers[removed.table.index()].remove_entry(&removed.entry);
        }
        for (table, index) in stale {
            self.caches.invalidate_segment(table, index);
        }
        self.caches.expire_idle(now);
        idle
    }

    /// Processes a packet and explains which parts of its path can be cached. The packet has all
    /// its side effects, such as counts.
    pub fn explain(&mut self, bytes: &[u8], port: u32, now: u64) -> (Outputs, TraversalExplanation) {
        // An exact cache matches all bits, so its packets are explained as for a megaflow cache.
        let kind = if self.caches.is_chain() { self.caches.config.kind } else { SegmentCacheKind::Megaflow };
        let config = SegmentCacheConfig { kind, ..self.caches.config };
        let empty = BlockCode::empty();
        let program = self.interp.program().clone();
        let pipeline = self.interp.pipeline().clone();
        // The packet runs in empty tables with the trackers and the sampler of this cache, so that
        // it changes no cached segment.
        let mut caches = SegmentTables::new(&pipeline, &program, main_control_code(&program).unwrap_or(&empty), config);
        let swap = |scratch: &mut SegmentTables, cache: &mut SegmentTables| {
            std::mem::swap(&mut scratch.wildcard_trackers, &mut cache.wildcard_trackers);
            std::mem::swap(&mut scratch.sampler, &mut cache.sampler);
        };
        swap(&mut caches, &mut self.caches);
        // The path sampler's hashes depend on this hasher.
        caches.hasher = self.caches.hasher.clone();
        let mut explainer = CacheExplainer { caches, explanation: TraversalExplanation::default() };
        let mut out = Outputs::new();
        self.interp.process_by(&mut explainer, bytes, port, now, &mut out);
        swap(&mut explainer.caches, &mut self.caches);
        (out, explainer.explanation)
    }

    /// Processes a batch with traced packets. Each traced packet is processed alone, so that the
    /// statistics show its treatment.
    #[cold]
    fn process_traced(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        let trace_ids: Vec<u16> = batch.packets().iter().map(|packet| packet.trace_id).collect();
        let mut first = 0;
        while first < trace_ids.len() {
            let untraced = trace_ids[first..].iter().take_while(|trace_id| **trace_id == 0).count();
            if untraced > 0 {
                self.interp.process_range(Some(&mut self.caches), batch, first..first + untraced, out);
                first += untraced;
                continue;
            }
            let before = self.caches.stats.clone();
            self.interp.process_range(Some(&mut self.caches), batch, first..first + 1, out);
            self.packet_explanations.push((trace_ids[first], self.caches.stats.describe_packet_since(&before)));
            first += 1;
        }
    }

    /// Removes all segments.
    pub fn clear(&mut self) {
        self.caches.clear();
    }
}

/// Returns the code of the cached control.
fn main_control_code(program: &DecodedProgram) -> Option<&BlockCode> {
    let main = [ControlKind::Ingress, ControlKind::MainControl].into_iter().find_map(|kind| program.code(kind))?;
    program.codes.get(main)
}

impl Engine for SegmentCache {
    fn name(&self) -> &str {
        "flowcache"
    }

    fn reasons(&self) -> &ReasonTable {
        self.interp.reasons()
    }

    /// Processes a batch. With pacing, measures the time of the batch and of its slow path.
    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.packet_explanations.clear();
        if batch.packets().iter().any(|packet| packet.trace_id != 0) {
            return self.process_traced(batch, out);
        }
        let is_paced = self.caches.admission.as_mut().is_some_and(|admission| admission.pacer_mut().is_some());
        if !is_paced {
            return self.interp.process_batch(Some(&mut self.caches), batch, out);
        }
        let start = Instant::now();
        let (packets, misses_before) = (batch.len() as u64, self.caches.stats.misses);
        self.caches.slow_path_ns = 0;
        self.interp.process_batch(Some(&mut self.caches), batch, out);
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        let slow_packets = self.caches.stats.misses - misses_before;
        // A packet on the slow path also accounts for its part of the common work, such as parser
        // and deparser.
        let shared_ns = elapsed_ns.saturating_sub(self.caches.slow_path_ns) * slow_packets / packets.max(1);
        if let Some(pacer) = self.caches.admission.as_mut().and_then(SlowPathAdmission::pacer_mut) {
            pacer.record_time(elapsed_ns, self.caches.slow_path_ns + shared_ns, slow_packets);
        }
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.packet_explanations)
    }

    fn tick(&mut self, now: u64, _out: &mut BatchOutput) {
        let idle = self.advance_time(now);
        self.interp.notify(idle);
    }
}
