//! What the emulated switch counts, and what it finds wrong with a placement.

use ir::{Entity, Pipeline, TableId};
use packet::Counter;
use std::collections::BTreeMap;

/// Something that the chip cannot do although the placement asks for it. The packet is dropped as `engine_fault`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Violation {
    /// A packet needs a table twice in a pass.
    Twice {
        /// The table.
        table: TableId,
        /// The pass.
        pass: u32,
    },
    /// A table's key is made in its own stage, or a later one.
    Key {
        /// The table.
        table: TableId,
        /// Its pass.
        pass: u32,
        /// Its stage.
        stage: u32,
        /// The stage in which the key is made.
        made: u32,
    },
    /// What decides whether a table is applied is known too late.
    Condition {
        /// The table.
        table: TableId,
        /// Its pass.
        pass: u32,
        /// Its stage.
        stage: u32,
        /// The first stage in which it could be applied.
        need: u32,
    },
    /// Two tables split between parallel pipes send a packet to different ones.
    Pipe {
        /// The second table.
        table: TableId,
        /// The pass.
        pass: u32,
        /// The pipe that it asks for.
        pipe: u32,
        /// The pipe in which the packet is.
        packet: u32,
    },
    /// The counter, meter or time of a table's entry is used behind the pass of the table.
    State {
        /// The table.
        table: TableId,
        /// The packet's pass.
        packet: u32,
    },
    /// The packet as it came in is asked for behind the first pass.
    Original,
}

impl Violation {
    /// A sentence with names from the program.
    pub fn describe(&self, pipeline: &Pipeline) -> String {
        let name = |table: &TableId| pipeline.tables.get(*table).map_or("?", |table| table.preamble.name.as_str());
        match self {
            Violation::Twice { table, pass } => format!("table {} is applied twice in pass {pass}", name(table)),
            Violation::Key { table, pass, stage, made } => format!(
                "table {} is in pass {pass}, stage {stage}, but its key is made by an action in stage {made}: place it in stage {} or later",
                name(table),
                made + 1
            ),
            Violation::Condition { table, pass, stage, need } => format!(
                "table {} is in pass {pass}, stage {stage}, but whether it is applied is known from stage {need} on only",
                name(table)
            ),
            Violation::Pipe { table, pass, pipe, packet } => format!(
                "table {} sends a packet to parallel pipe {pipe}, but in pass {pass} it is in pipe {packet}: split all tables of a pass alike",
                name(table)
            ),
            Violation::State { table, packet } => {
                format!("state of an entry of table {} is used in pass {packet}, where the table is not", name(table))
            }
            Violation::Original => {
                "the packet as it came in is resubmitted or copied, but it has left the first pass: nothing has it any more".to_owned()
            }
        }
    }

    /// The table that it is about.
    pub fn table(&self) -> Option<usize> {
        match self {
            Violation::Twice { table, .. }
            | Violation::Key { table, .. }
            | Violation::Condition { table, .. }
            | Violation::Pipe { table, .. }
            | Violation::State { table, .. } => Some(table.index()),
            Violation::Original => None,
        }
    }
}

/// What the switch has done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// What was received.
    pub received: Counter,
    /// What left on ports, or for the CPU.
    pub sent: Counter,
    /// Verdicts that drop a packet or a copy.
    pub dropped: u64,
    /// What went into each pass, bridge headers included.
    pub passes: Vec<Counter>,
    /// Packets that went out of each pass into the next, and the bits of their bridge headers.
    pub crossings: Vec<Bridged>,
    /// Packets whose port became known only in the last egress: a chip takes them around once more.
    pub late_ports: u64,
    /// Lookups in parts of tables.
    pub lookups: u64,
    /// What the placement asked for, and no chip can do.
    pub violations: BTreeMap<Violation, u64>,
}

/// What was carried over a crossing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bridged {
    /// Packets.
    pub packets: u64,
    /// Bits of their bridge headers, whole bytes each.
    pub bits: u64,
}
