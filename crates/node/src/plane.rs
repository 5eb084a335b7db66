//! [`Plane`]: the workers, and how they change their program while packets flow.

use crate::counts::{Counts, Ledger};
use crate::cpu_port::{CpuPort, PuntSink, Punted};
use crate::engine::Controlled;
use crate::explain::{Tapped, Taps};
use crate::region::{OpenPort, OpenPorts};
use crate::running::Running;
use bytes::Bytes;
use io::memory::MemoryPort;
use io::{
    Attached, Call, Detached, Idle, Port, RunError, RunReport, Runner, Supervisor, Trouble, Worker, WorkerError,
    Workers,
};
use packet::{CpuReason, Engine, Packet, PacketTooLong, PortId, ReasonTable};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How often a worker that sleeps looks for orders, and publishes its counters.
const TICK: Duration = Duration::from_millis(10);
/// How long a worker may take to change its program: far more ticks than it needs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Packets that wait between the controller and the first worker, either way.
const CPU_QUEUE: usize = 1024;

/// What a worker runs with.
pub struct Seat {
    /// The processor on which it stays; `None`: wherever the system puts it.
    pub core: Option<usize>,
    /// Its queues of the ports.
    pub ports: Vec<Attached>,
}

/// Workers could not be started, or did not follow.
#[derive(Debug, Error)]
pub enum PlaneError {
    /// Two ports with one number.
    #[error(transparent)]
    Ports(#[from] RunError),
    /// No thread, or no such processor.
    #[error(transparent)]
    Workers(#[from] WorkerError),
    /// No memory or descriptors for the controller's port.
    #[error("the controller's port cannot be made: {0}; raise the limit of open files (ulimit -n)")]
    CpuPort(#[from] io::PortError),
    /// A worker does not follow its orders.
    #[error("worker {worker} has not followed an order within {} s: it is stuck, or its processor is taken by others", PATIENCE.as_secs())]
    Stuck {
        /// Its number.
        worker: usize,
    },
    /// A worker has ended, as one of its ports has failed for good.
    #[error("worker {worker} has ended, as a port of its has failed; start the node again")]
    Ended {
        /// Its number.
        worker: usize,
    },
    /// There is no such worker.
    #[error("there is no worker {worker}; there are {workers}")]
    NoWorker {
        /// The number asked for.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// The ports are another process's.
    #[error("another process has taken over this node, with its ports")]
    Gone,
    /// No descriptor to call a worker by.
    #[error("a worker cannot be called: {0}; raise the limit of open files (ulimit -n)")]
    Call(#[source] std::io::Error),
}

/// What a worker and its owner leave for each other.
struct Desk {
    call: Arc<Call>,
    orders: Mutex<Orders>,
    followed: Condvar,
    counts: Mutex<Counts>,
    /// Grows with each tick.
    beat: AtomicU64,
}

#[derive(Default)]
struct Orders {
    next: Option<Running>,
    /// What ran before: its end can take long, which is not for a worker to wait for.
    former: Option<Running>,
    done: u64,
    /// Ports that come.
    arrivals: Vec<Detached>,
    departures: Departures,
    /// Ports that were given up.
    departed: Vec<Detached>,
    /// Ports that could not come, and why.
    refused: Vec<(Detached, RunError)>,
    /// Orders about ports that were given, and followed.
    moves: [u64; 2],
}

/// Ports that a worker is to give up.
#[derive(Default)]
enum Departures {
    #[default]
    None,
    One(PortId),
    All,
}

/// A port that was taken from its worker: see [`Plane::pause`].
pub struct Parked {
    /// The worker that had it.
    pub worker: usize,
    /// The port.
    pub port: Detached,
}

/// Which worker has a port, and what is known of the port.
struct Seated {
    worker: usize,
    name: String,
    mtu_bytes: usize,
}

impl Seated {
    fn new(worker: usize, port: &dyn Port) -> Seated {
        Seated { worker, name: port.name().to_owned(), mtu_bytes: port.mtu() }
    }
}

/// The workers of a node.
pub struct Plane {
    workers: Workers<Tapped>,
    desks: Vec<Arc<Desk>>,
    cores: Vec<Option<usize>>,
    cpu_port: Option<Mutex<MemoryPort>>,
    punts_lost: Arc<AtomicU64>,
    /// The number of the controller's port.
    cpu_id: Option<PortId>,
    /// Which worker has which port: its name. Not the controller's.
    places: Mutex<BTreeMap<PortId, Seated>>,
    taps: Arc<Taps>,
    news: Arc<LinkNews>,
}

/// Whether a link has gone down or come up since somebody waited for that.
#[derive(Debug, Default)]
pub struct LinkNews {
    changed: Mutex<bool>,
    news: Condvar,
}

impl LinkNews {
    fn tell(&self) {
        *self.changed.lock() = true;
        self.news.notify_all();
    }

    /// Waits until a link has gone down or come up, at most so long.
    pub fn wait(&self, at_most: Duration) {
        let mut changed = self.changed.lock();
        self.news.wait_while_for(&mut changed, |changed| !*changed, at_most);
        *changed = false;
    }
}

impl Plane {
    /// Starts a worker on each seat, without a program. `cpu_port` is the number by which programs know the controller: the first worker
    /// receives there what [`Plane::packet_out`] is given, and what a program sends there goes to `punts`, as what it gives to the CPU by
    /// its reason does.
    ///
    /// # Errors
    /// See [`PlaneError`]; nothing runs then.
    pub fn start(seats: Vec<Seat>, idle: Idle, cpu_port: Option<u32>, punts: PuntSink) -> Result<Plane, PlaneError> {
        let desks: Result<Vec<Arc<Desk>>, std::io::Error> = seats.iter().map(|_| Desk::new().map(Arc::new)).collect();
        let desks = desks.map_err(PlaneError::Call)?;
        let cores = seats.iter().map(|seat| seat.core).collect();
        let mut places = BTreeMap::new();
        let punts_lost = Arc::new(AtomicU64::new(0));
        let taps = Arc::new(Taps::default());
        let mut controller = None;
        let mut workers = Vec::new();
        for (number, seat) in seats.into_iter().enumerate() {
            let mut ports = seat.ports;
            places.extend(ports.iter().map(|port| (port.id, Seated::new(number, &*port.port))));
            if let Some(id) = cpu_port {
                let mut port = CpuPort::new(punts.clone(), punts_lost.clone());
                if number == 0 {
                    let (inner, outer) = io::memory::pair("cpu", "controller", CPU_QUEUE)?;
                    port = port.receiving(inner.with_mtu(packet::MAX_LEN));
                    controller = Some(Mutex::new(outer.with_mtu(packet::MAX_LEN)));
                }
                ports.push(Attached::new(id, port));
            }
            let call = desks[number].call.clone();
            let runner = Runner::new(ports)?.with_tick(TICK).with_idle(idle).with_call(call).staying();
            let engine = Tapped::new(Running::default(), number, taps.clone());
            workers.push(Worker { core: seat.core, runner, engine });
        }
        let news: Arc<LinkNews> = Arc::default();
        let supervise = |number: usize| -> Box<dyn Supervisor<Tapped> + Send> {
            let desk = desks[number].clone();
            let (punts, lost, news) = (punts.clone(), punts_lost.clone(), news.clone());
            let (ledger, reasons) = (Ledger::default(), ReasonTable::default());
            Box::new(Clerk { desk, ledger, reasons, punts, lost, news, link_changed: false })
        };
        let workers = Workers::start(workers, supervise)?;
        let (cpu_id, places) = (cpu_port.map(PortId), Mutex::new(places));
        Ok(Plane { workers, desks, cores, cpu_port: controller, punts_lost, cpu_id, places, taps, news })
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.desks.len()
    }

    /// The processor on which a worker stays.
    pub fn core_of(&self, worker: usize) -> Option<usize> {
        self.cores.get(worker).copied().flatten()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.desks.is_empty()
    }

    /// All workers go over to another program, each between two batches: no packet is lost, and each is handled by one program from
    /// beginning to end. Comes back when the last one has.
    ///
    /// # Errors
    /// A worker does not follow. It will when it can; the others have.
    pub fn exchange(&self, engine: &dyn Controlled) -> Result<(), PlaneError> {
        let mut aims = Vec::new();
        for desk in &self.desks {
            let mut orders = desk.orders.lock();
            let skipped = u64::from(orders.next.is_some());
            orders.done += skipped;
            orders.next = Some(Running::Program(engine.pipeline().clone(), engine.worker()));
            aims.push(orders.done + 1);
            drop(orders);
            desk.call.ring();
        }
        let deadline = Instant::now() + PATIENCE;
        for (worker, (desk, aim)) in self.desks.iter().zip(aims).enumerate() {
            let followed = self.wait(worker, desk, desk.orders.lock(), deadline, |orders| orders.done >= aim);
            match followed.map(|mut orders| orders.former.take()) {
                Ok(former) => drop(former),
                // Who has ended runs no program any more.
                Err(PlaneError::Ended { .. }) => drop(desk.orders.lock().former.take()),
                Err(stuck) => return Err(stuck),
            }
        }
        Ok(())
    }

    /// Waits until a worker has done what it was told.
    fn wait<'a>(
        &self,
        worker: usize,
        desk: &'a Desk,
        mut orders: MutexGuard<'a, Orders>,
        deadline: Instant,
        done: impl Fn(&Orders) -> bool,
    ) -> Result<MutexGuard<'a, Orders>, PlaneError> {
        while !done(&orders) {
            if self.workers.have_ended() {
                return Err(PlaneError::Ended { worker });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(PlaneError::Stuck { worker });
            }
            desk.followed.wait_for(&mut orders, left.min(TICK));
        }
        Ok(orders)
    }

    /// Gives a worker orders about ports, and waits until it has followed them.
    fn order<T>(
        &self,
        worker: usize,
        give: impl FnOnce(&mut Orders),
        take: impl FnOnce(&mut Orders) -> T,
    ) -> Result<T, PlaneError> {
        let workers = self.desks.len();
        let desk = self.desks.get(worker).ok_or(PlaneError::NoWorker { worker, workers })?;
        let mut orders = desk.orders.lock();
        give(&mut orders);
        orders.moves[0] += 1;
        let aim = orders.moves[0];
        desk.call.ring();
        let deadline = Instant::now() + PATIENCE;
        let mut orders = self.wait(worker, desk, orders, deadline, |orders| orders.moves[1] >= aim)?;
        Ok(take(&mut orders))
    }

    /// A worker gets a port, between two batches. One that comes back to the worker that had it counts on in its report.
    ///
    /// # Errors
    /// There is a port of its number, or the worker does not follow: the port is closed then.
    pub fn attach(&self, worker: usize, port: impl Into<Detached>) -> Result<(), PlaneError> {
        let port = port.into();
        let (id, seated) = (port.attached.id, Seated::new(worker, &*port.attached.port));
        let mut places = self.places.lock();
        if let Some(Seated { name: first, .. }) = places.get(&id) {
            let (first, second) = (first.clone(), seated.name);
            return Err(PlaneError::Ports(RunError::DuplicatePort { id, first, second }));
        }
        let refused = self.order(worker, |orders| orders.arrivals.push(port), |orders| orders.refused.pop())?;
        match refused {
            Some((_, error)) => Err(PlaneError::Ports(error)),
            None => {
                places.insert(id, seated);
                Ok(())
            }
        }
    }

    /// Takes a port from its worker, between two batches: what it had received was sent on, what arrives from now on waits in the port. `None`: no worker
    /// has such a port.
    ///
    /// # Errors
    /// The worker does not follow.
    pub fn detach(&self, id: PortId) -> Result<Option<Detached>, PlaneError> {
        let mut places = self.places.lock();
        let Some(Seated { worker, .. }) = places.get(&id) else { return Ok(None) };
        let port =
            self.order(*worker, |orders| orders.departures = Departures::One(id), |orders| orders.departed.pop())?;
        places.remove(&id);
        Ok(port)
    }

    /// Takes all ports from all workers, also the controller's, each between two batches: nothing is in flight any more. [`Plane::resume`] gives them back.
    ///
    /// # Errors
    /// A worker does not follow; the others have their ports again.
    pub fn pause(&self) -> Result<Vec<Parked>, PlaneError> {
        let mut parked = Vec::new();
        for worker in 0..self.desks.len() {
            let taken = self.order(
                worker,
                |orders| orders.departures = Departures::All,
                |orders| std::mem::take(&mut orders.departed),
            );
            match taken {
                Ok(ports) => parked.extend(ports.into_iter().map(|port| Parked { worker, port })),
                Err(error) => {
                    self.resume(parked);
                    return Err(error);
                }
            }
        }
        Ok(parked)
    }

    /// Gives the workers the ports that [`Plane::pause`] took from them.
    pub fn resume(&self, parked: Vec<Parked>) {
        // Nothing can have come in their place. A worker that does not follow now will have them when it does.
        let mut seats: BTreeMap<usize, Vec<Detached>> = BTreeMap::new();
        parked.into_iter().for_each(|parked| seats.entry(parked.worker).or_default().push(parked.port));
        for (worker, ports) in seats {
            let _ = self.order(worker, |orders| orders.arrivals.extend(ports), |orders| orders.refused.clear());
        }
    }

    /// The ports: number, name, and worker. Not the controller's.
    pub fn ports(&self) -> Vec<(PortId, String, usize)> {
        self.places.lock().iter().map(|(id, seated)| (*id, seated.name.clone(), seated.worker)).collect()
    }

    /// The same ports with what they send at most. Not the controller's.
    pub fn open_ports(&self) -> OpenPorts {
        let open = |seated: &Seated| OpenPort { name: seated.name.clone(), mtu_bytes: seated.mtu_bytes };
        self.places.lock().iter().map(|(id, seated)| (id.0, open(seated))).collect()
    }

    /// Which ports there are, and whether each is up, at most a tick ago. The controller's is always up.
    pub fn links(&self) -> BTreeMap<u32, entries::Port> {
        let up = |name: &str| entries::Port { name: name.to_owned(), is_up: true };
        let mut links: BTreeMap<u32, entries::Port> =
            self.places.lock().iter().map(|(id, seated)| (id.0, up(&seated.name))).collect();
        for desk in &self.desks {
            for (number, port) in &desk.counts.lock().ports {
                // A port that is not attached any more is none.
                if let (Some(link), Some(_)) = (links.get_mut(number), &port.trouble) {
                    link.is_up = false;
                }
            }
        }
        links.extend(self.cpu_id.map(|id| (id.0, up("cpu"))));
        links
    }

    /// By which it is waited for a link that changes.
    pub fn link_news(&self) -> Arc<LinkNews> {
        self.news.clone()
    }

    /// The number by which programs know the controller.
    pub fn cpu_port(&self) -> Option<PortId> {
        self.cpu_id
    }

    /// Gives the first worker a packet, as if it had come in on the CPU port. Whether there was room for it.
    ///
    /// # Errors
    /// If it is longer than packets can be.
    pub fn packet_out(&self, bytes: &[u8]) -> Result<bool, PacketTooLong> {
        match &self.cpu_port {
            Some(port) => port.lock().send_bytes(bytes),
            None => Ok(false),
        }
    }

    /// What each worker has done, at most a tick ago.
    pub fn counts(&self) -> Vec<Counts> {
        self.desks.iter().map(|desk| desk.counts.lock().clone()).collect()
    }

    /// How many ticks each worker has had: one that hangs has no more.
    pub fn beats(&self) -> Vec<u64> {
        self.desks.iter().map(|desk| desk.beat.load(Ordering::Relaxed)).collect()
    }

    /// The traces of the packets that pass.
    pub(crate) fn taps(&self) -> &Taps {
        &self.taps
    }

    /// Packets for the controller that nobody took.
    pub fn punts_lost(&self) -> u64 {
        self.punts_lost.load(Ordering::Relaxed)
    }

    /// Whether all workers have ended, their ports having failed.
    pub fn have_ended(&self) -> bool {
        self.workers.have_ended()
    }

    /// Stops all workers; packets that they have are still sent.
    pub fn stop(self) -> Vec<Result<(), RunError>> {
        self.workers.stop().into_iter().map(|finished| finished.outcome).collect()
    }
}

impl Desk {
    fn new() -> std::io::Result<Desk> {
        let call = Arc::new(Call::new()?);
        Ok(Desk {
            call,
            orders: Mutex::default(),
            followed: Condvar::new(),
            counts: Mutex::default(),
            beat: AtomicU64::new(0),
        })
    }
}

/// A worker's part between two batches.
struct Clerk {
    desk: Arc<Desk>,
    ledger: Ledger,
    /// Of the program that runs.
    reasons: ReasonTable,
    punts: PuntSink,
    lost: Arc<AtomicU64>,
    news: Arc<LinkNews>,
    /// Since the last tick.
    link_changed: bool,
}

impl Supervisor<Tapped> for Clerk {
    fn on_tick(&mut self, engine: &mut Tapped, report: &RunReport) -> ControlFlow<()> {
        let mut orders = self.desk.orders.lock();
        if let Some(next) = orders.next.take() {
            self.ledger.turn(report, &self.reasons);
            orders.former = Some(engine.exchange(next));
            self.reasons = engine.reasons().clone();
            orders.done += 1;
            self.desk.followed.notify_all();
        }
        drop(orders);
        self.desk.beat.fetch_add(1, Ordering::Relaxed);
        *self.desk.counts.lock() = self.ledger.counts(report, &self.reasons);
        // Told when the counts say it.
        if std::mem::take(&mut self.link_changed) {
            self.news.tell();
        }
        ControlFlow::Continue(())
    }

    fn on_port(&mut self, id: PortId, name: &str, trouble: Option<&Trouble>) {
        self.link_changed = true;
        match trouble {
            Some(trouble) => tracing::warn!(port = id.0, name, why = %trouble, "a port has trouble"),
            None => tracing::info!(port = id.0, name, "a port works again"),
        }
    }

    fn on_ports(&mut self, runner: &mut Runner) {
        let mut orders = self.desk.orders.lock();
        if orders.moves[0] == orders.moves[1] {
            return;
        }
        for port in std::mem::take(&mut orders.arrivals) {
            if let Err(refused) = runner.attach(port) {
                orders.refused.push(*refused);
            }
        }
        let leaving: Vec<PortId> = match std::mem::take(&mut orders.departures) {
            Departures::None => Vec::new(),
            Departures::One(id) => vec![id],
            Departures::All => runner.ports().map(|attached| attached.id).collect(),
        };
        orders.departed.extend(leaving.into_iter().filter_map(|id| runner.detach(id)));
        orders.moves[1] = orders.moves[0];
        self.desk.followed.notify_all();
        drop(orders);
        *self.desk.counts.lock() = self.ledger.counts(runner.report(), &self.reasons);
    }

    fn on_cpu(&mut self, packet: &Packet, reason: CpuReason) -> bool {
        let punted = Punted {
            bytes: Bytes::copy_from_slice(packet.bytes()),
            ingress: packet.ingress_port.0,
            reason: Some(self.reasons.cpu_name(reason).into_owned()),
        };
        let taken = (self.punts)(punted);
        self.lost.fetch_add(u64::from(!taken), Ordering::Relaxed);
        taken
    }
}
