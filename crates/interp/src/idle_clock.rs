//! [`IdleClock`]: how the idle times of a table's entries are counted.

use std::cmp::max;

/// Length of a tick in nanoseconds.
pub const TICK_NS: u64 = 125_000_000;
/// Time between two moments at which entries of a table that packets write end, in nanoseconds.
const END_NS: u64 = 500_000_000;
/// Longest idle time of such entries in ticks: 34 hours. A longer one counts as this one.
const MAX_IDLE_TICKS: u64 = (1 << 20) - (1 << 16);
/// Longest time in ticks between two hits that are noted: a minute.
const MAX_SLACK_TICKS: u64 = 480;
/// The same for entries that never expire.
const NEVER_SLACK_TICKS: u64 = 1 << 19;

/// How idle times are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleClock {
    /// From the last hit, to the nanosecond.
    Exact,
    /// In ticks, in tables that packets write. A hit is noted only if the idle time has begun, so
    /// that most hits of a busy entry write nothing. The idle time then begins again after the
    /// slack: a 32nd of the idle time, at least a tick, at most a minute.
    Ticks,
    /// Not here: the engine that holds the entries counts them.
    Elsewhere,
}

impl IdleClock {
    /// Returns the time from which on the idle time of an entry counts that was hit at `now`.
    /// `timeout_ns` is its idle timeout; 0: it never expires. All in nanoseconds.
    pub fn start(self, now: u64, timeout_ns: u64) -> u64 {
        match self {
            IdleClock::Exact | IdleClock::Elsewhere => now,
            IdleClock::Ticks => self.tick_begin(now).saturating_add(slack_ticks(timeout_ns) * TICK_NS),
        }
    }

    /// Returns the start of the idle time of an entry after a hit at `now`, if it counted from `since`
    /// before.
    pub fn restart(self, since: u64, now: u64, timeout_ns: u64) -> u64 {
        match self {
            IdleClock::Exact | IdleClock::Elsewhere => max(since, now),
            IdleClock::Ticks if self.tick_begin(now) < since => since,
            IdleClock::Ticks => self.start(now, timeout_ns),
        }
    }

    /// Returns the time as the clock counts it.
    pub fn tick_begin(self, now: u64) -> u64 {
        match self {
            IdleClock::Exact | IdleClock::Elsewhere => now,
            IdleClock::Ticks => now - now % TICK_NS,
        }
    }

    /// Returns when an entry ends if its idle time counts from `since`.
    pub fn end(self, since: u64, timeout_ns: u64) -> u64 {
        match self {
            IdleClock::Exact => since.saturating_add(timeout_ns),
            IdleClock::Elsewhere => u64::MAX,
            IdleClock::Ticks => {
                let end = since.saturating_add(idle_ticks(timeout_ns) * TICK_NS);
                end.checked_next_multiple_of(END_NS).unwrap_or(u64::MAX)
            }
        }
    }
}

fn idle_ticks(timeout_ns: u64) -> u64 {
    timeout_ns.div_ceil(TICK_NS).min(MAX_IDLE_TICKS)
}

fn slack_ticks(timeout_ns: u64) -> u64 {
    match idle_ticks(timeout_ns) {
        0 => NEVER_SLACK_TICKS,
        ticks => (ticks / 32).clamp(1, MAX_SLACK_TICKS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn hits_are_noted_when_the_idle_time_has_begun() {
        let clock = IdleClock::Ticks;
        // 32 s: the slack is a second.
        let since = clock.start(10 * SECOND + 7, 32 * SECOND);
        assert_eq!(since, 11 * SECOND);
        assert_eq!(clock.restart(since, 11 * SECOND - 1, 32 * SECOND), since);
        assert_eq!(clock.restart(since, 11 * SECOND + 1, 32 * SECOND), 12 * SECOND);
        assert_eq!(clock.end(since, 32 * SECOND), 43 * SECOND);
    }

    /// An entry ends between its idle time and a 32nd and two half seconds more.
    #[test]
    fn entries_end_within_the_precision() {
        let clock = IdleClock::Ticks;
        for timeout in [1, TICK_NS, SECOND, 30 * SECOND, 240 * SECOND, 7200 * SECOND] {
            for now in [0, 1, SECOND / 3, 17 * SECOND + 123_456_789] {
                let lived = clock.end(clock.start(now, timeout), timeout) - now;
                assert!(lived >= timeout && lived - timeout <= timeout / 32 + SECOND, "{timeout}: {lived}");
            }
        }
        assert_eq!(IdleClock::Exact.end(IdleClock::Exact.start(5, 7), 7), 12);
    }
}
