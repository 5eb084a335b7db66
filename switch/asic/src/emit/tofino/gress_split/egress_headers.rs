//! Headers that egress parses, and their presence in packets.

use ir::*;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of headers that only some packets have.
const MAX_VARYING: usize = 8;

/// Headers that egress parses.
pub(super) struct EgressHeaders {
    /// Headers that egress emits if they are valid.
    pub(super) needed: Vec<HeaderId>,
    /// Needed headers that some packet has at the split point.
    pub(super) parsed: Vec<HeaderId>,
    /// Parsed headers that some packet does not have at the split point.
    pub(super) varying: Vec<HeaderId>,
    /// Presence patterns of the varying headers, as bit sets by position.
    pub(super) patterns: BTreeSet<u64>,
    /// Headers that egress truncates to their first fields, with the truncated header.
    pub(super) fronts: BTreeMap<HeaderId, HeaderId>,
}

impl EgressHeaders {
    /// Selects the headers from the sets of valid headers. `None` if more than `MAX_VARYING` vary.
    pub(super) fn new(needed: &[HeaderId], shapes: &BTreeSet<u128>) -> Option<EgressHeaders> {
        let has = |shape: &u128, h: &HeaderId| shape >> h.index() & 1 == 1;
        let parsed: Vec<HeaderId> = needed.iter().copied().filter(|h| shapes.iter().any(|s| has(s, h))).collect();
        let varying: Vec<HeaderId> = parsed.iter().copied().filter(|h| !shapes.iter().all(|s| has(s, h))).collect();
        (varying.len() <= MAX_VARYING).then_some(())?;
        let patterns = shapes.iter().map(|shape| presence_pattern(&varying, *shape)).collect();
        Some(EgressHeaders { needed: needed.to_vec(), parsed, varying, patterns, fronts: BTreeMap::new() })
    }

    /// Returns the header that represents `header` in egress.
    pub(super) fn egress_header(&self, header: HeaderId) -> HeaderId {
        self.fronts.get(&header).copied().unwrap_or(header)
    }

    /// Returns the maximum length of the parsed headers of a packet in bytes.
    pub(super) fn max_bytes(&self, p: &Pipeline, shapes: &BTreeSet<u128>) -> u32 {
        let bits =
            |h: &HeaderId| p.headers[self.egress_header(*h)].fields.iter().map(|v| p.vars[*v].ty.width()).sum::<u32>();
        let of = |shape: &u128| self.parsed.iter().filter(|h| shape >> h.index() & 1 == 1).map(bits).sum::<u32>();
        shapes.iter().map(of).max().unwrap_or(0).div_ceil(8)
    }
}

/// Returns a packet's presence pattern of the varying headers, as bits by position.
pub(super) fn presence_pattern(varying: &[HeaderId], shape: u128) -> u64 {
    varying.iter().enumerate().map(|(n, h)| ((shape >> h.index() & 1) as u64) << n).sum()
}
