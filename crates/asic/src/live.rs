//! What is still needed at a point of the program: what a packet has to carry from there into another pass.
//!
//! A backward analysis over the controls that can be cut by a crossing and those behind them. What is not live is not carried, and reads as 0 on
//! the other side: a mistake here changes what leaves the switch.

use interp::host::architecture::{cpu_variable, drop_variable, intrinsic, metadata};
use ir::{Arch, Arg, Block, Body, ControlKind, Entity, ExternFn, HeaderId, Inst, Pipeline, Term, VarId, VarKind};

/// A set of variables, header validities and values of one body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Live {
    /// Variables.
    pub vars: Set,
    /// Validities of headers.
    pub headers: Set,
    /// Values.
    pub values: Set,
}

/// A set of small numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Set(Vec<u64>);

impl Set {
    /// Adds a number.
    pub fn add(&mut self, number: usize) {
        if self.0.len() <= number / 64 {
            self.0.resize(number / 64 + 1, 0);
        }
        self.0[number / 64] |= 1 << (number % 64);
    }
    /// Takes a number out.
    pub fn remove(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word &= !(1 << (number % 64));
        }
    }
    /// Whether it is in.
    pub fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
    /// Adds all of another one; whether there was something new.
    pub fn join(&mut self, other: &Set) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut new = false;
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            new |= more & !*word != 0;
            *word |= more;
        }
        new
    }
    /// The numbers, rising.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
    }
}

impl Live {
    fn join(&mut self, other: &Live) -> bool {
        let vars = self.vars.join(&other.vars);
        let headers = self.headers.join(&other.headers);
        self.values.join(&other.values) | vars | headers
    }

    fn var(&mut self, var: Option<VarId>) {
        if let Some(var) = var {
            self.vars.add(var.index());
        }
    }

    fn dead(&mut self, var: Option<VarId>) {
        if let Some(var) = var {
            self.vars.remove(var.index());
        }
    }
}

/// What is live at the crossings of a pipeline.
#[derive(Debug, Default)]
pub struct Liveness {
    /// For each control and each of its blocks that ends with a table: what is live before the lookup.
    pub applies: Vec<Vec<Option<Live>>>,
    /// For each control and each of its blocks: what is live where the block begins.
    pub begins: Vec<Vec<Live>>,
    /// What is live between ingress and egress (v1model), or between main control and deparser (PNA).
    pub boundary: Live,
}

impl Liveness {
    /// The liveness of a pipeline.
    pub fn new(pipeline: &Pipeline) -> Liveness {
        let mut liveness = Liveness {
            applies: vec![Vec::new(); pipeline.controls.len()],
            begins: vec![Vec::new(); pipeline.controls.len()],
            boundary: Live::default(),
        };
        match pipeline.arch {
            Arch::V1Model => liveness.v1model(pipeline),
            Arch::Pna => liveness.pna(pipeline),
        }
        liveness
    }

    /// Goes back through the block of the architecture of that role, and gives what is live where it begins.
    fn back(&mut self, pipeline: &Pipeline, kind: ControlKind, end: Live) -> Live {
        let Some((id, control)) = pipeline.controls.iter().find(|(_, control)| control.kind == kind) else {
            return end;
        };
        let analysis = Analysis { pipeline, body: &control.body };
        let (begin, applies, begins) = analysis.run(&end);
        self.applies[id.index()] = applies;
        self.begins[id.index()] = begins;
        begin
    }

    fn pna(&mut self, pipeline: &Pipeline) {
        let mut end = Live::default();
        end.var(drop_variable(pipeline));
        end.var(cpu_variable(pipeline));
        self.boundary = self.back(pipeline, ControlKind::MainDeparser, end);
        let boundary = self.boundary.clone();
        self.back(pipeline, ControlKind::MainControl, boundary);
    }

