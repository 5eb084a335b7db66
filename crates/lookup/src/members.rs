//! Members and groups of action profiles and selectors, as lookups follow them.

use super::encode::Encoder;
use entries::Profile;
use hashbrown::HashMap;

/// The numbers of one profile's members and groups.
///
/// A member has a slot, so that a group's list leads to its values in each table without another search.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    slots: HashMap<u32, u32>,
    free: Vec<u32>,
    used: u32,
    /// For each group the list that the hash picks from.
    groups: HashMap<u32, Box<[u32]>>,
}

/// What each member of a profile does in one of the profile's tables, by slot. An empty value is no member.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberValues(Vec<Box<[u8]>>);

impl Members {
    /// The slot of a member.
    pub fn slot(&self, member: u32) -> Option<u32> {
        self.slots.get(&member).copied()
    }

    /// The slot that a hash picks from a group; `None` if the group is empty or isn't there. `hash` is asked for only if needed.
    pub fn pick(&self, group: u32, hash: impl FnOnce() -> u64) -> Option<u32> {
        let places = self.groups.get(&group)?;
        match &places[..] {
            [] => None,
            places => Some(places[(hash() % places.len() as u64) as usize]),
        }
    }

    /// Brings a member in line with the profile and tells the profile's tables.
    pub fn update_member<'a>(
        &mut self,
        profile: &Profile,
        id: u32,
        tables: impl Iterator<Item = (&'a Encoder, &'a mut MemberValues)>,
    ) {
        let Some(member) = profile.members.get(&id) else {
            let Some(slot) = self.slots.remove(&id) else { return };
            self.free.push(slot);
            tables.for_each(|(_, values)| values.set(slot, Box::default()));
            return;
        };
        let slot = self.slots.get(&id).copied().or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        self.slots.insert(id, slot);
        tables.for_each(|(encoder, values)| values.set(slot, encoder.padded_value(&member.action)));
    }

    /// Brings a group in line with the profile. Its members must be up to date.
    pub fn update_group(&mut self, profile: &Profile, id: u32) {
        match profile.groups.get(&id) {
            Some(group) => {
                // A place of a member that is gone leads to no value, as it does in the interpreter.
                let places = group.places().map(|member| self.slot(member).unwrap_or(u32::MAX)).collect();
                self.groups.insert(id, places);
            }
            None => drop(self.groups.remove(&id)),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let places: usize = self.groups.values().map(|places| places.len() * 4).sum();
        self.slots.allocation_size() + self.groups.allocation_size() + places + self.free.capacity() * 4
    }
}

impl MemberValues {
    fn set(&mut self, slot: u32, value: Box<[u8]>) {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize(slot + 1, Box::default());
        }
        self.0[slot] = value;
    }

    /// The value in a slot.
    pub fn get(&self, slot: u32) -> Option<&[u8]> {
        self.0.get(slot as usize).map(|value| &value[..]).filter(|value| !value.is_empty())
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Box<[u8]>>() + self.0.iter().map(|value| value.len()).sum::<usize>()
    }
}
