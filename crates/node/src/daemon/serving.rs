//! A serving node: listeners, signals, periodic work.

use super::notify::{self, Watchdog};
use super::processors::ServiceProcessors;
use super::reload::Reload;
use super::successor;
use crate::admin::ControlSocket;
use crate::admin::responder::NodeResponder;
use crate::config::{CheckedConfig, CounterSetting};
use crate::device::Node;
use crate::link_watch::LinkWatch;
use crate::log::Log;
use crate::metrics::top::CounterDisplay;
use crate::metrics::{Metrics, http};
use crate::takeover::ListeningSocket;
use p4runtime::Device;
use p4runtime::server::{Counters, ObserverHandle, ServeOptions, serve};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

/// Interval of the node's tick, if no link changes.
const TICK: Duration = Duration::from_millis(10);
/// Interval for reporting suppressed log lines.
const LOG_TICK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval for compacting the store and reporting lost events.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(10);

/// Serves until a signal ends the process. `taken`: the listening sockets of the predecessor after
/// a take-over.
pub(super) async fn control(
    node: Arc<Node>,
    config: CheckedConfig,
    path: Option<PathBuf>,
    taken: Option<Vec<ListeningSocket>>,
    log: Arc<Log>,
    processors: ServiceProcessors,
) -> anyhow::Result<()> {
    let takes_over = taken.is_some();
    let mut taken = taken.unwrap_or_default();
    let mut listening = Vec::new();
    let listeners = bind_listeners(&config.listen, &mut taken, &mut listening)?;
    let scraped = bind_listeners(&config.metrics, &mut taken, &mut listening)?;
    let responder = Arc::new(NodeResponder(Arc::downgrade(&node)));
    let socket = config.file.control.socket.as_deref();
    let _control_socket = socket.map(|path| ControlSocket::open(path, responder, takes_over)).transpose()?;
    let (addresses, metrics) = (bound_addresses(&listeners), bound_addresses(&scraped));
    let clock = NodeClock {
        node: Arc::downgrade(&node),
        links: node.link_watch(),
        counters: node.service().counters.clone(),
        log: log.clone(),
    };
    std::thread::Builder::new().name("ticks".into()).spawn(move || clock.run_clock())?;
    let (stop, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut handing_over = signal(SignalKind::user_defined2())?;
    let mut successors = successor::Successors::new(path.as_deref(), processors);
    let ports = describe_ports(&config);
    let status = describe_status(&ports, &addresses);
    let credentials = config.serve.credentials.clone();
    let reload = Reload {
        path,
        file: config.file.clone(),
        credentials,
        log,
        node: node.clone(),
        engine: config.engine.clone(),
        status: status.clone(),
    };
    let reload = Arc::new(Mutex::new(reload));
    let replaced = successor::give(&node, config.file.takeover_socket.as_deref(), listening)?;
    let shutdown = wait_for_end(stop, interrupt, replaced, UnlinkOnDrop(config.file.takeover_socket.clone()));
    let mut exporters = spawn_exporters(&node, &config, scraped)?;
    let service = node.service();
    let options = ServeOptions {
        monitor: service.watch.clone(),
        counters: service.counters.clone(),
        state_handle: service.held.clone(),
        observer: Some(ObserverHandle(service.requests.clone())),
        ..config.serve
    };
    let serving = serve(listeners, node.clone(), options, shutdown);
    tokio::pin!(serving);
    // Polls the server once, so that errors at its start are returned before the node reports that
    // it serves.
    tokio::select! {
        biased;
        ended = &mut serving => return Ok(ended?),
        () = tokio::task::yield_now() => {}
    }
    let (version, device_id) = (env!("CARGO_PKG_VERSION"), node.id());
    let metrics = (!metrics.is_empty()).then(|| metrics.join(","));
    info!(version, device_id, ports, metrics, listen = addresses.join(","), "serving");
    notify::ready(&status);
    loop {
        tokio::select! {
            ended = &mut serving => return Ok(ended?),
            // Exporters only end if they cannot start.
            Some(failed) = exporters.join_next() => match failed?? {},
            Some(()) = hang_up.recv() => {
                let reload = reload.clone();
                let again = move || reload.lock().reload_config();
                // Runs on a blocking thread, because it can wait for a disk. The lock serialises
                // reloads.
                tokio::task::spawn_blocking(again);
            }
            Some(()) = handing_over.recv() => successors.start_successor(),
        }
    }
}

/// Returns the addresses of the listeners.
fn bound_addresses(all: &[TcpListener]) -> Vec<String> {
    all.iter().filter_map(|listener| Some(listener.local_addr().ok()?.to_string())).collect()
}

/// Returns the status text for the service manager.
fn describe_status(ports: &str, addresses: &[String]) -> String {
    match addresses {
        [] => format!("{ports}; no P4Runtime"),
        _ => format!("{ports}; P4Runtime on {}", addresses.join(", ")),
    }
}

/// Waits for a signal to end, or for a successor that has taken over. `socket`: the take-over
/// socket.
async fn wait_for_end(mut stop: Signal, mut interrupt: Signal, mut replaced: mpsc::Receiver<()>, socket: UnlinkOnDrop) {
    let why = tokio::select! {
        _ = stop.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        Some(()) = replaced.recv() => {
            // The socket belongs to the successor.
            std::mem::forget(socket);
            info!("ending: another process has taken over");
            return;
        }
    };
    info!(signal = why, "ending");
    notify::stopping();
}

/// Removes a socket when dropped.
struct UnlinkOnDrop(Option<PathBuf>);

impl Drop for UnlinkOnDrop {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens on the addresses, with the predecessor's sockets if available. Adds all sockets to
/// `listening`, for a successor.
fn bind_listeners(
    addresses: &[SocketAddr],
    taken: &mut Vec<ListeningSocket>,
    listening: &mut Vec<ListeningSocket>,
) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let name = address.to_string();
        let socket = match taken.iter().position(|(other, _)| *other == name) {
            Some(index) => Ok(taken.swap_remove(index).1),
            None => std::net::TcpListener::bind(address),
        };
        let failed = |error| anyhow::anyhow!("cannot listen on {address}: {error}; is another node running?");
        let socket = socket.map_err(failed)?;
        socket.set_nonblocking(true)?;
        listening.push((name, socket.try_clone()?));
        listeners.push(TcpListener::from_std(socket)?);
    }
    Ok(listeners)
}

