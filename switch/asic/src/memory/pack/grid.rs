//! Bit map of a row of words.

use super::row_format::{EntryOverhead, RowFormat, RowPlan};
use crate::memory::key::KeyByte;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BytePlacement {
    /// Allocates the lower four bytes last, because a gateway could share them.
    GatewayLast,
    /// Allocates from the bottom, with versions among the overhead.
    Tight,
}

/// A byte at a fixed position among the overhead.
#[derive(Clone, Copy)]
pub(super) struct InterleavedByte {
    pub byte: KeyByte,
    /// Byte position within the cycle, and bytes per cycle.
    pub at: usize,
    pub cycle: usize,
}

/// Allocation state of a row.
#[derive(Clone)]
pub(super) struct RowGrid {
    /// Allocated bits by word.
    pub taken: Vec<u128>,
    /// Compared bytes by word.
    compared: Vec<u32>,
    /// Positions reserved for interleaved bytes, as bits and as bytes.
    pub reserved: Vec<u128>,
    pub reserved_bytes: Vec<u32>,
    pub width: usize,
    upper: usize,
    pub overhead_bits: u32,
    version: u128,
    versioned: Vec<bool>,
    full: Vec<u32>,
    shared: Vec<u32>,
    pub order: BytePlacement,
    pub interleaved: Option<InterleavedByte>,
}

/// Allocation of one entry, for undo.
#[derive(Clone)]
struct RowUndo {
    entry: usize,
    taken: Vec<u128>,
    compared: Vec<u32>,
}

impl RowGrid {
    pub fn new(form: &RowFormat, plan: &RowPlan) -> RowGrid {
        let words = plan.overhead.len();
        RowGrid {
            taken: vec![0; words],
            compared: vec![0; words],
            reserved: vec![0; words],
            reserved_bytes: vec![0; words],
            width: form.target.word_bytes(),
            upper: form.target.word_bytes() - 2,
            overhead_bits: form.target.formats.overhead_bits,
            version: (1 << form.target.formats.version_bits) - 1,
            versioned: vec![false; form.entries as usize],
            full: vec![0; words],
            shared: vec![0; words],
            order: BytePlacement::GatewayLast,
            interleaved: None,
        }
    }

    /// Allocates overhead from the bottom of each word: action selectors first, then addresses,
    /// then data. `None` if it does not fit the overhead bits of a word.
    pub fn with_overhead(mut self, form: &RowFormat, plan: &RowPlan) -> Option<RowGrid> {
        let EntryOverhead { action, pointers, immediate } = form.overhead;
        for (word, entries) in plan.overhead.iter().enumerate() {
            let mut end_bit = 0;
            for bits in [action, pointers] {
                end_bit += bits * entries;
                if bits > 0 && end_bit > self.overhead_bits {
                    return None;
                }
            }
            for _ in 0..*entries {
                // A word's last data must end below its overhead half, not at it.
                if immediate > 0 && end_bit + immediate >= self.overhead_bits {
                    return None;
                }
                end_bit += immediate;
            }
            self.taken[word] = low_mask(end_bit);
        }
        Some(self)
    }

    /// Allocates keys and versions of all entries. Returns whether all fit. Entries that fit no
    /// single word are split over words, if `order` is tight and the key is on one bus.
    pub fn place_entries(mut self, plan: &RowPlan, bytes: &[KeyByte], order: BytePlacement) -> bool {
        self.order = order;
        let mut placed: Vec<RowUndo> = Vec::new();
        for word in 0..self.taken.len() {
            let needed = bus_bytes(plan, bytes, word);
            let mut seen = 0;
            while let Some(entry) = next_entry(plan, word, seen).filter(|entry| *entry < self.versioned.len()) {
                let Some(taken) = self.place_whole_entry(plan, word, entry, &needed) else { break };
                placed.push(taken);
                self.full[word] += 1;
                seen += 1;
            }
        }
        let buses = plan.bus.iter().flatten().collect::<std::collections::BTreeSet<_>>();
        let entries_on_bus =
            |bus: usize| plan.bus.iter().zip(&self.full).filter(|(b, _)| **b == Some(bus)).map(|(_, n)| n).sum::<u32>();
        let entries = self.versioned.len() as u32;
        let has_unplaced = buses.iter().any(|b| !plan.ghosted.contains(b) && entries_on_bus(**b) < entries);
        if !has_unplaced && self.versioned.iter().all(|v| *v) {
            return true;
        }
        order == BytePlacement::Tight && !plan.wide && self.place_split_entries(plan, bytes, placed)
    }

