//! Which variables and values can share one place in the packet's state.
//!
//! Inlining leaves copies behind: a control's `inout` argument is copied in and out, a load is a copy of a variable. A chip's compiler gives
//! both sides of a copy one container where they never hold different values at once, and then the copy is no instruction. This is the
//! coalescing of register allocators (Chaitin 1982): liveness, interference, and a union of the two sides of each copy that do not interfere.

use super::graph::Graph;
use super::leaves::{Leaf, Leaves, Shape, touched_vars};
use fixedbitset::FixedBitSet;
use ir::{Arg, Block, Body, Cfg, Entity, Inst, Pipeline, Term, Value, VarId, VarKind};

/// With more variables and values than this, nothing is shared: the tables are quadratic.
const MAX_SHARED: usize = 8_000;

/// Classes of variables and values that share a place. Each is named by a number: of a variable, or of a value behind all variables.
pub(super) struct Classes {
    parent: Vec<usize>,
    bits: Vec<u32>,
    anchor: Vec<Option<VarId>>,
    vars: usize,
    /// Where a control's values begin.
    first: Vec<usize>,
}

impl Classes {
    pub fn new(pipeline: &Pipeline, graph: &Graph, leaves: &[Leaves]) -> Self {
        let vars = pipeline.vars.len();
        let mut bits: Vec<u32> = pipeline.vars.values().map(|v| v.ty.width()).collect();
        let mut anchor: Vec<Option<VarId>> =
            pipeline.vars.iter().map(|(id, _)| lasts(pipeline, id).then_some(id)).collect();
        let mut first = Vec::new();
        for control in &graph.controls {
            first.push(bits.len());
            bits.extend(control.body.values.values().map(|t| t.width()));
            anchor.resize(bits.len(), None);
        }
        let mut classes = Classes { parent: (0..bits.len()).collect(), bits, anchor, vars, first };
        for (n, control) in graph.controls.iter().enumerate() {
            if vars + control.body.values.len() <= MAX_SHARED {
                Coalescing::new(pipeline, &control.body, &leaves[n], vars).run(&mut classes, n);
            }
        }
        classes
    }

    pub fn of_var(&self, var: VarId) -> usize {
        self.find(var.index())
    }

    pub fn of_value(&self, control: usize, value: Value) -> usize {
        self.find(self.first[control] + value.index())
    }

    /// The variable of the class that lasts beyond a control, if there is one.
    pub fn anchor(&self, class: usize) -> Option<VarId> {
        self.anchor[class]
    }

    pub fn bits(&self, class: usize) -> u32 {
        self.bits[class]
    }

    /// A name for a class in which no variable is.
    pub fn temporary_name(&self, class: usize) -> String {
        let control = self.first.iter().rposition(|&f| f <= class).unwrap_or(0);
        let base = self.first.get(control).copied().unwrap_or(0);
        format!("temporary {}.{}", control, class.saturating_sub(base))
    }

    /// Whether the class holds a variable, and not intermediate values alone.
    pub fn has_var(&self, class: usize) -> bool {
        class < self.vars
    }

    fn find(&self, mut at: usize) -> usize {
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }

    /// Unites two classes; the smaller number, so a variable before a value, stands for both.
    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (a.min(b), a.max(b));
        self.parent[b] = a;
        self.anchor[a] = self.anchor[a].or(self.anchor[b]);
    }
}

/// Whether a variable outlives the control that it is used in, or is a place in the packet.
fn lasts(pipeline: &Pipeline, id: VarId) -> bool {
    match pipeline.vars[id].kind {
        VarKind::Field(header, _) => !pipeline.headers.get(header).is_some_and(|h| h.local),
        VarKind::Meta | VarKind::Intrinsic | VarKind::NextIndex(_) => true,
        VarKind::Local => false,
    }
}

/// The work for one control. Numbers here are: variables, then this control's values.
struct Coalescing<'a> {
    body: &'a Body,
    leaves: &'a Leaves,
    vars: usize,
    pipeline: &'a Pipeline,
    /// What is alive at the end of each block.
    live: Vec<FixedBitSet>,
    clashes: Vec<FixedBitSet>,
    copies: Vec<(usize, usize)>,
}

