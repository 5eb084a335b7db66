//! Runs one program in one world for some seconds, for `perf record` and `perf stat`.
//!
//!     profile overlay|gateway|cached[:ROOM] many|one VMS SECONDS [CORE]
//!
//! `cached` is the gateway behind a cache of rewrites with capacity for all flows, or for ROOM.
#![allow(missing_docs)]

use bench::engines::{self, EngineKind};
use bench::forward::{BATCH, process_round};
use bench::program::{BenchProgram, Program};
use bench::ring::{Ring, Template};
use bench::workload::{FlowDistribution, Flows, TenantLayout, Workload};
use std::time::{Duration, Instant};

/// Number of flows, used in rotation.
const FLOWS: usize = 1 << 20;

/// Arguments: the program, the layout of tenants, the number of VMs, the seconds, and the core.
fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let kind = if words[1] == "overlay" { BenchProgram::Overlay } else { BenchProgram::Gateway };
    let engine_kind = match words[1].strip_prefix("cached") {
        Some(max_flows) => EngineKind::Cached(max_flows.trim_start_matches(':').parse().unwrap_or(FLOWS + FLOWS / 4)),
        None => EngineKind::MEASURED,
    };
    let layout = if words[2] == "one" { TenantLayout::OneTenant } else { TenantLayout::ManyTenants };
    let world = Workload { layout, vms: words[3].parse()? };
    bench::machine::pin_to_core(words.get(5).map_or(1, |c| c.parse().unwrap_or(1)));
    let _huge = bench::machine::HugePages::reserve(1 << 30);
    let program = Program::load(kind, &bench::machine::results().join("programs"))?;
    let mut engine = engines::load(engine_kind, &program, world)?.engine;
    let mut flows = Flows::new(&world, FlowDistribution::Uniform, FLOWS, 1);
    let mut ring = Ring::new(Template::new(64), BATCH);
    let mut output = packet::BatchOutput::new();
    let end = Instant::now() + Duration::from_secs_f64(words[4].parse()?);
    let mut best = f64::MAX;
    let mut times_ns = Vec::new();
    while Instant::now() < end {
        let work = process_round(engine.as_mut(), &mut ring, &mut flows, &mut output);
        let ns = work.took.unwrap_or_default().as_nanos() as f64 / work.operations as f64;
        best = best.min(ns);
        times_ns.push(ns);
    }
    times_ns.sort_by(f64::total_cmp);
    println!(
        "{} {} {}: best {best:.1} ns, 10 % {:.1}, median {:.1} ns a packet, {} rounds",
        words[1],
        words[2],
        words[3],
        times_ns[times_ns.len() / 10],
        times_ns[times_ns.len() / 2],
        times_ns.len()
    );
    Ok(())
}
