//! The engine that records what packets do, for a cache of flows: [`Jit::recording`]. What it is asked beside that is what a cache asks of
//! [`interp::Interp`], and answered alike; only the numbers of entries are others.

use crate::engine::{Jit, JitError, Shared, Way};
use crate::entries::Entries;
use crate::record::Record;
use crate::worker::Worker;
use entries::{Change, Entry, PackedAction, WriteBatch, WriteError};
use interp::{Config, Credit};
use ir::{Entity, Pipeline, TableId};
use packet::{Batch, Engine, Output, Packet};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

impl Jit {
    /// As [`Jit::new`], made to record what packets do: [`Jit::process_recorded`]. Nothing is recorded of a pipeline that is handed to the interpreter
    /// ([`Jit::unsupported`]).
    ///
    /// # Errors
    /// Those of [`Jit::new`].
    pub fn recording(pipeline: Arc<Pipeline>, config: Config) -> Result<Jit, JitError> {
        Jit::with(pipeline, config, true)
    }

    /// As [`Engine::process`], and shows for each packet of the batch, in order, what was noted of it; its verdict is in `out` by then. Shows nothing if the engine was
    /// not made to record.
    pub fn process_recorded(&mut self, batch: &mut Batch, out: &mut Output, each: &mut dyn FnMut(usize, &Record<'_>)) {
        match &mut self.way {
            Way::Native { reader, worker, .. } => {
                worker.run(batch.packets_mut(), 0, reader.enter(), out, Some(each));
            }
            Way::Handed { .. } => self.process(batch, out),
        }
    }

    /// As [`Engine::process`] of packets that lie one behind the other, the first of which has that number in its batch; nothing is recorded. False, and nothing was done, if
    /// that is not made native.
    pub fn process_quietly(&mut self, packets: &mut [Packet], first: usize, out: &mut Output) -> bool {
        match &mut self.way {
            Way::Native { reader, worker, quiet: Some(quiet), .. } => {
                quiet.follow(worker);
                quiet.run(packets, first, reader.enter(), out, None);
                worker.follow(quiet);
                true
            }
            _ => false,
        }
    }

    /// As [`Jit::write`], and shows each change, if all are accepted; with it the number of the entry that is inserted, changed or deleted.
    ///
    /// # Errors
    /// Those of [`Jit::write`].
    pub fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: impl FnMut(&Change, Option<u32>),
    ) -> Result<(), WriteError> {
        match &mut self.way {
            Way::Native { shared, reader, .. } => {
                // A reader of this thread must not keep the writer waiting.
                reader.park();
                shared.write(batch, note)
            }
            Way::Handed { interp, .. } => interp.lock().write_noting(batch, note),
        }
    }

    /// The entry of a number; `None` if it is gone.
    pub fn entry_of(&self, table: TableId, number: u32) -> Option<Entry> {
        match &self.way {
            Way::Native { shared, .. } => shared.entries()?.get(table, number).cloned(),
            Way::Handed { interp, .. } => interp.lock().entry_of(table, number).cloned(),
        }
    }

    /// Tells the entry of a number from those that had the number before.
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        match &self.way {
            Way::Native { shared, .. } => shared.entries().map_or(0, |entries| entries.generation(table, number)),
            Way::Handed { interp, .. } => interp.lock().generation(table, number),
        }
    }

    /// Replaces `words` by those of the parameters that the entry of that number gives its action, without a number by those of the default action, laid out by
    /// [`entries::action_layout`]; behind an entry's there may be words of 0. False if there is no such entry.
    pub fn args(&self, table: TableId, found: Option<u32>, words: &mut Vec<u64>) -> bool {
        words.clear();
        match (&self.way, found) {
            (Way::Native { shared, .. }, Some(number)) => {
                shared.entries().is_some_and(|entries| entries.args(table, number, words))
            }
            (Way::Native { shared, .. }, None) => {
                if let PackedAction::Call(_, args) = shared.live.lock().state().default_action(table).packed() {
                    words.extend_from_slice(args);
                }
                true
            }
            (Way::Handed { interp, .. }, found) => {
                interp.lock().args(table, found).map(|args| words.extend_from_slice(args)).is_some()
            }
        }
    }

    /// A packet came at that time, in nanoseconds, that another path handled: for later ones it is not earlier. The time that it is for the engine.
    pub fn saw(&mut self, now: u64) -> u64 {
        match &mut self.way {
            Way::Native { shared, worker, .. } => {
                let now = worker.saw(now, shared.program.config.start);
                let mut host = shared.program.runtime.host.lock();
                host.advance(now);
                host.now()
            }
            Way::Handed { interp, .. } => interp.lock().saw(now),
        }
    }

    /// Adds what so many packets, the last of them at `last` nanoseconds, would have added. `bytes` is what a counter counts for all of them. Numbers of entries, and what
    /// tells them apart ([`Jit::generation`]), are this engine's.
    pub fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        match &mut self.way {
            Way::Native { shared, worker, .. } => shared.credit(worker, credit, packets, bytes, last),
            Way::Handed { interp, .. } => interp.lock().credit(credit, packets, bytes, last),
        }
    }
}

impl Shared {
    fn entries(&self) -> Option<MutexGuard<'_, Entries>> {
        self.entries.as_ref().map(Mutex::lock)
    }

    fn credit(&self, worker: &mut Worker, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        let host = || self.program.runtime.host.lock();
        let is_there = |table: TableId, number: u32, generation: u32| {
            let entries = self.entries();
            entries.is_some_and(|e| e.generation(table, number) == generation && e.get(table, number).is_some())
        };
        match *credit {
            Credit::Counter { counter, index }
                if self.program.counters.get(counter.index()).is_some_and(Option::is_some) =>
            {
                worker.counters.add(counter.index(), index, [packets, bytes]);
            }
            Credit::Counter { .. } => host().credit(credit, packets, bytes, last),
            Credit::Applied { table, arm, hit } => {
                if let Some(cell) = self.program.tally_cell(table, arm as usize) {
                    worker.tally.add(cell + usize::from(hit), [packets, bytes]);
                }
            }
            Credit::Hit { table, number, generation } if is_there(table, number, generation) => {
                let generation = host().generation(table, number);
                host().credit(&Credit::Hit { table, number, generation }, packets, bytes, last);
            }
            Credit::Direct { table, number, generation } if is_there(table, number, generation) => {
                let generation = host().generation(table, number);
                host().credit(&Credit::Direct { table, number, generation }, packets, bytes, last);
            }
            // Programs with idle times are handed over; entries that are gone count nothing.
            Credit::Restart { .. } | Credit::Hit { .. } | Credit::Direct { .. } => {}
        }
    }
}
