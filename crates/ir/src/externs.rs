//! Extern objects and functions of v1model and PNA.

use crate::declaration::{DataType, Preamble, SourceLoc};
use crate::types::{Const, Type};

/// Unit of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum CounterUnit {
    Packets,
    Bytes,
    Both,
}

/// Unit of a meter's rates: packets/s or bytes/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum MeterUnit {
    Packets,
    Bytes,
}

/// A hash or checksum algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum HashAlgorithm {
    Crc32,
    Crc32Custom,
    Crc16,
    Crc16Custom,
    /// As v1model's `random`: an unspecified hash; here a keyed 64-bit mix.
    Random,
    Identity,
    Csum16,
    Xor16,
    /// PNA's TARGET_DEFAULT: CRC-32 here.
    TargetDefault,
}

/// An extern object.
#[derive(Clone, PartialEq, Debug)]
pub struct ExternInst {
    /// Control-plane name and annotations.
    pub preamble: Preamble,
    /// Extern type and constructor arguments.
    pub kind: ExternKind,
    /// Source position of the instantiation.
    pub loc: SourceLoc,
}

/// Type of an extern object, with the arguments of its constructor.
#[derive(Clone, PartialEq, Debug)]
pub enum ExternKind {
    /// Indexed counters.
    Counter {
        /// Number of counters.
        size: u64,
        /// Unit.
        unit: CounterUnit,
        /// P4 type name of the index, if it is a named type.
        index_type: Option<String>,
    },
    /// A counter per entry of one table.
    DirectCounter {
        /// Unit.
        unit: CounterUnit,
    },
    /// Indexed RFC 2698 meters.
    Meter {
        /// Number of meters.
        size: u64,
        /// Unit of the rates.
        unit: MeterUnit,
        /// P4 type name of the index, if it is a named type.
        index_type: Option<String>,
    },
    /// A meter per entry of one table. v1model: `result` receives the color when the entry is hit.
    DirectMeter {
        /// Unit of the rates.
        unit: MeterUnit,
    },
    /// Indexed registers of a flattened type.
    Register {
        /// Number of elements.
        size: u64,
        /// Leaf types of an element.
        elem: Vec<Type>,
        /// Initial value of each leaf; empty for zeros.
        initial: Vec<Const>,
        /// The element's type, for P4Info.
        data_type: DataType,
        /// P4 type name of the index, if it is a named type.
        index_type: Option<String>,
    },
    /// Shared action data.
    ActionProfile {
        /// Maximum number of members.
        size: u64,
    },
    /// Shared action data in groups; a member is chosen by a hash of the selector keys.
    ActionSelector {
        /// Hash algorithm.
        algorithm: HashAlgorithm,
        /// Maximum number of members over all groups.
        size: u64,
        /// Number of hash bits in use.
        output_width: u32,
    },
    /// PNA `Hash<O>`.
    Hash {
        /// Hash algorithm.
        algorithm: HashAlgorithm,
        /// Result type.
        output: Type,
    },
    /// PNA `Checksum<W>`: state is per packet.
    Checksum {
        /// Hash algorithm.
        algorithm: HashAlgorithm,
        /// Result type.
        output: Type,
    },
    /// PNA `InternetChecksum` (RFC 1624): state is per packet.
    InternetChecksum,
    /// v1model `Checksum16` (deprecated).
    Checksum16,
    /// PNA `Random<T>`: uniform in `min..=max`.
    Random {
        /// Lower bound.
        min: Const,
        /// Upper bound.
        max: Const,
    },
    /// `PortPool`: outside ports for address translation, given out in blocks.
    PortPool {
        /// Number of outside addresses.
        addresses: u32,
        /// Number of subscribers.
        subscribers: u32,
        /// Number of port spaces of each address, such as one for each of TCP, UDP and ICMP.
        spaces: u32,
        /// Time in seconds that a released port rests before it is given out again.
        rest_seconds: u32,
    },
    /// `EntryQuota`: limits on entries that packets add.
    EntryQuota {
        /// Number of owners.
        owners: u32,
    },
    /// A digest stream. v1model's `digest<T>()` calls share one object for each T.
    Digest {
        /// The message's type.
        data_type: DataType,
        /// Leaf types of the message.
        fields: Vec<Type>,
    },
}

impl ExternKind {
    /// Reports whether the object is an array that the program accesses by index.
    pub fn is_indexed(&self) -> bool {
        matches!(self, ExternKind::Counter { .. } | ExternKind::Meter { .. } | ExternKind::Register { .. })
    }
}

macro_rules! extern_fns {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// An extern function or method. The comment of each variant lists its `ExternArg`s and
        /// results: `v` is a scalar argument, `vs` the leaves of an aggregate, `"s"` a string.
        /// Methods have the object in `Inst::Extern::object`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ExternFn { $($(#[$doc])* $name),* }
        impl ExternFn {
    /// Index of the twin's key among the arguments of [`ExternFn::AddEntry`]; a call without a twin
    /// has no argument there.
    pub const TWIN_KEY: usize = 4;


            /// All functions and methods.
            pub const ALL: &'static [ExternFn] = &[$(ExternFn::$name),*];
            /// Returns the name in the text format.
            pub fn name(self) -> &'static str { match self { $(ExternFn::$name => $text),* } }
            /// Returns the function of this name.
            pub fn from_name(name: &str) -> Option<Self> { match name { $($text => Some(ExternFn::$name),)* _ => None } }
        }
    };
}

