//! `terrace gateway`.

use super::engine_args::EngineArgs;
use super::failure::Failure;
use super::inputs::InputArgs;
use super::io_args::IoArgs;
use super::ui::{Ui, style};
use crate::gateway::control::{Answer, ControlSocket, Request, ask};
use crate::gateway::keeper::Keeper;
use crate::gateway::serve::{Gateway, Signals, serve};
use crate::gateway::{default_socket, lab_socket, uplinks};
use crate::lab;
use clap::{Args, Subcommand};
use interp::Config;
use io::dpdk::DpdkOptions;
use io::{Attached, Namespace, PortError};
use packet::PortId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Run a gateway on network interfaces, and talk to one that runs.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    #[command(subcommand)]
    command: GatewayCommand,
}

#[derive(Debug, Subcommand)]
enum GatewayCommand {
    Run(Box<RunArgs>),
    Apply(ApplyArgs),
    /// Show what a gateway did: packets, drops by reason, counters.
    Stats(ControlArgs),
    /// Stop a gateway; packets that it has are still sent.
    Stop(ControlArgs),
}

/// Run a gateway until it is stopped (Ctrl-C, SIGTERM, `terrace gateway stop`).
///
/// SIGHUP and `terrace gateway apply` make it read the region file again. What changed is applied between two batches of packets, as a
/// whole; a file with something wrong is refused, and what runs stays as it is.
#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    inputs: InputArgs,
    /// A port of the program and its network interface or DPDK device; may be repeated. A device is a PCI address (0000:01:00.0), or a virtual
    /// one such as net_memif0,role=client,socket=/run/x.sock,socket-abstract=no. Unless given, each uplink of the region file is on the
    /// interface `portN`, N being the uplink's port.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE")]
    ports: Vec<PortArg>,
    /// The network namespace that has the interfaces.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// The lab to be the gateway of; `lab up` does this itself.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ports", "netns"])]
    lab: Option<String>,
    #[command(flatten)]
    io: IoArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    control: ControlArgs,
}

/// Have a gateway read its region file again, or another one from now on.
#[derive(Debug, Args)]
struct ApplyArgs {
    /// The region file; the one in force unless given.
    #[arg(value_name = "FILE.yaml")]
    region: Option<PathBuf>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Debug, Args)]
struct ControlArgs {
    /// The Unix socket by which the gateway is controlled.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Talk to the gateway of this lab.
    #[arg(long = "of-lab", value_name = "NAME", conflicts_with = "control")]
    of_lab: Option<String>,
}

impl ControlArgs {
    fn socket(&self) -> PathBuf {
        match (&self.control, &self.of_lab) {
            (Some(path), _) => path.clone(),
            (None, Some(lab)) => lab_socket(lab),
            (None, None) => default_socket(),
        }
    }
}

/// `1=eth0`.
#[derive(Clone, Debug)]
struct PortArg {
    number: u32,
    interface: String,
}

impl FromStr for PortArg {
    type Err = String;

    fn from_str(text: &str) -> Result<PortArg, String> {
        let parts = text.split_once('=').and_then(|(number, interface)| Some((number.parse().ok()?, interface)));
        match parts {
            Some((number, interface)) if !interface.is_empty() => {
                Ok(PortArg { number, interface: interface.to_owned() })
            }
            _ => Err(format!("`{text}` is no port; write NUMBER=INTERFACE, as in 1=eth0")),
        }
    }
}

impl GatewayArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        match self.command {
            GatewayCommand::Run(args) => args.run(ui),
            GatewayCommand::Apply(args) => args.run(ui),
            GatewayCommand::Stats(args) => match request(&args, &Request::Stats)? {
                Answer::Stats(stats) => ui.result(&stats, || stats.render()),
                answer => Err(unexpected(&answer)),
            },
            GatewayCommand::Stop(args) => match request(&args, &Request::Stop)? {
                Answer::Stopping => {
                    ui.result(&serde_json::json!({ "stopping": true }), || "the gateway stops".to_owned())
                }
                answer => Err(unexpected(&answer)),
            },
        }
    }
}

fn request(control: &ControlArgs, request: &Request) -> Result<Answer, Failure> {
    match ask(&control.socket(), request).map_err(Failure::environment)? {
        Answer::Refused { message } => Err(Failure::Refused(message)),
        answer => Ok(answer),
    }
}

fn unexpected(answer: &Answer) -> Failure {
    Failure::Environment(format!("the gateway answered {answer:?}; it may be of another version: restart it"))
}

