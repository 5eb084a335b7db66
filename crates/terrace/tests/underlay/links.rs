//! Links that are lost and come back, interfaces that are removed and made again.

use crate::bench::{Bench, datagram, received_flows, send_flows, until};
use io::{Port, RawPort};
use node::status::PortState;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const FLOWS: u16 = 200;

/// s1 behind port 1, s2 behind the ports 2 and 3.
const REGION: &str = "
region: links
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}
uplinks:
  - {name: u1, port: 1, mac: 02:00:00:01:00:01, peer_mac: 02:00:00:01:00:02}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, peer_mac: 02:00:00:02:00:02}
  - {name: u3, port: 3, mac: 02:00:00:03:00:01, peer_mac: 02:00:00:03:00:02}
servers:
  - {name: s1, address: 192.0.2.11, uplinks: [u1]}
  - {name: s2, address: 192.0.2.12, uplinks: [u2, u3]}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.0.0/24]}
vms:
  - {name: red-a, vpc: red, server: s1, mac: 02:00:00:10:00:0a, addresses: [10.0.0.11]}
  - {name: red-b, vpc: red, server: s2, mac: 02:00:00:10:00:0b, addresses: [10.0.0.12]}
";

fn connected() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.connect(1, 1, "u");
    bench.connect(2, 2, "u");
    bench.connect(3, 2, "w");
    Some(bench)
}

/// Asserts that the flows of interface 0 are where they were.
fn assert_flows_of_the_other_path_stay(before: &BTreeMap<u16, usize>, after: &BTreeMap<u16, usize>) {
    let moved: Vec<u16> =
        before.iter().filter(|(flow, at)| **at == 0 && after.get(flow) != Some(&0)).map(|(f, _)| *f).collect();
    assert!(moved.is_empty(), "flows {moved:?} of the other path have moved");
}

/// Sends packets at a constant rate while `event` happens. Returns how many did not arrive, and how
/// many were sent.
fn lost_packets(from: &mut RawPort, to: &mut [&mut RawPort; 2], event: impl FnOnce()) -> (u64, u64) {
    let stop = AtomicBool::new(false);
    let (done, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let packets: Vec<_> = (0..10).map(|next| datagram(((sent + next) % u64::from(FLOWS)) as u16)).collect();
                sent += from.send_all(&mut packets.iter()) as u64;
                std::thread::sleep(Duration::from_micros(400));
            }
            sent
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let count: usize = to.iter_mut().map(|port| received_flows(port).len()).sum();
                arrived.fetch_add(count as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        event();
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        done.store(true, Ordering::Relaxed);
        sent
    });
    (sent - arrived.load(Ordering::Relaxed), sent)
}

#[test]
fn a_path_whose_link_is_lost_gives_its_flows_to_the_other_and_gets_them_back() {
    let Some(mut bench) = connected() else { return };
    bench.start(REGION, 3);
    let (mut from, mut u, mut w) = (bench.open(1, "u"), bench.open(2, "u"), bench.open(2, "w"));
    let before = send_flows(&mut from, &mut [&mut u, &mut w], FLOWS);
    assert_eq!(before.len(), usize::from(FLOWS), "all flows arrive while both paths are up");
    assert!([0, 1].iter().all(|at| before.values().filter(|to| *to == at).count() > 50), "both paths are used");

    let (lost, sent) = lost_packets(&mut from, &mut [&mut u, &mut w], || {
        bench.ip(2, "link set w down");
        until("the port is down", || bench.port(3).state == Some(PortState::Down));
    });
    println!("lost while the link went down: {lost} of {sent} packets; {}", bench.log());
    let during = send_flows(&mut from, &mut [&mut u], FLOWS);
    assert_eq!(during.len(), usize::from(FLOWS), "all flows arrive over the path that is left");
    assert!(bench.log().contains("port3 down: 2 of 3 paths left"), "{}", bench.log());

    // A changed comment changes nothing, and does not bring the dead path back.
    assert_eq!(bench.apply(&format!("# a comment{REGION}")), (0, 0, 0));
    assert_eq!(send_flows(&mut from, &mut [&mut u], FLOWS).len(), usize::from(FLOWS));
    // Nor does a complete application after a change of the underlay.
    bench.apply(&REGION.replace("gateway: {mac: 02:00:5e:00:00:01", "gateway: {mac: 02:00:5e:00:00:02"));
    bench.apply(REGION);
    assert_eq!(send_flows(&mut from, &mut [&mut u], FLOWS).len(), usize::from(FLOWS));

    bench.ip(2, "link set w up");
    until("the path is used again", || bench.port(3).state == Some(PortState::Up));
    // The state is shown before the entries are written.
    until("each flow is back on its path", || send_flows(&mut from, &mut [&mut u, &mut w], FLOWS) == before);
    let port = bench.port(3);
    assert!(port.changes >= 2 && port.down_seconds > 0.0, "{port:?}");
}

