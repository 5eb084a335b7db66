//! [`BackingEngine`]: interface of a rewrite cache to the engine that runs its misses.

use entries::{ControlState, StateChange, StoredEntry, WriteBatch, WriteError};
use interp::{DeferredCount, IdleEntry, Interp};
use ir::TableId;
use packet::ReasonTable;
use std::borrow::Cow;

/// Engine with all state: tables and counters. Packets find entries by number.
pub trait BackingEngine {
    /// Recorded decisions are numbered as in the interpreter's code.
    const DECIDES_AS_INTERP: bool;

    /// Returns a word of the action data of entry `found`, or of the default action.
    fn action_data_word(&self, table: TableId, found: Option<u32>, word: usize) -> Option<u64>;

    /// Returns the generation of an entry, which distinguishes it from earlier entries of its
    /// number.
    fn generation(&self, table: TableId, number: u32) -> u32;

    /// Returns the entry of a number.
    fn entry_of(&self, table: TableId, number: u32) -> Option<Cow<'_, StoredEntry>>;

    /// Reports that another path handled a packet at `now` (ns). Returns the engine's time.
    fn observe_time(&mut self, now: u64) -> u64;

    /// Applies deferred counts: number of packets, and time of the last (ns). `bytes` is the
    /// counter's total for all of them.
    fn apply_counts(&mut self, credit: &DeferredCount, packets: u64, bytes: u64, last: u64);

    /// Applies a batch atomically and reports the changes with their entry numbers.
    ///
    /// # Errors
    /// No state has changed.
    fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: &mut dyn FnMut(&StateChange, Option<u32>),
    ) -> Result<(), WriteError>;

    /// Advances time to `now` (ns). Returns the idle entries.
    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry>;

    /// Calls `f` with the control state of the tables.
    fn with_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R;

    /// Releases the reader's hold on the tables before a pause.
    fn park(&mut self) {}

    /// Returns the drop reasons.
    fn reasons(&self) -> &ReasonTable;

    /// Queues notifications of idle entries for the controller.
    fn notify(&mut self, idle: Vec<IdleEntry>);
}

impl BackingEngine for Interp {
    const DECIDES_AS_INTERP: bool = true;

    fn action_data_word(&self, table: TableId, found: Option<u32>, word: usize) -> Option<u64> {
        self.args(table, found)?.get(word).copied()
    }

    fn generation(&self, table: TableId, number: u32) -> u32 {
        Interp::generation(self, table, number)
    }

    fn entry_of(&self, table: TableId, number: u32) -> Option<Cow<'_, StoredEntry>> {
        Interp::entry_in_slot(self, table, number).map(Cow::Borrowed)
    }

    fn observe_time(&mut self, now: u64) -> u64 {
        Interp::advance_clock(self, now)
    }

    fn apply_counts(&mut self, credit: &DeferredCount, packets: u64, bytes: u64, last: u64) {
        Interp::add_deferred_count(self, credit, packets, bytes, last);
    }

    fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: &mut dyn FnMut(&StateChange, Option<u32>),
    ) -> Result<(), WriteError> {
        Interp::write_observed(self, batch, note)
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        Interp::advance_time(self, now)
    }

    fn with_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R {
        f(self.state())
    }

    fn reasons(&self) -> &ReasonTable {
        packet::Engine::reasons(self)
    }

    fn notify(&mut self, idle: Vec<IdleEntry>) {
        Interp::notify(self, idle);
    }
}
