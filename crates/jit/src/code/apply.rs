//! Table applications: the keys in front, the choice of the action behind.

use crate::abi::{AUX_BYTES, Head};
use crate::analysis::cells::Cell;
use crate::analysis::flow::is_cut;
use crate::analysis::node::{Node, Step};
use crate::code::registers::{Regs, steady, trusted};
use crate::code::stage::StageCode;
use crate::code::state::Parameter;
use crate::code::told::Mark;
use crate::plan::stages::Start;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{Arm, Entity, TableId, Term, Type, Value};
use lookup::{ParamPlace, Slots, ValueLayout};
use packet::EngineReason;
use std::mem::offset_of;

/// From more actions on, the choice is a jump through a table.
const FEW_ARMS: usize = 8;

/// So many bytes of any value may be read.
const SHORTEST_VALUE: u32 = 8;

impl StageCode<'_, '_> {
    /// The value bytes of a table's default action.
    pub fn default_value(&mut self, table: TableId) -> cl::Value {
        let at = self.c.memory.defaults + table.index() as i32 * 8;
        self.b.ins().load(I64, trusted(), self.context, at)
    }

    /// The words of a lookup key.
    pub fn key_words(&mut self, table: TableId, keys: &[Value]) -> Regs {
        let shape = &self.c.shapes[table.index()];
        let mut words: Vec<Option<cl::Value>> = vec![None; shape.words];
        for place in &shape.keys {
            let ty = self.value_type(keys[place.position]);
            let regs = self.value(keys[place.position]);
            let (word, shift) = ((place.bit / 64) as usize, place.bit % 64);
            for (index, reg) in regs.iter().enumerate() {
                let number = self.as_number(ty, *reg);
                let number = self.left(number, shift);
                let Some(to) = words.get_mut(word + index) else { continue };
                *to = Some(match *to {
                    Some(there) => self.b.ins().bor(there, number),
                    None => number,
                });
            }
        }
        words.into_iter().map(|word| word.unwrap_or_else(|| self.b.ins().iconst(I64, 0))).collect()
    }

    /// Looks up a key of one word, and goes on at the action that was found, if the table's entries are a handful. What follows is for the time when they are not.
    pub fn look_up(&mut self, node: Node, table: TableId, key: cl::Value) {
        let at = self.c.memory.slots + table.index() as i32 * 8;
        let slots = self.b.ins().load(I64, trusted(), self.context, at);
        let [few, many] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(slots, few, &[], many, &[]);
        self.enter(few);
        let factor = self.b.ins().load(I64, steady(), slots, offset_of!(Slots, factor) as i32);
        let product = self.b.ins().imul(key, factor);
        let number = self.right(product, Slots::SHIFT);
        let offset = self.left(number, size_of::<[u64; 2]>().trailing_zeros());
        let slot = self.b.ins().iadd(slots, offset);
        let first = offset_of!(Slots, slots) as i32;
        let there = self.b.ins().load(I64, steady(), slot, first);
        let found = self.b.ins().load(I64, steady(), slot, first + 8);
        let hit = self.b.ins().icmp(IntCC::Equal, there, key);
        let default = self.default_value(table);
        let value = self.b.ins().select(hit, found, default);
        self.choose_action(node, table, hit, value);
        self.enter(many);
    }

    /// Writes the lookup key, of these words, and leaves the stage.
    pub fn leave_for_lookup(&mut self, node: Node, table: TableId, keys: &[Value], words: &[cl::Value]) {
        let site = Start::Site(self.c.plan.flow.site(node), table);
        let shape = &self.c.shapes[table.index()];
        self.asks(table, keys);
        let queue = self.queue(site);
        let count = self.waiting_at(queue);
        self.write_key(words, count, queue.keys);
        self.leaving_with = [words.to_vec(), Vec::new()];
        if let Some(companion) = self.c.plan.flow.together(node) {
            // They leave no mark, and so no packet's way ends there.
            for data in &companion.insts {
                let _ = self.inst(&data.inst, &data.results);
            }
            let words = self.key_words(companion.table, &companion.keys);
            self.write_key(&words, count, queue.together);
            self.leaving_with[1] = words;
        }
        // Only a profile's entries ask for a selector's keys: without one there is no room for them.
        if self.c.pipeline.tables[table].implementation.is_some() && !shape.selector.is_empty() {
            let aux = self.of_list(count, AUX_BYTES as i64);
            let mut at = queue.aux;
            for position in &shape.selector {
                let ty = self.value_type(keys[*position]);
                for reg in self.value(keys[*position]) {
                    let number = self.as_number(ty, reg);
                    self.b.ins().store(trusted(), number, aux, at);
                    at += 8;
                }
            }
        }
        self.leave_for(site, queue, count);
    }

