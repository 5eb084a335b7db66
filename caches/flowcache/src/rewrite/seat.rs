//! [`Seat`]: what a worker has for itself, and others now and then.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};

/// A worker takes what is in it for each batch, which nobody keeps it from; visitors come one at a time. A worker that never rests would find a plain lock free each time before
/// whoever waits for it has woken up: here it lets a visitor in first.
#[derive(Debug, Default)]
pub struct Seat<T> {
    inside: Mutex<T>,
    /// Held by the visitor, who waits or is inside.
    door: Mutex<()>,
    visited: AtomicBool,
}

/// A visitor is inside.
#[derive(Debug)]
pub struct Visit<'s, T> {
    // The order in which they go: who waits at the door finds it free inside.
    pub inside: MutexGuard<'s, T>,
    _ends: Ends<'s>,
    _door: MutexGuard<'s, ()>,
}

/// Says that nobody visits any more.
#[derive(Debug)]
struct Ends<'s>(&'s AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Seat<T> {
    pub fn new(inside: T) -> Seat<T> {
        Seat { inside: Mutex::new(inside), door: Mutex::default(), visited: AtomicBool::new(false) }
    }

    /// The worker takes it.
    #[inline]
    pub fn take(&self) -> MutexGuard<'_, T> {
        if self.visited.load(Ordering::Acquire) {
            drop(self.door.lock());
        }
        self.inside.lock()
    }

    /// Somebody else has it, as soon as the worker's batch is done.
    pub fn visit(&self) -> Visit<'_, T> {
        let door = self.door.lock();
        self.visited.store(true, Ordering::Release);
        let ends = Ends(&self.visited);
        Visit { inside: self.inside.lock(), _ends: ends, _door: door }
    }
}

#[cfg(test)]
mod tests {
    use super::Seat;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A worker that never lets go for long, and visitors: each gets in, and nobody's additions are lost.
    #[test]
    fn visitors_get_in_beside_a_worker_that_never_rests() {
        let (seat, stop) = (Seat::new((0u64, 0u64)), AtomicBool::new(false));
        let taken = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut taken = 0;
                while !stop.load(Ordering::Relaxed) {
                    let mut inside = seat.take();
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
                        let mut visit = seat.visit();
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
        assert_eq!(*seat.take(), (taken, 1_000));
    }
}
