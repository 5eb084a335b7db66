//! The gateway of the demo's lab: this program, run as another process.

use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::CommandError;
use crate::cli::io_args::IoArgs;
use crate::cli::show::counters;
use crate::lab::{LabState, Process, control_socket};
use crate::run_stats::RunSummary;
use node::admin::client::RequestError;
use node::admin::{ControlRequest, ControlResponse, ask};
use node::region::RegionChanges;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time for the gateway to start.
const START: Duration = Duration::from_secs(20);
/// Maximum time for the gateway to end.
const END: Duration = Duration::from_secs(3);
/// Time after which all packets sent before have been counted and published, because the gateway
/// publishes counts ten times per second.
const SETTLE: Duration = Duration::from_millis(260);

/// A running gateway process. Dropping it ends the process.
#[derive(Debug)]
pub struct GatewayProcess {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl GatewayProcess {
    /// Starts the gateway of a running lab with the work directory's region file, and waits until
    /// it forwards packets.
    ///
    /// # Errors
    /// If it does not start; the error has its output.
    pub fn start(
        program: &Path,
        lab: &str,
        (io, engine): (IoArgs, &EngineArgs),
        work: &WorkDir,
        stop: &AtomicBool,
    ) -> Result<GatewayProcess, CommandError> {
        let log = work.file("gateway.log");
        let stderr = File::create(&log).map_err(CommandError::system)?;
        let mut command = Command::new(program);
        command.args(["gateway", "run", "--io", &io.to_string(), "--lab", lab, "--region"]);
        command.arg(work.region()).args(engine.arguments());
        // A process group of its own, because Ctrl-C would otherwise end the gateway before the
        // namespaces that it serves are removed.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        let child = command.spawn().map_err(|error| {
            CommandError::Environment(format!("cannot start {}: {error}; it was there a moment ago", program.display()))
        })?;
        let process = Process::with_id(child.id());
        let mut gateway = GatewayProcess { child, socket: control_socket(lab), log };
        // Recorded so that `lab down` finds the gateway even if this process dies.
        LabState::set_gateway(lab, process).map_err(CommandError::system)?;
        gateway.wait_until_ready(stop)?;
        Ok(gateway)
    }

    fn wait_until_ready(&mut self, stop: &AtomicBool) -> Result<(), CommandError> {
        let deadline = Instant::now() + START;
        while ask(&self.socket, &ControlRequest::Region).is_err() {
            if stop.load(Ordering::Relaxed) {
                return Err(CommandError::stopped());
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let how = ended.map_or("it does not answer".to_owned(), |status| status.to_string());
                return Err(CommandError::Environment(format!("the gateway did not start ({how}): {}", said.trim())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the gateway's statistics up to now.
    pub fn stats(&self) -> Result<RunSummary, CommandError> {
        std::thread::sleep(SETTLE);
        let ControlResponse::Drops { drops } =
            ask(&self.socket, &ControlRequest::Drops).map_err(CommandError::system)?
        else {
            return Err(CommandError::Bug("unexpected response of the gateway to a request for drops".to_owned()));
        };
        let mut stats = RunSummary { counters: counters(&self.socket)?, ..RunSummary::default() };
        // Packets to the CPU are counted under their own reason. That no controller takes them here
        // is not a second loss.
        let untaken = packet::PortReason::PacketInQueueFull.name();
        for dropped in drops.into_iter().filter(|dropped| dropped.reason != untaken) {
            let counts = if dropped.by == "cpu" { &mut stats.to_cpu } else { &mut stats.drops };
            *counts.entry(dropped.reason).or_default() += dropped.count;
        }
        Ok(stats)
    }

    /// Requests a reload of the region file. Returns the changes, or the reason for a refusal.
    pub fn apply(&self) -> Result<Result<RegionChanges, String>, CommandError> {
        match ask(&self.socket, &ControlRequest::RegionApply { file: None }) {
            Ok(ControlResponse::RegionApplied(applied)) => Ok(Ok(applied)),
            Err(RequestError::Refused(message)) => Ok(Err(message)),
            Ok(other) => {
                Err(CommandError::Bug(format!("unexpected response of the gateway to a region change: {other:?}")))
            }
            Err(error) => Err(CommandError::system(error)),
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
                // A process that was killed leaves its socket behind.
                let _ = std::fs::remove_file(&self.socket);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
