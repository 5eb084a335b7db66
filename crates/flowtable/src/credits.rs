//! The exact limit of a table's size, without a counter that all additions write.
//!
//! An entry needs a credit. While there are many, each member has some of its own. Near the limit
//! the members' words are closed: all credits are in one counter, and an addition is refused only
//! at a moment when the counter is 0. When many credits are free again, the words are opened.

use crate::word::Padded;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Bit of a member's word: the member uses the common counter.
const CLOSED: u32 = 1 << 31;
/// Credits that go between the common counter and a member at once.
const LOT: u32 = 64;

/// The credits of one table.
pub(crate) struct Credits {
    size: u64,
    common: Padded<AtomicU64>,
    /// For each member its credits, or [`CLOSED`].
    own: Vec<Padded<AtomicU32>>,
    /// Odd while all words are closed and the common counter has all credits.
    mode: Padded<AtomicU32>,
    /// Held while credits are in neither place: they are moved, or words close or open.
    moving: Mutex<()>,
}

impl Credits {
    pub fn new(size: u32, members: usize) -> Credits {
        Credits {
            size: u64::from(size),
            common: Padded(AtomicU64::new(u64::from(size))),
            own: (0..members).map(|_| Padded(AtomicU32::new(CLOSED))).collect(),
            mode: Padded(AtomicU32::new(1)),
            moving: Mutex::new(()),
        }
    }

    /// Takes a credit. Returns false if at one moment during the call there was none.
    pub fn take(&self, member: usize) -> bool {
        let own = &self.own[member].0;
        let mut word = own.load(Acquire);
        while word & !CLOSED != 0 {
            match own.compare_exchange_weak(word, word - 1, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        let mode = self.mode.0.load(Acquire);
        if mode & 1 != 0 {
            if self.take_common(1) == 1 {
                return true;
            }
            if self.mode.0.load(Acquire) == mode {
                return false;
            }
        }
        self.take_slowly(member)
    }

    /// Takes up to `count` credits from the common counter. Returns how many.
    fn take_common(&self, count: u64) -> u64 {
        let take = |n: u64| (n != 0).then(|| n - n.min(count));
        let before = self.common.0.fetch_update(AcqRel, Acquire, take);
        before.map_or(0, |before| before.min(count))
    }

    /// Takes a lot for the member; if there is none, closes all words and takes one credit.
    fn take_slowly(&self, member: usize) -> bool {
        let _moving = self.moving.lock();
        if self.mode.0.load(Relaxed) & 1 == 0 {
            let taken = self.take_common(u64::from(LOT));
            if taken != 0 {
                self.own[member].0.fetch_add(taken as u32 - 1, AcqRel);
                return true;
            }
            for own in &self.own {
                let credits = own.0.swap(CLOSED, AcqRel) & !CLOSED;
                self.common.0.fetch_add(u64::from(credits), AcqRel);
            }
            self.mode.0.fetch_add(1, AcqRel);
        }
        self.take_common(1) == 1
    }

    /// Gives a credit back.
    pub fn give(&self, member: usize) {
        let own = &self.own[member].0;
        let mut word = own.load(Acquire);
        while word & CLOSED == 0 {
            if word >= 2 * LOT {
                return self.give_lot(member);
            }
            match own.compare_exchange_weak(word, word + 1, AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        let common = self.common.0.fetch_add(1, AcqRel) + 1;
        if common > self.opening_limit() {
            self.open();
        }
    }

    /// Gives a credit back, and with it a lot of the member's own.
    fn give_lot(&self, member: usize) {
        let _moving = self.moving.lock();
        let less = |word: u32| (word & CLOSED == 0 && word >= LOT).then(|| word - LOT);
        let moved = self.own[member].0.fetch_update(AcqRel, Acquire, less).is_ok();
        self.common.0.fetch_add(1 + if moved { u64::from(LOT) } else { 0 }, AcqRel);
    }

    /// Returns how many credits are enough for members to have some of their own.
    fn opening_limit(&self) -> u64 {
        4 * u64::from(LOT) * self.own.len() as u64
    }

    fn open(&self) {
        let Some(_moving) = self.moving.try_lock() else { return };
        if self.mode.0.load(Relaxed) & 1 != 0 && self.common.0.load(Acquire) > self.opening_limit() {
            self.mode.0.fetch_add(1, AcqRel);
            for own in &self.own {
                own.0.store(0, Release);
            }
        }
    }

    /// Lets members have credits of their own from the first addition on, if there are enough.
    pub fn start(&self) {
        self.open();
    }

    /// Returns the number of credits in use: of entries. It is exact while no member changes it.
    pub fn used(&self) -> u64 {
        let _moving = self.moving.lock();
        let own: u64 = self.own.iter().map(|own| u64::from(own.0.load(Acquire) & !CLOSED)).sum();
        self.size.saturating_sub(own + self.common.0.load(Acquire))
    }

    /// Returns about how many entries there are, without the members' own credits: at most
    /// `2 * LOT` a member too many.
    #[inline]
    pub fn used_about(&self) -> u64 {
        self.size.saturating_sub(self.common.0.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;

    #[test]
    fn members_take_each_credit_once() {
        for size in [1, 63, 64, 1000, 5000] {
            let credits = Credits::new(size, 3);
            credits.start();
            let taken = (0..).take_while(|n| credits.take(n % 3)).count();
            assert_eq!((taken as u32, credits.used()), (size, u64::from(size)));
            (0..size).for_each(|n| credits.give(n as usize % 2));
            assert_eq!(credits.used(), 0);
        }
    }

    /// Threads take and give at the limit. Never are more taken than there are, and with fewer
    /// wanted than there are, none is refused.
    #[test]
    fn the_limit_is_exact_for_threads() {
        for (size, refuses) in [(4000u32, false), (2300, true)] {
            let (credits, used, refused) = (Credits::new(size, 3), AtomicI64::new(0), AtomicU64::new(0));
            credits.start();
            std::thread::scope(|scope| {
                for member in 0..3 {
                    let (credits, used, refused) = (&credits, &used, &refused);
                    scope.spawn(move || {
                        let mut mine = 0;
                        for step in 0..300_000u64 {
                            // Between 0 and 1,333 each: together at most 3,999.
                            let wants_more = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 > 100;
                            if wants_more && mine < 1333 {
                                if credits.take(member) {
                                    assert!(used.fetch_add(1, SeqCst) < i64::from(size));
                                    mine += 1;
                                } else {
                                    refused.fetch_add(1, Relaxed);
                                }
                            } else if mine > 0 {
                                used.fetch_sub(1, SeqCst);
                                credits.give(member);
                                mine -= 1;
                            }
                        }
                    });
                }
            });
            assert_eq!(refused.into_inner() != 0, refuses, "{size}");
            assert_eq!(credits.used() as i64, used.into_inner());
        }
    }
}
