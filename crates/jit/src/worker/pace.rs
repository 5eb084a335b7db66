//! [`Pace`]: whether packets go through the stages eight at a time or one by one, where there is code for both.
//!
//! Which is faster depends on the program and on the processor: vectors of 512 bits take two steps on some, and short stages gain little from them. So a worker tries both
//! for some chunks now and then, and keeps to the faster one. What packets become is the same.

/// Chunks that each way is tried for.
const TRIED: u32 = 32;
/// Chunks for which a worker keeps to the faster way before it tries both again.
const KEPT: u32 = 1 << 14;

/// Which way is the faster one.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Chunks that were measured since both were tried last.
    chunks: u32,
    /// The fewest ticks that a chunk took by each way, in 1/256 a packet: one by one, eight at a time. What disturbs a worker only makes chunks slower.
    fewest: [u64; 2],
    eights: bool,
}

impl Pace {
    /// Chunks of fewer packets are no measure.
    pub const LEAST: usize = 64;

    pub fn new() -> Pace {
        Pace { chunks: 0, fewest: [u64::MAX; 2], eights: true }
    }

    /// Whether the next chunk goes eight at a time.
    pub fn eights(&self) -> bool {
        match self.chunks {
            0..TRIED => true,
            chunks if chunks < 2 * TRIED => false,
            _ => self.eights,
        }
    }

    /// Notes how many ticks a chunk of `packets` took by the way that [`Pace::eights`] gave.
    pub fn took(&mut self, packets: usize, ticks: u64) {
        if self.chunks < 2 * TRIED {
            let way = &mut self.fewest[usize::from(self.eights())];
            *way = (ticks.saturating_mul(256) / packets.max(1) as u64).min(*way);
        }
        self.chunks += 1;
        if self.chunks == 2 * TRIED {
            let [one_by_one, eights] = self.fewest;
            self.eights = eights <= one_by_one;
        }
        if self.chunks == 2 * TRIED + KEPT {
            *self = Pace { chunks: 0, fewest: [u64::MAX; 2], eights: self.eights };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Pace, TRIED};

    /// Takes chunks whose packets take `ticks` by each way; the number of chunks that went eight at a time.
    fn go(pace: &mut Pace, chunks: u32, ticks: [u64; 2]) -> u32 {
        (0..chunks).fold(0, |eights, _| {
            let way = pace.eights();
            pace.took(100, ticks[usize::from(way)] * 100);
            eights + u32::from(way)
        })
    }

    #[test]
    fn it_keeps_to_the_faster_way_and_asks_again() {
        let mut pace = Pace::new();
        assert_eq!(go(&mut pace, 2 * TRIED, [100, 120]), TRIED);
        assert_eq!(go(&mut pace, KEPT, [100, 120]), 0, "one by one is faster");
        assert_eq!(go(&mut pace, 2 * TRIED, [100, 80]), TRIED, "both again");
        assert_eq!(go(&mut pace, KEPT, [100, 80]), KEPT, "now eight at a time is");
    }

    /// A thread that is stopped now and then is no reason.
    #[test]
    fn a_slow_chunk_decides_nothing() {
        let mut pace = Pace::new();
        pace.took(100, 1_000_000);
        go(&mut pace, 2 * TRIED - 1, [100, 90]);
        assert_eq!(go(&mut pace, 10, [100, 90]), 10);
    }
}
