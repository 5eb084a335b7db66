//! Versions of a program for the first and for later passes of a packet (PNA's `recirculate`).
//!
//! A program that recirculates packets distinguishes its passes by the pass number. Each version
//! has only the code of its passes, so that an engine can treat them apart: the first pass is the
//! path of almost all packets. All ids of tables, externs, variables and headers are those of the
//! program.

use crate::body::{BinaryOp, BlockData, Body, ExternArg, Inst, InstData, Terminator};
use crate::entity::{Entity, HeaderId, TableId, Value, VarId};
use crate::externs::ExternFn;
use crate::passes::PASSES;
use crate::passes::one_pass::set_one_pass_only;
use crate::pipeline::{Pipeline, VarKind};
use crate::types::{Const, Type};
use num_traits::Zero;
use std::collections::HashSet;
use std::sync::Arc;

/// Passes of a packet through the main block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketPass {
    /// The first: the pass number is 0.
    First,
    /// All after the first: the pass number is not 0.
    Later,
}

/// Passes of the program that change numbers of variables, which all versions share.
const NOT_RUN: [&str; 1] = ["unused-variables"];

/// Returns whether a PNA program recirculates packets.
pub fn recirculates(pipeline: &Pipeline) -> bool {
    let mut insts = pipeline.controls.values().flat_map(|control| control.body.insts());
    insts.any(|data| matches!(data.inst, Inst::Extern { func: ExternFn::PnaRecirculate, .. }))
}

/// Returns whether the program reads the pass number.
pub fn reads_pass_number(pipeline: &Pipeline) -> bool {
    let numbers = pass_number_vars(pipeline);
    pipeline.controls.values().flat_map(|control| control.body.insts()).any(|data| reads_any(&data.inst, &numbers))
}

/// Returns the version of a program for these passes.
pub fn specialise_packet_pass(pipeline: &Pipeline, pass: PacketPass) -> Pipeline {
    let mut version = pipeline.clone();
    set_one_pass_only(&mut version, false);
    let numbers = pass_number_vars(pipeline);
    for control in version.controls.values_mut() {
        set_pass_number(&mut control.body, &numbers, pass);
    }
    simplify(&mut version);
    remove_unset_headers(&mut version);
    simplify(&mut version);
    version
}

/// Returns the version of a program for a tier that has no second pass of packets: a switch. A
/// program says what such a tier does: it has code under its field `one_pass_only`, which is true
/// here, and it calls `drop_packet` or `send_to_port` directly before each `recirculate` that is left.
/// Other programs, and those that do not distinguish passes, are unchanged, because only the next pass
/// decides their verdict.
pub fn without_recirculation(pipeline: &Arc<Pipeline>) -> Arc<Pipeline> {
    if !recirculates(pipeline) || !reads_pass_number(pipeline) {
        return pipeline.clone();
    }
    let mut version = (**pipeline).clone();
    if set_one_pass_only(&mut version, true) {
        simplify(&mut version);
    }
    if !version.controls.values().all(|control| decides_before_recirculation(&control.body)) {
        return pipeline.clone();
    }
    let is_mirrored = pipeline.insts().any(|data| calls(data, ExternFn::MirrorPacket));
    let is_field = |var: VarId| matches!(pipeline.vars[var].kind, VarKind::Field(..));
    for block in version.controls.values_mut().flat_map(|control| control.body.blocks.values_mut()) {
        remove_recirculation(block, is_mirrored, is_field);
    }
    let mut version = specialise_packet_pass(&version, PacketPass::First);
    remove_unread_metadata(&mut version, pipeline);
    simplify(&mut version);
    close_unused_tables(&mut version);
    Arc::new(version)
}

/// Makes tables that the version does not apply ordinary ones: no packet adds an entry to them, and
/// none expires.
fn close_unused_tables(version: &mut Pipeline) {
    let blocks = version.controls.values().flat_map(|control| control.body.blocks.values());
    let applied: HashSet<TableId> = blocks.filter_map(BlockData::applied_table).collect();
    let unused: Vec<TableId> = version.tables.keys().filter(|id| !applied.contains(id)).collect();
    for id in unused {
        let table = &mut version.tables[id];
        (table.add_on_miss, table.idle_timeout) = (false, false);
        table.properties.retain(|(name, _)| name != "pna_idle_timeout");
    }
}

