//! [`SymbolicExecutor`]: runs beside the interpreter through all blocks for one packet, and tracks
//! the origin of each value's bits.

use super::NotRewritable;
use super::form::ChecksumCheck;
use super::path_record::PathRecord;
use super::symbolic_value::{
    ActionDataWord, BitOrigins, FIXED, LinearLength, PathConstraints, SymbolicSum, SymbolicValue, symbolic_from_bits,
};
use super::template::{CountedBytes, CounterRef};
use super::tenants::TenantIdBits;
use crate::effects::{Effects, SlotLayout, SlotRange, effects, slots_in_ranges};
use crate::wildcards::WildcardTracker;
use interp::block_hook::{
    BlockCode, BlockExit, BlockHook, BlockStepper, DecodedProgram, InstIndex, Op, Reg, StepResult, WordIndex,
};
use ir::{Arch, ControlKind, Pipeline, TableId};
use std::collections::HashMap;
use std::sync::Arc;

/// Static facts of a program.
#[derive(Debug)]
pub struct ProgramFacts {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) slots: SlotLayout,
    /// Reads and writes of each instruction, by block and instruction.
    effects: Vec<Vec<Effects>>,
    pub(super) wildcard_trackers: Vec<WildcardTracker>,
    /// By table: a packet that misses can add an entry.
    pub(super) adds_on_miss: Vec<bool>,
    /// By slot: the program determines its value.
    literal: Vec<bool>,
    /// Slots of variables of one word, by name.
    variables: HashMap<String, WordIndex>,
}

impl ProgramFacts {
    /// Computes the facts of a program.
    pub fn new(pipeline: &Arc<Pipeline>, program: &DecodedProgram) -> ProgramFacts {
        let slots = SlotLayout::new(program);
        let block_effects = |code: &BlockCode| code.ops.iter().map(|op| effects(&slots, program, code, op)).collect();
        let effects: Vec<Vec<Effects>> = program.codes.iter().map(block_effects).collect();
        // Slots that are no variables and that no instruction writes.
        let mut literal: Vec<bool> = (0..slots.end).map(|slot| slot >= slots.first_value).collect();
        let sites = program.codes.iter().flat_map(|code| &code.applies);
        let arms = sites.flat_map(|site| site.arms.iter().enumerate().map(move |arm| (site.table, arm)));
        let arm_writes = arms
            .flat_map(|(table, (arm_index, arm))| [(arm.hit, 1), (arm.params, program.arm_words[table][arm_index])]);
        let defs = effects.iter().flatten().flat_map(|effects| effects.defs.iter().copied());
        for slot in
            slots_in_ranges(&arm_writes.chain(defs).collect::<Vec<SlotRange>>()).filter(|slot| *slot < slots.end)
        {
            literal[slot as usize] = false;
        }
        let variables =
            program.var_names.iter().zip(&program.var_regs).filter(|(_, reg)| reg.words == 1 && !reg.is_varbit);
        let variables = variables.map(|(name, reg)| (name.to_string(), reg.first_word));
        ProgramFacts {
            pipeline: pipeline.clone(),
            slots,
            effects,
            literal,
            variables: variables.collect(),
            wildcard_trackers: pipeline.tables.values().map(|table| WildcardTracker::new(&table.keys)).collect(),
            adds_on_miss: pipeline.tables.values().map(|table| table.add_on_miss).collect(),
        }
    }

    /// Returns the slot of a variable of at most 64 bits.
    pub fn variable_slot(&self, name: &str) -> Option<WordIndex> {
        self.variables.get(name).copied()
    }
}

/// Output of the deparser.
#[derive(Default)]
pub(super) struct DeparserOutput {
    /// Origin of each bit.
    pub bits: Vec<u16>,
    /// Bit offsets of 16-bit fields that are lengths.
    pub lengths: Vec<(usize, LinearLength)>,
    /// Bit offsets of sums.
    pub sums: Vec<(usize, SymbolicSum, bool)>,
}

