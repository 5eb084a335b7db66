//! Table applications: keys before the lookup, choice of the action after it.

use crate::abi::{FrameHeader, SELECTOR_KEY_BYTES};
use crate::analysis::flow::has_lookup;
use crate::analysis::frame_slots::FrameSlot;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::code::annotations::InstRole;
use crate::code::registers::{ValueRegs, steady_flags, trusted_flags};
use crate::code::stage::StageBuilder;
use crate::code::state::ActionParam;
use crate::plan::stages::StageEntry;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{ActionArm, Entity, TableId, Terminator, Type, Value};
use lookup::{SmallTableHash, ValueLayout, ValueParamField};
use packet::EngineReason;
use std::mem::offset_of;

/// Maximum number of actions for a comparison chain; with more, the choice is a jump table.
const MAX_CHAIN_ARMS: usize = 8;

/// Number of bytes that can be read of any value.
const MIN_VALUE_BYTES: u32 = 8;

impl StageBuilder<'_, '_> {
    /// Returns the address of a table's default action value.
    pub fn default_value(&mut self, table: TableId) -> cl::Value {
        let at = self.c.memory.defaults + table.index() as i32 * 8;
        self.b.ins().load(I64, trusted_flags(), self.context, at)
    }

    /// Computes the words of a lookup key.
    pub fn key_words(&mut self, table: TableId, keys: &[Value]) -> ValueRegs {
        let shape = &self.c.table_layouts[table.index()];
        let mut words: Vec<Option<cl::Value>> = vec![None; shape.words];
        for place in &shape.keys {
            let ty = self.value_type(keys[place.position]);
            let regs = self.value(keys[place.position]);
            let (word, shift) = ((place.bit_offset / 64) as usize, place.bit_offset % 64);
            for (index, reg) in regs.iter().enumerate() {
                let number = self.as_number(ty, *reg);
                let number = self.shl_imm(number, shift);
                let Some(to) = words.get_mut(word + index) else { continue };
                *to = Some(match *to {
                    Some(there) => self.b.ins().bor(there, number),
                    None => number,
                });
            }
        }
        words.into_iter().map(|word| word.unwrap_or_else(|| self.b.ins().iconst(I64, 0))).collect()
    }

    /// Looks up a one-word key in place and continues at the action found, if the table has few
    /// entries. The code after it runs if the table has more: the pointer to the slots is then
    /// null.
    pub fn look_up_in_place(&mut self, node: FlowNodeId, table: TableId, key: cl::Value) {
        let pointer_offset = self.c.memory.slots + table.index() as i32 * 8;
        let slots = self.b.ins().load(I64, trusted_flags(), self.context, pointer_offset);
        let [few_entries, many_entries] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(slots, few_entries, &[], many_entries, &[]);
        self.switch_to_sealed(few_entries);
        let factor = self.b.ins().load(I64, steady_flags(), slots, offset_of!(SmallTableHash, factor) as i32);
        let product = self.b.ins().imul(key, factor);
        let slot_index = self.shr_imm(product, SmallTableHash::SHIFT);
        let offset = self.shl_imm(slot_index, size_of::<[u64; 2]>().trailing_zeros());
        let slot = self.b.ins().iadd(slots, offset);
        let first = offset_of!(SmallTableHash, slots) as i32;
        let stored_key = self.b.ins().load(I64, steady_flags(), slot, first);
        let found = self.b.ins().load(I64, steady_flags(), slot, first + 8);
        let hit = self.b.ins().icmp(IntCC::Equal, stored_key, key);
        let default = self.default_value(table);
        let value = self.b.ins().select(hit, found, default);
        self.choose_action(node, table, hit, value);
        self.switch_to_sealed(many_entries);
    }

    /// Writes the lookup key with these words, and leaves the stage for the one after the lookup.
    /// Writes the key of a paired lookup too, and for an action profile the key of its selector.
    pub fn write_key_and_leave(&mut self, node: FlowNodeId, table: TableId, keys: &[Value], words: &[cl::Value]) {
        let next_stage = StageEntry::Table(self.c.plan.flow.stage_node(node), table);
        let table_layout = &self.c.table_layouts[table.index()];
        self.record_lookup(table, keys);
        let queue = self.stage_queue(next_stage);
        let count = self.queue_length(queue);
        self.write_key(words, count, queue.keys);
        self.exit_keys = [words.to_vec(), Vec::new()];
        if let Some(paired) = self.c.plan.flow.paired_lookup(node) {
            // The instructions have no side effect, and so none of them ends the packet.
            for data in &paired.insts {
                let _ = self.translate_inst(&data.inst, &data.results);
            }
            let words = self.key_words(paired.table, &paired.keys);
            self.write_key(&words, count, queue.paired_keys);
            self.exit_keys[1] = words;
        }
        // Only an action profile needs the selector's keys; other queues have no space for them.
        if self.c.pipeline.tables[table].implementation.is_some() && !table_layout.selector_keys.is_empty() {
            let selector_key = self.list_address(count, SELECTOR_KEY_BYTES as i64);
            let mut offset = queue.selector_keys;
            for position in &table_layout.selector_keys {
                let ty = self.value_type(keys[*position]);
                for reg in self.value(keys[*position]) {
                    let number = self.as_number(ty, reg);
                    self.b.ins().store(trusted_flags(), number, selector_key, offset);
                    offset += 8;
                }
            }
        }
        self.leave_for_stage(next_stage, queue, count);
    }

