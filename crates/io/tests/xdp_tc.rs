//! Tests what the flow cache does at the tc hook with packets that the kernel has not finished:
//! super-frames, open checksums, and VLAN tags in metadata. The program runs on single packets
//! (`BPF_PROG_TEST_RUN`), and on packets of the kernel's own VXLAN device.
//!
//! Needs root and Linux 6.6 or later. Otherwise each test reports that it was skipped
//! (`--nocapture` shows it).

#[path = "support/receive.rs"]
mod receive;
#[allow(dead_code)] // other tests use `Wire`
mod support;
#[path = "support/xdp_lab.rs"]
#[allow(dead_code)] // other tests use more of it
mod xdp_lab;

use io::xdp::maps::XdpFlow;
use io::xdp::{TcRun, TcStats, XdpMode, XdpPort};
use io::{Namespace, OffloadCounters, Port, RawPort, SegmentPool, TxOffloads};
use packet::{Packet, PortReason};
use receive::receive;
use std::process::Command;
use std::time::{Duration, Instant};
use xdp_lab::{Lab, by_type, bytes, key};

/// Maximum time to wait for packets.
const PATIENCE: Duration = Duration::from_secs(5);
/// Actions of the program.
const DROPPED: i32 = 2;
const REDIRECTED: i32 = 7;
/// Offsets in a packet of Ethernet, IPv4, UDP, VXLAN, Ethernet, IPv4, TCP.
const OUTER: usize = 14;
const UDP: usize = 34;
const UDP_CHECKSUM: usize = 40;
const INNER: usize = 64;
const TCP: usize = 84;
const TCP_CHECKSUM: usize = 100;
const HEADERS: usize = 104;

fn sum(words: &[u8], start: u32) -> u16 {
    let pairs = words.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum = start + pairs.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the sum of the pseudo-header of a transport header after the IPv4 header at `ip`.
fn pseudo(packet: &[u8], ip: usize) -> u16 {
    let length = u32::from(u16::from_be_bytes([packet[ip + 2], packet[ip + 3]])) - 20;
    sum(&packet[ip + 12..ip + 20], u32::from(packet[ip + 9]) + length)
}

/// Runs a command and returns its output, also if it fails.
fn output(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn put(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// Checksum of a transport header.
#[derive(Clone, Copy, PartialEq)]
enum Checksum {
    None,
    Open,
    Complete,
}

fn set_checksum(packet: &mut [u8], ip: usize, at: usize, checksum: Checksum) {
    let open = pseudo(packet, ip);
    put(packet, at, 0);
    let complete = !sum(&packet[ip + 20..], u32::from(open));
    let value = match checksum {
        Checksum::None => 0,
        Checksum::Open => open,
        Checksum::Complete => complete,
    };
    put(packet, at, value);
}

/// A change of a packet.
type Change<'c> = &'c dyn Fn(&mut Vec<u8>);

/// Builds a TCP packet in VXLAN.
fn tunnelled(payload: usize, outer: Checksum, inner: Checksum) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..HEADERS + payload).map(|at| (at as u8).wrapping_mul(29)).collect();
    let len = packet.len();
    let ip = |packet: &mut [u8], at: usize, protocol: u8, last: [u8; 2]| {
        packet[at..at + 10].copy_from_slice(&[0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol]);
        put(packet, at + 2, (len - at) as u16);
        packet[at + 12..at + 20].copy_from_slice(&[192, 0, 2, last[0], 192, 0, 2, last[1]]);
        put(packet, at + 10, 0);
        let checksum = !sum(&packet[at..at + 20], 0);
        put(packet, at + 10, checksum);
    };
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[62..64].copy_from_slice(&[8, 0]);
    ip(&mut packet, OUTER, 17, [11, 1]);
    ip(&mut packet, INNER, 6, [101, 102]);
    put(&mut packet, UDP + 2, 4789);
    put(&mut packet, UDP + 4, (len - UDP) as u16);
    packet[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 0, 100, 0]);
    packet[TCP + 12] = 0x50;
    set_checksum(&mut packet, INNER, TCP_CHECKSUM, inner);
    set_checksum(&mut packet, OUTER, UDP_CHECKSUM, outer);
    packet
}

/// Two ports at tc, with a flow for IPv4 packets from the first to the second.
struct Pair {
    lab: Lab,
    ports: [XdpPort; 2],
}

impl Pair {
    fn new() -> Option<Pair> {
        let mut lab = Lab::new(2, 16)?;
        // tc does not need them.
        lab.stop_passing(0);
        if let Some(why) = lab.kernel.tc_refusal() {
            println!("SKIPPED: {why}");
            return None;
        }
        let ports = [0, 1].map(|pair| lab.port_as(pair, XdpMode::Tc));
        lab.kernel.set_shape(0, &by_type(), 1).unwrap();
        Some(Pair { lab, ports })
    }

