//! Requests and responses of the control socket.

use crate::config::TierLink;
use crate::explain::{HypotheticalTrace, TracePart, TraceRequest, TraceResponse};
use crate::nat::{NatAddressReport, NatStatus};
use crate::region::{RegionChanges, RegionDifference, RegionStatus};
use crate::services::ServiceStatus;
use crate::sessions::{SessionRow, SessionSelection};
use crate::status::{
    ControllersStatus, CounterCell, DropRow, EntryRow, NodeVersion, PortStatus, StageStatus, TableStatus, WorkerStatus,
};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// Version of this protocol, by which a client and a node detect that they differ.
pub const VERSION: u32 = 1;

/// A client's request. It has a single response unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Identity of the node and its program.
    Version,
    /// The tables of the program.
    Tables,
    /// The entries of a table: several [`ControlResponse::Entries`], then [`ControlResponse::End`].
    Entries(EntriesRequest),
    /// Sessions: several [`ControlResponse::Sessions`], then [`ControlResponse::End`] with the number
    /// of all that match.
    Sessions {
        /// The conditions.
        selection: SessionSelection,
        /// Maximum number of sessions that are sent; 0: they are counted only.
        limit: u64,
    },
    /// Deletes sessions: [`ControlResponse::SessionsDeleted`] from time to time, then
    /// [`ControlResponse::End`] with their number. A client that closes the connection stops the
    /// deletion.
    DeleteSessions {
        /// The conditions; without one, all sessions.
        selection: SessionSelection,
    },
    /// The NATs of the region: [`ControlResponse::Nat`].
    Nat {
        /// Number of machines that are listed, those with most ports in use.
        top: usize,
    },
    /// Which machine has a public address or port, or the ports of a machine: [`ControlResponse::NatAddress`].
    NatAddress {
        /// A public address, or that of a machine.
        address: IpAddr,
        /// A port of the public address; `None`: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// Name of the VPC of the machine; `None`: any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vpc: Option<String>,
    },
    /// The services of the region: [`ControlResponse::Services`].
    Services,
    /// The ports.
    Ports,
    /// The stages of the native code.
    Stages,
    /// Packets dropped and sent to the controller, by reason.
    Drops,
    /// The workers.
    Workers,
    /// Controllers and their requests.
    Controllers,
    /// Resets the shown statistics to 0; metrics continue.
    ResetCounters,
    /// Traces passing packets with verdicts and explanations: [`ControlResponse::Trace`] until the
    /// trace ends. A client ends it by closing the connection.
    Trace(TraceRequest),
    /// Explains a hypothetical packet.
    Explain {
        /// Ingress port.
        port: u32,
        /// Bytes as hex digits.
        hex: String,
        /// The tier in another process that sends the packet, with its bridge header. The port to
        /// that tier then replaces `port`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<TierLink>,
        /// Whether to add the part of the packet's path that a flow cache would store.
        #[serde(default)]
        offload: bool,
    },
    /// The non-zero counters of the program: several [`ControlResponse::Counters`], then
    /// [`ControlResponse::End`].
    Counters,
    /// Reads the region file again, or changes to another file, and writes the changes.
    RegionApply {
        /// Absolute path of the file, because the working directories of client and node differ;
        /// `None`: the file in force.
        file: Option<PathBuf>,
    },
    /// Returns the changes that [`ControlRequest::RegionApply`] would make.
    RegionDiff {
        /// Absolute path of the file; `None`: the file in force.
        file: Option<PathBuf>,
    },
    /// The region in force.
    Region,
    /// This process's part of the traces of packets with a trace id from another process.
    TraceRecords {
        /// The trace id.
        trace_id: u16,
    },
}

/// Selection of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesRequest {
    /// The table: its name, or a unique suffix of the name after a dot.
    pub table: String,
    /// Selects only entries whose text contains this string.
    pub filter: Option<String>,
    /// Maximum number of entries.
    pub limit: u64,
}

/// A node's response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum ControlResponse {
    /// Response to [`ControlRequest::Version`].
    Version(NodeVersion),
    /// Response to [`ControlRequest::Tables`].
    Tables {
        /// Tables in the program's order.
        tables: Vec<TableStatus>,
    },
    /// A chunk of the requested entries.
    Entries {
        /// At most a few hundred entries.
        entries: Vec<EntryRow>,
    },
    /// A chunk of the requested sessions.
    Sessions {
        /// At most a few hundred sessions.
        sessions: Vec<SessionRow>,
    },
    /// Progress of a deletion.
    SessionsDeleted {
        /// Sessions that have been deleted so far.
        deleted: u64,
    },
    /// Response to [`ControlRequest::Nat`].
    Nat(NatStatus),
    /// Response to [`ControlRequest::NatAddress`].
    NatAddress(NatAddressReport),
    /// Response to [`ControlRequest::Services`].
    Services(ServiceStatus),
    /// Response to [`ControlRequest::Ports`].
    Ports {
        /// Ports by number.
        ports: Vec<PortStatus>,
    },
    /// Response to [`ControlRequest::Stages`].
    Stages {
        /// Stages in execution order.
        stages: Vec<StageStatus>,
        /// Why there is no native code and thus no stage; `None` if there is.
        interpreted: Option<String>,
    },
    /// Response to [`ControlRequest::Drops`].
    Drops {
        /// Packets by reason.
        drops: Vec<DropRow>,
    },
    /// Response to [`ControlRequest::Workers`].
    Workers {
        /// Workers by number.
        workers: Vec<WorkerStatus>,
    },
    /// Response to [`ControlRequest::Controllers`].
    Controllers(ControllersStatus),
    /// Response to [`ControlRequest::ResetCounters`].
    CountersReset,
    /// A chunk of the requested counters.
    Counters {
        /// At most a few hundred counters.
        counters: Vec<CounterCell>,
    },
    /// Response to [`ControlRequest::RegionApply`].
    RegionApplied(RegionChanges),
    /// Response to [`ControlRequest::RegionDiff`].
    RegionDiffers(RegionDifference),
    /// Response to [`ControlRequest::Region`].
    Region(RegionStatus),
    /// A response to [`ControlRequest::Trace`]; several follow each other.
    Trace(TraceResponse),
    /// Response to [`ControlRequest::Explain`].
    Explained(Box<HypotheticalTrace>),
    /// Response to [`ControlRequest::TraceRecords`].
    TraceRecords {
        /// Identifies the clock of the times.
        machine: String,
        /// The parts of the traces, the oldest first.
        parts: Vec<TracePart>,
    },
    /// End of the chunks.
    End {
        /// Total number of elements that match the request.
        matching: u64,
    },
    /// The request was refused.
    Refused {
        /// Reason and fix.
        message: String,
    },
}
