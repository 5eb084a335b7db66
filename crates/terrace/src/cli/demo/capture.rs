//! The scenario from capture file to capture file, with `terrace run`: for machines that allow no network namespaces.

use super::frame::{self, Arrived, Envelope, Message};
use super::report::ProbeResult;
use super::run_self;
use super::scenario::{Expected, Group, Probe, STRANGE_VNI, STRANGER};
use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::Failure;
use crate::lab::Topology;
use crate::run_stats::Stats;
use io::capture::{CaptureReader, CaptureWriter, Record};
use node::status::CounterCell;
use packet::Counter;
use packet::Packet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A machine that sends and gets packets through its server, or a host behind a remote.
#[derive(Clone, Debug)]
struct Station {
    name: String,
    /// The server or remote.
    host: String,
    host_address: IpAddr,
    mac: [u8; 6],
    /// The VNI with which packets must arrive.
    vni: u32,
    /// The VNI with which it sends.
    sends_vni: u32,
    addresses: Vec<IpAddr>,
}

/// The scenario's stations and what the gateway counted so far.
pub struct Captures<'a> {
    program: &'a Path,
    engine: &'a EngineArgs,
    work: &'a WorkDir,
    stop: &'a AtomicBool,
    topology: Topology,
    stations: Vec<Station>,
    stats: std::cell::RefCell<Stats>,
}

impl<'a> Captures<'a> {
    /// Prepares the scenario.
    pub fn new(
        program: &'a Path,
        engine: &'a EngineArgs,
        work: &'a WorkDir,
        stop: &'a AtomicBool,
    ) -> Result<Captures<'a>, Failure> {
        let region = region::load(&work.region()).map_err(Failure::refused)?;
        let topology = Topology::from_region("demo", &region).map_err(Failure::system)?;
        let stations = stations(&topology);
        Ok(Captures { program, engine, work, stop, topology, stations, stats: Default::default() })
    }

    /// What the gateway counted in all runs so far.
    pub fn stats(&self) -> Stats {
        self.stats.borrow().clone()
    }

    /// What is to pass is sent all at once; the rest one by one, so that each has its own counts.
    pub fn try_all(&self, groups: &[Group]) -> Result<Vec<ProbeResult>, Failure> {
        let probes: Vec<(&'static str, &Probe)> =
            groups.iter().flat_map(|group| group.probes.iter().map(|probe| (group.title, probe))).collect();
        let together = probes.iter().all(|(_, probe)| matches!(probe.expected, Expected::Reaches(_)));
        let mut results = Vec::new();
        for some in probes.chunks(if together { probes.len() } else { 1 }) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::stopped());
            }
            let attempted: Vec<&Probe> = some.iter().map(|(_, probe)| *probe).collect();
            let got = self.exchange(&attempted)?;
            results.extend(some.iter().zip(got).map(|((group, probe), got)| ProbeResult::new(group, probe, got, None)));
        }
        Ok(results)
    }

    /// Sends requests; whoever gets one answers; says for each who answered, or why not.
    fn exchange(&self, probes: &[&Probe]) -> Result<Vec<String>, Failure> {
        let mut requests = Vec::new();
        for (id, probe) in (0..).zip(probes) {
            let from = self.station(probe.from)?;
            requests.push(self.sent(from, probe, id, false, None)?);
        }
        let (arrived, stats) = self.run(requests)?;
        let mut got: Vec<String> = probes.iter().map(|_| why_not(&stats)).collect();
        let mut replies = Vec::new();
        let mut answering = BTreeMap::new();
        for (port, one) in arrived.iter().filter(|(_, one)| !one.reply) {
            let (Some(probe), Some(station)) = (probes.get(usize::from(one.id)), self.receiver(*port, one)) else {
                continue;
            };
            replies.push(self.sent(station, probe, one.id, true, Some(one.addresses))?);
            answering.insert(one.id, station.name.clone());
            got[usize::from(one.id)] = format!("{}, but no answer comes back", station.name);
        }
        if !replies.is_empty() {
            let (returned, _) = self.run(replies)?;
            for (port, one) in returned.iter().filter(|(_, one)| one.reply) {
                let back = self.receiver(*port, one).map(|station| station.name.as_str());
                let probe = probes.get(usize::from(one.id));
                if let (true, Some(name)) = (back == probe.map(|probe| probe.from), answering.get(&one.id)) {
                    got[usize::from(one.id)].clone_from(name);
                }
            }
        }
        Ok(got)
    }

    fn station(&self, name: &str) -> Result<&Station, Failure> {
        let found = self.stations.iter().find(|station| station.name == name);
        found.ok_or_else(|| Failure::Bug(format!("the region has no machine `{name}`")))
    }

    /// The frame by which a station's server sends a request, or the answer to one with these addresses; and the gateway's port.
    fn sent(
        &self,
        from: &Station,
        probe: &Probe,
        id: u16,
        reply: bool,
        request: Option<(IpAddr, IpAddr)>,
    ) -> Result<(u32, Vec<u8>), Failure> {
        let bug = |what: &str| Failure::Bug(format!("{} has no {what}", from.name));
        let to = probe.address();
        let own = from.addresses.iter().find(|own| own.is_ipv4() == to.is_ipv4());
        let addresses = match request {
            Some((source, destination)) => (destination, source),
            None => (*own.ok_or_else(|| bug("address of that family"))?, to),
        };
        let uplink = self.topology.uplinks_of(&from.host).next().ok_or_else(|| bug("uplink"))?;
        let vtep = self.topology.vtep_for(from.host_address).ok_or_else(|| bug("gateway of its family"))?;
        let envelope = Envelope {
            macs: (uplink.host_mac.0, uplink.mac.0),
            addresses: (from.host_address, vtep),
            vni: from.sends_vni,
            inner_macs: (from.mac, self.topology.gateway.mac.0),
        };
        let message = Message { means: probe.means, id, reply, addresses };
        Ok((uplink.port, frame::build(&message, &envelope)?))
    }

    /// Whose a frame is that left on a port: by tunnel end point, VNI, MAC and address, all of which must fit.
    fn receiver(&self, port: u32, arrived: &Arrived) -> Option<&Station> {
        self.stations.iter().find(|station| {
            station.host_address == arrived.host
                && station.vni == arrived.vni
                && station.mac == arrived.mac
                && station.addresses.contains(&arrived.addresses.1)
                && self.topology.uplinks_of(&station.host).any(|uplink| uplink.port == port)
        })
    }

    /// Runs frames, each with the port on which it comes in; what left, with its port.
    fn run(&self, frames: Vec<(u32, Vec<u8>)>) -> Result<(Vec<(u32, Arrived)>, Stats), Failure> {
        let [input, output] = ["in", "out"].map(|name| self.work.file(name));
        for directory in [&input, &output] {
            let _ = std::fs::remove_dir_all(directory);
            std::fs::create_dir_all(directory).map_err(Failure::system)?;
        }
        let mut by_port: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
        for (port, frame) in frames {
            by_port.entry(port).or_default().push(frame);
        }
        for (port, frames) in by_port {
            write(&input.join(format!("{port}.pcap")), &frames)?;
        }
        let text = |path: &Path| path.display().to_string();
        let (input, region, output_text) = (text(&input), text(&self.work.region()), text(&output));
        let engine = self.engine.arguments();
        let mut arguments = vec!["run", "--json", "--region", &region, "--in-dir", &input, "--out-dir", &output_text];
        arguments.extend(engine.iter().map(String::as_str));
        let printed = run_self(self.program, &arguments, self.work.root())?;
        let stats: Stats = serde_json::from_str(&printed).map_err(|error| Failure::Bug(error.to_string()))?;
        add(&mut self.stats.borrow_mut(), &stats);
        let mut left = Vec::new();
        for uplink in &self.topology.gateway.uplinks {
            let file: PathBuf = output.join(format!("{}.pcap", uplink.port));
            left.extend(read(&file)?.iter().filter_map(|frame| Some((uplink.port, frame::read(frame)?))));
        }
        Ok((left, stats))
    }
}

