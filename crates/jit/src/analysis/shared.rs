//! Variables that are copies of each other become one: what a control is given as `inout` is copied in, changed, and copied back, and a packet would carry both.
//!
//! Two variables can be one if one is stored what the other holds, and neither is written while the other is still needed for something else (the way
//! in which register allocators coalesce copies: Chaitin, "Register allocation and spilling via graph coloring", 1982).

use crate::analysis::cells::{Cell, Cells};
use crate::analysis::facts::{may_reject, reason_vars};
use crate::analysis::flow::Flow;
use crate::analysis::headers::Headers;
use crate::analysis::node::{Node, Step};
use crate::analysis::redundant;
use crate::unsupported::Unsupported;
use fixedbitset::FixedBitSet;
use ir::{Arg, BlockData, Inst, Pipeline, Value, VarId, VarKind};
use std::collections::{BTreeSet, HashMap};

/// A store of what another variable holds.
struct Copy {
    from: VarId,
    to: VarId,
}

/// Which variables may be one.
struct Sharing<'a> {
    pipeline: &'a Pipeline,
    cells: &'a Cells,
    /// Variables that nobody but loads and stores knows of, by their cells' numbers.
    plain: FixedBitSet,
    /// Those whose names the verdict asks for.
    told: FixedBitSet,
    /// For each cell's number: the variables that it can't be one with.
    apart: Vec<FixedBitSet>,
    copies: Vec<Copy>,
}

/// The pipeline with copies of variables made one. Values, blocks and all else stay as they are.
///
/// # Errors
/// What native code has no form for.
pub fn shared(pipeline: &Pipeline) -> Result<Pipeline, Unsupported> {
    let flow = Flow::new(pipeline)?;
    let headers = Headers::new(pipeline)?;
    let cells = Cells::new(pipeline, &flow, &headers);
    let count = cells.list.len();
    let kept = plain(pipeline, &cells);
    let mut plain = FixedBitSet::with_capacity(count);
    kept.iter().for_each(|var| plain.insert(cells.of(Cell::Var(*var))));
    let mut told = FixedBitSet::with_capacity(count);
    reason_vars(pipeline).into_iter().flatten().for_each(|var| told.insert(cells.of(Cell::Var(var))));
    let apart = vec![FixedBitSet::with_capacity(count); count];
    let mut sharing = Sharing { pipeline, cells: &cells, plain, told, apart, copies: Vec::new() };
    for node in 0..flow.nodes.len() {
        sharing.node(&flow, node);
    }
    let class = sharing.classes();
    let of = |var: VarId| match pipeline.vars[var].kind {
        VarKind::Field(..) => var,
        _ => match cells.list[class[cells.of(Cell::Var(var))]] {
            Cell::Var(first) => first,
            _ => var,
        },
    };
    let mut shared = renamed(pipeline, of);
    redundant::without(&mut shared, &kept);
    Ok(shared)
}

/// Variables that only loads and stores name, and at most the verdict at the end: not those with a meaning to architecture, tables and externs.
fn plain(pipeline: &Pipeline, cells: &Cells) -> BTreeSet<VarId> {
    let mut special: BTreeSet<VarId> = pipeline.intrinsics.values().copied().collect();
    special.extend(pipeline.field_lists.values().flatten());
    special.extend(pipeline.tables.values().filter_map(|table| table.meter_result));
    for data in pipeline.insts() {
        let Inst::Extern { args, .. } = &data.inst else { continue };
        special.extend(args.iter().flat_map(|arg| if let Arg::Vars(vars) = arg { vars.as_slice() } else { &[] }));
    }
    let vars = cells.list.iter().filter_map(|cell| if let Cell::Var(var) = cell { Some(*var) } else { None });
    vars.filter(|var| !special.contains(var)).collect()
}

impl Sharing<'_> {
    fn number(&self, var: VarId) -> Option<usize> {
        if matches!(self.pipeline.vars[var].kind, VarKind::Field(..)) {
            return None;
        }
        Some(self.cells.of(Cell::Var(var))).filter(|number| self.plain.contains(*number))
    }

    /// Goes back through a node from what is needed behind it.
    fn node(&mut self, flow: &Flow, node: Node) {
        // What the architecture does between bodies names special variables alone.
        let Step::Block(control, block) = flow.nodes[node] else { return };
        let data = &self.pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
        let mut behind = FixedBitSet::with_capacity(self.cells.list.len());
        for next in flow.successors(self.pipeline, node) {
            behind.union_with(&self.cells.live[next]);
        }
        behind.intersect_with(&self.plain);
        let mut needed = behind.clone();
        let sources = self.sources(data);
        for (at, inst) in data.insts.iter().enumerate().rev() {
            if may_reject(&inst.inst) {
                // The packet may go on behind this body from here.
                needed.union_with(&behind);
            }
            match &inst.inst {
                Inst::Store(var, _) => {
                    let Some(to) = self.number(*var) else { continue };
                    let from = sources[at].filter(|from| self.pipeline.vars[*from].ty == self.pipeline.vars[*var].ty);
                    let source = from.and_then(|from| self.number(from));
                    for other in needed.ones().filter(|other| *other != to && Some(*other) != source) {
                        self.apart[to].insert(other);
                        self.apart[other].insert(to);
                    }
                    needed.remove(to);
                    if let (Some(from), Some(_)) = (from, source) {
                        self.copies.push(Copy { from, to: *var });
                    }
                }
                Inst::Load(var) => {
                    if let Some(number) = self.number(*var) {
                        needed.insert(number);
                    }
                }
                _ => {}
            }
        }
    }

    /// For each instruction that stores what another variable holds: that variable.
    fn sources(&self, data: &BlockData) -> Vec<Option<VarId>> {
        let mut holds: HashMap<Value, VarId> = HashMap::new();
        let source = |inst: &ir::InstData| match &inst.inst {
            Inst::Load(var) => {
                holds.extend(inst.results.first().map(|result| (*result, *var)));
                None
            }
            Inst::Store(var, value) => {
                let source = holds.get(value).copied();
                holds.retain(|_, held| held != var);
                source
            }
            _ => None,
        };
        data.insts.iter().map(source).collect()
    }

    /// For each cell's number the first of those with which it is one.
    fn classes(mut self) -> Vec<usize> {
        let mut class: Vec<usize> = (0..self.cells.list.len()).collect();
        for Copy { from, to } in std::mem::take(&mut self.copies) {
            let (Some(from), Some(to)) = (self.number(from), self.number(to)) else { continue };
            let (mut one, mut other) = (class[from].min(class[to]), class[from].max(class[to]));
            if self.told.contains(other) {
                (one, other) = (other, one);
            }
            if self.told.contains(other) {
                continue;
            }
            let clash = (0..class.len()).any(|at| class[at] == other && self.apart[one].contains(at));
            if one == other || clash {
                continue;
            }
            let more = self.apart[other].clone();
            self.apart[one].union_with(&more);
            class.iter_mut().filter(|of| **of == other).for_each(|of| *of = one);
        }
        class
    }
}

/// The pipeline with other variables in its loads and stores.
fn renamed(pipeline: &Pipeline, of: impl Fn(VarId) -> VarId) -> Pipeline {
    let mut pipeline = pipeline.clone();
    for data in pipeline.controls.values_mut().flat_map(|control| control.body.blocks.values_mut()) {
        for inst in &mut data.insts {
            if let Inst::Load(var) | Inst::Store(var, _) = &mut inst.inst {
                *var = of(*var);
            }
        }
    }
    pipeline
}