/// Symbolic execution of one packet.
pub(super) struct SymbolicExecutor {
    pub facts: Arc<ProgramFacts>,
    pub constraints: PathConstraints,
    pub syms: Vec<SymbolicValue>,
    /// Extracted fields: first bit and width.
    pub fields: Vec<(u32, u32)>,
    /// Path record of the packet.
    pub path_record: PathRecord,
    pub counter_updates: Vec<(CounterRef, CountedBytes)>,
    pub checks: Vec<(SymbolicSum, ChecksumCheck)>,
    /// Sums of `InternetChecksum` objects.
    pub sums: HashMap<usize, SymbolicSum>,
    pub emitted: DeparserOutput,
    /// Number of bits that the parser consumed.
    pub parsed: usize,
    blocks: usize,
    /// Slot of the tenant id, and the position of its bits.
    tenant: Option<WordIndex>,
    pub tenant_bits: Option<TenantIdBits>,
}

impl SymbolicExecutor {
    /// Creates an executor for a packet of these bytes. `tenant`: slot of the tenant id. Literals
    /// are constants of the path; all other slots start as constants of the flow.
    pub fn new(facts: &Arc<ProgramFacts>, bytes: &[u8], tenant: Option<WordIndex>) -> SymbolicExecutor {
        SymbolicExecutor {
            syms: facts
                .literal
                .iter()
                .map(|literal| if *literal { SymbolicValue::Fixed } else { SymbolicValue::Const })
                .collect(),
            facts: facts.clone(),
            constraints: PathConstraints::new(bytes),
            fields: Vec::new(),
            path_record: PathRecord::default(),
            counter_updates: Vec::new(),
            checks: Vec::new(),
            sums: HashMap::new(),
            emitted: DeparserOutput::default(),
            parsed: 0,
            blocks: 0,
            tenant,
            tenant_bits: None,
        }
    }

    /// Returns the origin of a slot's bits, as a constant if all are constrained.
    pub fn origin_of(&self, slot: WordIndex) -> SymbolicValue {
        self.constraints.simplified(self.raw_origin(slot))
    }

    /// Returns the origin of a slot's bits, bit by bit.
    pub fn raw_origin(&self, slot: WordIndex) -> SymbolicValue {
        if slot < self.facts.slots.first_variable || slot >= self.facts.slots.end {
            return SymbolicValue::Const;
        }
        self.syms[slot as usize].clone()
    }

    pub fn set_origin(&mut self, slot: WordIndex, sym: SymbolicValue) {
        if (self.facts.slots.first_variable..self.facts.slots.end).contains(&slot) {
            self.syms[slot as usize] = sym;
        }
    }

    pub fn set_bits(&mut self, slot: WordIndex, bits: BitOrigins) {
        self.set_origin(slot, symbolic_from_bits(bits));
    }

    fn set_constant(&mut self, (first, count): SlotRange) {
        (first..first + count).for_each(|slot| self.set_origin(slot, SymbolicValue::Const));
    }

    /// Constrains these bits of a slot.
    pub fn constrain_slot_bits(&mut self, slot: WordIndex, mask: u64) {
        let sym = self.origin_of(slot);
        self.constraints.constrain_slot_bits(&sym, mask);
    }

    pub fn constrain_register(&mut self, reg: Reg) {
        (reg.first_word..reg.first_word + reg.words).for_each(|slot| self.constrain_slot_bits(slot, u64::MAX));
    }