    /// Writes a key of these words into a list, behind so many others.
    fn write_key(&mut self, words: &[cl::Value], count: cl::Value, list: i32) {
        let at = self.of_list(count, words.len() as i64 * 8);
        for (index, word) in words.iter().enumerate() {
            let written = self.b.ins().store(trusted(), *word, at, list + index as i32 * 8);
            self.mark(written, Mark::Part);
        }
    }

    /// Goes on at the action that the value names, with its parameters. The present node is the one that applies the table.
    pub fn choose_action(&mut self, node: Node, table: TableId, hit: cl::Value, value: cl::Value) {
        let Step::Block(control, block) = self.c.plan.flow.nodes[node] else { return self.finish() };
        self.control = control;
        let Some(Term::Apply { arms, .. }) = self.body_of(control).blocks[block].term.as_ref().map(|t| &t.term) else {
            return self.finish();
        };
        self.note_hit(table, hit, value);
        let listed = &self.c.pipeline.tables[table].actions;
        let arm_of = |position: usize| arms.iter().find(|arm| arm.action == listed[position].action);
        let [single] = listed.as_slice() else {
            let number = self.load_small(1, steady(), value, 0);
            self.reads_value(number, SHORTEST_VALUE);
            if listed.len() <= FEW_ARMS {
                return self.choose_in_turn(table, number, &|position| arm_of(position).cloned(), hit, value);
            }
            let mut switch = cranelift_frontend::Switch::new();
            let blocks: Vec<cl::Block> = listed.iter().map(|_| self.b.create_block()).collect();
            for (position, block) in blocks.iter().enumerate() {
                switch.set_entry(position as u128, *block);
            }
            let otherwise = self.b.create_block();
            self.b.set_cold_block(otherwise);
            switch.emit(&mut self.b, number, otherwise);
            self.enter(otherwise);
            self.give_up(EngineReason::EngineFault);
            for (position, block) in blocks.iter().enumerate() {
                self.enter(*block);
                self.enter_action(table, position, arm_of(position), hit, value);
            }
            return;
        };
        let _ = single;
        self.enter_action(table, 0, arm_of(0), hit, value);
    }

    /// A chain of comparisons: for a few actions it is faster than a jump through a table.
    fn choose_in_turn(
        &mut self,
        table: TableId,
        number: cl::Value,
        arm_of: &dyn Fn(usize) -> Option<Arm>,
        hit: cl::Value,
        value: cl::Value,
    ) {
        let count = self.c.pipeline.tables[table].actions.len();
        for position in 0..count {
            let [yes, no] = [(); 2].map(|()| self.b.create_block());
            let same = self.is_constant(number, position as u64, true);
            self.b.ins().brif(same, yes, &[], no, &[]);
            self.enter(yes);
            self.enter_action(table, position, arm_of(position).as_ref(), hit, value);
            self.enter(no);
        }
        self.give_up(EngineReason::EngineFault);
    }

