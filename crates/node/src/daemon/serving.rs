//! A node that serves: listeners, signals, its clock.

use super::notify::{self, Watchdog};
use super::processors::Processors;
use super::reload::Reload;
use super::succession;
use crate::admin::ControlSocket;
use crate::admin::answer::Responder;
use crate::config::{Config, CounterSetting};
use crate::device::Node;
use crate::log::Log;
use crate::metrics::top::Followed;
use crate::metrics::{Metrics, http};
use crate::plane::LinkNews;
use crate::takeover::Listening;
use p4runtime::Device;
use p4runtime::server::{Counters, Observing, ServeOptions, serve};
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

/// How often digests and notifications are looked for.
const TICK: Duration = Duration::from_millis(10);
/// How often it is said what the log left out.
const SECOND: Duration = Duration::from_secs(1);
/// How often the store is looked at, and what was lost.
const TIDY: Duration = Duration::from_secs(10);

/// Serves until a signal says to end. `taken`: the listening sockets of the process that this one has taken over.
pub(super) async fn control(
    node: Arc<Node>,
    config: Config,
    path: Option<PathBuf>,
    taken: Option<Vec<Listening>>,
    log: Arc<Log>,
    processors: Processors,
) -> anyhow::Result<()> {
    let takes_over = taken.is_some();
    let mut taken = taken.unwrap_or_default();
    let mut listening = Vec::new();
    let listeners = listen(&config.listen, &mut taken, &mut listening)?;
    let scraped = listen(&config.metrics, &mut taken, &mut listening)?;
    let responder = Arc::new(Responder(Arc::downgrade(&node)));
    let socket = config.file.control.socket.as_deref();
    let _control_socket = socket.map(|path| ControlSocket::open(path, responder, takes_over)).transpose()?;
    let (addresses, metrics) = (bound(&listeners), bound(&scraped));
    let clock = Clock {
        node: Arc::downgrade(&node),
        links: node.link_news(),
        counters: node.service().counters.clone(),
        log: log.clone(),
    };
    std::thread::Builder::new().name("ticks".into()).spawn(move || clock.run())?;
    let (stop, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut handing_over = signal(SignalKind::user_defined2())?;
    let mut successors = succession::Successors::new(path.as_deref(), processors);
    let ports = ports(&config);
    let status = status(&ports, &addresses);
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
    let replaced = succession::give(&node, config.file.takeover.as_deref(), listening)?;
    let shutdown = told_to_end(stop, interrupt, replaced, Unlinked(config.file.takeover.clone()));
    let mut exporters = exporters(&node, &config, scraped)?;
    let service = node.service();
    let options = ServeOptions {
        watch: service.watch.clone(),
        counters: service.counters.clone(),
        held: service.held.clone(),
        observer: Some(Observing(service.requests.clone())),
        ..config.serve
    };
    let serving = serve(listeners, node.clone(), options, shutdown);
    tokio::pin!(serving);
    // What can go wrong at the beginning has, when it waits for clients.
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
            // They go on for ever, unless they can't begin.
            Some(failed) = exporters.join_next() => match failed?? {},
            Some(()) = hang_up.recv() => {
                let reload = reload.clone();
                let again = move || reload.lock().again();
                // It may wait for a disk. Reads follow each other by the lock.
                tokio::task::spawn_blocking(again);
            }
            Some(()) = handing_over.recv() => successors.start(),
        }
    }
}

/// Where these listen.
fn bound(all: &[TcpListener]) -> Vec<String> {
    all.iter().filter_map(|listener| Some(listener.local_addr().ok()?.to_string())).collect()
}

/// What the service manager shows.
fn status(ports: &str, addresses: &[String]) -> String {
    match addresses {
        [] => format!("{ports}; no P4Runtime"),
        _ => format!("{ports}; P4Runtime on {}", addresses.join(", ")),
    }
}

/// Waits until a signal says to end, or another process has taken over. `socket`: where it was listened for that one.
async fn told_to_end(mut stop: Signal, mut interrupt: Signal, mut replaced: mpsc::Receiver<()>, socket: Unlinked) {
    let why = tokio::select! {
        _ = stop.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        Some(()) = replaced.recv() => {
            // It belongs to the next process.
            std::mem::forget(socket);
            info!("ending: another process has taken over");
            return;
        }
    };
    info!(signal = why, "ending");
    notify::stopping();
}

/// A socket that is removed with this.
struct Unlinked(Option<PathBuf>);

impl Drop for Unlinked {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens on addresses, with the sockets of the process before where there are any. All of them are also put to `listening`, for the process after.
fn listen(
    addresses: &[SocketAddr],
    taken: &mut Vec<Listening>,
    listening: &mut Vec<Listening>,
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

/// What gives metrics to who asks, until it is dropped.
fn exporters(
    node: &Arc<Node>,
    config: &Config,
    listeners: Vec<TcpListener>,
) -> anyhow::Result<JoinSet<Result<Infallible, http::MetricsError>>> {
    let followed = |setting: &CounterSetting| Followed {
        counter: setting.counter.clone(),
        label: setting.label.clone(),
        top: setting.top,
    };
    let metrics = Metrics::new(node, config.file.metrics.counters.iter().map(followed).collect());
    let ServeOptions { tls_where, credentials, .. } = &config.serve;
    let mut exporters = JoinSet::new();
    for listener in listeners {
        exporters.spawn(http::serve(listener, metrics.clone(), credentials.clone(), *tls_where));
    }
    Ok(exporters)
}

fn ports(config: &Config) -> String {
    let ports: Vec<String> = config.file.ports.iter().map(|port| format!("{}={}", port.number, port.device)).collect();
    if ports.is_empty() { "no ports".to_owned() } else { ports.join(",") }
}

/// The node's clock, until it is gone.
struct Clock {
    node: Weak<Node>,
    links: Arc<LinkNews>,
    counters: Arc<Counters>,
    log: Arc<Log>,
}

impl Clock {
    fn run(self) {
        let mut watchdog = Watchdog::asked_for();
        let (mut since_second, mut since_tidy) = (Duration::ZERO, Duration::ZERO);
        let mut lost = Lost::default();
        let mut last = Instant::now();
        loop {
            self.links.wait(TICK);
            let Some(node) = self.node.upgrade() else { return };
            let passed = last.elapsed();
            last += passed;
            node.tick();
            if let Some(watchdog) = &mut watchdog {
                watchdog.tick(passed, || node.beats());
            }
            (since_second, since_tidy) = (since_second + passed, since_tidy + passed);
            if since_second >= SECOND {
                since_second = Duration::ZERO;
                self.log.tick();
            }
            if since_tidy >= TIDY {
                since_tidy = Duration::ZERO;
                lost.look(&node, &self.counters);
                tidy(&node);
            }
        }
    }
}

fn tidy(node: &Node) {
    let began = Instant::now();
    match node.tidy_store() {
        Ok(true) => {
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            info!(ms, "the store was written anew");
        }
        Ok(false) => {}
        Err(error) => error!(%error, "the store cannot be written anew; it grows on"),
    }
}

/// What nobody took, as far as it was told.
#[derive(Default)]
struct Lost {
    events: u64,
    messages: u64,
}

impl Lost {
    fn look(&mut self, node: &Node, counters: &Counters) {
        let (events, messages) = (node.events_lost(), counters.lost_messages.load(Ordering::Relaxed));
        if (events, messages) != (self.events, self.messages) {
            let (by_node, unread) = (events - self.events, messages - self.messages);
            warn!(by_node, unread, "packets, digests or notifications for controllers were lost");
        }
        (self.events, self.messages) = (events, messages);
    }
}
