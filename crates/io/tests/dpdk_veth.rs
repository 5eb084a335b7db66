//! Tests DPDK on network interfaces (AF_PACKET, AF_XDP on veth pairs in a namespace of each test),
//! on vhost, between two processes over memif, and the messages for missing devices.
//!
//! Needs root, and DPDK at build time. Otherwise each test reports that it was skipped;
//! `--nocapture` shows it.

mod support;

use io::dpdk::{BUILT_IN, DpdkOptions, DpdkPort, EalOptions, HugePages};
use io::{AttachedPort, Port, PortError, PortFault, PortKind, RawPort, RunHooks, RunStats, Runner, open_port};
use packet::*;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket as unix_socket};
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use support::{Namespaces, Wire, sh};

fn options() -> DpdkOptions {
    DpdkOptions { eal: EalOptions { huge_pages: HugePages::Avoid, memory_mb: 384 }, ..DpdkOptions::default() }
}

/// Initialises DPDK. Tests call this first and wait for each other, because the EAL rearranges the
/// process's memory and a thread that starts a command meanwhile was seen to fail with `EFAULT`.
fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| drop(DpdkPort::open("net_null78", &options())));
}

/// Namespace with a veth pair `va`-`vb`.
struct Lab(Namespaces);

impl Lab {
    fn new(mtu: usize) -> Option<Lab> {
        if !BUILT_IN {
            println!("SKIPPED: built without DPDK");
            return None;
        }
        start();
        let lab = Lab(Namespaces::new(1)?);
        lab.ip(&format!("link add va mtu {mtu} type veth peer name vb mtu {mtu}"));
        lab.bring_up(["va", "vb"]);
        Some(lab)
    }

