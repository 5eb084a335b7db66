//! One worker's memory as native code sees it: the context, and behind it, so far away as was settled when the code was made, all else that stages read and write
//! for each packet. Stages address it from the context alone: addresses that they would have to keep take registers, and end up on the stack.
#![allow(unsafe_code)]

use crate::abi::{CHUNK, Context, LINE};
use crate::plan::memory::{MemoryLayout, QueuePlace};
use lookup::Slots;

/// Memory aligned to cache lines.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Line([u64; LINE / 8]);

impl Line {
    /// So many bytes of 0, or a few more.
    pub fn zeros(bytes: usize) -> Vec<Line> {
        vec![Line([0; LINE / 8]); bytes.div_ceil(LINE)]
    }
}

/// The memory.
pub struct Memory {
    lines: Vec<Line>,
    layout: MemoryLayout,
}

impl Memory {
    /// For the program with that layout, whose extern objects count at these addresses.
    pub fn new(layout: MemoryLayout, counters: &[u64]) -> Memory {
        let mut memory = Memory { lines: Line::zeros(layout.bytes), layout };
        let at = memory.layout.counters;
        memory.words(at, counters.len()).copy_from_slice(counters);
        memory
    }

    /// The context's address, from which native code reaches all of it.
    pub fn base(&mut self) -> *mut Context {
        self.lines.as_mut_ptr().cast()
    }

    /// The context.
    pub fn context(&mut self) -> &mut Context {
        // SAFETY: the memory begins with it, and any bytes are one; zeros, at first, are null pointers.
        unsafe { &mut *self.base() }
    }

    /// Words from so many bytes on.
    pub fn words(&mut self, at: i32, count: usize) -> &mut [u64] {
        let first = at as usize / size_of::<u64>();
        &mut self.all()[first..first + count]
    }

    fn all(&mut self) -> &mut [u64] {
        let count = self.lines.len() * LINE / 8;
        // SAFETY: lines are words without gaps.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), count) }
    }

    /// For each table, its default action's value.
    pub fn set_default(&mut self, table: usize, value: *const u8) {
        let at = self.layout.defaults + (table * size_of::<u64>()) as i32;
        self.words(at, 1)[0] = value as u64;
    }

    /// For each table, its entries in slots, if they are a handful.
    pub fn set_slots(&mut self, table: usize, slots: Option<&Slots>) {
        let at = self.layout.slots + (table * size_of::<u64>()) as i32;
        self.words(at, 1)[0] = slots.map_or(0, |slots| std::ptr::from_ref(slots) as u64);
    }

    /// What has been counted since the last batch.
    pub fn tally(&mut self) -> &mut [u64] {
        let (at, cells) = (self.layout.tally, self.layout.cells);
        self.words(at, cells)
    }

    /// How many packets wait for a stage, none from here on.
    pub fn take_waiting(&mut self, stage: usize) -> usize {
        let at = self.layout.queues[stage].count;
        std::mem::take(&mut self.words(at, 1)[0]) as usize
    }

    /// How many packets wait for a stage.
    pub fn waiting_now(&mut self, stage: usize) -> usize {
        let at = self.layout.queues[stage].count;
        self.words(at, 1)[0] as usize
    }

    /// So many packets wait for a stage.
    pub fn set_waiting(&mut self, stage: usize, count: usize) {
        let at = self.layout.queues[stage].count;
        self.words(at, 1)[0] = count as u64;
    }

    /// Where packets wait for a stage.
    pub fn queue(&self, stage: usize) -> QueuePlace {
        self.layout.queues[stage]
    }

    /// What was looked up for one packet of a stage, and what together with that.
    pub fn set_results(&mut self, at: usize, results: [u64; 2]) {
        for (list, result) in [self.layout.results, self.layout.together].into_iter().zip(results) {
            self.words(list, at + 1)[at] = result;
        }
    }

    /// The addresses of the frames of so many packets that wait for a stage.
    pub fn waiting(&mut self, stage: usize, count: usize) -> &mut [*mut u8] {
        assert!(count <= CHUNK);
        let words = self.words(self.layout.queues[stage].frames, count);
        // SAFETY: a word holds an address, and any word is one.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), count) }
    }

    /// The keys of so many packets that wait for a stage.
    pub fn keys(&mut self, stage: usize, count: usize) -> &mut [u64] {
        assert!(count <= CHUNK);
        let queue = self.layout.queues[stage];
        self.words(queue.keys, count * queue.key_words)
    }

    /// The keys of what is looked up together with that.
    pub fn together_keys(&mut self, stage: usize, count: usize) -> &mut [u64] {
        assert!(count <= CHUNK);
        let queue = self.layout.queues[stage];
        self.words(queue.together, count * queue.together_words)
    }

    /// The words of selector keys of so many packets that wait for a stage.
    pub fn aux(&mut self, stage: usize, count: usize) -> &mut [u64] {
        assert!(count <= CHUNK);
        let queue = self.layout.queues[stage];
        self.words(queue.aux, count * queue.aux_words)
    }

    /// What was looked up for so many packets.
    pub fn results(&mut self, count: usize) -> &mut [*const u8] {
        assert!(count <= CHUNK);
        let words = self.words(self.layout.results, count);
        // SAFETY: as for frames.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), count) }
    }

    /// The keys of so many packets that wait for a stage, and the room for what is looked up.
    pub fn lookup(&mut self, stage: usize, count: usize) -> (&[u64], &mut [*const u8]) {
        let queue = self.layout.queues[stage];
        self.keys_and_results((queue.keys, queue.key_words), self.layout.results, count)
    }

    /// The same for what is looked up together with that.
    pub fn lookup_together(&mut self, stage: usize, count: usize) -> (&[u64], &mut [*const u8]) {
        let queue = self.layout.queues[stage];
        self.keys_and_results((queue.together, queue.together_words), self.layout.together, count)
    }

    /// Keys of so many words each from a place on, and the room for what is looked up.
    pub fn keys_and_results(
        &mut self,
        (keys, words): (i32, usize),
        results: i32,
        count: usize,
    ) -> (&[u64], &mut [*const u8]) {
        assert!(count <= CHUNK);
        let results: *mut *const u8 = self.words(results, count).as_mut_ptr().cast();
        // SAFETY: results and keys are lists of their own; a word holds an address, and any word is one.
        (self.words(keys, count * words), unsafe { std::slice::from_raw_parts_mut(results, count) })
    }

    /// The frames of so many packets that wait for a stage, and what was looked up for them.
    pub fn looked_up(&mut self, stage: usize, count: usize) -> (&[*mut u8], &[*const u8]) {
        let results = std::ptr::from_ref(self.results(count));
        // SAFETY: results and frames are lists of their own.
        (self.waiting(stage, count), unsafe { &*results })
    }
}
