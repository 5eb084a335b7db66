//! [`Latency`]: a distribution of durations with low memory and time overhead.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Longest recorded duration; longer ones are counted as this one.
const MAX_DURATION: Duration = Duration::from_secs(60);

/// A distribution of durations. Reported values are within 6 % of the recorded ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    times: Histogram<u64>,
    sum: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        let times = Histogram::new_with_bounds(1, MAX_DURATION.as_nanos() as u64, 1);
        // The bounds are valid; a histogram that grows is only a fallback.
        Latency { times: times.unwrap_or_else(|_| Histogram::new(1).expect("one digit is allowed")), sum: 0 }
    }
}

impl Latency {
    /// Records `times` events of duration `time`.
    pub fn record(&mut self, time: Duration, times: u64) {
        let nanoseconds = time.min(MAX_DURATION).as_nanos() as u64;
        self.times.saturating_record_n(nanoseconds, times);
        self.sum = self.sum.wrapping_add(nanoseconds.wrapping_mul(times));
    }

    /// Adds all records of `other`.
    pub fn merge(&mut self, other: &Latency) {
        // Does not fail, because all histograms have the same bounds.
        let _ = self.times.add(&other.times);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Returns the records since `before` was copied from this distribution.
    pub fn since(&self, before: &Latency) -> Latency {
        let mut difference = self.clone();
        if difference.times.subtract(&before.times).is_err() {
            return self.clone();
        }
        difference.sum = self.sum.wrapping_sub(before.sum);
        difference
    }

    /// Returns the number of recorded events.
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// Returns the sum of all durations in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the duration in nanoseconds that the given share (0 to 1) of all events does not
    /// exceed; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        self.times.value_at_quantile(share)
    }

    /// Returns the longest duration in nanoseconds; 0 if there are none.
    pub fn max(&self) -> u64 {
        self.times.max()
    }

    /// Returns a histogram. `bounds` are ascending, in nanoseconds; each bucket counts the
    /// durations above the previous bound up to its own. A last bucket counts the remaining ones.
    pub fn counts(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len() + 1];
        for recorded in self.times.iter_recorded() {
            let bucket = bounds.partition_point(|bound| *bound < recorded.value_iterated_to());
            counts[bucket] += recorded.count_since_last_iteration();
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
