//! The headers that egress takes apart, and what of them packets have.

use ir::*;
use std::collections::{BTreeMap, BTreeSet};

/// More headers than this, of which some packets have one and some don't, are not told apart.
const MAX_VARYING: usize = 8;

/// Headers that egress takes apart.
pub(super) struct Kept {
    /// Those that it writes, if they are valid then.
    pub(super) needed: Vec<HeaderId>,
    /// Those of them that some packet has at the cut.
    pub(super) parsed: Vec<HeaderId>,
    /// Those of them that some packet does not have there.
    pub(super) varying: Vec<HeaderId>,
    /// Which of these a packet can have: sets of them, bit by position.
    pub(super) patterns: BTreeSet<u64>,
    /// Headers of which egress has the front alone, as a header of its own.
    pub(super) fronts: BTreeMap<HeaderId, HeaderId>,
}

impl Kept {
    /// Of these headers, by the sets that there are; none if too many vary.
    pub(super) fn new(needed: &[HeaderId], shapes: &BTreeSet<u64>) -> Option<Kept> {
        let has = |shape: &u64, h: &HeaderId| shape >> h.index() & 1 == 1;
        let parsed: Vec<HeaderId> = needed.iter().copied().filter(|h| shapes.iter().any(|s| has(s, h))).collect();
        let varying: Vec<HeaderId> = parsed.iter().copied().filter(|h| !shapes.iter().all(|s| has(s, h))).collect();
        (varying.len() <= MAX_VARYING).then_some(())?;
        let patterns = shapes.iter().map(|shape| pattern(&varying, *shape)).collect();
        Some(Kept { needed: needed.to_vec(), parsed, varying, patterns, fronts: BTreeMap::new() })
    }

    /// What a header is in egress.
    pub(super) fn in_egress(&self, header: HeaderId) -> HeaderId {
        self.fronts.get(&header).copied().unwrap_or(header)
    }

    /// Bytes of these headers that one packet can have.
    pub(super) fn longest(&self, p: &Pipeline, shapes: &BTreeSet<u64>) -> u32 {
        let bits =
            |h: &HeaderId| p.headers[self.in_egress(*h)].fields.iter().map(|v| p.vars[*v].ty.width()).sum::<u32>();
        let of = |shape: &u64| self.parsed.iter().filter(|h| shape >> h.index() & 1 == 1).map(bits).sum::<u32>();
        shapes.iter().map(of).max().unwrap_or(0).div_ceil(8)
    }
}

/// Which of these headers a set has, bit by position.
pub(super) fn pattern(varying: &[HeaderId], shape: u64) -> u64 {
    varying.iter().enumerate().map(|(n, h)| (shape >> h.index() & 1) << n).sum()
}
