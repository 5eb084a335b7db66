//! Status of a node, in one form for the control socket, metrics and operators. Counts cover all
//! programs since the node's start, or since [`crate::Node::reset_counters`].

use crate::observe::named_stats::FlowTableCounts;
use packet::Counter;
use serde::{Deserialize, Serialize};

/// Identity of a node, and its program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeVersion {
    /// Version of `terraced`.
    pub terraced: String,
    /// Version of the control socket's protocol.
    pub protocol: u32,
    /// Version of P4Runtime that the node implements.
    pub p4runtime: String,
    /// Device id by which controllers address the node.
    pub device_id: u64,
    /// Process id.
    pub pid: u32,
    /// Seconds since the process started.
    pub uptime_seconds: f64,
    /// The running program, if any.
    pub program: Option<ProgramStatus>,
}

/// The running program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Name of the program.
    pub name: String,
    /// Architecture of the program.
    pub architecture: String,
    /// Cookie of the controller.
    pub cookie: Option<u64>,
    /// Number of writes to the program's tables.
    pub tables_version: u64,
    /// Engine: `jit`, `interp` or `asic`; of a partitioned program, the engine of its lower half.
    #[serde(default)]
    pub engine: String,
    /// Kind of the flow cache before the engine, as named in the configuration.
    #[serde(default)]
    pub cache: String,
    /// Tiers in this process, if the program is partitioned over tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<String>,
    /// Size of the native code in bytes.
    pub native_code_bytes: u64,
    /// Why there is no native code; `None` if there is.
    pub interpreted: Option<String>,
    /// Whether the program falls back to the reference engine although native code was configured.
    /// It then runs at about a tenth of the speed.
    #[serde(default)]
    pub falls_back: bool,
    /// Notes for the operator about how the engine runs the program: table placement on a chip,
    /// contents of a cache.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Status of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableStatus {
    /// Name in P4Info.
    pub name: String,
    /// Id in P4Info.
    pub id: u32,
    /// Keys of the table.
    pub keys: Vec<KeyStatus>,
    /// Current number of entries.
    pub entries: u64,
    /// High-water mark of entries since the program started, or since [`crate::Node::reset_counters`] if
    /// that was later.
    pub high_water: u64,
    /// Maximum number of entries; `None`: unbounded.
    pub size: Option<u64>,
    /// Approximate memory in bytes.
    pub memory_bytes: u64,
    /// Packets that hit an entry.
    pub hits: Counter,
    /// Packets that missed.
    pub misses: Counter,
    /// Counts by action.
    pub actions: Vec<ActionStatus>,
    /// Entries that came and went, if packets add entries to the table and native code holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowTableStatus>,
}

/// Entries of a table to which packets add entries, that came and went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTableStatus {
    /// Whether the program declares no size, so that native code's default holds.
    pub has_default_size: bool,
    /// The counts.
    #[serde(flatten)]
    pub counts: FlowTableCounts,
}

/// A key of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyStatus {
    /// Name of the key.
    pub name: String,
    /// Match kind: `exact`, `lpm`, `ternary`, `range` or `optional`.
    pub kind: String,
    /// Width in bits.
    pub bits: u32,
}

/// Counts of an action of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionStatus {
    /// Name of the action.
    pub name: String,
    /// Packets whose matching entry has this action.
    pub hits: Counter,
    /// Packets that missed, if this is the default action.
    pub misses: Counter,
}

/// A non-zero element of one of the program's indexed counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterCell {
    /// Name of the counter.
    pub counter: String,
    /// Index of the element.
    pub index: u64,
    /// Meaning of the index, if known: a VPC's name or a drop reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Counted packets and bytes.
    #[serde(flatten)]
    pub count: Counter,
}

/// A name and its formatted value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownValue {
    /// The name.
    pub name: String,
    /// Value as text.
    pub value: String,
}

/// A table entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRow {
    /// Match keys.
    pub keys: Vec<ShownValue>,
    /// An action, `member N` or `group N`.
    pub action: String,
    /// Arguments of the action.
    pub arguments: Vec<ShownValue>,
    /// Priority; 0 in tables without priorities.
    pub priority: i32,
    /// Idle timeout in nanoseconds; 0: none.
    pub idle_timeout_ns: u64,
    /// Direct counter, if the table has one.
    pub counter: Option<Counter>,
    /// Whether the entry belongs to the program and cannot be changed.
    pub is_const: bool,
}

/// State of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// Packets can pass.
    #[default]
    Up,
    /// The link is up again, but for less than the hold time: groups do not use it yet.
    Held,
    /// The link is down.
    Down,
    /// There is no interface of this name; the port is opened as soon as there is one.
    Missing,
}

