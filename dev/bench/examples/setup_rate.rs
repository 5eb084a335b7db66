//! Measures how many new flows per second the rewrite cache sets up on one core, and the throughput
//! that established flows keep meanwhile, with gateway.p4.
//!
//! `cargo run --release -p bench --example setup_rate [VMS [ROUNDS]]`, after `make bench
//! ONLY=compile QUICK=1` has compiled the programs. Seconds are processor time of the engine;
//! packets are made beforehand. Without its own core (`chrt -f 10 taskset -c 1`) other work of the
//! machine affects the figures.
//!
//! First comes a flow to each VM, all of them new, in random order, then the same packets again.
//! Then half of the VMs have established flows, and two evenly spaced streams, of established and
//! of new flows, share a queue of 1,024 packets, from which the engine takes up to 256 at a time.
//! The clock of this is the engine's processor time, so only one core is available; a packet that
//! finds the queue full is lost.

use bench::machine::thread_time;
use bench::program::{BenchProgram as Which, Program};
use bench::ring::{IN_PORT, Template};
use bench::workload::{Entries, Flow, Flows, TenantLayout, Workload};
use flowcache::admission::SlowPathBudget;
use flowcache::pacer::MinSlowPathShare;
use flowcache::rewrite::RewriteCache;
use interp::Config;
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, PacketRef, PortId, Verdict};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// Packets per batch while flows are set up.
const BATCH: usize = 32;

/// Maximum number of packets taken from the queue together.
const TAKEN: usize = 256;

/// Batches that are prepared before the clock runs. Few enough that the packets stay in the L1 and
/// L2 caches.
const READY: usize = 32;

/// Capacity of the queue in packets.
const QUEUE: usize = 1_024;

/// Duration of two streams, in nanoseconds of the engine's time.
const STREAMS: u64 = 500_000_000;

/// Rewrites built from native code's records.
type Cache = RewriteCache<Jit>;

fn push_packet(batch: &mut Batch, template: &Template, flow: Flow, now: u64) {
    let Ok(packet) = batch.push() else { return };
    packet.reset();
    (packet.ingress_port, packet.rx_time_ns) = (PortId(IN_PORT), now);
    let len = template.packet_len();
    if let Ok(space) = packet.receive_space(len) {
        template.write(flow, space);
        packet.set_received_len(len);
    }
}

/// Sender of packets to an engine, a batch at a time.
struct Sender<'w> {
    template: Template,
    flows: &'w [Flow],
    ready: Vec<Batch>,
    out: BatchOutput,
}

impl Sender<'_> {
    /// Sends one packet of each of these flows, all of which must be forwarded. Returns the
    /// processor time.
    fn send(&mut self, engine: &mut Cache, mut numbers: impl Iterator<Item = usize>, now: u64) -> Duration {
        let mut used = Duration::ZERO;
        loop {
            let count = self.fill(&mut numbers, now);
            let start = thread_time();
            for batch in &mut self.ready[..count] {
                self.out.clear();
                engine.process(batch, &mut self.out);
                let forwarded = self.out.verdicts().iter().all(|e| matches!(e.verdict, Verdict::Forward { .. }));
                assert!(forwarded, "{:?}", self.out.verdicts());
            }
            used += thread_time() - start;
            if count < READY {
                return used;
            }
        }
    }

    /// Prepares the next packets. Returns the number of batches that have some.
    fn fill(&mut self, numbers: &mut impl Iterator<Item = usize>, now: u64) -> usize {
        let mut filled = 0;
        for batch in &mut self.ready {
            batch.clear();
            numbers.by_ref().take(BATCH).for_each(|number| push_packet(batch, &self.template, self.flows[number], now));
            filled += usize::from(!batch.is_empty());
        }
        filled
    }
}

/// Returns the numbers below `count` in an order without locality.
fn strewn(count: usize, seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
    numbers
}

