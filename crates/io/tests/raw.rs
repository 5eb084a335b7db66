//! Tests raw sockets on veth pairs, in network namespaces that each test creates and removes.
//!
//! Needs root. Otherwise each test reports that it was skipped. Run with `--nocapture` to see it,
//! because the harness hides the output of tests that pass.

#[path = "support/receive.rs"]
mod receive;
mod support;

use io::{
    AttachedPort, FinishedPacket, Namespace, OffloadCounters, Port, PortError, PortFault, RawPort, Readiness, RunStats,
    Runner, SegmentPool, TxOffloads,
};
use packet::*;
use receive::receive;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Namespaces, Wire, sh};

/// Maximum time to wait for packets.
const PATIENCE: Duration = Duration::from_secs(2);

/// Namespaces, and raw sockets in them.
struct Lab(Namespaces);

impl Lab {
    fn new(count: usize) -> Option<Lab> {
        Namespaces::new(count).map(Lab)
    }

    fn namespace(&self, index: usize) -> Namespace {
        Namespace::open(self.0.name(index)).unwrap()
    }

    fn ip(&self, index: usize, arguments: &str) {
        self.0.ip(index, arguments);
    }

    fn open(&self, index: usize, interface: &str) -> RawPort {
        self.0.inside(index, || RawPort::open(interface)).unwrap()
    }

    /// Opens a pair `va`-`vb` within the first namespace, up.
    fn pair(&self) -> (RawPort, RawPort) {
        self.ip(0, "link add va type veth peer name vb");
        self.ip(0, "link set va up");
        self.ip(0, "link set vb up");
        (self.open(0, "va"), self.open(0, "vb"))
    }
}

/// Receives and counts packets until none has arrived for half a second.
fn drain(port: &mut impl Port) -> u64 {
    let (mut count, mut quiet) = (0, 0);
    while quiet < 500 {
        let mut batch = Batch::new();
        if port.receive(PortId(3), &mut batch).unwrap() == 0 {
            std::thread::sleep(Duration::from_millis(1));
            quiet += 1;
        } else {
            quiet = 0;
        }
        count += batch.packets().len() as u64;
    }
    count
}

fn frame(len: usize, ethertype: [u8; 2], seed: u8) -> Packet {
    let mut bytes: Vec<u8> = (0..len).map(|index| (index as u8).wrapping_mul(7).wrapping_add(seed)).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes[12..14].copy_from_slice(&ethertype);
    Packet::from_bytes(&bytes).unwrap()
}

#[test]
fn frames_cross_a_veth_pair_unchanged() {
    let Some(lab) = Lab::new(1) else { return };
    let (mut a, mut b) = lab.pair();
    assert_eq!((a.name(), a.mtu()), ("va", 1500));
    // The kernel never gives a socket its own frames. Frames that others send on the interface must
    // be filtered.
    let mut bystander = lab.open(0, "va");
    let sizes = [14, 15, 60, 1513, 1514];
    let packets: Vec<Packet> = (0..300).map(|index| frame(sizes[index % 5], [0x88, 0xb5], index as u8)).collect();
    assert_eq!(a.send_all(&mut packets.iter()), 300);
    let received = receive(&mut b, 300, PATIENCE);
    assert_eq!(received.len(), 300);
    for (sent, got) in packets.iter().zip(&received) {
        assert_eq!(sent.bytes(), got.bytes());
        assert_eq!(got.ingress_port, PortId(3));
        assert!(got.rx_time_ns > 1_600_000_000_000_000_000);
    }
    assert!(receive(&mut bystander, 1, PATIENCE).is_empty(), "outgoing packets are not received");
    assert_eq!(a.counters().sent.packets, 300);
    assert_eq!(b.counters().received, Counter { packets: 300, bytes: packets.iter().map(|p| p.len() as u64).sum() });
    assert!(matches!(b.readiness(), Readiness::Wait(_)));
}

