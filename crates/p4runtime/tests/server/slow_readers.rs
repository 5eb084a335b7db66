//! Tests clients that read much and consume nothing: they wait for each other, and no other client
//! waits for them. In these tests an unread response is never aborted, so requests that wait for it
//! never complete.

use crate::support::*;
use p4runtime::client::{Client, ConnectOptions};
use p4runtime::proto::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::server::{AccessList, ClientPermission, Credentials, Limits, ServeOptions, TokenHash};
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Number of entries of the table, each with a text: more than a connection buffers.
const ENTRIES: u16 = 5_000;
const TEXT: usize = 400;
/// Size of a large request message in bytes.
const LARGE: usize = 10_000;
const NEVER: Duration = Duration::from_secs(86_400);

/// Returns limits with few permits for anything, and without time-outs.
fn limits() -> Limits {
    Limits {
        requests: 2,
        large_messages: 1,
        large_message_bytes: 8 << 10,
        reads: 2,
        reads_per_connection: 1,
        unsent_bytes: 64 << 10,
        request_time: NEVER,
        stall_time: NEVER,
        stall_time_beside_others: NEVER,
        ..Limits::default()
    }
}

async fn fill(client: &mut Client) {
    let long = |value| TableEntry { metadata: vec![7; TEXT].into(), ..type_entry(value) };
    // No request is a large message.
    for first in (0..ENTRIES).step_by(10) {
        let updates = (first..first + 10).map(|value| insert(long(value))).collect();
        client.write(updates, Atomicity::ContinueOnError).await.unwrap();
    }
}

/// Connection of a client that consumes little of each response.
struct Slow {
    rpc: P4RuntimeClient<Channel>,
    token: &'static str,
}

type Answer = Streaming<ReadResponse>;

impl Slow {
    async fn new(served: &Served, token: &'static str) -> Slow {
        let endpoint = Endpoint::from_shared(served.uri.clone()).unwrap();
        let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(1 << 20);
        Slow { rpc: P4RuntimeClient::new(within_patience(endpoint.connect()).await.unwrap()), token }
    }

    fn with_token<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        request
    }

    /// Reads all entries, and those with `bytes` bytes of metadata, which none has. Returns the
    /// response when it begins.
    fn ask(&self, bytes: usize) -> impl Future<Output = Result<Answer, Status>> + use<> {
        let none = TableEntry { table_id: id("types"), metadata: vec![1; bytes].into(), ..TableEntry::default() };
        let entities = vec![entity_of(TableEntry::default()), entity_of(none)];
        let request = self.with_token(ReadRequest { device_id: DEVICE, entities, ..Default::default() });
        let mut rpc = self.rpc.clone();
        async move { rpc.read(request).await.map(tonic::Response::into_inner) }
    }

    /// Returns when the server has received all earlier requests, because a later one is answered.
    async fn settle(&mut self) {
        for _ in 0..3 {
            let request = self.with_token(CapabilitiesRequest::default());
            within_patience(self.rpc.capabilities(request)).await.expect("an answer");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_wait_for_each_other_have_nothing_that_others_need() {
    let served = serve_program(ServeOptions { limits: limits(), ..ServeOptions::default() }).await;
    let (mut client, _stream) = served.primary().await;
    fill(&mut client).await;
    let (mut all, mut unread, mut waiting) = (Vec::new(), Vec::new(), JoinSet::new());
    for _ in 0..2 {
        let slow = Slow::new(&served, "").await;
        unread.push(within_patience(slow.ask(1)).await.expect("there is a place"));
        all.push(slow);
    }
    // All permits are taken for the rest of the test. Now come requests that wait for a permit of
    // their own connection, with and without a large message, and requests that wait for a shared
    // one: more of each than the permits that other clients need.
    for _ in 0..4 {
        all.push(Slow::new(&served, "").await);
    }
    for (number, slow) in all.iter_mut().enumerate() {
        for bytes in [1, LARGE, 1, LARGE] {
            waiting.spawn(slow.ask(bytes));
        }
        tokio::task::yield_now().await;
        // A connection that is full of an unread response returns nothing.
        if number >= unread.len() {
            slow.settle().await;
        }
    }
    let large = TableEntry { metadata: vec![1; 16 << 10].into(), ..host_entry(1) };
    within_patience(client.write(vec![insert(large)], Atomicity::ContinueOnError))
        .await
        .expect("there is a place to write");
    let one = entity_of(TableEntry { action: None, ..host_entry(1) });
    assert_eq!(
        within_patience(client.read_all(vec![one])).await.expect("there is a place for a short answer").len(),
        1
    );
    assert!(waiting.try_join_next().is_none() && unread.len() == 2, "they still wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_often_waits_for_itself() {
    let tokens = ["greedy", "modest"].map(|token| (TokenHash::of(token), ClientPermission::PipelineOwner)).to_vec();
    let credentials = Credentials::new(None, AccessList { tokens }).unwrap();
    let options = ServeOptions { limits: limits(), credentials, ..ServeOptions::default() };
    let served = serve_program(options).await;
    let token = ConnectOptions { token: Some("modest".to_owned()), ..ConnectOptions::default() };
    let mut client = within_patience(Client::connect(&served.uri, DEVICE, &token)).await.unwrap();
    let _stream = become_primary(&mut client, 1).await;
    fill(&mut client).await;
    let (mut all, mut greedy) = (Vec::new(), JoinSet::new());
    for number in 0..8 {
        let mut slow = Slow::new(&served, "greedy").await;
        if number < limits().reads {
            let begun = within_patience(slow.ask(1)).await;
            greedy.spawn(async { begun });
        } else {
            greedy.spawn(slow.ask(1));
            tokio::task::yield_now().await;
            slow.settle().await;
        }
        all.push(slow);
    }
    let mut modest = Slow::new(&served, "modest").await;
    let answer = tokio::spawn(modest.ask(1));
    tokio::task::yield_now().await;
    modest.settle().await;
    // Each that ends releases a permit.
    for _ in 0..5 {
        let next = within_patience(greedy.join_next()).await.unwrap().unwrap().expect("an answer");
        drop(next);
    }
    within_patience(answer).await.unwrap().expect("it came last, and did not wait for the other three");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_does_not_wait_for_slow_readers() {
    let served = serve_program(ServeOptions { limits: limits(), ..ServeOptions::default() }).await;
    let (mut client, _stream) = served.primary().await;
    fill(&mut client).await;
    let (first, second) = (Slow::new(&served, "").await, Slow::new(&served, "").await);
    let unread = [
        within_patience(first.ask(1)).await.unwrap(),
        within_patience(second.ask(20_000)).await.expect("there is a place"),
    ];
    let refused = within_patience(Slow::new(&served, "").await.ask(20_000)).await.expect_err("there is none");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("ask for less at once"), "{refused:?}");
    drop(unread);
}
