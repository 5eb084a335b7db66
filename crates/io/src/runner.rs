//! Moves batches between ports through an engine.

use crate::idle::Waiter;
use crate::outgoing::Departure;
use crate::port::now;
use crate::{Attached, Call, Idle, Outgoing, Port, PortError, Readiness, RunReport, Trouble};
use packet::{
    Batch, CpuReason, DropReason, Engine, EngineReason, MAX_BATCH, Output, Packet, PacketRef, PortCounters, PortId,
    PortReason, Verdict,
};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How often [`Supervisor::on_tick`] is called unless told otherwise.
const TICK: Duration = Duration::from_millis(100);

/// A port that a runner has given up. Nothing that it had received is under way any more.
pub struct Detached {
    /// The port.
    pub attached: Attached,
    /// What the runner's report says of it already.
    counted: PortCounters,
}

impl From<Attached> for Detached {
    /// A port that no runner of this process has had: all that it has counted is news.
    fn from(attached: Attached) -> Detached {
        Detached { attached, counted: PortCounters::default() }
    }
}

/// A run could not start, or ended because of an error.
#[derive(Debug, Error)]
pub enum RunError {
    /// Two ports with one number.
    #[error("{id} is both `{first}` and `{second}`; give each port its own number")]
    DuplicatePort {
        /// The number.
        id: PortId,
        /// The port attached first.
        first: String,
        /// The port attached second.
        second: String,
    },
    /// A port failed for good. Everything received before it has been processed.
    #[error("{id}: {source}")]
    Port {
        /// The port's number.
        id: PortId,
        /// What happened.
        #[source]
        source: PortError,
    },
    /// Waiting for packets failed.
    #[error("cannot wait for packets")]
    Wait(#[source] io::Error),
}

/// What a run asks and tells its owner, always between two batches. A closure `FnMut(&mut E, &RunReport) -> ControlFlow<()>` is one,
/// with nobody on the CPU.
pub trait Supervisor<E: ?Sized> {
    /// Called about ten times a second. May change the engine's tables: all packets before saw the old state, all after see the new.
    /// `Break` ends the run.
    fn on_tick(&mut self, engine: &mut E, report: &RunReport) -> ControlFlow<()>;

    /// A packet for the CPU. Return whether it was taken; otherwise it is counted as [`PortReason::CpuQueueFull`].
    fn on_cpu(&mut self, packet: &Packet, reason: CpuReason) -> bool {
        let _ = (packet, reason);
        false
    }

    /// Nothing can go through a port any more (`trouble` says why), or again (`None`). The run goes on with the other ports, and with this one
    /// as soon as it can.
    fn on_port(&mut self, id: PortId, name: &str, trouble: Option<&Trouble>) {
        let _ = (id, name, trouble);
    }

    /// Called after [`Supervisor::on_tick`]: the time to attach and detach ports.
    fn on_ports(&mut self, runner: &mut Runner) {
        let _ = runner;
    }

