//! Fitting a table in SRAM into a stage, as the compiler tries it (`table_placement.cpp`, try place table).

use super::data;
use super::key;
use super::layouts::{Candidate, InSram, number_bits};
use super::rows::{self, Demand};
use super::{Layout, Part};
use crate::demand::{AttachedKind, Table};
use crate::target::{Target, Usage};
use std::cmp::Ordering;

/// The most entries, up to `wanted`, that fit into `free`.
pub(super) fn fit(target: &Target, table: &Table, wanted: u64, free: &Usage) -> Option<Part> {
    if key::too_wide(table, target.per_stage.exact_crossbar) || data::too_wide(target, table) {
        return None;
    }
    if let Some(part) = by_key(target, table, wanted, free) {
        return Some(part);
    }
    let of = InSram::new(target, table);
    let mut choice = Choice { of: &of, all: of.candidates(), preferred: 0 };
    choice.whole(wanted, free).or_else(|| choice.shrunk(free))
}

/// A table with an entry for each value of its key and one action: the key is the address of action data and state, and nothing is compared
/// (`table_layout.cpp`, hash action). Such a table is not split over stages.
fn by_key(target: &Target, table: &Table, wanted: u64, free: &Usage) -> Option<Part> {
    let bits = table.key_bits();
    let idle = table.attached.iter().any(|a| a.kind == AttachedKind::Idle);
    if !table.is_by_key() || wanted != table.entries || idle {
        return None;
    }
    let format = *data::formats(target, table).first()?;
    let (state, map_ram, largest_state) = data::state_blocks(target, table, wanted);
    let action = data::action_ram(target, format.bytes).map_or(0, |ram| ram.blocks(target, wanted));
    let usage = Usage {
        sram: action.saturating_add(state),
        map_ram,
        tables: 1,
        hash_bits: bits,
        exact_crossbar: key::of_exact(target, table).crossbar,
        ..data::units(table, format)
    };
    let demand = Demand { anywhere: action, state, largest_state, ..Demand::default() };
    let description = "nothing is compared: the key is the address of data and state".to_owned();
    let layout = Layout { entries_per_row: 1, description, ..Layout::default() };
    (usage.fits(free) && rows::hold(target, &demand)).then_some(Part { entries: wanted, usage, layout })
}

/// The layouts still in play, best first.
struct Choice<'a> {
    of: &'a InSram<'a>,
    all: Vec<Candidate>,
    preferred: usize,
}

impl Choice<'_> {
    /// All that is wanted in one stage. Once a layout has been formed and found no place, the next ones are to hold as many entries as it would
    /// have held, which is more than was asked.
    fn whole(&mut self, mut wanted: u64, free: &Usage) -> Option<Part> {
        self.size(wanted);
        while self.preferred < self.all.len() && self.form(wanted) {
            if let Some(part) = self.part(free) {
                return Some(part);
            }
            wanted = self.all[self.preferred].entries;
            self.preferred += 1;
        }
        None
    }

    /// As much as the stage takes: each layout as deep as blocks allow; while blocks find no place, the best one less deep.
    fn shrunk(&mut self, free: &Usage) -> Option<Part> {
        for c in &mut self.all {
            self.of.grow(c, free.sram);
        }
        self.all.retain(|c| c.entries > 0);
        self.all.sort_by(|a, b| most_entries(a, b, Some(free.sram)));
        self.preferred = 0;
        loop {
            let entries = self.all.first()?.entries;
            if !self.form(entries) {
                return None;
            }
            if let Some(part) = self.part(free) {
                return Some(part);
            }
            self.shrink();
        }
    }

    /// Sizes all layouts for `wanted` and sorts them: fewest blocks first.
    fn size(&mut self, wanted: u64) {
        for c in &mut self.all {
            self.of.size(c, wanted);
        }
        self.all.sort_by(fewest_blocks);
        self.preferred = 0;
    }

    /// Goes on to a layout whose row can be formed. One that cannot is made a word wider, once (`resource_estimate.cpp`, adjust choices).
    fn form(&mut self, wanted: u64) -> bool {
        while let Some(c) = self.all.get_mut(self.preferred) {
            if self.of.formed(c) {
                return true;
            }
            let wider = c.words + 1;
            let several = c.entries_per_row != 1 && wider.is_multiple_of(c.entries_per_row);
            if c.widened || several {
                self.all.remove(self.preferred);
            } else {
                (c.words, c.widened) = (wider, true);
            }
            self.size(wanted);
        }
        false
    }

    /// Takes at least a block from the best layout, and sorts anew.
    fn shrink(&mut self) {
        let Some(c) = self.all.get_mut(self.preferred) else { return };
        let before = c.sram;
        for less in (1..before).rev() {
            self.of.grow(c, less);
            if c.sram < before {
                break;
            }
        }
        if c.sram >= before || c.sram == 0 {
            self.all.remove(self.preferred);
        }
        self.all.sort_by(|a, b| most_entries(a, b, None));
        self.preferred = 0;
    }

    /// The preferred layout as a part, if its blocks find a place.
    fn part(&self, free: &Usage) -> Option<Part> {
        let c = self.all.get(self.preferred)?;
        let (of, target) = (self.of, self.of.target);
        let lookups = of.lookups();
        let matched = c.depth.saturating_mul(lookups).saturating_mul(c.words);
        if matched > free.sram {
            return None;
        }
        let partitions = logical_tables(of, c);
        let (state, map_ram, largest_state) = data::state_blocks(target, of.table, c.entries);
        let action = data::action_ram(target, c.data.bytes).map_or(0, |ram| match partitions.first() {
            // Each logical table has action RAM of its own, as much as the first one needs.
            Some(first) => ram.blocks(target, of.entries(c, *first)) * partitions.len() as u32,
            None => ram.blocks(target, c.entries),
        });
        let each = partitions.iter().flat_map(|size| std::iter::repeat_n(*size, lookups as usize)).collect();
        let (words, depth) = (c.words, c.depth * lookups);
        let demand = Demand { words, depth, partitions: each, anywhere: action, state, largest_state };
        let usage = Usage {
            sram: matched.saturating_add(action).saturating_add(state),
            map_ram,
            tables: partitions.len().max(1) as u32,
            hash_bits: if partitions.is_empty() { c.ways.hash_bits } else { number_bits(of.partitions?) },
            exact_crossbar: of.key.crossbar * c.ways.groups.max(1),
            ..data::units(of.table, c.data)
        };
        (usage.fits(free) && rows::hold(target, &demand)).then(|| Part {
            entries: c.entries,
            usage,
            layout: layout(c, &partitions),
        })
    }
}

