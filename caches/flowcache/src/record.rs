//! [`ExecutionRecord`]: the instructions that the main control executed for one packet, with the
//! definition of each operand.

use crate::effects::{CallKind, Effects, SlotLayout, SlotRange, call_kind, effects, slots_in_ranges};
use interp::block_hook::{BlockCode, BlockExit, BlockStepper, DecodedProgram, InstIndex, Op, StepResult, WordIndex};

/// No definition: the slot has its value from before the record.
pub const NO_DEFINITION: u32 = u32::MAX;

/// Maximum number of recorded instructions. A packet that executes more is not cached.
pub const MAX_STEPS: usize = 16_384;

/// Slot that an instruction read.
#[derive(Clone, Copy, Debug)]
pub struct RecordedOperand {
    /// The slot.
    pub slot: WordIndex,
    /// Index of the definition, or [`NO_DEFINITION`].
    pub def: u32,
    /// Value that was read.
    pub value: u64,
}

/// Slot that an instruction wrote.
#[derive(Clone, Copy, Debug)]
pub struct RecordedDef {
    /// Index of the step.
    pub step: u32,
    /// Index of the word among the words that the step wrote.
    pub word: u32,
    /// The slot.
    pub slot: WordIndex,
    /// Value that was written.
    pub value: u64,
}

/// Kind of an executed instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExecutedKind {
    /// Computation without side effects.
    Pure,
    /// Change of the packet or other state, the same for all packets that execute it.
    Effect,
    /// The results can differ for each packet.
    Live,
    /// The instruction can add a table entry.
    AddEntry,
    /// Decision, with the recorded successor.
    Decision(InstIndex),
    /// Table application. `live`: its results depend on more than the entry (a group's member, a
    /// color).
    Apply {
        /// Number of the entry; `None` for a miss.
        found: Option<u32>,
        /// Recorded successor.
        to: InstIndex,
        /// Whether the results are live.
        live: bool,
    },
}

/// Executed instruction.
#[derive(Clone, Copy, Debug)]
pub struct ExecutedInst {
    /// Program counter.
    pub pc: InstIndex,
    /// Kind.
    pub kind: ExecutedKind,
    /// Range of its operands in [`ExecutionRecord::operands`]: start and end.
    pub operands: (u32, u32),
    /// Range of its results in [`ExecutionRecord::defs`]: start and end.
    pub defs: (u32, u32),
}

/// Record of the main control for one packet.
#[derive(Clone, Debug, Default)]
pub struct ExecutionRecord {
    /// Program counter of the first instruction.
    pub start: InstIndex,
    /// Executed instructions except jumps.
    pub steps: Vec<ExecutedInst>,
    /// Operands of all steps ([`ExecutedInst::operands`]).
    pub operands: Vec<RecordedOperand>,
    /// Definitions of all steps ([`ExecutedInst::defs`]).
    pub defs: Vec<RecordedDef>,
    /// Backward jumps before each table application and before the end: step and number.
    pub backs: Vec<(u32, u32)>,
    /// The packet executed more than [`MAX_STEPS`] instructions.
    pub too_long: bool,
    last_definition: Vec<u32>,
}

/// Static facts of a program for the recorder.
#[derive(Clone, Debug)]
pub struct RecorderFacts {
    /// Layout of the slots.
    pub slots: SlotLayout,
    /// By slot: mask of the bits that it can have.
    pub widths: Vec<u64>,
    /// By slot: it is a constant, because it is no variable and the control does not write it.
    pub constants: Vec<bool>,
    /// Reads and writes of each instruction of the main control.
    pub effects: Vec<Effects>,
    /// By table: results of a hit depend on more than the entry.
    pub live_tables: Vec<bool>,
    /// By table: slots of the variable that a hit writes.
    pub hit_writes: Vec<Option<SlotRange>>,
}

