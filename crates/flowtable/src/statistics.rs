//! Counts of what did not go as packets wanted.

use crate::Refusal;
use crate::word::Padded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of a table since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Additions that were refused, by [`Refusal`] in the order of [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Entries whose idle time was over and that were removed although packets hit them all the
    /// time, in tables whose hits do not restart timers.
    pub forced: u64,
}

impl Statistics {
    /// Returns how many additions were refused for a reason.
    pub fn refused(&self, reason: Refusal) -> u64 {
        self.refused[reason as usize]
    }
}

/// The counters behind [`Statistics`].
#[derive(Default)]
pub(crate) struct Counters {
    refused: [Padded<AtomicU64>; Refusal::ALL.len()],
    forced: AtomicU64,
}

impl Counters {
    #[cold]
    pub fn count_refusal(&self, reason: Refusal) -> Refusal {
        self.refused[reason as usize].0.fetch_add(1, Relaxed);
        reason
    }

    pub fn count_forced(&self) {
        self.forced.fetch_add(1, Relaxed);
    }

    pub fn read(&self) -> Statistics {
        let refused = std::array::from_fn(|reason| self.refused[reason].0.load(Relaxed));
        Statistics { refused, forced: self.forced.load(Relaxed) }
    }
}
