//! Take-over between processes: `terraced --takeover`, being taken over, and starting successors.

use super::processors::ServiceProcessors;
use super::start::{open, parts};
use crate::config::{CheckedConfig, PortDriver, PortSetting};
use crate::device::Node;
use crate::engine::SharedEngineFactory;
use crate::takeover::{self, ListeningSocket, TakeoverError, TakeoverListener, TakeoverResult};
use io::Namespace;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

/// Maximum time after a take-over during which the predecessor can still hold a port.
const PORT_RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between attempts to open a port.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Takes over the node of another process. Ports that cannot be handed over are opened after that
/// process has ended.
pub(super) fn take_over(config: &CheckedConfig) -> anyhow::Result<(Arc<Node>, Vec<ListeningSocket>)> {
    let file = &config.file;
    let socket = file.takeover_socket.as_deref().ok_or(TakeoverError::NoSocket)?;
    let expected: Vec<(u32, String)> = file.ports.iter().map(|port| (port.number, port.device.clone())).collect();
    let taken = takeover::take(socket, parts(config), file.store.as_deref(), &expected)?;
    let TakeoverResult { node, listening, missing, line } = taken;
    info!(ports = node.ports().len(), "took over from the process before");
    let node = Arc::new(node);
    if !missing.is_empty() {
        let settings: Vec<PortSetting> =
            file.ports.iter().filter(|port| missing.contains(&port.number)).cloned().collect();
        let (node, engine) = (node.clone(), config.engine.clone());
        std::thread::Builder::new().name("ports".into()).spawn(move || {
            let (shared, exclusive): (Vec<_>, Vec<_>) =
                settings.into_iter().partition(|setting| can_share(setting, &engine));
            for setting in &shared {
                attach_when_free(&node, setting, &engine);
                info!(
                    port = setting.number,
                    device = setting.device,
                    "attached in front of the process before; packets that it had not received are lost"
                );
            }
            line.wait();
            exclusive.iter().for_each(|setting| attach_when_free(&node, setting, &engine));
        })?;
    }
    Ok((node, listening))
}

/// Returns whether a port can be opened while the predecessor still has it.
fn can_share(setting: &PortSetting, engine: &SharedEngineFactory) -> bool {
    let can_share = || setting.driver == PortDriver::Auto && engine.can_share_port(&setting.device);
    match &setting.netns {
        Some(name) => Namespace::open(name).and_then(|namespace| namespace.run(can_share)).unwrap_or(false),
        None => can_share(),
    }
}

/// Opens a port as soon as the predecessor has released it.
fn attach_when_free(node: &Node, setting: &PortSetting, engine: &SharedEngineFactory) {
    let deadline = Instant::now() + PORT_RELEASE_TIMEOUT;
    let failed = loop {
        match open(setting, engine) {
            Ok(port) => match node.attach_port(setting.number, port) {
                Ok(()) => return,
                Err(error) => break error.to_string(),
            },
            Err(error) if Instant::now() > deadline => break format!("{error:#}"),
            Err(_) => std::thread::sleep(RETRY_INTERVAL),
        }
    };
    error!(port = setting.number, device = setting.device, why = failed, "a port cannot be opened; restart the node");
}

/// Starts successors of this process: child processes with the currently installed program. As
/// children, they belong to the same service and have its permissions.
pub(super) struct Successors {
    /// Path of this program at its start. A newer program can be installed there later.
    program: std::io::Result<PathBuf>,
    config: Option<PathBuf>,
    processors: ServiceProcessors,
    /// Waits for the last successor that was started.
    last: Option<JoinHandle<()>>,
}

impl Successors {
    pub fn new(config: Option<&Path>, processors: ServiceProcessors) -> Successors {
        Successors { program: std::env::current_exe(), config: config.map(Path::to_owned), processors, last: None }
    }

    /// Starts a successor. If it does not take over, this process continues and logs the reason.
    pub fn start_successor(&mut self) {
        if self.last.as_ref().is_some_and(|last| !last.is_finished()) {
            warn!("a successor process is already running");
            return;
        }
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return error!(%error, "the path of the successor program is unknown"),
        };
        let mut command = Command::new(program);
        command.arg("--takeover");
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        // WATCHDOG_PID names this process, so the successor would ignore the watchdog.
        command.env_remove("WATCHDOG_PID").stdin(Stdio::null());
        let child = self.processors.run_unpinned(|| command.spawn());
        match child {
            Err(error) => error!(program = %program.display(), %error, "the successor process cannot be started"),
            Ok(mut child) => {
                info!(process = child.id(), program = %program.display(), "a successor process was started");
                let wait = move || match child.wait() {
                    // After a successful take-over, this process would have ended first.
                    Ok(status) => {
                        warn!(process = child.id(), %status, "the successor process has ended without taking over")
                    }
                    Err(error) => {
                        warn!(process = child.id(), %error, "the state of the successor process is unknown")
                    }
                };
                self.last = std::thread::Builder::new().name("successor".into()).spawn(wait).ok();
            }
        }
    }
}

/// Waits for a successor if a socket is configured. Sends a message when one has taken over.
pub(super) fn give(
    node: &Arc<Node>,
    socket: Option<&Path>,
    listening: Vec<ListeningSocket>,
) -> anyhow::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(1);
    let Some(path) = socket else { return Ok(receiver) };
    let failed = |error| anyhow::anyhow!("cannot listen on {} (`takeover_socket`): {error}", path.display());
    let giver = TakeoverListener::listen(path).map_err(failed)?;
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
