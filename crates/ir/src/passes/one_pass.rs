//! The metadata field by which a program has code for tiers with one pass of packets.
//!
//! A program that recirculates packets can have a field `one_pass_only` (`programs/include/pna.p4`). Its
//! value is a constant in each version of the program, so a version has no code of other tiers.

use crate::body::Inst;
use crate::entity::VarId;
use crate::pipeline::{Pipeline, VarKind};
use crate::types::{Const, Type};
use std::collections::HashSet;

/// Name of the field in the program's metadata.
const FIELD: &str = "one_pass_only";

/// Replaces the field by a constant wherever the program reads it.
///
/// Before: `if (meta.one_pass_only) { to_cpu(); }`
/// After, with `true`: `if (true) { to_cpu(); }`
pub(super) fn set_one_pass_only(pipeline: &mut Pipeline, value: bool) {
    let fields = one_pass_vars(pipeline);
    // The only stores are those of copies of all metadata.
    for block in pipeline.controls.values_mut().flat_map(|control| control.body.blocks.values_mut()) {
        block.insts.retain(|data| !matches!(&data.inst, Inst::Store(var, _) if fields.contains(var)));
        for data in &mut block.insts {
            if matches!(&data.inst, Inst::Load(var) if fields.contains(var)) {
                data.inst = Inst::Const(Const::new(Type::Bool, u8::from(value)));
            }
        }
    }
}

/// Returns the field with the copies of it that inlined controls have.
fn one_pass_vars(pipeline: &Pipeline) -> HashSet<VarId> {
    let is_field = |(_, var): &(VarId, &crate::pipeline::Var)| {
        let last = var.name.rsplit('.').next().unwrap_or_default();
        last == FIELD && var.ty == Type::Bool && matches!(var.kind, VarKind::Meta | VarKind::Local)
    };
    pipeline.vars.iter().filter(is_field).map(|(id, _)| id).collect()
}
