//! Ids and aliases by p4c's scheme, so that a program has the same numbers with both compilers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The top byte of an id: the kind of object (`P4Ids.Prefix` in p4info.proto).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum IdPrefix {
    Action = 0x01,
    Table = 0x02,
    ValueSet = 0x03,
    ControllerHeader = 0x04,
    ActionProfile = 0x11,
    Counter = 0x12,
    DirectCounter = 0x13,
    Meter = 0x14,
    DirectMeter = 0x15,
    Register = 0x16,
    Digest = 0x17,
}

/// Computes Jenkins' one-at-a-time hash of a name. Its low 24 bits become the id.
pub fn name_hash(name: &str) -> u32 {
    let mut hash = 0u32;
    for byte in name.bytes() {
        hash = hash.wrapping_add(u32::from(byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// All symbols of a program, with ids and aliases once [`Symbols::assign_ids`] has run.
#[derive(Default)]
pub(super) struct Symbols {
    ids: BTreeMap<(IdPrefix, String), u32>,
    taken: BTreeSet<u32>,
    /// Number of names that end with each suffix, in components.
    suffixes: HashMap<String, usize>,
    names: BTreeSet<String>,
}

impl Symbols {
    /// Adds a symbol; `id` is that of its `@id` annotation, or 0. A second one of the same kind and
    /// name is the same symbol.
    pub fn add_symbol(&mut self, prefix: IdPrefix, name: &str, id: u32) {
        let key = (prefix, name.to_string());
        if self.ids.contains_key(&key) {
            return;
        }
        // An `@id` may omit the prefix.
        let id = if id == 0 { 0 } else { id | (prefix as u32) << 24 };
        // Of two symbols with one `@id`, the second gets another.
        let id = if id != 0 && self.taken.insert(id) { id } else { 0 };
        self.ids.insert(key, id);
        if self.names.insert(name.to_string()) {
            for suffix in dotted_suffixes(name) {
                *self.suffixes.entry(suffix.to_string()).or_default() += 1;
            }
        }
    }

    /// Assigns an id to each symbol without one: the hash of its name, or the next free number.
    /// Names are visited in alphabetical order, so that the ids are independent of the program's
    /// order.
    pub fn assign_ids(&mut self) {
        for ((prefix, name), id) in self.ids.iter_mut().filter(|(_, id)| **id == 0) {
            let mut hash = name_hash(name);
            let number = |hash: u32| (*prefix as u32) << 24 | hash & 0x00ff_ffff;
            // A free number exists, because 2^24 symbols of a kind do not fit into memory as text.
            while self.taken.contains(&number(hash)) {
                hash = hash.wrapping_add(1);
            }
            *id = number(hash);
            self.taken.insert(*id);
        }
    }

    /// Returns the id of a symbol, 0 if it was not added.
    pub fn symbol_id(&self, prefix: IdPrefix, name: &str) -> u32 {
        self.ids.get(&(prefix, name.to_string())).copied().unwrap_or(0)
    }

    /// Returns the shortest suffix, in components, that no other name ends with; the name itself if
    /// there is none.
    pub fn shortest_alias(&self, name: &str) -> String {
        let unique = dotted_suffixes(name).find(|s| self.suffixes.get(*s).copied().unwrap_or(0) < 2);
        unique.unwrap_or(name).to_string()
    }
}

/// Iterates over `c`, `b.c`, `a.b.c`.
fn dotted_suffixes(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.rmatch_indices('.').map(|(n, _)| n + 1).chain([0]);
    starts.map(|n| &name[n..])
}
