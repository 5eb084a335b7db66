//! State of a worker's vector path.

use crate::abi::CACHE_LINE_BYTES;
use crate::memory::AlignedLine;
use crate::plan::vector_layout::MAX_VECTOR_PACKET_BYTES;
use crate::program::CompiledProgram;

/// State of a worker's vector path.
pub struct VectorState {
    /// Dummy memory for the unused lanes of a vector.
    pub dummy_memory: Vec<AlignedLine>,
    /// Statistics of each stage.
    pub stage_stats: Vec<VectorStageStats>,
    /// Packets that reached stages, and those of them that diverged.
    pub packet_counts: [u64; 2],
}

/// How well vector code does at a stage.
#[derive(Clone, Copy, Default)]
pub struct VectorStageStats {
    /// Packets since the last check.
    arrived: u32,
    /// Packets of these that diverged to scalar code.
    diverged: u32,
    /// Chunks for which the vector path remains off.
    backoff_chunks: u32,
}

/// Vector code is no gain if more than one of this many packets diverges.
const MAX_DIVERGED_FRACTION: u32 = 3;
/// Number of packets between checks.
const CHECK_INTERVAL_PACKETS: u32 = 1 << 14;
/// Chunks for which the vector path stays off after too many divergences.
const BACKOFF_CHUNKS: u32 = 1 << 12;

impl VectorState {
    pub fn new(program: &CompiledProgram) -> Option<VectorState> {
        program.code.memory.vector.as_ref()?;
        let stage_stats = vec![VectorStageStats::default(); program.code.stages.len()];
        Some(VectorState {
            dummy_memory: AlignedLine::zeroed(MAX_VECTOR_PACKET_BYTES as usize + CACHE_LINE_BYTES),
            stage_stats,
            packet_counts: [0; 2],
        })
    }
}

impl VectorStageStats {
    /// Returns whether vector code runs for this chunk.
    pub fn should_run(&mut self) -> bool {
        if self.backoff_chunks == 0 {
            return true;
        }
        self.backoff_chunks -= 1;
        false
    }

    pub fn record_run(&mut self, arrived: usize, diverged: usize) {
        (self.arrived, self.diverged) = (self.arrived + arrived as u32, self.diverged + diverged as u32);
        if self.arrived >= CHECK_INTERVAL_PACKETS {
            let backoff_chunks = if self.diverged > self.arrived / MAX_DIVERGED_FRACTION { BACKOFF_CHUNKS } else { 0 };
            *self = VectorStageStats { backoff_chunks, ..VectorStageStats::default() };
        }
    }
}

/// A packet that diverged from vector to scalar code: its frame and its lookup results.
pub struct DivergedPacket {
    pub frame: *mut u8,
    pub results: [u64; 2],
}