impl ExternFn {
    /// Reports whether the function reads or writes state that outlives the packet, so that an
    /// additional call would be observable.
    pub fn is_stateful(self) -> bool {
        use ExternFn::*;
        matches!(
            self,
            CounterCount
                | DirectCounterCount
                | MeterExecute
                | DirectMeterExecute
                | RegisterRead
                | RegisterWrite
                | RandomRead
                | Random
                | DigestPack
                | AddEntry
                | AllocateFlowId
                | PortPoolTake
                | EntryQuotaTake
                | SetEntryExpireTime
                | RestartExpireTimer
        )
    }

    /// Reports whether the function works on a checksum unit, which has state for one packet only.
    pub fn is_packet_scoped(self) -> bool {
        use ExternFn::*;
        matches!(
            self,
            ChecksumClear
                | ChecksumUpdate
                | ChecksumGet
                | InternetChecksumClear
                | InternetChecksumAdd
                | InternetChecksumSubtract
                | InternetChecksumGet
                | InternetChecksumGetState
                | InternetChecksumSetState
        )
    }
}

extern_fns! {
    /// (v index[, v increment])
    CounterCount = "counter.count";
    /// (table[, v increment]): counts for the entry that the packet hit in the table.
    DirectCounterCount = "direct_counter.count";
    /// (v index[, v color]) -> color. v1model: `bit<32>`-like value 0 green, 1 yellow, 2 red;
    /// PNA: enum PNA_MeterColor_t.
    MeterExecute = "meter.execute";
    /// (table[, v color[, v bytes]]) -> color, as `meter.execute`. Without `bytes`, the packet's
    /// length is used.
    DirectMeterExecute = "direct_meter.execute";
    /// (v index) -> leaves. Out of range: zeros.
    RegisterRead = "register.read";
    /// (v index, vs value). Out of range: no effect.
    RegisterWrite = "register.write";
    /// (vs data) or (v base, vs data, v max) -> hash.
    HashGet = "hash.get";
    /// ()
    ChecksumClear = "checksum.clear";
    /// (vs data)
    ChecksumUpdate = "checksum.update";
    /// () -> sum
    ChecksumGet = "checksum.get";
    /// ()
    InternetChecksumClear = "internet_checksum.clear";
    /// (vs data)
    InternetChecksumAdd = "internet_checksum.add";
    /// (vs data)
    InternetChecksumSubtract = "internet_checksum.subtract";
    /// () -> bit<16>
    InternetChecksumGet = "internet_checksum.get";
    /// () -> bit<16>
    InternetChecksumGetState = "internet_checksum.get_state";
    /// (v bit<16>)
    InternetChecksumSetState = "internet_checksum.set_state";
    /// (vs data) -> bit<16>
    Checksum16Get = "checksum16.get";
    /// () -> value
    RandomRead = "random.read";
    /// (vs data); object is the digest.
    DigestPack = "digest.pack";

    /// v1model (v lo, v hi) -> value
    Random = "random";
    /// v1model ("algorithm", v base, vs data, v max) -> result, of the type of the out argument.
    Hash = "hash";
    /// v1model: sets egress_spec to the drop port.
    MarkToDrop = "mark_to_drop";
    /// v1model (v condition, vs data, v checksum, "algorithm"): sets
    /// `standard_metadata.checksum_error`.
    VerifyChecksum = "verify_checksum";
    /// v1model (v condition, vs data, v old checksum, "algorithm") -> the checksum, or the old one.
    UpdateChecksum = "update_checksum";
    /// As `verify_checksum`, over the data and the payload.
    VerifyChecksumWithPayload = "verify_checksum_with_payload";
    /// As `update_checksum`, over the data and the payload.
    UpdateChecksumWithPayload = "update_checksum_with_payload";
    /// v1model ("I2E"|"E2E", v session, vars preserved)
    Clone = "clone";
    /// v1model (vars preserved)
    Resubmit = "resubmit";
    /// v1model (vars preserved)
    Recirculate = "recirculate";
    /// v1model (v length in bytes)
    Truncate = "truncate";
    /// (v bool, "text of the condition")
    Assert = "assert";
    /// (v bool, "text of the condition")
    Assume = "assume";
    /// ("format"[, vs data])
    LogMsg = "log_msg";

    /// PNA ()
    DropPacket = "drop_packet";
    /// PNA (v port)
    SendToPort = "send_to_port";
    /// PNA (v port) -> bool: the port exists and connects to a host.
    IsHostPort = "is_host_port";
    /// PNA (v port) -> bool: the port exists and connects to the network.
    IsNetPort = "is_net_port";
    /// PNA (v slot, v session)
    MirrorPacket = "mirror_packet";
    /// PNA ()
    PnaRecirculate = "pna_recirculate";
    /// (v first address, v number of addresses, v subscriber, v maximum number of blocks, v space,
    /// v hash) -> bit<8> status, bit<32> address, bit<16> port
    PortPoolTake = "port_pool.take";
    /// (v owner, v maximum number of entries) -> bool: a share of the quota was taken.
    EntryQuotaTake = "entry_quota.take";
    /// PNA (table, action, vs parameters, v expire time profile[, vs twin's key, twin's action, vs
    /// its parameters]) -> bool. With a twin, both entries are added or none, and they end
    /// together.
    AddEntry = "add_entry";
    /// PNA () -> FlowId_t
    AllocateFlowId = "allocate_flow_id";
    /// PNA (table, v profile)
    SetEntryExpireTime = "set_entry_expire_time";
    /// PNA (table)
    RestartExpireTimer = "restart_expire_timer";
}
