//! Coalescing of variables and values that can share storage in the packet's state.
//!
//! Inlining leaves copies behind: a control's `inout` argument is copied in and out, and a load
//! copies a variable. A chip's compiler allocates both sides of a copy to one container if they
//! never hold different values at once, and the copy then takes no instruction. This is the
//! coalescing of register allocators (Chaitin 1982): liveness, interference, and a union of the two
//! sides of each copy that do not interfere.

use super::graph::StageGraph;
use super::leaves::{InstCost, ValueLeaf, ValueLeaves, extern_written_vars};
use fixedbitset::FixedBitSet;
use ir::{Block, Body, Cfg, Entity, ExternArg, Inst, Pipeline, Terminator, Value, VarId, VarKind};

/// Maximum number of variables and values to coalesce, because the tables are quadratic.
const MAX_COALESCED: usize = 8_000;

/// Union-find over variables and values that share storage. Class numbers are those of variables,
/// then those of values.
pub(super) struct CoalescedClasses {
    parent: Vec<usize>,
    bits: Vec<u32>,
    anchor: Vec<Option<VarId>>,
    vars: usize,
    /// Number of each control's first value.
    first: Vec<usize>,
}

impl CoalescedClasses {
    pub fn new(pipeline: &Pipeline, graph: &StageGraph, leaves: &[ValueLeaves]) -> Self {
        let vars = pipeline.vars.len();
        let mut bits: Vec<u32> = pipeline.vars.values().map(|v| v.ty.width()).collect();
        let mut anchor: Vec<Option<VarId>> =
            pipeline.vars.iter().map(|(id, _)| outlives_control(pipeline, id).then_some(id)).collect();
        let mut first = Vec::new();
        for control in &graph.controls {
            first.push(bits.len());
            bits.extend(control.body.values.values().map(|t| t.width()));
            anchor.resize(bits.len(), None);
        }
        let mut classes = CoalescedClasses { parent: (0..bits.len()).collect(), bits, anchor, vars, first };
        for (n, control) in graph.controls.iter().enumerate() {
            if vars + control.body.values.len() <= MAX_COALESCED {
                Coalescer::new(pipeline, &control.body, &leaves[n], vars).coalesce(&mut classes, n);
            }
        }
        classes
    }

    pub fn class_of_var(&self, var: VarId) -> usize {
        self.find_class(var.index())
    }

    pub fn class_of_value(&self, control: usize, value: Value) -> usize {
        self.find_class(self.first[control] + value.index())
    }

    /// Returns the variable of the class that outlives its control, if any.
    pub fn lasting_var(&self, class: usize) -> Option<VarId> {
        self.anchor[class]
    }

    pub fn class_bits(&self, class: usize) -> u32 {
        self.bits[class]
    }

    /// Returns a name for a class without variables.
    pub fn temporary_name(&self, class: usize) -> String {
        let control = self.first.iter().rposition(|&f| f <= class).unwrap_or(0);
        let base = self.first.get(control).copied().unwrap_or(0);
        format!("temporary {}.{}", control, class.saturating_sub(base))
    }

    /// Returns whether the class contains a variable besides values.
    pub fn has_var(&self, class: usize) -> bool {
        class < self.vars
    }

    fn find_class(&self, mut at: usize) -> usize {
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }

    /// Unites two classes. The smaller number becomes the representative, so variables come before
    /// values.
    fn unite_classes(&mut self, a: usize, b: usize) {
        let (a, b) = (a.min(b), a.max(b));
        self.parent[b] = a;
        self.anchor[a] = self.anchor[a].or(self.anchor[b]);
    }
}

/// Returns whether a variable outlives the control that uses it, or is a field of the packet.
fn outlives_control(pipeline: &Pipeline, id: VarId) -> bool {
    match pipeline.vars[id].kind {
        VarKind::Field(header, _) => !pipeline.headers.get(header).is_some_and(|h| h.local),
        VarKind::Meta | VarKind::Intrinsic | VarKind::NextIndex(_) => true,
        VarKind::Local => false,
    }
}

/// Coalescing of one control. Indices are variables, then this control's values.
struct Coalescer<'a> {
    body: &'a Body,
    leaves: &'a ValueLeaves,
    vars: usize,
    pipeline: &'a Pipeline,
    /// Live set at the end of each block.
    live: Vec<FixedBitSet>,
    interference: Vec<FixedBitSet>,
    copies: Vec<(usize, usize)>,
}

