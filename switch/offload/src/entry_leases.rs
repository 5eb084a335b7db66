//! [`EntryLeases`]: how long the upper tier may use the entries that packets have added.
//!
//! The lower tier adds an entry and says when it ends; the upper tier has a copy. So that the upper
//! tier never uses an entry that has ended, each copy has a lease, which is shorter than the time in
//! which the entry can end:
//!
//! 1. A copy gets to the upper tier with a lease.
//! 2. When the lease is over, the hits of the copy are read. If there are some, the timer of the entry
//!    below restarts, and a new lease begins. Otherwise the copy is removed: the next packet of the
//!    flow goes down.
//! 3. Only then does the lower tier end entries that are idle.
//! 4. If step 2 is late, packets pass the upper tier by, from [`EntryLeases::deadline_ns`] on, because
//!    an entry may have ended below.
//!
//! So a flow that only the upper tier sees lives on, and an idle entry ends at most one lease later
//! than without an upper tier. Times are in nanoseconds of one clock.

use crate::hot_set::{EntryIdentity, entry_identity};
use entries::StoredEntry;
use ir::TableId;
use std::collections::{BTreeMap, HashMap};

/// A copy of an entry, with its lease.
#[derive(Clone, PartialEq, Debug)]
pub struct LeasedEntry {
    /// Table of the entry.
    pub table: TableId,
    /// The entry.
    pub entry: StoredEntry,
    /// Hits of the copy at the start of the lease.
    pub hits: u64,
}

/// Position of a lease: the time of its end, and a number.
type LeaseEnd = (u64, u64);

/// Leases of all copies.
#[derive(Default)]
pub struct EntryLeases {
    by_end: BTreeMap<LeaseEnd, LeasedEntry>,
    by_entry: HashMap<(TableId, EntryIdentity), LeaseEnd>,
    /// Duration of a lease; `None`: entries do not end.
    lease_ns: Option<u64>,
    next_number: u64,
}

impl EntryLeases {
    /// Sets the shortest time in which an entry can end, `None` if they do not end: leases have half
    /// of it. Returns whether it is shorter than before, in which case leases that have begun are over.
    pub fn set_shortest_life(&mut self, life_ns: Option<u64>) -> bool {
        let lease_ns = life_ns.map(|life| life / 2);
        let is_shorter = lease_ns.unwrap_or(u64::MAX) < self.lease_ns.unwrap_or(u64::MAX);
        self.lease_ns = lease_ns;
        if is_shorter {
            for (_, lease) in std::mem::take(&mut self.by_end) {
                self.insert(0, lease);
            }
        }
        is_shorter
    }

    /// Returns the number of copies.
    pub fn len(&self) -> usize {
        self.by_end.len()
    }

    /// Returns whether there is no copy.
    pub fn is_empty(&self) -> bool {
        self.by_end.is_empty()
    }

    /// Returns whether an entry has a lease.
    pub fn contains(&self, table: TableId, entry: &StoredEntry) -> bool {
        self.by_entry.contains_key(&(table, entry_identity(entry)))
    }

    /// Begins a lease at `now`. Ends an earlier one of the entry.
    pub fn begin(&mut self, lease: LeasedEntry, now: u64) {
        self.end(lease.table, &lease.entry);
        let end_ns = self.lease_ns.map_or(u64::MAX, |lease_ns| now.saturating_add(lease_ns));
        self.insert(end_ns, lease);
    }

    /// Ends the lease of an entry that was removed from the upper tier.
    pub fn end(&mut self, table: TableId, entry: &StoredEntry) {
        if let Some(end) = self.by_entry.remove(&(table, entry_identity(entry))) {
            self.by_end.remove(&end);
        }
    }

    /// Returns whether a lease is over at `now`.
    pub fn is_due(&self, now: u64) -> bool {
        self.by_end.first_key_value().is_some_and(|((end_ns, _), _)| *end_ns <= now)
    }

    /// Takes a copy with a lease that is over at `now`. It must be removed from the upper tier, or get a new
    /// lease.
    pub fn take_due(&mut self, now: u64) -> Option<LeasedEntry> {
        let first = self.by_end.first_entry().filter(|first| first.key().0 <= now)?;
        let lease = first.remove();
        self.by_entry.remove(&(lease.table, entry_identity(&lease.entry)));
        Some(lease)
    }

    /// Returns the time from which packets must pass the upper tier by: `u64::MAX` if there is no copy
    /// that can end.
    pub fn deadline_ns(&self) -> u64 {
        let first_end = self.by_end.first_key_value().map_or(u64::MAX, |((end_ns, _), _)| *end_ns);
        // The entry below lives on for at least a lease after the end of its copy's one.
        first_end.saturating_add(self.lease_ns.unwrap_or(u64::MAX) / 2)
    }

    fn insert(&mut self, end_ns: u64, lease: LeasedEntry) {
        self.next_number += 1;
        let end = (end_ns, self.next_number);
        self.by_entry.insert((lease.table, entry_identity(&lease.entry)), end);
        self.by_end.insert(end, lease);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entries::StoredAction;
    use ir::{ActionId, Entity};

    fn table() -> TableId {
        TableId::from_index(0)
    }

    fn lease(key: u64, hits: u64) -> LeasedEntry {
        let action = StoredAction::Call(ActionId::from_index(0), Box::new([]));
        LeasedEntry { table: table(), entry: StoredEntry::from_packet(&[key], action.packed(), 0), hits }
    }

    #[test]
    fn leases_are_due_in_the_order_of_their_ends() {
        let mut leases = EntryLeases::default();
        leases.set_shortest_life(Some(100));
        leases.begin(lease(1, 0), 10);
        leases.begin(lease(2, 0), 0);
        leases.begin(lease(3, 7), 5);
        assert_eq!((leases.len(), leases.deadline_ns()), (3, 75));
        assert_eq!(leases.take_due(49), None);
        assert_eq!(leases.take_due(60), Some(lease(2, 0)));
        leases.end(table(), &lease(3, 0).entry);
        assert_eq!(leases.take_due(60), Some(lease(1, 0)));
        assert!(leases.take_due(u64::MAX).is_none() && leases.is_empty());
        assert_eq!(leases.deadline_ns(), u64::MAX);
    }

    #[test]
    fn an_entry_has_one_lease_and_a_shorter_life_ends_all() {
        let mut leases = EntryLeases::default();
        leases.begin(lease(1, 0), 10);
        assert!(leases.contains(table(), &lease(1, 0).entry) && leases.take_due(u64::MAX - 1).is_none());
        assert!(leases.set_shortest_life(Some(1_000)));
        assert_eq!(leases.take_due(0), Some(lease(1, 0)));
        leases.begin(lease(1, 5), 10);
        leases.begin(lease(1, 6), 20);
        assert!(!leases.set_shortest_life(Some(2_000)));
        assert_eq!((leases.len(), leases.take_due(520)), (1, Some(lease(1, 6))));
    }
}
