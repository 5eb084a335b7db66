//! Resource demand of a program: its tables with their sizes, the dependencies between them, and
//! the fields in the PHV.
//!
//! The demand is independent of the chip, so one [`ResourceDemand`] can be placed on any
//! [`crate::target::ChipTarget`].

mod action_steps;
mod coalescing;
mod edges;
mod error;
mod extract;
mod fields;
mod graph;
mod leaves;
mod nodes;
mod parser;
mod pivots;
mod state;
mod table;

pub use error::DemandError;

use ir::TableId;
use serde::{Deserialize, Serialize};

/// Match type of a table, as memories see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryMatchKind {
    /// No key. Only the default action.
    None,
    /// All keys exact: hash ways in SRAM.
    Exact,
    /// Some key under a mask, or a prefix that is stored as a mask: TCAM. A range key is expanded
    /// to prefixes, or to nibbles where the chip does that.
    Ternary,
    /// Algorithmic TCAM: an exact `partition` number, found by pivots in an earlier table, and the
    /// remaining key under masks in SRAM, at most `depth` entries per partition.
    Partitioned {
        /// Number of partitions.
        partitions: u64,
        /// Entries that one partition can hold.
        depth: u32,
    },
    /// ALPM as a chip's compiler offers it for one lpm table: pivots in TCAM and a
    /// [`MemoryMatchKind::Partitioned`] table.
    Alpm {
        /// Number of partitions.
        partitions: u64,
    },
}

/// Key element of a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct KeyDemand {
    /// Name in the program (`hdr.inner_ipv4.destination`).
    pub name: String,
    /// Width in bits.
    pub bits: u32,
    /// Whether this element is matched exactly, also in a ternary table.
    pub exact: bool,
    /// Whether this element is a range.
    #[serde(default)]
    pub range: bool,
}

/// Action of a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct ActionDemand {
    /// Control-plane name.
    pub name: String,
    /// Width in bits of each parameter, stored as action data of an entry.
    pub params: Vec<u32>,
    /// Whether it is only the default action, so that no entry stores its data.
    pub default_only: bool,
}

/// State attached to a table's entries, or indexed by the program next to a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct AttachedState {
    /// Control-plane name.
    pub name: String,
    /// Kind of state.
    pub kind: AttachedKind,
    /// Number of indexed elements. `None`: one element per entry of the table.
    pub size: Option<u64>,
    /// Width in bits of one element: packets and bytes of a counter, value of a register.
    pub bits: u32,
}

/// Kinds of [`AttachedState`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachedKind {
    /// Counter of packets, bytes or both.
    Counter,
    /// RFC 2698 meter.
    Meter,
    /// Register.
    Register,
    /// Idle times.
    Idle,
}

/// Resource demand of a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct TableDemand {
    /// Control-plane name.
    pub name: String,
    /// The table of the pipeline. `None` for a table that only the chip needs.
    #[serde(skip)]
    pub id: Option<TableId>,
    /// Match type.
    pub kind: MemoryMatchKind,
    /// Key elements in order.
    pub keys: Vec<KeyDemand>,
    /// Required number of entries.
    pub entries: u64,
    /// Actions.
    pub actions: Vec<ActionDemand>,
    /// Attached state.
    pub attached: Vec<AttachedState>,
}

impl TableDemand {
    /// Returns the width of all key elements in bits.
    pub fn key_bits(&self) -> u32 {
        self.keys.iter().map(|k| k.bits).sum()
    }

    /// Returns whether the table has an entry for every key value and one action. The key then
    /// addresses the data and is not compared.
    pub fn is_key_addressed(&self) -> bool {
        let all = || 1u64.checked_shl(self.key_bits()) == Some(self.entries);
        self.kind == MemoryMatchKind::Exact && self.actions.len() == 1 && all()
    }

    /// Returns the width in bits of an entry's action data, the maximum over its actions.
    pub fn data_bits(&self) -> u32 {
        let of = |a: &ActionDemand| a.params.iter().sum();
        self.actions.iter().filter(|a| !a.default_only).map(of).max().unwrap_or(0)
    }
}

