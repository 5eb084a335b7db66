//! Which points of a body a packet can reach from others.

use super::PointInBlock;
use ir::{Block, Body, Entity, reverse_postorder};

/// Point in a body.
pub type ProgramPoint = (Block, PointInBlock);

/// Reachability between blocks.
pub struct Reachability {
    /// Reachable blocks of each block, as bits.
    rows: Vec<Vec<u64>>,
}

impl Reachability {
    /// Computes for each block the blocks that a packet can reach from it, by iteration to a fixed
    /// point. A row has one bit for each block.
    pub fn new(body: &Body) -> Reachability {
        let count = body.blocks.len();
        let mut rows = vec![vec![0u64; count.div_ceil(64)]; count];
        let order = reverse_postorder(body);
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().rev() {
                let Some(term) = body.blocks[*block].term.as_ref() else { continue };
                for next in term.term.successors() {
                    let mut reached = rows[next.index()].clone();
                    reached[next.index() / 64] |= 1 << (next.index() % 64);
                    for (word, reached) in rows[block.index()].iter_mut().zip(reached) {
                        changed |= reached & !*word != 0;
                        *word |= reached;
                    }
                }
            }
        }
        Reachability { rows }
    }

    /// Returns whether a packet can get from one point to another later one.
    pub fn reaches(&self, from: ProgramPoint, to: ProgramPoint) -> bool {
        let row = &self.rows[from.0.index()];
        let far = row[to.0.index() / 64] >> (to.0.index() % 64) & 1 == 1;
        far || from.0 == to.0 && from.1 < to.1
    }

    /// Returns whether a packet can get from the start of one block to the start of another one, or
    /// both are the same.
    pub fn reaches_block(&self, from: Block, to: Block) -> bool {
        from == to || self.reaches((from, PointInBlock::Inst(0)), (to, PointInBlock::Inst(0)))
    }
}
