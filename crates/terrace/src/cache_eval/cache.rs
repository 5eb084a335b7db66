//! What the evaluation asks of a cache.

use flowcache::{Kind, Stats};
use interp::Outputs;
use serde::Serialize;
use std::fmt;

/// The kind of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// All fields of the flow, one table.
    Exact,
    /// Whole traversals with wildcards, one table.
    Megaflow,
    /// Parts of traversals, in a chain of tables.
    SubTraversal,
    /// Whole or parts, by what pays.
    Adaptive,
}

impl CacheKind {
    /// The same with so many tables, if it is one that has several.
    pub fn of(self, tables: usize) -> Kind {
        match self {
            CacheKind::Exact => Kind::Exact,
            CacheKind::Megaflow => Kind::Megaflow,
            CacheKind::SubTraversal => Kind::SubTraversal { tables },
            CacheKind::Adaptive => Kind::Adaptive { tables },
        }
    }
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.of(1).to_string())
    }
}

/// A cache that is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize)]
pub struct Shape {
    /// Its kind.
    pub kind: CacheKind,
    /// Its tables; 1 for exact and megaflow.
    pub tables: usize,
    /// Entries that each table has room for.
    pub entries: usize,
}

impl Shape {
    /// A cache with room for `total` entries in all tables together; `tables` counts for those that have several.
    pub fn with_total(kind: CacheKind, tables: usize, total: usize) -> Shape {
        let tables = kind.of(tables).tables();
        Shape { kind, tables, entries: (total / tables).max(1) }
    }

    /// Entries that all tables have room for.
    pub fn total(&self) -> usize {
        self.tables * self.entries
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}x{}", self.kind, self.tables, self.entries))
    }
}

/// What a table of a cache holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Fill {
    /// Entries.
    pub entries: usize,
    /// Different masks among them.
    pub masks: usize,
}

/// A cache with its slow path, which has all entries of the pipeline.
pub trait Cache {
    /// What becomes of a packet that arrives on `port` at `now` nanoseconds; `out` loses what it had.
    fn process(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs);
    /// What it has counted.
    fn stats(&self) -> &Stats;
    /// Its tables as they are.
    fn tables(&self) -> Vec<Fill>;
    /// How many whole traversals its entries together stand for: an estimate.
    fn rule_space(&self) -> f64;
    /// In bytes.
    fn memory(&self) -> usize;
}