#[test]
fn vlan_tags_survive() {
    let Some(lab) = Lab::new(1) else { return };
    let (mut a, mut b) = lab.pair();
    let mut tagged = frame(80, [0x81, 0x00], 1);
    tagged.bytes_mut()[14..18].copy_from_slice(&[0x60, 0x05, 0x08, 0x00]);
    let mut longest = frame(1518, [0x81, 0x00], 3);
    longest.bytes_mut()[14..18].copy_from_slice(&[0x00, 0x06, 0x88, 0xb5]);
    let mut stacked = frame(1514, [0x88, 0xa8], 2);
    stacked.bytes_mut()[14..22].copy_from_slice(&[0x00, 0x07, 0x81, 0x00, 0x0f, 0xff, 0x08, 0x00]);
    assert_eq!(a.send_all(&mut [&tagged, &longest, &stacked].into_iter()), 3);
    let received = receive(&mut b, 3, PATIENCE);
    let bytes: Vec<&[u8]> = received.iter().map(Packet::bytes).collect();
    assert_eq!(bytes, [tagged.bytes(), longest.bytes(), stacked.bytes()]);

    // A tag that the kernel keeps beside the packet, as sent by a VLAN device.
    if !sh(&format!("ip -n {} link add link va name tagged type vlan id 9", lab.0.name(0))) {
        println!("SKIPPED IN PART: this kernel has no VLAN devices");
        return;
    }
    lab.ip(0, "addr add 10.1.0.1/24 dev tagged");
    lab.ip(0, "link set tagged up");
    lab.ip(0, "neigh add 10.1.0.2 lladdr 02:00:00:00:00:09 dev tagged");
    lab.namespace(0).run(|| UdpSocket::bind("10.1.0.1:0").unwrap().send_to(b"hello", "10.1.0.2:5").unwrap()).unwrap();
    let received = receive(&mut b, 1, PATIENCE);
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].bytes()[12..18], [0x81, 0x00, 0x00, 0x09, 0x08, 0x00]);
    assert_udp_checksum(&received[0].bytes()[18..]);
}

#[test]
fn what_cannot_be_sent_is_counted_with_its_reason() {
    let Some(lab) = Lab::new(1) else { return };
    let (mut a, _b) = lab.pair();
    let packets = [frame(1515, [8, 0], 0), Packet::from_bytes(&[1; 13]).unwrap(), frame(60, [8, 0], 0)];
    assert_eq!(a.send_all(&mut packets.iter()), 1);
    assert_eq!(a.counters().drops.get(PortReason::TxMtu).packets, 1);
    assert_eq!(a.counters().drops.get(PortReason::TxRunt).packets, 1);
    lab.ip(0, "link set va mtu 1000");
    assert_eq!(
        a.send_all(&mut [frame(1100, [8, 0], 0), frame(60, [8, 0], 0)].iter()),
        1,
        "the MTU changed after opening"
    );
    assert_eq!(a.counters().drops.get(PortReason::TxMtu).packets, 2);
    lab.ip(0, "link set va down");
    assert_eq!(a.send_all(&mut packets[2..].iter()), 0);
    assert_eq!(a.counters().drops.get(PortReason::TxPortDown).packets, 1);
    lab.ip(0, "link set va up");
    assert_eq!(a.send_all(&mut packets[2..].iter()), 1, "a port comes back with its interface");
    assert!(receive(&mut a, 1, PATIENCE).is_empty());
    lab.ip(0, "link del va");
    assert_eq!(a.send_all(&mut packets[2..].iter()), 0);
    assert_eq!(a.counters().drops.get(PortReason::TxPortDown).packets, 2);
    assert!(receive(&mut a, 1, PATIENCE).is_empty(), "receiving from what is gone gives nothing, and no error either");
}

