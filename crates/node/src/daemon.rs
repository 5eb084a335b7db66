//! The process `terraced`: configuration, ports, service, signals.

use crate::config::{self, Config, Engine, IdleSetting, Means};
use crate::device::{Node, Parts};
use crate::plane::Seat;
use crate::store::Store;
use clap::Parser;
use io::dpdk::DpdkOptions;
use io::{Attached, Idle, Namespace, PortKind, open_port};
use p4runtime::server::serve;
use packet::PortId;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often digests and notifications are looked for.
const TICK: Duration = Duration::from_millis(10);
/// How often the store is looked at.
const TIDY: Duration = Duration::from_secs(10);

/// Run a node: forward packets with the program that a controller sets by P4Runtime.
#[derive(Debug, Parser)]
#[command(name = "terraced", version)]
struct Arguments {
    /// The configuration file (TOML). Without one: no ports, on 127.0.0.1:9559.
    #[arg(short, long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Check the configuration, and end.
    #[arg(long)]
    check: bool,
    /// Print the JSON Schema of the configuration, and end.
    #[arg(long)]
    schema: bool,
}

/// Runs the process. Exit codes: 0 it was told to end, 1 the configuration is refused, 2 it cannot start or go on.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.schema {
        println!("{:#}", config::schema());
        return ExitCode::SUCCESS;
    }
    let config = match &arguments.config {
        Some(path) => config::load(path),
        None => config::check("").map_err(|mistakes| config::BadConfig { path: "(none)".into(), mistakes }),
    };
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(1);
        }
    };
    if arguments.check {
        let path = arguments.config.unwrap_or_default();
        println!(
            "{}: accepted ({} ports, {} workers)",
            path.display(),
            config.file.ports.len(),
            config.file.cores.len().max(1)
        );
        return ExitCode::SUCCESS;
    }
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("terraced cannot run: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(config: Config) -> anyhow::Result<()> {
    let node = Arc::new(start(&config)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(control(node.clone(), config));
    runtime.shutdown_timeout(Duration::from_secs(5));
    outcome
}

/// The node with its ports and what its store has.
fn start(config: &Config) -> anyhow::Result<Node> {
    let file = &config.file;
    let store = file.store.as_deref().map(Store::open).transpose()?;
    let mut seats: Vec<Seat> = match file.cores.is_empty() {
        true => vec![Seat { core: None, ports: Vec::new() }],
        false => file.cores.iter().map(|core| Seat { core: Some(*core), ports: Vec::new() }).collect(),
    };
    let workers = seats.len();
    for (index, setting) in file.ports.iter().enumerate() {
        let kind = match setting.by {
            Means::Auto => PortKind::Auto,
            Means::AfPacket => PortKind::AfPacket,
            Means::AfXdp => PortKind::AfXdp,
            Means::Raw => PortKind::Raw,
        };
        let open = || open_port(&setting.device, kind, &DpdkOptions::default());
        let opened = match &setting.netns {
            Some(name) => Namespace::open(name)?.run(open)?,
            None => open(),
        }?;
        opened.note.into_iter().for_each(|note| eprintln!("{note}"));
        // A port with one queue belongs to one worker; the ports are shared out.
        seats[index % workers].ports.push(Attached { id: PortId(setting.number), port: opened.port });
    }
    let idle = match file.idle {
        IdleSetting::Sleep => Idle::default(),
        IdleSetting::Busy => Idle::BUSY,
    };
    let settings = interp::Config { cpu_port: Some(file.cpu_port), ..interp::Config::default() };
    let interpreted = file.engine == Engine::Interp;
    Ok(Node::start(Parts { device_id: file.device_id, seats, idle, settings, interpreted, store })?)
}

/// Serves until a signal says to end.
async fn control(node: Arc<Node>, config: Config) -> anyhow::Result<()> {
    let mut listeners = Vec::new();
    for address in &config.listen {
        let listener = tokio::net::TcpListener::bind(address).await;
        let failed = |error| anyhow::anyhow!("cannot listen on {address}: {error}; is another node running?");
        listeners.push(listener.map_err(failed)?);
    }
    let addresses: Vec<String> =
        listeners.iter().filter_map(|listener| Some(listener.local_addr().ok()?.to_string())).collect();
    let ticking = {
        let node = node.clone();
        std::thread::Builder::new().name("ticks".into()).spawn(move || tick(&Arc::downgrade(&node)))?
    };
    let (mut stop, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    eprintln!("running on {}, P4Runtime on {}", ports(&config), addresses.join(", "));
    let shutdown = async move {
        tokio::select! { _ = stop.recv() => {}, _ = interrupt.recv() => {} }
    };
    let served = serve(listeners, node.clone(), config.serve, shutdown).await;
    drop(ticking);
    Ok(served?)
}

fn ports(config: &Config) -> String {
    let ports: Vec<String> = config.file.ports.iter().map(|port| format!("{}={}", port.number, port.device)).collect();
    if ports.is_empty() { "no ports".to_owned() } else { ports.join(", ") }
}

/// The node's clock, until it is gone.
fn tick(node: &std::sync::Weak<Node>) {
    let mut since_tidy = Duration::ZERO;
    loop {
        std::thread::sleep(TICK);
        let Some(node) = node.upgrade() else { return };
        node.tick();
        since_tidy += TICK;
        if since_tidy >= TIDY {
            since_tidy = Duration::ZERO;
            if let Err(error) = node.tidy_store() {
                eprintln!("{error}");
            }
        }
    }
}
