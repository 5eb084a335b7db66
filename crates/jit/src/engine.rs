//! [`Jit`]: the public engine.

mod added_entries;
mod flow_tables;
mod idle;
mod writes;

pub use flow_tables::{
    FlowChanges, FlowEntry, FlowPage, FlowQuery, FlowReader, FlowTableInfo, FlowTables, RemovedFlows, StoredFlow,
    StoredFlows,
};

use crate::counters::WorkerCounters;
use crate::entries::EntriesById;
use crate::fallback_reason::FallbackReason;
use crate::native_programs::{NativePrograms, set_later_passes};
use crate::packet_written::PacketWrittenTables;
use crate::program::CompiledProgram;
use crate::stats::{ActionStats, EngineStats, TableStats, WorkerStats, sum_worker_stats};
use crate::worker::JitWorker;
use entries::{ControlState, Counter, EntryId, KeyLayout, StoredEntry, WriteBatch, WriteError};
use interp::host::ExternHost;
use interp::host::architecture::{reads_segment_excess, reason_table};
use interp::{Config, DigestMessage, Interp, LoadError, Registers};
use ir::packet_written_tables;
use ir::{Entity, ExternId, Pipeline, TableId};
use lookup::{LeftRightReader, LiveError, LiveTables};
use num_bigint::BigUint;
use packet::{Batch, BatchOutput, Engine, ReasonTable};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thiserror::Error;

/// Error of loading a pipeline.
#[derive(Debug, Error)]
pub enum JitError {
    /// The interpreter rejects the pipeline.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The lookup structures cannot hold its tables.
    #[error(transparent)]
    Live(#[from] LiveError),
}

/// Number of maintenance pieces, of some microseconds each, per call of [`Jit::maintain_tables`].
const TIDY_PIECES: usize = 8;

/// State shared by all workers of one engine.
pub(crate) struct EngineShared {
    pipeline: Arc<Pipeline>,
    pub(crate) program: Arc<CompiledProgram>,
    /// Version of `program` that does not record, if `program` records.
    pub(crate) unrecorded: Option<Arc<CompiledProgram>>,
    /// Program of later passes, if packets recirculate.
    later: Option<Arc<CompiledProgram>>,
    pub(crate) live: Mutex<LiveTables>,
    /// Added to the sum over all workers, because the control plane can set counters.
    pub(crate) offsets: Mutex<HashMap<(usize, u64), [u64; 2]>>,
    pub(crate) counters: Mutex<Vec<Arc<WorkerCounters>>>,
    /// In the order in which workers were made; the first belongs to the engine that the others
    /// were made from.
    worker_stats: Mutex<Vec<Arc<WorkerStats>>>,
    /// Those of later passes.
    later_stats: Mutex<Vec<Arc<WorkerStats>>>,
    /// Whether idle entries stay, because another engine takes over.
    pub(crate) is_idle_held: AtomicBool,
    /// Entries by id, if the engine records. No other lock is taken while this one is held.
    pub(crate) entries: Option<Mutex<EntriesById>>,
}

/// Native or interpreted execution.
pub(crate) enum Execution {
    /// If `worker` records packets, `unrecorded` runs those that need no record.
    Native {
        shared: Arc<EngineShared>,
        reader: LeftRightReader,
        worker: Box<JitWorker>,
        unrecorded: Option<Box<JitWorker>>,
    },
    Interpreted {
        interp: Arc<Mutex<Interp>>,
        reason: FallbackReason,
        packets: u64,
    },
}

/// The engine of the CPU tier: native code for batches.
///
/// A pipeline that native code does not support runs entirely on the interpreter;
/// [`Jit::fallback_counts`] reports the reason and counts packets.
pub struct Jit {
    pipeline: Arc<Pipeline>,
    pub(crate) execution: Execution,
    reasons: ReasonTable,
    /// Whether the program takes super-frames.
    takes_offloads: bool,
}

impl Jit {
    /// Loads a pipeline that the verifier has accepted.
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<Jit, JitError> {
        Jit::load_pipeline(pipeline, config, false)
    }

