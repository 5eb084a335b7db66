//! Hash map with undo for a batch, so that a failed batch leaves the map unchanged.

use std::collections::HashMap;
use std::hash::Hash;

/// A hash map that can undo its changes since [`UndoMap::begin_batch`].
pub(super) struct UndoMap<K, V> {
    current: HashMap<K, V>,
    undo_log: Vec<(K, Option<V>)>,
}

impl<K: Hash + Eq + Clone, V: Clone> UndoMap<K, V> {
    pub(super) fn new() -> UndoMap<K, V> {
        UndoMap { current: HashMap::new(), undo_log: Vec::new() }
    }

    /// Commits all earlier changes and starts recording new ones.
    pub(super) fn begin_batch(&mut self) {
        self.undo_log.clear();
    }

    /// Undoes all changes since [`UndoMap::begin_batch`].
    pub(super) fn undo_batch(&mut self) {
        while let Some((key, value)) = self.undo_log.pop() {
            match value {
                Some(value) => self.current.insert(key, value),
                None => self.current.remove(&key),
            };
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.current.get(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        let old = self.current.insert(key.clone(), value);
        self.undo_log.push((key, old));
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(old) = self.current.remove(key) {
            self.undo_log.push((key.clone(), Some(old)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.current.len()
    }
}