    /// Sets the origins of the variables that the architecture writes before a block.
    fn begin_block(&mut self, stepper: &BlockStepper<'_>, kind: ControlKind) {
        self.sums.clear();
        let well_known = &stepper.program().well_known;
        let is_first_block = self.blocks == 0;
        self.blocks += 1;
        let mut set = |reg: Option<Reg>, origin: SymbolicValue| {
            if let Some(reg) = reg {
                self.syms[reg.first_word as usize] = origin;
            }
        };
        let length = self.constraints.length as i64;
        let current_value =
            |reg: Option<Reg>| reg.map_or(0, |reg: Reg| stepper.reg_words()[reg.first_word as usize] as i64);
        match self.facts.pipeline.arch {
            Arch::Pna => {
                let block = match kind {
                    ControlKind::PreControl => 0,
                    ControlKind::MainParser => 1,
                    ControlKind::MainControl => 2,
                    _ => return,
                };
                let input = &well_known.pna[block];
                // A cache gets complete packets only, so the excess over a segment is 0 for all of
                // them.
                for reg in [input.input_port, input.parser_error, input.direction, input.pass, input.segment_excess] {
                    set(reg, SymbolicValue::Const);
                }
                set(input.timestamp, SymbolicValue::Live(NotRewritable::Time));
            }
            Arch::V1Model => match kind {
                ControlKind::Parser if is_first_block => {
                    set(well_known.packet_length, SymbolicValue::Length(LinearLength::of_packet(0)));
                    set(well_known.ingress_global_timestamp, SymbolicValue::Live(NotRewritable::Time));
                }
                ControlKind::VerifyChecksum => set(well_known.parser_error, SymbolicValue::Const),
                ControlKind::Ingress => {
                    set(well_known.parser_error, SymbolicValue::Const);
                    set(well_known.checksum_error, SymbolicValue::Const);
                }
                ControlKind::Egress => {
                    for reg in [well_known.egress_port, well_known.egress_spec, well_known.instance_type] {
                        set(reg, SymbolicValue::Const);
                    }
                    let live = SymbolicValue::Live(NotRewritable::Time);
                    set(well_known.enq_timestamp, live.clone());
                    set(well_known.egress_global_timestamp, live);
                    // The length at egress differs from the received one by a constant of the path.
                    let offset = current_value(well_known.packet_length) - length;
                    set(well_known.packet_length, SymbolicValue::Length(LinearLength::of_packet(offset)));
                    self.constraints.bound_length(-offset, i64::MAX);
                }
                _ => {}
            },
        }
    }

    /// Constrains the variables that the architecture reads after a block.
    fn end_block(&mut self, stepper: &BlockStepper<'_>, kind: ControlKind) {
        let well_known = stepper.program().well_known;
        let read_regs: &[Option<Reg>] = match kind {
            ControlKind::Ingress => &[well_known.egress_spec, well_known.mcast_grp],
            ControlKind::Egress => &[well_known.egress_spec],
            _ => &[],
        };
        read_regs.iter().flatten().for_each(|reg| self.constrain_register(*reg));
        if kind == ControlKind::Ingress
            && well_known.mcast_grp.is_some_and(|reg| stepper.reg_words()[reg.first_word as usize] != 0)
        {
            self.constraints.depends_on_values = true;
            self.constraints.fail(NotRewritable::Copies);
        }
        // The drop reason.
        if matches!(kind, ControlKind::Ingress | ControlKind::Egress | ControlKind::MainControl) {
            well_known.drop_reason.iter().for_each(|reg| self.constrain_register(*reg));
        }
        if kind.is_parser() {
            self.parsed = stepper.cursor();
            self.record_tenant_position(stepper);
        }
    }

