//! Additions: find a key or add it, under the lock of its bucket.
#![allow(unsafe_code)]

use crate::index::LineBucket;
use crate::inner::Inner;
use crate::local::Local;
use crate::member::Member;
use crate::protocol::change::{Vacancy, find_vacancy, publish};
use crate::protocol::divide::divide;
use crate::protocol::memory::tag_of;
use crate::protocol::search::{Locked, lock, search};
use crate::stream::ChangeKind;
use crate::{Addition, RecordId, Refusal};
use std::sync::atomic::Ordering::Release;

/// Pauses until an addition gives up on a bucket's lock.
const MAX_LOCK_TURNS: u32 = 2048;
/// Buckets that are divided with each addition while an index grows.
const DIVISIONS: usize = 2;
/// Twin keys that are tried.
const TWIN_ATTEMPTS: usize = 8;

/// The locked bucket of a twin's key, and where it takes the entry.
struct TwinVacancy<'t> {
    locked: Locked<'t, LineBucket>,
    vacancy: Vacancy<'t, LineBucket>,
    tag: u16,
}

/// Key, profile and owner of a new entry.
#[derive(Clone, Copy)]
struct Request<'k> {
    key: &'k [u8],
    profile: u8,
    owner: u32,
}

impl Member {
    /// Adds an entry, or finds the one that has the key.
    pub fn find_or_add(&mut self, key: &[u8], value: &[u8], profile: u8, owner: u32) -> Addition {
        self.find_or_add_with(key, profile, owner, |bytes| {
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
        key: &[u8],
        profile: u8,
        owner: u32,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), Refusal>,
    ) -> Addition {
        if self.table.indexes.len() != 1 {
            return Addition::Refused(self.table.counters.count_refusal(Refusal::Malformed));
        }
        self.local.add(&self.table, Request { key, profile, owner }, |value, _| fill(value))
    }

    /// Adds an entry with two keys, or finds the one that has the first.
    ///
    /// `fill` writes the value and the twin's key. If another entry has this twin's key, `fill`
    /// is called again for another one, 8 times at most. Both keys become visible as one step.
    pub fn find_or_add_twins(
        &mut self,
        key: &[u8],
        profile: u8,
        owner: u32,
        fill: impl FnMut(&mut [u8], &mut [u8]) -> Result<(), Refusal>,
    ) -> Addition {
        if self.table.indexes.len() != 2 {
            return Addition::Refused(self.table.counters.count_refusal(Refusal::Malformed));
        }
        self.local.add(&self.table, Request { key, profile, owner }, fill)
    }
}

impl Local {
    fn add(
        &mut self,
        table: &Inner,
        request: Request<'_>,
        mut fill: impl FnMut(&mut [u8], &mut [u8]) -> Result<(), Refusal>,
    ) -> Addition {
        self.assert_in_batch();
        if request.key.len() != table.shape.key_bytes || !table.owners.is_valid(request.owner) {
            return Addition::Refused(table.counters.count_refusal(Refusal::Malformed));
        }
        let index = &table.indexes[0];
        let hash = index.hash(request.key);
        let Some(locked) = lock(index, hash, MAX_LOCK_TURNS) else {
            return Addition::Refused(table.counters.count_refusal(Refusal::Busy));
        };
        if let Some(found) = search(index, locked.bucket, tag_of(hash), request.key) {
            // Under the lock, a record in a slot is live.
            self.touch(table, found.record, table.shape.hits_restart);
            let record = RecordId(found.record);
            locked.unlock(index);
            return Addition::Found(record);
        }
        let added = self.add_locked(table, locked.bucket, hash, request, &mut fill);
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
        request: Request<'_>,
        fill: &mut impl FnMut(&mut [u8], &mut [u8]) -> Result<(), Refusal>,
    ) -> Result<u32, Refusal> {
        let vacancy = self.reserve_vacancy(table, 0, bucket)?;
        if !table.owners.take(request.owner) {
            return Err(Refusal::OwnerLimit);
        }
        let mut result = Err(Refusal::Full);
        if table.credits.take(self.number) {
            result = match self.allocate(table) {
                Some(record) => {
                    let filled = self.fill_and_publish(table, record, (&vacancy, tag_of(hash)), request, fill);
                    filled.inspect_err(|_| self.give_back_record(record)).map(|()| record)
                }
                None => Err(Refusal::Grace),
            };
            if result.is_err() {
                table.credits.give(self.number);
            }
        }
        match result {
            Ok(_) => table.owners.note_high_water(request.owner),
            Err(_) => table.owners.give(request.owner),
        }
        result
    }

