//! Traced and explained packets as clients receive them: one JSON document per packet.

use super::explainer::{ExplainedPacket, ExplainedVerdict, TierHandoff};
use interp::Outputs;
use packet::{PacketOrigin, ReasonTable, Verdict, hex};
use serde::{Deserialize, Serialize};

/// Verdict of a packet or of a copy of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum VerdictJson {
    /// Sent on a port.
    Forward {
        /// Egress port.
        port: u32,
        /// Bytes as hex digits.
        hex: String,
        /// Origin of a copy; `None` for the packet itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// Sent to the controller.
    Cpu {
        /// Reason.
        reason: String,
        /// Bytes as hex digits.
        hex: String,
        /// Origin of a copy; `None` for the packet itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// Dropped.
    Drop {
        /// Reason.
        reason: String,
        /// Origin of a copy; `None` for the packet itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
}

impl VerdictJson {
    /// Converts a verdict, with the reason names of its program.
    pub fn new(verdict: Verdict, origin: PacketOrigin, bytes: &[u8], reasons: &ReasonTable) -> VerdictJson {
        let origin = match origin {
            PacketOrigin::Received => None,
            PacketOrigin::Multicast { group, instance } => {
                Some(format!("replica {instance} of multicast group {group}"))
            }
            PacketOrigin::Clone { session } => Some(format!("copy for session {session}")),
            PacketOrigin::Generated => Some("made by the engine".to_owned()),
        };
        match verdict {
            Verdict::Forward { port } => VerdictJson::Forward { port: port.0, hex: hex(bytes), origin },
            Verdict::ToCpu { reason } => {
                VerdictJson::Cpu { reason: reasons.cpu_name(reason).into_owned(), hex: hex(bytes), origin }
            }
            Verdict::Drop(reason) => VerdictJson::Drop { reason: reasons.drop_name(reason).into_owned(), origin },
        }
    }

    /// Converts all verdicts of one packet.
    pub fn all(outputs: &Outputs, reasons: &ReasonTable) -> Vec<VerdictJson> {
        outputs.packets().iter().map(|out| VerdictJson::new(out.verdict, out.origin, &out.bytes, reasons)).collect()
    }

    /// Returns the bytes of a packet that was sent, as hex digits.
    pub fn hex(&self) -> Option<&str> {
        match self {
            VerdictJson::Forward { hex, .. } | VerdictJson::Cpu { hex, .. } => Some(hex),
            VerdictJson::Drop { .. } => None,
        }
    }
}

/// Formats the verdict as text, without the bytes.
impl std::fmt::Display for VerdictJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let origin = match self {
            VerdictJson::Forward { port, hex, origin } => {
                write!(f, "sent on port {port}, {} bytes", hex.len() / 2)?;
                origin
            }
            VerdictJson::Cpu { reason, origin, .. } => {
                write!(f, "to the CPU: {reason}")?;
                origin
            }
            VerdictJson::Drop { reason, origin } => {
                write!(f, "dropped: {reason}")?;
                origin
            }
        };
        origin.as_ref().map_or(Ok(()), |origin| write!(f, " ({origin})"))
    }
}

/// A packet as received.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PacketJson {
    /// Ingress port.
    pub port: u32,
    /// Length in bytes.
    pub bytes: usize,
    /// Bytes as hex digits.
    pub hex: String,
    /// Time of arrival in ns since the Unix epoch; for a hypothetical packet, the time of the
    /// explanation.
    pub at_ns: u64,
}

impl PacketJson {
    /// Converts the bytes of a packet.
    pub fn new(bytes: &[u8], port: u32, at_ns: u64) -> PacketJson {
        PacketJson { port, bytes: bytes.len(), hex: hex(bytes), at_ns }
    }
}

/// Explanation of a packet: events and verdicts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// Events in order.
    pub steps: Vec<interp::TraceStep>,
    /// Verdicts of the packet and its copies.
    pub verdicts: Vec<VerdictJson>,
    /// Version of the tables, which grows with each write.
    pub tables_version: u64,
    /// The verdicts that send the packet to tiers in other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tier_handoffs: Vec<TierHandoff>,
}

impl Explanation {
    /// Converts the result of an explainer.
    pub(super) fn new(told: ExplainedPacket, reasons: &ReasonTable, tables_version: u64) -> Explanation {
        let ExplainedPacket { steps, verdicts, tier_handoffs } = told;
        let named = |(verdict, origin, bytes): &ExplainedVerdict| VerdictJson::new(*verdict, *origin, bytes, reasons);
        Explanation { steps, verdicts: verdicts.iter().map(named).collect(), tables_version, tier_handoffs }
    }
}

/// A packet that passed: its verdicts and their explanation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TraceJson {
    /// Number of the packet in this trace, from 1.
    pub number: u64,
    /// The packet.
    pub packet: PacketJson,
    /// The worker that processed it.
    pub worker: usize,
    /// Trace id by which other processes recognise the packet; 0: none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub trace_id: u16,
    /// Note of the engine about its processing, by a flow cache for a packet with a trace id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_note: Option<String>,
    /// Actual verdicts.
    pub verdicts: Vec<VerdictJson>,
    /// The verdicts that sent the packet to tiers in other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tier_handoffs: Vec<TierHandoff>,
    /// Interface of the host that received the packet, if the program punted it and its port has a
    /// host side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Number of further verdicts that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_verdicts: usize,
    /// Age in ns of the packet when the snapshot of the tables was taken.
    pub explained_after_ns: u64,
    /// Why there is no explanation, or how it differs from the actual verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<String>,
    /// Explanation by the snapshot of the tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

fn is_none(trace_id: &u16) -> bool {
    *trace_id == 0
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
