//! [`PacketRecord`]: decisions, table lookups and counter indices of one packet, written by code
//! that records ([`crate::Jit::new_recording`]).
//!
//! Each packet of a chunk has a record buffer, separate from its frame: four lists of fixed
//! capacity. A full list stays full: later items are lost, and the record is marked as incomplete.
//! This can happen only to decisions, because only a parser can loop.
#![allow(unsafe_code)]

use crate::plan::record_layout::{RecordLayout, RecordList};
use ir::{Entity, TableId};
use lookup::ValueLayout;

/// Entry id of a lookup that missed.
const NO_ENTRY: u32 = u32::MAX;

/// Decision recorded for a table with an action profile before its member is selected: miss, hit.
const PROFILE_FOUND: [u32; 2] = [0, 1];

/// A recorded table application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedLookup {
    /// The table.
    pub table: TableId,
    /// Id of the entry that was hit; for a table with an action profile, whether or not its member
    /// or group exists.
    pub entry_id: Option<u32>,
    /// First word of the key, and its length in words.
    key: (u32, u32),
}

/// Record of one packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketRecord<'r> {
    /// Decisions on the packet's path: packets with equal lists took the same branch in all blocks.
    /// Each word identifies a branch and its outcome.
    pub decisions: &'r [u32],
    /// Applied tables in order, including those without keys.
    pub lookups: &'r [RecordedLookup],
    /// Element index of each `count` of an indexed counter, in order; [`u64::MAX`] if the index
    /// does not fit in 64 bits. The index may be out of range.
    pub indices: &'r [u64],
    /// Whether the record is complete: a packet may take more decisions than fit, or look up a
    /// table that packets write.
    pub is_complete: bool,
    /// Whether the packet has looked up a table that packets write. Such lookups are not recorded.
    pub reads_written_table: bool,
    keys: &'r [u64],
}

/// Callback for each record, with the packet's index in its batch.
pub type RecordSink<'s> = dyn FnMut(usize, &PacketRecord<'_>) + 's;

impl PacketRecord<'_> {
    /// Returns the match key of a recorded lookup: its fields in the table's order, each in whole
    /// words, least significant first.
    pub fn lookup_key(&self, application: &RecordedLookup) -> &[u64] {
        let (first, words) = application.key;
        self.keys.get(first as usize..(first + words) as usize).unwrap_or_default()
    }
}

/// Record buffers of a worker's packets.
pub struct RecordBuffers {
    lists: RecordLayout,
    /// Contiguous buffers.
    memory: Vec<u64>,
    /// For each packet [`PacketRecord::reads_written_table`].
    readers: Vec<bool>,
    /// Decoded [`PacketRecord::lookups`] of the packet that was read last.
    applications: Vec<RecordedLookup>,
}

impl RecordBuffers {
    /// Allocates buffers for `packets` packets.
    pub fn new(lists: &RecordLayout, packets: usize) -> RecordBuffers {
        // One extra line, so that buffers can be aligned to lines.
        let memory = vec![0; lists.stride as usize / 8 * packets + 8];
        RecordBuffers { lists: lists.clone(), memory, readers: vec![false; packets], applications: Vec::new() }
    }

    /// Returns the address of the first buffer.
    pub fn first_area(&mut self) -> *mut u8 {
        let at = self.memory.as_mut_ptr();
        at.wrapping_byte_add(at.addr().next_multiple_of(64) - at.addr()).cast()
    }

    fn packet_area(&mut self, packet: usize) -> *mut u8 {
        let stride = self.lists.stride as usize;
        debug_assert!((packet + 1) * stride <= self.memory.len() * 8);
        self.first_area().wrapping_add(packet * stride)
    }

    /// Clears the records of the first `packets` packets.
    pub fn clear_records(&mut self, packets: usize) {
        self.readers[..packets].fill(false);
        for packet in 0..packets {
            let area = self.packet_area(packet).cast::<[u32; 4]>();
            // SAFETY: each buffer starts with the lengths of its four lists, and there is one for
            // each packet of a chunk.
            unsafe { area.write([0; 4]) };
        }
    }

