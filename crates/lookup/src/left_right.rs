//! [`LeftRight`]: two copies of a value; readers use one while the writer changes the other
//! (Ramalhete and Correia, *Left-Right: A Concurrency Control Technique with Wait-Free Population
//! Oblivious Reads*, 2015).
//!
//! A reader holds its copy by an [`Arc`] from one batch to the next. The reference count shows the
//! writer when the other copy is free. A stuck reader costs a copy but does not block the writer.

use arc_swap::{ArcSwap, Cache};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writer's handle.
#[derive(Debug)]
pub(super) struct LeftRight<T> {
    current: Arc<ArcSwap<T>>,
    /// The copy that `current` holds.
    published_copy: Arc<T>,
    standby: Arc<T>,
    /// Number of publications, which is also the number of the current copy's publication.
    publication_count: u64,
    /// Publication that readers of the standby copy see.
    standby_publication: u64,
    /// Copies that readers did not release before the timeout, with their publications.
    abandoned_copies: Vec<(u64, Arc<T>)>,
}

/// Reader's handle; each reading thread has its own.
#[derive(Debug)]
pub struct LeftRightReader<T = super::LookupSet> {
    current: Arc<ArcSwap<T>>,
    held: Option<Cache<Arc<ArcSwap<T>>, Arc<T>>>,
}

impl<T> Clone for LeftRightReader<T> {
    /// Creates a reader that holds no copy until [`LeftRightReader::acquire`].
    fn clone(&self) -> LeftRightReader<T> {
        LeftRightReader { current: self.current.clone(), held: None }
    }
}

impl<T> LeftRightReader<T> {
    /// Returns the published copy, for use during one batch. Call it at the start of each batch. It
    /// takes no lock and never waits; if nothing was published since the last call, it costs one
    /// load from memory.
    ///
    /// The reader holds the copy, and so blocks its reuse, until the next `acquire` or `release`.
    /// An idle reader must therefore keep acquiring, or [release](LeftRightReader::release).
    pub fn acquire(&mut self) -> &Arc<T> {
        self.held.get_or_insert_with(|| Cache::new(self.current.clone())).load()
    }

    /// Releases the copy, before the thread sleeps or writes.
    pub fn release(&mut self) {
        self.held = None;
    }
}

impl<T: Clone> LeftRight<T> {
    pub fn new(first: T) -> LeftRight<T> {
        let standby = Arc::new(first.clone());
        let shown = Arc::new(first);
        let current = Arc::new(ArcSwap::new(shown.clone()));
        LeftRight {
            current,
            published_copy: shown,
            standby,
            publication_count: 0,
            standby_publication: 0,
            abandoned_copies: Vec::new(),
        }
    }

    /// Creates a reader.
    pub fn reader(&self) -> LeftRightReader<T> {
        LeftRightReader { current: self.current.clone(), held: None }
    }

    /// Returns the standby copy, if no reader holds it.
    pub fn standby(&mut self) -> Option<&mut T> {
        get_mut_unique(&mut self.standby)
    }

    /// Returns the standby copy, if no reader holds it, and the published copy.
    pub fn standby_and_current(&mut self) -> Option<(&mut T, &T)> {
        let LeftRight { standby, published_copy: shown, .. } = self;
        Some((get_mut_unique(standby)?, shown))
    }

    /// Returns the standby copy for reading, even if a reader holds it.
    pub fn stale_standby(&self) -> &T {
        &self.standby
    }

    /// Waits up to `patience` until no reader holds the standby copy. Returns whether it is free.
    /// It spins first, then yields, then sleeps, because a reader holds a copy for one batch.
    pub fn wait_for_standby(&mut self, patience: Duration) -> bool {
        for _ in 0..2000 {
            if self.standby().is_some() {
                return true;
            }
            std::hint::spin_loop();
        }
        let start = Instant::now();
        loop {
            if self.standby().is_some() {
                return true;
            }
            let waited = start.elapsed();
            if waited >= patience {
                return false;
            }
            match waited < Duration::from_micros(200) {
                true => std::thread::yield_now(),
                false => std::thread::sleep(Duration::from_micros(50).min(patience - waited)),
            }
        }
    }

