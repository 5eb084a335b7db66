//! Layout of tables in a chip's memories.
//!
//! *Allocations* ([`fit_in_stage`], [`allocate_alone`]) determine the blocks of each stage that a
//! table takes. An *estimate* ([`estimate`]) divides entries by words.
//!
//! The rules are those of the chip's open compiler (p4lang/p4c, `backends/tofino/bf-p4c`). The
//! chip's numbers come from the [`ChipTarget`]. Location of each rule, here and in the compiler:
//!
//! | rule | here | p4c source in `mau/` |
//! |---|---|---|
//! | bytes of a key; ghost bits | `key` | `table_layout`, `table_format`, `tofino/input_xbar` |
//! | packings to try: entries per row, words per row | `layouts` | `table_layout` (exact match) |
//! | feasibility of a packing | `pack` | `table_format` |
//! | hash ways, select bits, identity hash | `ways` | `resource_estimate` (way sizes) |
//! | action data, attached state, addresses | `data` | `action_format`, `attached_info` |
//! | rows and columns of blocks, reach of state | `rows` | `tofino/memories` |
//! | preference among layouts; shrinking | `sram` | `table_placement`, `resource_estimate` |
//! | TCAM size, ranges, ternary indirection | `tcam` | `resource_estimate`, `tofino/memories` |
//! | ALPM: pivots, partitions, spare slots | `alpm` | `table_placement`; `midend/alpm.cpp` |
//! | tables in off-chip DRAM | `dram` | no public source |
//!
//! `tests/calibration.rs` compares the model with that compiler's results for 281 tables. Not
//! modelled: the bus of a row, individual bits of a hash, stashes, tables of a few constant entries
//! that a gateway can match, action profiles and selectors.

mod alpm;
mod data;
mod dram;
mod estimate;
mod key;
mod layouts;
mod pack;
mod rows;
mod sram;
mod tcam;
mod ways;

pub use estimate::{BlockEstimate, estimate, estimate_with_data};

use crate::demand::{MemoryMatchKind, TableDemand};
use crate::target::{ChipTarget, StageResources};
use serde::{Deserialize, Serialize};

/// Layout in blocks of a [`StageAllocation`]'s entries.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TableLayout {
    /// Depth in blocks of each hash way. Empty for tables without ways.
    pub ways: Vec<u32>,
    /// Entries in a row of `words` words.
    pub entries_per_row: u32,
    /// Width of a row in blocks.
    pub words: u32,
    /// Bytes of off-chip DRAM for the entries. 0 for tables on the chip.
    #[serde(default)]
    pub dram_bytes: u64,
    /// Description for users, one sentence.
    pub description: String,
}

/// Entries of a table in one stage, with their resources.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StageAllocation {
    /// Capacity in entries, at least the requested number if it fits.
    pub entries: u64,
    /// Resources of the stage that they take.
    pub usage: StageResources,
    /// Layout in blocks.
    pub layout: TableLayout,
}

/// Reason why a table does not fit a chip of any number of stages.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("table {table}: {reason}; {help}")]
pub struct MemoryError {
    /// Name of the table.
    pub table: String,
    /// Description of the problem, with numbers.
    pub reason: String,
    /// Suggested change.
    pub help: String,
}

/// Returns the largest allocation, up to `wanted` entries, that fits the free resources of one
/// stage. `None` if nothing fits.
///
/// A table with [`MemoryMatchKind::Alpm`] is two tables in different stages (see [`alpm_tables`]);
/// this fits its partitions. A table with an indexed register or meter must fit one stage as a
/// whole, because that state cannot be duplicated (`table_placement.cpp`: only counters can).
pub fn fit_in_stage(
    target: &ChipTarget,
    table: &TableDemand,
    wanted: u64,
    free: &StageResources,
) -> Option<StageAllocation> {
    let part = match table.kind {
        MemoryMatchKind::None => fit_keyless(target, table, free),
        MemoryMatchKind::Exact => match sram::fit_sram(target, table, wanted, free) {
            Some(part) if part.entries >= wanted => Some(part),
            less => dram::fit_with_cache(target, table, wanted, free).or(less),
        },
        MemoryMatchKind::Partitioned { .. } => sram::fit_sram(target, table, wanted, free),
        MemoryMatchKind::Ternary => tcam::fit_tcam(target, table, wanted, free),
        MemoryMatchKind::Alpm { .. } => sram::fit_sram(target, &alpm_tables(table)?.1, wanted, free),
    };
    part.filter(|part| part.entries >= wanted || !data::has_single_stage_state(table))
}

