//! Attacks of clients on a node.

use bytes::Bytes;
use p4runtime::client::{Client, ClientTls, ConnectOptions};
use p4runtime::proto::v1::stream_message_request::Update as Out;
use p4runtime::proto::v1::write_request::Atomicity;
use p4runtime::proto::v1::{
    CapabilitiesRequest, Entity, PacketMetadata, PacketOut, Role, TableEntry, Update, WriteResponse, entity,
};
use rcgen::{CertificateParams, KeyPair};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;

/// Names of all attacks.
pub const ATTACKS: [&str; 11] = [
    "malformed protobuf",
    "empty updates",
    "endless requests",
    "noise instead of HTTP/2",
    "oversized messages",
    "large messages",
    "slow readers",
    "1000 connections",
    "PacketOut flood",
    "wrong certificates",
    "bad tokens",
];

/// Attacked node.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address without TLS.
    pub plain: SocketAddr,
    /// Address with TLS, if served.
    pub tls: Option<SocketAddr>,
    /// Token that may write, if tokens are required.
    pub token: Option<String>,
}

impl Target {
    /// Connects a client with the token.
    pub async fn client(&self) -> Option<Client> {
        let options = ConnectOptions { token: self.token.clone(), ..ConnectOptions::default() };
        Client::connect(&format!("http://{}", self.plain), 1, &options).await.ok()
    }
}

/// `WriteRequest` with updates that are not messages.
#[derive(Clone, PartialEq, prost::Message)]
struct Malformed {
    #[prost(bytes = "bytes", tag = "4")]
    updates: Bytes,
}

/// Runs an attack until `until`, with several tasks at a time. Returns the number of repetitions.
pub async fn attack(name: &str, target: Target, until: Instant) -> u64 {
    let tasks = match name {
        "1000 connections" => 1_000,
        "slow readers" => 64,
        "large messages" | "oversized messages" | "empty updates" => 4,
        _ => 16,
    };
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (name, target) = (name.to_owned(), target.clone());
        running.spawn(async move {
            let mut repetitions = 0;
            while Instant::now() < until {
                repetitions += once(&name, &target, until).await;
                // A client that is rejected at once retries, but other tasks must run as well.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            repetitions
        });
    }
    let mut repetitions = 0;
    while let Some(outcome) = running.join_next().await {
        repetitions += outcome.unwrap_or(0);
    }
    repetitions
}

/// Runs an attack once, until `until` at most. Returns the number of repetitions that it counts
/// itself; 1 if it was in progress at the end.
async fn once(name: &str, target: &Target, until: Instant) -> u64 {
    let attempt = async {
        match name {
            "malformed protobuf" => malformed(target, until).await,
            "empty updates" => empty(target, until).await,
            "endless requests" => endless(target, until).await,
            "noise instead of HTTP/2" => noise(target).await,
            "oversized messages" => large(target, 80 << 20).await,
            "large messages" => large(target, 16 << 20).await,
            "slow readers" => slow_reader(target, until).await,
            "1000 connections" => connection(target, until).await,
            "PacketOut flood" => packet_out(target, until).await,
            "wrong certificates" => wrong_certificate(target).await,
            _ => bad_token(target, until).await,
        }
    };
    let remaining = until.saturating_duration_since(Instant::now()) + Duration::from_millis(200);
    match tokio::time::timeout(remaining, attempt).await {
        Ok(repetitions) => repetitions.unwrap_or(0),
        // In progress when the time was over.
        Err(_) => 1,
    }
}

/// Sends requests with updates that are no protobuf messages.
async fn malformed(target: &Target, until: Instant) -> Option<u64> {
    let channel = Channel::from_shared(format!("http://{}", target.plain)).ok()?.connect().await.ok()?;
    let mut rpc = tonic::client::Grpc::new(channel);
    let mut repetitions = 0;
    while Instant::now() < until {
        rpc.ready().await.ok()?;
        let codec = tonic_prost::ProstCodec::<Malformed, WriteResponse>::default();
        let mut request =
            tonic::Request::new(Malformed { updates: Bytes::from(vec![0xff; 1 + repetitions as usize % 4_000]) });
        if let Some(token) = &target.token {
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().ok()?);
        }
        let _ = rpc.unary(request, PathAndQuery::from_static("/p4.v1.P4Runtime/Write"), codec).await;
        repetitions += 1;
    }
    Some(repetitions)
}

/// Sends a `WriteRequest` of empty updates: two bytes each, and hundreds when decoded.
async fn empty(target: &Target, until: Instant) -> Option<u64> {
    let mut client = target.client().await?;
    let mut repetitions = 0;
    while Instant::now() < until {
        let updates = vec![Update::default(); 500_000];
        let _ = client.write(updates, Atomicity::ContinueOnError).await;
        repetitions += 1;
    }
    Some(repetitions)
}

