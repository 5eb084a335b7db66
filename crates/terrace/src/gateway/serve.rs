//! The packet thread, and how both threads start and end.

use super::control::{Answer, ControlSocket, Request};
use super::keeper::{Job, Keeper};
use super::stats::{CounterCell, Stats};
use io::{Attached, RunReport, Runner, Supervisor};
use packet::{CpuReason, DropReason, Engine, Packet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
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

/// What the packet thread tells the control thread.
struct Shared {
    stats: Mutex<Stats>,
    region: Mutex<Option<PathBuf>>,
    program: String,
}

/// Runs a gateway until it is stopped; `ready` is called once packets flow. Gives what happened in all.
///
/// # Errors
/// If a port fails for good.
pub fn serve<E: Writable>(gateway: Gateway<E>, signals: &Signals, ready: impl FnOnce()) -> Result<Stats, io::RunError> {
    let Gateway { mut engine, ports, mut keeper, jobs, socket, program } = gateway;
    let region = Mutex::new(keeper.file().map(PathBuf::from));
    let shared = Shared { stats: Mutex::default(), region, program };
    let mut runner = Runner::new(ports)?;
    let outcome = std::thread::scope(|scope| {
        let (shared, stop) = (&shared, &*signals.stop);
        scope.spawn(move || {
            socket.serve(stop, |event| match event {
                // The handler of SIGHUP cannot do more than set a flag, and nobody waits for an answer.
                None if signals.reload.swap(false, Ordering::Relaxed) => {
                    log_reload(&apply(&mut keeper, None, shared));
                    None
                }
                None => None,
                Some(Request::Apply { region }) => Some(apply(&mut keeper, region, shared)),
                Some(Request::Stats) => Some(Answer::Stats(Box::new(lock(&shared.stats).clone()))),
                Some(Request::Stop) => {
                    stop.store(true, Ordering::Relaxed);
                    Some(Answer::Stopping)
                }
            });
        });
        ready();
        let mut thread = PacketThread { jobs, shared };
        let outcome = runner.run(&mut engine, stop, &mut thread).map(|_| ());
        // The control thread ends with the packet thread, whatever ended that. Jobs that still wait learn it from their closed line.
        stop.store(true, Ordering::Relaxed);
        thread.publish(&engine, runner.report());
        drop(thread);
        outcome
    });
    outcome.map(|()| lock(&shared.stats).clone())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn apply(keeper: &mut Keeper, region: Option<PathBuf>, shared: &Shared) -> Answer {
    match keeper.apply(region.as_deref()) {
        Ok(applied) => {
            *lock(&shared.region) = Some(applied.region.clone());
            Answer::Applied(applied)
        }
        Err(message) => Answer::Refused { message },
    }
}

/// What a reload by signal came to, on standard error: it has no other place.
fn log_reload(answer: &Answer) {
    match answer {
        Answer::Applied(applied) => eprintln!(
            "applied {}: {} entries added, {} changed, {} removed",
            applied.region.display(),
            applied.inserted,
            applied.modified,
            applied.deleted
        ),
        Answer::Refused { message } => eprintln!("not applied, what runs is as before: {message}"),
        Answer::Stats(_) | Answer::Stopping => {}
    }
}

/// The packet thread between two batches.
struct PacketThread<'a> {
    jobs: Receiver<Job>,
    shared: &'a Shared,
}

impl PacketThread<'_> {
    /// Makes the numbers visible to the control thread.
    fn publish<E: Writable>(&self, engine: &E, report: &RunReport) {
        let mut stats = Stats::of(report, engine.reasons());
        stats.program.clone_from(&self.shared.program);
        stats.region = lock(&self.shared.region).as_ref().map(|path| path.display().to_string());
        stats.version = engine.version();
        stats.counters = engine.counters();
        *lock(&self.shared.stats) = stats;
    }
}

impl<E: Writable> Supervisor<E> for PacketThread<'_> {
    fn on_tick(&mut self, engine: &mut E, report: &RunReport) -> ControlFlow<()> {
        while let Ok(job) = self.jobs.try_recv() {
            // Whoever asked may be gone; then nobody wants to know.
            let _ = job.reply.send(engine.write(&job.batch));
        }
        self.publish(engine, report);
        ControlFlow::Continue(())
    }

    /// There is no control plane in this process. Packets for it are counted by reason and end here.
    fn on_cpu(&mut self, _: &Packet, _: CpuReason) -> bool {
        false
    }

    fn on_drop(&mut self, _: &Packet, _: DropReason) {}
}
