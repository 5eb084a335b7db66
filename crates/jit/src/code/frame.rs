//! What a packet carries between stages: read from its frame, kept in registers, put back. And the memory that stages share with the
//! engine.

use crate::analysis::cells::{Cell, all_below};
use crate::analysis::node::Node;
use crate::code::registers::{Regs, reg_type, regs_for, steady, trusted};
use crate::code::stage::StageCode;
use crate::plan::stages::{Start, entries, inside};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData};
use fixedbitset::FixedBitSet;
use ir::Type;

impl StageCode<'_, '_> {
    // ---- cells ----

    pub(super) fn declare_cells(&mut self) {
        for index in 0..self.c.plan.cells.list.len() {
            let ty = self.c.plan.cells.ty(self.c.pipeline, index);
            let vars = (0..regs_for(ty)).map(|_| self.b.declare_var(reg_type(ty))).collect();
            self.cells.push(vars);
        }
    }

    /// Takes from the frame what the stage reads, or may leave as it is. What is certain at the stage's beginning is not in the frame.
    pub(super) fn load_cells(&mut self, nodes: &[Node]) {
        let cells = &self.c.plan.cells;
        let size = cells.list.len();
        let at = entries(self.c.pipeline, &self.c.plan.flow, self.start);
        let certain = self.c.plan.certain(self.c.pipeline, &at);
        self.find_changed(nodes, &at, &certain);
        let mut wanted = FixedBitSet::with_capacity(size);
        for node in nodes {
            wanted.union_with(&cells.reads[*node]);
            for mut kept in self.leaving(*node) {
                kept.intersect_with(&self.changed[node]);
                wanted.union_with(&kept);
            }
        }
        wanted.intersect_with(&self.c.plan.live(&at));
        wanted.difference_with(&certain);
        let mut written = FixedBitSet::with_capacity(size);
        for changed in self.changed.values() {
            written.union_with(changed);
        }
        for index in 0..size {
            let ty = cells.ty(self.c.pipeline, index);
            let wanted = wanted.contains(index) && !matches!(self.start, Start::Begin | Start::Again);
            let regs = match self.c.layout.cells[index].filter(|_| wanted) {
                Some(at) => self.load_typed(ty, at, !written.contains(index)),
                None => {
                    let zero = self.b.ins().iconst(reg_type(ty), 0);
                    vec![zero; regs_for(ty)]
                }
            };
            self.set_cell_at(index, &regs);
        }
    }

    /// For each node, the cells that the frame may not hold as they are behind it: changed since the stage began, or never put there.
    fn find_changed(&mut self, nodes: &[Node], at: &[Node], certain: &FixedBitSet) {
        let cells = &self.c.plan.cells;
        let mut first = certain.clone();
        match self.start {
            Start::Begin | Start::Again => first = all_below(cells.list.len()),
            Start::Site(_, table) => {
                let written = cells.written_by_table(self.c.pipeline, &self.c.plan.headers, table);
                written.into_iter().for_each(|index| first.insert(index));
            }
            Start::Deparser(_) => {}
        }
        for node in nodes {
            let mut changed = cells.writes[*node].clone();
            if at.contains(node) {
                changed.union_with(&first);
            }
            self.changed.insert(*node, changed);
        }
        let mut work: Vec<Node> = nodes.to_vec();
        while let Some(node) = work.pop() {
            let changed = self.changed[&node].clone();
            for next in inside(self.c.pipeline, &self.c.plan.flow, self.start, node) {
                if let Some(known) = self.changed.get_mut(&next)
                    && !changed.is_subset(known)
                {
                    known.union_with(&changed);
                    work.push(next);
                }
            }
        }
    }

    /// Sets the cells whose value is certain before the node.
    pub(super) fn set_constants(&mut self, node: Node) {
        let live: Vec<usize> = self.c.plan.cells.live[node].ones().collect();
        for index in live {
            let Some(number) = self.c.plan.constant(self.c.pipeline, node, index) else { continue };
            let ty = self.c.plan.cells.ty(self.c.pipeline, index);
            if let Cell::HeaderAt(_) = self.c.plan.cells.list[index] {
                let data = self.head(std::mem::offset_of!(crate::abi::Head, arrival.data), 8);
                let at = self.b.ins().iadd_imm_s(data, number as i64);
                self.set_cell_at(index, &[at]);
                continue;
            }
            let number = self.b.ins().iconst(reg_type(ty), number as i64);
            let mut regs = vec![number; regs_for(ty).min(1)];
            while regs.len() < regs_for(ty) {
                regs.push(self.b.ins().iconst(I64, 0));
            }
            self.set_cell_at(index, &regs);
        }
    }

    /// The cells that are needed where the node leaves the stage.
    fn leaving(&self, node: Node) -> Vec<FixedBitSet> {
        let (pipeline, flow) = (self.c.pipeline, &self.c.plan.flow);
        let within = inside(pipeline, flow, self.start, node);
        let all = flow.successors(pipeline, node);
        all.into_iter().filter(|next| !within.contains(next)).map(|n| self.c.plan.cells.live[n].clone()).collect()
    }

    /// Puts into the frame what the stage that begins at these nodes needs, unless it is there or certain, or the stage makes it itself: `made`.
    pub(super) fn store_cells(&mut self, targets: &[Node], made: &FixedBitSet) {
        let mut needed = self.c.plan.live(targets);
        needed.difference_with(made);
        needed.difference_with(&self.c.plan.certain(self.c.pipeline, targets));
        if let Some(changed) = self.changed.get(&self.node) {
            needed.intersect_with(changed);
        }
        for index in needed.ones().collect::<Vec<_>>() {
            let regs = self.cell_at(index);
            let ty = self.c.plan.cells.ty(self.c.pipeline, index);
            if let Some(at) = self.c.layout.cells[index] {
                self.store_typed(ty, at, &regs);
            }
        }
    }

