//! One workload for some seconds, for `perf record` and for comparisons of two builds:
//!
//! ```text
//! bench profile overlay|gateway|cached[:ROOM] many|one VMS SECONDS [CORE]
//! bench profile routed|groups|nat|balancer FLOWS SECONDS [CORE [scalar|vector]]
//! ```
//!
//! `cached` is the gateway behind a cache of rewrites with capacity for all flows, or for ROOM. The second
//! form runs a service of the gateway with established flows.

use crate::engines::{self, EngineKind};
use crate::forward::{BATCH, process_round};
use crate::machine;
use crate::program::{BenchProgram, Program};
use crate::ring::{Ring, Template};
use crate::run::CallResult;
use crate::services::{LoadedService, Service, ServiceWorkload, VM_FLOWS};
use crate::workload::{FlowDistribution, Flows, TenantLayout, Workload};
use anyhow::Context;
use ir::TableId;
use jit::{Jit, StageStats};
use std::time::{Duration, Instant};

/// Number of flows, used in rotation.
const FLOWS: usize = 1 << 20;

/// Runs what the words name, and prints the time of a packet. `None` if the words name something else.
pub fn run(words: &[String]) -> Option<anyhow::Result<()>> {
    let [command, words @ ..] = words else { return None };
    (command == "profile").then(|| profile(words))
}

fn profile(words: &[String]) -> anyhow::Result<()> {
    let word = |index: usize| words.get(index).map(String::as_str).context("words are missing: see profile.rs");
    let service = match word(0)? {
        "routed" => Some(Service::Routed),
        "groups" => Some(Service::SecurityGroups),
        "nat" => Some(Service::SourceNat),
        "balancer" => Some(Service::LoadBalancer),
        _ => None,
    };
    let seconds_at = if service.is_some() { 2 } else { 3 };
    machine::pin_to_core(words.get(seconds_at + 1).map_or(Ok(1), |core| core.parse())?);
    let _huge = machine::HugePages::reserve(1 << 30);
    let length = Duration::from_secs_f64(word(seconds_at)?.parse()?);
    let folder = machine::results().join("programs");
    let name = words[..seconds_at].join(" ");
    if let Some(service) = service {
        let flows: usize = word(1)?.parse()?;
        let workload = ServiceWorkload { service, vms: flows / VM_FLOWS, flows };
        let program = Program::load(BenchProgram::Gateway, &folder)?;
        let (mut gateway, rates) = LoadedService::new(&program, workload, 1)?;
        println!("new flows: {:.1} ns each", 1e9 / rates.new_per_s);
        match words.get(seconds_at + 2).map(String::as_str) {
            Some("scalar") => gateway.engine_mut().set_min_vector_batch(usize::MAX),
            Some("vector") => gateway.engine_mut().set_min_vector_batch(8),
            _ => {}
        }
        let before = CodeStats::of(gateway.engine());
        let packets = measure(&name, length, || gateway.round());
        describe_code(&program, gateway.engine(), &before, packets);
        return Ok(());
    }
    let kind = if word(0)? == "overlay" { BenchProgram::Overlay } else { BenchProgram::Gateway };
    let engine_kind = match word(0)?.strip_prefix("cached") {
        Some(max_flows) => EngineKind::Cached(max_flows.trim_start_matches(':').parse().unwrap_or(FLOWS + FLOWS / 4)),
        None => EngineKind::MEASURED,
    };
    let layout = if word(1)? == "one" { TenantLayout::OneTenant } else { TenantLayout::ManyTenants };
    let world = Workload { layout, vms: word(2)?.parse()? };
    let program = Program::load(kind, &folder)?;
    let mut engine = engines::load(engine_kind, &program, world)?.engine;
    let mut flows = Flows::new(&world, FlowDistribution::Uniform, FLOWS, 1);
    let mut ring = Ring::new(Template::new(64), BATCH);
    let mut output = packet::BatchOutput::new();
    let before = engine.native().map(CodeStats::of);
    let packets = measure(&name, length, || process_round(engine.as_mut(), &mut ring, &mut flows, &mut output));
    if let Some((before, engine)) = before.zip(engine.native()) {
        describe_code(&program, engine, &before, packets);
    }
    Ok(())
}

/// Statistics of native code.
struct CodeStats {
    stages: Vec<StageStats>,
    /// Packets of stages in code for eight packets, and those that left it.
    vector_packets: [u64; 2],
}

impl CodeStats {
    fn of(engine: &Jit) -> CodeStats {
        CodeStats { stages: engine.stats().stages, vector_packets: engine.vector_packet_counts() }
    }
}

/// Prints what decides the speed of native code, and the stages that packets passed since `before`.
fn describe_code(program: &Program, engine: &Jit, before: &CodeStats, packets: u64) {
    println!(
        "native code of {} bytes; hot path of {:?} bytes of a packet, with {} lookups after the first, {} paired, {} in place",
        engine.code_bytes(),
        engine.hot_path_bytes(),
        engine.hot_path_lookup_count(),
        engine.paired_lookup_count(),
        engine.in_place_lookup_count(),
    );
    let tables = engine.hot_path_tables();
    let name_of = |table: TableId| program.pipeline.tables[table].preamble.name.as_str();
    let names: Vec<&str> = tables.into_iter().map(name_of).collect();
    println!("hot path: {}; frames of {} bytes", names.join(", "), engine.frame_bytes());
    let now = CodeStats::of(engine);
    let [passed, left] = [0, 1].map(|at| (now.vector_packets[at] - before.vector_packets[at]) as f64 / packets as f64);
    println!(
        "code for eight packets: {} stages, {passed:.2} of a packet, {left:.2} of them left; refusal: {:?}",
        engine.vector_stage_count(),
        engine.vector_refusal()
    );
    let stages = || now.stages.iter().zip(&before.stages);
    let all_ticks: u64 = stages().map(|(now, before)| now.ticks - before.ticks).sum();
    for (index, (now, before)) in stages().enumerate().filter(|(_, (now, before))| now.packets > before.packets) {
        let name = now.table.map_or("-", name_of);
        let passed = (now.packets - before.packets) as f64 * 100.0 / packets as f64;
        let ticks = (now.ticks - before.ticks) as f64;
        let share = ticks * 100.0 / all_ticks.max(1) as f64;
        println!("  {index:3} {passed:6.1} % of packets {share:6.1} % {:7.1} ticks  {name}", ticks / packets as f64);
    }
}

/// Runs rounds for a time, and prints the distribution of their times.
/// Returns the number of packets.
fn measure(name: &str, length: Duration, mut round: impl FnMut() -> CallResult) -> u64 {
    let end = Instant::now() + length;
    let (mut times_ns, mut packets) = (Vec::new(), 0);
    while Instant::now() < end {
        let work = round();
        packets += work.operations;
        times_ns.push(work.took.unwrap_or_default().as_nanos() as f64 / work.operations.max(1) as f64);
    }
    times_ns.sort_by(f64::total_cmp);
    let at = |part: usize| times_ns.get(times_ns.len() * part / 100).copied().unwrap_or(f64::NAN);
    println!(
        "{name}: best {:.1} ns, 10 % {:.1}, median {:.1} ns a packet, {} rounds",
        at(0),
        at(10),
        at(50),
        times_ns.len()
    );
    packets
}