/// Starts requests and never ends them.
async fn endless(target: &Target, until: Instant) -> Option<u64> {
    let channel = Channel::from_shared(format!("http://{}", target.plain)).ok()?.connect().await.ok()?;
    let mut hanging = JoinSet::new();
    for _ in 0..64 {
        let mut rpc = tonic::client::Grpc::new(channel.clone());
        hanging.spawn(async move {
            rpc.ready().await.ok()?;
            let codec = tonic_prost::ProstCodec::<Malformed, WriteResponse>::default();
            let request = tonic::Request::new(tokio_stream::pending());
            rpc.client_streaming(request, PathAndQuery::from_static("/p4.v1.P4Runtime/Write"), codec).await.ok()
        });
    }
    tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    Some(hanging.len() as u64)
}

/// Sends the preface of HTTP/2, then random bytes.
async fn noise(target: &Target) -> Option<u64> {
    let mut connection = TcpStream::connect(target.plain).await.ok()?;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend((0..4_096).map(|_| fastrand::u8(..)));
    connection.write_all(&bytes).await.ok()?;
    Some(1)
}

/// Sends an update of `bytes` bytes.
async fn large(target: &Target, bytes: usize) -> Option<u64> {
    let mut client = target.client().await?;
    let entry = TableEntry { metadata: vec![1; bytes].into(), ..TableEntry::default() };
    let entity = Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) });
    let _ = client.write(vec![Update { r#type: 1, entity }], Atomicity::ContinueOnError).await;
    Some(1)
}

/// Reads all entries and consumes nothing of the response.
async fn slow_reader(target: &Target, until: Instant) -> Option<u64> {
    let mut client = target.client().await?;
    let mut unread = Vec::new();
    for _ in 0..32 {
        let all = Entity { entity: Some(entity::Entity::TableEntry(TableEntry::default())) };
        unread.push(tokio::time::timeout(Duration::from_secs(1), client.read(vec![all])).await);
    }
    tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
    Some(unread.len() as u64)
}

/// Sends enough to keep the connection open for a while, then nothing.
async fn connection(target: &Target, until: Instant) -> Option<u64> {
    let mut connection = TcpStream::connect(target.plain).await.ok()?;
    connection.write_all(b"PRI * HTTP/2.0\r\n").await.ok()?;
    let left = until.saturating_duration_since(Instant::now());
    let _ = tokio::time::timeout(left, connection.readable()).await;
    Some(1)
}

/// Sends packets for output as fast as the node takes them, as the primary of a role of its own.
async fn packet_out(target: &Target, until: Instant) -> Option<u64> {
    let mut client = target.client().await?;
    client.role = Role { name: format!("flood {}", fastrand::u32(..)), ..Role::default() };
    let (stream, _) = client.arbitrate(Some(1)).await.ok()?;
    let metadata = vec![PacketMetadata { metadata_id: 1, value: Bytes::from_static(&[1]) }];
    let mut repetitions = 0;
    while Instant::now() < until {
        let packet = PacketOut { payload: vec![0x55; 1_000].into(), metadata: metadata.clone() };
        stream.send(Out::Packet(packet)).await.ok()?;
        repetitions += 1;
    }
    Some(repetitions)
}

/// Connects with a certificate of another authority, which the node must reject.
async fn wrong_certificate(target: &Target) -> Option<u64> {
    let address = target.tls?;
    let key = KeyPair::generate().ok()?;
    let certificate = CertificateParams::new(vec!["stranger.test".to_owned()]).ok()?.self_signed(&key).ok()?;
    let identity = Some((certificate.pem(), key.serialize_pem()));
    let tls = Some(ClientTls { authority: certificate.pem(), identity, server_name: Some("node.test".to_owned()) });
    let options = ConnectOptions { tls, ..ConnectOptions::default() };
    let is_accepted = Client::connect(&format!("https://127.0.0.1:{}", address.port()), 1, &options).await.is_ok();
    assert!(!is_accepted, "a stranger's certificate is good enough");
    Some(1)
}

/// Sends requests with a wrong token, which the node must reject.
async fn bad_token(target: &Target, until: Instant) -> Option<u64> {
    let options = ConnectOptions { token: Some("guessed".to_owned()), ..ConnectOptions::default() };
    let mut client = Client::connect(&format!("http://{}", target.plain), 1, &options).await.ok()?;
    let mut repetitions = 0;
    while Instant::now() < until {
        let answer = client.rpc.capabilities(CapabilitiesRequest::default()).await;
        assert!(target.token.is_none() || answer.is_err(), "a wrong token is good enough");
        repetitions += 1;
    }
    Some(repetitions)
}