    /// Loads a pipeline; the code records packets if `records` is set. Then there is a second
    /// program without recording, for packets that need no record; both share their counters.
    pub(crate) fn load_pipeline(pipeline: Arc<Pipeline>, config: Config, records: bool) -> Result<Jit, JitError> {
        let reasons = reason_table(&pipeline);
        let host = ExternHost::new(pipeline.clone(), config.clone())?;
        let is_written = packet_written_tables(&pipeline);
        let entry_ids = |table: TableId| !is_written[table.index()] && (records || host.tracks_entries(table));
        let state = ControlState::new(pipeline.clone()).map_err(LiveError::from)?;
        let live = LiveTables::with_tables_elsewhere(state, entry_ids, &is_written)?;
        let mut reader = live.reader();
        let host = Arc::new(Mutex::new(host));
        let written = PacketWrittenTables::new(&pipeline, &live, &is_written, &mut host.lock());
        let programs = written.and_then(|written| {
            if config.notes_port_blocks {
                written.leases.ports.report_changes();
            }
            NativePrograms::compile(&pipeline, &config, &host, reader.acquire(), &Arc::new(written), records)
        });
        reader.release();
        let execution = match programs {
            Ok(programs) => Jit::native_execution(pipeline.clone(), programs, live),
            Err(reason) => {
                let interp = Arc::new(Mutex::new(Interp::new(pipeline.clone(), config)?));
                Execution::Interpreted { interp, reason, packets: 0 }
            }
        };
        let takes_offloads = reads_segment_excess(&pipeline);
        Ok(Jit { pipeline, execution, reasons, takes_offloads })
    }

    /// Makes the state of an engine that runs native code: a worker of its own and the parts that
    /// all workers share.
    fn native_execution(
        pipeline: Arc<Pipeline>,
        NativePrograms { program, unrecorded, later }: NativePrograms,
        live: LiveTables,
    ) -> Execution {
        let mut worker = Box::new(JitWorker::new(program.clone()));
        let mut unrecorded_worker =
            unrecorded.as_ref().map(|unrecorded| Box::new(worker.new_sharing_counters(unrecorded.clone())));
        let later_stats = Mutex::default();
        set_later_passes(later.as_ref(), &mut worker, &mut unrecorded_worker, &later_stats);
        let mut host = program.runtime.host.lock();
        for table in pipeline.tables.keys() {
            for entry in live.state().entries(table) {
                let number = match program.runtime.written.get(table) {
                    Some(written) => program.runtime.written.restore(table, entry).filter(|_| written.has_host_state),
                    None => live.entry_id(table, entry).filter(|_| host.tracks_entries(table)),
                };
                if let Some(number) = number {
                    host.entry_inserted(table, number, entry, Counter::default());
                }
            }
        }
        drop(host);
        let entries = program.code.record_layout.is_some().then(|| Mutex::new(EntriesById::new(&pipeline, &live)));
        let reader = live.reader();
        let counters = Mutex::new(vec![worker.counters.clone()]);
        let worker_stats = Mutex::new(vec![worker.stats.clone()]);
        let offsets = Mutex::default();
        let shared = EngineShared {
            pipeline,
            program,
            unrecorded,
            later,
            live: Mutex::new(live),
            offsets,
            counters,
            worker_stats,
            later_stats,
            is_idle_held: AtomicBool::new(false),
            entries,
        };
        Execution::Native { shared: Arc::new(shared), reader, worker, unrecorded: unrecorded_worker }
    }

    /// Makes another worker with the same tables and objects, for another thread. Each worker
    /// counts separately; [`Jit::counter`] adds up.
    pub fn new_worker(&self) -> Jit {
        let way = match &self.execution {
            Execution::Native { shared, .. } => {
                let mut worker = Box::new(JitWorker::new(shared.program.clone()));
                shared.counters.lock().push(worker.counters.clone());
                shared.worker_stats.lock().push(worker.stats.clone());
                let reader = shared.live.lock().reader();
                let mut quiet =
                    shared.unrecorded.as_ref().map(|quiet| Box::new(worker.new_sharing_counters(quiet.clone())));
                set_later_passes(shared.later.as_ref(), &mut worker, &mut quiet, &shared.later_stats);
                Execution::Native { shared: shared.clone(), reader, worker, unrecorded: quiet }
            }
            Execution::Interpreted { interp, reason, .. } => {
                Execution::Interpreted { interp: interp.clone(), reason: *reason, packets: 0 }
            }
        };
        let (pipeline, reasons) = (self.pipeline.clone(), self.reasons.clone());
        Jit { pipeline, execution: way, reasons, takes_offloads: self.takes_offloads }
    }

