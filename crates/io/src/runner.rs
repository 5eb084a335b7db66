//! Moves batches between ports through an engine.

use crate::idle::IdleState;
use crate::offload_queues::{OffloadFinisher, has_offloads};
use crate::port::now;
use crate::tx_batch::TxItem;
use crate::{AttachedPort, IdlePolicy, Port, PortError, PortFault, Readiness, RunStats, RunnerWaker, TxBatch};
use packet::{
    Batch, BatchOutput, CpuReason, DropReason, Engine, EngineReason, MAX_BATCH, Packet, PacketRef, PortCounters,
    PortId, PortReason, Verdict,
};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Default interval of [`RunHooks::on_tick`].
const TICK: Duration = Duration::from_millis(100);

/// A port that was detached from a runner. All packets that it received have been processed.
pub struct DetachedPort {
    /// The port.
    pub attached: AttachedPort,
    /// Counters of the port that are already included in the runner's report.
    counted: PortCounters,
}

impl From<AttachedPort> for DetachedPort {
    /// Attaches a port that had no runner in this process, so that all its counts are new.
    fn from(attached: AttachedPort) -> DetachedPort {
        DetachedPort { attached, counted: PortCounters::default() }
    }
}

/// Error that prevented or ended a run.
#[derive(Debug, Error)]
pub enum RunError {
    /// Two ports have the same number.
    #[error("{id} is both `{first}` and `{second}`; give each port its own number")]
    DuplicatePort {
        /// The port number.
        id: PortId,
        /// The port that was attached first.
        first: String,
        /// The port that was attached second.
        second: String,
    },
    /// A port failed permanently. All packets that were received before have been processed.
    #[error("{id}: {source}")]
    Port {
        /// The port's number.
        id: PortId,
        /// The port's error.
        #[source]
        source: PortError,
    },
    /// Waiting for packets failed.
    #[error("cannot wait for packets")]
    Wait(#[source] io::Error),
}

/// Callbacks of a run, called between two batches. A closure `FnMut(&mut E, &RunStats) ->
/// ControlFlow<()>` implements it as `on_tick`, without a receiver for CPU packets.
pub trait RunHooks<E: ?Sized> {
    /// Called about ten times a second. Can change the engine's tables: all earlier packets saw the
    /// old state, all later packets see the new one. `Break` ends the run.
    fn on_tick(&mut self, engine: &mut E, report: &RunStats) -> ControlFlow<()>;

    /// Called for a packet to the CPU. Returns whether it was accepted; otherwise it is counted as
    /// [`PortReason::PacketInQueueFull`].
    fn on_cpu(&mut self, packet: &Packet, reason: CpuReason) -> bool {
        let _ = (packet, reason);
        false
    }

    /// Called when a port can no longer pass packets (`fault` is the reason), or can again
    /// (`None`). The run continues with the other ports, and with this one once it recovers.
    fn on_port(&mut self, id: PortId, name: &str, fault: Option<&PortFault>) {
        let _ = (id, name, fault);
    }

    /// Called after [`RunHooks::on_tick`]. Ports can be attached and detached here.
    fn on_ports(&mut self, runner: &mut Runner) {
        let _ = runner;
    }

    /// Called before the next batch after [`RunnerWaker::nudge`]. Can send packets of other threads
    /// with [`Runner::send`]. Returns whether more packets wait, which are handled after that batch.
    fn on_nudge(&mut self, runner: &mut Runner) -> bool {
        let _ = runner;
        false
    }

