//! Creates a node from a configuration: its store, workers and ports.

use crate::config::{CheckedConfig, IdleSetting, PortDriver, PortSetting};
use crate::data_plane::WorkerSpec;
use crate::device::{Node, NodeParts};
use crate::engine::SharedEngineFactory;
use crate::store::Store;
use io::dpdk::{DpdkOptions, HugePages};
use io::{AttachedPort, IdlePolicy, Namespace, Port, PortError, PortKind, open_port};
use packet::PortId;

/// Starts the node with its ports and its store.
pub(super) fn start(config: &CheckedConfig) -> anyhow::Result<Node> {
    let file = &config.file;
    let store = file.store.as_deref().map(Store::open).transpose()?;
    let mut parts = parts(config);
    let workers = parts.seats.len();
    let mut missing = Vec::new();
    for (index, setting) in file.ports.iter().enumerate() {
        let port = match open(setting, &config.engine) {
            Ok(port) => port,
            Err(error) if !file.links.strict && is_missing(&error) => {
                missing.push((setting, error));
                continue;
            }
            Err(error) => return Err(error),
        };
        // A port with one queue belongs to one worker; ports are distributed round-robin.
        parts.seats[index % workers].ports.push(AttachedPort { id: PortId(setting.number), port });
    }
    report_missing(missing, file.ports.len())?;
    Ok(Node::start(NodeParts { store, ..parts })?)
}

/// Returns whether a port cannot be opened because there is no interface of its name.
fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PortError::NoSuchInterface { .. }))
}

/// Logs the ports without an interface.
///
/// # Errors
/// No port has an interface. Then the names are more likely wrong than the interfaces late.
fn report_missing(missing: Vec<(&PortSetting, anyhow::Error)>, ports: usize) -> anyhow::Result<()> {
    let are_all = missing.len() == ports;
    for (setting, error) in missing {
        if are_all {
            return Err(error);
        }
        let why = format!("{error:#}");
        tracing::warn!(
            port = setting.number,
            device = setting.device,
            why,
            "a port is missing; it is opened as soon as there is an interface of its name"
        );
    }
    Ok(())
}

/// Returns the components of a node without ports and store.
pub(super) fn parts(config: &CheckedConfig) -> NodeParts {
    let file = &config.file;
    let seats: Vec<WorkerSpec> = match file.cores.is_empty() {
        true => vec![WorkerSpec { core: None, ports: Vec::new() }],
        false => file.cores.iter().map(|core| WorkerSpec { core: Some(*core), ports: Vec::new() }).collect(),
    };
    let idle = match file.idle {
        IdleSetting::Sleep => IdlePolicy::default(),
        IdleSetting::Poll => IdlePolicy::BUSY,
    };
    let notes_port_blocks = file.log.nat_blocks;
    let settings = interp::Config { cpu_port: Some(file.cpu_port), notes_port_blocks, ..interp::Config::default() };
    let translations = config.translations.clone();
    let (engine, wings) = (config.engine.clone(), config.wings);
    NodeParts { device_id: file.device_id, seats, idle, settings, engine, store: None, translations, wings }
}

/// Opens the port of a setting, in its network namespace.
pub(super) fn open(setting: &PortSetting, engine: &SharedEngineFactory) -> anyhow::Result<Box<dyn Port>> {
    let kind = match setting.driver {
        PortDriver::Auto => PortKind::Auto,
        PortDriver::AfPacket => PortKind::AfPacket,
        PortDriver::AfXdp => PortKind::AfXdp,
        PortDriver::Raw => PortKind::Raw,
    };
    // Huge pages only help devices; for an interface in another namespace, the kernel is the
    // bottleneck.
    let mut options = DpdkOptions::default();
    if setting.netns.is_some() {
        options.eal.huge_pages = HugePages::Avoid;
    }
    let open = || {
        // An explicitly configured driver takes precedence over the engine's own ports.
        let own = (kind == PortKind::Auto).then(|| engine.open_port(&setting.device, setting.number));
        own.flatten().unwrap_or_else(|| open_port(&setting.device, kind, &options))
    };
    let opened = match &setting.netns {
        Some(name) => Namespace::open(name)?.run(open)?,
        None => open(),
    }?;
    if let Some(note) = opened.note {
        tracing::warn!(port = setting.number, note, "a port runs with reduced performance or features");
    }
    if let Some(method) = opened.method {
        tracing::info!(port = setting.number, method, "a port is open");
    }
    if let Some(path) = opened.port.path() {
        tracing::info!(
            port = setting.number,
            device = setting.device,
            hook = path,
            "the kernel's flow cache is attached"
        );
    }
    Ok(opened.port)
}
