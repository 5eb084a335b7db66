//! How many packets a worker runs together.

use crate::abi::MAX_CHUNK;
use crate::plan::stages::StageEntry;
use crate::program::CompiledProgram;
use lookup::LookupSet;
use lookup::exact::ExactTable;
use packet::Packet;

/// Chunk size that keeps frames in a first-level cache of 32 KiB until the next stage; better if
/// there is little latency to hide and there are few stages.
const SMALL_CHUNK: usize = 64;
/// Chunk size for packets with frames, because more frames than fit in a second-level cache cost
/// more than the larger chunk saves.
const LARGE_CHUNK: usize = 256;
/// Tables that take less memory than this, in bytes, are assumed to be cached.
const CACHED_TABLE_BYTES: usize = 16 << 20;
/// Maximum number of stages of a program with few stages.
const FEW_STAGES: usize = 8;

/// Chooses the maximum chunk size for these tables.
pub fn choose_max_chunk(program: &CompiledProgram, lookups: &LookupSet) -> usize {
    // The vector path has no frames that should stay in the cache.
    if program.code.native.lanes().iter().any(Option::is_some) {
        return MAX_CHUNK;
    }
    // Other lookups gain more from larger batches.
    let eight = ExactTable::supports_avx512();
    // Number of stages on the path of one packet.
    let passed = program
        .code
        .stages
        .iter()
        .filter(|stage| !stage.is_hot_path_copy && stage.start != StageEntry::Restart)
        .count();
    if eight && passed <= FEW_STAGES && lookups.memory_bytes() <= CACHED_TABLE_BYTES {
        SMALL_CHUNK
    } else {
        LARGE_CHUNK
    }
}

/// Returns how many of the packets may run together, at most `most`.
pub fn chunk_len(program: &CompiledProgram, packets: &[Packet], most: usize) -> usize {
    if program.code.order.is_serial {
        return 1;
    }
    let most = packets.len().min(most);
    if !program.code.order.depends_on_time {
        return most;
    }
    let time = packets[0].rx_time_ns;
    packets[..most].iter().position(|packet| packet.rx_time_ns != time).unwrap_or(most)
}
