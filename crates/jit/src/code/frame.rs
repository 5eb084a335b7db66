//! Frame slots in registers, loaded from and stored to the frame; and accesses to the memory shared
//! with the engine.

use crate::analysis::frame_slots::{FrameSlot, all_below};
use crate::analysis::node::FlowNodeId;
use crate::code::registers::{ValueRegs, reg_type, regs_for, steady_flags, trusted_flags};
use crate::code::stage::StageBuilder;
use crate::plan::stages::{StageEntry, entry_nodes, successors_in_stage};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData};
use fixedbitset::FixedBitSet;
use ir::Type;

impl StageBuilder<'_, '_> {
    // ---- frame slots ----

    pub(super) fn declare_slots(&mut self) {
        for index in 0..self.c.plan.slots.slots.len() {
            let ty = self.c.plan.slots.slot_type(self.c.pipeline, index);
            let vars = (0..regs_for(ty)).map(|_| self.b.declare_var(reg_type(ty))).collect();
            self.slot_vars.push(vars);
        }
    }

    /// Loads the slots that the stage reads or may leave unchanged. Slots that are constant at the
    /// stage's start are not in the frame.
    pub(super) fn load_slots(&mut self, nodes: &[FlowNodeId]) {
        let slots = &self.c.plan.slots;
        let size = slots.slots.len();
        let entries = entry_nodes(self.c.pipeline, &self.c.plan.flow, self.start);
        let constant = self.c.plan.constant_slots(self.c.pipeline, &entries);
        self.compute_changed(nodes, &entries, &constant);
        let mut needed = FixedBitSet::with_capacity(size);
        for node in nodes {
            needed.union_with(&slots.reads[*node]);
            for mut stored in self.live_on_exit(*node) {
                stored.intersect_with(&self.changed_slots[node]);
                needed.union_with(&stored);
            }
        }
        needed.intersect_with(&self.c.plan.live_slots(&entries));
        needed.difference_with(&constant);
        let mut written = FixedBitSet::with_capacity(size);
        for changed in self.changed_slots.values() {
            written.union_with(changed);
        }
        for index in 0..size {
            let ty = slots.slot_type(self.c.pipeline, index);
            let needed = needed.contains(index) && !matches!(self.start, StageEntry::Begin | StageEntry::Restart);
            let regs = match self.c.layout.slots[index].filter(|_| needed) {
                Some(offset) => self.load_typed(ty, offset, !written.contains(index)),
                None => {
                    let zero = self.b.ins().iconst(reg_type(ty), 0);
                    vec![zero; regs_for(ty)]
                }
            };
            self.set_slot_regs(index, &regs);
        }
    }

    /// Computes for each node the slots that may differ from the frame after it: changed since the
    /// stage's start, or never stored. `entries` are the stage's first nodes, `constant` the slots
    /// that are constant there.
    fn compute_changed(&mut self, nodes: &[FlowNodeId], entries: &[FlowNodeId], constant: &FixedBitSet) {
        let slots = &self.c.plan.slots;
        let mut changed_at_start = constant.clone();
        match self.start {
            StageEntry::Begin | StageEntry::Restart => changed_at_start = all_below(slots.slots.len()),
            StageEntry::Table(_, table) => {
                let written = slots.slots_written_by_table(self.c.pipeline, &self.c.plan.headers, table);
                written.into_iter().for_each(|index| changed_at_start.insert(index));
            }
            StageEntry::Join(_) | StageEntry::Deparser(_) => {}
        }
        for node in nodes {
            let mut changed = slots.writes[*node].clone();
            if entries.contains(node) {
                changed.union_with(&changed_at_start);
            }
            self.changed_slots.insert(*node, changed);
        }
        let mut work: Vec<FlowNodeId> = nodes.to_vec();
        while let Some(node) = work.pop() {
            let changed = self.changed_slots[&node].clone();
            for next in successors_in_stage(self.c.pipeline, &self.c.plan.flow, self.start, node) {
                if let Some(known) = self.changed_slots.get_mut(&next)
                    && !changed.is_subset(known)
                {
                    known.union_with(&changed);
                    work.push(next);
                }
            }
        }
    }

