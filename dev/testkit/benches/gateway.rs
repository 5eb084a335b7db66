//! Bounds for the gateway on the reference engine: compile time, and packets per second with 100
//! VPCs, 10,000 VMs and 20 ACL rules per VPC. Packets belong to random flows between VMs of one
//! VPC; the output is checked before the measurement.

#![allow(missing_docs)] // the items of the criterion macros have none

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use testkit::frame::{IpPacket, VxlanFrame, segment};
use testkit::gateway;
use testkit::regions::{self, RegionSize};

const SIZE: RegionSize = RegionSize { vpcs: 100, vms: 10_000, acl_rules: 20, servers: 50 };
const PACKETS: usize = 4096;

fn compile(c: &mut Criterion) {
    let path = gateway::root().join("programs/gateway/gateway.p4");
    c.bench_function("compile gateway.p4", |b| b.iter(|| gateway::compile(black_box(&path)).expect("it compiles")));
}

/// Returns TCP packets to port 80 of VMs of all VPCs. No ACL rule matches, so that all 20 are
/// compared, twice.
fn packets() -> Vec<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(1);
    let machine = |rng: &mut fastrand::Rng| -> IpAddr { Ipv4Addr::new(10, 0, 0, rng.u8(1..=100)).into() };
    let server = IpAddr::from([198, 18, 0, 1]);
    (0..PACKETS)
        .map(|_| {
            let (source, destination) = (machine(&mut rng), machine(&mut rng));
            let inner = IpPacket::new(source, destination, 6, segment(rng.u16(1024..), 80, 40));
            let mut frame = VxlanFrame::new((server, IpAddr::from([192, 0, 2, 1])), 100 + rng.u32(..100), inner);
            frame.mac = [2, 0, 0, 0, 1, 1];
            frame.bytes()
        })
        .collect()
}

fn forward(c: &mut Criterion) {
    let pipeline = gateway::pipeline().expect("it compiles");
    let region = region::parse("made.yaml", &regions::text(SIZE)).expect("a region");
    let mut engine = gateway::gateway_engine(pipeline, &region).expect("entries are taken");
    let packets = packets();
    let model = testkit::model::Model::new(&region);
    for packet in packets.iter().take(200) {
        let outputs = engine.process(packet, 1, 0);
        let found = gateway::model_verdict(&engine, &outputs).expect("a verdict");
        assert_eq!(found, model.process(packet, 1), "the engine does what the model does");
        assert_eq!(outputs.sent().count(), 1, "every packet is forwarded");
    }
    let mut group = c.benchmark_group("interp");
    group.throughput(Throughput::Elements(PACKETS as u64));
    let mut outputs = interp::Outputs::new();
    group.bench_function("gateway, 100 VPCs, 10,000 VMs, 20 ACL rules", |b| {
        b.iter(|| {
            for packet in &packets {
                engine.process_into(packet, 1, 0, &mut outputs);
            }
            outputs.packets().len()
        })
    });
    group.finish();
}

criterion_group!(benches, compile, forward);
criterion_main!(benches);
