//! How a table lies in a chip's memories.
//!
//! *Decisions* ([`fit`], [`alone`]) say what blocks of which stage a table takes; an *estimate* ([`estimate`]) divides entries by words.
//!
//! The rules are those of the chip's open compiler (p4lang/p4c, `backends/tofino/bf-p4c`); what is a number of the chip comes from the
//! [`Target`]. Where each rule is, here and there:
//!
//! | rule | here | stated in |
//! |---|---|---|
//! | bytes of a key; what the hash makes unnecessary to keep | `key` | `mau/table_layout.cpp`, `mau/table_format.cpp` (ghost bits), `mau/tofino/input_xbar.cpp` |
//! | which packings are tried: entries in so many words | `layouts` | `mau/table_layout.cpp` (exact match) |
//! | whether a packing can be: bytes, overhead, versions, entries spread over words | `pack` | `mau/table_format.cpp` |
//! | hash ways, select bits, keys that are places | `ways` | `mau/resource_estimate.cpp` (way sizes, identity hash) |
//! | action data in entries or apart; counters, meters, registers, idle times; addresses | `data` | `mau/action_format.cpp`, `mau/attached_info.cpp`, `mau/resource_estimate.cpp` |
//! | rows and columns of blocks, reach of state, partitions in half rows | `rows` | `mau/tofino/memories.cpp` |
//! | which layout is tried first, and how a table shrinks to what a stage has | `sram` | `mau/table_placement.cpp`, `mau/resource_estimate.cpp` |
//! | TCAM width and depth, ranges, what says what to do on a match | `tcam` | `mau/resource_estimate.cpp`, `mau/table_format.cpp`, `mau/tofino/memories.cpp` |
//! | ALPM as pivots and partitions; a spare place in each | `alpm` | `midend/alpm.cpp`, `mau/table_placement.cpp` |
//! | tables behind the chip | `dram` | no public source: see there |
//!
//! `tests/calibration.rs` holds all of this to what that compiler used for 281 tables. What is not modelled: which bus of a row, which bit of
//! a hash, stashes, tables of a few constant entries that a gateway can match, action profiles and selectors.

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

pub use estimate::{Estimate, estimate, estimate_with_data};

use crate::demand::{Match, Table};
use crate::target::{Target, Usage};
use serde::{Deserialize, Serialize};

/// How the entries of a [`Part`] lie in blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Layout {
    /// Blocks in each hash way, counted in blocks of one word's depth; empty for tables without ways.
    pub ways: Vec<u32>,
    /// Entries in a row: in `words` words side by side.
    pub entries_per_row: u32,
    /// Blocks that a row is wide.
    pub words: u32,
    /// Bytes of DRAM behind the chip, where the entries are there; 0 elsewhere.
    #[serde(default)]
    pub dram_bytes: u64,
    /// One sentence for people.
    pub description: String,
}

/// Entries of a table that lie in one stage.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// How many entries there is room for: at least what was asked, where it fits.
    pub entries: u64,
    /// What they take of the stage.
    pub usage: Usage,
    /// How they lie.
    pub layout: Layout,
}

/// Why a table cannot be on a chip, however many stages it has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("table {table}: {reason}; {mend}")]
pub struct MemoryError {
    /// The table.
    pub table: String,
    /// What does not go, with numbers.
    pub reason: String,
    /// What would go.
    pub mend: String,
}

