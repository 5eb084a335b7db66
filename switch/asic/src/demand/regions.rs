//! Code as steps: which instruction is done by which table's action, or by a step of its own.
//!
//! An action's instructions run at once, all on what was there before. So a stretch of straight code is cut into steps: an instruction that
//! needs another one's result is in the next step. The first step of what follows a lookup for one action is part of that action; all other
//! steps are tables without keys. Checksums of headers are the parser's and the deparser's work and take no step.

use super::graph::{At, Graph};
use super::leaves::{Leaves, Shape, touched_vars};
use super::nodes::{Access, END, Event, Moment, Node, NodeId, place};
use super::state::{Cell, Fate, State};
use ir::{Arg, ExternFn, ExternId, ExternKind, Inst, InstData, Loc, TableId, Term, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A stretch of straight code: blocks that each lead to the next one alone.
struct Region {
    /// Its steps; the first is the table, where there is one.
    steps: BTreeMap<usize, NodeId>,
    /// Values computed in it, and state written in it: the step from which on they are there.
    ready: HashMap<Cell, usize>,
    /// State read in it: the last step that does so.
    read: HashMap<Cell, usize>,
}

/// Everything that code does, and who does it.
pub(super) struct Code {
    pub nodes: Vec<Node>,
    pub events: Vec<Event>,
    pub accesses: Vec<Access>,
    pub notes: BTreeSet<String>,
    /// The first node in each site, if the site begins with one: the table applied there, or the step of its code.
    pub first: Vec<Option<NodeId>>,
    /// The node of the table that is applied at the end of the site.
    pub applied: Vec<Option<NodeId>>,
    /// Values that a table tells beside its result: whether it hit.
    pub told: BTreeSet<Cell>,
}

/// Walks the graph's blocks.
pub(super) struct Walk<'a, 'p> {
    graph: &'a Graph<'p>,
    leaves: &'a [Leaves],
    state: &'a State<'p>,
    regions: Vec<Region>,
    region_of: Vec<usize>,
    tables: BTreeMap<TableId, NodeId>,
    /// Results of checksums, which the deparser computes.
    deparsed: BTreeSet<Cell>,
    code: Code,
}

impl<'a, 'p> Walk<'a, 'p> {
    pub fn run(graph: &'a Graph<'p>, leaves: &'a [Leaves], state: &'a State<'p>) -> Code {
        let count = graph.sites.len();
        let code = Code {
            nodes: Vec::new(),
            events: Vec::new(),
            accesses: Vec::new(),
            notes: BTreeSet::new(),
            first: vec![None; count],
            applied: vec![None; count],
            told: BTreeSet::new(),
        };
        let (regions, region_of, tables) = (Vec::new(), vec![usize::MAX; count], BTreeMap::new());
        let mut walk = Walk { graph, leaves, state, regions, region_of, tables, deparsed: BTreeSet::new(), code };
        for at in 0..count {
            walk.enter(at);
            for (moment, inst) in graph.data(at).insts.iter().enumerate() {
                walk.inst(at, moment, inst);
            }
            walk.end(at);
        }
        walk.code
    }

    /// Finds the region of a block: that of the block before it, if that leads here alone.
    fn enter(&mut self, at: At) {
        let site = &self.graph.sites[at];
        let before = match site.preds[..] {
            [pred] if pred < at => self.graph.data(pred).term.as_ref().map(|t| (pred, &t.term)),
            _ => None,
        };
        self.region_of[at] = match before {
            Some((pred, Term::Jump(_))) => self.region_of[pred],
            Some((_, Term::Apply { table, .. })) => {
                let node = self.table(*table);
                self.given(at, node);
                self.open(Some(node))
            }
            _ => self.open(None),
        };
    }

    fn open(&mut self, table: Option<NodeId>) -> usize {
        let steps = table.iter().map(|t| (0, *t)).collect();
        self.regions.push(Region { steps, ready: HashMap::new(), read: HashMap::new() });
        self.regions.len() - 1
    }

    /// An arm's parameters: what the table writes if somebody else than its action reads them.
    fn given(&mut self, at: At, node: NodeId) {
        let params = &self.graph.data(at).params;
        let cells: Vec<Cell> = params.iter().map(|p| self.cell(at, *p)).collect();
        self.code.told.extend(cells.first());
        self.event(node, at, 0, Vec::new(), cells);
    }

    fn table(&mut self, id: TableId) -> NodeId {
        if let Some(node) = self.tables.get(&id) {
            return *node;
        }
        let name = self.state.pipeline.tables[id].preamble.name.clone();
        self.code.nodes.push(Node { table: Some(id), name, objects: Vec::new(), conditions: Vec::new() });
        let node = self.code.nodes.len() - 1;
        self.tables.insert(id, node);
        node
    }

    /// The node that does step number `step` of the region that the block is in.
    fn step(&mut self, at: At, step: usize, loc: Loc) -> NodeId {
        let region = &mut self.regions[self.region_of[at]];
        if let Some(node) = region.steps.get(&step) {
            return *node;
        }
        let mut name = place(self.state.pipeline, loc);
        if step > 0 {
            name += &format!(" step {}", step + 1);
        }
        self.code.nodes.push(Node { table: None, name, objects: Vec::new(), conditions: Vec::new() });
        let node = self.code.nodes.len() - 1;
        region.steps.insert(step, node);
        self.code.first[at].get_or_insert(node);
        node
    }

    fn event(&mut self, node: NodeId, at: At, moment: Moment, reads: Vec<Cell>, writes: Vec<Cell>) {
        self.code.events.push(Event { node, at, moment, reads, writes });
    }

    fn cell(&self, at: At, value: Value) -> Cell {
        self.state.value(self.graph.sites[at].control, value)
    }

    fn leaves(&self, at: At) -> &'a Leaves {
        &self.leaves[self.graph.sites[at].control]
    }

    fn leaf_cells(&self, at: At, value: Value) -> Vec<Cell> {
        let control = self.graph.sites[at].control;
        self.leaves(at).of(value).iter().map(|leaf| self.state.leaf(control, *leaf)).collect()
    }

    fn cells_of(&self, at: At, inst: &Inst) -> Vec<Cell> {
        let mut cells = Vec::new();
        inst.for_each_use(|v| cells.extend(self.leaf_cells(at, v)));
        cells
    }

    /// The step from which on all of the cells are there.
    fn ready(&self, at: At, cells: &[Cell]) -> usize {
        let ready = &self.regions[self.region_of[at]].ready;
        cells.iter().filter_map(|c| ready.get(c)).copied().max().unwrap_or(0)
    }

    /// An instruction that reads and writes.
    fn compute(&mut self, at: At, moment: Moment, loc: Loc, reads: Vec<Cell>, writes: Vec<Cell>) -> NodeId {
        let step = self.ready(at, &reads);
        self.compute_in(at, moment, loc, step, reads, writes)
    }

    fn compute_in(
        &mut self,
        at: At,
        moment: Moment,
        loc: Loc,
        step: usize,
        reads: Vec<Cell>,
        writes: Vec<Cell>,
    ) -> NodeId {
        let region = &mut self.regions[self.region_of[at]];
        // Nor may it write what an earlier instruction still reads in a later step, or has yet to write.
        let after = |c: &Cell| region.ready.get(c).max(region.read.get(c)).copied();
        let step = writes.iter().filter_map(after).fold(step, usize::max);
        region.ready.extend(writes.iter().map(|c| (*c, step + 1)));
        for cell in &reads {
            let last = region.read.entry(*cell).or_default();
            *last = step.max(*last);
        }
        let node = self.step(at, step, loc);
        self.event(node, at, moment, reads, writes);
        node
    }

    fn inst(&mut self, at: At, moment: Moment, data: &InstData) {
        let (inst, loc) = (&data.inst, data.loc);
        match inst {
            Inst::Store(var, value) => self.assign(at, moment, loc, self.state.var(*var), *value),
            Inst::SetValid(header) | Inst::SetInvalid(header) => {
                let union = self.state.pipeline.headers[*header].union;
                let members = union.map(|u| self.state.pipeline.unions[u].members.clone());
                let writes = members.unwrap_or_else(|| vec![*header]).into_iter().map(Cell::Valid).collect();
                self.compute(at, moment, loc, Vec::new(), writes);
            }
            Inst::CopyHeader { dst, src } => {
                let cells = |h: &ir::HeaderId| {
                    let fields = self.state.pipeline.headers[*h].fields.iter().map(|v| self.state.var(*v));
                    fields.chain([Cell::Valid(*h)]).collect::<Vec<Cell>>()
                };
                let (reads, writes) = (cells(src), cells(dst));
                self.compute(at, moment, loc, reads, writes);
            }
            Inst::Extern { object, func, args } => self.call(at, moment, data, *object, *func, args),
            _ => match (self.leaves(at).shape(self.graph.body(at), inst), &data.results[..]) {
                (Shape::Load(var), [result]) => {
                    let (from, to) = (self.state.var(var), self.cell(at, *result));
                    // A load is an instruction only where the variable changes while the value is still in use.
                    if from != to {
                        self.copy(at, moment, loc, from, to);
                    }
                }
                (Shape::Kept, results) => {
                    let reads = self.cells_of(at, inst);
                    let writes = results.iter().map(|r| self.cell(at, *r)).collect();
                    self.compute(at, moment, loc, reads, writes);
                }
                _ => {}
            },
        }
    }

    /// `to = value`, which is no instruction if both are the same place.
    fn assign(&mut self, at: At, moment: Moment, loc: Loc, to: Cell, value: Value) {
        let leaves = self.leaves(at);
        if leaves.is_leaf(value) {
            let from = self.cell(at, value);
            if from != to {
                self.copy(at, moment, loc, from, to);
            }
            return;
        }
        let reads = self.leaf_cells(at, value);
        let node = self.compute(at, moment, loc, reads.clone(), vec![to]);
        if leaves.is_test(value) {
            let bits = reads.iter().map(|c| self.state.bits(*c)).sum();
            let text = format!("{} = ...", self.state.name(to));
            self.code.nodes[node].conditions.push((text, bits));
        }
    }

    /// A copy can be made in the step that makes what is copied, by the same instruction on another place.
    fn copy(&mut self, at: At, moment: Moment, loc: Loc, from: Cell, to: Cell) {
        if self.deparsed.contains(&from) {
            return;
        }
        let step = self.ready(at, &[from]).saturating_sub(1);
        self.compute_in(at, moment, loc, step, vec![from], vec![to]);
    }

    fn call(
        &mut self,
        at: At,
        moment: Moment,
        data: &InstData,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[Arg],
    ) {
        let pipeline = self.state.pipeline;
        if self.elsewhere(at, data, object, func) {
            return;
        }
        let mut reads = self.cells_of(at, &data.inst);
        let mut writes: Vec<Cell> = data.results.iter().map(|r| self.cell(at, *r)).collect();
        for vars in args.iter().filter_map(|a| if let Arg::Vars(vars) = a { Some(vars) } else { None }) {
            reads.extend(vars.iter().map(|v| self.state.var(*v)));
        }
        writes.extend(touched_vars(pipeline, func).into_iter().map(|v| self.state.var(v)));
        writes.extend(Fate::of(func).map(Cell::Fate));
        if matches!(func, ExternFn::AddEntry) {
            self.code.notes.insert(format!("{}: a chip cannot add entries by itself", place(pipeline, data.loc)));
        }
        let beside = args.iter().find_map(|a| if let Arg::Table(t) = a { Some(*t) } else { None });
        if let Some(table) = beside {
            let node = self.table(table);
            return self.event(node, at, moment, reads, writes);
        }
        let node = match (func, object.map(Cell::Object)) {
            // A read, some arithmetic and a write of one register are one stateful instruction, in the step of the read: what is computed
            // in between is computed there.
            (ExternFn::RegisterWrite, Some(register)) if self.ready(at, &[register]) > 0 => {
                let step = self.ready(at, &[register]) - 1;
                reads.retain(|cell| self.ready(at, &[*cell]) <= step);
                self.compute_in(at, moment, data.loc, step, reads, Vec::new())
            }
            (ExternFn::RegisterRead, Some(register)) => {
                let step = self.ready(at, &reads);
                let node = self.compute_in(at, moment, data.loc, step, reads, writes);
                let region = self.region_of[at];
                self.regions[region].ready.insert(register, step + 1);
                node
            }
            _ => self.compute(at, moment, data.loc, reads, writes),
        };
        if let Some(object) = object.filter(|o| pipeline.externs[*o].kind.is_indexed()) {
            self.code.accesses.push(Access { object, node, at, moment });
        }
    }

    /// Whether a call is none of the stages' business: it is for debugging, or the deparser's.
    fn elsewhere(&mut self, at: At, data: &InstData, object: Option<ExternId>, func: ExternFn) -> bool {
        let kind = object.map(|o| &self.state.pipeline.externs[o].kind);
        if kind.is_some_and(checksum) || checksum_function(func) {
            let results: Vec<Cell> = data.results.iter().map(|r| self.cell(at, *r)).collect();
            self.deparsed.extend(results);
            return true;
        }
        matches!(func, ExternFn::Assert | ExternFn::Assume | ExternFn::LogMsg)
    }

    fn end(&mut self, at: At) {
        let Some(term) = &self.graph.data(at).term else { return };
        if let Term::Apply { table, keys, .. } = &term.term {
            let node = self.table(*table);
            let reads = keys.iter().flat_map(|k| self.leaf_cells(at, *k)).collect();
            let colour = self.state.pipeline.tables[*table].meter_result.map(|v| self.state.var(v));
            self.event(node, at, END, reads, colour.into_iter().collect());
            self.code.applied[at] = Some(node);
            self.code.first[at].get_or_insert(node);
        }
        let mut moves = Vec::new();
        term.term.for_each_call(|call| {
            let params = self.graph.body(at).blocks.get(call.block).map_or(&[][..], |b| &b.params);
            moves.extend(params.iter().copied().zip(call.args.iter().copied()));
        });
        for (param, arg) in moves {
            let to = self.cell(at, param);
            self.assign(at, END, term.loc, to, arg);
        }
    }
}

fn checksum(kind: &ExternKind) -> bool {
    matches!(kind, ExternKind::InternetChecksum | ExternKind::Checksum16 | ExternKind::Checksum { .. })
}

fn checksum_function(func: ExternFn) -> bool {
    use ExternFn::*;
    matches!(func, VerifyChecksum | UpdateChecksum | VerifyChecksumWithPayload | UpdateChecksumWithPayload)
}
