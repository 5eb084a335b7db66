//! What a node shows of itself: one form for the control socket, for metrics and for people. All counts are since the node's start, over all programs
//! that it ran, unless [`crate::Node::clear`] was called.

use packet::Counter;
use serde::{Deserialize, Serialize};

/// Which node this is, and what it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The version of `terraced`.
    pub terraced: String,
    /// The version of the control socket's protocol.
    pub protocol: u32,
    /// The version of P4Runtime that it speaks.
    pub p4runtime: String,
    /// The number by which controllers call it.
    pub device_id: u64,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began.
    pub uptime_seconds: f64,
    /// The program, if there is one.
    pub program: Option<Program>,
}

/// The program that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub architecture: String,
    /// The controller's cookie.
    pub cookie: Option<u64>,
    /// How many writes its tables have seen.
    pub tables_version: u64,
    /// What runs it: `jit`, `interp` or `asic`; of a program that is divided, its lower half.
    #[serde(default)]
    pub engine: String,
    /// The flow cache in front of it, as the configuration names its kind.
    #[serde(default)]
    pub cache: String,
    /// The tiers of this process, if the program is divided among tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<String>,
    /// Bytes of native code.
    pub native_code_bytes: u64,
    /// Why there is no native code, if there is none.
    pub interpreted: Option<String>,
    /// Native code was asked for, and the program runs on the reference engine, at about a tenth of the speed.
    #[serde(default)]
    pub falls_back: bool,
    /// What a person should know of how the engine runs it: on a chip, where its tables are; of a cache, what it holds.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name, as P4Info has it.
    pub name: String,
    /// Its number in P4Info.
    pub id: u32,
    /// Its keys.
    pub keys: Vec<Key>,
    /// Entries now.
    pub entries: u64,
    /// The most that there were since the program began, or since [`crate::Node::clear`] if that was later.
    pub high_water: u64,
    /// As many as there may be; `None`: no bound.
    pub size: Option<u64>,
    /// Memory that it takes, in bytes, about.
    pub memory_bytes: u64,
    /// Packets that hit an entry.
    pub hits: Counter,
    /// Packets that did not.
    pub misses: Counter,
    /// What was done with them.
    pub actions: Vec<Action>,
}

/// A key of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// `exact`, `lpm`, `ternary`, `range` or `optional`.
    pub kind: String,
    /// Its width.
    pub bits: u32,
}

/// An action of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// Packets whose entry has it.
    pub hits: Counter,
    /// Packets without an entry, if it is the default action.
    pub misses: Counter,
}

/// An element of an indexed counter of the program that has counted something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterCell {
    /// The counter.
    pub counter: String,
    /// Its index.
    pub index: u64,
    /// What the index stands for, where that is known: a VPC's name, a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it counted.
    #[serde(flatten)]
    pub count: Counter,
}

/// A name with what it stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// As a person reads it.
    pub value: String,
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRow {
    /// What it matches.
    pub keys: Vec<Named>,
    /// What is done: an action, `member N` or `group N`.
    pub action: String,
    /// With these values.
    pub arguments: Vec<Named>,
    /// Its priority; 0 in tables without priorities.
    pub priority: i32,
    /// It is idle after so many nanoseconds; 0: never.
    pub idle_timeout_ns: u64,
    /// Its direct counter, if the table has one.
    pub counter: Option<Counter>,
    /// The program's own, which cannot be changed.
    pub is_const: bool,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// The number by which the program knows it.
    pub number: u32,
    /// Its interface or device.
    pub name: String,
    /// Received.
    pub received: Counter,
    /// Sent.
    pub sent: Counter,
    /// Lost at the port, by reason.
    pub drops: Vec<Dropped>,
    /// Why nothing can go through at present.
    pub trouble: Option<String>,
}

/// Something that happened to packets, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The reason.
    pub reason: String,
    /// Whose reason it is: `program`, `engine`, `port`, or `cpu` for what went to the controller.
    pub by: String,
    /// How many.
    #[serde(flatten)]
    pub count: Counter,
}

/// A stage of the native code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// `parser`, the table that it looks up, or `deparser`.
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets as they arrived; `None`: not known for this stage.
    pub bytes: Option<u64>,
    /// The share of the engine's time that it takes, lookups included: 0 to 1.
    pub share: f64,
    /// Nanoseconds a packet.
    pub nanoseconds: f64,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number.
    pub number: usize,
    /// The processor on which it stays.
    pub core: Option<usize>,
    /// Its ports.
    pub ports: Vec<u32>,
    /// Packets that it gave to the engine.
    pub received: Counter,
    /// Batches.
    pub batches: u64,
    /// The share of its time in which it had packets: 0 to 1.
    pub busy: f64,
    /// How many versions of the tables it is behind what was written last.
    pub behind: u64,
    /// How long packets were with it, from received to handed to a port.
    pub residence: Quantiles,
}

/// A distribution of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many.
    pub count: u64,
    /// Half of them are no longer.
    pub p50: u64,
    /// Of a hundred, 99 are no longer.
    pub p99: u64,
    /// Of a thousand, 999 are no longer.
    pub p999: u64,
    /// None is longer.
    pub max: u64,
}

/// Controllers, and what they ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    /// Connections now.
    pub connections: u64,
    /// Connections that were refused, because there were too many.
    pub refused_connections: u64,
    /// Messages for controllers that none of them got.
    pub lost_messages: u64,
    /// Streams that have told who they are.
    pub controllers: Vec<Controller>,
    /// Requests by kind.
    pub requests: Vec<Requests>,
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    /// Its address, and the name in its certificate if it has one.
    pub who: String,
    /// Its role; empty: full access.
    pub role: String,
    /// Its election id, in decimal (128 bits); `None`: it only reads.
    pub election_id: Option<String>,
    /// Whether it is the primary of its role.
    pub primary: bool,
    /// Seconds since its stream began.
    pub seconds: f64,
    /// Messages that wait for it.
    pub waiting: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// `write`, `read`, `set_pipeline`, ...
    pub kind: String,
    /// Answered without an error.
    pub ok: u64,
    /// Refused or failed.
    pub refused: u64,
    /// How long they took.
    pub time: Quantiles,
}
