//! Record numbers that no entry has: free ones, and those that wait for a grace period.

use crate::protocol::grace::Grace;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Record numbers that go between a member and the table at once. Records of a bag are next to
/// each other at first, so that two members seldom write the same line of look bytes.
pub(crate) const BAG: usize = 256;

/// Records and overflow buckets that were removed together.
#[derive(Default)]
pub(crate) struct RetiredBag {
    pub records: Vec<u32>,
    /// Overflow buckets.
    pub overflow: Vec<u32>,
    pub replaced: Vec<Replaced>,
}

/// A record whose entry got another one. What packets under way add to its counters is carried
/// over after the grace period.
pub(crate) struct Replaced {
    pub old: u32,
    pub new: u32,
    /// Generation of the new record.
    pub generation: u32,
    /// Counters of the old record that the new one began with.
    pub counted: [u64; 2],
}

impl RetiredBag {
    /// Returns the number of records and buckets.
    pub fn len(&self) -> usize {
        self.records.len() + self.overflow.len()
    }
}

/// The records of a table that no entry has and no member.
pub(crate) struct FreeRecords {
    /// The first number that was never given out.
    next: AtomicU32,
    capacity: u32,
    bags: Mutex<Vec<Vec<u32>>>,
    /// Bags by rising stamp.
    retired: Mutex<VecDeque<(u64, RetiredBag)>>,
    retired_bags: AtomicUsize,
}

impl FreeRecords {
    pub fn new(capacity: u32) -> FreeRecords {
        FreeRecords {
            next: AtomicU32::new(1),
            capacity,
            bags: Mutex::default(),
            retired: Mutex::default(),
            retired_bags: AtomicUsize::new(0),
        }
    }

    /// Returns one more than the greatest number that was given out.
    pub fn end(&self) -> u32 {
        self.next.load(Acquire)
    }

    /// Returns a bag of free records, or an empty one if all that are not entries wait for a
    /// grace period.
    pub fn take(&self) -> Vec<u32> {
        if let Some(bag) = self.bags.lock().pop() {
            return bag;
        }
        let end = u64::from(self.capacity) + 1;
        // The first bag ends where a bag of look bytes begins.
        let bag_end = |n: u32| (u64::from(n) / BAG as u64 + 1) * BAG as u64;
        let next = |n: u32| (u64::from(n) < end).then(|| bag_end(n).min(end) as u32);
        let first = self.next.fetch_update(AcqRel, Acquire, next);
        first.map_or_else(|_| Vec::new(), |first| (first..bag_end(first).min(end) as u32).rev().collect())
    }

    /// Takes back free records.
    pub fn give(&self, records: Vec<u32>) {
        if !records.is_empty() {
            self.bags.lock().push(records);
        }
    }

    /// Takes back records that no new batch can find.
    pub fn retire(&self, grace: &Grace<AtomicU64>, bag: RetiredBag) {
        let mut retired = self.retired.lock();
        retired.push_back((grace.stamp(), bag));
        self.retired_bags.store(retired.len(), Relaxed);
    }

    /// Frees the records of bags that all members have forgotten. `prepare` sees each bag before.
    pub fn reclaim(&self, grace: &Grace<AtomicU64>, prepare: impl Fn(&mut RetiredBag)) {
        if self.retired_bags.load(Relaxed) == 0 {
            return;
        }
        let Some(mut retired) = self.retired.try_lock() else { return };
        while retired.front().is_some_and(|(stamp, _)| grace.has_passed(*stamp)) {
            let Some((_, mut bag)) = retired.pop_front() else { break };
            prepare(&mut bag);
            self.give(bag.records);
        }
        self.retired_bags.store(retired.len(), Relaxed);
    }
}
