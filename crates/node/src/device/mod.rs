//! [`Node`]: the workers, the tables and the store as one device that P4Runtime controls.

mod configs;
mod requests;
mod store_access;

pub(crate) use configs::{forwarding, kept, packed, parse};

use crate::cpu_port::Punted;
use crate::engine::{Controlled, Factory, NoRoom};
use crate::observe::tallied::Tallied;
use crate::observe::{Observation, Service};
use crate::plane::{LinkNews, Plane, PlaneError, Seat};
use crate::reconcile::Matching;
use crate::region::RegionKeeper;
use crate::store::{KeptDigest, Store, StoreError};
use crate::wings::Wings;
use crate::{Counts, levels, reconcile};
use entries::{Entry, State, Update, WriteBatch};
use interp::DigestMessage;
use io::{Attached, Idle, Port};
use ir::{Const, ExternKind, Pipeline};
use num_bigint::BigUint;
use p4runtime::{Code, Event, EventSink, Forwarding, Refusal, Translations};
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
    /// What runs programs.
    pub engine: Factory,
    /// Where everything is kept; `None`: a restart begins with nothing.
    pub store: Option<Store>,
    /// How strings of controllers are translated, as far as programs do not say it.
    pub translations: Translations,
    /// What this binary has besides native code and the reference engine.
    pub wings: Wings,
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
    /// What is kept does not fit.
    #[error("the store's tables do not fit: {0}")]
    Entries(NoRoom),
}

/// The program that runs.
pub(crate) struct Current {
    pub config: Forwarding,
    /// Runs no packets: by it tables are written and counters read.
    pub engine: Box<dyn Controlled>,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub current: Option<Current>,
    pub saved: Option<Forwarding>,
    pub store: Option<Store>,
    /// Digests that were enabled when the store was opened.
    pub digests: Vec<KeptDigest>,
    /// Digest messages of the program that runs which nobody has been told of, and which its engine does not have any more.
    pub late: Vec<DigestMessage>,
    /// What programs before this one did, as far as it has the same names.
    pub past: Tallied,
    /// What was done beside workers, by programs before the one that runs.
    pub past_beside: Counts,
    /// The numbers that a region's VPCs and the like have, encoded; empty: there is no region.
    pub numbers: Vec<u8>,
    /// Why nothing can be written any more: the store and the tables differ.
    stuck: Option<String>,
    /// Whether another process is taking over.
    pub hold: Hold,
    /// The store that was closed, and has not been opened again yet: for another process, which has not taken over after all, or because it has failed.
    pub closed_store: Option<(PathBuf, u64)>,
}

/// What a take-over does to writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing.
    #[default]
    Free,
    /// They wait.
    Waits,
    /// They are refused: another process has everything.
    Gone,
}

/// A node.
pub struct Node {
    pub(crate) device_id: u64,
    pub(crate) plane: Plane,
    pub(crate) settings: interp::Config,
    factory: Factory,
    pub(crate) wings: Wings,
    inner: Mutex<Inner>,
    service: Service,
    /// What had been counted when the node was told to show counts from 0.
    cleared: Mutex<Observation>,
    began: Instant,
    /// The hold is another one.
    released: Condvar,
    sink: Arc<RwLock<Option<EventSink>>>,
    events_lost: Arc<AtomicU64>,
    /// What processes before this one counted.
    before: Mutex<Counts>,
    pub(crate) translations: Translations,
    /// What keeps the tables, if it is a region file.
    pub(crate) region: Arc<RegionKeeper>,
}

/// What was done with packets of a program that no worker was given.
fn beside(engine: &dyn Controlled) -> Counts {
    let counters = engine.beside_workers();
    if counters == packet::EngineCounters::default() {
        // Most engines do nothing beside their workers; they need not tell reasons' names.
        return Counts::default();
    }
    Counts::beside_workers(&counters, engine.worker().reasons())
}

