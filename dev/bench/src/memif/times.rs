//! [`LatencyHistogram`]: a histogram of packet latencies.

use serde::{Deserialize, Serialize};

/// Summary of latencies, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LatencySummary {
    /// 50th, 99th and 99.9th percentile.
    pub percentiles: [f64; 3],
    pub longest: f64,
    pub samples: u64,
}

/// Histogram with buckets of 64 ns up to 4 ms. Longer times are counted in the last bucket; the
/// longest is stored exactly.
pub(super) struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
    /// Longest time, in nanoseconds.
    longest: u64,
}

impl LatencyHistogram {
    const STEP: u64 = 64;
    const STEPS: usize = 1 << 16;

    pub fn new() -> LatencyHistogram {
        LatencyHistogram { counts: vec![0; LatencyHistogram::STEPS], total: 0, longest: 0 }
    }

    pub fn add(&mut self, nanoseconds: u64) {
        self.counts[((nanoseconds / LatencyHistogram::STEP) as usize).min(LatencyHistogram::STEPS - 1)] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            percentiles: [0.5, 0.99, 0.999].map(|part| self.percentile(part)),
            longest: self.longest as f64,
            samples: self.total,
        }
    }

    /// Returns the quantile `part`, in nanoseconds.
    fn percentile(&self, part: f64) -> f64 {
        let wanted = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return ((step as u64 + 1) * LatencyHistogram::STEP) as f64;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut times = LatencyHistogram::new();
        for _ in 0..990 {
            times.add(1000);
        }
        for _ in 0..10 {
            times.add(100_000);
        }
        assert_eq!(times.percentile(0.5), 1024.0);
        assert_eq!(times.percentile(0.99), 1024.0);
        assert_eq!(times.percentile(0.999), 100_032.0);
        assert_eq!((times.total, times.longest), (1000, 100_000));
        times.add(u64::MAX);
        assert_eq!(times.percentile(1.0), (LatencyHistogram::STEPS as u64 * LatencyHistogram::STEP) as f64);
        assert_eq!(times.longest, u64::MAX);
    }
}
