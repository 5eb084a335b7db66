//! [`PathRecord`]: minimal record of a packet through all blocks: decisions, table lookups with
//! results, and counter indices. The decisions are the packet's *path*. If its [`super::template`]
//! is known, this record and the resulting packet yield the rewrite.

use super::NotRewritable;
use crate::record::MAX_STEPS;
use crate::wildcards::WildcardTracker;
use interp::block_hook::{
    ApplySite, BlockCode, BlockExit, BlockHook, BlockStepper, CallArg, InstIndex, Op, StepResult, WordIndex,
};
use ir::{ControlKind, Entity, ExternFn};

/// Table application.
#[derive(Clone, Copy, Debug)]
pub struct TableApplication {
    pub table: usize,
    /// Number of the matching entry.
    pub found: Option<u32>,
    /// Index of its first key word.
    first: usize,
}

/// Record of one packet. Its buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct PathRecord {
    decisions: Vec<u32>,
    applications: Vec<TableApplication>,
    keys: Vec<u64>,
    indices: Vec<u64>,
    /// The last table application was a hit.
    found: bool,
    /// More than the maximum number of decisions occurred. Tables and counters are recorded
    /// completely.
    pub too_long: bool,
    /// Reason why the packet cannot be run again: with the state that it has left, or that is not
    /// in the record, it could take another path.
    pub unrepeatable: Option<NotRewritable>,
}

impl PathRecord {
    /// Flag in the decision after a table application: hit.
    const FOUND: u32 = 1 << 31;

    pub fn clear(&mut self) {
        self.decisions.clear();
        self.applications.clear();
        self.keys.clear();
        self.indices.clear();
        (self.found, self.too_long, self.unrepeatable) = (false, false, None);
    }

    /// Copies a record of native code.
    pub fn copy_record(&mut self, record: &jit::PacketRecord<'_>) {
        self.clear();
        self.decisions.extend_from_slice(record.decisions);
        for application in record.lookups {
            let (table, found) = (application.table.index(), application.entry_id);
            self.applications.push(TableApplication { table, found, first: self.keys.len() });
            self.keys.extend_from_slice(record.lookup_key(application));
        }
        self.indices.extend_from_slice(record.indices);
        self.too_long = !record.is_complete;
        self.unrepeatable = record.reads_written_table.then_some(NotRewritable::FlowState);
    }

    /// Returns the decisions, which identify the path.
    pub fn decisions(&self) -> &[u32] {
        &self.decisions
    }

    /// Returns whether `other`, of the same packet, is a prefix of this record; with `is_complete`,
    /// equal to it. `compares_decisions`: compare decisions as well, because both use the same
    /// numbering.
    pub fn is_extension_of(&self, other: &PathRecord, is_complete: bool, compares_decisions: bool) -> bool {
        let same_keys = self.lookups().zip(other.lookups()).all(|(one, other)| one == other);
        let same_results = self
            .applications
            .iter()
            .zip(&other.applications)
            .all(|(one, other)| one.found.is_some() == other.found.is_some());
        let same_counts = self.indices.starts_with(&other.indices);
        let has_all_applications = self.applications.len() >= other.applications.len();
        let same_size =
            self.applications.len() == other.applications.len() && self.indices.len() == other.indices.len();
        let same_decisions = self.decisions.starts_with(&other.decisions)
            && (!is_complete || self.decisions.len() == other.decisions.len());
        same_keys
            && same_results
            && has_all_applications
            && same_counts
            && (!is_complete || same_size)
            && (!compares_decisions || same_decisions)
    }

    fn push_decision(&mut self, decision: u32) {
        match self.decisions.len() < MAX_STEPS {
            true => self.decisions.push(decision),
            false => self.too_long = true,
        }
    }

    /// Records the successor of a decision.
    pub fn record_branch(&mut self, to: InstIndex) {
        let found = if std::mem::take(&mut self.found) { PathRecord::FOUND } else { 0 };
        self.push_decision(to | found);
    }

    /// Records the end of a block.
    pub fn record_end(&mut self, outcome: BlockExit) {
        self.push_decision(match outcome {
            BlockExit::Return => 0,
            BlockExit::Exit => 1,
            BlockExit::Reject => 2,
            BlockExit::Abort(_) => 3,
        });
    }

