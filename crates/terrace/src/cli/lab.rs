//! `terrace lab`.

use super::engine_args::EngineArgs;
use super::failure::Failure;
use super::io_args::IoArgs;
use super::ui::{Ui, style};
use crate::lab::{self, EndpointKind, LabError, Ping, Process, State, Topology};
use clap::{Args, Subcommand};
use node::admin::{Answer, Request, ask};
use serde::Serialize;
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the gateway of a lab may take until it answers: it compiles its program and reads the region first.
const GATEWAY_START: Duration = Duration::from_secs(60);

/// A whole region on this machine: servers, machines, an IDC and another region as network namespaces around a gateway.
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
    /// End the gateway and remove all namespaces of a lab.
    Down(NameArgs),
    /// Show which namespaces and interfaces a lab has, and whether its gateway runs. The exit code is 1 if something is missing.
    Status(NameArgs),
    Ping(PingArgs),
}

#[derive(Clone, Debug, Args)]
struct NameArgs {
    /// The lab's name; its namespaces start with it.
    #[arg(long, value_name = "NAME", default_value = "lab")]
    name: String,
}

/// Build a lab from a region file and start its gateway.
#[derive(Debug, Args)]
struct UpArgs {
    /// The region file.
    #[arg(long, value_name = "FILE.yaml")]
    region: PathBuf,
    #[command(flatten)]
    name: NameArgs,
    /// Build the namespaces, but start no gateway: `terrace gateway run --lab NAME --region FILE` is one.
    #[arg(long)]
    no_gateway: bool,
    #[command(flatten)]
    io: IoArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Ping from one end point of a lab to another, or all from all.
///
/// The exit code is 1 if some ping got no answer. Without FROM and TO: every machine pings all addresses of its own
/// family, and the table shows who reached whom; then no answer is no failure.
#[derive(Debug, Args)]
struct PingArgs {
    /// Who pings: a machine's name, or a remote's.
    #[arg(value_name = "FROM", requires = "to")]
    from: Option<String>,
    /// Whom: a machine's name, a remote's, or an address.
    #[arg(value_name = "TO")]
    to: Option<String>,
    /// How many requests.
    #[arg(long, value_name = "N", default_value_t = 3)]
    count: u32,
    #[command(flatten)]
    name: NameArgs,
}

/// Blames the machine, or the user for what does not fit.
fn failed(error: LabError) -> Failure {
    match error {
        LabError::Topology(_) => Failure::Refused(error.to_string()),
        error => Failure::system(error),
    }
}

impl LabArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        match self.command {
            LabCommand::Up(args) => args.run(ui),
            LabCommand::Down(args) => down(&args.name, ui),
            LabCommand::Status(args) => status(&args.name, ui),
            LabCommand::Ping(args) => args.run(ui),
        }
    }
}

fn down(name: &str, ui: Ui) -> Result<(), Failure> {
    let removed = lab::down(name).map_err(failed)?;
    // The log of its gateway; that it may not exist is no problem.
    let _ = std::fs::remove_file(lab::control_socket(name).with_extension("log"));
    let document = serde_json::json!({ "namespaces": removed.namespaces, "processes": removed.processes });
    let counts = format!("{} namespaces removed, {} processes ended", removed.namespaces.len(), removed.processes);
    ui.result(&document, || format!("lab {name}: {counts}"))
}

fn status(name: &str, ui: Ui) -> Result<(), Failure> {
    let status = lab::status(name).map_err(failed)?;
    let healthy = status.healthy() && status.gateway.is_some();
    ui.result(&status, || {
        let word = |good: bool, yes: &str, no: &str| {
            let style = if good { style::GOOD } else { style::BAD };
            format!("{style}{}{style:#}", if good { yes } else { no })
        };
        let gateway = status
            .gateway
            .map_or_else(|| word(false, "", "does not run"), |id| word(true, &format!("process {id}"), ""));
        let mut text = format!("lab {name}: gateway {gateway}\n");
        for namespace in &status.namespaces {
            let interfaces =
                namespace.interfaces.iter().map(|(name, up)| format!("{name} {}", word(*up, "up", "down")));
            let interfaces: Vec<String> = interfaces.collect();
            let shown = if namespace.exists { interfaces.join(", ") } else { word(false, "", "does not exist") };
            text += &format!("  {:<24} {shown}\n", namespace.name);
        }
        text
    })?;
    if healthy { Ok(()) } else { Err(Failure::Failed) }
}

