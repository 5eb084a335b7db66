//! Redundant-store elimination: removes a store of the value that the variable already has, within
//! a block or on all paths to it. Copy-out of an unchanged `inout` argument would otherwise count
//! as a change and be stored in frames again.

use crate::analysis::facts::has_loop;
use ir::{Body, Cfg, Entity, Inst, Pipeline, Value, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// Values of variables at one point: the value loaded or stored last.
type HeldValues = BTreeMap<VarId, Value>;

/// Removes redundant stores. `kept`: the variables that only loads and stores access.
pub fn remove_redundant_stores(pipeline: &mut Pipeline, kept: &BTreeSet<VarId>) {
    // In a loop the same value id is computed several times.
    for control in pipeline.controls.values_mut().filter(|control| !has_loop(&control.body)) {
        remove_in_body(&mut control.body, kept);
    }
}

/// Removes stores to the `variables` given that store the value they hold. Blocks are visited in
/// reverse postorder; at a join only values held on all paths remain.
fn remove_in_body(body: &mut Body, variables: &BTreeSet<VarId>) {
    let order = Cfg::new(body).reverse_postorder().to_vec();
    let mut held_before: Vec<Option<HeldValues>> = vec![None; body.blocks.len()];
    for block in order {
        // All predecessors have been visited.
        let mut held = held_before[block.index()].take().unwrap_or_default();
        let data = &mut body.blocks[block];
        data.insts.retain(|inst| match (&inst.inst, inst.results.first()) {
            (Inst::Load(var), Some(result)) if variables.contains(var) => {
                held.insert(*var, *result);
                true
            }
            (Inst::Store(var, value), _) if variables.contains(var) => held.insert(*var, *value) != Some(*value),
            _ => true,
        });
        for next in data.term.iter().flat_map(|term| term.term.successors()) {
            match &mut held_before[next.index()] {
                Some(joined) => joined.retain(|var, value| held.get(var) == Some(value)),
                unvisited => *unvisited = Some(held.clone()),
            }
        }
    }
}
