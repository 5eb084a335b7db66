//! Tests DPDK's virtual devices as ports: ring, null, pcap files, memif.
//!
//! Needs DPDK at build time. Needs no root, huge pages or namespaces; `dpdk_veth.rs` has the tests
//! that do.

use io::dpdk::{BUILT_IN, DpdkOptions, DpdkPort, EalOptions, HugePages};
use io::{AttachedPort, Port, PortFault, Readiness, RunStats, Runner, TxBatch, memory};
use packet::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Length of the longest frame, in bytes.
const LONGEST: usize = 9216;

fn skipped() -> bool {
    if !BUILT_IN {
        println!("SKIPPED: built without DPDK");
    }
    !BUILT_IN
}

/// Returns options without huge pages, because a test must not depend on free ones.
fn options() -> DpdkOptions {
    DpdkOptions { eal: EalOptions { huge_pages: HugePages::Avoid, memory_mb: 384 }, ..DpdkOptions::default() }
}

fn open(device: &str) -> DpdkPort {
    DpdkPort::open(device, &options()).unwrap_or_else(|error| panic!("{error:#?}\n{error}"))
}

/// Returns a number that is unique in this process.
fn fresh() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns a frame in which every byte depends on its offset and the frame's number.
fn frame(len: usize, number: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(7).wrapping_add(number as u8) ^ (index >> 8) as u8).collect()
}

/// Receives until `count` packets have arrived, for at most five seconds. The packets keep their
/// external buffers.
fn receive(port: &mut impl Port, count: usize) -> Vec<Packet> {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut all = Vec::new();
    while all.len() < count && Instant::now() < deadline {
        let mut batch = Batch::new();
        if port.receive(PortId(3), &mut batch).unwrap() == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
        all.extend(batch.packets_mut().iter_mut().map(std::mem::take));
    }
    all
}

#[test]
fn a_buffer_goes_from_port_to_port_without_a_copy() {
    if skipped() {
        return;
    }
    let mut ring = open(&format!("net_ring{}", fresh()));
    let sent = frame(100, 1);
    assert_eq!(ring.send(&mut TxBatch::of(&mut [Packet::from_bytes(&sent).unwrap()])), 1);
    assert_eq!(ring.counters().copied.packets, 1, "it had a buffer of its own");
    let mut packets = receive(&mut ring, 1);
    let place = packets[0].bytes().as_ptr();
    assert!(packets[0].is_external());
    assert_eq!(packets[0].bytes(), sent);
    for round in 2..50 {
        // Headers are added and removed in place, too.
        packets[0].prepend(50).unwrap().fill(7);
        packets[0].trim_front(50).unwrap();
        assert_eq!(ring.send(&mut TxBatch::of(&mut packets)), 1);
        assert!(packets[0].is_empty() && !packets[0].is_external(), "the device has the buffer");
        packets = receive(&mut ring, 1);
        assert_eq!(packets[0].bytes().as_ptr(), place);
        assert_eq!(packets[0].bytes(), sent);
        assert_eq!(ring.counters().copied.packets, 1);
        assert_eq!(ring.counters().received, Counter { packets: round, bytes: round * 100 });
    }
    let counters = ring.counters();
    assert_eq!(counters.sent, counters.received);
}

#[test]
fn a_packet_that_others_still_need_is_copied() {
    if skipped() {
        return;
    }
    let mut ring = open(&format!("net_ring{}", fresh()));
    ring.send_all(&mut [Packet::from_bytes(&frame(80, 3)).unwrap()].iter());
    let packets = receive(&mut ring, 1);
    ring.send_all(&mut packets.iter().chain(&packets));
    assert_eq!(packets[0].bytes(), frame(80, 3));
    let copies = receive(&mut ring, 2);
    assert!(copies.iter().all(|copy| copy.bytes() == packets[0].bytes()));
    assert_eq!(ring.counters().copied.packets, 3);
}