impl UpArgs {
    fn run(self, ui: Ui) -> Result<(), Failure> {
        let region = region::load(&self.region).map_err(Failure::refused)?;
        let topology = Topology::from_region(&self.name.name, &region).map_err(failed)?;
        lab::permitted().map_err(failed)?;
        let stop = lab::stop_on_signals().map_err(failed)?;
        let progress = ui.progress(format!("building lab {}", self.name.name));
        let lab = lab::up(topology, &stop, &mut |_, _| {}).map_err(failed)?;
        drop(progress);
        // Should the gateway not come up, the guard removes the lab.
        let mut gateway = None;
        if !self.no_gateway {
            let progress = ui.progress("starting the gateway");
            let (child, warnings) = start_gateway(&self.name.name, &self.region, (self.io, &self.engine), &stop)?;
            drop(progress);
            warnings.iter().for_each(|warning| ui.note(format!("warning: {warning}")));
            State::set_gateway(&self.name.name, Process::of(child.id())).map_err(failed)?;
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

/// Starts a gateway that outlives this process, and waits until it answers. Gives what it warns of, too.
fn start_gateway(
    lab: &str,
    region: &Path,
    (io, engine): (IoArgs, &EngineArgs),
    stop: &AtomicBool,
) -> Result<(Child, Vec<String>), Failure> {
    let socket = lab::control_socket(lab);
    let log = socket.with_extension("log");
    let problem =
        |what: &str, error: std::io::Error| Failure::Environment(format!("cannot {what}: {error}; check permissions"));
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent).map_err(|error| problem("make the directory of sockets", error))?;
    }
    let output = File::create(&log).map_err(|error| problem("write the gateway's log", error))?;
    let errors = output.try_clone().map_err(|error| problem("write the gateway's log", error))?;
    let program = std::env::current_exe().map_err(|error| problem("find terrace itself", error))?;
    let mut child = Command::new(program)
        .args(["gateway", "run", "--io", &io.to_string(), "--lab", lab, "--region"])
        .arg(region)
        .args(engine.arguments())
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        // Ctrl-C in this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(|error| problem("start the gateway", error))?;
    let began = Instant::now();
    loop {
        if let Ok(Answer::Region(status)) = ask(&socket, &Request::Region) {
            return Ok((child, status.warnings));
        }
        let ended = child.try_wait().ok().flatten();
        if let Some(status) = ended {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(Failure::Environment(format!("the gateway ended ({status}): {}", said.trim())));
        }
        if stop.load(Ordering::Relaxed) || began.elapsed() > GATEWAY_START {
            let _ = child.kill();
            let _ = child.wait();
            let why = if began.elapsed() > GATEWAY_START { "the gateway did not answer in time" } else { "stopped" };
            return Err(Failure::Environment(format!("{why}; its log is {}", log.display())));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One ping with its outcome.
#[derive(Serialize)]
struct Pinged {
    from: String,
    to: String,
    address: IpAddr,
    sent: u32,
    received: u32,
    average_ms: Option<f64>,
}

impl PingArgs {
    fn run(self, ui: Ui) -> Result<(), Failure> {
        let topology = State::load(&self.name.name).map_err(failed)?.topology;
        let pairs = match (&self.from, &self.to) {
            (Some(from), Some(to)) => one_pair(&topology, from, to)?,
            _ => all_pairs(&topology),
        };
        let pings: Vec<Ping> = pairs
            .iter()
            .map(|(namespace, _, _, address)| Ping { count: self.count, ..Ping::new(namespace.clone(), *address) })
            .collect();
        let bar = ui.progress_of("pinging", pings.len() as u64);
        let outcomes = lab::ping_all(&pings, &mut |_, _| bar.step()).map_err(failed)?;
        drop(bar);
        let pinged: Vec<Pinged> = (pairs.into_iter().zip(outcomes))
            .map(|((_, from, to, address), outcome)| Pinged {
                from,
                to,
                address,
                sent: outcome.sent,
                received: outcome.received,
                average_ms: outcome.average_ms,
            })
            .collect();
        ui.result(&pinged, || table(&pinged))?;
        let all_reached = pinged.iter().all(|ping| ping.received > 0);
        if self.from.is_none() || all_reached { Ok(()) } else { Err(Failure::Failed) }
    }
}

/// Namespace, names and address of each ping.
type Pair = (String, String, String, IpAddr);

fn one_pair(topology: &Topology, from: &str, to: &str) -> Result<Vec<Pair>, Failure> {
    let names = || topology.endpoints().into_iter().map(|endpoint| endpoint.name).collect::<Vec<_>>().join(", ");
    let unknown = |name: &str| Failure::Usage(format!("the lab has no end point `{name}`; it has {}", names()));
    let source = topology.endpoint(from).ok_or_else(|| unknown(from))?;
    let addresses = match to.parse() {
        Ok(address) => vec![address],
        Err(_) => topology.endpoint(to).ok_or_else(|| unknown(to))?.addresses,
    };
    let reachable =
        addresses.into_iter().filter(|address| source.addresses.iter().any(|own| own.is_ipv4() == address.is_ipv4()));
    let pairs: Vec<Pair> =
        reachable.map(|address| (source.namespace.clone(), from.to_owned(), to.to_owned(), address)).collect();
    match pairs.is_empty() {
        true => Err(Failure::Usage(format!("`{from}` and `{to}` have no address family in common"))),
        false => Ok(pairs),
    }
}

/// All pings of machines to each other and to hosts behind remotes. In the sender's VPC an address is that of the machine there,
/// whoever else has it. Elsewhere it is pinged once, under the names of all who have it.
fn all_pairs(topology: &Topology) -> Vec<Pair> {
    let endpoints = topology.endpoints();
    let mut pairs: Vec<Pair> = Vec::new();
    for from in endpoints.iter().filter(|from| from.kind == EndpointKind::Vm) {
        let near: Vec<&IpAddr> = endpoints.iter().filter(|e| e.vpc == from.vpc).flat_map(|e| &e.addresses).collect();
        let mut targets: Vec<(IpAddr, String)> = Vec::new();
        for to in endpoints.iter().filter(|to| to.name != from.name) {
            let addresses = to.addresses.iter().filter(|address| {
                from.addresses.iter().any(|own| own.is_ipv4() == address.is_ipv4())
                    && (to.vpc == from.vpc || !near.contains(address))
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

fn table(pinged: &[Pinged]) -> String {
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
