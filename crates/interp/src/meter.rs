//! Two-rate three-colour marker, RFC 2698, on the clock that the engine is given.

use entries::MeterConfig;

/// A colour; the order is from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[allow(missing_docs)]
pub enum Colour {
    Green,
    Yellow,
    Red,
}

/// How full the buckets of a meter are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterLevel {
    /// Tokens in the committed bucket, in billionths of a unit (a packet or a byte).
    pub committed: u128,
    /// Tokens in the peak bucket, likewise.
    pub peak: u128,
    /// When that was so, in nanoseconds on the clock that the engine is given.
    pub at: u64,
}

/// Tokens are counted in billionths of a unit, so that a nanosecond at any whole rate adds a whole number.
const SCALE: u128 = 1_000_000_000;

/// A configured meter.
#[derive(Clone, Debug)]
pub struct Meter {
    config: MeterConfig,
    committed: u128,
    peak: u128,
    updated: u64,
}

impl Meter {
    /// Both buckets are full at first (RFC 2698, section 2).
    pub fn new(config: MeterConfig, now: u64) -> Meter {
        Meter {
            config,
            committed: u128::from(config.cburst) * SCALE,
            peak: u128::from(config.pburst) * SCALE,
            updated: now,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &MeterConfig {
        &self.config
    }

    /// How full its buckets are; `None` if as full as they can be.
    pub fn level(&self) -> Option<MeterLevel> {
        let full = Meter::new(self.config, self.updated);
        let level = MeterLevel { committed: self.committed, peak: self.peak, at: self.updated };
        ((self.committed, self.peak) != (full.committed, full.peak)).then_some(level)
    }

    /// Fills its buckets to a level, as far as they have room.
    pub fn set_level(&mut self, level: MeterLevel) {
        let full = Meter::new(self.config, level.at);
        self.committed = level.committed.min(full.committed);
        (self.peak, self.updated) = (level.peak.min(full.peak), level.at);
    }

    /// Marks a packet of `size` units (1 for a packet meter, else bytes) at `now` nanoseconds that comes with the colour
    /// `before`; colour-blind operation is `Green`.
    pub fn mark(&mut self, size: u64, before: Colour, now: u64) -> Colour {
        // A clock that goes back adds nothing.
        let elapsed = u128::from(now.saturating_sub(self.updated));
        // Products of two 64-bit numbers: they fit.
        self.updated = self.updated.max(now);
        let filled = |tokens: u128, rate: u64, burst: u64| {
            tokens.saturating_add(elapsed * u128::from(rate)).min(u128::from(burst) * SCALE)
        };
        self.committed = filled(self.committed, self.config.cir, self.config.cburst);
        self.peak = filled(self.peak, self.config.pir, self.config.pburst);
        let size = u128::from(size) * SCALE;
        if before == Colour::Red || self.peak < size {
            return Colour::Red;
        }
        self.peak -= size;
        if before == Colour::Yellow || self.committed < size {
            return Colour::Yellow;
        }
        self.committed -= size;
        Colour::Green
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Colour::*;

    const SECOND: u64 = 1_000_000_000;

    /// RFC 2698, section 3: the peak bucket is asked first; red takes no tokens, yellow takes peak tokens, green both.
    #[test]
    fn colour_blind() {
        let mut meter = Meter::new(MeterConfig { cir: 100, cburst: 200, pir: 200, pburst: 300 }, 0);
        assert_eq!(meter.mark(150, Green, 0), Green); // committed 50, peak 150
        assert_eq!(meter.mark(100, Green, 0), Yellow); // committed 50, peak 50
        assert_eq!(meter.mark(51, Green, 0), Red); // neither
        assert_eq!(meter.mark(50, Green, 0), Green); // both empty
        assert_eq!(meter.mark(1, Green, 0), Red);
        assert_eq!(meter.mark(100, Green, SECOND / 2), Yellow); // committed 50, peak 100
        assert_eq!(meter.mark(200, Green, 10 * SECOND), Green); // buckets full: 200, 300
        assert_eq!(meter.mark(101, Green, 10 * SECOND), Red);
    }

    #[test]
    fn colour_aware() {
        let mut meter = Meter::new(MeterConfig { cir: 1, cburst: 10, pir: 1, pburst: 10 }, 0);
        assert_eq!(meter.mark(1, Red, 0), Red);
        assert_eq!(meter.mark(4, Yellow, 0), Yellow); // peak 6, committed still 10
        assert_eq!(meter.mark(7, Yellow, 0), Red);
        assert_eq!(meter.mark(6, Green, 0), Green); // peak 0, committed 4
    }

    /// Rates that are no divisor of the clock lose nothing to rounding.
    #[test]
    fn no_rounding() {
        let mut meter = Meter::new(MeterConfig { cir: 3, cburst: 1, pir: 3, pburst: 1 }, 0);
        let passed = (0..3 * SECOND).step_by(1_000_000).filter(|now| meter.mark(1, Green, *now) == Green).count();
        assert_eq!(passed, 9); // the first token and three a second for 2.999 s
    }

    #[test]
    fn one_goes_on_where_another_one_stopped() {
        let config = MeterConfig { cir: 10, cburst: 20, pir: 20, pburst: 30 };
        let mut first = Meter::new(config, 0);
        assert_eq!(first.level(), None, "it is full");
        assert_eq!(first.mark(20, Green, SECOND), Green);
        let level = first.level().expect("it is not full any more");
        let mut second = Meter::new(config, 2 * SECOND);
        second.set_level(level);
        for (now, size) in [(SECOND, 11), (2 * SECOND, 30), (3 * SECOND, 20), (3 * SECOND, 20)] {
            assert_eq!(second.mark(size, Green, now), first.mark(size, Green, now), "{size} at {now}");
        }
        let mut small = Meter::new(MeterConfig { cburst: 1, pburst: 1, ..config }, 0);
        small.set_level(level);
        assert_eq!(small.mark(2, Green, SECOND), Red, "no more than its buckets hold");
    }

    #[test]
    fn clock_that_goes_back() {
        let mut meter = Meter::new(MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1 }, 5 * SECOND);
        assert_eq!(meter.mark(1, Green, 0), Green);
        assert_eq!(meter.mark(1, Green, 5 * SECOND), Red);
    }
}
