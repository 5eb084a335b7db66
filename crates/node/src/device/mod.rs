//! [`Node`]: the workers, the tables and the store as one device that P4Runtime controls.

mod configs;
mod flow_tables;
mod requests;
mod state_transfer;
mod store_access;

pub(crate) use configs::{config_from_store, config_to_store, pack_batch, parse_device_config};
pub(crate) use state_transfer::{extern_value_updates, load_batches};

use crate::cpu_port::PuntedPacket;
use crate::data_plane::{DataPlane, DataPlaneError, WorkerSpec};
use crate::engine::{CapacityError, EngineControl, SharedEngineFactory};
use crate::link_watch::LinkWatch;
use crate::migrate::PipelineMapping;
use crate::nat::BlockLog;
use crate::observe::named_stats::NamedStats;
use crate::observe::{ServiceHandles, StatsSnapshot};
use crate::region::RegionKeeper;
use crate::store::{Store, StoreError, StoredDigest};
use crate::underlay::PortStatesKeeper;
use crate::wings::Wings;
use crate::{WorkerCounts, dynamic_state, migrate, session_transfer};
use entries::{ControlState, StateUpdate, StoredEntry, WriteBatch};
use interp::DigestMessage;
use io::{AttachedPort, IdlePolicy, Port};
use ir::Pipeline;
use p4runtime::{Code, DeviceEvent, EventSink, P4RuntimeError, PipelineConfig, Translations};
use packet::PortId;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thiserror::Error;

/// A log with this many updates per table entry is compacted.
const COMPACTION_FACTOR: u64 = 3;
/// A log with fewer updates than this is never compacted.
const MIN_COMPACTED_UPDATES: u64 = 100_000;

/// Components of a node.
pub struct NodeParts {
    /// Device id by which controllers address the node.
    pub device_id: u64,
    /// Core and ports of each worker.
    pub seats: Vec<WorkerSpec>,
    /// Behaviour of idle workers.
    pub idle: IdlePolicy,
    /// Settings of the engines. The CPU port is [`interp::Config::cpu_port`], or PNA's own.
    pub settings: interp::Config,
    /// Factory of engines for programs.
    pub engine: SharedEngineFactory,
    /// The durable store; `None`: the node starts empty after a restart.
    pub store: Option<Store>,
    /// Configured translations of controllers' strings, for types whose translation the program
    /// does not define.
    pub translations: Translations,
    /// Optional engines that the binary adds.
    pub wings: Wings,
}

/// A node cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The workers cannot start.
    #[error(transparent)]
    Plane(#[from] DataPlaneError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored pipeline cannot run.
    #[error(
        "the store holds a pipeline that cannot be run: {0}; move the store away, and have the controller set the pipeline again"
    )]
    Pipeline(P4RuntimeError),
    /// The stored entries exceed the engine's capacity.
    #[error("the store's tables do not fit: {0}")]
    Entries(CapacityError),
}

/// The running program with its engine.
pub(crate) struct RunningPipeline {
    pub config: PipelineConfig,
    /// Control side of the engine: writes tables and reads counters; processes no packets.
    pub engine: Box<dyn EngineControl>,
}

#[derive(Default)]
pub(crate) struct NodeState {
    pub current: Option<RunningPipeline>,
    pub saved: Option<PipelineConfig>,
    pub store: Option<Store>,
    /// Digests that were enabled when the store was opened.
    pub digests: Vec<StoredDigest>,
    /// Digest messages that were taken from the running program's engine but not delivered yet.
    pub deferred_digests: Vec<DigestMessage>,
    /// Statistics of earlier programs, for names that the running program also has.
    pub past_stats: NamedStats,
    /// Counts of packets that bypassed the workers in earlier programs.
    pub past_bypass_counts: WorkerCounts,
    /// Encoded numbers of a region's objects such as VPCs; empty without a region.
    pub region_numbers: Vec<u8>,
    /// Why writes are refused: the store and the tables differ.
    store_fault: Option<String>,
    /// State of writes during a take-over.
    pub write_gate: WriteGate,
    /// Path and update count of a store that was closed and will be opened again: for a take-over
    /// that failed, or after an error.
    pub closed_store: Option<(PathBuf, u64)>,
}

/// Whether writes pass during a take-over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteGate {
    /// Writes pass.
    #[default]
    Open,
    /// Writes wait.
    Blocked,
    /// Writes are refused because another process has taken over.
    TakenOver,
}

