//! [`Answer`]: the parts of what was read, on their way from the thread that reads to the stream that sends them.
//!
//! The thread puts them into a short queue, and waits while it is full. If the client takes nothing for too long, the thread throws away what is
//! there, says that the answer is cut short, and goes: a client that does not read keeps neither a thread, nor a snapshot, nor parts.

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

/// Parts that wait to be sent.
pub(super) const WAITING: usize = 4;

/// How often one that cannot go on looks how long it may wait.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Queue {
    parts: VecDeque<ReadResponse>,
    /// How it ends, once the parts are taken; `Some(None)`: as it should.
    end: Option<Option<Status>>,
    waker: Option<Waker>,
    /// Nobody takes parts any more.
    gone: bool,
    /// The place among the reads of its connection.
    place: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    taken: Condvar,
}

impl Shared {}

/// Wakes who takes parts, without the lock.
fn wake(mut queue: MutexGuard<'_, Queue>) {
    let waker = queue.waker.take();
    drop(queue);
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn cut_short() -> Status {
    Status::deadline_exceeded("the answer was not read, and is cut short; read it faster")
}

/// The end that is sent.
pub struct Answer(Arc<Shared>);

/// The end that is filled. Dropped before [`Filling::finish`], the answer is cut short.
pub struct Filling(Arc<Shared>);

impl Answer {
    /// An empty one, with its place among its connection's.
    pub fn new(place: Option<OwnedSemaphorePermit>) -> (Filling, Answer) {
        let shared = Arc::<Shared>::default();
        shared.queue.lock().place = place;
        (Filling(shared.clone()), Answer(shared))
    }

    /// One that is all there.
    pub fn whole(place: Option<OwnedSemaphorePermit>, part: Option<ReadResponse>, end: Option<Status>) -> Answer {
        let shared = Shared::default();
        *shared.queue.lock() = Queue { parts: part.into_iter().collect(), end: Some(end), place, ..Queue::default() };
        Answer(Arc::new(shared))
    }
}

impl tokio_stream::Stream for Answer {
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

impl Drop for Answer {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        (queue.gone, queue.place) = (true, None);
        let parts = std::mem::take(&mut queue.parts);
        drop(queue);
        self.0.taken.notify_one();
        drop(parts);
    }
}

impl Filling {
    /// Waits until so many parts or fewer are left, with `stall` the time that may pass without one being taken. `Break`: nobody takes them.
    fn wait(&self, left: usize, stall: impl Fn() -> Duration) -> Result<MutexGuard<'_, Queue>, ()> {
        let mut queue = self.0.queue.lock();
        let (mut began, mut before) = (Instant::now(), queue.parts.len());
        loop {
            if queue.gone {
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

    /// Adds a part, when there is room. `Break`: nobody reads; the rest is not wanted.
    pub fn push(&self, part: ReadResponse, stall: impl Fn() -> Duration) -> ControlFlow<()> {
        let Ok(mut queue) = self.wait(WAITING - 1, stall) else { return ControlFlow::Break(()) };
        queue.parts.push_back(part);
        wake(queue);
        ControlFlow::Continue(())
    }

    /// Ends it, and waits until all parts are taken: until then they need the caller's place.
    pub fn finish(self, end: Option<Status>, stall: impl Fn() -> Duration) {
        let mut queue = self.0.queue.lock();
        queue.end = Some(end);
        wake(queue);
        if self.wait(0, stall).is_err() {
            self.cut();
        }
    }

    /// Throws away what waits.
    fn cut(&self) {
        let mut queue = self.0.queue.lock();
        let parts = std::mem::take(&mut queue.parts);
        // An answer without its end must not look whole.
        (queue.end, queue.place) = (Some(Some(cut_short())), None);
        wake(queue);
        drop(parts);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let unfinished = self.0.queue.lock().end.is_none();
        if unfinished {
            self.cut();
        }
    }
}
