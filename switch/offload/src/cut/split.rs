//! Makes each stop the beginning of a block.

use super::At;
use super::closure::{Closed, loc_of};
use ir::{Block, BlockCall, BlockData, Body, Loc, Pipeline, Term, TermData};

/// Where a stop is in the source.
pub fn loc(pipeline: &Pipeline, stop: &Closed) -> Loc {
    loc_of(&pipeline.controls[stop.stop.control].body, stop.stop.block, stop.stop.at)
}

/// Splits blocks so that each stop (in rising order) begins one, and gives those blocks.
pub fn split(body: &mut Body, stops: &[Closed]) -> Vec<Block> {
    let mut places = vec![None; stops.len()];
    // From the back of each block, so that positions in front stay.
    for (n, closed) in stops.iter().enumerate().rev() {
        let block = closed.stop.block;
        let data = &mut body.blocks[block];
        let at = match closed.stop.at {
            At::Inst(at) => at.min(data.insts.len()),
            At::Term => data.insts.len(),
        };
        let loc = data.term.as_ref().map(|term| term.loc).unwrap_or_default();
        let rest = BlockData { params: Vec::new(), insts: data.insts.split_off(at), term: data.term.take() };
        let new = body.blocks.push(rest);
        let jump = Term::Jump(BlockCall::to(new));
        body.blocks[block].term = Some(TermData { term: jump, loc });
        places[n] = Some(new);
    }
    places.into_iter().flatten().collect()
}