    /// Executes the instruction at `pc` and tracks the origins of its results. Values that decide
    /// become part of the key. `block`: index of the block in the program. In an operation, `a`,
    /// `c` and `e` are operand slots, `d` is the destination slot, and `h` a header.
    fn execute_instruction(&mut self, stepper: &mut BlockStepper<'_>, block: usize, pc: InstIndex) -> StepResult {
        let code = stepper.code();
        let op = code.ops[pc as usize];
        self.path_record.record_instruction(op, code, stepper.reg_words());
        match op {
            Op::Goto { .. } | Op::Back { .. } | Op::Return | Op::Exit | Op::Reject | Op::State { .. } => {
                stepper.step(pc)
            }
            Op::Branch { c, .. } => {
                self.constrain_slot_bits(c, u64::MAX);
                self.record_decision(stepper.step(pc))
            }
            Op::Switch { index } => {
                self.constrain_register(code.switches[index as usize].value);
                self.record_decision(stepper.step(pc))
            }
            Op::Verify { c, e } => {
                self.constrain_slot_bits(c, u64::MAX);
                self.constrain_slot_bits(e, u64::MAX);
                stepper.step(pc)
            }
            Op::Apply { index } => self.execute_apply(stepper, pc, index),
            Op::Call { index } => self.execute_call(stepper, pc, &code.calls[index as usize]),
            Op::SetValid { .. } | Op::SetInvalid { .. } | Op::Copy { .. } => self.execute_header(stepper, pc, op),
            Op::Extract { h } => self.execute_extract(stepper, pc, h, None),
            Op::ExtractVarbit { h, a } => {
                self.constrain_value(a);
                self.execute_extract(stepper, pc, h, Some(stepper.reg_words()[a as usize]))
            }
            Op::Advance { a } => {
                self.constrain_value(a);
                let bits = stepper.reg_words()[a as usize];
                // The limit is longer than any packet and keeps the sum small.
                self.require_packet_bits(stepper.cursor() as u64 + bits.min(1 << 20));
                stepper.step(pc)
            }
            Op::Lookahead { index } => {
                let (reg, at) = (code.lookaheads[index as usize], stepper.cursor());
                let is_long_enough = self.require_packet_bits(at as u64 + u64::from(reg.width));
                let step = stepper.step(pc);
                if is_long_enough {
                    self.read_packet(reg, at);
                }
                step
            }
            Op::InValueSet { index } => {
                let (result, _, keys) = &code.value_sets[index as usize];
                keys.iter().for_each(|key| self.constrain_register(*key));
                let step = stepper.step(pc);
                self.set_origin(*result, SymbolicValue::Const);
                step
            }
            Op::PacketLength { d } => {
                let step = stepper.step(pc);
                self.set_origin(d, SymbolicValue::Length(LinearLength::of_packet(0)));
                step
            }
            Op::Emit { h } => {
                if stepper.header_validity()[h as usize] {
                    self.execute_emit(stepper, h);
                }
                stepper.step(pc)
            }
            _ => self.execute_compute(stepper, block, pc, op),
        }
    }

    /// Constrains the packet's length so that all packets of the flow have at least `bits` bits, or
    /// all have fewer, as this packet. Returns whether it has them.
    fn require_packet_bits(&mut self, bits: u64) -> bool {
        let has_bits = bits <= self.constraints.length as u64 * 8;
        match has_bits {
            true => self.constraints.bound_length(bits.div_ceil(8) as i64, i64::MAX),
            false => self.constraints.bound_length(0, (bits as i64 - 1) / 8),
        }
        has_bits
    }

    /// Sets the origin of a register's bits to the packet's bits from bit `at` on, the most
    /// significant first.
    fn read_packet(&mut self, reg: Reg, at: usize) {
        // Bit numbers have 16 bits.
        if at + reg.width as usize >= usize::from(FIXED) {
            return self.constraints.fail(NotRewritable::TooDeep);
        }
        for word in 0..reg.words {
            let mut bits = [FIXED; 64];
            for (bit, origin) in bits.iter_mut().enumerate() {
                let bit_index = word * 64 + bit as u32;
                if bit_index < reg.width {
                    *origin = (at + (reg.width - 1 - bit_index) as usize) as u16;
                }
            }
            self.set_bits(reg.first_word + word, bits);
        }
    }

