//! The part of a packet's trace that this process contributes, for a packet with a trace id from
//! another process.

use super::explainer::{ExplainTarget, PacketArrival, PacketExplainer, TierHandoff};
use super::live::compare_explanation;
use super::tap::PacketOutcome;
use super::trace_json::{Explanation, PacketJson, VerdictJson};
use super::trace_records::{EngineSpan, TraceRecord, TraceSource};
use crate::device::Node;
use packet::ReasonTable;
use serde::{Deserialize, Serialize};

/// Source of a packet in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceSourceJson {
    /// A front port: this process allocated the trace id, and its trace contains the packet.
    Front,
    /// The switch.
    Above,
    /// The lower tiers; the packet returns.
    Below,
}

/// Time in one tier's engine, shared with the other packets of the batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TierTime {
    /// Tier: `switch`, `dpu, cpu`, or `cpu`.
    pub tier: String,
    /// Name of the engine.
    pub engine: String,
    /// Start time in ns since the Unix epoch by this machine's clock.
    pub began_ns: u64,
    /// End time.
    pub done_ns: u64,
    /// Note of a flow cache about the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_note: Option<String>,
}

impl From<&EngineSpan> for TierTime {
    fn from(span: &EngineSpan) -> TierTime {
        let EngineSpan { is_lower_half, engine, began_ns, done_ns, engine_note } = span;
        let tier = match (is_lower_half, &**engine) {
            (false, _) => "switch",
            (true, "flowcache") => "dpu, cpu",
            (true, _) => "cpu",
        };
        TierTime {
            tier: tier.to_owned(),
            engine: engine.clone(),
            began_ns: *began_ns,
            done_ns: *done_ns,
            engine_note: engine_note.clone(),
        }
    }
}

/// One process's part of a packet's trace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TracePart {
    /// Trace id.
    pub trace_id: u16,
    /// Source of the packet.
    pub source: TraceSourceJson,
    /// The packet as received, with its bridge header; without bytes if it arrived on a front port.
    pub packet: PacketJson,
    /// Times of the tiers in this process.
    pub tiers: Vec<TierTime>,
    /// Verdicts; without bytes if the packet arrived on a front port.
    pub verdicts: Vec<VerdictJson>,
    /// The verdicts that sent the packet to tiers in other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tier_handoffs: Vec<TierHandoff>,
    /// Number of further verdicts that are not listed.
    #[serde(default)]
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

impl Node {
    /// Returns this process's part of the traces of packets with this trace id, the oldest first.
    /// The process keeps a few hundred packets for a minute. [`Node::trace`] of the process with
    /// the switch allocates the trace ids. Ids are reused after some thousand others, so the caller
    /// must also compare the packet's bytes.
    pub fn trace_parts(&self, trace_id: u16) -> Vec<TracePart> {
        let records = {
            let inner = self.lock_state();
            inner.current.as_ref().map(|current| current.engine.trace_records(trace_id)).unwrap_or_default()
        };
        let Some(present) = (!records.is_empty()).then(|| self.explain_snapshot()).flatten() else { return Vec::new() };
        let explained = &*present.explained;
        let reasons = explained.reasons();
        // Packets from a front port are explained by the trace of the process itself.
        let explains = records.iter().any(|record| record.came != TraceSource::Front);
        let mut teller = explains.then(|| PacketExplainer::new(explained, &self.settings)).flatten();
        records.iter().map(|record| trace_part(record, explained, &reasons, teller.as_mut())).collect()
    }
}

fn trace_part(
    record: &TraceRecord,
    explained: &dyn ExplainTarget,
    reasons: &ReasonTable,
    teller: Option<&mut PacketExplainer>,
) -> TracePart {
    let TraceRecord { trace_id, came, bytes, port, received_at_ns: at, engine_spans, outcomes, more } = record;
    let verdict = |fate: &PacketOutcome| VerdictJson::new(fate.verdict, fate.origin, &fate.bytes, reasons);
    let mut part = TracePart {
        trace_id: *trace_id,
        source: match came {
            TraceSource::Front => TraceSourceJson::Front,
            TraceSource::Above => TraceSourceJson::Above,
            TraceSource::Below => TraceSourceJson::Below,
        },
        packet: PacketJson::new(bytes, *port, *at),
        tiers: engine_spans.iter().map(TierTime::from).collect(),
        verdicts: outcomes.iter().map(verdict).collect(),
        tier_handoffs: explained.tier_handoffs(outcomes),
        omitted_verdicts: *more,
        explained_after_ns: io::now().saturating_sub(*at),
        mismatch: None,
        explanation: None,
    };
    if part.source == TraceSourceJson::Front {
        return part;
    }
    let came = PacketArrival { bytes, port: *port, now: *at, trace_id: *trace_id };
    let told = teller.and_then(|teller| explained.explain_packet(teller, came));
    let verdicts = (&part.verdicts[..], part.omitted_verdicts);
    (part.explanation, part.mismatch) =
        compare_explanation(told, (explained, reasons), verdicts, part.explained_after_ns);
    part
}

/// Returns the kernel's id of this boot of the machine. Times of processes with the same id come
/// from the same clock.
pub fn boot_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}
