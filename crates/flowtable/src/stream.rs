//! The stream of changes: rings of the members, and a bit for each record that a full ring missed.
//!
//! An item names a record; it does not copy it. The reader reads the record when it comes to the
//! item, and reports its present state. So the order of items of different rings does not matter,
//! a full ring costs one bit per record, and packets never wait for the reader.
#![allow(unsafe_code)]

use crate::ShapeError;
use crate::area::Area;
use crate::word::Padded;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// Reason of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The entry was added.
    Added,
    /// The entry got another record with another value.
    Modified,
    /// Profile or state of the entry changed.
    Updated,
    /// The entry was removed by a packet or the controller, or its record was replaced.
    Removed,
    /// The entry was removed because its idle time was over.
    Expired,
    /// A reader that was late has found the record in this state; changes before are not
    /// reported.
    Coalesced,
}

/// An item of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub record: u32,
    pub generation: u32,
    pub kind: ChangeKind,
    pub tick: u32,
}

impl Item {
    const KINDS: [ChangeKind; 6] = [
        ChangeKind::Added,
        ChangeKind::Modified,
        ChangeKind::Updated,
        ChangeKind::Removed,
        ChangeKind::Expired,
        ChangeKind::Coalesced,
    ];

    fn pack(self) -> [u64; 2] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [pair(self.record, self.generation), pair(self.kind as u32, self.tick)]
    }

    fn unpack([first, second]: [u64; 2]) -> Item {
        let kind = Self::KINDS[second as u32 as usize % Self::KINDS.len()];
        Item { record: first as u32, generation: (first >> 32) as u32, kind, tick: (second >> 32) as u32 }
    }
}

/// A ring that one member writes and one reader reads.
struct Ring {
    head: Padded<AtomicU32>,
    /// The writer's idea of the tail, so that it seldom reads the reader's line.
    known_tail: Padded<AtomicU32>,
    tail: Padded<AtomicU32>,
    items: Box<[[AtomicU64; 2]]>,
}

impl Ring {
    fn new(len: u32) -> Ring {
        let items = (0..len).map(|_| [0, 0].map(AtomicU64::new)).collect();
        Ring { head: Padded::default(), known_tail: Padded::default(), tail: Padded::default(), items }
    }

    fn slot(&self, at: u32) -> &[AtomicU64; 2] {
        &self.items[at as usize & (self.items.len() - 1)]
    }

    /// Appends an item. Returns false if the ring is full.
    fn push(&self, item: Item) -> bool {
        let (head, len) = (self.head.0.load(Relaxed), self.items.len() as u32);
        if head.wrapping_sub(self.known_tail.0.load(Relaxed)) >= len {
            self.known_tail.0.store(self.tail.0.load(Acquire), Relaxed);
            if head.wrapping_sub(self.known_tail.0.load(Relaxed)) >= len {
                return false;
            }
        }
        for (word, value) in self.slot(head).iter().zip(item.pack()) {
            word.store(value, Relaxed);
        }
        self.head.0.store(head.wrapping_add(1), Release);
        true
    }

    fn pop(&self) -> Option<Item> {
        let tail = self.tail.0.load(Relaxed);
        if tail == self.head.0.load(Acquire) {
            return None;
        }
        let slot = self.slot(tail);
        let item = Item::unpack([slot[0].load(Relaxed), slot[1].load(Relaxed)]);
        self.tail.0.store(tail.wrapping_add(1), Release);
        Some(item)
    }

    fn len(&self) -> u32 {
        self.head.0.load(Relaxed).wrapping_sub(self.tail.0.load(Relaxed))
    }
}

/// Rings and bits of one reader.
pub(crate) struct Rings {
    rings: Vec<Ring>,
    dirty: Area,
    records: u32,
    has_dirty: AtomicBool,
    coalesced: AtomicU64,
}

impl Rings {
    pub fn new(members: usize, ring_items: u32, records: u32) -> Result<Rings, ShapeError> {
        Ok(Rings {
            rings: (0..members).map(|_| Ring::new(ring_items)).collect(),
            dirty: Area::new((records as usize / 64 + 1) * 8)?,
            records,
            has_dirty: AtomicBool::new(false),
            coalesced: AtomicU64::new(0),
        })
    }

    fn dirty_word(&self, record: u32) -> &AtomicU64 {
        assert!(record <= self.records, "record {record} of {}", self.records);
        // SAFETY: in the area, aligned, and accessed as atomics only.
        unsafe { AtomicU64::from_ptr(self.dirty.at(record as usize / 64 * 8).cast()) }
    }

    fn push(&self, member: usize, item: Item) {
        if !self.rings[member].push(item) {
            self.dirty_word(item.record).fetch_or(1 << (item.record % 64), AcqRel);
            self.has_dirty.store(true, Release);
            self.coalesced.fetch_add(1, Relaxed);
        }
    }

    /// Forgets all items, for a new reader.
    pub fn clear(&self) {
        self.rings.iter().for_each(|ring| while ring.pop().is_some() {});
        self.drain_dirty(|_| {});
    }

    /// Takes at most `budget` items, in turn from all rings. Returns whether all were empty.
    pub fn drain(&self, budget: u32, mut visit: impl FnMut(Item)) -> bool {
        let (mut left, mut is_empty) = (budget, true);
        for ring in &self.rings {
            // No more than there are now, so that a fast writer does not keep the reader.
            for _ in 0..ring.len().min(left) {
                let Some(item) = ring.pop() else { break };
                visit(item);
                left -= 1;
            }
            is_empty &= ring.len() == 0;
        }
        is_empty
    }

    /// Takes all records that full rings have missed.
    pub fn drain_dirty(&self, mut visit: impl FnMut(u32)) {
        if !self.has_dirty.swap(false, AcqRel) {
            return;
        }
        for first in (0..=self.records).step_by(64) {
            let word = self.dirty_word(first);
            if word.load(Relaxed) != 0 {
                let mut bits = word.swap(0, AcqRel);
                while bits != 0 {
                    visit(first + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Returns the number of items in the rings.
    pub fn len(&self) -> u64 {
        self.rings.iter().map(|ring| u64::from(ring.len())).sum()
    }

    pub fn coalesced(&self) -> u64 {
        self.coalesced.load(Relaxed)
    }
}

/// The stream of one table: off until a reader subscribes.
#[derive(Default)]
pub(crate) struct Stream {
    pub is_on: Padded<AtomicBool>,
    rings: OnceLock<Rings>,
    /// Whether there is a reader.
    pub has_reader: Mutex<bool>,
}

impl Stream {
    /// Returns the rings, created with the first reader.
    pub fn rings(&self, create: impl FnOnce() -> Result<Rings, ShapeError>) -> Result<&Rings, ShapeError> {
        if self.rings.get().is_none() {
            let _ = self.rings.set(create()?);
        }
        self.opened().ok_or(ShapeError::AddressSpace { bytes: 0 })
    }

    /// Returns the rings, if there was a reader.
    pub fn opened(&self) -> Option<&Rings> {
        self.rings.get()
    }

    /// Notes a change of a member whose batch began when the stream was on.
    #[cold]
    pub fn push(&self, member: usize, item: Item) {
        if let Some(rings) = self.opened() {
            rings.push(member, item);
        }
    }
}
