//! Words, cells and threads of two model checkers.

use crate::word::Word;
use std::sync::atomic::Ordering::{self, *};

/// A model checker.
pub trait Checker: 'static {
    type Word: Word<u32> + Send + Sync;
    type Long: Word<u64> + Send + Sync;
    /// Key and value of a record. Two threads must not use it at once if one writes.
    type Cell: Send + Sync;

    fn word(value: u32) -> Self::Word;
    fn long(value: u64) -> Self::Long;
    fn cell() -> Self::Cell;
    fn read(cell: &Self::Cell) -> (u8, u8);
    fn write(cell: &Self::Cell, content: (u8, u8));
    /// Runs threads to their end.
    fn join_all(threads: Vec<Box<dyn FnOnce() + Send>>);
}

/// All orders of two threads' steps, with the memory model of the language.
pub struct Loom;
/// Random orders of more threads' steps, each seen by all threads at once.
pub struct Shuttle;

macro_rules! checker_words {
    ($checker:ident, $($atomic:ident $value:ty),*) => {$(
        impl Word<$value> for $checker::sync::atomic::$atomic {
            fn load(&self, order: Ordering) -> $value {
                Self::load(self, order)
            }
            fn store(&self, value: $value, order: Ordering) {
                Self::store(self, value, order)
            }
            fn replace(&self, from: $value, to: $value) -> Result<$value, $value> {
                self.compare_exchange(from, to, AcqRel, Acquire)
            }
            fn add(&self, value: $value) -> $value {
                self.fetch_add(value, AcqRel)
            }
            fn fence(order: Ordering) {
                $checker::sync::atomic::fence(order)
            }
            fn pause(_turn: u32) {
                $checker::thread::yield_now()
            }
        }
    )*};
}

checker_words!(loom, AtomicU32 u32, AtomicU64 u64);
checker_words!(shuttle, AtomicU32 u32, AtomicU64 u64);

impl Checker for Loom {
    type Word = loom::sync::atomic::AtomicU32;
    type Long = loom::sync::atomic::AtomicU64;
    type Cell = LoomCell;

    fn word(value: u32) -> Self::Word {
        Self::Word::new(value)
    }
    fn long(value: u64) -> Self::Long {
        Self::Long::new(value)
    }
    fn cell() -> LoomCell {
        LoomCell(loom::cell::Cell::new((0, 0)))
    }
    fn read(cell: &LoomCell) -> (u8, u8) {
        cell.0.get()
    }
    fn write(cell: &LoomCell, content: (u8, u8)) {
        cell.0.set(content);
    }
    fn join_all(threads: Vec<Box<dyn FnOnce() + Send>>) {
        let threads: Vec<_> = threads.into_iter().map(|thread| loom::thread::spawn(thread)).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread that does not panic"));
    }
}

/// A cell that loom watches: a write while another thread reads or writes fails the test.
pub struct LoomCell(loom::cell::Cell<(u8, u8)>);

#[allow(unsafe_code)]
// SAFETY: loom runs one thread at a time and fails if accesses race.
unsafe impl Send for LoomCell {}
#[allow(unsafe_code)]
// SAFETY: as above.
unsafe impl Sync for LoomCell {}

impl Checker for Shuttle {
    type Word = shuttle::sync::atomic::AtomicU32;
    type Long = shuttle::sync::atomic::AtomicU64;
    /// Two words, so that a write shows in two steps.
    type Cell = [shuttle::sync::atomic::AtomicU8; 2];

    fn word(value: u32) -> Self::Word {
        Self::Word::new(value)
    }
    fn long(value: u64) -> Self::Long {
        Self::Long::new(value)
    }
    fn cell() -> Self::Cell {
        [0, 0].map(shuttle::sync::atomic::AtomicU8::new)
    }
    fn read(cell: &Self::Cell) -> (u8, u8) {
        (cell[0].load(SeqCst), cell[1].load(SeqCst))
    }
    fn write(cell: &Self::Cell, content: (u8, u8)) {
        cell[0].store(content.0, SeqCst);
        cell[1].store(content.1, SeqCst);
    }
    fn join_all(threads: Vec<Box<dyn FnOnce() + Send>>) {
        let threads: Vec<_> = threads.into_iter().map(|thread| shuttle::thread::spawn(thread)).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread that does not panic"));
    }
}

/// Runs a scenario in all orders with at most `switches` switches that no thread asked for.
pub fn check_all_orders(switches: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 20_000;
    builder.check(scenario);
}

/// Orders of each scenario that are tried.
const RANDOM_ORDERS: usize = 3000;

/// Runs a scenario in random orders, by priorities of threads that change at 3 random steps
/// ("probabilistic concurrency testing", Burckhardt and others 2010), and evenly.
pub fn check_random_orders(scenario: impl Fn() + Sync + Send + Clone + 'static) {
    shuttle::check_pct(scenario.clone(), RANDOM_ORDERS, 3);
    shuttle::check_random(scenario, RANDOM_ORDERS);
}
