//! Why a packet was dropped or went to the CPU.
//!
//! There are three families. **Engine** reasons are those that every program can meet (a parser error, a group that does not
//! exist). **Port** reasons are those of receiving and sending. **Program** reasons are declared by the P4 program, which gives each a
//! number and a name; packets carry the number, and a [`ReasonTable`] has the names. A name is the same in metrics,
//! traces and the command line, and the names of the first two families never change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Declares a family of reasons from one list, so that names, order and `ALL` cannot drift apart.
macro_rules! reasons {
    ($(#[$doc:meta])* $family:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $family {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $family {
            /// All of them, in order of declaration.
            pub const ALL: &[$family] = &[$($family::$variant,)*];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($family::$variant => $name,)*
                }
            }

            /// The reason of this name.
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
    /// Why an engine dropped a packet, whatever the program.
    ///
    /// The parser reasons are the errors of P4's core library (P4-16 specification v1.2.5, appendix on `core.p4`, `error`). An architecture that lets a
    /// packet go on after a parser error (v1model, PNA) does not use them unless the program rejects.
    EngineReason {
        /// `PacketTooShort`: the packet ended before all of a header had been extracted.
        ParserPacketTooShort = "parser_packet_too_short",
        /// `NoMatch`: no case of a `select` matched.
        ParserNoMatch = "parser_no_match",
        /// `StackOutOfBounds`: an index outside a header stack.
        ParserStackOutOfBounds = "parser_stack_out_of_bounds",
        /// `HeaderTooShort`: more bits for a varbit field than it can hold.
        ParserHeaderTooShort = "parser_header_too_short",
        /// `ParserTimeout`: the parser made more steps than it may.
        ParserTimeout = "parser_timeout",
        /// `ParserInvalidArgument`: an operation of the parser got an impossible size.
        ParserInvalidArgument = "parser_invalid_argument",
        /// An error that the program itself declares, or `NoError`, led to `reject`.
        ParserReject = "parser_reject",
        /// The program dropped the packet (`mark_to_drop`, `drop_packet`) and declares no reason.
        ProgramDrop = "program_drop",
        /// The program ended without saying where the packet goes.
        NoDestination = "no_destination",
        /// The program sent it to a port that the node does not have.
        UnknownPort = "unknown_port",
        /// A multicast group that does not exist or has no members.
        UnknownMulticastGroup = "unknown_multicast_group",
        /// A clone or mirror session that does not exist.
        UnknownCloneSession = "unknown_clone_session",
        /// Recirculated or resubmitted more often than allowed.
        RecirculationLimit = "recirculation_limit",
        /// More copies of one batch than allowed.
        ReplicationLimit = "replication_limit",
        /// The program ran more steps than it may.
        StepLimit = "step_limit",
        /// With its new headers the packet would be longer than [`crate::MAX_LEN`].
        PacketTooLong = "packet_too_long",
        /// Too short to be an Ethernet frame.
        Runt = "runt",
        /// An `assert` of the program failed.
        AssertFailed = "assert_failed",
        /// Nothing was cached for the packet, and its tenant had used up its share of the slow path.
        SlowPathShare = "slow_path_share",
        /// It came from a port that leads to no other tier, with a bridge header and the tiers' own key: somebody made it up.
        ForgedBridge = "forged_bridge",
        /// It came from a port that leads to another tier, without a bridge header, or with another key: that tier has another plan, or somebody else sends there.
        NotBridged = "not_bridged",
        /// No packet: the answer of a tier that was asked whether it is there.
        TierAnswer = "tier_answer",
        /// It was to go to the tier below, and nothing of that is there.
        TierDown = "tier_down",
        /// The node has no program yet.
        NoProgram = "no_program",
        /// The engine contradicted itself: always a bug.
        EngineFault = "engine_fault",
    }
}

