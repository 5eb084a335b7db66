//! A super-frame through the gateway equals its segments through the gateway, on each engine: with
//! and without flow caches, whole or cut before the program.

use flowcache::rewrite::RewriteCache;
use flowcache::{SegmentCache, SegmentCacheConfig};
use interp::{Config, Interp};
use io::memory::{self, MemoryPort};
use io::{AttachedPort, FinishedPacket, IdlePolicy, OffloadCounters, RunStats, Runner, SegmentPool, TxOffloads};
use jit::Jit;
use packet::{Engine, Offload, Packet};
use region::IdAssignments;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use testkit::frame::{IpPacket, VxlanFrame};

const REGION: &str = "
region: offloads
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1, 2001:db8::1]}
uplinks:
  - {name: u1, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:66:00:01, mtu: 1500}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, peer_mac: 02:00:00:02:00:02, mtu: 1500}
servers:
  - {name: s1, address: 192.0.2.11, uplinks: [u1]}
  - {name: s2, address: 192.0.2.12, uplinks: [u2]}
  - {name: s3, address: '2001:db8::13', uplinks: [u2]}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.0.0/24, 'fd00:100::/64'], tcp_mss: 1300}
vms:
  - {name: a, vpc: red, server: s1, mac: 02:00:00:77:00:01, addresses: [10.0.0.11, 'fd00:100::11']}
  - {name: b, vpc: red, server: s2, mac: 02:00:00:10:00:02, addresses: [10.0.0.12, 'fd00:100::12']}
  - {name: c, vpc: red, server: s3, mac: 02:00:00:10:00:03, addresses: [10.0.0.13, 'fd00:100::13']}
";

/// Returns a packet of VM a to VM b or c, whose payload has `payload` bytes, and which a card would
/// cut at `segment` bytes. Its checksums are those of an offloading sender.
fn random_packet(rng: &mut fastrand::Rng, payload: usize, segment: usize) -> Packet {
    let (is_ipv6, is_udp, to) = (rng.bool(), rng.u8(..4) == 0, rng.u8(2..4));
    let address = |last: u8| -> IpAddr {
        let text = if is_ipv6 { format!("fd00:100::1{last}") } else { format!("10.0.0.1{last}") };
        text.parse().unwrap()
    };
    let mut transport = vec![0x30, rng.u8(..4), 0x13, 0x89];
    if is_udp {
        transport.extend((8 + payload as u16).to_be_bytes());
        transport.extend([0, 0]);
    } else {
        transport.extend(rng.u32(..).to_be_bytes());
        // With SYN, the gateway lowers the MSS, whose checksum is open, too.
        let options: &[u8] = [&[][..], &[2, 4, 5, 0xb4], &[1, 2, 4, 5, 0xb4, 0, 0, 0]][rng.usize(..3)];
        transport.extend([0, 0, 0, 9, (5 + options.len() as u8 / 4) << 4, rng.u8(..), 2, 0, 0, 0, 0, 0]);
        transport.extend(options);
    }
    let header = transport.len();
    transport.resize(header + payload, 0x5a);
    let inner = IpPacket::new(address(1), address(to), if is_udp { 17 } else { 6 }, transport);
    let outer = ("192.0.2.11".parse().unwrap(), "192.0.2.1".parse().unwrap());
    let mut packet = Packet::from_bytes(&VxlanFrame::new(outer, 100, inner).bytes()).unwrap();
    packet.offload = Offload::open_checksum(header + payload, if is_udp { 6 } else { 16 });
    if payload > segment {
        packet.offload.segment_payload = segment as u16;
        packet.offload.segment_excess = (payload - segment) as u16;
    }
    packet
}

/// Returns the complete packets that a card would send for this one.
fn cut(packet: &Packet) -> Vec<Packet> {
    let (mut pool, mut packet) = (SegmentPool::default(), packet.clone());
    match pool.finish(&mut packet, TxOffloads::default(), &mut OffloadCounters::default()) {
        FinishedPacket::Whole => vec![packet],
        FinishedPacket::Segments(range) => pool.packets()[range].to_vec(),
        FinishedPacket::Lost(reason) => panic!("{reason}"),
    }
}