    /// Sets both ends of a pair up and waits for the kernel's link watch. Until then, for up to a
    /// second, a raw port's frames would be dropped, because a new interface has no queue yet.
    fn bring_up(&self, pair: [&str; 2]) {
        pair.iter().for_each(|end| self.ip(&format!("link set {end} up")));
        let deadline = Instant::now() + Duration::from_secs(10);
        let ready = |end| sh(&format!("ip -n {} -o link show {end} | grep -qv 'qdisc noop '", self.0.name(0)));
        while !pair.into_iter().all(ready) {
            assert!(Instant::now() < deadline, "{pair:?} have no queues");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn ip(&self, arguments: &str) {
        self.0.ip(0, arguments);
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.inside(0, work)
    }

    fn open(&self, what: &str, kind: PortKind) -> Box<dyn Port> {
        let opened =
            self.inside(|| open_port(what, kind, &options())).unwrap_or_else(|error| panic!("{error:?}: {error}"));
        assert_eq!(opened.note, None);
        opened.port
    }
}

fn frame(len: usize) -> Packet {
    let mut bytes: Vec<u8> =
        (0..len).map(|index| (index as u8).wrapping_mul(7) ^ (index >> 8) as u8 ^ len as u8).collect();
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    Packet::from_bytes(&bytes).unwrap()
}

fn receive(port: &mut impl Port, count: usize) -> Vec<Packet> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut all = Vec::new();
    while all.len() < count && Instant::now() < deadline {
        let mut batch = Batch::new();
        if port.receive(PortId(3), &mut batch).unwrap() == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
        all.extend(batch.packets_mut().iter_mut().map(std::mem::take));
    }
    all
}

/// Sends frames of these lengths and checks the received frames.
fn cross(from: &mut impl Port, to: &mut impl Port, lengths: impl Iterator<Item = usize>) {
    let lengths: Vec<usize> = lengths.collect();
    for chunk in lengths.chunks(50) {
        let packets: Vec<Packet> = chunk.iter().map(|len| frame(*len)).collect();
        assert_eq!(from.send_all(&mut packets.iter()), packets.len(), "{:?}", from.counters());
        let received = receive(to, packets.len());
        let bytes = |packets: &[Packet]| packets.iter().map(|packet| packet.bytes().to_vec()).collect::<Vec<_>>();
        assert!(
            bytes(&packets) == bytes(&received),
            "{chunk:?} {:?}",
            received.iter().map(Packet::len).collect::<Vec<_>>()
        );
    }
}

#[test]
fn af_packet_carries_frames_of_every_length() {
    let Some(lab) = Lab::new(9202) else { return };
    let mut raw = lab.inside(|| RawPort::open("va")).unwrap();
    let mut dpdk = lab.open("vb", PortKind::AfPacket);
    assert_eq!((dpdk.name(), dpdk.mtu()), ("vb", 9202));
    cross(&mut raw, &mut dpdk, (14..=9216).step_by(17).chain([9216]));
    cross(&mut dpdk, &mut raw, (14..=9216).step_by(17).chain([9216]));
    assert_eq!(dpdk.send_all(&mut [frame(9217)].iter()), 0);
    assert_eq!(dpdk.counters().drops.get(PortReason::TxMtu).packets, 1);
}

/// The driver passes on the part of a frame that its ring slot holds as if it were the whole frame.
#[test]
fn af_packet_counts_frames_that_its_ring_cuts() {
    let Some(lab) = Lab::new(1500) else { return };
    let mut dpdk = lab.open("vb", PortKind::AfPacket);
    lab.ip("link set va mtu 9000");
    lab.ip("link set vb mtu 9000");
    let mut raw = lab.inside(|| RawPort::open("va")).unwrap();
    let packets = [9_000, 100, 1_982, 2_000].map(frame);
    assert_eq!(raw.send_all(&mut packets.iter()), 4);
    let received = receive(&mut dpdk, 1);
    assert_eq!(received.iter().map(Packet::bytes).collect::<Vec<_>>(), [packets[1].bytes()]);
    let deadline = Instant::now() + Duration::from_secs(5);
    while dpdk.counters().drops.total().packets < 3 && Instant::now() < deadline {
        assert_eq!(dpdk.receive(PortId(3), &mut Batch::new()).unwrap(), 0);
    }
    let drops = &dpdk.counters().drops;
    assert_eq!((drops.get(PortReason::RxOversize).packets, drops.total().packets), (3, 3), "{drops:?}");
}

/// A device without a carrier drops frames that it accepted. Sent one at a time, because of
/// several, the kernel leaves those after the first in the ring and sends them with the next.
#[test]
fn af_packet_counts_what_its_interface_drops() {
    let Some(lab) = Lab::new(1500) else { return };
    let mut dpdk = lab.open("vb", PortKind::AfPacket);
    let packets = [60; 20].map(frame);
    lab.ip("link set va down");
    for packet in &packets {
        dpdk.send_all(&mut std::iter::once(packet));
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while dpdk.counters().drops.total().packets < 20 {
        assert!(Instant::now() < deadline, "{:?}", dpdk.counters());
    }
    let counters = dpdk.counters();
    assert_eq!((counters.sent.packets, counters.drops.get(PortReason::TxPortDown).packets), (0, 20), "{counters:?}");
}

#[test]
fn af_packet_puts_vlan_tags_back() {
    let Some(lab) = Lab::new(1500) else { return };
    let mut raw = lab.inside(|| RawPort::open("va")).unwrap();
    let mut dpdk = lab.open("vb", PortKind::AfPacket);
    let mut tagged = frame(90);
    tagged.bytes_mut()[12..16].copy_from_slice(&[0x81, 0x00, 0x60, 0x05]);
    assert_eq!(raw.send_all(&mut [&tagged].into_iter()), 1);
    let received = receive(&mut dpdk, 1);
    assert_eq!(received[0].bytes(), tagged.bytes());
}

#[test]
fn af_xdp_carries_frames() {
    let Some(lab) = Lab::new(1500) else { return };
    let mut raw = lab.inside(|| RawPort::open("va")).unwrap();
    let opened = lab.inside(|| open_port("vb", PortKind::AfXdp, &options()));
    let mut dpdk = match opened {
        Ok(opened) => opened.port,
        Err(error) => return println!("SKIPPED: AF_XDP is not possible here: {error}"),
    };
    cross(&mut raw, &mut dpdk, (60..=1514).step_by(29));
    cross(&mut dpdk, &mut raw, (60..=1514).step_by(29));
}

/// Records port faults, and ends the run after a fault.
#[derive(Default)]
struct Diary(Vec<(PortId, Option<PortFault>)>);

impl RunHooks<Wire> for Diary {
    fn on_tick(&mut self, _: &mut Wire, report: &RunStats) -> ControlFlow<()> {
        let done = !self.0.is_empty() && report.run_time > Duration::from_millis(300);
        if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn on_port(&mut self, id: PortId, _: &str, trouble: Option<&PortFault>) {
        self.0.push((id, trouble.cloned()));
    }
}

#[test]
fn an_interface_that_is_removed_is_told_and_the_rest_goes_on() {
    let Some(lab) = Lab::new(1500) else { return };
    lab.ip("link add vc type veth peer name vd");
    lab.bring_up(["vc", "vd"]);
    let ports =
        [(1, "vb"), (2, "vd")].map(|(number, name)| AttachedPort::new(number, lab.open(name, PortKind::AfPacket)));
    let mut outside = lab.inside(|| RawPort::open("vc")).unwrap();
    let mut ports: Vec<AttachedPort> = ports.into();
    lab.ip("link del va");
    // Query of a runner at each tick.
    assert!(ports[0].port.port_fault().is_some());
    let mut runner = Runner::new(ports).unwrap().with_tick(Duration::from_millis(10));
    assert_eq!(outside.send_all(&mut [frame(60), frame(70)].iter()), 2);
    let mut diary = Diary::default();
    let report = runner.run(&mut Wire, &AtomicBool::new(false), &mut diary).unwrap();
    let trouble = PortFault::InterfaceGone { port: "vb".into(), interface: "vb".into() };
    assert_eq!(diary.0, [(PortId(1), Some(trouble.clone()))]);
    assert!(report.port_faults[&PortId(1)].contains("has been removed; create it again"), "{:?}", report.port_faults);
    assert_eq!(report.engine.received.packets, 2, "the other port works");
    let (_, gone) = &report.ports[&PortId(1)];
    assert_eq!(gone.sent.packets, 0);
    assert_eq!(gone.drops.get(PortReason::TxPortDown).packets, 2, "{gone:?}");
}

/// The kernel reports a new interface as running up to a second late if its peer, in another
/// namespace, has the same index. Frames sent in that second arrive.
#[test]
fn a_port_whose_interface_just_came_up_is_in_no_trouble() {
    let (Some(here), Some(there)) = (Lab::new(1500), Lab::new(1500)) else { return };
    // Another index in each round, because DPDK numbers a socket's fanout group by it. A process that
    // another test starts may hold the socket of the round before until it runs.
    for index in 77..80 {
        here.ip(&format!("link add vc index {index} type veth peer name vd index {index} netns {}", there.0.name(0)));
        here.ip("link set vc up");
        there.ip("link set vd up");
        let mut port = there.open("vd", PortKind::AfPacket);
        assert_eq!(port.port_fault(), None);
        let mut outside = here.inside(|| RawPort::open("vc")).unwrap();
        cross(&mut port, &mut outside, [60, 1000].into_iter());
        here.ip("link set vc down");
        assert_eq!(port.port_fault(), Some(PortFault::LinkDown { port: "vd".into() }));
        drop(port);
        here.ip("link del vc");
    }
}

#[test]
fn two_processes_talk_over_memif_and_survive_each_other() {
    if !BUILT_IN {
        return println!("SKIPPED: built without DPDK");
    }
    let socket = std::env::temp_dir().join(format!("io-dpdk-{}.sock", std::process::id()));
    let device = |role: &str| format!("net_memif_{role},role={role},socket={},socket-abstract=no", socket.display());
    let mut server = DpdkPort::open(&device("server"), &options()).unwrap();
    for round in 0..2 {
        let mut peer = Peer::start(&device("client"));
        poll_until(&mut server, "the peer comes", |server| server.port_fault().is_none());
        let (mut sent, mut back) = (0, 0);
        poll_until(&mut server, "packets come back", |server| {
            sent += server.send_all(&mut [frame(60 + round)].iter());
            let received = receive_now(server);
            assert!(received.iter().all(|packet| packet.bytes() == frame(60 + round).bytes()));
            back += received.len();
            sent > 0 && back >= 50
        });
        // Killed without closing its connection.
        peer.0.kill().unwrap();
        peer.0.wait().unwrap();
        poll_until(&mut server, "it is noticed", |server| {
            matches!(server.port_fault(), Some(PortFault::NoPeer { .. }))
        });
        assert_eq!(server.send_all(&mut [frame(60)].iter()), 0);
    }
    assert!(server.counters().drops.get(PortReason::TxPortDown).packets >= 2);
}

#[test]
fn the_client_of_a_memif_waits_for_its_server_and_finds_it_again() {
    if !BUILT_IN {
        return println!("SKIPPED: built without DPDK");
    }
    let socket = std::env::temp_dir().join(format!("io-dpdk-{}-late.sock", std::process::id()));
    let device =
        |role: &str| format!("net_memif_late{role},role={role},socket={},socket-abstract=no", socket.display());
    let mut client = DpdkPort::open(&device("client"), &options()).unwrap();
    assert!(matches!(client.port_fault(), Some(PortFault::NoPeer { .. })), "the server is not there yet");
    assert_eq!(client.send_all(&mut [frame(60)].iter()), 0);
    for _ in 0..2 {
        // The second server finds the socket that the first one left.
        let mut peer = Peer::start(&device("server"));
        poll_until(&mut client, "the server comes", |client| client.port_fault().is_none());
        let mut back = 0;
        poll_until(&mut client, "packets come back", |client| {
            client.send_all(&mut [frame(60)].iter());
            back += receive_now(client).len();
            back >= 50
        });
        peer.0.kill().unwrap();
        peer.0.wait().unwrap();
        poll_until(&mut client, "it is noticed", |client| {
            matches!(client.port_fault(), Some(PortFault::NoPeer { .. }))
        });
    }
    // The servers were killed.
    drop((client, std::fs::remove_file(&socket)));
}

/// DPDK's server would end its process if a connection broke before the server had answered.
#[test]
fn a_server_that_is_slow_to_answer_is_waited_for() {
    if !BUILT_IN {
        return println!("SKIPPED: built without DPDK");
    }
    let path = std::env::temp_dir().join(format!("io-dpdk-{}-slow.sock", std::process::id()));
    let device = format!("net_memif_slow,role=client,socket={},socket-abstract=no", path.display());
    let mut client = DpdkPort::open(&device, &options()).unwrap();
    // Peer that accepts connections and never answers.
    let listening = unix_socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&listening, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listening, 16).unwrap();
    rustix::io::ioctl_fionbio(&listening, true).unwrap();
    let mut calls = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        assert!(matches!(client.port_fault(), Some(PortFault::NoPeer { .. })));
        calls.extend(accept(&listening));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(calls.len(), 1, "the client calls once, and stays on");
    drop((client, std::fs::remove_file(&path)));
}

fn receive_now(port: &mut DpdkPort) -> Vec<Packet> {
    let mut batch = Batch::new();
    port.receive(PortId(1), &mut batch).unwrap();
    batch.packets_mut().iter_mut().map(std::mem::take).collect()
}

fn poll_until(port: &mut DpdkPort, what: &str, mut done: impl FnMut(&mut DpdkPort) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done(port) {
        assert!(Instant::now() < deadline, "{what}: {:?}", port.port_fault());
        let _ = receive_now(port);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Second process of this test program, as the other end of a memif.
struct Peer(Child);

impl Peer {
    fn start(device: &str) -> Peer {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "the_other_end", "--nocapture"]).env(PEER, device);
        Peer(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Environment variable with the device that the other end opens.
const PEER: &str = "TERRACE_TEST_PEER";

/// Runs in the other process of the test above; not a test by itself. Returns all packets until it
/// is killed.
#[test]
fn the_other_end() {
    let Ok(device) = std::env::var(PEER) else { return };
    let port = DpdkPort::open(&device, &options()).unwrap();
    let mut runner = Runner::new(vec![AttachedPort::new(1, port)]).unwrap();
    let orphaned = |_: &mut Back, report: &RunStats| match report.run_time > Duration::from_secs(60) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let mut orphaned = orphaned;
    runner.run(&mut Back, &AtomicBool::new(false), &mut orphaned).unwrap();
}

/// Engine that returns all packets to their port.
struct Back;

impl Engine for Back {
    fn name(&self) -> &str {
        "back"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed() {
            out.forward(reference, packet.ingress_port);
        }
    }
}

#[test]
fn vhost_carries_frames() {
    if !BUILT_IN {
        return println!("SKIPPED: built without DPDK");
    }
    let socket = std::env::temp_dir().join(format!("io-dpdk-{}.vhost", std::process::id()));
    let mut host = DpdkPort::open(&format!("net_vhost0,iface={}", socket.display()), &options()).unwrap();
    assert!(matches!(host.port_fault(), Some(PortFault::NoPeer { .. })));
    assert_eq!(host.send_all(&mut [frame(60)].iter()), 0);
    assert_eq!(host.counters().drops.get(PortReason::TxPortDown).packets, 1);
    drop(host);
    let _ = std::fs::remove_file(socket);
}

#[test]
fn what_is_not_there_is_said_with_the_mend() {
    let why = |device: &str| match DpdkPort::open(device, &options()) {
        Ok(_) => panic!("{device} was opened"),
        Err(error) => error,
    };
    if !BUILT_IN {
        let text = why("net_null77").to_string();
        return assert_eq!(text, "`net_null77`: built without DPDK: install libdpdk-dev and build again");
    }
    assert!(matches!(why("net_af_packet77,iface=nothere"), PortError::NoSuchInterface { .. }));
    assert!(matches!(why("net_af_xdp77,iface=nothere"), PortError::NoSuchInterface { .. }));
    let text = |device: &str| why(device).to_string();
    assert!(
        text("ffff:01:00.0").contains("no PCI device has this address; `lspci -D` lists"),
        "{}",
        text("ffff:01:00.0")
    );
    assert!(text("net_pcap77,rx_pcap=/nowhere/in.pcap").contains("cannot use `/nowhere/in.pcap`"));
    assert!(text("net_memif77,socket=/nowhere/x.sock,socket-abstract=no").contains("cannot use `/nowhere/x.sock`"));
    assert!(
        text("net_memif78,role=nobody").contains("check the arguments of net_memif"),
        "{}",
        text("net_memif78,role=nobody")
    );
    let held = DpdkPort::open("net_null79", &options()).unwrap();
    assert!(text("net_null79").contains("`net_null79` is open already"));
    drop(held);
    drop(DpdkPort::open("net_null79", &options()).unwrap());
    let with = |change: fn(&mut DpdkOptions)| {
        let mut options = options();
        change(&mut options);
        DpdkPort::open_queues("net_null80,size=4000", &options).err().unwrap().to_string()
    };
    let text = with(|options| options.buffers = Some(4_000_000));
    assert!(text.contains("MiB of memory for 4000000 packet buffers cannot be allocated"), "{text}");
    let text = with(|options| options.buffer_len = Some(3000));
    assert!(text.contains("packet buffers of 3000 bytes are too short for it; they need 4000 bytes"), "{text}");
    let text = with(|options| options.queues = 0);
    assert!(text.contains("can have 1 to"), "{text}");
    drop(DpdkPort::open("net_null80", &options()).unwrap());
}

#[test]
fn what_a_ring_has_no_room_for_is_counted() {
    let Some(lab) = Lab::new(1500) else { return };
    let mut node = lab.inside(|| DpdkPort::open("net_af_packet_full,iface=va,framecnt=512", &options())).unwrap();
    let mut wire = lab.inside(|| RawPort::open("vb")).unwrap();
    let (packet, sent) = (frame(100), 3000);
    for _ in 0..sent / 50 {
        assert_eq!(wire.send_all(&mut std::iter::repeat_n(&packet, 50)), 50, "{:?}", wire.counters());
    }
    // Packets in the ring, and dropped packets; none was received yet.
    let received = receive(&mut node, 512).len() as u64;
    let mut more = Batch::new();
    let received = received + node.receive(PortId(3), &mut more).unwrap() as u64;
    let drops = node.counters().drops.clone();
    let lost = drops.get(PortReason::RxQueueFull).packets;
    assert!(received >= 500 && lost > 1000, "{received} received, {lost} lost");
    assert_eq!(received + lost, sent, "{drops:?}");
    assert_eq!(node.counters().drops.get(PortReason::RxQueueFull).packets, lost, "counted once");
}
