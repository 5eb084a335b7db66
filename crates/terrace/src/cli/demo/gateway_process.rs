//! The gateway of the demo's lab: this very program, as another process.

use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::Failure;
use crate::cli::io_args::IoArgs;
use crate::gateway::control::{Answer, Applied, Request, ask};
use crate::gateway::lab_socket;
use crate::gateway::stats::Stats;
use crate::lab::{Process, State};
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
        command.args(["gateway", "run", "--quiet", "--io", &io.to_string(), "--lab", lab, "--region"]);
        command.arg(work.region()).args(engine.arguments());
        // In a process group of its own, or Ctrl-C would end it before what it serves has been removed.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        let child = command.spawn().map_err(|error| {
            Failure::Environment(format!("cannot start {}: {error}; it was there a moment ago", program.display()))
        })?;
        let process = Process::of(child.id());
        let mut gateway = GatewayProcess { child, socket: lab_socket(lab), log };
        // Should this process die, `lab down` still finds the gateway.
        State::set_gateway(lab, process).map_err(Failure::system)?;
        gateway.wait_until_ready(stop)?;
        Ok(gateway)
    }

    fn wait_until_ready(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let deadline = Instant::now() + START;
        while ask(&self.socket, &Request::Stats).is_err() {
            if stop.load(Ordering::Relaxed) {
                return Err(super::stopped());
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
        match ask(&self.socket, &Request::Stats).map_err(Failure::system)? {
            Answer::Stats(stats) => Ok(*stats),
            other => Err(Failure::Bug(format!("asked for its counts, the gateway says {other:?}"))),
        }
    }

    /// Has it read its region file again: what changed, or why it is refused.
    pub fn apply(&self) -> Result<Result<Applied, String>, Failure> {
        match ask(&self.socket, &Request::Apply { region: None }).map_err(Failure::system)? {
            Answer::Applied(applied) => Ok(Ok(applied)),
            Answer::Refused { message } => Ok(Err(message)),
            other => Err(Failure::Bug(format!("asked to apply a region, the gateway says {other:?}"))),
        }
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        let _ = ask(&self.socket, &Request::Stop);
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
