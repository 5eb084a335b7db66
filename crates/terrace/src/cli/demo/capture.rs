//! Runs the demo scenario from capture files to capture files with `terrace run`, for machines that
//! do not allow network namespaces.

use super::frame::{self, OuterHeaders, ProbeMessage, ReceivedProbe};
use super::report::ProbeResult;
use super::run_self;
use super::scenario::{ExpectedResult, Probe, ProbeGroup, STRANGE_VNI, STRANGER};
use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::CommandError;
use crate::lab::Topology;
use crate::run_stats::RunSummary;
use io::capture::{CaptureReader, CaptureWriter, Record};
use node::status::CounterCell;
use packet::Counter;
use packet::Packet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A VM that sends and receives through its server, or a host behind a remote.
#[derive(Clone, Debug)]
struct ScenarioStation {
    name: String,
    /// Name of the server or remote.
    host: String,
    host_address: IpAddr,
    mac: [u8; 6],
    /// VNI that received packets must have.
    vni: u32,
    /// VNI of sent packets.
    sends_vni: u32,
    addresses: Vec<IpAddr>,
}

/// Stations of the scenario, with the gateway's statistics summed over all runs.
pub struct CaptureScenario<'a> {
    program: &'a Path,
    engine: &'a EngineArgs,
    work: &'a WorkDir,
    stop: &'a AtomicBool,
    topology: Topology,
    stations: Vec<ScenarioStation>,
    stats: std::cell::RefCell<RunSummary>,
}

