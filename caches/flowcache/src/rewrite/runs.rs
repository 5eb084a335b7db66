//! [`Runs`]: what a cache of rewrites asks of the engine that runs the packets it has none for.

use entries::{Change, Entry, State, WriteBatch, WriteError};
use interp::{Credit, IdleEntry, Interp};
use ir::TableId;
use packet::ReasonTable;
use std::borrow::Cow;

/// An engine with all state, tables and counters. Entries have numbers, which packets find them by.
pub trait Runs {
    /// What is noted of packets names decisions as the interpreter's code does.
    const DECIDES_AS_INTERP: bool;

    /// A word of the parameters that the entry of that number gives its action; without a number, the default action's.
    fn arg(&self, table: TableId, found: Option<u32>, word: usize) -> Option<u64>;

    /// Tells the entry of a number from those that had the number before.
    fn generation(&self, table: TableId, number: u32) -> u32;

    /// The entry of a number.
    fn entry_of(&self, table: TableId, number: u32) -> Option<Cow<'_, Entry>>;

    /// A packet came at that time, in nanoseconds, that another path handled: the time that it is for the engine.
    fn saw(&mut self, now: u64) -> u64;

    /// Adds what so many packets, the last of them at `last` nanoseconds, would have added. `bytes` is what a counter counts for all of them.
    fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64);

    /// Applies a batch as a whole, and tells what it changed, with the numbers of entries.
    ///
    /// # Errors
    /// Nothing has changed.
    fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: &mut dyn FnMut(&Change, Option<u32>),
    ) -> Result<(), WriteError>;

    /// Time passes: the entries that were idle for too long.
    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry>;

    /// Calls `f` with what was written to the tables.
    fn with_state<R>(&self, f: impl FnOnce(&State) -> R) -> R;

    /// No packet comes for a while: what readers hold of the tables is let go.
    fn park(&mut self) {}

    /// Why packets are dropped.
    fn reasons(&self) -> &ReasonTable;

    /// Keeps notifications of idle entries for whoever takes them.
    fn notify(&mut self, idle: Vec<IdleEntry>);
}

impl Runs for Interp {
    const DECIDES_AS_INTERP: bool = true;

    fn arg(&self, table: TableId, found: Option<u32>, word: usize) -> Option<u64> {
        self.args(table, found)?.get(word).copied()
    }

    fn generation(&self, table: TableId, number: u32) -> u32 {
        Interp::generation(self, table, number)
    }

    fn entry_of(&self, table: TableId, number: u32) -> Option<Cow<'_, Entry>> {
        Interp::entry_of(self, table, number).map(Cow::Borrowed)
    }

    fn saw(&mut self, now: u64) -> u64 {
        Interp::saw(self, now)
    }

    fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        Interp::credit(self, credit, packets, bytes, last);
    }

    fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: &mut dyn FnMut(&Change, Option<u32>),
    ) -> Result<(), WriteError> {
        Interp::write_noting(self, batch, note)
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        Interp::advance_time(self, now)
    }

    fn with_state<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        f(self.state())
    }

    fn reasons(&self) -> &ReasonTable {
        packet::Engine::reasons(self)
    }

    fn notify(&mut self, idle: Vec<IdleEntry>) {
        Interp::notify(self, idle);
    }
}
