//! [`Jit`]: the engine as its users see it.

use crate::counters::WorkerCounters;
use crate::entries::Entries;
use crate::program::Program;
use crate::tally::{ActionTally, TableTally, Tallies, Tally, add_up};
use crate::unsupported::Unsupported;
use crate::worker::Worker;
use entries::{Change, Counter, Entry, EntryId, KeyLayout, State, WriteBatch, WriteError};
use interp::host::ExternHost;
use interp::host::architecture::reason_table;
use interp::{Config, DigestMessage, IdleEntry, Interp, LoadError, Registers};
use ir::{Entity, ExternId, Pipeline, TableId};
use lookup::{Live, LiveError, Reader, Written};
use num_bigint::BigUint;
use packet::{Batch, Engine, Output, ReasonTable};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thiserror::Error;

/// A pipeline that can't be loaded.
#[derive(Debug, Error)]
pub enum JitError {
    /// The interpreter refuses it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its tables can't be held.
    #[error(transparent)]
    Live(#[from] LiveError),
}

/// Pieces of some microseconds that are done each time that there is nothing to write.
const PIECES: usize = 8;

/// What all workers of one engine share.
pub(crate) struct Shared {
    pipeline: Arc<Pipeline>,
    pub(crate) program: Arc<Program>,
    /// If that one records, one that does not.
    pub(crate) quiet: Option<Arc<Program>>,
    pub(crate) live: Mutex<Live>,
    /// What is added to the sum over all workers: the control plane sets counters.
    pub(crate) offsets: Mutex<HashMap<(usize, u64), [u64; 2]>>,
    pub(crate) counters: Mutex<Vec<Arc<WorkerCounters>>>,
    /// In the order in which workers were made; the first one is that of the engine which others were made from.
    tallies: Mutex<Vec<Arc<Tally>>>,
    /// If it records. Nothing is locked while it is.
    pub(crate) entries: Option<Mutex<Entries>>,
}

/// How packets are run.
pub(crate) enum Way {
    /// If what packets do is recorded, `quiet` runs those of which it is not asked.
    Native {
        shared: Arc<Shared>,
        reader: Reader,
        worker: Box<Worker>,
        quiet: Option<Box<Worker>>,
    },
    Handed {
        interp: Arc<Mutex<Interp>>,
        reason: Unsupported,
        packets: u64,
    },
}

/// The engine of the cpu tier: native code for batches.
///
/// A pipeline that native code is not made for runs on the interpreter as a whole; [`Jit::handed`] says why and counts.
pub struct Jit {
    pipeline: Arc<Pipeline>,
    pub(crate) way: Way,
    reasons: ReasonTable,
}

impl Jit {
    /// Loads a pipeline that the verifier has accepted.
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<Jit, JitError> {
        Jit::with(pipeline, config, false)
    }

    /// The same; if it `records`, made to do that.
    pub(crate) fn with(pipeline: Arc<Pipeline>, config: Config, records: bool) -> Result<Jit, JitError> {
        let reasons = reason_table(&pipeline);
        let host = ExternHost::new(pipeline.clone(), config.clone())?;
        let live = Live::new(pipeline.clone(), |table| records || host.tracks_entries(table))?;
        let mut reader = live.reader();
        let host = Arc::new(Mutex::new(host));
        let mut program = |records| Program::new(pipeline.clone(), config.clone(), &host, reader.enter(), records);
        let (program, quiet) = (program(records), if records { program(false).ok() } else { None });
        reader.park();
        let way = match program {
            Ok(program) => {
                let quiet = quiet.filter(|quiet| quiet.counts_as(&program));
                Jit::native(pipeline.clone(), (Arc::new(program), quiet.map(Arc::new)), live)
            }
            Err(reason) => {
                let interp = Arc::new(Mutex::new(Interp::new(pipeline.clone(), config)?));
                Way::Handed { interp, reason, packets: 0 }
            }
        };
        Ok(Jit { pipeline, way, reasons })
    }

