//! Forced switches between threads at the gaps of the protocol, for tests.
//!
//! Builds with debug assertions look at a switch at each gap; releases have no trace of it.

#[cfg(debug_assertions)]
use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

#[cfg(debug_assertions)]
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Lets each gap of the protocol yield the core with a probability of 1/8, in all tables of the
/// process. It has an effect only in builds with debug assertions.
#[doc(hidden)]
pub fn set_chaos(is_on: bool) {
    #[cfg(debug_assertions)]
    IS_ON.store(is_on, Relaxed);
    let _ = is_on;
}

/// Yields the core now and then, if [`set_chaos`] asks for it.
#[inline(always)]
pub(crate) fn gap() {
    #[cfg(debug_assertions)]
    if IS_ON.load(Relaxed) {
        yield_sometimes();
    }
}

#[cfg(debug_assertions)]
#[cold]
fn yield_sometimes() {
    thread_local!(static STATE: Cell<u64> = Cell::new(std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)));
    let next = STATE.get().wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    STATE.set(next);
    if next >> 61 == 0 {
        std::thread::yield_now();
    }
}
