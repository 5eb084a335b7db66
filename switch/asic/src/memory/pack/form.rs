//! A row's form, and what each of its words is for.

use crate::memory::key::KeyBytes;
use crate::target::Target;

/// What an entry needs beside its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::memory) struct Overhead {
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
pub(in crate::memory) struct Form<'a> {
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
pub(super) struct Plan {
    pub overhead: Vec<u32>,
    pub bus: Vec<Option<usize>>,
    pub wide: bool,
    pub ghosted: Vec<usize>,
}

/// Gives words to buses and overhead to words.
pub(super) fn plan(form: &Form) -> Option<Plan> {
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