    fn native(pipeline: Arc<Pipeline>, (program, quiet): (Arc<Program>, Option<Arc<Program>>), live: Live) -> Way {
        let worker = Box::new(Worker::new(program.clone()));
        let quiet_worker = quiet.as_ref().map(|quiet| Box::new(worker.beside(quiet.clone())));
        let mut host = program.runtime.host.lock();
        for table in pipeline.tables.keys() {
            for entry in live.state().entries(table) {
                if let Some(number) = live.entry_id(table, entry).filter(|_| host.tracks_entries(table)) {
                    host.entry_inserted(table, number, entry, Counter::default());
                }
            }
        }
        drop(host);
        let entries = program.lists.is_some().then(|| Mutex::new(Entries::new(&pipeline, &live)));
        let reader = live.reader();
        let counters = Mutex::new(vec![worker.counters.clone()]);
        let tallies = Mutex::new(vec![worker.tally.clone()]);
        let offsets = Mutex::default();
        let shared = Shared { pipeline, program, quiet, live: Mutex::new(live), offsets, counters, tallies, entries };
        Way::Native { shared: Arc::new(shared), reader, worker, quiet: quiet_worker }
    }

    /// Another worker with the same tables and objects, for another thread. It counts for itself; [`Jit::counter`] adds up.
    pub fn worker(&self) -> Jit {
        let way = match &self.way {
            Way::Native { shared, .. } => {
                let worker = Box::new(Worker::new(shared.program.clone()));
                shared.counters.lock().push(worker.counters.clone());
                shared.tallies.lock().push(worker.tally.clone());
                let reader = shared.live.lock().reader();
                let quiet = shared.quiet.as_ref().map(|quiet| Box::new(worker.beside(quiet.clone())));
                Way::Native { shared: shared.clone(), reader, worker, quiet }
            }
            Way::Handed { interp, reason, .. } => Way::Handed { interp: interp.clone(), reason: *reason, packets: 0 },
        };
        Jit { pipeline: self.pipeline.clone(), way, reasons: self.reasons.clone() }
    }

    /// Packets that this worker handed to the interpreter, by reason.
    pub fn handed(&self) -> BTreeMap<&'static str, u64> {
        match &self.way {
            Way::Native { .. } => BTreeMap::new(),
            Way::Handed { reason, packets, .. } => BTreeMap::from([(reason.name(), *packets)]),
        }
    }

    /// Why the pipeline is not run by native code; `None` if it is.
    pub fn unsupported(&self) -> Option<Unsupported> {
        match &self.way {
            Way::Native { .. } => None,
            Way::Handed { reason, .. } => Some(*reason),
        }
    }

    /// What went through each stage, table and action, over all workers.
    pub fn tallies(&self) -> Tallies {
        match &self.way {
            Way::Native { shared, .. } => {
                let workers = shared.tallies.lock();
                let program = &shared.program;
                add_up(&self.pipeline, &program.places, &program.stages, workers.iter().map(Arc::as_ref))
            }
            Way::Handed { interp, .. } => {
                let interp = interp.lock();
                let at = |table: TableId| {
                    let actions =
                        interp.applied(table).map(|(action, [misses, hits])| ActionTally { action, hits, misses });
                    TableTally { table, actions: actions.collect() }
                };
                Tallies { stages: Vec::new(), tables: self.pipeline.tables.keys().map(at).collect() }
            }
        }
    }

    /// How many writes the tables have seen: the version that packets see from their next batch on.
    pub fn tables_version(&self) -> u64 {
        self.with_state(State::version)
    }

    /// For each worker that was made from this engine, in that order: the version of the tables that it used for its last batch; `None` while it
    /// rests, or if the interpreter runs its packets.
    pub fn worker_versions(&self) -> Vec<Option<u64>> {
        match &self.way {
            Way::Native { shared, .. } => shared.tallies.lock().iter().skip(1).map(|tally| tally.version()).collect(),
            Way::Handed { .. } => Vec::new(),
        }
    }

