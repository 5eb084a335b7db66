//! The table: creation, members, limits, counts.

use crate::inner::Inner;
use crate::member::Member;
use crate::statistics::Statistics;
use crate::{RecordLayout, Shape, ShapeError};
use std::sync::Arc;

/// An exact-match table that packets write. Clones name the same table.
#[derive(Clone)]
pub struct FlowTable(Arc<Inner>);

/// A table has as many members as its shape allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the table has {0} members: raise the number of members of its shape, or drop one")]
pub struct JoinError(pub usize);

/// Bytes of a table that have been used, by part. Address space is reserved for the whole size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedBytes {
    /// Buckets of the index.
    pub buckets: u64,
    /// Overflow buckets of the index.
    pub overflow: u64,
    /// Records with their look bytes and counters.
    pub records: u64,
}

impl FlowTable {
    /// Creates an empty table. `seed` makes the hash of keys secret; a random one defends against
    /// packets with chosen keys.
    pub fn new(shape: Shape, seed: u64) -> Result<FlowTable, ShapeError> {
        Ok(FlowTable(Arc::new(Inner::new(shape, seed)?)))
    }

    /// Returns a new member: a worker, sweeper or controller. It is parked until its first batch.
    pub fn join(&self) -> Result<Member, JoinError> {
        let mut joined = self.0.joined.lock();
        let number = joined.iter().position(|joined| !joined).ok_or(JoinError(joined.len()))?;
        joined[number] = true;
        drop(joined);
        Ok(Member::new(self.0.clone(), number))
    }

    /// Returns the shared parts.
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Returns the shape that the table was created with.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// Returns the positions of a record's parts.
    pub fn layout(&self) -> RecordLayout {
        self.0.records.layout
    }

    /// Returns the address of record 0; record `n` begins `n * layout().stride` bytes later.
    /// Records never move, and 64 bytes after the last may be read.
    pub fn records_base(&self) -> *const u8 {
        self.0.records.address(0)
    }

    /// Returns the number of entries. It is exact while no entry is added or removed.
    pub fn count(&self) -> u64 {
        self.0.credits.used()
    }

    /// Returns the number of entries of an owner (1 to `owners`).
    pub fn owner_count(&self, owner: u32) -> u32 {
        self.0.owners.entries(owner)
    }

    /// Returns the greatest number of entries that an owner has had.
    pub fn owner_high_water(&self, owner: u32) -> u32 {
        self.0.owners.high_water(owner)
    }

    /// Returns how many additions an owner's limit has refused, modulo 2^32.
    pub fn owner_refused(&self, owner: u32) -> u32 {
        self.0.owners.refused(owner)
    }

    /// Returns an owner's limit; `u32::MAX`: none.
    pub fn owner_limit(&self, owner: u32) -> u32 {
        self.0.owners.limit(owner)
    }

    /// Sets the maximum number of entries of an owner; `u32::MAX`, the initial one, is no limit.
    /// Entries beyond a lowered limit stay until they are removed.
    pub fn set_owner_limit(&self, owner: u32, limit: u32) {
        self.0.owners.set_limit(owner, limit);
    }

    /// Changes a profile's idle time in ticks, of all entries that have the profile; 0: never.
    ///
    /// Hits after the change and the sweep go by the new time at once. If it became shorter, the
    /// next pass of the sweep examines all records.
    pub fn set_idle_ticks(&self, profile: u8, ticks: u32) -> Result<(), ShapeError> {
        self.0.idle_times.set(profile, ticks)?;
        self.0.sweep.lock().restart();
        Ok(())
    }

    /// Returns a profile's idle time in ticks; 0: never.
    pub fn idle_ticks(&self, profile: u8) -> u32 {
        self.0.idle_times.idle(profile)
    }

    /// Returns counts of entries that came and went, of refusals and forced removals.
    pub fn statistics(&self) -> Statistics {
        self.0.counters.read()
    }

    /// Returns the member that keeps most removed records from being used again, and how many
    /// epochs it is behind; `None` if no member is behind.
    pub fn slowest_member(&self) -> Option<(usize, u64)> {
        self.0.grace.slowest_member()
    }

    /// Allocates memory for `entries` more entries. A housekeeping thread calls it ahead of need,
    /// because an addition that touches a new page waits until the kernel has zeroed it: 100 us
    /// and more for a huge page. Returns false if the kernel could not (before Linux 5.14, or no
    /// memory); pages are then allocated when they are touched.
    pub fn populate_ahead(&self, entries: u32) -> bool {
        let end = self.0.free.end().saturating_add(entries).min(self.0.records.capacity + 1);
        self.0.records.populate(end) && self.0.index.populate_ahead(entries)
    }

