//! The process `terraced`: configuration, ports, service, signals.
//!
//! `start.rs` creates the node, `serving.rs` runs its servers, `reload.rs` reloads the
//! configuration, `successor.rs` handles the take-over between processes, `notify.rs` notifies the
//! service manager, and `processors.rs` keeps all of that off the workers' processors.

mod notify;
mod processors;
mod reload;
mod serving;
mod start;
mod successor;

use crate::config::{self, CheckedConfig, PortSetting};
use crate::device::Node;
use crate::log::{Log, LogSettings};
use crate::underlay::{self, AgentSettings, ReadyAgent};
use crate::wings::Wings;
use ::underlay::DampingTimes;
use clap::Parser;
use processors::ServiceProcessors;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Time after which an idle thread of the service ends.
const IDLE_THREADS: Duration = Duration::from_millis(100);

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
    /// Take over the ports and the state of the node that runs with this configuration
    /// (`takeover_socket`), while packets flow.
    #[arg(long)]
    takeover: bool,
}

/// Runs the process `terraced` with these wings. Exit codes: 0 ended by a signal or after a
/// take-over, 1 the configuration is invalid, 2 the node cannot start or continue.
pub fn main(wings: Wings) -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.schema {
        println!("{:#}", config::schema());
        return ExitCode::SUCCESS;
    }
    let config = match &arguments.config {
        Some(path) => config::load(path, wings),
        None => config::check("", wings).map_err(|mistakes| config::ConfigErrors { path: "(none)".into(), mistakes }),
    };
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            if arguments.check {
                eprintln!("{error}");
            } else {
                let (_, _end) = Log::install(LogSettings::default());
                reload::refuse(&error);
            }
            return ExitCode::from(1);
        }
    };
    if arguments.check {
        if let Some(Err(error)) = config.file.region.as_deref().map(region::load) {
            eprintln!("{error}");
            return ExitCode::from(1);
        }
        let path = arguments.config.unwrap_or_default();
        println!(
            "{}: accepted ({} ports, {} workers)",
            path.display(),
            config.file.ports.len(),
            config.file.cores.len().max(1)
        );
        return ExitCode::SUCCESS;
    }
    let (log, _end) = Log::install(config.file.log);
    match run(config, arguments.config, arguments.takeover, log.clone()) {
        Ok(()) => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!("terraced cannot run: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Applies the region file that the configuration names, if any. If the file is invalid, a node
/// with tables from its store or from its predecessor continues with these tables.
fn serve_region(node: &Node, config: &CheckedConfig) -> anyhow::Result<()> {
    let Some(file) = &config.file.region else { return Ok(()) };
    let file = std::path::absolute(file)?;
    match node.serve_region(&file, config.program.clone()) {
        Ok(applied) => reload::log_applied(&applied),
        Err(error) if p4runtime::Device::running(node).is_some() => {
            tracing::error!("the region is refused, tables are as before: {error}");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Observes the links of the ports, so that the region starts with the paths that work.
fn observe_underlay(node: &Arc<Node>, config: &CheckedConfig) -> anyhow::Result<ReadyAgent> {
    let engine = config.engine.clone();
    let hold_up = Duration::from_millis(config.file.links.hold_up_ms);
    let times = DampingTimes { hold_up, ..DampingTimes::default() };
    let opener = Box::new(move |setting: &PortSetting| start::open(setting, &engine));
    underlay::observe_ports(node, AgentSettings { ports: config.file.ports.clone(), times, opener })
}

/// Runs a node until a signal ends it, as `terraced` does. `path` is the path of the configuration,
/// if it was read from a file.
///
/// # Errors
/// The node cannot start or continue.
pub fn run(config: CheckedConfig, path: Option<PathBuf>, takes_over: bool, log: Arc<Log>) -> anyhow::Result<()> {
    let (node, taken) = match takes_over {
        true => successor::take_over(&config).map(|(node, listening)| (node, Some(listening)))?,
        false => (Arc::new(start::start(&config)?), None),
    };
    node.set_block_log(config.file.log.block_lines_per_second());
    let agent = observe_underlay(&node, &config)?;
    serve_region(&node, &config)?;
    let processors = ServiceProcessors::apart_from(&config.file.cores);
    agent.start(&node)?;
    // A short keep-alive, because idle threads keep the memory of their last task.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).thread_keep_alive(IDLE_THREADS).enable_all().build()?;
    let outcome = runtime.block_on(serving::control(node.clone(), config, path, taken, log, processors));
    node.end_block_log();
    runtime.shutdown_timeout(Duration::from_secs(5));
    outcome
}
