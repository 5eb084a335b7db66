//! Requests and answers.

use crate::config::Leads;
use crate::explain::{FollowedPart, TraceAnswer, TraceOf, WhatIf};
use crate::region::{Applied, Difference, RegionStatus};
use crate::status::{CounterCell, Dropped, EntryRow, Port, Sessions, Stage, Table, Version, Worker};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version of this protocol: a client and a node of different versions say so instead of misunderstanding each other.
pub const VERSION: u32 = 1;

/// What a client asks for. The answer is one line, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// Which node this is, and which program it runs.
    Version,
    /// The tables of the program.
    Tables,
    /// The entries of a table: as many [`Answer::Entries`] as it takes, then [`Answer::End`].
    Entries(EntriesOf),
    /// The ports.
    Ports,
    /// The stages of the native code.
    Stages,
    /// What was dropped, and what went to the controller, by reason.
    Drops,
    /// The workers.
    Workers,
    /// Controllers.
    Sessions,
    /// What is counted for the other requests begins at 0; metrics go on.
    Clear,
    /// Packets that pass, each with what became of it and why: [`Answer::Trace`] until it has ended. A client that closes its end ends it.
    Trace(TraceOf),
    /// What would become of a packet, and why.
    Explain {
        /// The port on which it would come in.
        port: u32,
        /// Its bytes as hex digits.
        hex: String,
        /// It comes from a tier in another process, with its bridge header; the port is the one that leads there then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Leads>,
        /// What of its way a flow cache keeps is said, too.
        #[serde(default)]
        offload: bool,
    },
    /// The counters of the program that have counted something: as many [`Answer::Counters`] as it takes, then [`Answer::End`].
    Counters,
    /// The region file is read again, or another one from now on, and what changed is written.
    RegionApply {
        /// The file, absolute, as the node's working directory is not the client's; without it, the one in force.
        file: Option<PathBuf>,
    },
    /// What [`Request::RegionApply`] would change.
    RegionDiff {
        /// As there.
        file: Option<PathBuf>,
    },
    /// The region that is in force.
    Region,
    /// What this process did with packets that another one has given this mark.
    Followed {
        /// The mark.
        mark: u16,
    },
}

/// Which entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesOf {
    /// The table: its name, or the end of it after a dot where only one ends like this.
    pub table: String,
    /// Only entries whose text has this in it.
    pub containing: Option<String>,
    /// So many at most.
    pub limit: u64,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Version`].
    Version(Version),
    /// To [`Request::Tables`].
    Tables {
        /// In the program's order.
        tables: Vec<Table>,
    },
    /// Some of the entries that were asked for.
    Entries {
        /// At most some hundreds.
        entries: Vec<EntryRow>,
    },
    /// To [`Request::Ports`].
    Ports {
        /// By number.
        ports: Vec<Port>,
    },
    /// To [`Request::Stages`].
    Stages {
        /// In their order.
        stages: Vec<Stage>,
        /// Why there are none: there is no native code.
        interpreted: Option<String>,
    },
    /// To [`Request::Drops`].
    Drops {
        /// By reason.
        drops: Vec<Dropped>,
    },
    /// To [`Request::Workers`].
    Workers {
        /// By number.
        workers: Vec<Worker>,
    },
    /// To [`Request::Sessions`].
    Sessions(Sessions),
    /// To [`Request::Clear`].
    Cleared,
    /// Some of the counters that were asked for.
    Counters {
        /// At most some hundreds.
        counters: Vec<CounterCell>,
    },
    /// To [`Request::RegionApply`].
    RegionApplied(Applied),
    /// To [`Request::RegionDiff`].
    RegionDiffers(Difference),
    /// To [`Request::Region`].
    Region(RegionStatus),
    /// To [`Request::Trace`]: one after the other.
    Trace(TraceAnswer),
    /// To [`Request::Explain`].
    Explained(Box<WhatIf>),
    /// To [`Request::Followed`].
    Followed {
        /// By which it is seen whose clock is whose.
        machine: String,
        /// The oldest first.
        parts: Vec<FollowedPart>,
    },
    /// Nothing more comes.
    End {
        /// How many there were in all, of those that were asked for.
        matching: u64,
    },
    /// It was refused.
    Refused {
        /// Why, and the mend.
        message: String,
    },
}