    /// Writes a key with these words into a list, after `count` others.
    fn write_key(&mut self, words: &[cl::Value], count: cl::Value, list: i32) {
        let at = self.list_address(count, words.len() as i64 * 8);
        for (index, word) in words.iter().enumerate() {
            let written = self.b.ins().store(trusted_flags(), *word, at, list + index as i32 * 8);
            self.annotate(written, InstRole::Part);
        }
    }

    /// Continues at the action of the value, with its action data. `value` is the address of the
    /// lookup's value: its first byte is the index of the action. The current node is the one that
    /// applies the table.
    pub fn choose_action(&mut self, node: FlowNodeId, table: TableId, hit: cl::Value, value: cl::Value) {
        let NodeKind::Block(control, block) = self.c.plan.flow.nodes[node] else { return self.finish() };
        self.control = control;
        let Some(Terminator::Apply { arms, .. }) = self.body_of(control).blocks[block].term.as_ref().map(|t| &t.term)
        else {
            return self.finish();
        };
        self.record_entry_hit(table, hit, value);
        let actions = &self.c.pipeline.tables[table].actions;
        let arm_of = |position: usize| arms.iter().find(|arm| arm.action == actions[position].action);
        // A table with a single action needs no choice.
        let [single] = actions.as_slice() else {
            let action_index = self.load_small(1, steady_flags(), value, 0);
            self.reads_value(action_index, MIN_VALUE_BYTES);
            if actions.len() <= MAX_CHAIN_ARMS {
                return self.choose_by_comparisons(
                    table,
                    action_index,
                    &|position| arm_of(position).cloned(),
                    hit,
                    value,
                );
            }
            let mut switch = cranelift_frontend::Switch::new();
            let blocks: Vec<cl::Block> = actions.iter().map(|_| self.b.create_block()).collect();
            for (position, block) in blocks.iter().enumerate() {
                switch.set_entry(position as u128, *block);
            }
            let unknown_action = self.b.create_block();
            self.b.set_cold_block(unknown_action);
            switch.emit(&mut self.b, action_index, unknown_action);
            self.switch_to_sealed(unknown_action);
            self.emit_engine_drop(EngineReason::EngineBug);
            for (position, block) in blocks.iter().enumerate() {
                self.switch_to_sealed(*block);
                self.enter_action(table, position, arm_of(position), hit, value);
            }
            return;
        };
        let _ = single;
        self.enter_action(table, 0, arm_of(0), hit, value);
    }

    /// Emits a chain of comparisons, which is faster than a jump table for few actions.
    fn choose_by_comparisons(
        &mut self,
        table: TableId,
        number: cl::Value,
        arm_of: &dyn Fn(usize) -> Option<ActionArm>,
        hit: cl::Value,
        value: cl::Value,
    ) {
        let count = self.c.pipeline.tables[table].actions.len();
        for position in 0..count {
            let [yes, no] = [(); 2].map(|()| self.b.create_block());
            let same = self.is_constant(number, position as u64, true);
            self.b.ins().brif(same, yes, &[], no, &[]);
            self.switch_to_sealed(yes);
            self.enter_action(table, position, arm_of(position).as_ref(), hit, value);
            self.switch_to_sealed(no);
        }
        self.emit_engine_drop(EngineReason::EngineBug);
    }

    /// Continues at an arm, with `hit` and the action data as block parameters. `position` is the
    /// index of the action in its table. `None`: the action has no arm, which a verified pipeline
    /// excludes.
    fn enter_action(
        &mut self,
        table: TableId,
        position: usize,
        arm: Option<&ActionArm>,
        hit: cl::Value,
        value: cl::Value,
    ) {
        let Some(arm) = arm else { return self.emit_engine_drop(EngineReason::EngineBug) };
        let hit = match self.c.pipeline.tables[table].known_hit(arm.action) {
            Some(is_hit) => self.iconst_bool(is_hit),
            None => hit,
        };
        self.count_action(table, position, hit);
        self.record_branch(hit);
        let table_layout = &self.c.table_layouts[table.index()];
        let params = &self.body_of(self.control).blocks[arm.block].params;
        self.set_value(params[0], &[hit]);
        for (data_offset, param) in table_layout.value.arms[position].iter().zip(&params[1..]) {
            let ty = self.value_type(*param);
            let regs = self.parameter(value, *data_offset, ty, table_layout.value.arm_len_bytes[position] as u32);
            self.set_value(*param, &regs);
        }
        self.continue_at_block(arm.block);
    }