/// Measures the set-up of flows, and the throughput with a mix of new and established flows,
/// without and with a limit on the set-up.
fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let vms = words.next().map_or(Ok(100_000), |vms| vms.parse())?;
    let rounds = words.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let program = Program::load(Which::Gateway, Path::new("target/bench/programs"))?;
    let world = Workload { layout: TenantLayout::ManyTenants, vms };
    let flows = Flows::each(&world);
    let load = |max_flows: usize| -> anyhow::Result<Cache> {
        let mut cache = RewriteCache::native(program.pipeline.clone(), Config::default(), max_flows)?;
        Entries::new(world, &program)?.write_all(|batch| cache.write(batch).map(drop))?;
        Ok(cache)
    };
    set_up(&mut load(world.vms)?, &flows, rounds);
    for paced in [false, true] {
        let mut engine = load(2 * world.vms)?;
        println!("{}", taking(paced));
        let mut streams = Streams::new(&flows);
        let alone = streams.warm_up(&mut engine);
        println!("  established flows alone: {alone:.0} packets a second");
        if paced {
            engine.admit_up_to(SlowPathBudget::per_second(1_000_000));
            engine.enable_pacing(MinSlowPathShare::default());
        }
        streams.all(&mut engine, alone);
    }
    Ok(())
}

/// Names the slow path's pacing.
fn taking(paced: bool) -> &'static str {
    if paced { "the slow path takes what is left, 5 % at least" } else { "the slow path takes all" }
}

/// Prints the rate at which a cache without flows sets up one for each VM, and the rate of their
/// next packets.
fn set_up(engine: &mut Cache, flows: &[Flow], rounds: u64) {
    let ready = (0..READY).map(|_| Batch::with_capacity(BATCH)).collect();
    let mut sender = Sender { template: Template::new(64), flows, ready, out: BatchOutput::new() };
    let order = strewn(flows.len(), 1);
    println!("{} VMs, a flow to each", flows.len());
    for round in 0..rounds {
        engine.clear();
        let misses = engine.stats().inserted;
        let set_up_time = sender.send(engine, order.iter().copied(), 2 * round + 1);
        let inserted = engine.stats().inserted - misses;
        let hit_time = sender.send(engine, order.iter().copied(), 2 * round + 2);
        let all_hit = engine.stats().inserted - misses == inserted;
        println!(
            "  {inserted} new flows: {:.0} set up a second; the same again: {:.0} packets a second{}",
            inserted as f64 / set_up_time.as_secs_f64(),
            flows.len() as f64 / hit_time.as_secs_f64(),
            if all_hit { "" } else { ", not all of which hit" }
        );
    }
    let rewrites = engine.flows();
    println!("  {} bytes a flow; {:?}", rewrites.memory() / rewrites.len().max(1), engine.stats());
}

/// Outcome of two streams.
struct Outcome {
    /// Share of established flows' packets that were forwarded.
    kept: f64,
    /// New flows set up per second.
    set_up: f64,
    /// New flows refused per second.
    refused: f64,
}

/// Evenly spaced packets.
struct Stream {
    /// Nanoseconds between two packets; infinite without packets.
    every: f64,
    next: f64,
    came: u64,
}

impl Stream {
    fn new(a_second: f64, now: u64) -> Stream {
        let every = if a_second > 0.0 { 1e9 / a_second } else { f64::INFINITY };
        Stream { every, next: now as f64 + every, came: 0 }
    }
}

/// Established flows to the first half of the VMs, and new ones to the others.
struct Streams<'w> {
    flows: &'w [Flow],
    template: Template,
    batch: Batch,
    out: BatchOutput,
    now: u64,
    /// Number of started flows.
    begun: u64,
    /// Number of offered packets of established flows.
    sent: usize,
    order: Vec<usize>,
}