/// One step of a block, backwards: what it defines, from what it copies, and what it uses.
#[derive(Default)]
struct Step {
    defs: Vec<(usize, Option<usize>)>,
    uses: Vec<usize>,
    /// The definition may leave what was there before.
    partly: bool,
}

impl<'a> Coalescing<'a> {
    fn new(pipeline: &'a Pipeline, body: &'a Body, leaves: &'a Leaves, vars: usize) -> Self {
        let count = vars + body.values.len();
        let live = vec![FixedBitSet::with_capacity(count); body.blocks.len()];
        let clashes = vec![FixedBitSet::with_capacity(count); count];
        Coalescing { body, leaves, vars, pipeline, live, clashes, copies: Vec::new() }
    }

    fn run(mut self, classes: &mut Classes, control: usize) {
        self.liveness();
        self.interference();
        let number = |n: usize| if n < self.vars { n } else { classes.first[control] + n - self.vars };
        let numbers: Vec<usize> = (0..self.clashes.len()).map(number).collect();
        let first = classes.first[control];
        let back = |n: usize, vars: usize| if n < vars { n } else { n + vars - first };
        for (a, b) in std::mem::take(&mut self.copies) {
            let (a, b) = (classes.find(numbers[a]), classes.find(numbers[b]));
            let (la, lb) = (back(a, self.vars), back(b, self.vars));
            let both = classes.anchor[a].is_some() && classes.anchor[b].is_some();
            if a == b || both || classes.bits[a] != classes.bits[b] || self.clash(la, lb, &numbers, classes) {
                continue;
            }
            classes.unite(a, b);
            let (kept, gone) = if a < b { (la, lb) } else { (lb, la) };
            let gone = std::mem::take(&mut self.clashes[gone]);
            self.clashes[kept].union_with(&gone);
        }
    }

    /// Whether something in the one class clashes with something in the other.
    fn clash(&self, a: usize, b: usize, numbers: &[usize], classes: &Classes) -> bool {
        let (one, other) =
            if self.clashes[a].count_ones(..) < self.clashes[b].count_ones(..) { (a, b) } else { (b, a) };
        let target = classes.find(numbers[other]);
        self.clashes[one].ones().any(|n| classes.find(numbers[n]) == target)
    }

    fn value(&self, value: Value) -> usize {
        self.vars + value.index()
    }

    fn use_of(&self, value: Value, uses: &mut Vec<usize>) {
        uses.extend(self.leaves.of(value).iter().filter_map(|leaf| match leaf {
            Leaf::Value(v) => Some(self.value(*v)),
            Leaf::Valid(_) => None,
        }));
    }

    /// The one place that the value is a copy of, if it is one.
    fn source(&self, value: Value) -> Option<usize> {
        self.leaves.is_leaf(value).then(|| self.value(value))
    }

    fn step(&self, inst: &Inst, results: &[Value]) -> Step {
        let mut step = Step::default();
        match inst {
            Inst::Store(var, value) => {
                step.defs.push((var.index(), self.source(*value)));
                self.use_of(*value, &mut step.uses);
            }
            Inst::CopyHeader { dst, src } => {
                let fields = |h| self.pipeline.headers.get(h).map_or(&[][..], |h| &h.fields);
                step.defs = fields(*dst).iter().zip(fields(*src)).map(|(d, s)| (d.index(), Some(s.index()))).collect();
                step.uses = fields(*src).iter().map(|v| v.index()).collect();
            }
            Inst::SetValid(header) => {
                let header = self.pipeline.headers.get(*header);
                step.defs = header.iter().flat_map(|h| &h.fields).map(|v| (v.index(), None)).collect();
                step.partly = true;
            }
            Inst::Extern { func, args, .. } => {
                inst.for_each_use(|v| self.use_of(v, &mut step.uses));
                let vars = args.iter().flat_map(|a| if let Arg::Vars(vars) = a { &vars[..] } else { &[] });
                step.uses.extend(vars.map(|v| v.index()));
                let written = touched_vars(self.pipeline, *func);
                step.partly = !written.is_empty();
                step.defs.extend(written.into_iter().map(|v| (v.index(), None)));
                step.defs.extend(results.iter().map(|r| (self.value(*r), None)));
            }
            _ => match (self.leaves.shape(self.body, inst), results) {
                (Shape::Load(var), [result]) => {
                    step.defs.push((self.value(*result), Some(var.index())));
                    step.uses.push(var.index());
                }
                (Shape::Kept, results) => {
                    step.defs.extend(results.iter().map(|r| (self.value(*r), None)));
                    inst.for_each_use(|v| self.use_of(v, &mut step.uses));
                }
                _ => {}
            },
        }
        step
    }

