//! One stage as one function: a loop over its packets.

use crate::abi::{StageContext, destination};
use crate::analysis::frame_slots::FrameSlot;
use crate::analysis::imported_values::imported_values;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::validity::KnownValidity;
use crate::code::annotations::{InstRole, StageAnnotations};
use crate::code::compiling::CodegenContext;
use crate::code::registers::{ValueRegs, reg_type, regs_for, trusted_flags};
use crate::code::state::{ActionParam, DeparserState, FieldCache, MaskedCompare, PendingStores};
use crate::plan::memory_layout::QueueLayout;
use crate::plan::stages::{StageEntry, entry_nodes, successors_in_stage};
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

/// Builder of a stage's function.
pub struct StageBuilder<'a, 'b> {
    /// Inputs of code generation.
    pub c: &'a CodegenContext<'a>,
    /// Builder of the CLIF function.
    pub b: FunctionBuilder<'b>,
    /// Address of the context.
    pub context: cl::Value,
    /// Address of the packet's frame, and its lookup result.
    pub frame: cl::Value,
    result: cl::Value,
    /// Address of the frame's address in the queue.
    pub(super) queue_entry: cl::Value,
    /// Registers of the frame slots.
    pub(super) slot_vars: Vec<Vec<Variable>>,
    values: HashMap<(usize, Value), Vec<Variable>>,
    pub(super) blocks: HashMap<FlowNodeId, cl::Block>,
    /// Block that continues with the next packet.
    next: cl::Block,
    /// Slots that may differ from the frame after each node.
    pub(super) changed_slots: HashMap<FlowNodeId, FixedBitSet>,
    /// Node that is being translated.
    pub(super) node: FlowNodeId,
    pub(super) start: StageEntry,
    /// Header validity known at this point.
    pub validity: KnownValidity,
    /// Control that is being translated.
    pub control: usize,
    /// Registers of the deparser.
    pub deparser: DeparserState,
    /// Values of the current block that equal the current value of a valid header's field.
    pub field_of_value: HashMap<Value, (HeaderId, u32)>,
    /// Registers of valid headers' fields, as far as this block has loaded or stored them.
    pub field_regs: HashMap<(HeaderId, u32), ValueRegs>,
    /// Field cache at the end of each node, for a node with that single predecessor.
    cached_at_end: HashMap<FlowNodeId, FieldCache>,
    /// Pending stores to fields of valid headers.
    pub pending_stores: PendingStores,
    /// Internet checksums that the current block has changed.
    pub changed_checksums: BTreeSet<ExternId>,
    /// Header bytes that this stage has already written.
    pub written_bytes: BTreeSet<(HeaderId, u32)>,
    /// Headers that this stage never writes.
    pub unwritten_headers: BTreeSet<HeaderId>,
    /// Tests against constants, by their results.
    pub tests: HashMap<cl::Value, MaskedCompare>,
    /// Action parameters of 3, 5, 6 or 7 bytes, by their registers.
    pub params: HashMap<cl::Value, ActionParam>,
    /// Address of the packet's record buffer, if the code records.
    pub(super) record_addr: Option<cl::Value>,
    /// Annotations of instructions for the vectoriser.
    pub(super) roles: HashMap<cl::Inst, InstRole>,
    /// Words of the keys for the lookup and the paired lookup at which the packet leaves.
    pub(super) exit_keys: [Vec<cl::Value>; 2],
}

