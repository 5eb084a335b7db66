//! [`Plane`]: the workers, and how they change their program while packets flow.

use crate::counts::{Counts, Ledger};
use crate::cpu_port::{CpuPort, PuntSink, Punted};
use crate::running::Running;
use bytes::Bytes;
use io::memory::MemoryPort;
use io::{Attached, Idle, RunError, RunReport, Runner, Supervisor, Worker, WorkerError, Workers};
use jit::Jit;
use packet::{CpuReason, Engine, Packet, PacketTooLong, ReasonTable};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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
    /// A worker does not change its program.
    #[error("worker {worker} has not changed its program within {} s: it is stuck, or its processor is taken by others", PATIENCE.as_secs())]
    Stuck {
        /// Its number.
        worker: usize,
    },
}

/// What a worker and its owner leave for each other.
#[derive(Default)]
struct Desk {
    call: Arc<AtomicBool>,
    orders: Mutex<Orders>,
    followed: Condvar,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Orders {
    next: Option<Running>,
    /// What ran before: its end can take long, which is not for a worker to wait for.
    former: Option<Running>,
    done: u64,
}

/// The workers of a node.
pub struct Plane {
    workers: Workers<Running>,
    desks: Vec<Arc<Desk>>,
    cpu_port: Option<Mutex<MemoryPort>>,
    punts_lost: Arc<AtomicU64>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plane {
    /// Starts a worker on each seat, without a program. `cpu_port` is the number by which programs know the controller: the first worker
    /// receives there what [`Plane::packet_out`] is given, and what a program sends there goes to `punts`, as what it gives to the CPU by
    /// its reason does.
    ///
    /// # Errors
    /// See [`PlaneError`]; nothing runs then.
    pub fn start(seats: Vec<Seat>, idle: Idle, cpu_port: Option<u32>, punts: PuntSink) -> Result<Plane, PlaneError> {
        let desks: Vec<Arc<Desk>> = seats.iter().map(|_| Arc::default()).collect();
        let punts_lost = Arc::new(AtomicU64::new(0));
        let mut controller = None;
        let mut workers = Vec::new();
        for (number, seat) in seats.into_iter().enumerate() {
            let mut ports = seat.ports;
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
            let runner = Runner::new(ports)?.with_tick(TICK).with_idle(idle).with_call(call);
            workers.push(Worker { core: seat.core, runner, engine: Running::default() });
        }
        let supervise = |number: usize| -> Box<dyn Supervisor<Running> + Send> {
            let desk = desks[number].clone();
            let (punts, lost) = (punts.clone(), punts_lost.clone());
            Box::new(Clerk { desk, ledger: Ledger::default(), reasons: ReasonTable::default(), punts, lost })
        };
        let workers = Workers::start(workers, supervise)?;
        Ok(Plane { workers, desks, cpu_port: controller, punts_lost })
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.desks.len()
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
    pub fn exchange(&self, mut engine: impl FnMut() -> Jit) -> Result<(), PlaneError> {
        let mut aims = Vec::new();
        for desk in &self.desks {
            let mut orders = lock(&desk.orders);
            let skipped = u64::from(orders.next.is_some());
            orders.done += skipped;
            orders.next = Some(Running::Program(Box::new(engine())));
            aims.push(orders.done + 1);
            drop(orders);
            desk.call.store(true, Ordering::Release);
        }
        let deadline = Instant::now() + PATIENCE;
        for (worker, (desk, aim)) in self.desks.iter().zip(aims).enumerate() {
            let mut orders = lock(&desk.orders);
            while orders.done < aim {
                if self.workers.have_ended() {
                    break;
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(PlaneError::Stuck { worker });
                }
                let (next, _) =
                    desk.followed.wait_timeout(orders, left.min(TICK)).unwrap_or_else(PoisonError::into_inner);
                orders = next;
            }
            drop(orders.former.take());
        }
        Ok(())
    }

    /// Gives the first worker a packet, as if it had come in on the CPU port. Whether there was room for it.
    ///
    /// # Errors
    /// If it is longer than packets can be.
    pub fn packet_out(&self, bytes: &[u8]) -> Result<bool, PacketTooLong> {
        match &self.cpu_port {
            Some(port) => lock(port).send_bytes(bytes),
            None => Ok(false),
        }
    }

    /// What each worker has done, at most a tick ago.
    pub fn counts(&self) -> Vec<Counts> {
        self.desks.iter().map(|desk| lock(&desk.counts).clone()).collect()
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

/// A worker's part between two batches.
struct Clerk {
    desk: Arc<Desk>,
    ledger: Ledger,
    /// Of the program that runs.
    reasons: ReasonTable,
    punts: PuntSink,
    lost: Arc<AtomicU64>,
}

impl Supervisor<Running> for Clerk {
    fn on_tick(&mut self, engine: &mut Running, report: &RunReport) -> ControlFlow<()> {
        let mut orders = lock(&self.desk.orders);
        if let Some(next) = orders.next.take() {
            self.ledger.turn(report, &self.reasons);
            orders.former = Some(std::mem::replace(engine, next));
            self.reasons = engine.reasons().clone();
            orders.done += 1;
            self.desk.followed.notify_all();
        }
        drop(orders);
        *lock(&self.desk.counts) = self.ledger.counts(report, &self.reasons);
        ControlFlow::Continue(())
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