    /// Bytes of memory that a table takes: its lookups (two copies, if native code runs) and its entries.
    pub fn table_memory(&self, table: TableId) -> usize {
        match &self.way {
            Way::Native { shared, .. } => {
                let live = shared.live.lock();
                live.table_memory(table) + live.state().table_memory(table)
            }
            Way::Handed { interp, .. } => interp.lock().state().table_memory(table),
        }
    }

    /// Applies a batch as a whole: packets of the next batch see it, on all workers. If one update is refused, nothing has changed.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        match &mut self.way {
            Way::Native { shared, reader, .. } => {
                // A reader of this thread must not keep the writer waiting.
                reader.park();
                shared.write(batch, |_, _| {})
            }
            Way::Handed { interp, .. } => interp.lock().write(batch),
        }
    }

    /// Applies batches in order, each as a whole or not at all, and shows all of them to packets together.
    pub fn write_many(&mut self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        match &mut self.way {
            Way::Native { shared, reader, .. } => {
                reader.park();
                shared.write_many(batches)
            }
            Way::Handed { interp, .. } => {
                let mut interp = interp.lock();
                batches.iter().map(|batch| interp.write(batch)).collect()
            }
        }
    }

    /// For when nothing is written: does a part of what is due to tables, mostly some tens of microseconds long ([`lookup::Live::tidy`]). Whether there is more to do.
    pub fn tidy(&mut self) -> bool {
        match &mut self.way {
            Way::Native { shared, reader, .. } => {
                reader.park();
                shared.live.lock().tidy(PIECES)
            }
            Way::Handed { .. } => false,
        }
    }

    /// Applies many batches to an engine that has no other workers yet, as [`Jit::write`] does one by one, but makes the lookups once, of what they
    /// amount to. Of a batch that is refused, what can be applied is: of its updates, those that are not refused one by one.
    ///
    /// # Errors
    /// The error of `batches`: what came before it is applied.
    pub fn load<E>(&mut self, mut batches: impl Iterator<Item = Result<WriteBatch, E>>) -> Result<(), E> {
        match &mut self.way {
            Way::Native { shared, reader, .. } => {
                reader.park();
                let outcome = shared.load(&mut batches);
                *reader = shared.live.lock().reader();
                outcome
            }
            Way::Handed { interp, .. } => {
                let mut interp = interp.lock();
                batches.try_for_each(|batch| {
                    batch?.apply_what_fits(|batch| interp.write(batch));
                    Ok(())
                })
            }
        }
    }

    /// The direct counter of an entry that is in the table.
    pub fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        match &self.way {
            Way::Native { shared, .. } => {
                // An entry of a table without keys is never hit.
                shared.pipeline.tables.get(table)?.match_keys().next()?;
                let number = shared.live.lock().entry_id(table, entry)?;
                shared.program.runtime.host.lock().direct_counter(table, number)
            }
            Way::Handed { interp, .. } => interp.lock().entry_counter(table, entry),
        }
    }

    /// Nanoseconds since a packet hit an entry that is in the table, or since it was inserted.
    pub fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        match &self.way {
            // Programs with idle times are handed over.
            Way::Native { .. } => None,
            Way::Handed { interp, .. } => interp.lock().entry_idle_for(table, entry),
        }
    }

    /// Calls `f` with what the control plane has written.
    pub fn with_state<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        match &self.way {
            Way::Native { shared, .. } => f(shared.live.lock().state()),
            Way::Handed { interp, .. } => f(interp.lock().state()),
        }
    }

    /// The value of an indexed counter, over all workers. Packets and bytes are both counted, whatever its unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        match &self.way {
            Way::Native { shared, .. } => shared.counter(counter, index),
            Way::Handed { interp, .. } => interp.lock().counter(counter, index),
        }
    }

    /// The elements of an indexed counter that have counted packets, below `end`: index and value, over all workers.
    pub fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        match &self.way {
            Way::Native { shared, .. } if shared.program.counters.get(counter.index()).is_some_and(Option::is_some) => {
                shared.counted(counter, end)
            }
            _ => {
                let value = |index| Some((index, self.counter(counter, index).filter(|value| value.packets != 0)?));
                (0..end).filter_map(value).collect()
            }
        }
    }

    /// The pipeline that runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// How many elements a counter, meter or register has.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().array_len(object),
            Way::Handed { interp, .. } => interp.lock().array_len(object),
        }
    }

    /// The leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().register(register, index),
            Way::Handed { interp, .. } => interp.lock().register(register, index),
        }
    }

    /// The registers, for an explainer: it reads them as they are when it asks.
    pub fn registers(&self) -> Registers {
        match &self.way {
            Way::Native { shared, .. } => {
                let shared = shared.clone();
                Registers::new(move |register, index| shared.program.runtime.host.lock().register(register, index))
            }
            Way::Handed { interp, .. } => {
                let interp = interp.clone();
                Registers::new(move |register, index| interp.lock().register(register, index))
            }
        }
    }

    /// The direct counter of an entry.
    pub fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        match &self.way {
            Way::Native { shared, .. } => {
                let live = shared.live.lock();
                let declared = shared.pipeline.tables.get(id.table)?;
                // An entry of a table without keys is never hit.
                declared.match_keys().next()?;
                let layout = KeyLayout::new(&declared.keys);
                let mut entries = live.state().entries(id.table);
                let entry = entries.find(|e| e.priority() == id.priority && layout.unpack(e.key()) == id.keys)?;
                let number = live.entry_id(id.table, entry)?;
                shared.program.runtime.host.lock().direct_counter(id.table, number)
            }
            Way::Handed { interp, .. } => interp.lock().direct_counter(id),
        }
    }

    /// Takes the digest messages that wait.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().take_digests(),
            Way::Handed { interp, .. } => interp.lock().take_digests(),
        }
    }

    /// How many digest messages and notifications were lost because nobody took them.
    pub fn lost_messages(&self) -> u64 {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().lost_messages(),
            Way::Handed { interp, .. } => interp.lock().lost_messages(),
        }
    }

    /// Time passes: the entries whose idle time is over.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        match &self.way {
            Way::Native { shared, .. } => {
                shared.program.runtime.host.lock().advance(now);
                Vec::new()
            }
            Way::Handed { interp, .. } => interp.lock().advance_time(now),
        }
    }

    /// Takes the idle entries that [`Engine::tick`] found.
    pub fn take_idle(&mut self) -> Vec<IdleEntry> {
        match &self.way {
            Way::Native { .. } => Vec::new(),
            Way::Handed { interp, .. } => interp.lock().take_idle(),
        }
    }

    /// Lets go of the tables: before the thread sleeps for long.
    pub fn park(&mut self) {
        if let Way::Native { reader, worker, .. } = &mut self.way {
            reader.park();
            worker.tally.rests();
        }
    }
}

