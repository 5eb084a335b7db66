//! [`ReadResponseStream`]: streamed response of a read, from the thread that reads to the stream
//! that sends.
//!
//! The thread puts parts into a short queue and blocks while it is full. If the client receives
//! nothing for too long, the thread discards the queue, ends the response with an error and exits.
//! A client that does not read therefore keeps no thread, snapshot or parts.

use crate::proto::v1::ReadResponse;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

/// Maximum number of parts in the queue.
pub(super) const WAITING: usize = 4;

/// Interval at which a blocked thread checks its timeout.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Queue {
    parts: VecDeque<ReadResponse>,
    /// End of the response after the queued parts; `Some(None)`: success.
    end: Option<Option<Status>>,
    waker: Option<Waker>,
    /// Whether the client has disconnected.
    is_closed: bool,
    /// Permit of the connection's limit of reads.
    place: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    taken: Condvar,
}

impl Shared {}

/// Wakes the receiver after releasing the lock.
fn wake(mut queue: MutexGuard<'_, Queue>) {
    let waker = queue.waker.take();
    drop(queue);
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn cut_short_status() -> Status {
    Status::deadline_exceeded("the client did not read the response in time, so it is incomplete; read it faster")
}

/// Receiver of a streamed response, polled by the connection.
pub struct ReadResponseStream(Arc<Shared>);

/// Sender of a streamed response. If it is dropped before [`ReadResponseSender::finish`], the
/// response ends with an error.
pub struct ReadResponseSender(Arc<Shared>);

impl ReadResponseStream {
    /// Creates an empty response with the connection's permit.
    pub fn new(place: Option<OwnedSemaphorePermit>) -> (ReadResponseSender, ReadResponseStream) {
        let shared = Arc::<Shared>::default();
        shared.queue.lock().place = place;
        (ReadResponseSender(shared.clone()), ReadResponseStream(shared))
    }

    /// Creates a complete response of at most one part.
    pub fn complete(
        place: Option<OwnedSemaphorePermit>,
        part: Option<ReadResponse>,
        end: Option<Status>,
    ) -> ReadResponseStream {
        let shared = Shared::default();
        *shared.queue.lock() = Queue { parts: part.into_iter().collect(), end: Some(end), place, ..Queue::default() };
        ReadResponseStream(Arc::new(shared))
    }
}

impl tokio_stream::Stream for ReadResponseStream {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.0.queue.lock();
        if let Some(part) = queue.parts.pop_front() {
            drop(queue);
            self.0.taken.notify_one();
            return Poll::Ready(Some(Ok(part)));
        }
        match &mut queue.end {
            Some(end) => {
                let end = end.take();
                queue.place = None;
                Poll::Ready(end.map(Err))
            }
            None => {
                queue.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for ReadResponseStream {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        (queue.is_closed, queue.place) = (true, None);
        let parts = std::mem::take(&mut queue.parts);
        drop(queue);
        self.0.taken.notify_one();
        drop(parts);
    }
}

impl ReadResponseSender {
    /// Waits until at most `left` parts are queued. `stall` returns the maximum time without
    /// progress. `Err`: the client has disconnected or stalled.
    fn wait_for_capacity(&self, left: usize, stall: impl Fn() -> Duration) -> Result<MutexGuard<'_, Queue>, ()> {
        let mut queue = self.0.queue.lock();
        let (mut began, mut before) = (Instant::now(), queue.parts.len());
        loop {
            if queue.is_closed {
                return Err(());
            }
            if queue.parts.len() <= left {
                return Ok(queue);
            }
            if queue.parts.len() < before {
                (began, before) = (Instant::now(), queue.parts.len());
            } else if began.elapsed() >= stall() {
                return Err(());
            }
            self.0.taken.wait_for(&mut queue, LOOK);
        }
    }

    /// Waits for capacity in the queue and adds a part. `Break`: the client has disconnected or
    /// stalled.
    pub fn push_part(&self, part: ReadResponse, stall: impl Fn() -> Duration) -> ControlFlow<()> {
        let Ok(mut queue) = self.wait_for_capacity(WAITING - 1, stall) else { return ControlFlow::Break(()) };
        queue.parts.push_back(part);
        wake(queue);
        ControlFlow::Continue(())
    }

    /// Ends the response and waits until all parts are received, because until then they need the
    /// caller's permit.
    pub fn finish(self, end: Option<Status>, stall: impl Fn() -> Duration) {
        let mut queue = self.0.queue.lock();
        queue.end = Some(end);
        wake(queue);
        if self.wait_for_capacity(0, stall).is_err() {
            self.cut_short();
        }
    }

    /// Discards the queued parts.
    fn cut_short(&self) {
        let mut queue = self.0.queue.lock();
        let parts = std::mem::take(&mut queue.parts);
        // A truncated response must not look complete.
        (queue.end, queue.place) = (Some(Some(cut_short_status())), None);
        wake(queue);
        drop(parts);
    }
}

impl Drop for ReadResponseSender {
    fn drop(&mut self) {
        let unfinished = self.0.queue.lock().end.is_none();
        if unfinished {
            self.cut_short();
        }
    }
}
