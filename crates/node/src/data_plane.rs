//! [`DataPlane`]: the workers, and how they switch programs while packets flow.

use crate::counts::{CounterTracker, WorkerCounts};
use crate::cpu_port::{CpuPort, PuntSink, PuntedPacket};
use crate::engine::EngineControl;
use crate::explain::{TappedEngine, TraceSessions};
use crate::host::HostPorts;
use crate::link_watch::LinkWatch;
use crate::region::{OpenPort, OpenPorts};
use crate::worker_engine::WorkerEngine;
use bytes::Bytes;
use io::memory::MemoryPort;
use io::{
    AttachedPort, DetachedPort, IdlePolicy, Port, PortFault, RunError, RunHooks, RunStats, Runner, RunnerWaker, Worker,
    WorkerError, Workers,
};
use packet::{CpuReason, Engine, Packet, PacketTooLong, PortId, ReasonTable};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Interval at which a sleeping worker checks its commands and publishes its counters.
const TICK: Duration = Duration::from_millis(10);
/// Time limit for a worker to execute a command; far longer than the few ticks it needs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// Queue size in packets between the controller and the first worker, per direction.
const CPU_QUEUE_PACKETS: usize = 1024;

/// Core and ports of one worker.
pub struct WorkerSpec {
    /// Processor to which the worker is pinned; `None`: the operating system schedules it.
    pub core: Option<usize>,
    /// The worker's queues of the ports.
    pub ports: Vec<AttachedPort>,
}