impl Node {
    /// Starts the workers, and lets them run what the store has.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(parts: Parts) -> Result<Node, StartError> {
        let Parts { device_id, seats, idle, mut settings, engine: factory, store, translations, wings } = parts;
        let region: Arc<RegionKeeper> = Arc::default();
        let sources = region.clone();
        settings.sources = interp::Sources::new(move |table, entry| sources.source(table, entry));
        let sink: Arc<RwLock<Option<EventSink>>> = Arc::default();
        let events_lost = Arc::new(AtomicU64::new(0));
        let punts = {
            let sink = sink.clone();
            Arc::new(move |punted: Punted| give(&sink, Event::PacketIn(punted.bytes)))
        };
        let plane = Plane::start(seats, idle, settings.cpu_port, punts)?;
        let (inner, released, before) = (Mutex::default(), Condvar::new(), Mutex::default());
        let (service, cleared, began) = (Service::default(), Mutex::default(), Instant::now());
        let node = Node {
            device_id,
            plane,
            settings,
            factory,
            wings,
            inner,
            service,
            cleared,
            began,
            released,
            sink,
            events_lost,
            before,
            translations,
            region,
        };
        if let Some(store) = store {
            node.restore(store)?;
        }
        Ok(node)
    }

    /// Runs what the store has, with its tables.
    fn restore(&self, mut store: Store) -> Result<(), StartError> {
        let mut inner = self.inner.lock();
        inner.saved = store.saved()?.map(forwarding).transpose().map_err(StartError::Pipeline)?;
        if let Some(kept) = store.running()? {
            let config = forwarding(kept).map_err(StartError::Pipeline)?;
            let mut engine = self.load(&config.pipeline).map_err(StartError::Pipeline)?;
            let began = std::time::Instant::now();
            store.replay(|batches| load_all(&mut *engine, batches))?.map_err(StartError::Entries)?;
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (program, updates) = (&config.pipeline.name, store.updates());
            tracing::info!(program, updates, cookie = config.cookie, ms, "the store was read");
            self.tell_links(&mut *engine);
            self.exchange(&*engine)?;
            inner.current = Some(Current { config, engine });
        }
        inner.digests = store.digests()?;
        inner.numbers = store.numbers()?;
        inner.store = Some(store);
        Ok(())
    }

    /// An engine for a pipeline, which runs nothing yet.
    pub(crate) fn load(&self, pipeline: &Arc<Pipeline>) -> Result<Box<dyn Controlled>, Refusal> {
        let mut engine = self.factory.load(pipeline, &self.settings)?;
        // The idle time of an entry that is written at once begins now, not with time itself.
        engine.advance_time(io::now());
        Ok(engine)
    }

    /// Has the workers run an engine from now on. If it is not the one that was asked for, the log says so.
    pub(crate) fn exchange(&self, engine: &dyn Controlled) -> Result<(), PlaneError> {
        if self.factory.falls_back(engine) {
            let (program, why) = (&engine.pipeline().name, engine.without_code().unwrap_or_default());
            tracing::warn!(
                program,
                why,
                "fallback: the program runs on the reference engine, at about a tenth of native code's speed"
            );
        }
        self.plane.exchange(engine)
    }

    /// What runs its programs.
    pub(crate) fn factory(&self) -> &Factory {
        &self.factory
    }

    /// What each worker has done. What processes before this one counted is with the first.
    pub fn counts(&self) -> Vec<Counts> {
        let mut counts = self.plane.counts();
        counts.iter_mut().take(1).for_each(|first| *first += &self.before.lock());
        counts
    }

    /// What was done with packets that no worker was given, over all programs of this process.
    pub(crate) fn counts_beside(&self) -> Counts {
        let inner = self.inner.lock();
        let mut all = inner.past_beside.clone();
        if let Some(current) = &inner.current {
            all += &beside(&*current.engine);
        }
        all
    }

    /// What processes before this one counted.
    pub(crate) fn set_before(&self, before: Counts) {
        *self.before.lock() = before;
    }

    /// A port from now on, also while packets flow: the worker with the fewest gets it. One of a number that was there before counts on.
    ///
    /// # Errors
    /// There is one of this number, or the worker does not follow: the port is closed then.
    pub fn attach_port(&self, number: u32, port: Box<dyn Port>) -> Result<(), PlaneError> {
        // Not while another process takes the ports.
        let _inner = self.to_change().map_err(|_| PlaneError::Gone)?;
        let mut ports = vec![0; self.plane.len()];
        self.plane.ports().into_iter().for_each(|(_, _, worker)| ports[worker] += 1);
        let worker = (0..ports.len()).min_by_key(|worker| ports[*worker]).unwrap_or(0);
        self.plane.attach(worker, Attached { id: PortId(number), port })
    }

    /// Takes a port away, also while packets flow. What it had received is sent on first; what the program sends there from now on is counted as
    /// `unknown_port`. `None`: there is no such port.
    ///
    /// # Errors
    /// Its worker does not follow.
    pub fn detach_port(&self, number: u32) -> Result<Option<Box<dyn Port>>, PlaneError> {
        let _inner = self.to_change().map_err(|_| PlaneError::Gone)?;
        Ok(self.plane.detach(PortId(number))?.map(|detached| detached.attached.port))
    }

    /// The ports: number, name, and the number of its worker.
    pub fn ports(&self) -> Vec<(u32, String, usize)> {
        self.plane.ports().into_iter().map(|(id, name, worker)| (id.0, name, worker)).collect()
    }

    /// What it has, for a take-over.
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Writes wait from now on, no entry grows too old, and all that the engine has to say is told.
    pub(crate) fn hold(&self) {
        let mut inner = self.inner.lock();
        if let Some(current) = &inner.current {
            current.engine.hold_idle(true);
        }
        self.look(&mut inner);
        inner.hold = Hold::Waits;
    }

    /// Writes go on, and entries grow old; or another process has everything, and they are refused.
    pub(crate) fn release(&self, hold: Hold) {
        let mut inner = self.inner.lock();
        if let Some(current) = inner.current.as_ref().filter(|_| hold == Hold::Free) {
            current.engine.hold_idle(false);
        }
        inner.hold = hold;
        self.released.notify_all();
    }

    /// Waits until something may be written: the store is open then, if there is one.
    ///
    /// # Errors
    /// `UNAVAILABLE`: another process does this now, or the store cannot be had.
    fn to_write(&self) -> Result<MutexGuard<'_, Inner>, Refusal> {
        let mut inner = self.to_change()?;
        if let Some((path, updates)) = inner.closed_store.clone() {
            inner.store = Some(Store::open(&path).map_err(|error| Refusal::from(&error))?.with_updates(updates));
            inner.closed_store = None;
        }
        Ok(inner)
    }

    /// Waits until something may be changed.
    ///
    /// # Errors
    /// `UNAVAILABLE`: another process does this now.
    fn to_change(&self) -> Result<MutexGuard<'_, Inner>, Refusal> {
        let mut inner = self.inner.lock();
        while inner.hold == Hold::Waits {
            self.released.wait(&mut inner);
        }
        if inner.hold == Hold::Gone {
            return Err(Refusal::new(Code::Unavailable, "another process has taken over this node; connect again"));
        }
        Ok(inner)
    }

    /// What tables, actions and stages did, over all programs.
    pub fn tallied(&self) -> Tallied {
        let inner = self.inner.lock();
        let mut all = inner.past.clone();
        if let Some(current) = &inner.current {
            all.add(&current.config.pipeline, &*current.engine);
        }
        all
    }

    /// What the server of this node is to be given, so that the node can show its clients.
    pub fn service(&self) -> &Service {
        &self.service
    }

    pub(crate) fn cleared(&self) -> MutexGuard<'_, Observation> {
        self.cleared.lock()
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// The processor of a worker.
    pub(crate) fn core_of(&self, worker: usize) -> Option<usize> {
        self.plane.core_of(worker)
    }

    /// Asks the engine by which tables are written, if a program runs.
    pub(crate) fn with_engine<T>(&self, ask: impl FnOnce(&dyn Controlled, &Forwarding) -> T) -> Option<T> {
        self.with(|current| Some(ask(&*current.engine, &current.config)))
    }

    /// Events that nobody took: packets for the controller, digests, notifications.
    pub fn events_lost(&self) -> u64 {
        self.events_lost.load(Ordering::Relaxed) + self.plane.punts_lost()
    }

    /// How many ticks each worker has had: one that hangs has no more.
    pub fn beats(&self) -> Vec<u64> {
        self.plane.beats()
    }

    /// Whether all workers have ended, their ports having failed.
    pub fn have_ended(&self) -> bool {
        self.plane.have_ended()
    }

    /// The ports, and whether each is up. `None` in a process of several tiers that does not have the switch: the ports that programs know are
    /// another process's, and whether they are up is not known here.
    pub(crate) fn links(&self) -> Option<BTreeMap<u32, entries::Port>> {
        (!self.factory.has_ports_elsewhere()).then(|| self.plane.links())
    }

    /// Tells an engine which ports are up, if it does not know: members of groups whose watch port is down are chosen no more, and those
    /// whose port is up again are. No control plane has written that, and none reads it: it is not in the store.
    pub(crate) fn tell_links(&self, engine: &mut dyn Controlled) {
        let Some(links) = self.links() else { return };
        if engine.with_state(|state| state.ports() == Some(&links)) {
            return;
        }
        let batch: WriteBatch = std::iter::once(Update::Ports(Some(links))).collect();
        if let Err(error) = engine.write(&batch) {
            tracing::error!(%error, "an engine does not take the state of links; members of groups stay as they are");
        }
    }

    /// Tells when a link has gone down or come up: the time to call [`Node::tick`].
    pub fn link_news(&self) -> Arc<LinkNews> {
        self.plane.link_news()
    }

    /// Time passes: links are looked at, digests and notifications go to whoever subscribed, and a log that has grown too long is written anew. To be called some
    /// hundred times a second.
    pub fn tick(&self) {
        let mut inner = self.inner.lock();
        if inner.hold == Hold::Free {
            if let Some(current) = &mut inner.current {
                self.tell_links(&mut *current.engine);
            }
            self.look(&mut inner);
        }
    }

    /// Whether somebody takes events.
    fn is_heard(&self) -> bool {
        self.sink.read().is_some()
    }

    fn look(&self, inner: &mut Inner) {
        let Inner { current: Some(current), late, .. } = &mut *inner else { return };
        let late = if self.is_heard() { std::mem::take(late) } else { Vec::new() };
        for message in late.into_iter().chain(current.engine.take_digests()) {
            self.tell(Event::Digest { digest: message.digest, values: message.values });
        }
        current.engine.tidy();
        let idle = current.engine.advance_time(io::now());
        let mut gone = WriteBatch::new();
        for idle in idle {
            if idle.deleted {
                gone.kept(entries::UpdateKind::Delete, idle.table, &idle.entry);
            }
            let idle_ns = current.engine.entry_idle_for(idle.table, &idle.entry).unwrap_or(0);
            let idle_ns = idle_ns.max(idle.entry.idle_timeout_ns());
            self.tell(Event::Idle { table: idle.table, entry: idle.entry, idle_ns });
        }
        if !gone.updates.is_empty() {
            // Said in the log, and to the next who writes.
            let _ = inner.with_store(|store| store.append(std::iter::once(&gone)));
        }
    }

    pub(crate) fn tell(&self, event: Event) {
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
            let mut inner = self.inner.lock();
            let Inner { current: Some(current), store: Some(store), hold: Hold::Free, .. } = &mut *inner else {
                return Ok(false);
            };
            let state = current.engine.with_state(State::clone);
            let entries: u64 = state.pipeline().tables.keys().map(|table| state.entry_count(table) as u64).sum();
            if store.updates() < LOG_LEAST || store.updates() < entries * LOG_FACTOR {
                return Ok(false);
            }
            store.begin_rewrite();
            state
        };
        // A state that was there has a form.
        let Ok(batches) = reconcile::writes(&state) else { return Ok(false) };
        for (number, batch) in (0..).zip(batches) {
            let mut inner = self.inner.lock();
            let Some(store) = &mut inner.store else { return Ok(false) };
            if !store.rewrite(number, &batch)? {
                return Ok(false);
            }
        }
        match &mut self.inner.lock().store {
            Some(store) => store.end_rewrite().map(|()| true),
            None => Ok(false),
        }
    }

    fn with<T>(&self, ask: impl FnOnce(&Current) -> Option<T>) -> Option<T> {
        ask(self.inner.lock().current.as_ref()?)
    }

    /// Brings over what fits from the program that runs. Returns how many updates did not.
    fn take_over(&self, from: &Current, engine: &mut dyn Controlled, pipeline: &Pipeline) -> usize {
        let state = from.engine.with_state(State::clone);
        let fresh = engine.with_state(State::clone);
        let matching = Rc::new(Matching::new(state.pipeline(), pipeline));
        let mut refused = 0;
        let mut write = |updates: Vec<Update>| {
            let not = WriteBatch { updates }.apply_what_fits(|batch| engine.write(batch));
            refused += not.len();
        };
        write(matching.objects(&state));
        // A pipeline that runs has a state.
        if let Ok(own) = State::new(state.pipeline().clone()) {
            for table in state.pipeline().tables.keys() {
                let counter = |table, entry: &Entry| from.engine.entry_counter(table, entry);
                write(matching.entries(table, &state, [&own, &fresh], counter).collect());
            }
        }
        write(matching.defaults(&state));
        write(values(&*from.engine, &matching));
        let Ok(()) = levels::collect(&*from.engine, &matching, |some| {
            levels::put(engine, &some);
            Ok::<_, Infallible>(())
        });
        refused
    }
}