    /// Returns the memory in use.
    pub fn used_bytes(&self) -> UsedBytes {
        let [buckets, overflow] = self.0.index.used_bytes();
        let counters = if self.0.shape.has_counters { 16 } else { 0 };
        let of_record = self.0.records.layout.stride as u64 + 1 + counters;
        UsedBytes { buckets, overflow, records: u64::from(self.0.free.end()) * of_record }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addition, RecordId, Refusal};

    #[test]
    fn adds_finds_expires_and_removes() {
        let shape = Shape { owners: 3, idle_ticks: vec![0, 8], has_state: true, ..Shape::new(20, 17, 2) };
        let table = FlowTable::new(shape, 1).unwrap();
        let mut member = table.join().unwrap();
        member.begin_batch(100);
        table.set_owner_limit(2, 1);
        let Addition::Added(a) = member.find_or_add(&[1; 20], &[7; 17], 1, 2) else { panic!() };
        assert_eq!(member.find_or_add(&[1; 20], &[8; 17], 1, 2), Addition::Found(a));
        assert_eq!(member.find_or_add(&[2; 20], &[8; 17], 1, 2), Addition::Refused(Refusal::OwnerLimit));
        let Addition::Added(b) = member.find_or_add(&[2; 20], &[8; 17], 0, 0) else { panic!() };
        assert_eq!(member.find_or_add(&[3; 20], &[8; 17], 0, 0), Addition::Refused(Refusal::Full));
        let mut out = [RecordId::NONE; 3];
        let keys = [[2u8; 20], [1; 20], [3; 20]].concat();
        member.lookup_batch(&keys, 20, &mut out);
        assert_eq!(out, [b, a, RecordId::NONE]);
        assert_eq!(member.entry(a).unwrap().value, &[7; 17]);
        for (tick, removed) in [(108, 0), (109, 0), (109, 0), (112, 0), (112, 1)] {
            member.begin_batch(tick);
            assert_eq!(member.sweep(1000, |entry| assert_eq!(entry.key, [1; 20])).removed, removed, "{tick}");
        }
        assert_eq!((table.count(), table.owner_count(2), table.owner_high_water(2)), (1, 0, 1));
        assert_eq!((member.remove(&[2; 20]), member.lookup(&[2; 20])), (b, RecordId::NONE));
    }

    #[test]
    fn memory_ahead_of_need_keeps_entries() {
        let table = FlowTable::new(Shape { has_counters: true, ..Shape::new(8, 1, 100_000) }, 1).unwrap();
        let mut member = table.join().unwrap();
        member.begin_batch(1);
        for n in 0u64..20_000 {
            if n % 1000 == 0 {
                table.populate_ahead(2000);
            }
            assert!(matches!(member.find_or_add(&n.to_le_bytes(), &[n as u8], 0, 0), Addition::Added(_)));
        }
        for n in 0u64..20_000 {
            let id = member.lookup(&n.to_le_bytes());
            assert_eq!(member.entry(id).unwrap().value, [n as u8]);
        }
    }

    /// Keys that an attacker would choose if the seed were known: all in one bucket.
    #[test]
    fn keys_of_one_bucket_fill_a_chain_and_no_more() {
        let table = FlowTable::new(Shape::new(8, 1, 3000), 1).unwrap();
        let mut member = table.join().unwrap();
        member.begin_batch(1);
        let keys = (0u64..).map(u64::to_le_bytes);
        let in_one_bucket = keys.filter(|key| table.0.index.hash(key) & 0x3ff == 5);
        let keys: Vec<[u8; 8]> = in_one_bucket.take(100).collect();
        let added = |member: &mut Member, key: &[u8]| member.find_or_add(key, &[0], 0, 0);
        let results: Vec<Addition> = keys.iter().map(|key| added(&mut member, key)).collect();
        let count = results.iter().filter(|it| matches!(it, Addition::Added(_))).count();
        // A bucket and 8 overflow buckets of 9 slots.
        assert_eq!((count, results[99]), (81, Addition::Refused(Refusal::Chain)));
        assert_eq!((table.count(), table.statistics().refused(Refusal::Chain)), (81, 19));
        let mut out = [RecordId::NONE; 100];
        member.lookup_batch(&keys.concat(), 8, &mut out);
        assert_eq!(out.iter().filter(|id| id.is_some()).count(), 81);
        // Removals empty the overflow buckets, which are used again after a grace period.
        for _ in 0..100 {
            for (key, id) in keys.iter().zip(&out).filter(|(_, id)| id.is_some()) {
                assert_eq!(member.remove(key).is_some(), id.is_some());
            }
            (0..40).for_each(|_| member.begin_batch(1));
            keys[..81].iter().for_each(|key| assert!(matches!(added(&mut member, key), Addition::Added(_))));
            member.lookup_batch(&keys.concat(), 8, &mut out);
        }
        // Without reuse: 800 overflow buckets.
        assert!(table.used_bytes().overflow < 64 * 100, "{} bytes", table.used_bytes().overflow);
    }
}
