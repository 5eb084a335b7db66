//! Stores of what a variable holds already, in a block or in all that lead to it, go away: what is copied back unchanged would be taken for changed, and put into packets'
//! frames once more.

use crate::analysis::facts::has_loop;
use ir::{Body, Cfg, Entity, Inst, Pipeline, Value, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// What variables hold at one point: the value that was loaded or stored last.
type Held = BTreeMap<VarId, Value>;

/// Takes them away. `kept`: the variables that loads and stores alone name.
pub fn without(pipeline: &mut Pipeline, kept: &BTreeSet<VarId>) {
    // In a loop the same value is made anew.
    for control in pipeline.controls.values_mut().filter(|control| !has_loop(&control.body)) {
        without_in(&mut control.body, kept);
    }
}

fn without_in(body: &mut Body, kept: &BTreeSet<VarId>) {
    let order = Cfg::new(body).reverse_postorder().to_vec();
    let mut before: Vec<Option<Held>> = vec![None; body.blocks.len()];
    for block in order {
        // All that lead here have been met.
        let mut held = before[block.index()].take().unwrap_or_default();
        let data = &mut body.blocks[block];
        data.insts.retain(|inst| match (&inst.inst, inst.results.first()) {
            (Inst::Load(var), Some(result)) if kept.contains(var) => {
                held.insert(*var, *result);
                true
            }
            (Inst::Store(var, value), _) if kept.contains(var) => held.insert(*var, *value) != Some(*value),
            _ => true,
        });
        for next in data.term.iter().flat_map(|term| term.term.successors()) {
            match &mut before[next.index()] {
                Some(there) => there.retain(|var, value| held.get(var) == Some(value)),
                none => *none = Some(held.clone()),
            }
        }
    }
}
