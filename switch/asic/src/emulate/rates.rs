//! Throughput and latency of a chip, estimated from the emulated switch's statistics.

use super::stats::SwitchStats;
use crate::target::ChipTarget;
use std::fmt;

/// Bytes of a packet on the wire besides its own: preamble and start of frame (8), frame check
/// sequence (4), gap (12). IEEE 802.3.
const WIRE_BYTES: f64 = 24.0;

/// Parameters of a chip that determine its speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChipTiming {
    /// Maximum packets per second of a pipe, which is its clock in Hz.
    pub clock_hz: u64,
    /// Number of pipes.
    pub pipes: u32,
    /// Ports of all pipes together.
    pub ports: u32,
    /// Speed of a port in Gbit/s.
    pub port_gbps: u32,
    /// Nanoseconds of a pass through ingress, traffic manager and egress, with empty queues.
    pub pass_ns: u32,
}

impl From<&ChipTarget> for ChipTiming {
    fn from(target: &ChipTarget) -> ChipTiming {
        ChipTiming {
            clock_hz: target.clock_hz,
            pipes: target.pipes,
            ports: target.ports,
            port_gbps: target.port_gbps,
            pass_ns: target.pass_ns,
        }
    }
}

/// Resource that limits the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateBound {
    /// Clock of a pipe, one packet per cycle.
    Clock,
    /// Ports on which packets enter and leave.
    Ports,
    /// Ports of the pipes in loopback, which also carry bridge headers.
    Loopback,
}

impl fmt::Display for RateBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RateBound::Clock => "clock",
            RateBound::Ports => "ports",
            RateBound::Loopback => "loopback",
        })
    }
}

/// Estimated rates of a chip for the counted traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwitchRates {
    /// Packets per second.
    pub packets_per_second: f64,
    /// Bits of packets per second, without wire overhead.
    pub bits_per_second: f64,
    /// Limiting resource.
    pub bound: RateBound,
    /// Average latency of a packet in nanoseconds, with empty queues.
    pub latency_ns: f64,
    /// Average number of gresses that a packet passes, 2 without folding.
    pub halves_per_packet: f64,
    /// Bridge header bits per packet, over all its crossings.
    pub bridged_bits_per_packet: f64,
}

impl SwitchStats {
    /// Estimates the rates of a chip for this traffic. `None` without traffic. The number of passes
    /// determines the number of folded pipes. Packets are spread evenly over all groups of folded
    /// pipes that the chip has.
    pub fn estimate_rates(&self, timing: &ChipTiming) -> Option<SwitchRates> {
        let received = self.received.packets as f64;
        if self.received.packets == 0 {
            return None;
        }
        let folds = (self.passes.len() / 2).max(1) as f64;
        let groups = (f64::from(timing.pipes) / folds).max(1.0);
        let pipe_bps = f64::from(timing.ports) / f64::from(timing.pipes.max(1)) * f64::from(timing.port_gbps) * 1e9;
        // The busiest gress decides. Clones and recirculated packets count each time.
        let busiest = self.passes.iter().map(|pass| pass.packets).max().unwrap_or(0).max(self.received.packets) as f64;
        let clock_rate = groups * timing.clock_hz as f64 / (busiest / received);
        let on_wire = |bytes: u64, packets: u64| (bytes as f64 + packets as f64 * WIRE_BYTES) * 8.0 / received;
        let port_bits =
            on_wire(self.received.bytes, self.received.packets).max(on_wire(self.sent.bytes, self.sent.packets));
        let port_rate = groups * pipe_bps / port_bits;
        // Packets enter an ingress other than the first from a loopback.
        let loopback_bits =
            self.passes.iter().skip(2).step_by(2).map(|pass| on_wire(pass.bytes, pass.packets)).fold(0.0, f64::max);
        let loopback_rate = if loopback_bits > 0.0 { groups * pipe_bps / loopback_bits } else { f64::INFINITY };
        let (packets_per_second, bound) =
            [(clock_rate, RateBound::Clock), (port_rate, RateBound::Ports), (loopback_rate, RateBound::Loopback)]
                .into_iter()
                .min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let gresses_per_packet = self.passes.iter().map(|pass| pass.packets).sum::<u64>() as f64 / received;
        let bits = self.crossings.iter().map(|crossing| crossing.bits).sum::<u64>() as f64 / received;
        Some(SwitchRates {
            packets_per_second,
            bits_per_second: packets_per_second * self.received.bytes as f64 * 8.0 / received,
            bound,
            latency_ns: gresses_per_packet / 2.0 * f64::from(timing.pass_ns),
            halves_per_packet: gresses_per_packet,
            bridged_bits_per_packet: bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::stats::CrossingStats;
    use super::*;
    use packet::Counter;

    const CHIP: ChipTiming = ChipTiming { clock_hz: 1_000_000_000, pipes: 4, ports: 64, port_gbps: 100, pass_ns: 600 };

    fn counts(passes: usize, bytes: u64, bridge: u64) -> SwitchStats {
        let traffic = |bytes| Counter { packets: 10, bytes: 10 * bytes };
        let pass = |pass: usize| traffic(bytes + if pass == 0 { 0 } else { bridge });
        SwitchStats {
            received: traffic(bytes),
            sent: traffic(bytes),
            passes: (0..passes).map(pass).collect(),
            crossings: vec![CrossingStats { packets: 10, bits: 10 * bridge * 8 }; passes - 1],
            ..SwitchStats::default()
        }
    }

    /// Each folded pipe halves the rate of a chip and increases the latency.
    #[test]
    fn folding_has_its_price() {
        let rates =
            |folds: usize, bytes, bridge| counts(2 * folds, bytes, bridge).estimate_rates(&CHIP).expect("traffic");
        let (one, two, four) = (rates(1, 1476, 10), rates(2, 1476, 0), rates(4, 1476, 0));
        assert_eq!((one.bound, two.bound), (RateBound::Ports, RateBound::Ports));
        assert!((one.packets_per_second - 6.4e12 / 12000.0).abs() < 1.0, "{one:?}");
        assert!((one.packets_per_second / two.packets_per_second - 2.0).abs() < 1e-9, "{two:?}");
        assert!((one.packets_per_second / four.packets_per_second - 4.0).abs() < 1e-9, "{four:?}");
        assert_eq!((one.latency_ns, two.latency_ns, four.latency_ns), (600.0, 1200.0, 2400.0));
        // Bridge headers pass the loopback, so it is the first limit.
        let bridged = rates(2, 1476, 24);
        assert_eq!(bridged.bound, RateBound::Loopback);
        assert!((two.packets_per_second / bridged.packets_per_second - 1524.0 / 1500.0).abs() < 1e-9, "{bridged:?}");
        assert_eq!(bridged.bridged_bits_per_packet, 3.0 * 24.0 * 8.0);
        // The clock limits small packets.
        let small = rates(2, 60, 0);
        assert_eq!((small.bound, small.packets_per_second), (RateBound::Clock, 2e9));
        assert_eq!(SwitchStats::default().estimate_rates(&CHIP), None);
    }
}
