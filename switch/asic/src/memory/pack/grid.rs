//! A row of words and what lies in it, bit by bit.

use super::form::{Form, Overhead, Plan};
use crate::memory::key::Byte;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The lower four bytes last, which a gateway could share.
    GatewayLast,
    /// From the bottom, and versions among the overhead.
    Tight,
}

/// A byte that is put among the overhead at a fixed place.
#[derive(Clone, Copy)]
pub(super) struct Interleaved {
    pub byte: Byte,
    /// Byte of the key within its cycle, and bytes of a cycle.
    pub at: usize,
    pub cycle: usize,
}

/// What lies in a row.
#[derive(Clone)]
pub(super) struct Grid {
    /// Bits taken, word by word.
    pub taken: Vec<u128>,
    /// Bytes that are compared, word by word.
    compared: Vec<u32>,
    /// Places kept for interleaved bytes: bits, and bytes.
    pub kept: Vec<u128>,
    pub kept_bytes: Vec<u32>,
    pub width: usize,
    upper: usize,
    pub half: u32,
    version: u128,
    versioned: Vec<bool>,
    full: Vec<u32>,
    shared: Vec<u32>,
    pub order: Order,
    pub interleaved: Option<Interleaved>,
}

/// What one entry takes: to be undone.
#[derive(Clone)]
struct Taken {
    entry: usize,
    taken: Vec<u128>,
    compared: Vec<u32>,
}

impl Grid {
    pub fn new(form: &Form, plan: &Plan) -> Grid {
        let words = plan.overhead.len();
        Grid {
            taken: vec![0; words],
            compared: vec![0; words],
            kept: vec![0; words],
            kept_bytes: vec![0; words],
            width: form.target.word_bytes(),
            upper: form.target.word_bytes() - 2,
            half: form.target.formats.overhead_bits,
            version: (1 << form.target.formats.version_bits) - 1,
            versioned: vec![false; form.entries as usize],
            full: vec![0; words],
            shared: vec![0; words],
            order: Order::GatewayLast,
            interleaved: None,
        }
    }

    /// Overhead from the bottom of each word: what names actions first, then addresses, then data.
    pub fn with_overhead(mut self, form: &Form, plan: &Plan) -> Option<Grid> {
        let Overhead { action, pointers, immediate } = form.overhead;
        for (word, entries) in plan.overhead.iter().enumerate() {
            let mut at = 0;
            for bits in [action, pointers] {
                at += bits * entries;
                if bits > 0 && at > self.half {
                    return None;
                }
            }
            for _ in 0..*entries {
                // The last data of a word must end below its half, not at it.
                if immediate > 0 && at + immediate >= self.half {
                    return None;
                }
                at += immediate;
            }
            self.taken[word] = low(at);
        }
        Some(self)
    }

