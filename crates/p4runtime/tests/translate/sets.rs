//! Tests value sets, multicast groups, clone sessions, digests.

use crate::bench::*;
use entries::UpdateKind;
use p4runtime::proto::v1::{self, entity::Entity as E, p4_data::Data as D, update::Type};
use p4runtime::{Code, DigestConfig};

#[test]
fn value_sets() {
    let bench = bench();
    let id = bench.object("types");
    let with = |values: &[&[u8]]| {
        let member = |value: &&[u8]| v1::ValueSetMember { r#match: vec![exact(1, value)] };
        E::ValueSetEntry(v1::ValueSetEntry { value_set_id: id, members: values.iter().map(member).collect() })
    };
    let modify = |entity| bench.write(Type::Modify, entity);
    let all = || E::ValueSetEntry(v1::ValueSetEntry::default());
    assert_eq!(ok(bench.read(all())), [with(&[])]);
    ok(modify(with(&[b"\x22\xf3", b"\x89\x3b"])));
    assert_eq!(ok(bench.read(all())), [with(&[b"\x22\xf3", b"\x89\x3b"])]);
    assert_eq!(ok(bench.read(with(&[]))), [with(&[b"\x22\xf3", b"\x89\x3b"])]);
    refused(bench.write(Type::Insert, with(&[])), Code::InvalidArgument, "MODIFY");
    refused(bench.write(Type::Delete, with(&[])), Code::InvalidArgument, "MODIFY");
    refused(modify(with(&[b"\x01", b"\x02", b"\x00\x01"])), Code::AlreadyExists, "p.types: member 2");
    refused(modify(with(&[b"\x01", b"\x02", b"\x03", b"\x04"])), Code::ResourceExhausted, "p.types: 4 members .. 3");
    refused(modify(with(&[b"\x01\x00\x00"])), Code::OutOfRange, "value set p.types");
    let bare = v1::ValueSetEntry { value_set_id: id, members: vec![v1::ValueSetMember::default()] };
    refused(modify(E::ValueSetEntry(bare)), Code::InvalidArgument, "value set p.types");
    assert_eq!(ok(bench.read(all())), [with(&[b"\x22\xf3", b"\x89\x3b"])]);
    ok(modify(with(&[])));
    assert_eq!(ok(bench.read(all())), [with(&[])]);
    let unknown = E::ValueSetEntry(v1::ValueSetEntry { value_set_id: 4, ..Default::default() });
    refused(bench.read(unknown.clone()), Code::NotFound, "no value set");
    refused(modify(unknown), Code::NotFound, "no value set");
}

type Engine = v1::packet_replication_engine_entry::Type;

fn engine(entry: Engine) -> E {
    E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(entry) })
}

fn replica(port: &'static [u8], instance: u32) -> v1::Replica {
    let port_kind = Some(v1::replica::PortKind::Port(port.into()));
    v1::Replica { port_kind, instance, backup_replicas: Vec::new() }
}

fn multicast(id: u32, replicas: Vec<v1::Replica>) -> E {
    let group = v1::MulticastGroupEntry { multicast_group_id: id, replicas, ..Default::default() };
    engine(Engine::MulticastGroupEntry(group))
}

#[test]
fn multicast_groups() {
    let bench = bench();
    let group = multicast(1, vec![replica(b"\x05", 1), replica(b"\x05", 2), replica(b"\xff\xff\xff\xfd", 0)]);
    let insert = |entity| bench.write(Type::Insert, entity);
    ok(insert(group.clone()));
    refused(insert(group.clone()), Code::AlreadyExists, "multicast group 1");
    assert_eq!(ok(bench.read(multicast(1, vec![]))), [group.clone()]);
    assert_eq!(ok(bench.read(multicast(0, vec![]))), [group.clone()]);
    refused(bench.read(multicast(2, vec![])), Code::NotFound, "no multicast group 2");
    let everything = E::PacketReplicationEngineEntry(Default::default());
    assert_eq!(ok(bench.read(everything.clone())), [group]);
    // Ports as numbers, as older controllers send them.
    let old = v1::replica::PortKind::EgressPort(9);
    let old = v1::Replica { port_kind: Some(old), ..Default::default() };
    ok(bench.write(Type::Modify, multicast(1, vec![old])));
    assert_eq!(ok(bench.read(multicast(1, vec![]))), [multicast(1, vec![replica(b"\x09", 0)])]);
    refused(bench.write(Type::Modify, multicast(2, vec![])), Code::NotFound, "multicast group 2");
    refused(bench.write(Type::Delete, multicast(2, vec![])), Code::NotFound, "multicast group 2");
    refused(insert(multicast(0, vec![])), Code::InvalidArgument, "multicast group 0");
    refused(insert(multicast(2, vec![replica(b"\x01", 0x1_0000)])), Code::InvalidArgument, "port 1: instance 65536");
    let twice = vec![replica(b"\x01", 2), replica(b"\x00\x01", 2)];
    refused(insert(multicast(2, twice)), Code::InvalidArgument, "port 1 with instance 2 is there twice");
    refused(insert(multicast(2, vec![v1::Replica::default()])), Code::InvalidArgument, "no port");
    refused(insert(multicast(2, vec![replica(b"", 0)])), Code::OutOfRange, "multicast group 2, port");
    refused(insert(multicast(2, vec![replica(b"\x01\0\0\0\0", 0)])), Code::OutOfRange, "multicast group 2, port");
    let backup = v1::Replica { backup_replicas: vec![Default::default()], ..replica(b"\x01", 0) };
    refused(insert(multicast(2, vec![backup])), Code::Unimplemented, "backup replicas");
    let remark = v1::MulticastGroupEntry { multicast_group_id: 2, metadata: "x".into(), ..Default::default() };
    refused(insert(engine(Engine::MulticastGroupEntry(remark))), Code::Unimplemented, "metadata");
    refused(insert(everything), Code::InvalidArgument, "neither");
    ok(bench.write(Type::Delete, multicast(1, vec![v1::Replica::default()])));
    assert_eq!(ok(bench.read(multicast(0, vec![]))), []);
}