#[test]
fn a_packet_that_outgrows_its_buffer_moves_and_the_buffer_goes_back() {
    if skipped() {
        return;
    }
    let few = DpdkOptions { buffers: Some(64), descriptors: 32, ..options() };
    let mut ring = DpdkPort::open(&format!("net_ring{}", fresh()), &few).unwrap();
    for round in 0..200 {
        ring.send_all(&mut [Packet::from_bytes(&frame(1000, round)).unwrap()].iter());
        let mut packets = receive(&mut ring, 1);
        packets[0].prepend(2000).unwrap();
        assert!(!packets[0].is_external());
        assert_eq!(packets[0].bytes()[2000..], frame(1000, round));
    }
    assert!(ring.counters().drops.total().is_zero(), "{:?}", ring.counters());
}

#[test]
fn without_free_buffers_nothing_is_sent_and_that_is_counted() {
    if skipped() {
        return;
    }
    let few = DpdkOptions { buffers: Some(64), descriptors: 32, ..options() };
    let mut ring = DpdkPort::open(&format!("net_ring{}", fresh()), &few).unwrap();
    let packet = Packet::from_bytes(&frame(100, 0)).unwrap();
    let mut held = Vec::new();
    for _ in 0..64 {
        assert_eq!(ring.send_all(&mut std::iter::once(&packet)), 1);
        held.extend(receive(&mut ring, 1));
    }
    assert_eq!(ring.send_all(&mut std::iter::once(&packet)), 0);
    assert_eq!(ring.counters().drops.get(PortReason::TxNoBuffer).packets, 1);
    held.pop();
    assert_eq!(ring.send_all(&mut std::iter::once(&packet)), 1, "one buffer came back");
}

#[test]
fn buffers_may_outlive_their_port() {
    if skipped() {
        return;
    }
    let name = format!("net_ring{}", fresh());
    let mut ring = open(&name);
    ring.send_all(&mut [Packet::from_bytes(&frame(300, 9)).unwrap()].iter());
    let packets = receive(&mut ring, 1);
    drop(ring);
    assert_eq!(packets[0].bytes(), frame(300, 9));
    std::thread::spawn(move || drop(packets)).join().unwrap();
    drop(open(&name));
}

#[test]
fn a_null_device_gives_what_it_is_asked_for() {
    if skipped() {
        return;
    }
    let mut null = open(&format!("net_null{},size=700", fresh()));
    let mut batch = Batch::new();
    assert_eq!(null.receive(PortId(1), &mut batch).unwrap(), MAX_BATCH);
    assert!(batch.packets().iter().all(|packet| packet.len() == 700 && packet.is_external()));
    let times: std::collections::BTreeSet<u64> = batch.packets().iter().map(|packet| packet.rx_time_ns).collect();
    assert_eq!(times.len(), 1, "the clock is read once");
    assert_eq!(null.receive(PortId(1), &mut batch).unwrap(), 0, "the batch is full");
    assert_eq!(null.send(&mut TxBatch::of(batch.packets_mut())), MAX_BATCH);
    assert_eq!(null.counters().copied.packets, 0);
    assert!(matches!(null.readiness(), Readiness::Poll));
    // Larger than the usual buffer.
    let mut jumbo = open(&format!("net_null{},size=9000,copy=1", fresh()));
    batch.clear();
    assert_eq!(jumbo.receive(PortId(1), &mut batch).unwrap(), MAX_BATCH);
    assert!(batch.packets().iter().all(|packet| packet.len() == 9000));
}

/// Opens both ends of a memif within this process.
fn memif_pair(server: &DpdkOptions, client: &DpdkOptions, arguments: &str) -> (DpdkPort, DpdkPort) {
    let number = fresh();
    let socket = std::env::temp_dir().join(format!("io-test-{}-{number}.sock", std::process::id()));
    let device = |role: &str| {
        let name = format!("net_memif{role}{number}");
        format!("{name},role={role},socket={},socket-abstract=no{arguments}", socket.display())
    };
    let mut server = DpdkPort::open(&device("server"), server).unwrap();
    assert!(matches!(server.port_fault(), Some(PortFault::NoPeer { .. })));
    let mut client = DpdkPort::open(&device("client"), client).unwrap();
    wait_for_peer(&mut server);
    wait_for_peer(&mut client);
    (server, client)
}