impl<'a> CaptureScenario<'a> {
    /// Prepares the scenario.
    pub fn new(
        program: &'a Path,
        engine: &'a EngineArgs,
        work: &'a WorkDir,
        stop: &'a AtomicBool,
    ) -> Result<CaptureScenario<'a>, CommandError> {
        let region = region::load(&work.region()).map_err(CommandError::refused)?;
        let topology = Topology::from_region("demo", &region).map_err(CommandError::system)?;
        let stations = stations(&topology);
        Ok(CaptureScenario { program, engine, work, stop, topology, stations, stats: Default::default() })
    }

    /// Returns the gateway's statistics, summed over all runs.
    pub fn stats(&self) -> RunSummary {
        self.stats.borrow().clone()
    }

    /// Sends all probes. Probes that must pass are sent together; others are sent one by one, so
    /// that each has its own statistics.
    pub fn send_probes(&self, groups: &[ProbeGroup]) -> Result<Vec<ProbeResult>, CommandError> {
        let probes: Vec<(&'static str, &Probe)> =
            groups.iter().flat_map(|group| group.probes.iter().map(|probe| (group.title, probe))).collect();
        let together = probes.iter().all(|(_, probe)| matches!(probe.expected, ExpectedResult::Reaches(_)));
        let mut results = Vec::new();
        for some in probes.chunks(if together { probes.len() } else { 1 }) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CommandError::stopped());
            }
            let attempted: Vec<&Probe> = some.iter().map(|(_, probe)| *probe).collect();
            let got = self.exchange(&attempted)?;
            results.extend(some.iter().zip(got).map(|((group, probe), got)| ProbeResult::new(group, probe, got, None)));
        }
        Ok(results)
    }

    /// Sends the requests and the replies of stations that received one. Returns for each request
    /// the name of the replying station, or the reason for no reply.
    fn exchange(&self, probes: &[&Probe]) -> Result<Vec<String>, CommandError> {
        let mut requests = Vec::new();
        for (id, probe) in (0..).zip(probes) {
            let sender = self.station(probe.from)?;
            requests.push(self.request_frame(sender, probe, id, false, None)?);
        }
        let (received, stats) = self.run_frames(requests)?;
        let mut outcomes: Vec<String> = probes.iter().map(|_| missing_reply_reason(&stats)).collect();
        let mut replies = Vec::new();
        let mut responders = BTreeMap::new();
        for (port, request) in received.iter().filter(|(_, request)| !request.reply) {
            let (Some(probe), Some(station)) = (probes.get(usize::from(request.id)), self.receiver(*port, request))
            else {
                continue;
            };
            replies.push(self.request_frame(station, probe, request.id, true, Some(request.addresses))?);
            responders.insert(request.id, station.name.clone());
            outcomes[usize::from(request.id)] = format!("{}, but no answer comes back", station.name);
        }
        if !replies.is_empty() {
            let (returned, _) = self.run_frames(replies)?;
            for (port, reply) in returned.iter().filter(|(_, reply)| reply.reply) {
                let receiver_name = self.receiver(*port, reply).map(|station| station.name.as_str());
                let probe = probes.get(usize::from(reply.id));
                if let (true, Some(name)) = (receiver_name == probe.map(|probe| probe.from), responders.get(&reply.id))
                {
                    outcomes[usize::from(reply.id)].clone_from(name);
                }
            }
        }
        Ok(outcomes)
    }

    fn station(&self, name: &str) -> Result<&ScenarioStation, CommandError> {
        let found = self.stations.iter().find(|station| station.name == name);
        found.ok_or_else(|| CommandError::Bug(format!("the region has no machine `{name}`")))
    }

    /// Builds the frame that a station's server sends for a request, or for the reply to `request`
    /// addresses (source and destination of the request). Returns it with the gateway's port.
    fn request_frame(
        &self,
        from: &ScenarioStation,
        probe: &Probe,
        id: u16,
        reply: bool,
        request: Option<(IpAddr, IpAddr)>,
    ) -> Result<(u32, Vec<u8>), CommandError> {
        let bug = |what: &str| CommandError::Bug(format!("{} has no {what}", from.name));
        let to = probe.address();
        let own_address = from.addresses.iter().find(|own_address| own_address.is_ipv4() == to.is_ipv4());
        let addresses = match request {
            Some((source, destination)) => (destination, source),
            None => (*own_address.ok_or_else(|| bug("address of that family"))?, to),
        };
        let uplink = self.topology.uplinks_of(&from.host).next().ok_or_else(|| bug("uplink"))?;
        let vtep = self.topology.vtep_for(from.host_address).ok_or_else(|| bug("gateway of its family"))?;
        let outer_headers = OuterHeaders {
            macs: (uplink.host_mac.0, uplink.mac.0),
            addresses: (from.host_address, vtep),
            vni: from.sends_vni,
            inner_macs: (from.mac, self.topology.gateway.mac.0),
        };
        let message = ProbeMessage { method: probe.method, id, reply, addresses };
        Ok((uplink.port, frame::build_frame(&message, &outer_headers)?))
    }

    /// Returns the station that receives a frame sent on a port. Tunnel end point, VNI, MAC and
    /// address must all match.
    fn receiver(&self, port: u32, arrived: &ReceivedProbe) -> Option<&ScenarioStation> {
        self.stations.iter().find(|station| {
            station.host_address == arrived.host
                && station.vni == arrived.vni
                && station.mac == arrived.mac
                && station.addresses.contains(&arrived.addresses.1)
                && self.topology.uplinks_of(&station.host).any(|uplink| uplink.port == port)
        })
    }

    /// Runs frames through the gateway, each with its ingress port. Returns the sent packets with
    /// their egress ports, and the statistics.
    fn run_frames(&self, frames: Vec<(u32, Vec<u8>)>) -> Result<(Vec<(u32, ReceivedProbe)>, RunSummary), CommandError> {
        let [input, output] = ["in", "out"].map(|name| self.work.file(name));
        for directory in [&input, &output] {
            let _ = std::fs::remove_dir_all(directory);
            std::fs::create_dir_all(directory).map_err(CommandError::system)?;
        }
        let mut by_port: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
        for (port, frame) in frames {
            by_port.entry(port).or_default().push(frame);
        }
        for (port, frames) in by_port {
            write_frames(&input.join(format!("{port}.pcap")), &frames)?;
        }
        let text = |path: &Path| path.display().to_string();
        let (input, region, output_text) = (text(&input), text(&self.work.region()), text(&output));
        let engine = self.engine.arguments();
        let mut arguments = vec!["run", "--json", "--region", &region, "--in-dir", &input, "--out-dir", &output_text];
        arguments.extend(engine.iter().map(String::as_str));
        let printed = run_self(self.program, &arguments, self.work.root())?;
        let stats: RunSummary = serde_json::from_str(&printed).map_err(|error| CommandError::Bug(error.to_string()))?;
        add_stats(&mut self.stats.borrow_mut(), &stats);
        let mut sent = Vec::new();
        for uplink in &self.topology.gateway.uplinks {
            let file: PathBuf = output.join(format!("{}.pcap", uplink.port));
            sent.extend(read_frames(&file)?.iter().filter_map(|frame| Some((uplink.port, frame::parse_frame(frame)?))));
        }
        Ok((sent, stats))
    }
}

