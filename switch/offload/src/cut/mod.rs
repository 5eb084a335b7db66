//! Cuts a pipeline in two: what a tier can do, and the rest for the tier below, with a bridge header between.
//!
//! A *stop* is a place that the upper tier cannot go beyond: a division, a table that adds entries by itself, a table that is not there. A
//! packet that comes to a stop leaves with what it has so far: the bridge header says at which stop it is, which headers are valid, and holds
//! the variables that are still needed; behind it come those headers, and the rest of the packet. The lower pipeline takes all of that up again
//! and goes on at the stop. Both together do what the whole does (`tests/cut.rs` compares).
//!
//! # What is cut where
//! Cuts are in v1model's ingress and in PNA's main control. More places become stops than were asked for, so that state stays in one place:
//! whatever reads or writes a register, a meter, or a table that packets write to must be on one side, so if one place that does is behind a
//! stop, all are; so are digests of a kind, which have an order; likewise what cannot be taken back or carried: mirroring or truncating before a stop. Where PNA's program has sent
//! a packet or dropped it before a stop, what it said last is carried, and said again below. Counters are on both sides; who reads them adds them up. Entries of a table that both sides apply are written to both.
//!
//! # Bridge header
//! | bits | what |
//! |---|---|
//! | 48, 48 | Ethernet destination and source: 0, for the wire to fill |
//! | 16 | ethertype [`ETHERTYPE`] |
//! | 32 | key: a number that both sides know; packets with another one are dropped |
//! | 8 | the stop; 255: the packet comes back; 254: no packet, but a question whether the other tier is there, and its answer; 253: no packet, but what was hit below ([`wire::Hits`]) |
//! | 32 | down: the port on which the packet came; back: the port on which it is to leave |
//! | 16 | the length in bytes with which the packet came, by which meters and counters go |
//! | 16 | the mark of a packet that is followed through the tiers; 0 if it is not |
//! | | the variables that have whole bytes, which a chip can only move to whole bytes |
//! | 1 each | validity of each header that follows |
//! | | the other variables, and bits up to a whole byte |
//!
//! Its length is the same at each stop and both ways, so that it is a struct and no parser. All in network order. The pipelines leave port, length and
//! mark 0; whoever moves packets between tiers fills them in ([`wire`]). The length alone is the pipeline's where packets recirculate above, as only that knows
//! which length counts.
//!
//! # Back through the switch
//! The lower half's packets may leave through the upper tier: as the payload of a bridge header with [`BACK`] for a stop, sent to the upper
//! tier's down port. The upper half takes the header off and sends the rest on the port that it names, whatever it is; what comes on that port and is no
//! such packet is dropped. On other ports the upper half knows no bridge headers.
//!
//! # What a chip cannot express
//! [`divide`] finds the stops by itself: it writes the program for a chip, makes a stop of each place that the chip's architecture has no form for, and
//! tries again with the upper half.
//!
//! # Hot tables
//! A stop at a table's application may be *hot* ([`Stop::hot`]): the upper tier has some of the table's entries, and only a packet that finds none goes
//! down, to be looked up in all of them. What entries those may be says [`crate::hot`]. By how often entries are hit they are chosen, so a hot table
//! that has no direct counter gets one, in both halves, of which the program's P4Info says nothing.
//!
//! # What is not the same below
//! The lower half sees a packet that is longer by the bridge header and shorter by headers that nobody needs any more. Meters and counters in bytes go by
//! the length in the bridge header, if the engine is told (`packet::Packet::came_with`). A program that asks for v1model's `packet_length` in egress is refused.

mod bridge;
mod closure;
mod code;
mod demote;
mod divide;
mod error;
mod fate;
mod indexed;
mod lower;
mod split;
mod stop;
mod tables;
mod upper;
pub mod wire;

pub use bridge::{BACK, ETHERTYPE, HELLO, HITS};
pub use divide::{DivideError, Divided, divide};
pub use error::CutError;
pub use indexed::{Place, Unknown};
pub use stop::{At, MAX_STOPS, Stop};
pub use tables::{Held, stops};

use bridge::Bridge;
use fate::Fate;
use ir::{Arch, Control, ControlId, ControlKind, ExternId, Inst, Loc, Pipeline, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// How to cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The upper tier's port that leads to the lower tier.
    pub down_port: u32,
    /// The key in bridge headers.
    pub key: u32,
}

/// A stop as it came out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Where in the program.
    pub loc: Loc,
    /// Why.
    pub why: String,
    /// Whether it was asked for; if not, it follows from one that was.
    pub asked: bool,
    /// Whether only packets stop that find nothing in the table there.
    pub hot: bool,
    /// Bits of variables that a packet takes along from here.
    pub carried_bits: u32,
}

