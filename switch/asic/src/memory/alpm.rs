//! ALPM as the chip's compiler makes it of one lpm table: pivots in TCAM, and partitions in SRAM
//! (`midend/alpm.cpp`).

use crate::demand::{ActionDemand, MemoryMatchKind, TableDemand};

/// Default number of subtrees that share a partition.
const SUBTREES_PER_PARTITION: u64 = 2;

/// Returns the two tables: pivots that map to a partition, and the partitions.
pub(super) fn pivot_and_partition_tables(table: &TableDemand, partitions: u64) -> (TableDemand, TableDemand) {
    let partitions = partitions.max(1);
    let number_bits = 64 - (partitions - 1).max(1).leading_zeros();
    let pivots = TableDemand {
        name: format!("{}.pivots", table.name),
        id: None,
        kind: MemoryMatchKind::Ternary,
        keys: table.keys.clone(),
        entries: partitions.saturating_mul(SUBTREES_PER_PARTITION),
        actions: vec![ActionDemand { name: "partition".into(), params: vec![number_bits], default_only: false }],
        attached: Vec::new(),
    };
    // One spare slot in each partition, because an update writes the new entry before it removes
    // the old one.
    let entries = table.entries.saturating_add(partitions);
    let depth = u32::try_from(entries.div_ceil(partitions)).unwrap_or(u32::MAX);
    let kind = MemoryMatchKind::Partitioned { partitions, depth };
    let partitioned = TableDemand { kind, entries, ..table.clone() };
    (pivots, partitioned)
}