    /// Whether the action at a position is always that of an entry that was found, or never.
    fn always_hits(&self, table: TableId, position: usize) -> Option<bool> {
        let table = &self.c.pipeline.tables[table];
        let action = &table.actions[position];
        let never_default = table.const_default && table.default_action.action != action.action;
        match (action.default_only, action.table_only || never_default) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        }
    }

    fn enter_action(&mut self, table: TableId, position: usize, arm: Option<&Arm>, hit: cl::Value, value: cl::Value) {
        let Some(arm) = arm else { return self.give_up(EngineReason::EngineFault) };
        let hit = match self.always_hits(table, position) {
            Some(always) => self.truth(always),
            None => hit,
        };
        self.count_action(table, position, hit);
        self.decides(hit);
        let shape = &self.c.shapes[table.index()];
        let params = &self.body_of(self.control).blocks[arm.block].params;
        self.set_value(params[0], &[hit]);
        for (place, param) in shape.value.arms[position].iter().zip(&params[1..]) {
            let ty = self.value_type(*param);
            let regs = self.parameter(value, *place, ty, shape.value.lens[position] as u32);
            self.set_value(*param, &regs);
        }
        self.go_to(arm.block);
    }

    /// Counts the action for whoever asks what the program does with its traffic.
    fn count_action(&mut self, table: TableId, position: usize, hit: cl::Value) {
        let looked_up = is_cut(self.c.pipeline, table).then(|| self.c.plan.slot(Start::Site(self.node, table)));
        let cell = self.c.places.cell(looked_up, table, position);
        let hit = self.b.ins().uextend(I64, hit);
        let at = self.of_list(hit, size_of::<u64>() as i64);
        let offset = self.c.memory.tally + (cell * size_of::<u64>()) as i32;
        let more = self.head(offset_of!(Head, arrival.counted), 8);
        let before = self.b.ins().load(I64, trusted(), at, offset);
        let after = self.b.ins().iadd(before, more);
        let added = self.b.ins().store(trusted(), after, at, offset);
        self.mark(added, Mark::Tally { cell, hit, more });
    }

    /// Reads an action's parameter from a value.
    fn parameter(&mut self, value: cl::Value, place: ParamPlace, ty: Type, len: u32) -> Regs {
        if ty == Type::Bool {
            let read = self.b.ins().load(cranelift_codegen::ir::types::I8, steady(), value, place.offset as i32);
            self.reads_value(read, len);
            return vec![read];
        }
        let bytes = place.width.div_ceil(8);
        let mut regs = Regs::new();
        for word in 0..entries::words_for(place.width) as u32 {
            let at = place.offset as u32 + word * 8;
            regs.push(self.little(value, at, (bytes - (word * 8).min(bytes)).min(8), len));
        }
        if let ([reg], 3 | 5..=7) = (&*regs, bytes)
            && place.width.is_multiple_of(8)
        {
            self.params.insert(*reg, Parameter { value, len, at: place.offset as u32, bytes });
        }
        regs
    }

    /// A number of so many bytes of a value, least significant first. The value is `len` bytes long.
    fn little(&mut self, base: cl::Value, at: u32, bytes: u32, len: u32) -> cl::Value {
        let at = at as i32;
        match bytes {
            0 => self.number(0),
            1 | 2 | 4 | 8 => {
                let read = match bytes {
                    8 => self.b.ins().load(I64, steady(), base, at),
                    _ => self.load_small(bytes, steady(), base, at),
                };
                self.reads_value(read, len);
                read
            }
            more => {
                let first = if more > 4 { 4 } else { 2 };
                let low = self.little(base, at as u32, first, len);
                let high = self.little(base, at as u32 + first, more - first, len);
                let high = self.left(high, first * 8);
                self.b.ins().bor(low, high)
            }
        }
    }

    /// Says that a number was read of a table's value of so many bytes.
    pub(super) fn reads_value(&mut self, read: cl::Value, len: u32) {
        let dfg = &self.b.func.dfg;
        let made = |value: cl::Value| dfg.value_def(dfg.resolve_aliases(value)).inst();
        // A number that is read in two steps is extended by the second.
        let Some(last) = made(read) else { return };
        let first = match dfg.insts[last] {
            cl::InstructionData::Unary { opcode: cl::Opcode::Uextend, arg } => made(arg),
            _ => Some(last),
        };
        if let Some(inst) = first {
            self.mark(inst, Mark::Value(len));
        }
    }

    /// Remembers which entry was hit, and counts where the architecture does that.
    fn note_hit(&mut self, table: TableId, hit: cl::Value, value: cl::Value) {
        if !self.c.keeps_hits[table.index()] {
            return;
        }
        let number = self.load_small(4, steady(), value, ValueLayout::ENTRY_ID as i32);
        self.reads_value(number, SHORTEST_VALUE);
        let number = self.b.ins().iadd_imm_s(number, 1);
        let zero = self.number(0);
        let number = self.b.ins().select(hit, number, zero);
        self.set_cell(Cell::Hit(table), number);
        if self.c.notes_hits[table.index()] {
            let entry = self.b.ins().iadd_imm_s(number, -1);
            self.tell_hit(table, hit, entry);
        }
    }
}