impl RecorderFacts {
    /// Computes the facts of a program with the main control `code`.
    pub fn new(pipeline: &ir::Pipeline, program: &DecodedProgram, code: &BlockCode) -> RecorderFacts {
        let slots = SlotLayout::new(program);
        let hit_writes = |table: &ir::Table| {
            let reg = program.var_regs.get(table.meter_result?.0 as usize)?;
            Some((reg.first_word, reg.words))
        };
        let mut widths = vec![u64::MAX; slots.end as usize];
        for reg in program.var_regs.iter().filter(|reg| !reg.is_varbit && reg.width > 0) {
            // Only the last word of a variable can have unused bits.
            let last = &mut widths[(reg.first_word + reg.words - 1) as usize];
            *last = u64::MAX >> (63 - (reg.width - 1) % 64);
        }
        let effects: Vec<Effects> = code.ops.iter().map(|op| effects(&slots, program, code, op)).collect();
        let mut constants: Vec<bool> =
            (0..slots.total_count() as WordIndex).map(|slot| (slots.first_value..slots.end).contains(&slot)).collect();
        let written = effects.iter().flat_map(|effects| slots_in_ranges(&effects.defs));
        written.for_each(|slot| constants[slot as usize] = false);
        // A table application writes `hit` and the parameters of the arm that it takes.
        for site in &code.applies {
            for (arm, words) in site.arms.iter().zip(&program.arm_words[site.table]) {
                slots_in_ranges(&[(arm.hit, 1), (arm.params, *words)])
                    .for_each(|slot| constants[slot as usize] = false);
            }
        }
        RecorderFacts {
            slots,
            widths,
            constants,
            effects,
            live_tables: pipeline.tables.values().map(|table| table.implementation.is_some()).collect(),
            hit_writes: pipeline.tables.values().map(hit_writes).collect(),
        }
    }
}

/// Returns a slot's value, or a header's validity.
pub fn read_slot(slots: &SlotLayout, stepper: &BlockStepper<'_>, slot: WordIndex) -> u64 {
    match slot.checked_sub(slots.end) {
        None => stepper.reg_words()[slot as usize],
        Some(header) => u64::from(stepper.header_validity()[header as usize]),
    }
}

/// Returns the kind of an instruction that is no decision.
fn classify_instruction(facts: &RecorderFacts, code: &BlockCode, pc: InstIndex, op: &Op) -> ExecutedKind {
    match op {
        Op::Call { index } => match call_kind(&code.calls[*index as usize]) {
            CallKind::Function => ExecutedKind::Pure,
            CallKind::Effect => ExecutedKind::Effect,
            CallKind::Live => ExecutedKind::Live,
            CallKind::AddEntry => ExecutedKind::AddEntry,
        },
        _ if facts.effects[pc as usize].is_pure => ExecutedKind::Pure,
        _ => ExecutedKind::Effect,
    }
}

impl ExecutionRecord {
    fn clear(&mut self, facts: &RecorderFacts, start: InstIndex) {
        self.start = start;
        self.steps.clear();
        self.operands.clear();
        self.defs.clear();
        self.backs.clear();
        self.too_long = false;
        self.last_definition.clear();
        self.last_definition.resize(facts.slots.total_count(), NO_DEFINITION);
    }

    /// Runs the control from `start` to its end and replaces the record.
    pub fn run_control(
        &mut self,
        facts: &RecorderFacts,
        stepper: &mut BlockStepper<'_>,
        start: InstIndex,
    ) -> BlockExit {
        self.clear(facts, start);
        let mut pc = start;
        let mut backs = 0;
        loop {
            match self.execute_instruction(facts, stepper, pc, &mut backs) {
                StepResult::Next(next) => pc = next,
                StepResult::End(outcome) => {
                    self.backs.push((self.steps.len() as u32, backs));
                    return outcome;
                }
            }
        }
    }

    /// Records the operands of an instruction.
    fn record_operands(&mut self, facts: &RecorderFacts, stepper: &BlockStepper<'_>, pc: InstIndex) -> (u32, u32) {
        let first = self.operands.len() as u32;
        for slot in slots_in_ranges(&facts.effects[pc as usize].uses) {
            let value = read_slot(&facts.slots, stepper, slot);
            self.operands.push(RecordedOperand { slot, def: self.last_definition[slot as usize], value });
        }
        (first, self.operands.len() as u32)
    }

