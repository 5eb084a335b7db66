//! Memory of one worker. Generated code addresses everything relative to the [`StageContext`] at
//! its start, with offsets fixed at compile time, because separate base addresses would occupy
//! registers and be spilled.
#![allow(unsafe_code)]

use crate::abi::{CACHE_LINE_BYTES, MAX_CHUNK, StageContext};
use crate::plan::memory_layout::{MemoryLayout, QueueLayout};
use lookup::SmallTableHash;

/// Memory aligned to cache lines.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct AlignedLine([u64; CACHE_LINE_BYTES / 8]);

impl AlignedLine {
    /// Allocates zeroed memory of at least `bytes` bytes.
    pub fn zeroed(bytes: usize) -> Vec<AlignedLine> {
        vec![AlignedLine([0; CACHE_LINE_BYTES / 8]); bytes.div_ceil(CACHE_LINE_BYTES)]
    }
}

/// Context, queues, results and statistics of one worker.
pub struct WorkerMemory {
    lines: Vec<AlignedLine>,
    layout: MemoryLayout,
}

impl WorkerMemory {
    /// Allocates the memory of a program; `counters` are the addresses of its counter arrays.
    pub fn new(layout: MemoryLayout, counters: &[u64]) -> WorkerMemory {
        let mut memory = WorkerMemory { lines: AlignedLine::zeroed(layout.bytes), layout };
        let at = memory.layout.counters;
        memory.words_at(at, counters.len()).copy_from_slice(counters);
        memory
    }

    /// Returns the address of the context, the base of all offsets.
    pub fn context_ptr(&mut self) -> *mut StageContext {
        self.lines.as_mut_ptr().cast()
    }

    /// Returns the context.
    pub fn context(&mut self) -> &mut StageContext {
        // SAFETY: the memory starts with the context, and any bytes are a valid one; the initial
        // zeros are null pointers.
        unsafe { &mut *self.context_ptr() }
    }

    /// Returns `count` words at an offset in bytes.
    pub fn words_at(&mut self, at: i32, count: usize) -> &mut [u64] {
        let first = at as usize / size_of::<u64>();
        &mut self.all_words()[first..first + count]
    }

    fn all_words(&mut self) -> &mut [u64] {
        let count = self.lines.len() * CACHE_LINE_BYTES / 8;
        // SAFETY: lines are words without gaps.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), count) }
    }

    /// Sets the address of a table's default action value.
    pub fn set_default(&mut self, table: usize, value: *const u8) {
        let at = self.layout.defaults + (table * size_of::<u64>()) as i32;
        self.words_at(at, 1)[0] = value as u64;
    }

    /// Sets the slots of a table; `None` if it has too many entries for in-place lookups.
    pub fn set_slots(&mut self, table: usize, slots: Option<&SmallTableHash>) {
        let at = self.layout.slots + (table * size_of::<u64>()) as i32;
        self.words_at(at, 1)[0] = slots.map_or(0, |slots| std::ptr::from_ref(slots) as u64);
    }

    /// Returns the statistics counted since the last batch.
    pub fn batch_stats(&mut self) -> &mut [u64] {
        let (at, cells) = (self.layout.stats, self.layout.stats_cells);
        self.words_at(at, cells)
    }

    /// Empties a stage's queue and returns its length.
    pub fn take_queue_len(&mut self, stage: usize) -> usize {
        let at = self.layout.queues[stage].count;
        std::mem::take(&mut self.words_at(at, 1)[0]) as usize
    }

    /// Returns the length of a stage's queue.
    pub fn queue_len(&mut self, stage: usize) -> usize {
        let at = self.layout.queues[stage].count;
        self.words_at(at, 1)[0] as usize
    }

    /// Sets the length of a stage's queue.
    pub fn set_queue_len(&mut self, stage: usize, count: usize) {
        let at = self.layout.queues[stage].count;
        self.words_at(at, 1)[0] = count as u64;
    }

