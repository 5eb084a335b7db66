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

/// Removes pure instructions with unused results.
pub fn remove_dead_values(body: &mut Body) {
    let mut counts = use_counts(body);
    let mut place: Vec<Option<(Block, usize)>> = vec![None; body.values.len()];
    let mut work = Vec::new();
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate().filter(|(_, i)| i.inst.is_pure()) {
            let [result] = inst.results[..] else { continue };
            place[result.index()] = Some((block, n));
            if counts[result.index()] == 0 {
                work.push(result);
            }
        }
    }
    let mut dead: Vec<Vec<bool>> = body.blocks.values().map(|d| vec![false; d.insts.len()]).collect();
    while let Some(value) = work.pop() {
        let Some((block, n)) = place[value.index()] else { continue };
        dead[block.index()][n] = true;
        body.blocks[block].insts[n].inst.for_each_use(|v| {
            counts[v.index()] -= 1;
            if counts[v.index()] == 0 {
                work.push(v);
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
    let mut fixed = vec![false; body.blocks.len()];
    for data in body.blocks.values() {
        if let Some(Terminator::Apply { arms, .. }) = data.term.as_ref().map(|t| &t.term) {
            arms.iter().for_each(|arm| fixed[arm.block.index()] = true);
        }
    }
    let unused = |(block, data): (Block, &crate::BlockData)| -> Vec<bool> {
        data.params.iter().map(|p| !fixed[block.index()] && counts[p.index()] == 0).collect()
    };
    let unused: Vec<Vec<bool>> = body.blocks.iter().map(unused).collect();
    if !unused.iter().flatten().any(|u| *u) {
        return false;
    }
    for (data, unused) in body.blocks.values_mut().zip(&unused) {
        let mut flags = unused.iter();
        data.params.retain(|_| !flags.next().copied().unwrap_or(false));
    }
    for data in body.blocks.values_mut() {
        let Some(term) = &mut data.term else { continue };
        term.term.for_each_call_mut(|call| {
            let mut flags = unused[call.block.index()].iter();
            call.args.retain(|_| !flags.next().copied().unwrap_or(false));
        });
    }
    true
}
