//! Atomic words as the protocol uses them: those of the processor, and in tests those of model
//! checkers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Atomic integer of type `T`.
pub(crate) trait Word<T> {
    fn load(&self, order: Ordering) -> T;
    fn store(&self, value: T, order: Ordering);
    /// Writes `to` if the word is `from`; else returns its value. Failure reads with `Acquire`.
    fn replace(&self, from: T, to: T) -> Result<T, T>;
    /// Adds with `AcqRel` and returns the value before.
    fn add(&self, value: T) -> T;
    fn fence(order: Ordering);
    /// Waits a moment for another thread; `turn` counts the waits.
    fn pause(turn: u32);
    /// Marks a point where another thread may come between two steps of the protocol. Tests let
    /// it happen.
    fn gap() {}
}

/// Pauses before a waiting thread gives its core to others.
const SPINS: u32 = 256;

macro_rules! processor_word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order)
            }
            #[inline(always)]
            fn replace(&self, from: $value, to: $value) -> Result<$value, $value> {
                self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            }
            #[inline(always)]
            fn add(&self, value: $value) -> $value {
                self.fetch_add(value, Ordering::AcqRel)
            }
            #[inline(always)]
            fn fence(order: Ordering) {
                std::sync::atomic::fence(order)
            }
            fn pause(turn: u32) {
                if turn < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
            #[inline(always)]
            fn gap() {
                crate::chaos::gap()
            }
        }
    };
}

processor_word!(AtomicU32, u32);
processor_word!(AtomicU64, u64);

/// A value in cache lines of its own, so that writes to its neighbours do not slow its readers.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);
