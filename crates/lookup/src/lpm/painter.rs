//! [`Painter`]: what a table's trie says of all addresses with the same first bits, entry by entry.
//!
//! Tables that answer from the first bits of an address at once ([`super::direct`], [`super::levels`]) derive their entries from the trie, which knows everything:
//! so a change paints the entries that its prefix covers, and nothing else needs to be known of what was there before.

use super::address::Address;
use super::forest::Forest;
use super::node;
use super::pool::Ref;
use super::set::Set;
use std::ops::Range;

/// What entries are painted on.
pub(super) trait Canvas {
    /// These entries have this number. Later calls win.
    fn fill(&mut self, entries: Range<u64>, number: u32);
}

/// The values of the first `bits` bits that addresses with this prefix have.
pub(super) fn covered<A: Address>(addr: A, len: u32, bits: u32) -> Range<u64> {
    let first = addr.top(bits);
    first..first + (1 << bits.saturating_sub(len))
}

/// Derives the entries of a range from the trie.
pub(super) struct Painter<'a, A, C> {
    pub forest: &'a Forest<A>,
    pub canvas: &'a mut C,
    /// Bits of an address that choose an entry, at most 48.
    pub bits: u32,
    /// The number for entries behind which there is more than a number.
    pub ask: u32,
    /// The entries to paint: not empty.
    pub range: Range<u64>,
}

impl<A: Address, C: Canvas> Painter<'_, A, C> {
    /// Paints what is below `root`.
    pub(super) fn paint(&mut self, root: Ref) {
        self.below(root, 0, 0, 0);
    }

    /// Of `entries`, those in the range.
    fn fill(&mut self, entries: Range<u64>, number: u32) {
        let (start, end) = (entries.start.max(self.range.start), entries.end.min(self.range.end));
        if start < end {
            self.canvas.fill(start..end, number);
        }
    }

    /// What is at `at`, `depth` bits down, where the first entry is `first`; shorter prefixes give `above`.
    fn below(&mut self, at: Ref, first: u64, depth: u32, above: u32) {
        let all = first..first + (1 << (self.bits - depth));
        if all.start >= self.range.end || all.end <= self.range.start {
            return;
        }
        if at.is_null() {
            self.fill(all, above);
        } else if depth == self.bits {
            self.fill(all, self.ask);
        } else if at.is_set() {
            self.fill(all, above);
            self.set(at, first, depth, above);
        } else if depth + at.stride() <= self.bits {
            self.node(at, first, depth, above);
        } else {
            self.deep_node(at, first, depth, above);
        }
    }

    /// The entries of a prefix in a set, `depth` bits down.
    fn entries(&self, first: u64, depth: u32, addr: A, len: u32) -> Range<u64> {
        let Range { start, end } = covered(addr, len, self.bits - depth);
        first + start..first + end
    }

    fn set(&mut self, at: Ref, first: u64, depth: u32, above: u32) {
        let set: Set<A> = self.forest.formats.read(self.forest.pool.line(at.line()), &self.forest.pool);
        // Shortest first: longer ones win.
        for route in set.routes.iter().rev() {
            let number = if depth + route.len <= self.bits { route.cell as u32 } else { self.ask };
            self.fill(self.entries(first, depth, route.addr, route.len), number);
        }
        if let Some(gate) = set.gate {
            let entries = self.entries(first, depth, gate.addr, gate.len);
            if depth + gate.len >= self.bits {
                return self.fill(entries, self.ask);
            }
            let covers = |len: u32, addr: A| len <= gate.len && addr.shares(gate.addr, len);
            let covering = set.routes.iter().find(|route| covers(route.len, route.addr));
            let above = covering.map_or(above, |route| route.cell as u32);
            self.below(gate.child, entries.start, depth + gate.len, above);
        }
    }

    /// A node of which each slot has an entry or several.
    fn node(&mut self, at: Ref, first: u64, depth: u32, above: u32) {
        let left = self.bits - depth - at.stride();
        let slots = first.max(self.range.start) - first..self.range.end.min(first + (1 << (self.bits - depth))) - first;
        // Slots that say the same are painted together: from `from` on, `said`.
        let (mut from, mut said) = (first + (slots.start >> left << left), above);
        let end = ((slots.end - 1) >> left) + 1;
        for slot in slots.start >> left..end {
            let (number, child) = node::slot(&self.forest.pool, at, slot);
            let number = if number == 0 { above } else { number };
            let start = first + (slot << left);
            if child.is_null() && number == said {
                continue;
            }
            self.fill(from..start, said);
            (from, said) = (start, number);
            if !child.is_null() {
                self.below(child, start, depth + at.stride(), number);
                from = start + (1 << left);
            }
        }
        self.fill(from..first + (end << left), said);
    }

    /// A node of which each entry has several slots: they may all say the same.
    fn deep_node(&mut self, at: Ref, first: u64, depth: u32, above: u32) {
        let more = depth + at.stride() - self.bits;
        let all = first.max(self.range.start)..self.range.end.min(first + (1 << (self.bits - depth)));
        for entry in all {
            let slots = (entry - first) << more..(entry - first + 1) << more;
            let mut said = slots.map(|slot| node::slot(&self.forest.pool, at, slot));
            let one = said.next().unwrap_or((0, Ref::NULL));
            let number = if one.0 == 0 { above } else { one.0 };
            let same = one.1.is_null() && said.all(|other| other == one);
            self.fill(entry..entry + 1, if same { number } else { self.ask });
        }
    }
}
