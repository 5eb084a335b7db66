//! What threads do at the same time, and what must be true in each order of their steps.

use super::checkers::Checker;
use super::small_table::{SmallTable, kill};
use crate::life;
use crate::protocol::memory::Step;
use crate::protocol::pair::{name_entry, name_of_killed};
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

/// A pair is added while its twin is removed: no half of it stays.
pub fn add_pair_while_its_twin_is_removed<C: Checker>(left_out: Option<Step>, others: usize) {
    const ENTRY: u32 = 1;
    const TWIN: usize = 2;
    let table = Arc::new(SmallTable::<C>::new(left_out, 1, 1));
    let live = life::live(0, 0);
    [ENTRY as usize, TWIN].iter().for_each(|record| table.records[*record].life.store(live, Release));
    let name = Arc::new(C::word(0));
    let of_others = name.clone();
    let remove = move |table: &SmallTable<C>, _| {
        if kill(&table.records[TWIN].life) {
            let named = match table.left_out {
                Some(Step::PairFence) => of_others.load(Acquire),
                _ => name_of_killed(&*of_others),
            };
            if named == ENTRY {
                kill(&table.records[ENTRY as usize].life);
            }
        }
    };
    with_others(&table, others, remove, move |table| {
        let twin_life = &table.records[TWIN].life;
        let is_pair = match table.left_out {
            Some(Step::PairFence) => {
                name.store(ENTRY, Release);
                life::is_live(twin_life.load(Acquire))
            }
            _ => name_entry(&*name, ENTRY, twin_life),
        };
        if !is_pair {
            kill(&table.records[ENTRY as usize].life);
        }
    });
    let is_live = |record: usize| life::is_live(table.records[record].life.load(Acquire));
    assert_eq!(is_live(ENTRY as usize), is_live(TWIN), "half of a pair");
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
