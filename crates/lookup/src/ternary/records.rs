//! Rules and values by record number.

use super::rule::RuleLayout;
use crate::memory::HugeVec;

/// Slab of records: a rule and its value bytes. Numbers of removed records are reused.
///
/// Values are stored separately from rules, because lookups read only values, so that more of them
/// fit in a cache.
#[derive(Clone, Debug)]
pub struct RuleSlab {
    rules: HugeVec<u64>,
    values: HugeVec<u64>,
    /// Words of a rule, and of a value.
    rule_words: usize,
    value_words: usize,
    /// Number of record numbers ever assigned.
    next_id: u32,
    free: Vec<u32>,
}

impl RuleSlab {
    pub fn new(shape: &RuleLayout, longest_value: usize) -> RuleSlab {
        RuleSlab {
            rules: HugeVec::new(),
            values: HugeVec::new(),
            rule_words: shape.rule_words,
            value_words: longest_value.div_ceil(8).max(1),
            next_id: 0,
            free: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.next_id as usize - self.free.len()
    }

    /// Returns the upper bound of all record numbers. The rule of an unused number has rank 0.
    pub fn id_bound(&self) -> u32 {
        self.next_id
    }

    pub fn rule(&self, id: u32) -> &[u64] {
        &self.rules[id as usize * self.rule_words..][..self.rule_words]
    }

    pub fn insert_record(&mut self, rule: &[u64], value: &[u8]) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.next_id += 1;
            self.rules.grow(self.next_id as usize * self.rule_words);
            self.values.grow(self.next_id as usize * self.value_words);
            self.next_id - 1
        });
        self.rules[id as usize * self.rule_words..][..self.rule_words].copy_from_slice(rule);
        self.set_value(id, value);
        id
    }

    /// Sets the value of a record.
    ///
    /// # Panics
    /// If the value is longer than the maximum.
    pub fn set_value(&mut self, id: u32, value: &[u8]) {
        let words = &mut self.values[id as usize * self.value_words..][..self.value_words];
        assert!(value.len() <= 8 * words.len(), "a value of {} bytes exceeds the table's maximum", value.len());
        words.fill(0);
        for (word, bytes) in words.iter_mut().zip(value.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
    }

    pub fn remove_record(&mut self, id: u32) {
        self.rules[id as usize * self.rule_words] = 0;
        self.free.push(id);
    }

    /// Returns the address of all values and the words of a value, for lookups.
    pub fn values_ptr(&self) -> (*const u64, usize) {
        (self.values.as_ptr(), self.value_words)
    }

    pub fn memory_bytes(&self) -> usize {
        self.rules.memory_bytes() + self.values.memory_bytes() + self.free.capacity() * 4
    }
}