impl Streams<'_> {
    fn new(flows: &[Flow]) -> Streams<'_> {
        let order = strewn(flows.len() / 2, 2);
        let (template, batch) = (Template::new(64), Batch::with_capacity(TAKEN));
        Streams { flows, template, batch, out: BatchOutput::new(), now: 1_000_000_000, begun: 0, sent: 0, order }
    }

    fn established(&mut self) -> Flow {
        self.sent += 1;
        self.flows[self.order[self.sent % self.order.len()]]
    }

    /// Returns a new flow: the source port changes after each round over all VMs.
    fn new_flow(&mut self) -> Flow {
        let half = self.flows.len() / 2;
        let flow = self.flows[half + self.begun as usize % half];
        let round = (self.begun / half as u64 + 1) as u16;
        self.begun += 1;
        Flow { port: flow.port ^ round, ..flow }
    }

    /// Processes the batch. Returns the time, and which packets were forwarded.
    fn process(&mut self, engine: &mut Cache) -> (u64, Vec<bool>) {
        self.out.clear();
        let start = thread_time();
        engine.process(&mut self.batch, &mut self.out);
        let took = (thread_time() - start).as_nanos() as u64;
        let mut forwarded = vec![false; self.batch.len()];
        for emission in self.out.verdicts() {
            if let (Verdict::Forward { .. }, PacketRef::Input(at)) = (emission.verdict, emission.packet) {
                forwarded[usize::from(at)] = true;
            }
        }
        (took, forwarded)
    }

    /// Fills the cache and sets up established flows. Returns the packets per second of these
    /// alone.
    fn warm_up(&mut self, engine: &mut Cache) -> f64 {
        // Until the cache is full, and all of its memory is resident.
        for _ in 0..(3 * self.flows.len()).div_ceil(TAKEN) {
            self.batch.clear();
            self.now += 100_000;
            for _ in 0..TAKEN {
                let (flow, now) = (self.new_flow(), self.now);
                push_packet(&mut self.batch, &self.template, flow, now);
            }
            self.process(engine);
        }
        let (mut total_ns, mut packets) = (0, 0);
        for round in 0..5 {
            for _ in 0..self.order.len().div_ceil(TAKEN) {
                self.batch.clear();
                // Slowly, so that no flow is refused.
                self.now += 100_000;
                for _ in 0..TAKEN {
                    let (flow, now) = (self.established(), self.now);
                    push_packet(&mut self.batch, &self.template, flow, now);
                }
                let (ns, forwarded) = self.process(engine);
                if round > 1 {
                    total_ns += ns;
                    packets += forwarded.len();
                }
            }
        }
        1e9 * packets as f64 / total_ns as f64
    }

    /// Runs established flows at shares of their maximum rate, with and without new ones.
    fn all(&mut self, engine: &mut Cache, alone: f64) {
        for (percent, new) in
            [10, 25, 50, 75, 95].into_iter().flat_map(|percent| [1e5, 5e5, 5.5e5].map(|new| (percent, new)))
        {
            let established = alone * f64::from(percent) / 100.0;
            let without = self.run(engine, established, 0.0);
            let with = self.run(engine, established, new);
            println!(
                "  {percent} % of that, and {new:.0} new flows a second: established flows keep {:.1} % ({:.1} % without), {:.0} set up a second, {:.0} refused",
                100.0 * with.kept,
                100.0 * without.kept,
                with.set_up,
                with.refused
            );
        }
    }

    /// Offers packets of established and of new flows at these rates, in packets per second, to the
    /// engine in simulated time. A queue that is full loses packets.
    fn run(&mut self, engine: &mut Cache, established: f64, new: f64) -> Outcome {
        let (start, stats_before) = (self.now, (engine.stats().inserted, engine.stats().refused_admission));
        let mut streams = [Stream::new(established, start), Stream::new(new, start)];
        let (mut queue, mut forwarded_count) = (VecDeque::new(), 0);
        while self.now < start + STREAMS {
            // Packets that have arrived by now.
            while let Some(earliest) = (0..2).min_by(|a, b| streams[*a].next.total_cmp(&streams[*b].next)) {
                let stream = &mut streams[earliest];
                if stream.next > self.now as f64 {
                    break;
                }
                stream.next += stream.every;
                stream.came += 1;
                if queue.len() < QUEUE {
                    queue.push_back(earliest == 0);
                }
            }
            if queue.is_empty() {
                self.now = streams[0].next.min(streams[1].next).ceil() as u64;
                continue;
            }
            self.batch.clear();
            let kinds: Vec<bool> = queue.drain(..queue.len().min(TAKEN)).collect();
            for is_established in &kinds {
                let flow = if *is_established { self.established() } else { self.new_flow() };
                push_packet(&mut self.batch, &self.template, flow, self.now);
            }
            let (batch_ns, forwarded) = self.process(engine);
            self.now += batch_ns;
            forwarded_count += kinds.iter().zip(&forwarded).filter(|(kind, forwarded)| **kind && **forwarded).count();
        }
        let seconds = (self.now - start) as f64 / 1e9;
        let arrived = streams[0].came.saturating_sub(queue.iter().filter(|kind| **kind).count() as u64);
        Outcome {
            kept: forwarded_count as f64 / arrived as f64,
            set_up: (engine.stats().inserted - stats_before.0) as f64 / seconds,
            refused: (engine.stats().refused_admission - stats_before.1) as f64 / seconds,
        }
    }
}
