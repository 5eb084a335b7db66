//! [`SendBacklog`]: send backlog of a connection, i.e. response bytes that its client has not
//! received yet. HTTP/2 gives each stream a buffer, which a client that does not read can fill; the
//! backlog bounds their sum.
//!
//! A piece of a response counts from its production until HTTP/2 has written it, or has discarded
//! it with its stream. At that moment the last reference to its bytes is dropped. While the backlog
//! is full, the streams of the connection produce nothing.

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Send backlog of one connection.
#[derive(Debug)]
pub struct SendBacklog {
    bound: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    bytes: usize,
    /// Streams that wait for capacity.
    wakers: Vec<Waker>,
}

impl SendBacklog {
    /// Creates an empty backlog that is full from `bound` bytes on.
    pub fn new(bound: usize) -> Arc<SendBacklog> {
        Arc::new(SendBacklog { bound, inner: Mutex::default() })
    }

    /// Returns the backlog in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// Ready when the backlog has capacity; otherwise registers the stream to be woken.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if inner.bytes < self.bound {
            return Poll::Ready(());
        }
        if !inner.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Adds bytes to the backlog until they are dropped.
    pub fn counted(self: &Arc<SendBacklog>, bytes: Bytes) -> Bytes {
        if bytes.is_empty() {
            return bytes;
        }
        self.inner.lock().bytes += bytes.len();
        Bytes::from_owner(BacklogBytes { bytes, backlog: self.clone() })
    }
}

struct BacklogBytes {
    bytes: Bytes,
    backlog: Arc<SendBacklog>,
}

impl AsRef<[u8]> for BacklogBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for BacklogBytes {
    fn drop(&mut self) {
        let mut inner = self.backlog.inner.lock();
        inner.bytes -= self.bytes.len();
        let wakers = if inner.bytes < self.backlog.bound { std::mem::take(&mut inner.wakers) } else { Vec::new() };
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }
}
