//! [`Limiter`]: how many lines of one kind there may be.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Lines of one kind a second.
const RATE: f64 = 10.0;
/// Lines of one kind at once.
const BURST: f64 = 50.0;
/// So long after the last line that was left out it is said how many were.
const QUIET: Duration = Duration::from_secs(1);
/// And at the latest so long after the first.
const LATEST: Duration = Duration::from_secs(60);

/// What was left out of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut<V> {
    /// What the last of them was.
    pub like: V,
    /// How many.
    pub count: u64,
}

struct Bucket<V> {
    tokens: f64,
    /// When the tokens were counted.
    at: Duration,
    /// When the first and the last line was left out, and how many were.
    left_out: Option<(Duration, Duration, LeftOut<V>)>,
}

/// A bucket of tokens for each kind of lines. Times are since any moment, and do not go back.
pub struct Limiter<K, V> {
    buckets: HashMap<K, Bucket<V>>,
}

impl<K, V> Default for Limiter<K, V> {
    fn default() -> Limiter<K, V> {
        Limiter { buckets: HashMap::new() }
    }
}

impl<K: Hash + Eq, V> Limiter<K, V> {
    /// Whether a line of the kind may be written now; if not, it is counted, and `like` is what will stand for it.
    pub fn admit(&mut self, kind: K, now: Duration, like: impl FnOnce() -> V) -> bool {
        let bucket = self.buckets.entry(kind).or_insert(Bucket { tokens: BURST, at: now, left_out: None });
        let passed = now.saturating_sub(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * RATE).min(BURST);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return true;
        }
        match &mut bucket.left_out {
            Some((_, last, left_out)) => (*last, left_out.count) = (now, left_out.count + 1),
            none => *none = Some((now, now, LeftOut { like: like(), count: 1 })),
        }
        false
    }

    /// What was left out and has ended, or has been going on for long: each is told once.
    pub fn ended(&mut self, now: Duration) -> Vec<LeftOut<V>> {
        self.take(|first, last| now.saturating_sub(last) >= QUIET || now.saturating_sub(first) >= LATEST)
    }

    /// What was left out and not told.
    pub fn all(&mut self) -> Vec<LeftOut<V>> {
        self.take(|_, _| true)
    }

    fn take(&mut self, due: impl Fn(Duration, Duration) -> bool) -> Vec<LeftOut<V>> {
        let one = |bucket: &mut Bucket<V>| {
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
        let mut limiter = Limiter::default();
        let mut flood = |from: u64, to: u64| (from..to).filter(|ms| limiter.admit("kind", at(*ms), || ())).count();
        // A line each millisecond.
        assert_eq!(flood(0, 1_000), 50 + 9);
        assert_eq!(flood(1_000, 11_000), 100);
        // Another kind has its own.
        assert!(limiter.admit("other", at(11_000), || ()));
    }

    #[test]
    fn what_was_left_out_is_told_once_when_it_has_ended() {
        let mut limiter = Limiter::default();
        let written = (0..1_000).filter(|line| limiter.admit("kind", at(0), || *line)).count();
        assert_eq!(written, 50);
        assert_eq!(limiter.ended(at(999)), [], "it may go on");
        assert_eq!(limiter.ended(at(1_000)), [LeftOut { like: 50, count: 950 }]);
        assert_eq!(limiter.ended(at(5_000)), []);
        assert!(limiter.admit("kind", at(5_000), || 0));
    }

    #[test]
    fn what_does_not_end_is_told_now_and_then() {
        let mut limiter = Limiter::default();
        let mut told = Vec::new();
        for second in 0..180 {
            for line in 0..100 {
                let _ = limiter.admit("kind", at(second * 1_000 + line * 10), || ());
            }
            told.extend(limiter.ended(at(second * 1_000 + 999)).into_iter().map(|left_out| left_out.count));
        }
        assert_eq!(told.len(), 2, "{told:?}");
        let rest: u64 = limiter.all().into_iter().map(|left_out| left_out.count).sum();
        let written = 50 + 10 * 179 + 9;
        assert_eq!(told.iter().sum::<u64>() + rest, 180 * 100 - written);
    }
}
