//! Requests that are too many, too large, unreadable or too slow do not affect other clients.

use crate::support::*;
use p4runtime::client::{Client, ConnectOptions};
use p4runtime::proto::terrace::v1::RoleConfig;
use p4runtime::proto::v1::stream_message_request::Update as Out;
use p4runtime::server::{Limits, ROLE_CONFIG_URL, ServeOptions};
use prost::Message;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

async fn works(served: &Served) {
    let mut client = served.client().await;
    within_patience(client.rpc.capabilities(CapabilitiesRequest::default())).await.unwrap();
}

fn with(limits: Limits) -> ServeOptions {
    ServeOptions { limits, ..ServeOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_thousand_connections_as_many_are_taken_as_there_are_places() {
    let options = with(Limits { connections: 50, ..Limits::default() });
    let counters = options.counters.clone();
    let served = serve_program(options).await;
    let (mut client, _stream) = served.primary().await;
    let mut connections = Vec::new();
    for _ in 0..1000 {
        connections.push(within_patience(TcpStream::connect(("127.0.0.1", served.port))).await.unwrap());
    }
    until(|| counters.refused_connections.load(Ordering::Relaxed) == 1000 - 49).await;
    client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError).await.expect("who is in goes on");
    let refused = match within_patience(Client::connect(&served.uri, DEVICE, &ConnectOptions::default())).await {
        Ok(mut client) => client.rpc.capabilities(CapabilitiesRequest::default()).await.is_err(),
        Err(_) => true,
    };
    assert!(refused);
    drop(connections);
    within_patience(async {
        while Client::connect(&served.uri, DEVICE, &ConnectOptions::default()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_and_places_come_back() {
    let served = serve_program(with(Limits { streams: 3, ..Limits::default() })).await;
    let mut client = served.client().await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(client.stream().await.unwrap());
    }
    assert_eq!(code(client.stream().await.map(drop)), Code::ResourceExhausted);
    streams.pop();
    within_patience(async {
        while client.stream().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_who_is_primary_loses_its_stream() {
    let outbox = p4runtime::server::OutboxBounds { messages: 8, bytes: 1 << 20 };
    let served = serve_program(with(Limits { outbox, ..Limits::default() })).await;
    // Messages are long, so that the client's HTTP/2 window is soon full.
    let config = RoleConfig { ids: (1 << 28..(1 << 28) + 10_000).collect(), ..RoleConfig::default() };
    let config = prost_types::Any { type_url: ROLE_CONFIG_URL.into(), value: config.encode_to_vec() };
    let mut client = served.client_of("long").await;
    let mut deaf = served.client_of("long").await;
    client.role.config = Some(config);
    let mut stream = become_primary(&mut client, 1).await;
    let (mut unread, _) = deaf.arbitrate(None).await.unwrap();
    // Both receive each claim.
    for election in 2..400 {
        stream.send(Out::Arbitration(client.claim(Some(election)))).await.unwrap();
        next(&mut stream).await;
    }
    assert_eq!(end_of(&mut unread).await, Some(Code::ResourceExhausted));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_too_large_are_refused() {
    let served = serve_program(with(Limits { message_bytes: 0, ..Limits::default() })).await;
    let (mut client, mut stream) = served.primary().await;
    let metadata = |bytes: usize| insert(TableEntry { metadata: vec![1; bytes].into(), ..type_entry(1) });
    let large = client.write(vec![metadata(5 << 20)], Atomicity::ContinueOnError).await;
    assert_eq!(code(large), Code::OutOfRange);
    let smaller = client.write(vec![metadata(3 << 20)], Atomicity::ContinueOnError).await;
    smaller.expect("4 MiB are taken whatever is configured");
    stream.send(Out::Packet(PacketOut { payload: vec![0; 5 << 20].into(), metadata: vec![] })).await.unwrap();
    assert_eq!(end_of(&mut stream).await, Some(Code::OutOfRange));
    works(&served).await;
}

/// `WriteRequest` with updates that are not messages.
#[derive(Clone, PartialEq, prost::Message)]
struct Malformed {
    #[prost(bytes = "vec", tag = "4")]
    updates: Vec<u8>,
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused() {
    let served = served().await;
    let channel = Channel::from_shared(served.uri.clone()).unwrap().connect().await.unwrap();
    let mut raw = tonic::client::Grpc::new(channel);
    let mut call = async |path: &'static str| {
        raw.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<Malformed, WriteResponse>::default();
        let request = tonic::Request::new(Malformed { updates: vec![0xff; 3] });
        code(raw.unary(request, PathAndQuery::from_static(path), codec).await)
    };
    assert_eq!(call("/p4.v1.P4Runtime/Write").await, Code::Internal);
    assert_eq!(call("/p4.v1.P4Runtime/Nothing").await, Code::Unimplemented);
    assert_eq!(call("/nobody/Nothing").await, Code::Unimplemented);
    for noise in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0xff; 100],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let mut connection = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
        connection.write_all(noise).await.unwrap();
        let mut said = Vec::new();
        // The server may send a reason, then closes, perhaps with a reset.
        let _ = within_patience(connection.read_to_end(&mut said)).await;
    }
    works(&served).await;
}

/// `WriteRequest` of empty updates.
#[derive(Clone, PartialEq, prost::Message)]
struct Empty {
    #[prost(bytes = "vec", repeated, tag = "4")]
    updates: Vec<Vec<u8>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_message_that_would_take_much_memory_is_refused() {
    let served = served().await;
    let channel = Channel::from_shared(served.uri.clone()).unwrap().connect().await.unwrap();
    let mut raw = tonic::client::Grpc::new(channel);
    let mut write = async |updates: usize| {
        raw.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<Empty, WriteResponse>::default();
        let request = tonic::Request::new(Empty { updates: vec![Vec::new(); updates] });
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Write");
        raw.unary(request, path, codec).await.expect_err("it is refused")
    };
    let refused = write(2_000_000).await;
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("send fewer things at once"), "{refused:?}");
    assert_eq!(write(10).await.code(), Code::NotFound, "it names no device");
    works(&served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_begin_and_never_end_take_nobodys_place() {
    let limits = Limits { requests: 1, large_messages: 1, large_message_bytes: 1 << 20, ..Limits::default() };
    let served = serve_program(with(limits)).await;
    let (mut client, _stream) = served.primary().await;
    let channel = Channel::from_shared(served.uri.clone()).unwrap().connect().await.unwrap();
    let mut hanging = tokio::task::JoinSet::new();
    for number in 0..8 {
        let mut raw = tonic::client::Grpc::new(channel.clone());
        hanging.spawn(async move {
            raw.ready().await.unwrap();
            let codec = tonic_prost::ProstCodec::<WriteRequest, WriteResponse>::default();
            let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Write");
            let nothing = tokio_stream::pending();
            raw.client_streaming(tonic::Request::new(nothing), path, codec).await.map(|_| number)
        });
    }
    // They have started when a later request on the same connection is answered.
    let mut same = p4runtime::proto::v1::p4_runtime_client::P4RuntimeClient::new(channel);
    within_patience(same.capabilities(CapabilitiesRequest::default())).await.unwrap();
    within_patience(client.write(vec![insert(type_entry(1))], Atomicity::ContinueOnError))
        .await
        .expect("there is a place");
    let large = TableEntry { metadata: vec![1; 2 << 20].into(), ..type_entry(2) };
    for _ in 0..3 {
        let large = update(
            p4runtime::proto::v1::update::Type::Modify,
            TableEntry { r#match: type_entry(1).r#match, ..large.clone() },
        );
        within_patience(client.write(vec![large], Atomicity::ContinueOnError)).await.expect("places come back");
    }
    assert_eq!(hanging.len(), 8);
    assert!(hanging.try_join_next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_are_served() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_request, server_reflection_response};
    let served = served().await;
    let channel = Channel::from_shared(served.uri.clone()).unwrap().connect().await.unwrap();
    let request = HealthCheckRequest { service: "p4.v1.P4Runtime".into() };
    let health = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
    assert_eq!(health.status, 1, "serving");
    let symbol = server_reflection_request::MessageRequest::FileContainingSymbol("p4.v1.P4Runtime".into());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(symbol) };
    let mut client = ServerReflectionClient::new(channel);
    let mut said = client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
    let said = said.message().await.unwrap().unwrap().message_response.unwrap();
    assert!(matches!(said, server_reflection_response::MessageResponse::FileDescriptorResponse(_)), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_is_closed() {
    let served = serve_program(with(Limits { handshake_time: Duration::from_millis(200), ..Limits::default() })).await;
    let (mut client, _stream) = served.primary().await;
    let mut silent = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    silent.write_all(b"PRI * HTTP/2.0").await.unwrap();
    let _ = within_patience(silent.read_to_end(&mut Vec::new())).await;
    client.write(vec![], Atomicity::ContinueOnError).await.expect("others have time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_tells_its_streams_and_waits_for_nobody_forever() {
    let mut served =
        serve_program(with(Limits { shutdown_time: Duration::from_millis(300), ..Limits::default() })).await;
    let (_client, mut stream) = served.primary().await;
    let _silent = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    served.end();
    assert_eq!(end_of(&mut stream).await, Some(Code::Unavailable));
    within_patience(served.task.take().unwrap()).await.unwrap();
    assert!(TcpStream::connect(("127.0.0.1", served.port)).await.is_err());
}