/// Definitions with their copy sources, and uses, of one instruction.
#[derive(Default)]
struct LivenessStep {
    defs: Vec<(usize, Option<usize>)>,
    uses: Vec<usize>,
    /// Whether the definition can leave the old value unchanged.
    is_partial: bool,
}

impl<'a> Coalescer<'a> {
    fn new(pipeline: &'a Pipeline, body: &'a Body, leaves: &'a ValueLeaves, vars: usize) -> Self {
        let count = vars + body.values.len();
        let live = vec![FixedBitSet::with_capacity(count); body.blocks.len()];
        let clashes = vec![FixedBitSet::with_capacity(count); count];
        Coalescer { body, leaves, vars, pipeline, live, interference: clashes, copies: Vec::new() }
    }

    /// Unites the classes of copies in one control, unless both have a fixed class, differ in
    /// width, or are live at the same time. `class_number` and `local_index` convert between this
    /// control's indices and the classes' numbers.
    fn coalesce(mut self, classes: &mut CoalescedClasses, control: usize) {
        self.solve_liveness();
        self.build_interference();
        let class_number = |n: usize| if n < self.vars { n } else { classes.first[control] + n - self.vars };
        let numbers: Vec<usize> = (0..self.interference.len()).map(class_number).collect();
        let first = classes.first[control];
        let local_index = |n: usize, vars: usize| if n < vars { n } else { n + vars - first };
        for (a, b) in std::mem::take(&mut self.copies) {
            let (a, b) = (classes.find_class(numbers[a]), classes.find_class(numbers[b]));
            let (local_a, local_b) = (local_index(a, self.vars), local_index(b, self.vars));
            let both_anchored = classes.anchor[a].is_some() && classes.anchor[b].is_some();
            if a == b
                || both_anchored
                || classes.bits[a] != classes.bits[b]
                || self.interferes(local_a, local_b, &numbers, classes)
            {
                continue;
            }
            classes.unite_classes(a, b);
            let (merged, removed) = if a < b { (local_a, local_b) } else { (local_b, local_a) };
            let removed = std::mem::take(&mut self.interference[removed]);
            self.interference[merged].union_with(&removed);
        }
    }

    /// Returns whether the two classes interfere.
    fn interferes(&self, a: usize, b: usize, numbers: &[usize], classes: &CoalescedClasses) -> bool {
        let (one, other) =
            if self.interference[a].count_ones(..) < self.interference[b].count_ones(..) { (a, b) } else { (b, a) };
        let target = classes.find_class(numbers[other]);
        self.interference[one].ones().any(|n| classes.find_class(numbers[n]) == target)
    }

    fn index_of_value(&self, value: Value) -> usize {
        self.vars + value.index()
    }

    fn add_uses(&self, value: Value, uses: &mut Vec<usize>) {
        uses.extend(self.leaves.leaves_of(value).iter().filter_map(|leaf| match leaf {
            ValueLeaf::Value(v) => Some(self.index_of_value(*v)),
            ValueLeaf::Valid(_) => None,
        }));
    }

    /// Returns the index of the storage that the value copies, if it is a copy.
    fn copy_source(&self, value: Value) -> Option<usize> {
        self.leaves.is_leaf(value).then(|| self.index_of_value(value))
    }

    /// Returns the definitions and uses of an instruction, as indices of variables and values.
    fn liveness_step(&self, inst: &Inst, results: &[Value]) -> LivenessStep {
        let mut step = LivenessStep::default();
        match inst {
            Inst::Store(var, value) => {
                step.defs.push((var.index(), self.copy_source(*value)));
                self.add_uses(*value, &mut step.uses);
            }
            Inst::CopyHeader { dst, src } => {
                let fields = |h| self.pipeline.headers.get(h).map_or(&[][..], |h| &h.fields);
                step.defs = fields(*dst).iter().zip(fields(*src)).map(|(d, s)| (d.index(), Some(s.index()))).collect();
                step.uses = fields(*src).iter().map(|v| v.index()).collect();
            }
            Inst::SetValid(header) => {
                let header = self.pipeline.headers.get(*header);
                step.defs = header.iter().flat_map(|h| &h.fields).map(|v| (v.index(), None)).collect();
                step.is_partial = true;
            }
            Inst::Extern { func, args, .. } => {
                inst.for_each_use(|v| self.add_uses(v, &mut step.uses));
                let vars = args.iter().flat_map(|a| if let ExternArg::Vars(vars) = a { &vars[..] } else { &[] });
                step.uses.extend(vars.map(|v| v.index()));
                let written = extern_written_vars(self.pipeline, *func);
                step.is_partial = !written.is_empty();
                step.defs.extend(written.into_iter().map(|v| (v.index(), None)));
                step.defs.extend(results.iter().map(|r| (self.index_of_value(*r), None)));
            }
            _ => match (self.leaves.inst_cost(self.body, inst), results) {
                (InstCost::Load(var), [result]) => {
                    step.defs.push((self.index_of_value(*result), Some(var.index())));
                    step.uses.push(var.index());
                }
                (InstCost::Materialized, results) => {
                    step.defs.extend(results.iter().map(|r| (self.index_of_value(*r), None)));
                    inst.for_each_use(|v| self.add_uses(v, &mut step.uses));
                }
                _ => {}
            },
        }
        step
    }

