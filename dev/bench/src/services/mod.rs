//! Services of the gateway, from memory, on one core: new flows, packets of established ones, and
//! the memory of a flow, beside packets that are only routed.
//!
//! The entries are those of a region file, as a node writes them.

mod regions;

use regions::{PORT, SERVICE_ADDRESS, one_tunnel_packets, service_packets};
pub use regions::{Packets, Service, ServiceWorkload};

use crate::machine;
use crate::program::{BenchProgram, Program};
use crate::report::Report;
use crate::run::{CallResult, EntrantComparison, Options, Unit, format_count};
use crate::state::sender::{BATCH, READY, Sender};
use crate::systems::vpp::Vpp;
use crate::systems::vpp_setup::VppSetup;
use crate::workload::Workload;
use anyhow::{Context, ensure};
use interp::{Config, Interp};
use jit::Jit;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// Name of the chart of established flows.
pub const CHART: &str = "gateway's services, established flows";
/// Name of the group of new flows and memory.
pub const GROUP: &str = "gateway's services";
/// Name of VPP's VXLAN and NAT44-ED in the chart.
pub const VPP_NAT: &str = "VPP VXLAN + NAT44-ED";
/// Name of VPP's load balancer, without a tunnel, in the chart.
pub const VPP_BALANCER: &str = "VPP lb";
/// Numbers of flows.
pub const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
/// Flows of a machine.
pub const VM_FLOWS: usize = 4;
/// Packets of a round. They stay in the second-level cache.
const ROUND: usize = BATCH * READY;
/// Packets that are compared with those of the interpreter.
const SAMPLES: usize = 512;
/// Port at which packets within tunnels arrive.
const TUNNEL_PORT: u32 = 1;

/// Measures all services with all numbers of flows.
///
/// # Errors
/// If the program is missing, a region is refused, or a packet is not forwarded.
pub fn run(
    programs: &Path,
    vpp_build: Option<&Path>,
    core: usize,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let program = Program::load(BenchProgram::Gateway, programs)?;
    for flows in options.sizes(&SIZES) {
        measure(&program, flows, options, report)?;
        if let Some(build) = vpp_build {
            measure_vpp(build, core, flows, options, report)?;
        }
    }
    if vpp_build.is_none() {
        report.note("services: without VPP: pass the folder of a build as --vpp");
    }
    Ok(())
}

/// Adds VPP to the chart and the figures of a number of flows.
fn measure_vpp(build: &Path, core: usize, flows: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let vms = flows / VM_FLOWS;
    let server = Ipv4Addr::from(Workload::server(0)).to_string();
    let nat = VppSetup::tunnelled_nat(flows, &server, Workload::vni(0));
    let nat = Vpp::start(build, core, &nat, one_tunnel_packets(flows, vms, options.seed))?.measure()?;
    let balancer = VppSetup::load_balancer(flows, SERVICE_ADDRESS, PORT);
    let balancer = Vpp::start(build, core, &balancer, service_packets(flows, vms, options.seed))?.measure()?;
    for (name, rates) in [(VPP_NAT, nat), (VPP_BALANCER, balancer)] {
        let figure = format!("{name}, {} flows: new flows", format_count(flows));
        report.fact(GROUP, &figure, rates.new_per_s / 1e6, "M/s");
        report.add_entry(CHART, &format_count(flows), name, rates.established_pps / 1e6);
    }
    Ok(())
}

fn measure(program: &Program, flows: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let mut gateways = Vec::new();
    for service in Service::ALL {
        let workload = ServiceWorkload { service, vms: flows / VM_FLOWS, flows };
        let (gateway, rates) = LoadedService::new(program, workload, options.seed)?;
        let figure = |what: &str| format!("{}, {} flows: {what}", service.name(), format_count(flows));
        report.fact(GROUP, &figure("new flows"), rates.new_per_s / 1e6, "M/s");
        report.fact(GROUP, &figure("memory of a flow"), rates.flow_bytes, "bytes");
        gateways.push((service, RefCell::new(gateway)));
    }
    let mut contest = EntrantComparison::new(CHART, "flows", format_count(flows), Unit::Mpps);
    for (service, gateway) in &gateways {
        contest.entrant(service.name(), || gateway.borrow_mut().round());
    }
    report.push(contest.run(options));
    Ok(())
}

