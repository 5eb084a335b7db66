//! Block estimates by the arithmetic of papers: entries divided by words, without stages.

use crate::demand::{AttachedKind, MemoryMatchKind, TableDemand};
use crate::target::ChipTarget;
use serde::{Deserialize, Serialize};

/// Estimated blocks of a table on one pipe. Fractions of blocks count as fractions because stages,
/// ways and rows are ignored.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BlockEstimate {
    /// SRAM blocks.
    pub sram: f64,
    /// TCAM blocks.
    pub tcam: f64,
    /// Map RAM blocks.
    pub map_ram: f64,
}

impl BlockEstimate {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: BlockEstimate) -> BlockEstimate {
        let (sram, tcam) = (self.sram + other.sram, self.tcam + other.tcam);
        BlockEstimate { sram, tcam, map_ram: self.map_ram + other.map_ram }
    }
}

/// Estimates the match memory of a table from its key widths alone, as in Sailfish's Tables 2 and
/// 3.
pub fn estimate(target: &ChipTarget, table: &TableDemand) -> BlockEstimate {
    let blocks = |entries: u64, depth: u32| entries.div_ceil(u64::from(depth)) as f64;
    let depth = target.sram.depth;
    let tcam = |entries, bits: u32| blocks(entries, target.tcam.depth) * f64::from(bits.div_ceil(target.tcam.width));
    match table.kind {
        MemoryMatchKind::None => BlockEstimate::default(),
        // The key addresses the entry and is not compared.
        MemoryMatchKind::Exact if table.is_key_addressed() => BlockEstimate::default(),
        MemoryMatchKind::Exact => BlockEstimate {
            sram: exact_match_blocks(target, table.entries, table.key_bits()),
            ..BlockEstimate::default()
        },
        MemoryMatchKind::Ternary => {
            BlockEstimate { tcam: tcam(table.entries, table.key_bits()), ..BlockEstimate::default() }
        }
        MemoryMatchKind::Partitioned { partitions, depth: entries } => {
            let columns = f64::from(entries) * blocks(partitions, depth);
            BlockEstimate {
                sram: columns * f64::from(words_needed(target, partition_bits(target, table))),
                ..BlockEstimate::default()
            }
        }
        MemoryMatchKind::Alpm { partitions } => {
            let columns = table.entries.div_ceil(partitions.max(1)) as f64 * blocks(partitions, depth);
            let sram = columns * f64::from(words_needed(target, partition_bits(target, table)));
            BlockEstimate { sram, tcam: tcam(partitions, table.key_bits()), map_ram: 0.0 }
        }
    }
}

/// Estimates match memory ([`estimate`]) plus action data and attached state.
pub fn estimate_with_data(target: &ChipTarget, table: &TableDemand) -> BlockEstimate {
    let mut sum = estimate(target, table);
    let words = |bits: u32| table.entries as f64 * f64::from(bits) / f64::from(target.sram.width);
    sum.sram += words(table.data_bits()) / f64::from(target.sram.depth);
    for a in &table.attached {
        let blocks = words(a.bits) / f64::from(target.sram.depth);
        if a.kind != AttachedKind::Idle {
            sum.sram += blocks;
        }
        sum.map_ram += blocks;
    }
    sum
}

/// Returns the bits of an entry in a partition. Masked bits are stored twice, once for each value
/// of a bit.
fn partition_bits(target: &ChipTarget, table: &TableDemand) -> u32 {
    let bits = |k: &crate::demand::KeyDemand| if k.exact { k.bits } else { 2 * k.bits };
    table.keys.iter().map(bits).sum::<u32>() + target.formats.version_bits
}

fn words_needed(target: &ChipTarget, bits: u32) -> u32 {
    bits.div_ceil(target.sram.width).max(1)
}

fn exact_match_blocks(target: &ChipTarget, entries: u64, bits: u32) -> f64 {
    let width = target.sram.width;
    let (per_row, words) = if bits * 2 <= width { (width / bits.max(1), 1) } else { (1, words_needed(target, bits)) };
    (entries.div_ceil(u64::from(target.sram.depth) * u64::from(per_row)) * u64::from(words)) as f64
}
