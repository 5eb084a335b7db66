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
    blocks.iter().enumerate().for_each(|(index, block)| position[block.index()] = index);
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
    let mut post_dominators = vec![NONE; count + 1];
    post_dominators[count] = count;
    let mut changed = true;
    while changed {
        changed = false;
        for index in (0..count).rev() {
            let mut candidate = if successors[index].is_empty() { count } else { NONE };
            for next in successors[index].iter().filter(|next| post_dominators[**next] != NONE) {
                candidate =
                    if candidate == NONE { *next } else { common_postdominator(&post_dominators, candidate, *next) };
            }
            if candidate != NONE && post_dominators[index] != candidate {
                post_dominators[index] = candidate;
                changed = true;
            }
        }
    }
    let mut joins = vec![None; body.blocks.len()];
    for (index, block) in blocks.iter().enumerate() {
        joins[block.index()] = blocks.get(post_dominators[index]).copied();
    }
    joins
}

/// Returns the first common post-dominator of two nodes. `post_dominators` has the current
/// post-dominator of each node. It stores the path of one node because numbers do not always
/// decrease in loops.
fn common_postdominator(post_dominators: &[usize], a: usize, b: usize) -> usize {
    let end = post_dominators.len() - 1;
    let mut path = std::collections::BTreeSet::new();
    let mut node = a;
    while path.insert(node) && node != end {
        node = post_dominators[node];
        if node == usize::MAX {
            break;
        }
    }
    let mut node = b;
    let mut steps = 0;
    while !path.contains(&node) {
        node = post_dominators[node];
        steps += 1;
        if node == usize::MAX || steps > post_dominators.len() {
            return end;
        }
    }
    node
}
