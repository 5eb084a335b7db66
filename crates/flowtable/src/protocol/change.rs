//! Changes of a locked bucket: slots and overflow buckets.

use super::memory::{Bucket, MAX_CHAIN, Memory};
use super::search::Slot;
use crate::word::Word;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Destination of a new entry in a locked bucket.
pub(crate) enum Vacancy<'m, B> {
    /// A free slot.
    Slot(&'m B, usize),
    /// All slots are taken: an overflow bucket has to follow this one.
    After(&'m B),
}

/// Returns where a locked bucket takes another entry, or `None` if its chain is too long.
pub(crate) fn find_vacancy<'m, M: Memory>(memory: &'m M, first: &'m M::Bucket) -> Option<Vacancy<'m, M::Bucket>> {
    let (mut bucket, mut chain) = (first, 0);
    loop {
        if let Some(slot) = free_slot(bucket) {
            return Some(Vacancy::Slot(bucket, slot));
        }
        match bucket.link().load(Relaxed) {
            0 => return (chain < MAX_CHAIN).then_some(Vacancy::After(bucket)),
            link => bucket = memory.overflow(link),
        }
        chain += 1;
    }
}

fn free_slot<B: Bucket>(bucket: &B) -> Option<usize> {
    (0..B::SLOTS).find(|slot| bucket.record(*slot).load(Relaxed) == 0)
}

/// Makes a record visible. `spare` has an overflow bucket if the vacancy needs one.
pub(crate) fn publish<M: Memory>(
    memory: &M,
    vacancy: &Vacancy<'_, M::Bucket>,
    tag: u16,
    record: u32,
    spare: &mut Vec<u32>,
) {
    match vacancy {
        Vacancy::Slot(bucket, slot) => {
            bucket.set_tag(*slot, tag);
            M::Word::gap();
            bucket.record(*slot).store(record, Release);
        }
        Vacancy::After(last) => {
            let number = spare.pop().expect("the caller has a spare overflow bucket");
            let bucket = memory.overflow(number);
            bucket.link().store(0, Relaxed);
            bucket.set_tag(0, tag);
            bucket.record(0).store(record, Relaxed);
            last.link().store(number, Release);
        }
    }
}

/// Clears a slot of a locked bucket.
pub(crate) fn clear<B: Bucket>(bucket: &B, slot: usize) {
    bucket.record(slot).store(0, Release);
    B::Word::gap();
    bucket.set_tag(slot, 0);
}

/// Clears the slot of an entry, then moves entries of overflow buckets forward.
pub(crate) fn clear_and_pull_back<M: Memory>(
    memory: &M,
    first: &M::Bucket,
    found: &Slot<'_, M::Bucket>,
    retired: &mut Vec<u32>,
) {
    clear(found.bucket, found.slot);
    if first.link().load(Relaxed) != 0 {
        pull_back(memory, first, retired);
    }
}

/// Moves entries of overflow buckets into free slots of a locked bucket, and unlinks overflow
/// buckets that are empty. `retired` gets their numbers: readers may still be in them, and their
/// links lead on until all members have begun another batch.
pub(crate) fn pull_back<M: Memory>(memory: &M, first: &M::Bucket, retired: &mut Vec<u32>) {
    let mut previous = first;
    let mut link = first.link().load(Relaxed);
    while link != 0 {
        let bucket = memory.overflow(link);
        let mut is_empty = true;
        for slot in 0..M::Bucket::SLOTS {
            if bucket.record(slot).load(Relaxed) != 0 {
                match free_slot(first) {
                    Some(to) => move_entry::<M>(bucket, slot, first, to),
                    None => is_empty = false,
                }
            }
        }
        let next = bucket.link().load(Relaxed);
        if is_empty {
            previous.link().store(next, Release);
            retired.push(link);
        } else {
            previous = bucket;
        }
        link = next;
    }
}

/// Moves an entry within a locked bucket. Until it is cleared, it is in both slots: a reader finds
/// it in one of them, or finds that the head has changed.
fn move_entry<M: Memory>(from: &M::Bucket, slot: usize, to: &M::Bucket, to_slot: usize) {
    let (tag, record) = (from.tag(slot), from.record(slot).load(Relaxed));
    to.set_tag(to_slot, tag);
    to.record(to_slot).store(record, Release);
    M::Word::gap();
    clear(from, slot);
}
