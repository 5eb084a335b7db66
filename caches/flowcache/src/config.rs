//! How a cache is made.

use crate::admission::Budget;

/// Which cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// Whole traversals, by all fields that a packet's way looked at, as a DPU keeps flows.
    Exact,
    /// Whole traversals, by the bits that decided.
    Megaflow,
    /// Pieces of traversals, cut by the fields that tables look at, in a chain of so many tables.
    SubTraversal {
        /// How many, from 1.
        tables: usize,
    },
    /// Pieces or whole traversals, whatever gains more for traversals of that kind, cut by what packets were seen to share.
    Adaptive {
        /// As above.
        tables: usize,
    },
}

impl Kind {
    /// Whether traversals are cut by what packets were seen to share ([`crate::sharing`]).
    pub fn measures(self) -> bool {
        matches!(self, Kind::Adaptive { .. })
    }

    /// How often a packet may go through the tables: where a traversal has more parts that differ by themselves than there are tables, the rest of its segments are in the
    /// tables in front. Published sub-traversals have to do with once.
    pub fn passes(self) -> usize {
        if self.measures() { 2 } else { 1 }
    }

    /// Tables that a packet goes through.
    pub fn tables(self) -> usize {
        match self {
            Kind::Exact | Kind::Megaflow => 1,
            Kind::SubTraversal { tables } | Kind::Adaptive { tables } => tables.max(1),
        }
    }
}

/// As in configurations.
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Exact => "exact",
            Kind::Megaflow => "megaflow",
            Kind::SubTraversal { .. } => "sub-traversal",
            Kind::Adaptive { .. } => "adaptive",
        })
    }
}

/// How a cache is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Which cache.
    pub kind: Kind,
    /// The most segments in each of its tables.
    pub entries: usize,
    /// The most masks in each of its tables, for each place in the program where a segment begins.
    pub masks: usize,
    /// A segment that was not hit for so many nanoseconds goes.
    pub idle_ns: Option<u64>,
    /// What the slow path takes in all; `None`: everything. Tenants share it.
    pub slow_path: Option<Budget>,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig { kind: Kind::Adaptive { tables: 4 }, entries: 8_000, masks: 4_096, idle_ns: None, slow_path: None }
    }
}
