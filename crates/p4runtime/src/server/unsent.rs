//! [`Unsent`]: bytes of answers that a connection's client has not yet taken in. HTTP/2 gives each of its streams a buffer, which who reads nothing
//! can fill: here a connection has one bound for all of them.
//!
//! A piece of an answer counts from when its stream is asked for it until HTTP/2 has written it (or has thrown it away, with its stream), which is
//! when the last reference to its bytes goes. While a connection has too many, none of its streams is asked for more.

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Bytes that wait on one connection.
#[derive(Debug)]
pub struct Unsent {
    bound: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    bytes: usize,
    /// Streams that wait for fewer.
    wakers: Vec<Waker>,
}

impl Unsent {
    /// None yet. With `bound` bytes or more of them, nothing is added.
    pub fn new(bound: usize) -> Arc<Unsent> {
        Arc::new(Unsent { bound, inner: Mutex::default() })
    }

    /// How many there are.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// Ready when there is room for more; wakes the stream that waits for it.
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

    /// Counts bytes as long as they are there.
    pub fn counted(self: &Arc<Unsent>, bytes: Bytes) -> Bytes {
        if bytes.is_empty() {
            return bytes;
        }
        self.inner.lock().bytes += bytes.len();
        Bytes::from_owner(Counted { bytes, among: self.clone() })
    }
}

struct Counted {
    bytes: Bytes,
    among: Arc<Unsent>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut inner = self.among.inner.lock();
        inner.bytes -= self.bytes.len();
        let wakers = if inner.bytes < self.among.bound { std::mem::take(&mut inner.wakers) } else { Vec::new() };
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }
}
