//! Measures high locality of cache, occasionally: gateway.p4 with a million VMs, of which 5 % get
//! 95 % of the packets, over three tiers and on software alone.
//!
//! `cargo run --release -p bench --example hlco [VMS] [SECONDS] [native]`, after `make bench
//! ONLY=compile QUICK=1` has compiled the programs. Uses one core for everything. Answers three
//! questions:
//!
//! - How many packets never reach software, and how many do once the caches are warm?
//! - At the rate at which software alone loses 5 %, how much do the tiers lose?
//! - How long does a packet wait and take there, compared with software alone?
//!
//! Software is the engine below the tiers: the reference engine, or native code. The switch is
//! native code here, with capacity for 5 % of the VMs. The DPU is an exact flow cache of segments
//! or, before native code, of rewrites. So times are those of three kinds of software on one core,
//! each ten times faster than the next, as switch, DPU and CPU are; no figure is a chip's. Packets
//! arrive at times drawn beforehand (exponential gaps), independently of the engine, in a bounded
//! queue.

use anyhow::{Context, ensure};
use bench::program::{BenchProgram as Which, Program};
use bench::ring::{IN_PORT, Template};
use bench::workload::{Entries, Flow, Flows, TenantLayout, Workload};
use cache_engines::CachePlan;
use flowcache::{SegmentCacheConfig, SegmentCacheKind};
use interp::Config;
use node::engine::{EngineControl, EngineFactory, SharedEngineFactory, native, reference};
use offload::partition::TableMode;
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};
use switch_engines::tiers::TiersPlan;

/// Maximum number of packets per batch.
const BATCH: usize = 32;

/// Capacity of the queue in packets, as of a port's ring.
const QUEUE: usize = 1024;

/// Compares software alone with three tiers. Arguments: VMs, seconds, and `native` for native code
/// in place of the interpreter.
fn main() -> anyhow::Result<()> {
    let argument = |index, default: usize| std::env::args().nth(index).map_or(Ok(default), |text| text.parse());
    let (vms, seconds) = (argument(1, 1_000_000)?, argument(2, 10)?);
    let program = Program::load(Which::Gateway, Path::new("target/bench/programs"))?;
    let world = Workload { layout: TenantLayout::ManyTenants, vms };
    let hot = (vms / 20).max(1);
    println!("{vms} VMs, {hot} of them draw 95 % of the packets");

    let is_native = std::env::args().nth(3).is_some_and(|kind| kind == "native");
    let software_factory = if is_native { native() } else { reference() };
    let mut software = System::new("software alone", &software_factory, &program, world)?;
    let cache = SegmentCacheConfig {
        kind: SegmentCacheKind::Exact,
        max_segments: vms + vms / 8,
        idle_ns: Some(Duration::from_secs(600).as_nanos() as u64),
        ..SegmentCacheConfig::default()
    };
    let lower_plan = CachePlan { cache, is_rewrite_cache: is_native, ..CachePlan::default() }.shared();
    let hot_tables = BTreeMap::from([("vm_nc_v4".to_owned(), TableMode::Hot(hot as u64))]);
    let tiers = TiersPlan::in_one_process(native(), lower_plan, hot_tables).shared();
    let mut tiers = System::new("three tiers", &tiers, &program, world)?;

    warm(&mut tiers, vms)?;
    compare(&mut software, &mut tiers, Duration::from_secs(seconds as u64))
}

/// Generator of the next packet's VM: one of the hot ones in 95 of 100.
struct Draw {
    rng: fastrand::Rng,
    vms: usize,
    hot: usize,
}

impl Draw {
    fn next(&mut self) -> usize {
        match self.rng.f64() < 0.95 {
            true => self.rng.usize(..self.hot),
            false => self.hot + self.rng.usize(..self.vms - self.hot),
        }
    }
}

/// Engine with its tables filled, and packets for it.
struct System {
    name: &'static str,
    engine: Box<dyn EngineControl>,
    worker: Box<dyn Engine>,
    template: Template,
    flows: Vec<Flow>,
    draw: Draw,
    batch: Batch,
    out: BatchOutput,
    began: Instant,
}

impl System {
    /// Loads a system with the entries of the workload. 5 % of the VMs are the hot ones.
    fn new(
        name: &'static str,
        choice: &SharedEngineFactory,
        program: &Program,
        world: Workload,
    ) -> anyhow::Result<System> {
        let began = Instant::now();
        let refused = |refusal: p4runtime::P4RuntimeError| anyhow::anyhow!("{name}: {}", refusal.message);
        let mut engine = choice.load(&program.pipeline, &Config::default()).map_err(refused)?;
        Entries::new(world, program)?.write_all(|batch| engine.write(batch))?;
        println!("{name}: tables filled in {:.1} s", began.elapsed().as_secs_f64());
        let hot = (world.vms / 20).max(1);
        Ok(System {
            name,
            worker: engine.new_worker(),
            engine,
            template: Template::new(64),
            flows: Flows::each(&world),
            draw: Draw { rng: fastrand::Rng::with_seed(7), vms: world.vms, hot },
            batch: Batch::with_capacity(BATCH),
            out: BatchOutput::new(),
            began,
        })
    }

    /// Runs packets for `count` VMs as one batch; all of them must be forwarded.
    fn run(&mut self, count: usize) -> anyhow::Result<()> {
        let (now, len) = (self.began.elapsed().as_nanos() as u64, self.template.packet_len());
        self.batch.clear();
        for _ in 0..count {
            let flow = self.flows[self.draw.next()];
            let packet = self.batch.push().ok().context("a batch has room")?;
            packet.reset();
            (packet.ingress_port, packet.rx_time_ns) = (PortId(IN_PORT), now);
            self.template.write(flow, packet.receive_space(len).ok().context("a packet has room")?);
            packet.set_received_len(len);
        }
        self.out.clear();
        self.worker.process(&mut self.batch, &mut self.out);
        let forwarded = self.out.verdicts().iter().filter(|e| matches!(e.verdict, Verdict::Forward { .. })).count();
        ensure!(forwarded == count, "{}: {:?}", self.name, self.out.verdicts());
        Ok(())
    }