    /// Sets the slots that are constant before the node.
    pub(super) fn set_constants(&mut self, node: FlowNodeId) {
        let live: Vec<usize> = self.c.plan.slots.live[node].ones().collect();
        for index in live {
            let Some(number) = self.c.plan.slot_constant(self.c.pipeline, node, index) else { continue };
            let ty = self.c.plan.slots.slot_type(self.c.pipeline, index);
            if let FrameSlot::HeaderAddr(_) = self.c.plan.slots.slots[index] {
                let data = self.load_frame_header(std::mem::offset_of!(crate::abi::FrameHeader, input.data), 8);
                let at = self.b.ins().iadd_imm_s(data, number as i64);
                self.set_slot_regs(index, &[at]);
                continue;
            }
            let number = self.b.ins().iconst(reg_type(ty), number as i64);
            let mut regs = vec![number; regs_for(ty).min(1)];
            while regs.len() < regs_for(ty) {
                regs.push(self.b.ins().iconst(I64, 0));
            }
            self.set_slot_regs(index, &regs);
        }
    }

    /// Returns the live slots on each edge that leaves the stage.
    fn live_on_exit(&self, node: FlowNodeId) -> Vec<FixedBitSet> {
        let (pipeline, flow) = (self.c.pipeline, &self.c.plan.flow);
        let within = successors_in_stage(pipeline, flow, self.start, node);
        let all = flow.successors(pipeline, node);
        all.into_iter().filter(|next| !within.contains(next)).map(|n| self.c.plan.slots.live[n].clone()).collect()
    }

    /// Stores the slots that the stage starting at these nodes needs, except those that are
    /// unchanged, constant, or set by that stage itself (`made`).
    pub(super) fn store_slots(&mut self, targets: &[FlowNodeId], made: &FixedBitSet) {
        let mut needed = self.c.plan.live_slots(targets);
        needed.difference_with(made);
        needed.difference_with(&self.c.plan.constant_slots(self.c.pipeline, targets));
        if let Some(changed) = self.changed_slots.get(&self.node) {
            needed.intersect_with(changed);
        }
        for index in needed.ones().collect::<Vec<_>>() {
            let regs = self.slot_regs(index);
            let ty = self.c.plan.slots.slot_type(self.c.pipeline, index);
            if let Some(at) = self.c.layout.slots[index] {
                self.store_typed(ty, at, &regs);
            }
        }
    }

    fn slot_regs(&mut self, index: usize) -> ValueRegs {
        self.slot_vars[index].clone().into_iter().map(|var| self.b.use_var(var)).collect()
    }

    fn set_slot_regs(&mut self, index: usize, regs: &[cl::Value]) {
        for (var, reg) in self.slot_vars[index].clone().into_iter().zip(regs) {
            self.b.def_var(var, *reg);
        }
    }

    /// Returns the value of a slot.
    pub fn slot_value(&mut self, cell: FrameSlot) -> cl::Value {
        let index = self.c.plan.slots.index_of(cell);
        self.slot_regs(index)[0]
    }

    /// Sets a slot of one register.
    pub fn set_slot(&mut self, cell: FrameSlot, value: cl::Value) {
        let index = self.c.plan.slots.index_of(cell);
        self.set_slot_regs(index, &[value]);
    }

    /// Returns the registers of a variable that is not a header field.
    pub fn variable(&mut self, var: ir::VarId) -> ValueRegs {
        let index = self.c.plan.slots.index_of(FrameSlot::Var(var));
        self.slot_regs(index)
    }

    /// Sets a variable that is not a header field.
    pub fn set_variable(&mut self, var: ir::VarId, regs: &[cl::Value]) {
        let index = self.c.plan.slots.index_of(FrameSlot::Var(var));
        self.set_slot_regs(index, regs);
    }

    // ---- memory ----

    /// Loads a number of 1, 2 or 4 bytes in host order. A movable load uses two instructions,
    /// because Cranelift moves and merges plain loads but not extending ones.
    pub fn load_small(&mut self, bytes: u32, flags: MemFlagsData, base: cl::Value, at: i32) -> cl::Value {
        if !flags.can_move() {
            return match bytes {
                1 => self.b.ins().uload8(I64, flags, base, at),
                2 => self.b.ins().uload16(I64, flags, base, at),
                _ => self.b.ins().uload32(flags, base, at),
            };
        }
        let ty = match bytes {
            1 => I8,
            2 => I16,
            _ => I32,
        };
        let value = self.b.ins().load(ty, flags, base, at);
        self.b.ins().uextend(I64, value)
    }