/// Rates of the first packets of all flows.
#[derive(Debug, Clone, Copy)]
pub struct FirstPacketRates {
    /// New flows a second.
    pub new_per_s: f64,
    /// Resident memory of a flow in bytes.
    pub flow_bytes: f64,
}

/// A gateway with a region and all flows of a workload, and their packets in turn.
pub struct LoadedService {
    engine: Jit,
    packets: Packets,
    sender: Sender,
    next: usize,
}

impl LoadedService {
    /// Loads a region, compares packets with those of the interpreter, and sends a packet of each
    /// flow.
    ///
    /// # Errors
    /// If the region is refused, the program falls back to the interpreter, or a packet is dropped.
    pub fn new(
        program: &Program,
        workload: ServiceWorkload,
        seed: u64,
    ) -> anyhow::Result<(LoadedService, FirstPacketRates)> {
        let text = workload.region();
        let region = region::parse("bench.yaml", &text).map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let entries = region::entries(&region, "bench.yaml", &program.pipeline, &mut Default::default())?;
        let batch = region::diff(Default::default(), entries);
        let mut engine = Jit::new(program.pipeline.clone(), Config::default())?;
        ensure!(engine.fallback_reason().is_none(), "the gateway runs on the interpreter");
        engine.write(&batch)?;
        let packets = workload.packets(seed);
        let mut oracle = Interp::new(program.pipeline.clone(), Config::default())?;
        oracle.write(&batch)?;
        drop((text, region, batch));
        let mut sender = Sender::new(TUNNEL_PORT);
        compare(&mut engine, &mut oracle, &packets, &mut sender)
            .with_context(|| format!("{}, {} flows", workload.service.name(), workload.flows))?;
        drop(oracle);
        let before = machine::resident_bytes();
        let mut spent = Duration::ZERO;
        for bytes in packets.bytes.chunks(packets.len * ROUND) {
            spent += sender.send(&mut engine, bytes.chunks(packets.len))?;
            // As a node's housekeeping thread does on another core.
            engine.advance_time(sender.now_ns());
        }
        let memory = machine::resident_bytes().saturating_sub(before);
        let flows = packets.count() as f64;
        let rates = FirstPacketRates { new_per_s: flows / spent.as_secs_f64(), flow_bytes: memory as f64 / flows };
        Ok((LoadedService { engine, packets, sender, next: 0 }, rates))
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Jit {
        &self.engine
    }

    /// Returns the engine.
    pub fn engine_mut(&mut self) -> &mut Jit {
        &mut self.engine
    }

    /// Sends the next packets.
    pub fn round(&mut self) -> CallResult {
        let round = ROUND.min(self.packets.count());
        if self.next + round > self.packets.count() {
            self.next = 0;
        }
        let len = self.packets.len;
        let bytes = &self.packets.bytes[self.next * len..(self.next + round) * len];
        self.next += round;
        let took = self.sender.send(&mut self.engine, bytes.chunks(len));
        CallResult { operations: round as u64, took: Some(took.unwrap_or(Duration::MAX)) }
    }
}

/// Compares the first packets of flows, and the same packets again, with the interpreter's.
fn compare(engine: &mut Jit, oracle: &mut Interp, packets: &Packets, sender: &mut Sender) -> anyhow::Result<()> {
    let samples = SAMPLES.min(packets.count()) * packets.len;
    for round in 0..2 {
        sender.send(engine, packets.bytes[..samples].chunks(packets.len))?;
        let sent: Vec<Vec<u8>> = sender.sent().map(<[u8]>::to_vec).collect();
        for (number, (packet, found)) in packets.bytes.chunks(packets.len).zip(&sent).enumerate() {
            let outputs = oracle.process(packet, TUNNEL_PORT, sender.now_ns());
            let [expected] = outputs.packets() else { anyhow::bail!("{} packets of one", outputs.packets().len()) };
            ensure!(
                &expected.bytes == found,
                "packet {number} of round {round} is {found:02x?}, and {:02x?} from the interpreter",
                expected.bytes
            );
        }
    }
    Ok(())
}