    fn v1model(&mut self, pipeline: &Pipeline) {
        let std = |name: &str| intrinsic(pipeline, &format!("standard_metadata.{name}"));
        let mut end = Live::default();
        end.var(cpu_variable(pipeline));
        preserved(pipeline, ExternFn::Recirculate, &mut end);
        let deparser = self.back(pipeline, ControlKind::Deparser, end);
        let mut end = self.back(pipeline, ControlKind::ComputeChecksum, deparser);
        end.var(std("egress_spec"));
        end.var(drop_variable(pipeline));
        preserved(pipeline, ExternFn::Clone, &mut end);
        let mut begin = self.back(pipeline, ControlKind::Egress, end.clone());
        lengths(pipeline, std("packet_length"), &mut begin);
        if calls(pipeline, ControlKind::Egress, ExternFn::Clone) {
            // A copy of the packet as it is at the end goes through egress once more; of its metadata it has what is preserved.
            let mut again = begin.clone();
            metadata(pipeline).for_each(|var| again.vars.remove(var.index()));
            end.join(&again);
            begin = self.back(pipeline, ControlKind::Egress, end);
            lengths(pipeline, std("packet_length"), &mut begin);
        }
        for name in
            ["egress_port", "egress_spec", "instance_type", "packet_length", "enq_timestamp", "egress_global_timestamp"]
        {
            begin.dead(std(name));
        }
        self.boundary = begin.clone();
        // The traffic manager looks at these, and copies of the packet preserve what they were asked to.
        begin.var(std("egress_spec"));
        begin.var(std("mcast_grp"));
        begin.var(drop_variable(pipeline));
        preserved(pipeline, ExternFn::Clone, &mut begin);
        preserved(pipeline, ExternFn::Resubmit, &mut begin);
        self.back(pipeline, ControlKind::Ingress, begin);
    }
}

