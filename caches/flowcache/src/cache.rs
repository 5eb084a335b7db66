//! [`SegmentTables`]: a packet's path through the segment tables, and to the slow path where no
//! segment matches.

use crate::admission::SlowPathAdmission;
use crate::config::{SegmentCacheConfig, SegmentCacheKind};
use crate::effects::ValueLiveness;
use crate::invalidation::{IndexLists, InvalidationIndex};
use crate::path_sampler::PathSampler;
use crate::record::{ExecutionRecord, RecorderFacts};
use crate::segment::{ReplayOp, Segment, SegmentEnd, TraversalContext};
use crate::segment_table::{InsertResult, SegmentTable, StoredSegment};
use crate::split_policy::SplitPolicy;
use crate::stats::SegmentCacheStats;
use crate::wildcards::WildcardTracker;
use interp::block_hook::{
    BlockCode, BlockExit, BlockHook, BlockStepper, DecodedProgram, InstIndex, Op, StepResult, WordIndex,
};
use ir::{Entity, Pipeline, VarKind};
use packet::EngineReason;
use std::sync::Arc;
use std::time::Instant;

/// Segment tables of a program, with the program facts that segments are built from.
pub struct SegmentTables {
    pub(crate) config: SegmentCacheConfig,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) facts: RecorderFacts,
    liveness: ValueLiveness,
    is_local: Vec<bool>,
    /// By slot: index of the variable, for header fields.
    pub(crate) field_of_slot: Vec<Option<u32>>,
    add_on_miss: Vec<bool>,
    pub(crate) wildcard_trackers: Vec<WildcardTracker>,
    pub(crate) stores: Vec<SegmentTable>,
    pub(crate) invalidation: InvalidationIndex,
    pub(crate) stats: SegmentCacheStats,
    pub(crate) split_policy: SplitPolicy,
    /// Sampler of paths, if they are split by samples.
    pub(crate) sampler: Option<PathSampler>,
    pub(crate) admission: Option<SlowPathAdmission>,
    /// Nanoseconds on the slow path since the caller reset it.
    pub(crate) slow_path_ns: u64,
    /// Slot of the tenant id.
    pub(crate) tenant_slot: Option<WordIndex>,
    pub(crate) record: ExecutionRecord,
    lists: IndexLists,
    pub(crate) hasher: foldhash::fast::RandomState,
}

/// Result of a replay.
enum ReplayResult {
    /// The control ended.
    End(BlockExit),
    /// The segment ended at this table application.
    At(InstIndex),
    /// A check failed. The packet continues at this instruction.
    Diverged(InstIndex),
    /// The packet has less fuel than the segment uses. The replay did nothing.
    OutOfFuel,
}

impl SegmentTables {
    /// Creates empty tables for a program with the main control `code`.
    pub fn new(
        pipeline: &Arc<Pipeline>,
        program: &DecodedProgram,
        code: &BlockCode,
        config: SegmentCacheConfig,
    ) -> SegmentTables {
        let facts = RecorderFacts::new(pipeline, program, code);
        let slots = facts.slots;
        let liveness = ValueLiveness::new(&slots, program, code);
        let mut is_local = vec![false; slots.total_count()];
        let mut field_of_slot = vec![None; slots.total_count()];
        for (reg, (var, declared)) in program.var_regs.iter().zip(pipeline.vars.iter()) {
            for slot in reg.first_word..reg.first_word + reg.words {
                match declared.kind {
                    VarKind::Local => is_local[slot as usize] = true,
                    VarKind::Field(..) => field_of_slot[slot as usize] = Some(var.index() as u32),
                    _ => {}
                }
            }
        }
        let table_count = config.kind.table_count();
        let wildcard_trackers: Vec<WildcardTracker> =
            pipeline.tables.values().map(|table| WildcardTracker::new(&table.keys)).collect();
        SegmentTables {
            add_on_miss: pipeline.tables.values().map(|table| table.add_on_miss).collect(),
            stores: (0..table_count).map(|_| SegmentTable::new(config.max_segments, config.max_masks)).collect(),
            invalidation: InvalidationIndex::new(pipeline, &wildcard_trackers),
            wildcard_trackers,
            stats: SegmentCacheStats::default(),
            split_policy: SplitPolicy::new(table_count * config.max_segments),
            sampler: config.kind.uses_sampling().then(|| PathSampler::new(table_count, config.kind.max_passes())),
            admission: config.slow_path.map(SlowPathAdmission::new),
            slow_path_ns: 0,
            tenant_slot: None,
            record: ExecutionRecord::default(),
            lists: IndexLists::default(),
            hasher: foldhash::fast::RandomState::default(),
            config,
            pipeline: pipeline.clone(),
            facts,
            liveness,
            is_local,
            field_of_slot,
        }
    }

    /// Returns whether a packet goes through a chain of tables, each with segments of its path.
    pub(crate) fn is_chain(&self) -> bool {
        matches!(self.config.kind, SegmentCacheKind::SubTraversal { .. } | SegmentCacheKind::Adaptive { .. })
    }

