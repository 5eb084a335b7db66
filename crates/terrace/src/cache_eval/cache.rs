//! Interface of the caches that the evaluation measures.

use flowcache::{SegmentCacheKind, SegmentCacheStats};
use interp::Outputs;
use serde::Serialize;
use std::fmt;

/// Kind of flow cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Exact match on all fields of the flow, in one table.
    Exact,
    /// Whole traversals with wildcards, in one table (OVS megaflow).
    Megaflow,
    /// Sub-traversals, in a chain of tables (Gigaflow).
    SubTraversal,
    /// Whole traversals or sub-traversals, chosen by benefit.
    Adaptive,
}

impl CacheKind {
    /// Returns the segment cache kind with `tables` tables. Kinds with a single table ignore
    /// `tables`.
    pub fn of(self, tables: usize) -> SegmentCacheKind {
        match self {
            CacheKind::Exact => SegmentCacheKind::Exact,
            CacheKind::Megaflow => SegmentCacheKind::Megaflow,
            CacheKind::SubTraversal => SegmentCacheKind::SubTraversal { tables },
            CacheKind::Adaptive => SegmentCacheKind::Adaptive { tables },
        }
    }
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.of(1).to_string())
    }
}

/// Kind and size of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize)]
pub struct CacheSpec {
    /// Kind of the cache.
    pub kind: CacheKind,
    /// Number of tables; 1 for exact and megaflow.
    pub tables: usize,
    /// Capacity of each table, in entries.
    pub entries: usize,
}

impl CacheSpec {
    /// Returns a cache of `total` entries over all its tables. `tables` applies only to kinds with
    /// several tables.
    pub fn with_total(kind: CacheKind, tables: usize, total: usize) -> CacheSpec {
        let tables = kind.of(tables).table_count();
        CacheSpec { kind, tables, entries: (total / tables).max(1) }
    }

    /// Returns the capacity of all tables together, in entries.
    pub fn total(&self) -> usize {
        self.tables * self.entries
    }
}

impl fmt::Display for CacheSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}x{}", self.kind, self.tables, self.entries))
    }
}

/// Occupancy of one cache table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CacheOccupancy {
    /// Number of entries.
    pub entries: usize,
    /// Number of distinct masks among the entries.
    pub masks: usize,
}

/// A cache with its slow path. The slow path holds all entries of the pipeline.
pub trait Cache {
    /// Processes a packet that arrives on `port` at time `now`, in nanoseconds. Replaces the
    /// contents of `out` with the result.
    fn process(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs);
    /// Returns the cache's statistics.
    fn stats(&self) -> &SegmentCacheStats;
    /// Returns the current occupancy of each table.
    fn tables(&self) -> Vec<CacheOccupancy>;
    /// Estimates how many whole traversals the entries cover together.
    fn rule_space(&self) -> f64;
    /// Returns the memory use, in bytes.
    fn memory(&self) -> usize;
}