/// Passes packets through an engine between two memory ports. Returns the packets that left, and
/// the statistics.
fn pass(engine: &mut Box<dyn Engine>, packets: &[Packet]) -> (Vec<Vec<u8>>, RunStats) {
    let (mut near, first) = memory::pair("near", "first", 8192).unwrap();
    let (far, second) = memory::pair("far", "second", 8192).unwrap();
    let (mut near_mtu, mut far): (MemoryPort, MemoryPort) = (near.with_mtu(16_000), far);
    let ports = vec![AttachedPort::new(1, first), AttachedPort::new(2, second.with_mtu(16_000))];
    let sent = io::Port::send_all(&mut near_mtu, &mut packets.iter());
    assert_eq!(sent, packets.len());
    near = near_mtu;
    let mut runner =
        Runner::new(ports).unwrap().with_idle(IdlePolicy::BUSY).with_tick(std::time::Duration::from_millis(1));
    let mut on_tick =
        |_: &mut Box<dyn Engine>, report: &RunStats| match report.engine.received.packets as usize >= packets.len() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
    runner.run(engine, &AtomicBool::new(false), &mut on_tick).unwrap();
    drop(near);
    let left = std::iter::from_fn(|| far.take()).inspect(|packet| assert!(packet.offload.is_none()));
    (left.map(|packet| without_outer_identification(packet.bytes())).collect(), runner.report().clone())
}

/// Returns a packet without the identification and the checksum of its outer IPv4 header. The
/// gateway writes 0, and the cutter counts up from there.
fn without_outer_identification(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes[12..14] == [8, 0] {
        bytes[18..20].fill(0);
        bytes[24..26].fill(0);
    }
    bytes
}

#[test]
fn a_super_frame_equals_its_segments_on_each_engine() {
    let pipeline = testkit::gateway::pipeline().expect("the gateway compiles");
    let region = region::parse("region.yaml", REGION).unwrap();
    let entries = region::entries(&region, "region.yaml", &pipeline, &mut IdAssignments::default()).unwrap();
    let writes = region::diff(region::GatewayEntries::default(), entries);
    let config = Config::default;
    let mut oracle = Interp::new(pipeline.clone(), config()).unwrap();
    oracle.write(&writes).unwrap();
    let mut interp = Interp::new(pipeline.clone(), config()).unwrap();
    interp.write(&writes).unwrap();
    let mut native = Jit::new(pipeline.clone(), config()).unwrap();
    native.write(&writes).unwrap();
    assert_eq!(native.fallback_reason(), None);
    let mut rewrites = RewriteCache::new(pipeline.clone(), config(), 1000).unwrap();
    rewrites.write_and_release(&writes).unwrap();
    let mut native_rewrites = RewriteCache::native(pipeline.clone(), config(), 1000).unwrap();
    native_rewrites.write_and_release(&writes).unwrap();
    let mut segments = SegmentCache::new(Arc::clone(&pipeline), config(), SegmentCacheConfig::default()).unwrap();
    segments.write(&writes).unwrap();
    let mut oracle: Box<dyn Engine> = Box::new(oracle);
    let mut engines: [(Box<dyn Engine>, bool); 5] = [
        (Box::new(interp), true),
        (Box::new(native), true),
        (Box::new(rewrites), false),
        (Box::new(native_rewrites), false),
        (Box::new(segments), false),
    ];
    let seed = testkit::differ::env_number("SEED", fastrand::u64(..1 << 32));
    println!("SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut forwarded, mut too_long) = (0, 0);
    for _ in 0..40 {
        // Segments around the longest that fits: 1,500 - 50 - 40 bytes.
        let packets: Vec<Packet> = (0..rng.usize(1..20))
            .map(|_| {
                let segment = rng.usize(1_300..1_500);
                let payload = rng.usize(1..(60_000.min(40 * segment)));
                random_packet(&mut rng, payload, segment)
            })
            .collect();
        // A super-frame fits if its longest segment fits. Then all of its segments do, so that
        // packets are compared whose last segment is not the only one that fits.
        let expected: Vec<Vec<u8>> = packets
            .iter()
            .flat_map(|packet| {
                let pieces = cut(packet);
                let (left, _) = pass(&mut oracle, &pieces);
                let all_fit = left.len() == pieces.len();
                (forwarded, too_long) = (forwarded + u32::from(all_fit), too_long + u32::from(!all_fit));
                if all_fit { left } else { Vec::new() }
            })
            .collect();
        for (engine, takes_super_frames) in &mut engines {
            assert_eq!(engine.takes_offloads(), *takes_super_frames, "{}", engine.name());
            let (left, report) = pass(engine, &packets);
            assert_eq!(report.unaccounted(), 0, "{report:?}");
            if *takes_super_frames {
                assert_eq!(left.len(), expected.len(), "{}", engine.name());
                for (number, (found, expected)) in left.iter().zip(&expected).enumerate() {
                    let differs: Vec<usize> =
                        (0..expected.len()).filter(|at| found.get(*at) != expected.get(*at)).collect();
                    assert!(differs.is_empty(), "{}: packet {number}, bytes {differs:?}: {found:02x?}", engine.name());
                }
            } else {
                // Short last segments of a super-frame that does not fit pass by themselves.
                let mut rest = left.iter();
                assert!(expected.iter().all(|packet| rest.any(|found| found == packet)), "{}", engine.name());
            }
        }
    }
    assert!(forwarded > 50 && too_long > 50, "{forwarded} {too_long}");
}