    /// Puts keys and versions of all entries.
    pub fn fill(mut self, plan: &Plan, bytes: &[Byte], order: Order) -> bool {
        self.order = order;
        let mut placed: Vec<Taken> = Vec::new();
        for word in 0..self.taken.len() {
            let needed = on(plan, bytes, word);
            let mut seen = 0;
            while let Some(entry) = entry_of(plan, word, seen).filter(|entry| *entry < self.versioned.len()) {
                let Some(taken) = self.whole(plan, word, entry, &needed) else { break };
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
        order == Order::Tight && !plan.wide && self.share(plan, bytes, placed)
    }

    /// An entry's bytes of one bus, and its version, in one word.
    fn whole(&mut self, plan: &Plan, word: usize, entry: usize, needed: &[Byte]) -> Option<Taken> {
        let before = self.clone();
        let mut mine = Vec::new();
        for byte in needed {
            if !self.put(word, entry, *byte, plan, &mut mine) {
                *self = before;
                return None;
            }
        }
        if !self.versioned[entry] {
            let put = self.put_version(word, &mine).is_some();
            if !put && !plan.wide {
                *self = before;
                return None;
            }
            self.versioned[entry] = put;
        }
        let diff = |a: &[u128], b: &[u128]| a.iter().zip(b).map(|(a, b)| a & !b).collect();
        let compared = self.compared.iter().zip(&before.compared).map(|(a, b)| a & !b).collect();
        Some(Taken { entry, taken: diff(&self.taken, &before.taken), compared })
    }

    fn put(&mut self, word: usize, entry: usize, byte: Byte, plan: &Plan, mine: &mut Vec<(usize, usize, u8)>) -> bool {
        if let Some(i) = self.interleaved.filter(|i| i.byte == byte) {
            let first: usize = plan.overhead[..word].iter().map(|n| *n as usize).sum();
            return entry >= first && self.put_at(word, (entry - first) * i.cycle + i.at, byte, true, mine);
        }
        self.put_anywhere(word, byte, mine)
    }

    fn put_anywhere(&mut self, word: usize, byte: Byte, mine: &mut Vec<(usize, usize, u8)>) -> bool {
        let (low, high) = if self.order == Order::GatewayLast { (4, self.upper) } else { (0, self.width) };
        let places = (low..high).chain((0..low).chain(high..self.width));
        places.into_iter().any(|at| self.put_at(word, at, byte, false, mine))
    }

    fn put_at(&mut self, word: usize, at: usize, byte: Byte, fixed: bool, mine: &mut Vec<(usize, usize, u8)>) -> bool {
        let bit = 1u32 << at;
        if at >= self.width || self.compared[word] & bit != 0 || (!fixed && self.kept_bytes[word] & bit != 0) {
            return false;
        }
        let mask = u128::from(byte.bits) << (8 * at);
        let taken = self.taken[word] | if fixed { 0 } else { self.kept[word] };
        if taken & mask != 0 {
            return false;
        }
        self.taken[word] |= mask;
        self.compared[word] |= bit;
        mine.push((word, at, byte.bits));
        true
    }

    /// A nibble for the version: beside one of the entry's own bytes, among the overhead, in the upper two bytes, in any free byte.
    fn put_version(&mut self, word: usize, mine: &[(usize, usize, u8)]) -> Option<()> {
        let taken = self.taken[word] | self.kept[word];
        let (low, high) = (self.version, self.version << 4);
        let byte = |at: usize| (taken >> (8 * at)) & 0xff;
        for (of, at, _) in mine.iter().filter(|(of, ..)| *of == word) {
            if let Some(mask) = [low, high].into_iter().find(|m| byte(*at) & m == 0) {
                self.taken[*of] |= mask << (8 * at);
                return Some(());
            }
        }
        let free = |grid: &Grid, at: usize| (grid.compared[word] | grid.kept_bytes[word]) & (1 << at) == 0;
        if self.order == Order::Tight {
            for at in (0..(self.half / 8) as usize).filter(|at| free(self, *at)) {
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

    /// Spreads entries that fit no word whole; where that fails, takes whole ones out again, from the last word on.
    fn share(mut self, plan: &Plan, bytes: &[Byte], mut placed: Vec<Taken>) -> bool {
        if self.clone().spread(plan, bytes) {
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
            if self.clone().spread(plan, bytes) {
                return true;
            }
        }
        false
    }

    fn spread(mut self, plan: &Plan, bytes: &[Byte]) -> bool {
        self.shared.fill(0);
        let mut begun: Vec<Spread> = Vec::new();
        let mut first = 0;
        for word in 0..self.taken.len() {
            let whole = self.full[word] as usize;
            let starting = plan.overhead[word] as usize - whole;
            if starting + begun.len() > 2 {
                return false;
            }
            for one in &mut begun {
                one.put(&mut self, plan, word, false);
            }
            for i in 0..starting {
                let mut one = Spread {
                    entry: first + whole + i,
                    left: sorted(bytes.to_vec()),
                    versioned: false,
                    mine: Vec::new(),
                };
                one.put(&mut self, plan, word, true);
                begun.push(one);
            }
            begun.retain(|one| !one.left.is_empty() || !one.versioned);
            first += plan.overhead[word] as usize;
        }
        begun.is_empty()
    }
}

/// An entry that is spread over words.
struct Spread {
    entry: usize,
    left: Vec<Byte>,
    versioned: bool,
    mine: Vec<(usize, usize, u8)>,
}

impl Spread {
    fn put(&mut self, grid: &mut Grid, plan: &Plan, word: usize, own: bool) {
        let mut words = std::collections::BTreeSet::new();
        if own && let Some(i) = grid.interleaved {
            let at = self.left.iter().position(|b| *b == i.byte);
            if let Some(at) = at.filter(|_| grid.put(word, self.entry, i.byte, plan, &mut self.mine)) {
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
            self.left.retain(|byte| !grid.put_anywhere(at, *byte, mine));
            if self.left.len() < before {
                words.insert(at);
            }
        }
        for at in from..=word {
            if self.versioned || grid.shared[at] == 2 {
                continue;
            }
            if grid.put_version(at, &self.mine).is_some() {
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

/// The lowest bits of a word.
pub(super) fn low(bits: u32) -> u128 {
    1u128.checked_shl(bits).map_or(u128::MAX, |b| b - 1)
}

fn sorted(mut bytes: Vec<Byte>) -> Vec<Byte> {
    bytes.sort_by_key(|b| std::cmp::Reverse(b.bits.count_ones()));
    bytes
}

/// Bytes that the bus of a word brings, whole ones first.
fn on(plan: &Plan, bytes: &[Byte], word: usize) -> Vec<Byte> {
    sorted(bytes.iter().filter(|b| Some(b.bus) == plan.bus[word]).copied().collect())
}

/// The entry that a word takes next, after `seen` others.
fn entry_of(plan: &Plan, word: usize, seen: usize) -> Option<usize> {
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
