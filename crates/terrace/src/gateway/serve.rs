//! The packet thread, and how both threads start and end.

use super::control::{Answer, Applied, ControlSocket, Request};
use super::keeper::{Job, Keeper};
use super::stats::{CounterCell, Stats};
use io::{Attached, RunReport, Runner, Supervisor, Trouble};
use packet::{CpuReason, DropReason, Engine, Packet, PortId};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use tables::WriteBatch;

/// An engine whose tables can be written between two batches of packets.
pub trait Writable: Engine {
    /// Applies all writes or none.
    ///
    /// # Errors
    /// Why it is refused, with the mend.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String>;

    /// How often tables were written.
    fn version(&self) -> u64;

    /// The program's counters that are not zero.
    fn counters(&self) -> Vec<CounterCell>;
}

/// A gateway that is ready to run.
pub struct Gateway<E> {
    /// The engine, with the entries of the region.
    pub engine: E,
    /// The ports.
    pub ports: Vec<Attached>,
    /// Keeps the tables.
    pub keeper: Keeper,
    /// What the keeper sends to the packet thread.
    pub jobs: Receiver<Job>,
    /// Where it is controlled from.
    pub socket: ControlSocket,
    /// The program's name, for statistics.
    pub program: String,
}

/// Signals, as flags that their handlers set.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// End.
    pub stop: Arc<AtomicBool>,
    /// Read the region file again.
    pub reload: Arc<AtomicBool>,
}

/// Runs a gateway until it is stopped; `ready` is called once packets flow. Gives what happened in all.
///
/// # Errors
/// If a port fails for good.
pub fn serve<E: Writable>(gateway: Gateway<E>, signals: &Signals, ready: impl FnOnce()) -> Result<Stats, io::RunError> {
    let Gateway { mut engine, ports, mut keeper, jobs, socket, program } = gateway;
    let region = keeper.file().map(|file| file.display().to_string());
    let mut runner = Runner::new(ports)?;
    std::thread::scope(|scope| {
        let stop = &*signals.stop;
        scope.spawn(move || socket.serve(stop, |event| control(&mut keeper, event, signals)));
        ready();
        let mut thread = PacketThread { jobs, program };
        let outcome = runner.run(&mut engine, stop, &mut thread).map(|_| ());
        // The control thread ends with the packet thread, whatever ended that. Jobs that still wait learn it from their closed line.
        stop.store(true, Ordering::Relaxed);
        let mut stats = thread.stats(&engine, runner.report());
        stats.region = region;
        outcome.map(|()| stats)
    })
}

/// What the control thread does with a request, or between requests.
fn control(keeper: &mut Keeper, event: Option<Request>, signals: &Signals) -> Option<Answer> {
    let refused = |message| Answer::Refused { message };
    match event {
        None => {
            // The handler of SIGHUP cannot do more than set a flag, and nobody waits for an answer.
            if signals.reload.swap(false, Ordering::Relaxed) {
                log_reload(keeper.apply(None));
            }
            None
        }
        Some(Request::Apply { region }) => Some(keeper.apply(region.as_deref()).map_or_else(refused, Answer::Applied)),
        Some(Request::Stats) => Some(keeper.stats().map_or_else(refused, |stats| Answer::Stats(Box::new(stats)))),
        Some(Request::Stop) => {
            signals.stop.store(true, Ordering::Relaxed);
            Some(Answer::Stopping)
        }
    }
}

/// What a reload by signal came to, on standard error: it has no other place.
fn log_reload(outcome: Result<Applied, String>) {
    match outcome {
        Ok(applied) => eprintln!("{applied}"),
        Err(message) => eprintln!("not applied, what runs is as before: {message}"),
    }
}

/// The packet thread between two batches.
struct PacketThread {
    jobs: Receiver<Job>,
    program: String,
}

impl PacketThread {
    fn stats<E: Writable>(&self, engine: &E, report: &RunReport) -> Stats {
        let mut stats = Stats::of(report, engine.reasons());
        stats.program.clone_from(&self.program);
        stats.version = engine.version();
        stats.counters = engine.counters();
        stats
    }
}

impl<E: Writable> Supervisor<E> for PacketThread {
    fn on_tick(&mut self, engine: &mut E, report: &RunReport) -> ControlFlow<()> {
        // Whoever asked may be gone; then nobody wants to know.
        while let Ok(job) = self.jobs.try_recv() {
            let _ = match job {
                Job::Write { batch, reply } => reply.send(engine.write(&batch)).is_ok(),
                Job::Stats { reply } => reply.send(self.stats(engine, report)).is_ok(),
            };
        }
        ControlFlow::Continue(())
    }

    /// There is no control plane in this process. Packets for it are counted by reason and end here.
    fn on_cpu(&mut self, _: &Packet, _: CpuReason) -> bool {
        false
    }

    fn on_drop(&mut self, _: &Packet, _: DropReason) {}

    /// On standard error, as whoever asks for statistics may not ask now.
    fn on_port(&mut self, id: PortId, name: &str, trouble: Option<&Trouble>) {
        match trouble {
            Some(trouble) => eprintln!("{id}: {trouble}"),
            None => eprintln!("{id}: `{name}` works again"),
        }
    }
}
