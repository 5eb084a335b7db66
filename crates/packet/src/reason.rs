//! Reasons for dropping a packet or sending it to the CPU.
//!
//! There are three families. **Engine** reasons can occur with every program (a parser error, a
//! group that does not exist). **Port** reasons are those of receiving and sending. **Program**
//! reasons are declared by the P4 program, which gives each a number and a name; packets carry the
//! number, and a [`ReasonTable`] has the names. A name is the same in metrics, traces and the
//! command line, and the names of the first two families never change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Declares a family of reasons from one list, so that names, descriptions, order and `ALL` cannot
/// drift apart.
macro_rules! reasons {
    ($(#[$doc:meta])* $family:ident { $($(#[doc = $text:literal])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $family {
            $($(#[doc = $text])* $variant,)*
        }

        impl $family {
            /// All reasons of the family, in order of declaration.
            pub const ALL: &[$family] = &[$($family::$variant,)*];

            /// Returns the stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($family::$variant => $name,)*
                }
            }

            /// Returns the meaning, in a sentence for users.
            pub const fn description(self) -> &'static str {
                match self {
                    $($family::$variant => concat!($($text),*).trim_ascii(),)*
                }
            }

            /// Returns the reason of this name.
            pub fn from_name(name: &str) -> Option<$family> {
                match name {
                    $($name => Some($family::$variant),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $family {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

reasons! {
    /// Reasons for which an engine drops packets of any program.
    ///
    /// The parser reasons are the errors of P4's core library (P4-16 specification v1.2.5, appendix
    /// on `core.p4`, `error`). An architecture that continues with a packet after a parser error
    /// (v1model, PNA) uses them only if the program rejects.
    EngineReason {
        /// `PacketTooShort`: the packet ended before all of a header had been extracted.
        ParserPacketTooShort = "parser_packet_too_short",
        /// `NoMatch`: no case of a `select` matched.
        ParserNoMatch = "parser_no_match",
        /// `StackOutOfBounds`: an index outside a header stack.
        ParserStackOutOfBounds = "parser_stack_out_of_bounds",
        /// `HeaderTooShort`: more bits for a varbit field than it can hold.
        ParserHeaderTooShort = "parser_header_too_short",
        /// `ParserTimeout`: the parser exceeded its limit of steps.
        ParserTimeout = "parser_timeout",
        /// `ParserInvalidArgument`: an operation of the parser got an impossible size.
        ParserInvalidArgument = "parser_invalid_argument",
        /// An error that the program itself declares, or `NoError`, reached `reject`.
        ParserReject = "parser_reject",
        /// The program dropped the packet (`mark_to_drop`, `drop_packet`) and declares no reason.
        ProgramDrop = "program_drop",
        /// The program ended without setting a destination.
        NoDestination = "no_destination",
        /// The program sent the packet to a port that the node does not have.
        UnknownPort = "unknown_port",
        /// A multicast group that does not exist or has no members.
        UnknownMulticastGroup = "unknown_multicast_group",
        /// A clone or mirror session that does not exist.
        UnknownCloneSession = "unknown_clone_session",
        /// Recirculated or resubmitted more often than allowed.
        RecirculationLimit = "recirculation_limit",
        /// More copies of one batch than allowed.
        ReplicationLimit = "replication_limit",
        /// The program exceeded its limit of steps.
        InstructionLimit = "instruction_limit",
        /// With its new headers the packet would be longer than the maximum of 65,535 bytes.
        PacketTooLong = "packet_too_long",
        /// Too short to be an Ethernet frame.
        Runt = "runt",
        /// An `assert` of the program failed.
        AssertFailed = "assert_failed",
        /// No cached flow matched the packet, and its tenant had used up its share of the slow
        /// path.
        SlowPathLimit = "slow_path_limit",
        /// Forged: the packet arrived with a bridge header and the tiers' own key on a port that
        /// does not connect to another tier.
        UnexpectedBridgeHeader = "unexpected_bridge_header",
        /// The packet arrived on a port that connects to another tier, without a bridge header or
        /// with another key. That tier has another plan, or an unknown sender uses the link.
        MissingBridgeHeader = "missing_bridge_header",
        /// Not a data packet: the response of a tier to a liveness probe.
        TierProbeReply = "tier_probe_reply",
        /// The packet was bound for the tier below, which is down.
        LowerTierDown = "lower_tier_down",
        /// The node has no program yet.
        NoProgram = "no_program",
        /// The engine violated one of its own invariants: always a bug.
        EngineBug = "engine_bug",
    }
}

reasons! {
    /// Reasons for which a port loses packets: on receiving (`rx_`) or on sending (`tx_`).
    PortReason {
        /// Longer than the receive buffer, or than the maximum of 16 KiB.
        RxOversize = "rx_oversize",
        /// The kernel delivered several segments as one packet (GSO/GRO) in a form that Terrace
        /// does not cut: neither TCP nor UDP, within two tunnels, or longer than 65,535 bytes (BIG
        /// TCP). Turn off segmentation offload at the sending device (`ethtool -K DEVICE tso off
        /// gso off`).
        RxSegmentationOffload = "rx_segmentation_offload",
        /// The checksum was left to the hardware, and its offset lies outside the packet.
        RxBadChecksumOffload = "rx_bad_checksum_offload",
        /// Several segments in one packet, and its description does not fit its bytes: a segment
        /// length below 48 bytes, more than 128 segments, or an open checksum elsewhere. The sender
        /// is broken or hostile.
        RxBadSegmentation = "rx_bad_segmentation",
        /// Not received because the receive queue was full.
        RxQueueFull = "rx_queue_full",
        /// Not received because no buffer was free: other code holds the packets, or the pool of
        /// buffers is too small.
        RxNoBuffer = "rx_no_buffer",
        /// Arrived in several segments (a chain of buffers) that do not fit into one packet.
        RxSegments = "rx_segments",
        /// Arrived on a receive queue without a socket of this process, and went to the kernel's
        /// own stack.
        RxNoSocket = "rx_no_socket",
        /// Any other receive error.
        RxError = "rx_error",
        /// Longer than the port's MTU allows.
        TxMtu = "tx_mtu",
        /// Shorter than an Ethernet header.
        TxRunt = "tx_runt",
        /// The transmit queue was full.
        TxQueueFull = "tx_queue_full",
        /// The program changed a packet of several segments such that it can neither be cut nor
        /// sent as it is: its TCP or UDP header is no longer found.
        TxSegmentation = "tx_segmentation",
        /// No buffer was free for a packet that has to be copied to be sent.
        TxNoBuffer = "tx_no_buffer",
        /// The port is down, or its peer is gone.
        TxPortDown = "tx_port_down",
        /// The kernel's flow cache sent the packet, and the device refused it: the peer of a veth
        /// pair has neither an XDP program nor receive offload, or the driver does not support
        /// sending from XDP programs.
        TxXdpRefused = "tx_xdp_refused",
        /// Any other send error.
        TxError = "tx_error",
        /// Dropped on purpose by a fault injector.
        FaultInjected = "fault_injected",
        /// Bound for the CPU, but no receiver takes packets there, or its queue is full.
        PacketInQueueFull = "packet_in_queue_full",
    }
}

impl PortReason {
    /// Reports whether the packet was lost before it reached an engine.
    pub fn is_before_engine(self) -> bool {
        self.name().starts_with("rx_")
    }
}

/// Number that a program gives to a reason it declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReasonId(pub u32);

/// Reason for dropping a packet. [`ReasonTable::drop_name`] returns its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// Can occur with every program.
    Engine(EngineReason),
    /// Lost at a port.
    Port(PortReason),
    /// Declared by the program.
    Program(ReasonId),
}

impl DropReason {
    /// Reports whether the packet was lost before it reached an engine.
    pub fn is_before_engine(self) -> bool {
        matches!(self, DropReason::Port(reason) if reason.is_before_engine())
    }
}

impl From<EngineReason> for DropReason {
    fn from(reason: EngineReason) -> DropReason {
        DropReason::Engine(reason)
    }
}

impl From<PortReason> for DropReason {
    fn from(reason: PortReason) -> DropReason {
        DropReason::Port(reason)
    }
}

/// Formats the name, or `program_reason_N` for a program's reason, because only its [`ReasonTable`]
/// has that name.
impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ReasonTable::EMPTY.drop_name(*self))
    }
}

/// Reason for sending a packet to the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CpuReason {
    /// The program sent it to the CPU port without a reason. Named `cpu_port`.
    #[default]
    CpuPort,
    /// Declared by the program.
    Program(ReasonId),
}

/// Maximum length of a reason's name, in bytes.
pub const MAX_REASON_NAME: usize = 64;

/// Error in a program's declaration of a reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReasonTableError {
    /// Two reasons with one number.
    #[error("reason number {id} is declared twice, as `{first}` and as `{second}`; give each reason its own number")]
    DuplicateId {
        /// The number.
        id: u32,
        /// The name declared first.
        first: String,
        /// The name declared second.
        second: String,
    },
    /// Two reasons with one name, or a name that the engine or a port uses.
    #[error("the reason name `{name}` is already taken; choose another name in the program")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A name that is not allowed as a metric label.
    #[error("`{name}` cannot name a reason: 1 to {MAX_REASON_NAME} of a-z, 0-9 and _, starting with a letter")]
    BadName {
        /// The name.
        name: String,
    },
}

