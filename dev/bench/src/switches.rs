//! Comparison of our engine with systems that run as processes of their own on the same core: Open
//! vSwitch on DPDK, and testpmd.
//!
//! They take their packets from capture files with `infinite_rx` of DPDK's pcap driver, which
//! copies each packet from memory into a buffer. So our engine is also shown with that copy.

use crate::check;
use crate::engines::{self, EngineKind};
use crate::forward;
use crate::program::{BenchProgram, Program};
use crate::report::Report;
use crate::ring::Template;
use crate::run::{CallResult, ComparisonResult, EntrantComparison, EntrantResult, Options, Unit, format_count};
use crate::systems::{ovs::Ovs, testpmd};
use crate::workload::{Flow, FlowDistribution, Flows, TenantLayout, Workload};
use anyhow::ensure;
use std::path::Path;
use std::time::Duration;

/// Name of the chart.
pub const CHART: &str = "beside OVS-DPDK, one large tenant, uniform";

/// Name of the chart of packet I/O alone.
pub const FLOOR: &str = "packet I/O alone";

/// Maximum number of packets that the driver can repeat.
const HELD: usize = 120_000;

/// Number of packets to read once, if there are more flows than [`HELD`]: enough for a warm-up and
/// all windows at 0.35 million per second.
const ONCE: usize = 6_000_000;

/// Measures one flow, 100,000 and a million.
///
/// # Errors
/// If a system sends wrong packets. A missing system is only noted.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let program = Program::load(BenchProgram::Overlay, programs)?;
    for vms in options.sizes(&[1, 100_000, 1_000_000]) {
        let world = Workload { layout: TenantLayout::OneTenant, vms };
        match Ovs::start(world, core) {
            Ok(ovs) => compare_with_ovs(&program, world, ovs, options, report)?,
            Err(error) => report.note(format!("OVS-DPDK, {} flows: left out: {error:#}", format_count(vms))),
        }
    }
    for packets in options.sizes(&[1, 100_000]) {
        let flows = shuffled_flows(Workload { layout: TenantLayout::OneTenant, vms: packets }, options.seed);
        match testpmd::run(&Template::new(64), &flows, core, options.windows.max(3)) {
            Ok(rates) => {
                let windows = rates.iter().map(|rate| rate / 1e6).collect();
                let entries = vec![EntrantResult { name: "testpmd macswap".to_owned(), windows }];
                let (chart, axis, x) = (FLOOR.to_owned(), "packets".to_owned(), format_count(packets));
                report.push(ComparisonResult { chart, axis, x, unit: Unit::Mpps, entries });
            }
            Err(error) => report.note(format!("testpmd, {packets} packets: left out: {error:#}")),
        }
    }
    Ok(())
}

/// Compares our engine with a running OVS-DPDK on flows to all VMs. If the packets fit in the
/// feeder's memory, they are sent again and again, otherwise once.
fn compare_with_ovs(
    program: &Program,
    world: Workload,
    mut ovs: Ovs,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (template, seed) = (Template::new(64), options.seed);
    let flows = Flows::new(&world, FlowDistribution::Uniform, 1 << 17, seed);
    let expected = check::expected_outputs(program, world, &flows, &template)?;
    ovs.check(&expected)?;
    let mut loaded = engines::load(EngineKind::MEASURED, program, world)?;
    check::check_engine(loaded.engine.as_mut(), &expected, forward::BATCH)?;
    let is_repeated = world.vms <= HELD;
    let packets = if is_repeated {
        shuffled_flows(world, seed)
    } else {
        Flows::new(&world, FlowDistribution::Uniform, ONCE, seed).all().to_vec()
    };
    ovs.feed_flows(&template, &packets, is_repeated)?;
    ovs.warm_up(packets.len(), Duration::from_secs(if is_repeated { 120 } else { 12 }))?;
    let window = options.window.max(Duration::from_millis(500));
    let ovs_windows: anyhow::Result<Vec<CallResult>> =
        (0..options.windows.max(3)).map(|_| ovs.measure_rate(window)).collect();
    let (held_flows, allowed_flows) = ovs.datapath_flows()?;
    for (name, flows) in [("holds", held_flows), ("allows itself", allowed_flows)] {
        let name = format!("{} flows: flows that OVS-DPDK's datapath {name}", format_count(world.vms));
        report.fact(CHART, &name, flows, "flows");
    }
    ensure!(
        is_repeated || ovs.received()? < ONCE as u64,
        "OVS-DPDK: all packets were read before the last window was over"
    );
    // Ended first, because it polls on the core that the others need.
    drop(ovs);
    let engine = std::cell::RefCell::new(loaded.engine);
    let mut comparison = EntrantComparison::new(CHART, "VMs, a flow each", format_count(world.vms), Unit::Mpps);
    comparison.entrant("overlay", forward::entrant(&engine, &flows, &template, false));
    comparison.entrant("overlay + copy in", forward::entrant(&engine, &flows, &template, true));
    let mut result = comparison.run(options);
    let rate = |work: CallResult| work.operations as f64 / work.took.unwrap_or_default().as_secs_f64().max(1e-9) / 1e6;
    result
        .entries
        .push(EntrantResult { name: "OVS-DPDK".to_owned(), windows: ovs_windows?.into_iter().map(rate).collect() });
    report.push(result);
    Ok(())
}

/// Returns each VM's flow once, in random order.
fn shuffled_flows(world: Workload, seed: u64) -> Vec<Flow> {
    let mut flows = Flows::each(&world);
    fastrand::Rng::with_seed(seed).shuffle(&mut flows);
    flows
}