    /// Returns where a locked bucket takes an entry, with an overflow bucket at hand if it needs
    /// one.
    fn reserve_vacancy<'t>(
        &mut self,
        table: &'t Inner,
        side: usize,
        bucket: &'t LineBucket,
    ) -> Result<Vacancy<'t, LineBucket>, Refusal> {
        let index = &table.indexes[side];
        let vacancy = find_vacancy(index, bucket).ok_or(Refusal::Chain)?;
        let needs_overflow = matches!(vacancy, Vacancy::After(_)) && self.spare[side].is_empty();
        if needs_overflow && !index.fill_spare(&mut self.spare[side]) {
            return Err(Refusal::Chain);
        }
        Ok(vacancy)
    }

    /// Fills a free record and makes it visible: by the twin's key first, if there is one, so that
    /// a packet that finds the entry by its first key is answered by one that finds it by the
    /// other.
    fn fill_and_publish(
        &mut self,
        table: &Inner,
        record: u32,
        (vacancy, tag): (&Vacancy<'_, LineBucket>, u16),
        request: Request<'_>,
        fill: &mut impl FnMut(&mut [u8], &mut [u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.fill_scratch(table, &mut scratch, fill).map(|twin| {
            let (value, twin_key) = scratch.split_at(table.shape.value_bytes);
            // SAFETY: a free record of this member: no entry has it, and no member reads it.
            unsafe { table.records.write(record, [request.key, twin_key], value, request.owner) };
            table.records.life(record).store(table.idle_times.live_word(self.now, request.profile), Release);
            table.schedule_look(record, self.now);
            if let Some(twin) = &twin {
                publish(&table.indexes[1], &twin.vacancy, twin.tag, record, &mut self.spare[1]);
            }
            publish(&table.indexes[0], vacancy, tag, record, &mut self.spare[0]);
            self.note_change(table, record, ChangeKind::Added);
            if let Some(twin) = twin {
                twin.locked.unlock(&table.indexes[1]);
            }
        });
        self.scratch = scratch;
        result
    }

    /// Lets `fill` write value and twin's key until no entry has this twin's key. Returns the
    /// locked bucket of the twin's key, if the table has twins.
    fn fill_scratch<'t>(
        &mut self,
        table: &'t Inner,
        scratch: &mut [u8],
        fill: &mut impl FnMut(&mut [u8], &mut [u8]) -> Result<(), Refusal>,
    ) -> Result<Option<TwinVacancy<'t>>, Refusal> {
        for _ in 0..TWIN_ATTEMPTS {
            scratch.fill(0);
            let (value, twin_key) = scratch.split_at_mut(table.shape.value_bytes);
            fill(value, twin_key)?;
            let Some(index) = table.indexes.get(1) else { return Ok(None) };
            let hash = index.hash(twin_key);
            let locked = lock(index, hash, MAX_LOCK_TURNS).ok_or(Refusal::Busy)?;
            if search(index, locked.bucket, tag_of(hash), twin_key).is_some() {
                locked.unlock(index);
                continue;
            }
            match self.reserve_vacancy(table, 1, locked.bucket) {
                Ok(vacancy) => return Ok(Some(TwinVacancy { locked, vacancy, tag: tag_of(hash) })),
                Err(refusal) => {
                    locked.unlock(index);
                    return Err(refusal);
                }
            }
        }
        Err(Refusal::TwinTaken)
    }

    /// Divides a few buckets of each index that grows.
    fn grow_a_little(&mut self, table: &Inner) {
        let count = table.credits.used_about();
        for (side, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.wants_to_grow(count)) {
            index.grow_exclusively(|| {
                for _ in 0..DIVISIONS {
                    // Without overflow buckets the index stays as it is, and chains grow longer.
                    if index.wants_to_grow(count) && index.fill_spare(&mut self.spare[side]) {
                        index.prefetch_division();
                        divide(index, &mut self.spare[side], &mut self.retired.overflow[side]);
                    }
                }
            });
        }
    }
}