    /// Returns the number of positions, counted through all passes.
    pub(crate) fn positions(&self) -> usize {
        self.stores.len() * self.config.kind.max_passes()
    }

    /// Returns the first position from `from` on with a matching segment in its table, and the
    /// segment's index in that table. Positions are counted through all passes
    /// ([`SegmentCacheKind::max_passes`]): the tables in order, repeated for each pass.
    pub(crate) fn find_segment(
        &mut self,
        stepper: &BlockStepper<'_>,
        tag: InstIndex,
        from: usize,
    ) -> Option<(usize, u32)> {
        self.stats.lookups += 1;
        let (slots, tables) = (&self.facts.slots, self.stores.len());
        // Each table is searched at most once.
        let end = (from + tables).min(self.positions());
        (from..end).find_map(|position| {
            Some((position, self.stores[position % tables].find_match(slots, stepper.state(), tag)?))
        })
    }

    /// Executes the instructions of a segment on a packet. Decisions and lookups are not repeated,
    /// except where a live result can change them. `index`: index of the segment in the table.
    fn replay_segment(&mut self, stepper: &mut BlockStepper<'_>, table: usize, index: u32) -> ReplayResult {
        let now = stepper.now();
        self.stores[table].mark_used(index, now);
        let Some(StoredSegment { segment, .. }) = self.stores[table].get(index) else { return ReplayResult::OutOfFuel };
        if stepper.fuel() <= segment.fuel {
            return ReplayResult::OutOfFuel;
        }
        // Jumps are not replayed. The table applications of the replay take fuel themselves.
        stepper.take_fuel(segment.backward_jumps);
        for replay_op in &segment.replay_ops {
            let (step, expected) = match *replay_op {
                ReplayOp::Execute(pc) => (stepper.step(pc), None),
                ReplayOp::Check { pc, to } => (stepper.step(pc), Some(to)),
                ReplayOp::Apply { pc, dependency, to } => {
                    let code = stepper.code();
                    let Op::Apply { index: site } = code.ops[pc as usize] else { continue };
                    let found = segment.dependencies[dependency as usize].found_entry;
                    (stepper.apply(&code.applies[site as usize], found, pc), Some(to))
                }
            };
            match step {
                StepResult::End(outcome) => return ReplayResult::End(outcome),
                StepResult::Next(pc) if expected.is_some_and(|to| to != pc) => return ReplayResult::Diverged(pc),
                StepResult::Next(_) => {}
            }
        }
        match segment.end {
            SegmentEnd::AtTable(pc) => ReplayResult::At(pc),
            end => ReplayResult::End(end.outcome().unwrap_or(BlockExit::Return)),
        }
    }

    /// Runs the slow path from `tag` on and stores its segments at positions `from` and later.
    /// `last_match`: the number of segments that the packet matched, and the table and index of the
    /// last one. Returns how the control ended.
    fn run_slow_path(
        &mut self,
        stepper: &mut BlockStepper<'_>,
        tag: InstIndex,
        from: usize,
        last_match: Option<(usize, usize, u32)>,
    ) -> BlockExit {
        self.stats.misses += 1;
        let mut record = std::mem::take(&mut self.record);
        let outcome = record.run_control(&self.facts, stepper, tag);
        let start = Instant::now();
        let min_positions = self.store_record(stepper, &record, outcome, from);
        if let (Some(min_positions), Some((matched, table, index))) = (min_positions, last_match)
            && min_positions <= self.positions().saturating_sub(matched)
        {
            // Packets that reach `tag` here would always miss, although the positions suffice if
            // the segments before are stored elsewhere. Without the last segment the next packet
            // misses earlier.
            self.evict_segment(table, index);
        }
        self.stats.split_ns += start.elapsed().as_nanos() as u64;
        self.record = record;
        outcome
    }

    /// Returns the facts that traversals are built with.
    pub(crate) fn traversal_context<'c>(&'c self, stepper: &BlockStepper<'c>) -> TraversalContext<'c> {
        TraversalContext {
            facts: &self.facts,
            code: stepper.code(),
            wildcard_trackers: &self.wildcard_trackers,
            add_on_miss: &self.add_on_miss,
            local: &self.is_local,
            live: &self.liveness,
            whole_fields: self.config.kind == SegmentCacheKind::Exact,
        }
    }

    pub(crate) fn recorder_facts(&self) -> &RecorderFacts {
        &self.facts
    }

    /// Inserts a segment into a table and links it into the invalidation index. Returns its index
    /// in the table; `None` if the table has too many masks.
    pub(crate) fn insert_segment(&mut self, segment: Segment, table: usize, now: u64) -> Option<u32> {
        let SegmentTables { stores, invalidation, wildcard_trackers, stats, lists, .. } = self;
        let on_removed = |stored: &StoredSegment| {
            stats.evicted += 1;
            invalidation.collect_segment_lists(wildcard_trackers, &stored.segment, lists);
            invalidation.unlink_item(stored.nodes, lists);
        };
        match stores[table].insert_segment(segment, now, on_removed) {
            InsertResult::Inserted(index) => {
                stats.inserted += 1;
                if let Some(stored) = stores[table].get(index) {
                    invalidation.collect_segment_lists(wildcard_trackers, &stored.segment, lists);
                    stores[table].set_nodes(index, invalidation.link_item((table as u32, index), lists));
                }
                Some(index)
            }
            InsertResult::Existing(index) => {
                stats.shared += 1;
                Some(index)
            }
            InsertResult::TooManyMasks => {
                stats.rejected += 1;
                None
            }
        }
    }

