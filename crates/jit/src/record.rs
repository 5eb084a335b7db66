//! [`Record`]: what is noted of a packet's way, for whoever keeps what became of flows.
//!
//! An engine made by [`crate::Jit::recording`] notes each packet's decisions, what tables were asked and what they found, and the elements of counters. Native
//! code appends to lists in the packet's frame; lookups are noted by the worker, which has keys and answers. The lists have an end: what is noted beyond it
//! takes the place of what was noted first, and the record says that it is not complete.
#![allow(unsafe_code)]

use crate::abi::{Head, destination};
use ir::{Entity, Pipeline, TableId};
use tables::fast::{LookupShape, ValueLayout};
use tables::{KeyLayout, words_for};

/// Decisions that are noted; a power of two, as all of these.
pub const DECISIONS: u32 = 512;
/// Table applications that are noted.
pub const APPLICATIONS: u32 = 64;
/// Counts that are noted.
pub const INDICES: u32 = 32;
/// Words of keys that are noted.
const KEYS: usize = 256;

/// The parser rejected the packet, and the number of the place where it did: no number of a choice.
pub const REJECTED: u32 = 1 << 31;
/// Above what became of the packet, the last decision.
const LEFT: u32 = 1 << 30;

/// A table application.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Application {
    /// The table.
    pub table: u32,
    /// The number of the entry that was found, plus 1; 0 if none was.
    pub found: u32,
    /// The first of its key's words.
    first: u32,
    words: u32,
}

/// The lists in a frame.
#[repr(C)]
#[derive(Debug)]
pub struct Notes {
    /// How many decisions there were.
    pub decisions: u32,
    /// How many table applications.
    pub applications: u32,
    /// How many counts.
    pub indices: u32,
    /// How many words of keys, those included that there was no room for.
    pub keys: u32,
    /// See [`Record::decisions`].
    pub decided: [u32; DECISIONS as usize],
    /// See [`Record::applications`].
    pub applied: [Application; APPLICATIONS as usize],
    /// See [`Record::indices`].
    pub counted: [u64; INDICES as usize],
    words: [u64; KEYS],
}

/// Where the parts of a table's key lie in a lookup key: word, shift, width in bits; in the order of [`KeyLayout`].
type Parts = Vec<(usize, u32, u32)>;

/// How an engine records.
#[derive(Debug)]
pub struct Recording {
    /// Offset of the lists in a frame.
    pub at: u32,
    /// By table.
    keys: Vec<Parts>,
    /// By table: an entry that is found may have no action, as if none was.
    profiles: Vec<bool>,
}

impl Recording {
    /// Of tables with these shapes.
    pub fn new(pipeline: &Pipeline, shapes: &[LookupShape], at: u32) -> Recording {
        let parts = |(id, table): (TableId, &ir::Table)| {
            let place = |position: usize| shapes[id.index()].keys.iter().find(|place| place.position == position);
            let fields = KeyLayout::new(&table.keys).fields;
            let parts = fields.iter().filter_map(|field| place(field.position));
            parts.map(|place| ((place.bit / 64) as usize, place.bit % 64, place.width)).collect()
        };
        let profiles = pipeline.tables.values().map(|table| table.implementation.is_some()).collect();
        Recording { at, keys: pipeline.tables.iter().map(parts).collect(), profiles }
    }

    /// Notes that a table was asked with a lookup key, and what it found: the value, or null.
    ///
    /// # Safety
    /// `value` is what the table's lookups gave, with entries' numbers.
    pub unsafe fn asked(&self, notes: &mut Notes, table: TableId, key: &[u64], value: *const u8) {
        // SAFETY: as promised.
        let number = || unsafe { value.add(ValueLayout::ENTRY_ID).cast::<u32>().read_unaligned() };
        let found = if value.is_null() { 0 } else { u32::from_le(number()) + 1 };
        if self.profiles[table.index()] {
            notes.decide(u32::from(found != 0));
        }
        let first = notes.keys;
        for (word, shift, width) in &self.keys[table.index()] {
            for part in 0..words_for(*width) as u32 {
                let at = *word + part as usize;
                let low = key.get(at).map_or(0, |low| low >> shift);
                let high = if *shift == 0 { 0 } else { key.get(at + 1).map_or(0, |high| high << (64 - shift)) };
                let left = width - (64 * part).min(*width);
                let mask = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
                if let Some(to) = notes.words.get_mut(notes.keys as usize) {
                    *to = (low | high) & mask;
                }
                notes.keys = notes.keys.saturating_add(1);
            }
        }
        let place = (notes.applications % APPLICATIONS) as usize;
        notes.applied[place] = Application { table: table.0, found, first, words: notes.keys - first };
        notes.applications += 1;
    }
}