/// If egress asks for the packet's length, that is made from the lengths of all headers that are valid where it begins.
fn lengths(pipeline: &Pipeline, packet_length: Option<VarId>, begin: &mut Live) {
    if packet_length.is_some_and(|var| begin.vars.has(var.index())) {
        for (id, header) in pipeline.headers.iter().filter(|(_, header)| !header.local) {
            begin.headers.add(id.index());
            let varbit = |var: &&VarId| matches!(pipeline.vars[**var].ty, ir::Type::Varbit(_));
            header.fields.iter().filter(varbit).for_each(|var| begin.vars.add(var.index()));
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
pub fn externs(pipeline: &Pipeline) -> impl Iterator<Item = (ControlKind, &Inst)> {
    let insts = |control: &'_ ir::Control| control.kind;
    pipeline.controls.values().flat_map(move |control| {
        let kind = insts(control);
        let all = control.body.blocks.values().flat_map(|block| &block.insts);
        all.filter(|data| matches!(data.inst, Inst::Extern { .. })).map(move |data| (kind, &data.inst))
    })
}

/// Whether a block of the architecture calls a function.
pub fn calls(pipeline: &Pipeline, kind: ControlKind, wanted: ExternFn) -> bool {
    externs(pipeline).any(|(k, inst)| k == kind && matches!(inst, Inst::Extern { func, .. } if *func == wanted))
}

/// One body.
struct Analysis<'a> {
    pipeline: &'a Pipeline,
    body: &'a Body,
}

impl Analysis<'_> {
    /// What is live at the entry, before each table, and where each block begins.
    fn run(&self, end: &Live) -> (Live, Vec<Option<Live>>, Vec<Live>) {
        let order = ir::reverse_postorder(self.body);
        let mut begin: Vec<Live> = vec![Live::default(); self.body.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().rev() {
                let mut live = self.at_end(*block, end, &begin);
                for data in self.body.blocks[*block].insts.iter().rev() {
                    self.before(data, &mut live);
                }
                changed |= begin[block.index()].join(&live);
            }
        }
        let mut applies = vec![None; self.body.blocks.len()];
        for block in &order {
            if let Some(Term::Apply { .. }) = self.body.blocks[*block].term.as_ref().map(|t| &t.term) {
                applies[block.index()] = Some(self.at_end(*block, end, &begin));
            }
        }
        let entry = self.body.entry.map_or_else(|| end.clone(), |entry| begin[entry.index()].clone());
        (entry, applies, begin)
    }

    /// What is live before a block's terminator.
    fn at_end(&self, block: Block, end: &Live, begin: &[Live]) -> Live {
        let Some(term) = self.body.blocks[block].term.as_ref() else { return end.clone() };
        let mut live = Live::default();
        match &term.term {
            Term::Return | Term::Exit | Term::Reject => return end.clone(),
            Term::Branch { cond, .. } => live.values.add(cond.index()),
            Term::Switch { value, .. } => live.values.add(value.index()),
            Term::Apply { keys, arms, .. } => {
                keys.iter().for_each(|key| live.values.add(key.index()));
                for arm in arms {
                    let mut arm_live = begin[arm.block.index()].clone();
                    self.body.blocks[arm.block].params.iter().for_each(|param| arm_live.values.remove(param.index()));
                    live.join(&arm_live);
                }
            }
            Term::Jump(_) => {}
        }
        term.term.for_each_call(|call| {
            let mut next = begin[call.block.index()].clone();
            for (param, arg) in self.body.blocks[call.block].params.iter().zip(&call.args) {
                if next.values.has(param.index()) {
                    next.values.remove(param.index());
                    live.values.add(arg.index());
                }
            }
            live.join(&next);
        });
        live
    }

    /// Goes back over an instruction.
    fn before(&self, data: &ir::InstData, live: &mut Live) {
        let wanted = data.results.iter().any(|result| live.values.has(result.index()));
        data.results.iter().for_each(|result| live.values.remove(result.index()));
        let mut needed = true;
        match &data.inst {
            Inst::Load(var) => {
                if wanted {
                    live.var(Some(*var));
                }
            }
            Inst::Store(var, _) => {
                needed = live.vars.has(var.index());
                live.vars.remove(var.index());
                // A field of a header that is not valid stays 0.
                if let (VarKind::Field(header, _), true) = (self.pipeline.vars[*var].kind, needed) {
                    live.headers.add(header.index());
                }
            }
            Inst::IsValid(header) => {
                if wanted {
                    live.headers.add(header.index());
                }
            }
            // If it was not valid, its fields are 0 already.
            Inst::SetValid(header) => {
                live.headers.remove(header.index());
                self.siblings(*header).for_each(|other| self.forget(other, live));
            }
            Inst::SetInvalid(header) => self.forget(*header, live),
            Inst::CopyHeader { dst, src } => self.copy(*dst, *src, live),
            Inst::Emit(header) => {
                live.headers.add(header.index());
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
            data.inst.for_each_use(|value| live.values.add(value.index()));
        }
    }

    fn siblings(&self, header: HeaderId) -> impl Iterator<Item = HeaderId> + '_ {
        let union = self.pipeline.headers[header].union.and_then(|union| self.pipeline.unions.get(union));
        union.into_iter().flat_map(|union| union.members.iter().copied()).filter(move |member| *member != header)
    }

    fn forget(&self, header: HeaderId, live: &mut Live) {
        live.headers.remove(header.index());
        self.pipeline.headers[header].fields.iter().for_each(|var| live.vars.remove(var.index()));
    }

    fn copy(&self, dst: HeaderId, src: HeaderId, live: &mut Live) {
        if dst == src {
            return;
        }
        let (to, from) = (&self.pipeline.headers[dst].fields, &self.pipeline.headers[src].fields);
        let mut more = Live::default();
        for (to, from) in to.iter().zip(from) {
            if live.vars.has(to.index()) {
                more.vars.add(from.index());
                // From a header that is not valid, nothing is copied.
                more.headers.add(src.index());
            }
        }
        if live.headers.has(dst.index()) {
            more.headers.add(src.index());
        }
        // Whether the others of a union stay valid depends on whether the source is.
        let touches = |other: HeaderId| {
            let fields = &self.pipeline.headers[other].fields;
            live.headers.has(other.index()) || fields.iter().any(|var| live.vars.has(var.index()))
        };
        if self.siblings(dst).any(touches) {
            more.headers.add(src.index());
        }
        self.forget(dst, live);
        live.join(&more);
    }
}