    /// The engine dropped a packet, which is shown as it was at its end.
    fn on_drop(&mut self, packet: &Packet, reason: DropReason) {
        let _ = (packet, reason);
    }
}

impl<E: ?Sized, F: FnMut(&mut E, &RunReport) -> ControlFlow<()>> Supervisor<E> for F {
    fn on_tick(&mut self, engine: &mut E, report: &RunReport) -> ControlFlow<()> {
        self(engine, report)
    }
}

/// The most packets of a batch behind one that was smaller.
const USUAL: usize = 256;

/// Polls ports, gives what arrives to an engine in batches, and sends what the engine says.
///
/// Batches are as large as what has arrived, up to 256 packets, and up to [`packet::MAX_BATCH`] if the one before was as large: small while there is little to do, so that
/// no packet waits for others, and large under load. When nothing arrives, [`Idle`] says what it does.
pub struct Runner {
    ports: Vec<Attached>,
    tick: Duration,
    batch: Batch,
    /// The last batch was a large one.
    behind: bool,
    out: Output,
    /// Per port, what is to be sent there; in the order of `ports`, which is also that in which they are served.
    queues: Vec<Vec<Departure>>,
    last_uses: LastUses,
    /// Per port, why nothing can go through it.
    troubles: Vec<Option<Trouble>>,
    /// The port that is asked first, a different one each time, so that a busy port cannot starve the others.
    first: usize,
    waiter: Waiter,
    report: RunReport,
    /// By which others ask it to tick soon.
    call: Option<Arc<Call>>,
    /// Goes on without ports.
    stays: bool,
    /// Per port, what it had counted when it was attached that is in `before`, here or with another runner.
    counted: Vec<PortCounters>,
    /// What ports of each number had counted before those that are attached now.
    before: BTreeMap<PortId, PortCounters>,
}

/// What one round over all ports found.
enum Round {
    /// Packets were received, so many, and handed on; since when they had been there.
    Busy(u64, Instant),
    Idle,
    /// All ports have ended.
    Ended,
}

impl Runner {
    /// A runner for these ports. Refuses two ports with the same number.
    pub fn new(mut ports: Vec<Attached>) -> Result<Runner, RunError> {
        ports.sort_by_key(|attached| attached.id);
        for pair in ports.windows(2) {
            if pair[0].id == pair[1].id {
                let [first, second] = [0, 1].map(|index| pair[index].port.name().to_owned());
                return Err(RunError::DuplicatePort { id: pair[0].id, first, second });
            }
        }
        let queues = ports.iter().map(|_| Vec::new()).collect();
        let troubles = ports.iter().map(|_| None).collect();
        let counted = ports.iter().map(|_| PortCounters::default()).collect();
        Ok(Runner {
            ports,
            tick: TICK,
            batch: Batch::new(),
            behind: false,
            out: Output::new(),
            queues,
            last_uses: LastUses::default(),
            troubles,
            first: 0,
            waiter: Waiter::new(Idle::default()),
            report: RunReport::default(),
            call: None,
            stays: false,
            counted,
            before: BTreeMap::new(),
        })
    }

    /// Ticks this often (at least every millisecond, at most once an hour).
    pub fn with_tick(mut self, tick: Duration) -> Runner {
        self.tick = tick.clamp(Duration::from_millis(1), Duration::from_secs(3600));
        self
    }

    /// Ticks also after the batch during which this was rung; a runner that sleeps wakes.
    pub fn with_call(mut self, call: Arc<Call>) -> Runner {
        self.call = Some(call);
        self
    }

    /// Whether somebody wants a tick now.
    fn called(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.answered())
    }

    /// A run does not end because all ports have ended, or because there is none: others may come.
    pub fn staying(mut self) -> Runner {
        self.stays = true;
        self
    }

