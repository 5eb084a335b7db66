//! [`Pace`]: how many packets the slow path has time for, so that those that hit keep theirs.
//!
//! One core does both. In each window it is noted how long the engine was busy, how much of that on the slow path, and what a packet took there. In the next window
//! the slow path has what all else left over, less a little, into which established traffic can grow; and [`Spare::least_percent`] of the time in any case, so that there
//! are new flows at all. So on a core that has nothing else to do it gets everything, and where established flows fill the core they keep all but those percents.

/// The slow path's part of a core's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spare {
    /// Percent of the time that it has however much else there is to do.
    pub least_percent: u8,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { least_percent: 5 }
    }
}

/// What is left free for other work to grow from one window to the next, in percent of the time.
const GROWTH: u64 = 5;

/// What a packet is thought to take on the slow path before one was seen there, in nanoseconds.
const FIRST_GUESS: u64 = 20_000;

/// See the module. All times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Pace {
    spare: Spare,
    busy: u64,
    slow: u64,
    packets: u64,
    /// What a packet takes on the slow path, a sliding mean.
    each: u64,
}

impl Pace {
    /// Nothing was seen yet.
    pub fn new(spare: Spare) -> Pace {
        Pace { spare, busy: 0, slow: 0, packets: 0, each: FIRST_GUESS }
    }

    /// The engine was busy for so long, of that so long on the slow path, with so many packets.
    pub fn note(&mut self, busy: u64, slow: u64, packets: u64) {
        self.busy += busy;
        self.slow += slow.min(busy);
        self.packets += packets;
    }

    /// So many windows of that length have passed: packets that the slow path has time for in the next.
    pub fn next(&mut self, window: u64, passed: u64) -> u64 {
        if let Some(each) = self.slow.checked_div(self.packets).filter(|each| *each > 0) {
            self.each = if self.each == FIRST_GUESS { each } else { (7 * self.each + each) / 8 };
        }
        let else_where = (self.busy - self.slow) / passed.max(1);
        (self.busy, self.slow, self.packets) = (0, 0, 0);
        let kept = else_where + window * GROWTH / 100;
        let least = window * u64::from(self.spare.least_percent.min(100)) / 100;
        window.saturating_sub(kept).max(least) / self.each.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, Spare};

    const WINDOW: u64 = 10_000_000;

    /// What it settles at when other work takes that share of the time, and a slow packet 2 us.
    fn settled(percent: u64) -> u64 {
        let mut pace = Pace::new(Spare::default());
        let mut packets = pace.next(WINDOW, 1);
        for _ in 0..200 {
            let slow = 2_000 * packets;
            pace.note(WINDOW * percent / 100 + slow, slow, packets);
            packets = pace.next(WINDOW, 1);
        }
        packets
    }

    #[test]
    fn the_slow_path_has_what_is_left() {
        assert_eq!(settled(0), 4_750);
        assert_eq!(settled(50), 2_250);
        // 5 % of the time, though nothing is left.
        assert_eq!(settled(93), 250);
        assert_eq!(settled(100), 250);
    }

    #[test]
    fn established_traffic_takes_its_time_back() {
        let mut pace = Pace::new(Spare::default());
        for _ in 0..50 {
            let packets = pace.next(WINDOW, 1);
            pace.note(2_000 * packets, 2_000 * packets, packets);
        }
        // Now it wants all of it, and gets what the slow path does not use.
        let (mut windows, mut packets) = (0, 5_000);
        while packets > 300 && windows < 1_000 {
            let slow = (2_000 * packets).min(WINDOW);
            pace.note(WINDOW, slow, slow / 2_000);
            packets = pace.next(WINDOW, 1);
            windows += 1;
        }
        assert!(windows < 100, "{windows} windows, {packets} packets");
    }

    #[test]
    fn after_a_pause_other_work_is_spread_over_it() {
        let mut pace = Pace::new(Spare::default());
        pace.note(WINDOW, 2_000_000, 1_000);
        assert_eq!(pace.next(WINDOW, 10), (WINDOW - 500_000 - 800_000) / 2_000);
    }
}
