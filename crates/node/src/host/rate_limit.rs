//! [`RateLimits`]: how many packets of each kind the host gets.

use super::kind::PuntKind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Rates of all kinds, in packets a second. Set when a region is applied, read by the host thread.
#[derive(Debug)]
pub(super) struct PuntRateTable([AtomicU32; PuntKind::ALL.len()]);

impl Default for PuntRateTable {
    /// No kind is limited.
    fn default() -> PuntRateTable {
        PuntRateTable(std::array::from_fn(|_| AtomicU32::new(u32::MAX)))
    }
}

impl PuntRateTable {
    /// Sets the rates of kinds by name, in packets a second. Other kinds keep theirs.
    pub(super) fn set(&self, rates: &[(&str, u32)]) {
        for (name, rate) in rates {
            if let Some(kind) = PuntKind::from_reason(name) {
                self.0[kind as usize].store(*rate, Ordering::Relaxed);
            }
        }
    }

    fn get(&self, kind: PuntKind) -> u32 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }
}

/// Token bucket of one kind, which holds the packets of one second.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    tokens: f64,
    filled_at: Instant,
}

/// Token buckets of all kinds. The host thread owns them, so workers share nothing for them.
#[derive(Debug)]
pub(super) struct RateLimits([Option<TokenBucket>; PuntKind::ALL.len()]);

impl RateLimits {
    /// Creates full buckets.
    pub(super) fn new() -> RateLimits {
        RateLimits([None; PuntKind::ALL.len()])
    }

    /// Takes a token for a packet at `now`. Returns whether there was one.
    pub(super) fn admit(&mut self, kind: PuntKind, rates: &PuntRateTable, now: Instant) -> bool {
        let rate = f64::from(rates.get(kind));
        let bucket = self.0[kind as usize].get_or_insert(TokenBucket { tokens: rate, filled_at: now });
        let elapsed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * rate).min(rate);
        bucket.filled_at = now;
        let admitted = bucket.tokens >= 1.0;
        if admitted {
            bucket.tokens -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_kind_has_its_burst_and_then_its_rate_and_leaves_others_alone() {
        let rates = PuntRateTable::default();
        rates.set(&[("arp", 10), ("bgp", 100), ("unknown", 1)]);
        let (mut limits, start) = (RateLimits::new(), Instant::now());
        let mut admit = |kind, after_ms| limits.admit(kind, &rates, start + Duration::from_millis(after_ms));
        assert_eq!((0..50).filter(|_| admit(PuntKind::Arp, 0)).count(), 10);
        assert!(admit(PuntKind::Bgp, 0));
        assert_eq!((0..50).filter(|_| admit(PuntKind::Arp, 500)).count(), 5);
        // After a long pause, the burst is that of one second.
        assert_eq!((0..50).filter(|_| admit(PuntKind::Arp, 60_000)).count(), 10);
        assert_eq!((0..1000).filter(|_| admit(PuntKind::Icmp, 0)).count(), 1000);
        // A clock that does not advance gives no tokens.
        assert!(!admit(PuntKind::Arp, 60_000) && !admit(PuntKind::Arp, 0));
    }
}
