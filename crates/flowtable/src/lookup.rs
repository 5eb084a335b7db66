//! Lookups in batches: buckets and records are prefetched some keys ahead.

use crate::member::Member;
use crate::protocol::memory::{Bucket, Memory, home_of, tag_of};
use crate::protocol::search::find;
use crate::{RecordId, life, prefetch};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Keys that are probed together.
const CHUNK: usize = 256;
/// Keys between the prefetch of a line and its use.
const BLOCK: usize = 16;

impl Member {
    /// Looks up `out.len()` keys; key `n` begins at byte `n * stride` of `keys`. A record of 0
    /// means that the key was not in the table at one moment during the call. Each hit counts
    /// for the entry's idle time as [`Shape::hits_restart`] says.
    ///
    /// # Panics
    /// Panics if `keys` is shorter than that, or outside of a batch.
    ///
    /// [`Shape::hits_restart`]: crate::Shape::hits_restart
    pub fn lookup_batch(&mut self, keys: &[u8], stride: usize, out: &mut [RecordId]) {
        self.local.assert_in_batch();
        let key_bytes = self.table.records.layout.key_bytes;
        for (n, out) in out.chunks_mut(CHUNK).enumerate() {
            self.probe(&keys[n * CHUNK * stride..], stride, key_bytes, out);
        }
    }

    /// Looks up one key, as [`Member::lookup_batch`] does.
    pub fn lookup(&mut self, key: &[u8]) -> RecordId {
        self.local.assert_in_batch();
        let index = &self.table.index;
        let hits_restart = self.table.shape.hits_restart;
        let accept = |record| self.local.touch(&self.table, record, hits_restart);
        RecordId(find(index, index.hash(key), key, accept).unwrap_or(0))
    }

    /// Looks up at most [`CHUNK`] keys. Blocks of keys go through three steps: hash and prefetch of
    /// the bucket; the first slot with the tag and prefetch of its record; comparison of key and
    /// time. Keys that these steps do not find are searched with care.
    fn probe(&self, keys: &[u8], stride: usize, key_bytes: usize, out: &mut [RecordId]) {
        let key_of = |n: usize| &keys[n * stride..n * stride + key_bytes];
        let index = &self.table.index;
        let (view, count, now) = (index.probe_view(), out.len(), self.local.now);
        let hits_restart = self.table.shape.hits_restart;
        let mut hashes = [0u64; CHUNK];
        let (mut late, mut late_count) = ([0u8; CHUNK], 0);
        let block = |number: usize| number * BLOCK..((number + 1) * BLOCK).min(count);
        let blocks = count.div_ceil(BLOCK);
        for turn in 0..blocks + 2 {
            for n in block(turn) {
                hashes[n] = view.hash(key_of(n));
                prefetch::for_read((&raw const *view.home(hashes[n])).cast());
            }
            for n in turn.checked_sub(1).map_or(0..0, block) {
                let bucket = view.home(hashes[n]);
                let slots = bucket.slots_with_tag(tag_of(hashes[n]));
                if slots == 0 {
                    out[n] = RecordId::NONE;
                    prefetch::for_read((&raw const *index.overflow(bucket.link().load(Relaxed))).cast());
                } else {
                    out[n] = RecordId(bucket.record(slots.trailing_zeros() as usize).load(Acquire));
                    view.prefetch_record(out[n].0);
                }
            }
            for n in turn.checked_sub(2).map_or(0..0, block) {
                let record = out[n].0;
                let is_hit = record != 0
                    && view.record_has_key(record, key_of(n))
                    && (life::ticks_since_due(view.life(record), now) < 0
                        || self.local.touch_due(&self.table, record, hits_restart));
                late[late_count] = n as u8;
                late_count += usize::from(!is_hit);
            }
        }
        self.search_late(&late[..late_count], &hashes, key_of, out);
    }

    /// Searches keys that are in overflow buckets, share a tag with another key, or are not
    /// there.
    fn search_late<'k>(
        &self,
        late: &[u8],
        hashes: &[u64; CHUNK],
        key_of: impl Fn(usize) -> &'k [u8],
        out: &mut [RecordId],
    ) {
        let index = &self.table.index;
        let buckets = index.bucket_count();
        let late = || late.iter().map(|n| usize::from(*n));
        for n in late() {
            let link = index.bucket(home_of(hashes[n], buckets)).link().load(Acquire);
            if link != 0 {
                let bucket = index.overflow(link);
                let slots = bucket.slots_with_tag(tag_of(hashes[n])) | 1 << 8;
                self.table.records.prefetch(bucket.record(slots.trailing_zeros() as usize).load(Relaxed));
            }
        }
        let hits_restart = self.table.shape.hits_restart;
        for n in late() {
            let accept = |record| self.local.touch(&self.table, record, hits_restart);
            out[n] = RecordId(find(index, hashes[n], key_of(n), accept).unwrap_or(0));
            if !out[n].is_some() {
                // The key is likely to be added soon.
                index.prefetch_for_write(hashes[n]);
            }
        }
    }
}
