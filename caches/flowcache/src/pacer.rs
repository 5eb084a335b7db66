//! [`SlowPathPacer`]: limits the slow path by time, so that packets that hit keep their throughput.
//!
//! One core serves both. The pacer measures in each window how long the engine was busy, how much
//! of that was the slow path, and the mean time of a packet there. In the next window the slow path
//! gets the time that all other work left, less a reserve into which established traffic can grow.
//! It gets at least [`MinSlowPathShare::percent`], so that new flows always make progress. An idle
//! core gives it all time; a core full of established flows gives it only that minimum.

/// Minimum share of a core's time for the slow path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MinSlowPathShare {
    /// Percent of the time that the slow path gets under any load.
    pub percent: u8,
}

impl Default for MinSlowPathShare {
    fn default() -> MinSlowPathShare {
        MinSlowPathShare { percent: 5 }
    }
}

/// Reserve for other work to grow from one window to the next, in percent of the time.
const GROWTH_PERCENT: u64 = 5;

/// Assumed time of a packet on the slow path before the first measurement, in nanoseconds.
const INITIAL_PACKET_NS: u64 = 20_000;

/// Measures slow-path time and limits it. All times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct SlowPathPacer {
    min_share: MinSlowPathShare,
    busy_ns: u64,
    slow_path_ns: u64,
    packets: u64,
    /// Moving average of the time of a packet on the slow path.
    packet_ns: u64,
}

impl SlowPathPacer {
    /// Creates a pacer without measurements.
    pub fn new(min_share: MinSlowPathShare) -> SlowPathPacer {
        SlowPathPacer { min_share, busy_ns: 0, slow_path_ns: 0, packets: 0, packet_ns: INITIAL_PACKET_NS }
    }

    /// Records that the engine was busy for `busy` ns, of which `slow` ns were `packets` packets on
    /// the slow path.
    pub fn record_time(&mut self, busy: u64, slow: u64, packets: u64) {
        self.busy_ns += busy;
        self.slow_path_ns += slow.min(busy);
        self.packets += packets;
    }

    /// Starts a new window of `window` ns, after `windows` windows. Returns the number of packets
    /// that the slow path has time for.
    pub fn next_window_packets(&mut self, window: u64, windows: u64) -> u64 {
        if let Some(ns_per_packet) =
            self.slow_path_ns.checked_div(self.packets).filter(|ns_per_packet| *ns_per_packet > 0)
        {
            self.packet_ns = if self.packet_ns == INITIAL_PACKET_NS {
                ns_per_packet
            } else {
                (7 * self.packet_ns + ns_per_packet) / 8
            };
        }
        let other_ns = (self.busy_ns - self.slow_path_ns) / windows.max(1);
        (self.busy_ns, self.slow_path_ns, self.packets) = (0, 0, 0);
        let reserved_ns = other_ns + window * GROWTH_PERCENT / 100;
        let min_ns = window * u64::from(self.min_share.percent.min(100)) / 100;
        window.saturating_sub(reserved_ns).max(min_ns) / self.packet_ns.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::{MinSlowPathShare, SlowPathPacer};

    const WINDOW: u64 = 10_000_000;

    /// Returns the steady number of packets, if other work takes `percent` of the time and a
    /// slow-path packet 2 us.
    fn settled(percent: u64) -> u64 {
        let mut pace = SlowPathPacer::new(MinSlowPathShare::default());
        let mut packets = pace.next_window_packets(WINDOW, 1);
        for _ in 0..200 {
            let slow = 2_000 * packets;
            pace.record_time(WINDOW * percent / 100 + slow, slow, packets);
            packets = pace.next_window_packets(WINDOW, 1);
        }
        packets
    }

    #[test]
    fn the_slow_path_has_what_is_left() {
        assert_eq!(settled(0), 4_750);
        assert_eq!(settled(50), 2_250);
        // The minimum of 5 % applies, because other work leaves no time.
        assert_eq!(settled(93), 250);
        assert_eq!(settled(100), 250);
    }

    #[test]
    fn established_traffic_takes_its_time_back() {
        let mut pace = SlowPathPacer::new(MinSlowPathShare::default());
        for _ in 0..50 {
            let packets = pace.next_window_packets(WINDOW, 1);
            pace.record_time(2_000 * packets, 2_000 * packets, packets);
        }
        // Established traffic demands all time and gets the time that the slow path does not use.
        let (mut windows, mut packets) = (0, 5_000);
        while packets > 300 && windows < 1_000 {
            let slow = (2_000 * packets).min(WINDOW);
            pace.record_time(WINDOW, slow, slow / 2_000);
            packets = pace.next_window_packets(WINDOW, 1);
            windows += 1;
        }
        assert!(windows < 100, "{windows} windows, {packets} packets");
    }

    #[test]
    fn after_a_pause_other_work_is_spread_over_it() {
        let mut pace = SlowPathPacer::new(MinSlowPathShare::default());
        pace.record_time(WINDOW, 2_000_000, 1_000);
        assert_eq!(pace.next_window_packets(WINDOW, 10), (WINDOW - 500_000 - 800_000) / 2_000);
    }
}
