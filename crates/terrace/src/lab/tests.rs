//! Tests of labs with a small substitute for the gateway. They test the lab itself, not the
//! gateway.
//!
//! Tests that need namespaces are skipped with a message where these are not allowed; `--nocapture`
//! shows it.

use super::*;
use packet::{
    Batch, BatchOutput, DropReason, Engine, EngineReason, Packet, PacketRef, PortId, PortReason, ReasonId, ReasonTable,
};
use region::{ResolvedRegion, RouteTarget};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(super) const REGION: &str = r#"
region: test
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1, "2001:db8::1"]}
uplinks:
  - {name: u1, port: 1, mac: 02:00:00:01:00:01, peer_mac: 02:00:00:01:00:02}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, peer_mac: 02:00:00:02:00:02}
  - {name: u3, port: 3, mac: 02:00:00:03:00:01, peer_mac: 02:00:00:03:00:02}
  - {name: u4, port: 7, mac: 02:00:00:04:00:01, peer_mac: 02:00:00:04:00:02}
servers:
  - {name: s1, address: 192.0.2.11, uplinks: [u1]}
  - {name: s2, address: "2001:db8::12", uplinks: [u2, u3]}
remotes:
  - {name: hq, kind: idc, address: 198.51.100.10, vni: 5000, mac: 02:00:00:00:50:01, uplinks: [u4]}
vpcs:
  - name: red
    vni: 100
    subnets: [10.0.0.0/24, 10.0.1.0/24, "fd00:100::/64"]
    routes: [{to: 172.16.0.0/16, remote: hq}, {to: "fd00:5000::/64", remote: hq}]
  - {name: blue, vni: 200, subnets: [10.0.0.0/24, "fd00:100::/64"]}
vms:
  - {name: red-a, vpc: red, server: s1, mac: 02:00:00:10:00:0a, addresses: [10.0.0.1, "fd00:100::11"]}
  - {name: red-b, vpc: red, server: s2, mac: 02:00:00:10:00:0b, addresses: [10.0.0.12, "fd00:100::12"]}
  - {name: red-c, vpc: red, server: s1, mac: 02:00:00:10:00:0c, addresses: [10.0.1.13]}
  - {name: blue-a, vpc: blue, server: s1, mac: 02:00:00:20:00:0a, addresses: [10.0.0.1, "fd00:100::11"]}
  - {name: blue-b, vpc: blue, server: s2, mac: 02:00:00:20:00:0b, addresses: [10.0.0.12, "fd00:100::12"]}
"#;

fn region() -> ResolvedRegion {
    region::parse("test.yaml", REGION).unwrap_or_else(|problems| panic!("{problems}"))
}

pub(super) fn topology() -> Topology {
    Topology::from_region("test", &region()).unwrap()
}

/// Returns a topology with a name that no other test uses, or `None` with a message where labs are
/// not possible.
fn fresh() -> Option<Topology> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if let Err(error) = permitted() {
        println!("SKIPPED: {error}");
        return None;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("t{}x{number}", std::process::id());
    Some(Topology { name, ..topology() })
}

fn build(topology: &Topology) -> Lab {
    up(topology.clone(), &AtomicBool::new(false), &mut |_, _| {}).unwrap()
}

/// Returns everything that exists of a lab.
fn traces(topology: &Topology) -> Vec<String> {
    let prefix = format!("{}-", topology.name);
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut found: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    found.retain(|name| name.starts_with(&prefix));
    found.extend(running_labs().into_iter().filter(|name| *name == topology.name));
    found
}

// ---- the gateway substitute --------------------------------------------------------------------

/// Forwards well-formed packets as the gateway does: looks up the VPC by VNI, the route, and the
/// tunnel end point, and sends the packet there.
struct StandIn {
    count: usize,
    region: ResolvedRegion,
    topology: Topology,
}

/// Destination of a packet.
struct TestDestination {
    host: String,
    address: IpAddr,
    vni: u32,
    mac: [u8; 6],
}

const NO_VXLAN: ReasonId = ReasonId(1);
const NO_ROUTE: ReasonId = ReasonId(2);

impl Engine for StandIn {
    fn name(&self) -> &str {
        "stand-in"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed_mut() {
            self.one(reference, packet, out);
        }
    }
}

