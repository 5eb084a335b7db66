//! [`RewriteTemplate`]: common part of all rewrites of a path.
//!
//! The template has the key mask, the kept bits of the new header, and the written and checked
//! lengths and sums. All packets with equal decisions share them, unless they depend on a value
//! ([`super::symbolic_value::PathConstraints::depends_on_values`]). The other parts are filled in
//! without running the program: constants of the header from the resulting packet, constants of
//! sums from their results, entries and counters from the path record ([`super::path_record`]). A
//! rewrite that does not reproduce the result is rejected.

use super::form::{ChecksumCheck, KeyMask, PacketSum, WINDOW};
use super::symbolic_value::{LengthRange, LinearLength, PathConstraints, SymbolicSum};
use interp::ByteCount;
use ir::{ExternId, TableId};

/// Counter that each packet of the path updates. Table applications and counts are indices into the
/// path record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CounterRef {
    /// Tally of a table's action, for hits or misses.
    Applied(TableId, u32, bool),
    /// Hit count of the entry that the application found.
    Hit(usize),
    /// Direct counter of that entry.
    Direct(usize),
    /// Idle timer of that entry.
    Restart(usize),
    /// Element of an indexed counter.
    Counter(ExternId, usize),
}

impl CounterRef {
    /// Returns the application that found the updated entry.
    pub fn application(self) -> Option<usize> {
        match self {
            CounterRef::Hit(at) | CounterRef::Direct(at) | CounterRef::Restart(at) => Some(at),
            CounterRef::Applied(..) | CounterRef::Counter(..) => None,
        }
    }
}

/// Number of bytes that a counter adds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CountedBytes {
    /// A length.
    Length(LinearLength),
    /// A constant.
    Constant(u64),
}

impl CountedBytes {
    /// The packet's length.
    pub const LENGTH: CountedBytes = CountedBytes::Length(LinearLength::of_packet(0));

    /// Returns whether the difference to the packet's length is different for each flow.
    pub fn is_per_flow(self) -> bool {
        matches!(self, CountedBytes::Length(LinearLength { field: Some(_), .. }))
    }

    /// Returns the byte formula of a flow. `own_difference` returns the flow's difference to the
    /// packet's length.
    pub fn byte_formula(self, own_difference: impl FnOnce() -> u64) -> ByteCount {
        match self {
            CountedBytes::Length(LinearLength { field: Some(_), .. }) => {
                ByteCount { length: true, add: own_difference() }
            }
            CountedBytes::Length(LinearLength { offset, .. }) => ByteCount { length: true, add: offset as u64 },
            CountedBytes::Constant(bytes) => ByteCount { length: false, add: bytes },
        }
    }
}

/// Header rewrite of a path ([`super::form::NewHeader`]).
#[derive(Clone, Debug)]
pub struct HeaderTemplate {
    pub len_delta: i16,
    pub len: u16,
    pub keep: [u8; WINDOW],
    pub lengths: Vec<(u16, LinearLength)>,
    pub sums: Vec<(u16, SymbolicSum, bool)>,
}

/// Common part of all rewrites of a path.
#[derive(Clone, Debug)]
pub struct RewriteTemplate {
    pub key_mask: KeyMask,
    pub bounds: Vec<LengthRange>,
    pub checks: Vec<(SymbolicSum, ChecksumCheck)>,
    /// Header rewrite; `None`: packets are dropped.
    pub header: Option<Box<HeaderTemplate>>,
    pub counter_updates: Vec<(CounterRef, CountedBytes)>,
}

impl RewriteTemplate {
    /// Returns the part of a sum that all flows share.
    pub fn free_terms(&self, words: &SymbolicSum) -> PacketSum {
        PathConstraints::free_terms(&self.key_mask.mask, words)
    }
}
