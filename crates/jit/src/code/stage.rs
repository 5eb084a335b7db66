//! One stage as one function: a loop over the packets that are at it.

use crate::abi::{Context, destination};
use crate::analysis::cells::Cell;
use crate::analysis::node::{Node, Step};
use crate::analysis::validity::Known;
use crate::code::compiling::Compiling;
use crate::code::registers::{Regs, reg_type, regs_for, trusted};
use crate::code::state::{Emitting, Held, Parameter, Test, Waiting};
use crate::code::told::{Mark, Told};
use crate::plan::layout::imports;
use crate::plan::memory::QueuePlace;
use crate::plan::stages::{Start, entries, inside};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I16, I32, I64};
use cranelift_frontend::{FunctionBuilder, Variable};
use fixedbitset::FixedBitSet;
use ir::{Block, Body, Const, ExternId, HeaderId, Inst, TableId, Type, Value, VarKind};
use packet::EngineReason;
use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;
use std::rc::Rc;

/// The function that is being made.
pub struct StageCode<'a, 'b> {
    /// What it is made from.
    pub c: &'a Compiling<'a>,
    /// Instructions go here.
    pub b: FunctionBuilder<'b>,
    /// The address of the context.
    pub context: cl::Value,
    /// The address of the packet's frame, and what was looked up.
    pub frame: cl::Value,
    result: cl::Value,
    /// Where the frame's address lies in the list of those that wait.
    place: cl::Value,
    /// The cells' registers.
    pub(super) cells: Vec<Vec<Variable>>,
    values: HashMap<(usize, Value), Vec<Variable>>,
    pub(super) blocks: HashMap<Node, cl::Block>,
    /// The next packet.
    next: cl::Block,
    /// The cells that the frame may not hold as they are behind each node.
    pub(super) changed: HashMap<Node, FixedBitSet>,
    /// The node that is being translated.
    pub(super) node: Node,
    pub(super) start: Start,
    /// What is known of headers at this point.
    pub known: Known,
    /// The control whose body is being translated.
    pub control: usize,
    /// What the deparser keeps in registers.
    pub emit: Emitting,
    /// Values of the present block that are what a field of a valid header holds now.
    pub fresh: HashMap<Value, (HeaderId, u32)>,
    /// What fields of valid headers hold, as far as this block has read or written them.
    pub held: HashMap<(HeaderId, u32), Regs>,
    /// What fields hold and values are where nodes end, for the one node that they alone lead to.
    held_behind: HashMap<Node, Held>,
    /// Fields of valid headers that are still to be written.
    pub waiting: Waiting,
    /// Internet checksums that the present block has changed.
    pub summed: BTreeSet<ExternId>,
    /// Bytes of headers that this stage has written so far.
    pub written: BTreeSet<(HeaderId, u32)>,
    /// Headers whose bytes no instruction of this stage writes.
    pub untouched: BTreeSet<HeaderId>,
    /// What was asked where constants are compared with, by the answers.
    pub tests: HashMap<cl::Value, Test>,
    /// Parameters of actions that lie in a table's value as numbers of 3, 5, 6 or 7 bytes.
    pub params: HashMap<cl::Value, Parameter>,
    /// Where it is noted what the packet does, if that is asked.
    pub(super) noted: Option<cl::Value>,
    /// What instructions stand for.
    pub(super) marks: HashMap<cl::Inst, Mark>,
    /// Words of the keys that are written for the lookup that the packet leaves for.
    pub(super) leaving_with: [Vec<cl::Value>; 2],
}

/// The headers whose bytes no instruction of these nodes writes.
fn untouched(c: &Compiling<'_>, start: Start, nodes: &[Node]) -> BTreeSet<HeaderId> {
    let mut all: BTreeSet<HeaderId> = c.pipeline.headers.keys().collect();
    let field = |var: ir::VarId, all: &mut BTreeSet<HeaderId>| {
        if let VarKind::Field(header, _) = c.pipeline.vars[var].kind {
            all.remove(&header);
        }
    };
    let table = |table: TableId, all: &mut BTreeSet<HeaderId>| {
        if let Some(var) = c.pipeline.tables[table].meter_result {
            field(var, all);
        }
    };
    if let Start::Site(_, id) = start {
        table(id, &mut all);
    }
    for node in nodes {
        if let Some(id) = c.plan.flow.applies(c.pipeline, *node) {
            table(id, &mut all);
        }
        let Step::Block(control, block) = c.plan.flow.nodes[*node] else { continue };
        for data in &c.pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts {
            match &data.inst {
                Inst::Store(var, _) => {
                    if let VarKind::Field(header, _) = c.pipeline.vars[*var].kind {
                        all.remove(&header);
                    }
                }
                Inst::SetValid(header) | Inst::CopyHeader { dst: header, .. } => {
                    all.remove(header);
                }
                _ => {}
            }
        }
    }
    all
}

