//! Fitting a ternary table into a stage's TCAM.

use super::data::{self, Beside, DataFormat};
use super::rows::{self, Demand};
use super::{Layout, Part, key};
use crate::demand::Table;
use crate::target::{Target, Usage};

/// Blocks that a key is wide: each holds 44 bits, and the entry's version takes four of one of them
/// (`resource_estimate.cpp`, TCAMs needed; `table_format.cpp`, ternary match).
pub(super) fn width(target: &Target, key_bits: u32) -> u32 {
    (key_bits + target.formats.version_bits).div_ceil(target.tcam.width).max(1)
}

/// Rows of TCAM that entries take. A range may take several; a quarter of the entries is reckoned to have one that does
/// (`resource_estimate.cpp`, range entries: at most eight rows, and twice the range's nibbles less one).
pub(super) fn rows_for(table: &Table) -> u64 {
    let nibbles = table.keys.iter().filter(|k| k.range).map(|k| k.bits.div_ceil(4)).max();
    let Some(nibbles) = nibbles else { return table.entries };
    let lines = u64::from((2 * nibbles).saturating_sub(1).clamp(1, 8));
    let with_range = table.entries / 4;
    with_range.saturating_mul(lines).saturating_add(table.entries - with_range)
}

/// How many times a key of `width` blocks goes into a stage: its blocks lie one above the other in a column; one of even width begins on an
/// even row (`tofino/memories.cpp`, ternary stretch).
fn deep(target: &Target, width: u32) -> u32 {
    target.tcam.rows / width * target.tcam.columns
}

/// The most entries, up to `wanted`, that fit into `free`.
pub(super) fn fit(target: &Target, table: &Table, wanted: u64, free: &Usage) -> Option<Part> {
    if key::too_wide(table, target.per_stage.ternary_crossbar) || data::too_wide(target, table) {
        return None;
    }
    let (bits, crossbar) = key::of_ternary(table);
    let width = width(target, bits);
    let block = u64::from(target.tcam.depth);
    let most = deep(target, width).min(free.tcam / width);
    let most = u32::try_from(wanted.div_ceil(block)).unwrap_or(u32::MAX).min(most);
    (1..=most).rev().find_map(|depth| best(target, table, width, crossbar, depth, free))
}

/// The form of action data that takes fewest blocks for a part so deep.
fn best(target: &Target, table: &Table, width: u32, crossbar: u32, depth: u32, free: &Usage) -> Option<Part> {
    let entries = u64::from(depth) * u64::from(target.tcam.depth);
    let parts = data::formats(target, table).into_iter().map(|format| {
        let (state, map_ram, largest_state) = data::state_blocks(target, table, entries);
        let blocks = |pointers| indirection(target, table, format, pointers).map_or(0, |b| b.blocks(target, entries));
        let reckoned = blocks(data::reckoned_pointer_bits(table)) + action_blocks(target, format, entries);
        let indirect = blocks(data::pointer_bits(table));
        let action = action_blocks(target, format, entries);
        let usage = Usage {
            sram: indirect.saturating_add(action).saturating_add(state),
            map_ram,
            tcam: depth * width,
            tables: 1,
            ternary_tables: 1,
            ternary_crossbar: crossbar,
            ..data::units(table, format)
        };
        let description = format!("{width} blocks wide, {depth} deep");
        let part = Part {
            entries,
            usage,
            layout: Layout { ways: vec![depth], entries_per_row: 1, words: width, description, ..Layout::default() },
        };
        let demand = Demand { anywhere: indirect.saturating_add(action), state, largest_state, ..Demand::default() };
        (reckoned, part, rows::hold(target, &demand))
    });
    let placed = parts.filter(|(_, part, held)| *held && part.usage.fits(free));
    placed.min_by_key(|(reckoned, ..)| *reckoned).map(|(_, part, _)| part)
}

fn action_blocks(target: &Target, format: DataFormat, entries: u64) -> u32 {
    data::action_ram(target, format.bytes).map_or(0, |b| b.blocks(target, entries))
}

/// Blocks that say what to do for each TCAM entry: action and immediate data, 8 to 64 bits (`resource_estimate.cpp`, ternary indirection).
/// None if there is nothing to say.
fn indirection(target: &Target, table: &Table, format: DataFormat, pointers: u32) -> Option<Beside> {
    let bits = data::action_bits(table) + pointers + format.immediate;
    let size = bits.next_power_of_two().clamp(8, 64);
    (bits > 0).then(|| Beside { per_word: target.sram.width / size, words: 1, sram: true, map_ram: false })
}
