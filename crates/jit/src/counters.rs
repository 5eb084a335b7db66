//! Counters that a worker counts in place, without atomic additions: each worker has its own, a reader adds them up.
#![allow(unsafe_code)]

use crate::abi::Counters;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// One worker's counters, by extern object.
pub struct WorkerCounters {
    arrays: Vec<UnsafeCell<Box<[[u64; 2]]>>>,
}

// SAFETY: only the worker writes, by native code; others read whole words (see `get`).
unsafe impl Sync for WorkerCounters {}
// SAFETY: as above.
unsafe impl Send for WorkerCounters {}

impl WorkerCounters {
    /// Counters of these sizes.
    pub fn new(sizes: &[Option<u64>]) -> WorkerCounters {
        // Zeroed memory comes from the system as it is touched: a million counters that nobody counts cost nothing.
        let array = |size: &Option<u64>| UnsafeCell::new(vec![[0; 2]; size.unwrap_or(0) as usize].into_boxed_slice());
        WorkerCounters { arrays: sizes.iter().map(array).collect() }
    }

    /// Where they are, for native code.
    pub fn arrays(&self) -> Vec<Counters> {
        let one = |array: &UnsafeCell<Box<[[u64; 2]]>>| {
            // SAFETY: the box itself never changes after it is made.
            let array = unsafe { &mut *array.get() };
            Counters { at: array.as_mut_ptr(), len: array.len() as u64 }
        };
        self.arrays.iter().map(one).collect()
    }

    fn array(&self, object: usize) -> Option<&[[u64; 2]]> {
        // SAFETY: the box itself never changes after it is made; of its words only whole ones are read (see `get`).
        self.arrays.get(object).map(|array| unsafe { &**array.get() })
    }

    /// Adds packets and bytes to a counter, if there is such. Only the worker itself may call this, and not while its code runs.
    pub fn add(&self, object: usize, index: u64, more: [u64; 2]) {
        let Some(before) = self.get(object, index) else { return };
        let Some(element) = self.array(object).and_then(|array| array.get(index as usize)) else { return };
        for half in [0, 1] {
            // SAFETY: an aligned word, which nobody else writes to; each is written as a whole.
            let word = unsafe { AtomicU64::from_ptr((&raw const element[half]).cast_mut()) };
            word.store(before[half].wrapping_add(more[half]), Ordering::Relaxed);
        }
    }

    /// Packets and bytes of a counter; `None` if there is no such.
    pub fn get(&self, object: usize, index: u64) -> Option<[u64; 2]> {
        let element = self.array(object)?.get(usize::try_from(index).ok()?)?;
        // SAFETY: an aligned word, which the worker may be writing to; each is read as a whole.
        Some(
            [0, 1].map(|half| {
                unsafe { AtomicU64::from_ptr((&raw const element[half]).cast_mut()) }.load(Ordering::Relaxed)
            }),
        )
    }
}
