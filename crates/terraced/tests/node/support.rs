//! Node with ports that are wired to the test, and programs for it.

use cache_engines::CachePlan;
use entries::{ActionSpec, TableEntry, UpdateKind, WriteBatch};
use io::memory::{MemoryPort, pair};
use io::{AttachedPort, IdlePolicy};
use node::engine::{EngineFactory, SharedEngineFactory, native};
use node::{Node, NodeParts, Store, WorkerSpec};
use num_bigint::BigUint;
use offload::partition::TableMode;
use p4runtime::{Device, PipelineConfig, ReconcileMode};
use packet::PortId;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use switch_engines::Compress;
use switch_engines::SwitchPlan;
use switch_engines::tiers::TiersPlan;

pub use crate::wire::{KIND, frame, read};

/// CPU port of the programs.
pub const CPU: u32 = 510;

/// Returns an emulated switch with capacity for `room` entries in each table, and these compression
/// steps.
pub fn chip(room: u64, compress: &str) -> SharedEngineFactory {
    let mut plan = SwitchPlan::new(asic::target::ChipTarget::shipped("tofino1").expect("it is shipped"));
    (plan.room.others, plan.compress) = (room, Compress(compress.to_owned()));
    plan.shared()
}

/// Returns tiers: an emulated switch with these tables hot and absent, and a flow cache below. Hot
/// entries are chosen ten times a second.
pub fn tiers(hot: &[(&str, u64)], absent: &[&str]) -> SharedEngineFactory {
    let hot = hot.iter().map(|(table, entries)| ((*table).to_owned(), TableMode::Hot(*entries)));
    let held = hot.chain(absent.iter().map(|table| ((*table).to_owned(), TableMode::Absent))).collect();
    let below = CachePlan::default().shared();
    let choose = Duration::from_millis(100);
    TiersPlan { reselect_interval: choose, ..TiersPlan::in_one_process(chip(256, "none"), below, held) }.shared()
}

/// Returns the device config of `marks.p4` with some macros.
pub fn marks(defines: &[&str]) -> String {
    program("marks.p4", defines)
}

/// Returns the device config of one of the tests' programs, with some macros.
pub fn program(name: &str, defines: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options = p4::compile::CompileOptions {
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

/// Node with a wired port for each worker. Frames that the test sends on end `n` arrive on port `n
/// + 1` at worker `n`; packets that the program sends to that port on the same worker return.
pub struct Wired {
    pub node: Node,
    pub ends: Vec<MemoryPort>,
}

impl Wired {
    pub fn start(workers: usize, store: Option<Store>) -> Wired {
        Wired::on(native(), workers, store)
    }

    /// Starts the wired node on an engine.
    pub fn on(engine: SharedEngineFactory, workers: usize, store: Option<Store>) -> Wired {
        let mut ends = Vec::new();
        let mut seats = Vec::new();
        for number in 0..workers {
            let (inner, outer) = pair("inner", "outer", 1 << 16).expect("a pair of ports");
            ends.push(outer);
            let port = AttachedPort { id: PortId(1), port: Box::new(inner) };
            seats.push(WorkerSpec { core: None, ports: vec![port] });
            let _ = number;
        }
        let settings = interp::Config { cpu_port: Some(CPU), ..interp::Config::default() };
        let parts = NodeParts {
            device_id: 1,
            seats,
            idle: IdlePolicy::default(),
            settings,
            engine,
            store,
            translations: Default::default(),
            wings: terraced::wings(),
        };
        Wired { node: Node::start(parts).expect("a node"), ends }
    }

    pub fn commit(&self, device_config: &str, keep: ReconcileMode) {
        self.node.commit(&forwarding(&self.node, device_config), keep).expect("a good config");
    }

    pub fn write(&self, batch: &WriteBatch) {
        let outcomes = self.node.write(std::slice::from_ref(batch)).expect("a pipeline runs");
        outcomes.into_iter().for_each(|outcome| outcome.expect("a good batch"));
    }
}

pub fn forwarding(node: &Node, device_config: &str) -> PipelineConfig {
    let pipeline = node.verify(device_config.as_bytes()).expect("a good config");
    let device_config = device_config.to_owned().into();
    PipelineConfig { pipeline, p4info: bytes::Bytes::new(), device_config, cookie: Some(7) }
}

/// Returns an entry of a table with one exact key, by names.
pub fn entry(node: &impl Device, table: &str, key: u64, action: &str, args: &[u64]) -> TableEntry {
    let pipeline = node.running().expect("a pipeline runs").pipeline;
    named(&pipeline, table, key, action, args)
}

/// Returns an entry of a pipeline's table with one exact key, by names.
pub fn named(pipeline: &Arc<ir::Pipeline>, table: &str, key: u64, action: &str, args: &[u64]) -> TableEntry {
    let table = pipeline.tables.iter().find(|(_, t)| t.preamble.name.ends_with(table)).expect("the table").0;
    let mut actions = pipeline.actions.iter().filter(|(_, a)| a.preamble.name.ends_with(action));
    let action = actions.next().expect("the action").0;
    let args = args.iter().map(|arg| BigUint::from(*arg)).collect();
    let call = ActionSpec::Call(ir::ActionCall { action, args });
    TableEntry::new(table, vec![ir::KeyMatch::Exact(BigUint::from(key))], call)
}

/// Returns a batch that sets both marks. `kind` is an insertion for the first write, a modification
/// later.
pub fn mark(node: &impl Device, kind: UpdateKind, mark: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (table, action) in [("first", "first_mark"), ("second", "second_mark")] {
        batch.push(entries::StateUpdate::Entry(kind, entry(node, table, u64::from(KIND), action, &[mark])));
    }
    batch
}