    /// Called for a packet that the engine dropped, with its final content.
    fn on_drop(&mut self, packet: &Packet, reason: DropReason) {
        let _ = (packet, reason);
    }
}

impl<E: ?Sized, F: FnMut(&mut E, &RunStats) -> ControlFlow<()>> RunHooks<E> for F {
    fn on_tick(&mut self, engine: &mut E, report: &RunStats) -> ControlFlow<()> {
        self(engine, report)
    }
}

/// Maximum batch size, in packets, after a batch that was smaller.
const USUAL_BATCH: usize = 256;

/// Polls ports, passes received packets to an engine in batches, and sends the engine's output.
///
/// A batch contains the packets that have arrived, up to 256, or up to [`packet::MAX_BATCH`] if the
/// previous batch had at least 256. So batches are small at low load, because a packet should not
/// wait for others, and large at high load. [`IdlePolicy`] determines the behaviour without
/// packets.
pub struct Runner {
    ports: Vec<AttachedPort>,
    tick: Duration,
    batch: Batch,
    /// The last batch had at least [`USUAL_BATCH`] packets.
    is_backlogged: bool,
    out: BatchOutput,
    /// Per port, the packets to send. The order is that of `ports`, in which they are sent.
    queues: Vec<Vec<TxItem>>,
    last_transmissions: LastTransmissions,
    offloads: OffloadFinisher,
    /// Per port, the reason why it cannot pass packets.
    port_faults: Vec<Option<PortFault>>,
    /// Index of the port that is polled first. It changes with each poll, so that a busy port
    /// cannot starve the others.
    first: usize,
    idle_state: IdleState,
    report: RunStats,
    /// Requests an early tick from another thread.
    waker: Option<Arc<RunnerWaker>>,
    /// Whether the run continues without ports.
    runs_without_ports: bool,
    /// Per port, its counts at the time when it was attached, which are included in `before` or
    /// belong to another runner.
    counted: Vec<PortCounters>,
    /// Per port number, the counts of earlier ports with this number.
    before: BTreeMap<PortId, PortCounters>,
}

/// Result of polling all ports once.
enum PollResult {
    /// Number of packets that were received and processed, and the time when they were received.
    Busy(u64, Instant),
    Idle,
    /// All ports have ended.
    Ended,
}

impl Runner {
    /// Creates a runner for these ports. Refuses two ports with the same number.
    pub fn new(mut ports: Vec<AttachedPort>) -> Result<Runner, RunError> {
        ports.sort_by_key(|attached| attached.id);
        for pair in ports.windows(2) {
            if pair[0].id == pair[1].id {
                let [first, second] = [0, 1].map(|index| pair[index].port.name().to_owned());
                return Err(RunError::DuplicatePort { id: pair[0].id, first, second });
            }
        }
        let queues = ports.iter().map(|_| Vec::new()).collect();
        let port_faults = ports.iter().map(|_| None).collect();
        let counted = ports.iter().map(|_| PortCounters::default()).collect();
        Ok(Runner {
            ports,
            tick: TICK,
            batch: Batch::new(),
            is_backlogged: false,
            out: BatchOutput::new(),
            queues,
            last_transmissions: LastTransmissions::default(),
            offloads: OffloadFinisher::default(),
            port_faults,
            first: 0,
            idle_state: IdleState::new(IdlePolicy::default()),
            report: RunStats::default(),
            waker: None,
            runs_without_ports: false,
            counted,
            before: BTreeMap::new(),
        })
    }

    /// Sets the tick interval, clamped to 1 ms to 1 h.
    pub fn with_tick(mut self, tick: Duration) -> Runner {
        self.tick = tick.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        self
    }

    /// Adds a waker: a call causes a tick after the current batch, and wakes a sleeping runner.
    pub fn with_call(mut self, waker: Arc<RunnerWaker>) -> Runner {
        self.waker = Some(waker);
        self
    }

    /// Returns whether a tick was requested.
    fn tick_requested(&self) -> bool {
        self.waker.as_ref().is_some_and(|waker| waker.take_call())
    }

    /// Lets a run continue without ports and after all ports have ended, because others can be
    /// attached.
    pub fn staying(mut self) -> Runner {
        self.runs_without_ports = true;
        self
    }

    /// Attaches a port, from the next batch on. In the report, its counters continue those of the
    /// previous port of the same number.
    ///
    /// # Errors
    /// The number is in use; the port is returned.
    pub fn attach(&mut self, port: impl Into<DetachedPort>) -> Result<(), Box<(DetachedPort, RunError)>> {
        let port = port.into();
        let id = port.attached.id;
        match self.ports.binary_search_by_key(&id, |attached| attached.id) {
            Ok(index) => {
                let [first, second] = [&self.ports[index], &port.attached].map(|other| other.port.name().to_owned());
                Err(Box::new((port, RunError::DuplicatePort { id, first, second })))
            }
            Err(index) => {
                self.ports.insert(index, port.attached);
                self.queues.insert(index, Vec::new());
                self.port_faults.insert(index, None);
                self.counted.insert(index, port.counted);
                Ok(())
            }
        }
    }