/// Returns the headers that no instruction of these nodes writes, and that no table application
/// among them or at the entry `start` changes through its meter result.
fn unwritten_headers(c: &CodegenContext<'_>, start: StageEntry, nodes: &[FlowNodeId]) -> BTreeSet<HeaderId> {
    let mut unwritten: BTreeSet<HeaderId> = c.pipeline.headers.keys().collect();
    let remove_field_header = |var: ir::VarId, unwritten: &mut BTreeSet<HeaderId>| {
        if let VarKind::Field(header, _) = c.pipeline.vars[var].kind {
            unwritten.remove(&header);
        }
    };
    let remove_meter_result = |table: TableId, unwritten: &mut BTreeSet<HeaderId>| {
        if let Some(var) = c.pipeline.tables[table].meter_result {
            remove_field_header(var, unwritten);
        }
    };
    if let StageEntry::Table(_, id) = start {
        remove_meter_result(id, &mut unwritten);
    }
    for node in nodes {
        if let Some(id) = c.plan.flow.applied_table(c.pipeline, *node) {
            remove_meter_result(id, &mut unwritten);
        }
        let NodeKind::Block(control, block) = c.plan.flow.nodes[*node] else { continue };
        for data in &c.pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts {
            match &data.inst {
                Inst::Store(var, _) => {
                    if let VarKind::Field(header, _) = c.pipeline.vars[*var].kind {
                        unwritten.remove(&header);
                    }
                }
                Inst::SetValid(header) | Inst::CopyHeader { dst: header, .. } => {
                    unwritten.remove(header);
                }
                _ => {}
            }
        }
    }
    unwritten
}

/// Loop of a stage over its packets.
struct PacketLoop {
    /// Block of a packet; the builder is positioned there.
    body: cl::Block,
    /// Block that continues with the next packet, or returns.
    next: cl::Block,
    /// Address of the worker's memory.
    context: cl::Value,
    /// Address of the packet's frame in the entry stage, of its queue entry in other stages.
    at: cl::Value,
}

impl PacketLoop {
    /// Builds the loop with an empty body. Each turn's position is a block parameter of the body:
    /// the address of a frame in the entry stage, of an entry of the queue in others.
    fn build(c: &CodegenContext<'_>, b: &mut FunctionBuilder<'_>, start: StageEntry) -> PacketLoop {
        let [entry, body, next, end] = [(); 4].map(|()| b.create_block());
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let [context, first] = [0, 1].map(|index| b.block_params(entry)[index]);
        // The entry stage runs over all frames in order, other stages over the frame addresses in
        // their queues. Loop-invariant values stay in memory, because the registers are needed for
        // packets.
        let step = if start == StageEntry::Begin { c.layout.stride } else { size_of::<*mut u8>() as u32 };
        let position = b.append_block_param(body, I64);
        b.ins().jump(body, &[first.into()]);
        b.switch_to_block(next);
        let after = b.ins().iadd_imm_s(position, i64::from(step));
        let queue_end = b.ins().load(I64, trusted_flags(), context, offset_of!(StageContext, queue_end) as i32);
        let has_more = b.ins().icmp(IntCC::NotEqual, after, queue_end);
        b.ins().brif(has_more, body, &[after.into()], end, &[]);
        b.switch_to_block(end);
        b.ins().return_(&[]);
        for block in [end, body] {
            b.seal_block(block);
        }
        b.switch_to_block(body);
        PacketLoop { body, next, context, at: position }
    }
}

