//! Counters that a worker updates in place, without atomic additions, because each worker has its
//! own. Readers add them up.
//!
//! Counter objects of one size are interleaved, element by element, because a program that counts
//! by tenant does so at several points and most packets count for one tenant: all counters of a
//! packet then share a cache line.
#![allow(unsafe_code)]

use crate::abi::MIN_DEFERRED_COUNTERS;
use lookup::HugeVec;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes.
type PacketsAndBytes = [u64; 2];

/// Maximum number of interleaved objects: one element of each fills a cache line.
const MAX_INTERLEAVED: usize = 64 / size_of::<PacketsAndBytes>();

/// Location of the elements of a counter object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterRange {
    /// Index of the array.
    array: usize,
    /// Index of the first element in the array.
    first: usize,
    /// Distance between elements, in elements: the number of interleaved objects.
    pub step: usize,
    /// Number of elements.
    pub size: u64,
}

impl CounterRange {
    /// Assigns elements to objects of these sizes; `None` if an object is not counted in place.
    /// Objects of equal size are interleaved in one array, because a packet often counts in several
    /// of them at the same index.
    pub fn assign_ranges(sizes: &[Option<u64>]) -> Vec<Option<CounterRange>> {
        let mut ranges = vec![None; sizes.len()];
        let mut objects_by_size: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (object, size) in sizes.iter().enumerate().filter_map(|(object, size)| Some((object, (*size)?))) {
            objects_by_size.entry(size).or_default().push(object);
        }
        let mut array = 0;
        for (size, objects) in objects_by_size {
            let mut remaining = objects.as_slice();
            while !remaining.is_empty() {
                // The largest power of two that divides a line. Small objects stay in the cache
                // without interleaving.
                let step =
                    if size < MIN_DEFERRED_COUNTERS { 1 } else { 1 << remaining.len().min(MAX_INTERLEAVED).ilog2() };
                let (interleaved, others) = remaining.split_at(step);
                for (first, object) in interleaved.iter().enumerate() {
                    ranges[*object] = Some(CounterRange { array, first, step, size });
                }
                (array, remaining) = (array + 1, others);
            }
        }
        ranges
    }
}

/// Counters of one worker, by extern object.
pub struct WorkerCounters {
    places: Vec<Option<CounterRange>>,
    arrays: Vec<UnsafeCell<HugeVec<PacketsAndBytes>>>,
}

// SAFETY: only the worker writes, by native code; others read whole words (see `get`).
unsafe impl Sync for WorkerCounters {}
// SAFETY: only the worker writes, by native code; others read whole words (see `get`).
unsafe impl Send for WorkerCounters {}

impl WorkerCounters {
    /// Allocates counters of these sizes.
    pub fn new(sizes: &[Option<u64>]) -> WorkerCounters {
        let places = CounterRange::assign_ranges(sizes);
        let mut arrays: BTreeMap<usize, HugeVec<PacketsAndBytes>> = BTreeMap::new();
        // The system supplies zeroed pages when they are first written, so unused counters take no
        // memory.
        for place in places.iter().flatten() {
            arrays.entry(place.array).or_default().grow(place.size as usize * place.step);
        }
        WorkerCounters { places, arrays: arrays.into_values().map(UnsafeCell::new).collect() }
    }

    /// Returns the address of each object's first element for native code; 0 if it has none.
    pub fn addresses(&self) -> Vec<u64> {
        let first = |place: &CounterRange| {
            // SAFETY: the vector itself never changes after construction.
            let array = unsafe { &mut *self.arrays[place.array].get() };
            array.as_mut_ptr().wrapping_add(place.first) as u64
        };
        self.places.iter().map(|place| place.as_ref().map_or(0, first)).collect()
    }

    fn element(&self, object: usize, index: u64) -> Option<&PacketsAndBytes> {
        let place = self.places.get(object)?.as_ref().filter(|place| index < place.size)?;
        // SAFETY: the vector itself never changes after construction; only whole words are read
        // (see `get`).
        let array = unsafe { &**self.arrays[place.array].get() };
        array.get(index as usize * place.step + place.first)
    }

    /// Adds packets and bytes to a counter; does nothing if the element does not exist. Only the
    /// owning worker may call this, and not while its code runs.
    pub fn add_count(&self, object: usize, index: u64, more: PacketsAndBytes) {
        let Some(element) = self.element(object, index) else { return };
        for (word, more) in element.iter().zip(more) {
            // SAFETY: an aligned word that only this thread writes; each is written as a whole.
            let word = unsafe { AtomicU64::from_ptr(std::ptr::from_ref(word).cast_mut()) };
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    /// Returns packets and bytes of an element; `None` if it does not exist.
    pub fn get(&self, object: usize, index: u64) -> Option<PacketsAndBytes> {
        let element = self.element(object, index)?;
        // SAFETY: an aligned word that the worker may be writing; each is read as a whole.
        let word =
            |half: usize| unsafe { AtomicU64::from_ptr((&raw const element[half]).cast_mut()) }.load(Ordering::Relaxed);
        Some([word(0), word(1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters do not overlap, and those of one index are adjacent.
    #[test]
    fn no_two_counters_share_memory() {
        let far = MIN_DEFERRED_COUNTERS + 3;
        let sizes = [
            Some(far),
            None,
            Some(8),
            Some(far),
            Some(far),
            Some(8),
            Some(far + 1),
            Some(far),
            Some(far),
            Some(far),
            Some(0),
        ];
        let counters = WorkerCounters::new(&sizes);
        let addresses = counters.addresses();
        let mut expected = BTreeMap::new();
        for (object, size) in sizes.iter().enumerate() {
            let size = size.unwrap_or(0);
            for index in (0..size).filter(|index| index % 41 == 0 || index + 1 == size) {
                let more = [object as u64 + 1, index + 1];
                counters.add_count(object, index, more);
                expected.insert((object, index), more);
            }
            counters.add_count(object, size, [9, 9]);
            assert_eq!(counters.get(object, size), None);
        }
        assert!(expected.len() > 300);
        for (&(object, index), more) in &expected {
            assert_eq!(counters.get(object, index), Some(*more), "{object} at {index}");
            let step = CounterRange::assign_ranges(&sizes)[object].map_or(0, |place| place.step);
            let at = addresses[object] as *const PacketsAndBytes;
            // SAFETY: the address that native code computes.
            assert_eq!(unsafe { at.wrapping_add(index as usize * step).read() }, *more, "{object} at {index}");
        }
        let line = |object: usize| addresses[object] / 64;
        assert_eq!([line(0), line(3), line(4)], [line(7); 3], "the first four of a size");
        assert_eq!(line(8), line(9), "the other two");
        assert_ne!(line(0), line(8));
    }
}
