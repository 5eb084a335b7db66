//! What threads do at the same time, and what must be true in each order of their steps.

use super::checkers::Checker;
use super::small_table::{SmallTable, kill};
use crate::life;
use crate::protocol::memory::Step;
use crate::protocol::search::lock;
use crate::word::Word;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

type Threads = Vec<Box<dyn FnOnce() + Send>>;

/// Runs `other` in `count` threads and `own` in one more.
fn with_others<C: Checker>(
    table: &Arc<SmallTable<C>>,
    count: usize,
    other: impl Fn(&SmallTable<C>, u32) + Send + Sync + 'static,
    own: impl FnOnce(&SmallTable<C>) + Send + 'static,
) {
    let other = Arc::new(other);
    let mut threads: Threads = Vec::new();
    for number in 0..count as u32 {
        let (table, other) = (table.clone(), other.clone());
        threads.push(Box::new(move || other(&table, number)));
    }
    let table = table.clone();
    threads.push(Box::new(move || own(&table)));
    C::join_all(threads);
}

/// Threads add the same key, each with a record of its own: all get the same record.
pub fn add_one_key_twice<C: Checker>(left_out: Option<Step>, others: usize) {
    let table = Arc::new(SmallTable::<C>::new(left_out, 1, 1));
    let added = Arc::new([C::word(0), C::word(0), C::word(0)]);
    let of_others = added.clone();
    let add = move |table: &SmallTable<C>, number: u32, added: &[C::Word; 3]| {
        let (record, is_new) = table.add(5, number + 1);
        added[number as usize].store(record << 1 | u32::from(is_new), Relaxed);
    };
    let own = added.clone();
    with_others(
        &table,
        others,
        move |table, number| add(table, number, &of_others),
        move |table| add(table, others as u32, &own),
    );
    let results: Vec<u32> = added[..=others].iter().map(|it| it.load(Relaxed)).collect();
    assert_eq!(results.iter().filter(|it| *it & 1 != 0).count(), 1, "{results:?}");
    assert!(results.iter().all(|it| Some(it >> 1) == table.find(5)), "{results:?}");
}

/// A bucket is divided while its entries are looked up.
pub fn find_while_dividing<C: Checker>(left_out: Option<Step>, others: usize) {
    let table = Arc::new(SmallTable::<C>::new(left_out, 2, 1));
    table.add(2, 1);
    table.add(3, 2);
    let find = |table: &SmallTable<C>, _| {
        assert_eq!((table.find(3), table.find(2), table.find(5)), (Some(2), Some(1), None));
    };
    with_others(&table, others, find, |table| table.divide());
}

/// An entry moves from an overflow bucket into its bucket while it is looked up.
pub fn find_while_moving<C: Checker>(left_out: Option<Step>, others: usize) {
    let table = Arc::new(SmallTable::<C>::new(left_out, 1, 1));
    for (key, record) in [(1, 1), (2, 2), (3, 3)] {
        table.add(key, record);
    }
    let find = |table: &SmallTable<C>, _| assert_eq!((table.find(3), table.find(4)), (Some(3), None));
    with_others(&table, others, find, |table| assert_eq!(table.remove(1, kill), Some(1)));
}

/// A key is removed and added again while its bucket is divided; other threads look it up.
pub fn add_and_remove_while_dividing<C: Checker>(left_out: Option<Step>, others: usize) {
    let table = Arc::new(SmallTable::<C>::new(left_out, 2, 1));
    table.add(3, 1);
    let other = |table: &SmallTable<C>, number| {
        if number == 0 {
            table.divide();
        } else {
            let found = table.find(3);
            assert!(found.is_none_or(|record| record == 1 || record == 2));
        }
    };
    with_others(&table, others, other, |table| {
        assert_eq!(table.add(3, 2), (1, false));
        assert_eq!(table.remove(3, kill), Some(1));
        assert_eq!(table.find(3), None);
        assert_eq!(table.add(3, 2), (2, true));
    });
    assert_eq!(table.find(3), Some(2));
}

