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
    /// then data.
    pub fn with_overhead(mut self, form: &RowFormat, plan: &RowPlan) -> Option<RowGrid> {
        let EntryOverhead { action, pointers, immediate } = form.overhead;
        for (word, entries) in plan.overhead.iter().enumerate() {
            let mut at = 0;
            for bits in [action, pointers] {
                at += bits * entries;
                if bits > 0 && at > self.overhead_bits {
                    return None;
                }
            }
            for _ in 0..*entries {
                // A word's last data must end below its overhead half, not at it.
                if immediate > 0 && at + immediate >= self.overhead_bits {
                    return None;
                }
                at += immediate;
            }
            self.taken[word] = low_mask(at);
        }
        Some(self)
    }

    /// Allocates keys and versions of all entries. Returns whether all fit.
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
        let count =
            |bus: usize| plan.bus.iter().zip(&self.full).filter(|(b, _)| **b == Some(bus)).map(|(_, n)| n).sum::<u32>();
        let entries = self.versioned.len() as u32;
        let split = buses.iter().any(|b| !plan.ghosted.contains(b) && count(**b) < entries);
        if !split && self.versioned.iter().all(|v| *v) {
            return true;
        }
        order == BytePlacement::Tight && !plan.wide && self.place_split_entries(plan, bytes, placed)
    }

    /// Allocates an entry's bytes of one bus, and its version, in one word.
    fn place_whole_entry(&mut self, plan: &RowPlan, word: usize, entry: usize, needed: &[KeyByte]) -> Option<RowUndo> {
        let before = self.clone();
        let mut mine = Vec::new();
        for byte in needed {
            if !self.place_byte(word, entry, *byte, plan, &mut mine) {
                *self = before;
                return None;
            }
        }
        if !self.versioned[entry] {
            let put = self.place_version(word, &mine).is_some();
            if !put && !plan.wide {
                *self = before;
                return None;
            }
            self.versioned[entry] = put;
        }
        let diff = |a: &[u128], b: &[u128]| a.iter().zip(b).map(|(a, b)| a & !b).collect();
        let compared = self.compared.iter().zip(&before.compared).map(|(a, b)| a & !b).collect();
        Some(RowUndo { entry, taken: diff(&self.taken, &before.taken), compared })
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

    fn place_byte_at(
        &mut self,
        word: usize,
        at: usize,
        byte: KeyByte,
        fixed: bool,
        mine: &mut Vec<(usize, usize, u8)>,
    ) -> bool {
        let bit = 1u32 << at;
        if at >= self.width || self.compared[word] & bit != 0 || (!fixed && self.reserved_bytes[word] & bit != 0) {
            return false;
        }
        let mask = u128::from(byte.bits) << (8 * at);
        let taken = self.taken[word] | if fixed { 0 } else { self.reserved[word] };
        if taken & mask != 0 {
            return false;
        }
        self.taken[word] |= mask;
        self.compared[word] |= bit;
        mine.push((word, at, byte.bits));
        true
    }

    /// Allocates a nibble for the version: next to one of the entry's own bytes, among the
    /// overhead, in the upper two bytes, or in any free byte.
    fn place_version(&mut self, word: usize, mine: &[(usize, usize, u8)]) -> Option<()> {
        let taken = self.taken[word] | self.reserved[word];
        let (low, high) = (self.version, self.version << 4);
        let byte = |at: usize| (taken >> (8 * at)) & 0xff;
        for (of, at, _) in mine.iter().filter(|(of, ..)| *of == word) {
            if let Some(mask) = [low, high].into_iter().find(|m| byte(*at) & m == 0) {
                self.taken[*of] |= mask << (8 * at);
                return Some(());
            }
        }
        let free = |grid: &RowGrid, at: usize| (grid.compared[word] | grid.reserved_bytes[word]) & (1 << at) == 0;
        if self.order == BytePlacement::Tight {
            for at in (0..(self.overhead_bits / 8) as usize).filter(|at| free(self, *at)) {
                let (has_low, has_high) = (byte(at) & low != 0, byte(at) & high != 0);
                if has_low != has_high {
                    let mask = if has_low { high } else { low };
                    self.taken[word] |= mask << (8 * at);
                    self.compared[word] |= 1 << at;
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
        let at = (0..self.width).find(|at| free(self, *at) && byte(*at) & low == 0)?;
        self.taken[word] |= low << (8 * at);
        self.compared[word] |= 1 << at;
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
            let first: usize = plan.overhead[..word].iter().map(|n| *n as usize).sum();
            let entry = first + self.full[word] as usize - 1;
            let Some(index) = placed.iter().position(|t| t.entry == entry) else { continue };
            let gone = placed.remove(index);
            for (at, (taken, compared)) in gone.taken.iter().zip(&gone.compared).enumerate() {
                self.taken[at] &= !taken;
                self.compared[at] &= !compared;
            }
            self.versioned[entry] = false;
            self.full[word] -= 1;
            if self.clone().split_entries(plan, bytes) {
                return true;
            }
        }
        false
    }

    fn split_entries(mut self, plan: &RowPlan, bytes: &[KeyByte]) -> bool {
        self.shared.fill(0);
        let mut begun: Vec<SplitEntry> = Vec::new();
        let mut first = 0;
        for word in 0..self.taken.len() {
            let whole = self.full[word] as usize;
            let starting = plan.overhead[word] as usize - whole;
            if starting + begun.len() > 2 {
                return false;
            }
            for one in &mut begun {
                one.place_in_word(&mut self, plan, word, false);
            }
            for i in 0..starting {
                let mut one = SplitEntry {
                    entry: first + whole + i,
                    left: sort_widest_first(bytes.to_vec()),
                    versioned: false,
                    mine: Vec::new(),
                };
                one.place_in_word(&mut self, plan, word, true);
                begun.push(one);
            }
            begun.retain(|one| !one.left.is_empty() || !one.versioned);
            first += plan.overhead[word] as usize;
        }
        begun.is_empty()
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
    fn place_in_word(&mut self, grid: &mut RowGrid, plan: &RowPlan, word: usize, own: bool) {
        let mut words = std::collections::BTreeSet::new();
        if own && let Some(i) = grid.interleaved {
            let at = self.left.iter().position(|b| *b == i.byte);
            if let Some(at) = at.filter(|_| grid.place_byte(word, self.entry, i.byte, plan, &mut self.mine)) {
                self.left.remove(at);
                words.insert(word);
            }
        }
        let from = if own { 0 } else { word };
        for at in from..=word {
            if grid.shared[word] == 2 {
                continue;
            }
            let (mine, before) = (&mut self.mine, self.left.len());
            self.left.retain(|byte| !grid.place_byte_anywhere(at, *byte, mine));
            if self.left.len() < before {
                words.insert(at);
            }
        }
        for at in from..=word {
            if self.versioned || grid.shared[at] == 2 {
                continue;
            }
            if grid.place_version(at, &self.mine).is_some() {
                self.versioned = true;
                words.insert(at);
            }
        }
        for at in &words {
            grid.shared[*at] += 1;
        }
        if own && !words.contains(&word) {
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
