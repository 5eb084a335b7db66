//! Growth: dividing one bucket.

use super::change::{clear, find_vacancy, publish, pull_back};
use super::memory::{Bucket, CHANGE, DEPTH_MASK, DEPTH_SHIFT, LOCK, Memory};
use super::search::{Locked, lock_number};
use crate::word::Word;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Divides the next bucket of an index. One thread at a time does so.
///
/// `spare` has as many overflow buckets as a chain may have; those that become empty go to
/// `retired`. The index must have memory for another bucket.
pub(crate) fn divide<M: Memory>(memory: &M, spare: &mut Vec<u32>, retired: &mut Vec<u32>) {
    let count = memory.bucket_count();
    let level = count.ilog2();
    let number = count - (1 << level);
    let old = lock_number(memory, number);
    let new = memory.bucket(count);
    let depth = (level + 1) << DEPTH_SHIFT;
    new.head().store(depth | LOCK, Relaxed);
    let mut moved = Vec::with_capacity(M::Bucket::SLOTS);
    let mut bucket = old.bucket;
    loop {
        for slot in 0..M::Bucket::SLOTS {
            let record = bucket.record(slot).load(Relaxed);
            if record != 0 && memory.record_hash(record) >> level & 1 != 0 {
                let vacancy = find_vacancy(memory, new).expect("the new chain is not longer than the old one");
                publish(memory, &vacancy, bucket.tag(slot), record, spare);
                moved.push((bucket, slot));
            }
        }
        match bucket.link().load(Relaxed) {
            0 => break,
            link => bucket = memory.overflow(link),
        }
    }
    M::Word::gap();
    // From here on writers of moved keys are sent to the new bucket. Entries leave the old one only
    // now, so that readers find them in one of both; a reader that misses sees that the head has
    // changed.
    let head = old.bucket.head().load(Relaxed);
    let shown = (head & !(DEPTH_MASK << DEPTH_SHIFT)).wrapping_add(CHANGE) | depth;
    old.bucket.head().store(shown, Release);
    M::Word::fence(Release);
    M::Word::gap();
    for (bucket, slot) in moved {
        clear(bucket, slot);
    }
    pull_back(memory, old.bucket, retired);
    M::Word::gap();
    old.unlock(memory);
    M::Word::gap();
    Locked { bucket: new }.unlock(memory);
    M::Word::gap();
    memory.set_bucket_count(count + 1);
}
