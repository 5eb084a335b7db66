//! What the machine alone does to latency: how long a thread is stopped that does nothing but look at the clock, with the same priority and on the same
//! core as the gateway. A packet that comes while the gateway is stopped waits for the rest of that time.

use crate::machine;
use std::time::{Duration, Instant};

/// Between two looks at the clock, more than this is a pause.
const PAUSE: Duration = Duration::from_micros(3);

/// Pauses within a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Pauses {
    /// Seconds each.
    pauses: Vec<f64>,
    /// Seconds in all.
    time: f64,
}

impl Pauses {
    /// Looks for so long, on a core.
    pub fn on(core: usize, length: Duration) -> Pauses {
        let look = move || {
            machine::pin(core);
            machine::never_stopped();
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

    /// Pauses a second.
    pub fn rate(&self) -> f64 {
        self.pauses.len() as f64 / self.time.max(1e-9)
    }

    /// How long at most this part of all packets wait, if they come at any moment: all but those that come while a pause is longer than that
    /// from its end.
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
        // A second in which a tenth is one pause: a packet in 20 comes in its first half.
        let pauses = Pauses { pauses: vec![0.1], time: 1.0 };
        assert!((pauses.wait(0.95) - 0.05).abs() < 1e-6);
        assert!(pauses.wait(0.9) < 1e-6, "nine of ten come when there is no pause");
        assert_eq!(pauses.rate(), 1.0);
        assert_eq!(Pauses::default().wait(0.999), 0.0);
    }
}
