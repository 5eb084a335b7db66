//! One packet across several processes, collected through their control sockets: a packet that
//! passed ([`follow`]), or a hypothetical one ([`explain`]).
//!
//! The parts of a packet's trace are joined by its trace id and its bytes: a frame sent with a
//! bridge header is matched with the same frame received elsewhere. The caller therefore need not
//! know which process is connected to which link.

use super::client::{RequestError, ask};
use super::protocol::{ControlRequest, ControlResponse};
use crate::config::TierLink;
use crate::explain::trace_json::{TraceJson, VerdictJson};
use crate::explain::{HypotheticalTrace, TierHandoff, TracePart, TraceSourceJson};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between queries of processes that have not seen the packet yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of trace parts, because copies of the packet have a part each.
const MAX_PARTS: usize = 64;

/// One process's part of a packet's trace.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeTracePart {
    /// Control socket of the process.
    pub node: PathBuf,
    /// Identifies the clock of the times.
    pub machine: String,
    /// Time in ns between the end of processing in the previous process and the arrival in this
    /// one. Compares two clocks if the processes run on two machines.
    pub on_the_way_ns: Option<i64>,
    /// The part of the trace.
    #[serde(flatten)]
    pub part: TracePart,
}

/// Trace of a packet after the process that received it from outside.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CrossNodeTrace {
    /// Parts of the trace in path order.
    pub parts: Vec<NodeTracePart>,
    /// Frames that were sent, but not seen by any queried process.
    pub missing: Vec<UntracedHop>,
}

impl CrossNodeTrace {
    /// Returns whether any tier dropped the packet or a copy of it, with `reason` if given.
    pub fn drops(&self, traced: &TraceJson, reason: Option<&str>) -> bool {
        let mut verdicts = traced.verdicts.iter().chain(self.parts.iter().flat_map(|heard| &heard.part.verdicts));
        let dropped = |fate: &VerdictJson| match fate {
            VerdictJson::Drop { reason: why, .. } => reason.is_none_or(|wanted| wanted == why),
            _ => false,
        };
        verdicts.any(dropped)
    }
}

/// A frame that was sent to another tier.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct UntracedHop {
    /// Direction of the tier.
    pub tier_link: TierLink,
    /// Port on which the frame was sent.
    pub port: u32,
    #[serde(skip)]
    hex: String,
    /// Time when the sender finished it.
    #[serde(skip)]
    sent: Option<u64>,
}

fn hops_of(verdicts: &[VerdictJson], handoffs: &[TierHandoff], done: Option<u64>) -> Vec<UntracedHop> {
    let one = |handoff: &TierHandoff| match verdicts.get(handoff.verdict)? {
        VerdictJson::Forward { port, hex, .. } => {
            Some(UntracedHop { tier_link: handoff.tier_link, port: *port, hex: hex.clone(), sent: done })
        }
        _ => None,
    };
    handoffs.iter().filter_map(one).collect()
}

/// Follows a packet from the process that received it (`front`) through the processes of the other
/// tiers. A frame that is not seen within `patience` after the packet's arrival is reported as
/// missing, as are all frames if `front` no longer has the packet's record.
///
/// # Errors
/// A request to one of the processes fails.
pub fn follow(
    front: &Path,
    others: &[PathBuf],
    traced: &TraceJson,
    patience: Duration,
) -> Result<CrossNodeTrace, RequestError> {
    let mut story = CrossNodeTrace::default();
    if traced.trace_id == 0 {
        return Ok(story);
    }
    let first = request_trace_parts(front, traced.trace_id)?
        .into_iter()
        .rev()
        .find(|heard| heard.part.source == TraceSourceJson::Front && heard.part.packet.at_ns == traced.packet.at_ns);
    let done = first.as_ref().and_then(|heard| heard.part.tiers.last()).map(|tier| tier.done_ns);
    let mut open = hops_of(&traced.verdicts, &traced.tier_handoffs, done);
    if first.is_none() {
        story.missing = open;
        return Ok(story);
    }
    story.parts.extend(first);
    let age = Duration::from_nanos(io::now().saturating_sub(traced.packet.at_ns));
    let deadline = Instant::now() + patience.saturating_sub(age);
    loop {
        let mut found = false;
        for missing in std::mem::take(&mut open) {
            match find_receiver(front, others, traced.trace_id, &missing, &story.parts)? {
                Some(heard) if story.parts.len() < MAX_PARTS => {
                    let done = heard.part.tiers.last().map(|tier| tier.done_ns);
                    open.extend(hops_of(&heard.part.verdicts, &heard.part.tier_handoffs, done));
                    story.parts.push(heard);
                    found = true;
                }
                _ => open.push(missing),
            }
        }
        if open.is_empty() || (!found && Instant::now() >= deadline) {
            story.missing = open;
            return Ok(story);
        }
        if !found {
            std::thread::sleep(RETRY_INTERVAL);
        }
    }
}

