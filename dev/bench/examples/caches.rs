//! Measures the segment caches with gateway.p4: hits when 5 % of the VMs get 95 % of the traffic,
//! segments and masks for a flow to each VM, and segments made stale by one changed route of a
//! tenant. Measures no speed, because segments model a SmartNIC's cache.
//!
//! `cargo run --release -p bench --example caches [VMS]`, after `make bench ONLY=compile QUICK=1`
//! has compiled the programs.

use anyhow::Context;
use bench::program::{BenchProgram as Which, Program, lpm};
use bench::ring::{IN_PORT, Template};
use bench::workload::{Entries, Flow, Flows, TenantLayout, Workload};
use entries::{StateUpdate, UpdateKind, WriteBatch};
use flowcache::{SegmentCache, SegmentCacheConfig, SegmentCacheKind};
use interp::Config;
use packet::{Batch, BatchOutput, Engine, PortId};
use std::path::Path;

/// Packets per window.
const WINDOW: usize = 2_000_000;

fn main() -> anyhow::Result<()> {
    let vms = std::env::args().nth(1).map_or(Ok(1_000_000), |vms| vms.parse())?;
    let program = Program::load(Which::Gateway, Path::new("target/bench/programs"))?;
    let world = Workload { layout: TenantLayout::ManyTenants, vms };
    for kind in [
        SegmentCacheKind::Exact,
        SegmentCacheKind::Megaflow,
        SegmentCacheKind::SubTraversal { tables: 4 },
        SegmentCacheKind::Adaptive { tables: 4 },
    ] {
        measure_kind(&program, world, kind)?;
    }
    Ok(())
}

/// Packets per batch.
const BATCH: usize = 32;

/// Sender of packets to an engine, a batch at a time.
struct Sender<'w> {
    template: Template,
    flows: &'w [Flow],
    batch: Batch,
    out: BatchOutput,
}

impl Sender<'_> {
    /// Sends one packet to each of these VMs. All of them must be forwarded.
    fn send(&mut self, engine: &mut SegmentCache, mut numbers: impl Iterator<Item = usize>, now: u64) {
        loop {
            self.batch.clear();
            for number in numbers.by_ref().take(BATCH) {
                let Ok(packet) = self.batch.push() else { break };
                packet.reset();
                (packet.ingress_port, packet.rx_time_ns) = (PortId(IN_PORT), now);
                let len = self.template.packet_len();
                if let Ok(space) = packet.receive_space(len) {
                    self.template.write(self.flows[number], space);
                    packet.set_received_len(len);
                }
            }
            if self.batch.is_empty() {
                return;
            }
            self.out.clear();
            Engine::process(engine, &mut self.batch, &mut self.out);
            let forwarded = self.out.verdicts().iter().all(|e| matches!(e.verdict, packet::Verdict::Forward { .. }));
            assert!(forwarded, "{:?}", self.out.verdicts());
        }
    }
}

/// Measures a kind of segment cache: first the packets to the slow path under traffic with hot VMs,
/// then the memory of a flow to each VM.
fn measure_kind(program: &Program, world: Workload, kind: SegmentCacheKind) -> anyhow::Result<()> {
    let cache = SegmentCacheConfig { kind, max_segments: world.vms + world.vms / 8, ..SegmentCacheConfig::default() };
    let mut engine = SegmentCache::new(program.pipeline.clone(), Config::default(), cache)?;
    Entries::new(world, program)?.write_all(|batch| engine.write(batch))?;
    let flows = Flows::each(&world);
    let (batch, out) = (Batch::with_capacity(BATCH), BatchOutput::new());
    let mut sender = Sender { template: Template::new(64), flows: &flows, batch, out };

    // Hot VMs: the first 5 %, which are spread over all tenants.
    let hot = (world.vms / 20).max(1);
    let mut rng = fastrand::Rng::with_seed(7);
    println!("{kind:?}, {} VMs, 5 % of them draw 95 % of the packets", world.vms);
    for window in 0..4 {
        let stats_before = engine.stats().clone();
        let random_vm = |rng: &mut fastrand::Rng| {
            if rng.f64() < 0.95 { rng.usize(..hot) } else { hot + rng.usize(..world.vms - hot) }
        };
        sender.send(&mut engine, (0..WINDOW).map(|_| random_vm(&mut rng)), 1);
        let (packets, misses) =
            (engine.stats().packets - stats_before.packets, engine.stats().misses - stats_before.misses);
        let share = 1000.0 * misses as f64 / packets as f64;
        println!("  window {window}: {share:.3} per mille to the slow path");
    }

    engine.clear();
    sender.send(&mut engine, 0..world.vms, 2);
    let tables: Vec<_> = engine.table_usage().map(|table| (table.entries, table.masks)).collect();
    let bytes_per_entry = engine.memory() / engine.table_usage().map(|table| table.entries).sum::<usize>().max(1);
    println!("  tables (entries, masks): {tables:?}; {} MiB, {bytes_per_entry} bytes an entry", engine.memory() >> 20);
    println!("  {:?}", engine.stats());
    update(program, world, &mut engine)
}

/// Writes a more specific route of one tenant, for half of one of its subnets.
fn update(program: &Program, world: Workload, engine: &mut SegmentCache) -> anyhow::Result<()> {
    let table = program.table("route_v4", ["local", "peer"])?;
    let tenant = world.tenants() / 2;
    let entries =
        engine.interp().state().entries(table.id).map(|entry| entry.to_table_entry(&program.pipeline, table.id));
    let like = entries.into_iter().nth(tenant * 4).context("the tenant has no route");
    let mut entry = like?;
    entry.keys[1] = lpm(prefix_of(&entry.keys[1]), 25);
    let before = engine.stats().stale;
    engine.write(&[StateUpdate::Entry(UpdateKind::Insert, entry)].into_iter().collect::<WriteBatch>())?;
    println!("  a new route of one tenant: {} segments stale\n", engine.stats().stale - before);
    Ok(())
}

fn prefix_of(key: &ir::KeyMatch) -> u32 {
    match key {
        ir::KeyMatch::Lpm { value, .. } => value.try_into().unwrap_or(0),
        _ => 0,
    }
}
