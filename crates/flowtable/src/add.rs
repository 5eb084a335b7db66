//! Additions: find a key or add it, under the lock of its bucket.
#![allow(unsafe_code)]

use crate::index::LineBucket;
use crate::inner::Inner;
use crate::local::Local;
use crate::member::Member;
use crate::protocol::change::{Vacancy, find_vacancy, publish};
use crate::protocol::divide::divide;
use crate::protocol::memory::tag_of;
use crate::protocol::search::{lock, search};
use crate::stream::ChangeKind;
use crate::{Addition, RecordId, Refusal};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Pauses until an addition gives up on a bucket's lock.
const MAX_LOCK_TURNS: u32 = 2048;
/// Buckets that are divided with each addition while the index grows.
const DIVISIONS: usize = 2;

/// What a new entry has besides its value.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewEntry<'k> {
    key: &'k [u8],
    /// Number of the idle time.
    profile: u8,
    owner: u32,
    lease: u32,
    /// Record of the twin, if that is an entry already.
    twin: u32,
}

impl<'k> NewEntry<'k> {
    /// Returns an entry without owner and lease.
    pub fn new(key: &'k [u8], profile: u8) -> Self {
        NewEntry { key, profile, ..NewEntry::default() }
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> &'k [u8] {
        self.key
    }

    /// Returns the entry as one that names its twin.
    pub(crate) fn with_twin(self, twin: RecordId) -> Self {
        NewEntry { twin: twin.0, ..self }
    }

    /// Returns the entry with an owner; 0: none.
    pub fn with_owner(self, owner: u32) -> Self {
        NewEntry { owner, ..self }
    }

    /// Returns the entry with a lease; 0: none.
    pub fn with_lease(self, lease: u32) -> Self {
        NewEntry { lease, ..self }
    }
}

impl Member {
    /// Adds an entry without a lease, or finds the one that has the key.
    pub fn find_or_add(&mut self, key: &[u8], value: &[u8], profile: u8, owner: u32) -> Addition {
        self.find_or_add_with(&NewEntry::new(key, profile).with_owner(owner), |bytes| {
            if bytes.len() != value.len() {
                return Err(Refusal::Malformed);
            }
            bytes.copy_from_slice(value);
            Ok(())
        })
    }

    /// Adds an entry whose value `fill` writes, or finds the one that has the key.
    ///
    /// `fill` gets a value of zeros. It is called only if the key is not there and the limits
    /// allow an entry, while no other member can add the key; so it can take a number that the
    /// entry then owns. It may refuse. It must not use the table, because the key's bucket is
    /// locked.
    pub fn find_or_add_with(
        &mut self,
        new: &NewEntry<'_>,
        fill: impl FnMut(&mut [u8]) -> Result<(), Refusal>,
    ) -> Addition {
        let added = self.local.add(&self.table, new, fill);
        if let Addition::Found(record) = added {
            self.local.touch(&self.table, record.0, self.table.shape.hits_restart);
        }
        added
    }
}

impl Local {
    /// Adds an entry, or finds the one that has the key without counting a hit.
    pub fn add(
        &mut self,
        table: &Inner,
        new: &NewEntry<'_>,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), Refusal>,
    ) -> Addition {
        self.assert_in_batch();
        if new.key.len() != table.shape.key_bytes || !table.owners.is_valid(new.owner) {
            return Addition::Refused(table.counters.count_refusal(Refusal::Malformed));
        }
        let index = &table.index;
        let hash = index.hash(new.key);
        let Some(locked) = lock(index, hash, MAX_LOCK_TURNS) else {
            return Addition::Refused(table.counters.count_refusal(Refusal::Busy));
        };
        if let Some(found) = search(index, locked.bucket, tag_of(hash), new.key) {
            let record = RecordId(found.record);
            locked.unlock(index);
            return Addition::Found(record);
        }
        let added = self.add_locked(table, locked.bucket, hash, new, &mut fill);
        locked.unlock(index);
        match added {
            Ok(record) => {
                table.counters.count_added(self.number);
                self.grow_a_little(table);
                Addition::Added(RecordId(record))
            }
            Err(refusal) => Addition::Refused(table.counters.count_refusal(refusal)),
        }
    }

    /// Adds an entry whose key is not there, with the key's bucket locked. Takes the vacancy, the
    /// owner's quota, the credit and the record in this order, and gives them back in reverse.
    fn add_locked(
        &mut self,
        table: &Inner,
        bucket: &LineBucket,
        hash: u64,
        new: &NewEntry<'_>,
        fill: &mut impl FnMut(&mut [u8]) -> Result<(), Refusal>,
    ) -> Result<u32, Refusal> {
        let vacancy = self.reserve_vacancy(table, bucket)?;
        if !table.owners.take(new.owner) {
            return Err(Refusal::OwnerLimit);
        }
        let mut result = Err(Refusal::Full);
        if table.credits.take(self.number) {
            result = match self.allocate(table) {
                Some(record) => {
                    let filled = self.fill_and_publish(table, record, (&vacancy, tag_of(hash)), new, fill);
                    filled.inspect_err(|_| self.give_back_record(record)).map(|()| record)
                }
                None => Err(Refusal::Grace),
            };
            if result.is_err() {
                table.credits.give(self.number);
            }
        }
        match result {
            Ok(_) => table.owners.note_high_water(new.owner),
            Err(_) => table.owners.give(new.owner),
        }
        result
    }

    /// Returns where a locked bucket takes an entry, with an overflow bucket at hand if it needs
    /// one.
    fn reserve_vacancy<'t>(
        &mut self,
        table: &'t Inner,
        bucket: &'t LineBucket,
    ) -> Result<Vacancy<'t, LineBucket>, Refusal> {
        let vacancy = find_vacancy(&table.index, bucket).ok_or(Refusal::Chain)?;
        let needs_overflow = matches!(vacancy, Vacancy::After(_)) && self.spare.is_empty();
        if needs_overflow && !table.index.fill_spare(&mut self.spare) {
            return Err(Refusal::Chain);
        }
        Ok(vacancy)
    }

    /// Fills a free record and makes it visible.
    fn fill_and_publish(
        &mut self,
        table: &Inner,
        record: u32,
        (vacancy, tag): (&Vacancy<'_, LineBucket>, u16),
        new: &NewEntry<'_>,
        fill: &mut impl FnMut(&mut [u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.scratch.fill(0);
        fill(&mut self.scratch)?;
        // SAFETY: a free record of this member: no entry has it, and no member reads it.
        unsafe { table.records.write(record, new.key, &self.scratch, new.owner) };
        for (word, value) in [(table.records.twin(record), new.twin), (table.records.lease(record), new.lease)] {
            if let Some(word) = word.filter(|_| value != 0) {
                word.store(value, Relaxed);
            }
        }
        table.records.life(record).store(table.idle_times.live_word(self.now, new.profile), Release);
        table.schedule_look(record, self.now);
        publish(&table.index, vacancy, tag, record, &mut self.spare);
        self.note_change(table, record, ChangeKind::Added);
        Ok(())
    }

    /// Divides a few buckets of the index while it grows.
    fn grow_a_little(&mut self, table: &Inner) {
        let (count, index) = (table.credits.used_about(), &table.index);
        if !index.wants_to_grow(count) {
            return;
        }
        index.grow_exclusively(|| {
            for _ in 0..DIVISIONS {
                // Without overflow buckets the index stays as it is, and chains grow longer.
                if index.wants_to_grow(count) && index.fill_spare(&mut self.spare) {
                    index.prefetch_division();
                    divide(index, &mut self.spare, &mut self.retired.overflow);
                }
            }
        });
    }
}
