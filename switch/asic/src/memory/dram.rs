//! Tables in the memory behind a chip, with a cache on it.
//!
//! No vendor says how its DPU does this; the model is what any of them must pay: all entries in DRAM, buckets that are not quite full, and
//! blocks of one stage for the cache, which is a hash table of the same keys.

use super::{Part, sram};
use crate::demand::Table;
use crate::target::{Target, Usage};

/// A table whole in DRAM and a cache of it in what is free of a stage. None where the chip has no DRAM, or too little, or a stage has no room.
pub(super) fn fit(target: &Target, table: &Table, wanted: u64, free: &Usage) -> Option<Part> {
    let dram = target.dram.as_ref()?;
    let bytes = bytes(table, wanted).filter(|b| *b <= dram.bytes)?;
    let share = target.per_stage.sram * dram.cache_percent / 100;
    let room = Usage { sram: free.sram.min(share), ..*free };
    let cache = sram::fit(target, table, wanted, &room)?;
    let mut layout = cache.layout;
    layout.description = format!("in DRAM, {bytes} bytes; {} entries cached: {}", cache.entries, layout.description);
    layout.dram_bytes = bytes;
    Some(Part { entries: wanted, usage: cache.usage, layout })
}

/// Bytes of entries: key, data and state in pieces of 16 bytes, in buckets that are three quarters full.
fn bytes(table: &Table, entries: u64) -> Option<u64> {
    let state: u32 = table.attached.iter().filter(|a| a.size.is_none()).map(|a| a.bits).sum();
    let each = u64::from((table.key_bits() + table.data_bits() + state).div_ceil(8)).next_multiple_of(16);
    Some(entries.checked_mul(each)?.checked_mul(4)?.div_ceil(3))
}
