//! Measures how many new flows per second become byte rewrites, and how many packets of known flows
//! per second these rewrite, on one core, with gateway.p4.
//!
//! `cargo run --release -p bench --example learn_rate [VMS [ROUNDS [interpreter|native]]]`, after
//! `make bench ONLY=compile QUICK=1` has compiled the programs. Seconds are processor time; packets
//! are made beforehand. First the interpreter runs new flows' packets, then native code.

use bench::machine::thread_time;
use bench::program::{BenchProgram as Which, Program};
use bench::ring::{IN_PORT, Template};
use bench::workload::{Entries, Flow, Flows, TenantLayout, Workload};
use flowcache::rewrite::{BackingEngine, RewriteCache};
use interp::Config;
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::path::Path;
use std::time::Duration;

/// Packets per batch.
const BATCH: usize = 32;

/// Batches that are prepared before the clock runs. Few enough that the packets stay in the L1 and
/// L2 caches.
const READY: usize = 32;

/// Sends one packet of each flow through an engine, all of which must be forwarded. Returns the
/// processor time.
fn send(engine: &mut dyn Engine, flows: &[Flow], batches: &mut [Batch], now: u64) -> anyhow::Result<Duration> {
    let (template, mut out, mut used) = (Template::new(64), BatchOutput::new(), Duration::ZERO);
    for flows in flows.chunks(BATCH * READY) {
        for (batch, flows) in batches.iter_mut().zip(flows.chunks(BATCH)) {
            batch.clear();
            for flow in flows {
                let packet = batch.push()?;
                packet.reset();
                (packet.ingress_port, packet.rx_time_ns) = (PortId(IN_PORT), now);
                let len = template.packet_len();
                template.write(*flow, packet.receive_space(len)?);
                packet.set_received_len(len);
            }
        }
        let start = thread_time();
        for (batch, _) in batches.iter_mut().zip(flows.chunks(BATCH)) {
            out.clear();
            engine.process(batch, &mut out);
            let forwarded = out.verdicts().iter().all(|e| matches!(e.verdict, Verdict::Forward { .. }));
            anyhow::ensure!(forwarded && out.verdicts().len() == batch.len(), "{:?}", out.verdicts());
        }
        used += thread_time() - start;
    }
    Ok(used)
}

/// Prints the rate of new flows, which become rewrites, and of their next packets, which must all
/// be rewritten.
fn measure<R: BackingEngine>(
    cache: &mut RewriteCache<R>,
    name: &str,
    flows: &[Flow],
    batches: &mut [Batch],
) -> anyhow::Result<()>
where
    RewriteCache<R>: Engine,
{
    cache.clear();
    let stats_before = cache.stats().clone();
    let learn_time = send(cache, flows, batches, 1)?;
    let inserted = cache.stats().inserted - stats_before.inserted;
    anyhow::ensure!(
        inserted == flows.len() as u64,
        "{inserted} of {} flows are kept: {:?}",
        flows.len(),
        cache.stats()
    );
    let hit_time = send(cache, flows, batches, 2)?;
    let rewritten = cache.stats().rewritten - stats_before.rewritten;
    anyhow::ensure!(rewritten == inserted, "not all packets are rewritten: {:?}", cache.stats());
    println!(
        "{} VMs, {name}: {:.0} new flows a second; {:.0} packets a second rewritten; {} bytes a flow",
        flows.len(),
        flows.len() as f64 / learn_time.as_secs_f64(),
        flows.len() as f64 / hit_time.as_secs_f64(),
        cache.flows().memory() / cache.flows().len()
    );
    Ok(())
}

/// Arguments: VMs, rounds, and `interpreter` or `native` for only one of the engines below the
/// cache.
fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let vms = words.next().map_or(Ok(10_000), |vms| vms.parse())?;
    let rounds: u64 = words.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let only = words.next();
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let program = Program::load(Which::Gateway, Path::new("target/bench/programs"))?;
    let world = Workload { layout: TenantLayout::ManyTenants, vms };
    let mut flows = Flows::each(&world);
    fastrand::Rng::with_seed(1).shuffle(&mut flows);
    let (pipeline, config) = (program.pipeline.clone(), Config::default());
    let mut interpreted = RewriteCache::new(pipeline.clone(), config.clone(), vms)?;
    let mut native = RewriteCache::native(pipeline, config, vms)?;
    if is_wanted("interpreter") {
        Entries::new(world, &program)?.write_all(|batch| interpreted.write(batch).map(drop))?;
    }
    if is_wanted("native") {
        Entries::new(world, &program)?.write_all(|batch| native.write(batch).map(drop))?;
    }
    let mut batches: Vec<Batch> = (0..READY).map(|_| Batch::with_capacity(BATCH)).collect();
    for _ in 0..rounds {
        if is_wanted("interpreter") {
            measure(&mut interpreted, "interpreter", &flows, &mut batches)?;
        }
        if is_wanted("native") {
            measure(&mut native, "native", &flows, &mut batches)?;
        }
    }
    Ok(())
}