#[test]
fn clone_sessions() {
    let bench = bench();
    let session = |session_id| v1::CloneSessionEntry {
        session_id,
        replicas: vec![replica(b"\xff\xff\xff\xfd", 1)],
        class_of_service: 2,
        packet_length_bytes: 4096,
    };
    let with = |session| engine(Engine::CloneSessionEntry(session));
    let insert = |session| bench.write(Type::Insert, with(session));
    ok(insert(session(100)));
    refused(insert(session(100)), Code::AlreadyExists, "clone session 100");
    assert_eq!(ok(bench.read(with(session(100)))), [with(session(100))]);
    assert_eq!(ok(bench.read(with(Default::default()))), [with(session(100))]);
    refused(bench.read(with(session(9))), Code::NotFound, "no clone session 9");
    refused(bench.write(Type::Modify, with(session(9))), Code::NotFound, "clone session 9");
    refused(insert(session(0)), Code::InvalidArgument, "clone session 0");
    let long = v1::CloneSessionEntry { packet_length_bytes: -1, ..session(1) };
    refused(insert(long), Code::InvalidArgument, "packet_length_bytes");
    let class = v1::CloneSessionEntry { class_of_service: 256, ..session(1) };
    refused(insert(class), Code::InvalidArgument, "class of service 256");
    let instance = v1::CloneSessionEntry { replicas: vec![replica(b"\x01", 1 << 20)], ..session(1) };
    refused(insert(instance), Code::InvalidArgument, "instance 1048576");
    let only = v1::CloneSessionEntry { session_id: 100, packet_length_bytes: -1, ..Default::default() };
    ok(bench.write(Type::Delete, with(only)));
    assert_eq!(ok(bench.read(with(Default::default()))), []);
}

#[test]
fn digests() {
    let bench = bench();
    let digest_id = bench.schema.info().digests[0].preamble.id;
    let config = v1::digest_entry::Config { max_timeout_ns: 5, max_list_size: 6, ack_timeout_ns: 7 };
    let with = |config| E::DigestEntry(v1::DigestEntry { digest_id, config });
    let write = |kind, entity| bench.schema.digest_write(&update(kind, entity));
    let written = ok(write(Type::Insert, with(Some(config)))).unwrap();
    let kept = DigestConfig { max_timeout_ns: 5, max_list_size: 6, ack_timeout_ns: 7 };
    assert_eq!((written.kind, written.config), (UpdateKind::Insert, kept));
    assert_eq!(bench.schema.digest_entry(written.digest, &kept).unwrap().entity, Some(with(Some(config))));
    assert_eq!(ok(bench.schema.digests_wanted(&v1::DigestEntry::default())), [written.digest]);
    assert_eq!(bench.schema.digest_number(written.digest), Some(digest_id));
    let deleted = ok(write(Type::Delete, with(Some(config)))).unwrap();
    assert_eq!((deleted.kind, deleted.config), (UpdateKind::Delete, DigestConfig::default()));
    for (config, words) in [
        (v1::digest_entry::Config { max_timeout_ns: -1, ..config }, "max_timeout_ns is -1"),
        (v1::digest_entry::Config { max_list_size: -1, ..config }, "max_list_size is -1"),
        (v1::digest_entry::Config { ack_timeout_ns: -1, ..config }, "ack_timeout_ns is -1"),
    ] {
        refused(write(Type::Modify, with(Some(config))), Code::InvalidArgument, words);
    }
    let unknown = v1::DigestEntry { digest_id: 1, config: None };
    refused(write(Type::Insert, E::DigestEntry(unknown)), Code::NotFound, "no digest");
    refused(bench.schema.digests_wanted(&unknown), Code::NotFound, "no digest");
    refused(write(Type::Unspecified, with(None)), Code::InvalidArgument, "no type");
    assert_eq!(ok(write(Type::Insert, multicast(1, vec![]))), None);

    // src, port, code, mood, ok, e
    let values = [0xaabbu64, 300, 9, 1, 1, 0].map(Into::into);
    let data = |data| v1::P4Data { data: Some(data) };
    let members = vec![
        data(D::Bitstring(vec![0xaa, 0xbb].into())),
        data(D::Bitstring(vec![1, 0x2c].into())),
        data(D::EnumValue(vec![9].into())),
        data(D::Enum("sad".into())),
        data(D::Bool(true)),
        data(D::Error("NoError".into())),
    ];
    let shown = ok(bench.schema.encode_digest(written.digest, &values));
    assert_eq!(shown, data(D::Struct(v1::P4StructLike { members })));
    refused(bench.schema.encode_digest(written.digest, &values[..2]), Code::Internal, "fewer values");
    refused(bench.schema.encode_digest(ir::ExternId(0), &values), Code::Internal, "no digest");
}
