//! Tables in off-chip DRAM with an on-chip cache.
//!
//! DPU vendors do not publish their designs. The model therefore has only the costs that any design
//! must pay: all entries in DRAM, in buckets that are not quite full, and blocks of one stage for
//! the cache, a hash table with the same keys.

use super::{StageAllocation, sram};
use crate::demand::TableDemand;
use crate::target::{ChipTarget, StageResources};

/// Fits a table into DRAM and a cache of it into the free resources of a stage. `None` if the chip
/// has too little DRAM or the stage has no free blocks.
pub(super) fn fit_with_cache(
    target: &ChipTarget,
    table: &TableDemand,
    wanted: u64,
    free: &StageResources,
) -> Option<StageAllocation> {
    let dram = target.dram.as_ref()?;
    let bytes = bytes_for_entries(table, wanted).filter(|b| *b <= dram.bytes)?;
    let share = target.per_stage.sram * dram.cache_percent / 100;
    let room = StageResources { sram: free.sram.min(share), ..*free };
    let cache = sram::fit_sram(target, table, wanted, &room)?;
    let mut layout = cache.layout;
    layout.description = format!("in DRAM, {bytes} bytes; {} entries cached: {}", cache.entries, layout.description);
    layout.dram_bytes = bytes;
    Some(StageAllocation { entries: wanted, usage: cache.usage, layout })
}

/// Returns the bytes of entries: key, data and state in units of 16 bytes, in buckets that are
/// three quarters full.
fn bytes_for_entries(table: &TableDemand, entries: u64) -> Option<u64> {
    let state: u32 = table.attached.iter().filter(|a| a.size.is_none()).map(|a| a.bits).sum();
    let each = u64::from((table.key_bits() + table.data_bits() + state).div_ceil(8)).next_multiple_of(16);
    Some(entries.checked_mul(each)?.checked_mul(4)?.div_ceil(3))
}
