//! Whether a number of entries can lie side by side in so many words.
//!
//! What a word can hold is more than a sum of bits (`table_format.cpp` of the back-end). A byte of a word is compared for one entry only. What
//! is not compared (which action, its data, addresses: the *overhead*) lies in the lower half of a word, from bit 0. An entry's version is
//! a nibble; in the two upper bytes of a word nibbles are compared one by one. An entry may be spread over words, but at most two entries of
//! a word may be spread; and a word compares one search bus.

mod grid;

use super::key::{Byte, KeyBytes, without_ghosts};
use crate::target::Target;
use grid::{Grid, Interleaved, Order, low};

/// What an entry needs beside its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Overhead {
    /// Bits that name the action.
    pub action: u32,
    /// Bits of addresses of what the table shares with others (indirect counters, meters, action data).
    pub pointers: u32,
    /// Bits of action data.
    pub immediate: u32,
}

impl Overhead {
    /// All of it.
    pub fn bits(&self) -> u32 {
        self.action + self.pointers + self.immediate
    }
}

/// A row's form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Form<'a> {
    /// The chip.
    pub target: &'a Target,
    /// The key.
    pub key: &'a KeyBytes,
    /// Entries in a row.
    pub entries: u32,
    /// Words that a row is wide.
    pub words: u32,
    /// Bits of the key that need not be kept.
    pub ghosts: u32,
    /// What each entry needs.
    pub overhead: Overhead,
    /// Whether entries of one row are ranked (algorithmic TCAM): all overhead is in one word.
    pub ranked: bool,
}

/// Which bus each word compares and whose overhead it has.
struct Plan {
    overhead: Vec<u32>,
    bus: Vec<Option<usize>>,
    wide: bool,
    ghosted: Vec<usize>,
}

/// Whether the form can be.
pub(super) fn packs(form: &Form) -> bool {
    let Some(plan) = plan(form) else { return false };
    let bytes = without_ghosts(form.key, form.ghosts);
    let start = Grid::new(form, &plan);
    let grid = start.clone().with_overhead(form, &plan);
    let filled = |grid: Grid| {
        [Order::GatewayLast, Order::Tight].into_iter().any(|order| grid.clone().fill(&plan, &bytes, order))
    };
    if grid.is_some_and(filled) {
        return true;
    }
    interleaved(start, form, &plan, bytes)
}

/// Gives words to buses and overhead to words.
fn plan(form: &Form) -> Option<Plan> {
    let (words, entries) = (form.words as usize, form.entries as usize);
    let bits = |bus: usize| form.key.bytes.iter().filter(|b| b.bus == bus).map(|b| b.bits.count_ones()).sum::<u32>();
    let mut order: Vec<usize> = (0..form.key.buses).collect();
    order.sort_by_key(|bus| (bits(*bus), *bus));
    if form.key.buses == 1 || words == 1 {
        return narrow(form, words, entries, &order, bits);
    }
    let per_entry = words.div_ceil(entries);
    if form.key.buses > per_entry {
        return None;
    }
    let full = entries * (order.len() - 1);
    let with_overhead = (words - full.min(words)).min(entries);
    let bus_on_overhead = words - with_overhead <= full;
    if with_overhead * 2 < entries || (with_overhead > 1 && form.ranked) {
        return None;
    }
    let mut bus = vec![bus_on_overhead.then_some(order[0]); with_overhead];
    let rest = &order[usize::from(bus_on_overhead)..];
    bus.extend((0..words - with_overhead).map(|i| rest.get(i / entries).copied()));
    let mut overhead = vec![0; words];
    (0..entries).for_each(|i| overhead[i % with_overhead] += 1);
    Some(Plan { overhead, bus, wide: true, ghosted: Vec::new() })
}

/// All words compare the same bus. A second bus may be, if no bit of it is left to compare.
fn narrow(form: &Form, words: usize, entries: usize, order: &[usize], bits: impl Fn(usize) -> u32) -> Option<Plan> {
    let (mut seen, mut ghosted) = (0, Vec::new());
    for bus in order.iter().take(order.len() - 1) {
        seen += bits(*bus);
        if seen > form.ghosts {
            return None;
        }
        ghosted.push(*bus);
    }
    let mut overhead = vec![(entries / words) as u32; words];
    (0..entries % words).for_each(|i| overhead[i] += 1);
    if form.ranked {
        overhead.fill(0);
        overhead[0] = form.entries;
    }
    Some(Plan { overhead, bus: vec![order.last().copied(); words], wide: false, ghosted })
}

/// Puts the overhead of each entry into the hole of a byte that is not compared whole, next to it.
fn interleaved(mut grid: Grid, form: &Form, plan: &Plan, bytes: Vec<Byte>) -> bool {
    let bits = form.overhead.bits();
    let with: Vec<usize> = (0..plan.overhead.len()).filter(|w| plan.overhead[*w] > 0).collect();
    let bus = plan.bus[with[0]];
    if bits == 0 || bus.is_none() || with.iter().any(|w| plan.bus[*w] != bus) {
        return false;
    }
    let Some((byte, start, at, cycle)) = best_hole(&bytes, bus, bits) else { return false };
    grid.order = Order::Tight;
    grid.interleaved = Some(Interleaved { byte, at, cycle });
    for word in with {
        let mut from = 0usize;
        for _ in 0..plan.overhead[word] {
            let first = from as u32 * 8 + start;
            if first + bits > grid.half {
                return false;
            }
            grid.taken[word] |= low(bits) << first;
            let kept = u128::from(byte.bits) << (8 * (from + at));
            if from + at >= grid.width || grid.taken[word] & kept != 0 {
                return false;
            }
            grid.kept[word] |= kept;
            grid.kept_bytes[word] |= 1 << (from + at);
            from += cycle;
        }
    }
    grid.fill(plan, &bytes, Order::Tight)
}

/// The byte of a bus whose hole is best for `bits` of overhead: (byte, first bit of the overhead, byte's place, bytes of both together).
fn best_hole(bytes: &[Byte], bus: Option<usize>, bits: u32) -> Option<(Byte, u32, usize, usize)> {
    let of = |byte: Byte| {
        let (below, above) = (byte.bits.trailing_zeros(), byte.bits.leading_zeros());
        let hole = below.max(above);
        let cycle = (8 - hole + bits).div_ceil(8);
        let start = if below > above { ((cycle - 1) * 8 + below).checked_sub(bits)? } else { 8 - above };
        let at = if below > above { cycle - 1 } else { 0 };
        // Fewest bytes for both, and of those the fullest.
        Some(((cycle, hole), (byte, start, at as usize, cycle as usize)))
    };
    let mut holes =
        bytes.iter().filter(|b| Some(b.bus) == bus && b.bits & 0x81 != 0x81).filter_map(|b| of(*b)).collect::<Vec<_>>();
    holes.sort_by_key(|(rank, _)| *rank);
    holes.first().map(|(_, hole)| *hole)
}