impl<'a, 'b> StageBuilder<'a, 'b> {
    /// Builds the function of a stage. `start` is the stage's entry; `nodes` are its nodes in the
    /// order of translation. Returns the builder, and the instructions' annotations for the
    /// vectoriser.
    pub fn build_stage(
        c: &'a CodegenContext<'a>,
        mut b: FunctionBuilder<'b>,
        start: StageEntry,
        nodes: &[FlowNodeId],
    ) -> (FunctionBuilder<'b>, StageAnnotations) {
        let PacketLoop { body, next, context, at: queue_entry } = PacketLoop::build(c, &mut b, start);
        let zero = b.ins().iconst(I64, 0);
        let frame =
            if start == StageEntry::Begin { queue_entry } else { b.ins().load(I64, trusted_flags(), queue_entry, 0) };
        let result = match start {
            StageEntry::Table(..) => {
                // The lookup's results lie at a fixed distance from the queue, in the same order.
                let results_distance = c.memory.results - c.memory.queues[c.stage.get()].frames;
                b.ins().load(I64, trusted_flags(), queue_entry, results_distance)
            }
            _ => zero,
        };
        let validity = KnownValidity {
            valid: FixedBitSet::with_capacity(0),
            invalid: FixedBitSet::with_capacity(0),
            implied: Rc::default(),
        };
        let [count, front, next_at, gaps] = [(); 4].map(|()| {
            let var = b.declare_var(I64);
            b.def_var(var, zero);
            var
        });
        let deparser = DeparserState { count, front, next: next_at, gaps };
        let mut code = StageBuilder {
            c,
            b,
            context,
            frame,
            result,
            queue_entry,
            slot_vars: Vec::new(),
            values: HashMap::new(),
            blocks: HashMap::new(),
            next,
            changed_slots: HashMap::new(),
            node: 0,
            start,
            validity,
            control: 0,
            deparser,
            field_of_value: HashMap::new(),
            field_regs: HashMap::new(),
            cached_at_end: HashMap::new(),
            pending_stores: PendingStores::new(),
            changed_checksums: BTreeSet::new(),
            written_bytes: BTreeSet::new(),
            unwritten_headers: unwritten_headers(c, start, nodes),
            tests: HashMap::new(),
            params: HashMap::new(),
            record_addr: None,
            roles: HashMap::new(),
            exit_keys: Default::default(),
        };
        code.compute_record_address();
        code.translate_body(nodes);
        code.b.seal_all_blocks();
        let off_hot_path = |(node, _): &(&FlowNodeId, &cl::Block)| {
            start == StageEntry::Begin && !c.plan.flow.is_begin_or_on_hot_path(**node)
        };
        let off_hot_path = code.blocks.iter().filter(off_hot_path).map(|(_, block)| *block).collect();
        (code.b, StageAnnotations { body, next, context, queue_entry, roles: code.roles, off_hot_path })
    }

    /// Annotates an instruction.
    pub(super) fn annotate(&mut self, inst: cl::Inst, mark: InstRole) {
        self.roles.insert(inst, mark);
    }

    /// Emits the code of all nodes: first the loads of the values that the stage imports, then one
    /// block per node, in order. A block that a back edge enters stays unsealed to the end, because
    /// Cranelift needs all predecessors of a sealed block.
    fn translate_body(&mut self, nodes: &[FlowNodeId]) {
        self.declare_slots();
        self.load_slots(nodes);
        for (control, value) in imported_values(self.c.pipeline, &self.c.plan.flow, nodes) {
            let body = self.body_of(control);
            let ty = body.value_type(value);
            if let Some(offset) = self.c.layout.values.get(&(control, value)) {
                let regs = self.load_typed(ty, *offset, true);
                self.define(control, value, ty, &regs);
            }
        }
        for node in nodes {
            let block = self.b.create_block();
            self.blocks.insert(*node, block);
        }
        self.emit_stage_entry();
        let back_edge_targets = self.loop_targets(nodes);
        let single_predecessors = self.single_predecessors(nodes);
        for node in nodes {
            let block = self.blocks[node];
            match back_edge_targets.contains(node) {
                true => self.b.switch_to_block(block),
                false => self.switch_to_sealed(block),
            }
            if let Some(known) = &self.c.plan.validity[*node] {
                self.validity = known.clone();
                self.node = *node;
                self.set_constants(*node);
                let cache = single_predecessors
                    .get(node)
                    .and_then(|from| self.cached_at_end.get(from))
                    .cloned()
                    .unwrap_or_default();
                (self.field_of_value, self.field_regs) = (cache.field_of_value, cache.field_regs);
                match self.c.plan.flow.nodes[*node] {
                    NodeKind::ArchStep(glue) => self.emit_arch_step(*node, glue),
                    NodeKind::Block(control, block) => self.translate_block(*node, control, block),
                }
            } else {
                // The node is unreachable.
                self.emit_engine_drop(EngineReason::EngineBug);
            }
        }
    }

