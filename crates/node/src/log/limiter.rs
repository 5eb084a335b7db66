//! [`LineLimiter`]: limits the rate of similar log lines.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Sustained rate of one kind of line, in lines per second.
const LINES_PER_SECOND: f64 = 10.0;
/// Burst size of one kind of line.
const BURST_LINES: f64 = 50.0;
/// Suppressed lines are reported this long after the last one.
const QUIET_TIME: Duration = Duration::from_secs(1);
/// Suppressed lines are reported at the latest this long after the first one.
const MAX_REPORT_DELAY: Duration = Duration::from_secs(60);

/// Suppressed lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedLines<V> {
    /// The first suppressed line, as an example.
    pub sample: V,
    /// Number of suppressed lines.
    pub count: u64,
}

struct TokenBucket<V> {
    tokens: f64,
    /// Time of the last token update.
    at: Duration,
    /// Times of the first and the last suppressed line, and the count.
    left_out: Option<(Duration, Duration, SuppressedLines<V>)>,
}

/// Token buckets by kind of line. Times are relative to any fixed start and must not decrease.
pub struct LineLimiter<K, V> {
    buckets: HashMap<K, TokenBucket<V>>,
}

impl<K, V> Default for LineLimiter<K, V> {
    fn default() -> LineLimiter<K, V> {
        LineLimiter { buckets: HashMap::new() }
    }
}

impl<K: Hash + Eq, V> LineLimiter<K, V> {
    /// Returns whether a line of this kind can be written now. If not, counts it; `like` creates
    /// the example for the first suppressed line.
    pub fn admit(&mut self, kind: K, now: Duration, like: impl FnOnce() -> V) -> bool {
        let bucket = self.buckets.entry(kind).or_insert(TokenBucket { tokens: BURST_LINES, at: now, left_out: None });
        let passed = now.saturating_sub(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * LINES_PER_SECOND).min(BURST_LINES);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return true;
        }
        match &mut bucket.left_out {
            Some((_, last, left_out)) => (*last, left_out.count) = (now, left_out.count + 1),
            none => *none = Some((now, now, SuppressedLines { sample: like(), count: 1 })),
        }
        false
    }

    /// Takes the reports of suppressed lines that have ended, or that have lasted too long.
    pub fn take_ended(&mut self, now: Duration) -> Vec<SuppressedLines<V>> {
        self.take_if_due(|first, last| {
            now.saturating_sub(last) >= QUIET_TIME || now.saturating_sub(first) >= MAX_REPORT_DELAY
        })
    }

    /// Takes all pending reports of suppressed lines.
    pub fn take_all(&mut self) -> Vec<SuppressedLines<V>> {
        self.take_if_due(|_, _| true)
    }

    fn take_if_due(&mut self, due: impl Fn(Duration, Duration) -> bool) -> Vec<SuppressedLines<V>> {
        let one = |bucket: &mut TokenBucket<V>| {
            let taken = bucket.left_out.take_if(|(first, last, _)| due(*first, *last));
            taken.map(|(_, _, left_out)| left_out)
        };
        self.buckets.values_mut().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_is_written_then_so_many_a_second() {
        let mut limiter = LineLimiter::default();
        let mut flood = |from: u64, to: u64| (from..to).filter(|ms| limiter.admit("kind", at(*ms), || ())).count();
        // One line per millisecond.
        assert_eq!(flood(0, 1_000), 50 + 9);
        assert_eq!(flood(1_000, 11_000), 100);
        // Another kind has its own bucket.
        assert!(limiter.admit("other", at(11_000), || ()));
    }

    #[test]
    fn what_was_left_out_is_told_once_when_it_has_ended() {
        let mut limiter = LineLimiter::default();
        let written = (0..1_000).filter(|line| limiter.admit("kind", at(0), || *line)).count();
        assert_eq!(written, 50);
        assert_eq!(limiter.take_ended(at(999)), [], "it may go on");
        assert_eq!(limiter.take_ended(at(1_000)), [SuppressedLines { sample: 50, count: 950 }]);
        assert_eq!(limiter.take_ended(at(5_000)), []);
        assert!(limiter.admit("kind", at(5_000), || 0));
    }

    #[test]
    fn what_does_not_end_is_told_now_and_then() {
        let mut limiter = LineLimiter::default();
        let mut told = Vec::new();
        for second in 0..180 {
            for line in 0..100 {
                let _ = limiter.admit("kind", at(second * 1_000 + line * 10), || ());
            }
            told.extend(limiter.take_ended(at(second * 1_000 + 999)).into_iter().map(|left_out| left_out.count));
        }
        assert_eq!(told.len(), 2, "{told:?}");
        let rest: u64 = limiter.take_all().into_iter().map(|left_out| left_out.count).sum();
        let written = 50 + 10 * 179 + 9;
        assert_eq!(told.iter().sum::<u64>() + rest, 180 * 100 - written);
    }
}
