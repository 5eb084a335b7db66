//! ALPM as the chip's compiler makes it of one lpm table: pivots in TCAM, and partitions in SRAM (`midend/alpm.cpp`).

use crate::demand::{Action, Match, Table};

/// Subtrees that share a partition, unless the program says otherwise.
const SUBTREES: u64 = 2;

/// The two tables: pivots that give a partition, and the partitions.
pub(super) fn halves(table: &Table, partitions: u64) -> (Table, Table) {
    let partitions = partitions.max(1);
    let number = 64 - (partitions - 1).max(1).leading_zeros();
    let pivots = Table {
        name: format!("{}.pivots", table.name),
        id: None,
        kind: Match::Ternary,
        keys: table.keys.clone(),
        entries: partitions.saturating_mul(SUBTREES),
        actions: vec![Action { name: "partition".into(), params: vec![number], default_only: false }],
        attached: Vec::new(),
    };
    // One place more in each partition: an entry is changed by writing the new one first.
    let entries = table.entries.saturating_add(partitions);
    let depth = u32::try_from(entries.div_ceil(partitions)).unwrap_or(u32::MAX);
    let kind = Match::Partitioned { partitions, depth };
    let partitioned = Table { kind, entries, ..table.clone() };
    (pivots, partitioned)
}
