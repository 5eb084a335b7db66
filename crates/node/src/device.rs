//! [`Node`]: the workers, the tables and the store as one device that P4Runtime controls.

use crate::cpu_port::Punted;
use crate::plane::{Plane, PlaneError, Seat};
use crate::reconcile::{Matching, apply_what_fits};
use crate::store::{KeptConfig, Store, StoreError};
use crate::{Counts, contents};
use bytes::Bytes;
use io::Idle;
use ir::{ExternId, ExternKind, Pipeline, TableId};
use jit::Jit;
use num_bigint::BigUint;
use p4runtime::{Code, Device, Event, EventSink, Forwarding, Keep, Refusal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tables::{CounterData, Entry, State, Update, WriteBatch, WriteError};
use thiserror::Error;

/// A log this many times as long as what it amounts to is written anew.
const LOG_FACTOR: u64 = 3;
/// A log of fewer updates than this is never written anew.
const LOG_LEAST: u64 = 100_000;

/// What a node is made of.
pub struct Parts {
    /// The number by which controllers call it.
    pub device_id: u64,
    /// A worker each.
    pub seats: Vec<Seat>,
    /// What workers do when nothing arrives.
    pub idle: Idle,
    /// How programs are run; the CPU port is [`interp::Config::cpu_port`], or PNA's own.
    pub settings: interp::Config,
    /// Programs run on the reference engine.
    pub interpreted: bool,
    /// Where everything is kept; `None`: a restart begins with nothing.
    pub store: Option<Store>,
}

/// A node cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Its workers can't.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// What is kept can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is kept is not to be run.
    #[error(
        "the store holds a pipeline that cannot be run: {0}; move the store away, and have the controller set the pipeline again"
    )]
    Pipeline(Refusal),
}

/// The program that runs.
struct Current {
    config: Forwarding,
    /// Runs no packets: by it tables are written and counters read.
    engine: Jit,
}

#[derive(Default)]
struct Inner {
    current: Option<Current>,
    saved: Option<Forwarding>,
    store: Option<Store>,
    /// Why nothing can be written any more: the store and the tables differ.
    stuck: Option<String>,
}

/// A node.
pub struct Node {
    device_id: u64,
    plane: Plane,
    settings: interp::Config,
    interpreted: bool,
    inner: Mutex<Inner>,
    sink: Arc<RwLock<Option<EventSink>>>,
    events_lost: Arc<AtomicU64>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Starts the workers, and lets them run what the store has.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(parts: Parts) -> Result<Node, StartError> {
        let Parts { device_id, seats, idle, settings, interpreted, store } = parts;
        let sink: Arc<RwLock<Option<EventSink>>> = Arc::default();
        let events_lost = Arc::new(AtomicU64::new(0));
        let punts = {
            let sink = sink.clone();
            Arc::new(move |punted: Punted| give(&sink, Event::PacketIn(punted.bytes)))
        };
        let plane = Plane::start(seats, idle, settings.cpu_port, punts)?;
        let node = Node { device_id, plane, settings, interpreted, inner: Mutex::default(), sink, events_lost };
        if let Some(store) = store {
            node.restore(store)?;
        }
        Ok(node)
    }

    /// Runs what the store has, with its tables.
    fn restore(&self, mut store: Store) -> Result<(), StartError> {
        let mut inner = lock(&self.inner);
        let forwarding = |kept: KeptConfig| {
            let pipeline = parse(&kept.device_config)?;
            let (p4info, device_config) = (kept.p4info.into(), kept.device_config.into());
            Ok(Forwarding { pipeline, p4info, device_config, cookie: kept.cookie })
        };
        inner.saved = store.saved()?.map(forwarding).transpose().map_err(StartError::Pipeline)?;
        if let Some(kept) = store.running()? {
            let config = forwarding(kept).map_err(StartError::Pipeline)?;
            let mut engine = self.load(&config.pipeline).map_err(StartError::Pipeline)?;
            store.replay(|batches| engine.load(batches))?;
            self.plane.exchange(|| engine.worker())?;
            inner.current = Some(Current { config, engine });
        }
        inner.store = Some(store);
        Ok(())
    }

    fn load(&self, pipeline: &Arc<Pipeline>) -> Result<Jit, Refusal> {
        let make = if self.interpreted { Jit::interpreted } else { Jit::new };
        let refused = |error: jit::JitError| Refusal::unimplemented(error.to_string());
        let mut engine = make(pipeline.clone(), self.settings.clone()).map_err(refused)?;
        // The idle time of an entry that is written at once begins now, not with time itself.
        engine.advance_time(io::now());
        Ok(engine)
    }

    /// What each worker has done.
    pub fn counts(&self) -> Vec<Counts> {
        self.plane.counts()
    }

    /// Events that nobody took: packets for the controller, digests, notifications.
    pub fn events_lost(&self) -> u64 {
        self.events_lost.load(Ordering::Relaxed) + self.plane.punts_lost()
    }

    /// Whether all workers have ended, their ports having failed.
    pub fn have_ended(&self) -> bool {
        self.plane.have_ended()
    }