/// The reasons that a program declares: number and name of each. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReasonTable {
    names: Option<Arc<BTreeMap<u32, String>>>,
}

impl ReasonTable {
    /// The table without reasons.
    pub const EMPTY: ReasonTable = ReasonTable { names: None };

    /// Creates a table of `(number, name)` pairs. Fails if a number or a name occurs twice, or if
    /// an engine or port uses the name.
    pub fn new<N: Into<String>>(
        declared: impl IntoIterator<Item = (ReasonId, N)>,
    ) -> Result<ReasonTable, ReasonTableError> {
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        for (ReasonId(id), name) in declared {
            let name = name.into();
            check_name(&name)?;
            if names.values().any(|other| *other == name) {
                return Err(ReasonTableError::DuplicateName { name });
            }
            if let Some(first) = names.get(&id) {
                return Err(ReasonTableError::DuplicateId { id, first: first.clone(), second: name });
            }
            names.insert(id, name);
        }
        Ok(ReasonTable { names: Some(Arc::new(names)) })
    }

    /// Returns the name that the program gave to `id`.
    pub fn get(&self, id: ReasonId) -> Option<&str> {
        self.names.as_ref()?.get(&id.0).map(String::as_str)
    }

    /// Returns the name of a drop reason; `program_reason_N` for a number that the program did not
    /// declare.
    pub fn drop_name(&self, reason: DropReason) -> Cow<'_, str> {
        match reason {
            DropReason::Engine(reason) => Cow::Borrowed(reason.name()),
            DropReason::Port(reason) => Cow::Borrowed(reason.name()),
            DropReason::Program(id) => self.program_name(id),
        }
    }

    /// Returns the name of a CPU reason.
    pub fn cpu_name(&self, reason: CpuReason) -> Cow<'_, str> {
        match reason {
            CpuReason::CpuPort => Cow::Borrowed("cpu_port"),
            CpuReason::Program(id) => self.program_name(id),
        }
    }

    /// Returns the drop reason of this name, of any family.
    pub fn find(&self, name: &str) -> Option<DropReason> {
        let engine = EngineReason::from_name(name).map(DropReason::Engine);
        let port = || PortReason::from_name(name).map(DropReason::Port);
        let program = || self.iter().find(|(_, declared)| *declared == name).map(|(id, _)| DropReason::Program(id));
        engine.or_else(port).or_else(program)
    }

    /// Iterates over the program's reasons, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ReasonId, &str)> {
        self.names.iter().flat_map(|names| names.iter()).map(|(id, name)| (ReasonId(*id), name.as_str()))
    }

    fn program_name(&self, id: ReasonId) -> Cow<'_, str> {
        match self.get(id) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("program_reason_{}", id.0)),
        }
    }
}

/// Checks that a program's reason has the form of a metric's label (a lower-case letter, then
/// letters, digits and underscores) and no name that an engine, a port or the CPU's numbered
/// reasons use.
fn check_name(name: &str) -> Result<(), ReasonTableError> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_with_letter = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !starts_with_letter || name.len() > MAX_REASON_NAME || !name.bytes().all(is_allowed) {
        return Err(ReasonTableError::BadName { name: name.to_owned() });
    }
    let is_taken = EngineReason::from_name(name).is_some()
        || PortReason::from_name(name).is_some()
        || name == "cpu_port"
        || name.starts_with("program_reason_");
    if is_taken {
        return Err(ReasonTableError::DuplicateName { name: name.to_owned() });
    }
    Ok(())
}
