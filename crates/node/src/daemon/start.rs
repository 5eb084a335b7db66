//! Creates a node from a configuration: its store, workers and ports.

use crate::config::{CheckedConfig, IdleSetting, PortDriver, PortSetting};
use crate::data_plane::WorkerSpec;
use crate::device::{Node, NodeParts};
use crate::engine::SharedEngineFactory;
use crate::store::Store;
use io::dpdk::{DpdkOptions, HugePages};
use io::{AttachedPort, IdlePolicy, Namespace, Port, PortKind, open_port};
use packet::PortId;

/// Starts the node with its ports and its store.
pub(super) fn start(config: &CheckedConfig) -> anyhow::Result<Node> {
    let file = &config.file;
    let store = file.store.as_deref().map(Store::open).transpose()?;
    let mut parts = parts(config);
    let workers = parts.seats.len();
    for (index, setting) in file.ports.iter().enumerate() {
        // A port with one queue belongs to one worker; ports are distributed round-robin.
        parts.seats[index % workers]
            .ports
            .push(AttachedPort { id: PortId(setting.number), port: open(setting, &config.engine)? });
    }
    Ok(Node::start(NodeParts { store, ..parts })?)
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
    let settings = interp::Config { cpu_port: Some(file.cpu_port), ..interp::Config::default() };
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
