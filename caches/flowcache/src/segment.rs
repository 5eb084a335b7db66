//! [`Segment`]: part of a traversal that can be cached and replayed: a match on packet state and
//! the instructions for packets that match.

use crate::dependencies::DependencySlicer;
use crate::effects::{SlotLayout, ValueLiveness, slots_in_ranges};
use crate::record::{ExecutedInst, ExecutedKind, ExecutionRecord, NO_DEFINITION, RecordedOperand, RecorderFacts};
use crate::wildcards::WildcardTracker;
use interp::block_hook::{ApplySite, BlockCode, BlockExit, BlockStepper, FrameView, InstIndex, Op, WordIndex};
use std::cell::OnceCell;

/// End of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SegmentEnd {
    /// At the table application with this program counter, which is the tag of the next segment.
    AtTable(InstIndex),
    /// At the end of the control.
    EndOfControl {
        /// True if the control ended by `exit`.
        exit: bool,
    },
}

impl SegmentEnd {
    /// Returns how the control ends; `None` if the segment ends at a table application.
    pub fn outcome(self) -> Option<BlockExit> {
        match self {
            SegmentEnd::AtTable(_) => None,
            SegmentEnd::EndOfControl { exit: true } => Some(BlockExit::Exit),
            SegmentEnd::EndOfControl { exit: false } => Some(BlockExit::Return),
        }
    }
}

/// Lookup that a segment depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookupDependency {
    /// Index of the table.
    pub table: u32,
    /// Key values in words of 64 bits, field by field.
    pub key: Box<[u64]>,
    /// Key bits that decided the result, by word of `key`.
    pub mask: Box<[u64]>,
    /// Number of the matching entry; `None`: miss.
    pub found_entry: Option<u32>,
}

/// Instruction of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayOp {
    /// Executes the instruction.
    Execute(InstIndex),
    /// Executes a decision. The replay ends there if the decision does not continue at `to`.
    Check {
        /// Program counter of the instruction.
        pc: InstIndex,
        /// Recorded successor.
        to: InstIndex,
    },
    /// Applies a table with the recorded entry. The replay ends there if execution does not
    /// continue at `to`, because the packet's group member can differ.
    Apply {
        /// Program counter of the instruction.
        pc: InstIndex,
        /// Index into [`Segment::dependencies`].
        dependency: u32,
        /// Recorded successor.
        to: InstIndex,
    },
}

/// Bits of packet state that a segment matches on, by slot. Slots from [`SlotLayout::end`] on are
/// the validity of headers.
pub type StateMask = Box<[(WordIndex, u64)]>;

/// Returns the packet state under a mask: one word for each slot of the mask.
pub fn masked_state(slots: &SlotLayout, mask: &[(WordIndex, u64)], state: FrameView<'_>) -> Box<[u64]> {
    let word = |(slot, mask): &(WordIndex, u64)| match slot.checked_sub(slots.end) {
        None => state.reg_words[*slot as usize] & mask,
        Some(header) => u64::from(state.header_validity[header as usize]),
    };
    mask.iter().map(word).collect()
}

/// Part of a traversal between two tags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Program counter where the segment starts: the start of the control or a table application.
    pub tag: InstIndex,
    /// Match mask.
    pub mask: StateMask,
    /// Values to match: one word for each slot of the mask.
    pub values: Box<[u64]>,
    /// Instructions to replay.
    pub replay_ops: Box<[ReplayOp]>,
    /// End of the segment.
    pub end: SegmentEnd,
    /// Fuel that the segment uses: backward jumps (which are not replayed) and table applications.
    pub fuel: u64,
    /// Backward jumps of the recorded execution.
    pub backward_jumps: u64,
    /// Lookups that the segment depends on, in order.
    pub dependencies: Box<[LookupDependency]>,
}

impl Segment {
    /// Returns the approximate memory use in bytes.
    pub fn memory_bytes(&self) -> usize {
        let lookups: usize =
            self.dependencies.iter().map(|lookup| size_of_val(&*lookup.key) + size_of_val(&*lookup.mask)).sum();
        let lists = size_of_val(&*self.mask) + size_of_val(&*self.values) + size_of_val(&*self.replay_ops);
        size_of::<Segment>() + lists + size_of_val(&*self.dependencies) + lookups
    }

