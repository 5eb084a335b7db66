//! [`Outbox`]: queue of messages to one stream, bounded in messages and bytes. A client that reads
//! slowly loses packets and notifications, which are counted. If it does not even read arbitration
//! updates, its stream ends. Other clients are unaffected.

use super::peer::Peer;
use crate::proto::v1::StreamMessageResponse;
use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::sync::Notify;
use tonic::Status;

/// Number of arbitration messages that can be queued above the limits.
const RESERVE: usize = 64;

/// Maximum queue length at which errors of client messages are added, because a client that floods
/// and does not read needs no list of errors.
const ERRORS: usize = 64;

/// Limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxBounds {
    /// Maximum number of messages.
    pub messages: usize,
    /// Maximum encoded length in bytes.
    pub bytes: usize,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<(StreamMessageResponse, usize)>,
    bytes: usize,
    /// End of the stream after the queued messages; `Some(None)`: without an error.
    end: Option<Option<Status>>,
    waker: Option<Waker>,
    /// Whether the client has disconnected or received the end.
    over: bool,
}

/// Sending end of a stream's queue.
pub struct Outbox {
    bounds: OutboxBounds,
    inner: Mutex<Inner>,
    lost: AtomicU64,
    origin: (Peer, Instant),
    ended: Notify,
}

impl Outbox {
    /// Creates an empty queue for a client.
    pub fn new(bounds: OutboxBounds, peer: Peer) -> Arc<Outbox> {
        let origin = (peer, Instant::now());
        Arc::new(Outbox { bounds, inner: Mutex::default(), lost: AtomicU64::new(0), origin, ended: Notify::new() })
    }

    /// Returns the client and the time of its connection.
    pub fn origin(&self) -> &(Peer, Instant) {
        &self.origin
    }

    /// Returns the number of queued messages.
    pub fn waiting(&self) -> usize {
        self.inner.lock().queue.len()
    }

    /// Queues a packet or notification. Returns whether the queue had capacity; otherwise the
    /// message is counted as lost.
    pub fn offer(&self, message: StreamMessageResponse) -> bool {
        let size = message.encoded_len();
        let inner = self.inner.lock();
        let full = inner.queue.len() >= self.bounds.messages || inner.bytes + size > self.bounds.bytes;
        if full || inner.end.is_some() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        push(inner, message, size);
        true
    }

    /// Queues an error of a client message. Returns whether the queue had capacity, which is
    /// smaller than for messages of the device.
    pub fn offer_error(&self, message: StreamMessageResponse) -> bool {
        if self.inner.lock().queue.len() >= ERRORS {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.offer(message)
    }

    /// Queues a message that must not be lost. If even its reserve is full, the stream ends.
    /// Returns whether the stream continues.
    pub fn queue_required(&self, message: StreamMessageResponse) -> bool {
        let size = message.encoded_len();
        let mut inner = self.inner.lock();
        if inner.end.is_some() {
            return false;
        }
        if inner.queue.len() >= self.bounds.messages + RESERVE {
            self.lost.fetch_add(inner.queue.len() as u64 + 1, Ordering::Relaxed);
            (inner.queue, inner.bytes) = (VecDeque::new(), 0);
            drop(inner);
            self.end(Some(Status::resource_exhausted("the client does not read its stream; open another one")));
            return false;
        }
        push(inner, message, size);
        true
    }

    /// Ends the stream after the queued messages have been sent. The first end counts.
    pub fn end(&self, fault: Option<Status>) {
        let mut inner = self.inner.lock();
        inner.end.get_or_insert(fault);
        wake(inner);
        self.ended.notify_one();
    }

    /// Waits for the end of the stream; for a single waiter.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns the number of lost messages.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns whether the reader has ended.
    #[cfg(test)]
    pub fn is_over(&self) -> bool {
        self.inner.lock().over
    }
}

fn push(mut inner: MutexGuard<'_, Inner>, message: StreamMessageResponse, size: usize) {
    inner.queue.push_back((message, size));
    inner.bytes += size;
    wake(inner);
}

/// Wakes the reader after releasing the lock.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Reading end of a stream's queue. `on_drop` is called once when it is dropped, i.e. when the
/// client has disconnected.
pub struct OutboxReader {
    outbox: Arc<Outbox>,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

impl OutboxReader {
    /// Creates the reading end of an outbox.
    pub fn new(outbox: Arc<Outbox>, on_drop: impl FnOnce() + Send + 'static) -> OutboxReader {
        OutboxReader { outbox, on_drop: Some(Box::new(on_drop)) }
    }
}

impl tokio_stream::Stream for OutboxReader {
    type Item = Result<StreamMessageResponse, Status>;