/// Workers cannot start, or do not execute commands.
#[derive(Debug, Error)]
pub enum DataPlaneError {
    /// Two ports have the same number.
    #[error(transparent)]
    Ports(#[from] RunError),
    /// A thread cannot be created, or the processor does not exist.
    #[error(transparent)]
    Workers(#[from] WorkerError),
    /// The controller's port lacks memory or descriptors.
    #[error("the controller's port cannot be created: {0}; raise the limit of open files (ulimit -n)")]
    CpuPort(#[from] io::PortError),
    /// A worker does not execute its commands.
    #[error("worker {worker} did not execute a command within {} s: it is stuck, or other threads occupy its processor", COMMAND_TIMEOUT.as_secs())]
    Stuck {
        /// Number of the worker.
        worker: usize,
    },
    /// A worker has ended because one of its ports failed permanently.
    #[error("worker {worker} has ended, because one of its ports has failed; restart the node")]
    Ended {
        /// Number of the worker.
        worker: usize,
    },
    /// The worker does not exist.
    #[error("there is no worker {worker}; there are {workers}")]
    NoWorker {
        /// The requested number.
        worker: usize,
        /// Number of workers.
        workers: usize,
    },
    /// Another process owns the ports.
    #[error("another process has taken over this node, with its ports")]
    TakenOver,
    /// The descriptor that wakes a worker cannot be created.
    #[error("a worker cannot be woken: {0}; raise the limit of open files (ulimit -n)")]
    Call(#[source] std::io::Error),
}

/// Mailbox between a worker and the control threads.
struct WorkerMailbox {
    call: Arc<RunnerWaker>,
    commands: Mutex<WorkerCommands>,
    command_done: Condvar,
    counts: Mutex<WorkerCounts>,
    /// Number of the worker's ticks.
    beat: AtomicU64,
}

#[derive(Default)]
struct WorkerCommands {
    next_engine: Option<WorkerEngine>,
    /// The previous engine. The control thread drops it, because dropping can take long and must
    /// not delay the worker.
    former_engine: Option<WorkerEngine>,
    engines_switched: u64,
    /// Ports to attach.
    arrivals: Vec<DetachedPort>,
    to_release: PortRelease,
    /// Ports that the worker has released.
    released: Vec<DetachedPort>,
    /// Ports that could not be attached, with the error.
    refused: Vec<(DetachedPort, RunError)>,
    /// Port commands: issued, and executed.
    port_commands: [u64; 2],
}

/// Ports that a worker must release.
#[derive(Default)]
enum PortRelease {
    #[default]
    None,
    One(PortId),
    All,
}

/// A port taken from its worker by [`DataPlane::pause`].
pub struct PausedPort {
    /// The worker that owned the port.
    pub worker: usize,
    /// The port.
    pub port: DetachedPort,
}

/// Worker, name and MTU of an attached port.
struct WorkerPort {
    worker: usize,
    name: String,
    mtu_bytes: usize,
    path: Option<&'static str>,
}

impl WorkerPort {
    fn new(worker: usize, port: &dyn Port) -> WorkerPort {
        WorkerPort { worker, name: port.name().to_owned(), mtu_bytes: port.mtu(), path: port.path() }
    }
}

/// The workers of a node.
pub struct DataPlane {
    workers: Workers<TappedEngine>,
    mailboxes: Vec<Arc<WorkerMailbox>>,
    cores: Vec<Option<usize>>,
    cpu_port: Option<Mutex<MemoryPort>>,
    punts_lost: Arc<AtomicU64>,
    /// Number of the controller's port.
    cpu_id: Option<PortId>,
    /// Attached ports by number, without the controller's port.
    worker_ports: Mutex<BTreeMap<PortId, WorkerPort>>,
    taps: Arc<TraceSessions>,
    news: Arc<LinkWatch>,
    host: Arc<HostPorts>,
}

impl DataPlane {
    /// Starts one worker per spec, without a program. `cpu_port` is the number by which programs
    /// know the controller. The first worker receives the packets of [`DataPlane::packet_out`]
    /// there. `punts` gets packets that a program sends to this port, and packets that it gives to
    /// the CPU.
    ///
    /// # Errors
    /// Returns [`DataPlaneError`]; no worker runs then.
    pub fn start(
        seats: Vec<WorkerSpec>,
        idle: IdlePolicy,
        cpu_port: Option<u32>,
        punts: PuntSink,
    ) -> Result<DataPlane, DataPlaneError> {
        let mailboxes: Result<Vec<Arc<WorkerMailbox>>, std::io::Error> =
            seats.iter().map(|_| WorkerMailbox::new().map(Arc::new)).collect();
        let mailboxes = mailboxes.map_err(DataPlaneError::Call)?;
        let cores = seats.iter().map(|seat| seat.core).collect();
        let mut worker_ports = BTreeMap::new();
        let punts_lost = Arc::new(AtomicU64::new(0));
        let taps = Arc::new(TraceSessions::default());
        let host = Arc::new(HostPorts::new(mailboxes.iter().map(|mailbox| mailbox.call.clone()).collect()));
        let mut controller = None;
        let mut workers = Vec::new();
        for (number, seat) in seats.into_iter().enumerate() {
            let mut ports = seat.ports;
            ports.iter().for_each(|port| host.add_port(port.id, port.port.kernel_interface()));
            worker_ports.extend(ports.iter().map(|port| (port.id, WorkerPort::new(number, &*port.port))));
            if let Some(id) = cpu_port {
                let mut port = CpuPort::new(punts.clone(), punts_lost.clone());
                if number == 0 {
                    let (inner, outer) = io::memory::pair("cpu", "controller", CPU_QUEUE_PACKETS)?;
                    port = port.with_inbound(inner.with_mtu(packet::MAX_WIRE_LEN));
                    controller = Some(Mutex::new(outer.with_mtu(packet::MAX_WIRE_LEN)));
                }
                ports.push(AttachedPort::new(id, port));
            }
            let call = mailboxes[number].call.clone();
            let runner = Runner::new(ports)?.with_tick(TICK).with_idle(idle).with_call(call).staying();
            let engine = TappedEngine::new(WorkerEngine::default(), number, taps.clone());
            workers.push(Worker { core: seat.core, runner, engine });
        }
        let news: Arc<LinkWatch> = Arc::default();
        let supervise = |number: usize| -> Box<dyn RunHooks<TappedEngine> + Send> {
            let mailbox = mailboxes[number].clone();
            let (punts, lost, news, host) = (punts.clone(), punts_lost.clone(), news.clone(), host.clone());
            let (ledger, reasons) = (CounterTracker::default(), ReasonTable::default());
            Box::new(WorkerHooks {
                mailbox,
                ledger,
                reasons,
                punts,
                lost,
                news,
                link_changed: false,
                host,
                host_frames: Vec::new(),
            })
        };
        let workers = Workers::start(workers, supervise)?;
        let (cpu_id, worker_ports) = (cpu_port.map(PortId), Mutex::new(worker_ports));
        Ok(DataPlane {
            workers,
            mailboxes,
            cores,
            cpu_port: controller,
            punts_lost,
            cpu_id,
            worker_ports,
            taps,
            news,
            host,
        })
    }

    /// Returns the number of workers.
    pub fn len(&self) -> usize {
        self.mailboxes.len()
    }

    /// Returns the processor to which a worker is pinned.
    pub fn core_of(&self, worker: usize) -> Option<usize> {
        self.cores.get(worker).copied().flatten()
    }

    /// Returns whether there are no workers.
    pub fn is_empty(&self) -> bool {
        self.mailboxes.is_empty()
    }

    /// Switches all workers to another program, each between two batches. No packet is lost, and
    /// each packet is processed by a single program. Returns after the last worker has switched.
    ///
    /// # Errors
    /// A worker does not execute the command in time. It switches later; the other workers have
    /// switched.
    pub fn switch_engine(&self, engine: &dyn EngineControl) -> Result<(), DataPlaneError> {
        let mut aims = Vec::new();
        for mailbox in &self.mailboxes {
            let mut commands = mailbox.commands.lock();
            let skipped = u64::from(commands.next_engine.is_some());
            commands.engines_switched += skipped;
            commands.next_engine = Some(WorkerEngine::Program(engine.pipeline().clone(), engine.new_worker()));
            aims.push(commands.engines_switched + 1);
            drop(commands);
            mailbox.call.wake();
        }
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        for (worker, (mailbox, aim)) in self.mailboxes.iter().zip(aims).enumerate() {
            let followed = self.wait_for_worker(worker, mailbox, mailbox.commands.lock(), deadline, |commands| {
                commands.engines_switched >= aim
            });
            match followed.map(|mut commands| commands.former_engine.take()) {
                Ok(former_engine) => drop(former_engine),
                // A worker that has ended no longer uses its engine.
                Err(DataPlaneError::Ended { .. }) => drop(mailbox.commands.lock().former_engine.take()),
                Err(stuck) => return Err(stuck),
            }
        }
        Ok(())
    }

    /// Waits until a worker has executed its commands.
    fn wait_for_worker<'a>(
        &self,
        worker: usize,
        mailbox: &'a WorkerMailbox,
        mut commands: MutexGuard<'a, WorkerCommands>,
        deadline: Instant,
        done: impl Fn(&WorkerCommands) -> bool,
    ) -> Result<MutexGuard<'a, WorkerCommands>, DataPlaneError> {
        while !done(&commands) {
            if self.workers.running() == 0 {
                return Err(DataPlaneError::Ended { worker });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(DataPlaneError::Stuck { worker });
            }
            mailbox.command_done.wait_for(&mut commands, left.min(TICK));
        }
        Ok(commands)
    }

    /// Gives port commands to a worker, and waits until it has executed them.
    fn command_worker<T>(
        &self,
        worker: usize,
        give: impl FnOnce(&mut WorkerCommands),
        take: impl FnOnce(&mut WorkerCommands) -> T,
    ) -> Result<T, DataPlaneError> {
        let workers = self.mailboxes.len();
        let mailbox = self.mailboxes.get(worker).ok_or(DataPlaneError::NoWorker { worker, workers })?;
        let mut commands = mailbox.commands.lock();
        give(&mut commands);
        commands.port_commands[0] += 1;
        let aim = commands.port_commands[0];
        mailbox.call.wake();
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        let mut commands =
            self.wait_for_worker(worker, mailbox, commands, deadline, |commands| commands.port_commands[1] >= aim)?;
        Ok(take(&mut commands))
    }

    /// Attaches ports to a worker, all between the same two batches, so that packets from one of them find the
    /// others. A port that returns to its earlier worker keeps its counters.
    ///
    /// # Errors
    /// A port number is in use, or the worker does not execute the command; that port is closed then.
    pub fn attach(&self, worker: usize, ports: Vec<AttachedPort>) -> Result<(), DataPlaneError> {
        let mut worker_ports = self.worker_ports.lock();
        let mut seats = Vec::new();
        for AttachedPort { id, port } in &ports {
            let seat = WorkerPort::new(worker, &**port);
            if let Some(WorkerPort { name: first, .. }) = worker_ports.get(id) {
                let (id, first, second) = (*id, first.clone(), seat.name);
                return Err(DataPlaneError::Ports(RunError::DuplicatePort { id, first, second }));
            }
            seats.push((*id, seat, port.kernel_interface()));
        }
        let refused = self.command_worker(
            worker,
            |commands| commands.arrivals.extend(ports.into_iter().map(DetachedPort::from)),
            |commands| std::mem::take(&mut commands.refused),
        )?;
        seats.retain(|(id, ..)| refused.iter().all(|(port, _)| port.attached.id != *id));
        for (id, seat, kernel_interface) in seats {
            worker_ports.insert(id, seat);
            self.host.add_port(id, kernel_interface);
            self.host.set_port_state(id, true);
        }
        refused.into_iter().next().map_or(Ok(()), |(_, error)| Err(DataPlaneError::Ports(error)))
    }

    /// Detaches a port from its worker, between two batches. Packets received so far have been
    /// sent; later packets wait in the port. Returns `None` if no worker has the port.
    ///
    /// # Errors
    /// The worker does not execute the command.
    pub fn detach(&self, id: PortId) -> Result<Option<DetachedPort>, DataPlaneError> {
        let mut worker_ports = self.worker_ports.lock();
        let Some(WorkerPort { worker, .. }) = worker_ports.get(&id) else { return Ok(None) };
        let port = self.command_worker(
            *worker,
            |commands| commands.to_release = PortRelease::One(id),
            |commands| commands.released.pop(),
        )?;
        worker_ports.remove(&id);
        Ok(port)
    }

    /// Detaches all ports from all workers, including the controller's, each between two batches.
    /// Afterwards no packet is in flight. [`DataPlane::resume`] attaches the ports again.
    ///
    /// # Errors
    /// A worker does not execute the command; the other workers keep their ports.
    pub fn pause(&self) -> Result<Vec<PausedPort>, DataPlaneError> {
        let mut parked = Vec::new();
        for worker in 0..self.mailboxes.len() {
            let taken = self.command_worker(
                worker,
                |commands| commands.to_release = PortRelease::All,
                |commands| std::mem::take(&mut commands.released),
            );
            match taken {
                Ok(ports) => parked.extend(ports.into_iter().map(|port| PausedPort { worker, port })),
                Err(error) => {
                    self.resume(parked);
                    return Err(error);
                }
            }
        }
        Ok(parked)
    }

    /// Attaches the ports that [`DataPlane::pause`] detached.
    pub fn resume(&self, parked: Vec<PausedPort>) {
        // The port numbers are still free, so attaching cannot be refused. A slow worker attaches
        // its ports later.
        let mut seats: BTreeMap<usize, Vec<DetachedPort>> = BTreeMap::new();
        parked.into_iter().for_each(|parked| seats.entry(parked.worker).or_default().push(parked.port));
        for (worker, ports) in seats {
            let _ = self.command_worker(
                worker,
                |commands| commands.arrivals.extend(ports),
                |commands| commands.refused.clear(),
            );
        }
    }

    /// Returns number, name and worker of each port, without the controller's port.
    pub fn ports(&self) -> Vec<(PortId, String, usize)> {
        self.worker_ports.lock().iter().map(|(id, seated)| (*id, seated.name.clone(), seated.worker)).collect()
    }

    /// Returns the path of each port that has a choice ([`Port::path`]), by number.
    pub fn paths(&self) -> BTreeMap<u32, &'static str> {
        self.worker_ports.lock().iter().filter_map(|(id, seated)| Some((id.0, seated.path?))).collect()
    }

    /// Returns name and MTU of each port by number, without the controller's port.
    pub fn open_ports(&self) -> OpenPorts {
        let open = |seated: &WorkerPort| OpenPort { name: seated.name.clone(), mtu_bytes: seated.mtu_bytes };
        self.worker_ports.lock().iter().map(|(id, seated)| (id.0, open(seated))).collect()
    }

    /// Returns all ports with their link state, which is at most one tick old. The controller's
    /// port is always up.
    pub fn links(&self) -> BTreeMap<u32, entries::DevicePort> {
        let up = |name: &str| entries::DevicePort { name: name.to_owned(), is_up: true };
        let mut links: BTreeMap<u32, entries::DevicePort> =
            self.worker_ports.lock().iter().map(|(id, seated)| (id.0, up(&seated.name))).collect();
        for mailbox in &self.mailboxes {
            for (number, port) in &mailbox.counts.lock().ports {
                // A detached port can still have counters.
                if let (Some(link), Some(_)) = (links.get_mut(number), &port.fault) {
                    link.is_up = false;
                }
            }
        }
        links.extend(self.cpu_id.map(|id| (id.0, up("cpu"))));
        links
    }

    /// Returns the signal for link changes.
    pub fn link_watch(&self) -> Arc<LinkWatch> {
        self.news.clone()
    }

    /// Returns the host sides of the ports.
    pub(crate) fn host(&self) -> &HostPorts {
        &self.host
    }

    /// Returns the number by which programs know the controller.
    pub fn cpu_port(&self) -> Option<PortId> {
        self.cpu_id
    }

    /// Sends a packet to the first worker as if it arrived on the CPU port. Returns whether the
    /// queue had space.
    ///
    /// # Errors
    /// The packet exceeds the maximum length.
    pub fn packet_out(&self, bytes: &[u8]) -> Result<bool, PacketTooLong> {
        match &self.cpu_port {
            Some(port) => port.lock().send_bytes(bytes),
            None => Ok(false),
        }
    }

    /// Returns the counts of each worker, which are at most one tick old.
    pub fn counts(&self) -> Vec<WorkerCounts> {
        self.mailboxes.iter().map(|mailbox| mailbox.counts.lock().clone()).collect()
    }

    /// Returns the number of ticks of each worker, which stops growing if the worker hangs.
    pub fn tick_counts(&self) -> Vec<u64> {
        self.mailboxes.iter().map(|mailbox| mailbox.beat.load(Ordering::Relaxed)).collect()
    }

    /// Returns the running packet traces.
    pub(crate) fn trace_sessions(&self) -> &TraceSessions {
        &self.taps
    }

    /// Returns the number of packets for the controller that were lost.
    pub fn punts_lost(&self) -> u64 {
        self.punts_lost.load(Ordering::Relaxed)
    }

    /// Returns whether all workers have ended because their ports failed.
    pub fn have_ended(&self) -> bool {
        self.workers.running() == 0
    }

    /// Stops all workers after they have sent their packets.
    pub fn stop(self) -> Vec<Result<(), RunError>> {
        self.workers.stop().into_iter().map(|finished| finished.outcome).collect()
    }
}

impl WorkerMailbox {
    fn new() -> std::io::Result<WorkerMailbox> {
        let call = Arc::new(RunnerWaker::new()?);
        Ok(WorkerMailbox {
            call,
            commands: Mutex::default(),
            command_done: Condvar::new(),
            counts: Mutex::default(),
            beat: AtomicU64::new(0),
        })
    }
}

/// Executes a worker's commands and publishes its counts, between two batches.
struct WorkerHooks {
    mailbox: Arc<WorkerMailbox>,
    ledger: CounterTracker,
    /// Reason names of the running program.
    reasons: ReasonTable,
    punts: PuntSink,
    lost: Arc<AtomicU64>,
    news: Arc<LinkWatch>,
    /// Whether a link has changed since the last tick.
    link_changed: bool,
    host: Arc<HostPorts>,
    /// Memory for frames of the host.
    host_frames: Vec<Packet>,
}

impl RunHooks<TappedEngine> for WorkerHooks {
    fn on_tick(&mut self, engine: &mut TappedEngine, report: &RunStats) -> ControlFlow<()> {
        let mut commands = self.mailbox.commands.lock();
        if let Some(next) = commands.next_engine.take() {
            self.ledger.on_program_change(report, &self.reasons);
            commands.former_engine = Some(engine.exchange(next));
            self.reasons = engine.reasons().clone();
            commands.engines_switched += 1;
            self.mailbox.command_done.notify_all();
        }
        drop(commands);
        self.mailbox.beat.fetch_add(1, Ordering::Relaxed);
        *self.mailbox.counts.lock() = self.ledger.counts(report, &self.reasons);
        // Notifies after the counts contain the new link state.
        if std::mem::take(&mut self.link_changed) {
            self.news.notify_change();
        }
        ControlFlow::Continue(())
    }