    /// Records the results of a table for the packets in its queue, before members are selected.
    /// The values must contain entry ids. `has_profile` says whether the table has an action
    /// profile; then finding a member is a decision.
    ///
    /// # Safety
    /// `packets` are distinct indices in the chunk; `results` are those of this table from the
    /// current version of the lookups, with entry ids.
    pub unsafe fn record_results(
        &mut self,
        (table, has_profile): (TableId, bool),
        packets: impl Iterator<Item = usize>,
        results: &[*const u8],
    ) {
        let RecordLayout { lookups, decisions, .. } = self.lists;
        for (packet, result) in packets.zip(results) {
            // SAFETY: the value of an entry contains its id there.
            let entry_id = match result.is_null() {
                true => NO_ENTRY,
                false => unsafe { u32::from_le_bytes(result.add(ValueLayout::ENTRY_ID).cast::<[u8; 4]>().read()) },
            };
            let area = self.packet_area(packet);
            let item = u64::from(table.0) | u64::from(entry_id) << 32;
            // SAFETY: the lists are those of the buffer.
            unsafe { append_item(area, lookups, item) };
            if has_profile {
                let decision = PROFILE_FOUND[usize::from(entry_id != NO_ENTRY)];
                // SAFETY: the lists are those of the buffer.
                unsafe { append_item(area, decisions, decision) };
            }
        }
    }

    /// Notes that a packet looks up a table that packets write.
    pub fn mark_reader(&mut self, packet: usize) {
        self.readers[packet] = true;
        self.mark_incomplete(packet);
    }

    /// Marks the record of a packet as incomplete.
    pub fn mark_incomplete(&mut self, packet: usize) {
        let RecordList { count, full_len, .. } = self.lists.decisions;
        // SAFETY: the buffer of each packet has the list.
        unsafe { self.packet_area(packet).add(count as usize).cast::<u32>().write(full_len) };
    }

    /// Returns the record of a packet.
    pub fn record(&mut self, packet: usize) -> PacketRecord<'_> {
        let area: *const u8 = self.packet_area(packet);
        let RecordLayout { decisions, lookups, keys, indices, .. } = self.lists;
        // SAFETY: the lists are those of the buffer, which is not written while the record is
        // borrowed.
        let (decisions, lookup_items, keys, indices) = unsafe {
            (
                list_items::<u32>(area, decisions),
                list_items::<u64>(area, lookups),
                list_items::<u64>(area, keys),
                list_items::<u64>(area, indices),
            )
        };
        self.applications.clear();
        let mut first_word = 0;
        for item in lookup_items.0 {
            let (table, entry_id) = (TableId(*item as u32), (item >> 32) as u32);
            let words = self.lists.key_words[table.index()];
            let found_id = (entry_id != NO_ENTRY).then_some(entry_id);
            self.applications.push(RecordedLookup { table, entry_id: found_id, key: (first_word, words) });
            first_word += words;
        }
        PacketRecord {
            decisions: decisions.0,
            lookups: &self.applications,
            indices: indices.0,
            reads_written_table: self.readers[packet],
            is_complete: decisions.1 && lookup_items.1 && keys.1 && indices.1,
            keys: keys.0,
        }
    }
}

/// Appends an item to a list.
///
/// # Safety
/// The buffer has that list, and it holds items of this type.
unsafe fn append_item<T>(area: *mut u8, list: RecordList, item: T) {
    // SAFETY: the list exists by contract; its length is at most that of a full list, which has
    // space for one more item.
    unsafe {
        let count = area.add(list.count as usize).cast::<u32>();
        area.add(list.at as usize).cast::<T>().add(*count as usize).write(item);
        *count = (*count + 1).min(list.full_len);
    }
}

/// Returns the items of a list, and whether they are complete.
///
/// # Safety
/// The buffer has that list, it holds items of this type, and nothing is appended while the items
/// are borrowed.
unsafe fn list_items<'a, T>(area: *const u8, list: RecordList) -> (&'a [T], bool) {
    // SAFETY: the list exists by contract, and `count` items were written.
    unsafe {
        let count = *area.add(list.count as usize).cast::<u32>();
        (std::slice::from_raw_parts(area.add(list.at as usize).cast(), count as usize), count < list.full_len)
    }
}