/// All who take part.
fn stations(topology: &Topology) -> Vec<Station> {
    let address_of = |server: &str| topology.servers.iter().find(|one| one.name == server).map(|one| one.address);
    let mut all = Vec::new();
    for vm in &topology.vms {
        all.extend(address_of(&vm.server).map(|host_address| Station {
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
        all.extend(remote.networks.iter().map(|network| Station {
            name: remote.name.clone(),
            host: remote.name.clone(),
            host_address: remote.address,
            mac: remote.mac.0,
            vni: network.vni,
            sends_vni: network.returns.first().map_or(network.vni, |back| back.vni),
            addresses: network.addresses.clone(),
        }));
    }
    if let Some(first) = topology.servers.first() {
        all.push(Station {
            name: STRANGER.to_owned(),
            host: first.name.clone(),
            host_address: first.address,
            mac: [2, 0, 0, 0, 0, 0x99],
            vni: STRANGE_VNI,
            sends_vni: STRANGE_VNI,
            addresses: vec![IpAddr::from([10, 0, 0, 66])],
        });
    }
    all
}

/// Why nobody got what was sent, by the counts of the run.
fn why_not(stats: &Stats) -> String {
    let drops = stats.drops.keys().map(|reason| format!("dropped: {reason}"));
    let punts = stats.to_cpu.keys().map(|reason| format!("to the CPU: {reason}"));
    let all: Vec<String> = drops.chain(punts).collect();
    if all.is_empty() { "sent to nobody who is there".to_owned() } else { all.join(", ") }
}

/// Adds the counts of another run.
fn add(all: &mut Stats, run: &Stats) {
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

fn write(path: &Path, frames: &[Vec<u8>]) -> Result<(), Failure> {
    let mut writer = CaptureWriter::create(path).map_err(Failure::system)?;
    for (time, frame) in (1..).zip(frames) {
        let mut packet = Packet::from_bytes(frame).map_err(|error| Failure::Bug(error.to_string()))?;
        packet.received_at = time * 1_000_000;
        writer.write(&packet).map_err(Failure::system)?;
    }
    writer.flush().map_err(Failure::system)
}

/// The frames of a capture; none if the file is not there, as nothing left on that port.
fn read(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let mut frames = Vec::new();
    if !path.exists() {
        return Ok(frames);
    }
    let mut reader = CaptureReader::open(path).map_err(Failure::system)?;
    let mut packet = Packet::new();
    while let Record::Packet = reader.next(&mut packet).map_err(Failure::system)? {
        frames.push(packet.bytes().to_vec());
    }
    Ok(frames)
}
