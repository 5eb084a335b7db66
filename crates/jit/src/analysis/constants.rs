//! What cells certainly hold before each node, where that is a constant: then they need not be kept, stored or read. And, from how far the parser is at
//! each extraction, where in the packet a header lies whenever it is there.

use crate::analysis::cells::{Cell, Cells};
use crate::analysis::flow::Flow;
use crate::analysis::headers::{Headers, Place};
use crate::analysis::node::{Node, Step};
use crate::analysis::validity::Known;
use ir::{BinaryOp, BlockData, Const, Entity, HeaderId, Inst, Pipeline, Term, Type, UnaryOp, Value};
use std::collections::{BTreeMap, HashMap};

/// Each cell's value, if it is certain.
type State = Vec<Option<u64>>;

/// Before each node, each cell's value if it is certain. `None` for nodes that nothing leads to.
#[derive(Clone, Debug)]
pub struct Constants(Vec<Option<State>>);

/// What an instruction does to cells.
enum Effect {
    /// The cell now holds the number, or something that is not known.
    Store(usize, Option<u64>),
    /// The cell now holds what another one does.
    Take { cell: usize, from: usize },
    /// The cell holds so much more.
    Add(usize, u64),
    /// The cells hold something that is not known.
    Clobber(Vec<usize>),
    /// The parser may give up here, with an error.
    Leave,
}

/// What a node does, worked out once for all rounds.
struct Summary {
    effects: Vec<Effect>,
    /// What it asks of a cell at its end, if it does.
    asks: Option<Asks>,
    /// Where it leads when the parser gives up.
    after: Option<Node>,
    next: Vec<Node>,
}

/// A branch by what a cell holds, which its node does not change.
struct Asks {
    cell: usize,
    number: u64,
    /// Where it leads if the cell holds the number, and if not.
    ways: [Node; 2],
}

impl Asks {
    /// The way that is not taken from a state in which that is certain.
    fn closed(&self, state: &State) -> Option<Node> {
        let [equal, other] = self.ways;
        let closed = if state[self.cell]? == self.number { other } else { equal };
        (equal != other).then_some(closed)
    }
}

impl Constants {
    /// Finds them.
    pub fn new(
        pipeline: &Pipeline,
        flow: &Flow,
        headers: &Headers,
        cells: &Cells,
        known: &[Option<Known>],
    ) -> Constants {
        let summary = |node: Node| summary(pipeline, flow, headers, cells, (node, known[node].clone()));
        let summaries: Vec<Summary> = (0..flow.nodes.len()).map(summary).collect();
        let mut before: Vec<Option<State>> = vec![None; summaries.len()];
        // All cells are 0 at first.
        before[0] = Some(vec![Some(0); cells.list.len()]);
        let error = cells.of(Cell::ParserError);
        let mut work = vec![0];
        while let Some(node) = work.pop() {
            let Some(mut state) = before[node].clone() else { continue };
            for effect in &summaries[node].effects {
                match effect {
                    Effect::Store(cell, number) => state[*cell] = *number,
                    Effect::Take { cell, from } => state[*cell] = state[*from],
                    Effect::Add(cell, more) => state[*cell] = state[*cell].map(|number| number + more),
                    Effect::Clobber(all) => all.iter().for_each(|cell| state[*cell] = None),
                    Effect::Leave => {
                        let mut left = state.clone();
                        left[error] = None;
                        work.extend(summaries[node].after.filter(|after| meet(&mut before[*after], &left)));
                    }
                }
            }
            let closed = summaries[node].asks.as_ref().and_then(|asks| asks.closed(&state));
            let open = summaries[node].next.iter().filter(|next| Some(**next) != closed);
            work.extend(open.filter(|next| meet(&mut before[**next], &state)));
        }
        Constants(before)
    }

    /// What a cell holds before a node, if that is certain; for the address of a header, how many bytes behind the packet's first it is.
    pub fn before(&self, node: Node, cell: usize) -> Option<u64> {
        self.0[node].as_ref()?[cell]
    }

    /// For each header that is only ever extracted, and always at one place, that place: bytes from the packet's first.
    pub fn fix_places(&self, pipeline: &Pipeline, flow: &Flow, cells: &Cells, headers: &mut Headers) {
        let cursor = cells.of(Cell::Cursor);
        let mut places: BTreeMap<HeaderId, Option<u64>> = BTreeMap::new();
        for (node, step) in flow.nodes.iter().enumerate() {
            let (Step::Block(control, block), Some(state)) = (*step, &self.0[node]) else { continue };
            let mut at = state[cursor];
            for data in &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts {
                match &data.inst {
                    Inst::Extract(id) => {
                        let place = places.entry(*id).or_insert(at);
                        *place = place.filter(|place| Some(*place) == at);
                        at = at.map(|at| at + u64::from(headers.bytes[id.index()]));
                    }
                    Inst::ExtractVarbit(..) | Inst::Advance(_) => at = None,
                    _ => {}
                }
            }
        }
        for (id, at) in places {
            let stays = !headers.in_frame[id.index()] && headers.varbit[id.index()].is_none();
            if let Some(at) = at.and_then(|at| u32::try_from(at).ok()).filter(|_| stays) {
                headers.places[id.index()] = Place::Fixed(at);
            }
        }
    }
}

