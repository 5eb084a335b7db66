//! Resolution of a looked-up value to its action through the members and groups of action profiles.
//!
//! This uses `unsafe` because a value is a pointer into a table's memory: batch lookups return
//! values of any length without copying.

#![allow(unsafe_code)]

use super::lookup_layout::ValueLayout;
use super::lookups::LookupSet;
use ir::{Entity, TableId};
use std::ptr::null;

impl LookupSet {
    /// Returns the action data of a looked-up value: the value itself, or the value of the member
    /// that it refers to, in the layout of the table.
    ///
    /// A group selects the member at `hash` modulo the length of its weighted member list. `hash`
    /// is called only for groups and returns the selector's hash truncated to its output width.
    /// Returns null if the group has no members or the member was deleted, which counts as a miss.
    /// The entry id bytes of a member's value are 0, because the id belongs to the entry.
    ///
    /// # Safety
    /// `value` is null or a pointer that [`LookupSet::lookup_batch`] or
    /// [`LookupSet::default_value`] of this copy returned for `table`.
    pub unsafe fn resolve(&self, table: TableId, value: *const u8, hash: impl FnOnce() -> u64) -> *const u8 {
        if value.is_null() {
            return null();
        }
        // SAFETY: a value has at least its arm byte and lives as long as `self`.
        let arm = unsafe { *value };
        if arm != ValueLayout::MEMBER && arm != ValueLayout::GROUP {
            return value;
        }
        let table = &self.tables[table.index()];
        let Some(members) = table.profile.and_then(|profile| self.profiles.get(profile.index())) else { return null() };
        let offset = table.member_id_offset();
        // SAFETY: for these two arms the four bytes of the id follow the value's header.
        let id = u32::from_le_bytes(unsafe { value.add(offset).cast::<[u8; 4]>().read() });
        let slot = match arm {
            ValueLayout::MEMBER => members.member_slot(id),
            _ => members.pick_member_slot(id, hash),
        };
        slot.and_then(|slot| table.members.get(slot)).map_or(null(), <[u8]>::as_ptr)
    }
}
