//! [`Outbox`]: what waits to be sent on one stream, bounded in messages and bytes. A client that reads slowly loses packets and
//! notifications, which are counted; if it doesn't even read who is primary, it loses its stream. Other clients don't notice.

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

/// Messages about arbitration that may wait above the bounds.
const RESERVE: usize = 64;

/// Errors of what a client has sent are not added to more messages than this: who floods and does not read needs no list of it.
const ERRORS: usize = 64;

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxBounds {
    /// Messages.
    pub messages: usize,
    /// Bytes, encoded.
    pub bytes: usize,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<(StreamMessageResponse, usize)>,
    bytes: usize,
    /// How the stream ends, once the queue is empty; `Some(None)`: without a fault.
    end: Option<Option<Status>>,
    waker: Option<Waker>,
    /// The client is gone, or has been told the end.
    over: bool,
}

/// The sending end of a stream's queue.
pub struct Outbox {
    bounds: OutboxBounds,
    inner: Mutex<Inner>,
    lost: AtomicU64,
    origin: (Peer, Instant),
    ended: Notify,
}

impl Outbox {
    /// An empty one, for a client.
    pub fn new(bounds: OutboxBounds, peer: Peer) -> Arc<Outbox> {
        let origin = (peer, Instant::now());
        Arc::new(Outbox { bounds, inner: Mutex::default(), lost: AtomicU64::new(0), origin, ended: Notify::new() })
    }

    /// Whom it is for, and since when.
    pub fn origin(&self) -> &(Peer, Instant) {
        &self.origin
    }

    /// Messages that wait.
    pub fn waiting(&self) -> usize {
        self.inner.lock().queue.len()
    }

    /// A packet or notification: whether there was room for it. What is lost is counted.
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

    /// An error of something that the client has sent: whether there was room for it, which is less than for what the device has to tell.
    pub fn offer_error(&self, message: StreamMessageResponse) -> bool {
        if self.inner.lock().queue.len() >= ERRORS {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.offer(message)
    }

    /// A message that can't be left out. If there is no room even for this, the stream ends. Whether it goes on.
    pub fn insist(&self, message: StreamMessageResponse) -> bool {
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

    /// Ends the stream after what waits has been sent. The first end counts.
    pub fn end(&self, fault: Option<Status>) {
        let mut inner = self.inner.lock();
        inner.end.get_or_insert(fault);
        wake(inner);
        self.ended.notify_one();
    }

    /// Waits for the end, to be told by one.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Messages that found no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether nobody will read any more.
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

/// Wakes the reader, without the lock.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The reading end. When it is dropped, the client is gone: `on_drop` is called once.
pub struct OutboxReader {
    outbox: Arc<Outbox>,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
}

impl OutboxReader {
    /// The reading end of an outbox.
    pub fn new(outbox: Arc<Outbox>, on_drop: impl FnOnce() + Send + 'static) -> OutboxReader {
        OutboxReader { outbox, on_drop: Some(Box::new(on_drop)) }
    }
}

impl tokio_stream::Stream for OutboxReader {
    type Item = Result<StreamMessageResponse, Status>;

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
        assert!((0..3 + RESERVE).all(|_| outbox.insist(packet(1))));
        assert!(!outbox.insist(packet(1)));
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