    /// Returns the next message. After the last one comes the error that ended the stream, if any.
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut inner = self.outbox.inner.lock();
        if let Some((message, size)) = inner.queue.pop_front() {
            inner.bytes -= size;
            return Poll::Ready(Some(Ok(message)));
        }
        if inner.over {
            return Poll::Ready(None);
        }
        match inner.end.as_mut().map(Option::take) {
            Some(fault) => {
                inner.over = true;
                Poll::Ready(fault.map(Err))
            }
            None => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for OutboxReader {
    fn drop(&mut self) {
        let mut inner = self.outbox.inner.lock();
        inner.over = true;
        inner.end.get_or_insert(None);
        (inner.queue, inner.bytes) = (VecDeque::new(), 0);
        drop(inner);
        self.outbox.ended.notify_one();
        if let Some(on_drop) = self.on_drop.take() {
            on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{PacketIn, stream_message_response::Update};
    use tokio_stream::StreamExt;

    fn packet(bytes: usize) -> StreamMessageResponse {
        let packet = PacketIn { payload: vec![0; bytes].into(), metadata: Vec::new() };
        StreamMessageResponse { update: Some(Update::Packet(packet)) }
    }

    fn outbox() -> Arc<Outbox> {
        Outbox::new(OutboxBounds { messages: 3, bytes: 1000 }, Peer::default())
    }

    #[tokio::test]
    async fn messages_and_bytes_are_bounded_and_losses_counted() {
        let (outbox, mut taken) = (outbox(), 0);
        while outbox.offer(packet(10)) {
            taken += 1;
        }
        assert_eq!((taken, outbox.lost()), (3, 1));
        let mut reader = OutboxReader::new(outbox.clone(), || {});
        assert_eq!(reader.next().await.unwrap().unwrap(), packet(10));
        assert!(!outbox.offer(packet(2000)), "too many bytes");
        assert!(outbox.offer(packet(500)));
        assert!(!outbox.offer(packet(1)));
        assert_eq!(outbox.lost(), 3);
    }

    #[tokio::test]
    async fn who_does_not_read_who_is_primary_loses_the_stream() {
        let outbox = outbox();
        assert!((0..3 + RESERVE).all(|_| outbox.queue_required(packet(1))));
        assert!(!outbox.queue_required(packet(1)));
        let mut reader = OutboxReader::new(outbox, || {});
        assert_eq!(reader.next().await.unwrap().unwrap_err().code(), tonic::Code::ResourceExhausted);
        assert!(reader.next().await.is_none());
    }

    #[tokio::test]
    async fn an_end_comes_after_what_waits() {
        let outbox = outbox();
        outbox.offer(packet(1));
        outbox.end(Some(Status::not_found("gone")));
        outbox.end(None);
        assert!(!outbox.offer(packet(1)));
        let mut reader = OutboxReader::new(outbox.clone(), || {});
        assert!(reader.next().await.unwrap().is_ok());
        assert_eq!(reader.next().await.unwrap().unwrap_err().code(), tonic::Code::NotFound);
        assert!(reader.next().await.is_none() && outbox.is_over());
    }

    #[test]
    fn a_reader_that_goes_says_so() {
        let gone = Arc::new(AtomicU64::new(0));
        let (outbox, count) = (outbox(), gone.clone());
        drop(OutboxReader::new(outbox.clone(), move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        assert_eq!(gone.load(Ordering::Relaxed), 1);
        assert!(!outbox.offer(packet(1)) && outbox.is_over());
    }
}