fn wait_for_peer(port: &mut DpdkPort) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while port.port_fault().is_some() {
        assert!(Instant::now() < deadline, "{:?}", port.port_fault());
        let _ = port.receive(PortId(1), &mut Batch::new());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends every length from `from` to the longest in `step`s and checks the received frames.
fn every_length(sender: &mut DpdkPort, receiver: &mut DpdkPort, from: usize, step: usize) {
    let lengths: Vec<usize> = (from..=LONGEST).step_by(step).collect();
    for chunk in lengths.chunks(32) {
        let packets: Vec<Packet> = chunk.iter().map(|len| Packet::from_bytes(&frame(*len, *len)).unwrap()).collect();
        // The client of a memif provides buffers to its server when it receives.
        assert_eq!(receive_nothing(receiver), 0);
        assert_eq!(sender.send_all(&mut packets.iter()), chunk.len(), "{chunk:?}: {:?}", sender.counters());
        let received = receive(receiver, chunk.len());
        assert_eq!(received.iter().map(Packet::len).collect::<Vec<_>>(), chunk);
        for (sent, got) in packets.iter().zip(&received) {
            assert_eq!(sent.bytes(), got.bytes(), "{} bytes", sent.len());
        }
    }
}

#[test]
fn frames_of_every_length_cross_a_memif() {
    if skipped() {
        return;
    }
    let (mut server, mut client) = memif_pair(&options(), &options(), "");
    every_length(&mut client, &mut server, 14, 1);
    let linearised = server.counters().linearised.packets;
    // A frame that exceeds one buffer of 2,048 bytes arrives as a chain.
    assert_eq!(linearised, (LONGEST - 2048) as u64);
    every_length(&mut server, &mut client, 15, 7);
    for runt in 0..14 {
        assert_eq!(client.send_all(&mut [Packet::from_bytes(&frame(runt, 0)).unwrap()].iter()), 0);
    }
    assert_eq!(client.counters().drops.get(PortReason::TxRunt).packets, 14);
    assert_eq!(client.send_all(&mut [Packet::from_bytes(&frame(LONGEST + 1, 0)).unwrap()].iter()), 0);
    assert_eq!(client.counters().drops.get(PortReason::TxMtu).packets, 1);
    assert!(server.counters().drops.total().is_zero());
}

#[test]
fn chains_are_put_together_in_place_where_they_fit() {
    if skipped() {
        return;
    }
    let large = DpdkOptions { buffer_len: Some(9300), ..options() };
    let (mut server, mut client) = memif_pair(&large, &options(), ",bsize=512");
    every_length(&mut client, &mut server, 14, 61);
    let small = DpdkOptions { buffer_len: Some(200), ..options() };
    let (mut server, mut client) = memif_pair(&small, &small, "");
    every_length(&mut client, &mut server, 14, 61);
    every_length(&mut server, &mut client, 14, 61);
    assert!(server.counters().linearised.packets > 100);
}

#[test]
fn frames_longer_than_a_packet_can_be_are_dropped_by_name() {
    if skipped() {
        return;
    }
    // A file can contain any length.
    let input = capture(&[frame(60, 1), frame(MAX_WIRE_LEN, 2), frame(MAX_WIRE_LEN + 1, 3), frame(60, 4)]);
    let mut port = open(&format!("net_pcap{},rx_pcap={}", fresh(), input.display()));
    let received = receive(&mut port, 3);
    assert_eq!(received.iter().map(Packet::len).collect::<Vec<_>>(), [60, MAX_WIRE_LEN, 60]);
    assert_eq!(received[1].bytes(), frame(MAX_WIRE_LEN, 2));
    assert_eq!(port.counters().drops.get(PortReason::RxSegments).packets, 1);
    std::fs::remove_file(input).unwrap();
}

/// Writes a pcap file of these frames.
fn capture(frames: &[Vec<u8>]) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("io-test-{}-{}.pcap", std::process::id(), fresh()));
    let mut bytes: Vec<u8> = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [1, 2, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend_from_slice(frame);
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn frames_of_every_length_come_from_and_go_to_a_file() {
    if skipped() {
        return;
    }
    let frames: Vec<Vec<u8>> = (0..=LONGEST).step_by(13).map(|len| frame(len, len)).collect();
    let input = capture(&frames);
    let output = input.with_extension("out.pcap");
    let mut port = open(&format!("net_pcap{},rx_pcap={},tx_pcap={}", fresh(), input.display(), output.display()));
    let mut received = receive(&mut port, frames.len());
    assert!(received.iter().map(Packet::bytes).eq(frames.iter().map(Vec::as_slice)));
    let sendable = frames.iter().filter(|frame| frame.len() >= 14).count();
    assert_eq!(port.send(&mut TxBatch::of(&mut received)), sendable, "{:?}", port.counters());
    drop(port);
    let mut reader = io::capture::CaptureReader::open(&output).unwrap();
    let mut packet = Packet::new();
    for frame in frames.iter().filter(|frame| frame.len() >= 14) {
        reader.next(&mut packet).unwrap();
        assert_eq!(packet.bytes(), frame);
    }
    std::fs::remove_file(input).unwrap();
    std::fs::remove_file(output).unwrap();
}

#[test]
fn a_peer_that_goes_away_is_told_and_may_come_back() {
    if skipped() {
        return;
    }
    let (server, client) = memif_pair(&options(), &options(), "");
    for (mut stays, goes) in [(server, client)] {
        let device = goes.name().to_owned();
        drop(goes);
        let deadline = Instant::now() + Duration::from_secs(5);
        while stays.port_fault().is_none() {
            assert!(Instant::now() < deadline, "nobody noticed that {device} is gone");
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = stays.port_fault().unwrap().to_string();
        assert!(text.contains("the other end of `net_memifserver"), "{text}");
        assert_eq!(stays.send_all(&mut [Packet::from_bytes(&frame(60, 0)).unwrap()].iter()), 0);
        assert_eq!(stays.counters().drops.get(PortReason::TxPortDown).packets, 1);
        assert_eq!(receive_nothing(&mut stays), 0);
    }
}

fn receive_nothing(port: &mut DpdkPort) -> usize {
    port.receive(PortId(1), &mut Batch::new()).unwrap()
}

/// Sets a flag when its scope ends, also by a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Engine that forwards between ports 1 and 2 and prepends four bytes.
struct Longer;

impl Engine for Longer {
    fn name(&self) -> &str {
        "longer"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed_mut() {
            packet.prepend(4).unwrap().fill(0xee);
            let port = PortId(3 - packet.ingress_port.0);
            out.forward(reference, port);
        }
    }
}

#[test]
fn a_runner_forwards_between_dpdk_and_other_ports_without_loss() {
    if skipped() {
        return;
    }
    let (server, mut far) = memif_pair(&options(), &options(), "");
    let (near, host) = memory::pair("near", "host", 100).unwrap();
    let mut host = host.with_mtu(9300);
    let mut runner = Runner::new(vec![AttachedPort::new(1, server), AttachedPort::new(2, near.with_mtu(9300))])
        .unwrap()
        .with_tick(Duration::from_millis(1));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Ends the runner if an assertion fails.
        let _end = SetOnDrop(&stop);
        let stop = &stop;
        assert_eq!(receive_nothing(&mut far), 0);
        let run = scope.spawn(move || {
            let mut on_tick = |_: &mut Longer, _: &RunStats| ControlFlow::Continue(());
            runner.run(&mut Longer, stop, &mut on_tick).unwrap();
            runner.report().clone()
        });
        for number in 0..200 {
            let packet = Packet::from_bytes(&frame(20 + 10 * number, number)).unwrap();
            assert_eq!(far.send_all(&mut std::iter::once(&packet)), 1);
            let deadline = Instant::now() + Duration::from_secs(5);
            let got = loop {
                if let Some(got) = host.take() {
                    break got;
                }
                assert!(Instant::now() < deadline, "packet {number} was lost");
            };
            assert_eq!(got.bytes()[4..], *packet.bytes());
            assert!(!got.is_external(), "a queue in memory holds no device's buffers");
            assert!(host.send_bytes(packet.bytes()).unwrap());
            let back = receive(&mut far, 1);
            assert_eq!(back[0].bytes()[4..], *packet.bytes());
        }
        stop.store(true, Ordering::Relaxed);
        let report = run.join().unwrap();
        assert!(report.drops().total().is_zero(), "{report:?}");
        assert_eq!(report.sent().packets, 400);
        assert_eq!(report.ports[&PortId(1)].1.copied.packets, 200);
    });
}