    /// Returns the uses of a terminator: conditions, keys, jump arguments.
    fn terminator_uses(&self, term: &Terminator) -> Vec<usize> {
        let mut uses = Vec::new();
        term.for_each_use(|v| self.add_uses(v, &mut uses));
        uses
    }

    /// Walks a block backward from its live-out set and shows `visit` each instruction with the
    /// state live after it. Returns the live-in set before the block's parameters are set.
    fn walk_backward(&self, block: Block, visit: &mut impl FnMut(&LivenessStep, &FixedBitSet)) -> FixedBitSet {
        let data = &self.body.blocks[block];
        let mut live = self.live[block.index()].clone();
        if let Some(term) = &data.term {
            self.terminator_uses(&term.term).into_iter().for_each(|n| live.insert(n));
        }
        for inst in data.insts.iter().rev() {
            let step = self.liveness_step(&inst.inst, &inst.results);
            visit(&step, &live);
            if !step.is_partial {
                step.defs.iter().for_each(|(n, _)| live.set(*n, false));
            }
            step.uses.iter().for_each(|n| live.insert(*n));
        }
        let params = LivenessStep {
            defs: data.params.iter().map(|p| (self.index_of_value(*p), None)).collect(),
            ..LivenessStep::default()
        };
        visit(&params, &live);
        data.params.iter().for_each(|p| live.set(self.index_of_value(*p), false));
        live
    }

    /// Solves the live sets at block ends by a worklist. Variables that outlive the control are
    /// live at its end.
    fn solve_liveness(&mut self) {
        let order = Cfg::new(self.body).reverse_postorder().to_vec();
        let outliving: Vec<usize> =
            self.pipeline.vars.keys().filter(|v| outlives_control(self.pipeline, *v)).map(|v| v.index()).collect();
        for block in &order {
            let is_exit = self.body.blocks[*block].term.as_ref().is_none_or(|t| t.term.successors().is_empty());
            if is_exit {
                outliving.iter().for_each(|n| self.live[block.index()].insert(*n));
            }
        }
        let preds = Cfg::new(self.body);
        let mut waiting: Vec<Block> = order.clone();
        let mut queued = vec![true; self.body.blocks.len()];
        while let Some(block) = waiting.pop() {
            queued[block.index()] = false;
            let live_in = self.walk_backward(block, &mut |_, _| {});
            for &pred in preds.predecessors(block) {
                let live = &mut self.live[pred.index()];
                if !live_in.is_subset(live) {
                    live.union_with(&live_in);
                    if !std::mem::replace(&mut queued[pred.index()], true) {
                        waiting.push(pred);
                    }
                }
            }
        }
    }

    /// Computes the interference graph, and the copies in program order reversed. A definition
    /// interferes with all that is live after it, except the source of its copy.
    fn build_interference(&mut self) {
        let mut interference = std::mem::take(&mut self.interference);
        let mut copies = Vec::new();
        for &block in Cfg::new(self.body).reverse_postorder() {
            self.walk_backward(block, &mut |step, live| {
                for (n, (def, source)) in step.defs.iter().enumerate() {
                    copies.extend(source.map(|s| (*def, s)));
                    let others = step.defs[n + 1..].iter().map(|(d, _)| *d);
                    for other in live.ones().chain(others).filter(|o| o != def && Some(*o) != *source) {
                        interference[*def].insert(other);
                        interference[other].insert(*def);
                    }
                }
            });
            if let Some(term) = &self.body.blocks[block].term {
                term.term.for_each_call(|call| {
                    let params = self.body.blocks.get(call.block).map_or(&[][..], |b| &b.params);
                    let pairs = params.iter().zip(&call.args);
                    copies.extend(pairs.filter_map(|(p, a)| Some((self.index_of_value(*p), self.copy_source(*a)?))));
                });
            }
        }
        copies.reverse();
        (self.interference, self.copies) = (interference, copies);
    }
}
