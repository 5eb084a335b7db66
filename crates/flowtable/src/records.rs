//! The memory of records: key, value, life word; and the bytes that say when to look at them.
#![allow(unsafe_code)]

use crate::area::Area;
use crate::{RecordLayout, Shape, ShapeError};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Records of a table, by number from 1 to `capacity`. They never move.
pub(crate) struct Records {
    pub layout: RecordLayout,
    /// Greatest record number.
    pub capacity: u32,
    bytes: Area,
    look: Area,
    counters: Option<Area>,
}

impl Records {
    pub fn new(shape: &Shape, layout: RecordLayout, capacity: u32) -> Result<Records, ShapeError> {
        let count = capacity as usize + 1;
        let counters = if shape.has_counters { Some(Area::new(count * 16)?) } else { None };
        Ok(Records { layout, capacity, bytes: Area::new(count * layout.stride)?, look: Area::new(count)?, counters })
    }

    /// Allocates the pages of the records before `end`.
    pub fn populate(&self, end: u32) -> bool {
        let end = end as usize;
        let counters = self.counters.as_ref().is_none_or(|counters| counters.populate(end * 16));
        self.bytes.populate(end * self.layout.stride) && self.look.populate(end) && counters
    }

    /// Returns the address of a record.
    #[inline(always)]
    pub fn address(&self, record: u32) -> *mut u8 {
        self.bytes.at(record as usize * self.layout.stride)
    }

    #[inline(always)]
    fn word(&self, record: u32, at: usize) -> &AtomicU32 {
        assert!(record <= self.capacity, "record {record} of {}", self.capacity);
        // SAFETY: the record lies in the area; strides and positions of words are multiples of 4;
        // these words are accessed as atomics only.
        unsafe { AtomicU32::from_ptr(self.address(record).wrapping_add(at).cast()) }
    }

    /// Returns the life word.
    #[inline(always)]
    pub fn life(&self, record: u32) -> &AtomicU32 {
        self.word(record, RecordLayout::LIFE)
    }

    /// Returns the generation.
    pub fn generation(&self, record: u32) -> &AtomicU32 {
        self.word(record, RecordLayout::GENERATION)
    }

    /// Returns the word of state of a table that has states.
    pub fn state(&self, record: u32) -> Option<&AtomicU32> {
        (self.layout.state != 0).then(|| self.word(record, self.layout.state))
    }

    /// Returns the number of the twin's record (0: none), in a table with pairs.
    pub fn twin(&self, record: u32) -> Option<&AtomicU32> {
        (self.layout.twin != 0).then(|| self.word(record, self.layout.twin))
    }

    /// Returns the lease (0: none), in a table with leases.
    pub fn lease(&self, record: u32) -> Option<&AtomicU32> {
        (self.layout.lease != 0).then(|| self.word(record, self.layout.lease))
    }

    /// Returns the byte that says when the sweep looks at the record; 0: never.
    pub fn look(&self, record: u32) -> &AtomicU8 {
        assert!(record <= self.capacity, "record {record} of {}", self.capacity);
        // SAFETY: the byte lies in the area and is accessed as an atomic only.
        unsafe { AtomicU8::from_ptr(self.look.at(record as usize)) }
    }

    /// Returns the counters of packets and bytes of a table that counts.
    pub fn counters(&self, record: u32) -> Option<[&AtomicU64; 2]> {
        assert!(record <= self.capacity, "record {record} of {}", self.capacity);
        let at = self.counters.as_ref()?.at(record as usize * 16).cast::<u64>();
        // SAFETY: both words lie in the area, are aligned and accessed as atomics only.
        Some(unsafe { [AtomicU64::from_ptr(at), AtomicU64::from_ptr(at.wrapping_add(1))] })
    }

    /// Returns `len` bytes of a record.
    ///
    /// # Safety
    /// No thread writes them while the result is used: the record is an entry of a bucket that
    /// the caller has locked, or it was one during the caller's batch.
    #[inline(always)]
    pub unsafe fn bytes(&self, record: u32, at: usize, len: usize) -> &[u8] {
        debug_assert!(record <= self.capacity && at + len <= self.layout.stride);
        // SAFETY: in the area; the caller excludes writers.
        unsafe { std::slice::from_raw_parts(self.address(record).wrapping_add(at), len) }
    }

    /// Returns the key.
    ///
    /// # Safety
    /// As [`Records::bytes`].
    #[inline(always)]
    pub unsafe fn key(&self, record: u32) -> &[u8] {
        // SAFETY: the caller's duty.
        unsafe { self.bytes(record, self.layout.key, self.layout.key_bytes) }
    }

    /// Returns the owner.
    ///
    /// # Safety
    /// As [`Records::bytes`].
    pub unsafe fn owner(&self, record: u32) -> u32 {
        let mut owner = [0; 4];
        let len = self.layout.owner_bytes;
        // SAFETY: the caller's duty.
        owner[..len].copy_from_slice(unsafe { self.bytes(record, self.layout.owner, len) });
        u32::from_le_bytes(owner)
    }

    /// Writes key, value and owner of a record, and clears its state, twin, lease and counters. The
    /// generation rises; the life word stays as it is.
    ///
    /// # Safety
    /// No entry has the record, and all members have forgotten it.
    pub unsafe fn write(&self, record: u32, key: &[u8], value: &[u8], owner: u32) {
        let (start, layout) = (self.address(record), &self.layout);
        assert_eq!(key.len(), layout.key_bytes, "the length of a key");
        assert_eq!(value.len(), layout.value_bytes, "the length of a value");
        let owner = owner.to_le_bytes();
        // SAFETY: in the record, which this thread alone uses.
        unsafe {
            start.add(layout.key).copy_from_nonoverlapping(key.as_ptr(), key.len());
            start.add(layout.value).copy_from_nonoverlapping(value.as_ptr(), value.len());
            start.add(layout.owner).copy_from_nonoverlapping(owner.as_ptr(), layout.owner_bytes);
        }
        for word in [self.state(record), self.twin(record), self.lease(record)].into_iter().flatten() {
            word.store(0, Relaxed);
        }
        for counter in self.counters(record).into_iter().flatten() {
            counter.store(0, Relaxed);
        }
        let generation = self.generation(record);
        generation.store(generation.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Copies state, twin, lease and counters of `from` to a record that was written and is not visible yet.
    /// Returns the counters.
    pub fn copy_state(&self, from: u32, to: u32) -> Option<[u64; 2]> {
        for word in [Records::state, Records::twin, Records::lease] {
            if let (Some(from), Some(to)) = (word(self, from), word(self, to)) {
                to.store(from.load(Relaxed), Relaxed);
            }
        }
        let counted = self.counters(from)?.map(|counter| counter.load(Relaxed));
        for (to, counted) in self.counters(to)?.into_iter().zip(counted) {
            to.store(counted, Relaxed);
        }
        Some(counted)
    }

    /// Prefetches the lines of a record that a lookup reads.
    #[inline(always)]
    pub fn prefetch(&self, record: u32) {
        let start = self.address(record);
        crate::prefetch::for_read(start);
        if !self.layout.stride.is_multiple_of(64) {
            crate::prefetch::for_read(start.wrapping_add(self.layout.stride - 1));
        }
    }

    /// Prefetches the lines that adding or removing a record writes.
    pub fn prefetch_for_write(&self, record: u32) {
        let start = self.address(record);
        crate::prefetch::for_write(start);
        crate::prefetch::for_write(start.wrapping_add(self.layout.stride - 1));
        crate::prefetch::for_write(self.look.at(record as usize));
    }
}