/// A node.
pub struct Node {
    pub(crate) device_id: u64,
    pub(crate) plane: DataPlane,
    pub(crate) settings: interp::Config,
    factory: SharedEngineFactory,
    pub(crate) wings: Wings,
    inner: Mutex<NodeState>,
    service: ServiceHandles,
    /// Statistics at the last [`Node::reset_counters`].
    cleared: Mutex<StatsSnapshot>,
    started_at: Instant,
    /// Signals a change of the write gate.
    gate_changed: Condvar,
    sink: Arc<RwLock<Option<EventSink>>>,
    events_lost: Arc<AtomicU64>,
    /// Counts of predecessor processes.
    predecessor_counts: Mutex<WorkerCounts>,
    pub(crate) translations: Translations,
    /// Owner of the tables if the configuration names a region file.
    pub(crate) region: Arc<RegionKeeper>,
    port_states: PortStatesKeeper,
    pub(crate) block_log: BlockLog,
}

/// Returns the counts of a program's packets that bypassed the workers.
fn bypass_counts_of(engine: &dyn EngineControl) -> WorkerCounts {
    let counters = engine.bypass_counters();
    if counters == packet::EngineCounters::default() {
        // Most engines process all packets in workers; then the reason names are not needed.
        return WorkerCounts::default();
    }
    WorkerCounts::of_bypass(&counters, engine.new_worker().reasons())
}

impl Node {
    /// Starts the workers with the stored program and tables.
    ///
    /// # Errors
    /// Returns [`StartError`].
    pub fn start(parts: NodeParts) -> Result<Node, StartError> {
        let NodeParts { device_id, seats, idle, mut settings, engine: factory, store, translations, wings } = parts;
        let region: Arc<RegionKeeper> = Arc::default();
        let sources = region.clone();
        settings.sources = interp::EntrySources::new(move |table, entry| sources.entry_source(table, entry));
        let sink: Arc<RwLock<Option<EventSink>>> = Arc::default();
        let events_lost = Arc::new(AtomicU64::new(0));
        let punts = {
            let sink = sink.clone();
            Arc::new(move |punted: PuntedPacket| deliver_event(&sink, DeviceEvent::PacketIn(punted.bytes)))
        };
        let block_log = BlockLog::new(settings.notes_port_blocks);
        let plane = DataPlane::start(seats, idle, settings.cpu_port, punts)?;
        let (inner, released, before) = (Mutex::default(), Condvar::new(), Mutex::default());
        let (service, cleared, began) = (ServiceHandles::default(), Mutex::default(), Instant::now());
        let node = Node {
            device_id,
            plane,
            settings,
            factory,
            wings,
            inner,
            service,
            cleared,
            started_at: began,
            gate_changed: released,
            sink,
            events_lost,
            predecessor_counts: before,
            translations,
            region,
            port_states: PortStatesKeeper::default(),
            block_log,
        };
        if let Some(store) = store {
            node.restore_from_store(store)?;
        }
        Ok(node)
    }

    /// Runs the stored program with its tables.
    fn restore_from_store(&self, mut store: Store) -> Result<(), StartError> {
        let mut inner = self.inner.lock();
        inner.saved = store.saved_config()?.map(config_from_store).transpose().map_err(StartError::Pipeline)?;
        if let Some(kept) = store.running_config()? {
            let config = config_from_store(kept).map_err(StartError::Pipeline)?;
            let mut engine = self.load_engine(&config.pipeline).map_err(StartError::Pipeline)?;
            let began = std::time::Instant::now();
            store.replay_batches(|batches| load_batches(&mut *engine, batches))?.map_err(StartError::Entries)?;
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (program, updates) = (&config.pipeline.name, store.update_count());
            tracing::info!(program, updates, cookie = config.cookie, ms, "the store was read");
            self.update_links(&mut *engine);
            self.switch_engine(&*engine)?;
            inner.current = Some(RunningPipeline { config, engine });
        }
        inner.digests = store.enabled_digests()?;
        inner.region_numbers = store.region_numbers()?;
        inner.store = Some(store);
        Ok(())
    }

    /// Creates an engine for a pipeline, which no worker runs yet.
    pub(crate) fn load_engine(&self, pipeline: &Arc<Pipeline>) -> Result<Box<dyn EngineControl>, P4RuntimeError> {
        let notes_port_blocks = self.block_log.is_on();
        let settings = interp::Config { notes_port_blocks, ..self.settings.clone() };
        let mut engine = self.factory.load(pipeline, &settings)?;
        // Sets the clock first, so that the idle time of an entry starts at its insertion, not at
        // the epoch.
        engine.advance_time(io::now());
        Ok(engine)
    }

