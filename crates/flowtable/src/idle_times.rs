//! Idle times by profile, and the code of when the sweep looks at a record.

use crate::shape::{MAX_IDLE_TICKS, PROFILES};
use crate::{Shape, ShapeError, life};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest time that a look byte can name, in units: 255 codes, less those of the current passes.
const MAX_LOOK_UNITS: u32 = 250;

/// Idle times of a table.
pub(crate) struct IdleTimes {
    /// For each profile the idle time in bits 0 to 31 and the slack above, in ticks.
    profiles: Vec<AtomicU64>,
    tick_ns: u64,
    /// Logarithm of the ticks of a unit: the longest power of two that is at most half a second.
    unit_shift: u32,
}

impl IdleTimes {
    pub fn new(shape: &Shape) -> IdleTimes {
        let ticks_of_half_second = (500_000_000 / shape.tick_ns.max(1)).clamp(1, 1 << 12);
        let times = IdleTimes {
            profiles: (0..PROFILES).map(|_| AtomicU64::new(0)).collect(),
            tick_ns: shape.tick_ns,
            unit_shift: ticks_of_half_second.ilog2(),
        };
        for profile in 0..PROFILES {
            times.store(profile, shape.idle_ticks.get(profile).copied().unwrap_or(0));
        }
        times
    }

    fn store(&self, profile: usize, ticks: u32) {
        let slack = life::slack_ticks(ticks, self.tick_ns);
        self.profiles[profile].store(u64::from(slack) << 32 | u64::from(ticks), Relaxed);
    }

    /// Sets a profile's idle time.
    pub fn set(&self, profile: u8, ticks: u32) -> Result<(), ShapeError> {
        if ticks > MAX_IDLE_TICKS {
            return Err(ShapeError::Idle { ticks });
        }
        self.store(usize::from(profile), ticks);
        Ok(())
    }

    /// Returns a profile's idle time; 0: never.
    #[inline(always)]
    pub fn idle(&self, profile: u8) -> u32 {
        self.profiles[usize::from(profile)].load(Relaxed) as u32
    }

    /// Returns a profile's slack.
    #[inline(always)]
    pub fn slack(&self, profile: u8) -> u32 {
        (self.profiles[usize::from(profile)].load(Relaxed) >> 32) as u32
    }

    /// Returns the life word of an entry that was added or hit at `now`.
    #[inline(always)]
    pub fn live_word(&self, now: u32, profile: u8) -> u32 {
        life::live(now.wrapping_add(self.slack(profile)), profile)
    }

    /// Returns the ticks until an entry may end, at most 0 if it may now; `None`: never.
    #[inline]
    pub fn left(&self, word: u32, now: u32) -> Option<i32> {
        match self.idle(life::profile(word)) {
            0 => None,
            idle => Some(idle as i32 - life::ticks_since_due(word, now)),
        }
    }

    /// Returns whether the idle time of a life word is over.
    pub fn is_over(&self, word: u32, now: u32) -> bool {
        self.left(word, now).is_some_and(|left| left <= 0)
    }

    /// Returns the first tick of the unit of a tick. Entries end by it, so that an entry ends at
    /// the same time whichever pass examines it.
    pub fn unit_begin(&self, tick: u32) -> u32 {
        self.unit_of(tick) << self.unit_shift
    }

    /// Returns the unit of a tick: the time of one pass of the sweep.
    pub fn unit_of(&self, tick: u32) -> u32 {
        tick >> self.unit_shift
    }

    /// Returns the code of a unit, 1 to 255.
    pub fn code_of(unit: u32) -> u8 {
        (unit % 255 + 1) as u8
    }

    /// Returns when to look at an entry with this life word: when it may end, at least in the
    /// next unit, at most [`MAX_LOOK_UNITS`] later.
    pub fn look_code(&self, word: u32, now: u32) -> u8 {
        let max = (MAX_LOOK_UNITS << self.unit_shift) as i32;
        let left = self.left(word, now).unwrap_or(max).clamp(0, max) as u32;
        let end = u64::from(now) + u64::from(left) + (1 << self.unit_shift) - 1;
        Self::code_of(((end >> self.unit_shift) as u32).max(self.unit_of(now) + 1))
    }
}
