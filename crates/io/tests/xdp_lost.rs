//! Tests that packets that the kernel loses after its flow cache has sent them are counted by
//! reason and by owner, on veth pairs, in network namespaces that each test creates and removes.
//!
//! Needs root and a kernel with XDP. Otherwise each test reports that it was skipped (`--nocapture`
//! shows it).

#[path = "support/receive.rs"]
mod receive;
#[allow(dead_code)] // other tests use `Wire`
mod support;
#[path = "support/xdp_lab.rs"]
mod xdp_lab;

use io::xdp::maps::XdpFlow;
use io::xdp::{XdpMode, XdpPort};
use io::{Port, PortFault, RawPort};
use packet::{Batch, Packet, PortCounters, PortId, PortReason};
use receive::receive;
use std::time::{Duration, Instant};
use support::sh;
use xdp_lab::{Lab, by_type, bytes, frame, key};

/// Maximum time to wait for packets.
const PATIENCE: Duration = Duration::from_secs(5);
/// Flow that leaves by the second port.
const ON: u16 = 0x1111;
/// Flow that returns by its input port.
const BACK: u16 = 0x2222;

/// Two ports and their other ends.
struct Pair {
    lab: Lab,
    ports: [XdpPort; 2],
    worlds: [RawPort; 2],
}

impl Pair {
    fn new(modes: [XdpMode; 2]) -> Option<Pair> {
        let lab = Lab::new(2, 16)?;
        let ports = [lab.port_as(0, modes[0]), lab.port_as(1, modes[1])];
        let worlds = [lab.world(0), lab.world(1)];
        let (from, to) = (lab.kernel.slot_of_port(0).unwrap(), lab.kernel.slot_of_port(1).unwrap());
        lab.kernel.set_shape(0, &by_type(), 1).unwrap();
        for (place, ethertype, leaves) in [(0, ON, to), (1, BACK, from)] {
            let mut flow = XdpFlow::new(key(from, ethertype));
            (flow.forward, flow.port) = (1, leaves);
            lab.kernel.install(place, &flow).unwrap();
        }
        Some(Pair { lab, ports, worlds })
    }

    /// Sends frames from the first outside end, and waits until the kernel has processed all of
    /// them.
    fn send(&mut self, frames: &[Packet]) {
        let done = |lab: &Lab| {
            let found = lab.kernel.outcomes();
            assert_eq!((found.fault, found.not_a_port, found.portless, found.broken), (0, 0, 0, 0), "{found:?}");
            found.sent + found.redirected + found.missed
        };
        let before = done(&self.lab);
        for some in frames.chunks(17) {
            assert_eq!(self.worlds[0].send_all(&mut some.iter()), some.len());
        }
        let began = Instant::now();
        while done(&self.lab) < before + frames.len() as u64 {
            assert!(began.elapsed() < PATIENCE, "the program has seen {}", done(&self.lab) - before);
        }
    }

    /// Forwards `count` missed packets by the second port, as an engine would.
    fn go_on(&mut self, count: usize) {
        let packets = receive(&mut self.ports[0], count, PATIENCE);
        assert_eq!(packets.len(), count);
        assert_eq!(self.ports[1].send_all(&mut packets.iter()), count);
    }

    fn counters(&mut self, port: usize) -> PortCounters {
        self.ports[port].counters().clone()
    }

    fn lost(&mut self, port: usize) -> Vec<(PortReason, u64)> {
        let counters = self.counters(port);
        let lost = PortReason::ALL.iter().map(|reason| (*reason, counters.drops.get(*reason).packets));
        lost.filter(|(_, packets)| *packets > 0).collect()
    }
}

fn frames(ethertype: u16, lens: impl IntoIterator<Item = usize>) -> Vec<Packet> {
    (0u8..).zip(lens).map(|(seed, len)| frame(len, ethertype, seed)).collect()
}