    /// Removes a stale segment.
    pub(crate) fn invalidate_segment(&mut self, at: u32, place: u32) {
        self.stats.stale += u64::from(self.remove_segment(at as usize, place).is_some());
    }

    /// Removes a segment that prevents better ones from being used.
    fn evict_segment(&mut self, at: usize, place: u32) {
        self.stats.evicted += u64::from(self.remove_segment(at, place).is_some());
    }

    /// Removes a segment and its links in the invalidation index.
    fn remove_segment(&mut self, table: usize, index: u32) -> Option<StoredSegment> {
        let stored = self.stores[table].remove(index)?;
        self.invalidation.collect_segment_lists(&self.wildcard_trackers, &stored.segment, &mut self.lists);
        self.invalidation.unlink_item(stored.nodes, &self.lists);
        Some(stored)
    }

    /// Removes all segments.
    pub(crate) fn clear(&mut self) {
        self.stores.iter_mut().for_each(SegmentTable::clear);
        self.sampler.iter_mut().for_each(PathSampler::clear);
        self.invalidation.clear();
    }

    /// Removes segments without a hit for the configured time.
    pub(crate) fn expire_idle(&mut self, now: u64) {
        let Some(unused_since) = self.config.idle_ns.and_then(|idle| now.checked_sub(idle)) else { return };
        let SegmentTables { stores, invalidation, wildcard_trackers, stats, lists, .. } = self;
        for store in stores {
            let on_removed = |stored: &StoredSegment| {
                invalidation.collect_segment_lists(wildcard_trackers, &stored.segment, lists);
                invalidation.unlink_item(stored.nodes, lists);
            };
            stats.expired += store.expire_idle(unused_since, on_removed) as u64;
        }
    }
}

impl SegmentTables {
    /// Returns the packet's tenant id. Must be called before any replay, because a replay can
    /// change it.
    fn tenant_of(&self, slots: &[u64]) -> u64 {
        self.tenant_slot.map_or(0, |slot| slots[slot as usize])
    }

    /// Admits a tenant's packet to the slow path, or returns its drop.
    fn admit_to_slow_path(&mut self, tenant: u64, now: u64) -> Result<(), BlockExit> {
        if self.admission.as_mut().is_some_and(|admission| !admission.admit(tenant, now)) {
            self.stats.refused += 1;
            return Err(BlockExit::Abort(EngineReason::SlowPathLimit));
        }
        Ok(())
    }
}

impl BlockHook for SegmentTables {
    /// Runs the control for a packet: replays segments while one matches, then takes the slow path.
    fn run(&mut self, stepper: &mut BlockStepper<'_>) -> BlockExit {
        self.stats.packets += 1;
        let tenant = self.tenant_of(stepper.reg_words());
        let (mut tag, mut from, mut matched, mut last_match) = (0, 0, 0, None);
        self.sampler.iter_mut().for_each(|samples| samples.begin_packet());
        loop {
            let Some((position, index)) = self.find_segment(stepper, tag, from) else {
                if let Err(refused) = self.admit_to_slow_path(tenant, stepper.now()) {
                    return refused;
                }
                self.stats.partial += u64::from(matched > 0);
                let start = Instant::now();
                let outcome = self.run_slow_path(stepper, tag, from, last_match);
                self.slow_path_ns += start.elapsed().as_nanos() as u64;
                return outcome;
            };
            let table = position % self.stores.len();
            matched += 1;
            last_match = Some((matched, table, index));
            self.stats.second_passes += u64::from(position >= self.stores.len() && from <= self.stores.len());
            self.sampler.iter_mut().for_each(|samples| samples.record_hit(table, index));
            match self.replay_segment(stepper, table, index) {
                ReplayResult::End(outcome) => {
                    self.stats.hits += 1;
                    self.sampler.iter_mut().for_each(PathSampler::finish_hit);
                    return outcome;
                }
                ReplayResult::At(next) => tag = next,
                ReplayResult::Diverged(next) => {
                    self.stats.diverged += 1;
                    self.sampler.iter_mut().for_each(PathSampler::mark_diverged);
                    // The segment is correct for other packets, so it must not be evicted.
                    last_match = None;
                    tag = next;
                }
                ReplayResult::OutOfFuel => {
                    self.stats.misses += 1;
                    return run_uncached(stepper, tag);
                }
            }
            if self.is_chain() {
                from = position + 1;
            }
        }
    }
}

/// Runs the control from `pc` on without the cache.
fn run_uncached(stepper: &mut BlockStepper<'_>, mut pc: InstIndex) -> BlockExit {
    loop {
        match stepper.step(pc) {
            StepResult::Next(next) => pc = next,
            StepResult::End(outcome) => return outcome,
        }
    }
}