    /// Returns the packets that this worker ran on the interpreter, by reason.
    pub fn fallback_counts(&self) -> BTreeMap<&'static str, u64> {
        match &self.execution {
            Execution::Native { .. } => BTreeMap::new(),
            Execution::Interpreted { reason, packets, .. } => BTreeMap::from([(reason.name(), *packets)]),
        }
    }

    /// Returns the reason why the interpreter runs the pipeline; `None` if native code does.
    pub fn fallback_reason(&self) -> Option<FallbackReason> {
        match &self.execution {
            Execution::Native { .. } => None,
            Execution::Interpreted { reason, .. } => Some(*reason),
        }
    }

    /// Returns packets, bytes and time of each stage, table and action, summed over all workers.
    pub fn stats(&self) -> EngineStats {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let sum = |program: &CompiledProgram, workers: &Mutex<Vec<Arc<WorkerStats>>>| {
                    let workers = workers.lock();
                    let workers = workers.iter().map(Arc::as_ref);
                    sum_worker_stats(&program.pipeline, &program.code.stats_layout, &program.code.stages, workers)
                };
                let mut stats = sum(&shared.program, &shared.worker_stats);
                if let Some(later) = &shared.later {
                    stats.tables.extend(sum(later, &shared.later_stats).tables);
                }
                stats
            }
            Execution::Interpreted { interp, .. } => {
                let interp = interp.lock();
                let table_stats = |table: TableId| {
                    let actions = interp.action_counters(table).map(|(action, [misses, hits])| ActionStats {
                        action,
                        hits,
                        misses,
                    });
                    TableStats { table, actions: actions.collect() }
                };
                EngineStats { stages: Vec::new(), tables: self.pipeline.tables.keys().map(table_stats).collect() }
            }
        }
    }

    /// Returns the number of writes to the tables: the version that packets see from their next
    /// batch on.
    pub fn tables_version(&self) -> u64 {
        match &self.execution {
            Execution::Native { shared, .. } => shared.live.lock().published_version(),
            Execution::Interpreted { interp, .. } => interp.lock().state().version(),
        }
    }

    /// Returns the version of the tables that each worker used for its last batch, for workers made
    /// from this engine, in that order; `None` while a worker is idle, or if the interpreter runs
    /// its packets.
    pub fn worker_versions(&self) -> Vec<Option<u64>> {
        match &self.execution {
            Execution::Native { shared, .. } => {
                shared.worker_stats.lock().iter().skip(1).map(|tally| tally.version()).collect()
            }
            Execution::Interpreted { .. } => Vec::new(),
        }
    }

    /// Returns the memory of a table in bytes: its lookup structures (two copies under native code)
    /// and its entries.
    pub fn table_memory(&self, table: TableId) -> usize {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let live = shared.live.lock();
                let written_bytes = shared.program.runtime.written.memory_bytes(table);
                live.table_memory_bytes(table) + live.state().table_memory_bytes(table) + written_bytes
            }
            Execution::Interpreted { interp, .. } => interp.lock().state().table_memory_bytes(table),
        }
    }

    /// Applies a batch atomically. All workers see it from their next batch on.
    ///
    /// # Errors
    /// The first refused update; then nothing has changed.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        match &mut self.execution {
            Execution::Native { shared, reader, .. } => {
                // A reader of this thread must not block the writer.
                reader.release();
                shared.write(batch, |_, _| {})
            }
            Execution::Interpreted { interp, .. } => interp.lock().write(batch),
        }
    }

    /// Applies batches in order, each atomically, and publishes all of them together.
    pub fn write_many(&mut self, batches: &[WriteBatch]) -> Vec<Result<(), WriteError>> {
        match &mut self.execution {
            Execution::Native { shared, reader, .. } => {
                reader.release();
                shared.write_many(batches)
            }
            Execution::Interpreted { interp, .. } => {
                let mut interp = interp.lock();
                batches.iter().map(|batch| interp.write(batch)).collect()
            }
        }
    }

    /// Does a part of the pending table maintenance, mostly some tens of microseconds
    /// ([`lookup::LiveTables::maintain`]); call it when there is nothing to write. Returns whether
    /// more is pending.
    pub fn maintain_tables(&mut self) -> bool {
        match &mut self.execution {
            Execution::Native { shared, reader, .. } => {
                reader.release();
                shared.live.lock().maintain(TIDY_PIECES)
            }
            Execution::Interpreted { .. } => false,
        }
    }

    /// Applies many batches to an engine that has no other workers yet. The result is that of
    /// [`Jit::write`] for each, but the lookup structures are built once. A refused batch is
    /// applied partially: its updates are applied one by one, except those that are refused.
    ///
    /// # Errors
    /// The error of `batches`; the batches before it are applied.
    pub fn load_batches<E>(&mut self, mut batches: impl Iterator<Item = Result<WriteBatch, E>>) -> Result<(), E> {
        match &mut self.execution {
            Execution::Native { shared, reader, .. } => {
                reader.release();
                let outcome = shared.load(&mut batches);
                *reader = shared.live.lock().reader();
                outcome
            }
            Execution::Interpreted { interp, .. } => {
                let mut interp = interp.lock();
                batches.try_for_each(|batch| {
                    batch?.apply_accepted(|batch| interp.write(batch));
                    Ok(())
                })
            }
        }
    }

    /// Returns the direct counter of an entry that is in the table.
    pub fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        match &self.execution {
            Execution::Native { shared, .. } => {
                // An entry of a table without keys is never hit.
                shared.pipeline.tables.get(table)?.match_keys().next()?;
                let number = shared.entry_number(table, entry)?;
                shared.program.runtime.host.lock().direct_counter(table, number)
            }
            Execution::Interpreted { interp, .. } => interp.lock().entry_counter(table, entry),
        }
    }

    /// Calls `f` with the control-plane state without the entries of packets that only tables hold
    /// that packets write.
    pub fn with_written_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R {
        match &self.execution {
            Execution::Native { shared, .. } => f(shared.live.lock().state()),
            Execution::Interpreted { interp, .. } => f(interp.lock().state()),
        }
    }

    /// Calls `f` with the control-plane state, with all entries of packets.
    pub fn with_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R {
        match &self.execution {
            Execution::Native { shared, .. } => f(shared.live_with_added_entries().state()),
            Execution::Interpreted { interp, .. } => f(interp.lock().state()),
        }
    }

    /// Returns the value of an indexed counter, summed over all workers. Both packets and bytes are
    /// counted, whatever its unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.counter(counter, index),
            Execution::Interpreted { interp, .. } => interp.lock().counter(counter, index),
        }
    }

    /// Returns index and value of the elements of an indexed counter below `end` that have counted
    /// packets, summed over all workers.
    pub fn nonzero_counters(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        match &self.execution {
            Execution::Native { shared, .. }
                if shared.program.code.counters.get(counter.index()).is_some_and(Option::is_some) =>
            {
                shared.nonzero_counters(counter, end)
            }
            _ => {
                let value = |index| Some((index, self.counter(counter, index).filter(|value| value.packets != 0)?));
                (0..end).filter_map(value).collect()
            }
        }
    }

    /// Returns the pipeline that runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Returns the number of elements of a counter, meter or register.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().array_len(object),
            Execution::Interpreted { interp, .. } => interp.lock().array_len(object),
        }
    }

    /// Returns how much of a pool of ports is in use; `None` for another object.
    pub fn port_usage(&self, pool: ExternId) -> Option<interp::PortUsage> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.written.leases.ports.usage(pool),
            Execution::Interpreted { interp, .. } => interp.lock().port_usage(pool),
        }
    }

    /// Returns how many entries of an owner a quota counts; `None` for another object.
    pub fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32> {
        match &self.execution {
            Execution::Native { shared, .. } => {
                shared.program.runtime.written.leases.quotas.usage(quota, owner).map(|[entries, _]| entries)
            }
            Execution::Interpreted { interp, .. } => interp.lock().quota_entries(quota, owner),
        }
    }

    /// Calls `ask` with a pool of ports, for the control plane. Does nothing for another object. Packets that
    /// take a port wait meanwhile.
    pub fn with_port_pool(&self, pool: ExternId, ask: &mut dyn FnMut(&mut dyn interp::PoolControl)) {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.written.leases.ports.with_pool(pool, ask),
            Execution::Interpreted { interp, .. } => {
                if let Some(pool) = interp.lock().port_pool_mut(pool) {
                    ask(pool);
                }
            }
        }
    }

    /// Returns the leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().register(register, index),
            Execution::Interpreted { interp, .. } => interp.lock().register(register, index),
        }
    }

    /// Returns access to the current contents of registers and pools of ports, for an explainer.
    pub fn registers(&self) -> Registers {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let [values, pools, quotas] = [shared.clone(), shared.clone(), shared.clone()];
                Registers::new(move |register, index| values.program.runtime.host.lock().register(register, index))
                    .with_ports(move |pool, request, now| {
                        let mut port = None;
                        let pools = &pools.program.runtime.written.leases.ports;
                        pools.with_pool(pool, &mut |pool| port = Some(pool.preview(request, now)));
                        port
                    })
                    .with_quotas(move |quota, owner| {
                        let quotas = &quotas.program.runtime.written.leases.quotas;
                        quotas.usage(quota, owner).map(|[entries, _]| entries)
                    })
            }
            Execution::Interpreted { interp, .. } => {
                let [values, pools, quotas] = [interp.clone(), interp.clone(), interp.clone()];
                Registers::new(move |register, index| values.lock().register(register, index))
                    .with_ports(move |pool, request, now| Some(pools.lock().port_pool_mut(pool)?.preview(request, now)))
                    .with_quotas(move |quota, owner| quotas.lock().quota_entries(quota, owner))
            }
        }
    }

    /// Returns the direct counter of an entry.
    pub fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let live = shared.live_with_added_entries();
                let declared = shared.pipeline.tables.get(id.table)?;
                // An entry of a table without keys is never hit.
                declared.match_keys().next()?;
                let layout = KeyLayout::new(&declared.keys);
                let mut entries = live.state().entries(id.table);
                let entry = entries.find(|e| e.priority() == id.priority && layout.unpack(e.key()) == id.keys)?;
                let number = shared.number_in(&live, id.table, entry)?;
                shared.program.runtime.host.lock().direct_counter(id.table, number)
            }
            Execution::Interpreted { interp, .. } => interp.lock().direct_counter(id),
        }
    }

    /// Takes the pending digest messages.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().take_digests(),
            Execution::Interpreted { interp, .. } => interp.lock().take_digests(),
        }
    }

    /// Returns the number of digest messages and notifications that were lost because they were not
    /// taken in time.
    pub fn lost_messages(&self) -> u64 {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().lost_messages(),
            Execution::Interpreted { interp, .. } => interp.lock().lost_messages(),
        }
    }

    /// Releases the tables; call it before the thread sleeps for long.
    pub fn park(&mut self) {
        if let Execution::Native { reader, worker, .. } = &mut self.execution {
            reader.release();
            worker.park();
            worker.stats.mark_idle();
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

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        match &mut self.execution {
            Execution::Native { unrecorded: Some(_), .. } => {
                self.process_unrecorded(batch.packets_mut(), 0, out);
            }
            Execution::Native { reader, worker, .. } => {
                worker.run_batch(batch.packets_mut(), 0, reader.acquire(), out, None)
            }
            Execution::Interpreted { interp, packets, .. } => {
                *packets += batch.len() as u64;
                Engine::process(&mut *interp.lock(), batch, out);
            }
        }
    }

    fn takes_offloads(&self) -> bool {
        self.takes_offloads
    }

    fn tick(&mut self, now: u64, out: &mut BatchOutput) {
        match &mut self.execution {
            Execution::Native { shared, reader, worker, .. } => {
                // An idle worker must not block the writer, so it releases the version that it used
                // last.
                worker.stats.set_tables_version(reader.acquire().version());
                worker.park();
                shared.advance_without_waiting(now);
            }
            Execution::Interpreted { interp, .. } => interp.lock().tick(now, out),
        }
    }

    fn on_idle(&mut self) {
        self.park();
    }
}