    /// Switches the workers to an engine. Logs a warning if the program falls back to the reference
    /// engine.
    pub(crate) fn switch_engine(&self, engine: &dyn EngineControl) -> Result<(), DataPlaneError> {
        if self.factory.falls_back(engine) {
            let (program, why) = (&engine.pipeline().name, engine.fallback_reason().unwrap_or_default());
            tracing::warn!(
                program,
                why,
                "fallback: the program runs on the reference engine, at about a tenth of native code's speed"
            );
        }
        for note in engine.flow_tables().map(|tables| tables.notes()).unwrap_or_default() {
            tracing::warn!(program = engine.pipeline().name, note);
        }
        self.plane.switch_engine(engine)
    }

    /// Returns the states of the ports.
    pub(crate) fn port_states(&self) -> &PortStatesKeeper {
        &self.port_states
    }

    /// Returns the engine factory.
    pub(crate) fn factory(&self) -> &SharedEngineFactory {
        &self.factory
    }

    /// Returns the counts of each worker. The first worker's include those of predecessor
    /// processes.
    pub fn counts(&self) -> Vec<WorkerCounts> {
        let mut counts = self.plane.counts();
        counts.iter_mut().take(1).for_each(|first| *first += &self.predecessor_counts.lock());
        counts
    }

    /// Returns the counts of packets that bypassed the workers, over all programs of this process.
    pub(crate) fn bypass_counts(&self) -> WorkerCounts {
        let inner = self.inner.lock();
        let mut all = inner.past_bypass_counts.clone();
        if let Some(current) = &inner.current {
            all += &bypass_counts_of(&*current.engine);
        }
        all
    }

    /// Sets the counts of predecessor processes.
    pub(crate) fn set_predecessor_counts(&self, before: WorkerCounts) {
        *self.predecessor_counts.lock() = before;
    }

    /// Attaches a port while packets flow, to the worker with the fewest ports. A port number that
    /// existed before keeps its counters.
    ///
    /// # Errors
    /// The port number is in use, or the worker does not execute the command; the port is closed
    /// then.
    pub fn attach_port(&self, number: u32, port: Box<dyn Port>) -> Result<(), DataPlaneError> {
        // Waits while another process takes the ports.
        let _inner = self.lock_for_change().map_err(|_| DataPlaneError::TakenOver)?;
        let mut ports = vec![0; self.plane.len()];
        self.plane.ports().into_iter().for_each(|(_, _, worker)| ports[worker] += 1);
        let worker = (0..ports.len()).min_by_key(|worker| ports[*worker]).unwrap_or(0);
        self.plane.attach(worker, vec![AttachedPort { id: PortId(number), port }])
    }

    /// Detaches a port while packets flow. Packets received so far are sent first; packets that the
    /// program sends there later are dropped as `unknown_port`. Returns `None` if the port does not
    /// exist.
    ///
    /// # Errors
    /// The worker does not execute the command.
    pub fn detach_port(&self, number: u32) -> Result<Option<Box<dyn Port>>, DataPlaneError> {
        let _inner = self.lock_for_change().map_err(|_| DataPlaneError::TakenOver)?;
        Ok(self.plane.detach(PortId(number))?.map(|detached| detached.attached.port))
    }

    /// Returns number, name and worker of each port.
    pub fn ports(&self) -> Vec<(u32, String, usize)> {
        self.plane.ports().into_iter().map(|(id, name, worker)| (id.0, name, worker)).collect()
    }

    /// Locks the node's state, for a take-over.
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, NodeState> {
        self.inner.lock()
    }

    /// Blocks writes and idle timeouts, after delivering all pending events of the engine.
    pub(crate) fn freeze_writes(&self) {
        let mut inner = self.inner.lock();
        if let Some(current) = &inner.current {
            current.engine.hold_idle(true);
        }
        self.poll_engine(&mut inner);
        inner.write_gate = WriteGate::Blocked;
    }

    /// Sets the write gate: writes and idle timeouts continue, or writes are refused because
    /// another process has taken over.
    pub(crate) fn set_write_gate(&self, hold: WriteGate) {
        let mut inner = self.inner.lock();
        if let Some(current) = inner.current.as_ref().filter(|_| hold == WriteGate::Open) {
            current.engine.hold_idle(false);
        }
        inner.write_gate = hold;
        self.gate_changed.notify_all();
    }

