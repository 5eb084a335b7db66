//! Code as action steps: assigns each instruction to a table's action or to a step of its own.
//!
//! The instructions of an action run in parallel and read the state before it. Straight-line code
//! is therefore cut into steps: an instruction that needs the result of another one is in a later
//! step. The first step after a lookup, for one action, is part of that action. All other steps are
//! tables without keys. Header checksums take no step because the parser and the deparser compute
//! them.

use super::graph::{BlockIndex, StageGraph};
use super::leaves::{InstCost, ValueLeaves, extern_written_vars};
use super::nodes::{AccessEvent, BLOCK_END, EventOrder, NodeId, ObjectAccess, PlacementNode, source_location};
use super::state::{PacketEffect, StateCell, StateCells};
use ir::{ExternArg, ExternFn, ExternId, ExternKind, Inst, InstData, SourceLoc, TableId, Terminator, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Straight-line code: blocks that each have the next one as only successor.
struct StraightRegion {
    /// Nodes by step. Step 0 is the table, if the region has one.
    steps: BTreeMap<usize, NodeId>,
    /// First step in which each value computed, or cell written, in the region is available.
    ready: HashMap<StateCell, usize>,
    /// Last step that reads each cell.
    read: HashMap<StateCell, usize>,
}

/// All accesses of the code, assigned to nodes.
pub(super) struct StepAssignment {
    pub nodes: Vec<PlacementNode>,
    pub events: Vec<AccessEvent>,
    pub accesses: Vec<ObjectAccess>,
    pub notes: BTreeSet<String>,
    /// First node of each block, if the block begins with one: the applied table, or the step of
    /// its code.
    pub first_node: Vec<Option<NodeId>>,
    /// Node of the table that each block applies at its end.
    pub applied_table: Vec<Option<NodeId>>,
    /// Hit flags, which a table returns besides its action's results.
    pub hit_flags: BTreeSet<StateCell>,
}

/// Assigns the instructions of the graph's blocks to steps.
pub(super) struct StepAssigner<'a, 'p> {
    graph: &'a StageGraph<'p>,
    leaves: &'a [ValueLeaves],
    state: &'a StateCells<'p>,
    regions: Vec<StraightRegion>,
    region_of: Vec<usize>,
    tables: BTreeMap<TableId, NodeId>,
    /// Results of checksums, which the deparser computes.
    deparsed: BTreeSet<StateCell>,
    code: StepAssignment,
}

impl<'a, 'p> StepAssigner<'a, 'p> {
    /// Assigns all code of a graph to the nodes of tables and steps, block by block.
    pub fn assign_steps(
        graph: &'a StageGraph<'p>,
        leaves: &'a [ValueLeaves],
        state: &'a StateCells<'p>,
    ) -> StepAssignment {
        let count = graph.sites.len();
        let code = StepAssignment {
            nodes: Vec::new(),
            events: Vec::new(),
            accesses: Vec::new(),
            notes: BTreeSet::new(),
            first_node: vec![None; count],
            applied_table: vec![None; count],
            hit_flags: BTreeSet::new(),
        };
        let (regions, region_of, tables) = (Vec::new(), vec![usize::MAX; count], BTreeMap::new());
        let mut assigner =
            StepAssigner { graph, leaves, state, regions, region_of, tables, deparsed: BTreeSet::new(), code };
        for block in 0..count {
            assigner.enter_region(block);
            for (index, inst) in graph.block_data(block).insts.iter().enumerate() {
                assigner.assign_inst(block, index, inst);
            }
            assigner.assign_terminator(block);
        }
        assigner.code
    }

    /// Finds the region of a block: that of its predecessor if this block is its only successor,
    /// otherwise a new one.
    fn enter_region(&mut self, at: BlockIndex) {
        let site = &self.graph.sites[at];
        let before = match site.preds[..] {
            [pred] if pred < at => self.graph.block_data(pred).term.as_ref().map(|t| (pred, &t.term)),
            _ => None,
        };
        self.region_of[at] = match before {
            Some((pred, Terminator::Jump(_))) => self.region_of[pred],
            Some((_, Terminator::Apply { table, .. })) => {
                let node = self.table_node(*table);
                self.record_arm_params(at, node);
                self.open_region(Some(node))
            }
            _ => self.open_region(None),
        };
    }

    fn open_region(&mut self, table: Option<NodeId>) -> usize {
        let steps = table.iter().map(|t| (0, *t)).collect();
        self.regions.push(StraightRegion { steps, ready: HashMap::new(), read: HashMap::new() });
        self.regions.len() - 1
    }

    /// Records an arm's parameters as writes of the table, for reads outside its action.
    fn record_arm_params(&mut self, at: BlockIndex, node: NodeId) {
        let params = &self.graph.block_data(at).params;
        let cells: Vec<StateCell> = params.iter().map(|p| self.value_cell(at, *p)).collect();
        self.code.hit_flags.extend(cells.first());
        self.add_event(node, at, 0, Vec::new(), cells);
    }

    fn table_node(&mut self, id: TableId) -> NodeId {
        if let Some(node) = self.tables.get(&id) {
            return *node;
        }
        let name = self.state.pipeline.tables[id].preamble.name.clone();
        self.code.nodes.push(PlacementNode { table: Some(id), name, objects: Vec::new(), conditions: Vec::new() });
        let node = self.code.nodes.len() - 1;
        self.tables.insert(id, node);
        node
    }

    /// Returns the node of step number `step` in the block's region.
    fn step_node(&mut self, at: BlockIndex, step: usize, loc: SourceLoc) -> NodeId {
        let region = &mut self.regions[self.region_of[at]];
        if let Some(node) = region.steps.get(&step) {
            return *node;
        }
        let mut name = source_location(self.state.pipeline, loc);
        if step > 0 {
            name += &format!(" step {}", step + 1);
        }
        self.code.nodes.push(PlacementNode { table: None, name, objects: Vec::new(), conditions: Vec::new() });
        let node = self.code.nodes.len() - 1;
        region.steps.insert(step, node);
        self.code.first_node[at].get_or_insert(node);
        node
    }

    fn add_event(
        &mut self,
        node: NodeId,
        at: BlockIndex,
        moment: EventOrder,
        reads: Vec<StateCell>,
        writes: Vec<StateCell>,
    ) {
        self.code.events.push(AccessEvent { node, at, order: moment, reads, writes });
    }

    fn value_cell(&self, at: BlockIndex, value: Value) -> StateCell {
        self.state.value_cell(self.graph.sites[at].control, value)
    }

    fn block_leaves(&self, at: BlockIndex) -> &'a ValueLeaves {
        &self.leaves[self.graph.sites[at].control]
    }

    fn leaf_cells(&self, at: BlockIndex, value: Value) -> Vec<StateCell> {
        let control = self.graph.sites[at].control;
        self.block_leaves(at).leaves_of(value).iter().map(|leaf| self.state.leaf_cell(control, *leaf)).collect()
    }

    fn used_cells(&self, at: BlockIndex, inst: &Inst) -> Vec<StateCell> {
        let mut cells = Vec::new();
        inst.for_each_use(|v| cells.extend(self.leaf_cells(at, v)));
        cells
    }

    /// Returns the first step in which all cells are available.
    fn ready_step(&self, at: BlockIndex, cells: &[StateCell]) -> usize {
        let ready = &self.regions[self.region_of[at]].ready;
        cells.iter().filter_map(|c| ready.get(c)).copied().max().unwrap_or(0)
    }

    /// Adds an instruction that reads and writes cells.
    fn add_computation(
        &mut self,
        at: BlockIndex,
        moment: EventOrder,
        loc: SourceLoc,
        reads: Vec<StateCell>,
        writes: Vec<StateCell>,
    ) -> NodeId {
        let step = self.ready_step(at, &reads);
        self.add_computation_in_step(at, moment, loc, step, reads, writes)
    }

    /// Adds an instruction to a step of its block's region, or to a later one if it overwrites a
    /// cell that the step could still use. Returns the step's node. `moment` is the order of the
    /// instruction in the block.
    fn add_computation_in_step(
        &mut self,
        at: BlockIndex,
        moment: EventOrder,
        loc: SourceLoc,
        step: usize,
        reads: Vec<StateCell>,
        writes: Vec<StateCell>,
    ) -> NodeId {
        let region = &mut self.regions[self.region_of[at]];
        // It must not write a cell that an earlier instruction reads or writes in a later step.
        let last_use = |c: &StateCell| region.ready.get(c).max(region.read.get(c)).copied();
        let step = writes.iter().filter_map(last_use).fold(step, usize::max);
        region.ready.extend(writes.iter().map(|c| (*c, step + 1)));
        for cell in &reads {
            let last_read = region.read.entry(*cell).or_default();
            *last_read = step.max(*last_read);
        }
        let node = self.step_node(at, step, loc);
        self.add_event(node, at, moment, reads, writes);
        node
    }

    /// Assigns one instruction to a step. `moment` is its order in the block. Constants, and loads
    /// and copies that a later instruction can read directly, take no step.
    fn assign_inst(&mut self, at: BlockIndex, moment: EventOrder, data: &InstData) {
        let (inst, loc) = (&data.inst, data.loc);
        match inst {
            Inst::Store(var, value) => self.assign_store(at, moment, loc, self.state.var_cell(*var), *value),
            Inst::SetValid(header) | Inst::SetInvalid(header) => {
                let union = self.state.pipeline.headers[*header].union;
                let members = union.map(|u| self.state.pipeline.unions[u].members.clone());
                let writes = members.unwrap_or_else(|| vec![*header]).into_iter().map(StateCell::Valid).collect();
                self.add_computation(at, moment, loc, Vec::new(), writes);
            }
            Inst::CopyHeader { dst, src } => {
                let cells = |h: &ir::HeaderId| {
                    let fields = self.state.pipeline.headers[*h].fields.iter().map(|v| self.state.var_cell(*v));
                    fields.chain([StateCell::Valid(*h)]).collect::<Vec<StateCell>>()
                };
                let (reads, writes) = (cells(src), cells(dst));
                self.add_computation(at, moment, loc, reads, writes);
            }
            Inst::Extern { object, func, args } => self.assign_call(at, moment, data, *object, *func, args),
            _ => match (self.block_leaves(at).inst_cost(self.graph.body(at), inst), &data.results[..]) {
                (InstCost::Load(var), [result]) => {
                    let (from, to) = (self.state.var_cell(var), self.value_cell(at, *result));
                    // A load takes an instruction only if the variable changes while the value is
                    // live.
                    if from != to {
                        self.assign_copy(at, moment, loc, from, to);
                    }
                }
                (InstCost::Materialized, results) => {
                    let reads = self.used_cells(at, inst);
                    let writes = results.iter().map(|r| self.value_cell(at, *r)).collect();
                    self.add_computation(at, moment, loc, reads, writes);
                }
                _ => {}
            },
        }
    }

    /// Adds `to = value`. Takes no instruction if both share storage.
    fn assign_store(&mut self, at: BlockIndex, moment: EventOrder, loc: SourceLoc, to: StateCell, value: Value) {
        let leaves = self.block_leaves(at);
        if leaves.is_leaf(value) {
            let from = self.value_cell(at, value);
            if from != to {
                self.assign_copy(at, moment, loc, from, to);
            }
            return;
        }
        let reads = self.leaf_cells(at, value);
        let node = self.add_computation(at, moment, loc, reads.clone(), vec![to]);
        if leaves.is_test(value) {
            let bits = reads.iter().map(|c| self.state.cell_bits(*c)).sum();
            let text = format!("{} = ...", self.state.cell_name(to));
            self.code.nodes[node].conditions.push((text, bits));
        }
    }

    /// Adds a copy. It can be in the step that computes its source, because the same instruction
    /// can write the other destination.
    fn assign_copy(&mut self, at: BlockIndex, moment: EventOrder, loc: SourceLoc, from: StateCell, to: StateCell) {
        if self.deparsed.contains(&from) {
            return;
        }
        let step = self.ready_step(at, &[from]).saturating_sub(1);
        self.add_computation_in_step(at, moment, loc, step, vec![from], vec![to]);
    }

    /// Assigns an extern call to the step of its table or to one of its own. `moment` is its order
    /// in the block.
    fn assign_call(
        &mut self,
        at: BlockIndex,
        moment: EventOrder,
        data: &InstData,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[ExternArg],
    ) {
        let pipeline = self.state.pipeline;
        if self.is_outside_stages(at, data, object, func) {
            return;
        }
        let mut reads = self.used_cells(at, &data.inst);
        let mut writes: Vec<StateCell> = data.results.iter().map(|r| self.value_cell(at, *r)).collect();
        for vars in args.iter().filter_map(|a| if let ExternArg::Vars(vars) = a { Some(vars) } else { None }) {
            reads.extend(vars.iter().map(|v| self.state.var_cell(*v)));
        }
        writes.extend(extern_written_vars(pipeline, func).into_iter().map(|v| self.state.var_cell(v)));
        writes.extend(PacketEffect::of_call(func).map(StateCell::Effect));
        if matches!(func, ExternFn::AddEntry) {
            self.code
                .notes
                .insert(format!("{}: a chip cannot add entries by itself", source_location(pipeline, data.loc)));
        }
        let called_table = args.iter().find_map(|a| if let ExternArg::Table(t) = a { Some(*t) } else { None });
        if let Some(table) = called_table {
            let node = self.table_node(table);
            return self.add_event(node, at, moment, reads, writes);
        }
        let node = match (func, object.map(StateCell::Object)) {
            // A read, arithmetic and a write of one register are one stateful instruction in the
            // step of the read. It also computes the values in between.
            (ExternFn::RegisterWrite, Some(register)) if self.ready_step(at, &[register]) > 0 => {
                let step = self.ready_step(at, &[register]) - 1;
                reads.retain(|cell| self.ready_step(at, &[*cell]) <= step);
                self.add_computation_in_step(at, moment, data.loc, step, reads, Vec::new())
            }
            (ExternFn::RegisterRead, Some(register)) => {
                let step = self.ready_step(at, &reads);
                let node = self.add_computation_in_step(at, moment, data.loc, step, reads, writes);
                let region = self.region_of[at];
                self.regions[region].ready.insert(register, step + 1);
                node
            }
            _ => self.add_computation(at, moment, data.loc, reads, writes),
        };
        if let Some(object) = object.filter(|o| pipeline.externs[*o].kind.is_indexed()) {
            self.code.accesses.push(ObjectAccess { object, node, at, order: moment });
        }
    }

    /// Returns whether a call runs outside the stages: for debugging, or in the deparser.
    fn is_outside_stages(&mut self, at: BlockIndex, data: &InstData, object: Option<ExternId>, func: ExternFn) -> bool {
        let kind = object.map(|o| &self.state.pipeline.externs[o].kind);
        if kind.is_some_and(is_checksum_extern) || is_checksum_function(func) {
            let results: Vec<StateCell> = data.results.iter().map(|r| self.value_cell(at, *r)).collect();
            self.deparsed.extend(results);
            return true;
        }
        matches!(func, ExternFn::Assert | ExternFn::Assume | ExternFn::LogMsg)
    }

    /// Assigns the lookup of a block's table, and the moves of arguments to the parameters of its
    /// successors.
    fn assign_terminator(&mut self, at: BlockIndex) {
        let Some(term) = &self.graph.block_data(at).term else { return };
        if let Terminator::Apply { table, keys, .. } = &term.term {
            let node = self.table_node(*table);
            let reads = keys.iter().flat_map(|k| self.leaf_cells(at, *k)).collect();
            let color_cell = self.state.pipeline.tables[*table].meter_result.map(|v| self.state.var_cell(v));
            self.add_event(node, at, BLOCK_END, reads, color_cell.into_iter().collect());
            self.code.applied_table[at] = Some(node);
            self.code.first_node[at].get_or_insert(node);
        }
        let mut moves = Vec::new();
        term.term.for_each_call(|call| {
            let params = self.graph.body(at).blocks.get(call.block).map_or(&[][..], |b| &b.params);
            moves.extend(params.iter().copied().zip(call.args.iter().copied()));
        });
        for (param, arg) in moves {
            let param_cell = self.value_cell(at, param);
            self.assign_store(at, BLOCK_END, term.loc, param_cell, arg);
        }
    }
}

fn is_checksum_extern(kind: &ExternKind) -> bool {
    matches!(kind, ExternKind::InternetChecksum | ExternKind::Checksum16 | ExternKind::Checksum { .. })
}

fn is_checksum_function(func: ExternFn) -> bool {
    use ExternFn::*;
    matches!(func, VerifyChecksum | UpdateChecksum | VerifyChecksumWithPayload | UpdateChecksumWithPayload)
}
