//! From a configuration to a node: its store, its workers, its ports.

use crate::config::{Config, IdleSetting, Means, PortSetting};
use crate::device::{Node, Parts};
use crate::engine::Factory;
use crate::plane::Seat;
use crate::store::Store;
use io::dpdk::{DpdkOptions, HugePages};
use io::{Attached, Idle, Namespace, Port, PortKind, open_port};
use packet::PortId;

/// The node with its ports and what its store has.
pub(super) fn start(config: &Config) -> anyhow::Result<Node> {
    let file = &config.file;
    let store = file.store.as_deref().map(Store::open).transpose()?;
    let mut parts = parts(config);
    let workers = parts.seats.len();
    for (index, setting) in file.ports.iter().enumerate() {
        // A port with one queue belongs to one worker; the ports are shared out.
        parts.seats[index % workers]
            .ports
            .push(Attached { id: PortId(setting.number), port: open(setting, &config.engine)? });
    }
    Ok(Node::start(Parts { store, ..parts })?)
}

/// What a node is made of, but for ports and store.
pub(super) fn parts(config: &Config) -> Parts {
    let file = &config.file;
    let seats: Vec<Seat> = match file.cores.is_empty() {
        true => vec![Seat { core: None, ports: Vec::new() }],
        false => file.cores.iter().map(|core| Seat { core: Some(*core), ports: Vec::new() }).collect(),
    };
    let idle = match file.idle {
        IdleSetting::Sleep => Idle::default(),
        IdleSetting::Busy => Idle::BUSY,
    };
    let settings = interp::Config { cpu_port: Some(file.cpu_port), ..interp::Config::default() };
    let translations = config.translations.clone();
    let (engine, wings) = (config.engine.clone(), config.wings);
    Parts { device_id: file.device_id, seats, idle, settings, engine, store: None, translations, wings }
}

/// The port that a setting names, in the namespace that has it.
pub(super) fn open(setting: &PortSetting, engine: &Factory) -> anyhow::Result<Box<dyn Port>> {
    let kind = match setting.by {
        Means::Auto => PortKind::Auto,
        Means::AfPacket => PortKind::AfPacket,
        Means::AfXdp => PortKind::AfXdp,
        Means::Raw => PortKind::Raw,
    };
    // Huge pages are for devices; the kernel behind an interface of another namespace is slower.
    let mut options = DpdkOptions::default();
    if setting.netns.is_some() {
        options.eal.huge_pages = HugePages::Avoid;
    }
    let open = || {
        // Means that the configuration names are those that were asked for.
        let own = (kind == PortKind::Auto).then(|| engine.open_port(&setting.device, setting.number));
        own.flatten().unwrap_or_else(|| open_port(&setting.device, kind, &options))
    };
    let opened = match &setting.netns {
        Some(name) => Namespace::open(name)?.run(open)?,
        None => open(),
    }?;
    if let Some(note) = opened.note {
        tracing::warn!(port = setting.number, note, "a port is not as good as it could be");
    }
    Ok(opened.port)
}
