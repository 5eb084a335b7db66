//! Members and groups of action profiles and selectors for lookups.

use super::encode::EntryEncoder;
use entries::Profile;
use hashbrown::HashMap;

/// Slots of one profile's members, and its groups.
///
/// Each member has a slot, so that a group's list indexes the members' values in each table without
/// a second search.
#[derive(Clone, Debug, Default)]
pub(super) struct ProfileMembers {
    slots: HashMap<u32, u32>,
    free: Vec<u32>,
    used: u32,
    /// For each group, the slots that the hash selects from.
    groups: HashMap<u32, Box<[u32]>>,
}

/// Values of a profile's members in one of the profile's tables, by slot. An empty value marks a
/// free slot.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberValues(Vec<Box<[u8]>>);

impl ProfileMembers {
    /// Returns the slot of a member.
    pub fn member_slot(&self, member: u32) -> Option<u32> {
        self.slots.get(&member).copied()
    }

    /// Returns the slot that a hash selects from a group; `None` if the group is empty or does not
    /// exist. Calls `hash` only if the group has members.
    pub fn pick_member_slot(&self, group: u32, hash: impl FnOnce() -> u64) -> Option<u32> {
        let places = self.groups.get(&group)?;
        match &places[..] {
            [] => None,
            places => Some(places[(hash() % places.len() as u64) as usize]),
        }
    }

    /// Updates a member from the profile, and its values in the profile's tables.
    pub fn update_member<'a>(
        &mut self,
        profile: &Profile,
        id: u32,
        tables: impl Iterator<Item = (&'a EntryEncoder, &'a mut MemberValues)>,
    ) {
        let Some(member) = profile.members.get(&id) else {
            let Some(slot) = self.slots.remove(&id) else { return };
            self.free.push(slot);
            tables.for_each(|(_, values)| values.set_value(slot, Box::default()));
            return;
        };
        let slot = self.slots.get(&id).copied().or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        self.slots.insert(id, slot);
        tables.for_each(|(encoder, values)| values.set_value(slot, encoder.padded_value(&member.action)));
    }

    /// Updates a group from the profile. Its members must be up to date.
    pub fn update_group(&mut self, profile: &Profile, id: u32) {
        match profile.groups.get(&id) {
            Some(group) => {
                // The slot of a deleted member has no value, as in the interpreter.
                let places =
                    group.weighted_members().map(|member| self.member_slot(member).unwrap_or(u32::MAX)).collect();
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
    fn set_value(&mut self, slot: u32, value: Box<[u8]>) {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize(slot + 1, Box::default());
        }
        self.0[slot] = value;
    }

    /// Returns the value in a slot.
    pub fn get(&self, slot: u32) -> Option<&[u8]> {
        self.0.get(slot as usize).map(|value| &value[..]).filter(|value| !value.is_empty())
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Box<[u8]>>() + self.0.iter().map(|value| value.len()).sum::<usize>()
    }
}
