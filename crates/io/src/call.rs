//! [`Call`]: how others make a runner look up from its work, or wake.

use crate::sys::EventFd;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bell that a runner hears: between two batches if it works, at once if it sleeps.
#[derive(Debug)]
pub struct Call {
    rung: AtomicBool,
    event: EventFd,
}

impl Call {
    /// One that nobody has rung.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn new() -> io::Result<Call> {
        Ok(Call { rung: AtomicBool::new(false), event: EventFd::new()? })
    }

    /// Calls the runner. What was written before, it sees.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.event.signal();
    }

    /// Whether it has been rung since the last time.
    pub(crate) fn answered(&self) -> bool {
        let rung = self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::Acquire);
        if rung {
            self.event.clear();
        }
        rung
    }

    /// Readable while it rings.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
