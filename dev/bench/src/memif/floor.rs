//! Latency caused by the machine alone: the pauses of a thread that only reads the clock, with the
//! same priority and on the same core as the gateway. A packet that arrives during a pause waits
//! until its end.

use crate::machine;
use std::time::{Duration, Instant};

/// Minimum length of a pause between two readings of the clock.
const PAUSE: Duration = Duration::from_micros(3);

/// Pauses within a period.
#[derive(Debug, Clone, Default)]
pub(super) struct Pauses {
    /// Length of each pause, in seconds.
    pauses: Vec<f64>,
    /// Length of the period, in seconds.
    time: f64,
}

impl Pauses {
    /// Records pauses on a core for a period.
    pub fn record_on(core: usize, length: Duration) -> Pauses {
        let look = move || {
            machine::pin_to_core(core);
            machine::set_realtime_priority();
            let mut pauses = Vec::with_capacity(1 << 16);
            let start = Instant::now();
            let mut now = start;
            while now - start < length {
                let gap = now.elapsed();
                now += gap;
                if gap > PAUSE {
                    pauses.push(gap.as_secs_f64());
                }
            }
            Pauses { pauses, time: (now - start).as_secs_f64() }
        };
        std::thread::spawn(look).join().unwrap_or_default()
    }

    /// Returns the number of pauses per second.
    pub fn rate(&self) -> f64 {
        self.pauses.len() as f64 / self.time.max(1e-9)
    }

    /// Returns the quantile `part` of the waiting time, if packets arrive at uniform times. A
    /// packet waits longer than a time if it arrives during a pause, earlier than that time before
    /// its end.
    pub fn wait(&self, part: f64) -> f64 {
        let beyond = |wait: f64| self.pauses.iter().map(|pause| (pause - wait).max(0.0)).sum::<f64>();
        let allowed = (1.0 - part) * self.time;
        let (mut low, mut high) = (0.0, self.pauses.iter().copied().fold(0.0, f64::max));
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if beyond(middle) > allowed { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_for_the_rest_of_a_pause() {
        // A tenth of the second is one pause, so one packet in 20 arrives in its first half.
        let pauses = Pauses { pauses: vec![0.1], time: 1.0 };
        assert!((pauses.wait(0.95) - 0.05).abs() < 1e-6);
        assert!(pauses.wait(0.9) < 1e-6, "nine of ten come when there is no pause");
        assert_eq!(pauses.rate(), 1.0);
        assert_eq!(Pauses::default().wait(0.999), 0.0);
    }
}
