//! `terrace lab`.

use super::engine_args::EngineArgs;
use super::failure::CommandError;
use super::io_args::IoArgs;
use super::ui::{OutputSettings, style};
use crate::lab::{self, EndpointKind, LabError, LabState, Ping, Process, Topology};
use clap::{Args, Subcommand};
use node::admin::{ControlRequest, ControlResponse, ask};
use serde::Serialize;
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time until a lab's gateway responds. The gateway first compiles its program and reads
/// the region file.
const GATEWAY_START: Duration = Duration::from_secs(60);

/// Build a region on this machine: servers, VMs, an IDC and another region as network namespaces
/// around a gateway.
///
/// Needs root. `lab up` leaves the lab running; `lab down` removes all of it, also after a crash.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Up(Box<UpArgs>),
    /// Stop the gateway and remove all namespaces of a lab.
    Down(NameArgs),
    /// Show the namespaces and interfaces of a lab, and whether its gateway runs. The exit code is
    /// 1 if something is missing.
    Status(NameArgs),
    Ping(PingArgs),
}

#[derive(Clone, Debug, Args)]
struct NameArgs {
    /// Name of the lab; its namespaces start with it.
    #[arg(long, value_name = "NAME", default_value = "lab")]
    name: String,
}

/// Build a lab from a region file and start its gateway.
#[derive(Debug, Args)]
struct UpArgs {
    /// Region file.
    #[arg(long, value_name = "FILE.yaml")]
    region: PathBuf,
    #[command(flatten)]
    name: NameArgs,
    /// Build the namespaces without a gateway. Start one with `terrace gateway run --lab NAME
    /// --region FILE`.
    #[arg(long)]
    no_gateway: bool,
    #[command(flatten)]
    io: IoArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Ping from one end point of a lab to another, or between all.
///
/// The exit code is 1 if a ping got no reply. Without FROM and TO, every VM pings all addresses of
/// its own address families, and the table shows which VMs reach each other; a missing reply is
/// then not an error.
#[derive(Debug, Args)]
struct PingArgs {
    /// Sender: name of a VM or a remote.
    #[arg(value_name = "FROM", requires = "to")]
    from: Option<String>,
    /// Target: name of a VM or a remote, or an address.
    #[arg(value_name = "TO")]
    to: Option<String>,
    /// Number of requests.
    #[arg(long, value_name = "N", default_value_t = 3)]
    count: u32,
    #[command(flatten)]
    name: NameArgs,
}

/// Returns the environment error, or the usage error if the input does not fit the lab.
fn lab_error(error: LabError) -> CommandError {
    match error {
        LabError::Topology(_) => CommandError::Refused(error.to_string()),
        error => CommandError::system(error),
    }
}

impl LabArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        match self.command {
            LabCommand::Up(args) => args.run(ui),
            LabCommand::Down(args) => remove_lab(&args.name, ui),
            LabCommand::Status(args) => print_status(&args.name, ui),
            LabCommand::Ping(args) => args.run(ui),
        }
    }
}

fn remove_lab(name: &str, ui: OutputSettings) -> Result<(), CommandError> {
    let removed = lab::down(name).map_err(lab_error)?;
    // Log of the lab's gateway, which may not exist.
    let _ = std::fs::remove_file(lab::control_socket(name).with_extension("log"));
    let document = serde_json::json!({ "namespaces": removed.namespaces, "processes": removed.processes });
    let counts = format!("{} namespaces removed, {} processes ended", removed.namespaces.len(), removed.processes);
    ui.result(&document, || format!("lab {name}: {counts}"))
}

/// Prints the namespaces, interfaces and the gateway of a lab. Fails unless all are up.
fn print_status(name: &str, ui: OutputSettings) -> Result<(), CommandError> {
    let status = lab::status(name).map_err(lab_error)?;
    let healthy = status.healthy() && status.gateway.is_some();
    ui.result(&status, || {
        let styled = |is_good: bool, if_good: &str, if_bad: &str| {
            let style = if is_good { style::GOOD } else { style::BAD };
            format!("{style}{}{style:#}", if is_good { if_good } else { if_bad })
        };
        let gateway = status
            .gateway
            .map_or_else(|| styled(false, "", "does not run"), |id| styled(true, &format!("process {id}"), ""));
        let mut text = format!("lab {name}: gateway {gateway}\n");
        for namespace in &status.namespaces {
            let interfaces =
                namespace.interfaces.iter().map(|(name, up)| format!("{name} {}", styled(*up, "up", "down")));
            let interfaces: Vec<String> = interfaces.collect();
            let shown = if namespace.exists { interfaces.join(", ") } else { styled(false, "", "does not exist") };
            text += &format!("  {:<24} {shown}\n", namespace.name);
        }
        text
    })?;
    if healthy { Ok(()) } else { Err(CommandError::Failed) }
}

