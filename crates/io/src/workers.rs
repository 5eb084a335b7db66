//! Several runners, each on a thread and a processor of its own.

use crate::sys;
use crate::{RunError, RunReport, Runner, Supervisor, Trouble};
use packet::{CpuReason, DropReason, Engine, Packet, PortId};
use parking_lot::Mutex;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use thiserror::Error;

/// What one worker works with. Nothing of it is shared with other workers: its own queue of each port (in the runner) and its own
/// engine, so that there is nothing to wait for. From receiving to sending, a packet stays with one worker.
pub struct Worker<E = Box<dyn Engine>> {
    /// The processor on which it stays; `None`: wherever the system puts it.
    pub core: Option<usize>,
    /// Moves its packets.
    pub runner: Runner,
    /// Processes them.
    pub engine: E,
}

/// A worker could not be started. None runs then.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// No such processor, or this process may not use it.
    #[error(
        "worker {worker} cannot run on processor {core}: this process may use {allowed:?}; choose one of these, or ask for more (taskset, \
         cpusets)"
    )]
    NoSuchCore {
        /// The number of the worker.
        worker: usize,
        /// The processor.
        core: usize,
        /// Those that there are.
        allowed: Vec<usize>,
    },
    /// Two workers on one processor.
    #[error("workers {first} and {second} are both on processor {core}; give each its own")]
    SharedCore {
        /// A worker.
        first: usize,
        /// Another.
        second: usize,
        /// The processor.
        core: usize,
    },
    /// The system gives no thread, or does not say which processors there are.
    #[error("worker {worker} cannot be started; is the limit of processes (ulimit -u) reached?")]
    Thread {
        /// The number of the worker.
        worker: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// A worker that has ended.
pub struct Finished<E> {
    /// How its run ended.
    pub outcome: Result<(), RunError>,
    /// Its ports and its report.
    pub runner: Runner,
    /// Its engine.
    pub engine: E,
}

/// Workers that run. Dropping this stops them.
pub struct Workers<E = Box<dyn Engine>> {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Finished<E>>>,
    reports: Vec<Arc<Mutex<RunReport>>>,
}

impl<E: Engine + 'static> Workers<E> {
    /// Starts them; `supervise` makes the supervisor of each, by its number. A worker whose run ends with an error ends alone.
    ///
    /// Buffers that a runner allocates are taken on its worker's thread, hence from the memory of its processor's socket; DPDK ports are
    /// told by [`crate::dpdk::DpdkOptions::cores`].
    ///
    /// # Errors
    /// If a processor is not there, or no thread can be had. No worker runs then.
    pub fn start(
        workers: Vec<Worker<E>>,
        mut supervise: impl FnMut(usize) -> Box<dyn Supervisor<E> + Send>,
    ) -> Result<Workers<E>, WorkerError> {
        check_cores(&workers)?;
        let mut started = Workers { stop: Arc::default(), threads: Vec::new(), reports: Vec::new() };
        for (number, worker) in workers.into_iter().enumerate() {
            let report: Arc<Mutex<RunReport>> = Arc::default();
            let publisher = Publisher { inner: supervise(number), report: Arc::clone(&report) };
            let stop = Arc::clone(&started.stop);
            let thread = thread::Builder::new().name(format!("worker-{number}"));
            // Those that have been started are stopped when `started` is dropped.
            let thread = thread
                .spawn(move || work(worker, &stop, publisher))
                .map_err(|source| WorkerError::Thread { worker: number, source })?;
            started.threads.push(thread);
            started.reports.push(report);
        }
        Ok(started)
    }

    /// What each worker has done, as of its last tick.
    pub fn reports(&self) -> Vec<RunReport> {
        self.reports.iter().map(|report| report.lock().clone()).collect()
    }

    /// What all have done together, as of their last ticks.
    pub fn report(&self) -> RunReport {
        let mut all = RunReport::default();
        for report in self.reports() {
            all.merge(&report);
        }
        all
    }

    /// Whether all have ended: their ports have, or their supervisors ended them.
    pub fn have_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Stops all and waits for them. A panic of a worker goes on here.
    pub fn stop(mut self) -> Vec<Finished<E>> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<Finished<E>>| match thread.join() {
            Ok(finished) => finished,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        std::mem::take(&mut self.threads).into_iter().map(join).collect()
    }
}

impl<E> Drop for Workers<E> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic was shown when it happened.
            let _ = thread.join();
        }
    }
}

fn check_cores<E>(workers: &[Worker<E>]) -> Result<(), WorkerError> {
    let allowed = sys::allowed_cores().map_err(|source| WorkerError::Thread { worker: 0, source })?;
    for (number, worker) in workers.iter().enumerate() {
        let Some(core) = worker.core else { continue };
        if !allowed.contains(&core) {
            return Err(WorkerError::NoSuchCore { worker: number, core, allowed });
        }
        if let Some(first) = workers[..number].iter().position(|other| other.core == Some(core)) {
            return Err(WorkerError::SharedCore { first, second: number, core });
        }
    }
    Ok(())
}

/// A worker's thread.
fn work<E: Engine>(worker: Worker<E>, stop: &AtomicBool, mut publisher: Publisher<E>) -> Finished<E> {
    let Worker { core, mut runner, mut engine } = worker;
    if let Some(core) = core {
        // It was there a moment ago. Should it be gone, the worker still works, elsewhere.
        let _ = sys::stay_on(&[core]);
    }
    let outcome = runner.run(&mut engine, stop, &mut publisher).map(|_| ());
    publisher.publish(runner.report());
    Finished { outcome, runner, engine }
}

/// Tells others what a worker does.
struct Publisher<E> {
    inner: Box<dyn Supervisor<E> + Send>,
    report: Arc<Mutex<RunReport>>,
}

impl<E> Publisher<E> {
    fn publish(&self, report: &RunReport) {
        self.report.lock().clone_from(report);
    }
}

impl<E> Supervisor<E> for Publisher<E> {
    fn on_tick(&mut self, engine: &mut E, report: &RunReport) -> ControlFlow<()> {
        self.publish(report);
        self.inner.on_tick(engine, report)
    }

    fn on_cpu(&mut self, packet: &Packet, reason: CpuReason) -> bool {
        self.inner.on_cpu(packet, reason)
    }

    fn on_port(&mut self, id: PortId, name: &str, trouble: Option<&Trouble>) {
        self.inner.on_port(id, name, trouble);
    }

    fn on_ports(&mut self, runner: &mut Runner) {
        self.inner.on_ports(runner);
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason) {
        self.inner.on_drop(packet, reason);
    }
}
