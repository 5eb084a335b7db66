//! What a chip would forward in a second, and how long a packet would be in it, from what the emulated one counted.

use super::counts::Counts;
use crate::target::Target;
use std::fmt;

/// Bytes that a packet takes on a wire besides its own: preamble and start of frame (8), frame check sequence (4), gap (12). IEEE 802.3.
const WIRE_BYTES: f64 = 24.0;

/// What of a chip decides about its speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Packets that a pipe takes in a second at most: its clock in Hz.
    pub clock_hz: u64,
    /// Pipes.
    pub pipes: u32,
    /// Ports of all pipes together.
    pub ports: u32,
    /// Speed of a port in Gbit/s.
    pub port_gbps: u32,
    /// Nanoseconds that a packet takes through ingress and egress, the traffic manager between them included, with empty queues.
    pub pass_ns: u32,
}

impl From<&Target> for Timing {
    fn from(target: &Target) -> Timing {
        Timing {
            clock_hz: target.clock_hz,
            pipes: target.pipes,
            ports: target.ports,
            port_gbps: target.port_gbps,
            pass_ns: target.pass_ns,
        }
    }
}

/// What limits a chip first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The clock of a pipe: one packet in a cycle.
    Clock,
    /// The ports on which packets come in and leave.
    Ports,
    /// The ports of the pipes that are behind others: they are loops, and bridge headers go through them, too.
    Loopback,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Clock => "clock",
            Bound::Ports => "ports",
            Bound::Loopback => "loopback",
        })
    }
}

/// What a chip would do with traffic like that which was counted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Packets that it takes in a second.
    pub packets_per_second: f64,
    /// Bits of packets (without what else is on a wire) that it takes in a second.
    pub bits_per_second: f64,
    /// What is exhausted then.
    pub bound: Bound,
    /// Nanoseconds that a packet takes on average, with empty queues.
    pub latency_ns: f64,
    /// Halves of pipes that a packet goes through on average: 2 if no pipes are behind each other.
    pub halves_per_packet: f64,
    /// Bits of bridge headers for each packet, over all its crossings.
    pub bridged_bits_per_packet: f64,
}

impl Counts {
    /// What a chip would do with this traffic; `None` if there was none. As many pipes stand behind each other as the passes say; a chip has
    /// several such groups if it has pipes for them, and packets are spread evenly over those.
    pub fn rates(&self, timing: &Timing) -> Option<Rates> {
        let received = self.received.packets as f64;
        if self.received.packets == 0 {
            return None;
        }
        let folds = (self.passes.len() / 2).max(1) as f64;
        let groups = (f64::from(timing.pipes) / folds).max(1.0);
        let pipe_bps = f64::from(timing.ports) / f64::from(timing.pipes.max(1)) * f64::from(timing.port_gbps) * 1e9;
        // The share of packets that a half of a pipe sees decides: copies and packets that go round again count as often as they come.
        let busiest = self.passes.iter().map(|pass| pass.packets).max().unwrap_or(0).max(self.received.packets) as f64;
        let clock = groups * timing.clock_hz as f64 / (busiest / received);
        let on_wire = |bytes: u64, packets: u64| (bytes as f64 + packets as f64 * WIRE_BYTES) * 8.0 / received;
        let outside =
            on_wire(self.received.bytes, self.received.packets).max(on_wire(self.sent.bytes, self.sent.packets));
        let ports = groups * pipe_bps / outside;
        // Into an ingress that is not the first, packets come out of a loop.
        let loops =
            self.passes.iter().skip(2).step_by(2).map(|pass| on_wire(pass.bytes, pass.packets)).fold(0.0, f64::max);
        let loopback = if loops > 0.0 { groups * pipe_bps / loops } else { f64::INFINITY };
        let (packets_per_second, bound) = [(clock, Bound::Clock), (ports, Bound::Ports), (loopback, Bound::Loopback)]
            .into_iter()
            .min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let halves = self.passes.iter().map(|pass| pass.packets).sum::<u64>() as f64 / received;
        let bits = self.crossings.iter().map(|crossing| crossing.bits).sum::<u64>() as f64 / received;
        Some(Rates {
            packets_per_second,
            bits_per_second: packets_per_second * self.received.bytes as f64 * 8.0 / received,
            bound,
            latency_ns: halves / 2.0 * f64::from(timing.pass_ns),
            halves_per_packet: halves,
            bridged_bits_per_packet: bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::Bridged;
    use super::*;
    use packet::Counter;

    const CHIP: Timing = Timing { clock_hz: 1_000_000_000, pipes: 4, ports: 64, port_gbps: 100, pass_ns: 600 };

    fn counts(passes: usize, bytes: u64, bridge: u64) -> Counts {
        let traffic = |bytes| Counter { packets: 10, bytes: 10 * bytes };
        let pass = |pass: usize| traffic(bytes + if pass == 0 { 0 } else { bridge });
        Counts {
            received: traffic(bytes),
            sent: traffic(bytes),
            passes: (0..passes).map(pass).collect(),
            crossings: vec![Bridged { packets: 10, bits: 10 * bridge * 8 }; passes - 1],
            ..Counts::default()
        }
    }

    /// Each pipe behind another one halves what a chip takes, and makes packets wait longer.
    #[test]
    fn folding_has_its_price() {
        let rates = |folds: usize, bytes, bridge| counts(2 * folds, bytes, bridge).rates(&CHIP).expect("traffic");
        let (one, two, four) = (rates(1, 1476, 10), rates(2, 1476, 0), rates(4, 1476, 0));
        assert_eq!((one.bound, two.bound), (Bound::Ports, Bound::Ports));
        assert!((one.packets_per_second - 6.4e12 / 12000.0).abs() < 1.0, "{one:?}");
        assert!((one.packets_per_second / two.packets_per_second - 2.0).abs() < 1e-9, "{two:?}");
        assert!((one.packets_per_second / four.packets_per_second - 4.0).abs() < 1e-9, "{four:?}");
        assert_eq!((one.latency_ns, two.latency_ns, four.latency_ns), (600.0, 1200.0, 2400.0));
        // Bridge headers go through the loop, so that is full first.
        let bridged = rates(2, 1476, 24);
        assert_eq!(bridged.bound, Bound::Loopback);
        assert!((two.packets_per_second / bridged.packets_per_second - 1524.0 / 1500.0).abs() < 1e-9, "{bridged:?}");
        assert_eq!(bridged.bridged_bits_per_packet, 3.0 * 24.0 * 8.0);
        // Small packets are a matter of the clock.
        let small = rates(2, 60, 0);
        assert_eq!((small.bound, small.packets_per_second), (Bound::Clock, 2e9));
        assert_eq!(Counts::default().rates(&CHIP), None);
    }
}