/// Kind of dependency between two tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// The second action overwrites a field that the first key or action reads. The second table
    /// must not be in an earlier stage.
    Reverse,
    /// The first table decides whether the second one is applied. Same stage or later, where the
    /// chip predicates speculatively.
    Control,
    /// Both actions write the same field. The second table must be in a later stage.
    Action,
    /// The second key, or the condition before it, reads a field that the first action writes. The
    /// second table must be in a later stage.
    Match,
}

impl DependencyKind {
    /// Returns the minimum number of stages between the first table and the second.
    pub fn min_stage_distance(self) -> u32 {
        u32::from(matches!(self, DependencyKind::Action | DependencyKind::Match))
    }
}

/// Dependency of one table on another.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// Index in [`ResourceDemand::tables`] of the table that comes first.
    pub first: usize,
    /// Index of the dependent table.
    pub second: usize,
    /// Kind of dependency.
    pub kind: DependencyKind,
    /// Name of the field or condition that causes it.
    pub through: String,
}

/// Header or metadata field in the PHV.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct PhvField {
    /// Dotted name in the program.
    pub name: String,
    /// Width in bits.
    pub bits: u32,
    /// Name of its header. `None` for metadata.
    pub header: Option<String>,
    /// Whether a table, condition or action accesses it. If not, carry-only containers suffice.
    pub used: bool,
    /// Whether it has a value after the parser: extracted, set there, or intrinsic.
    #[serde(default)]
    pub parsed: bool,
    /// Whether the deparser, or the architecture after it, reads it.
    #[serde(default)]
    pub emitted: bool,
    /// Tables (indices in [`ResourceDemand::tables`]) with actions that write it.
    #[serde(default)]
    pub written: Vec<usize>,
    /// Tables (indices) with keys, conditions or actions that read it.
    #[serde(default)]
    pub read: Vec<usize>,
}

impl PhvField {
    /// Returns whether it is the validity of a header.
    pub fn is_validity(&self) -> bool {
        self.header.is_none() && self.name.ends_with(".isValid()")
    }
}

/// Resource demand of a program. Besides the program's tables it has a table without keys for each
/// code step between tables that a chip runs at once, because such a step takes a logical table and
/// an instruction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ResourceDemand {
    /// Name of the program.
    pub name: String,
    /// Tables in an order in which a packet can meet them.
    pub tables: Vec<TableDemand>,
    /// Dependencies. Redundant pairs can be missing.
    pub dependencies: Vec<Dependency>,
    /// Pairs of tables (indices) of which a packet meets at most one. They can share resources that
    /// are decided at run time.
    pub exclusive: Vec<(usize, usize)>,
    /// Conditions that the chip's gateways decide.
    pub gateways: Vec<GatewayDemand>,
    /// Fields in the PHV.
    pub fields: Vec<PhvField>,
    /// Parser states.
    pub parser: Vec<ParserStateDemand>,
    /// Tables (indices) after the architecture's traffic manager: v1model's egress.
    #[serde(default)]
    pub egress: Vec<usize>,
    /// Tables (indices) with actions that decide the output port. A chip needs the port before it
    /// queues the packet for the last time.
    #[serde(default)]
    pub ports: Vec<usize>,
    /// Code steps (indices) that the placement can move before some of the conditions over them,
    /// because no other path accesses their writes. P4 for the chip must move them as well.
    #[serde(default)]
    pub early: Vec<usize>,
    /// Deviations and limitations of a chip for this program, one sentence each, with names from
    /// the program.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Condition before a table, or without a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct GatewayDemand {
    /// Table that it guards. `None` if it only decides actions.
    pub table: Option<usize>,
    /// Text of the condition.
    pub condition: String,
    /// Number of bits that it reads.
    pub bits: u32,
}

/// Parser state.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct ParserStateDemand {
    /// Name.
    pub name: String,
    /// Bits that it extracts.
    pub extracts: u32,
    /// Bits that it selects on.
    pub selects: u32,
    /// Number of cases, including the default.
    pub cases: u32,
    /// Successors (indices).
    pub next: Vec<usize>,
}