    /// Returns a flow that sets MACs and addresses of the outer headers and removes the outer
    /// checksum, as a VXLAN gateway does.
    fn flow(&self) -> XdpFlow {
        let (from, to) = (self.lab.kernel.slot_of_port(0).unwrap(), self.lab.kernel.slot_of_port(1).unwrap());
        let mut flow = XdpFlow::new(key(from, 0x0800));
        (flow.forward, flow.port, flow.len) = (1, to, HEADERS as u32);
        flow.keep[..HEADERS].fill(0xff);
        let mut set = |at: usize, bytes: &[u8]| {
            flow.keep[at..at + bytes.len()].fill(0);
            flow.set[at..at + bytes.len()].copy_from_slice(bytes);
        };
        set(0, &[2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8]);
        set(26, &[192, 0, 2, 1, 192, 0, 2, 12]);
        set(UDP_CHECKSUM, &[0, 0]);
        flow
    }

    fn install(&self, flow: &XdpFlow) {
        self.lab.kernel.install(0, flow).unwrap();
    }

    /// Runs the program on a packet, with the payload of its segments if it is a super-frame.
    /// Returns what it counted besides.
    fn run(&self, packet: &[u8], segment: Option<u32>) -> (TcRun, TcStats) {
        let before = self.lab.kernel.outcomes();
        let segments = segment.map(|size| ((packet.len() as u32 - HEADERS as u32).div_ceil(size), size));
        let (kernel, interface) = (&self.lab.kernel, self.ports[0].interface());
        let run = || kernel.run_tc(interface, packet, segments).unwrap();
        let result = self.lab.namespaces.inside(0, run);
        let (now, [old, new]) = (self.lab.kernel.outcomes(), [before.tc, self.lab.kernel.outcomes().tc]);
        assert_eq!((now.fault, now.broken, now.portless, now.no_headroom), (0, 0, 0, 0), "{now:?}");
        let counted = TcStats {
            super_frames: new.super_frames - old.super_frames,
            segments: new.segments - old.segments,
            tagged: new.tagged - old.tagged,
            unknown_super_frames: new.unknown_super_frames - old.unknown_super_frames,
            resized_super_frames: new.resized_super_frames - old.resized_super_frames,
            open_checksums: new.open_checksums - old.open_checksums,
            withdrawn_checksums: new.withdrawn_checksums - old.withdrawn_checksums,
            too_long: new.too_long - old.too_long,
        };
        (result, counted)
    }

    /// Asserts that a packet misses unchanged, and returns what was counted.
    fn misses(&self, packet: &[u8], segment: Option<u32>) -> TcStats {
        let before = self.lab.kernel.outcomes().missed;
        let (result, counted) = self.run(packet, segment);
        assert_eq!((result.action, self.lab.kernel.outcomes().missed), (REDIRECTED, before + 1));
        assert!(result.bytes == packet, "a packet that misses is unchanged");
        counted
    }

    /// Asserts that a packet is forwarded, and returns it with what was counted.
    fn forwards(&self, packet: &[u8], segment: Option<u32>) -> (Vec<u8>, TcStats) {
        let before = self.lab.kernel.outcomes();
        let (result, counted) = self.run(packet, segment);
        let now = self.lab.kernel.outcomes();
        assert_eq!((now.redirected, now.missed), (before.redirected + 1, before.missed), "{now:?}");
        assert_eq!(result.action, REDIRECTED);
        (result.bytes, counted)
    }
}

/// Returns the packet as the flow of [`Pair::flow`] rewrites it.
fn rewritten(packet: &[u8]) -> Vec<u8> {
    let mut expected = packet.to_vec();
    expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8]);
    expected[26..34].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 12]);
    put(&mut expected, UDP_CHECKSUM, 0);
    expected
}

