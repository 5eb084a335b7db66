//! [`Copies`]: two copies of something, one that readers see and one that the writer changes ("left-right"; Ramalhete and
//! Correia, *Left-Right: A Concurrency Control Technique with Wait-Free Population Oblivious Reads*, 2015).
//!
//! Readers hold the copy that they read by an [`Arc`], from one batch to the next, so the writer sees when the other copy is
//! free by its count. A reader that never comes back costs a copy, not the writer.

use arc_swap::{ArcSwap, Cache};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The writer's end.
#[derive(Debug)]
pub(super) struct Copies<T> {
    current: Arc<ArcSwap<T>>,
    /// What `current` holds.
    shown: Arc<T>,
    standby: Arc<T>,
    /// How many times a copy was published: the current one is of this publication.
    published: u64,
    /// What readers that still hold the standby copy see.
    standby_publication: u64,
    /// Copies that readers didn't let go in time, each with its publication.
    abandoned: Vec<(u64, Arc<T>)>,
}

/// A reader's end. Each thread that reads has its own.
#[derive(Debug)]
pub struct Reader<T = super::Lookups> {
    current: Arc<ArcSwap<T>>,
    held: Option<Cache<Arc<ArcSwap<T>>, Arc<T>>>,
}

impl<T> Clone for Reader<T> {
    /// A reader that holds nothing until it enters.
    fn clone(&self) -> Reader<T> {
        Reader { current: self.current.clone(), held: None }
    }
}

impl<T> Reader<T> {
    /// The copy that is published now: to be called at each start of a batch, and used for that batch. Takes no lock and never
    /// waits; if nothing was published since it was last called, it is one load from memory.
    ///
    /// The reader holds the copy until it enters again or parks, and what it holds the writer can't change: so a reader that has
    /// nothing to do keeps entering, or [parks](Reader::park).
    pub fn enter(&mut self) -> &Arc<T> {
        self.held.get_or_insert_with(|| Cache::new(self.current.clone())).load()
    }

    /// Lets the copy go: before the thread sleeps, or before it writes itself.
    pub fn park(&mut self) {
        self.held = None;
    }
}

impl<T: Clone> Copies<T> {
    pub fn new(first: T) -> Copies<T> {
        let standby = Arc::new(first.clone());
        let shown = Arc::new(first);
        let current = Arc::new(ArcSwap::new(shown.clone()));
        Copies { current, shown, standby, published: 0, standby_publication: 0, abandoned: Vec::new() }
    }

    /// A new reader.
    pub fn reader(&self) -> Reader<T> {
        Reader { current: self.current.clone(), held: None }
    }

    /// The copy that readers don't see, if none still holds it.
    pub fn standby(&mut self) -> Option<&mut T> {
        alone(&mut self.standby)
    }

    /// The same, and the one that readers see.
    pub fn both(&mut self) -> Option<(&mut T, &T)> {
        let Copies { standby, shown, .. } = self;
        Some((alone(standby)?, shown))
    }

    /// The same copy to look at, whoever holds it.
    pub fn standby_as_it_is(&self) -> &T {
        &self.standby
    }

    /// Waits until no reader holds the standby copy, but not longer than that. Returns whether it is so.
    pub fn wait(&mut self, patience: Duration) -> bool {
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

    /// Leaves the standby copy to the reader that holds it and makes another, equal to the current one.
    pub fn renew_standby(&mut self) -> &mut T {
        let fresh = Arc::new(T::clone(&self.shown));
        let old = std::mem::replace(&mut self.standby, fresh);
        self.abandoned.push((self.standby_publication, old));
        self.standby_publication = self.published;
        // Nobody else has seen it, so this never clones.
        Arc::make_mut(&mut self.standby)
    }

    /// Shows the standby copy to readers from their next batch on; the other one becomes the standby copy.
    pub fn publish(&mut self) {
        std::mem::swap(&mut self.standby, &mut self.shown);
        self.current.store(self.shown.clone());
        self.standby_publication = self.published;
        self.published += 1;
    }

    /// How many times a copy was published.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// The oldest publication that a reader may still see. Frees copies that no reader holds any more.
    pub fn oldest_seen(&mut self) -> u64 {
        self.abandoned.retain_mut(|(_, copy)| Arc::get_mut(copy).is_none());
        let standby = if self.standby().is_some() { self.published } else { self.standby_publication };
        self.abandoned.iter().map(|(publication, _)| *publication).fold(standby, u64::min)
    }

    /// All copies there are.
    pub fn all(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        let held = self.abandoned.iter().map(|(_, copy)| copy.clone());
        [self.shown.clone(), self.standby.clone()].into_iter().chain(held)
    }
}

/// What nobody else holds.
fn alone<T>(copy: &mut Arc<T>) -> Option<&mut T> {
    // Asking for the only reference writes to the count's cache line, so look first.
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
        let mut copies = Copies::new(1);
        let mut reader = copies.reader();
        assert_eq!(**reader.enter(), 1);
        *copies.standby().unwrap() = 2;
        copies.publish();
        // It is still in its batch: the writer can't have the copy that it holds.
        assert!(copies.standby().is_none());
        assert!(!copies.wait(Duration::ZERO));
        assert_eq!(copies.oldest_seen(), 0);
        assert_eq!(**reader.enter(), 2);
        assert!(copies.standby().is_some());
        assert_eq!(copies.oldest_seen(), 1);
    }

    #[test]
    fn a_reader_that_parks_or_was_cloned_holds_nothing() {
        let mut copies = Copies::new(1);
        let mut reader = copies.reader();
        reader.enter();
        let mut other = reader.clone();
        reader.park();
        *copies.standby().unwrap() = 2;
        copies.publish();
        assert!(copies.wait(Duration::ZERO));
        assert_eq!((**reader.enter(), **other.enter()), (2, 2));
    }

    #[test]
    fn a_reader_that_never_comes_back_keeps_its_copy_and_nothing_more() {
        let mut copies = Copies::new(vec![0]);
        let mut stuck = copies.reader();
        let mut other = copies.reader();
        stuck.enter();
        for n in 1..5 {
            let free = copies.wait(Duration::ZERO);
            assert_eq!(free, n != 2, "publication {n}");
            let standby = if free { copies.standby().unwrap() } else { copies.renew_standby() };
            standby.push(n);
            copies.publish();
            assert_eq!(copies.oldest_seen(), 0);
        }
        assert_eq!(copies.all().count(), 3);
        assert_eq!(other.enter().last(), Some(&4));
        stuck.park();
        assert_eq!(copies.oldest_seen(), 4);
        assert_eq!(copies.all().count(), 2);
    }
}