    /// Allocates an entry's bytes of one bus, and its version, in one word. Returns the allocation
    /// for undo; `None` if a byte does not fit, and then the grid is unchanged.
    fn place_whole_entry(&mut self, plan: &RowPlan, word: usize, entry: usize, needed: &[KeyByte]) -> Option<RowUndo> {
        let before = self.clone();
        let mut allocated = Vec::new();
        for byte in needed {
            if !self.place_byte(word, entry, *byte, plan, &mut allocated) {
                *self = before;
                return None;
            }
        }
        if !self.versioned[entry] {
            let has_version = self.place_version(word, &allocated).is_some();
            if !has_version && !plan.wide {
                *self = before;
                return None;
            }
            self.versioned[entry] = has_version;
        }
        let added_bits = |a: &[u128], b: &[u128]| a.iter().zip(b).map(|(a, b)| a & !b).collect();
        let compared = self.compared.iter().zip(&before.compared).map(|(a, b)| a & !b).collect();
        Some(RowUndo { entry, taken: added_bits(&self.taken, &before.taken), compared })
    }

    fn place_byte(
        &mut self,
        word: usize,
        entry: usize,
        byte: KeyByte,
        plan: &RowPlan,
        mine: &mut Vec<(usize, usize, u8)>,
    ) -> bool {
        if let Some(i) = self.interleaved.filter(|i| i.byte == byte) {
            let first: usize = plan.overhead[..word].iter().map(|n| *n as usize).sum();
            return entry >= first && self.place_byte_at(word, (entry - first) * i.cycle + i.at, byte, true, mine);
        }
        self.place_byte_anywhere(word, byte, mine)
    }

    fn place_byte_anywhere(&mut self, word: usize, byte: KeyByte, mine: &mut Vec<(usize, usize, u8)>) -> bool {
        let (low, high) = if self.order == BytePlacement::GatewayLast { (4, self.upper) } else { (0, self.width) };
        let places = (low..high).chain((0..low).chain(high..self.width));
        places.into_iter().any(|at| self.place_byte_at(word, at, byte, false, mine))
    }

    /// Allocates a key byte at byte `position` of a word, and records it in `allocated` as
    /// (word, position, bits). `is_fixed` allows positions that are reserved for interleaved bytes.
    /// Returns whether it was free.
    fn place_byte_at(
        &mut self,
        word: usize,
        position: usize,
        byte: KeyByte,
        is_fixed: bool,
        allocated: &mut Vec<(usize, usize, u8)>,
    ) -> bool {
        let bit = 1u32 << position;
        if position >= self.width
            || self.compared[word] & bit != 0
            || (!is_fixed && self.reserved_bytes[word] & bit != 0)
        {
            return false;
        }
        let mask = u128::from(byte.bits) << (8 * position);
        let taken = self.taken[word] | if is_fixed { 0 } else { self.reserved[word] };
        if taken & mask != 0 {
            return false;
        }
        self.taken[word] |= mask;
        self.compared[word] |= bit;
        allocated.push((word, position, byte.bits));
        true
    }

    /// Allocates a nibble for the version: next to one of the entry's own bytes (`allocated`: word,
    /// position, bits), among the overhead, in the upper two bytes, or in any free byte. `None` if
    /// none is free.
    fn place_version(&mut self, word: usize, allocated: &[(usize, usize, u8)]) -> Option<()> {
        let taken = self.taken[word] | self.reserved[word];
        let (low, high) = (self.version, self.version << 4);
        let byte = |position: usize| (taken >> (8 * position)) & 0xff;
        for (byte_word, position, _) in allocated.iter().filter(|(byte_word, ..)| *byte_word == word) {
            if let Some(mask) = [low, high].into_iter().find(|m| byte(*position) & m == 0) {
                self.taken[*byte_word] |= mask << (8 * position);
                return Some(());
            }
        }
        let is_uncompared =
            |grid: &RowGrid, position: usize| (grid.compared[word] | grid.reserved_bytes[word]) & (1 << position) == 0;
        if self.order == BytePlacement::Tight {
            for position in (0..(self.overhead_bits / 8) as usize).filter(|position| is_uncompared(self, *position)) {
                let (has_low, has_high) = (byte(position) & low != 0, byte(position) & high != 0);
                if has_low != has_high {
                    let mask = if has_low { high } else { low };
                    self.taken[word] |= mask << (8 * position);
                    self.compared[word] |= 1 << position;
                    return Some(());
                }
            }
        }
        for nibble in 0..4 {
            let mask = self.version << (8 * self.upper + 4 * nibble);
            if taken & mask == 0 {
                self.taken[word] |= mask;
                return Some(());
            }
        }
        let position = (0..self.width).find(|position| is_uncompared(self, *position) && byte(*position) & low == 0)?;
        self.taken[word] |= low << (8 * position);
        self.compared[word] |= 1 << position;
        Some(())
    }

