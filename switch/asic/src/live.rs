//! What is still needed at a point of the program: what a packet has to carry from there to wherever it goes on.
//!
//! A backward analysis over the controls that can be cut and those behind them. What is not live is not carried, and reads as 0 on the other
//! side: a mistake here changes what leaves. The emulated switch asks where a pass ends (`emulate/live.rs`), a cut where a stop is.

use fixedbitset::FixedBitSet;
use interp::host::architecture::{cpu_variable, drop_variable, intrinsic, metadata};
use ir::{
    Arch, Arg, Block, Body, ControlId, ControlKind, Entity, ExternFn, HeaderId, Inst, Pipeline, TableId, Term, VarId,
    VarKind,
};

/// A set of variables, header validities and values of one body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Live {
    /// Variables.
    pub vars: FixedBitSet,
    /// Validities of headers.
    pub headers: FixedBitSet,
    /// Values.
    pub values: FixedBitSet,
    /// Blocks whose table has been looked up, or may have been: which action it was.
    pub arms: FixedBitSet,
}

impl Live {
    /// Adds all of another one; whether there was something new.
    pub fn join(&mut self, other: &Live) -> bool {
        let sets = [
            (&mut self.vars, &other.vars),
            (&mut self.headers, &other.headers),
            (&mut self.values, &other.values),
            (&mut self.arms, &other.arms),
        ];
        let mut new = false;
        for (set, more) in sets {
            new |= !more.is_subset(set);
            set.union_with(more);
        }
        new
    }

    fn var(&mut self, var: Option<VarId>) {
        if let Some(var) = var {
            self.vars.grow_and_insert(var.index());
        }
    }

    fn dead(&mut self, var: Option<VarId>) {
        if let Some(var) = var {
            remove(&mut self.vars, var.index());
        }
    }
}

/// Takes a number out of a set, which may be for smaller ones alone.
fn remove(set: &mut FixedBitSet, number: usize) {
    if set.contains(number) {
        set.remove(number);
    }
}

/// How far a packet has come in a body: what of it is still to be done.
pub trait Progress {
    /// Whether the instruction at this position of the block.
    fn inst(&self, block: Block, at: usize) -> bool;
    /// Whether the block's terminator decides anything.
    fn decides(&self, block: Block) -> bool;
    /// Whether a table's first part has still to be looked up, and its last one.
    fn lookups(&self, table: TableId) -> (bool, bool);
    /// Whether the block's parameters have still to get their values.
    fn params(&self, block: Block) -> bool;
}

/// Nothing is done.
pub struct Untouched;

impl Progress for Untouched {
    fn inst(&self, _: Block, _: usize) -> bool {
        true
    }
    fn decides(&self, _: Block) -> bool {
        true
    }
    fn lookups(&self, _: TableId) -> (bool, bool) {
        (true, true)
    }
    fn params(&self, _: Block) -> bool {
        true
    }
}

/// What is live where the blocks of an architecture end, and between them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ends {
    /// Where v1model's ingress, or PNA's main control, ends.
    pub first: Live,
    /// Between that and what is behind it: v1model's egress, or PNA's deparser.
    pub between: Live,
    /// Where v1model's egress ends.
    pub second: Live,
}

/// What is live where the blocks of an architecture end. `back` goes back through the block of a role, if the program has it: from what is live
/// where it ends to what is live where it begins.
pub fn ends(pipeline: &Pipeline, back: impl Fn(ControlKind, &Live) -> Live) -> Ends {
    match pipeline.arch {
        Arch::V1Model => v1model(pipeline, back),
        Arch::Pna => {
            let mut end = Live::default();
            end.var(drop_variable(pipeline));
            end.var(cpu_variable(pipeline));
            let deparser = back(ControlKind::MainDeparser, &end);
            Ends { first: deparser.clone(), between: deparser, second: Live::default() }
        }
    }
}

fn v1model(pipeline: &Pipeline, back: impl Fn(ControlKind, &Live) -> Live) -> Ends {
    let std = |name: &str| intrinsic(pipeline, &format!("standard_metadata.{name}"));
    let mut end = Live::default();
    end.var(cpu_variable(pipeline));
    preserved(pipeline, ExternFn::Recirculate, &mut end);
    let deparser = back(ControlKind::Deparser, &end);
    let mut end = back(ControlKind::ComputeChecksum, &deparser);
    end.var(std("egress_spec"));
    end.var(drop_variable(pipeline));
    preserved(pipeline, ExternFn::Clone, &mut end);
    let mut begin = back(ControlKind::Egress, &end);
    lengths(pipeline, std("packet_length"), &mut begin);
    if calls(pipeline, ControlKind::Egress, ExternFn::Clone) {
        // A copy of the packet as it is at the end goes through egress once more; of its metadata it has what is preserved.
        let mut again = begin.clone();
        metadata(pipeline).for_each(|var| remove(&mut again.vars, var.index()));
        end.join(&again);
        begin = back(ControlKind::Egress, &end);
        lengths(pipeline, std("packet_length"), &mut begin);
    }
    for name in
        ["egress_port", "egress_spec", "instance_type", "packet_length", "enq_timestamp", "egress_global_timestamp"]
    {
        begin.dead(std(name));
    }
    let mut last = begin.clone();
    // The traffic manager looks at these, and copies of the packet preserve what they were asked to.
    last.var(std("egress_spec"));
    last.var(std("mcast_grp"));
    last.var(drop_variable(pipeline));
    preserved(pipeline, ExternFn::Clone, &mut last);
    preserved(pipeline, ExternFn::Resubmit, &mut last);
    Ends { first: last, between: begin, second: end }
}

