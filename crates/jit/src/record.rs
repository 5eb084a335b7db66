//! [`Record`]: what native code that was made to record ([`crate::Jit::recording`]) notes of each packet: its decisions, which tables were asked for what and
//! what they found, and which elements of counters it counted in.
//!
//! Each packet of a chunk has an area, apart from its frame: four lists, each with room for a certain number of items. A list that is full stays so: what comes
//! then is lost, and the record says that it is not complete. Of lists other than the decisions that never happens, as only a parser may loop.
#![allow(unsafe_code)]

use crate::plan::has_loop;
use ir::{Entity, ExternFn, Inst, Pipeline, TableId, Term};
use tables::KeyLayout;
use tables::fast::ValueLayout;

/// The most decisions that are noted of a packet. A record that has as many is not complete.
pub const MAX_DECISIONS: usize = 2048;

/// An application of a table that found none.
const NONE: u32 = u32::MAX;

/// The decision of whether the entry of a table with an action profile was there, before its member is chosen: it was not, it was.
const PROFILE_FOUND: [u32; 2] = [0, 1];

/// The first number of a decision that native code notes.
pub const FIRST_DECISION: u32 = 2;

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

/// A list in a packet's area. Offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Where its length is: 32 bits.
    pub count: u32,
    /// Its first item.
    pub at: u32,
    /// A list of this length is full. There is space for more: what is written last to a full list is written behind its items.
    pub full: u32,
}

/// Where things lie in a packet's area.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Words of 32 bits.
    pub decisions: List,
    /// Numbers of 64 bits: the table, and in the upper half what it found.
    pub applications: List,
    /// Words of the keys, in the order of applications.
    pub keys: List,
    /// Indices of counters.
    pub indices: List,
    /// From area to area.
    pub stride: u32,
    /// For each table, how many words its keys have.
    words: Vec<u32>,
}

impl Lists {
    /// Lays out the areas of a pipeline's packets.
    pub fn new(pipeline: &Pipeline) -> Lists {
        let words = |table: &ir::Table| KeyLayout::new(&table.keys).fields.iter().map(|field| field.words as u32).sum();
        let words: Vec<u32> = pipeline.tables.values().map(words).collect();
        let applied: Vec<TableId> = pipeline.controls.values().flat_map(applied).collect();
        let most_words = words.iter().copied().max().unwrap_or(0);
        let counts = pipeline.insts().filter(|data| counts(&data.inst)).count() as u32;
        let mut next = 4 * size_of::<u32>() as u32;
        let mut lists = 0;
        let mut list = |bytes: u32, most: u32, space: u32| {
            let list = List { count: lists * size_of::<u32>() as u32, at: next, full: most + 1 };
            lists += 1;
            next += (bytes * (most + 1 + space)).next_multiple_of(8);
            list
        };
        let decisions = list(4, most_decisions(pipeline), 1);
        let applications = list(8, applied.len() as u32, 1);
        let keys = list(8, applied.iter().map(|table| words[table.index()]).sum(), most_words);
        let indices = list(8, counts, 1);
        // An odd number of cache lines: areas begin in all sets of the caches.
        let stride = (next.div_ceil(64) | 1) * 64;
        Lists { decisions, applications, keys, indices, stride, words }
    }
}

fn applied(control: &ir::Control) -> impl Iterator<Item = TableId> + '_ {
    control.body.blocks.values().filter_map(|block| block.applied())
}

/// Whether an instruction counts in an indexed counter.
fn counts(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func: ExternFn::CounterCount, .. })
}

/// The most decisions that are noted of a packet: without loops each place can be passed once.
fn most_decisions(pipeline: &Pipeline) -> u32 {
    let parser = |control: &&ir::Control| control.kind.is_parser();
    let most = MAX_DECISIONS - 1;
    if pipeline.controls.values().filter(parser).any(|control| has_loop(&control.body)) {
        return most as u32;
    }
    let decides = |term: &Term| match term {
        Term::Branch { .. } | Term::Switch { .. } => 1,
        Term::Apply { .. } => 2,
        _ => 0,
    };
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let terms: usize = blocks.filter_map(|block| block.term.as_ref()).map(|term| decides(&term.term)).sum();
    // What the architecture decides between the blocks, and why a parser gave up.
    (terms + pipeline.insts().count() + 8).min(most) as u32
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
