//! An engine that records, for whoever keeps what became of flows: what was noted, entries by their numbers, and what packets that it never saw add up to.

use crate::engine::{Jit, Way, lock};
use crate::plan::stages::is_cut;
use crate::record::Record;
use interp::Credit;
use interp::host::ExternHost;
use ir::TableId;
use packet::{Batch, Output};
use tables::{Change, Entry, WriteBatch, WriteError};

impl Jit {
    /// As [`packet::Engine::process`]; `each` is told what was recorded of each packet, with its number in the batch, in order, once `out` has what became of it. It is told nothing if the
    /// interpreter runs the packets.
    pub fn process_recorded(&mut self, batch: &mut Batch, out: &mut Output, each: &mut dyn FnMut(usize, &Record<'_>)) {
        match &mut self.way {
            Way::Native { reader, worker, .. } => {
                worker.run((batch.packets_mut(), 0), reader.enter(), out, Some(each));
            }
            Way::Handed { .. } => packet::Engine::process(self, batch, out),
        }
    }

    /// Applies a batch as [`Jit::write`] does, and tells what it changed, each change of an entry with the entry's number.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn write_noting(
        &mut self,
        batch: &WriteBatch,
        mut note: impl FnMut(&Change, Option<u32>),
    ) -> Result<(), WriteError> {
        match &mut self.way {
            Way::Native { shared, reader, .. } => {
                reader.park();
                let mut live = lock(&shared.live);
                let written = live.write(batch)?;
                shared.carry_out(&live, &written);
                written.numbered().for_each(|(change, number)| note(change, number));
                Ok(())
            }
            Way::Handed { interp, .. } => lock(interp).write_noting(batch, note),
        }
    }

    fn host<T>(&self, ask: impl FnOnce(&mut ExternHost) -> T) -> Option<T> {
        match &self.way {
            Way::Native { shared, .. } => Some(ask(&mut lock(&shared.program.runtime.host))),
            Way::Handed { .. } => None,
        }
    }

    /// The entry that packets find by that number.
    pub fn entry_of(&self, table: TableId, number: u32) -> Option<Entry> {
        match &self.way {
            Way::Native { .. } => self.host(|host| host.entry_of(table, number))?,
            Way::Handed { interp, .. } => lock(interp).entry_of(table, number).cloned(),
        }
    }

    /// Tells the entry of that number from those that had the number before.
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        match &self.way {
            Way::Native { .. } => self.host(|host| host.generation(table, number)).unwrap_or(0),
            Way::Handed { interp, .. } => lock(interp).generation(table, number),
        }
    }

    /// Whether a hit in this table adds to something that anybody can see.
    pub fn counts_hits(&self, table: TableId) -> bool {
        match &self.way {
            Way::Native { .. } => self.host(|host| host.notes_hits(table)).unwrap_or(false),
            Way::Handed { interp, .. } => lock(interp).counts_hits(table),
        }
    }

    /// A packet came at that time, in nanoseconds, that another path handled: for later ones it is not earlier. The time that it is for the engine.
    pub fn saw(&mut self, now: u64) -> u64 {
        match &mut self.way {
            Way::Native { worker, .. } => worker.saw(now),
            Way::Handed { interp, .. } => lock(interp).saw(now),
        }
    }

    /// Adds what so many packets that another path handled, the last of them at `last` nanoseconds, would have added: as [`interp::Interp::credit`].
    pub fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        let Way::Native { shared, worker, .. } = &mut self.way else {
            if let Way::Handed { interp, .. } = &mut self.way {
                lock(interp).credit(credit, packets, bytes, last);
            }
            return;
        };
        let program = &shared.program;
        match credit {
            Credit::Counter { counter, index } if program.counters[counter.0 as usize].is_some() => {
                worker.counters.add(counter.0 as usize, *index, packets, bytes);
            }
            Credit::Applied { table, arm, hit } => {
                let stage = program.stages.iter().position(|stage| stage.table == Some(*table));
                let stage = stage.filter(|_| is_cut(&program.pipeline, *table));
                let cell = program.places.cell(stage, *table, *arm as usize) + usize::from(*hit);
                worker.tally.add(cell, packets, bytes);
            }
            _ => lock(&program.runtime.host).credit(credit, packets, bytes, last),
        }
    }
}
