//! What a program asks of a chip: its tables with their sizes, the order that they must keep, and what the packet carries.
//!
//! Nothing here knows a chip: the same [`Program`] is placed on any [`crate::target::Target`].

mod alias;
mod edges;
mod error;
mod extract;
mod fields;
mod graph;
mod leaves;
mod nodes;
mod parser;
mod pivots;
mod regions;
mod state;
mod table;

pub use error::DemandError;

use ir::TableId;
use serde::{Deserialize, Serialize};

/// How a table is matched, as memories see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// No key: the default action alone.
    None,
    /// All keys equal: hash ways in SRAM.
    Exact,
    /// Some key under a mask, or a prefix that is kept as a mask: TCAM. A range key is turned into prefixes, or nibbles where the chip does that.
    Ternary,
    /// Algorithmic TCAM: an exact `partition` number, found by pivots in an earlier table, and the rest of the key under masks in SRAM, at most
    /// `depth` entries a partition.
    Partitioned {
        /// Number of partitions.
        partitions: u64,
        /// Entries that one partition can hold.
        depth: u32,
    },
    /// ALPM as a chip's compiler offers it for one table: pivots in TCAM and a [`Match::Partitioned`] table, made from an lpm table.
    Alpm {
        /// Number of partitions.
        partitions: u64,
    },
}

/// A key of a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Name in the program (`hdr.inner_ipv4.destination`).
    pub name: String,
    /// Width in bits.
    pub bits: u32,
    /// Whether this key is matched exactly, also in a ternary table.
    pub exact: bool,
    /// Whether it is a range.
    #[serde(default)]
    pub range: bool,
}

/// An action of a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Action {
    /// Control-plane name.
    pub name: String,
    /// Width in bits of each parameter: the action data of an entry.
    pub params: Vec<u32>,
    /// Whether it is the default action only: its data is in no entry.
    pub default_only: bool,
}

/// State that is attached to a table's entries, or indexed by the program beside a table.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Attached {
    /// Control-plane name.
    pub name: String,
    /// What it is.
    pub kind: AttachedKind,
    /// One for each entry of the table, or so many in a row.
    pub size: Option<u64>,
    /// Width in bits of one element: of a counter its packets and bytes, of a register its value.
    pub bits: u32,
}

/// The kinds of [`Attached`] state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachedKind {
    /// Counts packets, bytes or both.
    Counter,
    /// RFC 2698 meter.
    Meter,
    /// Register.
    Register,
    /// Idle times.
    Idle,
}

/// A table as a chip sees it.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Table {
    /// Control-plane name.
    pub name: String,
    /// The table of the pipeline that it comes from; none for one that the chip needs by itself.
    #[serde(skip)]
    pub id: Option<TableId>,
    /// How it is matched.
    pub kind: Match,
    /// Its keys in order.
    pub keys: Vec<Key>,
    /// Entries that it must hold.
    pub entries: u64,
    /// Its actions.
    pub actions: Vec<Action>,
    /// What is attached to it.
    pub attached: Vec<Attached>,
}

impl Table {
    /// Width in bits of all keys.
    pub fn key_bits(&self) -> u32 {
        self.keys.iter().map(|k| k.bits).sum()
    }

    /// Whether there is an entry for each value of its key, and one action: the key is the place of its data, and is not compared.
    pub fn is_by_key(&self) -> bool {
        let all = || 1u64.checked_shl(self.key_bits()) == Some(self.entries);
        self.kind == Match::Exact && self.actions.len() == 1 && all()
    }

    /// Width in bits of the action data of an entry: that of the action with most.
    pub fn data_bits(&self) -> u32 {
        let of = |a: &Action| a.params.iter().sum();
        self.actions.iter().filter(|a| !a.default_only).map(of).max().unwrap_or(0)
    }
}