impl UpArgs {
    /// Builds a lab from the region, starts its gateway, and leaves both running.
    fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let region = region::load(&self.region).map_err(CommandError::refused)?;
        let topology = Topology::from_region(&self.name.name, &region).map_err(lab_error)?;
        lab::permitted().map_err(lab_error)?;
        let stop = lab::stop_on_signals().map_err(lab_error)?;
        let progress = ui.progress(format!("building lab {}", self.name.name));
        let lab = lab::up(topology, &stop, &mut |_, _| {}).map_err(lab_error)?;
        drop(progress);
        // If the gateway does not start, dropping `lab` removes the lab.
        let mut gateway = None;
        if !self.no_gateway {
            let progress = ui.progress("starting the gateway");
            let (child, warnings) = start_gateway(&self.name.name, &self.region, (self.io, &self.engine), &stop)?;
            drop(progress);
            warnings.iter().for_each(|warning| ui.note(format!("warning: {warning}")));
            LabState::set_gateway(&self.name.name, Process::with_id(child.id())).map_err(lab_error)?;
            gateway = Some(child.id());
        }
        let endpoints = lab.topology().endpoints();
        lab.keep();
        let document = serde_json::json!({
            "name": self.name.name, "gateway": gateway,
            "endpoints": endpoints.iter().map(|endpoint| serde_json::json!({
                "name": endpoint.name, "namespace": endpoint.namespace, "vpc": endpoint.vpc, "addresses": endpoint.addresses,
            })).collect::<Vec<_>>(),
        });
        ui.result(&document, || {
            let good = style::GOOD;
            let running = gateway.map_or("no gateway".to_owned(), |id| format!("gateway is process {id}"));
            let mut text = format!("lab {} is {good}up{good:#}: {running}\n", self.name.name);
            for endpoint in &endpoints {
                let addresses: Vec<String> = endpoint.addresses.iter().map(ToString::to_string).collect();
                let vpc = endpoint.vpc.as_deref().unwrap_or("remote");
                text += &format!("  {:<12} {vpc:<10} {}\n", endpoint.name, addresses.join(" "));
            }
            text + "try `terrace lab ping`, and `terrace lab down` in the end"
        })
    }
}