/// What is live where each block of a control begins, if nothing is done yet. The control is v1model's ingress, or PNA's main control.
pub fn begins(pipeline: &Pipeline, control: ControlId) -> Vec<Live> {
    let back = |kind: ControlKind, end: &Live| match pipeline.controls.values().find(|control| control.kind == kind) {
        Some(control) => Analysis { pipeline, body: &control.body, progress: &Untouched }.entry(end),
        None => end.clone(),
    };
    let end = ends(pipeline, back).first;
    Analysis { pipeline, body: &pipeline.controls[control].body, progress: &Untouched }.run(&end)
}

/// If egress asks for the packet's length, that is made from the lengths of all headers that are valid where it begins.
fn lengths(pipeline: &Pipeline, packet_length: Option<VarId>, begin: &mut Live) {
    if packet_length.is_some_and(|var| begin.vars.contains(var.index())) {
        for (id, header) in pipeline.headers.iter().filter(|(_, header)| !header.local) {
            begin.headers.grow_and_insert(id.index());
            let varbit = |var: &&VarId| matches!(pipeline.vars[**var].ty, ir::Type::Varbit(_));
            header.fields.iter().filter(varbit).for_each(|var| begin.vars.grow_and_insert(var.index()));
        }
    }
}

/// Adds the variables that calls of a function preserve.
fn preserved(pipeline: &Pipeline, wanted: ExternFn, live: &mut Live) {
    for (_, inst) in externs(pipeline) {
        let Inst::Extern { func, args, .. } = inst else { continue };
        if *func == wanted {
            let vars = args.iter().filter_map(|arg| if let Arg::Vars(vars) = arg { Some(vars) } else { None });
            vars.flatten().for_each(|var| live.var(Some(*var)));
        }
    }
}

/// All calls of externs, with the role of the block of the architecture.
fn externs(pipeline: &Pipeline) -> impl Iterator<Item = (ControlKind, &Inst)> {
    let insts = |control: &'_ ir::Control| control.kind;
    pipeline.controls.values().flat_map(move |control| {
        let kind = insts(control);
        let all = control.body.blocks.values().flat_map(|block| &block.insts);
        all.filter(|data| matches!(data.inst, Inst::Extern { .. })).map(move |data| (kind, &data.inst))
    })
}

/// Whether a block of the architecture calls a function.
fn calls(pipeline: &Pipeline, kind: ControlKind, wanted: ExternFn) -> bool {
    externs(pipeline).any(|(k, inst)| k == kind && matches!(inst, Inst::Extern { func, .. } if *func == wanted))
}

/// One body, as far as it is not done yet.
pub struct Analysis<'a, P> {
    /// The program.
    pub pipeline: &'a Pipeline,
    /// The body.
    pub body: &'a Body,
    /// How far the packet has come.
    pub progress: &'a P,
}

