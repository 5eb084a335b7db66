//! Splits blocks at cut points.

use super::PointInBlock;
use super::implied_cuts::{ImpliedCutPoint, point_location};
use ir::{Block, BlockCall, BlockData, Body, Pipeline, SourceLoc, Terminator, TerminatorData};

/// Returns the source location of a cut point.
pub fn source_loc_of(pipeline: &Pipeline, stop: &ImpliedCutPoint) -> SourceLoc {
    point_location(&pipeline.controls[stop.point.control].body, stop.point.block, stop.point.at)
}

/// Splits blocks so that each cut point (in ascending order) starts one. Returns these blocks.
pub fn split_at_cut_points(body: &mut Body, stops: &[ImpliedCutPoint]) -> Vec<Block> {
    let mut places = vec![None; stops.len()];
    // From the end of each block, so that earlier positions stay valid.
    for (n, closed) in stops.iter().enumerate().rev() {
        let block = closed.point.block;
        let data = &mut body.blocks[block];
        let at = match closed.point.at {
            PointInBlock::Inst(at) => at.min(data.insts.len()),
            PointInBlock::Term => data.insts.len(),
        };
        let loc = data.term.as_ref().map(|term| term.loc).unwrap_or_default();
        let rest = BlockData { params: Vec::new(), insts: data.insts.split_off(at), term: data.term.take() };
        let new = body.blocks.push(rest);
        let jump = Terminator::Jump(BlockCall::to(new));
        body.blocks[block].term = Some(TerminatorData { term: jump, loc });
        places[n] = Some(new);
    }
    places.into_iter().flatten().collect()
}
