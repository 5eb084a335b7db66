//! [`Record`]: what native code that was made to record ([`crate::Jit::recording`]) notes of each packet: its decisions, which tables were asked for what and
//! what they found, and which elements of counters it counted in.
//!
//! Each packet of a chunk has an area, apart from its frame: four lists, each with room for a certain number of items. A list that is full stays so: what comes
//! then is lost, and the record says that it is not complete. Of lists other than the decisions that never happens, as only a parser may loop.
#![allow(unsafe_code)]

use crate::plan::lists::{List, Lists};
use ir::{Entity, TableId};
use lookup::ValueLayout;

/// An application of a table that found none.
const NONE: u32 = u32::MAX;

/// The decision of whether the entry of a table with an action profile was there, before its member is chosen: it was not, it was.
const PROFILE_FOUND: [u32; 2] = [0, 1];

/// A table application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Application {
    /// The table.
    pub table: TableId,
    /// The number of the entry that was found; of a table with an action profile, whatever becomes of its member or group.
    pub found: Option<u32>,
    /// First word of its key, and how many.
    key: (u32, u32),
}

/// What was noted of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// Its way: packets with the same list took the same decisions in all blocks. Each word names a place in the code and what was chosen there.
    pub decisions: &'r [u32],
    /// The tables that were applied, in order, those without keys included.
    pub applications: &'r [Application],
    /// For each `count` of an indexed counter, in order, the element; [`u64::MAX`] if the index is wider than 64 bits and too great for them. It may be beyond
    /// the counter's end.
    pub indices: &'r [u64],
    /// Whether that is all: a packet may take more decisions than are noted.
    pub complete: bool,
    keys: &'r [u64],
}

/// Who is shown what was noted of each packet, with the packet's number in its batch.
pub type Shown<'s> = dyn FnMut(usize, &Record<'_>) + 's;

impl Record<'_> {
    /// The words of the values that an application asked for: match keys in the table's order, each in whole words, least significant first.
    pub fn key(&self, application: &Application) -> &[u64] {
        let (first, words) = application.key;
        self.keys.get(first as usize..(first + words) as usize).unwrap_or_default()
    }
}

/// The areas of a worker's packets.
pub struct Areas {
    lists: Lists,
    /// One behind the other.
    memory: Vec<u64>,
    /// What [`Record::applications`] are of the packet that was read last.
    applications: Vec<Application>,
}

impl Areas {
    /// For so many packets.
    pub fn new(lists: &Lists, packets: usize) -> Areas {
        // A line more, so that areas can begin with one.
        let memory = vec![0; lists.stride as usize / 8 * packets + 8];
        Areas { lists: lists.clone(), memory, applications: Vec::new() }
    }

    /// The first one's address.
    pub fn first(&mut self) -> *mut u8 {
        let at = self.memory.as_mut_ptr();
        at.wrapping_byte_add(at.addr().next_multiple_of(64) - at.addr()).cast()
    }

    fn area(&mut self, packet: usize) -> *mut u8 {
        let stride = self.lists.stride as usize;
        debug_assert!((packet + 1) * stride <= self.memory.len() * 8);
        self.first().wrapping_add(packet * stride)
    }

    /// Nothing is noted of the first packets.
    pub fn clear(&mut self, packets: usize) {
        for packet in 0..packets {
            let area = self.area(packet).cast::<[u32; 4]>();
            // SAFETY: each area begins with the lengths of its four lists, and there are as many as packets in a chunk.
            unsafe { area.write([0; 4]) };
        }
    }

    /// What a table found for packets that wait behind it, before members are chosen: values whose entries' numbers are there.
    ///
    /// # Safety
    /// The packets are numbers in the chunk, each once; the results are what the lookups that are held gave for this table just now, with entries' numbers.
    pub unsafe fn found(
        &mut self,
        (table, profile): (TableId, bool),
        packets: impl Iterator<Item = usize>,
        results: &[*const u8],
    ) {
        let Lists { applications, decisions, .. } = self.lists;
        for (packet, result) in packets.zip(results) {
            // SAFETY: the value of an entry carries its number there.
            let number = match result.is_null() {
                true => NONE,
                false => unsafe { u32::from_le_bytes(result.add(ValueLayout::ENTRY_ID).cast::<[u8; 4]>().read()) },
            };
            let area = self.area(packet);
            let item = u64::from(table.0) | u64::from(number) << 32;
            // SAFETY: the lists are those of the area.
            unsafe { append(area, applications, item) };
            if profile {
                let found = PROFILE_FOUND[usize::from(number != NONE)];
                // SAFETY: as above.
                unsafe { append(area, decisions, found) };
            }
        }
    }

    /// What was noted of a packet.
    pub fn record(&mut self, packet: usize) -> Record<'_> {
        let area: *const u8 = self.area(packet);
        let Lists { decisions, applications, keys, indices, .. } = self.lists;
        // SAFETY: the lists are those of the area, which nobody writes to while the record is borrowed.
        let (decisions, noted, keys, indices) = unsafe {
            (
                items::<u32>(area, decisions),
                items::<u64>(area, applications),
                items::<u64>(area, keys),
                items::<u64>(area, indices),
            )
        };
        self.applications.clear();
        let mut first = 0;
        for item in noted.0 {
            let (table, number) = (TableId(*item as u32), (item >> 32) as u32);
            let words = self.lists.words[table.index()];
            let found = (number != NONE).then_some(number);
            self.applications.push(Application { table, found, key: (first, words) });
            first += words;
        }
        Record {
            decisions: decisions.0,
            applications: &self.applications,
            indices: indices.0,
            complete: decisions.1 && noted.1 && keys.1 && indices.1,
            keys: keys.0,
        }
    }
}

/// Adds an item to a list.
///
/// # Safety
/// The area has that list, and it is one of such items.
unsafe fn append<T>(area: *mut u8, list: List, item: T) {
    // SAFETY: as promised; the length is never beyond that of a full list, which has space for one more.
    unsafe {
        let count = area.add(list.count as usize).cast::<u32>();
        area.add(list.at as usize).cast::<T>().add(*count as usize).write(item);
        *count = (*count + 1).min(list.full);
    }
}

/// The items of a list, and whether these are all.
///
/// # Safety
/// As [`append`]; nobody may add to the list while the items are borrowed.
unsafe fn items<'a, T>(area: *const u8, list: List) -> (&'a [T], bool) {
    // SAFETY: as promised; so many items were written.
    unsafe {
        let count = *area.add(list.count as usize).cast::<u32>();
        (std::slice::from_raw_parts(area.add(list.at as usize).cast(), count as usize), count < list.full)
    }
}
