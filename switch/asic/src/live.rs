//! Liveness: the state that a packet must carry from a point of the program to the rest of its
//! path.
//!
//! A backward analysis over the controls that can be cut and those after them. State that is not
//! live is not carried and reads as 0 on the other side, so a mistake here changes output packets.
//! The emulated switch uses it at the end of a pass (`emulate/live.rs`), the partitioner at a cut
//! point.

use fixedbitset::FixedBitSet;
use interp::host::architecture::{cpu_variable, drop_variable, intrinsic, metadata};
use ir::{
    Arch, Block, Body, ControlId, ControlKind, Entity, ExternArg, ExternFn, HeaderId, Inst, Pipeline, TableId,
    Terminator, VarId, VarKind,
};

/// A set of live variables, header validities and values of one body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LiveSet {
    /// Variables.
    pub vars: FixedBitSet,
    /// Header validities.
    pub headers: FixedBitSet,
    /// SSA values.
    pub values: FixedBitSet,
    /// Blocks with a table that may have been looked up already, so that the chosen arm is live.
    pub arms: FixedBitSet,
}

impl LiveSet {
    /// Adds all elements of `other`. Returns whether the set grew.
    pub fn join(&mut self, other: &LiveSet) -> bool {
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

    fn add_var(&mut self, var: Option<VarId>) {
        if let Some(var) = var {
            self.vars.grow_and_insert(var.index());
        }
    }

    fn remove_var(&mut self, var: Option<VarId>) {
        if let Some(var) = var {
            remove_if_present(&mut self.vars, var.index());
        }
    }
}

/// Removes an element. The set's capacity can be smaller than `number`.
fn remove_if_present(set: &mut FixedBitSet, number: usize) {
    if set.contains(number) {
        set.remove(number);
    }
}

/// The part of a body that has already run for a packet.
pub trait ExecutedPart {
    /// Returns whether the instruction at position `at` of a block has yet to run.
    fn is_inst_pending(&self, block: Block, at: usize) -> bool;
    /// Returns whether the block's terminator has yet to decide.
    fn is_decision_pending(&self, block: Block) -> bool;
    /// Returns whether the first and the last part of a table have yet to be looked up.
    fn pending_lookups(&self, table: TableId) -> (bool, bool);
    /// Returns whether the block's parameters have yet to be set.
    fn are_params_pending(&self, block: Block) -> bool;
}

/// Progress of a packet for which nothing has run.
pub struct NothingExecuted;

impl ExecutedPart for NothingExecuted {
    fn is_inst_pending(&self, _: Block, _: usize) -> bool {
        true
    }
    fn is_decision_pending(&self, _: Block) -> bool {
        true
    }
    fn pending_lookups(&self, _: TableId) -> (bool, bool) {
        (true, true)
    }
    fn are_params_pending(&self, _: Block) -> bool {
        true
    }
}

/// Live state at the ends of an architecture's programmable blocks, and between them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LiveAtBoundaries {
    /// At the end of v1model's ingress, or of PNA's main control.
    pub first: LiveSet,
    /// At the start of the next block: v1model's egress, or PNA's deparser.
    pub between: LiveSet,
    /// At the end of v1model's egress.
    pub second: LiveSet,
}

/// Computes the live state between an architecture's programmable blocks. `back` maps the live
/// state at the end of a block to that at its start, if the program has a block with that role.
pub fn live_at_boundaries(pipeline: &Pipeline, back: impl Fn(ControlKind, &LiveSet) -> LiveSet) -> LiveAtBoundaries {
    match pipeline.arch {
        Arch::V1Model => v1model_boundaries(pipeline, back),
        Arch::Pna => {
            let mut end = LiveSet::default();
            end.add_var(drop_variable(pipeline));
            end.add_var(cpu_variable(pipeline));
            let deparser = back(ControlKind::MainDeparser, &end);
            LiveAtBoundaries { first: deparser.clone(), between: deparser, second: LiveSet::default() }
        }
    }
}

