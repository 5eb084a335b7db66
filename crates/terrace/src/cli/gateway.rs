//! `terrace gateway run`: runs the daemon `terraced` with a configuration built from flags.

use super::engine_args::{EngineArgs, check_configuration, usual_configuration};
use super::failure::CommandError;
use super::io_args::IoArgs;
use super::program_args::SourceArgs;
use super::show::USUAL_SOCKET;
use super::ui::{OutputSettings, print_line};
use crate::lab::{self, LabError, LabState, Process, Topology};
use clap::{Args, Subcommand};
use node::config::{ConfigFile, PortSetting, XdpAttachMode};
use node::log::Log;
use region::ResolvedRegion;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Run a gateway on network interfaces.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    #[command(subcommand)]
    command: GatewayCommand,
}

#[derive(Debug, Subcommand)]
enum GatewayCommand {
    Run(Box<RunArgs>),
}

/// Run the gateway of a region until it is stopped (Ctrl-C, SIGTERM).
///
/// This is the daemon `terraced` with `region` in its configuration; --print-config prints that
/// configuration as a starting point. SIGHUP and `terrace region apply` reload the region file. Its
/// changes are applied atomically between two batches of packets. An invalid file is refused and
/// changes nothing. Use `terrace show`, `terrace trace --node` and `terrace region status` to
/// inspect the gateway.
#[derive(Debug, Args)]
struct RunArgs {
    /// Region file.
    #[arg(long, value_name = "FILE.yaml")]
    region: PathBuf,
    /// Gateway program to run instead of the built-in one.
    #[arg(long, value_name = "FILE.p4")]
    program: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
    /// A port of the program and its network interface or DPDK device; may be repeated. A device is
    /// a PCI address (0000:01:00.0), or a virtual one such as
    /// net_memif0,role=client,socket=/run/x.sock,socket-abstract=no. Default: each uplink of the
    /// region file uses the interface `portN`, N being its port number.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE")]
    ports: Vec<PortArg>,
    /// Network namespace of the interfaces.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Be the gateway of this lab. `lab up` starts the gateway with this option.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ports", "netns"])]
    lab: Option<String>,
    /// Take over ports, tables and sessions from the running gateway of the lab while packets flow. That
    /// process then ends.
    #[arg(long, requires = "lab")]
    takeover: bool,
    /// CPU cores to run workers on, one worker each. Default: one worker on any core.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    cores: Vec<usize>,
    #[command(flatten)]
    io: IoArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Control socket for `terrace show`, `trace` and `region`. Default: /run/terrace/control.sock,
    /// or /run/terrace/lab-NAME.sock for a lab.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Address and port to serve Prometheus metrics on; may be repeated.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Vec<String>,
    /// Print the equivalent configuration of `terraced`, and exit.
    #[arg(long)]
    print_config: bool,
}

/// A port number and its interface: `1=eth0`.
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
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let GatewayCommand::Run(args) = self.command;
        args.run(ui)
    }
}

impl RunArgs {
    fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        // The region file is checked first, so that its errors are reported before anything starts.
        let region = region::load(&self.region).map_err(CommandError::refused)?;
        let file = self.config_file(&region)?;
        drop(region);
        let mut config = check_configuration(&file)?;
        if self.print_config {
            return print_line(&toml::to_string(&file).map_err(|error| CommandError::Bug(error.to_string()))?);
        }
        if let Some(program) = &self.program {
            config.program = Some(ir::text::print(&*self.sources.pipeline(program, ui)?).into_bytes());
        }
        let (log, _end) = Log::install(config.file.log);
        if let Some(lab) = self.lab.filter(|_| self.takeover) {
            record_successor(lab).map_err(CommandError::system)?;
        }
        node::daemon::run(config, None, self.takeover, log)
            .map_err(|error| CommandError::Environment(format!("{error:#}")))
    }

    /// Returns the equivalent configuration.
    fn config_file(&self, region: &ResolvedRegion) -> Result<ConfigFile, CommandError> {
        let mut file = usual_configuration()?;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        file.region = Some(absolute(&self.region));
        file.cores.clone_from(&self.cores);
        // P4Runtime is off, because controllers could only read.
        file.p4runtime.listen.clear();
        file.metrics.listen.clone_from(&self.metrics);
        self.engine.configure(&mut file);
        let (ports, netns) = match &self.lab {
            None => (self.port_interfaces(region), self.netns.clone()),
            Some(lab) => {
                // Native XDP does not work here, because the veth peers in a lab do not accept
                // packets that a driver program sends.
                file.cache.attach = XdpAttachMode::Generic;
                let topology = LabState::load(lab).map_err(CommandError::system)?.topology;
                file.takeover_socket = Some(lab::control_socket(lab).with_extension("takeover"));
                (lab_ports(&topology), Some(topology.gateway_namespace()))
            }
        };
        if ports.is_empty() {
            return Err(CommandError::Usage("the gateway has no port; give --port NUMBER=INTERFACE".to_owned()));
        }
        let setting = |(number, device)| PortSetting {
            number,
            device,
            driver: self.io.driver,
            netns: netns.clone(),
            tier_link: None,
        };
        file.ports = ports.into_iter().map(setting).collect();
        let usual = || self.lab.as_ref().map_or_else(|| USUAL_SOCKET.into(), |lab| lab::control_socket(lab));
        file.control.socket = Some(self.control.as_deref().map_or_else(usual, absolute));
        Ok(file)
    }

    /// Returns the port numbers with their interfaces: the given ones, or those of the region's
    /// uplinks.
    fn port_interfaces(&self, region: &ResolvedRegion) -> Vec<(u32, String)> {
        if self.ports.is_empty() {
            let uplinks = region.file.uplinks.iter().map(|uplink| uplink.port.value);
            return uplinks.map(|number| (number, format!("port{number}"))).collect();
        }
        self.ports.iter().map(|port| (port.number, port.interface.clone())).collect()
    }
}

/// Records this process as the gateway of a lab as soon as the process before has ended. Until then `lab down`
/// has to end that one.
fn record_successor(lab: String) -> Result<(), LabError> {
    let before = LabState::load(&lab)?.gateway;
    std::thread::spawn(move || {
        while before.is_some_and(Process::alive) {
            std::thread::sleep(Duration::from_millis(20));
        }
        // A lab that was removed meanwhile has no state.
        let _ = LabState::set_gateway(&lab, Some(Process::current()));
    });
    Ok(())
}

/// Returns the port numbers of a lab's gateway with their interfaces.
fn lab_ports(topology: &Topology) -> Vec<(u32, String)> {
    topology.gateway.uplinks.iter().map(|uplink| (uplink.port, format!("port{}", uplink.port))).collect()
}
