//! Local value numbering: a block computes equal expressions once.
//!
//! ```text
//! x = a + b;                 x = a + b;
//! y = a + b;          ->     y = x;
//! ```
//!
//! Each computation is a step and a logical table of a stage. Conditions are kept where they are
//! used, because a shared condition would become a variable.

use ir::*;
use std::collections::HashMap;

/// Numbers the values of a body.
pub(super) fn number_values(body: &mut Body) {
    let mut names: HashMap<Value, Value> = HashMap::new();
    // Equal conditions; they are not merged.
    let mut alike: HashMap<Value, Value> = HashMap::new();
    for data in body.blocks.values_mut() {
        // Computations of this block by text; those that read variables or validity are separate.
        let mut known: HashMap<String, Value> = HashMap::new();
        let mut read: HashMap<String, Value> = HashMap::new();
        for inst in &mut data.insts {
            inst.inst.map_values(|v| names.get(&v).copied().unwrap_or(v));
            match (&inst.inst, inst.results.first()) {
                (Inst::Store(var, _), _) => _ = read.remove(&format!("{:?}", Inst::Load(*var))),
                (pure, Some(result)) if pure.is_pure() => {
                    let mut key = pure.clone();
                    key.map_values(|v| alike.get(&v).copied().unwrap_or(v));
                    let reads = matches!(pure, Inst::Load(_) | Inst::IsValid(_) | Inst::InValueSet(..));
                    let all = if reads { &mut read } else { &mut known };
                    let first = *all.entry(format!("{key:?}")).or_insert(*result);
                    if first != *result {
                        let condition = body.values[*result] == Type::Bool;
                        if condition { &mut alike } else { &mut names }.insert(*result, first);
                    }
                }
                _ => read.clear(),
            }
        }
    }
    for data in body.blocks.values_mut() {
        let of = |v: Value| names.get(&v).copied().unwrap_or(v);
        data.insts.iter_mut().for_each(|i| i.inst.map_values(of));
        data.term.iter_mut().for_each(|t| t.term.map_values(of));
    }
    ir::passes::remove_dead_values(body);
}