    /// Returns the targets of back edges.
    fn loop_targets(&self, nodes: &[FlowNodeId]) -> BTreeSet<FlowNodeId> {
        let mut passed = BTreeSet::new();
        let mut late = BTreeSet::new();
        for node in nodes {
            passed.insert(*node);
            let next = successors_in_stage(self.c.pipeline, &self.c.plan.flow, self.start, *node);
            late.extend(next.into_iter().filter(|n| passed.contains(n)));
        }
        late
    }

    /// Switches to a block to which all jumps have been emitted, and seals it so that earlier
    /// values are known in it.
    pub fn switch_to_sealed(&mut self, block: cl::Block) {
        self.b.switch_to_block(block);
        self.b.seal_block(block);
    }

    /// Emits the jump to the first node, or the choice among the actions of the lookup's table.
    fn emit_stage_entry(&mut self) {
        match self.start {
            StageEntry::Begin | StageEntry::Restart | StageEntry::Join(_) | StageEntry::Deparser(_) => {
                let entry = entry_nodes(self.c.pipeline, &self.c.plan.flow, self.start);
                let block = self.blocks[&entry[0]];
                self.b.ins().jump(block, &[]);
            }
            StageEntry::Table(node, table) => {
                self.node = node;
                self.continue_with_result(node, table, self.result);
            }
        }
    }

    /// Continues at the action of a lookup result for the table of a node; 0 is a miss.
    fn continue_with_result(&mut self, node: FlowNodeId, table: TableId, found: cl::Value) {
        let zero = self.iconst_u64(0);
        let hit = self.b.ins().icmp(IntCC::NotEqual, found, zero);
        let default = self.default_value(table);
        let value = self.b.ins().select(hit, found, default);
        self.choose_action(node, table, hit, value);
    }

    /// Continues with the result of the paired lookup.
    pub fn continue_with_paired_result(&mut self, node: FlowNodeId, table: TableId) {
        let beside = self.c.memory.paired_results - self.c.memory.queues[self.c.stage.get()].frames;
        let found = self.b.ins().load(I64, trusted_flags(), self.queue_entry, beside);
        self.continue_with_result(node, table, found);
    }

    /// Returns the record that the lookup found in a table that packets write. It lies in the list
    /// of the paired lookup, which such a stage does not have.
    pub fn found_record(&mut self) -> cl::Value {
        let distance = self.c.memory.paired_results - self.c.memory.queues[self.c.stage.get()].frames;
        self.b.ins().load(I64, trusted_flags(), self.queue_entry, distance)
    }