/// A pipeline in two.
#[derive(Clone, Debug)]
pub struct Cut {
    /// For the upper tier.
    pub upper: Pipeline,
    /// For the lower tier.
    pub lower: Pipeline,
    /// The stops, in the order of their numbers in bridge headers.
    pub points: Vec<Point>,
    /// Fields of the bridge header with their widths in bits.
    pub fields: Vec<(String, u32)>,
    /// Tables that are hot at last, after what had to be was made plain: the upper half looks for some of their entries.
    pub hot: Vec<TableId>,
    /// Meters and registers that are used, and where the bridge header has what they are indexed with, or why it has not.
    pub indexed: BTreeMap<ExternId, Result<Place, Unknown>>,
}

impl Cut {
    /// Length of the bridge header in bits.
    pub fn bridge_bits(&self) -> u32 {
        self.fields.iter().map(|(_, bits)| bits).sum()
    }
}

/// Cuts a pipeline at these stops.
///
/// # Errors
/// [`CutError`].
pub fn cut(pipeline: &Pipeline, stops: &[Stop], options: Options) -> Result<Cut, CutError> {
    let (control, stops) = check(pipeline, stops)?;
    if asks_for_length(pipeline) {
        return Err(CutError::Length);
    }
    let stops = closure::close(pipeline, control, stops)?;
    if stops.len() > MAX_STOPS {
        return Err(CutError::TooMany(stops.len()));
    }
    let mut whole = pipeline.clone();
    let places = split::split(&mut whole.controls[control].body, &stops);
    let fate = Fate::note(&mut whole, control, &places);
    demote::demote(&mut whole, control);
    let bridge = Bridge::new(&whole, &asic::live::begins(&whole, control), &places, fate.as_ref())?;
    let points = places.iter().zip(&stops).enumerate().map(|(n, (_, stop))| Point {
        loc: split::loc(pipeline, stop),
        why: stop.stop.why.clone(),
        asked: stop.asked,
        hot: stop.stop.hot,
        carried_bits: bridge.carried_bits(&whole, n),
    });
    let points = points.collect();
    let indexed = indexed::indexed(&whole, control, &places, &bridge);
    let fields = bridge.fields.clone();
    let body = &whole.controls[control].body;
    let hot_places = places.iter().zip(&stops).filter(|(_, stop)| stop.stop.hot);
    let hot: BTreeSet<TableId> = hot_places.filter_map(|(block, _)| body.blocks[*block].applied()).collect();
    hot.iter().for_each(|table| tables::count_hits(&mut whole, control, *table));
    let places_above: Vec<upper::Place> =
        places.iter().zip(&stops).map(|(block, stop)| upper::Place { block: *block, hot: stop.stop.hot }).collect();
    let upper = finish(upper::make(whole.clone(), control, &places_above, &bridge, options), "upper")?;
    let lower = finish(lower::make(whole, control, &places, (&bridge, fate.as_ref()), options), "lower")?;
    // Behind another stop on all ways, a hot table is looked up below alone.
    let above = crate::share::applied(&upper);
    let hot = hot.into_iter().filter(|table| above.contains(table)).collect();
    Ok(Cut { upper, lower, points, fields, hot, indexed })
}

/// Whether egress looks at the length that the packet has there.
fn asks_for_length(pipeline: &Pipeline) -> bool {
    let length = pipeline.intrinsics.get("standard_metadata.packet_length");
    let egress = pipeline.controls.values().filter(|control| control.kind == ControlKind::Egress);
    let mut insts = egress.flat_map(|control| control.body.insts());
    insts.any(|data| matches!((&data.inst, length), (Inst::Load(var), Some(length)) if var == length))
}

/// The control that can be cut: v1model's ingress, PNA's main control.
fn cuttable(pipeline: &Pipeline) -> Option<(ControlId, &Control)> {
    let wanted = match pipeline.arch {
        Arch::V1Model => ControlKind::Ingress,
        Arch::Pna => ControlKind::MainControl,
    };
    pipeline.controls.iter().find(|(_, control)| control.kind == wanted)
}

/// The control that can be cut, and whether all stops are in it.
fn check(pipeline: &Pipeline, stops: &[Stop]) -> Result<(ControlId, Vec<Stop>), CutError> {
    let Some((id, control)) = cuttable(pipeline) else {
        return Err(CutError::Broken("it has no control that can be cut".to_owned()));
    };
    for stop in stops {
        if stop.control != id {
            let name = pipeline.controls.get(stop.control).map(|c| c.name.clone()).unwrap_or_default();
            return Err(CutError::Elsewhere { control: name, why: stop.why.clone() });
        }
        let there = control.body.blocks.get(stop.block).is_some_and(|block| match stop.at {
            At::Inst(n) => n < block.insts.len() && !stop.hot,
            At::Term => !stop.hot || block.applied().is_some(),
        });
        if !there {
            return Err(CutError::NoPlace(stop.clone()));
        }
    }
    Ok((id, stops.to_vec()))
}

fn finish(mut pipeline: Pipeline, half: &str) -> Result<Pipeline, CutError> {
    pipeline.controls.values_mut().for_each(|control| control.body.empty_unreachable());
    match ir::passes::run_passes(&mut pipeline, |_, _, _| {}) {
        Ok(()) => Ok(pipeline),
        Err(error) => Err(CutError::Broken(format!("{half}: {error}"))),
    }
}
