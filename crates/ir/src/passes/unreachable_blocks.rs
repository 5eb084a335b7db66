//! Removes unreachable blocks, and parser states that start with one.

use crate::body::Body;
use crate::cfg::reverse_postorder;
use crate::entity::{Block, Entity, EntityMap};
use crate::pipeline::Pipeline;

pub(super) fn remove_unreachable_blocks(pipeline: &mut Pipeline) {
    pipeline.controls.values_mut().for_each(|c| remove_from_body(&mut c.body));
}

pub(super) fn remove_from_body(body: &mut Body) {
    let mut reached = vec![false; body.blocks.len()];
    for block in reverse_postorder(body) {
        reached[block.index()] = true;
    }
    keep_blocks(body, &reached);
}

/// Keeps the marked blocks in their order, under new numbers. A kept block must not have a removed
/// successor.
pub(super) fn keep_blocks(body: &mut Body, keep: &[bool]) {
    if keep.iter().all(|k| *k) {
        return;
    }
    let mut renamed: Vec<Option<Block>> = vec![None; keep.len()];
    let mut blocks = EntityMap::new();
    for block in body.blocks.keys().filter(|b| keep[b.index()]) {
        renamed[block.index()] = Some(blocks.push(std::mem::take(&mut body.blocks[block])));
    }
    let rename = |block: Block| renamed.get(block.index()).copied().flatten();
    for data in blocks.values_mut() {
        if let Some(term) = &mut data.term {
            term.term.map_blocks(|b| rename(b).unwrap_or(b));
        }
    }
    body.blocks = blocks;
    body.entry = body.entry.and_then(rename);
    body.states.retain_mut(|state| match rename(state.block) {
        Some(block) => {
            state.block = block;
            true
        }
        None => false,
    });
}
