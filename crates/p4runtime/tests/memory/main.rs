//! Bounds the server memory that clients without reads can occupy. There is a single test, because
//! all memory of the process is counted, including that of the clients; the clients buffer little.

#[path = "../server/device.rs"]
#[allow(dead_code)]
mod device;
#[path = "../server/support.rs"]
#[allow(dead_code, unused_imports)]
mod support;

use p4runtime::proto::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::server::{Limits, Observer, ObserverHandle, RequestKind, ServeOptions};
use peak_alloc::PeakAlloc;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use support::*;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Number of entries of the table, each with a text: 15 MB, more than sockets buffer.
const ENTRIES: u16 = 60_000;
const TEXT: usize = 200;

/// Number of clients of each kind, and number of reads per client.
const CLIENTS: usize = 3;
const READS: usize = 12;

/// Maximum number of reads with threads.
const PLACES: usize = 4;
/// Maximum number of unsent response bytes per connection.
const UNSENT: usize = 256 << 10;
/// Maximum memory per client in bytes. Twice, because buffers grow: the unsent bytes and one
/// response part with the data before it. Then received data, a task per stream, and the client's
/// own end of the connection.
const KEPT: usize = 2 * (UNSENT + (64 << 10)) + (1 << 20);
/// Memory of response parts that wait or are being built, and their size before packing.
const PARTS: usize = 6 * (32 << 10) * 8;

/// Connection of a client that stops reading.
struct Deaf {
    stream: TcpStream,
    deaf: Arc<AtomicBool>,
}

impl AsyncRead for Deaf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Never woken: the client is deaf until the end of the test.
        if self.deaf.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Deaf {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Counter of reads that have a first response.
#[derive(Default)]
struct Begun(AtomicUsize);

impl Observer for Begun {
    fn answered(&self, kind: RequestKind, _: Duration, refused: bool) {
        assert!(!refused, "{kind:?}");
        self.0.fetch_add(usize::from(kind == RequestKind::Read), Ordering::Relaxed);
    }
}

/// Reads everything repeatedly, and consumes no response.
fn read_everything(rpc: &P4RuntimeClient<Channel>) -> JoinSet<Streaming<ReadResponse>> {
    let one = |_| {
        let mut rpc = rpc.clone();
        let request =
            ReadRequest { device_id: DEVICE, entities: vec![entity_of(TableEntry::default())], ..Default::default() };
        async move { rpc.read(request).await.expect("an answer").into_inner() }
    };
    (0..READS).map(one).collect()
}

/// Connects an HTTP/2 client with a minimal window.
async fn without_room(served: &Served) -> P4RuntimeClient<Channel> {
    let endpoint = Endpoint::from_shared(served.uri.clone()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
    P4RuntimeClient::new(endpoint.connect().await.unwrap())
}

/// Connects a client with a large window that stops reading its socket.
async fn deaf(served: &Served) -> P4RuntimeClient<Channel> {
    let endpoint = Endpoint::from_shared(served.uri.clone()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(64 << 20).initial_connection_window_size(1 << 30);
    let port = served.port;
    let deaf = Arc::new(AtomicBool::new(false));
    let kept = deaf.clone();
    let connector = tower::service_fn(move |_| {
        let deaf = kept.clone();
        async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            Ok::<_, io::Error>(hyper_util::rt::TokioIo::new(Deaf { stream, deaf }))
        }
    });
    let rpc = P4RuntimeClient::new(endpoint.connect_with_connector(connector).await.unwrap());
    deaf.store(true, Ordering::Relaxed);
    rpc
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_keep_no_more_than_their_connections_may() {
    let stall_time = Duration::from_millis(100);
    let begun = Arc::new(Begun::default());
    let limits = Limits { reads: PLACES, unsent_bytes: UNSENT, stall_time, ..Limits::default() };
    let served = serve_program(ServeOptions {
        limits,
        observer: Some(ObserverHandle(begun.clone())),
        ..ServeOptions::default()
    })
    .await;
    let (mut client, _stream) = served.primary().await;
    let long = |value| TableEntry { metadata: vec![7; TEXT].into(), ..type_entry(value) };
    for first in (0..ENTRIES).step_by(1_000) {
        let updates = (first..first + 1_000).map(|value| insert(long(value))).collect();
        client.write(updates, Atomicity::ContinueOnError).await.unwrap();
    }
    let mut asked = Vec::new();
    for number in 0..2 * CLIENTS {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let rpc = if number < CLIENTS { without_room(&served).await } else { deaf(&served).await };
        asked.push(read_everything(&rpc));
        // Waiting reads get the permits of aborted ones.
        let all = asked.len() * READS;
        until(|| begun.0.load(Ordering::Relaxed) >= all).await;
        // The last ones are aborted as well.
        tokio::time::sleep(5 * stall_time).await;
        let (kept, most) = (MEMORY.current_usage().saturating_sub(before), MEMORY.peak_usage().saturating_sub(before));
        println!("client {number}: {} KiB kept, {} KiB at most", kept >> 10, most >> 10);
        assert!(kept < KEPT, "client {number} keeps {kept} bytes; its bound is {KEPT}");
        assert!(
            most < KEPT + PLACES * PARTS,
            "client {number} took {most} bytes; its bound is {KEPT}, and parts of {PLACES} answers"
        );
    }
    let one =
        within_patience(client.read_all(vec![entity_of(TableEntry { action: None, ..type_entry(7) })])).await.unwrap();
    assert_eq!(one.len(), 1, "others are served");
}
