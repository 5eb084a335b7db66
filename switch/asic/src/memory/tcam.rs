//! Fits a ternary table into a stage's TCAM.

use super::data::{self, ActionDataFormat, PerEntryMemory};
use super::rows::{self, StageDemand};
use super::{StageAllocation, TableLayout, key};
use crate::demand::TableDemand;
use crate::target::{ChipTarget, StageResources};

/// Returns the width of a key in blocks. Each block holds 44 bits, of which the entry's version
/// takes four in one block (`resource_estimate.cpp`, TCAMs needed; `table_format.cpp`, ternary
/// match).
pub(super) fn key_width_blocks(target: &ChipTarget, key_bits: u32) -> u32 {
    (key_bits + target.formats.version_bits).div_ceil(target.tcam.width).max(1)
}

/// Returns the TCAM rows that the entries take. A range can take several; a quarter of the entries
/// is assumed to have such a range (`resource_estimate.cpp`, range entries: at most eight rows, and
/// twice the range's nibbles less one).
pub(super) fn tcam_rows(table: &TableDemand) -> u64 {
    let nibbles = table.keys.iter().filter(|k| k.range).map(|k| k.bits.div_ceil(4)).max();
    let Some(nibbles) = nibbles else { return table.entries };
    let lines = u64::from((2 * nibbles).saturating_sub(1).clamp(1, 8));
    let with_range = table.entries / 4;
    with_range.saturating_mul(lines).saturating_add(table.entries - with_range)
}

/// Returns the maximum depth in blocks of a key of `width` blocks in a stage. Its blocks are
/// stacked in a column; an even width starts on an even row (`tofino/memories.cpp`, ternary
/// stretch).
fn max_depth(target: &ChipTarget, width: u32) -> u32 {
    target.tcam.rows / width * target.tcam.columns
}

/// Returns the largest allocation, up to `wanted` entries, that fits into `free`.
pub(super) fn fit_tcam(
    target: &ChipTarget,
    table: &TableDemand,
    wanted: u64,
    free: &StageResources,
) -> Option<StageAllocation> {
    if key::exceeds_crossbar(table, target.per_stage.ternary_crossbar) || data::has_too_wide_action(target, table) {
        return None;
    }
    let (bits, crossbar) = key::ternary_key_size(table);
    let width = key_width_blocks(target, bits);
    let block = u64::from(target.tcam.depth);
    let most = max_depth(target, width).min(free.tcam / width);
    let most = u32::try_from(wanted.div_ceil(block)).unwrap_or(u32::MAX).min(most);
    (1..=most).rev().find_map(|depth| best_allocation(target, table, width, crossbar, depth, free))
}

/// Returns the allocation with the split of action data that takes the fewest blocks at `depth`, a
/// number of TCAM blocks. `width` is the number of blocks side by side for a key. The choice goes
/// by the estimated pointer width, as in the compiler; the allocation by the exact one.
fn best_allocation(
    target: &ChipTarget,
    table: &TableDemand,
    width: u32,
    crossbar: u32,
    depth: u32,
    free: &StageResources,
) -> Option<StageAllocation> {
    let entries = u64::from(depth) * u64::from(target.tcam.depth);
    let parts = data::action_data_formats(target, table).into_iter().map(|format| {
        let (state_blocks, map_ram, largest_state) = data::state_blocks(target, table, entries);
        let indirection_sram =
            |pointers| indirection(target, table, format, pointers).map_or(0, |b| b.blocks_for(target, entries));
        let estimated_sram =
            indirection_sram(data::estimated_pointer_bits(table)) + action_blocks(target, format, entries);
        let indirection_blocks = indirection_sram(data::pointer_bits(table));
        let action_sram = action_blocks(target, format, entries);
        let usage = StageResources {
            sram: indirection_blocks.saturating_add(action_sram).saturating_add(state_blocks),
            map_ram,
            tcam: depth * width,
            tables: 1,
            ternary_tables: 1,
            ternary_crossbar: crossbar,
            ..data::stage_units(table, format)
        };
        let description = format!("{width} blocks wide, {depth} deep");
        let part = StageAllocation {
            entries,
            usage,
            layout: TableLayout {
                ways: vec![depth],
                entries_per_row: 1,
                words: width,
                description,
                ..TableLayout::default()
            },
        };
        let demand = StageDemand {
            anywhere: indirection_blocks.saturating_add(action_sram),
            state: state_blocks,
            largest_state,
            ..StageDemand::default()
        };
        (estimated_sram, part, rows::fits_empty_stage(target, &demand))
    });
    let fitting = parts.filter(|(_, part, fits_stage)| *fits_stage && part.usage.fits(free));
    fitting.min_by_key(|(estimated_sram, ..)| *estimated_sram).map(|(_, part, _)| part)
}

fn action_blocks(target: &ChipTarget, format: ActionDataFormat, entries: u64) -> u32 {
    data::action_ram(target, format.bytes).map_or(0, |b| b.blocks_for(target, entries))
}

/// Returns the memory that maps each TCAM entry to its action and immediate data, 8 to 64 bits
/// (`resource_estimate.cpp`, ternary indirection). `None` if entries have neither.
fn indirection(
    target: &ChipTarget,
    table: &TableDemand,
    format: ActionDataFormat,
    pointers: u32,
) -> Option<PerEntryMemory> {
    let bits = data::action_bits(table) + pointers + format.immediate;
    let size = bits.next_power_of_two().clamp(8, 64);
    (bits > 0).then(|| PerEntryMemory { per_word: target.sram.width / size, words: 1, sram: true, map_ram: false })
}