    /// Measures packets per second with full batches.
    fn capacity(&mut self, time: Duration) -> anyhow::Result<f64> {
        let (start, mut packets) = (Instant::now(), 0);
        while start.elapsed() < time {
            self.run(BATCH)?;
            packets += BATCH;
        }
        Ok(packets as f64 / start.elapsed().as_secs_f64())
    }

    /// Offers packets at a rate for this time, at random intervals. A packet that finds the queue
    /// full is lost. Returns the counts and the latencies.
    fn offered(&mut self, rate: f64, time: Duration) -> anyhow::Result<Offered> {
        let mut rng = fastrand::Rng::with_seed(11);
        let (start, mut next, mut waiting) = (Instant::now(), 0.0, VecDeque::with_capacity(QUEUE));
        let mut offered = Offered::default();
        let end = time.as_nanos() as f64;
        loop {
            let now = start.elapsed().as_nanos() as f64;
            while next <= now && next < end {
                match waiting.len() < QUEUE {
                    true => waiting.push_back(next),
                    false => offered.lost += 1,
                }
                offered.came += 1;
                next -= (1.0 - rng.f64()).ln() * 1e9 / rate;
            }
            let count = waiting.len().min(BATCH);
            if count == 0 {
                if next >= end {
                    return Ok(offered);
                }
                continue;
            }
            self.run(count)?;
            let done = start.elapsed().as_nanos() as f64;
            offered.times.extend(waiting.drain(..count).map(|came| (done - came) as u64));
        }
    }
}

/// Outcome of packets that were offered at a rate.
#[derive(Default)]
struct Offered {
    came: usize,
    lost: usize,
    /// Time from arrival to transmission of each packet, in nanoseconds.
    times: Vec<u64>,
}

impl Offered {
    fn mean(&self) -> f64 {
        self.times.iter().sum::<u64>() as f64 / self.times.len().max(1) as f64 / 1e3
    }

    fn p99(&mut self) -> f64 {
        let at = self.times.len() * 99 / 100;
        match at < self.times.len() {
            true => *self.times.select_nth_unstable(at).1 as f64 / 1e3,
            false => 0.0,
        }
    }
}

/// Warms the caches up, and prints the packets that each tier serves.
fn warm(tiers: &mut System, vms: usize) -> anyhow::Result<()> {
    println!("\n| packets so far | switch | dpu | software, per mille | Mpps |\n|---|---|---|---|---|");
    let window = vms * 10;
    let (mut before, mut packets_so_far) = (BTreeMap::new(), 0);
    for _ in 0..20 {
        let start = Instant::now();
        for batch_number in 0..window / BATCH {
            tiers.run(BATCH)?;
            // As a node's housekeeping does.
            if batch_number % 4096 == 0 {
                tiers.engine.advance_time(tiers.began.elapsed().as_nanos() as u64);
            }
        }
        packets_so_far += window;
        let served: BTreeMap<&str, u64> = tiers.engine.packets_by_tier().into_iter().collect();
        let served_since = |tier: &str| served.get(tier).unwrap_or(&0) - before.get(tier).unwrap_or(&0);
        let (switch, dpu, cpu) = (served_since("switch"), served_since("dpu"), served_since("cpu"));
        let share_of = |part: u64, scale: f64| scale * part as f64 / (switch + dpu + cpu) as f64;
        let rate = window as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!(
            "| {} M | {:.2} % | {:.2} % | {:.3} | {rate:.2} |",
            packets_so_far / 1_000_000,
            share_of(switch, 100.0),
            share_of(dpu, 100.0),
            share_of(cpu, 1000.0)
        );
        if share_of(cpu, 1000.0) < 0.1 {
            break;
        }
        before = served;
    }
    tiers.engine.status_notes().iter().for_each(|note| println!("{note}"));
    Ok(())
}

/// Prints losses and latencies of both systems at loads below and above the capacity of software.
fn compare(software: &mut System, tiers: &mut System, time: Duration) -> anyhow::Result<()> {
    software.capacity(time / 4)?;
    let capacity = software.capacity(time)?;
    println!("\nsoftware alone: {:.3} Mpps; the tiers: {:.3} Mpps", capacity / 1e6, tiers.capacity(time)? / 1e6);
    println!(
        "\n| offered, of what software can do | offered Mpps | system | lost | mean us | P99 us |\n|---|---|---|---|---|---|"
    );
    for load in [0.5, 0.9, 1.0 / 0.95] {
        let mut times = Vec::new();
        for system in [&mut *software, &mut *tiers] {
            let rate = capacity * load;
            let mut offered = system.offered(rate, time)?;
            let lost = 100.0 * offered.lost as f64 / offered.came.max(1) as f64;
            let (mean, p99) = (offered.mean(), offered.p99());
            println!("| {load:.2} | {:.3} | {} | {lost:.2} % | {mean:.1} | {p99:.1} |", rate / 1e6, system.name);
            times.push((mean, p99));
        }
        if let [(mean, p99), (tiers_mean, tiers_p99)] = times[..] {
            let change_percent = |before: f64, after: f64| 100.0 * (after / before - 1.0);
            println!(
                "| | | the tiers beside software | | {:+.1} % | {:+.1} % |",
                change_percent(mean, tiers_mean),
                change_percent(p99, tiers_p99)
            );
        }
    }
    Ok(())
}
