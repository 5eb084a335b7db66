//! Results of the demo as data: printed step by step as text, or as one document with `--json`.

use super::scenario::Probe;
use packet::Counter;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Result of one probe.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeResult {
    /// Title of the probe's group.
    pub group: &'static str,
    /// Name of the sender.
    pub from: &'static str,
    /// Destination.
    pub to: String,
    /// Expected result.
    pub expected: String,
    /// Observed result.
    pub got: String,
    /// Whether the observed result is the expected one.
    pub ok: bool,
    /// Average round-trip time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
}

impl ProbeResult {
    /// Compares `got` with the expected result of the probe.
    pub fn new(group: &'static str, probe: &Probe, got: String, ms: Option<f64>) -> ProbeResult {
        let expected = probe.expected.text();
        ProbeResult { group, from: probe.from, to: probe.target(), ok: got == expected, expected, got, ms }
    }
}

/// Returns distinct names in order, joined by "and". Used for the replies to one probe.
pub fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" and ")
}

/// Result of an iperf3 or ping stream.
#[derive(Clone, Debug, Serialize)]
pub struct Stream {
    /// Name of the sender.
    pub from: &'static str,
    /// Name of the receiver.
    pub to: &'static str,
    /// Address of the receiver.
    pub address: &'static str,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// Special property of the stream.
    pub what: &'static str,
    /// Received bit rate, in bits per second.
    pub bits_per_second: f64,
    /// TCP: retransmitted segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// UDP, ping: packets sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// UDP, ping: packets lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

/// Output of `terrace trace` for one packet.
#[derive(Clone, Debug, Serialize)]
pub struct PacketExplanation {
    /// Command that reproduces the output.
    pub command: String,
    /// Output of the command.
    pub text: String,
}

/// A named packet and byte count.
#[derive(Clone, Debug, Serialize)]
pub struct NamedCounter {
    /// Name of the counted object.
    pub name: String,
    /// Packets and bytes.
    #[serde(flatten)]
    pub count: Counter,
}

/// Counters of the gateway.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GatewayCounters {
    /// Received, by source VPC.
    pub received_from: Vec<NamedCounter>,
    /// Received and forwarded, by source VPC.
    pub forwarded_from: Vec<NamedCounter>,
    /// Forwarded, by route scope.
    pub scopes: Vec<NamedCounter>,
    /// Dropped, by reason.
    pub drops: Vec<NamedCounter>,
    /// Sent to the control plane, by reason.
    pub to_cpu: Vec<NamedCounter>,
}

/// Connections to a service over a region change.
#[derive(Clone, Debug, Serialize)]
pub struct KeptConnections {
    /// Name of the client.
    pub from: &'static str,
    /// Address and port of the service.
    pub to: String,
    /// Number of connections by the name of the backend.
    pub backends: BTreeMap<String, usize>,
    /// Number of connections on which the same backend answered after the change.
    pub answered: usize,
}

impl KeptConnections {
    /// Returns whether all connections went on.
    pub fn all_answered(&self) -> bool {
        self.answered > 0 && self.answered == self.backends.values().sum::<usize>()
    }
}

/// Result of a region change while packets flow.
#[derive(Clone, Debug, Serialize)]
pub struct RegionChange {
    /// Number of entries that were added, changed, removed.
    pub entries: [usize; 3],
    /// Time from request to response, in milliseconds.
    pub ms: f64,
    /// Error message for an invalid region file.
    pub refused: String,
    /// Streams that the change must not affect.
    pub untouched: Vec<Stream>,
    /// Connections to a service that were open before the change.
    pub kept: KeptConnections,
    /// Packets that the gateway and its ports dropped meanwhile, of all traffic.
    pub dropped: Vec<NamedCounter>,
}

/// All results of the demo.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DemoReport {
    /// `namespaces` or `captures`.
    pub mode: &'static str,
    /// Reason why namespaces are not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Results of all probes.
    pub probes: Vec<ProbeResult>,
    /// Throughput of the streams.
    pub streams: Vec<Stream>,
    /// Explanation of one packet.
    pub explained: Option<PacketExplanation>,
    /// Counters before the region change.
    pub counters: GatewayCounters,
    /// The region change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<RegionChange>,
    /// Descriptions of unexpected results.
    pub problems: Vec<String>,
    /// Whether all results were as expected.
    pub ok: bool,
    /// Duration of the demo, in seconds.
    pub seconds: f64,
}
