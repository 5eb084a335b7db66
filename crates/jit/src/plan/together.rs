//! Lookups that need nothing of each other, made together.
//!
//! Two tables that are applied one after the other are two stages, even where the second one's key is known before the first one is looked up: routes and lists of rules that
//! go by the same packet. Each stage has its cost: queues, frames, lines that are asked for and waited for. So the key of the second one is made where packets leave for the first
//! one, both are looked up there, and the stage behind goes on where the second table is applied with what was found for it.
//!
//! What would cost a packet a lookup in vain is left alone: tables that are applied behind a comparison that hardly holds (Ball and Larus, "Branch prediction for free", 1993: two
//! numbers are seldom equal).

use crate::analysis::cells::{Cell, Cells};
use crate::analysis::copies::Companion;
use crate::analysis::flow::{Flow, looked_up};
use crate::analysis::node::{Node, Step};
use crate::plan::stages::{Start, entries, inside, region};
use fixedbitset::FixedBitSet;
use ir::{BinaryOp, Inst, InstData, Pipeline, Term, Value, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// A key that takes more instructions than this is made where it stands.
const MOST_INSTS: usize = 64;

/// Finds the lookups that are made together with each other, and says so of the first of each two. `cells`: of the pipeline, as they are at what is no copy.
pub fn look_up_together(pipeline: &Pipeline, flow: &mut Flow, cells: &Cells) {
    let alone = |flow: &Flow, node: Node| flow.looks_up(node) && !flow.in_place(node);
    let copies = flow.originals().end..flow.nodes.len();
    for node in copies.filter(|node| alone(flow, *node)).collect::<Vec<_>>() {
        let Some(table) = looked_up(pipeline, flow, node) else { continue };
        let start = Start::Site(node, table);
        let nodes = region(pipeline, flow, start);
        let likely = likely(pipeline, flow, start, &nodes);
        let found = nodes.iter().filter(|there| likely.contains(there) && alone(flow, **there));
        let found = found.filter_map(|there| companion(pipeline, flow, cells, (start, &nodes), *there));
        // Where several are in question, the table that is made for more entries.
        let size = |it: &Companion| pipeline.tables[it.table].size.unwrap_or(0);
        let best = found.reduce(|best, other| if size(&other) > size(&best) { other } else { best });
        if let Some(best) = best {
            flow.look_up_together(node, best);
        }
    }
}

/// Those of a stage's nodes that most packets come to. Each node comes behind those that lead to it.
fn likely(pipeline: &Pipeline, flow: &Flow, start: Start, nodes: &[Node]) -> BTreeSet<Node> {
    likely_nodes(pipeline, flow, (entries(pipeline, flow, start), nodes), |node| inside(pipeline, flow, start, node))
}

/// Those of some nodes that most packets come to, if packets begin at the first ones. Each node comes behind those that lead to it.
///
/// Of two ways one is seldom taken if no lookup lies on it, because a program ends a packet's walk early where something is wrong with it. Of two ways with
/// lookups it is the one behind a comparison that seldom holds.
pub(super) fn likely_nodes(
    pipeline: &Pipeline,
    flow: &Flow,
    (first, nodes): (Vec<Node>, &[Node]),
    ways: impl Fn(Node) -> Vec<Node>,
) -> BTreeSet<Node> {
    let mut leading = BTreeSet::new();
    for node in nodes.iter().rev() {
        if looked_up(pipeline, flow, *node).is_some() || ways(*node).iter().any(|next| leading.contains(next)) {
            leading.insert(*node);
        }
    }
    let mut likely: BTreeSet<Node> = first.into_iter().collect();
    for node in nodes.iter().filter(|node| leading.contains(node)) {
        if likely.contains(node) {
            let onward: Vec<Node> = ways(*node).into_iter().filter(|next| leading.contains(next)).collect();
            let seldom = seldom(pipeline, flow, *node).filter(|_| onward.len() > 1);
            likely.extend(onward.into_iter().filter(|next| Some(*next) != seldom));
        }
    }
    likely
}

/// The way out of a node that few packets take.
fn seldom(pipeline: &Pipeline, flow: &Flow, node: Node) -> Option<Node> {
    let Step::Block(control, block) = flow.nodes[node] else { return None };
    let block = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
    let Some(Term::Branch { cond, then, els }) = block.term.as_ref().map(|term| &term.term) else { return None };
    let equal = |value: Value| {
        let made = block.insts.iter().find(|data| data.results.first() == Some(&value))?;
        match made.inst {
            Inst::Binary(BinaryOp::Eq, ..) => Some(true),
            Inst::Binary(BinaryOp::Ne, ..) => Some(false),
            _ => None,
        }
    };
    let either = block.insts.iter().find(|data| data.results.first() == Some(cond)).and_then(|data| match data.inst {
        Inst::Binary(BinaryOp::Or, a, b) => (equal(a)? && equal(b)?).then_some(true),
        _ => None,
    });
    let way = if equal(*cond).or(either)? { then } else { els };
    flow.block(node, way.block)
}

/// The lookup at the end of `to`, one of the nodes of the stage that begins there, if its key is known before what is looked up in front of the stage.
fn companion(
    pipeline: &Pipeline,
    flow: &Flow,
    cells: &Cells,
    (start, nodes): (Start, &[Node]),
    to: Node,
) -> Option<Companion> {
    let table = looked_up(pipeline, flow, to)?;
    let Step::Block(control, block) = flow.nodes[to] else { return None };
    let body = &pipeline.controls[ir::ControlId(control as u32)].body;
    let Some(Term::Apply { keys, .. }) = body.blocks[block].term.as_ref().map(|term| &term.term) else { return None };
    // Members of profiles are found by keys of their own.
    let plain = pipeline.tables[table].implementation.is_none() && pipeline.tables[table].direct_meter.is_none();
    let mut slice = Slice::between(pipeline, flow, cells, (start, nodes), to)?;
    (plain && keys.iter().all(|key| slice.take(*key))).then(|| Companion {
        node: to,
        table,
        keys: keys.clone(),
        insts: slice.taken,
    })
}

/// What lies between two lookups, and what of it the second one's key is made by.
struct Slice<'a> {
    pipeline: &'a Pipeline,
    cells: &'a Cells,
    /// Where each value is made.
    made: BTreeMap<Value, &'a InstData>,
    /// Cells that may hold another value afterwards.
    written: FixedBitSet,
    /// Fields of headers that may.
    fields: BTreeSet<VarId>,
    done: BTreeSet<Value>,
    taken: Vec<InstData>,
}