    /// Executes the instruction at `pc` and records it with its operands, results and kind. Jumps
    /// are not recorded; `backs` counts the backward jumps since the last table application.
    fn execute_instruction(
        &mut self,
        facts: &RecorderFacts,
        stepper: &mut BlockStepper<'_>,
        pc: InstIndex,
        backs: &mut u32,
    ) -> StepResult {
        let code = stepper.code();
        let op = &code.ops[pc as usize];
        match op {
            Op::Goto { .. } | Op::Return | Op::Exit | Op::Reject => return stepper.step(pc),
            Op::Back { .. } => {
                *backs += 1;
                return stepper.step(pc);
            }
            _ => {}
        }
        if self.steps.len() >= MAX_STEPS {
            self.too_long = true;
            return stepper.step(pc);
        }
        let operands = self.record_operands(facts, stepper, pc);
        if let Op::Apply { index } = op {
            self.backs.push((self.steps.len() as u32, std::mem::take(backs)));
            return self.execute_table_application(facts, stepper, (pc, *index), operands);
        }
        let next = stepper.step(pc);
        let kind = match (op, next) {
            (Op::Branch { .. } | Op::Switch { .. }, StepResult::Next(to)) => ExecutedKind::Decision(to),
            _ => classify_instruction(facts, code, pc, op),
        };
        self.record_instruction(facts, stepper, (pc, kind), operands, &facts.effects[pc as usize].defs);
        next
    }

    /// Applies a table and records it: the entry, the successor, and the slots that were written.
    /// `index`: index of the application site; `operands`: range of the key's operands in the
    /// record.
    fn execute_table_application(
        &mut self,
        facts: &RecorderFacts,
        stepper: &mut BlockStepper<'_>,
        (pc, index): (InstIndex, u32),
        operands: (u32, u32),
    ) -> StepResult {
        let site = &stepper.code().applies[index as usize];
        let found = stepper.lookup(site);
        let next = stepper.apply(site, found, pc);
        let StepResult::Next(to) = next else { return next };
        // The parameters of an arm are contiguous, with the number of words of the action.
        let arm_index = site.arms.iter().position(|arm| arm.pc == to).unwrap_or(0);
        let arm = &site.arms[arm_index];
        let words = stepper.program().arm_words[site.table][arm_index];
        let mut defs = vec![(arm.hit, 1), (arm.params, words)];
        defs.extend(facts.hit_writes[site.table]);
        // The member of a group or the color of a meter, besides the entry.
        let live = facts.live_tables[site.table] || facts.hit_writes[site.table].is_some();
        self.record_instruction(facts, stepper, (pc, ExecutedKind::Apply { found, to, live }), operands, &defs);
        next
    }

    /// Adds a step, and a definition for each slot of `defs`, which the instruction has just
    /// written.
    fn record_instruction(
        &mut self,
        facts: &RecorderFacts,
        stepper: &BlockStepper<'_>,
        (pc, kind): (InstIndex, ExecutedKind),
        operands: (u32, u32),
        defs: &[SlotRange],
    ) {
        let (step, first) = (self.steps.len() as u32, self.defs.len() as u32);
        for (word, slot) in slots_in_ranges(defs).enumerate() {
            let value = read_slot(&facts.slots, stepper, slot);
            self.last_definition[slot as usize] = self.defs.len() as u32;
            self.defs.push(RecordedDef { step, word: word as u32, slot, value });
        }
        self.steps.push(ExecutedInst { pc, kind, operands, defs: (first, self.defs.len() as u32) });
    }

    /// Returns the operands of a step.
    pub fn operands_of(&self, step: usize) -> &[RecordedOperand] {
        let (first, end) = self.steps[step].operands;
        &self.operands[first as usize..end as usize]
    }

    /// Returns the definitions of a step.
    pub fn definitions_of(&self, step: usize) -> &[RecordedDef] {
        let (first, end) = self.steps[step].defs;
        &self.defs[first as usize..end as usize]
    }

    /// Returns the steps that are table applications.
    pub fn table_applications(&self) -> impl Iterator<Item = usize> + '_ {
        self.steps
            .iter()
            .enumerate()
            .filter(|(_, executed)| matches!(executed.kind, ExecutedKind::Apply { .. }))
            .map(|(at, _)| at)
    }
}
