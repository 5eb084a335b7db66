//! Several runners, each on a thread and a processor of its own.

use crate::sys;
use crate::{PortFault, RunError, RunHooks, RunStats, Runner};
use packet::{CpuReason, DropReason, Engine, Packet, PortId};
use parking_lot::Mutex;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use thiserror::Error;

/// Resources of one worker: its own queue of each port (in the runner) and its own engine. Workers
/// share nothing, so they never wait for each other. A packet stays with one worker from receiving
/// to sending.
pub struct Worker<E = Box<dyn Engine>> {
    /// The processor to which it is pinned; `None`: not pinned.
    pub core: Option<usize>,
    /// Receives and sends its packets.
    pub runner: Runner,
    /// Processes its packets.
    pub engine: E,
}

/// A worker could not be started. No worker runs then.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The processor does not exist, or this process may not use it.
    #[error(
        "worker {worker} cannot run on processor {core}: this process may use {allowed:?}; choose one of these, or ask for more (taskset, \
         cpusets)"
    )]
    NoSuchCore {
        /// The number of the worker.
        worker: usize,
        /// The processor.
        core: usize,
        /// The allowed processors.
        allowed: Vec<usize>,
    },
    /// Two workers have the same processor.
    #[error("workers {first} and {second} are both on processor {core}; give each its own")]
    SharedCore {
        /// The first worker.
        first: usize,
        /// The second worker.
        second: usize,
        /// The processor.
        core: usize,
    },
    /// The system refuses a thread, or does not list the processors.
    #[error("worker {worker} cannot be started; is the limit of processes (ulimit -u) reached?")]
    Thread {
        /// The number of the worker.
        worker: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// A worker that has ended.
pub struct FinishedWorker<E> {
    /// Result of its run.
    pub outcome: Result<(), RunError>,
    /// Its ports and its statistics.
    pub runner: Runner,
    /// Its engine.
    pub engine: E,
}

/// Running workers. Dropping this stops them.
pub struct Workers<E = Box<dyn Engine>> {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<FinishedWorker<E>>>,
    reports: Vec<Arc<Mutex<RunStats>>>,
}

impl<E: Engine + 'static> Workers<E> {
    /// Starts the workers; `supervise` creates the supervisor of each by its number. An error ends
    /// the run of one worker only.
    ///
    /// Each worker's thread allocates the buffers of its runner, so they are in the memory of its
    /// processor's NUMA node. DPDK ports use [`crate::dpdk::DpdkOptions::cores`] instead.
    ///
    /// # Errors
    /// A processor does not exist, or a thread cannot be started. No worker runs then.
    pub fn start(
        workers: Vec<Worker<E>>,
        mut supervise: impl FnMut(usize) -> Box<dyn RunHooks<E> + Send>,
    ) -> Result<Workers<E>, WorkerError> {
        check_cores(&workers)?;
        let mut started = Workers { stop: Arc::default(), threads: Vec::new(), reports: Vec::new() };
        for (number, worker) in workers.into_iter().enumerate() {
            let report: Arc<Mutex<RunStats>> = Arc::default();
            let publisher = Publisher { inner: supervise(number), report: Arc::clone(&report) };
            let stop = Arc::clone(&started.stop);
            let thread = thread::Builder::new().name(format!("worker-{number}"));
            // On an error, dropping `started` stops the workers that were started before.
            let thread = thread
                .spawn(move || run_worker(worker, &stop, publisher))
                .map_err(|source| WorkerError::Thread { worker: number, source })?;
            started.threads.push(thread);
            started.reports.push(report);
        }
        Ok(started)
    }

    /// Returns the statistics of each worker as of its last tick.
    pub fn reports(&self) -> Vec<RunStats> {
        self.reports.iter().map(|report| report.lock().clone()).collect()
    }

    /// Returns the sum of all workers' statistics as of their last ticks.
    pub fn report(&self) -> RunStats {
        let mut all = RunStats::default();
        for report in self.reports() {
            all.merge(&report);
        }
        all
    }

    /// Returns the number of workers that run.
    pub fn running(&self) -> usize {
        self.threads.iter().filter(|thread| !thread.is_finished()).count()
    }

    /// Stops all workers and waits for them. A panic of a worker continues here.
    pub fn stop(mut self) -> Vec<FinishedWorker<E>> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<FinishedWorker<E>>| match thread.join() {
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
            // The panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// Checks that this process may use the processor of each worker, and that no two workers have the
/// same one.
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

/// Body of a worker's thread.
fn run_worker<E: Engine>(worker: Worker<E>, stop: &AtomicBool, mut publisher: Publisher<E>) -> FinishedWorker<E> {
    let Worker { core, mut runner, mut engine } = worker;
    if let Some(core) = core {
        // The processor was checked before. If it is gone, the worker runs unpinned.
        let _ = sys::pin_current_thread(&[core]);
    }
    let outcome = runner.run(&mut engine, stop, &mut publisher).map(|_| ());
    publisher.publish(runner.report());
    FinishedWorker { outcome, runner, engine }
}

/// Publishes a worker's statistics.
struct Publisher<E> {
    inner: Box<dyn RunHooks<E> + Send>,
    report: Arc<Mutex<RunStats>>,
}

impl<E> Publisher<E> {
    fn publish(&self, report: &RunStats) {
        self.report.lock().clone_from(report);
    }
}

impl<E> RunHooks<E> for Publisher<E> {
    fn on_tick(&mut self, engine: &mut E, report: &RunStats) -> ControlFlow<()> {
        self.publish(report);
        self.inner.on_tick(engine, report)
    }

    fn on_cpu(&mut self, packet: &Packet, reason: CpuReason) -> bool {
        self.inner.on_cpu(packet, reason)
    }

    fn on_port(&mut self, id: PortId, name: &str, fault: Option<&PortFault>) {
        self.inner.on_port(id, name, fault);
    }

    fn on_ports(&mut self, runner: &mut Runner) {
        self.inner.on_ports(runner);
    }

    fn on_nudge(&mut self, runner: &mut Runner) -> bool {
        self.inner.on_nudge(runner)
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason) {
        self.inner.on_drop(packet, reason);
    }
}
