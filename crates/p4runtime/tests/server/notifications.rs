//! Tests "P4Runtime Stream Messages": packets, digests, idle entries, errors.

use crate::support::*;
use bytes::Bytes;
use ir::{ExternId, ExternKind};
use p4runtime::client::{Client, Stream};
use p4runtime::proto::terrace::v1::RoleConfig;
use p4runtime::proto::v1::entity::Entity as E;
use p4runtime::proto::v1::stream_error::Details;
use p4runtime::proto::v1::stream_message_request::Update as Out;
use p4runtime::proto::v1::stream_message_response::Update as In;
use p4runtime::proto::v1::update::Type;
use p4runtime::server::{Limits, OutboxBounds, ROLE_CONFIG_URL, ServeOptions};
use p4runtime::{Device, DeviceEvent};
use prost::Message;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn packet_out(egress_port: u8) -> PacketOut {
    let metadata = |metadata_id, value: u8| PacketMetadata { metadata_id, value: vec![value].into() };
    PacketOut { payload: "body".into(), metadata: vec![metadata(1, egress_port), metadata(2, 0)] }
}

async fn error_of(stream: &mut Stream) -> (Code, Details) {
    match next(stream).await {
        In::Error(error) => (Code::from(error.canonical_code), error.details.unwrap()),
        other => panic!("{other:?}"),
    }
}