impl<'a, 'b> StageCode<'a, 'b> {
    /// Makes the function of a stage.
    pub fn make(
        c: &'a Compiling<'a>,
        mut b: FunctionBuilder<'b>,
        start: Start,
        nodes: &[Node],
    ) -> (FunctionBuilder<'b>, Told) {
        let [entry, body, next, end] = [(); 4].map(|()| b.create_block());
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let [context, first] = [0, 1].map(|index| b.block_params(entry)[index]);
        // The first stage takes all frames, as they lie; others those that wait for them, by their addresses. What is the same for all packets lies in memory: they
        // need the registers.
        let step = if start == Start::Begin { c.layout.stride } else { size_of::<*mut u8>() as u32 };
        let at = b.append_block_param(body, I64);
        b.ins().jump(body, &[first.into()]);
        b.switch_to_block(next);
        let after = b.ins().iadd_imm_s(at, i64::from(step));
        let last = b.ins().load(I64, trusted(), context, offset_of!(Context, last) as i32);
        let more = b.ins().icmp(IntCC::NotEqual, after, last);
        b.ins().brif(more, body, &[after.into()], end, &[]);
        b.switch_to_block(end);
        b.ins().return_(&[]);
        for block in [end, body] {
            b.seal_block(block);
        }
        b.switch_to_block(body);
        let zero = b.ins().iconst(I64, 0);
        let frame = if start == Start::Begin { at } else { b.ins().load(I64, trusted(), at, 0) };
        let result = match start {
            Start::Site(..) => {
                let beside = c.memory.results - c.memory.queues[c.stage.get()].frames;
                b.ins().load(I64, trusted(), at, beside)
            }
            _ => zero,
        };
        let known = Known {
            valid: FixedBitSet::with_capacity(0),
            invalid: FixedBitSet::with_capacity(0),
            implied: Rc::default(),
        };
        let [count, front, next_at, gaps] = [(); 4].map(|()| {
            let var = b.declare_var(I64);
            b.def_var(var, zero);
            var
        });
        let emit = Emitting { count, front, next: next_at, gaps };
        let mut code = StageCode {
            c,
            b,
            context,
            frame,
            result,
            place: at,
            cells: Vec::new(),
            values: HashMap::new(),
            blocks: HashMap::new(),
            next,
            changed: HashMap::new(),
            node: 0,
            start,
            known,
            control: 0,
            emit,
            fresh: HashMap::new(),
            held: HashMap::new(),
            held_behind: HashMap::new(),
            waiting: Waiting::new(),
            summed: BTreeSet::new(),
            written: BTreeSet::new(),
            untouched: untouched(c, start, nodes),
            tests: HashMap::new(),
            params: HashMap::new(),
            noted: None,
            marks: HashMap::new(),
            leaving_with: Default::default(),
        };
        code.find_area();
        code.body(nodes);
        code.b.seal_all_blocks();
        let off = |(node, _): &(&Node, &cl::Block)| start == Start::Begin && !c.plan.flow.begins_or_on_trace(**node);
        let off = code.blocks.iter().filter(off).map(|(_, block)| *block).collect();
        (code.b, Told { body, next, context, place: at, marks: code.marks, off })
    }

    /// Says what an instruction stands for.
    pub(super) fn mark(&mut self, inst: cl::Inst, mark: Mark) {
        self.marks.insert(inst, mark);
    }