    fn on_port(&mut self, id: PortId, name: &str, trouble: Option<&PortFault>) {
        self.link_changed = true;
        self.host.set_port_state(id, trouble.is_none());
        match trouble {
            Some(trouble) => tracing::warn!(port = id.0, name, why = %trouble, "a port is down"),
            None => tracing::info!(port = id.0, name, "a port is up again"),
        }
    }

    fn on_ports(&mut self, runner: &mut Runner) {
        let mut commands = self.mailbox.commands.lock();
        if commands.port_commands[0] == commands.port_commands[1] {
            return;
        }
        for port in std::mem::take(&mut commands.arrivals) {
            if let Err(refused) = runner.attach(port) {
                commands.refused.push(*refused);
            }
        }
        let leaving: Vec<PortId> = match std::mem::take(&mut commands.to_release) {
            PortRelease::None => Vec::new(),
            PortRelease::One(id) => vec![id],
            PortRelease::All => runner.ports().map(|attached| attached.id).collect(),
        };
        commands.released.extend(leaving.into_iter().filter_map(|id| runner.detach(id)));
        commands.port_commands[1] = commands.port_commands[0];
        self.mailbox.command_done.notify_all();
        drop(commands);
        *self.mailbox.counts.lock() = self.ledger.counts(runner.report(), &self.reasons);
    }

    fn on_nudge(&mut self, runner: &mut Runner) -> bool {
        self.host.send_frames(runner, &mut self.host_frames)
    }

    fn on_cpu(&mut self, packet: &Packet, reason: CpuReason) -> bool {
        if let Some(accepted) = self.host.punt(packet, reason, &self.reasons) {
            return accepted;
        }
        let punted = PuntedPacket {
            bytes: Bytes::copy_from_slice(packet.bytes()),
            ingress: packet.ingress_port.0,
            reason: Some(self.reasons.cpu_name(reason).into_owned()),
        };
        let taken = (self.punts)(punted);
        self.lost.fetch_add(u64::from(!taken), Ordering::Relaxed);
        taken
    }
}
