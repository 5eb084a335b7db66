//! Tests the kernel's flow cache and AF_XDP ports on veth pairs, in network namespaces that each
//! test creates and removes.
//!
//! Needs root and a kernel with XDP. Otherwise each test reports that it was skipped (`--nocapture`
//! shows it). Flows here are written by hand; `crates/terraced/tests/xdp` tests those that the flow
//! cache builds.

#[path = "support/receive.rs"]
mod receive;
#[allow(dead_code)] // other tests use `Wire`
mod support;
#[allow(dead_code)] // other tests stop the outside ends
#[path = "support/xdp_lab.rs"]
mod xdp_lab;

use io::xdp::maps::{NO_WORD, XdpChecksumCheck, XdpChecksumSum, XdpChecksumTerm, XdpFlow};
use io::xdp::{XdpMode, XdpPort};
use io::{Namespace, Port, RawPort};
use packet::Packet;
use receive::receive;
use std::time::Duration;
use xdp_lab::{Lab, by_type, bytes, frame, key};

/// Maximum time to wait for packets.
const PATIENCE: Duration = Duration::from_secs(3);

#[test]
fn without_flows_all_packets_arrive_unchanged() {
    arrive_unchanged(XdpMode::Native);
}

#[test]
fn without_flows_all_packets_arrive_unchanged_at_tc() {
    arrive_unchanged(XdpMode::Tc);
}

fn arrive_unchanged(mode: XdpMode) {
    let Some(lab) = Lab::new(1, 16) else { return };
    let mut port = lab.port_as(0, mode);
    let mut world = lab.world(0);
    assert_eq!((port.name(), port.mtu(), port.mode()), ("a0", 1500, mode));
    assert_eq!(port.path(), Some(mode.name()));
    assert!(port.notes().is_empty(), "{:?}", port.notes());
    let sizes = [14, 15, 60, 1513, 1514];
    let packets: Vec<Packet> = (0..300).map(|index| frame(sizes[index % 5], 0x88b5, index as u8)).collect();
    assert_eq!(world.send_all(&mut packets.iter()), 300);
    let received = receive(&mut port, 300, PATIENCE);
    assert_eq!(bytes(&received), bytes(&packets));
    // More than a ring holds, in both directions: chunks are recycled.
    for round in 0..20 {
        let packets: Vec<Packet> = (0..250).map(|index| frame(100 + index, 0x88b5, round)).collect();
        assert_eq!(port.send_all(&mut packets.iter()), 250);
        assert_eq!(bytes(&receive(&mut world, 250, PATIENCE)), bytes(&packets), "round {round}");
        assert_eq!(world.send_all(&mut packets.iter()), 250);
        assert_eq!(bytes(&receive(&mut port, 250, PATIENCE)), bytes(&packets), "round {round}");
    }
    assert_eq!((port.counters().received.packets, port.counters().sent.packets), (5_300, 5_000));
    assert_eq!(lab.kernel.outcomes().missed, 5_300);
}

#[test]
fn flows_are_carried_out_counted_and_forgotten() {
    carried_out(XdpMode::Native);
}

#[test]
fn flows_are_carried_out_behind_the_driver_too() {
    carried_out(XdpMode::Generic);
}

#[test]
fn flows_are_carried_out_at_tc_too() {
    carried_out(XdpMode::Tc);
}