/// Gives batches to an engine that runs nothing yet, up to the first error. The inner result is that of [`Controlled::load`].
///
/// # Errors
/// The error of `batches`: what came before it is applied.
pub(crate) fn load_all<E>(
    engine: &mut dyn Controlled,
    batches: &mut dyn Iterator<Item = Result<WriteBatch, E>>,
) -> Result<Result<(), NoRoom>, E> {
    let mut failed = None;
    let mut good = std::iter::from_fn(|| match batches.next()? {
        Ok(batch) => Some(batch),
        Err(error) => {
            failed = Some(error);
            None
        }
    })
    .fuse();
    let loaded = engine.load(&mut good);
    failed.map_or(Ok(loaded), Err)
}

/// What counters and registers hold that differs from what the other pipeline has at first, for the objects that it has, too.
pub(crate) fn values(engine: &dyn Controlled, matching: &Matching<'_>) -> Vec<Update> {
    let mut updates = Vec::new();
    for (old, object) in engine.pipeline().externs.iter() {
        let Some(new) = matching.object(old) else { continue };
        match object.kind {
            ExternKind::Counter { size, .. } => {
                let counted = engine.counted(old, size);
                updates.extend(counted.into_iter().map(|(index, data)| Update::Counter(new, index, data)));
            }
            ExternKind::Register { .. } => {
                let first = first_value(&matching.other().externs[new].kind);
                for index in 0..engine.array_len(old).unwrap_or(0) {
                    let value = engine.register(old, index).unwrap_or_default();
                    if value != first {
                        updates.push(Update::Register(new, Some(index), value));
                    }
                }
            }
            _ => {}
        }
    }
    updates
}

/// What each element of a register holds at first.
fn first_value(kind: &ExternKind) -> Vec<BigUint> {
    let ExternKind::Register { elem, initial, .. } = kind else { return Vec::new() };
    let leaf = |place| initial.get(place).map(|value: &Const| value.bits.clone()).unwrap_or_default();
    (0..elem.len()).map(leaf).collect()
}

fn give(sink: &RwLock<Option<EventSink>>, event: Event) -> bool {
    let sink = sink.read();
    sink.as_ref().is_some_and(|sink| sink(event))
}