#[test]
fn a_super_frame_fits_a_flow_if_all_its_segments_do() {
    let Some(pair) = Pair::new() else { return };
    let mut flow = pair.flow();
    (flow.first, flow.last) = (HEADERS as u32 + 100, HEADERS as u32 + 500);
    pair.install(&flow);
    // Payload, segment size, whether it fits: bounds of the longest and of the last segment.
    let cases = [
        (1_500, 500, true),
        (1_600, 500, true),
        (1_599, 500, false),
        (1_503, 501, false),
        (1_000, 100, true),
        (990, 99, false),
        (400, 500, true),
        (500, 500, true),
    ];
    for (payload, size, fits) in cases {
        let packet = tunnelled(payload, Checksum::None, Checksum::Open);
        if fits {
            let (sent, counted) = pair.forwards(&packet, Some(size));
            assert!(sent == rewritten(&packet), "{payload} bytes in segments of {size}");
            let segments = payload as u64;
            let expected = segments.div_ceil(u64::from(size));
            assert_eq!(counted, TcStats { super_frames: 1, segments: expected, ..TcStats::default() });
        } else {
            assert_eq!(pair.misses(&packet, Some(size)), TcStats::default(), "{payload} bytes in segments of {size}");
        }
    }
    let tally = pair.lab.kernel.flow_counters(0).counter;
    assert_eq!(tally.packets, 5);
    assert_eq!(tally.bytes, (5 * HEADERS + 1_500 + 1_600 + 1_000 + 400 + 500) as u64);
    // The same packet that is no super-frame is too long for the flow.
    assert_eq!(pair.misses(&tunnelled(1_500, Checksum::None, Checksum::Open), None), TcStats::default());
}

#[test]
fn super_frames_of_other_headers_or_lengths_are_cut() {
    let Some(pair) = Pair::new() else { return };
    pair.install(&pair.flow());
    let unknown = TcStats { unknown_super_frames: 1, ..TcStats::default() };
    let whole = tunnelled(1_500, Checksum::None, Checksum::Open);
    let changes: [(&str, Change<'_>); 5] = [
        ("UDP in the tunnel", &|packet| packet[INNER + 9] = 17),
        ("an inner packet that ends early", &|packet| put(packet, INNER + 2, 1_000)),
        ("an outer packet that ends early", &|packet| put(packet, OUTER + 2, 1_000)),
        ("a fragment", &|packet| put(packet, INNER + 6, 0x2000)),
        ("a TCP header that is too short", &|packet| packet[TCP + 12] = 0x40),
    ];
    for (name, change) in changes {
        let mut packet = whole.clone();
        change(&mut packet);
        assert_eq!(pair.misses(&packet, Some(500)), unknown, "{name}");
    }
    // Without a tunnel it is known.
    let plain: Vec<u8> = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &whole[INNER..]].concat();
    let mut flow = pair.flow();
    (flow.len, flow.first, flow.last) = (14, 54 + 500, 54 + 500);
    pair.install(&flow);
    assert_eq!(pair.forwards(&plain, Some(500)).0[14..], plain[14..]);

    let mut longer = pair.flow();
    longer.grow = 20;
    pair.install(&longer);
    assert_eq!(pair.misses(&whole, Some(500)), TcStats { resized_super_frames: 1, ..TcStats::default() });
}

#[test]
fn open_checksums_stay_open_are_withdrawn_or_are_completed_on_the_slow_path() {
    let Some(pair) = Pair::new() else { return };
    pair.install(&pair.flow());
    let none = TcStats::default();
    let withdrawn = TcStats { withdrawn_checksums: 1, ..none };
    // The flow writes 0 in the outer header and leaves the inner one as it is.
    for (outer, inner, counted) in [
        (Checksum::None, Checksum::Open, none),
        (Checksum::Complete, Checksum::Open, none),
        (Checksum::Complete, Checksum::Complete, none),
        (Checksum::Open, Checksum::Complete, withdrawn),
    ] {
        for payload in [0, 1, 600] {
            let packet = tunnelled(payload, outer, inner);
            let (sent, found) = pair.forwards(&packet, None);
            assert!(sent == rewritten(&packet), "{payload} bytes");
            assert_eq!(found, counted, "{payload} bytes");
        }
    }
    // The outer checksum of a super-frame cannot be withdrawn, so it stays open.
    let packet = tunnelled(1_500, Checksum::Open, Checksum::Open);
    let mut expected = rewritten(&packet);
    let open = pseudo(&expected, OUTER);
    put(&mut expected, UDP_CHECKSUM, open);
    assert_ne!(open, word(&packet, UDP_CHECKSUM));
    let (sent, found) = pair.forwards(&packet, Some(500));
    assert!(sent == expected);
    assert_eq!(found, TcStats { super_frames: 1, segments: 3, ..none });
    // One that is no sum of a pseudo-header is an error of the sender.
    let mut wrong = packet;
    wrong[UDP_CHECKSUM] ^= 1;
    assert_eq!(pair.misses(&wrong, Some(500)), TcStats { open_checksums: 1, ..none });

    // A flow that translates the inner address, and updates the checksum as if it were complete.
    let mut flow = pair.flow();
    for (at, bytes) in [(INNER + 16, [203, 0, 113, 9]), (TCP_CHECKSUM - 2, [0, 0, 0xab, 0xcd])] {
        flow.keep[at..at + 4].fill(0);
        flow.set[at..at + 4].copy_from_slice(&bytes);
    }
    pair.install(&flow);
    let complete = tunnelled(600, Checksum::None, Checksum::Complete);
    assert_eq!(word(&pair.forwards(&complete, None).0, TCP_CHECKSUM), 0xabcd);
    let open = tunnelled(600, Checksum::None, Checksum::Open);
    assert_eq!(pair.misses(&open, None), TcStats { open_checksums: 1, ..none });
    let (sent, _) = pair.forwards(&tunnelled(1_500, Checksum::None, Checksum::Open), Some(500));
    assert_eq!(word(&sent, TCP_CHECKSUM), pseudo(&sent, INNER), "the new pseudo-header's");
}

