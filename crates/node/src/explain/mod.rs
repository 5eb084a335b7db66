//! Explanations of packets.
//!
//! This module answers two questions about a running node: *what would happen to this packet*
//! ([`Node::explain`]), and *what happened to the packets that pass, and why* ([`Node::trace`]).
//! [`interp::Explainer`] runs the program on a snapshot of the node's tables, on the thread of the
//! caller. Workers only copy packets, and only during a trace.
//!
//! | concern | location |
//! |---|---|
//! | selection of packets | `filter.rs` |
//! | capture around a worker's engine | `tap.rs` |
//! | a running trace | `live.rs` |
//! | the JSON form of packets and explanations | `trace_json.rs` |
//! | packets that cross processes | `trace_ids.rs`, `trace_records.rs`, `trace_parts.rs` |
//! | the explainer of a program, or of its halves | `explainer.rs` |
//! | the flow cache's view of a packet's path | `offload.rs` |
//! | the trace request of a client | `serve.rs` |

mod explainer;
pub mod filter;
mod live;
pub mod offload;
mod serve;
mod tap;
mod trace_ids;
pub mod trace_json;
mod trace_parts;
mod trace_records;

pub use explainer::{
    CacheInput, ExplainTarget, ExplainedPacket, ExplainedVerdict, PacketArrival, PacketExplainer, ProgramState,
    TierHandoff, TierPorts,
};
pub use live::{LiveTrace, MAX_PACKETS, MAX_TIME, NextPacket};
pub use serve::{PortName, TraceRequest, TraceResponse};
pub use tap::{MAX_SESSIONS, PacketOutcome, TraceFilter};
pub(crate) use tap::{TappedEngine, TraceSessions};
pub use trace_parts::{TierTime, TracePart, TraceSourceJson, boot_id};
pub use trace_records::{EngineSpan, MAX_RECORDS, TraceRecord, TraceRecords, TraceSource};

use crate::config::TierLink;
use crate::device::Node;
use ir::Pipeline;
use offload::{OffloadError, OffloadReport};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use trace_json::{Explanation, PacketJson};

/// Program and tables of a node at one moment.
pub(crate) struct ExplainSnapshot {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// The program, or its part in this process, with the state written by controllers and packets.
    pub explained: Box<dyn ExplainTarget>,
}

/// Why a packet cannot be explained.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ExplainError {
    /// No program runs.
    #[error("no program runs on this node; a controller sets one (SetForwardingPipelineConfig)")]
    NoProgram,
    /// The packet exceeds the maximum length.
    #[error("the packet has {0} bytes; the longest has {most}", most = packet::MAX_WIRE_LEN)]
    TooLong(usize),
    /// The maximum number of traces is reached.
    #[error("there are {MAX_SESSIONS} traces on this node already; end one")]
    TooMany,
    /// The node lacks a port to that tier.
    #[error(
        "this node has no {0}, so no such packet comes; name first the node that packets come to, and then those of the tiers below"
    )]
    NoSuchPort(&'static str),
    /// The flow cache's view cannot be determined.
    #[error(transparent)]
    Offload(#[from] offload::OffloadError),
    /// A bug in the explainer.
    #[error("the explainer does not support this program, which is a bug of terrace")]
    Bug,
}

/// Explanation of a hypothetical packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HypotheticalTrace {
    /// The packet.
    pub packet: PacketJson,
    /// The explanation.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The part of its path that a flow cache would store, if requested and the packet reaches a
    /// cache in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<offload::OffloadReport>,
}

impl Node {
    /// Explains a packet as if it arrived on a port now. Changes nothing in the node, not even
    /// counters. Assumes that meters are full.
    ///
    /// # Errors
    /// Returns [`ExplainError`].
    pub fn explain(&self, bytes: &[u8], port: u32) -> Result<HypotheticalTrace, ExplainError> {
        self.explain_from(bytes, port, None)
    }