    /// What the end of a block uses: conditions, keys, arguments of jumps.
    fn ending(&self, term: &Term) -> Vec<usize> {
        let mut uses = Vec::new();
        term.for_each_use(|v| self.use_of(v, &mut uses));
        uses
    }

    /// Walks a block backwards from what is alive at its end; gives what is alive at its start, before its parameters are set.
    fn walk(&self, block: Block, see: &mut impl FnMut(&Step, &FixedBitSet)) -> FixedBitSet {
        let data = &self.body.blocks[block];
        let mut live = self.live[block.index()].clone();
        if let Some(term) = &data.term {
            self.ending(&term.term).into_iter().for_each(|n| live.insert(n));
        }
        for inst in data.insts.iter().rev() {
            let step = self.step(&inst.inst, &inst.results);
            see(&step, &live);
            if !step.partly {
                step.defs.iter().for_each(|(n, _)| live.set(*n, false));
            }
            step.uses.iter().for_each(|n| live.insert(*n));
        }
        let params = Step { defs: data.params.iter().map(|p| (self.value(*p), None)).collect(), ..Step::default() };
        see(&params, &live);
        data.params.iter().for_each(|p| live.set(self.value(*p), false));
        live
    }

    fn liveness(&mut self) {
        let order = Cfg::new(self.body).reverse_postorder().to_vec();
        let lasting: Vec<usize> =
            self.pipeline.vars.keys().filter(|v| lasts(self.pipeline, *v)).map(|v| v.index()).collect();
        for block in &order {
            let ends = self.body.blocks[*block].term.as_ref().is_none_or(|t| t.term.successors().is_empty());
            if ends {
                lasting.iter().for_each(|n| self.live[block.index()].insert(*n));
            }
        }
        let preds = Cfg::new(self.body);
        let mut waiting: Vec<Block> = order.clone();
        let mut queued = vec![true; self.body.blocks.len()];
        while let Some(block) = waiting.pop() {
            queued[block.index()] = false;
            let start = self.walk(block, &mut |_, _| {});
            for &pred in preds.predecessors(block) {
                let live = &mut self.live[pred.index()];
                if !start.is_subset(live) {
                    live.union_with(&start);
                    if !std::mem::replace(&mut queued[pred.index()], true) {
                        waiting.push(pred);
                    }
                }
            }
        }
    }

    fn interference(&mut self) {
        let mut clashes = std::mem::take(&mut self.clashes);
        let mut copies = Vec::new();
        for &block in Cfg::new(self.body).reverse_postorder() {
            self.walk(block, &mut |step, live| {
                for (n, (def, source)) in step.defs.iter().enumerate() {
                    copies.extend(source.map(|s| (*def, s)));
                    let others = step.defs[n + 1..].iter().map(|(d, _)| *d);
                    for other in live.ones().chain(others).filter(|o| o != def && Some(*o) != *source) {
                        clashes[*def].insert(other);
                        clashes[other].insert(*def);
                    }
                }
            });
            if let Some(term) = &self.body.blocks[block].term {
                term.term.for_each_call(|call| {
                    let params = self.body.blocks.get(call.block).map_or(&[][..], |b| &b.params);
                    let pairs = params.iter().zip(&call.args);
                    copies.extend(pairs.filter_map(|(p, a)| Some((self.value(*p), self.source(*a)?))));
                });
            }
        }
        copies.reverse();
        (self.clashes, self.copies) = (clashes, copies);
    }
}