    /// Returns the number of table applications.
    pub fn application_count(&self) -> usize {
        self.applications.len()
    }

    /// Returns the number of counts.
    pub fn index_count(&self) -> usize {
        self.indices.len()
    }

    /// Returns the counter index of a count.
    pub fn counter_index(&self, count: usize) -> Option<u64> {
        self.indices.get(count).copied()
    }

    /// Returns a table application.
    pub fn application(&self, number: usize) -> Option<TableApplication> {
        self.applications.get(number).copied()
    }

    /// Returns the last application of the table that found this entry.
    pub fn last_hit(&self, table: usize, number: u32) -> Option<usize> {
        self.applications
            .iter()
            .rposition(|application| application.table == table && application.found == Some(number))
    }

    /// Returns the table and key words of each application. All bits of the key decide.
    pub fn lookups(&self) -> impl Iterator<Item = (usize, &[u64])> + '_ {
        let ends = self.applications.iter().skip(1).map(|next| next.first).chain([self.keys.len()]);
        self.applications
            .iter()
            .zip(ends)
            .map(|(application, end)| (application.table, &self.keys[application.first..end]))
    }

    /// Records a table application.
    pub fn record_application(
        &mut self,
        tracker: &WildcardTracker,
        site: &ApplySite,
        slots: &[u64],
        found: Option<u32>,
    ) {
        self.applications.push(TableApplication { table: site.table, found, first: self.keys.len() });
        tracker.push_key(site, slots, &mut self.keys);
        self.found = found.is_some();
    }

    /// Records an instruction without a jump, before it executes. A selection by a value is a
    /// decision as well, and so is the condition of a checksum call. A count is recorded by its
    /// counter index.
    #[inline]
    pub fn record_instruction(&mut self, op: Op, code: &BlockCode, slots: &[u64]) {
        let is_set = |slot: WordIndex| u32::from(slots[slot as usize] != 0);
        match op {
            Op::Select1 { c, .. } | Op::SelectN { c, .. } | Op::Verify { c, .. } => self.push_decision(is_set(c)),
            Op::Call { index } => {
                use ExternFn::{CounterCount, UpdateChecksum, VerifyChecksum};
                let call = &code.calls[index as usize];
                let (Some(CallArg::Value(reg)), CounterCount | UpdateChecksum | VerifyChecksum) =
                    (call.args.first(), call.func)
                else {
                    return;
                };
                if call.func != CounterCount {
                    return self.push_decision(is_set(reg.first_word));
                }
                let exceeds_64_bits = (1..reg.words).any(|word| slots[(reg.first_word + word) as usize] != 0);
                self.indices.push(if exceeds_64_bits { u64::MAX } else { slots[reg.first_word as usize] });
            }
            _ => {}
        }
    }
}

/// Runs all blocks of a packet and records it.
pub struct PathRecorder {
    pub facts: std::sync::Arc<super::ProgramFacts>,
    pub path_record: PathRecord,
}

impl BlockHook for PathRecorder {
    fn handles_block(&self, _: ControlKind) -> bool {
        true
    }

    /// Runs a block as the interpreter does, and records it.
    fn run(&mut self, stepper: &mut BlockStepper<'_>) -> BlockExit {
        let (code, mut pc) = (stepper.code(), 0);
        loop {
            let op = code.ops.get(pc as usize).copied();
            let step = match op {
                Some(Op::Apply { index }) => {
                    let site = &code.applies[index as usize];
                    let found = stepper.lookup(site);
                    if found.is_none() && self.facts.adds_on_miss[site.table] {
                        self.path_record.unrepeatable = Some(NotRewritable::AddEntry);
                    }
                    self.path_record.record_application(
                        &self.facts.wildcard_trackers[site.table],
                        site,
                        stepper.reg_words(),
                        found,
                    );
                    stepper.apply(site, found, pc)
                }
                op => {
                    op.into_iter().for_each(|op| self.path_record.record_instruction(op, code, stepper.reg_words()));
                    stepper.step(pc)
                }
            };
            match step {
                StepResult::Next(to) => pc = to,
                StepResult::End(outcome) => {
                    self.path_record.record_end(outcome);
                    return outcome;
                }
            }
            if let Some(Op::Apply { .. } | Op::Branch { .. } | Op::Switch { .. }) = op {
                self.path_record.record_branch(pc);
            }
        }
    }
}
