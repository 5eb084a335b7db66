//! The sequential model: what one member after the other sees of a table.

use flowtable::{Refusal, Shape, life};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub value: Vec<u8>,
    /// Key of the twin.
    pub twin: Option<Vec<u8>>,
    pub lease: u32,
    pub profile: u8,
    pub owner: u32,
    /// The tick from which on a hit renews the entry.
    pub due: u32,
    pub state: u32,
}

/// Result of an addition to the model.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    New,
    Known,
    Refused(Refusal),
}

pub struct Reference {
    shape: Shape,
    pub idle: [u32; 256],
    pub entries: BTreeMap<Vec<u8>, Entry>,
    pub limits: HashMap<u32, u32>,
    pub counts: HashMap<u32, u32>,
    pub high_water: HashMap<u32, u32>,
}

impl Reference {
    pub fn new(shape: &Shape) -> Self {
        let mut idle = [0; 256];
        idle[..shape.idle_ticks.len()].copy_from_slice(&shape.idle_ticks);
        let (entries, limits, counts, high_water) = <_>::default();
        Reference { shape: shape.clone(), idle, entries, limits, counts, high_water }
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
        let Some(entry) = self.entries.get(key) else { return false };
        for key in [Some(key.to_vec()), entry.twin.clone()].into_iter().flatten() {
            let entry = self.entries.get_mut(&key).expect("a twin is an entry");
            (entry.profile, entry.due) = (profile, due);
        }
        true
    }

    pub fn find_or_add(&mut self, key: &[u8], value: &[u8], profile: u8, owner: u32, now: u32) -> Added {
        if self.lookup(key, now) {
            return Added::Known;
        }
        self.add_new(key, value, profile, owner, now)
    }

    fn add_new(&mut self, key: &[u8], value: &[u8], profile: u8, owner: u32, now: u32) -> Added {
        if self.entries.contains_key(key) {
            return Added::Known;
        }
        let count = self.counts.get(&owner).copied().unwrap_or(0);
        if owner != 0 && count >= self.limits.get(&owner).copied().unwrap_or(u32::MAX) {
            return Added::Refused(Refusal::OwnerLimit);
        }
        if self.entries.len() as u32 >= self.shape.size {
            return Added::Refused(Refusal::Full);
        }
        if owner != 0 {
            *self.counts.entry(owner).or_default() += 1;
            let high = self.high_water.entry(owner).or_default();
            *high = (*high).max(count + 1);
        }
        let due = self.renewed(now, profile);
        let entry = Entry { value: value.to_vec(), twin: None, lease: 0, profile, owner, due, state: 0 };
        self.entries.insert(key.to_vec(), entry);
        Added::New
    }

    /// Adds two entries that become twins, or none. The second has no owner, the first the lease.
    pub fn add_pair(
        &mut self,
        keys: [&[u8]; 2],
        value: &[u8],
        profile: u8,
        (owner, lease): (u32, u32),
        now: u32,
    ) -> Result<(), Refusal> {
        let added = |added, taken| match added {
            Added::New => Ok(()),
            Added::Known => Err(taken),
            Added::Refused(refusal) => Err(refusal),
        };
        if keys[0] == keys[1] {
            return Err(Refusal::TwinTaken);
        }
        added(self.add_new(keys[1], value, profile, 0, now), Refusal::TwinTaken)?;
        if let Err(refusal) = added(self.add_new(keys[0], value, profile, owner, now), Refusal::KeyTaken) {
            self.remove_one(keys[1]);
            return Err(refusal);
        }
        for (key, twin) in [(keys[0], keys[1]), (keys[1], keys[0])] {
            self.entries.get_mut(key).unwrap().twin = Some(twin.to_vec());
        }
        self.entries.get_mut(keys[0]).unwrap().lease = lease;
        Ok(())
    }

    /// Returns whether the entry may end: its idle time is over, and that of its twin.
    pub fn may_end(&self, key: &[u8], now: u32) -> bool {
        let entry = &self.entries[key];
        let twin = entry.twin.as_ref().map(|key| &self.entries[key]);
        self.is_over(entry, now) && twin.is_none_or(|twin| self.is_over(twin, now))
    }

    pub fn modify(&mut self, key: &[u8], value: &[u8], profile: Option<u8>, now: u32) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.value = value.to_vec();
        profile.is_none_or(|profile| self.set_profile(key, now, profile))
    }

    /// Removes an entry and its twin. Returns their leases.
    pub fn remove(&mut self, key: &[u8]) -> Option<Vec<u32>> {
        let entry = self.remove_one(key)?;
        let twin = entry.twin.and_then(|twin| self.remove_one(&twin));
        let leases = [Some(entry.lease), twin.map(|twin| twin.lease)];
        Some(leases.into_iter().flatten().filter(|lease| *lease != 0).collect())
    }

    fn remove_one(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if entry.owner != 0 {
            *self.counts.get_mut(&entry.owner).unwrap() -= 1;
        }
        Some(entry)
    }
}