/// A record is removed, and used for another key as soon as all members have forgotten it.
pub fn use_record_again<C: Checker>(left_out: Option<Step>, others: usize) {
    let table = Arc::new(SmallTable::<C>::new(left_out, 1, 3));
    table.add(3, 1);
    let read = |table: &SmallTable<C>, number: u32| {
        for key in [3, 5] {
            table.grace.begin_batch(number as usize);
            assert!(table.hit(key, 10).is_none_or(|found| found == (1, key * 10)));
        }
        table.grace.park(number as usize);
    };
    with_others(&table, others, read, |table| {
        assert_eq!(table.remove(3, kill), Some(1));
        if !table.leaves_out_grace() {
            table.wait_for_grace();
        }
        assert_eq!(table.add(5, 1), (1, true));
    });
}

/// An entry expires in two steps while packets hit it: it does not end within their batches. The
/// packets' clock is from before the entry was due, so that hits by it would write nothing.
pub fn expire_while_hit<C: Checker>(left_out: Option<Step>, others: usize) {
    let table = Arc::new(SmallTable::<C>::new(left_out, 1, 3));
    table.add(3, 1);
    let hit = |table: &SmallTable<C>, number: u32| {
        table.grace.begin_batch(number as usize);
        let late = 4;
        let latest = if table.left_out == Some(Step::LatestTick) { 0 } else { table.latest_tick.load(Acquire) };
        let is_hit = table.hit(3, late.max(latest)).is_some();
        let word = table.records[1].life.load(Acquire);
        assert!(!is_hit || life::is_live(word), "hit, and ended before the batch did");
        table.grace.park(number as usize);
    };
    with_others(&table, others, hit, |table| {
        table.latest_tick.store(10, Release);
        let life = &table.records[1].life;
        let doubt = |word| (life::ticks_since_due(word, 10) >= 0).then_some(word | life::DOUBT);
        if life::change(life, doubt).is_none() {
            return;
        }
        if !table.leaves_out_doubt() {
            table.wait_for_grace();
        }
        table.remove(3, |life| {
            let dead = |word| (word & life::DOUBT != 0).then(|| life::dead(word));
            life::change(life, dead).is_some()
        });
    });
}

/// An entry with two keys is added and removed: no thread sees half of it.
pub fn add_and_remove_twins<C: Checker>(left_out: Option<Step>, others: usize) {
    let first = SmallTable::<C>::new(left_out, 1, 1);
    let mut second = SmallTable::<C>::over(first.records.clone(), left_out, 1, 1);
    second.twin_offset = 1;
    let second = Arc::new(second);
    let table = Arc::new(first);
    let twin = second.clone();
    let see = move |table: &SmallTable<C>, number: u32| {
        if number == 0 {
            let (first, second) = (table.find(3), twin.find(4));
            assert!(first.is_none() || second.is_some(), "the twin's key was not there");
        } else {
            let (second, first) = (twin.find(4), table.find(3));
            assert!(second.is_none() || first.is_some(), "the first key was not there");
        }
    };
    with_others(&table, others, see, move |table| {
        let locked = lock(table, 3, u32::MAX).expect("a lock");
        let of_twin = lock(&*second, 4, u32::MAX).expect("a lock");
        table.write(3, 1);
        if table.left_out == Some(Step::TwinLock) {
            table.publish(locked.bucket, 1);
            locked.unlock(table);
            of_twin.unlock(&*second);
            return;
        }
        second.publish(of_twin.bucket, 1);
        table.publish(locked.bucket, 1);
        of_twin.unlock(&*second);
        locked.unlock(table);
    });
}

/// A reader goes by a number of buckets that is several divisions old.
pub fn find_with_an_old_size<C: Checker>(left_out: Option<Step>) {
    let mut table = SmallTable::<C>::new(left_out, 8, 1);
    table.add(5, 1);
    // Five buckets: the first has been divided three times, the others twice at most.
    (0..4).for_each(|_| table.divide());
    for old in 1..=5 {
        table.old_count = Some(old);
        assert_eq!(table.find(5), Some(1), "with {old} buckets");
    }
}

impl<C: Checker> SmallTable<C> {
    fn leaves_out_grace(&self) -> bool {
        self.left_out == Some(Step::Grace)
    }

    fn leaves_out_doubt(&self) -> bool {
        self.left_out == Some(Step::Doubt)
    }
}