    /// Receives from this port, too, and sends to it, from the next batch on. Its counters go on in the report where those of the port before it, of the
    /// same number, ended.
    ///
    /// # Errors
    /// There is a port of this number; this one is given back.
    pub fn attach(&mut self, port: impl Into<Detached>) -> Result<(), Box<(Detached, RunError)>> {
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
                self.troubles.insert(index, None);
                self.counted.insert(index, port.counted);
                Ok(())
            }
        }
    }

    /// Gives up a port. All that was received from it has been sent on; what arrives from now on waits in it. The report keeps what it counted.
    pub fn detach(&mut self, id: PortId) -> Option<Detached> {
        let index = self.ports.binary_search_by_key(&id, |attached| attached.id).ok()?;
        self.queues.remove(index);
        self.troubles.remove(index);
        self.report.troubles.remove(&id);
        let mut attached = self.ports.remove(index);
        let counted = attached.port.counters().clone();
        let here = self.before.entry(id).or_default();
        *here += &counted.since(&self.counted.remove(index));
        self.report.ports.insert(id, (attached.port.name().to_owned(), here.clone()));
        Some(Detached { attached, counted })
    }

    /// The ports that are attached, in the order of their numbers.
    pub fn ports(&self) -> impl Iterator<Item = &Attached> {
        self.ports.iter()
    }

    /// Does this when nothing arrives.
    pub fn with_idle(mut self, idle: Idle) -> Runner {
        self.waiter = Waiter::new(idle);
        self
    }

    /// Runs until `stop` is true (seen within a tick), the supervisor breaks off, all ports have ended, or one fails.
    /// The report counts on over several runs.
    pub fn run<E: Engine + ?Sized>(
        &mut self,
        engine: &mut E,
        stop: &AtomicBool,
        supervisor: &mut (impl Supervisor<E> + ?Sized),
    ) -> Result<&RunReport, RunError> {
        let began = Instant::now();
        let before = self.report.run_time;
        let mut next_tick = began + self.tick;
        let mut last = began;
        let outcome = loop {
            if stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            let round = match self.round(engine, supervisor) {
                Ok(Round::Ended) => break Ok(()),
                Ok(round) => round,
                Err(error) => break Err(error),
            };
            let time = Instant::now();
            if let Round::Busy(packets, since) = round {
                self.report.busy_time += time - last;
                self.report.residence.record(time - since, packets);
            }
            last = time;
            if time >= next_tick || self.called() {
                next_tick = time + self.tick;
                self.report.run_time = before + began.elapsed();
                self.tick(engine, supervisor);
                if supervisor.on_tick(engine, &self.report).is_break() {
                    break Ok(());
                }
                supervisor.on_ports(self);
            } else if let Round::Busy(..) = round {
                self.waiter.busy();
            } else {
                let call = self.call.as_ref().map(|call| call.as_fd());
                if let Err(error) = self.waiter.wait(&self.ports, call, time, next_tick, || engine.rest()) {
                    break Err(RunError::Wait(error));
                }
                last = Instant::now();
            }
        };
        self.report.run_time = before + began.elapsed();
        self.update_port_counters();
        outcome.map(|()| &self.report)
    }

    /// What happened so far.
    pub fn report(&self) -> &RunReport {
        &self.report
    }

    /// The ports, for example to finish capture files.
    pub fn into_ports(self) -> Vec<Attached> {
        self.ports
    }

    /// Receives one batch from the ports, processes it, sends. A port's error is returned after all that was received has been
    /// processed.
    fn round<E: Engine + ?Sized>(
        &mut self,
        engine: &mut E,
        supervisor: &mut (impl Supervisor<E> + ?Sized),
    ) -> Result<Round, RunError> {
        self.batch.clear();
        // Only who falls behind takes so many at once that those in front wait for those behind.
        self.batch.set_capacity(if self.behind { MAX_BATCH } else { USUAL });
        let count = self.ports.len();
        let mut failure = None;
        for offset in 0..count {
            let attached = &mut self.ports[(self.first + offset) % count];
            if self.batch.room() == 0 {
                break;
            }
            if let Err(source) = attached.port.receive(attached.id, &mut self.batch) {
                failure = Some(RunError::Port { id: attached.id, source });
                break;
            }
        }
        self.behind = self.batch.len() >= USUAL;
        self.first = (self.first + 1) % count.max(1);
        let mut found = Round::Idle;
        if !self.batch.is_empty() {
            self.out.clear();
            self.report.engine.receive(&self.batch);
            let began = Instant::now();
            found = Round::Busy(self.batch.len() as u64, began);
            engine.process(&mut self.batch, &mut self.out);
            self.report.engine_time += began.elapsed();
            self.dispatch(supervisor);
        }
        match failure {
            Some(error) => Err(error),
            None if matches!(found, Round::Busy(..)) => Ok(found),
            None if !self.stays
                && self.ports.iter().all(|attached| matches!(attached.port.readiness(), Readiness::Ended)) =>
            {
                Ok(Round::Ended)
            }
            None => Ok(found),
        }
    }

    /// Gives the engine its time, and sends what it makes of it.
    fn tick<E: Engine + ?Sized>(&mut self, engine: &mut E, supervisor: &mut (impl Supervisor<E> + ?Sized)) {
        self.batch.clear();
        self.out.clear();
        engine.tick(now(), &mut self.out);
        if !self.out.emissions().is_empty() {
            self.dispatch(supervisor);
        }
        self.update_port_counters();
        self.watch_ports(supervisor);
    }

    /// Carries out what the engine said about the batch.
    fn dispatch<E: ?Sized>(&mut self, supervisor: &mut (impl Supervisor<E> + ?Sized)) {
        self.report.engine.record(&self.batch, &self.out);
        for (emission, packet) in self.out.iter(&self.batch) {
            match emission.verdict {
                Verdict::Forward { port } => match self.ports.binary_search_by_key(&port, |attached| attached.id) {
                    Ok(index) => self.last_uses.push(&mut self.queues, index, emission.packet),
                    Err(_) => self.report.unsent.add(EngineReason::UnknownPort, packet.len()),
                },
                Verdict::ToCpu { reason } => {
                    if !supervisor.on_cpu(packet, reason) {
                        self.report.unsent.add(PortReason::CpuQueueFull, packet.len());
                    }
                }
                Verdict::Drop(reason) => supervisor.on_drop(packet, reason),
            }
        }
        self.last_uses.clear();
        for (attached, queue) in self.ports.iter_mut().zip(&mut self.queues) {
            if !queue.is_empty() {
                let (batch, extras) = (self.batch.packets_mut(), self.out.extras_mut());
                attached.port.send(&mut Outgoing::departures(batch, extras, queue));
                queue.clear();
            }
        }
    }

    /// Tells the supervisor of ports through which nothing can go any more, or again.
    fn watch_ports<E: ?Sized>(&mut self, supervisor: &mut (impl Supervisor<E> + ?Sized)) {
        for (attached, known) in self.ports.iter_mut().zip(&mut self.troubles) {
            let trouble = attached.port.trouble();
            if trouble == *known {
                continue;
            }
            match &trouble {
                Some(trouble) => self.report.troubles.insert(attached.id, trouble.to_string()),
                None => self.report.troubles.remove(&attached.id),
            };
            supervisor.on_port(attached.id, attached.port.name(), trouble.as_ref());
            *known = trouble;
        }
    }

    fn update_port_counters(&mut self) {
        for (attached, counted) in self.ports.iter_mut().zip(&self.counted) {
            let name = attached.port.name().to_owned();
            let mut counters = attached.port.counters().since(counted);
            if let Some(before) = self.before.get(&attached.id) {
                counters += before;
            }
            self.report.ports.insert(attached.id, (name, counters));
        }
    }
}

