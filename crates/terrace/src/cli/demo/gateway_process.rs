//! The gateway of the demo's lab: this very program, as another process.

use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::Failure;
use crate::cli::io_args::IoArgs;
use crate::cli::show::counters;
use crate::lab::{Process, State, control_socket};
use crate::run_stats::Stats;
use node::admin::client::AskError;
use node::admin::{Answer, Request, ask};
use node::region::Applied;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the gateway may take to start.
const START: Duration = Duration::from_secs(20);
/// How long it may take to end.
const END: Duration = Duration::from_secs(3);
/// Packets that were sent before this have been counted, and the counts published: the gateway publishes ten times a second.
const SETTLE: Duration = Duration::from_millis(260);

/// A gateway that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct GatewayProcess {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl GatewayProcess {
    /// Starts the gateway of a lab that is up, with the work directory's region file, and waits until packets flow.
    ///
    /// # Errors
    /// If it does not start; with what it said.
    pub fn start(
        program: &Path,
        lab: &str,
        (io, engine): (IoArgs, &EngineArgs),
        work: &WorkDir,
        stop: &AtomicBool,
    ) -> Result<GatewayProcess, Failure> {
        let log = work.file("gateway.log");
        let stderr = File::create(&log).map_err(Failure::system)?;
        let mut command = Command::new(program);
        command.args(["gateway", "run", "--io", &io.to_string(), "--lab", lab, "--region"]);
        command.arg(work.region()).args(engine.arguments());
        // In a process group of its own, or Ctrl-C would end it before what it serves has been removed.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        let child = command.spawn().map_err(|error| {
            Failure::Environment(format!("cannot start {}: {error}; it was there a moment ago", program.display()))
        })?;
        let process = Process::of(child.id());
        let mut gateway = GatewayProcess { child, socket: control_socket(lab), log };
        // Should this process die, `lab down` still finds the gateway.
        State::set_gateway(lab, process).map_err(Failure::system)?;
        gateway.wait_until_ready(stop)?;
        Ok(gateway)
    }

    fn wait_until_ready(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let deadline = Instant::now() + START;
        while ask(&self.socket, &Request::Region).is_err() {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::stopped());
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let how = ended.map_or("it does not answer".to_owned(), |status| status.to_string());
                return Err(Failure::Environment(format!("the gateway did not start ({how}): {}", said.trim())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// What it counted, up to now.
    pub fn stats(&self) -> Result<Stats, Failure> {
        std::thread::sleep(SETTLE);
        let Answer::Drops { drops } = ask(&self.socket, &Request::Drops).map_err(Failure::system)? else {
            return Err(Failure::Bug("asked for its drops, the gateway says something else".to_owned()));
        };
        let mut stats = Stats { counters: counters(&self.socket)?, ..Stats::default() };
        // What went to the CPU is named there; that no controller takes it here is no second loss.
        let untaken = packet::PortReason::CpuQueueFull.name();
        for dropped in drops.into_iter().filter(|dropped| dropped.reason != untaken) {
            let counts = if dropped.by == "cpu" { &mut stats.to_cpu } else { &mut stats.drops };
            *counts.entry(dropped.reason).or_default() += dropped.count;
        }
        Ok(stats)
    }

    /// Has it read its region file again: what changed, or why it is refused.
    pub fn apply(&self) -> Result<Result<Applied, String>, Failure> {
        match ask(&self.socket, &Request::RegionApply { file: None }) {
            Ok(Answer::RegionApplied(applied)) => Ok(Ok(applied)),
            Err(AskError::Refused(message)) => Ok(Err(message)),
            Ok(other) => Err(Failure::Bug(format!("asked to apply a region, the gateway says {other:?}"))),
            Err(error) => Err(Failure::system(error)),
        }
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        if let Some(process) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                // It could not remove this itself.
                let _ = std::fs::remove_file(&self.socket);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
