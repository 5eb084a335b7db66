//! [`BlockLog`]: rate and counts of the log of blocks of ports.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Lines that are written at once, if none were written for a while.
const BURST_LINES: f64 = 1000.0;

/// Counts of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLogCounts {
    /// Lines that were written.
    pub written: u64,
    /// Changes that have no line.
    pub lost: u64,
}

/// Lines that may be written.
struct LineBudget {
    per_second: u32,
    lines: f64,
    at: Instant,
}

impl LineBudget {
    fn new(per_second: u32) -> LineBudget {
        LineBudget { per_second, lines: f64::from(per_second).min(BURST_LINES), at: Instant::now() }
    }

    /// Returns how many lines may be written now.
    fn available(&mut self, passed: Duration) -> usize {
        let rate = f64::from(self.per_second);
        self.lines = (self.lines + passed.as_secs_f64() * rate).min(rate.min(BURST_LINES));
        self.lines as usize
    }
}

/// The log of blocks of a node. Without a rate, no line is written.
#[derive(Default)]
pub(crate) struct BlockLog {
    /// Whether engines note changes.
    is_on: AtomicBool,
    budget: Mutex<Option<LineBudget>>,
    written: AtomicU64,
    lost: AtomicU64,
}

impl BlockLog {
    /// Creates a log without a rate. Engines note changes already if `is_on`.
    pub fn new(is_on: bool) -> BlockLog {
        BlockLog { is_on: is_on.into(), ..BlockLog::default() }
    }

    /// Returns whether engines note changes.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Sets the lines a second; `None`: there are none.
    pub fn set_rate(&self, per_second: Option<u32>) {
        self.is_on.store(per_second.is_some(), Relaxed);
        let mut budget = self.budget.lock();
        if per_second != budget.as_ref().map(|budget| budget.per_second) {
            *budget = per_second.map(LineBudget::new);
        }
    }

    /// Returns whether there is a rate.
    pub fn has_rate(&self) -> bool {
        self.budget.lock().is_some()
    }

    /// Returns how many lines may be written now.
    pub fn available_lines(&self) -> usize {
        self.budget.lock().as_mut().map_or(0, |budget| {
            let passed = budget.at.elapsed();
            budget.at += passed;
            budget.available(passed)
        })
    }

    /// Notes that lines were taken.
    pub fn spend_lines(&self, count: usize) {
        if let Some(budget) = self.budget.lock().as_mut() {
            budget.lines -= count as f64;
        }
    }

    pub fn count_written(&self, lines: usize) {
        self.written.fetch_add(lines as u64, Relaxed);
    }

    pub fn count_lost(&self, changes: u64) {
        self.lost.fetch_add(changes, Relaxed);
    }

    pub fn counts(&self) -> BlockLogCounts {
        BlockLogCounts { written: self.written.load(Relaxed), lost: self.lost.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_their_rate_with_a_bounded_burst() {
        let mut budget = LineBudget::new(100);
        assert_eq!(budget.available(Duration::ZERO), 100);
        budget.lines = 0.0;
        assert_eq!(budget.available(Duration::from_millis(55)), 5);
        assert_eq!(budget.available(Duration::from_secs(1000)), 100, "one second's lines at most");
        assert_eq!(LineBudget::new(10_000).available(Duration::from_secs(1)), 1000, "less than the log's queue");
    }
}
