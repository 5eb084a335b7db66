//! Partitioning of a pipeline into an upper half for one tier and a lower half for the tier below,
//! with a bridge header between them.
//!
//! A *cut point* is a program point that the upper tier cannot pass: a division, a table that adds
//! entries, a table that is absent. A packet that reaches a cut point leaves with its state: the
//! bridge header holds the number of the cut point, the valid headers and the live variables. It is
//! followed by those headers and the rest of the packet. The lower half restores this state and
//! continues at the cut point. Both halves together behave like the whole pipeline (`tests/cut.rs`
//! compares them).
//!
//! # Cut points
//! Cut points are in v1model's ingress and in PNA's main control. Further cut points are implied,
//! because state must be on one side: all accesses to a register, a meter or a table that packets
//! write to. If one of them follows a cut point, all of them do. The same holds for digests of one
//! kind, because they have an order, and for effects that can be neither undone nor carried, such
//! as mirroring or truncation. If a PNA program has sent or dropped the packet before a cut point,
//! the last verdict is carried and repeated in the lower half. Counters are on both sides; a reader
//! adds them. Entries of a table that both halves apply are written to both.
//!
//! # Bridge header
//! | bits | field |
//! |---|---|
//! | 48, 48 | Ethernet destination and source: 0, set by the sender |
//! | 16 | ethertype [`ETHERTYPE`] |
//! | 32 | key that both sides know; packets with another key are dropped |
//! | 8 | cut point; 255: returned packet; 254: liveness probe; 253: [`bridge_wire::HitReport`] |
//! | 32 | downwards: ingress port of the packet; back: output port |
//! | 16 | length in bytes at arrival, which meters and counters use |
//! | 16 | trace id of the packet; 0: not traced |
//! | | variables of whole bytes, which a chip can only move to whole bytes |
//! | 1 each | validity of each following header |
//! | | the other variables, padded to a whole byte |
//!
//! All numbers are in network order. The header has the same length at each cut point and in both
//! directions, so that it is a struct and needs no parser. The pipelines set port, length and trace
//! id to 0; the code that moves packets between tiers fills them in ([`bridge_wire`]). Only where
//! packets recirculate in the upper tier does the pipeline set the length, because only the
//! pipeline knows which length counts.
//!
//! # Return through the switch
//! Packets of the lower half can leave through the upper tier: as the payload of a bridge header
//! with cut point [`RETURNED`], sent to the upper tier's down port. The upper half removes the
//! header and sends the payload to the port in the header. It drops other packets on that port, and
//! does not recognise bridge headers on other ports.
//!
//! # Constructs that a chip cannot express
//! [`partition_for_chip`] finds the cut points itself: it emits the program for a chip, makes each
//! construct that the architecture cannot express a cut point, and repeats this with the upper
//! half.
//!
//! # Hot tables
//! A cut point at a table application can be *hot* ([`CutPoint::is_hot_miss`]): the upper tier
//! holds some of the table's entries, and only a packet that misses them goes to the lower tier,
//! which looks it up in all entries. [`crate::hot_set`] defines the possible sets of entries. They
//! are chosen by hit counts, so a hot table without a direct counter gets one in both halves. It is
//! not part of the program's P4Info.
//!
//! # Tables that packets write to
//! The upper half can have some entries of a table to which packets add entries, as of a hot table.
//! It only reads them. A packet that misses, or that changes the expire time of an entry, *restarts*
//! below ([`Resumption::Restart`]): it leaves as it arrived, with a bridge header that carries
//! nothing, and the lower half runs the whole program. The code that moves packets between tiers
//! removes the bridge header and gives the packet its ingress port. If the deparser does not emit
//! headers as the parser extracts them, or a counter counts before the lookup, the packet continues
//! instead, and the table is below.
//!
//! # Differences in the lower half
//! The packet of the lower half is longer by the bridge header and shorter by headers that are not
//! needed any more. Meters and byte counters use the length in the bridge header if the engine sets
//! it (`packet::Packet::metered_len_bytes`). A program that reads v1model's `packet_length` in
//! egress is rejected.

mod bridge;
pub mod bridge_wire;
mod carried_verdict;
mod code;
mod cut_point;
mod demote;
mod divide;
mod error;
mod implied_cuts;
mod indexed;
mod lower;
mod reachability;
mod restart;
mod split;
mod tables;
mod upper;

