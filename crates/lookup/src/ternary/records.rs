//! Rules and the values that lookups give, by number.

use super::rule::Shape;
use crate::memory::HugeVec;

/// A slab of records: a rule and its value bytes each. Numbers of removed ones are used again.
///
/// Values lie apart from the rules: changes read rules, lookups read values, and of these alone many more fit into a cache.
#[derive(Clone, Debug)]
pub struct Records {
    rules: HugeVec<u64>,
    values: HugeVec<u64>,
    /// Words of a rule, and of a value.
    rule_words: usize,
    value_words: usize,
    /// How many numbers were ever given.
    next: u32,
    free: Vec<u32>,
}

impl Records {
    pub fn new(shape: &Shape, longest_value: usize) -> Records {
        Records {
            rules: HugeVec::new(),
            values: HugeVec::new(),
            rule_words: shape.rule_words,
            value_words: longest_value.div_ceil(8).max(1),
            next: 0,
            free: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.next as usize - self.free.len()
    }

    /// All numbers are smaller. The record of a number that is not used has the rank 0.
    pub fn end(&self) -> u32 {
        self.next
    }

    pub fn rule(&self, id: u32) -> &[u64] {
        &self.rules[id as usize * self.rule_words..][..self.rule_words]
    }

    pub fn add(&mut self, rule: &[u64], value: &[u8]) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.rules.grow(self.next as usize * self.rule_words);
            self.values.grow(self.next as usize * self.value_words);
            self.next - 1
        });
        self.rules[id as usize * self.rule_words..][..self.rule_words].copy_from_slice(rule);
        self.set_value(id, value);
        id
    }

    /// # Panics
    /// The value is longer than the longest that was announced.
    pub fn set_value(&mut self, id: u32, value: &[u8]) {
        let words = &mut self.values[id as usize * self.value_words..][..self.value_words];
        assert!(value.len() <= 8 * words.len(), "a value of {} bytes is longer than announced", value.len());
        words.fill(0);
        for (word, bytes) in words.iter_mut().zip(value.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
    }

    pub fn remove(&mut self, id: u32) {
        self.rules[id as usize * self.rule_words] = 0;
        self.free.push(id);
    }

    /// All values' words, and the words of one: for lookups.
    pub fn values(&self) -> (*const u64, usize) {
        (self.values.as_ptr(), self.value_words)
    }

    pub fn memory_bytes(&self) -> usize {
        self.rules.bytes() + self.values.bytes() + self.free.capacity() * 4
    }
}