impl<'a> Slice<'a> {
    /// `None`: they are of different bodies.
    fn between(
        pipeline: &'a Pipeline,
        flow: &Flow,
        cells: &'a Cells,
        (start, nodes): (Start, &[Node]),
        to: Node,
    ) -> Option<Slice<'a>> {
        let Step::Block(control, _) = flow.nodes[to] else { return None };
        let (written, fields) = (FixedBitSet::with_capacity(cells.list.len()), BTreeSet::new());
        let (made, done, taken) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let mut slice = Slice { pipeline, cells, made, written, fields, done, taken };
        // Each comes behind those that lead to it.
        let mut leading = BTreeSet::from([to]);
        for node in nodes.iter().rev() {
            if inside(pipeline, flow, start, *node).iter().any(|next| leading.contains(next)) {
                leading.insert(*node);
            }
        }
        let Start::Site(first, _) = start else { return None };
        for node in leading.iter().chain([&first]) {
            let table = flow.applies(pipeline, *node);
            slice.fields.extend(table.and_then(|table| pipeline.tables[table].meter_result));
            slice.written.union_with(&cells.writes[flow.origin(*node)]);
        }
        for node in leading {
            let Step::Block(of, block) = flow.nodes[node] else { return None };
            if of != control {
                return None;
            }
            for data in &pipeline.controls[ir::ControlId(of as u32)].body.blocks[block].insts {
                if let Inst::Store(var, _) = data.inst {
                    slice.fields.insert(var);
                }
                slice.made.extend(data.results.iter().map(|result| (*result, data)));
            }
        }
        Some(slice)
    }

    /// Whether headers may come or go.
    fn headers_change(&self) -> bool {
        let mut cells = self.cells.list.iter().enumerate();
        cells.any(|(number, cell)| matches!(cell, Cell::Valid(_)) && self.written.contains(number))
    }

    /// Takes what makes a value, if it makes the same in front of all that.
    fn take(&mut self, value: Value) -> bool {
        if self.done.contains(&value) {
            return true;
        }
        let Some(data) = self.made.get(&value).copied() else { return false };
        let same = match &data.inst {
            Inst::Load(var) => match self.pipeline.vars[*var].kind {
                VarKind::Field(..) => !(self.fields.contains(var) || self.headers_change()),
                _ => !self.written.contains(self.cells.of(Cell::Var(*var))),
            },
            Inst::IsValid(_) => !self.headers_change(),
            // What divides by 0 stands behind a question whether it is 0; sets of values are searched by a call.
            Inst::Binary(BinaryOp::Div | BinaryOp::Mod, ..) | Inst::InValueSet(..) => false,
            inst => inst.is_pure(),
        };
        let mut uses = Vec::new();
        data.inst.for_each_use(|used| uses.push(used));
        if !same || !uses.into_iter().all(|used| self.take(used)) {
            return false;
        }
        self.done.insert(value);
        self.taken.push(data.clone());
        self.taken.len() <= MOST_INSTS
    }
}