fn packet_in(number: u32, len: usize) -> DeviceEvent {
    let mut bytes = vec![0x80, 0x80];
    bytes.extend(number.to_be_bytes());
    bytes.resize(len, 0);
    DeviceEvent::PacketIn(bytes.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_of_the_primary_go_out_and_others_are_errors() {
    let served = served().await;
    let (_client, mut stream) = served.primary().await;
    stream.send(Out::Packet(packet_out(3))).await.unwrap();
    until(|| !served.device.packets.lock().unwrap().is_empty()).await;
    assert_eq!(served.device.packets.lock().unwrap()[0], Bytes::from_static(b"\x01\x80body"));

    stream.send(Out::Packet(PacketOut { metadata: vec![], ..packet_out(3) })).await.unwrap();
    let (code, details) = error_of(&mut stream).await;
    assert!(code == Code::InvalidArgument && matches!(details, Details::PacketOut(_)));
    let long = PacketOut { payload: vec![0; 2000].into(), ..packet_out(3) };
    stream.send(Out::Packet(long)).await.unwrap();
    assert_eq!(error_of(&mut stream).await.0, Code::InvalidArgument, "what the device refuses");
    stream.send(Out::Other(prost_types::Any::default())).await.unwrap();
    let (code, details) = error_of(&mut stream).await;
    assert!(code == Code::Unimplemented && matches!(details, Details::Other(_)));

    // A backup, and a client without arbitration.
    let (mut backup, _) = served.client().await.arbitrate(None).await.unwrap();
    backup.send(Out::Packet(packet_out(3))).await.unwrap();
    assert_eq!(error_of(&mut backup).await.0, Code::PermissionDenied);
    let mut stranger = served.client().await.stream().await.unwrap();
    stranger.send(Out::Packet(packet_out(3))).await.unwrap();
    assert_eq!(error_of(&mut stranger).await.0, Code::PermissionDenied);
    assert_eq!(served.device.packets.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_come_in_to_primaries_whose_role_may_see_them() {
    let served = served().await;
    let (_client, mut stream) = served.primary().await;
    let (mut backup, _) = served.client().await.arbitrate(None).await.unwrap();
    let limited = async |name: &str, packet_in, packet_out| {
        let config = RoleConfig { packet_in, packet_out, ..RoleConfig::default() };
        let mut client = served.client_of(name).await;
        client.role.config = Some(prost_types::Any { type_url: ROLE_CONFIG_URL.into(), value: config.encode_to_vec() });
        become_primary(&mut client, 1).await
    };
    let (mut sees, mut blind) = (limited("sees", true, false).await, limited("blind", false, true).await);
    assert!(served.device.send_event(packet_in(7, 20)));
    for stream in [&mut stream, &mut sees] {
        let In::Packet(packet) = next(stream).await else { panic!("a packet") };
        assert_eq!((packet.payload.len(), packet.metadata[0].value.as_ref()), (18, &b"\x01\x01"[..]));
    }
    // The first message that these receive is the response to their own.
    for (stream, wanted) in [(&mut backup, Code::PermissionDenied), (&mut sees, Code::PermissionDenied)] {
        stream.send(Out::Packet(packet_out(3))).await.unwrap();
        assert_eq!(error_of(stream).await.0, wanted);
    }
    blind.send(Out::Packet(packet_out(3))).await.unwrap();
    until(|| served.device.packets.lock().unwrap().len() == 1).await;
    blind.send(Out::Other(prost_types::Any::default())).await.unwrap();
    assert_eq!(error_of(&mut blind).await.0, Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_slowly_loses_packets_and_others_do_not() {
    let outbox = OutboxBounds { messages: 256, bytes: 1 << 20 };
    let options = ServeOptions { limits: Limits { outbox, ..Limits::default() }, ..ServeOptions::default() };
    let counters = options.counters.clone();
    let served = serve_program(options).await;
    let (_slow, mut unread) = served.primary().await;
    let mut fast = served.client_of("fast").await;
    let mut stream = become_primary(&mut fast, 1).await;
    for round in 0..100u32 {
        for number in 0..100 {
            assert!(served.device.send_event(packet_in(round * 100 + number, 1400)));
        }
        for number in 0..100 {
            let In::Packet(packet) = next(&mut stream).await else { panic!("a packet") };
            assert_eq!(packet.payload[..4], (round * 100 + number).to_be_bytes());
        }
    }
    let lost = counters.lost_messages.load(Ordering::Relaxed);
    assert!(lost > 5000, "{lost} of 10000 packets were lost");
    // It still receives the messages that fit, and can continue.
    let mut got = 0;
    while let Ok(Ok(Some(_))) = tokio::time::timeout(Duration::from_millis(500), unread.next()).await {
        got += 1;
    }
    assert_eq!(got + lost, 10000);
    assert!(served.device.send_event(packet_in(1, 100)));
    assert!(matches!(next(&mut unread).await, In::Packet(_)));
}

fn digest_update(kind: Type, max_list_size: i32, ack_timeout_ns: i64) -> v1::Update {
    let config = digest_entry::Config { max_timeout_ns: 500_000_000, max_list_size, ack_timeout_ns };
    let entry = DigestEntry { digest_id: id("learned_t"), config: Some(config) };
    v1::Update { r#type: kind as i32, entity: Some(Entity { entity: Some(E::DigestEntry(entry)) }) }
}

async fn write(client: &mut Client, update: v1::Update) -> Result<(), tonic::Status> {
    client.write(vec![update], Atomicity::ContinueOnError).await
}

fn learn(device: &TestDevice, address: u32) {
    let is_digest = |id: &ExternId| matches!(program().externs[*id].kind, ExternKind::Digest { .. });
    let digest = program().externs.keys().find(is_digest).unwrap();
    assert!(device.send_event(DeviceEvent::Digest { digest, values: vec![address.into()] }));
}

async fn list(stream: &mut Stream) -> DigestList {
    match next(stream).await {
        In::Digest(list) => list,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_sent_in_lists_and_acknowledged() {
    let served = served().await;
    let (mut client, mut stream) = served.primary().await;
    let device = &served.device;
    learn(device, 1);
    assert_eq!(code(write(&mut client, digest_update(Type::Modify, 2, 0)).await), Code::Unknown, "not enabled yet");
    write(&mut client, digest_update(Type::Insert, 2, i64::MAX)).await.unwrap();
    assert_eq!(code(write(&mut client, digest_update(Type::Insert, 2, 0)).await), Code::Unknown, "enabled already");
    let rolled_back = vec![digest_update(Type::Delete, 0, 0), insert(TableEntry { table_id: 1, ..type_entry(1) })];
    assert_eq!(code(client.write(rolled_back, Atomicity::RollbackOnError).await), Code::Unknown);
    let wanted = DigestEntry { digest_id: 0, config: None };
    let read = client.read_all(vec![Entity { entity: Some(E::DigestEntry(wanted)) }]).await.unwrap();
    assert_eq!(read, [digest_update(Type::Insert, 2, i64::MAX).entity.unwrap()]);

    [2, 2, 3].iter().for_each(|address| learn(device, *address));
    let full = list(&mut stream).await;
    assert_eq!((full.digest_id, full.list_id, full.data.len()), (id("learned_t"), 1, 2));
    assert!(full.timestamp > 1_600_000_000_000_000_000);
    [2, 4].iter().for_each(|address| learn(device, *address));
    let timed = list(&mut stream).await;
    assert_eq!((timed.list_id, timed.data.len()), (2, 1), "the other was not acknowledged, and the time is over");
    stream.send(Out::DigestAck(DigestListAck { digest_id: full.digest_id, list_id: 1 })).await.unwrap();
    stream.send(Out::DigestAck(DigestListAck { digest_id: 9, list_id: 1 })).await.unwrap();
    let (refused, details) = error_of(&mut stream).await;
    assert!(refused == Code::InvalidArgument && matches!(details, Details::DigestListAck(_)));
    [2, 5].iter().for_each(|address| learn(device, *address));
    assert_eq!(list(&mut stream).await.data.len(), 2);
    write(&mut client, digest_update(Type::Delete, 0, 0)).await.unwrap();
    learn(device, 6);
    stream.send(Out::Other(prost_types::Any::default())).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(error_of(&mut stream).await.0, Code::Unimplemented, "no digest came before it");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_entries_are_told_of() {
    let served = served().await;
    let (mut client, mut stream) = served.primary().await;
    let entry = TableEntry { idle_timeout_ns: 1000, metadata: "mine".into(), ..host_entry(1) };
    client.write(vec![insert(entry.clone())], Atomicity::ContinueOnError).await.unwrap();
    let state = served.device.state().unwrap();
    let table = state.pipeline().tables.iter().find(|(_, table)| table.preamble.name.ends_with("hosts")).unwrap().0;
    let kept = state.entries(table).next().unwrap().clone();
    assert!(served.device.send_event(DeviceEvent::Idle { table, entry: kept, idle_ns: 1500 }));
    let In::IdleTimeoutNotification(idle) = next(&mut stream).await else { panic!("an idle entry") };
    let told = &idle.table_entry[0];
    assert_eq!((&told.r#match, told.table_id, told.priority), (&entry.r#match, entry.table_id, 0));
    assert_eq!((told.idle_timeout_ns, &told.metadata), (1000, &entry.metadata));
    assert!(idle.timestamp > 1_600_000_000_000_000_000);
}
