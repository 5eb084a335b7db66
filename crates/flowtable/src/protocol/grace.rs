//! Grace periods: when all members have begun another batch.
//!
//! The unit is a batch: a member that begins one has forgotten all records of the batch before
//! ("quiescent state"). A removed record gets a stamp, and is free when each member has begun a
//! batch at that stamp or later. Members that sleep are parked and count as if they had.

use crate::word::{Padded, Word};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Epoch of a member that holds no record.
pub(crate) const PARKED: u64 = u64::MAX;

/// Epochs of a table and its members.
pub(crate) struct Grace<W> {
    epoch: Padded<W>,
    /// For each member the epoch of its batch, or [`PARKED`].
    seen: Vec<Padded<W>>,
}

impl<W: Word<u64>> Grace<W> {
    /// Takes the epoch, 1, and for each member a word that is [`PARKED`].
    pub fn new(epoch: W, seen: impl Iterator<Item = W>) -> Self {
        Grace { epoch: Padded(epoch), seen: seen.map(Padded).collect() }
    }

    /// Begins a batch of a member.
    #[inline]
    pub fn begin_batch(&self, member: usize) {
        let (epoch, seen) = (self.epoch.0.load(Acquire), &self.seen[member].0);
        match seen.load(Relaxed) {
            // Others read this word: it is written only if there is something new.
            now if now == epoch => {}
            PARKED => {
                // What this batch reads must not be read before others see that it has begun.
                seen.store(epoch, Release);
                W::fence(SeqCst);
            }
            _ => seen.store(epoch, Release),
        }
    }

    /// Declares that a member holds no record.
    pub fn park(&self, member: usize) {
        self.seen[member].0.store(PARKED, Release);
    }

    /// Returns the stamp of records that no new batch can find.
    pub fn stamp(&self) -> u64 {
        self.epoch.0.add(1) + 1
    }

    /// Returns whether all members have begun a batch since the stamp.
    pub fn has_passed(&self, stamp: u64) -> bool {
        W::fence(SeqCst);
        self.seen.iter().all(|seen| seen.0.load(Acquire) >= stamp)
    }

    /// Returns the member that holds back the stamp, if one does, and how far behind it is.
    pub fn slowest_member(&self) -> Option<(usize, u64)> {
        let epoch = self.epoch.0.load(Relaxed);
        let seen = self.seen.iter().enumerate().map(|(n, seen)| (n, seen.0.load(Relaxed)));
        let (member, oldest) = seen.filter(|(_, seen)| *seen != PARKED).min_by_key(|(_, seen)| *seen)?;
        (oldest < epoch).then(|| (member, epoch - oldest))
    }
}