    /// Detaches a port. All packets that it received have been processed; packets that arrive later
    /// stay in the port. The report keeps its counts.
    pub fn detach(&mut self, id: PortId) -> Option<DetachedPort> {
        let index = self.ports.binary_search_by_key(&id, |attached| attached.id).ok()?;
        self.queues.remove(index);
        self.port_faults.remove(index);
        self.report.port_faults.remove(&id);
        let mut attached = self.ports.remove(index);
        let counted = attached.port.counters().clone();
        let earlier_counters = self.before.entry(id).or_default();
        *earlier_counters += &counted.since(&self.counted.remove(index));
        self.report.ports.insert(id, (attached.port.name().to_owned(), earlier_counters.clone()));
        Some(DetachedPort { attached, counted })
    }

    /// Iterates over the attached ports in the order of their numbers.
    pub fn ports(&self) -> impl Iterator<Item = &AttachedPort> {
        self.ports.iter()
    }

    /// Sends packets on a port, unchanged and without the engine. Returns the number of sent ones;
    /// `None` if the port is not attached.
    pub fn send(&mut self, id: PortId, packets: &mut [Packet]) -> Option<usize> {
        let index = self.ports.binary_search_by_key(&id, |attached| attached.id).ok()?;
        Some(self.ports[index].port.send(&mut TxBatch::of(packets)))
    }

    /// Sets the idle policy.
    pub fn with_idle(mut self, idle: IdlePolicy) -> Runner {
        self.idle_state = IdleState::new(idle);
        self
    }

    /// Runs until `stop` is true (checked at least once per tick), the supervisor breaks, all ports
    /// have ended, or a port fails. The report accumulates over several runs.
    pub fn run<E: Engine + ?Sized>(
        &mut self,
        engine: &mut E,
        stop: &AtomicBool,
        supervisor: &mut (impl RunHooks<E> + ?Sized),
    ) -> Result<&RunStats, RunError> {
        let began = Instant::now();
        let earlier_run_time = self.report.run_time;
        let mut next_tick = began + self.tick;
        let mut poll_began = began;
        let outcome = loop {
            if stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            self.handle_nudge(supervisor);
            let polled = match self.poll_ports(engine, supervisor) {
                Ok(PollResult::Ended) => break Ok(()),
                Ok(polled) => polled,
                Err(error) => break Err(error),
            };
            let poll_ended = Instant::now();
            if let PollResult::Busy(packets, received_at) = polled {
                self.report.busy_time += poll_ended - poll_began;
                self.report.latency.record(poll_ended - received_at, packets);
            }
            poll_began = poll_ended;
            if poll_ended >= next_tick || self.tick_requested() {
                next_tick = poll_ended + self.tick;
                self.report.run_time = earlier_run_time + began.elapsed();
                self.tick(engine, supervisor);
                if supervisor.on_tick(engine, &self.report).is_break() {
                    break Ok(());
                }
                supervisor.on_ports(self);
            } else if let PollResult::Busy(..) = polled {
                self.idle_state.reset_idle();
            } else {
                let waker = self.waker.as_ref().map(|waker| waker.as_fd());
                if let Err(error) = self.idle_state.wait(&self.ports, waker, poll_ended, next_tick, || engine.on_idle())
                {
                    break Err(RunError::Wait(error));
                }
                poll_began = Instant::now();
            }
        };
        self.report.run_time = earlier_run_time + began.elapsed();
        self.update_port_counters();
        outcome.map(|()| &self.report)
    }

    /// Lets the supervisor send packets of other threads, if they were announced.
    fn handle_nudge<E: ?Sized>(&mut self, supervisor: &mut (impl RunHooks<E> + ?Sized)) {
        let is_nudged = self.waker.as_ref().is_some_and(|waker| waker.take_nudge());
        if is_nudged
            && supervisor.on_nudge(self)
            && let Some(waker) = &self.waker
        {
            waker.nudge();
        }
    }