impl Shared {
    pub(crate) fn write(
        &self,
        batch: &WriteBatch,
        mut note: impl FnMut(&Change, Option<u32>),
    ) -> Result<(), WriteError> {
        let mut live = self.live.lock();
        let written = live.write(batch)?;
        written.numbered().for_each(|(change, number)| note(change, number));
        self.carry_out(&live, &written);
        Ok(())
    }

    fn write_many(&self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        let mut live = self.live.lock();
        let outcomes = live.write_many(batches);
        let done = |outcome: Result<Written, WriteError>| outcome.map(|written| self.carry_out(&live, &written));
        outcomes.into_iter().map(done).collect()
    }

    fn load<E>(&self, mut batches: &mut dyn Iterator<Item = Result<WriteBatch, E>>) -> Result<(), E> {
        let mut live = self.live.lock();
        let mut host = self.program.runtime.host.lock();
        let mut state = live.state().clone();
        let mut counted: HashMap<(TableId, u64), Counter> = HashMap::new();
        let outcome = Iterator::try_for_each(&mut batches, |batch| {
            batch?.apply_what_fits(|batch| {
                let changes = state.apply(batch)?;
                host.carry_out(&changes, &state);
                for change in &changes {
                    match change {
                        Change::Inserted(table, entry, data)
                        | Change::Modified(table, _, entry, Some(data))
                        | Change::DirectCounter(table, entry, data)
                            if *data != Counter::default() =>
                        {
                            counted.insert((*table, entry.sequence()), *data);
                        }
                        Change::Counter(counter, index, data) => self.set_counter(*counter, *index, *data),
                        _ => {}
                    }
                }
                Ok(())
            });
            Ok(())
        });
        // A state that a pipeline's lookups could not hold was refused when the engine was made.
        let records = self.entries.is_some();
        let Ok(loaded) = Live::with_state(state, |t| records || host.tracks_entries(t)) else { return outcome };
        *live = loaded;
        if let Some(entries) = &self.entries {
            entries.lock().renew(&self.pipeline, &live);
        }
        for (table, entry) in self.pipeline.tables.keys().flat_map(|t| live.state().entries(t).map(move |e| (t, e))) {
            if let Some(number) = live.entry_id(table, entry).filter(|_| host.tracks_entries(table)) {
                let data = counted.get(&(table, entry.sequence())).copied().unwrap_or_default();
                host.entry_inserted(table, number, entry, data);
            }
        }
        outcome
    }

