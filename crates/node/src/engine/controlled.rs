//! [`Controlled`]: an engine as the control plane has it.

use crate::explain::{Explained, Part, Record};
use ::interp::{DigestMessage, EntryLevel, IdleEntry, MeterLevel, Registers};
use ::jit::Tallies;
use entries::{Counter, Entry, EntryError, State, UpdateError, WriteBatch, WriteError};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Engine, EngineCounters};
use std::sync::Arc;
use thiserror::Error;

/// An engine as the control plane has it: by it tables are written and counters read, and from it workers get theirs. It runs no packets itself.
pub trait Controlled: Send {
    /// The engine's name as in metrics and traces: of the one that really runs the program.
    fn name(&self) -> &'static str;

    /// The program, as the control plane knows it.
    fn pipeline(&self) -> &Arc<Pipeline>;

    /// An engine for another thread, with the same tables and objects.
    fn worker(&self) -> Box<dyn Engine>;

    /// Shows what the control plane has written, and what packets have added.
    fn look(&self, at: &mut dyn FnMut(&State));

    /// Applies a batch as a whole: packets of the next batch see it, on all workers.
    ///
    /// # Errors
    /// An update is not valid, or there is no room; nothing has changed.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Applies batches in order, each as a whole or not at all.
    fn write_many(&mut self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        batches.iter().map(|batch| self.write(batch)).collect()
    }

    /// Applies many batches to an engine that has no workers yet, those updates of them that are valid: packets may have changed what others were about.
    ///
    /// # Errors
    /// There is no room for all that is valid; what came before is applied.
    fn load(&mut self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), NoRoom> {
        load_one_by_one(batches, &mut |batch| self.write(batch))
    }

    /// An element of an indexed counter, over all workers. Packets and bytes are both counted, whatever its unit.
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;

    /// The elements of an indexed counter that have counted packets, below `end`: index and value.
    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)>;

    /// How many elements a counter, meter or register has.
    fn array_len(&self, object: ExternId) -> Option<u64>;

    /// The leaves of a register's element.
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    /// The registers, for an explainer: it reads them as they are when it asks.
    fn registers(&self) -> Registers;

    /// The program, or what of it runs in this process, with tables and registers, for an explainer.
    fn explained(&self) -> Box<dyn Explained> {
        Box::new(part(self))
    }

    /// What it did with packets that have this mark, the oldest first: [`crate::explain`].
    fn followed(&self, mark: u16) -> Vec<Arc<Record>> {
        let _ = mark;
        Vec::new()
    }

    /// The direct counter of an entry that is in the table.
    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter>;

    /// Nanoseconds since a packet hit an entry that is in the table, or since it was inserted.
    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64>;

    /// Takes the digest messages that wait.
    fn take_digests(&mut self) -> Vec<DigestMessage>;

    /// Time passes (nanoseconds): the entries whose idle time is over, those that workers found among them.
    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry>;

    /// Nothing is to be written now: tables that were written rule by rule are brought into shape, a little each time.
    fn tidy(&mut self) {}

    /// Whether entries do not grow too old for now: another engine is to go on with them, or has not given them all yet.
    fn hold_idle(&self, hold: bool);

    /// The elements of an indexed meter that are not as full as at first, by index.
    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)>;

    /// Sets how full an element of an indexed meter is; one that is not configured stays so.
    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel);

    /// What an entry that is in the table has besides what was written to it; `None` if its table's entries have nothing.
    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel>;

    /// Sets that. An entry that is not in the table stays away.
    fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel);

    /// The flow id (PNA `allocate_flow_id`) that was given last.
    fn flow_id(&self) -> u32;

    /// The next flow id follows on this one.
    fn set_flow_id(&self, id: u32);

    /// What went through each stage, table and action, over all workers.
    fn tallies(&self) -> Tallies;

    /// For each worker in the order in which they were made: the version of the tables that it used for its last batch; `None` while it rests. Empty:
    /// workers always use the newest.
    fn worker_versions(&self) -> Vec<Option<u64>> {
        Vec::new()
    }

    /// Bytes of memory that a table takes, about.
    fn table_memory(&self, table: TableId) -> usize {
        with_state(self, |state| state.table_memory(table))
    }

    /// Length of the native code in bytes; 0 if there is none.
    fn code_bytes(&self) -> usize {
        0
    }

    /// Why there is no native code; `None` if there is.
    fn without_code(&self) -> Option<String>;

    /// How many packets each tier has done with: `switch`, `kernel` (a flow cache there), `dpu` (a flow cache here) and `cpu`. Empty: there is one tier, and all are its.
    fn served(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// No worker runs it any more: what is done for it elsewhere ends now, and what it has counted is final.
    fn retire(&mut self) {}

    /// What was done with packets that no worker was given, as the kernel did it by itself. What is counted for them in the program's objects is there.
    fn beside_workers(&self) -> EngineCounters {
        EngineCounters::default()
    }

    /// What a person should know of how it runs the program: where the tables are, what is not counted.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An engine has too little room for what another one held: why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the engine has no room for all entries: {0}; give it more room, or run the engine that took them")]
pub struct NoRoom(pub String);

/// Whether a valid write was refused for want of room.
fn is_full(error: &UpdateError) -> bool {
    matches!(error, UpdateError::Entry(error) if matches!(**error, EntryError::NoRoom { .. } | EntryError::NoPlace { .. }))
}

/// See [`Controlled::load`], for engines that are written to a batch at a time.
pub(super) fn load_one_by_one(
    batches: &mut dyn Iterator<Item = WriteBatch>,
    write: &mut dyn FnMut(&WriteBatch) -> Result<(), WriteError>,
) -> Result<(), NoRoom> {
    for batch in batches {
        match write(&batch) {
            Ok(()) => {}
            Err(refused) if is_full(&refused.error) => return Err(NoRoom(refused.error.to_string())),
            Err(_) => {
                let left = batch.apply_what_fits(|batch| write(batch));
                if let Some((_, error)) = left.iter().find(|(_, error)| is_full(error)) {
                    return Err(NoRoom(error.to_string()));
                }
            }
        }
    }
    Ok(())
}

/// The elements below `end` that have counted packets, for engines that are asked for one at a time.
pub fn counted_one_by_one(end: u64, counter: impl Fn(u64) -> Option<Counter>) -> Vec<(u64, Counter)> {
    (0..end).filter_map(|index| Some((index, counter(index).filter(|value| value.packets != 0)?))).collect()
}

impl dyn Controlled + '_ {
    /// Calls `f` with what the control plane has written.
    pub fn with_state<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        with_state(self, f)
    }

    /// What it runs, as it is now.
    pub fn part(&self) -> Part {
        part(self)
    }

    /// How many writes the tables have seen: the version that packets see from their next batch on.
    pub fn tables_version(&self) -> u64 {
        self.with_state(State::version)
    }
}

fn part<E: Controlled + ?Sized>(engine: &E) -> Part {
    let state = with_state(engine, State::clone);
    Part { pipeline: state.pipeline().clone(), state, registers: engine.registers() }
}

fn with_state<R, E: Controlled + ?Sized>(engine: &E, f: impl FnOnce(&State) -> R) -> R {
    let (mut f, mut out) = (Some(f), None);
    engine.look(&mut |state| out = f.take().map(|f| f(state)));
    // An engine shows its state once.
    out.unwrap_or_else(|| unreachable!("an engine has a state"))
}
