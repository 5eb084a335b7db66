//! Ways out of a node: to others of its stage, to other stages, to the next packet.

use crate::analysis::flow::is_cut;
use crate::analysis::node::{Node, Step};
use crate::code::registers::Regs;
use crate::code::stage::StageCode;
use crate::plan::stages::{Start, in_hand};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode};
use fixedbitset::FixedBitSet;
use ir::{Block, BlockCall, Const, Term, Value};
use packet::EngineReason;

impl<'a> StageCode<'a, '_> {
    /// The end of a block.
    pub(super) fn term(&mut self, node: Node, term: &'a Term) {
        let Step::Block(_, block) = self.c.plan.flow.nodes[node] else { return self.finish() };
        match term {
            Term::Jump(call) => self.jump_with(call),
            Term::Branch { cond, then, els } => {
                let ways = self.ways(block, &[then, els]);
                let cond = self.value(*cond)[0];
                if let Some(certain) = self.constant_of(cond) {
                    self.took(&ways, usize::from(certain == 0));
                    return self.jump_with(if certain != 0 { then } else { els });
                }
                let [on_true, on_false] = [(); 2].map(|()| self.b.create_block());
                self.branch(cond, (on_true, self.turns_off(then)), (on_false, self.turns_off(els)));
                self.enter(on_true);
                self.took(&ways, 0);
                self.jump_with(then);
                self.enter(on_false);
                self.took(&ways, 1);
                self.jump_with(els);
            }
            Term::Switch { value, cases, default } => {
                let edges: Vec<&BlockCall> = cases.iter().map(|(_, edge)| edge).chain([default]).collect();
                let ways = self.ways(block, &edges);
                self.switch(*value, cases, default, &ways);
            }
            Term::Apply { table, .. } if in_hand(&self.c.plan.flow, self.start, node) => {
                self.go_on_in_hand(node, *table)
            }
            Term::Apply { table, keys, .. } => match is_cut(self.c.pipeline, *table) {
                true => {
                    let words = self.key_words(*table, keys);
                    if self.c.plan.flow.in_place(node) {
                        self.look_up(node, *table, words[0]);
                    }
                    self.leave_for_lookup(node, *table, keys, &words);
                }
                false => {
                    self.applies(*table);
                    let miss = self.truth(false);
                    let value = self.default_value(*table);
                    self.choose_action(node, *table, miss, value);
                }
            },
            Term::Return | Term::Exit | Term::Reject => {
                if !self.leave_at_once() {
                    self.return_from_body();
                }
            }
        }
    }

    /// Whether packets that take a way turn off the trace.
    fn turns_off(&self, call: &BlockCall) -> bool {
        let flow = &self.c.plan.flow;
        flow.turned_back(self.node) && flow.block(self.node, call.block).is_some_and(|next| !flow.on_trace(next))
    }

    /// A branch; of each side, whether it is for the few that turn off the trace. What turns them off, each for itself, is asked one by one: such branches are foreseen,
    /// and need no answers put together.
    pub(super) fn branch(&mut self, cond: cl::Value, on_true: (cl::Block, bool), on_false: (cl::Block, bool)) {
        let parts = match self.made_by(cond) {
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
            true => self.branch(one, on_true, (next, false)),
            false => self.branch(one, (next, false), on_false),
        }
        self.enter(next);
        self.branch(other, on_true, on_false);
    }

    fn switch(&mut self, value: Value, cases: &[(Const, BlockCall)], default: &BlockCall, ways: &Option<Vec<u32>>) {
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
            let otherwise = self.b.create_block();
            switch.emit(&mut self.b, number, otherwise);
            for (edge, (block, call)) in blocks.into_iter().enumerate() {
                self.enter(block);
                self.took(ways, edge);
                self.jump_with(call);
            }
            self.enter(otherwise);
            self.took(ways, cases.len());
            return self.jump_with(default);
        }
        for (edge, (constant, call)) in cases.iter().enumerate() {
            let constant = self.constant(constant);
            let same = self.binary(ir::BinaryOp::Eq, ty, &regs, &constant, ty)[0];
            let [yes, no] = [(); 2].map(|()| self.b.create_block());
            self.b.ins().brif(same, yes, &[], no, &[]);
            self.enter(yes);
            self.took(ways, edge);
            self.jump_with(call);
            self.enter(no);
        }
        self.took(ways, cases.len());
        self.jump_with(default);
    }

    fn jump_with(&mut self, call: &BlockCall) {
        let body = self.body_of(self.control);
        // All arguments are read before a parameter is set: a loop may exchange them.
        let args: Vec<Regs> = call.args.iter().map(|arg| self.value(*arg)).collect();
        for (param, regs) in body.blocks[call.block].params.iter().zip(args) {
            self.set_value(*param, &regs);
        }
        self.go_to(call.block);
    }

    /// Goes on behind the present body before its block has ended: the parser rejects.
    pub fn leave_body(&mut self) {
        self.go_on(self.c.plan.flow.after(self.control));
    }

    /// Goes on behind the present body, from the end of a block.
    pub fn return_from_body(&mut self) {
        self.go_on(self.c.plan.flow.returns(self.node));
    }

    /// Goes on at a node if there is one, or else to the next packet.
    pub fn go_on(&mut self, node: Option<Node>) {
        match node {
            Some(node) => self.go(node),
            None => self.finish(),
        }
    }

    /// Goes on at a block of the present body.
    pub fn go_to(&mut self, block: Block) {
        match self.c.plan.flow.block(self.node, block) {
            Some(node) => self.go(node),
            None => self.give_up(EngineReason::EngineFault),
        }
    }

    /// Goes on at a node: here, or in the stage that begins with it.
    pub fn go(&mut self, node: Node) {
        if Some(node) == self.c.plan.flow.deparser && self.c.plan.flow.cut_deparser {
            self.store_cells(&[node], &FixedBitSet::with_capacity(self.c.plan.cells.list.len()));
            let queue = self.queue(Start::Deparser(node));
            let count = self.waiting_at(queue);
            return self.enqueue(queue, count);
        }
        match self.blocks.get(&node) {
            Some(block) => {
                let block = *block;
                self.b.ins().jump(block, &[]);
            }
            None if self.start == Start::Begin && self.c.plan.flow.turns_back => self.turn_back(),
            None => self.give_up(EngineReason::EngineFault),
        }
    }

    /// The packet begins once more.
    pub fn turn_back(&mut self) {
        let queue = self.queue(Start::Again);
        let count = self.waiting_at(queue);
        self.enqueue(queue, count);
    }
}
