//! Our engine beside systems that run as processes of their own on the same core: Open vSwitch on DPDK, and testpmd.
//!
//! They take their packets from capture files: `infinite_rx` of DPDK's pcap driver, which copies each packet from memory into a buffer. So
//! ours is shown with that copy, too.

use crate::check;
use crate::engines::{self, Which};
use crate::forward;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::ring::Template;
use crate::run::{Contest, Entry, Options, Outcome, Unit, Work, count};
use crate::systems::{ovs::Ovs, testpmd};
use crate::world::{Choice, Flow, Flows, Layout, World};
use anyhow::ensure;
use std::path::Path;
use std::time::Duration;

/// The chart.
pub const CHART: &str = "beside OVS-DPDK, one large tenant, uniform";

/// The chart of the floor.
pub const FLOOR: &str = "packet I/O alone";

/// Packets that the driver can hold to repeat them.
const HELD: usize = 120_000;

/// Packets that are read once, where there are more flows than that: enough for a warm-up and all windows at 0.35 million a second.
const ONCE: usize = 6_000_000;

/// One flow, 100,000 and a million.
///
/// # Errors
/// A system is wrong. One that is not there is noted.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let program = Program::load(Kind::Overlay, programs)?;
    for vms in options.sizes(&[1, 100_000, 1_000_000]) {
        let world = World { layout: Layout::OneTenant, vms };
        match Ovs::start(world, core) {
            Ok(ovs) => beside(&program, world, ovs, options, report)?,
            Err(error) => report.note(format!("OVS-DPDK, {} flows: left out: {error:#}", count(vms))),
        }
    }
    for packets in options.sizes(&[1, 100_000]) {
        let flows = each_once(World { layout: Layout::OneTenant, vms: packets }, options.seed);
        match testpmd::run(&Template::new(64), &flows, core, options.windows.max(3)) {
            Ok(rates) => {
                let windows = rates.iter().map(|rate| rate / 1e6).collect();
                let entries = vec![Entry { name: "testpmd macswap".to_owned(), windows }];
                let (chart, axis, x) = (FLOOR.to_owned(), "packets".to_owned(), count(packets));
                report.push(Outcome { chart, axis, x, unit: Unit::Mpps, entries });
            }
            Err(error) => report.note(format!("testpmd, {packets} packets: left out: {error:#}")),
        }
    }
    Ok(())
}

fn beside(program: &Program, world: World, mut ovs: Ovs, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let (template, seed) = (Template::new(64), options.seed);
    let flows = Flows::new(&world, Choice::Uniform, 1 << 17, seed);
    let answers = check::answers(program, world, &flows, &template)?;
    ovs.check(&answers)?;
    let mut loaded = engines::load(Which::MEASURED, program, world)?;
    check::engine(loaded.engine.as_mut(), &answers, forward::BATCH)?;
    let again = world.vms <= HELD;
    let packets =
        if again { each_once(world, seed) } else { Flows::new(&world, Choice::Uniform, ONCE, seed).all().to_vec() };
    ovs.feed(&template, &packets, again)?;
    ovs.warm_up(packets.len(), Duration::from_secs(if again { 120 } else { 12 }))?;
    let length = options.window.max(Duration::from_millis(500));
    let looks: anyhow::Result<Vec<Work>> = (0..options.windows.max(3)).map(|_| ovs.look(length)).collect();
    let (held, allowed) = ovs.datapath_flows()?;
    for (name, flows) in [("holds", held), ("allows itself", allowed)] {
        let name = format!("{} flows: flows that OVS-DPDK's datapath {name}", count(world.vms));
        report.fact(CHART, &name, flows, "flows");
    }
    ensure!(again || ovs.received()? < ONCE as u64, "OVS-DPDK: all packets were read before the last window was over");
    // What polls on the same core must be gone before the others run.
    drop(ovs);
    let engine = std::cell::RefCell::new(loaded.engine);
    let mut contest = Contest::new(CHART, "VMs, a flow each", count(world.vms), Unit::Mpps);
    contest.entrant("overlay", forward::entrant(&engine, &flows, &template, false));
    contest.entrant("overlay + copy in", forward::entrant(&engine, &flows, &template, true));
    let mut outcome = contest.run(options);
    let rate = |work: Work| work.operations as f64 / work.took.unwrap_or_default().as_secs_f64().max(1e-9) / 1e6;
    outcome.entries.push(Entry { name: "OVS-DPDK".to_owned(), windows: looks?.into_iter().map(rate).collect() });
    report.push(outcome);
    Ok(())
}

/// Each VM's packet once, in random order.
fn each_once(world: World, seed: u64) -> Vec<Flow> {
    let mut flows = Flows::each(&world);
    fastrand::Rng::with_seed(seed).shuffle(&mut flows);
    flows
}
