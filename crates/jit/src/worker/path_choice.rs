//! [`PathChoice`]: chooses between the vector and the scalar path at run time.
//!
//! The faster path depends on the program and the processor, because some processors split vectors
//! of 512 bits into two operations, and short stages gain little. A worker therefore measures both
//! paths for some chunks from time to time and keeps the faster one. The results for packets are
//! identical.

/// Chunks for which each path is measured.
const TRIAL_CHUNKS: u32 = 32;
/// Chunks for which a worker keeps the faster path before it measures both again.
const KEEP_CHUNKS: u32 = 1 << 14;

/// Chooses the faster path.
#[derive(Debug, Clone)]
pub struct PathChoice {
    /// Chunks since the start of the last measurement.
    chunks: u32,
    /// Minimum ticks per packet, in 1/256, of a chunk on each path: scalar, vector. The minimum,
    /// because disturbances only make chunks slower.
    min_ticks: [u64; 2],
    use_vector: bool,
}

impl PathChoice {
    /// Minimum number of packets of a chunk that is measured.
    pub const MIN_MEASURED_PACKETS: usize = 64;

    pub fn new() -> PathChoice {
        PathChoice { chunks: 0, min_ticks: [u64::MAX; 2], use_vector: true }
    }

    /// Returns whether the next chunk takes the vector path.
    pub fn uses_vector(&self) -> bool {
        match self.chunks {
            0..TRIAL_CHUNKS => true,
            chunks if chunks < 2 * TRIAL_CHUNKS => false,
            _ => self.use_vector,
        }
    }

    /// Records the ticks of a chunk of `packets` on the path that [`PathChoice::uses_vector`]
    /// returned.
    pub fn record_ticks(&mut self, packets: usize, ticks: u64) {
        if self.chunks < 2 * TRIAL_CHUNKS {
            let way = &mut self.min_ticks[usize::from(self.uses_vector())];
            *way = (ticks.saturating_mul(256) / packets.max(1) as u64).min(*way);
        }
        self.chunks += 1;
        if self.chunks == 2 * TRIAL_CHUNKS {
            let [scalar, vector] = self.min_ticks;
            self.use_vector = vector <= scalar;
        }
        if self.chunks == 2 * TRIAL_CHUNKS + KEEP_CHUNKS {
            *self = PathChoice { chunks: 0, min_ticks: [u64::MAX; 2], use_vector: self.use_vector };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEEP_CHUNKS, PathChoice, TRIAL_CHUNKS};

    /// Runs chunks with `ticks` per packet on each path; returns the number of chunks on the vector
    /// path.
    fn go(pace: &mut PathChoice, chunks: u32, ticks: [u64; 2]) -> u32 {
        (0..chunks).fold(0, |vector, _| {
            let way = pace.uses_vector();
            pace.record_ticks(100, ticks[usize::from(way)] * 100);
            vector + u32::from(way)
        })
    }

    #[test]
    fn it_keeps_to_the_faster_way_and_asks_again() {
        let mut pace = PathChoice::new();
        assert_eq!(go(&mut pace, 2 * TRIAL_CHUNKS, [100, 120]), TRIAL_CHUNKS);
        assert_eq!(go(&mut pace, KEEP_CHUNKS, [100, 120]), 0, "one by one is faster");
        assert_eq!(go(&mut pace, 2 * TRIAL_CHUNKS, [100, 80]), TRIAL_CHUNKS, "both again");
        assert_eq!(go(&mut pace, KEEP_CHUNKS, [100, 80]), KEEP_CHUNKS, "now eight at a time is");
    }

    /// An occasional interruption of the thread does not change the choice.
    #[test]
    fn a_slow_chunk_decides_nothing() {
        let mut pace = PathChoice::new();
        pace.record_ticks(100, 1_000_000);
        go(&mut pace, 2 * TRIAL_CHUNKS - 1, [100, 90]);
        assert_eq!(go(&mut pace, 10, [100, 90]), 10);
    }
}