#[test]
fn what_a_far_end_without_a_program_does_not_take_is_counted_to_the_packet() {
    let Some(mut pair) = Pair::new([XdpMode::Native; 2]) else { return };
    assert!(pair.ports.iter().all(|port| port.notes().is_empty()));
    let sent = frames(ON, (0..100).map(|index| 60 + index));
    pair.send(&sent);
    assert_eq!(receive(&mut pair.worlds[1], 100, PATIENCE).len(), 100);
    assert_eq!((pair.lost(1), pair.counters(1).sent.packets), (vec![], 100));

    pair.lab.stop_passing(0);
    pair.send(&sent);
    let arrived = receive(&mut pair.worlds[1], 1, Duration::from_millis(200)).len() as u64;
    let counters = pair.counters(1);
    assert_eq!(pair.lost(1), [(PortReason::TxXdpRefused, 100 - arrived)]);
    assert_eq!((arrived, counters.sent.packets), (0, 100), "those of before");
    let first = pair.counters(0);
    assert_eq!(first.received.packets, 200);
    assert_eq!(first.received.bytes, 2 * (60..160).sum::<u64>());
    assert_eq!(pair.lab.kernel.refusing_ports(), [(1, "a1".to_owned())]);

    // After the loss is detected, packets leave through the process and arrive.
    pair.send(&sent);
    pair.go_on(100);
    assert_eq!(bytes(&receive(&mut pair.worlds[1], 100, PATIENCE)), bytes(&sent));
    assert_eq!((pair.lost(1), pair.counters(1).sent.packets), (vec![(PortReason::TxXdpRefused, 100)], 200));
    assert_eq!(pair.lab.kernel.outcomes().device_refused, 100);
    assert_eq!(pair.counters(0).received.packets, 300);

    // The far end accepts them again: the kernel is queried once a second.
    pair.lab.let_pass(2);
    let began = Instant::now();
    while !pair.lab.kernel.refusing_ports().is_empty() {
        assert!(began.elapsed() < PATIENCE);
        assert_eq!(pair.ports[1].port_fault(), None);
        pair.counters(1);
    }
    assert!(began.elapsed() > Duration::from_millis(200), "not each time");
    let redirected = pair.lab.kernel.outcomes().redirected;
    pair.send(&sent[..10]);
    assert_eq!(pair.lab.kernel.outcomes().redirected, redirected + 10);
    let arrived = receive(&mut pair.worlds[1], 11, PATIENCE);
    assert_eq!(bytes(&arrived[1..]), bytes(&sent[..10]), "behind the frame that asked");
    assert_eq!((pair.lost(1), pair.counters(1).sent.packets), (vec![(PortReason::TxXdpRefused, 100)], 210));
}

#[test]
fn a_far_end_without_a_program_is_named_at_the_start_and_nothing_is_lost() {
    let Some(mut lab) = Lab::new(2, 16) else { return };
    lab.stop_passing(1);
    let mut port = lab.port(1);
    assert!(port.notes()[0].contains("`a1`: its device refuses packets from XDP programs"), "{:?}", port.notes());
    assert!(port.notes()[0].contains("ethtool -K END gro on"), "{:?}", port.notes());
    assert_eq!(port.counters(), &PortCounters::default(), "that it was asked is no loss");
    // Receive offload at the far end has the same effect.
    drop(port);
    assert!(sh(&format!("ip netns exec {} ethtool -K b1 gro on", lab.namespaces.name(0))));
    assert!(lab.port(1).notes().is_empty());
}

#[test]
fn frames_that_go_back_and_are_not_taken_are_counted() {
    let Some(mut pair) = Pair::new([XdpMode::Native; 2]) else { return };
    let sent = frames(BACK, [60; 40]);
    pair.send(&sent);
    assert_eq!(receive(&mut pair.worlds[0], 40, PATIENCE).len(), 40);
    pair.lab.stop_passing(0);
    pair.send(&sent);
    assert_eq!(pair.lab.kernel.outcomes().sent, 80);
    assert_eq!((pair.lost(0), pair.counters(0).sent.packets), (vec![(PortReason::TxXdpRefused, 40)], 40));
    assert_eq!(pair.lost(1), []);
}

#[test]
fn each_loss_has_its_reason() {
    let Some(mut pair) = Pair::new([XdpMode::Native; 2]) else { return };
    let long = frames(ON, [1_100; 7]);
    pair.lab.namespaces.ip(0, "link set a1 mtu 1000");
    pair.send(&long);
    assert_eq!(pair.lost(1), [(PortReason::TxMtu, 7)]);
    pair.lab.namespaces.ip(0, "link set a1 mtu 1500");
    pair.lab.namespaces.ip(0, "link set b1 mtu 1000");
    pair.send(&long);
    // The far end's driver reports only that it accepted none.
    assert_eq!(pair.lost(1), [(PortReason::TxMtu, 7), (PortReason::TxQueueFull, 7)]);
    pair.lab.namespaces.ip(0, "link set a1 down");
    pair.send(&long[..5]);
    let all = [(PortReason::TxMtu, 7), (PortReason::TxQueueFull, 7), (PortReason::TxPortDown, 5)];
    assert_eq!(pair.lost(1), all);
    assert_eq!(pair.counters(1).sent.packets, 0);
    assert_eq!(pair.counters(0).received.packets, 19);
    assert_eq!(pair.ports[1].port_fault(), Some(PortFault::LinkDown { port: "a1".to_owned() }));
    pair.lab.namespaces.ip(0, "link del a1");
    let gone = PortFault::InterfaceGone { port: "a1".to_owned(), interface: "a1".to_owned() };
    assert_eq!(pair.ports[1].port_fault(), Some(gone));
}

