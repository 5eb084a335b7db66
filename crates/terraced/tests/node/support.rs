//! A node whose ports are wired to the test, and programs for it.

use cache_engines::CachePlan;
use entries::{ActionSpec, TableEntry, UpdateKind, WriteBatch};
use io::memory::{MemoryPort, pair};
use io::{Attached, Idle};
use node::engine::{EngineFactory, Factory, native};
use node::{Node, Parts, Seat, Store};
use num_bigint::BigUint;
use offload::cut::Held;
use p4runtime::{Device, Forwarding, Keep};
use packet::PortId;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use switch_engines::Compress;
use switch_engines::SwitchPlan;
use switch_engines::tiers::TiersPlan;

pub use crate::wire::{KIND, frame, read};

/// The CPU port of the programs.
pub const CPU: u32 = 510;

/// An emulated switch with room for so many entries in each table, and steps of compression.
pub fn chip(room: u64, compress: &str) -> Factory {
    let mut plan = SwitchPlan::new(asic::target::Target::shipped("tofino1").expect("it is shipped"));
    (plan.room.others, plan.compress) = (room, Compress(compress.to_owned()));
    plan.shared()
}

/// Tiers together: an emulated switch with these tables hot and absent, a flow cache below. Hot entries are chosen ten times a second.
pub fn tiers(hot: &[(&str, u64)], absent: &[&str]) -> Factory {
    let hot = hot.iter().map(|(table, entries)| ((*table).to_owned(), Held::Hot(*entries)));
    let held = hot.chain(absent.iter().map(|table| ((*table).to_owned(), Held::Absent))).collect();
    let below = CachePlan::default().shared();
    let choose = Duration::from_millis(100);
    TiersPlan { choose, ..TiersPlan::here(chip(256, "none"), below, held) }.shared()
}

/// The device config of `marks.p4` with some macros.
pub fn marks(defines: &[&str]) -> String {
    program("marks.p4", defines)
}

/// The device config of one of the tests' programs, with some macros.
pub fn program(name: &str, defines: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options = p4::compile::Options {
        include_dirs: vec![root.join("../../programs/include")],
        defines: defines
            .iter()
            .map(|d| d.split_once('=').unwrap_or((d, "1")))
            .map(|(n, v)| (n.into(), v.into()))
            .collect(),
        ..Default::default()
    };
    let file = root.join("tests/programs").join(name);
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options);
    let errors: Vec<String> = compiled.diagnostics.iter().map(|d| d.render(&compiled.source_map, false)).collect();
    ir::text::print(&compiled.pipeline.unwrap_or_else(|| panic!("{}", errors.join("\n"))))
}

/// A node with a wired port for each worker: what the test sends on end `n` comes in on port `n + 1`, at worker `n`; what the program sends to that
/// port on the same worker comes back.
pub struct Wired {
    pub node: Node,
    pub ends: Vec<MemoryPort>,
}

impl Wired {
    pub fn start(workers: usize, store: Option<Store>) -> Wired {
        Wired::on(native(), workers, store)
    }

    /// The same on some engine.
    pub fn on(engine: Factory, workers: usize, store: Option<Store>) -> Wired {
        let mut ends = Vec::new();
        let mut seats = Vec::new();
        for number in 0..workers {
            let (inner, outer) = pair("inner", "outer", 1 << 16).expect("a pair of ports");
            ends.push(outer);
            let port = Attached { id: PortId(1), port: Box::new(inner) };
            seats.push(Seat { core: None, ports: vec![port] });
            let _ = number;
        }
        let settings = interp::Config { cpu_port: Some(CPU), ..interp::Config::default() };
        let parts = Parts {
            device_id: 1,
            seats,
            idle: Idle::default(),
            settings,
            engine,
            store,
            translations: Default::default(),
            wings: terraced::wings(),
        };
        Wired { node: Node::start(parts).expect("a node"), ends }
    }

    pub fn commit(&self, device_config: &str, keep: Keep) {
        self.node.commit(&forwarding(&self.node, device_config), keep).expect("a good config");
    }

    pub fn write(&self, batch: &WriteBatch) {
        let outcomes = self.node.write(std::slice::from_ref(batch)).expect("a pipeline runs");
        outcomes.into_iter().for_each(|outcome| outcome.expect("a good batch"));
    }
}

pub fn forwarding(node: &Node, device_config: &str) -> Forwarding {
    let pipeline = node.verify(device_config.as_bytes()).expect("a good config");
    let device_config = device_config.to_owned().into();
    Forwarding { pipeline, p4info: bytes::Bytes::new(), device_config, cookie: Some(7) }
}

/// An entry of a table with one exact key, by names.
pub fn entry(node: &impl Device, table: &str, key: u64, action: &str, args: &[u64]) -> TableEntry {
    let pipeline = node.running().expect("a pipeline runs").pipeline;
    named(&pipeline, table, key, action, args)
}

/// The same for a pipeline.
pub fn named(pipeline: &Arc<ir::Pipeline>, table: &str, key: u64, action: &str, args: &[u64]) -> TableEntry {
    let table = pipeline.tables.iter().find(|(_, t)| t.preamble.name.ends_with(table)).expect("the table").0;
    let mut actions = pipeline.actions.iter().filter(|(_, a)| a.preamble.name.ends_with(action));
    let action = actions.next().expect("the action").0;
    let args = args.iter().map(|arg| BigUint::from(*arg)).collect();
    let call = ActionSpec::Call(ir::ActionCall { action, args });
    TableEntry::new(table, vec![ir::KeyMatch::Exact(BigUint::from(key))], call)
}

/// Sets both marks together; `kind` as in the first writing or a later one.
pub fn mark(node: &impl Device, kind: UpdateKind, mark: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (table, action) in [("first", "first_mark"), ("second", "second_mark")] {
        batch.push(entries::Update::Entry(kind, entry(node, table, u64::from(KIND), action, &[mark])));
    }
    batch
}
