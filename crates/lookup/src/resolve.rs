//! Following a looked-up value to what it does: members and groups of action profiles.
//!
//! `unsafe`, because a value is a pointer into a table's memory: that is how a batch of lookups hands out values of any
//! length without copying them.

#![allow(unsafe_code)]

use super::lookups::Lookups;
use super::shape::ValueLayout;
use ir::{Entity, TableId};
use std::ptr::null;

impl Lookups {
    /// What a value of a table does: the value itself, or that of the member that it leads to, laid out for the table.
    ///
    /// A group's member is the one at `hash` modulo the number of its places; `hash` is called for a group only, and is the
    /// selector's hash cut to its output width. Null if the group has no members or the member is gone: that counts as a
    /// miss. The member's value carries no entry number (its bytes are 0): that is the entry's.
    ///
    /// # Safety
    /// `value` is null, or a pointer that [`Lookups::lookup_batch`] or [`Lookups::default_value`] of this very copy gave for `table`.
    pub unsafe fn resolve(&self, table: TableId, value: *const u8, hash: impl FnOnce() -> u64) -> *const u8 {
        if value.is_null() {
            return null();
        }
        // SAFETY: a value has at least its arm's byte, and lives as long as `self`.
        let arm = unsafe { *value };
        if arm != ValueLayout::MEMBER && arm != ValueLayout::GROUP {
            return value;
        }
        let table = &self.tables[table.index()];
        let Some(members) = table.profile.and_then(|profile| self.profiles.get(profile.index())) else { return null() };
        let offset = table.number_offset();
        // SAFETY: four bytes with the number follow the value's head, for these two arms.
        let number = u32::from_le_bytes(unsafe { value.add(offset).cast::<[u8; 4]>().read() });
        let slot = match arm {
            ValueLayout::MEMBER => members.slot(number),
            _ => members.pick(number, hash),
        };
        slot.and_then(|slot| table.members.get(slot)).map_or(null(), <[u8]>::as_ptr)
    }
}