/// Fits a table without a key: its default action and attached state.
fn fit_keyless(target: &ChipTarget, table: &TableDemand, free: &StageResources) -> Option<StageAllocation> {
    let (state, map_ram, largest_state) = data::state_blocks(target, table, 1);
    let usage = StageResources {
        sram: state,
        map_ram,
        tables: 1,
        ..data::stage_units(table, data::ActionDataFormat::default())
    };
    let demand = rows::StageDemand { state, largest_state, ..rows::StageDemand::default() };
    let layout = TableLayout { description: "no key".into(), ..TableLayout::default() };
    (usage.fits(free) && rows::fits_empty_stage(target, &demand)).then_some(StageAllocation {
        entries: rows_needed(table),
        usage,
        layout,
    })
}

/// Returns the two tables of an ALPM table on the chip: pivots, and partitions in a later stage.
/// `None` for other tables.
pub fn alpm_tables(table: &TableDemand) -> Option<(TableDemand, TableDemand)> {
    let MemoryMatchKind::Alpm { partitions } = table.kind else { return None };
    Some(alpm::pivot_and_partition_tables(table, partitions))
}

/// Returns the rows that all allocations of a table must hold together. This exceeds the number of
/// entries if the chip needs spare rows, or several rows per entry.
pub fn rows_needed(table: &TableDemand) -> u64 {
    match table.kind {
        MemoryMatchKind::Ternary => tcam::tcam_rows(table),
        // The number of distinct exact keys bounds the entries (`table_placement.cpp`, shrinking).
        MemoryMatchKind::Exact => table.entries.min(1u64.checked_shl(table.key_bits()).unwrap_or(u64::MAX)).max(1),
        _ => table.entries.max(1),
    }
}

/// Maximum number of stages of [`allocate_alone`].
pub const MAX_STAGES: usize = 1024;

/// Returns the error for a table that no stage can hold, with the limit that it exceeds.
fn no_stage_error(target: &ChipTarget, table: &TableDemand) -> MemoryError {
    let bits: u64 = table.keys.iter().map(|k| u64::from(k.bits)).sum();
    let crossbar_bytes = match table.kind {
        MemoryMatchKind::Ternary => target.per_stage.ternary_crossbar,
        _ => target.per_stage.exact_crossbar,
    };
    let reason = if key::exceeds_crossbar(table, crossbar_bytes) {
        format!("its key of {bits} bits is wider than the {} bits of a stage's crossbar", crossbar_bytes * 8)
    } else if data::has_too_wide_action(target, table) {
        let max_bits = target.formats.max_action_data_bits;
        format!("an action has more data than the {max_bits} bits that action memory returns for an entry")
    } else if data::has_single_stage_state(table) {
        format!(
            "its {} entries must be in one stage, as its register or meter is in one place, and are too many",
            table.entries
        )
    } else {
        format!(
            "not even its smallest part fits into an empty stage (a key of {bits} bits, {} bits of action data)",
            table.data_bits()
        )
    };
    MemoryError {
        table: table.name.clone(),
        reason,
        help: "match a digest of the key, or fewer fields; give entries less data".into(),
    }
}

/// Allocates the table alone on a chip with unlimited stages. Returns its allocation in each stage.
///
/// # Errors
/// [`MemoryError`] if no stage can hold even the smallest allocation, or the table takes more
/// stages than any chip has ([`MAX_STAGES`]).
pub fn allocate_alone(target: &ChipTarget, table: &TableDemand) -> Result<Vec<StageAllocation>, MemoryError> {
    if let Some((pivots, partitioned)) = alpm_tables(table) {
        let mut parts = allocate_alone(target, &pivots)?;
        parts.extend(allocate_alone(target, &partitioned)?);
        return Ok(parts);
    }
    let mut left = rows_needed(table);
    let mut parts = Vec::new();
    while left > 0 {
        let Some(part) = fit_in_stage(target, table, left, &target.per_stage).filter(|part| part.entries > 0) else {
            return Err(no_stage_error(target, table));
        };
        if parts.len() == MAX_STAGES {
            return Err(MemoryError {
                table: table.name.clone(),
                reason: format!(
                    "its {} entries take more than {MAX_STAGES} stages, at {} in each",
                    table.entries, part.entries
                ),
                help: format!(
                    "a chip with {} stages holds about {}",
                    target.stages,
                    part.entries * u64::from(target.stages)
                ),
            });
        }
        left = left.saturating_sub(part.entries);
        parts.push(part);
    }
    Ok(parts)
}
