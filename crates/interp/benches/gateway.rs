//! Packets per second of the reference engine with the gateway program: 100 VPCs, 10,000 VMs, 20 ACL rules a VPC and
//! direction. The bar is 300,000 packets/s on one core, as this engine is the oracle that all fuzzing pays for.

#![allow(missing_docs)] // of what criterion's macro makes

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use interp::{Config, Interp, Outputs};
use ir::Pipeline;
use std::path::Path;
use std::sync::Arc;
use tables::{Update, WriteBatch, parse_entry};

const VPCS: u32 = 100;
const VMS_PER_VPC: u32 = 100;
const ACL_RULES: u32 = 20;

fn gateway() -> Pipeline {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let options = p4::compile::Options { include_dirs: vec![root.join("include")], ..Default::default() };
    let program = root.join("gateway/gateway.p4");
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &program, &options);
    compiled.pipeline.expect("the gateway program compiles")
}

/// VPC `v` has VNI 1000 + v and the VMs 10.0.h.l on servers 192.0.3.x.
fn entries() -> Vec<String> {
    let mut lines = vec![
        "own_address_v4: 192.0.2.1 -> tunnel_address()".to_owned(),
        "next_hop: 1 -> forward(port=1, port_mac=02:00:00:00:00:01, neighbour_mac=02:00:00:00:01:01, mtu=9000)"
            .to_owned(),
    ];
    for server in 0..100 {
        lines.push(format!("underlay_route_v4: 192.0.3.{server}/32 -> via_next_hop(1)"));
    }
    for vpc in 0..VPCS {
        let vni = 1000 + vpc;
        lines.push(format!("tenant: {vni} -> set_vpc({vpc}, {vpc})"));
        lines.push(format!("route_v4: {vpc}, 10.0.0.0/16 -> local()"));
        for more in 0..8 {
            lines.push(format!("route_v4: {vpc}, 10.{}.0.0/{} -> blackhole()", more + 1, 16 + more));
        }
        for vm in 0..VMS_PER_VPC {
            let (server, mac) = (vm % 100, 0x0200_0000_0000_u64 + u64::from(vpc * VMS_PER_VPC + vm));
            lines.push(format!("vm_nc_v4: {vni}, 10.0.0.{vm} -> on_server_v4(192.0.3.{server}, {mac:#x})"));
        }
        for table in ["acl_out.v4", "acl_in.v4"] {
            for rule in 1..ACL_RULES {
                lines.push(format!(
                    "{table}: vpc={vpc}, destination=10.0.{rule}.0/24, protocol=6, l4_destination={rule}..{} -> deny() \
                     priority={}",
                    rule + 100,
                    rule + 1
                ));
            }
            lines.push(format!("{table}: vpc={vpc} -> permit() priority=1"));
        }
    }
    lines
}

fn batch(pipeline: &Pipeline) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for line in entries() {
        batch.insert(parse_entry(pipeline, &line).unwrap_or_else(|error| panic!("{line}: {error}")));
    }
    // The default action of a table without keys is written as an entry would be.
    let identity =
        "gateway_identity: -> set_identity(source_v4=192.0.2.1, source_v6=2001:db8::1, mac=02:00:00:00:00:99)";
    let identity = parse_entry(pipeline, identity).expect("the gateway's identity");
    batch.push(Update::DefaultAction(identity.table, Some(identity.action)));
    batch
}

fn checksum(header: &mut [u8]) {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn ipv4(protocol: u8, length: usize, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    header.extend(source);
    header.extend(destination);
    checksum(&mut header);
    header
}

/// TCP from one VM of a VPC to another, in VXLAN, with 64 bytes of payload.
fn packet(vpc: u32, from: u8, to: u8) -> Vec<u8> {
    let mut tcp = vec![0x30, from, 0x1f, 0x90, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0];
    tcp.extend([0x5a; 64]);
    let mut inner = vec![2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 1, 8, 0];
    inner.extend(ipv4(6, 20 + tcp.len(), [10, 0, 0, from], [10, 0, 0, to]));
    inner.extend(tcp);
    let vni = (1000 + vpc).to_be_bytes();
    let length = 16 + inner.len();
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 8, 0];
    packet.extend(ipv4(17, 20 + length, [192, 0, 3, from % 100], [192, 0, 2, 1]));
    packet.extend([0xc0, from, 0x12, 0xb5]);
    packet.extend((length as u16).to_be_bytes());
    packet.extend([0, 0, 8, 0, 0, 0, vni[1], vni[2], vni[3], 0]);
    packet.extend(inner);
    packet
}

/// What a busy machine does not disturb: packets by the time that this thread had a processor.
fn per_cpu_second(interp: &mut Interp, packets: &[Vec<u8>]) -> f64 {
    let spent = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    let mut out = Outputs::new();
    let (rounds, start) = (200, spent());
    for packet in packets.iter().cycle().take(rounds * packets.len()) {
        interp.process_into(packet, 1, 0, &mut out);
    }
    (rounds * packets.len()) as f64 * 1e9 / (spent() - start)
}

fn forward(c: &mut Criterion) {
    let pipeline = Arc::new(gateway());
    let mut interp = Interp::new(pipeline.clone(), Config::default()).expect("the gateway loads");
    interp.write(&batch(&pipeline)).expect("the entries are accepted");
    let packets: Vec<Vec<u8>> =
        (0..1024u32).map(|n| packet(n * 7 % VPCS, (n % 100) as u8, ((n * 13 + 1) % 100) as u8)).collect();
    let mut out = Outputs::new();
    for packet in &packets {
        interp.process_into(packet, 1, 0, &mut out);
        assert_eq!(out.sent().count(), 1, "{}", interp.trace(packet, 1, 0).1);
    }
    println!("gateway: {:.0} packets per second of processor time", per_cpu_second(&mut interp, &packets));
    let mut group = c.benchmark_group("gateway");
    group.throughput(Throughput::Elements(packets.len() as u64));
    group.bench_function("interp", |b| {
        b.iter(|| {
            for packet in &packets {
                interp.process_into(packet, 1, 0, &mut out);
            }
        });
    });
    group.finish();
}

/// A million routes and VMs, inserted as one batch.
fn load(c: &mut Criterion) {
    let pipeline = Arc::new(gateway());
    let table = |name: &str| pipeline.tables.iter().find(|(_, t)| t.preamble.name.ends_with(name)).map(|(id, _)| id);
    let vm_nc = table("vm_nc.vm_nc_v4").expect("the gateway has the table");
    let template = parse_entry(&pipeline, "vm_nc_v4: 1, 1 -> on_server_v4(192.0.3.1, 1)").expect("an entry");
    let mut batch = WriteBatch::new();
    for n in 0..1_000_000u32 {
        let mut entry = template.clone();
        entry.table = vm_nc;
        entry.keys = vec![ir::KeyMatch::Exact((n % 1000).into()), ir::KeyMatch::Exact((n / 1000).into())];
        batch.insert(entry);
    }
    let mut group = c.benchmark_group("load");
    group.sample_size(10);
    group.throughput(Throughput::Elements(batch.updates.len() as u64));
    group.bench_function("a million entries", |b| {
        let engine = || Interp::new(pipeline.clone(), Config::default()).expect("the gateway loads");
        b.iter_batched(engine, |mut interp| interp.write(&batch).map(|()| interp), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, forward, load);
criterion_main!(benches);