    /// Returns the layout of a stage's queue.
    pub fn queue_layout(&self, stage: usize) -> QueueLayout {
        self.layout.queues[stage]
    }

    /// Sets the results of the lookup and of the paired lookup for one packet.
    pub fn set_results(&mut self, at: usize, results: [u64; 2]) {
        for (list, result) in [self.layout.results, self.layout.paired_results].into_iter().zip(results) {
            self.words_at(list, at + 1)[at] = result;
        }
    }

    /// Returns the frame addresses of the first `count` packets of a stage's queue.
    pub fn queued_frames(&mut self, stage: usize, count: usize) -> &mut [*mut u8] {
        assert!(count <= MAX_CHUNK);
        let words = self.words_at(self.layout.queues[stage].frames, count);
        // SAFETY: a word holds an address, and any word is one.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), count) }
    }

    /// Returns the keys of the first `count` packets of a stage's queue.
    pub fn queued_keys(&mut self, stage: usize, count: usize) -> &mut [u64] {
        assert!(count <= MAX_CHUNK);
        let queue = self.layout.queues[stage];
        self.words_at(queue.keys, count * queue.key_words)
    }

    /// Returns the keys of the paired lookup for the first `count` packets of a stage's queue.
    pub fn queued_paired_keys(&mut self, stage: usize, count: usize) -> &mut [u64] {
        assert!(count <= MAX_CHUNK);
        let queue = self.layout.queues[stage];
        self.words_at(queue.paired_keys, count * queue.paired_key_words)
    }

    /// Returns the selector keys of the first `count` packets of a stage's queue, as words.
    pub fn queued_selector_keys(&mut self, stage: usize, count: usize) -> &mut [u64] {
        assert!(count <= MAX_CHUNK);
        let queue = self.layout.queues[stage];
        self.words_at(queue.selector_keys, count * queue.selector_key_words)
    }

    /// Returns the lookup results of the first `count` packets.
    pub fn lookup_results(&mut self, count: usize) -> &mut [*const u8] {
        assert!(count <= MAX_CHUNK);
        let words = self.words_at(self.layout.results, count);
        // SAFETY: a word holds an address, and any word is one.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), count) }
    }

    /// Returns the keys of a stage's first `count` packets, and the buffer for their results.
    pub fn lookup_buffers(&mut self, stage: usize, count: usize) -> (&[u64], &mut [*const u8]) {
        let queue = self.layout.queues[stage];
        self.keys_and_results((queue.keys, queue.key_words), self.layout.results, count)
    }

    /// Returns the keys of the paired lookup for a stage's first `count` packets, and the buffer
    /// for their results.
    pub fn paired_lookup_buffers(&mut self, stage: usize, count: usize) -> (&[u64], &mut [*const u8]) {
        let queue = self.layout.queues[stage];
        self.keys_and_results((queue.paired_keys, queue.paired_key_words), self.layout.paired_results, count)
    }

    /// Returns `count` keys at an offset, of `words` words each, and the buffer for their results.
    pub fn keys_and_results(
        &mut self,
        (keys, words): (i32, usize),
        results: i32,
        count: usize,
    ) -> (&[u64], &mut [*const u8]) {
        assert!(count <= MAX_CHUNK);
        let results: *mut *const u8 = self.words_at(results, count).as_mut_ptr().cast();
        // SAFETY: results and keys are separate lists; a word holds an address, and any word is
        // one.
        (self.words_at(keys, count * words), unsafe { std::slice::from_raw_parts_mut(results, count) })
    }

    /// Returns the frames of a stage's first `count` packets and their lookup results.
    pub fn frames_and_results(&mut self, stage: usize, count: usize) -> (&[*mut u8], &[*const u8]) {
        let results = std::ptr::from_ref(self.lookup_results(count));
        // SAFETY: results and frames are separate lists.
        (self.queued_frames(stage, count), unsafe { &*results })
    }
}
