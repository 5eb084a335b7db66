//! Control-flow analysis of a body: predecessors, reverse postorder, dominators.
//! Blocks that do not exist are skipped; the verifier reports them.

use crate::body::{BlockData, Body, Terminator, TerminatorData};
use crate::declaration::SourceLoc;
use crate::entity::{Block, Entity};
use std::collections::HashSet;

/// Control-flow graph of a body, computed once; it does not follow later changes.
#[derive(Clone, Debug)]
pub struct Cfg {
    preds: Vec<Vec<Block>>,
    order: Vec<Block>,
    /// Position of a block in `order`; `None` if it is unreachable.
    position: Vec<Option<usize>>,
    /// Immediate dominator as a position in `order`; the entry's is itself.
    idom: Vec<usize>,
    /// Position in a preorder of the dominator tree, and number of blocks in the subtree. `a`
    /// dominates `b` if the position of `b` is in the subtree of `a`.
    subtree: Vec<(usize, usize)>,
}

impl Cfg {
    /// Computes the predecessors of each block, the reverse postorder and the dominator tree.
    /// `position` is the inverse of the order; `subtree` lets [`Cfg::dominates`] compare two
    /// numbers.
    pub fn new(body: &Body) -> Self {
        let mut preds = vec![Vec::new(); body.blocks.len()];
        for (block, data) in body.blocks.iter() {
            for successor in data.successors() {
                // A block with two edges to the same successor is one predecessor.
                if let Some(block_preds) = preds.get_mut(successor.index())
                    && block_preds.last() != Some(&block)
                {
                    block_preds.push(block);
                }
            }
        }
        let order = reverse_postorder(body);
        let mut position = vec![None; body.blocks.len()];
        for (index, block) in order.iter().enumerate() {
            position[block.index()] = Some(index);
        }
        let idom = immediate_dominators(&order, &position, &preds);
        let subtree = subtrees(&idom);
        Cfg { preds, order, position, idom, subtree }
    }
    /// Returns the predecessors of `block`, each once for a run of equal edges.
    pub fn predecessors(&self, block: Block) -> &[Block] {
        self.preds.get(block.index()).map_or(&[], Vec::as_slice)
    }
    /// Returns the reachable blocks, each before its successors except along back edges.
    pub fn reverse_postorder(&self) -> &[Block] {
        &self.order
    }
    /// Reports whether `block` is reachable from the entry.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.rpo_index(block).is_some()
    }
    /// Reports whether each path from the entry to `b` goes through `a`. A block dominates itself;
    /// an unreachable block is dominated by all.
    pub fn dominates(&self, a: Block, b: Block) -> bool {
        let Some(below) = self.rpo_index(b) else { return true };
        let Some(above) = self.rpo_index(a) else { return false };
        let (start, size) = self.subtree[above];
        (start..start + size).contains(&self.subtree[below].0)
    }
    /// Returns the nearest other block that dominates `block`; `None` for the entry and for
    /// unreachable blocks.
    pub fn immediate_dominator(&self, block: Block) -> Option<Block> {
        let at = self.rpo_index(block)?;
        (at != 0).then(|| self.order[self.idom[at]])
    }
    fn rpo_index(&self, block: Block) -> Option<usize> {
        self.position.get(block.index()).copied().flatten()
    }
}

impl Body {
    /// Empties unreachable blocks, because the entities they refer to may no longer exist.
    pub fn empty_unreachable(&mut self) {
        let reached: HashSet<Block> = reverse_postorder(self).into_iter().collect();
        let unreached: Vec<Block> = self.blocks.keys().filter(|block| !reached.contains(block)).collect();
        for block in unreached {
            let term = Some(TerminatorData { term: Terminator::Return, loc: SourceLoc::default() });
            self.blocks[block] = BlockData { term, ..BlockData::default() };
        }
    }
}

/// Returns the reachable blocks in reverse postorder.
pub fn reverse_postorder(body: &Body) -> Vec<Block> {
    let mut order = Vec::new();
    let mut seen = vec![false; body.blocks.len()];
    // Uses an explicit stack instead of recursion, because a hostile body can be a chain of a
    // million blocks.
    let mut stack: Vec<(Block, Vec<Block>)> = Vec::new();
    let visit = |block: Block, seen: &mut Vec<bool>, stack: &mut Vec<(Block, Vec<Block>)>| {
        let Some(data) = body.blocks.get(block) else { return };
        if std::mem::replace(&mut seen[block.index()], true) {
            return;
        }
        stack.push((block, data.successors()));
    };
    if let Some(entry) = body.entry {
        visit(entry, &mut seen, &mut stack);
    }
    while let Some((block, unvisited)) = stack.last_mut() {
        match unvisited.pop() {
            Some(successor) => visit(successor, &mut seen, &mut stack),
            None => {
                order.push(*block);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}

/// Computes immediate dominators (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance
/// Algorithm"). All numbers in it, and in the result, are positions in the reverse postorder
/// `order`; `position` has that of each block, `None` if the block is unreachable. The entry
/// dominates itself.
fn immediate_dominators(order: &[Block], position: &[Option<usize>], preds: &[Vec<Block>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut idom = vec![NONE; order.len()];
    if !order.is_empty() {
        idom[0] = 0;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for block_position in 1..order.len() {
            let mut new_idom = NONE;
            for pred in preds[order[block_position].index()].iter().filter_map(|p| position[p.index()]) {
                if idom[pred] == NONE {
                    continue;
                }
                new_idom = if new_idom == NONE { pred } else { intersect(&idom, new_idom, pred) };
            }
            if idom[block_position] != new_idom {
                idom[block_position] = new_idom;
                changed = true;
            }
        }
    }
    idom
}

/// Computes the preorder positions and sizes of dominator subtrees. In the given order, each block
/// comes after its immediate dominator.
fn subtrees(idom: &[usize]) -> Vec<(usize, usize)> {
    let mut subtree = vec![(0, 1); idom.len()];
    for at in (1..idom.len()).rev() {
        subtree[idom[at]].1 += subtree[at].1;
    }
    let mut next = vec![1; idom.len()];
    for at in 1..idom.len() {
        let place = next[idom[at]];
        next[idom[at]] += subtree[at].1;
        subtree[at].0 = place;
        next[at] = place + 1;
    }
    subtree
}

fn intersect(idom: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while a > b {
            a = idom[a];
        }
        while b > a {
            b = idom[b];
        }
    }
    a
}
