//! Names of the reasons that a program declares.
//!
//! The convention: metadata whose last component is `drop_reason` (and `cpu_reason` or `punt_reason`) hold a number, 0
//! for none; enumerations with an underlying type and of the name `drop_reason_t` (`cpu_reason_t`, `punt_reason_t`) name it.

use ir::{NamedType, Pipeline, VarId, VarKind};
use packet::{ReasonId, ReasonTable};
use std::collections::BTreeMap;

/// The reasons of a program. Members that can't be a reason's name (see [`ReasonTable::new`]) are left out: they show as
/// numbers. Of two names for one number, the first stands.
pub fn table(pipeline: &Pipeline) -> ReasonTable {
    let mut declared: BTreeMap<u32, String> = BTreeMap::new();
    for wanted in ["drop_reason_t", "cpu_reason_t", "punt_reason_t"] {
        let named = pipeline.named_types.iter().filter(|(name, _)| name == wanted);
        for (_, ty) in named {
            let NamedType::SerializableEnum(_, members) = ty else { continue };
            for (name, value) in members {
                let usable = ReasonTable::new([(ReasonId(0), name.as_str())]).is_ok();
                match u32::try_from(value) {
                    Ok(number) if number != 0 && usable && !declared.values().any(|other| other == name) => {
                        declared.entry(number).or_insert_with(|| name.clone());
                    }
                    _ => {}
                }
            }
        }
    }
    ReasonTable::new(declared.into_iter().map(|(number, name)| (ReasonId(number), name))).unwrap_or_default()
}

/// The variable in which the program says why it drops a packet; 0 is "it does not say". Metadata that are kept from block to
/// block count, the first of them, if it has at most 32 bits.
pub fn drop_variable(pipeline: &Pipeline) -> Option<VarId> {
    variable(pipeline, &["drop_reason"])
}

/// As [`drop_variable`], for why it hands a packet to the CPU.
pub fn cpu_variable(pipeline: &Pipeline) -> Option<VarId> {
    variable(pipeline, &["cpu_reason", "punt_reason"])
}

fn variable(pipeline: &Pipeline, names: &[&str]) -> Option<VarId> {
    let mut candidates = pipeline.vars.iter().filter(|(_, var)| {
        let last = var.name.rsplit('.').next().unwrap_or_default();
        names.contains(&last) && var.kind == VarKind::Meta && (1..=32).contains(&var.ty.width())
    });
    candidates.next().map(|(id, _)| id)
}