/// Adds one more way that leads somewhere; whether that changed what is known there.
fn meet(there: &mut Option<State>, state: &State) -> bool {
    let Some(there) = there else {
        *there = Some(state.clone());
        return true;
    };
    let mut changed = false;
    for (there, new) in there.iter_mut().zip(state) {
        if there.is_some() && there != new {
            (*there, changed) = (None, true);
        }
    }
    changed
}

fn summary(
    pipeline: &Pipeline,
    flow: &Flow,
    headers: &Headers,
    cells: &Cells,
    (node, mut known): (Node, Option<Known>),
) -> Summary {
    let Step::Block(id, block) = flow.nodes[node] else {
        // The first one sets all to 0, which they are.
        let written = if node == 0 { Vec::new() } else { cells.writes[node].ones().collect() };
        let (effects, next) = (vec![Effect::Clobber(written)], flow.ends(pipeline, node));
        return Summary { effects, asks: None, after: None, next };
    };
    let control = &pipeline.controls[ir::ControlId(id as u32)];
    let data = &control.body.blocks[block];
    let mut effects = Vec::new();
    if control.body.entry == Some(block) {
        let sums = cells.list.iter().enumerate().filter(|(_, cell)| matches!(cell, Cell::Sum(_)));
        effects.extend(sums.map(|(index, _)| Effect::Store(index, Some(0))));
    }
    let mut numbers: HashMap<Value, u64> = HashMap::new();
    for data in &data.insts {
        if crate::analysis::facts::may_reject(&data.inst) {
            effects.push(Effect::Leave);
        }
        if let (Inst::Const(constant), Some(result)) = (&data.inst, data.results.first()) {
            numbers.extend(number(constant).map(|number| (*result, number)));
        }
        // Who is valid stays where it is.
        let stays = |id: &HeaderId| known.as_ref().is_some_and(|known| known.valid.contains(id.index()));
        if !matches!(&data.inst, Inst::SetValid(id) if stays(id)) {
            effects.extend(effect(pipeline, headers, cells, &numbers, &data.inst));
        }
        if let Inst::Extract(id) | Inst::ExtractVarbit(id, _) = &data.inst
            && let Some(cell) = cells.index.get(&Cell::HeaderAt(*id))
        {
            effects.push(Effect::Take { cell: *cell, from: cells.of(Cell::Cursor) });
        }
        if let Some(known) = &mut known {
            known.step(headers, &data.inst);
        }
        if let Inst::Extract(header) = &data.inst {
            effects.push(Effect::Add(cells.of(Cell::Cursor), u64::from(headers.bytes[header.index()])));
        }
    }
    if let Some(table) = flow.applies(pipeline, node) {
        effects.push(Effect::Clobber(cells.written_by_table(pipeline, headers, table)));
    }
    let parser = control.kind.is_parser();
    Summary {
        effects,
        asks: asks(flow, cells, node, data, &numbers),
        after: flow.after(id).filter(|_| parser && !flow.turned_back(node)),
        next: flow.ends(pipeline, node),
    }
}

/// What a block asks of a variable: whether it is true, or a number.
fn asks(flow: &Flow, cells: &Cells, node: Node, block: &BlockData, numbers: &HashMap<Value, u64>) -> Option<Asks> {
    let Term::Branch { cond, then, els } = &block.term.as_ref()?.term else { return None };
    let mut ways = [flow.block(node, then.block)?, flow.block(node, els.block)?];
    let made = |value: Value| block.insts.iter().find(|data| data.results.first() == Some(&value)).map(|d| &d.inst);
    let mut asked = *cond;
    while let Some(Inst::Unary(UnaryOp::LogicalNot, of)) = made(asked) {
        (asked, ways) = (*of, [ways[1], ways[0]]);
    }
    let (var, number) = match made(asked)? {
        Inst::Load(var) => (*var, 1),
        Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) => {
            if *op == BinaryOp::Ne {
                ways.reverse();
            }
            let (of, number) = numbers.get(b).map(|n| (a, *n)).or_else(|| numbers.get(a).map(|n| (b, *n)))?;
            let Inst::Load(var) = made(*of)? else { return None };
            (*var, number)
        }
        _ => return None,
    };
    let cell = *cells.index.get(&Cell::Var(var))?;
    // What it holds at the end is what it held before.
    (!cells.writes[node].contains(cell)).then_some(Asks { cell, number, ways })
}

fn effect(
    pipeline: &Pipeline,
    headers: &Headers,
    cells: &Cells,
    numbers: &HashMap<Value, u64>,
    inst: &Inst,
) -> Option<Effect> {
    let mut written = match inst {
        Inst::Store(var, value) => {
            let cell = cells.index.get(&Cell::Var(*var))?;
            return Some(Effect::Store(*cell, numbers.get(value).copied()));
        }
        inst => cells.written_by(pipeline, headers, inst),
    };
    // An instruction of the parser only sets the error where the parser leaves.
    if crate::analysis::facts::may_reject(inst) {
        written.retain(|cell| *cell != cells.of(Cell::ParserError));
    }
    // How far that goes is told apart.
    if let Inst::Extract(_) = inst {
        written.retain(|cell| *cell != cells.of(Cell::Cursor));
    }
    Some(Effect::Clobber(written)).filter(|effect| !matches!(effect, Effect::Clobber(none) if none.is_empty()))
}

fn number(constant: &Const) -> Option<u64> {
    let fits = constant.ty == Type::Bool || constant.ty.width() <= 64;
    fits.then(|| constant.bits.iter_u64_digits().next().unwrap_or(0))
}