#[test]
fn behind_the_driver_a_far_end_needs_nothing_and_losses_are_counted_too() {
    let Some(mut pair) = Pair::new([XdpMode::Generic; 2]) else { return };
    pair.lab.stop_passing(0);
    let sent = frames(ON, [60; 30]);
    pair.send(&sent);
    assert_eq!(receive(&mut pair.worlds[1], 30, PATIENCE).len(), 30);
    assert_eq!((pair.lost(1), pair.counters(1).sent.packets), (vec![], 30));
    pair.lab.namespaces.ip(0, "link set a1 down");
    pair.send(&sent);
    assert_eq!((pair.lost(1), pair.counters(1).sent.packets), (vec![(PortReason::TxPortDown, 30)], 30));
}

/// Interfaces of other namespaces have the same indices.
#[test]
fn what_others_lose_is_not_counted() {
    let (Some(mut mine), Some(mut other)) = (Pair::new([XdpMode::Native; 2]), Pair::new([XdpMode::Native; 2])) else {
        return;
    };
    assert_eq!([0, 1].map(|port| mine.ports[port].interface()), [0, 1].map(|port| other.ports[port].interface()));
    other.lab.stop_passing(0);
    other.send(&frames(ON, [60; 50]));
    other.send(&frames(BACK, [60; 50]));
    assert_eq!(
        (other.lost(0), other.lost(1)),
        (vec![(PortReason::TxXdpRefused, 50)], vec![(PortReason::TxXdpRefused, 50)])
    );
    assert_eq!((mine.lost(0), mine.lost(1)), (vec![], vec![]));
    assert_eq!(mine.lab.kernel.refusing_ports(), []);
}

#[test]
fn what_is_sent_without_a_carrier_is_counted() {
    let Some(lab) = Lab::new(1, 16) else { return };
    let mut port = lab.port(0);
    let sent = frames(ON, [60; 100]);
    lab.namespaces.ip(0, "link set b0 down");
    port.send_all(&mut sent.iter());
    let counters = port.counters();
    assert_eq!((counters.sent.packets, counters.drops.get(PortReason::TxPortDown).packets), (0, 100));
    assert_eq!(counters.drops.total().packets, 100);
    // After detection no send is tried.
    assert_eq!(port.port_fault(), Some(PortFault::LinkDown { port: "a0".to_owned() }));
    port.send_all(&mut sent.iter());
    assert_eq!(port.counters().drops.get(PortReason::TxPortDown).packets, 200);
    lab.namespaces.ip(0, "link set b0 up");
    let began = Instant::now();
    while port.port_fault().is_some() {
        assert!(began.elapsed() < PATIENCE);
    }
    let mut world = lab.world(0);
    assert_eq!(port.send_all(&mut sent.iter()), 100);
    assert_eq!(bytes(&receive(&mut world, 100, PATIENCE)), bytes(&sent));
    assert_eq!((port.counters().sent.packets, port.counters().drops.total().packets), (100, 200));
}

#[test]
fn a_frame_that_no_socket_buffer_holds_is_counted_as_too_long() {
    let Some(lab) = Lab::new(1, 16) else { return };
    let mut port = lab.port(0);
    lab.namespaces.ip(0, "link set a0 mtu 3000");
    lab.namespaces.ip(0, "link set b0 mtu 3000");
    let mut world = lab.world(0);
    assert_eq!(world.send_all(&mut frames(0x88b5, [2_500, 100, 2_900]).iter()), 3);
    let mut batch = Batch::new();
    let began = Instant::now();
    while batch.is_empty() && began.elapsed() < PATIENCE {
        port.receive(PortId(0), &mut batch).unwrap();
    }
    assert_eq!(batch.packets().iter().map(Packet::len).collect::<Vec<_>>(), [100]);
    while port.counters().drops.total().packets < 2 && began.elapsed() < PATIENCE {}
    let drops = &port.counters().drops;
    assert_eq!((drops.get(PortReason::RxOversize).packets, drops.total().packets), (2, 2), "{drops:?}");
}
