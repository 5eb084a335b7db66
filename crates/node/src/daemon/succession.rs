//! From a process to the next: `terraced --takeover`, being taken over, and starting who takes over.

use super::processors::Processors;
use super::start::{open, parts};
use crate::config::{Config, PortSetting};
use crate::device::Node;
use crate::engine::Factory;
use crate::takeover::{self, Giver, Listening, Taken, TakeoverError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

/// How long after a take-over a port may be in use by the process before.
const FREED: Duration = Duration::from_secs(30);
/// How often it is tried.
const AGAIN: Duration = Duration::from_millis(10);

/// The node that another process was until now. Ports that could not be handed over are opened when that one has ended.
pub(super) fn take_over(config: &Config) -> anyhow::Result<(Arc<Node>, Vec<Listening>)> {
    let file = &config.file;
    let socket = file.takeover.as_deref().ok_or(TakeoverError::NoSocket)?;
    let expected: Vec<(u32, String)> = file.ports.iter().map(|port| (port.number, port.device.clone())).collect();
    let taken = takeover::take(socket, parts(config), file.store.as_deref(), &expected)?;
    let Taken { node, listening, missing, line } = taken;
    info!(ports = node.ports().len(), "took over from the process before");
    let node = Arc::new(node);
    if !missing.is_empty() {
        let settings: Vec<PortSetting> =
            file.ports.iter().filter(|port| missing.contains(&port.number)).cloned().collect();
        let (node, engine) = (node.clone(), config.engine.clone());
        std::thread::Builder::new().name("ports".into()).spawn(move || {
            line.wait();
            settings.iter().for_each(|setting| attach_when_free(&node, setting, &engine));
        })?;
    }
    Ok((node, listening))
}

/// Opens a port that the process before had, as soon as that one has let go of it.
fn attach_when_free(node: &Node, setting: &PortSetting, engine: &Factory) {
    let deadline = Instant::now() + FREED;
    let failed = loop {
        match open(setting, engine) {
            Ok(port) => match node.attach_port(setting.number, port) {
                Ok(()) => return,
                Err(error) => break error.to_string(),
            },
            Err(error) if Instant::now() > deadline => break format!("{error:#}"),
            Err(_) => std::thread::sleep(AGAIN),
        }
    };
    error!(port = setting.number, device = setting.device, why = failed, "a port is not there; restart the node");
}

/// Starts processes that take over from this one: of the program that is installed then, as children, so that a service manager knows them as the
/// service's own, with its rights.
pub(super) struct Successors {
    /// Where this program was when it began: afterwards another one may be there.
    program: std::io::Result<PathBuf>,
    config: Option<PathBuf>,
    processors: Processors,
    /// Waits for the one that was started last.
    last: Option<JoinHandle<()>>,
}

impl Successors {
    pub fn new(config: Option<&Path>, processors: Processors) -> Successors {
        Successors { program: std::env::current_exe(), config: config.map(Path::to_owned), processors, last: None }
    }

    /// Starts one. If it does not take over, this process goes on, and the log says why.
    pub fn start(&mut self) {
        if self.last.as_ref().is_some_and(|last| !last.is_finished()) {
            warn!("a process that is to take over is at work already");
            return;
        }
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return error!(%error, "it is not known which program is to take over"),
        };
        let mut command = Command::new(program);
        command.arg("--takeover");
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        // The watchdog that was this process's is the next one's.
        command.env_remove("WATCHDOG_PID").stdin(Stdio::null());
        let child = self.processors.on_all(|| command.spawn());
        match child {
            Err(error) => error!(program = %program.display(), %error, "no process can be started that takes over"),
            Ok(mut child) => {
                info!(process = child.id(), program = %program.display(), "a process was started that takes over");
                let wait = move || match child.wait() {
                    // Had it taken over, this process would have ended first.
                    Ok(status) => warn!(process = child.id(), %status, "the process that was to take over has ended"),
                    Err(error) => {
                        warn!(process = child.id(), %error, "nothing is known of the process that takes over")
                    }
                };
                self.last = std::thread::Builder::new().name("successor".into()).spawn(wait).ok();
            }
        }
    }
}

/// Waits to be taken over, if there is a socket for it; a message comes when that has happened.
pub(super) fn give(
    node: &Arc<Node>,
    socket: Option<&Path>,
    listening: Vec<Listening>,
) -> anyhow::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(1);
    let Some(path) = socket else { return Ok(receiver) };
    let failed = |error| anyhow::anyhow!("cannot listen on {} (`takeover`): {error}", path.display());
    let giver = Giver::listen(path).map_err(failed)?;
    let node = Arc::downgrade(node);
    std::thread::Builder::new().name("takeover".into()).spawn(move || {
        let mut say = |line: String| info!(what = line, "take-over");
        match takeover::serve(&giver, &node, &listening, &mut say) {
            Ok(()) => drop(sender.blocking_send(())),
            Err(error) => warn!(%error, "this node cannot be taken over any more"),
        }
    })?;
    Ok(receiver)
}