/// Spawns the metrics servers, which run until they are dropped.
fn spawn_exporters(
    node: &Arc<Node>,
    config: &CheckedConfig,
    listeners: Vec<TcpListener>,
) -> anyhow::Result<JoinSet<Result<Infallible, http::MetricsError>>> {
    let followed = |setting: &CounterSetting| CounterDisplay {
        counter: setting.counter.clone(),
        label: setting.label.clone(),
        max_series: setting.max_series,
    };
    let metrics = Metrics::new(node, config.file.metrics.counters.iter().map(followed).collect());
    let ServeOptions { tls_where, credentials, .. } = &config.serve;
    let mut exporters = JoinSet::new();
    for listener in listeners {
        exporters.spawn(http::serve(listener, metrics.clone(), credentials.clone(), *tls_where));
    }
    Ok(exporters)
}

fn describe_ports(config: &CheckedConfig) -> String {
    let ports: Vec<String> = config.file.ports.iter().map(|port| format!("{}={}", port.number, port.device)).collect();
    if ports.is_empty() { "no ports".to_owned() } else { ports.join(",") }
}

/// Periodic work of a node, until the node is gone.
struct NodeClock {
    node: Weak<Node>,
    links: Arc<LinkWatch>,
    counters: Arc<Counters>,
    log: Arc<Log>,
}

impl NodeClock {
    fn run_clock(self) {
        let mut watchdog = Watchdog::asked_for();
        let (mut since_second, mut since_tidy) = (Duration::ZERO, Duration::ZERO);
        let mut lost = LossReporter::default();
        let mut last = Instant::now();
        loop {
            self.links.wait_for_change(TICK);
            let Some(node) = self.node.upgrade() else { return };
            let passed = last.elapsed();
            last += passed;
            node.tick();
            node.write_block_log();
            if let Some(watchdog) = &mut watchdog {
                watchdog.tick(passed, || node.tick_counts());
            }
            (since_second, since_tidy) = (since_second + passed, since_tidy + passed);
            if since_second >= LOG_TICK_INTERVAL {
                since_second = Duration::ZERO;
                self.log.tick();
            }
            if since_tidy >= MAINTENANCE_INTERVAL {
                since_tidy = Duration::ZERO;
                lost.report_new_losses(&node, &self.counters);
                compact_store(&node);
            }
        }
    }
}

fn compact_store(node: &Node) {
    let began = Instant::now();
    match node.compact_store() {
        Ok(true) => {
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            info!(ms, "the store was compacted");
        }
        Ok(false) => {}
        Err(error) => error!(%error, "the store cannot be compacted; its log keeps growing"),
    }
}

/// Counts of lost events and messages that were already reported.
#[derive(Default)]
struct LossReporter {
    events: u64,
    messages: u64,
}

impl LossReporter {
    fn report_new_losses(&mut self, node: &Node, counters: &Counters) {
        let (events, messages) = (node.events_lost(), counters.lost_messages.load(Ordering::Relaxed));
        if (events, messages) != (self.events, self.messages) {
            let (by_node, unread) = (events - self.events, messages - self.messages);
            warn!(by_node, unread, "packets, digests or notifications for controllers were lost");
        }
        (self.events, self.messages) = (events, messages);
    }
}