#[test]
fn flaps_that_the_kernel_reports_late_are_seen_and_other_flows_never_move() {
    let Some(mut bench) = connected() else { return };
    bench.start(REGION, 3);
    let (mut from, mut u, mut w) = (bench.open(1, "u"), bench.open(2, "u"), bench.open(2, "w"));
    let before = send_flows(&mut from, &mut [&mut u, &mut w], FLOWS);
    assert_eq!(before.len(), usize::from(FLOWS));
    for change in ["down", "up", "down", "up", "down"] {
        let changes = bench.port(3).changes;
        bench.ip(2, &format!("link set w {change}"));
        until("the change is seen", || bench.port(3).changes > changes);
    }
    let during = send_flows(&mut from, &mut [&mut u, &mut w], FLOWS);
    assert_eq!(during.len(), usize::from(FLOWS));
    assert_flows_of_the_other_path_stay(&before, &during);
    bench.ip(2, "link set w up");
    until("the link is seen", || bench.port(3).state == Some(PortState::Held));
    let held = send_flows(&mut from, &mut [&mut u, &mut w], FLOWS);
    assert_flows_of_the_other_path_stay(&before, &held);
    until("the path is used again", || bench.port(3).state == Some(PortState::Up));
    until("each flow is back on its path", || send_flows(&mut from, &mut [&mut u, &mut w], FLOWS) == before);
}

#[test]
fn a_link_that_is_held_is_used_if_no_other_is_left() {
    let Some(mut bench) = connected() else { return };
    bench.start(REGION, 3);
    let (mut from, mut u, mut w) = (bench.open(1, "u"), bench.open(2, "u"), bench.open(2, "w"));
    // Several losses make the hold time long.
    for _ in 0..7 {
        bench.ip(2, "link set w down");
        until("the link is down", || bench.port(3).state == Some(PortState::Down));
        bench.ip(2, "link set w up");
        until("the link is up", || bench.port(3).state != Some(PortState::Down));
    }
    assert_eq!(bench.port(3).state, Some(PortState::Held));
    bench.ip(2, "link set u down");
    until("the other link is down", || bench.port(2).state == Some(PortState::Down));
    let arrived = send_flows(&mut from, &mut [&mut u, &mut w], FLOWS);
    assert!(arrived.len() == usize::from(FLOWS) && arrived.values().all(|at| *at == 1), "{arrived:?}");
}

#[test]
fn an_interface_that_is_removed_is_opened_again_when_it_is_back() {
    let Some(mut bench) = connected() else { return };
    bench.start(REGION, 3);
    let (mut from, mut u) = (bench.open(1, "u"), bench.open(2, "u"));
    bench.ip(0, "link del port3");
    until("the port is missing", || bench.port(3).state == Some(PortState::Missing));
    let during = send_flows(&mut from, &mut [&mut u], FLOWS);
    assert_eq!(during.len(), usize::from(FLOWS), "the other path has all flows");
    assert!(bench.log().contains("port3 missing: 2 of 3 paths left"), "{}", bench.log());

    bench.connect(3, 2, "w");
    until("the port is used again", || bench.port(3).state == Some(PortState::Up));
    let mut w = bench.open(2, "w");
    let after = send_flows(&mut from, &mut [&mut u, &mut w], FLOWS);
    assert_eq!(after.len(), usize::from(FLOWS));
    assert!(after.values().filter(|at| **at == 1).count() > 50, "the path is used again");
}

#[test]
fn an_interface_that_is_missing_at_the_start_is_a_state_and_a_low_mtu_is_that_of_the_path() {
    let Some(mut bench) = Bench::new() else { return };
    bench.connect(1, 1, "u");
    bench.connect(2, 2, "u");
    bench.start(REGION, 3);
    assert_eq!(bench.port(3).state, Some(PortState::Missing));
    let (mut from, mut u) = (bench.open(1, "u"), bench.open(2, "u"));
    assert_eq!(send_flows(&mut from, &mut [&mut u], FLOWS).len(), usize::from(FLOWS));
    // 132 bytes of outer IP packet: 82 of the inner frame and 50 of outer IPv4, UDP and VXLAN
    // without the Ethernet header.
    assert_eq!(bench.dropped("exceeds_mtu"), 0);
    bench.ip(0, "link set port2 mtu 100");
    until("the path has the port's MTU", || {
        send_flows(&mut from, &mut [&mut u], 10);
        bench.dropped("exceeds_mtu") > 0
    });
}