#[test]
fn a_frame_larger_than_the_buffer_is_dropped_by_name() {
    let Some(lab) = Lab::new(1) else { return };
    let (_, mut b) = lab.pair();
    lab.ip(0, "link set va mtu 3000");
    lab.ip(0, "link set vb mtu 3000");
    let mut a = lab.open(0, "va");
    // `b` was opened when its MTU was 1500.
    assert_eq!(a.send_all(&mut [frame(2500, [0x88, 0xb5], 0), frame(100, [0x88, 0xb5], 0)].iter()), 2);
    let received = receive(&mut b, 1, PATIENCE);
    assert_eq!(received.iter().map(Packet::len).collect::<Vec<_>>(), [100]);
    assert_eq!(b.counters().drops.get(PortReason::RxOversize), Counter { packets: 1, bytes: 2500 });
}

#[test]
fn an_overrun_is_counted() {
    let Some(lab) = Lab::new(1) else { return };
    let (mut a, mut b) = lab.pair();
    let packet = frame(1514, [0x88, 0xb5], 0);
    for _ in 0..400 {
        assert_eq!(a.send_all(&mut std::iter::repeat_n(&packet, 64)), 64);
    }
    let (mut received, began) = (0, Instant::now());
    let (queue_full, dropped) = loop {
        received += drain(&mut b);
        let queue_full = b.counters().drops.get(PortReason::RxQueueFull).packets;
        // On a busy machine the kernel loses some before they reach the socket, and counts them at
        // the interface; others are still in flight.
        let interfaces = lab.namespace(0).run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let interfaces = interfaces.unwrap();
        let line = interfaces.lines().find_map(|line| line.trim().strip_prefix("vb:")).unwrap();
        let dropped: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        if received + queue_full + dropped == 25_600 || began.elapsed() > Duration::from_secs(10) {
            break (queue_full, dropped);
        }
    };
    assert!(received < 25_600, "the socket's buffer holds about ten thousand");
    assert!(queue_full > 0);
    assert_eq!(received + queue_full + dropped, 25_600, "none is lost silently");
}

#[test]
fn opening_fails_with_the_reason() {
    let Some(lab) = Lab::new(1) else { return };
    let open = |name: &'static str| lab.namespace(0).run(move || RawPort::open(name)).unwrap().err().unwrap();
    assert!(matches!(open("nothere"), PortError::NoSuchInterface { .. }));
    assert!(matches!(open("a-name-that-is-too-long"), PortError::NoSuchInterface { .. }));
    assert!(matches!(open(""), PortError::NoSuchInterface { .. }));
    // ARPHRD_NONE: carries IP packets without a link header.
    lab.ip(0, "tuntap add tun9 mode tun");
    assert!(matches!(open("tun9"), PortError::NotEthernet { hardware_type: 65534, .. }));
    assert!(Namespace::open("no-such-namespace").unwrap_err().to_string().contains("ip netns"));
    assert!(Namespace::open("../../etc/passwd").is_err());
}

/// Checks that the one's complement sum over pseudo-header and datagram is all ones (RFC 768).
fn assert_udp_checksum(ip: &[u8]) {
    let (header, rest) = etherparse::Ipv4Header::from_slice(ip).unwrap();
    let (udp, payload) = etherparse::UdpHeader::from_slice(rest).unwrap();
    let payload = &payload[..usize::from(udp.length) - 8];
    assert_eq!(udp.checksum, udp.calc_checksum_ipv4(&header, payload).unwrap());
}

#[test]
fn checksums_left_to_the_hardware_stay_open_until_they_are_computed() {
    let Some(lab) = Lab::new(1) else { return };
    let (_, mut b) = lab.pair();
    lab.ip(0, "addr add 10.2.0.1/24 dev va");
    lab.ip(0, "neigh add 10.2.0.2 lladdr 02:00:00:00:00:09 dev va");
    let features = Command::new("ip").args(["netns", "exec", lab.0.name(0), "ethtool", "-k", "va"]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&features.stdout).contains("tx-checksumming: on"),
        "this test would show nothing without offload"
    );
    lab.namespace(0)
        .run(|| {
            let socket = UdpSocket::bind("10.2.0.1:0").unwrap();
            for len in 0..50 {
                socket.send_to(&vec![0xee; len], "10.2.0.2:7").unwrap();
            }
        })
        .unwrap();
    let mut received = receive(&mut b, 50, PATIENCE);
    assert_eq!(received.len(), 50);
    let (mut pool, mut counts) = (SegmentPool::default(), OffloadCounters::default());
    for packet in &mut received {
        assert!(!packet.offload.is_none(), "the kernel left it open");
        assert_eq!(pool.finish(packet, TxOffloads::default(), &mut counts), FinishedPacket::Whole);
        assert_udp_checksum(&packet.bytes()[14..]);
    }
    assert_eq!(counts, OffloadCounters { checksums: 50, ..OffloadCounters::default() });
}

