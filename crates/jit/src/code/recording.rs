//! Recording of packets, see [`crate::record`]. All functions emit nothing if the code does not
//! record.

use crate::abi::StageContext;
use crate::code::call::scalar_arg;
use crate::code::registers::trusted_flags;
use crate::code::stage::StageBuilder;
use crate::plan::record_layout::{RecordLayout, RecordList};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::I64;
use entries::KeyLayout;
use ir::{Block, BlockCall, Cfg, ExternArg, ExternFn, Inst, TableId, Terminator, Value};
use std::mem::offset_of;

impl<'a> StageBuilder<'a, '_> {
    /// Computes the address of the packet's record buffer.
    pub(super) fn compute_record_address(&mut self) {
        let Some(recording) = &self.c.recording else { return };
        let [areas, frames] = [offset_of!(StageContext, record_buffers), offset_of!(StageContext, frames)]
            .map(|at| self.load_context_ptr(at));
        let distance = self.b.ins().isub(self.frame, frames);
        let stride = self.iconst_u64(u64::from(self.c.layout.stride));
        let number = self.b.ins().udiv(distance, stride);
        let distance = self.b.ins().imul_imm_s(number, i64::from(recording.lists.stride));
        self.record_addr = Some(self.b.ins().iadd(areas, distance));
    }

    fn recording(&self) -> Option<(&'a RecordLayout, cl::Value)> {
        Some((&self.c.recording.as_ref()?.lists, self.record_addr?))
    }

    /// Allocates decision numbers for a branch with `choices` outcomes; returns the first.
    pub fn new_decisions(&mut self, choices: usize) -> u32 {
        let Some(recording) = &self.c.recording else { return 0 };
        let first = recording.next.get();
        recording.next.set(first + choices as u32);
        first
    }

    /// Records a fixed decision.
    pub fn record_decision(&mut self, choice: u32) {
        let Some((lists, area)) = self.recording() else { return };
        let word = self.iconst_u64(u64::from(choice));
        self.append_record_items(area, lists.decisions, 4, &[word]);
    }

    /// Records the outcome of a new two-way branch: a bool, or a number that is 0 or 1.
    pub fn record_branch(&mut self, by: cl::Value) {
        let Some((lists, area)) = self.recording() else { return };
        let first = self.new_decisions(2);
        let by = if self.b.func.dfg.value_type(by) == I64 { by } else { self.b.ins().uextend(I64, by) };
        let word = self.b.ins().iadd_imm_s(by, i64::from(first));
        self.append_record_items(area, lists.decisions, 4, &[word]);
    }

    /// Allocates a decision for each edge out of a block; `None` if there is nothing to decide.
    /// Edges to the same block, directly or through empty blocks, share a decision, except for back
    /// edges and edges with arguments.
    pub fn edge_decisions(&mut self, from: Block, edges: &[&'a BlockCall]) -> Option<Vec<u32>> {
        self.recording()?;
        let order = Cfg::new(self.body_of(self.control)).reverse_postorder().to_vec();
        let ends: Vec<Option<Block>> = edges.iter().map(|edge| self.final_block(from, edge, &order)).collect();
        let first = |edge: usize| ends[..edge].iter().position(|end| end.is_some() && *end == ends[edge]);
        let choices: Vec<u32> = (0..edges.len()).map(|edge| first(edge).unwrap_or(edge) as u32).collect();
        if choices.iter().all(|choice| *choice == choices[0]) {
            return None;
        }
        let place = self.new_decisions(edges.len());
        Some(choices.into_iter().map(|choice| place + choice).collect())
    }

    /// Returns the first non-empty block on an edge; `None` for an edge that has a decision of its
    /// own: one with arguments, or one backwards in `order`.
    fn final_block(&self, mut from: Block, mut edge: &'a BlockCall, order: &[Block]) -> Option<Block> {
        let body = self.body_of(self.control);
        let position = |block: Block| order.iter().position(|other| *other == block);
        loop {
            if !edge.args.is_empty() || position(edge.block) <= position(from) {
                return None;
            }
            let data = &body.blocks[edge.block];
            let is_empty = data.insts.iter().all(|data| matches!(data.inst, Inst::Const(_)))
                && body.states.iter().all(|state| state.block != edge.block);
            match data.term.as_ref().map(|term| &term.term) {
                Some(Terminator::Jump(next))
                    if is_empty && next.args.is_empty() && position(next.block) > position(edge.block) =>
                {
                    (from, edge) = (edge.block, next);
                }
                _ => return Some(edge.block),
            }
        }
    }

    /// Records that an edge was taken, if it has a decision.
    pub fn record_edge(&mut self, decisions: &Option<Vec<u32>>, edge: usize) {
        if let Some(choice) = decisions.as_ref().and_then(|decisions| decisions.get(edge)) {
            self.record_decision(*choice);
        }
    }

    /// Records that the parser rejects the packet here.
    pub fn record_rejection(&mut self) {
        let here = self.new_decisions(1);
        self.record_decision(here);
    }

    /// Records the condition of a selection, or of a call that depends on it.
    pub fn record_condition(&mut self, cond: Value) {
        if self.recording().is_some() {
            let cond = self.value(cond)[0];
            self.record_branch(cond);
        }
    }

    /// Records a lookup with these keys.
    pub fn record_lookup(&mut self, table: TableId, keys: &[Value]) {
        let Some((lists, area)) = self.recording() else { return };
        let mut words = Vec::new();
        for field in KeyLayout::new(&self.c.pipeline.tables[table].keys).fields {
            let ty = self.value_type(keys[field.position]);
            let regs = self.value(keys[field.position]);
            words.extend(regs.into_iter().map(|reg| self.as_number(ty, reg)));
        }
        self.append_record_items(area, lists.keys, 8, &words);
    }

    /// Records the application of a table without keys.
    pub fn record_keyless_lookup(&mut self, table: TableId) {
        let Some((lists, area)) = self.recording() else { return };
        let none = self.iconst_u64(u64::from(table.0) | u64::from(u32::MAX) << 32);
        self.append_record_items(area, lists.lookups, 8, &[none]);
    }

    /// Records the condition that an extern call depends on, and the counter index.
    pub fn record_extern_call(&mut self, func: ExternFn, args: &[ExternArg]) {
        use ExternFn::{
            CounterCount, UpdateChecksum, UpdateChecksumWithPayload, VerifyChecksum, VerifyChecksumWithPayload,
        };
        let Some((lists, area)) = self.recording() else { return };
        match func {
            UpdateChecksum | UpdateChecksumWithPayload | VerifyChecksum | VerifyChecksumWithPayload => {
                self.record_condition(scalar_arg(args, 0));
            }
            CounterCount => {
                let index = self.index_argument(args);
                self.append_record_items(area, lists.indices, 8, &[index]);
            }
            _ => {}
        }
    }

    /// Appends items of `bytes` bytes to a list. The length of a full list does not change.
    fn append_record_items(&mut self, area: cl::Value, list: RecordList, bytes: u32, items: &[cl::Value]) {
        if items.is_empty() {
            return;
        }
        let count = self.load_small(4, trusted_flags(), area, list.count as i32);
        let offset = self.shl_imm(count, bytes.ilog2());
        let place = self.b.ins().iadd(area, offset);
        for (number, item) in items.iter().enumerate() {
            let at = list.at as i32 + number as i32 * bytes as i32;
            match bytes {
                4 => self.b.ins().istore32(trusted_flags(), *item, place, at),
                _ => self.b.ins().store(trusted_flags(), *item, place, at),
            };
        }
        let more = self.b.ins().iadd_imm_s(count, items.len() as i64);
        let full = self.iconst_u64(u64::from(list.full_len));
        let more = self.b.ins().umin(more, full);
        self.b.ins().istore32(trusted_flags(), more, area, list.count as i32);
    }
}