    /// Returns the number of tables that the segment covers.
    pub fn table_count(&self) -> usize {
        self.dependencies.len()
    }
}

/// Reason why a part of a traversal cannot be cached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Uncacheable {
    /// The packet can have added a table entry.
    AddEntry,
    /// The packet missed in an add-on-miss table.
    AddOnMiss,
    /// The packet executed more than [`crate::record::MAX_STEPS`] instructions.
    TooLong,
    /// The engine aborted the packet.
    Aborted,
}

impl Uncacheable {
    /// Returns the reason as a clause for messages.
    pub fn description(self) -> &'static str {
        match self {
            Uncacheable::AddEntry => "the packet adds a table entry, which each such packet has to do itself",
            Uncacheable::AddOnMiss => "it misses in a table that packets add entries to, so the next packet can hit",
            Uncacheable::TooLong => "it takes more instructions than are recorded",
            Uncacheable::Aborted => "the engine aborted it",
        }
    }

    /// Returns the name of the reason in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Uncacheable::AddEntry => "adds_entry",
            Uncacheable::AddOnMiss => "miss_adds_entry",
            Uncacheable::TooLong => "too_long",
            Uncacheable::Aborted => "aborted",
        }
    }
}

/// Error of building a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentError {
    /// A segment must start at this unit, because the key of its table depends on a live result.
    SplitBefore(usize),
    /// The part cannot be cached.
    NotCacheable(Uncacheable),
}

/// Program facts that traversals are built with.
#[derive(Clone, Copy)]
pub struct TraversalContext<'t> {
    /// Static facts of the program.
    pub facts: &'t RecorderFacts,
    /// Code of the cached control.
    pub code: &'t BlockCode,
    /// Wildcard tracker of each table.
    pub wildcard_trackers: &'t [WildcardTracker],
    /// Whether packets add entries, by table.
    pub add_on_miss: &'t [bool],
    /// By slot: a local variable, which is dead after the control.
    pub local: &'t [bool],
    /// Liveness of values at table applications.
    pub live: &'t ValueLiveness,
    /// Match all bits of each slot that was read, as an exact cache does.
    pub whole_fields: bool,
}

/// Recorded traversal, divided at its table applications into units of at most one table each.
pub struct RecordedTraversal<'t> {
    context: TraversalContext<'t>,
    record: &'t ExecutionRecord,
    outcome: BlockExit,
    /// First step of each unit, then the number of steps.
    bounds: Vec<usize>,
    /// Steps that are table applications.
    applications: Vec<usize>,
    /// Lookup of each table application, computed at its first use.
    dependencies: Vec<OnceCell<Option<LookupDependency>>>,
}