    /// Does to counters, meters and the like what was written.
    fn carry_out(&self, live: &Live, written: &Written) {
        if let Some(entries) = &self.entries {
            let mut entries = entries.lock();
            written.numbered().for_each(|(change, number)| entries.change(change, number));
        }
        let mut host = self.program.runtime.host.lock();
        host.carry_out(written.changes(), live.state());
        for (change, number) in written.numbered() {
            match (change, number) {
                // An engine that records has numbers of other tables' entries, too.
                (Change::Inserted(table, entry, counter), Some(number)) if host.tracks_entries(*table) => {
                    host.entry_inserted(*table, number, entry, *counter);
                }
                (Change::Modified(table, old, new, counter), Some(number)) => {
                    host.entry_modified(*table, number, old, new, *counter);
                }
                (Change::Deleted(table, _), Some(number)) => host.entry_removed(*table, number),
                (Change::DirectCounter(table, entry, data), number) => {
                    if let Some(number) = number.or_else(|| live.entry_id(*table, entry)) {
                        host.set_direct_counter(*table, number, *data);
                    }
                }
                (Change::Counter(counter, index, data), _) => self.set_counter(*counter, *index, *data),
                _ => {}
            }
        }
    }
}

impl Engine for Jit {
    fn name(&self) -> &str {
        "jit"
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        match &mut self.way {
            Way::Native { quiet: Some(_), .. } => {
                self.process_quietly(batch.packets_mut(), 0, out);
            }
            Way::Native { reader, worker, .. } => worker.run(batch.packets_mut(), 0, reader.enter(), out, None),
            Way::Handed { interp, packets, .. } => {
                *packets += batch.len() as u64;
                Engine::process(&mut *interp.lock(), batch, out);
            }
        }
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        match &mut self.way {
            Way::Native { shared, reader, worker, .. } => {
                // Whoever is idle must not keep the writer from the copy that it held last.
                worker.tally.entered(reader.enter().version());
                shared.program.runtime.host.lock().advance(now);
            }
            Way::Handed { interp, .. } => interp.lock().tick(now, out),
        }
    }

    fn rest(&mut self) {
        self.park();
    }
}
