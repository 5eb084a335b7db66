//! `EntryQuota`: limits on entries that packets add (`programs/include/terrace.p4`).

use ir::ExternId;
use std::collections::BTreeMap;

/// The share of an owner in a quota: one entry, or one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaShare {
    /// The quota.
    pub quota: ExternId,
    /// Number of the owner.
    pub owner: u32,
}

/// What the owners of a quota have taken.
#[derive(Clone, Debug)]
pub struct EntryQuota {
    owners: u32,
    /// Taken shares of each owner that has some.
    taken: BTreeMap<u32, u32>,
}

impl EntryQuota {
    /// Creates a quota of which nothing is taken.
    pub fn new(owners: u32) -> EntryQuota {
        EntryQuota { owners, taken: BTreeMap::new() }
    }

    /// Takes a share of `owner`, which may have `max_entries`. Returns whether it was taken.
    pub fn take(&mut self, owner: u32, max_entries: u32) -> bool {
        let is_allowed = owner < self.owners && self.taken(owner) < max_entries;
        if is_allowed {
            *self.taken.entry(owner).or_default() += 1;
        }
        is_allowed
    }

    /// Gives a share of `owner` back.
    pub fn give_back(&mut self, owner: u32) {
        if let Some(taken) = self.taken.get_mut(&owner) {
            *taken -= 1;
            if *taken == 0 {
                self.taken.remove(&owner);
            }
        }
    }

    /// Gives all shares back.
    pub fn clear(&mut self) {
        self.taken.clear();
    }

    /// Returns how many shares `owner` has taken.
    pub fn taken(&self, owner: u32) -> u32 {
        self.taken.get(&owner).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::EntryQuota;

    #[test]
    fn each_owner_has_its_own_limit() {
        let mut quota = EntryQuota::new(2);
        assert_eq!([quota.take(0, 2), quota.take(0, 2), quota.take(0, 2)], [true, true, false]);
        assert!(quota.take(1, 1), "another owner");
        assert!(!quota.take(2, 5), "there is no such owner");
        assert!(!quota.take(1, 0) && !quota.take(1, 1));
        quota.give_back(0);
        assert_eq!((quota.taken(0), quota.taken(1)), (1, 1));
        assert!(!quota.take(0, 1), "a lower limit");
        assert!(quota.take(0, 2));
    }
}
