//! [`Latency`]: how long things took, as a distribution that costs little to keep.

use hdrhistogram::Histogram;
use std::time::Duration;

/// The longest time that is told apart from longer ones.
const LONGEST: Duration = Duration::from_secs(60);

/// A distribution of times. What it says of a time is at most 6 % off.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    times: Histogram<u64>,
    sum: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        let times = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 1);
        // These bounds are good; were they not, a histogram that grows would do.
        Latency { times: times.unwrap_or_else(|_| Histogram::new(1).expect("one digit is allowed")), sum: 0 }
    }
}

impl Latency {
    /// So many things took so long.
    pub fn record(&mut self, time: Duration, times: u64) {
        let nanoseconds = time.min(LONGEST).as_nanos() as u64;
        self.times.saturating_record_n(nanoseconds, times);
        self.sum = self.sum.wrapping_add(nanoseconds.wrapping_mul(times));
    }

    /// Adds what was recorded elsewhere.
    pub fn merge(&mut self, other: &Latency) {
        // Bounds are the same everywhere.
        let _ = self.times.add(&other.times);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// What was recorded since `before` was copied from this.
    pub fn since(&self, before: &Latency) -> Latency {
        let mut rest = self.clone();
        if rest.times.subtract(&before.times).is_err() {
            return self.clone();
        }
        rest.sum = self.sum.wrapping_sub(before.sum);
        rest
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// Nanoseconds of all together.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// So many nanoseconds are not exceeded by this share (0 to 1) of all; 0 if there were none.
    pub fn quantile(&self, share: f64) -> u64 {
        self.times.value_at_quantile(share)
    }

    /// The longest, in nanoseconds; 0 if there were none.
    pub fn max(&self) -> u64 {
        self.times.max()
    }

    /// For each bound in nanoseconds, which ascend: how many took longer than the bound before, and no longer than this one. Last, the rest.
    pub fn counts(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        for recorded in self.times.iter_recorded() {
            let place = bounds.partition_point(|bound| *bound < recorded.value_iterated_to());
            counts[place] += recorded.count_since_last_iteration();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_buckets_are_close_to_what_was_recorded() {
        let mut latency = Latency::default();
        (1..=1000u64).for_each(|us| latency.record(Duration::from_micros(us), 1));
        latency.record(Duration::from_secs(3600), 1);
        assert_eq!(latency.count(), 1001);
        let near =
            |found: u64, wanted: u64| assert!(found.abs_diff(wanted) * 100 <= wanted * 7, "{found} is not {wanted}");
        near(latency.quantile(0.5), 500_000);
        near(latency.quantile(0.99), 990_000);
        near(latency.max(), 60_000_000_000);
        near(latency.sum(), 500_500_000 + 60_000_000_000);
        let counts = latency.counts(&[100_000, 1_000_000, 10_000_000]);
        assert_eq!(counts.iter().sum::<u64>(), 1001);
        assert!(counts[0].abs_diff(100) < 7 && counts[1] > 800 && counts[2] < 70 && counts[3] == 1, "{counts:?}");
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let mut latency = Latency::default();
        latency.record(Duration::from_micros(10), 5);
        let before = latency.clone();
        latency.record(Duration::from_millis(1), 2);
        let since = latency.since(&before);
        assert_eq!((since.count(), since.sum()), (2, 2_000_000));
        let mut both = before;
        both.merge(&since);
        assert_eq!((both.count(), both.sum()), (latency.count(), latency.sum()));
    }
}