/// Computes the live state of v1model from the deparser's end backwards. `back` maps the live state
/// at the end of a block to that at its start.
fn v1model_boundaries(pipeline: &Pipeline, back: impl Fn(ControlKind, &LiveSet) -> LiveSet) -> LiveAtBoundaries {
    let standard = |name: &str| intrinsic(pipeline, &format!("standard_metadata.{name}"));
    let mut end = LiveSet::default();
    end.add_var(cpu_variable(pipeline));
    add_preserved_vars(pipeline, ExternFn::Recirculate, &mut end);
    let deparser = back(ControlKind::Deparser, &end);
    let mut end = back(ControlKind::ComputeChecksum, &deparser);
    end.add_var(standard("egress_spec"));
    end.add_var(drop_variable(pipeline));
    add_preserved_vars(pipeline, ExternFn::Clone, &mut end);
    let mut begin = back(ControlKind::Egress, &end);
    add_length_inputs(pipeline, standard("packet_length"), &mut begin);
    if calls_extern(pipeline, ControlKind::Egress, ExternFn::Clone) {
        // A clone of the final packet passes egress again; of its metadata only the preserved
        // fields survive.
        let mut recloned = begin.clone();
        metadata(pipeline).for_each(|var| remove_if_present(&mut recloned.vars, var.index()));
        end.join(&recloned);
        begin = back(ControlKind::Egress, &end);
        add_length_inputs(pipeline, standard("packet_length"), &mut begin);
    }
    for name in
        ["egress_port", "egress_spec", "instance_type", "packet_length", "enq_timestamp", "egress_global_timestamp"]
    {
        begin.remove_var(standard(name));
    }
    let mut ingress_end = begin.clone();
    // The traffic manager reads these, and clones of the packet keep their preserved fields.
    ingress_end.add_var(standard("egress_spec"));
    ingress_end.add_var(standard("mcast_grp"));
    ingress_end.add_var(drop_variable(pipeline));
    add_preserved_vars(pipeline, ExternFn::Clone, &mut ingress_end);
    add_preserved_vars(pipeline, ExternFn::Resubmit, &mut ingress_end);
    LiveAtBoundaries { first: ingress_end, between: begin, second: end }
}

/// Returns the live state at the start of each block of a control for which nothing has run. The
/// control is v1model's ingress, or PNA's main control.
pub fn live_at_block_starts(pipeline: &Pipeline, control: ControlId) -> Vec<LiveSet> {
    let back = |kind: ControlKind, end: &LiveSet| match pipeline.controls.values().find(|control| control.kind == kind)
    {
        Some(control) => {
            LivenessAnalysis { pipeline, body: &control.body, progress: &NothingExecuted }.live_at_entry(end)
        }
        None => end.clone(),
    };
    let end = live_at_boundaries(pipeline, back).first;
    LivenessAnalysis { pipeline, body: &pipeline.controls[control].body, progress: &NothingExecuted }
        .solve_block_starts(&end)
}

/// If egress reads the packet's length, adds all headers that can be valid at its start, because
/// the length is computed from theirs.
fn add_length_inputs(pipeline: &Pipeline, packet_length: Option<VarId>, begin: &mut LiveSet) {
    if packet_length.is_some_and(|var| begin.vars.contains(var.index())) {
        for (id, header) in pipeline.headers.iter().filter(|(_, header)| !header.local) {
            begin.headers.grow_and_insert(id.index());
            let varbit = |var: &&VarId| matches!(pipeline.vars[**var].ty, ir::Type::Varbit(_));
            header.fields.iter().filter(varbit).for_each(|var| begin.vars.grow_and_insert(var.index()));
        }
    }
}

/// Adds the variables that calls of a function preserve.
fn add_preserved_vars(pipeline: &Pipeline, wanted: ExternFn, live: &mut LiveSet) {
    for (_, inst) in extern_calls(pipeline) {
        let Inst::Extern { func, args, .. } = inst else { continue };
        if *func == wanted {
            let vars = args.iter().filter_map(|arg| if let ExternArg::Vars(vars) = arg { Some(vars) } else { None });
            vars.flatten().for_each(|var| live.add_var(Some(*var)));
        }
    }
}

/// Returns all extern calls, with the role of their programmable block.
fn extern_calls(pipeline: &Pipeline) -> impl Iterator<Item = (ControlKind, &Inst)> {
    let insts = |control: &'_ ir::Control| control.kind;
    pipeline.controls.values().flat_map(move |control| {
        let kind = insts(control);
        let all = control.body.blocks.values().flat_map(|block| &block.insts);
        all.filter(|data| matches!(data.inst, Inst::Extern { .. })).map(move |data| (kind, &data.inst))
    })
}

