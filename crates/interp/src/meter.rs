//! Two-rate three-color marker, RFC 2698, on the clock that the caller passes in.

use entries::MeterConfig;

/// Meter color, ordered from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[allow(missing_docs)]
pub enum MeterColor {
    Green,
    Yellow,
    Red,
}

/// Fill of a meter's token buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterFill {
    /// Tokens in the committed bucket, in billionths of a unit (a packet or a byte).
    pub committed: u128,
    /// Tokens in the peak bucket, in billionths of a unit.
    pub peak: u128,
    /// Time of this fill in nanoseconds of the engine's clock.
    pub time_ns: u64,
}

/// Tokens are counted in billionths of a unit, because a nanosecond at any integral rate then adds
/// an integral number.
const SCALE: u128 = 1_000_000_000;

/// Configured meter.
#[derive(Clone, Debug)]
pub struct Meter {
    config: MeterConfig,
    committed: u128,
    peak: u128,
    updated: u64,
}

impl Meter {
    /// Creates a meter with full buckets (RFC 2698, section 2).
    pub fn new(config: MeterConfig, now: u64) -> Meter {
        Meter {
            config,
            committed: u128::from(config.cburst) * SCALE,
            peak: u128::from(config.pburst) * SCALE,
            updated: now,
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &MeterConfig {
        &self.config
    }

    /// Returns the fill of the buckets; `None` if they are full.
    pub fn level(&self) -> Option<MeterFill> {
        let full_meter = Meter::new(self.config, self.updated);
        let level = MeterFill { committed: self.committed, peak: self.peak, time_ns: self.updated };
        ((self.committed, self.peak) != (full_meter.committed, full_meter.peak)).then_some(level)
    }

    /// Sets the fill of the buckets, up to their sizes.
    pub fn set_level(&mut self, level: MeterFill) {
        let full_meter = Meter::new(self.config, level.time_ns);
        self.committed = level.committed.min(full_meter.committed);
        (self.peak, self.updated) = (level.peak.min(full_meter.peak), level.time_ns);
    }

    /// Meters a packet of `size` units (1 for a packet meter, else bytes) at `now`, in nanoseconds.
    /// `before` is the packet's incoming color; use `Green` for color-blind operation.
    pub fn meter_packet(&mut self, size: u64, before: MeterColor, now: u64) -> MeterColor {
        // A clock that runs backwards adds no tokens.
        let elapsed = u128::from(now.saturating_sub(self.updated));
        // The products of two 64-bit numbers fit in 128 bits.
        self.updated = self.updated.max(now);
        let filled = |tokens: u128, rate: u64, burst: u64| {
            tokens.saturating_add(elapsed * u128::from(rate)).min(u128::from(burst) * SCALE)
        };
        self.committed = filled(self.committed, self.config.cir, self.config.cburst);
        self.peak = filled(self.peak, self.config.pir, self.config.pburst);
        let size = u128::from(size) * SCALE;
        if before == MeterColor::Red || self.peak < size {
            return MeterColor::Red;
        }
        self.peak -= size;
        if before == MeterColor::Yellow || self.committed < size {
            return MeterColor::Yellow;
        }
        self.committed -= size;
        MeterColor::Green
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MeterColor::*;

    const SECOND: u64 = 1_000_000_000;

    /// RFC 2698, section 3: the peak bucket is checked first. Red takes no tokens, yellow takes
    /// peak tokens, green both.
    #[test]
    fn colour_blind() {
        let mut meter = Meter::new(MeterConfig { cir: 100, cburst: 200, pir: 200, pburst: 300 }, 0);
        assert_eq!(meter.meter_packet(150, Green, 0), Green); // committed 50, peak 150
        assert_eq!(meter.meter_packet(100, Green, 0), Yellow); // committed 50, peak 50
        assert_eq!(meter.meter_packet(51, Green, 0), Red); // neither
        assert_eq!(meter.meter_packet(50, Green, 0), Green); // both empty
        assert_eq!(meter.meter_packet(1, Green, 0), Red);
        assert_eq!(meter.meter_packet(100, Green, SECOND / 2), Yellow); // committed 50, peak 100
        assert_eq!(meter.meter_packet(200, Green, 10 * SECOND), Green); // buckets full: 200, 300
        assert_eq!(meter.meter_packet(101, Green, 10 * SECOND), Red);
    }

    #[test]
    fn colour_aware() {
        let mut meter = Meter::new(MeterConfig { cir: 1, cburst: 10, pir: 1, pburst: 10 }, 0);
        assert_eq!(meter.meter_packet(1, Red, 0), Red);
        assert_eq!(meter.meter_packet(4, Yellow, 0), Yellow); // peak 6, committed still 10
        assert_eq!(meter.meter_packet(7, Yellow, 0), Red);
        assert_eq!(meter.meter_packet(6, Green, 0), Green); // peak 0, committed 4
    }

    /// Rates that do not divide the clock frequency have no rounding loss.
    #[test]
    fn no_rounding() {
        let mut meter = Meter::new(MeterConfig { cir: 3, cburst: 1, pir: 3, pburst: 1 }, 0);
        let passed =
            (0..3 * SECOND).step_by(1_000_000).filter(|now| meter.meter_packet(1, Green, *now) == Green).count();
        assert_eq!(passed, 9); // the first token and three a second for 2.999 s
    }

    #[test]
    fn one_goes_on_where_another_one_stopped() {
        let config = MeterConfig { cir: 10, cburst: 20, pir: 20, pburst: 30 };
        let mut first = Meter::new(config, 0);
        assert_eq!(first.level(), None, "it is full");
        assert_eq!(first.meter_packet(20, Green, SECOND), Green);
        let level = first.level().expect("it is not full any more");
        let mut second = Meter::new(config, 2 * SECOND);
        second.set_level(level);
        for (now, size) in [(SECOND, 11), (2 * SECOND, 30), (3 * SECOND, 20), (3 * SECOND, 20)] {
            assert_eq!(second.meter_packet(size, Green, now), first.meter_packet(size, Green, now), "{size} at {now}");
        }
        let mut small = Meter::new(MeterConfig { cburst: 1, pburst: 1, ..config }, 0);
        small.set_level(level);
        assert_eq!(small.meter_packet(2, Green, SECOND), Red, "no more than its buckets hold");
    }

    #[test]
    fn clock_that_goes_back() {
        let mut meter = Meter::new(MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1 }, 5 * SECOND);
        assert_eq!(meter.meter_packet(1, Green, 0), Green);
        assert_eq!(meter.meter_packet(1, Green, 5 * SECOND), Red);
    }
}
