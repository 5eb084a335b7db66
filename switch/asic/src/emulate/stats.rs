//! Statistics of the emulated switch, and violations of a placement.

use ir::{Entity, Pipeline, TableId};
use packet::Counter;
use std::collections::BTreeMap;

/// An operation of the placement that the chip cannot perform. The packet is dropped as
/// `engine_bug`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum SwitchViolation {
    /// A packet needs a table twice in one pass.
    Twice {
        /// The table.
        table: TableId,
        /// The pass.
        pass: u32,
    },
    /// A table's key is computed in the table's own stage or later.
    Key {
        /// The table.
        table: TableId,
        /// Pass of the table.
        pass: u32,
        /// Stage of the table.
        stage: u32,
        /// Stage that computes the key.
        made: u32,
    },
    /// The condition of a table is known too late.
    Condition {
        /// The table.
        table: TableId,
        /// Pass of the table.
        pass: u32,
        /// Stage of the table.
        stage: u32,
        /// First possible stage.
        need: u32,
    },
    /// Two split tables send a packet to different parallel pipes.
    Pipe {
        /// The second table.
        table: TableId,
        /// The pass.
        pass: u32,
        /// Pipe that the table selects.
        pipe: u32,
        /// Pipe that the packet is in.
        packet: u32,
    },
    /// The counter, meter or idle time of an entry is used after the table's pass.
    State {
        /// The table.
        table: TableId,
        /// Pass of the packet.
        packet: u32,
    },
    /// The original packet is used after the first pass.
    Original,
}

impl SwitchViolation {
    /// Describes the violation in a sentence, with names from the program.
    pub fn describe(&self, pipeline: &Pipeline) -> String {
        let name = |table: &TableId| pipeline.tables.get(*table).map_or("?", |table| table.preamble.name.as_str());
        match self {
            SwitchViolation::Twice { table, pass } => format!("table {} is applied twice in pass {pass}", name(table)),
            SwitchViolation::Key { table, pass, stage, made } => format!(
                "table {} is in pass {pass}, stage {stage}, but its key is made by an action in stage {made}: place it in stage {} or later",
                name(table),
                made + 1
            ),
            SwitchViolation::Condition { table, pass, stage, need } => format!(
                "table {} is in pass {pass}, stage {stage}, but its condition is known only from stage {need}",
                name(table)
            ),
            SwitchViolation::Pipe { table, pass, pipe, packet } => format!(
                "table {} sends a packet to parallel pipe {pipe}, but in pass {pass} it is in pipe {packet}: split all tables of a pass alike",
                name(table)
            ),
            SwitchViolation::State { table, packet } => {
                format!("state of an entry of table {} is used in pass {packet}, where the table is not", name(table))
            }
            SwitchViolation::Original => {
                "the original packet is resubmitted or copied, but it has left the first pass, after which the chip does not store it".to_owned()
            }
        }
    }

    /// Returns the index of the table concerned.
    pub fn table_index(&self) -> Option<usize> {
        match self {
            SwitchViolation::Twice { table, .. }
            | SwitchViolation::Key { table, .. }
            | SwitchViolation::Condition { table, .. }
            | SwitchViolation::Pipe { table, .. }
            | SwitchViolation::State { table, .. } => Some(table.index()),
            SwitchViolation::Original => None,
        }
    }
}

/// Statistics of the switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwitchStats {
    /// Received packets.
    pub received: Counter,
    /// Packets sent to ports or to the CPU.
    pub sent: Counter,
    /// Dropped packets and copies.
    pub dropped: u64,
    /// Packets into each pass, bridge headers included.
    pub passes: Vec<Counter>,
    /// Crossings from each pass into the next.
    pub crossings: Vec<CrossingStats>,
    /// Packets with a port decided only in the last egress. A chip recirculates them.
    pub late_ports: u64,
    /// Lookups in parts of tables.
    pub lookups: u64,
    /// Violations of the placement, with their numbers of packets.
    pub violations: BTreeMap<SwitchViolation, u64>,
}

/// Packets and bridge header bits of a crossing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CrossingStats {
    /// Packets.
    pub packets: u64,
    /// Bits of bridge headers, in whole bytes per packet.
    pub bits: u64,
}
