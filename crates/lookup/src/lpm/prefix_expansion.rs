//! [`PrefixExpander`]: expands a table's trie into entries, each for the addresses with the same
//! first bits.
//!
//! Direct indexes ([`super::dir24`], [`super::dir16x3`]) derive their entries from the trie, which
//! holds all prefixes. A change rewrites the entries that its prefix covers and does not depend on
//! their old content.

use super::address::AddressBits;
use super::forest::TrieForest;
use super::node;
use super::pool::BlockRef;
use super::prefix_line::PrefixLine;
use std::ops::Range;

/// Target of an expansion.
pub(super) trait ExpansionTarget {
    /// Sets these entries to a value number. Later calls take precedence.
    fn fill_entries(&mut self, entries: Range<u64>, number: u32);
}

/// Returns the values of the first `bits` bits of addresses with this prefix.
pub(super) fn covered_entries<A: AddressBits>(addr: A, len: u32, bits: u32) -> Range<u64> {
    let first = addr.leading_bits(bits);
    first..first + (1 << bits.saturating_sub(len))
}

/// Expander of a trie into a range of entries.
pub(super) struct PrefixExpander<'a, A, C> {
    pub forest: &'a TrieForest<A>,
    pub target: &'a mut C,
    /// Bits of an address that choose an entry, at most 48.
    pub bits: u32,
    /// Number for entries that need a lookup in the trie.
    pub fallback_number: u32,
    /// Entries to write; not empty.
    pub range: Range<u64>,
}

impl<A: AddressBits, C: ExpansionTarget> PrefixExpander<'_, A, C> {
    /// Expands the trie below `root`.
    pub(super) fn expand(&mut self, root: BlockRef) {
        self.expand_block(root, 0, 0, 0);
    }

    /// Fills the part of `entries` within the range.
    fn clip_and_fill(&mut self, entries: Range<u64>, number: u32) {
        let (start, end) = (entries.start.max(self.range.start), entries.end.min(self.range.end));
        if start < end {
            self.target.fill_entries(start..end, number);
        }
    }

    /// Expands the block `at`. Its first entry is `first`, `depth` bits down; `above` is the number
    /// of the longest shorter prefix.
    fn expand_block(&mut self, at: BlockRef, first: u64, depth: u32, above: u32) {
        let all = first..first + (1 << (self.bits - depth));
        if all.start >= self.range.end || all.end <= self.range.start {
            return;
        }
        if at.is_null() {
            self.clip_and_fill(all, above);
        } else if depth == self.bits {
            self.clip_and_fill(all, self.fallback_number);
        } else if at.is_prefix_line() {
            self.clip_and_fill(all, above);
            self.expand_line(at, first, depth, above);
        } else if depth + at.stride() <= self.bits {
            self.expand_node(at, first, depth, above);
        } else {
            self.expand_deep_node(at, first, depth, above);
        }
    }

    /// Returns the entries of a prefix in a line, `depth` bits down.
    fn prefix_entries(&self, first: u64, depth: u32, addr: A, len: u32) -> Range<u64> {
        let Range { start, end } = covered_entries(addr, len, self.bits - depth);
        first + start..first + end
    }

    fn expand_line(&mut self, at: BlockRef, first: u64, depth: u32, above: u32) {
        let set: PrefixLine<A> =
            self.forest.line_layouts.read_line(self.forest.pool.line(at.line()), &self.forest.pool);
        // Shortest first, because longer prefixes take precedence.
        for route in set.routes.iter().rev() {
            let number = if depth + route.len <= self.bits { route.cell as u32 } else { self.fallback_number };
            self.clip_and_fill(self.prefix_entries(first, depth, route.addr, route.len), number);
        }
        if let Some(gate) = set.compressed_child {
            let entries = self.prefix_entries(first, depth, gate.addr, gate.len);
            if depth + gate.len >= self.bits {
                return self.clip_and_fill(entries, self.fallback_number);
            }
            let covers = |len: u32, addr: A| len <= gate.len && addr.shares_leading_bits(gate.addr, len);
            let covering = set.routes.iter().find(|route| covers(route.len, route.addr));
            let above = covering.map_or(above, |route| route.cell as u32);
            self.expand_block(gate.child, entries.start, depth + gate.len, above);
        }
    }

    /// Expands the node `at`. Each slot covers one or more entries. `first` is the node's first
    /// entry, `depth` the number of address bits before it, and `above` the value number of the
    /// longest prefix before it, for slots without one of their own.
    fn expand_node(&mut self, at: BlockRef, first: u64, depth: u32, above: u32) {
        let slot_bits = self.bits - depth - at.stride();
        let slots = first.max(self.range.start) - first..self.range.end.min(first + (1 << (self.bits - depth))) - first;
        // Merges adjacent slots with the same number: `run_number` from `run_start` on.
        let (mut run_start, mut run_number) = (first + (slots.start >> slot_bits << slot_bits), above);
        let end = ((slots.end - 1) >> slot_bits) + 1;
        for slot in slots.start >> slot_bits..end {
            let (number, child) = node::slot_entry(&self.forest.pool, at, slot);
            let number = if number == 0 { above } else { number };
            let start = first + (slot << slot_bits);
            if child.is_null() && number == run_number {
                continue;
            }
            self.clip_and_fill(run_start..start, run_number);
            (run_start, run_number) = (start, number);
            if !child.is_null() {
                self.expand_block(child, start, depth + at.stride(), number);
                run_start = start + (1 << slot_bits);
            }
        }
        self.clip_and_fill(run_start..first + (end << slot_bits), run_number);
    }

    /// Expands a node with several slots per entry. An entry gets a number only if all its slots
    /// agree.
    fn expand_deep_node(&mut self, at: BlockRef, first: u64, depth: u32, above: u32) {
        let more = depth + at.stride() - self.bits;
        let all = first.max(self.range.start)..self.range.end.min(first + (1 << (self.bits - depth)));
        for entry in all {
            let slots = (entry - first) << more..(entry - first + 1) << more;
            let mut pending = slots.map(|slot| node::slot_entry(&self.forest.pool, at, slot));
            let one = pending.next().unwrap_or((0, BlockRef::NULL));
            let number = if one.0 == 0 { above } else { one.0 };
            let same = one.1.is_null() && pending.all(|other| other == one);
            self.clip_and_fill(entry..entry + 1, if same { number } else { self.fallback_number });
        }
    }
}