/// Finds where each packet of a batch leaves for the last time, while the queues are filled: there its buffer can be taken.
#[derive(Default)]
struct LastUses {
    /// Per input, then per extra: the queue and the place in it of its last departure as known so far, if any.
    inputs: Vec<Option<(u32, u32)>>,
    extras: Vec<Option<(u32, u32)>>,
}

impl LastUses {
    /// Adds a departure to the queue with this index. Queues are served in order of their indices.
    fn push(&mut self, queues: &mut [Vec<Departure>], queue: usize, packet: PacketRef) {
        let (known, index) = match packet {
            PacketRef::Input(index) => (&mut self.inputs, usize::from(index)),
            PacketRef::Extra(index) => (&mut self.extras, usize::from(index)),
        };
        if known.len() <= index {
            known.resize(index + 1, None);
        }
        let mut last = true;
        // The place before is earlier than this one, unless it is in a queue that is served later.
        if let Some((other, place)) = known[index] {
            last = other as usize <= queue;
            if last {
                queues[other as usize][place as usize].last = false;
            }
        }
        if last {
            known[index] = Some((queue as u32, queues[queue].len() as u32));
        }
        queues[queue].push(Departure { packet, last });
    }

    fn clear(&mut self) {
        self.inputs.clear();
        self.extras.clear();
    }
}