fn calls(inst: &InstData, wanted: ExternFn) -> bool {
    matches!(inst.inst, Inst::Extern { func, .. } if func == wanted)
}

fn is_verdict(inst: &InstData) -> bool {
    calls(inst, ExternFn::DropPacket) || calls(inst, ExternFn::SendToPort)
}

/// Returns whether each block with `recirculate` has a verdict before it.
fn decides_before_recirculation(body: &Body) -> bool {
    body.blocks.values().all(|block| {
        let at = block.insts.iter().position(|inst| calls(inst, ExternFn::PnaRecirculate));
        at.is_none_or(|at| block.insts[..at].iter().any(is_verdict) && !block.insts[at..].iter().any(is_verdict))
    })
}

/// Removes `recirculate` from a block that has a verdict before it, and what the block does to
/// headers between the verdict and `recirculate`, if only the next pass can see it.
fn remove_recirculation(block: &mut BlockData, is_mirrored: bool, is_field: impl Fn(VarId) -> bool) {
    let Some(at) = block.insts.iter().position(|inst| calls(inst, ExternFn::PnaRecirculate)) else { return };
    let decided = block.insts[..at].iter().rposition(is_verdict);
    // Other calls could have read the headers.
    let has_effect =
        |inst: &InstData| matches!(inst.inst, Inst::Extern { .. }) && !calls(inst, ExternFn::PnaRecirculate);
    let prepared = decided.filter(|from| !is_mirrored && !block.insts[from + 1..].iter().any(has_effect));
    let is_preparation = |inst: &InstData| match inst.inst {
        Inst::Store(var, _) => is_field(var),
        Inst::SetValid(_) | Inst::SetInvalid(_) | Inst::CopyHeader { .. } => true,
        _ => false,
    };
    let mut index = 0;
    block.insts.retain(|inst| {
        let here = index;
        index += 1;
        let prepares = prepared.is_some_and(|from| from < here && here < at) && is_preparation(inst);
        !calls(inst, ExternFn::PnaRecirculate) && !prepares
    });
}

/// Removes stores to metadata that the program reads, but this version does not.
fn remove_unread_metadata(version: &mut Pipeline, program: &Pipeline) {
    let (before, after) = (read_vars(program), read_vars(version));
    let is_unread =
        |var: &VarId| program.vars[*var].kind == VarKind::Meta && before.contains(var) && !after.contains(var);
    for block in version.controls.values_mut().flat_map(|control| control.body.blocks.values_mut()) {
        block.insts.retain(|data| !matches!(&data.inst, Inst::Store(var, _) if is_unread(var)));
    }
}

/// Returns the variables that a program loads or passes to functions.
fn read_vars(pipeline: &Pipeline) -> HashSet<VarId> {
    let mut read = HashSet::new();
    for data in pipeline.controls.values().flat_map(|control| control.body.insts()) {
        match &data.inst {
            Inst::Load(var) => {
                read.insert(*var);
            }
            Inst::Extern { args, .. } => {
                for arg in args {
                    if let ExternArg::Vars(vars) = arg {
                        read.extend(vars);
                    }
                }
            }
            _ => {}
        }
    }
    read
}

fn pass_number_vars(pipeline: &Pipeline) -> HashSet<VarId> {
    ["pre_istd", "parser_istd", "istd"]
        .iter()
        .filter_map(|block| pipeline.intrinsics.get(&format!("{block}.pass")).copied())
        .collect()
}

fn reads_any(inst: &Inst, vars: &HashSet<VarId>) -> bool {
    match inst {
        Inst::Load(var) => vars.contains(var),
        Inst::Extern { args, .. } => args.iter().any(|arg| match arg {
            ExternArg::Vars(list) => list.iter().any(|var| vars.contains(var)),
            _ => false,
        }),
        _ => false,
    }
}

