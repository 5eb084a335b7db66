//! Sessions: pairs of entries and pools of ports (`terrace.p4`) with several workers, on
//! `programs/nat`, and faults in their use.

use entries::{ActionSpec, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use ir::{ActionCall, KeyMatch, Pipeline, TableId};
use jit::Jit;
use num_bigint::BigUint;
use packet::{Batch, BatchOutput, Engine, PortId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use testkit::differ::compile;
use testkit::frame::{IpPacket, segment};

const INSIDE_PORT: u32 = 1;
const FIRST_HOST: u32 = 0x0a00_0000;
const FIRST_PUBLIC: u32 = 0xc633_6400;
const SERVER: u32 = 0xcb00_7109;
const SECOND: u64 = 1_000_000_000;

/// Address and port of one side of a session.
type Endpoint = (u32, u16);

fn nat() -> Arc<Pipeline> {
    let path = testkit::gateway::root().join("programs/nat/nat.p4");
    Arc::new(testkit::gateway::compile(&path).expect("it compiles"))
}

fn table(pipeline: &Pipeline, name: &str) -> TableId {
    let found = pipeline.tables.iter().find(|(_, table)| table.preamble.name.ends_with(name));
    found.expect("the program has the table").0
}

/// Returns the entries of `links`, with one block of ports for each of two public addresses' hosts,
/// and the expire times.
fn configuration(pipeline: &Pipeline) -> WriteBatch {
    let links = table(pipeline, ".links");
    let entry = |port: u32, action: usize, args: &[u32]| {
        let action = pipeline.tables[links].actions[action].action;
        let args = args.iter().map(|arg| BigUint::from(*arg)).collect();
        let call = ActionSpec::Call(ActionCall { action, args });
        StateUpdate::Entry(UpdateKind::Insert, TableEntry::new(links, vec![exact(port)], call))
    };
    let mut updates =
        vec![entry(INSIDE_PORT, 0, &[2, 1, 2, FIRST_HOST, FIRST_PUBLIC, 2, 4, 0x5eed]), entry(2, 1, &[1, 3, 4])];
    updates.extend((0..4).map(|profile| StateUpdate::ExpireTime(profile, 300 * SECOND)));
    WriteBatch { updates }
}

fn exact(value: u32) -> KeyMatch {
    KeyMatch::Exact(BigUint::from(value))
}

/// Returns a UDP packet without a checksum.
fn udp(source: Endpoint, destination: Endpoint) -> Vec<u8> {
    let mut datagram = segment(source.1, destination.1, 26);
    datagram[4..8].copy_from_slice(&[0, 26, 0, 0]);
    let [from, to] = [source.0, destination.0].map(|address| IpAddr::V4(address.into()));
    let ethernet = [[0; 12].as_slice(), &[8, 0]].concat();
    [ethernet, IpPacket::new(from, to, 17, datagram).bytes()].concat()
}

/// Sends a packet of each host's port from inside. Returns the public side of each that was sent
/// on.
fn send_from_inside(engine: &mut dyn Engine, flows: &[Endpoint], now: u64) -> Vec<(Endpoint, Endpoint)> {
    let mut translated = Vec::new();
    for flows in flows.chunks(64) {
        let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
        for flow in flows {
            batch.push_bytes(&udp(*flow, (SERVER, 53)), PortId(INSIDE_PORT), now).expect("a batch has room");
        }
        engine.process(&mut batch, &mut out);
        for (entry, packet) in out.iter(&batch) {
            if !matches!(entry.verdict, packet::Verdict::Forward { .. }) {
                continue;
            }
            let packet::PacketRef::Input(index) = entry.packet else { panic!("nat.p4 makes no packets") };
            let bytes = packet.bytes();
            let address = u32::from_be_bytes(bytes[26..30].try_into().expect("four bytes"));
            translated.push((flows[usize::from(index)], (address, u16::from_be_bytes([bytes[34], bytes[35]]))));
        }
    }
    translated
}

/// Three workers get packets of the same new sessions at the same time. Each session gets one
/// public port, no port serves two, and all ports return when the sessions end, however they end.
#[test]
fn workers_share_sessions_and_ports() {
    let pipeline = nat();
    let mut control = Jit::new(pipeline.clone(), interp::Config::default()).expect("it loads");
    assert_eq!(control.fallback_reason(), None);
    control.write(&configuration(&pipeline)).expect("the entries are valid");
    let mut workers: Vec<Jit> = (0..3).map(|_| control.new_worker()).collect();
    // 100 hosts with 200 ports each: some four blocks of ports for each.
    let flows: Vec<Endpoint> =
        (0..200u16).flat_map(|port| (0..100u32).map(move |host| (FIRST_HOST + host, 5000 + port))).collect();
    let sent: Vec<(Endpoint, Endpoint)> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(|| send_from_inside(worker, &flows, SECOND))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("the worker ends")).collect()
    });
    let mut public_sides: BTreeMap<Endpoint, BTreeSet<Endpoint>> = BTreeMap::new();
    for (flow, public) in &sent {
        public_sides.entry(*flow).or_default().insert(*public);
    }
    // A packet is refused if another one overtakes it, or holds the lock of its bucket for long. Hosts
    // then send it again.
    let again: Vec<Endpoint> = flows.iter().copied().filter(|flow| !public_sides.contains_key(flow)).collect();
    assert!(again.len() <= flows.len() / 50, "{} sessions were refused to all workers", again.len());
    for (flow, public) in send_from_inside(&mut workers[0], &again, SECOND) {
        public_sides.entry(flow).or_default().insert(public);
    }
    assert_eq!(public_sides.len(), flows.len(), "a session was refused although nothing else ran");
    assert!(public_sides.values().all(|sides| sides.len() == 1), "a session has one public port");
    let distinct: BTreeSet<&Endpoint> = public_sides.values().flatten().collect();
    assert_eq!(distinct.len(), flows.len(), "no port serves two sessions");
    let address_of = |host: u32| {
        let of_host = public_sides.iter().filter(|((source, _), _)| *source == FIRST_HOST + host);
        of_host.flat_map(|(_, sides)| sides).map(|(address, _)| *address).collect::<BTreeSet<u32>>()
    };
    assert!((0..100).all(|host| address_of(host).len() == 1), "a host has one public address");
    workers.iter_mut().for_each(Jit::on_idle);

    let sessions = table(&pipeline, ".sessions");
    let pool = pipeline.externs.iter().find(|(_, object)| matches!(object.kind, ir::ExternKind::PortPool { .. }));
    let pool = pool.expect("nat.p4 has a pool").0;
    let usage = |control: &Jit| {
        let entries = control.with_state(|state| state.entry_count(sessions));
        (entries, control.port_usage(pool).expect("a pool").ports)
    };
    assert_eq!(usage(&control), (2 * flows.len(), flows.len() as u64));
    // The control plane deletes one entry of each second session: of either direction.
    let entries: Vec<TableEntry> = control
        .with_state(|state| state.entries(sessions).map(|entry| entry.to_table_entry(&pipeline, sessions)).collect());
    let (outbound, inbound): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.keys[0] == KeyMatch::Exact(BigUint::from(1u8)));
    let deleted = outbound.into_iter().take(5_000).chain(inbound.into_iter().rev().take(5_000));
    let updates: Vec<StateUpdate> = deleted.map(|entry| StateUpdate::Entry(UpdateKind::Delete, entry)).collect();
    for update in updates {
        // The twin of an entry that was deleted before is gone.
        drop(control.write(&WriteBatch { updates: vec![update] }));
    }
    let (left, ports) = usage(&control);
    assert!(left <= 2 * (flows.len() - 5_000), "{left} entries are left");
    assert_eq!(left as u64, 2 * ports, "each session has two entries and one port");
    control.advance_time(400 * SECOND);
    assert_eq!(usage(&control), (0, 0));
    assert_eq!(control.port_usage(pool).expect("a pool").blocks, 0);
}

