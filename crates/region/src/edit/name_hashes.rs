//! [`NameHashes`]: tests whether a name is in use among millions, without a search.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// Hashes of names that differ from each other, in 10 to 21 bytes a name.
pub(super) struct NameHashes {
    hasher: RandomState,
    /// `None` if two names have the same hash, because then no name can be removed.
    hashes: Option<HashSet<u64, BuildHasherDefault<FirstWord>>>,
}

/// Hasher that returns its input, because the input is a hash already.
#[derive(Default)]
struct FirstWord(u64);

impl Hasher for FirstWord {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

impl NameHashes {
    pub fn of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> NameHashes {
        let hashes = HashSet::with_capacity_and_hasher(names.len(), BuildHasherDefault::default());
        let mut all = NameHashes { hasher: RandomState::new(), hashes: Some(hashes) };
        all.replace(std::iter::empty(), names);
        all
    }

    /// Returns false only if no name equals `name`.
    pub fn may_contain(&self, name: &str) -> bool {
        self.hashes.as_ref().is_none_or(|hashes| hashes.contains(&self.hasher.hash_one(name)))
    }

    /// Removes the names `old`, which are present, and adds the names `new`, which are not.
    pub fn replace<'a>(&mut self, old: impl Iterator<Item = &'a str>, new: impl Iterator<Item = &'a str>) {
        let Some(hashes) = &mut self.hashes else { return };
        for name in old {
            hashes.remove(&self.hasher.hash_one(name));
        }
        for name in new {
            if !hashes.insert(self.hasher.hash_one(name)) {
                self.hashes = None;
                return;
            }
        }
    }
}

impl fmt::Debug for NameHashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameHashes").finish_non_exhaustive()
    }
}