pub use bridge::{ETHERTYPE, HITS, PROBE, RETURNED};
pub use cut_point::{CutPoint, MAX_CUT_POINTS, PointInBlock, RestartPoints, Resumption};
pub use divide::{ChipPartition, DivideError, partition_for_chip};
pub use error::PartitionError;
pub use indexed::{BridgeIndexBits, UnknownIndex};
pub use tables::{TableMode, cut_points_for_tables};

use bridge::BridgeHeader;
use carried_verdict::CarriedVerdict;
use cut_point::CutBlock;
use ir::{Arch, Block, Control, ControlId, ControlKind, ExternId, Inst, Pipeline, SourceLoc, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// Options of partitioning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionOptions {
    /// Port of the upper tier to the lower tier.
    pub lower_port: u32,
    /// Key of the bridge headers.
    pub key: u32,
}

/// Cut point in the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedCutPoint {
    /// Source location.
    pub loc: SourceLoc,
    /// Reason.
    pub reason: String,
    /// Whether it was requested; otherwise it is implied.
    pub is_requested: bool,
    /// Whether only packets that miss in the table leave here.
    pub is_hot_miss: bool,
    /// How the lower tier goes on.
    pub resumption: Resumption,
    /// Number of bits of variables that a packet carries from here.
    pub carried_bits: u32,
}

/// Pipeline that is partitioned into two halves.
#[derive(Clone, Debug)]
pub struct PipelinePartition {
    /// Upper half.
    pub upper: Pipeline,
    /// Lower half.
    pub lower: Pipeline,
    /// Cut points, in the order of their numbers in bridge headers.
    pub cut_points: Vec<PlacedCutPoint>,
    /// Fields of the bridge header with their widths in bits.
    pub fields: Vec<(String, u32)>,
    /// Hot tables, without those that had to become absent. The upper half looks up some of their
    /// entries.
    pub hot_tables: Vec<TableId>,
    /// Used meters and registers with the bits of the bridge header that hold their index, or the
    /// reason for which there are none.
    pub index_bits: BTreeMap<ExternId, Result<BridgeIndexBits, UnknownIndex>>,
}

impl PipelinePartition {
    /// Returns the length of the bridge header in bits.
    pub fn bridge_bits(&self) -> u32 {
        self.fields.iter().map(|(_, bits)| bits).sum()
    }

    /// Returns the cut points at which packets restart.
    pub fn restart_points(&self) -> RestartPoints {
        RestartPoints::new(self.cut_points.iter().map(|point| point.resumption))
    }
}