impl ApplyArgs {
    fn run(self, ui: Ui) -> Result<(), Failure> {
        let absolute = |path: PathBuf| {
            let failed = |error| Failure::Refused(format!("cannot find {}: {error}; check the path", path.display()));
            std::fs::canonicalize(&path).map_err(failed)
        };
        let region = self.region.map(absolute).transpose()?;
        let progress = ui.progress("applying");
        let answer = request(&self.control, &Request::Apply { region })?;
        drop(progress);
        match answer {
            Answer::Applied(applied) => ui.result(&applied, || applied.to_string()),
            answer => Err(unexpected(&answer)),
        }
    }
}

impl RunArgs {
    fn run(self, ui: Ui) -> Result<(), Failure> {
        let mut inputs = self.inputs.load_and_keep(ui)?;
        let socket = match &self.lab {
            Some(lab) if self.control.control.is_none() => lab_socket(lab),
            _ => self.control.socket(),
        };
        let socket = ControlSocket::open(&socket).map_err(Failure::environment)?;
        let ports = self.open_ports(&inputs, ui)?;
        let config =
            Config { ports: Some(ports.iter().map(|port| port.id.0).collect::<BTreeSet<u32>>()), ..Config::default() };
        let mut engine = self.engine.load(&inputs.pipeline, &config, &inputs.batch)?;
        engine.write(&inputs.batch).map_err(|refused| Failure::refused(refused.error))?;
        let (mut keeper, jobs) = Keeper::new(Arc::clone(&inputs.pipeline));
        if let (Some(entries), Some(file)) = (inputs.entries.take(), &self.inputs.region) {
            let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
            keeper = keeper.holding(&file, entries, inputs.numbers);
        }
        let open = uplinks::open_ports(&ports);
        let named = self.inputs.region.as_ref().map_or(String::new(), |file| file.display().to_string());
        let warnings = inputs.region.as_ref().map_or(Vec::new(), |region| uplinks::warnings(region, &named, &open));
        // On standard error whatever the output's form is: who reads only the result asks for statistics, which have them, too.
        warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        keeper = keeper.at_ports(open, warnings);
        let signals = signals()?;
        let program = inputs.pipeline.name.clone();
        let names: Vec<String> = ports.iter().map(|port| format!("{}={}", port.id.0, port.port.name())).collect();
        let gateway = Gateway { engine, ports, keeper, jobs, socket, program: program.clone() };
        let good = style::GOOD;
        let ready = || ui.note(format!("{good}running{good:#} {program} on {}", names.join(", ")));
        let stats = serve(gateway, &signals, ready).map_err(Failure::system)?;
        ui.result(&stats, || stats.render())
    }

    fn open_ports(&self, inputs: &super::inputs::Inputs, ui: Ui) -> Result<Vec<Attached>, Failure> {
        if let Some(lab) = &self.lab {
            let state = lab::State::load(lab).map_err(Failure::system)?;
            let mut note = |text: String| ui.note(text);
            let kind = self.io.into();
            let open = |port: (&str, u32), options: &DpdkOptions| self.engine.open_port(port, (kind, true), options);
            return lab::open_ports(&state.topology, &open, &mut note).map_err(Failure::system);
        }
        let mut ports = self.ports.clone();
        if let (true, Some(region)) = (ports.is_empty(), &inputs.region) {
            let uplinks = region.file.uplinks.iter().map(|uplink| uplink.port.value);
            ports.extend(uplinks.map(|number| PortArg { number, interface: format!("port{number}") }));
        }
        if ports.is_empty() {
            return Err(Failure::Usage(
                "the gateway has no port; give --port NUMBER=INTERFACE, or --region".to_owned(),
            ));
        }
        let open_one = |port: &PortArg| {
            let named = (port.interface.as_str(), port.number);
            let opened = self.engine.open_port(named, (self.io.into(), false), &DpdkOptions::default())?;
            opened.note.into_iter().for_each(|note| ui.note(note));
            Ok(Attached { id: PortId(port.number), port: opened.port })
        };
        let open = || ports.iter().map(open_one).collect();
        let opened: Result<Vec<Attached>, PortError> = match &self.netns {
            Some(name) => Namespace::open(name).and_then(|namespace| namespace.run(open)).map_err(Failure::system)?,
            None => open(),
        };
        opened.map_err(Failure::system)
    }
}

fn signals() -> Result<Signals, Failure> {
    let signals = Signals::default();
    for (signal, flag) in [(SIGINT, &signals.stop), (SIGTERM, &signals.stop), (SIGHUP, &signals.reload)] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .map_err(|error| Failure::Environment(format!("cannot handle signal {signal}: {error}")))?;
    }
    Ok(signals)
}
