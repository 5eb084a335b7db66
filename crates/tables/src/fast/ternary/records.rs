//! Rules and the values that lookups give, by number.

use super::rule::Shape;
use crate::fast::memory::HugeVec;

/// A slab of records: a rule and its value bytes each. Numbers of removed ones are used again.
#[derive(Clone, Debug)]
pub struct Records {
    words: HugeVec<u64>,
    rule_words: usize,
    /// Words of a record.
    stride: usize,
    /// How many numbers were ever given.
    next: u32,
    free: Vec<u32>,
}

impl Records {
    pub fn new(shape: &Shape, longest_value: usize) -> Records {
        let stride = shape.rule_words + longest_value.div_ceil(8).max(1);
        Records { words: HugeVec::new(), rule_words: shape.rule_words, stride, next: 0, free: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.next as usize - self.free.len()
    }

    /// All numbers are smaller. The record of a number that is not used has the rank 0.
    pub fn end(&self) -> u32 {
        self.next
    }

    pub fn rule(&self, id: u32) -> &[u64] {
        &self.words[id as usize * self.stride..][..self.rule_words]
    }

    pub fn add(&mut self, rule: &[u64], value: &[u8]) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.words.grow(self.next as usize * self.stride);
            self.next - 1
        });
        self.words[id as usize * self.stride..][..self.rule_words].copy_from_slice(rule);
        self.set_value(id, value);
        id
    }

    /// # Panics
    /// The value is longer than the longest that was announced.
    pub fn set_value(&mut self, id: u32, value: &[u8]) {
        let start = id as usize * self.stride;
        let words = &mut self.words[start + self.rule_words..start + self.stride];
        assert!(value.len() <= 8 * words.len(), "a value of {} bytes is longer than announced", value.len());
        words.fill(0);
        for (word, bytes) in words.iter_mut().zip(value.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
    }

    pub fn remove(&mut self, id: u32) {
        self.words[id as usize * self.stride] = 0;
        self.free.push(id);
    }

    /// All records' words, the words of one, and of those the words before the value: for lookups.
    pub fn raw(&self) -> (*const u64, usize, usize) {
        (self.words.as_ptr(), self.stride, self.rule_words)
    }

    pub fn memory_bytes(&self) -> usize {
        self.words.bytes() + self.free.capacity() * 4
    }
}