    fn body(&mut self, nodes: &[Node]) {
        self.declare_cells();
        self.load_cells(nodes);
        for (control, value) in imports(self.c.pipeline, self.c.plan, nodes) {
            let body = self.body_of(control);
            let ty = body.value_type(value);
            if let Some(at) = self.c.layout.values.get(&(control, value)) {
                let regs = self.load_typed(ty, *at, true);
                self.define(control, value, ty, &regs);
            }
        }
        for node in nodes {
            let block = self.b.create_block();
            self.blocks.insert(*node, block);
        }
        self.begin();
        let late = self.reached_late(nodes);
        let only = self.only_ways(nodes);
        for node in nodes {
            let block = self.blocks[node];
            match late.contains(node) {
                true => self.b.switch_to_block(block),
                false => self.enter(block),
            }
            if let Some(known) = &self.c.plan.known[*node] {
                self.known = known.clone();
                self.node = *node;
                self.set_constants(*node);
                let before = only.get(node).and_then(|from| self.held_behind.get(from)).cloned().unwrap_or_default();
                (self.fresh, self.held) = (before.fresh, before.held);
                match self.c.plan.flow.nodes[*node] {
                    Step::Glue(glue) => self.glue(*node, glue),
                    Step::Block(control, block) => self.block(*node, control, block),
                }
            } else {
                // Nothing leads here.
                self.give_up(EngineReason::EngineFault);
            }
        }
    }

    /// The nodes that one behind them, or they themselves, lead to.
    fn reached_late(&self, nodes: &[Node]) -> BTreeSet<Node> {
        let mut passed = BTreeSet::new();
        let mut late = BTreeSet::new();
        for node in nodes {
            passed.insert(*node);
            let next = inside(self.c.pipeline, &self.c.plan.flow, self.start, *node);
            late.extend(next.into_iter().filter(|n| passed.contains(n)));
        }
        late
    }

    /// What follows belongs to a block that all have jumped to that will: values from before are known in it as what they are.
    pub fn enter(&mut self, block: cl::Block) {
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    /// The jump to the first node, or the choice among the actions of the table that was looked up.
    fn begin(&mut self) {
        match self.start {
            Start::Begin | Start::Again | Start::Deparser(_) => {
                let entry = entries(self.c.pipeline, &self.c.plan.flow, self.start);
                let block = self.blocks[&entry[0]];
                self.b.ins().jump(block, &[]);
            }
            Start::Site(node, table) => {
                self.node = node;
                self.go_on_with(node, table, self.result);
            }
        }
    }

    /// Goes on at the action of what was found for a table that a node applies; 0: nothing.
    fn go_on_with(&mut self, node: Node, table: TableId, found: cl::Value) {
        let zero = self.number(0);
        let hit = self.b.ins().icmp(IntCC::NotEqual, found, zero);
        let default = self.default_value(table);
        let value = self.b.ins().select(hit, found, default);
        self.choose_action(node, table, hit, value);
    }

    /// Goes on with what was looked up together with what the stage begins behind.
    pub fn go_on_in_hand(&mut self, node: Node, table: TableId) {
        let beside = self.c.memory.together - self.c.memory.queues[self.c.stage.get()].frames;
        let found = self.b.ins().load(I64, trusted(), self.place, beside);
        self.go_on_with(node, table, found);
    }

    /// The body of a control.
    pub fn body_of(&self, control: usize) -> &'a Body {
        &self.c.pipeline.controls[ir::ControlId(control as u32)].body
    }

    // ---- values ----

    /// A value's registers.
    pub fn value(&mut self, value: Value) -> Regs {
        let control = self.control;
        match self.values.get(&(control, value)) {
            Some(vars) => vars.clone().into_iter().map(|var| self.b.use_var(var)).collect(),
            None => {
                let ty = self.body_of(control).value_type(value);
                let zero = self.b.ins().iconst(reg_type(ty), 0);
                vec![zero; regs_for(ty)]
            }
        }
    }

    /// The type of a value.
    pub fn value_type(&self, value: Value) -> Type {
        self.body_of(self.control).value_type(value)
    }

    /// A value's first register, a bool as a number.
    pub fn low(&mut self, value: Value) -> cl::Value {
        let ty = self.value_type(value);
        let regs = self.value(value);
        self.as_number(ty, regs[0])
    }

    fn define(&mut self, control: usize, value: Value, ty: Type, regs: &[cl::Value]) {
        let b = &mut self.b;
        let vars = self
            .values
            .entry((control, value))
            .or_insert_with(|| (0..regs_for(ty)).map(|_| b.declare_var(reg_type(ty))).collect());
        for (var, reg) in vars.clone().into_iter().zip(regs) {
            self.b.def_var(var, *reg);
        }
    }

