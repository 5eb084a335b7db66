//! What the demo found, as data: printed step by step for people, as one document with `--json`.

use super::scenario::Probe;
use packet::Counter;
use serde::Serialize;

/// The outcome of one attempt.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeResult {
    /// What the attempt belongs to.
    pub group: &'static str,
    /// Who sent.
    pub from: &'static str,
    /// Where to.
    pub to: String,
    /// What was to come of it.
    pub expected: String,
    /// What came of it.
    pub got: String,
    /// Whether that is the same.
    pub ok: bool,
    /// Average time to an answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
}

impl ProbeResult {
    /// `got` compared with what was expected of the attempt.
    pub fn new(group: &'static str, probe: &Probe, got: String, ms: Option<f64>) -> ProbeResult {
        let expected = probe.expected.text();
        ProbeResult { group, from: probe.from, to: probe.target(), ok: got == expected, expected, got, ms }
    }
}

/// A stream of iperf3.
#[derive(Clone, Debug, Serialize)]
pub struct Stream {
    /// Who sent.
    pub from: &'static str,
    /// Who received.
    pub to: &'static str,
    /// The receiver's address.
    pub address: &'static str,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// What is special about it.
    pub what: &'static str,
    /// What arrived, in bits per second.
    pub bits_per_second: f64,
    /// TCP: segments sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// UDP, ping: packets sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// UDP, ping: packets that did not arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

/// What `terrace trace` says of one packet.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The command that shows it again.
    pub command: String,
    /// What it prints.
    pub text: String,
}

/// A named count.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// What was counted.
    pub name: String,
    /// How much.
    #[serde(flatten)]
    pub count: Counter,
}

/// The gateway's counters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counters {
    /// By VPC: received from it.
    pub received_from: Vec<Named>,
    /// By VPC: of that, forwarded.
    pub forwarded_from: Vec<Named>,
    /// By scope of the route.
    pub scopes: Vec<Named>,
    /// Dropped, by reason.
    pub drops: Vec<Named>,
    /// Handed to the control plane, by reason.
    pub to_cpu: Vec<Named>,
}

/// A change of the region while packets flow.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Entries that were added, changed, removed.
    pub entries: [usize; 3],
    /// From the request to the answer, in milliseconds.
    pub ms: f64,
    /// What a wrong region file was answered with.
    pub refused: String,
    /// Streams that the change does not concern.
    pub untouched: Vec<Stream>,
    /// What the gateway and its ports dropped meanwhile, of all packets.
    pub dropped: Vec<Named>,
}

/// All of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// `namespaces` or `captures`.
    pub mode: &'static str,
    /// Why there are no namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who reached whom.
    pub probes: Vec<ProbeResult>,
    /// Throughput.
    pub streams: Vec<Stream>,
    /// One packet, explained.
    pub explained: Option<Explained>,
    /// Counters before the change.
    pub counters: Counters,
    /// The change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// What was not as expected, in words.
    pub problems: Vec<String>,
    /// Whether all was as expected.
    pub ok: bool,
    /// How long it took.
    pub seconds: f64,
}