/// Returns a process's trace parts for this trace id, the newest last.
fn request_trace_parts(node: &Path, trace_id: u16) -> Result<Vec<NodeTracePart>, RequestError> {
    match ask(node, &ControlRequest::TraceRecords { trace_id })? {
        ControlResponse::TraceRecords { machine, parts } => {
            let heard =
                |part| NodeTracePart { node: node.to_owned(), machine: machine.clone(), on_the_way_ns: None, part };
            Ok(parts.into_iter().map(heard).collect())
        }
        _ => Err(RequestError::Refused(format!(
            "the node on {} sent an unexpected response; is it of another version?",
            node.display()
        ))),
    }
}

/// Returns the trace part of the process that received the frame, if it is not in `known` yet.
fn find_receiver(
    front: &Path,
    others: &[PathBuf],
    trace_id: u16,
    missing: &UntracedHop,
    known: &[NodeTracePart],
) -> Result<Option<NodeTracePart>, RequestError> {
    let source = match missing.tier_link {
        TierLink::Lower => TraceSourceJson::Above,
        TierLink::Upper => TraceSourceJson::Below,
    };
    let nodes: Vec<&Path> = match missing.tier_link {
        TierLink::Lower => others.iter().map(PathBuf::as_path).collect(),
        TierLink::Upper => vec![front],
    };
    for node in nodes {
        let is_it = |heard: &NodeTracePart| {
            let part = &heard.part;
            let is_new = |known: &NodeTracePart| known.node != heard.node || known.part.packet != part.packet;
            part.source == source && part.packet.hex == missing.hex && known.iter().all(is_new)
        };
        if let Some(mut heard) = request_trace_parts(node, trace_id)?.into_iter().rev().find(is_it) {
            heard.on_the_way_ns = missing.sent.map(|sent| heard.part.packet.at_ns.wrapping_sub(sent) as i64);
            return Ok(Some(heard));
        }
    }
    Ok(None)
}

/// One process's explanation of a hypothetical packet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeHypotheticalTrace {
    /// Control socket of the process.
    pub node: PathBuf,
    /// Tier that sent the packet; `None`: it arrived on a front port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<TierLink>,
    /// The explanation.
    #[serde(flatten)]
    pub told: HypotheticalTrace,
}

/// Explains a packet that arrives on a port of the first node, and the frames that this node sends
/// to the lower tiers. The other nodes are queried in order. The first one with a port to a switch
/// explains the frame, because all lower tiers have the same tables.
///
/// # Errors
/// A request fails or is refused, or none of the other nodes has a port to a switch.
pub fn explain(
    nodes: &[PathBuf],
    bytes: &[u8],
    port: u32,
    offload: bool,
) -> Result<Vec<NodeHypotheticalTrace>, RequestError> {
    let Some((front, others)) = nodes.split_first() else { return Ok(Vec::new()) };
    let ask_one = |node: &Path, port: u32, hex: String, from: Option<TierLink>| match ask(
        node,
        &ControlRequest::Explain { port, hex, from, offload },
    )? {
        ControlResponse::Explained(told) => Ok(NodeHypotheticalTrace { node: node.to_owned(), from, told: *told }),
        _ => Err(RequestError::Refused("the node sent an unexpected response".to_owned())),
    };
    let mut all = vec![ask_one(front, port, packet::hex(bytes), None)?];
    let Some((last, before)) = others.split_last() else { return Ok(all) };
    let mut next = 0;
    while next < all.len() {
        let explanation = &all[next].told.explanation;
        for missing in hops_of(&explanation.verdicts, &explanation.tier_handoffs, None) {
            if all.len() >= MAX_PARTS {
                return Ok(all);
            }
            let answer = match missing.tier_link {
                TierLink::Upper => ask_one(front, 0, missing.hex, Some(TierLink::Lower))?,
                TierLink::Lower => {
                    let below = |node: &PathBuf| ask_one(node, 0, missing.hex.clone(), Some(TierLink::Upper));
                    match before.iter().find_map(|node| below(node).ok()) {
                        Some(answer) => answer,
                        None => below(last)?,
                    }
                }
            };
            all.push(answer);
        }
        next += 1;
    }
    Ok(all)
}