/// Faults in the use of `terrace.p4`, as changes of a right call, with the error.
#[test]
fn faults_are_named() {
    let program = |call: &str, pool: &str| {
        format!(
            "#include <core.p4>\n#include <pna.p4>\n#include <terrace.p4>\n\
             header data_h {{ bit<16> key; bit<8> result; bit<8> pad; }}\n\
             struct headers_t {{ data_h data; }}\nstruct metadata_t {{ }}\n\
             parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta,\n\
             in pna_main_parser_input_metadata_t istd) {{ state start {{ packet.extract(hdr.data); transition accept; }} }}\n\
             control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,\n\
             inout pna_pre_output_metadata_t ostd) {{ apply {{ }} }}\n\
             control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,\n\
             inout pna_main_output_metadata_t ostd) {{\n\
             {pool}\n\
             action known(bit<8> result) {{ hdr.data.result = result; }}\n\
             action learn() {{ PortLease_t lease = ports.take(0, 1, 0, 1, 0, 7); bool added = {call}; }}\n\
             table flows {{ key = {{ hdr.data.key: exact; hdr.data.pad: exact; }} actions = {{ known; learn; }}\n\
             const default_action = learn(); add_on_miss = true; }}\n\
             apply {{ flows.apply(); }} }}\n\
             control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd)\n\
             {{ apply {{ packet.emit(hdr.data); }} }}\n\
             PNA_NIC(parse(), pre(), main_control(), deparse()) main;\n"
        )
    };
    let pool = "PortPool(32w4, 32w8, 32w1, 32w0) ports;";
    let call = "add_entry_pair(\"known\", 8w1, { hdr.data.key, 8w2 }, \"known\", 8w3, (ExpireTimeProfileId_t) 0)";
    compile::compile(&program(call, pool), true).expect("the right call compiles");
    let faults = [
        (
            call.replace("8w2", "16w2"),
            pool.to_owned(),
            "the twin's key has fields of 16, 16 bits, and the key of table",
        ),
        (
            call.replace("{ hdr.data.key, 8w2 }", "hdr.data.key"),
            pool.to_owned(),
            "the twin's key has fields of 16 bits",
        ),
        (call.replace("\"known\", 8w3", "\"unknown\", 8w3"), pool.to_owned(), "has no action `unknown`"),
        (call.replace("8w3", "{ 8w3, 8w4 }"), pool.to_owned(), "takes 1 parameters, not 2"),
        (call.to_owned(), pool.replace("32w4", "32w0"), "a pool has 1 to 1048576 addresses"),
        (call.to_owned(), pool.replace("32w1", "32w17"), "1 to 16 spaces"),
    ];
    for (call, pool, wanted) in faults {
        let errors = compile::compile(&program(&call, &pool), true).expect_err("a fault");
        assert!(errors.contains(wanted), "{wanted:?} is missing in\n{errors}");
    }
}