    /// Time passes: digests and notifications go to whoever subscribed, and a log that has grown too long is written anew. To be called some
    /// hundred times a second.
    pub fn tick(&self) {
        let mut inner = lock(&self.inner);
        let Inner { current: Some(current), store, .. } = &mut *inner else { return };
        for message in current.engine.take_digests() {
            self.tell(Event::Digest { digest: message.digest, values: message.values });
        }
        let mut idle = current.engine.advance_time(io::now());
        idle.extend(current.engine.take_idle());
        let mut gone = WriteBatch::new();
        for idle in idle {
            if idle.deleted {
                let entry = &idle.entry;
                let identity = tables::PackedEntry::identity(idle.table, entry.key()).with_priority(entry.priority());
                gone.packed(tables::UpdateKind::Delete, identity);
            }
            let idle_ns = current.engine.entry_idle_for(idle.table, &idle.entry).unwrap_or(0);
            let idle_ns = idle_ns.max(idle.entry.idle_timeout_ns());
            self.tell(Event::Idle { table: idle.table, entry: idle.entry, idle_ns });
        }
        if let Some(store) = store.as_mut().filter(|_| !gone.updates.is_empty())
            && let Err(error) = store.append(std::iter::once(&gone))
        {
            inner.stuck = Some(error.to_string());
        }
    }

