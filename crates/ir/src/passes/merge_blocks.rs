//! Shortens paths: redirects jumps over empty blocks and merges straight lines.
//! A jump to an empty block is redirected to the block's target, and a block with one predecessor
//! that jumps to it is appended to the predecessor. The first block of a parser state is kept,
//! because explanations show that the state was entered.

use crate::body::{BlockCall, Body, Terminator, TerminatorData};
use crate::entity::{Block, Entity, Value};
use crate::passes::unreachable_blocks::{self, keep_blocks};
use crate::pipeline::Pipeline;

pub(super) fn merge_blocks(pipeline: &mut Pipeline) {
    for control in pipeline.controls.values_mut() {
        thread_jumps(&mut control.body);
        // Empty blocks that jumps now bypass must not count as predecessors.
        unreachable_blocks::remove_from_body(&mut control.body);
        merge_straight_lines(&mut control.body);
    }
}

fn state_entry_flags(body: &Body) -> Vec<bool> {
    let mut states = vec![false; body.blocks.len()];
    for state in &body.states {
        if let Some(slot) = states.get_mut(state.block.index()) {
            *slot = true;
        }
    }
    states
}

/// Returns the terminator of each empty block without parameters.
fn forwarding_terminators(body: &Body, states: &[bool]) -> Vec<Option<TerminatorData>> {
    let simple = |(block, data): (Block, &crate::BlockData)| {
        let empty = data.params.is_empty() && data.insts.is_empty() && !states[block.index()];
        let term = data.term.as_ref().filter(|_| empty)?;
        matches!(term.term, Terminator::Jump(_) | Terminator::Return | Terminator::Exit | Terminator::Reject)
            .then(|| term.clone())
    };
    body.blocks.iter().map(simple).collect()
}

/// Returns the final target of a jump to each block through empty blocks; `None` where that is the
/// block itself, or a cycle. The arguments of an empty block's jump are defined before it, so they
/// are defined at each jump to it.
fn resolve_jump_targets(forwarding: &[Option<TerminatorData>]) -> Vec<Option<BlockCall>> {
    let jump_of = |block: usize| match forwarding.get(block) {
        Some(Some(TerminatorData { term: Terminator::Jump(call), .. })) => Some(call),
        _ => None,
    };
    let mut final_targets: Vec<Option<BlockCall>> = vec![None; forwarding.len()];
    let mut seen = vec![false; forwarding.len()];
    for start in 0..forwarding.len() {
        let mut path = Vec::new();
        let mut current = start;
        let final_target = loop {
            if seen[current] {
                // Already resolved, or a cycle, which has no final target.
                break final_targets[current].clone();
            }
            seen[current] = true;
            let Some(call) = jump_of(current) else { break None };
            path.push(current);
            if jump_of(call.block.index()).is_none() {
                break Some(call.clone());
            }
            current = call.block.index();
        };
        path.into_iter().for_each(|block| final_targets[block] = final_target.clone());
    }
    final_targets
}

/// Redirects each jump to an empty block to the final target of that block. A jump to an empty
/// block that leaves the control is replaced by that terminator.
fn thread_jumps(body: &mut Body) {
    let forwarding = forwarding_terminators(body, &state_entry_flags(body));
    let final_targets = resolve_jump_targets(&forwarding);
    for data in body.blocks.values_mut() {
        let Some(term) = &mut data.term else { continue };
        term.term.for_each_call_mut(|call| {
            if let Some(Some(replacement)) = final_targets.get(call.block.index()) {
                *call = replacement.clone();
            }
        });
        let exit_terminator = match &term.term {
            Terminator::Jump(call) => forwarding.get(call.block.index()).cloned().flatten(),
            _ => None,
        };
        if let Some(
            replacement @ TerminatorData { term: Terminator::Return | Terminator::Exit | Terminator::Reject, .. },
        ) = exit_terminator
        {
            *term = replacement;
        }
        fold_same_targets(&mut term.term);
    }
}

/// Replaces a branch or switch with equal targets by a jump.
pub(super) fn fold_same_targets(term: &mut Terminator) {
    let only = match term {
        Terminator::Branch { then, els, .. } if then == els => then.clone(),
        Terminator::Switch { cases, default, .. } if cases.iter().all(|(_, call)| call == default) => default.clone(),
        _ => return,
    };
    *term = Terminator::Jump(only);
}

/// Merges a block that ends in a jump with the target, if no other edge leads there and the target
/// is not the entry of a parser state. Arguments of the jump replace the parameters of the target.
fn merge_straight_lines(body: &mut Body) {
    let mut predecessor_counts = vec![0usize; body.blocks.len()];
    for successor in body.blocks.values().filter_map(|d| d.term.as_ref()).flat_map(|t| t.term.successors()) {
        predecessor_counts[successor.index()] += 1;
    }
    // The start of the body is an edge to the entry as well.
    if let Some(entry) = body.entry {
        predecessor_counts[entry.index()] += 1;
    }
    let is_state_entry = state_entry_flags(body);
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    let mut keep = vec![true; body.blocks.len()];
    for block in body.blocks.keys() {
        // A merged block is empty. The block that has taken its instructions continues with its jump.
        while keep[block.index()] {
            let Some(TerminatorData { term: Terminator::Jump(call), .. }) = &body.blocks[block].term else { break };
            let target = call.block;
            if target == block
                || predecessor_counts[target.index()] != 1
                || is_state_entry[target.index()]
                || !keep[target.index()]
            {
                break;
            }
            let args = call.args.clone();
            let mut data = std::mem::take(&mut body.blocks[target]);
            keep[target.index()] = false;
            for (param, arg) in data.params.iter().zip(args) {
                renamed[param.index()] = Some(arg);
            }
            let merged = &mut body.blocks[block];
            merged.insts.append(&mut data.insts);
            merged.term = data.term;
        }
    }
    rename_values(body, &renamed);
    keep_blocks(body, &keep);
}

/// Replaces uses of values, following chains of replacements.
pub(super) fn rename_values(body: &mut Body, renamed: &[Option<Value>]) {
    if renamed.iter().all(Option::is_none) {
        return;
    }
    let roots = replacement_roots(renamed);
    let find = |value: Value| roots.get(value.index()).copied().unwrap_or(value);
    for data in body.blocks.values_mut() {
        data.insts.iter_mut().for_each(|i| i.inst.map_values(find));
        if let Some(term) = &mut data.term {
            term.term.map_values(find);
        }
    }
}

/// Returns the end of each value's chain of replacements.
fn replacement_roots(renamed: &[Option<Value>]) -> Vec<Value> {
    let mut roots: Vec<Value> = (0..renamed.len()).map(Value::from_index).collect();
    let mut done = vec![false; renamed.len()];
    for start in 0..renamed.len() {
        let mut path = Vec::new();
        let mut at = start;
        // `done` also ends a cycle, which a correct pass never creates.
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
