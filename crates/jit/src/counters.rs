//! Counters that a worker counts in place, without atomic additions: each worker has its own, a reader adds them up.
//!
//! Programs that count by tenant do it at several points, and most packets count for one tenant: so objects of one size lie together, element by element, and a packet's counters
//! share a cache line.
#![allow(unsafe_code)]

use crate::abi::FAR_COUNTERS;
use lookup::HugeVec;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes.
type Element = [u64; 2];

/// The most objects that lie together: their elements fill a cache line.
const TOGETHER: usize = 64 / size_of::<Element>();

/// Where an object's elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In which array.
    array: usize,
    /// The first one, among those of other objects.
    first: usize,
    /// From one to the next, in elements: how many objects lie together.
    pub step: usize,
    /// How many.
    pub size: u64,
}

impl Place {
    /// Those of objects of these sizes; `None`: it has no elements here.
    pub fn of(sizes: &[Option<u64>]) -> Vec<Option<Place>> {
        let mut places = vec![None; sizes.len()];
        let mut alike: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (object, size) in sizes.iter().enumerate().filter_map(|(object, size)| Some((object, (*size)?))) {
            alike.entry(size).or_default().push(object);
        }
        let mut array = 0;
        for (size, objects) in alike {
            let mut rest = objects.as_slice();
            while !rest.is_empty() {
                // As many as divide a line. Those of few elements stay near wherever they lie.
                let step = if size < FAR_COUNTERS { 1 } else { 1 << rest.len().min(TOGETHER).ilog2() };
                let (together, others) = rest.split_at(step);
                for (first, object) in together.iter().enumerate() {
                    places[*object] = Some(Place { array, first, step, size });
                }
                (array, rest) = (array + 1, others);
            }
        }
        places
    }
}

/// One worker's counters, by extern object.
pub struct WorkerCounters {
    places: Vec<Option<Place>>,
    arrays: Vec<UnsafeCell<HugeVec<Element>>>,
}

// SAFETY: only the worker writes, by native code; others read whole words (see `get`).
unsafe impl Sync for WorkerCounters {}
// SAFETY: as above.
unsafe impl Send for WorkerCounters {}

impl WorkerCounters {
    /// Counters of these sizes.
    pub fn new(sizes: &[Option<u64>]) -> WorkerCounters {
        let places = Place::of(sizes);
        let mut arrays: BTreeMap<usize, HugeVec<Element>> = BTreeMap::new();
        // Zeroed memory comes from the system as it is touched: a million counters that nobody counts cost nothing.
        for place in places.iter().flatten() {
            arrays.entry(place.array).or_default().grow(place.size as usize * place.step);
        }
        WorkerCounters { places, arrays: arrays.into_values().map(UnsafeCell::new).collect() }
    }

    /// The address of each object's first element, for native code; 0 if it has none.
    pub fn addresses(&self) -> Vec<u64> {
        let first = |place: &Place| {
            // SAFETY: the vector itself never changes after it is made.
            let array = unsafe { &mut *self.arrays[place.array].get() };
            array.as_mut_ptr().wrapping_add(place.first) as u64
        };
        self.places.iter().map(|place| place.as_ref().map_or(0, first)).collect()
    }

    fn element(&self, object: usize, index: u64) -> Option<&Element> {
        let place = self.places.get(object)?.as_ref().filter(|place| index < place.size)?;
        // SAFETY: the vector itself never changes after it is made; of its words only whole ones are read (see `get`).
        let array = unsafe { &**self.arrays[place.array].get() };
        array.get(index as usize * place.step + place.first)
    }

    /// Adds packets and bytes to a counter, if there is such. Only the worker itself may call this, and not while its code runs.
    pub fn add(&self, object: usize, index: u64, more: Element) {
        let Some(element) = self.element(object, index) else { return };
        for (word, more) in element.iter().zip(more) {
            // SAFETY: an aligned word, which nobody else writes to; each is written as a whole.
            let word = unsafe { AtomicU64::from_ptr(std::ptr::from_ref(word).cast_mut()) };
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }
    }

    /// Packets and bytes of a counter; `None` if there is no such.
    pub fn get(&self, object: usize, index: u64) -> Option<Element> {
        let element = self.element(object, index)?;
        // SAFETY: an aligned word, which the worker may be writing to; each is read as a whole.
        let word =
            |half: usize| unsafe { AtomicU64::from_ptr((&raw const element[half]).cast_mut()) }.load(Ordering::Relaxed);
        Some([word(0), word(1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each counter is by itself, and those of one index lie together.
    #[test]
    fn no_two_counters_share_memory() {
        let far = FAR_COUNTERS + 3;
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
                counters.add(object, index, more);
                expected.insert((object, index), more);
            }
            counters.add(object, size, [9, 9]);
            assert_eq!(counters.get(object, size), None);
        }
        assert!(expected.len() > 300);
        for (&(object, index), more) in &expected {
            assert_eq!(counters.get(object, index), Some(*more), "{object} at {index}");
            let step = Place::of(&sizes)[object].map_or(0, |place| place.step);
            let at = addresses[object] as *const Element;
            // SAFETY: where native code finds it.
            assert_eq!(unsafe { at.wrapping_add(index as usize * step).read() }, *more, "{object} at {index}");
        }
        let line = |object: usize| addresses[object] / 64;
        assert_eq!([line(0), line(3), line(4)], [line(7); 3], "the first four of a size");
        assert_eq!(line(8), line(9), "the other two");
        assert_ne!(line(0), line(8));
    }
}
