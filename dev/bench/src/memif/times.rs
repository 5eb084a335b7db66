//! [`Times`]: how long packets took, as counts by length.

use serde::{Deserialize, Serialize};

/// What is said of many times; nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    /// 50th, 99th, 99.9th.
    pub percentiles: [f64; 3],
    pub longest: f64,
    pub samples: u64,
}

/// Times in steps of 64 ns, up to 4 ms; what is longer counts as that, and the longest is known as it was.
pub(super) struct Times {
    counts: Vec<u64>,
    total: u64,
    /// Nanoseconds.
    longest: u64,
}

impl Times {
    const STEP: u64 = 64;
    const STEPS: usize = 1 << 16;

    pub fn new() -> Times {
        Times { counts: vec![0; Times::STEPS], total: 0, longest: 0 }
    }

    pub fn add(&mut self, nanoseconds: u64) {
        self.counts[((nanoseconds / Times::STEP) as usize).min(Times::STEPS - 1)] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    pub fn summary(&self) -> Summary {
        Summary {
            percentiles: [0.5, 0.99, 0.999].map(|part| self.percentile(part)),
            longest: self.longest as f64,
            samples: self.total,
        }
    }

    /// Nanoseconds within which this part of all were back.
    fn percentile(&self, part: f64) -> f64 {
        let wanted = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return ((step as u64 + 1) * Times::STEP) as f64;
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
        let mut times = Times::new();
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
        assert_eq!(times.percentile(1.0), (Times::STEPS as u64 * Times::STEP) as f64);
        assert_eq!(times.longest, u64::MAX);
    }
}
