//! Clients that ask for much and read nothing of it: they wait for each other, nobody waits for them. In these tests an answer that is not read is
//! never cut short, so that what depends on it never comes.

use crate::support::*;
use p4runtime::client::{Client, ConnectOptions};
use p4runtime::proto::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::server::{Access, Credentials, Limits, Power, ServeOptions, TokenHash};
use std::future::Future;
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Entries of the table that is read, with a text in each: more than a connection keeps unread.
const ENTRIES: u16 = 5_000;
const TEXT: usize = 400;
/// Bytes in a request that is a large message.
const LARGE: usize = 10_000;
const NEVER: Duration = Duration::from_secs(86_400);

/// Few places for anything, and no end of patience.
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
    // No message is a large one.
    for first in (0..ENTRIES).step_by(10) {
        let updates = (first..first + 10).map(|value| insert(long(value))).collect();
        client.write(updates, Atomicity::ContinueOnError).await.unwrap();
    }
}

/// A connection whose client takes in little of each answer.
struct Slow {
    rpc: P4RuntimeClient<Channel>,
    token: &'static str,
}

type Answer = Streaming<ReadResponse>;

impl Slow {
    async fn new(served: &Served, token: &'static str) -> Slow {
        let endpoint = Endpoint::from_shared(served.uri.clone()).unwrap();
        let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(1 << 20);
        Slow { rpc: P4RuntimeClient::new(soon(endpoint.connect()).await.unwrap()), token }
    }

    fn with_token<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        request
    }

    /// Asks for all entries, and for those with metadata of so many bytes, which none has. The answer, when it begins.
    fn ask(&self, bytes: usize) -> impl Future<Output = Result<Answer, Status>> + use<> {
        let none = TableEntry { table_id: id("types"), metadata: vec![1; bytes].into(), ..TableEntry::default() };
        let entities = vec![of(TableEntry::default()), of(none)];
        let request = self.with_token(ReadRequest { device_id: DEVICE, entities, ..Default::default() });
        let mut rpc = self.rpc.clone();
        async move { rpc.read(request).await.map(tonic::Response::into_inner) }
    }

    /// Comes back when the server has what was asked before: what was sent after it is answered.
    async fn settle(&mut self) {
        for _ in 0..3 {
            let request = self.with_token(CapabilitiesRequest::default());
            soon(self.rpc.capabilities(request)).await.expect("an answer");
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
        unread.push(soon(slow.ask(1)).await.expect("there is a place"));
        all.push(slow);
    }
    // All places are taken, for ever. Now those that wait for one of their own connection, with a large message and without, and those that wait for
    // one of all: of each more than what others need has places.
    for _ in 0..4 {
        all.push(Slow::new(&served, "").await);
    }
    for (number, slow) in all.iter_mut().enumerate() {
        for bytes in [1, LARGE, 1, LARGE] {
            waiting.spawn(slow.ask(bytes));
        }
        tokio::task::yield_now().await;
        // Nothing comes back on a connection that is full of an answer that nobody reads.
        if number >= unread.len() {
            slow.settle().await;
        }
    }
    let large = TableEntry { metadata: vec![1; 16 << 10].into(), ..host_entry(1) };
    soon(client.write(vec![insert(large)], Atomicity::ContinueOnError)).await.expect("there is a place to write");
    let one = of(TableEntry { action: None, ..host_entry(1) });
    assert_eq!(soon(client.read_all(vec![one])).await.expect("there is a place for a short answer").len(), 1);
    assert!(waiting.try_join_next().is_none() && unread.len() == 2, "they still wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_often_waits_for_itself() {
    let tokens = ["greedy", "modest"].map(|token| (TokenHash::of(token), Power::PipelineOwner)).to_vec();
    let credentials = Credentials::new(None, Access { tokens }).unwrap();
    let options = ServeOptions { limits: limits(), credentials, ..ServeOptions::default() };
    let served = serve_program(options).await;
    let token = ConnectOptions { token: Some("modest".to_owned()), ..ConnectOptions::default() };
    let mut client = soon(Client::connect(&served.uri, DEVICE, &token)).await.unwrap();
    let _stream = become_primary(&mut client, 1).await;
    fill(&mut client).await;
    let (mut all, mut greedy) = (Vec::new(), JoinSet::new());
    for number in 0..8 {
        let mut slow = Slow::new(&served, "greedy").await;
        if number < limits().reads {
            let begun = soon(slow.ask(1)).await;
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
    // Each that ends makes room for one.
    for _ in 0..5 {
        let next = soon(greedy.join_next()).await.unwrap().unwrap().expect("an answer");
        drop(next);
    }
    soon(answer).await.unwrap().expect("it came last, and did not wait for the other three");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_does_not_wait_for_slow_readers() {
    let served = serve_program(ServeOptions { limits: limits(), ..ServeOptions::default() }).await;
    let (mut client, _stream) = served.primary().await;
    fill(&mut client).await;
    let (first, second) = (Slow::new(&served, "").await, Slow::new(&served, "").await);
    let unread = [soon(first.ask(1)).await.unwrap(), soon(second.ask(20_000)).await.expect("there is a place")];
    let refused = soon(Slow::new(&served, "").await.ask(20_000)).await.expect_err("there is none");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("ask for less at once"), "{refused:?}");
    drop(unread);
}