    /// Extracts a header and sets the origins of its fields. `varbit`: number of bits of its
    /// variable-length field. If the packet is too short, only its length is constrained.
    fn execute_extract(
        &mut self,
        stepper: &mut BlockStepper<'_>,
        pc: InstIndex,
        header_index: u32,
        varbit: Option<u64>,
    ) -> StepResult {
        let program = stepper.program();
        let header = &program.headers[header_index as usize];
        let max_varbit_bits = header.varbit.map_or(0, |index| u64::from(header.fields[index].reg.width));
        let varbit_bits = varbit.unwrap_or(0).min(max_varbit_bits);
        let mut bit_offset = stepper.cursor();
        let was_valid = stepper.header_validity().to_vec();
        self.require_packet_bits((bit_offset + header.fixed_bits as usize) as u64 + varbit_bits);
        let step = stepper.step(pc);
        // The parser moves on only if the packet is long enough.
        if stepper.cursor() == bit_offset {
            return step;
        }
        for field in &header.fields {
            let mut reg = field.reg;
            if reg.is_varbit {
                self.set_origin(reg.first_word, SymbolicValue::Const);
                self.set_constant((reg.first_word + 1, reg.words - 1));
                reg = Reg {
                    first_word: reg.first_word + 1,
                    words: (varbit_bits as u32).div_ceil(64),
                    width: varbit_bits as u32,
                    ..reg
                };
            }
            self.fields.push((bit_offset as u32, reg.width));
            self.read_packet(reg, bit_offset);
            bit_offset += reg.width as usize;
        }
        self.clear_invalidated(stepper, &was_valid);
        if self.tenant.is_some_and(|slot| header.fields.iter().any(|field| field.reg.first_word == slot)) {
            self.record_tenant_position(stepper);
        }
        step
    }

    /// Records the position of the tenant id once it is known.
    fn record_tenant_position(&mut self, stepper: &BlockStepper<'_>) {
        if let (Some(slot), None) = (self.tenant, &self.tenant_bits) {
            self.tenant_bits =
                TenantIdBits::new(&self.constraints, &self.raw_origin(slot), stepper.reg_words()[slot as usize]);
        }
    }

    /// Clears the fields of headers that became invalid.
    fn clear_invalidated(&mut self, stepper: &BlockStepper<'_>, was_valid: &[bool]) {
        for (number, header) in stepper.program().headers.iter().enumerate() {
            if was_valid[number] && !stepper.header_validity()[number] {
                let (first, count) = header.word_range;
                (first..first + count).for_each(|slot| self.set_origin(slot, SymbolicValue::Fixed));
            }
        }
    }

    /// Executes a change of a header's validity or a copy of a header, and sets the origins of the
    /// fields that change. The source's origins are read before the step, because the copy can
    /// invalidate the source, if both are members of a union.
    fn execute_header(&mut self, stepper: &mut BlockStepper<'_>, pc: InstIndex, op: Op) -> StepResult {
        let was_valid = stepper.header_validity().to_vec();
        let mut copied = None;
        if let Op::Copy { dst, src } = op
            && was_valid[src as usize]
        {
            let headers = &stepper.program().headers;
            let ((to, count), (from, _)) = (headers[dst as usize].word_range, headers[src as usize].word_range);
            let syms: Vec<SymbolicValue> = (from..from + count).map(|slot| self.raw_origin(slot)).collect();
            copied = Some((to, syms));
        }
        let step = stepper.step(pc);
        self.clear_invalidated(stepper, &was_valid);
        if let Some((to, syms)) = copied {
            syms.into_iter().enumerate().for_each(|(at, sym)| self.set_origin(to + at as WordIndex, sym));
        }
        step
    }

