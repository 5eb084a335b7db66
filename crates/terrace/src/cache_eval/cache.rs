//! What the evaluation asks of a cache.

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

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CacheKind::Exact => "exact",
            CacheKind::Megaflow => "megaflow",
            CacheKind::SubTraversal => "sub-traversal",
            CacheKind::Adaptive => "adaptive",
        })
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
        let tables = match kind {
            CacheKind::Exact | CacheKind::Megaflow => 1,
            CacheKind::SubTraversal | CacheKind::Adaptive => tables.max(1),
        };
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

/// What a cache counts, from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CacheStats {
    /// Packets that were looked up.
    pub lookups: u64,
    /// Packets that the cache served.
    pub hits: u64,
    /// Packets that took the slow path.
    pub misses: u64,
    /// Entries that were made.
    pub inserted: u64,
    /// Entries that a traversal needed and that were there already.
    pub shared: u64,
    /// Entries that had to go for others.
    pub evicted: u64,
    /// Entries that went because nothing hit them.
    pub expired: u64,
    /// Traversals that were not cached.
    pub rejected: u64,
    /// Time to partition traversals, in nanoseconds.
    pub partition_ns: u64,
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
    fn stats(&self) -> CacheStats;
    /// Its tables as they are.
    fn tables(&self) -> Vec<Fill>;
    /// How many whole traversals its entries together stand for: an estimate.
    fn rule_space(&self) -> f64;
    /// In bytes.
    fn memory(&self) -> usize;
}
