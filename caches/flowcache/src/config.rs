//! Configuration of a segment cache.

use crate::admission::SlowPathBudget;

/// Kind of segment cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SegmentCacheKind {
    /// Whole traversals, matched on all bits of each field that was read, as a DPU stores flows.
    Exact,
    /// Whole traversals, matched on the bits that decided.
    Megaflow,
    /// Segments in a chain of tables. Traversals are split by the fields that tables read.
    SubTraversal {
        /// Number of tables, from 1.
        tables: usize,
    },
    /// Segments or whole traversals, chosen for each path by benefit. Traversals are split by
    /// sampled sharing.
    Adaptive {
        /// Number of tables, from 1.
        tables: usize,
    },
}

impl SegmentCacheKind {
    /// Returns whether traversals are split by samples ([`crate::split_estimator`]).
    pub fn uses_sampling(self) -> bool {
        matches!(self, SegmentCacheKind::Adaptive { .. })
    }

    /// Returns how often a packet may pass the tables. A second pass helps a traversal that has
    /// more independent parts than there are tables. Published sub-traversal caches have one pass.
    pub fn max_passes(self) -> usize {
        if self.uses_sampling() { 2 } else { 1 }
    }

    /// Returns the number of tables that a packet passes.
    pub fn table_count(self) -> usize {
        match self {
            SegmentCacheKind::Exact | SegmentCacheKind::Megaflow => 1,
            SegmentCacheKind::SubTraversal { tables } | SegmentCacheKind::Adaptive { tables } => tables.max(1),
        }
    }
}

/// Writes the kind's name in configuration files.
impl std::fmt::Display for SegmentCacheKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SegmentCacheKind::Exact => "exact",
            SegmentCacheKind::Megaflow => "megaflow",
            SegmentCacheKind::SubTraversal { .. } => "sub-traversal",
            SegmentCacheKind::Adaptive { .. } => "adaptive",
        })
    }
}

/// Configuration of a segment cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentCacheConfig {
    /// Kind of cache.
    pub kind: SegmentCacheKind,
    /// Maximum number of segments in each table.
    pub max_segments: usize,
    /// Maximum number of masks in each table, for each tag.
    pub max_masks: usize,
    /// Time after which a segment without a hit expires, in nanoseconds.
    pub idle_ns: Option<u64>,
    /// Budget of the slow path, shared by tenants; `None`: unlimited.
    pub slow_path: Option<SlowPathBudget>,
}

impl Default for SegmentCacheConfig {
    fn default() -> SegmentCacheConfig {
        SegmentCacheConfig {
            kind: SegmentCacheKind::Adaptive { tables: 4 },
            max_segments: 8_000,
            max_masks: 4_096,
            idle_ns: None,
            slow_path: None,
        }
    }
}
