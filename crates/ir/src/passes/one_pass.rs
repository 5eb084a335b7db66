//! The metadata field by which a program has code for tiers with one pass of packets.
//!
//! A program that recirculates packets can read a field `one_pass_only` (`programs/include/pna.p4`).
//! Its value is a constant in each version of the program, so a version has no code of other tiers.

use crate::body::{BinaryOp, Body, Inst, UnaryOp};
use crate::cfg::reverse_postorder;
use crate::entity::{Entity, Value, VarId};
use crate::passes::merge_blocks::rename_values;
use crate::pipeline::{Pipeline, Var, VarKind};
use crate::types::{Const, Type};
use std::collections::{HashMap, HashSet};

/// Name of the field in the program's metadata.
const FIELD: &str = "one_pass_only";

/// Replaces the field by a constant wherever the program reads it. Returns whether it has the field.
///
/// Before: `if (meta.one_pass_only && hdr.tag.isValid()) { to_cpu(); }`
/// After, with `true`: `if (hdr.tag.isValid()) { to_cpu(); }`
pub(super) fn set_one_pass_only(pipeline: &mut Pipeline, value: bool) -> bool {
    let fields = one_pass_vars(pipeline);
    for control in pipeline.controls.values_mut() {
        // The only stores are those of copies of all metadata.
        for block in control.body.blocks.values_mut() {
            block.insts.retain(|data| !matches!(&data.inst, Inst::Store(var, _) if fields.contains(var)));
        }
        if !fields.is_empty() {
            fold_field(&mut control.body, &fields, value);
        }
    }
    !fields.is_empty()
}

/// Returns the field with the copies of it that inlined controls have.
fn one_pass_vars(pipeline: &Pipeline) -> HashSet<VarId> {
    let is_field = |(_, var): &(VarId, &Var)| {
        let last = var.name.rsplit('.').next().unwrap_or_default();
        last == FIELD && var.ty == Type::Bool && matches!(var.kind, VarKind::Meta | VarKind::Local)
    };
    pipeline.vars.iter().filter(is_field).map(|(id, _)| id).collect()
}

/// Replaces loads of the field by a constant, and logical operations on it by a constant or by their
/// other operand. Operations on other constants keep their form, because a program can have them to
/// keep an object in P4Info.
fn fold_field(body: &mut Body, fields: &HashSet<VarId>, value: bool) {
    let mut known: HashMap<Value, bool> = HashMap::new();
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    // In this order a definition comes before its uses.
    for block in reverse_postorder(body) {
        for data in &mut body.blocks[block].insts {
            data.inst.map_values(|v| renamed.get(v.index()).copied().flatten().unwrap_or(v));
            let [result] = data.results[..] else { continue };
            let truth = |value: &Value| known.get(value).copied();
            let constant = match &data.inst {
                Inst::Load(var) => fields.contains(var).then_some(value),
                Inst::Unary(UnaryOp::LogicalNot, operand) => truth(operand).map(|truth| !truth),
                Inst::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                    let neutral = *op == BinaryOp::And;
                    renamed[result.index()] = match (truth(a), truth(b)) {
                        (Some(truth), _) => Some(if truth == neutral { *b } else { *a }),
                        (None, Some(truth)) => Some(if truth == neutral { *a } else { *b }),
                        (None, None) => None,
                    };
                    None
                }
                _ => None,
            };
            if let Some(constant) = constant {
                data.inst = Inst::Const(Const::new(Type::Bool, u8::from(constant)));
                known.insert(result, constant);
            }
        }
    }
    rename_values(body, &renamed);
}
