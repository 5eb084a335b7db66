//! Joins of control-flow paths.

use ir::{Body, Entity};

/// Returns for each block the block where its outgoing paths join. `None`: only at the end.
pub fn join_blocks(body: &Body) -> Vec<Option<ir::Block>> {
    immediate_postdominators(body, &ir::reverse_postorder(body))
}

/// Computes immediate post-dominators after Cooper, Harvey and Kennedy, on the reversed graph with
/// one added end node.
fn immediate_postdominators(body: &Body, blocks: &[ir::Block]) -> Vec<Option<ir::Block>> {
    let count = blocks.len();
    let mut position = vec![usize::MAX; body.blocks.len()];
    blocks.iter().enumerate().for_each(|(at, block)| position[block.index()] = at);
    let successors: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| {
            let term = body.blocks[*block].term.as_ref();
            term.map(|t| t.term.successors()).unwrap_or_default().iter().map(|b| position[b.index()]).collect()
        })
        .collect();
    // The end has number `count`. The search runs from the last block backward because numbers then
    // mostly decrease.
    const NONE: usize = usize::MAX;
    let mut found = vec![NONE; count + 1];
    found[count] = count;
    let mut changed = true;
    while changed {
        changed = false;
        for at in (0..count).rev() {
            let mut new = if successors[at].is_empty() { count } else { NONE };
            for next in successors[at].iter().filter(|next| found[**next] != NONE) {
                new = if new == NONE { *next } else { common_postdominator(&found, new, *next) };
            }
            if new != NONE && found[at] != new {
                found[at] = new;
                changed = true;
            }
        }
    }
    let mut joins = vec![None; body.blocks.len()];
    for (at, block) in blocks.iter().enumerate() {
        joins[block.index()] = blocks.get(found[at]).copied();
    }
    joins
}

/// Returns the first common post-dominator. It stores the path of one node because numbers do not
/// always decrease in loops.
fn common_postdominator(found: &[usize], a: usize, b: usize) -> usize {
    let end = found.len() - 1;
    let mut way = std::collections::BTreeSet::new();
    let mut at = a;
    while way.insert(at) && at != end {
        at = found[at];
        if at == usize::MAX {
            break;
        }
    }
    let mut at = b;
    let mut steps = 0;
    while !way.contains(&at) {
        at = found[at];
        steps += 1;
        if at == usize::MAX || steps > found.len() {
            return end;
        }
    }
    at
}