impl<P: Progress> Analysis<'_, P> {
    /// What is live where the body begins, if `end` is live where it ends.
    pub fn entry(&self, end: &Live) -> Live {
        let begin = self.run(end);
        self.body.entry.map_or_else(|| end.clone(), |entry| begin[entry.index()].clone())
    }

    /// What is live where each block begins.
    pub fn run(&self, end: &Live) -> Vec<Live> {
        let order = ir::reverse_postorder(self.body);
        let mut begin: Vec<Live> = vec![Live::default(); self.body.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().rev() {
                let mut live = self.at_end(*block, end, &begin);
                for (at, data) in self.body.blocks[*block].insts.iter().enumerate().rev() {
                    if self.progress.inst(*block, at) {
                        self.before(data, &mut live);
                    }
                }
                changed |= begin[block.index()].join(&live);
            }
        }
        begin
    }

    /// What is live before instruction number `at` of a block, if `begin` is live where blocks begin ([`Analysis::run`]) and `end` where the
    /// body ends.
    pub fn within(&self, block: Block, at: usize, end: &Live, begin: &[Live]) -> Live {
        let mut live = self.at_end(block, end, begin);
        for (n, data) in self.body.blocks[block].insts.iter().enumerate().skip(at).rev() {
            if self.progress.inst(block, n) {
                self.before(data, &mut live);
            }
        }
        live
    }

    /// What is live before a block's terminator.
    fn at_end(&self, block: Block, end: &Live, begin: &[Live]) -> Live {
        let Some(term) = self.body.blocks[block].term.as_ref() else { return end.clone() };
        let mut live = Live::default();
        let matters = self.progress.decides(block);
        match &term.term {
            Term::Return | Term::Exit | Term::Reject => return end.clone(),
            Term::Branch { cond, .. } if matters => live.values.grow_and_insert(cond.index()),
            Term::Switch { value, .. } if matters => live.values.grow_and_insert(value.index()),
            Term::Apply { table, keys, arms } => {
                let (first, last) = self.progress.lookups(*table);
                if last {
                    keys.iter().for_each(|key| live.values.grow_and_insert(key.index()));
                }
                if !first && (last || matters) {
                    live.arms.grow_and_insert(block.index());
                }
                for arm in arms {
                    let mut arm_live = begin[arm.block.index()].clone();
                    // Once the first part has been looked up, the action's data may be there.
                    if first {
                        self.body.blocks[arm.block]
                            .params
                            .iter()
                            .for_each(|param| remove(&mut arm_live.values, param.index()));
                    }
                    live.join(&arm_live);
                }
            }
            Term::Jump(_) | Term::Branch { .. } | Term::Switch { .. } => {}
        }
        term.term.for_each_call(|call| {
            let mut next = begin[call.block.index()].clone();
            if self.progress.params(call.block) {
                for (param, arg) in self.body.blocks[call.block].params.iter().zip(&call.args) {
                    if next.values.contains(param.index()) {
                        remove(&mut next.values, param.index());
                        live.values.grow_and_insert(arg.index());
                    }
                }
            }
            live.join(&next);
        });
        live
    }

    /// Goes back over an instruction.
    fn before(&self, data: &ir::InstData, live: &mut Live) {
        let wanted = data.results.iter().any(|result| live.values.contains(result.index()));
        data.results.iter().for_each(|result| remove(&mut live.values, result.index()));
        let mut needed = true;
        match &data.inst {
            Inst::Load(var) => {
                if wanted {
                    live.var(Some(*var));
                }
            }
            Inst::Store(var, _) => {
                needed = live.vars.contains(var.index());
                remove(&mut live.vars, var.index());
                // A field of a header that is not valid stays 0.
                if let (VarKind::Field(header, _), true) = (self.pipeline.vars[*var].kind, needed) {
                    live.headers.grow_and_insert(header.index());
                }
            }
            Inst::IsValid(header) => {
                if wanted {
                    live.headers.grow_and_insert(header.index());
                }
            }
            // If it was not valid, its fields are 0 already.
            Inst::SetValid(header) => {
                remove(&mut live.headers, header.index());
                self.siblings(*header).for_each(|other| self.forget(other, live));
            }
            Inst::SetInvalid(header) => self.forget(*header, live),
            Inst::CopyHeader { dst, src } => self.copy(*dst, *src, live),
            Inst::Emit(header) => {
                live.headers.grow_and_insert(header.index());
                self.pipeline.headers[*header].fields.iter().for_each(|var| live.var(Some(*var)));
            }
            Inst::Extern { func: ExternFn::MarkToDrop, .. } => {
                live.dead(intrinsic(self.pipeline, "standard_metadata.egress_spec"));
                live.dead(intrinsic(self.pipeline, "standard_metadata.mcast_grp"));
            }
            // Whatever may do something besides its results.
            Inst::Extern { .. } | Inst::Extract(_) | Inst::ExtractVarbit(..) | Inst::Advance(_) | Inst::Verify(..) => {}
            _ => needed = wanted,
        }
        if needed {
            data.inst.for_each_use(|value| live.values.grow_and_insert(value.index()));
        }
    }

    fn siblings(&self, header: HeaderId) -> impl Iterator<Item = HeaderId> + '_ {
        let union = self.pipeline.headers[header].union.and_then(|union| self.pipeline.unions.get(union));
        union.into_iter().flat_map(|union| union.members.iter().copied()).filter(move |member| *member != header)
    }

    fn forget(&self, header: HeaderId, live: &mut Live) {
        remove(&mut live.headers, header.index());
        self.pipeline.headers[header].fields.iter().for_each(|var| remove(&mut live.vars, var.index()));
    }

    fn copy(&self, dst: HeaderId, src: HeaderId, live: &mut Live) {
        if dst == src {
            return;
        }
        let (to, from) = (&self.pipeline.headers[dst].fields, &self.pipeline.headers[src].fields);
        let mut more = Live::default();
        for (to, from) in to.iter().zip(from) {
            if live.vars.contains(to.index()) {
                more.vars.grow_and_insert(from.index());
                // From a header that is not valid, nothing is copied.
                more.headers.grow_and_insert(src.index());
            }
        }
        if live.headers.contains(dst.index()) {
            more.headers.grow_and_insert(src.index());
        }
        // Whether the others of a union stay valid depends on whether the source is.
        let touches = |other: HeaderId| {
            let fields = &self.pipeline.headers[other].fields;
            live.headers.contains(other.index()) || fields.iter().any(|var| live.vars.contains(var.index()))
        };
        if self.siblings(dst).any(touches) {
            more.headers.grow_and_insert(src.index());
        }
        self.forget(dst, live);
        live.join(&more);
    }
}