    fn tell(&self, event: Event) {
        if !give(&self.sink, event) {
            self.events_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the store's log anew if it is much longer than what it amounts to. Writes go on meanwhile. To be called now and then, on a thread
    /// that may take its time; whether it was written anew.
    ///
    /// # Errors
    /// If it cannot be written; the log in use stays.
    pub fn tidy_store(&self) -> Result<bool, StoreError> {
        let state = {
            let mut inner = lock(&self.inner);
            let Inner { current: Some(current), store: Some(store), .. } = &mut *inner else { return Ok(false) };
            let state = current.engine.with_state(State::clone);
            let entries: u64 = state.pipeline().tables.keys().map(|table| state.entry_count(table) as u64).sum();
            if store.updates() < LOG_LEAST || store.updates() < entries * LOG_FACTOR {
                return Ok(false);
            }
            store.begin_rewrite();
            state
        };
        // A state that was there has a form.
        let Ok(batches) = contents::writes(&state) else { return Ok(false) };
        for (number, batch) in (0..).zip(batches) {
            let mut inner = lock(&self.inner);
            let Some(store) = &mut inner.store else { return Ok(false) };
            if !store.rewrite(number, &batch)? {
                return Ok(false);
            }
        }
        match &mut lock(&self.inner).store {
            Some(store) => store.end_rewrite().map(|()| true),
            None => Ok(false),
        }
    }

    fn with<T>(&self, ask: impl FnOnce(&Current) -> Option<T>) -> Option<T> {
        ask(lock(&self.inner).current.as_ref()?)
    }

    /// Brings over what fits from the program that runs. Returns how many updates did not.
    fn take_over(&self, from: &Current, engine: &mut Jit, pipeline: &Pipeline) -> usize {
        let state = from.engine.with_state(State::clone);
        let fresh = engine.with_state(State::clone);
        let matching = Matching::new(state.pipeline(), pipeline);
        let mut refused = 0;
        let mut write = |updates: Vec<Update>| {
            let not = apply_what_fits(updates, |batch| engine.write(batch));
            refused += not.len();
        };
        write(matching.objects(&state));
        let entries = matching.entries(&state, &fresh, |table, entry| from.engine.entry_counter(table, entry));
        write(entries);
        write(matching.defaults(&state));
        write(values(&from.engine, &matching));
        refused
    }
}

/// What counters and registers hold, for the objects that the other pipeline has, too.
fn values(engine: &Jit, matching: &Matching<'_>) -> Vec<Update> {
    let mut updates = Vec::new();
    for (old, object) in engine.pipeline().externs.iter() {
        let Some(new) = matching.object(old) else { continue };
        match object.kind {
            ExternKind::Counter { size, .. } => {
                let counted = engine.counted(old, size);
                updates.extend(counted.into_iter().map(|(index, data)| Update::Counter(new, index, data)));
            }
            ExternKind::Register { .. } => {
                for index in 0..engine.array_len(old).unwrap_or(0) {
                    let value = engine.register(old, index).unwrap_or_default();
                    if value.iter().any(|leaf| *leaf != BigUint::ZERO) {
                        updates.push(Update::Register(new, Some(index), value));
                    }
                }
            }
            _ => {}
        }
    }
    updates
}

/// The same batch with its entries in words, which take less time and room in tables and store. Those that cannot be packed stay as they are: to apply
/// them says why.
fn packed(state: &State, batch: &WriteBatch) -> WriteBatch {
    let one = |update: &Update| match update {
        Update::Entry(kind, entry) => match state.pack(*kind, entry) {
            Ok(entry) => Update::Packed(*kind, entry),
            Err(_) => update.clone(),
        },
        other => other.clone(),
    };
    batch.updates.iter().map(one).collect()
}

fn give(sink: &RwLock<Option<EventSink>>, event: Event) -> bool {
    let sink = sink.read().unwrap_or_else(PoisonError::into_inner);
    sink.as_ref().is_some_and(|sink| sink(event))
}

/// The pipeline of a device config, verified; whether an engine can run it is not looked at.
fn parse(device_config: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
    let form = "write it with `terrace compile PROGRAM.p4`";
    let text = std::str::from_utf8(device_config)
        .map_err(|_| Refusal::invalid(format!("the device config is not a pipeline in text form; {form}")))?;
    let pipeline = ir::text::parse(text).map_err(|errors| {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        Refusal::invalid(format!("the device config is no pipeline: {first}; {form}"))
    })?;
    if let Err(errors) = ir::verify::verify(&pipeline) {
        let first = errors.first().map(ToString::to_string).unwrap_or_default();
        return Err(Refusal::invalid(format!("the device config contradicts itself: {first}; {form}")));
    }
    Ok(Arc::new(pipeline))
}

fn nothing_runs() -> Refusal {
    Refusal::new(Code::FailedPrecondition, "no pipeline runs on this device; set one with SetForwardingPipelineConfig")
}

fn kept(config: &Forwarding) -> KeptConfig {
    KeptConfig { p4info: config.p4info.to_vec(), device_config: config.device_config.to_vec(), cookie: config.cookie }
}

fn unavailable(error: &StoreError) -> Refusal {
    Refusal::new(Code::Unavailable, error.to_string())
}

impl Device for Node {
    fn id(&self) -> u64 {
        self.device_id
    }

    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, Refusal> {
        let pipeline = parse(device_config)?;
        self.load(&pipeline)?;
        Ok(pipeline)
    }

    fn save(&self, config: &Forwarding) -> Result<(), Refusal> {
        let mut inner = lock(&self.inner);
        if let Some(store) = &mut inner.store {
            store.save(&kept(config)).map_err(|error| unavailable(&error))?;
        }
        inner.saved = Some(config.clone());
        Ok(())
    }

    fn commit(&self, config: &Forwarding, keep: Keep) -> Result<(), Refusal> {
        let mut engine = self.load(&config.pipeline)?;
        let mut inner = lock(&self.inner);
        if let (Keep::WhatFits, Some(current)) = (keep, &inner.current) {
            self.take_over(current, &mut engine, &config.pipeline);
        }
        if let Some(store) = &mut inner.store {
            let state = engine.with_state(State::clone);
            let batches = contents::writes(&state).map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
            store.replace(&kept(config), batches).map_err(|error| unavailable(&error))?;
        }
        let outcome = self.plane.exchange(|| engine.worker());
        inner.current = Some(Current { config: config.clone(), engine });
        (inner.saved, inner.stuck) = (None, None);
        outcome.map_err(|error| Refusal::new(Code::DeadlineExceeded, error.to_string()))
    }

    fn saved(&self) -> Option<Forwarding> {
        lock(&self.inner).saved.clone()
    }

    fn running(&self) -> Option<Forwarding> {
        self.with(|current| Some(current.config.clone()))
    }

    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, Refusal> {
        let mut inner = lock(&self.inner);
        let Inner { current, store, stuck, .. } = &mut *inner;
        let current = current.as_mut().ok_or_else(nothing_runs)?;
        if let Some(why) = stuck {
            let message = format!(
                "nothing can be written until the pipeline is set again: what was written last is not kept ({why})"
            );
            return Err(Refusal::new(Code::Unavailable, message));
        }
        let batches: Vec<WriteBatch> = current.engine.with_state(|s| batches.iter().map(|b| packed(s, b)).collect());
        let outcomes = current.engine.write_many(&batches);
        if let Some(store) = store {
            let applied = batches.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(batch, _)| batch);
            if let Err(error) = store.append(applied) {
                *stuck = Some(error.to_string());
                return Err(unavailable(&error));
            }
        }
        Ok(outcomes)
    }

    fn state(&self) -> Option<State> {
        self.with(|current| Some(current.engine.with_state(State::clone)))
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData> {
        self.with(|current| current.engine.counter(counter, index))
    }

    fn direct_counter(&self, table: TableId, entry: &Entry) -> Option<CounterData> {
        self.with(|current| current.engine.entry_counter(table, entry))
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.with(|current| current.engine.register(register, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.with(|current| current.engine.array_len(object))
    }

    fn idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.with(|current| current.engine.entry_idle_for(table, entry))
    }

    fn packet_out(&self, bytes: Bytes) -> Result<(), Refusal> {
        if self.with(|_| Some(())).is_none() {
            return Err(nothing_runs());
        }
        if self.settings.cpu_port.is_none() {
            let message = "this node has no CPU port; give it one (`cpu_port` in its configuration)";
            return Err(Refusal::new(Code::FailedPrecondition, message));
        }
        match self.plane.packet_out(&bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::new(
                Code::ResourceExhausted,
                "no room for the packet: packets come faster than the worker takes them",
            )),
            Err(error) => Err(Refusal::invalid(error.to_string())),
        }
    }

    fn subscribe(&self, sink: EventSink) {
        *self.sink.write().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }
}