impl PortState {
    /// Returns the name in metrics and tables.
    pub fn name(self) -> &'static str {
        match self {
            PortState::Up => "up",
            PortState::Held => "held",
            PortState::Down => "down",
            PortState::Missing => "missing",
        }
    }

    /// All states.
    pub const ALL: [PortState; 4] = [PortState::Up, PortState::Held, PortState::Down, PortState::Missing];
}

/// Status of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortStatus {
    /// Number by which the program knows the port.
    pub number: u32,
    /// Interface or device.
    pub name: String,
    /// Received packets.
    pub received: Counter,
    /// Sent packets.
    pub sent: Counter,
    /// Packets lost at the port, by reason.
    pub drops: Vec<DropRow>,
    /// Why the port is down; `None` while it works.
    pub fault: Option<String>,
    /// State of the link; `None` if nothing watches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PortState>,
    /// Number of changes of the link since the process started.
    #[serde(default)]
    pub changes: u64,
    /// Seconds without a link since the process started.
    #[serde(default)]
    pub down_seconds: f64,
    /// Hook of the kernel's flow cache at the port: `tc`, `xdp` or `xdp, generic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The host side of the port's uplink, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStatus>,
}

/// Status of the host side of an uplink, since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Interface.
    pub interface: String,
    /// Whether the interface is a TAP of the node; otherwise it is the port's own interface.
    pub is_tap: bool,
    /// Packets that the host received, by kind.
    pub to_host: Vec<HostRow>,
    /// Frames that the host sent.
    pub from_host: Counter,
    /// Lost packets, by reason and kind.
    pub drops: Vec<HostRow>,
}

/// Packets of one kind between the gateway and the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRow {
    /// Kind: a punt reason of the gateway, or `from_host`.
    pub kind: String,
    /// Reason of a loss; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Number of packets and bytes.
    #[serde(flatten)]
    pub count: Counter,
}

/// Packets counted for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropRow {
    /// Name of the reason.
    pub reason: String,
    /// Layer of the reason: `program`, `engine`, `port`, or `cpu` for packets to the controller.
    pub by: String,
    /// Number of packets and bytes.
    #[serde(flatten)]
    pub count: Counter,
}

/// Statistics of a stage of the native code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageStatus {
    /// `parser`, the table that the stage looks up, or `deparser`.
    pub name: String,
    /// Packets that passed the stage.
    pub packets: u64,
    /// Bytes of these packets as received; `None` if unknown for this stage.
    pub bytes: Option<u64>,
    /// Share of the engine's time including lookups, 0 to 1.
    pub share: f64,
    /// Nanoseconds per packet.
    pub nanoseconds: f64,
}

/// Status of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Number of the worker.
    pub number: usize,
    /// Processor to which the worker is pinned.
    pub core: Option<usize>,
    /// Numbers of its ports.
    pub ports: Vec<u32>,
    /// Packets given to the engine.
    pub received: Counter,
    /// Batches given to the engine.
    pub batches: u64,
    /// Share of time with packets to handle, 0 to 1.
    pub busy: f64,
    /// Number of table versions that the worker lags behind the newest.
    pub lag: u64,
    /// Packet latency from receive to hand-over to a port.
    pub latency: LatencyQuantiles,
}

/// Quantiles of a distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyQuantiles {
    /// Number of samples.
    pub count: u64,
    /// 50th percentile.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
}

/// Controllers and their requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllersStatus {
    /// Current number of connections.
    pub connections: u64,
    /// Connections refused because of the connection limit.
    pub refused_connections: u64,
    /// Messages for controllers that were not delivered.
    pub lost_messages: u64,
    /// Streams that have sent arbitration.
    pub controllers: Vec<ControllerRow>,
    /// Requests by kind.
    pub requests: Vec<RequestRow>,
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerRow {
    /// Address, and the name in the client certificate if any.
    pub client: String,
    /// Role; empty: full access.
    pub role: String,
    /// Election id in decimal (128 bits); `None` for a read-only controller.
    pub election_id: Option<String>,
    /// Whether the controller is the primary of its role.
    pub primary: bool,
    /// Seconds since its stream opened.
    pub seconds: f64,
    /// Messages queued for the controller.
    pub waiting: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestRow {
    /// Kind of request: `write`, `read`, `set_pipeline`, ...
    pub kind: String,
    /// Requests answered without an error.
    pub ok: u64,
    /// Requests refused or failed.
    pub refused: u64,
    /// Durations of the requests.
    pub time: LatencyQuantiles,
}