reasons! {
    /// Why a packet was lost at a port: on receiving (`rx_`) or on sending (`tx_`).
    PortReason {
        /// Longer than the receive buffer, or than [`crate::MAX_LEN`].
        RxOversize = "rx_oversize",
        /// The kernel handed over several segments as one packet (GSO/GRO): turn off segmentation offload at the sending device.
        RxSegmentationOffload = "rx_segmentation_offload",
        /// The checksum was left to the hardware, and the place that was given for it lies outside the packet.
        RxBadChecksumOffload = "rx_bad_checksum_offload",
        /// Not received because the receive queue was full.
        RxQueueFull = "rx_queue_full",
        /// Not received because no buffer was free: packets are held elsewhere, or the pool of buffers is too small.
        RxNoBuffer = "rx_no_buffer",
        /// Came in several segments (a chain of buffers) that do not fit into one packet.
        RxSegments = "rx_segments",
        /// Came on a receive queue that has no socket of this process, and went to the kernel's own stack.
        RxNoSocket = "rx_no_socket",
        /// Receiving failed otherwise.
        RxError = "rx_error",
        /// Longer than the port's MTU allows.
        TxMtu = "tx_mtu",
        /// Shorter than an Ethernet header.
        TxRunt = "tx_runt",
        /// The transmit queue was full.
        TxQueueFull = "tx_queue_full",
        /// No buffer was free for a packet that has to be copied to be sent.
        TxNoBuffer = "tx_no_buffer",
        /// The port is down, or its other end is gone.
        TxPortDown = "tx_port_down",
        /// The kernel's flow cache sent it, and the device took none: the far end of a veth pair has neither an XDP program nor receive offload, or the driver has no
        /// sending for XDP programs.
        TxXdpRefused = "tx_xdp_refused",
        /// Sending failed otherwise.
        TxError = "tx_error",
        /// Dropped on purpose by a fault injector.
        FaultInjected = "fault_injected",
        /// For the CPU, but no one there takes packets, or its queue is full.
        CpuQueueFull = "cpu_queue_full",
    }
}

impl PortReason {
    /// Whether the packet was lost before an engine was given it.
    pub fn is_before_engine(self) -> bool {
        self.name().starts_with("rx_")
    }
}

/// The number that a program gives to a reason it declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReasonId(pub u32);

/// Why a packet was dropped. The name is had from [`ReasonTable::drop_name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// Every program can meet it.
    Engine(EngineReason),
    /// Lost at a port.
    Port(PortReason),
    /// Declared by the program.
    Program(ReasonId),
}

impl DropReason {
    /// Whether the packet was lost before an engine was given it.
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

/// The name, or `program_reason_N` for a program's reason: only its [`ReasonTable`] knows that name.
impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ReasonTable::EMPTY.drop_name(*self))
    }
}

/// Why a packet goes to the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CpuReason {
    /// The program sent it to the CPU port without saying why. Named `cpu_port`.
    #[default]
    CpuPort,
    /// Declared by the program.
    Program(ReasonId),
}

/// The longest name of a reason, in bytes.
pub const MAX_REASON_NAME: usize = 64;

/// What is wrong with a program's declaration of a reason.
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
    /// A name that would not do as a metric label.
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
    /// No reasons declared.
    pub const EMPTY: ReasonTable = ReasonTable { names: None };

    /// A table of `(number, name)`. Refuses numbers and names that occur twice, and names that engines or ports use.
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

    /// The name that the program gave to `id`.
    pub fn get(&self, id: ReasonId) -> Option<&str> {
        self.names.as_ref()?.get(&id.0).map(String::as_str)
    }

    /// The name of a drop reason; `program_reason_N` for a number that the program did not declare.
    pub fn drop_name(&self, reason: DropReason) -> Cow<'_, str> {
        match reason {
            DropReason::Engine(reason) => Cow::Borrowed(reason.name()),
            DropReason::Port(reason) => Cow::Borrowed(reason.name()),
            DropReason::Program(id) => self.program_name(id),
        }
    }

    /// The name of the reason for which a packet goes to the CPU.
    pub fn cpu_name(&self, reason: CpuReason) -> Cow<'_, str> {
        match reason {
            CpuReason::CpuPort => Cow::Borrowed("cpu_port"),
            CpuReason::Program(id) => self.program_name(id),
        }
    }

    /// The drop reason of this name, of any family.
    pub fn find(&self, name: &str) -> Option<DropReason> {
        let engine = EngineReason::from_name(name).map(DropReason::Engine);
        let port = || PortReason::from_name(name).map(DropReason::Port);
        let program = || self.iter().find(|(_, declared)| *declared == name).map(|(id, _)| DropReason::Program(id));
        engine.or_else(port).or_else(program)
    }

    /// The program's reasons, by number.
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

fn check_name(name: &str) -> Result<(), ReasonTableError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_well = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !starts_well || name.len() > MAX_REASON_NAME || !name.bytes().all(allowed) {
        return Err(ReasonTableError::BadName { name: name.to_owned() });
    }
    let taken = EngineReason::from_name(name).is_some()
        || PortReason::from_name(name).is_some()
        || name == "cpu_port"
        || name.starts_with("program_reason_");
    if taken {
        return Err(ReasonTableError::DuplicateName { name: name.to_owned() });
    }
    Ok(())
}