/// Returns whether a programmable block calls a function.
fn calls_extern(pipeline: &Pipeline, kind: ControlKind, wanted: ExternFn) -> bool {
    extern_calls(pipeline).any(|(k, inst)| k == kind && matches!(inst, Inst::Extern { func, .. } if *func == wanted))
}

/// Liveness analysis of the part of one body that has yet to run.
pub struct LivenessAnalysis<'a, P> {
    /// The program.
    pub pipeline: &'a Pipeline,
    /// The body.
    pub body: &'a Body,
    /// The part that has run.
    pub progress: &'a P,
}

impl<P: ExecutedPart> LivenessAnalysis<'_, P> {
    /// Returns the live state at the body's start, given the live state `end` at its end.
    pub fn live_at_entry(&self, end: &LiveSet) -> LiveSet {
        let begin = self.solve_block_starts(end);
        self.body.entry.map_or_else(|| end.clone(), |entry| begin[entry.index()].clone())
    }

    /// Returns the live state at the start of each block.
    pub fn solve_block_starts(&self, end: &LiveSet) -> Vec<LiveSet> {
        let order = ir::reverse_postorder(self.body);
        let mut begin: Vec<LiveSet> = vec![LiveSet::default(); self.body.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().rev() {
                let mut live = self.live_before_terminator(*block, end, &begin);
                for (at, data) in self.body.blocks[*block].insts.iter().enumerate().rev() {
                    if self.progress.is_inst_pending(*block, at) {
                        self.transfer_backward(data, &mut live);
                    }
                }
                changed |= begin[block.index()].join(&live);
            }
        }
        begin
    }

    /// Returns the live state before instruction `at` of a block, given `begin`, the live states at
    /// block starts ([`LivenessAnalysis::solve_block_starts`]), and `end`, the live state at the
    /// body's end.
    pub fn live_before_inst(&self, block: Block, at: usize, end: &LiveSet, begin: &[LiveSet]) -> LiveSet {
        let mut live = self.live_before_terminator(block, end, begin);
        for (n, data) in self.body.blocks[block].insts.iter().enumerate().skip(at).rev() {
            if self.progress.is_inst_pending(block, n) {
                self.transfer_backward(data, &mut live);
            }
        }
        live
    }

    /// Returns the live state before a block's terminator. `end` is live at the body's end, `begin`
    /// at each block's start.
    fn live_before_terminator(&self, block: Block, end: &LiveSet, begin: &[LiveSet]) -> LiveSet {
        let Some(term) = self.body.blocks[block].term.as_ref() else { return end.clone() };
        let mut live = LiveSet::default();
        let is_pending = self.progress.is_decision_pending(block);
        match &term.term {
            Terminator::Return | Terminator::Exit | Terminator::Reject => return end.clone(),
            Terminator::Branch { cond, .. } if is_pending => live.values.grow_and_insert(cond.index()),
            Terminator::Switch { value, .. } if is_pending => live.values.grow_and_insert(value.index()),
            Terminator::Apply { table, keys, arms } => {
                let (first_pending, last_pending) = self.progress.pending_lookups(*table);
                if last_pending {
                    keys.iter().for_each(|key| live.values.grow_and_insert(key.index()));
                }
                // The first part's lookup has run: a later part needs to know the arm that it
                // chose, if any.
                if !first_pending && (last_pending || is_pending) {
                    live.arms.grow_and_insert(block.index());
                }
                for arm in arms {
                    let mut arm_live = begin[arm.block.index()].clone();
                    // After the first part's lookup, the action data may be available.
                    if first_pending {
                        self.body.blocks[arm.block]
                            .params
                            .iter()
                            .for_each(|param| remove_if_present(&mut arm_live.values, param.index()));
                    }
                    live.join(&arm_live);
                }
            }
            Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Switch { .. } => {}
        }
        term.term.for_each_call(|call| {
            let mut next = begin[call.block.index()].clone();
            if self.progress.are_params_pending(call.block) {
                for (param, arg) in self.body.blocks[call.block].params.iter().zip(&call.args) {
                    if next.values.contains(param.index()) {
                        remove_if_present(&mut next.values, param.index());
                        live.values.grow_and_insert(arg.index());
                    }
                }
            }
            live.join(&next);
        });
        live
    }

    /// Applies the backward transfer function of an instruction: removes the state that it defines
    /// from `live`, and adds the state that it reads if its result or effect is needed.
    fn transfer_backward(&self, data: &ir::InstData, live: &mut LiveSet) {
        let is_result_live = data.results.iter().any(|result| live.values.contains(result.index()));
        data.results.iter().for_each(|result| remove_if_present(&mut live.values, result.index()));
        let mut is_needed = true;
        match &data.inst {
            Inst::Load(var) => {
                if is_result_live {
                    live.add_var(Some(*var));
                }
            }
            Inst::Store(var, _) => {
                is_needed = live.vars.contains(var.index());
                remove_if_present(&mut live.vars, var.index());
                // A field of an invalid header stays 0.
                if let (VarKind::Field(header, _), true) = (self.pipeline.vars[*var].kind, is_needed) {
                    live.headers.grow_and_insert(header.index());
                }
            }
            Inst::IsValid(header) => {
                if is_result_live {
                    live.headers.grow_and_insert(header.index());
                }
            }
            // If the header was invalid, its fields are 0 already.
            Inst::SetValid(header) => {
                remove_if_present(&mut live.headers, header.index());
                self.union_siblings(*header).for_each(|other| self.remove_header(other, live));
            }
            Inst::SetInvalid(header) => self.remove_header(*header, live),
            Inst::CopyHeader { dst, src } => self.transfer_header_copy(*dst, *src, live),
            Inst::Emit(header) => {
                live.headers.grow_and_insert(header.index());
                self.pipeline.headers[*header].fields.iter().for_each(|var| live.add_var(Some(*var)));
            }
            Inst::Extern { func: ExternFn::MarkToDrop, .. } => {
                live.remove_var(intrinsic(self.pipeline, "standard_metadata.egress_spec"));
                live.remove_var(intrinsic(self.pipeline, "standard_metadata.mcast_grp"));
            }
            // Calls with effects besides their results.
            Inst::Extern { .. } | Inst::Extract(_) | Inst::ExtractVarbit(..) | Inst::Advance(_) | Inst::Verify(..) => {}
            _ => is_needed = is_result_live,
        }
        if is_needed {
            data.inst.for_each_use(|value| live.values.grow_and_insert(value.index()));
        }
    }

    fn union_siblings(&self, header: HeaderId) -> impl Iterator<Item = HeaderId> + '_ {
        let union = self.pipeline.headers[header].union.and_then(|union| self.pipeline.unions.get(union));
        union.into_iter().flat_map(|union| union.members.iter().copied()).filter(move |member| *member != header)
    }

    fn remove_header(&self, header: HeaderId, live: &mut LiveSet) {
        remove_if_present(&mut live.headers, header.index());
        self.pipeline.headers[header].fields.iter().for_each(|var| remove_if_present(&mut live.vars, var.index()));
    }

    /// Applies the backward transfer function of a header copy: state of `dst` that is live becomes
    /// state of `src`.
    fn transfer_header_copy(&self, dst: HeaderId, src: HeaderId, live: &mut LiveSet) {
        if dst == src {
            return;
        }
        let (dst_fields, src_fields) = (&self.pipeline.headers[dst].fields, &self.pipeline.headers[src].fields);
        let mut added = LiveSet::default();
        for (dst_fields, src_fields) in dst_fields.iter().zip(src_fields) {
            if live.vars.contains(dst_fields.index()) {
                added.vars.grow_and_insert(src_fields.index());
                // A copy from an invalid header copies no fields.
                added.headers.grow_and_insert(src.index());
            }
        }
        if live.headers.contains(dst.index()) {
            added.headers.grow_and_insert(src.index());
        }
        // Whether the other members of a union stay valid depends on the source's validity.
        let is_live = |other: HeaderId| {
            let fields = &self.pipeline.headers[other].fields;
            live.headers.contains(other.index()) || fields.iter().any(|var| live.vars.contains(var.index()))
        };
        if self.union_siblings(dst).any(is_live) {
            added.headers.grow_and_insert(src.index());
        }
        self.remove_header(dst, live);
        live.join(&added);
    }
}
