//! Blocks by the arithmetic that papers print: entries by words, no stages.

use crate::demand::{AttachedKind, Match, Table};
use crate::target::Target;
use serde::{Deserialize, Serialize};

/// Blocks of a whole table on one pipe. Not a decision: no stage, way or row is counted, so a part of a block is a part of a block.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// SRAM blocks.
    pub sram: f64,
    /// TCAM blocks.
    pub tcam: f64,
    /// Map RAM blocks.
    pub map_ram: f64,
}

impl Estimate {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Estimate) -> Estimate {
        let (sram, tcam) = (self.sram + other.sram, self.tcam + other.tcam);
        Estimate { sram, tcam, map_ram: self.map_ram + other.map_ram }
    }
}

/// Match memory of a table from its key widths alone, as in Sailfish's Tables 2 and 3.
pub fn estimate(target: &Target, table: &Table) -> Estimate {
    let blocks = |entries: u64, depth: u32| entries.div_ceil(u64::from(depth)) as f64;
    let depth = target.sram.depth;
    let tcam = |entries, bits: u32| blocks(entries, target.tcam.depth) * f64::from(bits.div_ceil(target.tcam.width));
    match table.kind {
        Match::None => Estimate::default(),
        // The key is the place of the entry: nothing is compared.
        Match::Exact if table.is_by_key() => Estimate::default(),
        Match::Exact => Estimate { sram: exact(target, table.entries, table.key_bits()), ..Estimate::default() },
        Match::Ternary => Estimate { tcam: tcam(table.entries, table.key_bits()), ..Estimate::default() },
        Match::Partitioned { partitions, depth: entries } => {
            let columns = f64::from(entries) * blocks(partitions, depth);
            Estimate { sram: columns * f64::from(words(target, partition_bits(target, table))), ..Estimate::default() }
        }
        Match::Alpm { partitions } => {
            let columns = table.entries.div_ceil(partitions.max(1)) as f64 * blocks(partitions, depth);
            let sram = columns * f64::from(words(target, partition_bits(target, table)));
            Estimate { sram, tcam: tcam(partitions, table.key_bits()), map_ram: 0.0 }
        }
    }
}

/// As [`estimate`], with action data and attached state counted.
pub fn estimate_with_data(target: &Target, table: &Table) -> Estimate {
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

/// Bits of an entry of a partition: what is compared under a mask is there twice, once for each value of a bit.
fn partition_bits(target: &Target, table: &Table) -> u32 {
    let bits = |k: &crate::demand::Key| if k.exact { k.bits } else { 2 * k.bits };
    table.keys.iter().map(bits).sum::<u32>() + target.formats.version_bits
}

fn words(target: &Target, bits: u32) -> u32 {
    bits.div_ceil(target.sram.width).max(1)
}

fn exact(target: &Target, entries: u64, bits: u32) -> f64 {
    let width = target.sram.width;
    let (per_row, words) = if bits * 2 <= width { (width / bits.max(1), 1) } else { (1, words(target, bits)) };
    (entries.div_ceil(u64::from(target.sram.depth) * u64::from(per_row)) * u64::from(words)) as f64
}
