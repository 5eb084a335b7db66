//! Counts of entries that came and went, and of what did not go as packets wanted.

use crate::Refusal;
use crate::word::Padded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of a table since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Entries that were added.
    pub added: u64,
    /// Entries that were removed, without those that expired. An entry that got another value is
    /// not counted.
    pub removed: u64,
    /// Entries that were removed because their idle time was over.
    pub expired: u64,
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

/// What one member number has done. Only its member writes, so that no line is fought for.
#[derive(Default)]
struct MemberCounts {
    added: AtomicU64,
    removed: AtomicU64,
    expired: AtomicU64,
}

/// The counters behind [`Statistics`].
pub(crate) struct Counters {
    members: Box<[Padded<MemberCounts>]>,
    refused: [Padded<AtomicU64>; Refusal::ALL.len()],
    forced: AtomicU64,
}

/// Adds one to a counter that only this thread writes.
fn count_one(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

impl Counters {
    pub fn new(members: usize) -> Counters {
        Counters {
            members: (0..members).map(|_| Padded::default()).collect(),
            refused: Default::default(),
            forced: AtomicU64::new(0),
        }
    }

    pub fn count_added(&self, member: usize) {
        count_one(&self.members[member].0.added);
    }

    pub fn count_removed(&self, member: usize, has_expired: bool) {
        let counts = &self.members[member].0;
        count_one(if has_expired { &counts.expired } else { &counts.removed });
    }

    #[cold]
    pub fn count_refusal(&self, reason: Refusal) -> Refusal {
        self.refused[reason as usize].0.fetch_add(1, Relaxed);
        reason
    }

    pub fn count_forced(&self) {
        self.forced.fetch_add(1, Relaxed);
    }

    pub fn read(&self) -> Statistics {
        let sum = |counter: fn(&MemberCounts) -> &AtomicU64| {
            self.members.iter().map(|member| counter(&member.0).load(Relaxed)).sum()
        };
        Statistics {
            added: sum(|member| &member.added),
            removed: sum(|member| &member.removed),
            expired: sum(|member| &member.expired),
            refused: std::array::from_fn(|reason| self.refused[reason].0.load(Relaxed)),
            forced: self.forced.load(Relaxed),
        }
    }
}
