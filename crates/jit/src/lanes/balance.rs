//! Balances chains of masks. A chain of conjunctions is latency-bound, because a comparison under a
//! mask takes as long as five additions. Chains without intermediate uses become trees: pairs,
//! pairs of pairs and so on, combined as their masks become available.

use crate::lanes::ir::{OpId, VectorCode, VectorOp};
use crate::lanes::masks::inverted;
use std::collections::HashMap;

/// Masks of one chain that are not combined yet, each with the logarithm of its number of leaves.
type MaskChain = Vec<(OpId, u32)>;

/// Returns the code with balanced chains of masks.
pub fn balance_masks(code: VectorCode) -> VectorCode {
    let links = ChainLinks::of(&code);
    let mut balanced = BalancedCode { code: VectorCode::default(), moved: Vec::with_capacity(code.ops.len()) };
    let mut chains: HashMap<u32, MaskChain> = HashMap::new();
    for (index, op) in code.ops.into_iter().enumerate() {
        let Some((root, is_last)) = links.root[index] else {
            let id = balanced.add_renamed(op);
            balanced.moved.push(id);
            continue;
        };
        let (first, second, is_negated) = link_operands(&op);
        let chain = chains.entry(root).or_default();
        if chain.is_empty() {
            let first = balanced.moved[first.0 as usize];
            balanced.push_mask(chain, first);
        }
        let mut leaf = balanced.moved[second.0 as usize];
        if is_negated {
            leaf = balanced.add_not(leaf);
        }
        balanced.push_mask(chain, leaf);
        // Only the last link of a chain is used outside of it.
        let id = if is_last { balanced.combine_all(chain) } else { OpId(u32::MAX) };
        balanced.moved.push(id);
    }
    balanced.code
}

/// Returns the operands of a link: the preceding chain, another mask, and whether the latter is
/// negated.
fn link_operands(op: &VectorOp) -> (OpId, OpId, bool) {
    match op {
        VectorOp::Both(a, b) => (*a, *b, false),
        VectorOp::Without(a, b) => (*a, *b, true),
        _ => (OpId(0), OpId(0), false),
    }
}

/// Operations that are links of chains.
struct ChainLinks {
    /// For each link, the last link of its chain, and whether it is that one.
    root: Vec<Option<(u32, bool)>>,
}

impl ChainLinks {
    fn of(code: &VectorCode) -> ChainLinks {
        let is_link = |id: OpId| matches!(code.ops[id.0 as usize], VectorOp::Both(..) | VectorOp::Without(..));
        let mut uses = vec![0u32; code.ops.len()];
        code.ops.iter().flat_map(VectorOp::operands).for_each(|id| uses[id.0 as usize] += 1);
        let mut root: Vec<Option<(u32, bool)>> = vec![None; code.ops.len()];
        for (at, op) in code.ops.iter().enumerate().rev() {
            if !is_link(OpId(at as u32)) {
                continue;
            }
            let (row, _) = *root[at].get_or_insert((at as u32, true));
            // The first operand is part of the chain if it has no other use.
            let (first, ..) = link_operands(op);
            if is_link(first) && uses[first.0 as usize] == 1 {
                root[first.0 as usize] = Some((row, false));
            }
        }
        ChainLinks { root }
    }
}

/// Code under construction.
struct BalancedCode {
    code: VectorCode,
    moved: Vec<OpId>,
}

impl BalancedCode {
    fn add_renamed(&mut self, mut op: VectorOp) -> OpId {
        op.rename(&|id| self.moved[id.0 as usize]);
        self.add_op(op)
    }

    fn add_op(&mut self, op: VectorOp) -> OpId {
        self.code.ops.push(op);
        OpId(self.code.ops.len() as u32 - 1)
    }

    fn add_not(&mut self, mask: OpId) -> OpId {
        let op = inverted(&self.code.ops[mask.0 as usize]).unwrap_or(VectorOp::Not(mask));
        self.add_op(op)
    }

    /// Adds a mask to a chain: masks with equal numbers of leaves are combined.
    fn push_mask(&mut self, row: &mut MaskChain, mask: OpId) {
        let (mut mask, mut rank) = (mask, 0);
        while let Some((other, _)) = row.pop_if(|(_, other)| *other == rank) {
            mask = self.add_op(VectorOp::Both(other, mask));
            rank += 1;
        }
        row.push((mask, rank));
    }

    /// Combines all masks of a chain.
    fn combine_all(&mut self, row: &mut MaskChain) -> OpId {
        let mut all = row.pop().map(|(mask, _)| mask);
        while let Some((mask, _)) = row.pop() {
            all = all.map(|all| self.add_op(VectorOp::Both(mask, all)));
        }
        all.unwrap_or(OpId(0))
    }
}