impl Notes {
    /// Nothing is noted yet.
    ///
    /// # Safety
    /// `at` is where a frame has its lists.
    pub unsafe fn begin(at: *mut u8) {
        // SAFETY: as promised; the counts come first.
        unsafe { at.cast::<[u32; 4]>().write([0; 4]) };
    }

    fn decide(&mut self, word: u32) {
        self.decided[(self.decisions % DECISIONS) as usize] = word;
        self.decisions = self.decisions.saturating_add(1);
    }

    /// What became of the packet is the last decision.
    pub fn end(&mut self, head: &Head) {
        let (kind, high) = (head.destination as u32, (head.destination >> 32) as u32);
        let kind = kind & !destination::AS_IT_LIES;
        let why = if kind == destination::GAVE_UP { high & 0xff } else { 0 };
        self.decide(LEFT | kind << 8 | why);
    }

    /// What was noted.
    pub fn record(&self) -> Record<'_> {
        let count = |noted: u32, most: u32| noted.min(most) as usize;
        Record {
            decisions: &self.decided[..count(self.decisions, DECISIONS)],
            applications: &self.applied[..count(self.applications, APPLICATIONS)],
            indices: &self.counted[..count(self.indices, INDICES)],
            keys: &self.words[..(self.keys as usize).min(KEYS)],
            complete: self.decisions <= DECISIONS
                && self.applications <= APPLICATIONS
                && self.indices <= INDICES
                && self.keys as usize <= KEYS,
        }
    }
}

/// What is noted of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// The packet's way: packets that have the same ones took the same decisions in all blocks, those without a jump (`select`, conditions of checksums) included. What earlier
    /// ones determine may be left out.
    pub decisions: &'r [u32],
    /// The tables that were applied, in order.
    pub applications: &'r [Application],
    /// The elements of counters that were counted in, in order; [`u64::MAX`] for a number that is wider than 64 bits.
    pub indices: &'r [u64],
    keys: &'r [u64],
    /// All of it was noted.
    pub complete: bool,
}

impl<'r> Record<'r> {
    /// The words of the keys that a table was asked with: each match key by itself, in the order of [`KeyLayout`], least significant word first.
    pub fn key(&self, application: &Application) -> &'r [u64] {
        let first = application.first as usize;
        self.keys.get(first..first + application.words as usize).unwrap_or_default()
    }
}

impl Application {
    /// The number of the entry that was found.
    pub fn entry(&self) -> Option<u32> {
        self.found.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Application, DECISIONS, Notes};

    #[test]
    fn a_full_record_says_so() {
        let (applied, words) = ([Application::default(); 64], [0; 256]);
        let (decided, counted) = ([0; DECISIONS as usize], [0; 32]);
        let mut notes = Notes { decisions: 0, applications: 0, indices: 0, keys: 0, decided, applied, counted, words };
        assert!(notes.record().complete && notes.record().decisions.is_empty());
        notes.decisions = DECISIONS;
        assert!(notes.record().complete);
        for (full, count) in [(DECISIONS + 1, 0), (u32::MAX, 1)] {
            notes.decisions = full;
            assert!(!notes.record().complete && notes.record().decisions.len() == DECISIONS as usize, "{count}");
        }
        (notes.decisions, notes.keys) = (1, 257);
        assert!(
            !notes.record().complete
                && notes.record().key(&Application { first: 250, words: 9, ..applied[0] }).is_empty()
        );
    }
}