    /// Splits entries that fit no single word. On failure, frees whole entries one by one, from the
    /// last word, and tries again.
    fn place_split_entries(mut self, plan: &RowPlan, bytes: &[KeyByte], mut placed: Vec<RowUndo>) -> bool {
        if self.clone().split_entries(plan, bytes) {
            return true;
        }
        for word in (0..self.taken.len()).rev() {
            if self.full[word] == 0 {
                continue;
            }
            let entries_before: usize = plan.overhead[..word].iter().map(|n| *n as usize).sum();
            let entry = entries_before + self.full[word] as usize - 1;
            let Some(index) = placed.iter().position(|t| t.entry == entry) else { continue };
            let undone = placed.remove(index);
            for (undone_word, (taken, compared)) in undone.taken.iter().zip(&undone.compared).enumerate() {
                self.taken[undone_word] &= !taken;
                self.compared[undone_word] &= !compared;
            }
            self.versioned[entry] = false;
            self.full[word] -= 1;
            if self.clone().split_entries(plan, bytes) {
                return true;
            }
        }
        false
    }

    /// Splits the entries that have no word of their own over words, at most two in progress at a
    /// time. Returns whether all fit.
    fn split_entries(mut self, plan: &RowPlan, bytes: &[KeyByte]) -> bool {
        self.shared.fill(0);
        let mut unfinished: Vec<SplitEntry> = Vec::new();
        let mut first = 0;
        for word in 0..self.taken.len() {
            let whole_count = self.full[word] as usize;
            let new_count = plan.overhead[word] as usize - whole_count;
            if new_count + unfinished.len() > 2 {
                return false;
            }
            for split in &mut unfinished {
                split.place_in_word(&mut self, plan, word, false);
            }
            for i in 0..new_count {
                let mut split = SplitEntry {
                    entry: first + whole_count + i,
                    left: sort_widest_first(bytes.to_vec()),
                    versioned: false,
                    mine: Vec::new(),
                };
                split.place_in_word(&mut self, plan, word, true);
                unfinished.push(split);
            }
            unfinished.retain(|split| !split.left.is_empty() || !split.versioned);
            first += plan.overhead[word] as usize;
        }
        unfinished.is_empty()
    }
}

/// An entry that is split over words.
struct SplitEntry {
    entry: usize,
    left: Vec<KeyByte>,
    versioned: bool,
    mine: Vec<(usize, usize, u8)>,
}

impl SplitEntry {
    /// Allocates as many bytes of a split entry as a word has free. `has_overhead` is `true` for
    /// the word with the entry's overhead; the entry can then also use earlier words. At most two
    /// split entries share a word.
    fn place_in_word(&mut self, grid: &mut RowGrid, plan: &RowPlan, word: usize, has_overhead: bool) {
        let mut used_words = std::collections::BTreeSet::new();
        if has_overhead && let Some(i) = grid.interleaved {
            let position = self.left.iter().position(|b| *b == i.byte);
            if let Some(position) = position.filter(|_| grid.place_byte(word, self.entry, i.byte, plan, &mut self.mine))
            {
                self.left.remove(position);
                used_words.insert(word);
            }
        }
        let from = if has_overhead { 0 } else { word };
        for position in from..=word {
            if grid.shared[word] == 2 {
                continue;
            }
            let (mine, before) = (&mut self.mine, self.left.len());
            self.left.retain(|byte| !grid.place_byte_anywhere(position, *byte, mine));
            if self.left.len() < before {
                used_words.insert(position);
            }
        }
        for position in from..=word {
            if self.versioned || grid.shared[position] == 2 {
                continue;
            }
            if grid.place_version(position, &self.mine).is_some() {
                self.versioned = true;
                used_words.insert(position);
            }
        }
        for position in &used_words {
            grid.shared[*position] += 1;
        }
        if has_overhead && !used_words.contains(&word) {
            grid.shared[word] += 1;
        }
    }
}

/// Returns a mask of the lowest `bits` bits.
pub(super) fn low_mask(bits: u32) -> u128 {
    1u128.checked_shl(bits).map_or(u128::MAX, |b| b - 1)
}

fn sort_widest_first(mut bytes: Vec<KeyByte>) -> Vec<KeyByte> {
    bytes.sort_by_key(|b| std::cmp::Reverse(b.bits.count_ones()));
    bytes
}

/// Returns the bytes of a word's bus, full ones first.
fn bus_bytes(plan: &RowPlan, bytes: &[KeyByte], word: usize) -> Vec<KeyByte> {
    sort_widest_first(bytes.iter().filter(|b| Some(b.bus) == plan.bus[word]).copied().collect())
}

/// Returns the next entry of a word after `seen` others.
fn next_entry(plan: &RowPlan, word: usize, seen: usize) -> Option<usize> {
    let own = plan.overhead[word] as usize;
    if !plan.wide {
        let first: usize = plan.overhead[..word].iter().map(|n| *n as usize).sum();
        return (seen < own).then_some(first + seen);
    }
    if seen >= own.max(1) {
        return None;
    }
    let same = plan.bus[..word].iter().zip(&plan.overhead).filter(|(bus, _)| **bus == plan.bus[word]);
    Some(same.map(|(_, n)| (*n as usize).max(1)).sum::<usize>() + seen)
}
