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

/// Replaces each computation of a value that its block has computed already.
pub(super) fn number_values(body: &mut Body) {
    let mut merged: HashMap<Value, Value> = HashMap::new();
    // Equal conditions; they are not merged.
    let mut equal_conditions: HashMap<Value, Value> = HashMap::new();
    for data in body.blocks.values_mut() {
        // Computations of this block by text; those that read variables or validity are separate.
        let mut computations: HashMap<String, Value> = HashMap::new();
        let mut state_reads: HashMap<String, Value> = HashMap::new();
        for inst in &mut data.insts {
            inst.inst.map_values(|v| merged.get(&v).copied().unwrap_or(v));
            match (&inst.inst, inst.results.first()) {
                (Inst::Store(var, _), _) => _ = state_reads.remove(&format!("{:?}", Inst::Load(*var))),
                (pure, Some(result)) if pure.is_pure() => {
                    let mut key = pure.clone();
                    key.map_values(|v| equal_conditions.get(&v).copied().unwrap_or(v));
                    let reads_state = matches!(pure, Inst::Load(_) | Inst::IsValid(_) | Inst::InValueSet(..));
                    let numbered = if reads_state { &mut state_reads } else { &mut computations };
                    let first = *numbered.entry(format!("{key:?}")).or_insert(*result);
                    if first != *result {
                        let is_condition = body.values[*result] == Type::Bool;
                        if is_condition { &mut equal_conditions } else { &mut merged }.insert(*result, first);
                    }
                }
                _ => state_reads.clear(),
            }
        }
    }
    for data in body.blocks.values_mut() {
        let renamed = |v: Value| merged.get(&v).copied().unwrap_or(v);
        data.insts.iter_mut().for_each(|i| i.inst.map_values(renamed));
        data.term.iter_mut().for_each(|t| t.term.map_values(renamed));
    }
    ir::passes::remove_dead_values(body);
}
