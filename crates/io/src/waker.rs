//! [`RunnerWaker`]: interrupts or wakes a runner from another thread.

use crate::sys::EventFd;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a runner: between two batches if it is working, immediately if it sleeps.
#[derive(Debug)]
pub struct RunnerWaker {
    is_pending: AtomicBool,
    is_nudged: AtomicBool,
    event: EventFd,
}

impl RunnerWaker {
    /// Creates a waker without a pending call.
    ///
    /// # Errors
    /// The system provides no descriptor.
    pub fn new() -> io::Result<RunnerWaker> {
        Ok(RunnerWaker {
            is_pending: AtomicBool::new(false),
            is_nudged: AtomicBool::new(false),
            event: EventFd::new()?,
        })
    }

    /// Calls the runner. Earlier writes of this thread are visible to it (release/acquire).
    pub fn wake(&self) {
        self.is_pending.store(true, Ordering::Release);
        self.event.signal();
    }

    /// Announces packets of another thread: the runner calls [`crate::RunHooks::on_nudge`] before it
    /// receives its next batch, without a tick. Earlier writes of this thread are visible to it
    /// (release/acquire).
    pub fn nudge(&self) {
        if !self.is_nudged.swap(true, Ordering::Release) {
            self.event.signal();
        }
    }

    /// Returns whether there was a nudge since the last query, and clears it.
    pub(crate) fn take_nudge(&self) -> bool {
        let is_nudged = self.is_nudged.load(Ordering::Relaxed) && self.is_nudged.swap(false, Ordering::Acquire);
        if is_nudged {
            // A pending call keeps its flag, which is checked before the next sleep.
            self.event.clear();
        }
        is_nudged
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