/// Rows that each logical table of an algorithmic TCAM looks at together: as even as can be, at most five, so that they lie in half a row of
/// blocks; one each where partitions are many (`resource_estimate.cpp`, partition sizes).
fn logical_tables(of: &InSram, c: &Candidate) -> Vec<u32> {
    let Some(partitions) = of.partitions else { return Vec::new() };
    let most = of.target.formats.max_ranked_blocks;
    let tables = if partitions > 4096 { c.depth } else { c.depth.div_ceil(most) };
    (0..tables).map(|i| c.depth / tables + u32::from(i < c.depth % tables)).collect()
}

fn layout(c: &Candidate, partitions: &[u32]) -> Layout {
    let (entries, words) = (c.entries_per_row, c.words);
    let plural = |n: u32, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    let row = format!("{} in {}", plural(entries, "entry", "entries"), plural(words, "word", "words"));
    let ways = if c.ways.identity {
        "the key is the place".to_owned()
    } else if partitions.is_empty() {
        plural(c.ways.sizes.len() as u32, "way", "ways")
    } else {
        plural(partitions.len() as u32, "ranked table", "ranked tables")
    };
    let data = match (c.data.bytes, c.data.immediate) {
        (0, 0) => String::new(),
        (0, bits) => format!(", {bits} bits of action data in the entry"),
        (bytes, 0) => format!(", {bytes} bytes of action data in blocks of their own"),
        (bytes, bits) => format!(", {bits} bits of action data in the entry, {bytes} bytes in blocks of their own"),
    };
    let ways_of = if partitions.is_empty() { c.ways.sizes.clone() } else { partitions.to_vec() };
    Layout {
        ways: ways_of,
        entries_per_row: entries,
        words,
        description: format!("{row}, {ways}{data}"),
        ..Layout::default()
    }
}

/// Which layout is tried first when all entries are to fit (`resource_estimate.cpp`, best option).
fn fewest_blocks(a: &Candidate, b: &Candidate) -> Ordering {
    let packing = if a.entries == b.entries { a.entries_per_row.cmp(&b.entries_per_row) } else { Ordering::Equal };
    let data = (a.data.bytes > 0, a.data.bytes).cmp(&(b.data.bytes > 0, b.data.bytes));
    (a.sram, a.words).cmp(&(b.sram, b.words)).then(packing).then(data).then(b.entries.cmp(&a.entries))
}

/// Which layout is tried first when a stage takes what it can (the same file, SRAMs left and most entries).
fn most_entries(a: &Candidate, b: &Candidate, left: Option<u32>) -> Ordering {
    let blocks = match left {
        Some(left) => (a.sram > left).cmp(&(b.sram > left)),
        None => Ordering::Equal,
    };
    let fewer = if left.is_none() { a.sram.cmp(&b.sram) } else { Ordering::Equal };
    let rest = |c: &Candidate| (c.words, c.entries_per_row, c.data.bytes > 0, c.data.bytes);
    blocks.then(b.entries.cmp(&a.entries)).then(fewer).then(rest(a).cmp(&rest(b)))
}
