//! A map that remembers what it was before a batch, so that a batch that cannot be as a whole leaves no trace.

use std::collections::HashMap;
use std::hash::Hash;

/// A hash map whose changes since [`Journal::begin`] can be taken back.
pub(super) struct Journal<K, V> {
    now: HashMap<K, V>,
    before: Vec<(K, Option<V>)>,
}

impl<K: Hash + Eq + Clone, V: Clone> Journal<K, V> {
    pub(super) fn new() -> Journal<K, V> {
        Journal { now: HashMap::new(), before: Vec::new() }
    }

    /// From here on changes are remembered; those before are for good.
    pub(super) fn begin(&mut self) {
        self.before.clear();
    }

    /// Takes back all changes since the beginning.
    pub(super) fn undo(&mut self) {
        while let Some((key, value)) = self.before.pop() {
            match value {
                Some(value) => self.now.insert(key, value),
                None => self.now.remove(&key),
            };
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.now.get(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        let old = self.now.insert(key.clone(), value);
        self.before.push((key, old));
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(old) = self.now.remove(key) {
            self.before.push((key.clone(), Some(old)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.now.len()
    }
}