    /// Returns the body of a control.
    pub fn body_of(&self, control: usize) -> &'a Body {
        &self.c.pipeline.controls[ir::ControlId(control as u32)].body
    }

    // ---- values ----

    /// Returns a value's registers.
    pub fn value(&mut self, value: Value) -> ValueRegs {
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

    /// Returns the type of a value.
    pub fn value_type(&self, value: Value) -> Type {
        self.body_of(self.control).value_type(value)
    }

    /// Returns a value's lowest register, a bool as a number.
    pub fn low_register(&mut self, value: Value) -> cl::Value {
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

    /// Sets the registers of a value of the current body, and stores it for later stages that use
    /// it.
    pub fn set_value(&mut self, value: Value, regs: &[cl::Value]) {
        let (control, ty) = (self.control, self.value_type(value));
        self.define(control, value, ty, regs);
        if let Some(at) = self.c.layout.values.get(&(control, value)) {
            self.store_typed(ty, *at, regs);
        }
    }

    /// Returns the registers of a constant.
    pub fn constant(&mut self, constant: &Const) -> ValueRegs {
        if constant.ty == Type::Bool {
            return vec![self.iconst_bool(constant.bits.bit(0))];
        }
        let mut digits = constant.bits.iter_u64_digits();
        (0..regs_for(constant.ty)).map(|_| self.iconst_u64(digits.next().unwrap_or(0))).collect()
    }

    // ---- control flow ----

    /// Emits the code of one basic block: its instructions with their pending stores, and its
    /// terminator. Stops where an instruction ends the packet.
    fn translate_block(&mut self, node: FlowNodeId, control: usize, block: Block) {
        self.control = control;
        let body = self.body_of(control);
        if body.entry == Some(block) {
            self.reset_checksums();
            self.begin_deparser(node);
        }
        self.changed_checksums.clear();
        self.count_state(control, block);
        for data in &body.blocks[block].insts {
            self.emit_pending_before(&data.inst);
            if !self.translate_inst(&data.inst, &data.results) {
                return;
            }
            self.update_field_cache(&data.inst, &data.results);
            self.validity.apply_inst(&self.c.plan.headers, &data.inst);
        }
        self.emit_all_pending();
        self.cached_at_end.insert(
            node,
            FieldCache { field_of_value: self.field_of_value.clone(), field_regs: self.field_regs.clone() },
        );
        match body.blocks[block].term.as_ref().map(|t| &t.term) {
            Some(term) => self.emit_terminator(node, term),
            None => self.emit_engine_drop(EngineReason::EngineBug),
        }
    }

    /// Stores the slots that a stage needs, and appends the packet to the stage's queue of length
    /// `count`.
    pub fn leave_for_stage(&mut self, site: StageEntry, queue: QueueLayout, count: cl::Value) {
        let mut made = FixedBitSet::with_capacity(self.c.plan.slots.slots.len());
        if let StageEntry::Table(_, table) = site {
            made.insert(self.c.plan.slots.index_of(FrameSlot::HitEntry(table)));
            made.insert(self.c.plan.slots.index_of(FrameSlot::MeterColor(table)));
        }
        let targets = entry_nodes(self.c.pipeline, &self.c.plan.flow, site);
        self.store_slots(&targets, &made);
        self.enqueue(queue, count);
    }

    /// Loads the length of a queue.
    pub fn queue_length(&mut self, queue: QueueLayout) -> cl::Value {
        self.b.ins().load(I64, trusted_flags(), self.context, queue.count)
    }

    /// Returns the context's address plus `count` items of `bytes` bytes, as base for a list in the
    /// worker's memory.
    pub fn list_address(&mut self, count: cl::Value, bytes: i64) -> cl::Value {
        let offset = match bytes.count_ones() {
            1 => self.shl_imm(count, bytes.trailing_zeros()),
            _ => self.b.ins().imul_imm_s(count, bytes),
        };
        self.b.ins().iadd(self.context, offset)
    }

    /// Appends the packet to a queue of length `count`.
    pub(super) fn enqueue(&mut self, queue: QueueLayout, count: cl::Value) {
        let place = self.list_address(count, size_of::<*mut u8>() as i64);
        let listed = self.b.ins().store(trusted_flags(), self.frame, place, queue.frames);
        let more = self.b.ins().iadd_imm_s(count, 1);
        let counted = self.b.ins().store(trusted_flags(), more, self.context, queue.count);
        let [keys, together] = std::mem::take(&mut self.exit_keys);
        self.annotate(listed, InstRole::Part);
        self.annotate(counted, InstRole::Leave { stage: queue.stage, keys, together });
        self.finish();
    }

    /// Returns the queue of a stage.
    pub fn stage_queue(&mut self, start: StageEntry) -> QueueLayout {
        let index = self.c.plan.stages.iter().position(|stage| stage.start == start).unwrap_or(0);
        self.c.memory.queues[index]
    }

    /// Continues with the next packet.
    pub fn finish(&mut self) {
        let next = self.next;
        self.b.ins().jump(next, &[]);
    }

    /// Drops the packet with an engine reason.
    pub fn emit_engine_drop(&mut self, reason: EngineReason) {
        let verdict = self.iconst_u64((reason as u64) << 32 | u64::from(destination::ENGINE_DROP));
        self.store_frame_header(offset_of!(crate::abi::FrameHeader, destination), 8, verdict);
        self.finish();
    }

    /// Truncates a register to 2 or 4 bytes.
    pub fn truncate_reg(&mut self, value: cl::Value, bytes: u32) -> cl::Value {
        match bytes {
            2 => self.b.ins().ireduce(I16, value),
            4 => self.b.ins().ireduce(I32, value),
            _ => value,
        }
    }
}