    /// Loads a value of the type from the frame. With `late`, the load may move to its use; only
    /// for memory that this stage does not write. Otherwise the load must happen now, before a
    /// store changes the memory.
    pub fn load_typed(&mut self, ty: Type, at: u32, late: bool) -> ValueRegs {
        let (frame, at) = (self.frame, at as i32);
        let flags = if late { steady_flags() } else { trusted_flags() };
        if ty == Type::Bool {
            return vec![self.b.ins().load(I8, flags, frame, at)];
        }
        match ty.width() {
            0..=8 => vec![self.load_small(1, flags, frame, at)],
            9..=16 => vec![self.load_small(2, flags, frame, at)],
            17..=32 => vec![self.load_small(4, flags, frame, at)],
            _ => (0..regs_for(ty) as i32).map(|n| self.b.ins().load(I64, flags, frame, at + n * 8)).collect(),
        }
    }

    /// Stores a value of the type to the frame.
    pub fn store_typed(&mut self, ty: Type, at: u32, regs: &[cl::Value]) {
        let (frame, at) = (self.frame, at as i32);
        match (ty, ty.width()) {
            (Type::Bool, _) => drop(self.b.ins().store(trusted_flags(), regs[0], frame, at)),
            (_, 0..=8) => drop(self.b.ins().istore8(trusted_flags(), regs[0], frame, at)),
            (_, 9..=16) => drop(self.b.ins().istore16(trusted_flags(), regs[0], frame, at)),
            (_, 17..=32) => drop(self.b.ins().istore32(trusted_flags(), regs[0], frame, at)),
            _ => {
                for (n, reg) in regs.iter().enumerate() {
                    self.b.ins().store(trusted_flags(), *reg, frame, at + n as i32 * 8);
                }
            }
        }
    }

    /// Loads a number of 2, 4 or 8 bytes from the frame header that no stage changes.
    pub fn load_frame_header(&mut self, at: usize, bytes: usize) -> cl::Value {
        let (frame, at) = (self.frame, at as i32);
        match bytes {
            2 | 4 => self.load_small(bytes as u32, steady_flags(), frame, at),
            _ => self.b.ins().load(I64, steady_flags(), frame, at),
        }
    }

    /// Returns the number of parser states that the packet has entered.
    pub fn parser_state_count(&mut self) -> cl::Value {
        let at = std::mem::offset_of!(crate::abi::FrameHeader, input.parser_states) as i32;
        self.load_small(4, trusted_flags(), self.frame, at)
    }

    /// Stores a number to the frame header.
    pub fn store_frame_header(&mut self, at: usize, bytes: usize, value: cl::Value) {
        let (frame, at) = (self.frame, at as i32);
        match bytes {
            1 => self.b.ins().istore8(trusted_flags(), value, frame, at),
            2 => self.b.ins().istore16(trusted_flags(), value, frame, at),
            4 => self.b.ins().istore32(trusted_flags(), value, frame, at),
            _ => self.b.ins().store(trusted_flags(), value, frame, at),
        };
    }

    /// Returns an address in the frame.
    pub fn frame_address(&mut self, at: u32) -> cl::Value {
        self.b.ins().iadd_imm_s(self.frame, i64::from(at))
    }

    /// Loads a pointer of the context.
    pub fn load_context_ptr(&mut self, at: usize) -> cl::Value {
        self.b.ins().load(I64, trusted_flags(), self.context, at as i32)
    }

    /// Returns the address of the call area.
    pub fn call_area(&mut self) -> cl::Value {
        self.load_context_ptr(std::mem::offset_of!(crate::abi::StageContext, call_area))
    }

    /// Stores words to the call area.
    pub fn store_call_area(&mut self, word: usize, values: &[cl::Value]) {
        let area = self.call_area();
        for (index, value) in values.iter().enumerate() {
            self.b.ins().store(trusted_flags(), *value, area, (word + index) as i32 * 8);
        }
    }

    /// Loads a word of the call area.
    pub fn load_call_area(&mut self, word: usize) -> cl::Value {
        let area = self.call_area();
        self.b.ins().load(I64, trusted_flags(), area, word as i32 * 8)
    }

    /// Calls a function of the engine with numbers; returns a number if `result` is set.
    pub fn call_helper(&mut self, address: usize, args: &[cl::Value], result: bool) -> Option<cl::Value> {
        let mut signature = cl::Signature::new(self.c.call_conv);
        signature.params.extend(args.iter().map(|_| cl::AbiParam::new(I64)));
        if result {
            signature.returns.push(cl::AbiParam::new(I64));
        }
        let signature = self.b.import_signature(signature);
        let callee = self.iconst_u64(address as u64);
        let call = self.b.ins().call_indirect(signature, callee, args);
        result.then(|| self.b.inst_results(call)[0])
    }
}
