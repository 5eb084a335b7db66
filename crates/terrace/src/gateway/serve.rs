//! The packet thread, and how both threads start and end.

use super::control::{Answer, Applied, ControlSocket, Request};
use super::keeper::{Job, Keeper};
use super::stats::Stats;
use io::{Attached, RunReport, Runner, Supervisor, Trouble};
use node::engine::Controlled;
use packet::{CpuReason, DropReason, Engine, Packet, PortId};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// A gateway that is ready to run.
pub struct Gateway {
    /// The engine, with the entries of the region.
    pub engine: Box<dyn Controlled>,
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
pub fn serve(gateway: Gateway, signals: &Signals, ready: impl FnOnce()) -> Result<Stats, io::RunError> {
    let Gateway { engine, ports, mut keeper, jobs, socket, program } = gateway;
    let region = keeper.file().map(|file| file.display().to_string());
    let mut runner = Runner::new(ports)?;
    std::thread::scope(|scope| {
        let stop = &*signals.stop;
        scope.spawn(move || socket.serve(stop, |event| control(&mut keeper, event, signals)));
        ready();
        let mut worker = engine.worker();
        let mut thread = PacketThread { engine, jobs, program };
        let outcome = runner.run(&mut worker, stop, &mut thread).map(|_| ());
        // The control thread ends with the packet thread, whatever ended that. Jobs that still wait learn it from their closed line.
        stop.store(true, Ordering::Relaxed);
        let mut stats = thread.stats(&*worker, runner.report());
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
    engine: Box<dyn Controlled>,
    jobs: Receiver<Job>,
    program: String,
}

impl PacketThread {
    fn stats(&self, worker: &dyn Engine, report: &RunReport) -> Stats {
        let mut stats = Stats::of(report, worker.reasons());
        stats.program.clone_from(&self.program);
        stats.tell_of(&*self.engine, worker.reasons());
        stats
    }
}

impl Supervisor<Box<dyn Engine>> for PacketThread {
    fn on_tick(&mut self, worker: &mut Box<dyn Engine>, report: &RunReport) -> ControlFlow<()> {
        // Whoever asked may be gone; then nobody wants to know.
        while let Ok(job) = self.jobs.try_recv() {
            let _ = match job {
                Job::Write { batch, reply } => {
                    // Who writes waits for all workers to let go of the old tables, and this one is on the same thread.
                    worker.rest();
                    let written = self.engine.write(&batch).map_err(|refused| refused.error.to_string());
                    reply.send(written).is_ok()
                }
                Job::Stats { reply } => reply.send(self.stats(&**worker, report)).is_ok(),
            };
        }
        // What grows old goes, and hot entries are chosen; nobody here wants to be told.
        worker.rest();
        drop(self.engine.advance_time(io::now()));
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
