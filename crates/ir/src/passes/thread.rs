//! Shortens paths: a jump to an empty block goes on to where that leads, and a block with one way in, by a jump, is appended
//! to the block that jumps. The first block of a parser state stays what it is: entering it is what an explanation shows.

use crate::body::{BlockCall, Body, Term, TermData};
use crate::entity::{Block, Entity, Value};
use crate::passes::reach::{self, keep_blocks};
use crate::pipeline::Pipeline;

pub(super) fn run(pipeline: &mut Pipeline) {
    for control in pipeline.controls.values_mut() {
        thread(&mut control.body);
        // What jumps pass over is no way in any more.
        reach::body(&mut control.body);
        merge(&mut control.body);
    }
}

fn is_state(body: &Body) -> Vec<bool> {
    let mut states = vec![false; body.blocks.len()];
    for state in &body.states {
        if let Some(slot) = states.get_mut(state.block.index()) {
            *slot = true;
        }
    }
    states
}

/// What an empty block without parameters does: nothing, then this.
fn forwards(body: &Body, states: &[bool]) -> Vec<Option<TermData>> {
    let simple = |(block, data): (Block, &crate::BlockData)| {
        let empty = data.params.is_empty() && data.insts.is_empty() && !states[block.index()];
        let term = data.term.as_ref().filter(|_| empty)?;
        matches!(term.term, Term::Jump(_) | Term::Return | Term::Exit | Term::Reject).then(|| term.clone())
    };
    body.blocks.iter().map(simple).collect()
}

/// Where a jump to each block ends up by way of empty blocks; `None` where that is the block itself, or a circle. The arguments
/// of an empty block's jump were defined before it, so they are defined wherever it is jumped from.
fn ends(forwards: &[Option<TermData>]) -> Vec<Option<BlockCall>> {
    let next = |block: usize| match forwards.get(block) {
        Some(Some(TermData { term: Term::Jump(call), .. })) => Some(call),
        _ => None,
    };
    let mut ends: Vec<Option<BlockCall>> = vec![None; forwards.len()];
    let mut seen = vec![false; forwards.len()];
    for start in 0..forwards.len() {
        let mut path = Vec::new();
        let mut at = start;
        let end = loop {
            if seen[at] {
                // Known, or a circle, which is known to have no end.
                break ends[at].clone();
            }
            seen[at] = true;
            let Some(call) = next(at) else { break None };
            path.push(at);
            if next(call.block.index()).is_none() {
                break Some(call.clone());
            }
            at = call.block.index();
        };
        path.into_iter().for_each(|block| ends[block] = end.clone());
    }
    ends
}

fn thread(body: &mut Body) {
    let forwards = forwards(body, &is_state(body));
    let ends = ends(&forwards);
    for data in body.blocks.values_mut() {
        let Some(term) = &mut data.term else { continue };
        term.term.for_each_call_mut(|call| {
            if let Some(Some(end)) = ends.get(call.block.index()) {
                *call = end.clone();
            }
        });
        let leaves = match &term.term {
            Term::Jump(call) => forwards.get(call.block.index()).cloned().flatten(),
            _ => None,
        };
        if let Some(end @ TermData { term: Term::Return | Term::Exit | Term::Reject, .. }) = leaves {
            *term = end;
        }
        same_targets(&mut term.term);
    }
}

/// A branch or switch whose ways are all the same is a jump.
pub(super) fn same_targets(term: &mut Term) {
    let only = match term {
        Term::Branch { then, els, .. } if then == els => then.clone(),
        Term::Switch { cases, default, .. } if cases.iter().all(|(_, call)| call == default) => default.clone(),
        _ => return,
    };
    *term = Term::Jump(only);
}

fn merge(body: &mut Body) {
    let mut ways_in = vec![0usize; body.blocks.len()];
    for succ in body.blocks.values().filter_map(|d| d.term.as_ref()).flat_map(|t| t.term.successors()) {
        ways_in[succ.index()] += 1;
    }
    if let Some(entry) = body.entry {
        ways_in[entry.index()] += 1;
    }
    let states = is_state(body);
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    let mut keep = vec![true; body.blocks.len()];
    for block in body.blocks.keys() {
        // A block that went elsewhere takes its successors with it.
        while keep[block.index()] {
            let Some(TermData { term: Term::Jump(call), .. }) = &body.blocks[block].term else { break };
            let target = call.block;
            if target == block || ways_in[target.index()] != 1 || states[target.index()] || !keep[target.index()] {
                break;
            }
            let args = call.args.clone();
            let mut data = std::mem::take(&mut body.blocks[target]);
            keep[target.index()] = false;
            for (param, arg) in data.params.iter().zip(args) {
                renamed[param.index()] = Some(arg);
            }
            let into = &mut body.blocks[block];
            into.insts.append(&mut data.insts);
            into.term = data.term;
        }
    }
    rename_values(body, &renamed);
    keep_blocks(body, &keep);
}

/// Replaces uses of values, through chains of replacements.
pub(super) fn rename_values(body: &mut Body, renamed: &[Option<Value>]) {
    if renamed.iter().all(Option::is_none) {
        return;
    }
    let roots = roots(renamed);
    let find = |value: Value| roots.get(value.index()).copied().unwrap_or(value);
    for data in body.blocks.values_mut() {
        data.insts.iter_mut().for_each(|i| i.inst.map_values(find));
        if let Some(term) = &mut data.term {
            term.term.map_values(find);
        }
    }
}

/// Where each value's chain of replacements ends.
fn roots(renamed: &[Option<Value>]) -> Vec<Value> {
    let mut roots: Vec<Value> = (0..renamed.len()).map(Value::from_index).collect();
    let mut done = vec![false; renamed.len()];
    for start in 0..renamed.len() {
        let mut path = Vec::new();
        let mut at = start;
        // `done` also ends a circle, which a right pass never makes.
        while !std::mem::replace(&mut done[at], true) {
            path.push(at);
            match renamed[at].map(Value::index).filter(|next| *next < renamed.len()) {
                Some(next) => at = next,
                None => break,
            }
        }
        let root = roots[at];
        path.into_iter().for_each(|value| roots[value] = root);
    }
    roots
}