impl<'t> RecordedTraversal<'t> {
    /// Creates the traversal of a record that ended with `outcome`.
    pub fn new(
        context: TraversalContext<'t>,
        record: &'t ExecutionRecord,
        outcome: BlockExit,
    ) -> RecordedTraversal<'t> {
        let applications: Vec<usize> = record.table_applications().collect();
        // The code before the first table is a unit of its own.
        let mut bounds = vec![0];
        bounds.extend(applications.iter().copied().filter(|at| *at > 0));
        bounds.push(record.steps.len());
        let dependencies = applications.iter().map(|_| OnceCell::new()).collect();
        RecordedTraversal { context, record, outcome, bounds, applications, dependencies }
    }

    /// Returns the number of units: one for each table, and one for the code before the first
    /// table.
    pub fn unit_count(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Returns the program counter where a unit starts.
    pub fn tag(&self, unit: usize) -> InstIndex {
        match unit {
            0 => self.record.start,
            _ => self.record.steps[self.bounds[unit]].pc,
        }
    }

    /// Returns a hash of the packet's path. It is equal for packets that applied the same tables
    /// with the same successors.
    pub fn path_hash(&self) -> u64 {
        let mut hash = u64::from(self.record.start);
        for step in &self.applications {
            let ExecutedInst { pc, kind: ExecutedKind::Apply { to, .. }, .. } = self.record.steps[*step] else {
                continue;
            };
            hash = (hash ^ u64::from(pc) << 32 ^ u64::from(to)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        hash
    }

    /// Returns the range of the steps of a unit.
    pub fn unit_steps(&self, unit: usize) -> std::ops::Range<usize> {
        self.bounds[unit]..self.bounds[unit + 1]
    }

    /// Returns the lookup of a unit, if it has a table.
    pub fn dependency_of_unit(&self, unit: usize, stepper: &BlockStepper<'_>) -> Option<&LookupDependency> {
        let steps = self.unit_steps(unit);
        let application = self.applications.iter().position(|at| steps.contains(at))?;
        self.dependency_of(application, stepper)
    }

    fn slots(&self) -> &'t SlotLayout {
        &self.context.facts.slots
    }

    /// Returns the lookup of a table application, computed at the first call. `None` if the entry
    /// that it found does not exist any more.
    fn dependency_of(&self, application: usize, stepper: &BlockStepper<'_>) -> Option<&LookupDependency> {
        let compute = || {
            let step = self.applications[application];
            let ExecutedInst { pc, kind: ExecutedKind::Apply { found, .. }, .. } = self.record.steps[step] else {
                return None;
            };
            let Op::Apply { index } = self.context.code.ops[pc as usize] else { return None };
            let site = &self.context.code.applies[index as usize];
            let tracker = &self.context.wildcard_trackers[site.table];
            let operands = self.record.operands_of(step);
            let mut key = vec![0; tracker.word_count()];
            for (word, operand) in key_words(tracker, site) {
                key[word] = operands[operand].value;
            }
            let mask = match (self.context.whole_fields, found) {
                (true, _) => tracker.full_key_mask(),
                (false, Some(number)) => tracker.decisive_mask(&key, Some(stepper.entry(site.table, number)?)),
                (false, None) => tracker.decisive_mask(&key, None),
            };
            Some(LookupDependency { table: site.table as u32, key: key.into(), mask: mask.into(), found_entry: found })
        };
        self.dependencies[application].get_or_init(compute).as_ref()
    }

    /// Builds one segment of the units `first..=last`: the bits of state that decided, the
    /// instructions to replay, and the lookups that it depends on.
    ///
    /// # Errors
    /// A unit after `first` must start a segment of its own, or a unit cannot be cached.
    pub fn build_segment(
        &self,
        stepper: &BlockStepper<'_>,
        first: usize,
        last: usize,
    ) -> Result<Segment, SegmentError> {
        let (first_step, end_step) = (self.bounds[first], self.bounds[last + 1]);
        self.check_cacheable(last)?;
        let tainted_defs = self.tainted_definitions(first_step, end_step);
        let mut slicer = DependencySlicer::new(
            self.context.facts,
            self.context.code,
            self.record,
            first_step,
            self.context.whole_fields,
        );
        let mut dependencies: Vec<LookupDependency> = Vec::new();
        let mut replay_ops: Vec<(usize, ReplayOp)> = Vec::new();
        for step in first_step..end_step {
            let executed = &self.record.steps[step];
            let is_tainted = || {
                self.record.operands_of(step).iter().any(|operand| self.is_tainted(operand, first_step, &tainted_defs))
            };
            let replay_op = match executed.kind {
                ExecutedKind::Pure | ExecutedKind::Effect | ExecutedKind::Live => ReplayOp::Execute(executed.pc),
                ExecutedKind::AddEntry => return Err(SegmentError::NotCacheable(Uncacheable::AddEntry)),
                // The decision can differ between packets with equal state, so the replay repeats
                // it.
                ExecutedKind::Decision(to) if is_tainted() => ReplayOp::Check { pc: executed.pc, to },
                ExecutedKind::Decision(_) => {
                    match self.context.code.ops[executed.pc as usize] {
                        Op::Switch { index } => slicer.require_switch(step, index),
                        _ => slicer.require_bits(&self.record.operands_of(step)[0], 1),
                    }
                    continue;
                }
                ExecutedKind::Apply { found, to, .. } => {
                    let application = self.applications.partition_point(|at| *at < step);
                    if is_tainted() {
                        // The unit that starts at this step.
                        return Err(SegmentError::SplitBefore(self.bounds.partition_point(|at| *at < step)));
                    }
                    let Some(dependency) = self.dependency_of(application, stepper) else {
                        return Err(SegmentError::NotCacheable(Uncacheable::TooLong));
                    };
                    if found.is_none() && self.context.add_on_miss[dependency.table as usize] {
                        return Err(SegmentError::NotCacheable(Uncacheable::AddOnMiss));
                    }
                    self.require_key_bits(&mut slicer, step, dependency);
                    dependencies.push(dependency.clone());
                    ReplayOp::Apply { pc: executed.pc, dependency: dependencies.len() as u32 - 1, to }
                }
            };
            replay_ops.push((step, replay_op));
        }
        let end = match (end_step == self.record.steps.len(), self.outcome) {
            (false, _) => SegmentEnd::AtTable(self.tag(last + 1)),
            (true, outcome) => SegmentEnd::EndOfControl { exit: outcome == BlockExit::Exit },
        };
        let replay_ops = self.eliminate_dead_ops(replay_ops, end);
        // `backward_jumps` counts jumps at the step after them. Jumps before the first step belong
        // to the first segment.
        let is_within = |at: usize| at > first_step && at <= end_step || at == 0 && first_step == 0;
        let counted = self.record.backs.iter().filter(|(at, _)| is_within(*at as usize));
        let backward_jumps: u64 = counted.map(|(_, count)| u64::from(*count)).sum();
        // A replay uses the fuel of the recorded execution, so that endless loops end as without a
        // cache.
        let fuel = backward_jumps + dependencies.len() as u64;
        let bits = slicer.mask.iter().map(|(slot, bits)| (*slot, self.match_bits(*slot, bits.mask), bits.value));
        let bits: Vec<(WordIndex, u64, u64)> = bits.filter(|(_, mask, _)| *mask != 0).collect();
        Ok(Segment {
            tag: self.tag(first),
            mask: bits.iter().map(|(slot, mask, _)| (*slot, *mask)).collect(),
            values: bits.iter().map(|(_, mask, value)| value & mask).collect(),
            replay_ops,
            end,
            fuel,
            backward_jumps,
            dependencies: dependencies.into(),
        })
    }

    /// Returns the bits of a slot that a segment matches on, given the bits that decided.
    fn match_bits(&self, slot: WordIndex, mask: u64) -> u64 {
        match (slot >= self.slots().end, mask) {
            (true, mask) => mask & 1,
            (false, 0) => 0,
            (false, _) if self.context.whole_fields => self.context.facts.widths[slot as usize],
            (false, mask) => mask,
        }
    }

    /// Checks that a segment may end after unit `last`. Does not check the instructions of the
    /// segment.
    fn check_cacheable(&self, last: usize) -> Result<(), SegmentError> {
        let is_last = last + 1 == self.unit_count();
        match self.outcome {
            _ if self.record.too_long => Err(SegmentError::NotCacheable(Uncacheable::TooLong)),
            BlockExit::Return | BlockExit::Exit => Ok(()),
            _ if !is_last => Ok(()),
            _ => Err(SegmentError::NotCacheable(Uncacheable::Aborted)),
        }
    }

    /// Returns, for each definition of the steps `from..to` in order, whether it can differ between
    /// packets that have the same state at the start.
    fn tainted_definitions(&self, from: usize, to: usize) -> Vec<bool> {
        let first_def = self.record.steps.get(from).map_or(0, |executed| executed.defs.0 as usize);
        let mut tainted = Vec::new();
        for step in from..to {
            let executed = &self.record.steps[step];
            let is_tainted = match executed.kind {
                ExecutedKind::Live | ExecutedKind::AddEntry => true,
                ExecutedKind::Apply { live, .. } => live,
                ExecutedKind::Decision(_) => false,
                ExecutedKind::Pure | ExecutedKind::Effect => self.record.operands_of(step).iter().any(|operand| {
                    operand.def != NO_DEFINITION
                        && (operand.def as usize) >= first_def
                        && tainted[operand.def as usize - first_def]
                }),
            };
            tainted.extend((executed.defs.0..executed.defs.1).map(|_| is_tainted));
        }
        tainted
    }

    /// Returns whether an operand's value can differ between packets of equal state. `tainted`: the
    /// result of [`RecordedTraversal::tainted_definitions`] from step `from` on.
    fn is_tainted(&self, operand: &RecordedOperand, from: usize, tainted: &[bool]) -> bool {
        let first_def = self.record.steps.get(from).map_or(0, |executed| executed.defs.0 as usize);
        operand.def != NO_DEFINITION && operand.def as usize >= first_def && tainted[operand.def as usize - first_def]
    }

    /// Adds the key bits that decided a lookup to the slice.
    fn require_key_bits(&self, slicer: &mut DependencySlicer<'_>, step: usize, dependency: &LookupDependency) {
        let Op::Apply { index } = self.context.code.ops[self.record.steps[step].pc as usize] else { return };
        let site = &self.context.code.applies[index as usize];
        let operands = self.record.operands_of(step);
        for (word, operand) in key_words(&self.context.wildcard_trackers[site.table], site) {
            slicer.require_bits(&operands[operand], dependency.mask[word]);
        }
    }

    /// Removes the pure instructions with results that nothing reads: no later instruction of the
    /// segment, and no code after its end. Each instruction comes with its step.
    fn eliminate_dead_ops(&self, replay_ops: Vec<(usize, ReplayOp)>, end: SegmentEnd) -> Box<[ReplayOp]> {
        let slots = self.slots();
        // Liveness at the end of the segment, for written slots only.
        let is_live_at_end = |slot: WordIndex| match end {
            _ if slot >= slots.end => true,
            SegmentEnd::AtTable(pc) if slot >= slots.first_value => self.context.live.is_live(pc, slot),
            SegmentEnd::AtTable(_) => true,
            SegmentEnd::EndOfControl { .. } => slot < slots.first_value && !self.context.local[slot as usize],
        };
        // By slot, going backward: whether it is live; `None`: as at the end of the segment.
        let mut live_now: Vec<Option<bool>> = vec![None; slots.total_count()];
        let is_live = |live_now: &[Option<bool>], slot: WordIndex| {
            live_now[slot as usize].unwrap_or_else(|| is_live_at_end(slot))
        };
        let mut kept = Vec::with_capacity(replay_ops.len());
        for (step, replay_op) in replay_ops.into_iter().rev() {
            let executed = &self.record.steps[step];
            let defs = || self.record.definitions_of(step).iter().map(|def| def.slot);
            if executed.kind == ExecutedKind::Pure && !defs().any(|slot| is_live(&live_now, slot)) {
                continue;
            }
            // All state is live here, because the packet can leave the cache at this instruction.
            if matches!(replay_op, ReplayOp::Check { .. })
                || matches!(executed.kind, ExecutedKind::Apply { live: true, .. })
            {
                live_now[slots.first_variable as usize..slots.first_value as usize].fill(Some(true));
                let values =
                    (slots.first_value..slots.end).filter(|slot| self.context.live.is_live(executed.pc, *slot));
                values.for_each(|slot| live_now[slot as usize] = Some(true));
            }
            // A field is written only if its header is valid, so this write does not end liveness.
            let always_writes =
                !matches!(self.context.code.ops[executed.pc as usize], Op::Field1 { .. } | Op::FieldN { .. });
            if executed.kind == ExecutedKind::Pure && always_writes {
                defs().for_each(|slot| live_now[slot as usize] = Some(false));
            }
            // The keys of a table application are recorded. The keys of one with a group are read
            // again, because the member depends on the packet.
            if !matches!(executed.kind, ExecutedKind::Apply { live: false, .. }) {
                slots_in_ranges(&self.context.facts.effects[executed.pc as usize].uses)
                    .for_each(|slot| live_now[slot as usize] = Some(true));
            }
            kept.push(replay_op);
        }
        kept.reverse();
        kept.into()
    }
}

/// Returns, for each word of a table's key, its index in the key and the index of its operand at
/// the application site, where the fields can have another order.
pub fn key_words<'w>(tracker: &'w WildcardTracker, site: &'w ApplySite) -> impl Iterator<Item = (usize, usize)> + 'w {
    tracker.fields_with_offsets().flat_map(|(field, at)| {
        let first: usize = site.keys[..field.position].iter().map(|reg| reg.words as usize).sum();
        (0..field.words).map(move |word| (at + word, first + word))
    })
}