/// Starts a gateway that outlives this process, and waits until it responds. Returns its process
/// and its warnings.
fn start_gateway(
    lab: &str,
    region: &Path,
    (io, engine): (IoArgs, &EngineArgs),
    stop: &AtomicBool,
) -> Result<(Child, Vec<String>), CommandError> {
    let socket = lab::control_socket(lab);
    let log = socket.with_extension("log");
    let failure = |what: &str, error: std::io::Error| {
        CommandError::Environment(format!("cannot {what}: {error}; check permissions"))
    };
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent).map_err(|error| failure("make the directory of sockets", error))?;
    }
    let output = File::create(&log).map_err(|error| failure("write the gateway's log", error))?;
    let errors = output.try_clone().map_err(|error| failure("write the gateway's log", error))?;
    let program = std::env::current_exe().map_err(|error| failure("find terrace itself", error))?;
    let mut child = Command::new(program)
        .args(["gateway", "run", "--io", &io.to_string(), "--lab", lab, "--region"])
        .arg(region)
        .args(engine.arguments())
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        // A process group of its own, because Ctrl-C in this terminal must not stop the gateway.
        .process_group(0)
        .spawn()
        .map_err(|error| failure("start the gateway", error))?;
    let began = Instant::now();
    loop {
        if let Ok(ControlResponse::Region(status)) = ask(&socket, &ControlRequest::Region) {
            return Ok((child, status.warnings));
        }
        let exit_status = child.try_wait().ok().flatten();
        if let Some(status) = exit_status {
            let log_text = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(CommandError::Environment(format!("the gateway ended ({status}): {}", log_text.trim())));
        }
        if stop.load(Ordering::Relaxed) || began.elapsed() > GATEWAY_START {
            let _ = child.kill();
            let _ = child.wait();
            let cause = if began.elapsed() > GATEWAY_START { "the gateway did not answer in time" } else { "stopped" };
            return Err(CommandError::Environment(format!("{cause}; its log is {}", log.display())));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Result of one ping.
#[derive(Serialize)]
struct PingResult {
    from: String,
    to: String,
    address: IpAddr,
    sent: u32,
    received: u32,
    average_ms: Option<f64>,
}

impl PingArgs {
    /// Pings between two end points, or all that can reach each other, and prints the results. Only
    /// a ping of a named pair fails if there is no answer to it.
    fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let topology = LabState::load(&self.name.name).map_err(lab_error)?.topology;
        let pairs = match (&self.from, &self.to) {
            (Some(from), Some(to)) => one_pair(&topology, from, to)?,
            _ => all_pairs(&topology),
        };
        let pings: Vec<Ping> = pairs
            .iter()
            .map(|(namespace, _, _, address)| Ping { count: self.count, ..Ping::new(namespace.clone(), *address) })
            .collect();
        let bar = ui.progress_of("pinging", pings.len() as u64);
        let outcomes = lab::ping_all(&pings, &mut |_, _| bar.step()).map_err(lab_error)?;
        drop(bar);
        let pinged: Vec<PingResult> = (pairs.into_iter().zip(outcomes))
            .map(|((_, from, to, address), outcome)| PingResult {
                from,
                to,
                address,
                sent: outcome.sent,
                received: outcome.received,
                average_ms: outcome.average_ms,
            })
            .collect();
        ui.result(&pinged, || ping_table(&pinged))?;
        let all_reached = pinged.iter().all(|ping| ping.received > 0);
        if self.from.is_none() || all_reached { Ok(()) } else { Err(CommandError::Failed) }
    }
}

/// Namespace and name of the sender, name and address of the target.
type PingTask = (String, String, String, IpAddr);

fn one_pair(topology: &Topology, from: &str, to: &str) -> Result<Vec<PingTask>, CommandError> {
    let names = || topology.endpoints().into_iter().map(|endpoint| endpoint.name).collect::<Vec<_>>().join(", ");
    let unknown = |name: &str| CommandError::Usage(format!("the lab has no end point `{name}`; it has {}", names()));
    let source = topology.endpoint(from).ok_or_else(|| unknown(from))?;
    let addresses = match to.parse() {
        Ok(address) => vec![address],
        Err(_) => topology.endpoint(to).ok_or_else(|| unknown(to))?.addresses,
    };
    let reachable =
        addresses.into_iter().filter(|address| source.addresses.iter().any(|own| own.is_ipv4() == address.is_ipv4()));
    let pairs: Vec<PingTask> =
        reachable.map(|address| (source.namespace.clone(), from.to_owned(), to.to_owned(), address)).collect();
    match pairs.is_empty() {
        true => Err(CommandError::Usage(format!("`{from}` and `{to}` have no address family in common"))),
        false => Ok(pairs),
    }
}

/// Returns all pings of VMs to each other and to hosts behind remotes. An address that exists in
/// the sender's VPC is the address of the VM there, even if other VPCs use it too. Any other
/// address is pinged once, under the names of all end points that have it.
fn all_pairs(topology: &Topology) -> Vec<PingTask> {
    let endpoints = topology.endpoints();
    let mut pairs: Vec<PingTask> = Vec::new();
    for from in endpoints.iter().filter(|from| from.kind == EndpointKind::Vm) {
        let own_vpc_addresses: Vec<&IpAddr> =
            endpoints.iter().filter(|e| e.vpc == from.vpc).flat_map(|e| &e.addresses).collect();
        let mut targets: Vec<(IpAddr, String)> = Vec::new();
        for to in endpoints.iter().filter(|to| to.name != from.name) {
            let addresses = to.addresses.iter().filter(|address| {
                from.addresses.iter().any(|own_address| own_address.is_ipv4() == address.is_ipv4())
                    && (to.vpc == from.vpc || !own_vpc_addresses.contains(address))
            });
            for address in addresses {
                match targets.iter_mut().find(|(known, _)| known == address) {
                    Some((_, names)) => *names = format!("{names}|{}", to.name),
                    None => targets.push((*address, to.name.clone())),
                }
            }
        }
        let pair = |(address, to)| (from.namespace.clone(), from.name.clone(), to, address);
        pairs.extend(targets.into_iter().map(pair));
    }
    pairs
}

fn ping_table(pinged: &[PingResult]) -> String {
    let mut text = String::new();
    for ping in pinged {
        let (style, word) = if ping.received > 0 { (style::GOOD, "reached") } else { (style::BAD, "no answer") };
        let time = ping.average_ms.map_or(String::new(), |time| format!(", {time:.2} ms"));
        let to = format!("{} ({})", ping.to, ping.address);
        text +=
            &format!("{:<12} -> {to:<32} {style}{word}{style:#} {}/{}{time}\n", ping.from, ping.received, ping.sent);
    }
    text
}