/// Why one table must come after another (or beside it).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// The second one's action overwrites what the first one's key or action reads: it must not be in an earlier stage.
    Reverse,
    /// Whether the second one is applied is decided by the first one: same stage or later, where the chip runs ahead and takes back.
    Control,
    /// Both actions write the same field: a later stage.
    Action,
    /// The second one's key, or the condition before it, reads what the first one's action writes: a later stage.
    Match,
}

impl DependencyKind {
    /// Stages that the second table must be behind the first.
    pub fn distance(self) -> u32 {
        u32::from(matches!(self, DependencyKind::Action | DependencyKind::Match))
    }
}

/// That one table depends on another.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// Index in [`Program::tables`] of the table that comes first.
    pub first: usize,
    /// Index of the table that depends on it.
    pub second: usize,
    /// Why.
    pub kind: DependencyKind,
    /// The field, or the condition, through which.
    pub through: String,
}

/// A field that the packet carries through the stages: a header's, or metadata.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Dotted name in the program.
    pub name: String,
    /// Width in bits.
    pub bits: u32,
    /// Name of the header that it is in; none for metadata.
    pub header: Option<String>,
    /// Whether some table, condition or action reads or writes it: if not, containers that only carry it to the deparser serve.
    pub used: bool,
    /// Whether it has a value when the packet comes from the parser: extracted, set there, or the architecture's own.
    #[serde(default)]
    pub parsed: bool,
    /// Whether the deparser, or the architecture behind it, reads it.
    #[serde(default)]
    pub emitted: bool,
    /// Tables (indices in [`Program::tables`]) whose actions write it.
    #[serde(default)]
    pub written: Vec<usize>,
    /// Tables (indices) whose keys, conditions or actions read it.
    #[serde(default)]
    pub read: Vec<usize>,
}

impl Field {
    /// Whether it says if a header is valid.
    pub fn is_validity(&self) -> bool {
        self.header.is_none() && self.name.ends_with(".isValid()")
    }
}

/// What a program asks of a chip. Besides the program's tables there is one without keys for each stretch of code between tables that a
/// chip does in one step: it takes a logical table and an instruction there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// The program's name.
    pub name: String,
    /// Its tables in an order in which a packet can meet them.
    pub tables: Vec<Table>,
    /// What depends on what. Pairs that follow from others may be left out.
    pub dependencies: Vec<Dependency>,
    /// Pairs of tables (indices) of which a packet meets one at most: they may share what is decided at run time.
    pub exclusive: Vec<(usize, usize)>,
    /// Conditions that the chip's gateways decide: for each table, the widths in bits of what is compared before it.
    pub gateways: Vec<Gateway>,
    /// What the packet carries.
    pub fields: Vec<Field>,
    /// States of the parser with the number of bits that each extracts.
    pub parser: Vec<ParserState>,
    /// Tables (indices) that the program has behind the architecture's traffic manager: v1model's egress.
    #[serde(default)]
    pub egress: Vec<usize>,
    /// Tables (indices) whose actions decide where the packet goes: a chip needs that before it queues the packet for the last time.
    #[serde(default)]
    pub ports: Vec<usize>,
    /// Steps of code (indices) that the placement may have before some of the conditions over them, as on the other way nobody reads or
    /// writes what they write. P4 for the chip has to have them there, too.
    #[serde(default)]
    pub early: Vec<usize>,
    /// What a chip does otherwise than the program says, or cannot do: a sentence each, with names from the program.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A condition before a table, or in place of one.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Gateway {
    /// The table whose application it decides; none for one that decides actions alone.
    pub table: Option<usize>,
    /// The condition as text.
    pub condition: String,
    /// Bits that it reads.
    pub bits: u32,
}

/// A parser state.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct ParserState {
    /// Name.
    pub name: String,
    /// Bits that it extracts.
    pub extracts: u32,
    /// Bits that it selects by.
    pub selects: u32,
    /// Its cases with the default.
    pub cases: u32,
    /// States (indices) that it goes on to.
    pub next: Vec<usize>,
}
