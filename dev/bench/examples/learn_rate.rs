//! How many new flows a second become rewrites of bytes, and how many packets of known flows they rewrite, on one core, with gateway.p4.
//!
//! `cargo run --release -p bench --example learn_rate [VMS [ROUNDS [interpreter|native]]]`, after `make bench ONLY=compile QUICK=1` has compiled the programs. Seconds are those of the processor; packets
//! are made before. First the interpreter runs new flows' packets, then native code.

use bench::machine::thread_time;
use bench::program::{Kind as Which, Program};
use bench::ring::{IN_PORT, Template};
use bench::world::{Entries, Flow, Flows, Layout, World};
use flowcache::rewrite::{RewriteCache, Runs};
use interp::Config;
use packet::{Batch, Engine, Output, PortId, Verdict};
use std::path::Path;
use std::time::Duration;

/// Packets that are given together.
const BATCH: usize = 32;

/// Batches that are made before the clock runs: what the packets take stays in the nearer caches.
const READY: usize = 32;

/// One packet of each flow through an engine, all of which must be forwarded: the processor time.
fn send(engine: &mut dyn Engine, flows: &[Flow], batches: &mut [Batch], now: u64) -> anyhow::Result<Duration> {
    let (template, mut out, mut used) = (Template::new(64), Output::new(), Duration::ZERO);
    for flows in flows.chunks(BATCH * READY) {
        for (batch, flows) in batches.iter_mut().zip(flows.chunks(BATCH)) {
            batch.clear();
            for flow in flows {
                let packet = batch.push()?;
                packet.reset();
                (packet.ingress_port, packet.received_at) = (PortId(IN_PORT), now);
                let len = template.packet_len();
                template.write(*flow, packet.receive_space(len)?);
                packet.received(len);
            }
        }
        let start = thread_time();
        for (batch, _) in batches.iter_mut().zip(flows.chunks(BATCH)) {
            out.clear();
            engine.process(batch, &mut out);
            let forwarded = out.emissions().iter().all(|e| matches!(e.verdict, Verdict::Forward { .. }));
            anyhow::ensure!(forwarded && out.emissions().len() == batch.len(), "{:?}", out.emissions());
        }
        used += thread_time() - start;
    }
    Ok(used)
}

fn measure<R: Runs>(
    cache: &mut RewriteCache<R>,
    name: &str,
    flows: &[Flow],
    batches: &mut [Batch],
) -> anyhow::Result<()>
where
    RewriteCache<R>: Engine,
{
    cache.clear();
    let before = cache.stats().clone();
    let learned = send(cache, flows, batches, 1)?;
    let kept = cache.stats().kept - before.kept;
    anyhow::ensure!(kept == flows.len() as u64, "{kept} of {} flows are kept: {:?}", flows.len(), cache.stats());
    let hit = send(cache, flows, batches, 2)?;
    let rewritten = cache.stats().rewritten - before.rewritten;
    anyhow::ensure!(rewritten == kept, "not all packets are rewritten: {:?}", cache.stats());
    println!(
        "{} VMs, {name}: {:.0} new flows a second; {:.0} packets a second rewritten; {} bytes a flow",
        flows.len(),
        flows.len() as f64 / learned.as_secs_f64(),
        flows.len() as f64 / hit.as_secs_f64(),
        cache.flows().memory() / cache.flows().len()
    );
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let vms = words.next().map_or(Ok(10_000), |vms| vms.parse())?;
    let rounds: u64 = words.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let which = words.next();
    let wanted = |name: &str| which.as_deref().is_none_or(|which| which == name);
    let program = Program::load(Which::Gateway, Path::new("target/bench/programs"))?;
    let world = World { layout: Layout::ManyTenants, vms };
    let mut flows = Flows::each(&world);
    fastrand::Rng::with_seed(1).shuffle(&mut flows);
    let (pipeline, config) = (program.pipeline.clone(), Config::default());
    let mut interpreted = RewriteCache::new(pipeline.clone(), config.clone(), vms)?;
    let mut native = RewriteCache::native(pipeline, config, vms)?;
    if wanted("interpreter") {
        Entries::new(world, &program)?.all(|batch| interpreted.write(batch).map(drop))?;
    }
    if wanted("native") {
        Entries::new(world, &program)?.all(|batch| native.write(batch).map(drop))?;
    }
    let mut batches: Vec<Batch> = (0..READY).map(|_| Batch::with_capacity(BATCH)).collect();
    for _ in 0..rounds {
        if wanted("interpreter") {
            measure(&mut interpreted, "interpreter", &flows, &mut batches)?;
        }
        if wanted("native") {
            measure(&mut native, "native", &flows, &mut batches)?;
        }
    }
    Ok(())
}
