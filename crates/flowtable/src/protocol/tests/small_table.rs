//! A table for model checkers: buckets of two slots, keys of one byte, which are their own hash.

use super::checkers::Checker;
use crate::life;
use crate::protocol::change::{Vacancy, clear_and_pull_back, find_vacancy, publish};
use crate::protocol::divide::divide;
use crate::protocol::grace::{Grace, PARKED};
use crate::protocol::memory::{Bucket, Memory, Step, tag_of};
use crate::protocol::search::{find, lock, search};
use crate::word::Word;
use std::sync::atomic::Ordering::*;

pub struct SmallBucket<C: Checker> {
    head: C::Word,
    link: C::Word,
    records: [C::Word; 2],
}

impl<C: Checker> SmallBucket<C> {
    fn new() -> Self {
        SmallBucket { head: C::word(0), link: C::word(0), records: [C::word(0), C::word(0)] }
    }
}

impl<C: Checker> Bucket for SmallBucket<C> {
    type Word = C::Word;
    const SLOTS: usize = 2;

    fn head(&self) -> &C::Word {
        &self.head
    }
    fn link(&self) -> &C::Word {
        &self.link
    }
    fn record(&self, slot: usize) -> &C::Word {
        &self.records[slot]
    }
    fn tag(&self, _slot: usize) -> u16 {
        1
    }
    fn set_tag(&self, _slot: usize, _tag: u16) {}
    fn slots_with_tag(&self, _tag: u16) -> u32 {
        3
    }
}

pub struct SmallRecord<C: Checker> {
    pub life: C::Word,
    /// Key and value; the value is ten times the key.
    content: C::Cell,
}

/// Buckets of an index, and records.
pub struct SmallTable<C: Checker> {
    buckets: Vec<SmallBucket<C>>,
    overflow: Vec<SmallBucket<C>>,
    count: C::Long,
    /// A number of buckets that readers go by instead of the true one.
    pub old_count: Option<u64>,
    pub records: Vec<SmallRecord<C>>,
    pub grace: Grace<C::Long>,
    /// The tick of the last sweep.
    pub latest_tick: C::Word,
    pub left_out: Option<Step>,
}

impl<C: Checker> Memory for SmallTable<C> {
    type Word = C::Word;
    type Bucket = SmallBucket<C>;

    fn bucket(&self, number: u64) -> &SmallBucket<C> {
        &self.buckets[number as usize]
    }
    fn overflow(&self, number: u32) -> &SmallBucket<C> {
        &self.overflow[number as usize]
    }
    fn record_has_key(&self, record: u32, key: &[u8]) -> bool {
        C::read(&self.records[record as usize].content).0 == key[0]
    }
    fn record_hash(&self, record: u32) -> u64 {
        u64::from(C::read(&self.records[record as usize].content).0)
    }
    fn bucket_count(&self) -> u64 {
        self.old_count.unwrap_or_else(|| self.count.load(Acquire))
    }
    fn set_bucket_count(&self, count: u64) {
        self.count.store(count, Release);
    }
    fn leaves_out(&self, step: Step) -> bool {
        self.left_out == Some(step)
    }
}

impl<C: Checker> SmallTable<C> {
    /// Returns a table with records 1 to 3, at most `buckets` buckets, and `members` members.
    pub fn new(left_out: Option<Step>, buckets: usize, members: usize) -> Self {
        let record = |_| SmallRecord { life: C::word(0), content: C::cell() };
        SmallTable {
            buckets: (0..buckets).map(|_| SmallBucket::new()).collect(),
            overflow: (0..3).map(|_| SmallBucket::new()).collect(),
            count: C::long(1),
            old_count: None,
            records: (0..4).map(record).collect(),
            grace: Grace::new(C::long(1), (0..members).map(|_| C::long(PARKED))),
            latest_tick: C::word(0),
            left_out,
        }
    }

    pub fn find(&self, key: u8) -> Option<u32> {
        find(self, u64::from(key), &[key], |_| true)
    }

    /// Returns the value of a key as packets read it: a hit ends doubt.
    pub fn hit(&self, key: u8, now: u32) -> Option<(u32, u8)> {
        let accept = |record: u32| {
            life::touch(&self.records[record as usize].life, now, |profile| Some(life::live(20, profile)))
        };
        let record = find(self, u64::from(key), &[key], accept)?;
        let (found, value) = C::read(&self.records[record as usize].content);
        assert_eq!(found, key, "the record has become another entry's");
        Some((record, value))
    }

    /// Adds a key with a record that no member can see. Returns the key's record, and whether it
    /// was added.
    pub fn add(&self, key: u8, record: u32) -> (u32, bool) {
        let locked = lock(self, u64::from(key), u32::MAX).expect("a lock");
        let found = search(self, locked.bucket, tag_of(0), &[key]).map(|found| found.record);
        if found.is_none() {
            self.write(key, record);
            self.publish(locked.bucket, record);
        }
        locked.unlock(self);
        found.map_or((record, true), |found| (found, false))
    }

    pub fn write(&self, key: u8, record: u32) {
        C::write(&self.records[record as usize].content, (key, key * 10));
        self.records[record as usize].life.store(life::live(5, 0), Release);
    }

    pub fn publish(&self, bucket: &SmallBucket<C>, record: u32) {
        let vacancy = find_vacancy(self, bucket).expect("a short chain");
        // Each record has an overflow bucket of its own, so that two threads never use one.
        let mut spare = match vacancy {
            Vacancy::After(_) => vec![record.min(2)],
            Vacancy::Slot(..) => Vec::new(),
        };
        publish(self, &vacancy, tag_of(0), record, &mut spare);
    }

    /// Removes a key if `accept` makes its record dead. Returns the record.
    pub fn remove(&self, key: u8, accept: impl Fn(&C::Word) -> bool) -> Option<u32> {
        let locked = lock(self, u64::from(key), u32::MAX).expect("a lock");
        let found = search(self, locked.bucket, tag_of(0), &[key]);
        let found = found.filter(|found| accept(&self.records[found.record as usize].life));
        if let Some(found) = &found {
            clear_and_pull_back(self, locked.bucket, found, &mut Vec::new());
        }
        let record = found.map(|found| found.record);
        locked.unlock(self);
        record
    }

    pub fn divide(&self) {
        divide(self, &mut vec![2, 1], &mut Vec::new());
    }

    /// Waits until all members have begun another batch.
    pub fn wait_for_grace(&self) {
        let stamp = self.grace.stamp();
        let mut turn = 0;
        while !self.grace.has_passed(stamp) {
            C::Long::pause(turn);
            turn += 1;
        }
    }
}

/// Makes an entry dead.
pub fn kill<W: Word<u32>>(life: &W) -> bool {
    life::change(life, |word| life::is_live(word).then(|| life::dead(word))).is_some()
}