/// Replaces the pass number by 0, or decides its comparisons with 0.
fn set_pass_number(body: &mut Body, numbers: &HashSet<VarId>, pass: PacketPass) {
    let mut derived: HashSet<Value> = HashSet::new();
    let mut zeros: HashSet<Value> = HashSet::new();
    // A definition dominates its uses, but blocks are in any order.
    loop {
        let before = derived.len() + zeros.len();
        for data in body.blocks.values().flat_map(|block| &block.insts) {
            let [result] = data.results[..] else { continue };
            match &data.inst {
                Inst::Load(var) if numbers.contains(var) => {
                    derived.insert(result);
                }
                Inst::Cast(_, value) if derived.contains(value) => {
                    derived.insert(result);
                }
                Inst::Const(constant) if constant.bits.is_zero() => {
                    zeros.insert(result);
                }
                Inst::Cast(_, value) if zeros.contains(value) => {
                    zeros.insert(result);
                }
                _ => {}
            }
        }
        if derived.len() + zeros.len() == before {
            break;
        }
    }
    let types = body.values.clone();
    for block in body.blocks.values_mut() {
        for data in &mut block.insts {
            let decided = match (&data.inst, pass) {
                (Inst::Load(var), PacketPass::First) if numbers.contains(var) => {
                    Some(Const::new(types[data.results[0]], 0u8))
                }
                (Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b), PacketPass::Later)
                    if derived.contains(a) && zeros.contains(b) || zeros.contains(a) && derived.contains(b) =>
                {
                    Some(Const::new(Type::Bool, u8::from(*op == BinaryOp::Ne)))
                }
                _ => None,
            };
            if let Some(constant) = decided {
                data.inst = Inst::Const(constant);
            }
        }
        if let (Some(term), PacketPass::Later) = (&mut block.term, pass)
            && let Terminator::Switch { value, cases, default } = &mut term.term
            && derived.contains(value)
        {
            cases.retain(|(case, _)| !case.bits.is_zero());
            if cases.is_empty() {
                term.term = Terminator::Jump(default.clone());
            }
        }
    }
}

/// Runs the ordinary passes until the version has no dead branches left.
fn simplify(pipeline: &mut Pipeline) {
    for _ in 0..2 {
        for pass in PASSES.iter().filter(|pass| !NOT_RUN.contains(&pass.name)) {
            pass.run(pipeline);
        }
    }
}

/// Removes what a version does with headers that are never valid in it. A field of such a header is
/// 0.
fn remove_unset_headers(pipeline: &mut Pipeline) {
    let mut set: HashSet<HeaderId> = HashSet::new();
    for data in pipeline.controls.values().flat_map(|control| control.body.insts()) {
        match data.inst {
            Inst::Extract(header) | Inst::ExtractVarbit(header, _) | Inst::SetValid(header) => {
                set.insert(header);
            }
            Inst::CopyHeader { dst, .. } => {
                set.insert(dst);
            }
            _ => {}
        }
    }
    let header_of: Vec<Option<HeaderId>> = pipeline
        .vars
        .values()
        .map(|var| match var.kind {
            VarKind::Field(header, _) => Some(header),
            _ => None,
        })
        .collect();
    let is_unset_field = |var: &VarId| header_of[var.index()].is_some_and(|header| !set.contains(&header));
    for control in pipeline.controls.values_mut() {
        let types = control.body.values.clone();
        for block in control.body.blocks.values_mut() {
            block.insts.retain(|data| match &data.inst {
                Inst::Emit(header) | Inst::SetInvalid(header) => set.contains(header),
                Inst::Store(var, _) => !is_unset_field(var),
                _ => true,
            });
            for data in &mut block.insts {
                let is_zero = match &data.inst {
                    Inst::IsValid(header) => !set.contains(header),
                    Inst::Load(var) => is_unset_field(var) && !matches!(types[data.results[0]], Type::Varbit(_)),
                    _ => false,
                };
                if is_zero {
                    data.inst = Inst::Const(Const::new(types[data.results[0]], 0u8));
                }
            }
        }
    }
}
