//! The engine that records packets for a flow cache: [`Jit::new_recording`]. Its other methods
//! match those of [`interp::Interp`] for a cache; only entry ids differ.

use crate::engine::{EngineShared, Execution, Jit, JitError};
use crate::entries::EntriesById;
use crate::record::PacketRecord;
use crate::worker::JitWorker;
use entries::{StateChange, StoredActionRef, StoredEntry, WriteBatch, WriteError};
use interp::{Config, DeferredCount};
use ir::{Entity, Pipeline, TableId};
use packet::{Batch, BatchOutput, Engine, Packet};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

impl Jit {
    /// Makes an engine like [`Jit::new`] that can record packets: [`Jit::process_recorded`]. A
    /// pipeline that runs on the interpreter is not recorded ([`Jit::fallback_reason`]).
    ///
    /// # Errors
    /// Those of [`Jit::new`].
    pub fn new_recording(pipeline: Arc<Pipeline>, config: Config) -> Result<Jit, JitError> {
        Jit::load_pipeline(pipeline, config, true)
    }

    /// Processes a batch like [`Engine::process`] and passes the record of each packet, in order,
    /// to `each`; its verdict is in `out` by then. Does not call `each` if the engine was not made
    /// to record.
    pub fn process_recorded(
        &mut self,
        batch: &mut Batch,
        out: &mut BatchOutput,
        each: &mut dyn FnMut(usize, &PacketRecord<'_>),
    ) {
        match &mut self.execution {
            Execution::Native { reader, worker, .. } => {
                worker.run_batch(batch.packets_mut(), 0, reader.acquire(), out, Some(each));
            }
            Execution::Interpreted { .. } => self.process(batch, out),
        }
    }

    /// Processes consecutive packets like [`Engine::process`] without recording; `first` is the
    /// index of the first in its batch. Returns false, without effect, if the engine has no native
    /// code without recording.
    pub fn process_unrecorded(&mut self, packets: &mut [Packet], first: usize, out: &mut BatchOutput) -> bool {
        match &mut self.execution {
            Execution::Native { reader, worker, unrecorded: Some(quiet), .. } => {
                quiet.continue_from(worker);
                quiet.run_batch(packets, first, reader.acquire(), out, None);
                worker.continue_from(quiet);
                true
            }
            _ => false,
        }
    }

    /// Writes a batch like [`Jit::write`]. If all updates are accepted, passes each change to
    /// `note`, with the id of the entry that was inserted, modified or deleted.
    ///
    /// # Errors
    /// Those of [`Jit::write`].
    pub fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: impl FnMut(&StateChange, Option<u32>),
    ) -> Result<(), WriteError> {
        match &mut self.execution {
            Execution::Native { shared, reader, .. } => {
                // A reader of this thread must not block the writer.
                reader.release();
                shared.write(batch, note)
            }
            Execution::Interpreted { interp, .. } => interp.lock().write_observed(batch, note),
        }
    }

    /// Returns the entry with an id; `None` if it was removed.
    pub fn entry_by_id(&self, table: TableId, number: u32) -> Option<StoredEntry> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.entries()?.get(table, number).cloned(),
            Execution::Interpreted { interp, .. } => interp.lock().entry_in_slot(table, number).cloned(),
        }
    }

    /// Returns the generation of an id, which distinguishes its entry from earlier ones with the
    /// same id.
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        match &self.execution {
            Execution::Native { shared, .. } => shared.entries().map_or(0, |entries| entries.generation(table, number)),
            Execution::Interpreted { interp, .. } => interp.lock().generation(table, number),
        }
    }

    /// Replaces `words` by the action data of the entry with that id, or of the default action for
    /// `None`, laid out by [`entries::action_layout`] and for an entry padded with 0. Returns false
    /// if the entry does not exist.
    pub fn copy_action_data(&self, table: TableId, found: Option<u32>, words: &mut Vec<u64>) -> bool {
        words.clear();
        match (&self.execution, found) {
            (Execution::Native { shared, .. }, Some(number)) => {
                shared.entries().is_some_and(|entries| entries.copy_action_data(table, number, words))
            }
            (Execution::Native { shared, .. }, None) => {
                if let StoredActionRef::Call(_, args) = shared.live.lock().state().default_action(table).packed() {
                    words.extend_from_slice(args);
                }
                true
            }
            (Execution::Interpreted { interp, .. }, found) => {
                interp.lock().args(table, found).map(|args| words.extend_from_slice(args)).is_some()
            }
        }
    }

    /// Records that a packet arrived at `now` (ns) and was processed elsewhere; the time of later
    /// packets is never earlier. Returns the engine's time.
    pub fn observe_time(&mut self, now: u64) -> u64 {
        match &mut self.execution {
            Execution::Native { shared, worker, .. } => {
                let now = worker.observe_time(now, shared.program.config.start_ns);
                let mut host = shared.program.runtime.host.lock();
                host.advance(now);
                host.now()
            }
            Execution::Interpreted { interp, .. } => interp.lock().advance_clock(now),
        }
    }

    /// Applies deferred counts of `packets` packets, the last of them at `last` ns. `bytes` is
    /// their total length as counters use it. Entry ids and generations ([`Jit::generation`]) are
    /// those of this engine.
    pub fn credit(&mut self, credit: &DeferredCount, packets: u64, bytes: u64, last: u64) {
        match &mut self.execution {
            Execution::Native { shared, worker, .. } => shared.credit(worker, credit, packets, bytes, last),
            Execution::Interpreted { interp, .. } => interp.lock().add_deferred_count(credit, packets, bytes, last),
        }
    }
}

impl EngineShared {
    fn entries(&self) -> Option<MutexGuard<'_, EntriesById>> {
        self.entries.as_ref().map(Mutex::lock)
    }

    /// Adds deferred counts to the counters that they belong to: those of the worker if it counts
    /// in place, otherwise the host's. A count of an entry is dropped if the id has a new owner
    /// (generation). `last` is the time of the last packet.
    fn credit(&self, worker: &mut JitWorker, credit: &DeferredCount, packets: u64, bytes: u64, last: u64) {
        let host = || self.program.runtime.host.lock();
        let is_current = |table: TableId, entry_id: u32, generation: u32| {
            let entries = self.entries();
            entries.is_some_and(|e| e.generation(table, entry_id) == generation && e.get(table, entry_id).is_some())
        };
        match *credit {
            DeferredCount::Counter { counter, index }
                if self.program.code.counters.get(counter.index()).is_some_and(Option::is_some) =>
            {
                worker.counters.add_count(counter.index(), index, [packets, bytes]);
            }
            DeferredCount::Counter { .. } => host().add_deferred_count(credit, packets, bytes, last),
            DeferredCount::Applied { table, arm, hit } => {
                if let Some(cell) = self.program.stats_cell(table, arm as usize) {
                    worker.stats.add_count(cell + usize::from(hit), [packets, bytes]);
                }
            }
            DeferredCount::Hit { table, number, generation } if is_current(table, number, generation) => {
                let generation = host().generation(table, number);
                host().add_deferred_count(&DeferredCount::Hit { table, number, generation }, packets, bytes, last);
            }
            DeferredCount::Direct { table, number, generation } if is_current(table, number, generation) => {
                let generation = host().generation(table, number);
                host().add_deferred_count(&DeferredCount::Direct { table, number, generation }, packets, bytes, last);
            }
            // Hits of entries with idle timeouts are not recorded; removed entries count nothing.
            DeferredCount::Restart { .. } | DeferredCount::Hit { .. } | DeferredCount::Direct { .. } => {}
        }
    }
}
