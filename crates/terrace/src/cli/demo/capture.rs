//! Runs the demo scenario from capture files to capture files with `terrace run`, for machines that
//! do not allow network namespaces.

use super::frame::{self, MessageKind, ProbeMessage, ReceivedProbe, TunnelHeaders};
use super::report::{ProbeResult, join_names};
use super::run_self;
use super::scenario::{ExpectedResult, Probe, ProbeGroup, STRANGE_VNI, STRANGER};
use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::CommandError;
use crate::lab::{Internet, Topology};
use crate::run_stats::RunSummary;
use io::capture::{CaptureReader, CaptureWriter, Record};
use node::status::CounterCell;
use packet::Counter;
use packet::Packet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// TCP source port, or ICMP identifier, of request 0. Request N uses this plus N.
const FIRST_PORT: u16 = 40000;

/// A VM that sends and receives through its server, a host behind a remote or in the Internet, or a server.
#[derive(Clone, Debug)]
struct ScenarioStation {
    name: String,
    /// Name of the server, remote or router on the gateway's uplink.
    host: String,
    /// Its tunnel, unless its packets are in none.
    tunnel: Option<StationTunnel>,
    addresses: Vec<IpAddr>,
}

/// Tunnel of a station.
#[derive(Clone, Copy, Debug)]
struct StationTunnel {
    /// Address of its end point.
    address: IpAddr,
    mac: [u8; 6],
    /// VNI that received packets must have.
    vni: u32,
    /// VNI of sent packets.
    sends_vni: u32,
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

    /// Sends the requests of probes, and then again with the replies of stations that received one, because
    /// the gateway knows connections only as long as a run. Returns for each probe the names of the
    /// replying stations, or the reason for no reply.
    fn exchange(&self, probes: &[&Probe]) -> Result<Vec<String>, CommandError> {
        let (mut frames, mut senders) = (Vec::new(), Vec::new());
        for (index, probe) in probes.iter().enumerate() {
            for _ in 0..probe.method.requests() {
                let sender = self.station(probe.from)?;
                let id = u16::try_from(senders.len()).map_err(|error| CommandError::Bug(error.to_string()))?;
                frames.push(self.frame(sender, &request(sender, probe, id)?)?);
                senders.push((index, sender));
            }
        }
        let (received, mut stats) = self.run_frames(&frames)?;
        let mut outcomes: Vec<String> = senders.iter().map(|_| missing_reply_reason(&stats)).collect();
        let mut responders: BTreeMap<u16, String> = BTreeMap::new();
        for (port, request) in received.iter().filter(|(_, request)| !request.message.reply) {
            let (id, Some(station)) = (request.message.id, self.receiver(*port, request)) else { continue };
            let Some(outcome) = outcomes.get_mut(usize::from(id)) else { continue };
            frames.push(self.frame(station, &request.message.reply())?);
            responders.insert(id, station.name.clone());
            *outcome = format!("{}, but no answer comes back", station.name);
        }
        if !responders.is_empty() {
            let (returned, of_both) = self.run_frames(&frames)?;
            stats = of_both;
            for (port, reply) in returned.iter().filter(|(_, reply)| reply.message.reply) {
                let id = usize::from(reply.message.id);
                let got_by = self.receiver(*port, reply).map(|station| &station.name);
                let sender = senders.get(id).map(|(_, sender)| &sender.name);
                if let (true, Some(name)) = (got_by == sender, responders.get(&reply.message.id)) {
                    outcomes[id].clone_from(name);
                }
            }
        }
        add_stats(&mut self.stats.borrow_mut(), &stats);
        let of_probe = |index: usize| {
            let requests = senders.iter().zip(&outcomes).filter(move |((of, _), _)| *of == index);
            join_names(requests.map(|(_, outcome)| outcome.as_str()))
        };
        Ok((0..probes.len()).map(of_probe).collect())
    }

    fn station(&self, name: &str) -> Result<&ScenarioStation, CommandError> {
        let found = self.stations.iter().find(|station| station.name == name);
        found.ok_or_else(|| CommandError::Bug(format!("the region has no machine `{name}`")))
    }

    /// Builds the frame by which a station's message comes to the gateway. Returns it with the gateway's port.
    fn frame(&self, from: &ScenarioStation, message: &ProbeMessage) -> Result<(u32, Vec<u8>), CommandError> {
        let bug = |what: &str| CommandError::Bug(format!("{} has no {what}", from.name));
        let uplink = self.topology.uplinks_of(&from.host).next().ok_or_else(|| bug("uplink"))?;
        let tunnel = |of: &StationTunnel| -> Result<TunnelHeaders, CommandError> {
            let vtep = self.topology.vtep_for(of.address).ok_or_else(|| bug("gateway of its family"))?;
            let inner_macs = (of.mac, self.topology.gateway.mac.0);
            Ok(TunnelHeaders { addresses: (of.address, vtep), vni: of.sends_vni, inner_macs })
        };
        let tunnel = from.tunnel.as_ref().map(tunnel).transpose()?;
        let macs = (uplink.host_mac.0, uplink.mac.0);
        Ok((uplink.port, frame::build_frame(message, macs, tunnel.as_ref())?))
    }