    /// Waits until writes are allowed, and opens a closed store.
    ///
    /// # Errors
    /// `UNAVAILABLE`: another process has taken over, or the store cannot be opened.
    fn lock_for_write(&self) -> Result<MutexGuard<'_, NodeState>, P4RuntimeError> {
        let mut inner = self.lock_for_change()?;
        if let Some((path, updates)) = inner.closed_store.clone() {
            inner.store =
                Some(Store::open(&path).map_err(|error| P4RuntimeError::from(&error))?.with_update_count(updates));
            inner.closed_store = None;
        }
        Ok(inner)
    }

    /// Waits until changes are allowed.
    ///
    /// # Errors
    /// `UNAVAILABLE`: another process has taken over.
    fn lock_for_change(&self) -> Result<MutexGuard<'_, NodeState>, P4RuntimeError> {
        let mut inner = self.inner.lock();
        while inner.write_gate == WriteGate::Blocked {
            self.gate_changed.wait(&mut inner);
        }
        if inner.write_gate == WriteGate::TakenOver {
            return Err(P4RuntimeError::new(
                Code::Unavailable,
                "another process has taken over this node; connect again",
            ));
        }
        Ok(inner)
    }

    /// Returns the statistics of tables, actions and stages, over all programs.
    pub fn named_stats(&self) -> NamedStats {
        let inner = self.inner.lock();
        let mut all = inner.past_stats.clone();
        if let Some(current) = &inner.current {
            all.add_engine(&current.config.pipeline, &*current.engine);
        }
        all
    }

    /// Returns the handles that the node's server shares with its status.
    pub fn service(&self) -> &ServiceHandles {
        &self.service
    }

    pub(crate) fn lock_cleared(&self) -> MutexGuard<'_, StatsSnapshot> {
        self.cleared.lock()
    }

    pub(crate) fn started_at(&self) -> Instant {
        self.started_at
    }

    /// Returns the processor to which a worker is pinned.
    pub(crate) fn core_of(&self, worker: usize) -> Option<usize> {
        self.plane.core_of(worker)
    }

    /// Calls `ask` with the engine's control side and the pipeline config, if a program runs.
    pub(crate) fn with_engine<T>(&self, ask: impl FnOnce(&dyn EngineControl, &PipelineConfig) -> T) -> Option<T> {
        self.with_running(|current| Some(ask(&*current.engine, &current.config)))
    }

    /// Returns the number of undelivered events: packets for the controller, digests,
    /// notifications.
    pub fn events_lost(&self) -> u64 {
        self.events_lost.load(Ordering::Relaxed) + self.plane.punts_lost()
    }

    /// Returns the number of ticks of each worker, which stops growing if the worker hangs.
    pub fn tick_counts(&self) -> Vec<u64> {
        self.plane.tick_counts()
    }

    /// Returns whether all workers have ended because their ports failed.
    pub fn have_ended(&self) -> bool {
        self.plane.have_ended()
    }

    /// Returns the ports with their link state. `None` in a tier process without the switch,
    /// because another process has the ports that programs know.
    pub(crate) fn links(&self) -> Option<BTreeMap<u32, entries::DevicePort>> {
        (!self.factory.has_remote_ports()).then(|| self.plane.links())
    }

    /// Updates the engine's link states if they changed. Groups skip members whose watch port is
    /// down. The states are not stored, because the control plane neither writes nor reads them.
    pub(crate) fn update_links(&self, engine: &mut dyn EngineControl) {
        let Some(links) = self.links() else { return };
        if engine.with_written_state(|state| state.ports() == Some(&links)) {
            return;
        }
        let batch: WriteBatch = std::iter::once(StateUpdate::Ports(Some(links))).collect();
        if let Err(error) = engine.write(&batch) {
            tracing::error!(%error, "an engine rejects the link states; the members of groups are unchanged");
        }
    }

    /// Returns the signal for link changes, after which [`Node::tick`] should run.
    pub fn link_watch(&self) -> Arc<LinkWatch> {
        self.plane.link_watch()
    }

    /// Does the periodic work: updates link states, delivers digests and notifications, and expires
    /// entries. Call it about a hundred times a second.
    pub fn tick(&self) {
        let mut inner = self.inner.lock();
        if inner.write_gate == WriteGate::Open {
            if let Some(current) = &mut inner.current {
                self.update_links(&mut *current.engine);
            }
            self.poll_engine(&mut inner);
        }
    }

    /// Returns whether a subscriber for events exists.
    fn has_event_sink(&self) -> bool {
        self.sink.read().is_some()
    }

    fn poll_engine(&self, inner: &mut NodeState) {
        let NodeState { current: Some(current), deferred_digests, .. } = &mut *inner else { return };
        let deferred_digests = if self.has_event_sink() { std::mem::take(deferred_digests) } else { Vec::new() };
        for message in deferred_digests.into_iter().chain(current.engine.take_digests()) {
            self.send_event(DeviceEvent::Digest { digest: message.digest, values: message.values });
        }
        current.engine.maintain_tables();
        let idle = current.engine.advance_time(io::now());
        let mut gone = WriteBatch::new();
        for idle in idle {
            if idle.deleted {
                gone.push_stored(entries::UpdateKind::Delete, idle.table, &idle.entry);
            }
            let idle_ns = current.engine.entry_idle_for(idle.table, &idle.entry).unwrap_or(0);
            let idle_ns = idle_ns.max(idle.entry.idle_timeout_ns());
            self.send_event(DeviceEvent::Idle { table: idle.table, entry: idle.entry, idle_ns });
        }
        if !gone.updates.is_empty() {
            // The failure is logged, and the next write returns it.
            let _ = inner.with_store(|store| store.append_batches(std::iter::once(&gone)));
        }
    }

    pub(crate) fn send_event(&self, event: DeviceEvent) {
        if !deliver_event(&self.sink, event) {
            self.events_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Compacts the store's log if it is much longer than the tables. Writes continue meanwhile.
    /// Call it from time to time on a thread that can block. Returns whether it compacted.
    ///
    /// # Errors
    /// The store cannot be written; the old log stays in use.
    pub fn compact_store(&self) -> Result<bool, StoreError> {
        let state = {
            let mut inner = self.inner.lock();
            let NodeState { current: Some(current), store: Some(store), write_gate: WriteGate::Open, .. } = &mut *inner
            else {
                return Ok(false);
            };
            if store.update_count() < MIN_COMPACTED_UPDATES {
                return Ok(false);
            }
            let state = current.engine.with_state(ControlState::clone);
            let entries: u64 = state.pipeline().tables.keys().map(|table| state.entry_count(table) as u64).sum();
            if store.update_count() < entries * COMPACTION_FACTOR {
                return Ok(false);
            }
            store.begin_compaction();
            state
        };
        // A state that exists can always be converted.
        let Ok(batches) = migrate::state_to_batches(&state) else { return Ok(false) };
        for (number, batch) in (0..).zip(batches) {
            let mut inner = self.inner.lock();
            let Some(store) = &mut inner.store else { return Ok(false) };
            if !store.write_compacted(number, &batch)? {
                return Ok(false);
            }
        }
        match &mut self.inner.lock().store {
            Some(store) => store.end_compaction().map(|()| true),
            None => Ok(false),
        }
    }

    fn with_running<T>(&self, ask: impl FnOnce(&RunningPipeline) -> Option<T>) -> Option<T> {
        ask(self.inner.lock().current.as_ref()?)
    }

    /// Transfers the fitting state of the running program to `engine`. Returns the number of
    /// refused updates.
    fn migrate_state(&self, from: &RunningPipeline, engine: &mut dyn EngineControl, pipeline: &Pipeline) -> usize {
        let state = from.engine.with_state(ControlState::clone);
        let fresh = engine.with_state(ControlState::clone);
        let matching = Rc::new(PipelineMapping::new(state.pipeline(), pipeline));
        let mut refused = 0;
        let mut write = |updates: Vec<StateUpdate>| {
            let not = WriteBatch { updates }.apply_accepted(|batch| engine.write(batch));
            refused += not.len();
        };
        write(matching.object_updates(&state));
        // A running pipeline is valid, so its initial state exists.
        if let Ok(own) = ControlState::new(state.pipeline().clone()) {
            for table in state.pipeline().tables.keys() {
                let counter = |table, entry: &StoredEntry| from.engine.entry_counter(table, entry);
                write(matching.entry_updates(table, &state, [&own, &fresh], counter).collect());
            }
        }
        write(matching.default_action_updates(&state));
        write(extern_value_updates(&*from.engine, &matching));
        let Ok(()) = dynamic_state::collect_dynamic_state(&*from.engine, &state, &matching, |some| {
            dynamic_state::restore_dynamic_state(engine, &some);
            Ok::<_, Infallible>(())
        });
        let mut ended = 0;
        let Ok(()) = session_transfer::collect_sessions(&*from.engine, &state, &matching, |batch| {
            ended += session_transfer::restore_sessions(engine, &batch);
            Ok::<_, Infallible>(())
        });
        session_transfer::log_ended_sessions(ended);
        refused
    }
}

fn deliver_event(sink: &RwLock<Option<EventSink>>, event: DeviceEvent) -> bool {
    let sink = sink.read();
    sink.as_ref().is_some_and(|sink| sink(event))
}