/// The most entries of a table, up to `wanted`, that fit into what is free of one stage; none if not even the smallest part does.
///
/// A table with [`Match::Alpm`] is two tables in different stages, see [`alpm`]; this fits its partitions. A table with a register or meter of
/// a size of its own is whole in one stage: that state is in one place (`table_placement.cpp`: only counters can be had twice).
pub fn fit(target: &Target, table: &Table, wanted: u64, free: &Usage) -> Option<Part> {
    let part = match table.kind {
        Match::None => keyless(target, table, free),
        Match::Exact => match sram::fit(target, table, wanted, free) {
            Some(part) if part.entries >= wanted => Some(part),
            less => dram::fit(target, table, wanted, free).or(less),
        },
        Match::Partitioned { .. } => sram::fit(target, table, wanted, free),
        Match::Ternary => tcam::fit(target, table, wanted, free),
        Match::Alpm { .. } => sram::fit(target, &alpm(table)?.1, wanted, free),
    };
    part.filter(|part| part.entries >= wanted || !data::in_one_place(table))
}

/// A table without a key: its default action and what is attached to it.
fn keyless(target: &Target, table: &Table, free: &Usage) -> Option<Part> {
    let (state, map_ram, largest_state) = data::state_blocks(target, table, 1);
    let usage = Usage { sram: state, map_ram, tables: 1, ..data::units(table, data::DataFormat::default()) };
    let demand = rows::Demand { state, largest_state, ..rows::Demand::default() };
    let layout = Layout { description: "no key".into(), ..Layout::default() };
    (usage.fits(free) && rows::hold(target, &demand)).then_some(Part { entries: wanted(table), usage, layout })
}

/// The tables that an ALPM table is on the chip: pivots, which give the partition, and partitions, in a later stage. None for other tables.
pub fn alpm(table: &Table) -> Option<(Table, Table)> {
    let Match::Alpm { partitions } = table.kind else { return None };
    Some(alpm::halves(table, partitions))
}

/// How many entries the parts of a table must have together: more than are written where the chip needs spare ones, or several for one.
pub fn wanted(table: &Table) -> u64 {
    match table.kind {
        Match::Ternary => tcam::rows_for(table),
        // There are no more exact keys than their bits have values (`table_placement.cpp`, shrinking).
        Match::Exact => table.entries.min(1u64.checked_shl(table.key_bits()).unwrap_or(u64::MAX)).max(1),
        _ => table.entries.max(1),
    }
}

/// Stages after which [`alone`] gives up.
pub const MOST_STAGES: usize = 1024;

fn no_stage(target: &Target, table: &Table) -> MemoryError {
    let bits: u64 = table.keys.iter().map(|k| u64::from(k.bits)).sum();
    let crossbar = match table.kind {
        Match::Ternary => target.per_stage.ternary_crossbar,
        _ => target.per_stage.exact_crossbar,
    };
    let reason = if key::too_wide(table, crossbar) {
        format!("its key of {bits} bits is wider than the {} bits that a stage's crossbar brings", crossbar * 8)
    } else if data::too_wide(target, table) {
        let most = target.formats.max_action_data_bits;
        format!("an action has more data than the {most} bits that action memory gives for an entry")
    } else if data::in_one_place(table) {
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
        mend: "match a digest of the key, or fewer fields; give entries less data".into(),
    }
}

/// The table alone on a chip with as many stages as it takes: its part in each of them.
///
/// # Errors
/// [`MemoryError`] if no stage can hold even the smallest part, or the table takes more stages than any chip has ([`MOST_STAGES`]).
pub fn alone(target: &Target, table: &Table) -> Result<Vec<Part>, MemoryError> {
    if let Some((pivots, partitioned)) = alpm(table) {
        let mut parts = alone(target, &pivots)?;
        parts.extend(alone(target, &partitioned)?);
        return Ok(parts);
    }
    let mut left = wanted(table);
    let mut parts = Vec::new();
    while left > 0 {
        let Some(part) = fit(target, table, left, &target.per_stage).filter(|part| part.entries > 0) else {
            return Err(no_stage(target, table));
        };
        if parts.len() == MOST_STAGES {
            return Err(MemoryError {
                table: table.name.clone(),
                reason: format!(
                    "its {} entries take more than {MOST_STAGES} stages, at {} in each",
                    table.entries, part.entries
                ),
                mend: format!(
                    "a chip with {} stages holds some {}",
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
