//! A parsed test: commands with names and values as written.

use super::value::{MatchText, Number};

/// A test file.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Path of the file, as it was given.
    pub file: String,
    /// Commands in order.
    pub commands: Vec<Located>,
}

/// A command with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// Line, from 1.
    pub line: u32,
    /// The command.
    pub command: Command,
}

/// One key of an entry: `name:value`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyText {
    /// Name of the key, or the end of it.
    pub name: String,
    /// Match value.
    pub value: MatchText,
}

/// An argument of an action, or a field of a digest. The name is `None` if it is given by position.
pub type Argument = (Option<String>, Number);

/// An action with its arguments: `name(parameter:value, ...)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionText {
    /// Name of the action, or the end of it.
    pub name: String,
    /// Arguments in order.
    pub args: Vec<Argument>,
}

/// Action of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryTarget {
    /// Runs an action.
    Action(ActionText),
    /// Runs the action of a member of the table's action profile.
    Member(u32),
    /// Runs the action of a member, chosen by hash, of a group of the table's action selector.
    Group(u32),
}

/// Reference to a cell of an indexed object, or of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum CellText {
    /// Index of an indexed object.
    Index(u64),
    /// Handle set by `add ... = handle`, for direct counters and meters.
    Handle(String),
}

/// Comparison operator of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    /// Returns the operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Eq => "==",
            Comparison::Ne => "!=",
            Comparison::Lt => "<",
            Comparison::Le => "<=",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
        }
    }

    /// Returns whether `left operator right` holds.
    pub fn holds<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Comparison::Eq => left == right,
            Comparison::Ne => left != right,
            Comparison::Lt => left < right,
            Comparison::Le => left <= right,
            Comparison::Gt => left > right,
            Comparison::Ge => left >= right,
        }
    }
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CountUnit {
    Packets,
    Bytes,
}

/// Bytes of an expected packet, nibble by nibble; `None` is `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPattern {
    /// Two nibbles for each byte.
    pub nibbles: Vec<Option<u8>>,
    /// Whether the pattern ends in `$`. If not, the packet may be longer.
    pub exact_length: bool,
}

/// Rate and burst of a meter, in the units of bmv2's command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeterRate {
    /// Rate in packets or bytes per microsecond.
    pub per_microsecond: f64,
    /// Burst in packets or bytes.
    pub burst: u64,
}

/// A command. Commands marked *own* are not in p4c's language.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Command {
    /// `add TABLE [priority] key:value... action(args) [= handle]`. A greater priority wins.
    Add { table: String, priority: Option<i32>, keys: Vec<KeyText>, target: EntryTarget, handle: Option<String> },
    /// `setdefault TABLE action(args)`.
    SetDefault { table: String, action: ActionText },
    /// `remove all`.
    RemoveAll,
    /// `remove $handle` (own): the entry that `add ... = handle` made.
    Remove { handle: String },
    /// `packet PORT hex`.
    Packet { port: u32, bytes: Vec<u8> },
    /// `expect PORT [hex with * for any nibble] [$]`.
    Expect { port: u32, pattern: Option<PacketPattern> },
    /// `no_packet`: the last packet caused no sent packets.
    NoPacket,
    /// `wait`: no effect, because this runner is synchronous.
    Wait,
    /// `check_counter NAME(cell) [packets|bytes op n]`.
    CheckCounter { name: String, cell: CellText, check: Option<(CountUnit, Comparison, u64)> },
    /// `mirroring_add SESSION PORT`.
    MirroringAdd { session: u32, port: u32 },
    /// `mirroring_add_mc SESSION GROUP`.
    MirroringAddMc { session: u32, group: u32 },
    /// `mirroring_delete SESSION`.
    MirroringDelete { session: u32 },
    /// `mirroring_get SESSION`.
    MirroringGet { session: u32 },
    /// `mc_mgrp_create GROUP`.
    McGroupCreate { group: u32 },
    /// `mc_node_create RID PORT...`: nodes are numbered from 0 in order of creation.
    McNodeCreate { rid: u16, ports: Vec<u32> },
    /// `mc_node_update NODE PORT...`.
    McNodeUpdate { node: u32, ports: Vec<u32> },
    /// `mc_node_associate GROUP NODE`.
    McNodeAssociate { group: u32, node: u32 },
    /// `counter_read NAME INDEX`.
    CounterRead { name: String, index: u64 },
    /// `counter_write NAME INDEX PACKETS BYTES`.
    CounterWrite { name: String, index: u64, packets: u64, bytes: u64 },
    /// `register_read NAME INDEX`.
    RegisterRead { name: String, index: u64 },
    /// `register_write NAME INDEX VALUE`.
    RegisterWrite { name: String, index: u64, value: Number },
    /// `register_reset NAME`.
    RegisterReset { name: String },
    /// `meter_get_rates NAME INDEX`.
    MeterGetRates { name: String, index: u64 },
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`: committed, then peak.
    MeterSetRates { name: String, cell: CellText, rates: Vec<MeterRate> },
    /// `meter_array_set_rates NAME RATE:BURST RATE:BURST`.
    MeterArraySetRates { name: String, rates: Vec<MeterRate> },
    /// The project's own commands.
    Own(OwnCommand),
}

/// Commands that p4c's language lacks, for v1model's and PNA's externs.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum OwnCommand {
    /// `check_register NAME INDEX op VALUE`.
    CheckRegister { name: String, index: u64, comparison: Comparison, value: Number },
    /// `check_digest NAME {field:value, ...}`, or `check_digest NAME none`: consumes the oldest
    /// message.
    CheckDigest { name: String, fields: Option<Vec<Argument>> },
    /// `advance_time N ns|us|ms|s`: advances the clock, and expires timers.
    AdvanceTime { nanoseconds: u64 },
    /// `check_entries TABLE op N`: checks the number of entries in the table, including those added
    /// by the data plane.
    CheckEntries { table: String, comparison: Comparison, count: u64 },
    /// `member_create PROFILE MEMBER action(args)`.
    MemberCreate { profile: String, member: u32, action: ActionText },
    /// `group_create SELECTOR GROUP MEMBER...`.
    GroupCreate { profile: String, group: u32, members: Vec<u32> },
    /// `idle_timeout $HANDLE DURATION`.
    IdleTimeout { handle: String, nanoseconds: u64 },
    /// `expire_time PROFILE DURATION` (PNA).
    ExpireTime { profile: u8, nanoseconds: u64 },
    /// `check_idle $HANDLE`, or `check_idle none`: consumes the oldest notification.
    CheckIdle { handle: Option<String> },
    /// `value_set_add NAME key:value...` (names may be omitted).
    ValueSetAdd { name: String, keys: Vec<(Option<String>, MatchText)> },
}