#[test]
fn what_exceeds_the_mtu_is_dropped_and_counted() {
    let Some(mut pair) = Pair::new() else { return };
    pair.install(&pair.flow());
    // 1,514 bytes fit the MTU of 1,500.
    let limit = 1_514 - HEADERS;
    let (_, counted) = pair.forwards(&tunnelled(limit, Checksum::None, Checksum::Open), None);
    assert_eq!(counted, TcStats::default());
    let (result, counted) = pair.run(&tunnelled(limit + 1, Checksum::None, Checksum::Open), None);
    assert_eq!((result.action, counted), (DROPPED, TcStats { too_long: 1, ..TcStats::default() }));
    let packet = tunnelled(2 * limit + 2, Checksum::None, Checksum::Open);
    let (result, counted) = pair.run(&packet, Some(limit as u32 + 1));
    assert_eq!((result.action, counted), (DROPPED, TcStats { too_long: 1, ..TcStats::default() }));
    let (_, counted) = pair.forwards(&packet, Some(limit as u32));
    assert_eq!(counted.super_frames, 1);
    let counters = pair.ports[1].counters().clone();
    assert_eq!((counters.sent.packets, counters.drops.get(PortReason::TxMtu).packets), (2, 2));
    assert_eq!(pair.ports[0].counters().received.packets, 4);

    // A changed MTU is known after the next look at the port.
    pair.lab.namespaces.ip(0, "link set a1 mtu 9000");
    pair.lab.namespaces.ip(0, "link set b1 mtu 9000");
    assert_eq!(pair.ports[1].port_fault(), None);
    pair.forwards(&tunnelled(limit + 1, Checksum::None, Checksum::Open), None);
}

#[test]
fn tagged_packets_take_the_slow_path_with_their_tag() {
    let Some(mut pair) = Pair::new() else { return };
    pair.install(&pair.flow());
    let mut world = pair.lab.world(0);
    let plain = tunnelled(30, Checksum::None, Checksum::Complete);
    let tagged = [&plain[..12], &[0x81, 0, 0x20, 5], &plain[12..]].concat();
    let packet = Packet::from_bytes(&tagged).unwrap();
    assert_eq!(world.send_all(&mut std::iter::once(&packet)), 1);
    assert_eq!(bytes(&receive(&mut pair.ports[0], 1, PATIENCE)), [&tagged[..]]);
    assert_eq!(pair.lab.kernel.outcomes().tc.tagged, 1);
}

/// The host's stack sees no packet that the program takes, and the process none that the host sends
/// on the TAP.
#[test]
fn the_hosts_stack_and_the_process_do_not_see_each_others_packets() {
    let Some(mut pair) = Pair::new() else { return };
    pair.lab.namespaces.ip(0, "address add 198.51.100.1/24 dev a0");
    let mut world = pair.lab.world(0);
    let received = |pair: &Pair| {
        let text = output(&format!("ip netns exec {} nstat -az IpInReceives", pair.lab.namespaces.name(0)));
        text.lines().find_map(|line| line.strip_prefix("IpInReceives")?.split_whitespace().next()?.parse::<u64>().ok())
    };
    let before = received(&pair).expect("a counter");
    // To the host's MAC address, so that nothing but the program keeps it from the stack.
    let mac = output(&format!("ip netns exec {} cat /sys/class/net/a0/address", pair.lab.namespaces.name(0)));
    let mut packet = tunnelled(30, Checksum::None, Checksum::Complete);
    for (to, octet) in packet.iter_mut().zip(mac.trim().split(':')) {
        *to = u8::from_str_radix(octet, 16).unwrap();
    }
    let miss = Packet::from_bytes(&packet).unwrap();
    assert_eq!(world.send_all(&mut [miss.clone(), miss].iter()), 2);
    assert_eq!(bytes(&receive(&mut pair.ports[0], 2, PATIENCE)), [&packet[..]; 2]);
    assert_eq!(received(&pair), Some(before));
    // The host has a route over the TAP and asks for a neighbour there.
    let list = output(&format!("ip netns exec {} ls /sys/class/net", pair.lab.namespaces.name(0)));
    let tap = list.split_whitespace().find(|name| name.starts_with("tcmiss")).expect("a TAP");
    pair.lab.namespaces.ip(0, &format!("address add 203.0.113.1/24 dev {tap}"));
    let command = format!("ip netns exec {} ping -c 1 -W 1 203.0.113.2", pair.lab.namespaces.name(0));
    output(&command);
    assert!(receive(&mut pair.ports[0], 1, Duration::from_millis(100)).is_empty());
}

