//! `terrace gateway run`: the daemon `terraced`, with a configuration made from flags.

use super::engine_args::{EngineArgs, checked, usual_configuration};
use super::failure::Failure;
use super::io_args::IoArgs;
use super::program_args::SourceArgs;
use super::show::USUAL_SOCKET;
use super::ui::{Ui, print};
use crate::lab::{self, Topology};
use clap::{Args, Subcommand};
use node::config::{Attach, ConfigFile, PortSetting};
use node::log::Log;
use region::Region;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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
/// This is the daemon `terraced` with `region` in its configuration; --print-config prints that configuration, to go on from there. SIGHUP
/// and `terrace region apply` make it read the region file again: what changed is applied between two batches of packets, as a whole; a
/// file with something wrong is refused, and what runs stays as it is. `terrace show`, `terrace trace --node` and `terrace region status`
/// say what it does.
#[derive(Debug, Args)]
struct RunArgs {
    /// The region file.
    #[arg(long, value_name = "FILE.yaml")]
    region: PathBuf,
    /// Another gateway program than the one that terrace brings along.
    #[arg(long, value_name = "FILE.p4")]
    program: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
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
    /// The processors of the workers, one worker each. Unless given, there is one worker, on any processor.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    cores: Vec<usize>,
    #[command(flatten)]
    io: IoArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Where `terrace show`, `trace` and `region` reach it. Unless given, /run/terrace/control.sock; that of a lab is /run/terrace/lab-NAME.sock.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Where Prometheus reaches it: an address with a port. May be repeated.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Vec<String>,
    /// Print the configuration for `terraced` that these flags stand for, and end.
    #[arg(long)]
    print_config: bool,
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
        let GatewayCommand::Run(args) = self.command;
        args.run(ui)
    }
}

impl RunArgs {
    fn run(self, ui: Ui) -> Result<(), Failure> {
        // What is wrong with the file is said before anything starts.
        let region = region::load(&self.region).map_err(Failure::refused)?;
        let file = self.config_file(&region)?;
        drop(region);
        let mut config = checked(&file)?;
        if self.print_config {
            return print(&toml::to_string(&file).map_err(|error| Failure::Bug(error.to_string()))?);
        }
        if let Some(program) = &self.program {
            config.program = Some(ir::text::print(&*self.sources.pipeline(program, ui)?).into_bytes());
        }
        let (log, _end) = Log::install(config.file.log);
        node::daemon::run(config, None, false, log).map_err(|error| Failure::Environment(format!("{error:#}")))
    }

    /// The configuration that the flags stand for.
    fn config_file(&self, region: &Region) -> Result<ConfigFile, Failure> {
        let mut file = usual_configuration()?;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        file.region = Some(absolute(&self.region));
        file.cores.clone_from(&self.cores);
        // Controllers could only read.
        file.p4runtime.listen.clear();
        file.metrics.listen.clone_from(&self.metrics);
        self.engine.configure(&mut file);
        let (ports, netns) = match &self.lab {
            None => (self.ports(region), self.netns.clone()),
            Some(lab) => {
                // The other ends of a lab's wires take no packets from programs in the driver.
                file.cache.attach = Attach::Generic;
                let topology = lab::State::load(lab).map_err(Failure::system)?.topology;
                (lab_ports(&topology), Some(topology.gateway_namespace()))
            }
        };
        if ports.is_empty() {
            return Err(Failure::Usage("the gateway has no port; give --port NUMBER=INTERFACE".to_owned()));
        }
        let setting =
            |(number, device)| PortSetting { number, device, by: self.io.means, netns: netns.clone(), leads: None };
        file.ports = ports.into_iter().map(setting).collect();
        let usual = || self.lab.as_ref().map_or_else(|| USUAL_SOCKET.into(), |lab| lab::control_socket(lab));
        file.control.socket = Some(self.control.as_deref().map_or_else(usual, absolute));
        Ok(file)
    }

    /// Numbers and interfaces of the ports: those that were given, or those of the region's uplinks.
    fn ports(&self, region: &Region) -> Vec<(u32, String)> {
        if self.ports.is_empty() {
            let uplinks = region.file.uplinks.iter().map(|uplink| uplink.port.value);
            return uplinks.map(|number| (number, format!("port{number}"))).collect();
        }
        self.ports.iter().map(|port| (port.number, port.interface.clone())).collect()
    }
}

/// Numbers and interfaces of the gateway's ports in a lab.
fn lab_ports(topology: &Topology) -> Vec<(u32, String)> {
    topology.gateway.uplinks.iter().map(|uplink| (uplink.port, format!("port{}", uplink.port))).collect()
}
