//! When a link that was down may be used again.

use std::time::Duration;

/// Times that damp a link that flaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DampingTimes {
    /// Time for which a link that was down must be up before it is used again.
    pub hold_up: Duration,
    /// Maximum of that time, which doubles with each further loss. A link that was up for this time
    /// counts as stable again.
    pub max_hold_up: Duration,
}

impl Default for DampingTimes {
    /// One second, up to a minute.
    fn default() -> DampingTimes {
        DampingTimes { hold_up: Duration::from_secs(1), max_hold_up: Duration::from_secs(60) }
    }
}

/// Whether packets may use a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkUse {
    /// The link is up and stable.
    Up,
    /// The link is up again, for less than the hold time. It is used only if nothing else is left.
    Held,
    /// The link is down.
    #[default]
    Down,
}

/// State of one link, from the reports about its carrier. Times are those of any clock that does
/// not go back, as durations since a common start.
#[derive(Clone, Debug, Default)]
pub struct LinkDamping {
    times: DampingTimes,
    /// Whether anything was reported yet.
    is_known: bool,
    link_use: LinkUse,
    /// Time of the last change of `link_use`.
    since: Duration,
    /// Losses since the link was last stable.
    losses: u32,
    /// Number of changes of the carrier.
    changes: u64,
    /// Time for which the link was down, without the present time.
    down_time: Duration,
}

impl LinkDamping {
    /// Returns the state of a link of which nothing is known.
    pub fn new(times: DampingTimes) -> LinkDamping {
        LinkDamping { times, ..LinkDamping::default() }
    }

    /// Reports the carrier at the time `now`, and that time itself: call it also without a change.
    /// Returns whether packets may use the link. The first report counts without a hold time,
    /// because a process that starts has no reason to distrust a link.
    pub fn report(&mut self, has_carrier: bool, now: Duration) -> LinkUse {
        let had_carrier = self.link_use != LinkUse::Down;
        let lasted = now.saturating_sub(self.since);
        if !self.is_known {
            self.is_known = true;
            self.since = now;
            self.link_use = if has_carrier { LinkUse::Up } else { LinkUse::Down };
        } else if had_carrier && !has_carrier {
            if self.link_use == LinkUse::Up && lasted >= self.times.max_hold_up {
                self.losses = 0;
            }
            self.losses = self.losses.saturating_add(1);
            self.change_to(LinkUse::Down, now);
        } else if !had_carrier && has_carrier {
            self.down_time += lasted;
            self.change_to(LinkUse::Held, now);
        }
        if self.link_use == LinkUse::Held && now.saturating_sub(self.since) >= self.hold_time() {
            (self.link_use, self.since) = (LinkUse::Up, now);
        }
        self.link_use
    }

    fn change_to(&mut self, link_use: LinkUse, now: Duration) {
        (self.link_use, self.since) = (link_use, now);
        self.changes += 1;
    }

    /// Returns the time for which the link must be up before it is used again.
    pub fn hold_time(&self) -> Duration {
        // A link that is down from the start has no loss yet.
        let doubled = 1_u32.checked_shl(self.losses.saturating_sub(1)).unwrap_or(u32::MAX);
        self.times.hold_up.saturating_mul(doubled).min(self.times.max_hold_up.max(self.times.hold_up))
    }

    /// Returns whether packets may use the link, as of the last report.
    pub fn link_use(&self) -> LinkUse {
        self.link_use
    }

    /// Returns whether anything was reported yet.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the number of changes of the carrier.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the time for which the link was down until `now`.
    pub fn down_time(&self, now: Duration) -> Duration {
        let present = if self.is_known && self.link_use == LinkUse::Down {
            now.saturating_sub(self.since)
        } else {
            Duration::ZERO
        };
        self.down_time + present
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_lost_link_is_down_at_once_and_returns_after_the_hold_time() {
        let mut link = LinkDamping::new(DampingTimes::default());
        assert_eq!(link.report(true, ms(0)), LinkUse::Up, "the first report counts");
        assert_eq!(link.report(false, ms(100)), LinkUse::Down);
        assert_eq!(link.report(true, ms(300)), LinkUse::Held);
        assert_eq!(link.report(true, ms(1299)), LinkUse::Held);
        assert_eq!(link.report(true, ms(1300)), LinkUse::Up);
        assert_eq!((link.changes(), link.down_time(ms(2000))), (2, ms(200)));
    }

    #[test]
    fn each_further_loss_doubles_the_hold_time_until_the_link_was_stable() {
        let mut link = LinkDamping::new(DampingTimes::default());
        let mut now = ms(0);
        link.report(true, now);
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            now += ms(10);
            link.report(false, now);
            now += ms(10);
            assert_eq!(link.report(true, now), LinkUse::Held);
            assert_eq!(link.hold_time(), Duration::from_secs(expected));
            now += Duration::from_secs(expected);
            assert_eq!(link.report(true, now), LinkUse::Up);
        }
        now += Duration::from_secs(60);
        link.report(true, now);
        link.report(false, now + ms(1));
        assert_eq!(link.hold_time(), Duration::from_secs(1), "it was stable for a minute");
    }

    #[test]
    fn a_link_that_is_down_at_the_start_counts_its_time_down() {
        let mut link = LinkDamping::new(DampingTimes { hold_up: ms(0), max_hold_up: ms(0) });
        assert_eq!(link.report(false, ms(5)), LinkUse::Down);
        assert_eq!(link.down_time(ms(25)), ms(20));
        assert_eq!(link.report(true, ms(30)), LinkUse::Up, "without a hold time it is used at once");
        assert_eq!(link.down_time(ms(99)), ms(25));
    }
}
