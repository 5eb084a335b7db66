//! The sequential model: what one member after the other sees of a table.

use flowtable::{Refusal, Shape, life};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub value: Vec<u8>,
    pub twin_key: Vec<u8>,
    pub profile: u8,
    pub owner: u32,
    /// The tick from which on a hit renews the entry.
    pub due: u32,
    pub state: u32,
}

/// Result of an addition to the model.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    Added,
    Found,
    Refused(Refusal),
}

pub struct Reference {
    shape: Shape,
    pub idle: [u32; 256],
    pub entries: BTreeMap<Vec<u8>, Entry>,
    /// First key by twin's key.
    pub twins: HashMap<Vec<u8>, Vec<u8>>,
    pub limits: HashMap<u32, u32>,
    pub counts: HashMap<u32, u32>,
    pub high_water: HashMap<u32, u32>,
}

impl Reference {
    pub fn new(shape: &Shape) -> Self {
        let mut idle = [0; 256];
        idle[..shape.idle_ticks.len()].copy_from_slice(&shape.idle_ticks);
        let (entries, twins, limits, counts, high_water) = <_>::default();
        Reference { shape: shape.clone(), idle, entries, twins, limits, counts, high_water }
    }

    fn renewed(&self, now: u32, profile: u8) -> u32 {
        now + life::slack_ticks(self.idle[usize::from(profile)], self.shape.tick_ns)
    }

    /// Whether the entry's idle time is over: it may end.
    pub fn is_over(&self, entry: &Entry, now: u32) -> bool {
        let idle = self.idle[usize::from(entry.profile)];
        idle != 0 && now >= entry.due + idle
    }

    fn touch(&mut self, key: &[u8], now: u32, restarts: bool) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        if restarts && now >= entry.due {
            let due = self.renewed(now, entry.profile);
            self.entries.get_mut(key).unwrap().due = due;
        }
        true
    }

    /// Looks up a key, as a packet does.
    pub fn lookup(&mut self, key: &[u8], now: u32) -> bool {
        self.touch(key, now, self.shape.hits_restart)
    }

    pub fn restart(&mut self, key: &[u8], now: u32) -> bool {
        self.touch(key, now, true)
    }

    pub fn set_profile(&mut self, key: &[u8], now: u32, profile: u8) -> bool {
        let due = self.renewed(now, profile);
        self.entries.get_mut(key).is_some_and(|entry| {
            (entry.profile, entry.due) = (profile, due);
            true
        })
    }

    pub fn find_or_add(
        &mut self,
        key: &[u8],
        value: &[u8],
        twin_key: &[u8],
        profile: u8,
        owner: u32,
        now: u32,
    ) -> Added {
        if self.lookup(key, now) {
            return Added::Found;
        }
        let count = self.counts.get(&owner).copied().unwrap_or(0);
        if owner != 0 && count >= self.limits.get(&owner).copied().unwrap_or(u32::MAX) {
            return Added::Refused(Refusal::OwnerLimit);
        }
        if self.entries.len() as u32 >= self.shape.size {
            return Added::Refused(Refusal::Full);
        }
        if self.shape.twin_key_bytes != 0 {
            if self.twins.contains_key(twin_key) {
                return Added::Refused(Refusal::TwinTaken);
            }
            self.twins.insert(twin_key.to_vec(), key.to_vec());
        }
        if owner != 0 {
            *self.counts.entry(owner).or_default() += 1;
            let high = self.high_water.entry(owner).or_default();
            *high = (*high).max(count + 1);
        }
        let due = self.renewed(now, profile);
        let (value, twin_key) = (value.to_vec(), twin_key.to_vec());
        self.entries.insert(key.to_vec(), Entry { value, twin_key, profile, owner, due, state: 0 });
        Added::Added
    }

    pub fn modify(&mut self, key: &[u8], value: &[u8], profile: u8, now: u32) -> bool {
        let due = self.renewed(now, profile);
        self.entries.get_mut(key).is_some_and(|entry| {
            (entry.value, entry.profile, entry.due) = (value.to_vec(), profile, due);
            true
        })
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if self.shape.twin_key_bytes != 0 {
            self.twins.remove(&entry.twin_key);
        }
        if entry.owner != 0 {
            *self.counts.get_mut(&entry.owner).unwrap() -= 1;
        }
        Some(entry)
    }
}