/// [`Wire`] that takes super-frames and open checksums.
struct WholeWire;

impl Engine for WholeWire {
    fn name(&self) -> &str {
        "whole wire"
    }

    fn reasons(&self) -> &ReasonTable {
        Wire.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        Wire.process(batch, out);
    }

    fn takes_offloads(&self) -> bool {
        true
    }
}

/// Connects two hosts by a runner on raw sockets, with their offloads as they come. Returns the
/// report after a TCP transfer of `bytes` each way, over IPv4 and then over IPv6.
fn tcp_through_the_runner(mut engine: impl Engine + 'static, bytes: usize) -> Option<RunStats> {
    let lab = Lab::new(3)?;
    let mut ports = Vec::new();
    for host in [1, 2] {
        lab.ip(0, &format!("link add w{host} type veth peer name e netns {}", lab.0.name(host)));
        lab.ip(0, &format!("link set w{host} up"));
        lab.ip(host, &format!("addr add 10.3.0.{host}/24 dev e"));
        let enable = format!("ip netns exec {} sysctl -qw net.ipv6.conf.e.disable_ipv6=0", lab.0.name(host));
        assert!(sh(&enable));
        lab.ip(host, &format!("addr add fd00::{host}/64 dev e nodad"));
        lab.ip(host, "link set e up");
        ports.push(AttachedPort::new(host as u32, lab.open(0, &format!("w{host}"))));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let runner = std::thread::spawn(move || {
        let mut runner = Runner::new(ports).unwrap();
        runner.run(&mut engine, &flag, &mut |_: &mut _, _: &RunStats| ControlFlow::Continue(())).unwrap();
        runner.report().clone()
    });
    let content: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
    for address in ["10.3.0.2:80", "[fd00::2]:80"] {
        let listener = lab.namespace(2).run(|| TcpListener::bind(address).unwrap()).unwrap();
        let expected = content.clone();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = vec![0; expected.len()];
            stream.read_exact(&mut received).unwrap();
            assert!(received == expected, "the bytes of {address} arrive as they were sent");
            stream.write_all(&received).unwrap();
        });
        let mut stream = lab.namespace(1).run(|| TcpStream::connect(address).unwrap()).unwrap();
        stream.write_all(&content).unwrap();
        let mut back = vec![0; content.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back == content);
        server.join().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for host in [1, 2] {
        let counters =
            lab.namespace(host).run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
        let mut tcp = counters.lines().filter(|line| line.starts_with("Tcp:"));
        let (names, values) = (tcp.next().unwrap(), tcp.next().unwrap());
        let column = names.split(' ').position(|name| name == "InCsumErrors").unwrap();
        assert_eq!(values.split(' ').nth(column), Some("0"), "wrong checksums at host {host}");
    }
    let report = runner.join().unwrap();
    assert_eq!(report.drops(), DropCounters::default());
    assert_eq!(report.unaccounted(), 0, "{report:?}");
    assert!(report.offloads.received > 10, "the sender sends super-frames: {:?}", report.offloads);
    Some(report)
}

#[test]
fn an_engine_for_complete_packets_gets_segments() {
    let Some(report) = tcp_through_the_runner(Wire, 4 << 20) else { return };
    let offloads = report.offloads;
    assert_eq!((offloads.cut, offloads.sent_whole), (offloads.received, 0));
    assert!(offloads.segments > 2 * offloads.cut && offloads.checksums > 0, "{offloads:?}");
}