    /// Returns the statistics up to now.
    pub fn report(&self) -> &RunStats {
        &self.report
    }

    /// Returns the ports, for example to finish capture files.
    pub fn into_ports(self) -> Vec<AttachedPort> {
        self.ports
    }

    /// Receives one batch from the ports, processes it, and sends. Returns a port's error after all
    /// received packets have been processed.
    fn poll_ports<E: Engine + ?Sized>(
        &mut self,
        engine: &mut E,
        supervisor: &mut (impl RunHooks<E> + ?Sized),
    ) -> Result<PollResult, RunError> {
        self.batch.clear();
        // Use full-size batches only under backlog, because a large batch delays its first packets.
        self.batch.set_capacity(if self.is_backlogged { MAX_BATCH } else { USUAL_BATCH });
        let port_count = self.ports.len();
        let mut failure = None;
        for offset in 0..port_count {
            let attached = &mut self.ports[(self.first + offset) % port_count];
            // Ports behind a full batch are polled first in one of the next rounds.
            if self.batch.remaining_capacity() == 0 {
                break;
            }
            if let Err(source) = attached.port.receive(attached.id, &mut self.batch) {
                failure = Some(RunError::Port { id: attached.id, source });
                break;
            }
        }
        self.is_backlogged = self.batch.len() >= USUAL_BATCH;
        self.first = (self.first + 1) % port_count.max(1);
        let mut result = PollResult::Idle;
        if !self.batch.is_empty() {
            self.report.engine.count_received(&self.batch);
            let received_at = Instant::now();
            result = PollResult::Busy(self.batch.len() as u64, received_at);
            if has_offloads(&self.batch) {
                self.prepare_offloads(engine.takes_offloads());
            }
            // More than one round only if packets were cut for the engine and did not fit one
            // batch.
            while !self.batch.is_empty() || self.offloads.refill(&mut self.batch) {
                let began = Instant::now();
                self.out.clear();
                engine.process(&mut self.batch, &mut self.out);
                self.report.engine_time += began.elapsed();
                self.dispatch(supervisor);
                self.batch.clear();
            }
        }
        match failure {
            Some(error) => Err(error),
            None if matches!(result, PollResult::Busy(..)) => Ok(result),
            None if !self.runs_without_ports
                && self.ports.iter().all(|attached| matches!(attached.port.readiness(), Readiness::Ended)) =>
            {
                Ok(PollResult::Ended)
            }
            None => Ok(result),
        }
    }

    /// Counts the super-frames of the batch, and finishes its packets if the engine takes complete
    /// packets only.
    fn prepare_offloads(&mut self, engine_takes_offloads: bool) {
        let super_frames = self.batch.packets().iter().filter(|packet| packet.offload.is_super_frame());
        self.report.offloads.received += super_frames.count() as u64;
        if !engine_takes_offloads {
            let (counts, lost) = (&mut self.report.offloads, &mut self.report.tx_dropped);
            self.offloads.finish_for_engine(&mut self.batch, counts, lost);
        }
    }

    /// Runs the engine's tick and sends the packets that it generates.
    fn tick<E: Engine + ?Sized>(&mut self, engine: &mut E, supervisor: &mut (impl RunHooks<E> + ?Sized)) {
        self.batch.clear();
        self.out.clear();
        engine.tick(now(), &mut self.out);
        if !self.out.verdicts().is_empty() {
            self.dispatch(supervisor);
        }
        self.update_port_counters();
        self.watch_ports(supervisor);
    }