impl StandIn {
    fn one(&mut self, reference: PacketRef, packet: &mut Packet, out: &mut BatchOutput) {
        let Some((outer, vni, to)) = tenant_packet(packet.bytes()) else {
            return out.drop(reference, DropReason::Program(NO_VXLAN));
        };
        let Some(onward) = self.onward(vni, to) else {
            return out.drop(reference, DropReason::Program(NO_ROUTE));
        };
        let uplinks: Vec<&Uplink> = self.topology.uplinks_of(&onward.host).collect();
        // Uses the uplinks of a host in turn, so that all are tested.
        let uplink = uplinks[self.count % uplinks.len()];
        self.count += 1;
        let inner = &mut packet.bytes_mut()[outer..];
        inner[..6].copy_from_slice(&onward.mac);
        inner[6..12].copy_from_slice(&self.topology.gateway.mac.0);
        let mut vxlan = vec![8, 0, 0, 0];
        vxlan.extend_from_slice(&(onward.vni << 8).to_be_bytes());
        let payload = [&vxlan, &packet.bytes()[outer..]].concat();
        let builder = etherparse::PacketBuilder::ethernet2(uplink.mac.0, uplink.host_mac.0);
        let mut frame = Vec::new();
        let written = match (self.topology.vtep_for(onward.address), onward.address) {
            (Some(IpAddr::V4(vtep)), IpAddr::V4(host)) => {
                builder.ipv4(vtep.octets(), host.octets(), 64).udp(50000, 4789).write(&mut frame, &payload)
            }
            (Some(IpAddr::V6(vtep)), IpAddr::V6(host)) => {
                builder.ipv6(vtep.octets(), host.octets(), 64).udp(50000, 4789).write(&mut frame, &payload)
            }
            _ => return out.drop(reference, DropReason::Program(NO_ROUTE)),
        };
        written.unwrap();
        // No UDP checksum, over IPv6 too, as in the gateway.
        let udp = if onward.address.is_ipv4() { 34 } else { 54 };
        frame[udp + 6..udp + 8].fill(0);
        match packet.set_bytes(&frame) {
            Ok(()) => out.forward(reference, PortId(uplink.port)),
            Err(_) => out.drop(reference, EngineReason::PacketTooLong.into()),
        }
    }

    fn onward(&self, vni: u32, to: IpAddr) -> Option<TestDestination> {
        let file = &self.region.file;
        let vpc = file.vpcs.iter().position(|vpc| vpc.vni.value == vni)?;
        let routes = self.region.tables[vpc][0].iter().filter(|route| route.prefix.contains(&to));
        match routes.max_by_key(|route| route.prefix.prefix_len())?.target {
            RouteTarget::Vpc(vpc) => {
                let vni = file.vpcs[vpc].vni.value;
                let has = |vm: &&Vm| vm.vni == vni && vm.addresses.iter().any(|address| address.address.addr() == to);
                let vm = self.topology.vms.iter().find(has)?;
                let server = self.topology.servers.iter().find(|server| server.name == vm.server)?;
                Some(TestDestination { host: server.name.clone(), address: server.address, vni, mac: vm.mac.0 })
            }
            RouteTarget::Remote(remote, vni) => {
                let remote = &self.topology.remotes[remote];
                Some(TestDestination { host: remote.name.clone(), address: remote.address, vni, mac: remote.mac.0 })
            }
            _ => None,
        }
    }
}

/// Returns the offset of the inner frame, the VNI, and the inner destination.
fn tenant_packet(bytes: &[u8]) -> Option<(usize, u32, IpAddr)> {
    let udp = match bytes.get(12..14)? {
        [0x08, 0x00] => 34,
        [0x86, 0xdd] => 54,
        _ => return None,
    };
    let vxlan = bytes.get(udp + 8..udp + 16)?;
    let vni = u32::from_be_bytes([0, vxlan[4], vxlan[5], vxlan[6]]);
    let inner = bytes.get(udp + 16..)?;
    let to: IpAddr = match inner.get(12..14)? {
        [0x08, 0x00] => <[u8; 4]>::try_from(inner.get(30..34)?).ok()?.into(),
        [0x86, 0xdd] => <[u8; 16]>::try_from(inner.get(38..54)?).ok()?.into(),
        _ => return None,
    };
    (bytes.get(udp + 2..udp + 4)? == 4789u16.to_be_bytes()).then_some((udp + 16, vni, to))
}