#[test]
fn an_engine_for_super_frames_gets_them_and_they_leave_whole() {
    let Some(report) = tcp_through_the_runner(WholeWire, 16 << 20) else { return };
    let offloads = report.offloads;
    assert_eq!((offloads.cut, offloads.sent_whole), (0, offloads.received));
    assert_eq!(offloads.checksums, 0, "the receiving kernel takes them open");
}

/// Sends frames with their `virtio_net_hdr`, as a virtual machine does: gso type, segment length,
/// and the offsets of the checksum. Frames that the kernel itself refuses are left out.
const HOSTILE_SENDER: &str = r#"
import socket, struct, sys
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.setsockopt(263, 15, 1)  # PACKET_VNET_HDR
sender.bind((sys.argv[1], 0))
def frame(payload):
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + payload, 1, 0, 64, 6, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    tcp = struct.pack("!HHIIBBHHH", 9, 10, 11, 12, 0x50, 0x10, 512, 0, 0)
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + ip + tcp + b"x" * payload
sent = []
for kind, size, start, offset, payload in [
    (1, 1, 34, 16, 1000), (1, 47, 34, 16, 1000), (1, 48, 34, 16, 48 * 129), (1, 1000, 34, 16, 3000), (0, 0, 34, 16, 10),
]:
    try:
        sender.send(struct.pack("=BBHHHH", 1, kind, 54, size, start, offset) + frame(payload))
        sent.append(f"{kind}/{size}/{payload}")
    except OSError as error:
        print(f"the kernel refuses {kind}/{size}/{payload}: {error}", file=sys.stderr)
print(" ".join(sent))
"#;

#[test]
fn a_hostile_description_of_segments_is_dropped_by_name_and_others_pass() {
    let Some(lab) = Lab::new(1) else { return };
    let (_a, mut b) = lab.pair();
    let sender = Command::new("ip")
        .args(["netns", "exec", lab.0.name(0), "python3", "-c", HOSTILE_SENDER, "va"])
        .output()
        .unwrap();
    let (sent, complaint) = (String::from_utf8_lossy(&sender.stdout), String::from_utf8_lossy(&sender.stderr));
    assert!(sent.contains("1/1000/3000") && sent.contains("1/48/6192"), "{sent}\n{complaint}");
    let hostile = sent.split_whitespace().filter(|name| !["1/1000/3000", "0/0/10"].contains(name)).count();
    let received = receive(&mut b, 2, PATIENCE);
    assert_eq!(received.iter().map(Packet::len).collect::<Vec<_>>(), [3054, 64], "{complaint}");
    let offload = received[0].offload;
    assert_eq!((offload.transport_len, offload.segment_payload, offload.segment_excess), (3020, 1000, 2000));
    assert_eq!(received[1].offload, Offload::open_checksum(30, 16));
    let drops = &b.counters().drops;
    assert_eq!(drops.get(PortReason::RxBadSegmentation).packets, hostile as u64, "{drops:?}");
    assert_eq!(drops.total(), drops.get(PortReason::RxBadSegmentation));
}

/// A virtual interface is opened as a raw socket, which says why, and how super-frames leave.
#[test]
fn auto_is_a_raw_socket_on_virtual_interfaces() {
    let Some(lab) = Lab::new(1) else { return };
    let (_a, _b) = lab.pair();
    lab.ip(0, "tuntap add tap9 mode tap");
    for (interface, driver) in [("va", "veth"), ("tap9", "tun")] {
        let options = io::dpdk::DpdkOptions::default();
        let opened = lab.0.inside(0, || io::open_port(interface, io::PortKind::Auto, &options)).unwrap();
        assert_eq!(opened.note, None);
        let method = opened.method.expect("it says what it chose");
        assert!(method.contains("is a raw socket, because the kernel leaves checksums"), "{method}");
        assert!(method.contains(&format!("(driver {driver})")) && method.contains("super-frames"), "{method}");
    }
}

