//! [`RunnerWaker`]: interrupts or wakes a runner from another thread.

use crate::sys::EventFd;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a runner: between two batches if it is working, immediately if it sleeps.
#[derive(Debug)]
pub struct RunnerWaker {
    is_pending: AtomicBool,
    event: EventFd,
}

impl RunnerWaker {
    /// Creates a waker without a pending call.
    ///
    /// # Errors
    /// The system provides no descriptor.
    pub fn new() -> io::Result<RunnerWaker> {
        Ok(RunnerWaker { is_pending: AtomicBool::new(false), event: EventFd::new()? })
    }

    /// Calls the runner. Earlier writes of this thread are visible to it (release/acquire).
    pub fn wake(&self) {
        self.is_pending.store(true, Ordering::Release);
        self.event.signal();
    }

    /// Returns whether there was a call since the last query, and clears it.
    pub(crate) fn take_call(&self) -> bool {
        let is_pending = self.is_pending.load(Ordering::Relaxed) && self.is_pending.swap(false, Ordering::Acquire);
        if is_pending {
            self.event.clear();
        }
        is_pending
    }

    /// Returns a descriptor that is readable while a call is pending.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