/// Opens each of the gateway's interfaces as a port, numbered as in the region file.
fn open_ports(topology: &Topology) -> Vec<io::AttachedPort> {
    // No huge pages, because the kernel behind these interfaces limits the speed.
    let eal = io::dpdk::EalOptions { huge_pages: io::dpdk::HugePages::Avoid, ..Default::default() };
    let options = io::dpdk::DpdkOptions { eal, ..Default::default() };
    let namespace = io::Namespace::open(&topology.gateway_namespace()).unwrap();
    let open = |number: u32| {
        let opened = io::open_port(&format!("port{number}"), io::PortKind::Auto, &options).unwrap();
        assert_eq!(opened.note, None);
        io::AttachedPort { id: packet::PortId(number), port: opened.port }
    };
    namespace.run(|| topology.gateway.uplinks.iter().map(|uplink| open(uplink.port)).collect()).unwrap()
}

/// Lab with its gateway running on a thread.
struct Running {
    lab: Lab,
    stop: Arc<AtomicBool>,
    gateway: std::thread::JoinHandle<io::RunStats>,
}

impl Running {
    fn start(topology: &Topology) -> Running {
        let lab = build(topology);
        let mut runner = io::Runner::new(open_ports(topology)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let mut engine = StandIn { count: 0, region: region(), topology: topology.clone() };
        let gateway = std::thread::spawn(move || {
            let mut on_tick = |_: &mut StandIn, _: &io::RunStats| ControlFlow::Continue(());
            runner.run(&mut engine, &flag, &mut on_tick).unwrap().clone()
        });
        Running { lab, stop, gateway }
    }

    /// Ends the gateway and removes the lab.
    fn end(self) -> io::RunStats {
        self.stop.store(true, Ordering::Relaxed);
        let report = self.gateway.join().unwrap();
        let topology = self.lab.topology().clone();
        assert_eq!(self.lab.down().unwrap().namespaces.len(), topology.namespaces().len());
        assert_eq!(traces(&topology), [""; 0]);
        report
    }
}

// ---- traffic -----------------------------------------------------------------------------------

#[test]
fn whoever_should_reach_whom_does_and_nobody_else() {
    let Some(topology) = fresh() else { return };
    let running = Running::start(&topology);
    let vpc = |endpoint: &Endpoint| endpoint.vpc.clone().unwrap_or_else(|| "red".into());
    let endpoints = topology.endpoints();
    let mut pings = Vec::new();
    let mut expected = Vec::new();
    for from in &endpoints {
        for to in &endpoints {
            for address in &to.addresses {
                // An address of another VPC that also exists in the sender's VPC belongs to a
                // different VM. red-c has no IPv6.
                let same_family = from.addresses.iter().any(|own| own.is_ipv4() == address.is_ipv4());
                if from == to || (vpc(from) != vpc(to)) || !same_family {
                    continue;
                }
                expected.push(format!("{} -> {address}", from.name));
                pings.push(Ping { count: 1, ..Ping::new(&from.namespace, *address) });
            }
        }
    }
    assert!(pings.len() > 20);
    let outcomes = ping_all(&pings, &mut |_, _| {}).unwrap();
    let failed: Vec<&String> =
        expected.iter().zip(&outcomes).filter(|(_, outcome)| !outcome.lossless()).map(|(what, _)| what).collect();
    assert_eq!(failed, [""; 0], "these were to reach");

    let blue = topology.endpoint("blue-a").unwrap().namespace;
    for nowhere in ["172.16.0.10", "10.0.1.13", "fd00:5000::a"] {
        assert!(
            !ping(&Ping { count: 1, ..Ping::new(&blue, nowhere.parse().unwrap()) }).unwrap().reached(),
            "{nowhere}"
        );
    }
    let report = running.end();
    assert_eq!(report.engine.drops.get(DropReason::Program(NO_ROUTE)).packets, 3, "those three");
    assert_eq!(report.drops().total().packets, 3, "and no noise: {:?}", report.drops());
    let used: BTreeSet<u32> =
        report.ports.iter().filter(|(_, (_, port))| port.sent.packets > 0).map(|(id, _)| id.0).collect();
    assert_eq!(used, BTreeSet::from([1, 2, 3, 7]), "s2 takes packets from both its uplinks");
}

#[test]
fn full_packets_and_tcp_pass_without_loss() {
    let Some(topology) = fresh() else { return };
    let running = Running::start(&topology);
    let namespace = |name: &str| topology.endpoint(name).unwrap().namespace;
    // 20 and 40 bytes of IP header and 8 of ICMP make 1500.
    for (to, size) in [("10.0.0.12", 1472), ("fd00:100::12", 1452), ("172.16.0.10", 1472)] {
        let full = Ping { size: Some(size), ..Ping::new(namespace("red-a"), to.parse().unwrap()) };
        assert!(ping(&full).unwrap().lossless(), "{to}");
        let too_large = Ping { size: Some(size + 1), count: 1, ..full };
        assert!(!ping(&too_large).unwrap().reached(), "{to}");
    }
    let content: Vec<u8> = (0..4 << 20).map(|index: u32| (index % 251) as u8).collect();
    for (server, client, address) in [("red-b", "red-a", "10.0.0.12:80"), ("blue-a", "blue-b", "[fd00:100::11]:80")] {
        let inside = |name: &str| io::Namespace::open(&namespace(name)).unwrap();
        let listener = inside(server).run(|| TcpListener::bind(address).unwrap()).unwrap();
        let receiver = std::thread::spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        inside(client).run(|| TcpStream::connect(address).unwrap().write_all(&content).unwrap()).unwrap();
        assert!(receiver.join().unwrap() == content, "{address}");
    }
    let report = running.end();
    assert_eq!(report.drops().get(PortReason::RxSegmentationOffload).packets, 0);
    assert_eq!(report.drops().total().packets, 0, "{:?}", report.drops());
}

// ---- building and removing ---------------------------------------------------------------------

#[test]
fn being_stopped_half_way_leaves_nothing() {
    let Some(topology) = fresh() else { return };
    let stop = AtomicBool::new(false);
    let outcome = up(topology.clone(), &stop, &mut |done, all| {
        assert!(done <= 150 && all > 200);
        stop.store(done == 150, Ordering::Relaxed);
        if done == 150 {
            assert!(traces(&topology).len() > 10);
        }
    });
    assert!(matches!(outcome, Err(LabError::Stopped)));
    assert_eq!(traces(&topology), [""; 0]);
}

#[test]
fn a_step_that_fails_leaves_nothing_and_names_the_command() {
    let Some(mut topology) = fresh() else { return };
    // Passes the checks, but the kernel rejects a group address.
    topology.vms[4].mac = Mac([1, 0, 0, 0, 0, 0]);
    let error = up(topology.clone(), &AtomicBool::new(false), &mut |_, _| {}).unwrap_err();
    let LabError::Command { command, .. } = &error else { panic!("{error}") };
    assert!(command.contains("01:00:00:00:00:00"), "{error}");
    assert_eq!(traces(&topology), [""; 0]);
}

#[test]
fn a_lab_is_not_built_twice_and_its_name_protects_it() {
    let Some(topology) = fresh() else { return };
    let lab = build(&topology);
    let error = up(topology.clone(), &AtomicBool::new(false), &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("terrace lab down"), "{error}");
    assert!(status(&topology.name).unwrap().healthy(), "the lab that is up was not touched");
    drop(lab);
    assert_eq!(traces(&topology), [""; 0]);
    assert!(matches!(status(&topology.name), Err(LabError::NotUp { .. })));
}

#[test]
fn down_works_after_a_crash_ends_processes_and_spares_others() {
    let Some(topology) = fresh() else { return };
    build(&topology).keep();
    let foreign = format!("{}-foreign", topology.name);
    assert!(command::run(command::program("ip", &["netns", "add", &foreign])).is_ok());
    let mut sleeper = exec(&topology.namespace_of("red-a"), "sleep", &["1000"]).spawn().unwrap();
    let mut gateway = command::program("sleep", &["1000"]).spawn().unwrap();
    LabState::set_gateway(&topology.name, Some(Process::with_id(gateway.id()).unwrap())).unwrap();
    assert_eq!(status(&topology.name).unwrap().gateway, Some(gateway.id()));

    let removed = down(&topology.name).unwrap();
    assert_eq!(removed.processes, 2);
    assert!(!sleeper.wait().unwrap().success() && !gateway.wait().unwrap().success());
    assert_eq!(traces(&topology), [foreign.as_str()], "only what is marked as the lab's");

    // The state file is removed too, as if it had been lost.
    let again = Topology { vms: Vec::new(), ..topology.clone() };
    build(&again).keep();
    LabState::remove(&topology.name).unwrap();
    assert!(!down(&topology.name).unwrap().namespaces.is_empty());
    assert_eq!(down(&topology.name).unwrap(), RemovedLab::default(), "nothing left is nothing to do");
    command::run(command::program("ip", &["netns", "del", &foreign])).unwrap();
    assert_eq!(traces(&topology), [""; 0]);
}

#[test]
fn a_process_that_ended_is_not_alive_before_its_parent_waits_for_it() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let process = Process::with_id(child.id()).unwrap();
    assert!(process.alive());
    child.kill().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while process.alive() {
        assert!(std::time::Instant::now() < deadline, "it still counts as alive");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(Process::with_id(child.id()), None);
    child.wait().unwrap();
}