/// A device without a carrier accepts packets and drops them; the socket reports them as sent.
#[test]
fn a_link_that_goes_down_is_seen_and_what_is_lost_by_it_is_counted() {
    let Some(lab) = Lab::new(1) else { return };
    let (mut a, mut b) = lab.pair();
    let packets: Vec<Packet> = (0..70).map(|seed| frame(100, [0x88, 0xb5], seed)).collect();
    assert_eq!(a.port_fault(), None);
    assert_eq!(a.send_all(&mut packets.iter()), 70);
    assert_eq!(a.counters().drops, DropCounters::default());
    lab.ip(0, "link set vb down");
    // At once, and after the kernel has noticed, which takes up to a second.
    for round in 1..=2 {
        a.send_all(&mut packets.iter());
        let counters = a.counters();
        assert_eq!((counters.sent.packets, counters.drops.get(PortReason::TxPortDown).packets), (70, 70 * round));
        assert_eq!(a.port_fault(), Some(PortFault::LinkDown { port: "va".to_owned() }));
        std::thread::sleep(Duration::from_millis(1_200));
    }
    assert_eq!(receive(&mut a, 1, Duration::from_millis(50)).len(), 0, "there is nothing to receive, and no error");
    lab.ip(0, "link set vb up");
    let began = Instant::now();
    while a.port_fault().is_some() {
        assert!(began.elapsed() < PATIENCE, "the link is up again");
    }
    assert_eq!(a.send_all(&mut packets.iter()), 70);
    assert_eq!(drain(&mut b), 140);
    assert_eq!((a.counters().sent.packets, a.counters().drops.total().packets), (140, 140));
    assert!(b.counters().drops.total().is_zero(), "that the interface was down is no packet: {:?}", b.counters().drops);
}

#[test]
fn an_interface_that_is_removed_is_seen_and_the_runner_goes_on() {
    let Some(lab) = Lab::new(1) else { return };
    let (a, _b) = lab.pair();
    let (memory, mut end) = io::memory::pair("near", "far", 4096).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let spent = Arc::new(AtomicU64::new(0));
    let tells = Arc::clone(&spent);
    let runner = std::thread::spawn(move || {
        let mut runner = Runner::new(vec![AttachedPort::new(1, memory), AttachedPort::new(2, a)]).unwrap();
        let mut on_tick = |_: &mut Wire, _: &RunStats| {
            tells.store(cpu_time_of_this_thread(), Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        runner.run(&mut Wire, &flag, &mut on_tick).cloned()
    });
    let packet = frame(60, [0x88, 0xb5], 1);
    assert_eq!(end.send_all(&mut std::iter::repeat_n(&packet, 10)), 10);
    std::thread::sleep(Duration::from_millis(300));
    lab.ip(0, "link del va");
    std::thread::sleep(Duration::from_millis(300));
    let before = spent.load(Ordering::Relaxed);
    assert_eq!(end.send_all(&mut std::iter::repeat_n(&packet, 20)), 20);
    std::thread::sleep(Duration::from_millis(1_000));
    let spent = Duration::from_nanos(spent.load(Ordering::Relaxed) - before);
    stop.store(true, Ordering::Relaxed);
    let report = runner.join().unwrap().expect("it goes on without the interface");
    assert!(
        report.port_faults[&PortId(2)].contains("the interface `va` of `va` has been removed"),
        "{:?}",
        report.port_faults
    );
    let (_, gone) = &report.ports[&PortId(2)];
    assert_eq!((gone.sent.packets, gone.drops.get(PortReason::TxPortDown).packets), (10, 20));
    assert_eq!(report.unaccounted(), 0, "{report:?}");
    assert!(spent < Duration::from_millis(700), "a second of waiting takes {spent:?} of the processor");
}

/// Returns the CPU time in nanoseconds.
fn cpu_time_of_this_thread() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap()
}
