//! Ids and aliases, by p4c's scheme: so the same program has the same numbers here and there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The top byte of an id: what it names (`P4Ids.Prefix` in p4info.proto).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Prefix {
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

/// Jenkins' one-at-a-time hash of a name, whose low 24 bits become the id.
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

/// All symbols of a program, with ids and aliases once [`Symbols::assign`] has run.
#[derive(Default)]
pub(super) struct Symbols {
    ids: BTreeMap<(Prefix, String), u32>,
    taken: BTreeSet<u32>,
    /// For each suffix of a name, in components: how many names end with it.
    suffixes: HashMap<String, usize>,
    names: BTreeSet<String>,
}

impl Symbols {
    /// Adds a symbol; `id` is that of its `@id` annotation, or 0. A second one of the same kind and name is the same symbol.
    pub fn add(&mut self, prefix: Prefix, name: &str, id: u32) {
        let key = (prefix, name.to_string());
        if self.ids.contains_key(&key) {
            return;
        }
        // An `@id` may leave the prefix out.
        let id = if id == 0 { 0 } else { id | (prefix as u32) << 24 };
        // Of two symbols with one `@id` the second gets another.
        let id = if id != 0 && self.taken.insert(id) { id } else { 0 };
        self.ids.insert(key, id);
        if self.names.insert(name.to_string()) {
            for suffix in suffixes(name) {
                *self.suffixes.entry(suffix.to_string()).or_default() += 1;
            }
        }
    }

    /// Gives an id to each symbol that has none: the hash of its name, or the next number that is free. Names come in
    /// alphabetical order, which makes that independent of the program's order.
    pub fn assign(&mut self) {
        for ((prefix, name), id) in self.ids.iter_mut().filter(|(_, id)| **id == 0) {
            let mut hash = name_hash(name);
            let number = |hash: u32| (*prefix as u32) << 24 | hash & 0x00ff_ffff;
            // 2^24 symbols of a kind do not fit into memory as text, so there is a free number.
            while self.taken.contains(&number(hash)) {
                hash = hash.wrapping_add(1);
            }
            *id = number(hash);
            self.taken.insert(*id);
        }
    }

    /// The id of a symbol, 0 if it was not added.
    pub fn id(&self, prefix: Prefix, name: &str) -> u32 {
        self.ids.get(&(prefix, name.to_string())).copied().unwrap_or(0)
    }

    /// The shortest suffix, in components, that no other name ends with; the name itself if there is none.
    pub fn alias(&self, name: &str) -> String {
        let unique = suffixes(name).find(|s| self.suffixes.get(*s).copied().unwrap_or(0) < 2);
        unique.unwrap_or(name).to_string()
    }
}

/// `c`, `b.c`, `a.b.c`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.rmatch_indices('.').map(|(n, _)| n + 1).chain([0]);
    starts.map(|n| &name[n..])
}