    fn cell_at(&mut self, index: usize) -> Regs {
        self.cells[index].clone().into_iter().map(|var| self.b.use_var(var)).collect()
    }

    fn set_cell_at(&mut self, index: usize, regs: &[cl::Value]) {
        for (var, reg) in self.cells[index].clone().into_iter().zip(regs) {
            self.b.def_var(var, *reg);
        }
    }

    /// What a cell holds.
    pub fn cell(&mut self, cell: Cell) -> cl::Value {
        let index = self.c.plan.cells.of(cell);
        self.cell_at(index)[0]
    }

    /// Sets a cell of one register.
    pub fn set_cell(&mut self, cell: Cell, value: cl::Value) {
        let index = self.c.plan.cells.of(cell);
        self.set_cell_at(index, &[value]);
    }

    /// What a variable holds that is no header field.
    pub fn variable(&mut self, var: ir::VarId) -> Regs {
        let index = self.c.plan.cells.of(Cell::Var(var));
        self.cell_at(index)
    }

    /// Sets a variable that is no header field.
    pub fn set_variable(&mut self, var: ir::VarId, regs: &[cl::Value]) {
        let index = self.c.plan.cells.of(Cell::Var(var));
        self.set_cell_at(index, regs);
    }

    // ---- memory ----

    /// Reads a number of 1, 2 or 4 bytes in host order. Where the flags allow it to move, by two instructions, of which Cranelift moves and merges the
    /// first, as it does not with its loads that extend.
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

    /// Reads a value of the type from the frame. What this stage does not write may be read late, where it is needed: `late`. A
    /// cell that it does write must be read at once, as the read would give what was written otherwise.
    pub fn load_typed(&mut self, ty: Type, at: u32, late: bool) -> Regs {
        let (frame, at) = (self.frame, at as i32);
        let flags = if late { steady() } else { trusted() };
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

    /// Writes a value of the type to the frame.
    pub fn store_typed(&mut self, ty: Type, at: u32, regs: &[cl::Value]) {
        let (frame, at) = (self.frame, at as i32);
        match (ty, ty.width()) {
            (Type::Bool, _) => drop(self.b.ins().store(trusted(), regs[0], frame, at)),
            (_, 0..=8) => drop(self.b.ins().istore8(trusted(), regs[0], frame, at)),
            (_, 9..=16) => drop(self.b.ins().istore16(trusted(), regs[0], frame, at)),
            (_, 17..=32) => drop(self.b.ins().istore32(trusted(), regs[0], frame, at)),
            _ => {
                for (n, reg) in regs.iter().enumerate() {
                    self.b.ins().store(trusted(), *reg, frame, at + n as i32 * 8);
                }
            }
        }
    }

    /// A number of the frame's head that no stage changes, of 4 or 8 bytes.
    pub fn head(&mut self, at: usize, bytes: usize) -> cl::Value {
        let (frame, at) = (self.frame, at as i32);
        match bytes {
            2 | 4 => self.load_small(bytes as u32, steady(), frame, at),
            _ => self.b.ins().load(I64, steady(), frame, at),
        }
    }

    /// The number of parser states so far.
    pub fn states(&mut self) -> cl::Value {
        let at = std::mem::offset_of!(crate::abi::Head, arrival.states) as i32;
        self.load_small(4, trusted(), self.frame, at)
    }

    /// Sets a number of the frame's head.
    pub fn set_head(&mut self, at: usize, bytes: usize, value: cl::Value) {
        let (frame, at) = (self.frame, at as i32);
        match bytes {
            1 => self.b.ins().istore8(trusted(), value, frame, at),
            2 => self.b.ins().istore16(trusted(), value, frame, at),
            4 => self.b.ins().istore32(trusted(), value, frame, at),
            _ => self.b.ins().store(trusted(), value, frame, at),
        };
    }

    /// The address of something in the frame.
    pub fn in_frame(&mut self, at: u32) -> cl::Value {
        self.b.ins().iadd_imm_s(self.frame, i64::from(at))
    }

    /// A pointer of the context.
    pub fn of_context(&mut self, at: usize) -> cl::Value {
        self.b.ins().load(I64, trusted(), self.context, at as i32)
    }

    /// The area for calls.
    pub fn area(&mut self) -> cl::Value {
        self.of_context(std::mem::offset_of!(crate::abi::Context, area))
    }

    /// Writes words of the area.
    pub fn store_area(&mut self, word: usize, values: &[cl::Value]) {
        let area = self.area();
        for (index, value) in values.iter().enumerate() {
            self.b.ins().store(trusted(), *value, area, (word + index) as i32 * 8);
        }
    }

    /// Reads a word of the area.
    pub fn load_area(&mut self, word: usize) -> cl::Value {
        let area = self.area();
        self.b.ins().load(I64, trusted(), area, word as i32 * 8)
    }

    /// Calls a function of the engine with numbers, for a number if `result`.
    pub fn call_helper(&mut self, address: usize, args: &[cl::Value], result: bool) -> Option<cl::Value> {
        let mut signature = cl::Signature::new(self.c.call_conv);
        signature.params.extend(args.iter().map(|_| cl::AbiParam::new(I64)));
        if result {
            signature.returns.push(cl::AbiParam::new(I64));
        }
        let signature = self.b.import_signature(signature);
        let callee = self.number(address as u64);
        let call = self.b.ins().call_indirect(signature, callee, args);
        result.then(|| self.b.inst_results(call)[0])
    }
}