/// Returns all stations of the scenario.
/// The last is a host of a VNI that no tenant has, on the first server.
fn stations(topology: &Topology) -> Vec<ScenarioStation> {
    let address_of = |server: &str| {
        topology.servers.iter().find(|candidate| candidate.name == server).map(|candidate| candidate.address)
    };
    let mut stations = Vec::new();
    for vm in &topology.vms {
        stations.extend(address_of(&vm.server).map(|host_address| ScenarioStation {
            name: vm.name.clone(),
            host: vm.server.clone(),
            host_address,
            mac: vm.mac.0,
            vni: vm.vni,
            sends_vni: vm.vni,
            addresses: vm.addresses.iter().map(|address| address.address.addr()).collect(),
        }));
    }
    for remote in &topology.remotes {
        stations.extend(remote.networks.iter().map(|network| ScenarioStation {
            name: remote.name.clone(),
            host: remote.name.clone(),
            host_address: remote.address,
            mac: remote.mac.0,
            vni: network.vni,
            sends_vni: network.returns.first().map_or(network.vni, |route| route.vni),
            addresses: network.addresses.clone(),
        }));
    }
    if let Some(first) = topology.servers.first() {
        stations.push(ScenarioStation {
            name: STRANGER.to_owned(),
            host: first.name.clone(),
            host_address: first.address,
            mac: [2, 0, 0, 0, 0, 0x99],
            vni: STRANGE_VNI,
            sends_vni: STRANGE_VNI,
            addresses: vec![IpAddr::from([10, 0, 0, 66])],
        });
    }
    stations
}

/// Returns the reason for a missing reply, from the statistics of the run.
fn missing_reply_reason(stats: &RunSummary) -> String {
    let drops = stats.drops.keys().map(|reason| format!("dropped: {reason}"));
    let punts = stats.to_cpu.keys().map(|reason| format!("to the CPU: {reason}"));
    let all: Vec<String> = drops.chain(punts).collect();
    if all.is_empty() { "sent to an unknown destination".to_owned() } else { all.join(", ") }
}

/// Adds the statistics of another run.
fn add_stats(all: &mut RunSummary, run: &RunSummary) {
    let plus = |sum: &mut Counter, count: &Counter| {
        sum.packets += count.packets;
        sum.bytes += count.bytes;
    };
    for (reason, count) in &run.drops {
        plus(all.drops.entry(reason.clone()).or_default(), count);
    }
    for (reason, count) in &run.to_cpu {
        plus(all.to_cpu.entry(reason.clone()).or_default(), count);
    }
    for cell in &run.counters {
        match all.counters.iter_mut().find(|one| one.counter == cell.counter && one.index == cell.index) {
            Some(one) => plus(&mut one.count, &cell.count),
            None => all.counters.push(CounterCell { count: cell.count, ..cell.clone() }),
        }
    }
}

fn write_frames(path: &Path, frames: &[Vec<u8>]) -> Result<(), CommandError> {
    let mut writer = CaptureWriter::create(path).map_err(CommandError::system)?;
    for (time, frame) in (1..).zip(frames) {
        let mut packet = Packet::from_bytes(frame).map_err(|error| CommandError::Bug(error.to_string()))?;
        packet.rx_time_ns = time * 1_000_000;
        writer.write(&packet).map_err(CommandError::system)?;
    }
    writer.flush().map_err(CommandError::system)
}

/// Reads the frames of a capture. Returns none if the file does not exist, because nothing was sent
/// on that port.
fn read_frames(path: &Path) -> Result<Vec<Vec<u8>>, CommandError> {
    let mut frames = Vec::new();
    if !path.exists() {
        return Ok(frames);
    }
    let mut reader = CaptureReader::open(path).map_err(CommandError::system)?;
    let mut packet = Packet::new();
    while let Record::Packet = reader.next(&mut packet).map_err(CommandError::system)? {
        frames.push(packet.bytes().to_vec());
    }
    Ok(frames)
}