    /// Counts the action in the statistics.
    fn count_action(&mut self, table: TableId, position: usize, hit: cl::Value) {
        let looked_up =
            has_lookup(self.c.pipeline, table).then(|| self.c.plan.slot(StageEntry::Table(self.node, table)));
        let cell = self.c.stats_layout.cell(looked_up, table, position);
        let hit = self.b.ins().uextend(I64, hit);
        let at = self.list_address(hit, size_of::<u64>() as i64);
        let offset = self.c.memory.stats + (cell * size_of::<u64>()) as i32;
        let more = self.load_frame_header(offset_of!(FrameHeader, input.metered_len), 8);
        let before = self.b.ins().load(I64, trusted_flags(), at, offset);
        let after = self.b.ins().iadd(before, more);
        let added = self.b.ins().store(trusted_flags(), after, at, offset);
        self.annotate(added, InstRole::Tally { cell, hit, more });
    }

    /// Loads an action parameter from a value.
    fn parameter(&mut self, value: cl::Value, place: ValueParamField, ty: Type, len: u32) -> ValueRegs {
        if ty == Type::Bool {
            let read = self.b.ins().load(cranelift_codegen::ir::types::I8, steady_flags(), value, place.offset as i32);
            self.reads_value(read, len);
            return vec![read];
        }
        let bytes = place.width.div_ceil(8);
        let mut regs = ValueRegs::new();
        for word in 0..entries::words_for(place.width) as u32 {
            let at = place.offset as u32 + word * 8;
            regs.push(self.load_little_endian(value, at, (bytes - (word * 8).min(bytes)).min(8), len));
        }
        if let ([reg], 3 | 5..=7) = (&*regs, bytes)
            && place.width.is_multiple_of(8)
        {
            self.params.insert(*reg, ActionParam { value, len, at: place.offset as u32, bytes });
        }
        regs
    }

    /// Loads a little-endian number of `bytes` bytes at `offset` of a value of `len` bytes.
    /// Loads of other sizes than a power of two are split.
    fn load_little_endian(&mut self, base: cl::Value, offset: u32, bytes: u32, len: u32) -> cl::Value {
        let offset = offset as i32;
        match bytes {
            0 => self.iconst_u64(0),
            1 | 2 | 4 | 8 => {
                let read = match bytes {
                    8 => self.b.ins().load(I64, steady_flags(), base, offset),
                    _ => self.load_small(bytes, steady_flags(), base, offset),
                };
                self.reads_value(read, len);
                read
            }
            bytes => {
                let first = if bytes > 4 { 4 } else { 2 };
                let low = self.load_little_endian(base, offset as u32, first, len);
                let high = self.load_little_endian(base, offset as u32 + first, bytes - first, len);
                let high = self.shl_imm(high, first * 8);
                self.b.ins().bor(low, high)
            }
        }
    }

    /// Annotates a load from a table's value of `len` bytes.
    pub(super) fn reads_value(&mut self, read: cl::Value, len: u32) {
        let dfg = &self.b.func.dfg;
        let made = |value: cl::Value| dfg.value_def(dfg.resolve_aliases(value)).inst();
        // A load of a narrow number is extended by a second instruction.
        let Some(last) = made(read) else { return };
        let first = match dfg.insts[last] {
            cl::InstructionData::Unary { opcode: cl::Opcode::Uextend, arg } => made(arg),
            _ => Some(last),
        };
        if let Some(inst) = first {
            self.annotate(inst, InstRole::Value(len));
        }
    }

    /// Records the entry that was hit, and counts it where the architecture requires that.
    fn record_entry_hit(&mut self, table: TableId, hit: cl::Value, value: cl::Value) {
        if !self.c.needs_hit_entries[table.index()] {
            return;
        }
        let number = match self.c.packet_written[table.index()] {
            true => self.found_record(),
            false => {
                let number = self.load_small(4, steady_flags(), value, ValueLayout::ENTRY_ID as i32);
                self.reads_value(number, MIN_VALUE_BYTES);
                number
            }
        };
        let number = self.b.ins().iadd_imm_s(number, 1);
        let zero = self.iconst_u64(0);
        let number = self.b.ins().select(hit, number, zero);
        self.set_slot(FrameSlot::HitEntry(table), number);
        if self.c.reports_hits[table.index()] {
            let entry = self.b.ins().iadd_imm_s(number, -1);
            self.report_hit(table, hit, entry);
        }
    }
}
