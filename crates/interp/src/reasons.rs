//! Names of the reasons that a program declares.
//!
//! Convention: a metadata variable with the last component `drop_reason` (`cpu_reason`,
//! `punt_reason`) holds a number, where 0 means none. A serializable enumeration `drop_reason_t`
//! (`cpu_reason_t`, `punt_reason_t`) names the numbers.

use ir::{NamedType, Pipeline, VarId, VarKind};
use packet::{ReasonId, ReasonTable};
use std::collections::BTreeMap;

/// Returns the reasons of a program.
///
/// Members that cannot be names of reasons (see [`ReasonTable::new`]) are omitted, so that they are
/// shown as numbers. Of two names for one number, the first one is used.
pub fn table(pipeline: &Pipeline) -> ReasonTable {
    let mut declared: BTreeMap<u32, String> = BTreeMap::new();
    for type_name in ["drop_reason_t", "cpu_reason_t", "punt_reason_t"] {
        let types = pipeline.named_types.iter().filter(|(name, _)| name == type_name);
        for (_, ty) in types {
            let NamedType::SerializableEnum(_, members) = ty else { continue };
            for (name, value) in members {
                let is_valid_name = ReasonTable::new([(ReasonId(0), name.as_str())]).is_ok();
                match u32::try_from(value) {
                    Ok(number) if number != 0 && is_valid_name && !declared.values().any(|other| other == name) => {
                        declared.entry(number).or_insert_with(|| name.clone());
                    }
                    _ => {}
                }
            }
        }
    }
    ReasonTable::new(declared.into_iter().map(|(number, name)| (ReasonId(number), name))).unwrap_or_default()
}

/// Returns the variable in which the program stores its drop reason; 0 means none.
///
/// It is the first matching metadata variable that is kept between blocks and has at most 32 bits.
pub fn drop_variable(pipeline: &Pipeline) -> Option<VarId> {
    variable(pipeline, &["drop_reason"])
}

/// Returns the variable in which the program stores its reason for punting a packet to the CPU,
/// chosen like [`drop_variable`].
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
