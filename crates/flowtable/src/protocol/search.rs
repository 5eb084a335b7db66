//! Finding a key and locking its bucket.

use super::memory::{Bucket, CHANGE, LOCK, Memory, Step, depth_of, home_of, next_home, tag_of};
use crate::word::Word;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A slot that holds a record.
pub(crate) struct Slot<'m, B> {
    pub bucket: &'m B,
    pub slot: usize,
    pub record: u32,
}

/// A bucket that this thread has locked.
pub(crate) struct Locked<'m, B> {
    pub bucket: &'m B,
}

impl<B: Bucket> Locked<'_, B> {
    /// Unlocks the bucket and counts a change.
    pub fn unlock<M: Memory<Bucket = B>>(self, memory: &M) {
        let head = self.bucket.head().load(Relaxed);
        let change = if memory.leaves_out(Step::CountChange) { 0 } else { CHANGE };
        self.bucket.head().store((head & !LOCK).wrapping_add(change), Release);
    }
}

/// Searches a bucket and its overflow buckets. Without the lock, only a hit is certain.
#[inline(always)]
pub(crate) fn search<'m, M: Memory>(
    memory: &'m M,
    first: &'m M::Bucket,
    tag: u16,
    key: &[u8],
) -> Option<Slot<'m, M::Bucket>> {
    let mut bucket = first;
    loop {
        let mut slots = bucket.slots_with_tag(tag);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            M::Word::gap();
            let record = bucket.record(slot).load(Acquire);
            M::Word::gap();
            if record != 0 && memory.record_has_key(record, key) {
                return Some(Slot { bucket, slot, record });
            }
            slots &= slots - 1;
        }
        M::Word::gap();
        match bucket.link().load(Acquire) {
            0 => return None,
            link => bucket = memory.overflow(link),
        }
    }
}

/// Returns the record of a key that `accept` accepts, or the certainty that the key was not in
/// the table at one moment during the call. A record is refused if its entry has been removed:
/// the remover holds the lock until the slot is clear, so the search is repeated.
pub(crate) fn find<M: Memory>(memory: &M, hash: u64, key: &[u8], mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
    let mut home = home_of(hash, memory.bucket_count());
    let mut turn = 0;
    loop {
        let bucket = memory.bucket(home);
        let head = bucket.head().load(Acquire);
        let found = search(memory, bucket, tag_of(hash), key);
        if let Some(found) = &found
            && accept(found.record)
        {
            return Some(found.record);
        }
        M::Word::fence(Acquire);
        M::Word::gap();
        let is_same = head & LOCK == 0 && bucket.head().load(Relaxed) == head;
        if found.is_some() || !(is_same || memory.leaves_out(Step::SecondLook)) {
            M::Word::pause(turn);
            turn += 1;
            continue;
        }
        home = onward(memory, home, hash, head)?;
    }
}

/// Locks the bucket of a hash. Gives up after `max_turns` pauses.
pub(crate) fn lock<M: Memory>(memory: &M, hash: u64, max_turns: u32) -> Option<Locked<'_, M::Bucket>> {
    let mut home = home_of(hash, memory.bucket_count());
    let mut turn = 0;
    loop {
        let bucket = memory.bucket(home);
        let head = bucket.head().load(Acquire);
        if let Some(next) = onward(memory, home, hash, head) {
            home = next;
        } else if memory.leaves_out(Step::Lock) {
            return Some(Locked { bucket });
        } else if let Some(locked) = try_lock::<M>(bucket, head) {
            return Some(locked);
        } else if turn == max_turns {
            return None;
        } else {
            M::Word::pause(turn);
            turn += 1;
        }
    }
}

/// Locks a bucket by its number.
pub(crate) fn lock_number<M: Memory>(memory: &M, number: u64) -> Locked<'_, M::Bucket> {
    let bucket = memory.bucket(number);
    let mut turn = 0;
    loop {
        if let Some(locked) = try_lock::<M>(bucket, bucket.head().load(Relaxed)) {
            return locked;
        }
        M::Word::pause(turn);
        turn += 1;
    }
}

fn try_lock<M: Memory>(bucket: &M::Bucket, head: u32) -> Option<Locked<'_, M::Bucket>> {
    if head & LOCK != 0 || bucket.head().replace(head, head | LOCK).is_err() {
        return None;
    }
    M::Word::fence(Release);
    M::Word::gap();
    Some(Locked { bucket })
}

fn onward<M: Memory>(memory: &M, home: u64, hash: u64, head: u32) -> Option<u64> {
    if memory.leaves_out(Step::LowestBit) {
        let at_once = hash & ((1 << depth_of(head)) - 1);
        return next_home(home, hash, head).map(|_| at_once);
    }
    next_home(home, hash, head)
}
