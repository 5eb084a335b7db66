//! Format of a row, and the use of each of its words.

use crate::memory::key::KeyBytes;
use crate::target::ChipTarget;

/// Bits of an entry besides its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::memory) struct EntryOverhead {
    /// Bits that select the action.
    pub action: u32,
    /// Bits of addresses of shared resources (indirect counters, meters, action data).
    pub pointers: u32,
    /// Bits of immediate action data.
    pub immediate: u32,
}

impl EntryOverhead {
    /// Returns the sum of all parts.
    pub fn total_bits(&self) -> u32 {
        self.action + self.pointers + self.immediate
    }
}

/// Format of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::memory) struct RowFormat<'a> {
    /// The chip.
    pub target: &'a ChipTarget,
    /// The key.
    pub key: &'a KeyBytes,
    /// Entries per row.
    pub entries: u32,
    /// Words per row.
    pub words: u32,
    /// Key bits that need not be stored.
    pub ghost_bits: u32,
    /// Overhead of each entry.
    pub overhead: EntryOverhead,
    /// Whether the entries of a row are ranked (algorithmic TCAM), so that all overhead is in one
    /// word.
    pub ranked: bool,
}

/// Search bus and number of overheads of each word.
pub(super) struct RowPlan {
    pub overhead: Vec<u32>,
    pub bus: Vec<Option<usize>>,
    pub wide: bool,
    pub ghosted: Vec<usize>,
}

/// Assigns buses and overheads to words. `None` if no assignment exists. A bus brings a part of the
/// key to the comparators of a word; the bus with the fewest bits is in the words with overhead.
pub(super) fn plan_row(form: &RowFormat) -> Option<RowPlan> {
    let (words, entries) = (form.words as usize, form.entries as usize);
    let bits = |bus: usize| form.key.bytes.iter().filter(|b| b.bus == bus).map(|b| b.bits.count_ones()).sum::<u32>();
    let mut order: Vec<usize> = (0..form.key.buses).collect();
    order.sort_by_key(|bus| (bits(*bus), *bus));
    if form.key.buses == 1 || words == 1 {
        return plan_single_bus(form, words, entries, &order, bits);
    }
    let per_entry = words.div_ceil(entries);
    if form.key.buses > per_entry {
        return None;
    }
    let without_overhead = entries * (order.len() - 1);
    let with_overhead = (words - without_overhead.min(words)).min(entries);
    let bus_on_overhead = words - with_overhead <= without_overhead;
    if with_overhead * 2 < entries || (with_overhead > 1 && form.ranked) {
        return None;
    }
    let mut bus = vec![bus_on_overhead.then_some(order[0]); with_overhead];
    let other_buses = &order[usize::from(bus_on_overhead)..];
    bus.extend((0..words - with_overhead).map(|i| other_buses.get(i / entries).copied()));
    let mut overhead = vec![0; words];
    (0..entries).for_each(|i| overhead[i % with_overhead] += 1);
    Some(RowPlan { overhead, bus, wide: true, ghosted: Vec::new() })
}

/// Plans a row in which all words compare the same bus. Further buses are possible if ghost bits
/// cover all of their bits: bits of the key that the hash address implies. `order` has the buses by
/// number of bits, ascending.
fn plan_single_bus(
    form: &RowFormat,
    words: usize,
    entries: usize,
    order: &[usize],
    bits: impl Fn(usize) -> u32,
) -> Option<RowPlan> {
    let (mut ghost_bits_used, mut ghosted) = (0, Vec::new());
    for bus in order.iter().take(order.len() - 1) {
        ghost_bits_used += bits(*bus);
        if ghost_bits_used > form.ghost_bits {
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
    Some(RowPlan { overhead, bus: vec![order.last().copied(); words], wide: false, ghosted })
}