    /// Applies a table: constrains its key, records the application and the counters that it
    /// updates, and makes the action data a constant of the flow. `index`: index of the application
    /// site.
    fn execute_apply(&mut self, stepper: &mut BlockStepper<'_>, pc: InstIndex, index: u32) -> StepResult {
        let site = &stepper.code().applies[index as usize];
        let facts = self.facts.clone();
        let table = &facts.pipeline.tables[TableId(site.table as u32)];
        site.keys.iter().for_each(|key| self.constrain_register(*key));
        if table.implementation.is_some() {
            self.constraints.fail(NotRewritable::Group);
        }
        // In PNA, a call executes a direct meter.
        let has_direct_meter = table.direct_meter.is_some() && facts.pipeline.arch == Arch::V1Model;
        if has_direct_meter || table.meter_result.is_some() {
            self.constraints.fail(NotRewritable::Meter);
        }
        let found = stepper.lookup(site);
        if found.is_none() && table.add_on_miss {
            self.constraints.fail(NotRewritable::AddEntry);
        }
        let application = self.path_record.application_count();
        self.path_record.record_application(&facts.wildcard_trackers[site.table], site, stepper.reg_words(), found);
        let step = stepper.apply(site, found, pc);
        let StepResult::Next(to) = step else { return step };
        self.path_record.record_branch(to);
        let arm_index = site.arms.iter().position(|arm| arm.pc == to).unwrap_or(0);
        let arm = &site.arms[arm_index];
        self.set_constant((arm.hit, 1));
        for word in 0..stepper.program().arm_words[site.table][arm_index] {
            self.set_origin(
                arm.params + word,
                SymbolicValue::ActionData(ActionDataWord { application: application as u32, word }),
            );
        }
        let applied = CounterRef::Applied(TableId(site.table as u32), arm_index as u32, found.is_some());
        self.counter_updates.push((applied, CountedBytes::LENGTH));
        if found.is_some() {
            self.counter_updates.push((CounterRef::Hit(application), CountedBytes::LENGTH));
        }
        step
    }

    /// Executes an instruction without a rule: constrains its operands, and makes its results
    /// constants.
    pub fn execute_opaque(&mut self, block: usize, pc: InstIndex) {
        let facts = self.facts.clone();
        let effects = &facts.effects[block][pc as usize];
        for slot in slots_in_ranges(&effects.uses).filter(|slot| *slot < facts.slots.end) {
            self.constrain_slot_bits(slot, u64::MAX);
        }
        for slot in slots_in_ranges(&effects.defs) {
            self.set_origin(slot, SymbolicValue::Const);
        }
    }

    /// Records the successor of a decision, and returns the step.
    fn record_decision(&mut self, step: StepResult) -> StepResult {
        if let StepResult::Next(to) = step {
            self.path_record.record_branch(to);
        }
        step
    }

    /// Runs the block to its end without symbolic execution.
    fn run_untracked(stepper: &mut BlockStepper<'_>, mut pc: InstIndex) -> BlockExit {
        loop {
            match stepper.step(pc) {
                StepResult::Next(next) => pc = next,
                StepResult::End(outcome) => return outcome,
            }
        }
    }
}

impl BlockHook for SymbolicExecutor {
    fn handles_block(&self, _: ControlKind) -> bool {
        true
    }

    /// Runs a block of the packet under symbolic execution. Once no rewrite is possible, runs the
    /// remaining instructions without tracking.
    fn run(&mut self, stepper: &mut BlockStepper<'_>) -> BlockExit {
        let kind = stepper.code().kind;
        let program = stepper.program();
        let Some(block) = program.code(kind) else { return Self::run_untracked(stepper, 0) };
        if self.constraints.failed.is_none() {
            self.begin_block(stepper, kind);
        }
        let mut pc = 0;
        loop {
            if self.constraints.failed.is_some() {
                return Self::run_untracked(stepper, pc);
            }
            match self.execute_instruction(stepper, block, pc) {
                StepResult::Next(next) => pc = next,
                StepResult::End(outcome) => {
                    if matches!(outcome, BlockExit::Abort(_)) {
                        self.constraints.fail(NotRewritable::Aborted);
                    }
                    self.path_record.record_end(outcome);
                    self.end_block(stepper, kind);
                    return outcome;
                }
            }
        }
    }
}