/// Packets that the process does not receive in time are lost in the TAP, and counted.
#[test]
fn misses_that_are_not_received_are_counted() {
    let Some(mut pair) = Pair::new() else { return };
    let mut world = pair.lab.world(0);
    let packet = Packet::from_bytes(&tunnelled(30, Checksum::None, Checksum::Complete)).unwrap();
    let count = 6_000;
    let began = Instant::now();
    for _ in 0..count / 60 {
        assert_eq!(world.send_all(&mut std::iter::repeat_n(&packet, 60)), 60);
    }
    while pair.lab.kernel.outcomes().missed < count {
        assert!(began.elapsed() < PATIENCE, "{:?}", pair.lab.kernel.outcomes());
    }
    let received = receive(&mut pair.ports[0], count as usize, Duration::from_secs(1)).len() as u64;
    let counters = pair.ports[0].counters().clone();
    let lost = counters.drops.get(PortReason::RxQueueFull).packets;
    assert!(received >= 4_096 && lost > 0, "{received} received, {lost} lost");
    assert_eq!((counters.received.packets, received + lost), (received, count));
}

/// Packets of the kernel's own VXLAN device, whose checksums are open: in the outer header (ping),
/// and in the inner one (UDP).
#[test]
fn packets_of_a_kernels_tunnel_leave_with_right_checksums() {
    let Some(pair) = Pair::new() else { return };
    pair.install(&pair.flow());
    let name = pair.lab.namespaces.name(0).to_owned();
    for step in [
        "address add 192.0.2.11/24 dev b0",
        "neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev b0",
        "link add vx0 type vxlan id 100 local 192.0.2.11 remote 192.0.2.1 dstport 4789 nolearning",
        "address add 10.0.0.1/24 dev vx0",
        "link set vx0 up",
        "neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev vx0",
    ] {
        pair.lab.namespaces.ip(0, step);
    }
    let mut beyond = Namespace::open(&name).unwrap().run(|| RawPort::open("b1").unwrap()).unwrap();
    let commands = [
        format!("ip netns exec {name} ping -c 3 -i 0.01 -W 0.01 10.0.0.2"),
        format!(
            "ip netns exec {name} bash -c 'for i in 1 2 3; do echo a datagram of more bytes than the header > /dev/udp/10.0.0.2/9; done'"
        ),
    ];
    for (command, protocol) in commands.iter().zip([1u8, 17]) {
        output(command);
        let began = Instant::now();
        let mut found = 0;
        while found < 3 {
            assert!(began.elapsed() < PATIENCE, "{found} of protocol {protocol}");
            for mut packet in receive(&mut beyond, 1, Duration::from_millis(100)) {
                // Completes an inner checksum that is open, as a wire would have it.
                SegmentPool::default().finish(&mut packet, TxOffloads::default(), &mut OffloadCounters::default());
                let bytes = packet.bytes();
                // Other packets of the namespace's kernel.
                if word(bytes, 12) != 0x0800 || bytes[23] != 17 || bytes[INNER + 9] != protocol {
                    continue;
                }
                found += 1;
                // A request that was kept would be completed by the raw port.
                assert_eq!(word(bytes, UDP_CHECKSUM), 0, "protocol {protocol}");
                assert_eq!(&bytes[26..34], &[192, 0, 2, 1, 192, 0, 2, 12]);
                let end = INNER + usize::from(word(bytes, INNER + 2));
                let start = if protocol == 1 { 0 } else { u32::from(pseudo(bytes, INNER)) };
                assert_eq!(sum(&bytes[TCP..end], start), 0xffff, "protocol {protocol}");
            }
        }
    }
    let counted = pair.lab.kernel.outcomes().tc;
    assert!(counted.withdrawn_checksums >= 3 && counted.open_checksums == 0, "{counted:?}");
}
