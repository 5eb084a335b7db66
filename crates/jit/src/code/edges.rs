//! Edges out of a node: to other nodes of its stage, to other stages, to the next packet.

use crate::analysis::flow::has_lookup;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::code::registers::ValueRegs;
use crate::code::stage::StageBuilder;
use crate::plan::stages::{StageEntry, is_paired_result, stage_at};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode};
use fixedbitset::FixedBitSet;
use ir::{Block, BlockCall, Const, Terminator, Value};
use packet::EngineReason;

impl<'a> StageBuilder<'a, '_> {
    /// Emits the terminator of a block.
    /// A branch with a constant condition becomes a jump. Code that records notes the edge taken.
    pub(super) fn emit_terminator(&mut self, node: FlowNodeId, term: &'a Terminator) {
        let NodeKind::Block(_, block) = self.c.plan.flow.nodes[node] else { return self.finish() };
        match term {
            Terminator::Jump(call) => self.emit_jump(call),
            Terminator::Branch { cond, then, els } => {
                let decisions = self.edge_decisions(block, &[then, els]);
                let cond = self.value(*cond)[0];
                if let Some(constant) = self.constant_of(cond) {
                    self.record_edge(&decisions, usize::from(constant == 0));
                    return self.emit_jump(if constant != 0 { then } else { els });
                }
                let [on_true, on_false] = [(); 2].map(|()| self.b.create_block());
                self.emit_branch(cond, (on_true, self.leaves_hot_path(then)), (on_false, self.leaves_hot_path(els)));
                self.switch_to_sealed(on_true);
                self.record_edge(&decisions, 0);
                self.emit_jump(then);
                self.switch_to_sealed(on_false);
                self.record_edge(&decisions, 1);
                self.emit_jump(els);
            }
            Terminator::Switch { value, cases, default } => {
                let edges: Vec<&BlockCall> = cases.iter().map(|(_, edge)| edge).chain([default]).collect();
                let decisions = self.edge_decisions(block, &edges);
                self.emit_switch(*value, cases, default, &decisions);
            }
            Terminator::Apply { table, .. } if is_paired_result(&self.c.plan.flow, self.start, node) => {
                self.continue_with_paired_result(node, *table)
            }
            Terminator::Apply { table, keys, .. } => match has_lookup(self.c.pipeline, *table) {
                true => {
                    let words = self.key_words(*table, keys);
                    if self.c.plan.flow.looks_up_in_place(node) {
                        self.look_up_in_place(node, *table, words[0]);
                    }
                    self.write_key_and_leave(node, *table, keys, &words);
                }
                false => {
                    self.record_keyless_lookup(*table);
                    let miss = self.iconst_bool(false);
                    let value = self.default_value(*table);
                    self.choose_action(node, *table, miss, value);
                }
            },
            Terminator::Return | Terminator::Exit | Terminator::Reject => {
                if !self.finish_without_deparser() {
                    self.return_from_body();
                }
            }
        }
    }

    /// Returns whether an edge leaves the hot path.
    fn leaves_hot_path(&self, call: &BlockCall) -> bool {
        let flow = &self.c.plan.flow;
        flow.restarts_on_exit_from(self.node)
            && flow.block_node(self.node, call.block).is_some_and(|next| !flow.is_on_hot_path(next))
    }

    /// Emits a branch; the bool of each side is true if it leaves the hot path. Conditions that
    /// leave the hot path become separate branches, because such branches are well predicted and
    /// need no combined condition.
    pub(super) fn emit_branch(&mut self, cond: cl::Value, on_true: (cl::Block, bool), on_false: (cl::Block, bool)) {
        let parts = match self.defining_inst(cond) {
            Some(InstructionData::Binary { opcode: Opcode::Bor, args }) if on_true.1 => Some((args, true)),
            Some(InstructionData::Binary { opcode: Opcode::Band, args }) if on_false.1 => Some((args, false)),
            _ => None,
        };
        let Some(([one, other], either)) = parts else {
            self.b.ins().brif(cond, on_true.0, &[], on_false.0, &[]);
            return;
        };
        let next = self.b.create_block();
        match either {
            true => self.emit_branch(one, on_true, (next, false)),
            false => self.emit_branch(one, (next, false), on_false),
        }
        self.switch_to_sealed(next);
        self.emit_branch(other, on_true, on_false);
    }

    /// Emits a `switch` terminator: Cranelift's jump table or binary search for more than four
    /// cases of up to 64 bits, otherwise one comparison after the other. `decisions` are the
    /// records of the edges, in the order of the cases with the default last.
    fn emit_switch(
        &mut self,
        value: Value,
        cases: &[(Const, BlockCall)],
        default: &BlockCall,
        decisions: &Option<Vec<u32>>,
    ) {
        let ty = self.value_type(value);
        let regs = self.value(value);
        if regs.len() == 1 && cases.len() > 4 {
            let number = self.as_number(ty, regs[0]);
            let mut switch = cranelift_frontend::Switch::new();
            let mut blocks = Vec::new();
            for (constant, call) in cases {
                let block = self.b.create_block();
                switch.set_entry(constant.bits.iter_u64_digits().next().unwrap_or(0).into(), block);
                blocks.push((block, call));
            }
            let default_block = self.b.create_block();
            switch.emit(&mut self.b, number, default_block);
            for (edge, (block, call)) in blocks.into_iter().enumerate() {
                self.switch_to_sealed(block);
                self.record_edge(decisions, edge);
                self.emit_jump(call);
            }
            self.switch_to_sealed(default_block);
            self.record_edge(decisions, cases.len());
            return self.emit_jump(default);
        }
        for (edge, (constant, call)) in cases.iter().enumerate() {
            let constant = self.constant(constant);
            let is_equal = self.binary(ir::BinaryOp::Eq, ty, &regs, &constant, ty)[0];
            let [equal_block, other_block] = [(); 2].map(|()| self.b.create_block());
            self.b.ins().brif(is_equal, equal_block, &[], other_block, &[]);
            self.switch_to_sealed(equal_block);
            self.record_edge(decisions, edge);
            self.emit_jump(call);
            self.switch_to_sealed(other_block);
        }
        self.record_edge(decisions, cases.len());
        self.emit_jump(default);
    }

    fn emit_jump(&mut self, call: &BlockCall) {
        let body = self.body_of(self.control);
        // All arguments are read before a parameter is set, because a loop may exchange them.
        let args: Vec<ValueRegs> = call.args.iter().map(|arg| self.value(*arg)).collect();
        for (param, regs) in body.blocks[call.block].params.iter().zip(args) {
            self.set_value(*param, &regs);
        }
        self.continue_at_block(call.block);
    }

    /// Leaves the current body before its block has ended, because the parser rejects.
    pub fn leave_body(&mut self) {
        self.continue_at_option(self.c.plan.flow.body_exit(self.control));
    }

    /// Leaves the current body from the end of a block.
    pub fn return_from_body(&mut self) {
        self.continue_at_option(self.c.plan.flow.return_target(self.node));
    }

    /// Continues at a node, or with the next packet for `None`.
    pub fn continue_at_option(&mut self, node: Option<FlowNodeId>) {
        match node {
            Some(node) => self.continue_at_node(node),
            None => self.finish(),
        }
    }

    /// Continues at a block of the current body.
    pub fn continue_at_block(&mut self, block: Block) {
        match self.c.plan.flow.block_node(self.node, block) {
            Some(node) => self.continue_at_node(node),
            None => self.emit_engine_drop(EngineReason::EngineBug),
        }
    }

    /// Continues at a node, in this stage or in the stage that starts with it.
    pub fn continue_at_node(&mut self, node: FlowNodeId) {
        if let Some(start) = stage_at(&self.c.plan.flow, node) {
            self.store_slots(&[node], &FixedBitSet::with_capacity(self.c.plan.slots.slots.len()));
            let queue = self.stage_queue(start);
            let count = self.queue_length(queue);
            return self.enqueue(queue, count);
        }
        match self.blocks.get(&node) {
            Some(block) => {
                let block = *block;
                self.b.ins().jump(block, &[]);
            }
            None if self.start == StageEntry::Begin && self.c.plan.flow.restarts_on_exit => self.restart_packet(),
            None => self.emit_engine_drop(EngineReason::EngineBug),
        }
    }

    /// Restarts the packet in the general code.
    pub fn restart_packet(&mut self) {
        let queue = self.stage_queue(StageEntry::Restart);
        let count = self.queue_length(queue);
        self.enqueue(queue, count);
    }
}
