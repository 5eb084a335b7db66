//! What code that records notes of a packet: see [`crate::record`]. Code that does not record has nothing of it.

use crate::abi::Context;
use crate::code::call::scalar;
use crate::code::registers::trusted;
use crate::code::stage::StageCode;
use crate::plan::lists::{List, Lists};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::I64;
use entries::KeyLayout;
use ir::{Arg, Block, BlockCall, Cfg, ExternFn, Inst, TableId, Term, Value};
use std::mem::offset_of;

impl<'a> StageCode<'a, '_> {
    /// The address of the packet's area, if the code records.
    pub(super) fn find_area(&mut self) {
        let Some(recording) = &self.c.recording else { return };
        let [areas, frames] = [offset_of!(Context, areas), offset_of!(Context, frames)].map(|at| self.of_context(at));
        let distance = self.b.ins().isub(self.frame, frames);
        let stride = self.number(u64::from(self.c.layout.stride));
        let number = self.b.ins().udiv(distance, stride);
        let distance = self.b.ins().imul_imm_s(number, i64::from(recording.lists.stride));
        self.noted = Some(self.b.ins().iadd(areas, distance));
    }

    fn recording(&self) -> Option<(&'a Lists, cl::Value)> {
        Some((&self.c.recording.as_ref()?.lists, self.noted?))
    }

    /// A new place at which there are so many choices: the number of the first.
    pub fn place(&mut self, choices: usize) -> u32 {
        let Some(recording) = &self.c.recording else { return 0 };
        let first = recording.next.get();
        recording.next.set(first + choices as u32);
        first
    }

    /// A certain choice was made.
    pub fn decided(&mut self, choice: u32) {
        let Some((lists, area)) = self.recording() else { return };
        let word = self.number(u64::from(choice));
        self.append(area, lists.decisions, 4, &[word]);
    }

    /// One of two choices at a new place: by a bool, or a number that is 0 or 1.
    pub fn decides(&mut self, by: cl::Value) {
        let Some((lists, area)) = self.recording() else { return };
        let first = self.place(2);
        let by = if self.b.func.dfg.value_type(by) == I64 { by } else { self.b.ins().uextend(I64, by) };
        let word = self.b.ins().iadd_imm_s(by, i64::from(first));
        self.append(area, lists.decisions, 4, &[word]);
    }

    /// For each way out of a block, its choice; `None` if there is nothing to decide. Ways to one block, or through blocks that do nothing, are one choice, but
    /// for ways back and those with arguments.
    pub fn ways(&mut self, from: Block, edges: &[&'a BlockCall]) -> Option<Vec<u32>> {
        self.recording()?;
        let order = Cfg::new(self.body_of(self.control)).reverse_postorder().to_vec();
        let ends: Vec<Option<Block>> = edges.iter().map(|edge| self.end_of(from, edge, &order)).collect();
        let first = |edge: usize| ends[..edge].iter().position(|end| end.is_some() && *end == ends[edge]);
        let choices: Vec<u32> = (0..edges.len()).map(|edge| first(edge).unwrap_or(edge) as u32).collect();
        if choices.iter().all(|choice| *choice == choices[0]) {
            return None;
        }
        let place = self.place(edges.len());
        Some(choices.into_iter().map(|choice| place + choice).collect())
    }

    /// The first block that does something on a way out; `None` for a way that is one of its own.
    fn end_of(&self, mut from: Block, mut edge: &'a BlockCall, order: &[Block]) -> Option<Block> {
        let body = self.body_of(self.control);
        let place = |block: Block| order.iter().position(|other| *other == block);
        loop {
            if !edge.args.is_empty() || place(edge.block) <= place(from) {
                return None;
            }
            let data = &body.blocks[edge.block];
            let idle = data.insts.iter().all(|data| matches!(data.inst, Inst::Const(_)))
                && body.states.iter().all(|state| state.block != edge.block);
            match data.term.as_ref().map(|term| &term.term) {
                Some(Term::Jump(next)) if idle && next.args.is_empty() && place(next.block) > place(edge.block) => {
                    (from, edge) = (edge.block, next);
                }
                _ => return Some(edge.block),
            }
        }
    }

    /// A way out was taken, if that was a decision.
    pub fn took(&mut self, ways: &Option<Vec<u32>>, edge: usize) {
        if let Some(choice) = ways.as_ref().and_then(|ways| ways.get(edge)) {
            self.decided(*choice);
        }
    }

    /// The parser rejects the packet here.
    pub fn rejected(&mut self) {
        let here = self.place(1);
        self.decided(here);
    }

    /// The condition of a selection, or of a call that depends on it.
    pub fn looked_at(&mut self, cond: Value) {
        if self.recording().is_some() {
            let cond = self.value(cond)[0];
            self.decides(cond);
        }
    }

    /// A table is going to be looked up with these keys.
    pub fn asks(&mut self, table: TableId, keys: &[Value]) {
        let Some((lists, area)) = self.recording() else { return };
        let mut words = Vec::new();
        for field in KeyLayout::new(&self.c.pipeline.tables[table].keys).fields {
            let ty = self.value_type(keys[field.position]);
            let regs = self.value(keys[field.position]);
            words.extend(regs.into_iter().map(|reg| self.as_number(ty, reg)));
        }
        self.append(area, lists.keys, 8, &words);
    }

    /// A table without keys is applied.
    pub fn applies(&mut self, table: TableId) {
        let Some((lists, area)) = self.recording() else { return };
        let none = self.number(u64::from(table.0) | u64::from(u32::MAX) << 32);
        self.append(area, lists.applications, 8, &[none]);
    }

    /// An extern is called: what it depends on, and which element of a counter it counts in.
    pub fn calls(&mut self, func: ExternFn, args: &[Arg]) {
        use ExternFn::{
            CounterCount, UpdateChecksum, UpdateChecksumWithPayload, VerifyChecksum, VerifyChecksumWithPayload,
        };
        let Some((lists, area)) = self.recording() else { return };
        match func {
            UpdateChecksum | UpdateChecksumWithPayload | VerifyChecksum | VerifyChecksumWithPayload => {
                self.looked_at(scalar(args, 0));
            }
            CounterCount => {
                let index = self.index(args);
                self.append(area, lists.indices, 8, &[index]);
            }
            _ => {}
        }
    }

    /// Adds items of so many bytes to a list. Of a full one the length stays.
    fn append(&mut self, area: cl::Value, list: List, bytes: u32, items: &[cl::Value]) {
        if items.is_empty() {
            return;
        }
        let count = self.load_small(4, trusted(), area, list.count as i32);
        let offset = self.left(count, bytes.ilog2());
        let place = self.b.ins().iadd(area, offset);
        for (number, item) in items.iter().enumerate() {
            let at = list.at as i32 + number as i32 * bytes as i32;
            match bytes {
                4 => self.b.ins().istore32(trusted(), *item, place, at),
                _ => self.b.ins().store(trusted(), *item, place, at),
            };
        }
        let more = self.b.ins().iadd_imm_s(count, items.len() as i64);
        let full = self.number(u64::from(list.full));
        let more = self.b.ins().umin(more, full);
        self.b.ins().istore32(trusted(), more, area, list.count as i32);
    }
}
