//! [`WorkerCell`]: per-worker state that other threads access occasionally.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};

/// Mutex for a worker's state that prefers visitors. The worker locks it for each batch. With a
/// plain mutex a busy worker would lock it again before a waiting visitor wakes up. Visitors take
/// turns.
#[derive(Debug, Default)]
pub struct WorkerCell<T> {
    inside: Mutex<T>,
    /// Locked by the visitor that waits or is inside.
    door: Mutex<()>,
    visited: AtomicBool,
}

/// Guard of a visitor.
#[derive(Debug)]
pub struct WorkerCellGuard<'s, T> {
    // Fields drop in this order: a worker that waits for the door then finds `inside` free.
    pub inside: MutexGuard<'s, T>,
    _ends: VisitEnd<'s>,
    _door: MutexGuard<'s, ()>,
}

/// Clears the visitor flag when dropped.
#[derive(Debug)]
struct VisitEnd<'s>(&'s AtomicBool);

impl Drop for VisitEnd<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> WorkerCell<T> {
    pub fn new(inside: T) -> WorkerCell<T> {
        WorkerCell { inside: Mutex::new(inside), door: Mutex::default(), visited: AtomicBool::new(false) }
    }

    /// Locks the state for the worker. Waits for a visitor.
    #[inline]
    pub fn lock_for_worker(&self) -> MutexGuard<'_, T> {
        if self.visited.load(Ordering::Acquire) {
            drop(self.door.lock());
        }
        self.inside.lock()
    }

    /// Locks the state for a visitor, after the worker's current batch. The worker cannot lock the
    /// state again before the guard is dropped.
    pub fn lock_for_visitor(&self) -> WorkerCellGuard<'_, T> {
        let door = self.door.lock();
        self.visited.store(true, Ordering::Release);
        let ends = VisitEnd(&self.visited);
        WorkerCellGuard { inside: self.inside.lock(), _ends: ends, _door: door }
    }
}

#[cfg(test)]
mod tests {
    use super::WorkerCell;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Visitors get access beside a worker that relocks at once, and no update is lost.
    #[test]
    fn visitors_get_in_beside_a_worker_that_never_rests() {
        let (seat, stop) = (WorkerCell::new((0u64, 0u64)), AtomicBool::new(false));
        let taken = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut taken = 0;
                while !stop.load(Ordering::Relaxed) {
                    let mut inside = seat.lock_for_worker();
                    let before = inside.0;
                    (0..1_000).for_each(|_| std::hint::spin_loop());
                    inside.0 = before + 1;
                    taken += 1;
                }
                taken
            });
            let visitors = [0; 2].map(|_| {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mut visit = seat.lock_for_visitor();
                        let before = *visit.inside;
                        std::thread::yield_now();
                        *visit.inside = (before.0, before.1 + 1);
                    }
                })
            });
            visitors.into_iter().for_each(|visitor| visitor.join().expect("a visitor"));
            stop.store(true, Ordering::Relaxed);
            worker.join().expect("the worker")
        });
        assert_eq!(*seat.lock_for_worker(), (taken, 1_000));
    }
}