    /// Executes the engine's verdicts on the batch: queues the packets to send per port, passes
    /// others to the CPU, reports drops, then sends each port's queue.
    fn dispatch<E: ?Sized>(&mut self, supervisor: &mut (impl RunHooks<E> + ?Sized)) {
        self.report.engine.count_batch(&self.batch, &self.out);
        let mut has_offloads = false;
        for (emission, packet) in self.out.iter(&self.batch) {
            has_offloads |= !packet.offload.is_none();
            match emission.verdict {
                Verdict::Forward { port } => match self.ports.binary_search_by_key(&port, |attached| attached.id) {
                    Ok(index) => self.last_transmissions.push(&mut self.queues, index, emission.packet),
                    Err(_) => self.report.tx_dropped.count_drop(EngineReason::UnknownPort, packet.len()),
                },
                Verdict::ToCpu { reason } => {
                    let counts = &mut self.report.offloads;
                    if !self.offloads.pass_to_cpu(packet, counts, |packet| supervisor.on_cpu(packet, reason)) {
                        self.report.tx_dropped.count_drop(PortReason::PacketInQueueFull, packet.len());
                    }
                }
                Verdict::Drop(reason) => supervisor.on_drop(packet, reason),
            }
        }
        self.last_transmissions.clear();
        for (attached, queue) in self.ports.iter_mut().zip(&mut self.queues) {
            if !queue.is_empty() {
                let (batch, extras) = (self.batch.packets_mut(), self.out.all_generated_mut());
                if has_offloads {
                    let (counts, lost) = (&mut self.report.offloads, &mut self.report.tx_dropped);
                    self.offloads.send(&mut attached.port, (batch, extras), queue, counts, lost);
                } else {
                    attached.port.send(&mut TxBatch::departures(batch, extras, queue));
                }
                queue.clear();
            }
        }
    }

    /// Reports ports that can no longer pass packets, or can again.
    fn watch_ports<E: ?Sized>(&mut self, supervisor: &mut (impl RunHooks<E> + ?Sized)) {
        for (attached, known_fault) in self.ports.iter_mut().zip(&mut self.port_faults) {
            let fault = attached.port.port_fault();
            if fault == *known_fault {
                continue;
            }
            match &fault {
                Some(fault) => self.report.port_faults.insert(attached.id, fault.to_string()),
                None => self.report.port_faults.remove(&attached.id),
            };
            supervisor.on_port(attached.id, attached.port.name(), fault.as_ref());
            *known_fault = fault;
        }
    }

    /// Updates the counters of the ports in the report: since they were attached, plus those of
    /// earlier ports with the same numbers.
    fn update_port_counters(&mut self) {
        for (attached, counted) in self.ports.iter_mut().zip(&self.counted) {
            let name = attached.port.name().to_owned();
            let mut counters = attached.port.counters().since(counted);
            if let Some(earlier) = self.before.get(&attached.id) {
                counters += earlier;
            }
            self.report.ports.insert(attached.id, (name, counters));
        }
    }
}

/// Finds the last transmission of each packet of a batch while the queues are filled. The packet's
/// buffer can be taken there.
#[derive(Default)]
struct LastTransmissions {
    /// Per input packet and per generated packet: the queue and index of its latest transmission.
    inputs: Vec<Option<(u32, u32)>>,
    extras: Vec<Option<(u32, u32)>>,
}

impl LastTransmissions {
    /// Adds a packet to the queue of index `queue`, and marks the transmission of the packet that
    /// is sent last. Queues are sent in the order of their indices.
    fn push(&mut self, queues: &mut [Vec<TxItem>], queue: usize, packet: PacketRef) {
        let (latest, index) = match packet {
            PacketRef::Input(index) => (&mut self.inputs, usize::from(index)),
            PacketRef::Generated(index) => (&mut self.extras, usize::from(index)),
        };
        if latest.len() <= index {
            latest.resize(index + 1, None);
        }
        let mut is_last = true;
        // The earlier entry is sent before this one, unless its queue is sent later.
        if let Some((earlier_queue, earlier_index)) = latest[index] {
            is_last = earlier_queue as usize <= queue;
            if is_last {
                queues[earlier_queue as usize][earlier_index as usize].last = false;
            }
        }
        if is_last {
            latest[index] = Some((queue as u32, queues[queue].len() as u32));
        }
        queues[queue].push(TxItem { packet, last: is_last });
    }

    fn clear(&mut self) {
        self.inputs.clear();
        self.extras.clear();
    }
}
