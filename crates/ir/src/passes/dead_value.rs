//! Removes pure instructions with unused results, and unused block parameters.

use crate::body::{Body, Terminator};
use crate::entity::{Block, Entity, Value};
use crate::pipeline::Pipeline;

pub(super) fn remove_dead_values_and_params(pipeline: &mut Pipeline) {
    for control in pipeline.controls.values_mut() {
        remove_dead_values(&mut control.body);
        // Removing a parameter removes arguments, which can leave more values unused.
        while remove_unused_params(&mut control.body) {
            remove_dead_values(&mut control.body);
        }
    }
}

fn use_counts(body: &Body) -> Vec<usize> {
    let mut counts = vec![0usize; body.values.len()];
    let mut count = |v: Value| {
        if let Some(slot) = counts.get_mut(v.index()) {
            *slot += 1;
        }
    };
    for data in body.blocks.values() {
        data.insts.iter().for_each(|i| i.inst.for_each_use(&mut count));
        if let Some(term) = &data.term {
            term.term.for_each_use(&mut count);
        }
    }
    counts
}

/// Removes pure instructions with unused results. Removing one can leave its operands unused, so
/// they are checked next.
pub fn remove_dead_values(body: &mut Body) {
    let mut counts = use_counts(body);
    let mut definition_of: Vec<Option<(Block, usize)>> = vec![None; body.values.len()];
    let mut worklist = Vec::new();
    for (block, data) in body.blocks.iter() {
        for (inst_index, inst) in data.insts.iter().enumerate().filter(|(_, i)| i.inst.is_pure()) {
            let [result] = inst.results[..] else { continue };
            definition_of[result.index()] = Some((block, inst_index));
            if counts[result.index()] == 0 {
                worklist.push(result);
            }
        }
    }
    let mut dead: Vec<Vec<bool>> = body.blocks.values().map(|d| vec![false; d.insts.len()]).collect();
    while let Some(value) = worklist.pop() {
        let Some((block, inst_index)) = definition_of[value.index()] else { continue };
        dead[block.index()][inst_index] = true;
        body.blocks[block].insts[inst_index].inst.for_each_use(|v| {
            counts[v.index()] -= 1;
            if counts[v.index()] == 0 {
                worklist.push(v);
            }
        });
    }
    for (data, dead) in body.blocks.values_mut().zip(dead) {
        let mut dead = dead.into_iter();
        data.insts.retain(|_| !dead.next().unwrap_or(false));
    }
}

/// Removes unused block parameters; returns whether it removed any. The parameters of a table's
/// arms are kept, because the table supplies them.
fn remove_unused_params(body: &mut Body) -> bool {
    let counts = use_counts(body);
    let mut is_arm = vec![false; body.blocks.len()];
    for data in body.blocks.values() {
        if let Some(Terminator::Apply { arms, .. }) = data.term.as_ref().map(|t| &t.term) {
            arms.iter().for_each(|arm| is_arm[arm.block.index()] = true);
        }
    }
    let is_unused = |(block, data): (Block, &crate::BlockData)| -> Vec<bool> {
        data.params.iter().map(|p| !is_arm[block.index()] && counts[p.index()] == 0).collect()
    };
    let is_unused: Vec<Vec<bool>> = body.blocks.iter().map(is_unused).collect();
    if !is_unused.iter().flatten().any(|u| *u) {
        return false;
    }
    for (data, is_unused) in body.blocks.values_mut().zip(&is_unused) {
        let mut flags = is_unused.iter();
        data.params.retain(|_| !flags.next().copied().unwrap_or(false));
    }
    for data in body.blocks.values_mut() {
        let Some(term) = &mut data.term else { continue };
        term.term.for_each_call_mut(|call| {
            let mut flags = is_unused[call.block.index()].iter();
            call.args.retain(|_| !flags.next().copied().unwrap_or(false));
        });
    }
    true
}