    /// Returns the station that receives a frame sent on a port. Tunnel end point, VNI, MAC and
    /// address must all match.
    fn receiver(&self, port: u32, arrived: &ReceivedProbe) -> Option<&ScenarioStation> {
        let same_tunnel = |station: &ScenarioStation| match (&station.tunnel, &arrived.tunnel) {
            (Some(its), Some(of_frame)) => {
                its.address == of_frame.host && its.vni == of_frame.vni && its.mac == of_frame.mac
            }
            (None, None) => true,
            _ => false,
        };
        self.stations.iter().find(|station| {
            same_tunnel(station)
                && station.addresses.contains(&arrived.message.addresses.1)
                && self.topology.uplinks_of(&station.host).any(|uplink| uplink.port == port)
        })
    }

    /// Runs frames through the gateway in this order, each with its ingress port. Returns the sent packets
    /// with their egress ports, and the statistics.
    fn run_frames(&self, frames: &[(u32, Vec<u8>)]) -> Result<(Vec<(u32, ReceivedProbe)>, RunSummary), CommandError> {
        let [input, output] = ["in", "out"].map(|name| self.work.file(name));
        for directory in [&input, &output] {
            let _ = std::fs::remove_dir_all(directory);
            std::fs::create_dir_all(directory).map_err(CommandError::system)?;
        }
        let mut by_port: BTreeMap<u32, Vec<(u64, &[u8])>> = BTreeMap::new();
        for (time, (port, frame)) in (1..).zip(frames) {
            by_port.entry(*port).or_default().push((time, frame.as_slice()));
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
        let mut sent = Vec::new();
        for uplink in &self.topology.gateway.uplinks {
            let file: PathBuf = output.join(format!("{}.pcap", uplink.port));
            sent.extend(read_frames(&file)?.iter().filter_map(|frame| Some((uplink.port, frame::parse_frame(frame)?))));
        }
        Ok((sent, stats))
    }
}

/// Returns all stations of the scenario: VMs, hosts behind remotes and in the Internet, servers, and a host
/// of a VNI that no tenant has, on the first server.
fn stations(topology: &Topology) -> Vec<ScenarioStation> {
    let address_of = |server: &str| {
        topology.servers.iter().find(|candidate| candidate.name == server).map(|candidate| candidate.address)
    };
    let mut stations = Vec::new();
    for vm in &topology.vms {
        stations.extend(address_of(&vm.server).map(|address| ScenarioStation {
            name: vm.name.clone(),
            host: vm.server.clone(),
            tunnel: Some(StationTunnel { address, mac: vm.mac.0, vni: vm.vni, sends_vni: vm.vni }),
            addresses: vm.addresses.iter().map(|address| address.address.addr()).collect(),
        }));
    }
    for remote in &topology.remotes {
        stations.extend(remote.networks.iter().map(|network| ScenarioStation {
            name: remote.name.clone(),
            host: remote.name.clone(),
            tunnel: Some(StationTunnel {
                address: remote.address,
                mac: remote.mac.0,
                vni: network.vni,
                sends_vni: network.returns.first().map_or(network.vni, |route| route.vni),
            }),
            addresses: network.addresses.clone(),
        }));
    }
    if let Some(internet) = &topology.internet {
        stations.push(ScenarioStation {
            name: Internet::HOST.to_owned(),
            host: Internet::ROUTER.to_owned(),
            tunnel: None,
            addresses: std::iter::once(internet.host).chain(internet.over_v6.map(|[_, host]| host)).collect(),
        });
    }
    stations.extend(topology.servers.iter().map(|server| ScenarioStation {
        name: server.name.clone(),
        host: server.name.clone(),
        tunnel: None,
        addresses: vec![server.address],
    }));
    if let Some(first) = topology.servers.first() {
        let (address, mac) = (first.address, [2, 0, 0, 0, 0, 0x99]);
        stations.push(ScenarioStation {
            name: STRANGER.to_owned(),
            host: first.name.clone(),
            tunnel: Some(StationTunnel { address, mac, vni: STRANGE_VNI, sends_vni: STRANGE_VNI }),
            addresses: vec![IpAddr::from([10, 0, 0, 66])],
        });
    }
    stations
}

/// Returns a request of a probe, with its number.
fn request(sender: &ScenarioStation, probe: &Probe, id: u16) -> Result<ProbeMessage, CommandError> {
    let to = probe.address();
    let own_address = sender.addresses.iter().find(|own_address| own_address.is_ipv4() == to.is_ipv4());
    let own_address =
        own_address.ok_or_else(|| CommandError::Bug(format!("{} has no address of that family", sender.name)))?;
    let own_port = FIRST_PORT + id;
    let (kind, ports) = match probe.method.port() {
        None => (MessageKind::Echo, (own_port, own_port)),
        Some(port) => (MessageKind::Tcp, (own_port, port)),
    };
    Ok(ProbeMessage { kind, id, reply: false, addresses: (*own_address, to), ports })
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

/// Writes frames with their times, in milliseconds.
fn write_frames(path: &Path, frames: &[(u64, &[u8])]) -> Result<(), CommandError> {
    let mut writer = CaptureWriter::create(path).map_err(CommandError::system)?;
    for (time, frame) in frames {
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
