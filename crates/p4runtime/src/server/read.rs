//! `Read` (P4Runtime specification, section "Read RPC"): a snapshot, sent in parts as fast as the client reads.

use super::batch_status::of_parts;
use super::core::{Core, Target};
use super::role::Scope;
use super::saved::Untouched;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::{Entity, ReadRequest, ReadResponse};
use crate::{Device, Refusal};
use prost::Message;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::Status;

/// A part of an answer has this many bytes, or one entity more.
const PART: usize = 64 * 1024;

/// Parts that wait to be sent.
const WAITING: usize = 4;

/// How often a read that cannot go on looks whether others wait for its place.
const LOOK: Duration = Duration::from_millis(100);

/// How long a client may take to read the next part while others wait for a place.
const BESIDE_OTHERS: Duration = Duration::from_secs(1);

/// The parts of an answer. `Ok(None)` is the proper end.
type Item = Result<Option<ReadResponse>, Status>;

/// An answer on its way.
pub struct Answer {
    parts: Receiver<Item>,
    over: bool,
}

impl tokio_stream::Stream for Answer {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let item = std::task::ready!(self.parts.poll_recv(context));
        let item = match item {
            Some(Ok(Some(part))) => return Poll::Ready(Some(Ok(part))),
            Some(Ok(None)) => None,
            Some(Err(status)) => Some(Err(status)),
            // An answer without its end must not look whole.
            None => Some(Err(Status::deadline_exceeded("the answer was not read, and is cut short; read it faster"))),
        };
        self.over = true;
        Poll::Ready(item)
    }
}

/// What is read from; all of one moment, but for what packets change.
struct Snapshot {
    device: Arc<dyn Device>,
    target: Target,
    scope: Arc<Scope>,
}

/// The sending end.
struct Feed {
    parts: Sender<Item>,
    runtime: Handle,
    stall: Duration,
    /// Reads that have no place yet.
    waiting: Arc<AtomicUsize>,
    entities: Vec<Entity>,
    bytes: usize,
    _permit: OwnedSemaphorePermit,
}

/// One that waits for a place, until it is dropped.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn new(count: &Arc<AtomicUsize>) -> Waits {
        count.fetch_add(1, Ordering::Relaxed);
        Waits(count.clone())
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Core {
    /// Begins a read.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device, or no such role. `FAILED_PRECONDITION`: nothing runs.
    pub async fn read(self: &Arc<Self>, request: ReadRequest) -> Result<Answer, Refusal> {
        let scope = self.clients().arbitration.reader(request.device_id, &request.role)?;
        self.target()?;
        let closed = |_| Refusal::new(crate::Code::Unavailable, "the server ends");
        let permit = {
            let _waits = Waits::new(&self.reads_waiting);
            self.reads.clone().acquire_owned().await.map_err(closed)?
        };
        // Between writes, so that each is seen as a whole.
        let turn = self.turn().await;
        let snapshot = self.snapshot(scope)?;
        drop(turn);
        let (sender, parts) = channel(WAITING);
        let runtime = Handle::current();
        let feed = Feed {
            parts: sender,
            runtime,
            stall: self.limits.stall_time,
            waiting: self.reads_waiting.clone(),
            entities: Vec::new(),
            bytes: 0,
            _permit: permit,
        };
        tokio::task::spawn_blocking(move || snapshot.send(&request, feed));
        Ok(Answer { parts, over: false })
    }

    fn snapshot(&self, scope: Arc<Scope>) -> Result<Snapshot, Refusal> {
        let target = self.target()?;
        let device: Arc<dyn Device> = match target.waits {
            true => Arc::new(Untouched(target.program.forwarding.pipeline.clone())),
            false => self.device.clone(),
        };
        Ok(Snapshot { device, target, scope })
    }

    /// All of an answer, whoever asks.
    ///
    /// # Errors
    /// As a client is told.
    pub fn read_at_once(&self, request: &ReadRequest) -> Result<Vec<Entity>, Status> {
        let snapshot = self.snapshot(Arc::new(Scope::Full)).map_err(|refusal| refusal.status())?;
        let mut found = Vec::new();
        let mut sink = |entity| {
            found.push(entity);
            ControlFlow::Continue(())
        };
        let parts: Vec<_> = request.entities.iter().map(|wanted| snapshot.one(wanted, &mut sink)).collect();
        of_parts("requests", &parts).map(|()| found)
    }
}

impl Snapshot {
    fn send(&self, request: &ReadRequest, mut feed: Feed) {
        let mut parts = Vec::with_capacity(request.entities.len());
        for wanted in &request.entities {
            let mut flow = ControlFlow::Continue(());
            let mut sink = |entity: Entity| {
                if self.scope.covers(&entity) {
                    flow = feed.push(entity);
                }
                flow
            };
            let part = self.one(wanted, &mut sink);
            if flow.is_break() {
                return;
            }
            parts.push(part);
        }
        if feed.flush().is_continue() {
            let _ = feed.send(of_parts("requests", &parts).map(|()| None));
        }
    }

    fn one(&self, wanted: &Entity, sink: &mut dyn FnMut(Entity) -> ControlFlow<()>) -> Result<(), Refusal> {
        let target = &self.target;
        match &wanted.entity {
            None => Err(Refusal::invalid("the request has no entity; set one of its fields")),
            Some(E::DigestEntry(entry)) => {
                let found = target.program.read_digests(&target.digests, entry)?;
                let _ = found.into_iter().try_for_each(sink);
                Ok(())
            }
            Some(_) => target.program.schema.read(&*self.device, &target.state, wanted, sink),
        }
    }
}

impl Feed {
    fn push(&mut self, entity: Entity) -> ControlFlow<()> {
        self.bytes += entity.encoded_len();
        self.entities.push(entity);
        if self.bytes >= PART { self.flush() } else { ControlFlow::Continue(()) }
    }

    fn flush(&mut self) -> ControlFlow<()> {
        if self.entities.is_empty() {
            return ControlFlow::Continue(());
        }
        self.bytes = 0;
        let entities = std::mem::take(&mut self.entities);
        self.send(Ok(Some(ReadResponse { entities })))
    }

    /// Waits until there is room: for long, unless others wait for a place to read. `Break`: nobody reads.
    fn send(&self, item: Item) -> ControlFlow<()> {
        let began = Instant::now();
        loop {
            let room = self.runtime.block_on(async { tokio::time::timeout(LOOK, self.parts.reserve()).await });
            match room {
                Ok(Ok(room)) => {
                    room.send(item);
                    return ControlFlow::Continue(());
                }
                Ok(Err(_)) => return ControlFlow::Break(()),
                Err(_) => {}
            }
            let others_wait = self.waiting.load(Ordering::Relaxed) > 0;
            if began.elapsed() >= if others_wait { self.stall.min(BESIDE_OTHERS) } else { self.stall } {
                return ControlFlow::Break(());
            }
        }
    }
}