fn carried_out(mode: XdpMode) {
    let Some(lab) = Lab::new(2, 16) else { return };
    let (mut port, mut other) = (lab.port_as(0, mode), lab.port_as(1, mode));
    assert_eq!((port.mode(), other.mode()), (mode, mode));
    let (mut world, mut beyond) = (lab.world(0), lab.world(1));
    let (from, to) = (lab.kernel.slot_of_port(0).unwrap(), lab.kernel.slot_of_port(1).unwrap());
    lab.kernel.set_shape(0, &by_type(), 1).unwrap();
    // Back, with four bytes prepended that hold the length.
    let mut back = XdpFlow::new(key(from, 0x1111));
    (back.forward, back.port, back.grow, back.len, back.first, back.last) = (1, from, 4, 8, 0, 200);
    back.set[..4].copy_from_slice(&[0xaa, 0xbb, 0, 0]);
    back.keep[4..8].fill(0xff);
    (back.lengths, back.length[0].at, back.length[0].add) = (1, 2, 4);
    lab.kernel.install(3, &back).unwrap();
    // Forwarded if a checksum is correct, shortened by two bytes.
    // tc can only shorten IP packets.
    let mut on = XdpFlow::new(key(from, 0x0800));
    (on.forward, on.port, on.grow, on.len) = (1, to, -2, 4);
    on.keep[..4].fill(0xff);
    on.checks = 1;
    let mut sum = XdpChecksumSum { constant: 5, lengths: 0, terms: 2, ..XdpChecksumSum::default() };
    sum.term[..2]
        .copy_from_slice(&[XdpChecksumTerm { at: 14, mask: 0xffff }, XdpChecksumTerm { at: 16, mask: 0xffff }]);
    on.check[0] = XdpChecksumCheck { sum, expected: 0xffff, word: NO_WORD, unused: 0 };
    lab.kernel.install(4, &on).unwrap();
    lab.kernel.install(5, &XdpFlow::new(key(from, 0x3333))).unwrap();

    let mut whole = frame(80, 0x0800, 2);
    whole.bytes_mut()[14..18].copy_from_slice(&[0x12, 0x34, 0xed, 0xc6]);
    let mut wrong = whole.clone();
    wrong.bytes_mut()[17] = 0xc7;
    let sent = [
        frame(60, 0x1111, 1),
        frame(200, 0x1111, 5),
        frame(201, 0x1111, 3),
        whole.clone(),
        wrong.clone(),
        frame(60, 0x3333, 4),
    ];
    assert_eq!(world.send_all(&mut sent.iter()), 6);
    let longer = |packet: &Packet| {
        let length = (packet.len() as u16 + 4).to_be_bytes();
        [&[0xaa, 0xbb][..], &length, packet.bytes()].concat()
    };
    let returned = receive(&mut world, 2, PATIENCE);
    assert_eq!(bytes(&returned), [longer(&sent[0]), longer(&sent[1])]);
    assert_eq!(bytes(&receive(&mut beyond, 1, PATIENCE)), [&whole.bytes()[2..]]);
    assert_eq!(
        bytes(&receive(&mut port, 2, PATIENCE)),
        [sent[2].bytes(), wrong.bytes()],
        "too long, and a wrong checksum: they miss"
    );
    let found = lab.kernel.outcomes();
    assert_eq!(
        (found.sent, found.redirected, found.dropped, found.missed, found.not_applicable),
        (2, 1, 1, 2, 2),
        "{found:?}"
    );
    assert_eq!((found.fault, found.no_headroom, found.not_a_port), (0, 0, 0), "{found:?}");
    let tally = lab.kernel.flow_counters(3);
    assert_eq!((tally.counter.packets, tally.counter.bytes), (2, 260));
    assert!(io::now().abs_diff(tally.last) < 60_000_000_000, "{tally:?}");
    assert_eq!(lab.kernel.installed_keys(), 3);

    lab.kernel.remove(&key(from, 0x1111), 3);
    assert_eq!(world.send_all(&mut sent[..1].iter()), 1);
    assert_eq!(bytes(&receive(&mut port, 1, PATIENCE)), [sent[0].bytes()]);
    // Another flow in the same slot starts with zero counts.
    lab.kernel.install(3, &XdpFlow::new(key(from, 0x4444))).unwrap();
    assert_eq!(lab.kernel.flow_counters(3).counter.packets, 0);
    assert!(receive(&mut other, 0, PATIENCE).is_empty());

    // Without the port no program is attached, and packets go to the system's stack.
    drop(port);
    let mut plain = Namespace::open(lab.namespaces.name(0)).unwrap().run(|| RawPort::open("a0").unwrap()).unwrap();
    assert_eq!(world.send_all(&mut sent[3..4].iter()), 1);
    assert_eq!(bytes(&receive(&mut plain, 1, PATIENCE)), [whole.bytes()]);
    assert_eq!(lab.kernel.outcomes().redirected, 1);
}

#[test]
fn maps_have_their_limit_and_one_owner() {
    let Some(lab) = Lab::new(1, 4) else { return };
    let port = lab.port(0);
    let from = lab.kernel.slot_of_port(0).unwrap();
    assert!(lab.kernel.claim_flows(7) && lab.kernel.claim_flows(7) && !lab.kernel.claim_flows(8));
    for place in 0..4 {
        lab.kernel.install(place, &XdpFlow::new(key(from, 0x5000 + place as u16))).unwrap();
    }
    let refused = lab.kernel.install(4, &XdpFlow::new(key(from, 0x6000))).unwrap_err().to_string();
    assert!(refused.contains("full"), "{refused}");
    assert_eq!(lab.kernel.installed_keys(), 4);
    lab.kernel.release_flows(8);
    assert_eq!(lab.kernel.installed_keys(), 4, "another one's are not released");
    lab.kernel.release_flows(7);
    assert_eq!(lab.kernel.installed_keys(), 0);
    assert!(!lab.kernel.claim_flows(8), "packets that have found a flow may be under way");
    std::thread::sleep(io::xdp::REUSE_DELAY);
    assert!(lab.kernel.claim_flows(8));
    drop(port);
}

#[test]
fn what_cannot_be_is_named() {
    let Some(lab) = Lab::new(1, 4) else { return };
    let inside = |name: &'static str| {
        let open = || XdpPort::open(&lab.kernel, name, 0).err().map(|error| error.to_string());
        Namespace::open(lab.namespaces.name(0)).unwrap().run(open).unwrap().unwrap()
    };
    assert!(inside("nothere").contains("no network interface `nothere`"));
    let _port = lab.port(0);
    let twice = inside("a0");
    assert!(twice.contains("cannot be attached to `a0`"), "{twice}");
    // The loopback driver has no native XDP, so generic XDP runs after it.
    lab.namespaces.ip(0, "link set lo up mtu 1500");
    let open = || XdpPort::open(&lab.kernel, "lo", 1).unwrap();
    let port = Namespace::open(lab.namespaces.name(0)).unwrap().run(open).unwrap();
    assert_eq!(port.mode(), XdpMode::Generic);
    assert!(port.notes()[0].contains("generic mode"), "{:?}", port.notes());
}