    /// Explains a packet as if it arrived now, optionally with a bridge header from a tier in
    /// another process: [`TierLink::Upper`] if that is the switch.
    ///
    /// # Errors
    /// Returns [`ExplainError`].
    pub fn explain_from(
        &self,
        bytes: &[u8],
        port: u32,
        from: Option<TierLink>,
    ) -> Result<HypotheticalTrace, ExplainError> {
        if bytes.len() > packet::MAX_WIRE_LEN {
            return Err(ExplainError::TooLong(bytes.len()));
        }
        let ExplainSnapshot { explained, .. } = self.explain_snapshot().ok_or(ExplainError::NoProgram)?;
        let TierPorts { up, down } = explained.tier_ports();
        let port = match from {
            None => port,
            Some(TierLink::Upper) => *up.first().ok_or(ExplainError::NoSuchPort("port to a switch elsewhere"))?,
            // Any port to a lower tier serves, because all of them return packets in the same form.
            Some(TierLink::Lower) if down.contains(&port) => port,
            Some(TierLink::Lower) => *down.first().ok_or(ExplainError::NoSuchPort("port to tiers below elsewhere"))?,
        };
        let mut teller = PacketExplainer::new(&*explained, &self.settings).ok_or(ExplainError::Bug)?;
        let now = io::now();
        let told = explained
            .explain_packet(&mut teller, PacketArrival { bytes, port, now, trace_id: 0 })
            .ok_or(ExplainError::Bug)?;
        let explanation = Explanation::new(told, &explained.reasons(), explained.tables_version());
        Ok(HypotheticalTrace { packet: PacketJson::new(bytes, port, now), explanation, offload: None })
    }

    /// Returns the part of a packet's path that a flow cache would store, for the cache before the
    /// program or before its lower half. `None`: the packet does not reach a cache in this process,
    /// because the switch completes it or the lower tiers are in another process. Copies the
    /// tables; registers have their initial values.
    ///
    /// # Errors
    /// Returns [`ExplainError`].
    pub fn explain_offload(&self, bytes: &[u8], port: u32) -> Result<Option<OffloadReport>, ExplainError> {
        let caches = self.wings.caches.ok_or(OffloadError::NoCaches)?;
        let ExplainSnapshot { explained, .. } = self.explain_snapshot().ok_or(ExplainError::NoProgram)?;
        let mut teller = PacketExplainer::new(&*explained, &self.settings).ok_or(ExplainError::Bug)?;
        let now = io::now();
        let input = explained.cache_input(&mut teller, PacketArrival { bytes, port, now, trace_id: 0 });
        Ok(input.map(|input| caches.explain_offload(&input, &self.settings, now)).transpose()?)
    }

    /// Starts a trace of at most `packets` passing packets (up to [`MAX_PACKETS`]), for at most
    /// `time` (up to [`MAX_TIME`]).
    ///
    /// # Errors
    /// [`ExplainError::TooMany`]; [`ExplainError::NoSuchPort`] if packets are to be followed and
    /// this process has no front ports.
    pub fn trace(&self, mut wanted: TraceFilter, packets: u64, time: Duration) -> Result<LiveTrace<'_>, ExplainError> {
        if wanted.follow {
            let ExplainSnapshot { explained, .. } = self.explain_snapshot().ok_or(ExplainError::NoProgram)?;
            if !explained.has_front_ports() {
                return Err(ExplainError::NoSuchPort("switch, and no front ports"));
            }
            let TierPorts { up, down } = explained.tier_ports();
            wanted.inner_ports = [down, up].concat();
        }
        LiveTrace::begin(self, wanted, packets, time).ok_or(ExplainError::TooMany)
    }

    /// Returns the snapshot for explanations; `None` if no program runs.
    pub(crate) fn explain_snapshot(&self) -> Option<ExplainSnapshot> {
        let inner = self.lock_state();
        let engine = &inner.current.as_ref()?.engine;
        Some(ExplainSnapshot { pipeline: engine.pipeline().clone(), explained: engine.explain_target() })
    }
}