/// Partitions a pipeline at cut points.
///
/// # Errors
/// [`PartitionError`].
pub fn partition_pipeline(
    pipeline: &Pipeline,
    cut_points: &[CutPoint],
    options: PartitionOptions,
) -> Result<PipelinePartition, PartitionError> {
    let (control, cut_points) = check_cut_points(pipeline, cut_points)?;
    if egress_reads_length(pipeline) {
        return Err(PartitionError::EgressLength);
    }
    let cut_points = implied_cuts::add_implied_cut_points(pipeline, control, cut_points)?;
    if cut_points.len() > MAX_CUT_POINTS {
        return Err(PartitionError::TooManyCutPoints(cut_points.len()));
    }
    let mut split_pipeline = pipeline.clone();
    let cut_blocks = split::split_at_cut_points(&mut split_pipeline.controls[control].body, &cut_points);
    let to_cut_block = |(block, cut_point): (&Block, &implied_cuts::ImpliedCutPoint)| CutBlock {
        block: *block,
        is_hot_miss: cut_point.point.is_hot_miss,
        resumption: cut_point.point.resumption,
    };
    let cut_blocks: Vec<CutBlock> = cut_blocks.iter().zip(&cut_points).map(to_cut_block).collect();
    let carried_verdict = CarriedVerdict::record_early_verdicts(&mut split_pipeline, control, &cut_blocks);
    // SSA values cannot cross between programs, so those that several blocks use become variables.
    demote::demote_values(&mut split_pipeline, control);
    let bridge = BridgeHeader::new(
        &split_pipeline,
        &asic::live::live_at_block_starts(&split_pipeline, control),
        &cut_blocks,
        carried_verdict.as_ref(),
    )?;
    let points = cut_points.iter().enumerate().map(|(n, cut_point)| PlacedCutPoint {
        loc: split::source_loc_of(pipeline, cut_point),
        reason: cut_point.point.reason.clone(),
        is_requested: cut_point.is_requested,
        is_hot_miss: cut_point.point.is_hot_miss,
        resumption: cut_point.point.resumption,
        carried_bits: bridge.carried_bits(&split_pipeline, n),
    });
    let points = points.collect();
    let index_bits = indexed::find_index_bits(&split_pipeline, control, &cut_blocks, &bridge);
    let fields = bridge.fields.clone();
    let body = &split_pipeline.controls[control].body;
    let hot_cuts = cut_blocks.iter().filter(|cut| cut.is_hot_miss);
    let hot_tables: BTreeSet<TableId> = hot_cuts.filter_map(|cut| body.blocks[cut.block].applied_table()).collect();
    for table in hot_tables.iter().filter(|table| !pipeline.tables[**table].add_on_miss) {
        tables::count_hits(&mut split_pipeline, control, *table);
    }
    let upper =
        finish_half(upper::build_upper_half(split_pipeline.clone(), control, &cut_blocks, &bridge, options), "upper")?;
    let lower = finish_half(
        lower::build_lower_half(split_pipeline, control, &cut_blocks, (&bridge, carried_verdict.as_ref()), options),
        "lower",
    )?;
    // A hot table that follows other cut points on all paths is only looked up in the lower half.
    let in_upper = crate::upper_tier_filter::applied_tables(&upper);
    let hot_tables = hot_tables.into_iter().filter(|table| in_upper.contains(table)).collect();
    Ok(PipelinePartition { upper, lower, cut_points: points, fields, hot_tables, index_bits })
}

/// Returns whether egress reads the packet's length.
fn egress_reads_length(pipeline: &Pipeline) -> bool {
    let length = pipeline.intrinsics.get("standard_metadata.packet_length");
    let egress = pipeline.controls.values().filter(|control| control.kind == ControlKind::Egress);
    let mut insts = egress.flat_map(|control| control.body.insts());
    insts.any(|data| matches!((&data.inst, length), (Inst::Load(var), Some(length)) if var == length))
}

/// Returns the control that can be partitioned: v1model's ingress, PNA's main control.
fn partitionable_control(pipeline: &Pipeline) -> Option<(ControlId, &Control)> {
    let wanted = match pipeline.arch {
        Arch::V1Model => ControlKind::Ingress,
        Arch::Pna => ControlKind::MainControl,
    };
    pipeline.controls.iter().find(|(_, control)| control.kind == wanted)
}

/// Checks that all cut points are in the control that can be partitioned. Returns the control with
/// the cut points.
fn check_cut_points(pipeline: &Pipeline, stops: &[CutPoint]) -> Result<(ControlId, Vec<CutPoint>), PartitionError> {
    let Some((id, control)) = partitionable_control(pipeline) else {
        return Err(PartitionError::Unsound("it has no control that can be cut".to_owned()));
    };
    for stop in stops {
        if stop.control != id {
            let name = pipeline.controls.get(stop.control).map(|c| c.name.clone()).unwrap_or_default();
            return Err(PartitionError::WrongControl { control: name, why: stop.reason.clone() });
        }
        let there = control.body.blocks.get(stop.block).is_some_and(|block| match stop.at {
            PointInBlock::Inst(n) => n < block.insts.len() && !stop.is_hot_miss,
            PointInBlock::Term => !stop.is_hot_miss || block.applied_table().is_some(),
        });
        if !there {
            return Err(PartitionError::NoSuchPoint(stop.clone()));
        }
    }
    Ok((id, stops.to_vec()))
}

fn finish_half(mut pipeline: Pipeline, half: &str) -> Result<Pipeline, PartitionError> {
    pipeline.controls.values_mut().for_each(|control| control.body.empty_unreachable());
    match ir::passes::run_passes(&mut pipeline, |_, _, _| {}) {
        Ok(()) => Ok(pipeline),
        Err(error) => Err(PartitionError::Unsound(format!("{half}: {error}"))),
    }
}