    /// Abandons the standby copy to the reader that holds it, and clones the published copy as the
    /// new standby.
    pub fn replace_standby(&mut self) -> &mut T {
        let fresh = Arc::new(T::clone(&self.published_copy));
        let old = std::mem::replace(&mut self.standby, fresh);
        self.abandoned_copies.push((self.standby_publication, old));
        self.standby_publication = self.publication_count;
        // No other reference exists, so this never clones.
        Arc::make_mut(&mut self.standby)
    }

    /// Publishes the standby copy to readers from their next batch on. The other copy becomes the
    /// standby copy.
    pub fn publish(&mut self) {
        std::mem::swap(&mut self.standby, &mut self.published_copy);
        self.current.store(self.published_copy.clone());
        self.standby_publication = self.publication_count;
        self.publication_count += 1;
    }

    /// Returns the number of publications.
    pub fn publication_count(&self) -> u64 {
        self.publication_count
    }

    /// Returns the oldest publication that a reader may still hold. Frees abandoned copies without
    /// readers.
    pub fn oldest_held(&mut self) -> u64 {
        self.abandoned_copies.retain_mut(|(_, copy)| Arc::get_mut(copy).is_none());
        let standby = if self.standby().is_some() { self.publication_count } else { self.standby_publication };
        self.abandoned_copies.iter().map(|(publication, _)| *publication).fold(standby, u64::min)
    }

    /// Returns all copies.
    pub fn all_copies(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        let held = self.abandoned_copies.iter().map(|(_, copy)| copy.clone());
        [self.published_copy.clone(), self.standby.clone()].into_iter().chain(held)
    }
}

/// Returns mutable access if this is the only reference.
fn get_mut_unique<T>(copy: &mut Arc<T>) -> Option<&mut T> {
    // `Arc::get_mut` writes to the cache line of the reference count, so read the count first.
    match Arc::strong_count(copy) {
        1 => Arc::get_mut(copy),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_it_entered_until_it_enters_again() {
        let mut copies = LeftRight::new(1);
        let mut reader = copies.reader();
        assert_eq!(**reader.acquire(), 1);
        *copies.standby().unwrap() = 2;
        copies.publish();
        // The reader is still in its batch, so the writer can't have the copy that it holds.
        assert!(copies.standby().is_none());
        assert!(!copies.wait_for_standby(Duration::ZERO));
        assert_eq!(copies.oldest_held(), 0);
        assert_eq!(**reader.acquire(), 2);
        assert!(copies.standby().is_some());
        assert_eq!(copies.oldest_held(), 1);
    }

    #[test]
    fn a_reader_that_parks_or_was_cloned_holds_nothing() {
        let mut copies = LeftRight::new(1);
        let mut reader = copies.reader();
        reader.acquire();
        let mut other = reader.clone();
        reader.release();
        *copies.standby().unwrap() = 2;
        copies.publish();
        assert!(copies.wait_for_standby(Duration::ZERO));
        assert_eq!((**reader.acquire(), **other.acquire()), (2, 2));
    }

    #[test]
    fn a_reader_that_never_comes_back_keeps_its_copy_and_nothing_more() {
        let mut copies = LeftRight::new(vec![0]);
        let mut stuck = copies.reader();
        let mut other = copies.reader();
        stuck.acquire();
        for n in 1..5 {
            let free = copies.wait_for_standby(Duration::ZERO);
            assert_eq!(free, n != 2, "publication {n}");
            let standby = if free { copies.standby().unwrap() } else { copies.replace_standby() };
            standby.push(n);
            copies.publish();
            assert_eq!(copies.oldest_held(), 0);
        }
        assert_eq!(copies.all_copies().count(), 3);
        assert_eq!(other.acquire().last(), Some(&4));
        stuck.release();
        assert_eq!(copies.oldest_held(), 4);
        assert_eq!(copies.all_copies().count(), 2);
    }
}
