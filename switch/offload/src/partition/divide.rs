//! Partition of a program for a chip: constructs that its architecture cannot express go to the
//! lower tier.

use super::{
    CutPoint, MAX_CUT_POINTS, PartitionError, PartitionOptions, PipelinePartition, PointInBlock, Resumption, TableMode,
    cut_points_for_tables, partition_pipeline, partitionable_control,
};
use asic::emit::{EmitError, EmitTarget, EmittedProgram, GressUse, UnsupportedConstruct, emit_with_gresses};
use asic::transform::TableSizes;
use ir::{Block, ExternFn, Inst, InstData, Pipeline, SourceLoc, Table};
use std::collections::BTreeMap;

/// Program for a chip, and the rest for the lower tier.
#[derive(Clone, Debug)]
pub struct ChipPartition {
    /// Emitted source for the chip. Its `left_out` constructs are in the parser or only count, so
    /// they are not cut off.
    pub emitted: EmittedProgram,
    /// Both halves. `None`: the chip supports the program, or nothing can be cut off.
    pub partition: Option<PipelinePartition>,
    /// Constructs that were cut off because the chip cannot express them.
    pub unsupported: Vec<UnsupportedConstruct>,
}

/// Reason for which a program cannot be partitioned for a chip.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DivideError {
    /// The architecture cannot express a construct that cannot be cut off.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// A necessary cut point is not possible.
    #[error("it cannot be cut where {target} cannot express it: {error}")]
    Cut {
        /// Name of the architecture.
        target: &'static str,
        /// Reason.
        error: PartitionError,
    },
}

/// Emits the part of a program that an architecture supports. Packets that need more go to the
/// lower tier with a bridge header. Of tables to which packets add entries, the chip has as many
/// entries as the table's size there.
///
/// # Errors
/// [`DivideError`].
pub fn partition_for_chip(
    pipeline: &Pipeline,
    target: EmitTarget,
    sizes: &TableSizes,
    gresses: GressUse,
    options: PartitionOptions,
) -> Result<ChipPartition, DivideError> {
    let refused = |error| DivideError::Cut { target: target.name(), error };
    let (mut candidates, mut without_form) = (CutCandidates::new(), Vec::new());
    let cached = cut_points_of_written_tables(pipeline, sizes);
    loop {
        let cut_points = [cached.clone(), candidates.to_cut_points(pipeline)].concat();
        let partition = match cut_points.is_empty() {
            true => None,
            false => Some(partition_pipeline(pipeline, &cut_points, options).map_err(refused)?),
        };
        let upper = partition.as_ref().map_or(pipeline, |partition| &partition.upper);
        let emitted = emit_with_gresses(upper, target, sizes, gresses);
        let unsupported: &[UnsupportedConstruct] = match &emitted {
            Ok(emitted) => &emitted.left_out,
            Err(EmitError::Unsupported { what: construct, .. }) => std::slice::from_ref(construct),
        };
        let mut has_new = false;
        for construct in unsupported {
            if candidates.add_positions(pipeline, construct) {
                without_form.push(construct.clone());
                has_new = true;
            }
        }
        if !has_new {
            return Ok(ChipPartition { emitted: emitted?, partition, unsupported: without_form });
        }
        if candidates.block_count() > MAX_CUT_POINTS {
            return Err(refused(PartitionError::TooManyCutPoints(candidates.block_count())));
        }
    }
}

/// Returns the cut points that follow from entries of packets on the chip; none if a table to which
/// packets add entries is applied where the program cannot be cut.
fn cut_points_of_written_tables(pipeline: &Pipeline, sizes: &TableSizes) -> Vec<CutPoint> {
    let written = pipeline.tables.iter().filter(|(_, table)| table.add_on_miss);
    let entries = |table: &Table| sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or_default();
    let modes = written.map(|(id, table)| (id, TableMode::Hot(entries(table)))).collect();
    cut_points_for_tables(pipeline, &modes).unwrap_or_default()
}

/// Candidate cut points of the control: the first one of each block, as index of an instruction or
/// of the terminator.
struct CutCandidates(BTreeMap<Block, (usize, String)>);

impl CutCandidates {
    fn new() -> CutCandidates {
        CutCandidates(BTreeMap::new())
    }

    fn block_count(&self) -> usize {
        self.0.len()
    }

    /// Adds the positions of an unsupported construct. Returns whether one of them is new.
    fn add_positions(&mut self, pipeline: &Pipeline, what: &UnsupportedConstruct) -> bool {
        let mut more = false;
        for (block, at) in candidate_positions(pipeline, what.loc) {
            let known = self.0.entry(block).or_insert((usize::MAX, String::new()));
            if at < known.0 {
                *known = (at, what.construct.clone());
                more = true;
            }
        }
        more
    }

    fn to_cut_points(&self, pipeline: &Pipeline) -> Vec<CutPoint> {
        let Some((control, declared)) = partitionable_control(pipeline) else {
            return Vec::new();
        };
        let stop = |(block, (at, why)): (&Block, &(usize, String))| {
            let insts = declared.body.blocks[*block].insts.len();
            let at = if *at < insts { PointInBlock::Inst(*at) } else { PointInBlock::Term };
            let resumption = Resumption::Continue;
            CutPoint { control, block: *block, at, is_hot_miss: false, resumption, reason: why.clone() }
        };
        self.0.iter().map(stop).collect()
    }
}

/// Returns the positions in the control of a source location, by block: the index of its first
/// instruction or, for the terminator, the number of instructions. A declaration is located at its
/// uses. Counters are excluded, because no packet, least of all a dropped one, should leave the
/// chip only to be counted.
fn candidate_positions(pipeline: &Pipeline, loc: SourceLoc) -> BTreeMap<Block, usize> {
    let mut positions = BTreeMap::new();
    let Some((_, control)) = partitionable_control(pipeline).filter(|_| loc.line > 0) else {
        return positions;
    };
    let uses_declared = |inst: &Inst| match inst {
        Inst::Extern { object: Some(object), .. } => pipeline.externs.get(*object).is_some_and(|o| o.loc == loc),
        _ => false,
    };
    let is_count =
        |inst: &Inst| matches!(inst, Inst::Extern { func: ExternFn::CounterCount | ExternFn::DirectCounterCount, .. });
    for (block, data) in control.body.blocks.iter() {
        let is_candidate = |data: &InstData| (data.loc == loc || uses_declared(&data.inst)) && !is_count(&data.inst);
        let end = data.term.as_ref().filter(|term| term.loc == loc).map(|_| data.insts.len());
        if let Some(index) = data.insts.iter().position(is_candidate).or(end) {
            positions.insert(block, index);
        }
    }
    positions
}