    /// Gives a value of the present body its registers, and keeps it for later stages that use it.
    pub fn set_value(&mut self, value: Value, regs: &[cl::Value]) {
        let (control, ty) = (self.control, self.value_type(value));
        self.define(control, value, ty, regs);
        if let Some(at) = self.c.layout.values.get(&(control, value)) {
            self.store_typed(ty, *at, regs);
        }
    }

    /// The registers of a constant.
    pub fn constant(&mut self, constant: &Const) -> Regs {
        if constant.ty == Type::Bool {
            return vec![self.truth(constant.bits.bit(0))];
        }
        let mut digits = constant.bits.iter_u64_digits();
        (0..regs_for(constant.ty)).map(|_| self.number(digits.next().unwrap_or(0))).collect()
    }

    // ---- control flow ----

    fn block(&mut self, node: Node, control: usize, block: Block) {
        self.control = control;
        let body = self.body_of(control);
        if body.entry == Some(block) {
            self.clear_sums();
            self.begin_deparser(node);
        }
        self.summed.clear();
        self.count_state(control, block);
        for data in &body.blocks[block].insts {
            self.write_before(&data.inst);
            if !self.inst(&data.inst, &data.results) {
                return;
            }
            self.follow_fields(&data.inst, &data.results);
            self.known.step(&self.c.plan.headers, &data.inst);
        }
        self.write_all();
        self.held_behind.insert(node, Held { fresh: self.fresh.clone(), held: self.held.clone() });
        match body.blocks[block].term.as_ref().map(|t| &t.term) {
            Some(term) => self.term(node, term),
            None => self.give_up(EngineReason::EngineFault),
        }
    }

    /// Stores what the actions of a site need, and puts the packet into the site's queue, in which so many wait.
    pub fn leave_for(&mut self, site: Start, queue: QueuePlace, count: cl::Value) {
        let mut made = FixedBitSet::with_capacity(self.c.plan.cells.list.len());
        if let Start::Site(_, table) = site {
            made.insert(self.c.plan.cells.of(Cell::Hit(table)));
            made.insert(self.c.plan.cells.of(Cell::Colour(table)));
        }
        let targets = entries(self.c.pipeline, &self.c.plan.flow, site);
        self.store_cells(&targets, &made);
        self.enqueue(queue, count);
    }

    /// How many packets wait in a queue.
    pub fn waiting_at(&mut self, queue: QueuePlace) -> cl::Value {
        self.b.ins().load(I64, trusted(), self.context, queue.count)
    }

    /// The address that lies as far behind the context as so many pieces are long, for a list in the worker's memory.
    pub fn of_list(&mut self, count: cl::Value, bytes: i64) -> cl::Value {
        let offset = match bytes.count_ones() {
            1 => self.left(count, bytes.trailing_zeros()),
            _ => self.b.ins().imul_imm_s(count, bytes),
        };
        self.b.ins().iadd(self.context, offset)
    }

    /// Puts the packet into a queue, in which so many wait.
    pub(super) fn enqueue(&mut self, queue: QueuePlace, count: cl::Value) {
        let place = self.of_list(count, size_of::<*mut u8>() as i64);
        let listed = self.b.ins().store(trusted(), self.frame, place, queue.frames);
        let more = self.b.ins().iadd_imm_s(count, 1);
        let counted = self.b.ins().store(trusted(), more, self.context, queue.count);
        let [keys, together] = std::mem::take(&mut self.leaving_with);
        self.mark(listed, Mark::Part);
        self.mark(counted, Mark::Leave { stage: queue.stage, keys, together });
        self.finish();
    }

    /// Where packets wait for a stage.
    pub fn queue(&mut self, start: Start) -> QueuePlace {
        let index = self.c.plan.stages.iter().position(|stage| stage.start == start).unwrap_or(0);
        self.c.memory.queues[index]
    }

    /// On to the next packet.
    pub fn finish(&mut self) {
        let next = self.next;
        self.b.ins().jump(next, &[]);
    }

    /// The engine drops the packet.
    pub fn give_up(&mut self, reason: EngineReason) {
        let told = self.number((reason as u64) << 32 | u64::from(destination::GAVE_UP));
        self.set_head(offset_of!(crate::abi::Head, destination), 8, told);
        self.finish();
    }

    /// A narrower register.
    pub fn narrowed(&mut self, value: cl::Value, bytes: u32) -> cl::Value {
        match bytes {
            2 => self.b.ins().ireduce(I16, value),
            4 => self.b.ins().ireduce(I32, value),
            _ => value,
        }
    }
}
