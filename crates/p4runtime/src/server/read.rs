//! `Read` (P4Runtime specification, section "Read RPC"): a snapshot, sent in parts as fast as the client reads.
//!
//! An answer of one part needs nobody's patience: it is made at once, and nothing of the snapshot is kept. A longer one needs one of few places, with
//! a thread and a snapshot, for as long as its client takes to read it; whoever waits for such a place does not hold up short answers.

use super::answer::{Answer, Filling};
use super::batch_status::of_parts;
use super::connection::Connection;
use super::core::{Core, Target};
use super::role::Scope;
use super::saved::Untouched;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::{Entity, ReadRequest, ReadResponse};
use crate::{Device, Refusal};
use prost::Message;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// A part of an answer has this many bytes, or one entity more.
pub(super) const PART: usize = 32 * 1024;

/// How long a client may take to read the next part while others wait for a place.
const BESIDE_OTHERS: Duration = Duration::from_secs(1);

/// What is read from; all of one moment, but for what packets change.
struct Snapshot {
    device: Arc<dyn Device>,
    target: Target,
    scope: Arc<Scope>,
}

/// What is read, into parts of an answer.
struct Feed {
    filling: Filling,
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

async fn place(among: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
    among.clone().acquire_owned().await.map_err(|_| Refusal::new(crate::Code::Unavailable, "the server ends"))
}

impl Core {
    /// Begins a read.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device, or no such role. `FAILED_PRECONDITION`: nothing runs.
    pub async fn read(self: &Arc<Self>, request: ReadRequest, by: &Connection) -> Result<Answer, Refusal> {
        let scope = self.clients().arbitration.reader(request.device_id, &request.role)?;
        self.target()?;
        let own = {
            let _waits = Waits::new(&self.reads_waiting);
            place(&by.reads).await?
        };
        let request = Arc::new(request);
        let short = {
            let permit = place(&self.short_reads).await?;
            let (snapshot, request) = (self.snapshot_between_writes(scope.clone()).await?, request.clone());
            let work = move || (permit, snapshot.short(&request)).1;
            tokio::task::spawn_blocking(work).await
        };
        match short {
            Ok(Some((entities, end))) => {
                let part = (!entities.is_empty()).then_some(ReadResponse { entities });
                return Ok(Answer::whole(own, part, end));
            }
            Ok(None) => {}
            Err(_) => return Err(Refusal::new(crate::Code::Internal, "the server failed at this request")),
        }
        let permit = {
            let _waits = Waits::new(&self.reads_waiting);
            place(&self.reads).await?
        };
        let snapshot = self.snapshot_between_writes(scope).await?;
        let (filling, answer) = Answer::new(own);
        let (stall, waiting) = (self.limits.stall_time, self.reads_waiting.clone());
        let feed = Feed { filling, stall, waiting, entities: Vec::new(), bytes: 0, _permit: permit };
        // A thread of its own, and not one that others use after it: entities are asked for here and given back where they are sent, and what an
        // allocator keeps for a thread goes with the thread.
        let thread = std::thread::Builder::new().name("read".to_owned()).spawn(move || snapshot.send(&request, feed));
        let no_thread =
            |error| Refusal::new(crate::Code::ResourceExhausted, format!("no thread for the read: {error}"));
        thread.map(|_| answer).map_err(no_thread)
    }

    /// Each write is seen as a whole.
    async fn snapshot_between_writes(&self, scope: Arc<Scope>) -> Result<Snapshot, Refusal> {
        let turn = self.turn().await;
        let snapshot = self.snapshot(scope);
        drop(turn);
        snapshot
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
    /// The answer with its end, if it is no more than one part.
    fn short(&self, request: &ReadRequest) -> Option<(Vec<Entity>, Option<Status>)> {
        let (mut entities, mut bytes) = (Vec::new(), 0);
        let parts = self.all(request, &mut |entity: Entity| {
            bytes += entity.encoded_len();
            entities.push(entity);
            if bytes > PART { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Some((entities, of_parts("requests", &parts).err()))
    }

    fn send(&self, request: &ReadRequest, mut feed: Feed) {
        let Some(parts) = self.all(request, &mut |entity| feed.push(entity)) else { return };
        feed.finish(of_parts("requests", &parts).err());
    }

    /// What the role may see of what is wanted. The outcome of each request; nothing, once the sink breaks.
    fn all(
        &self,
        request: &ReadRequest,
        sink: &mut dyn FnMut(Entity) -> ControlFlow<()>,
    ) -> Option<Vec<Result<(), Refusal>>> {
        let mut parts = Vec::with_capacity(request.entities.len());
        for wanted in &request.entities {
            let mut flow = ControlFlow::Continue(());
            let part = self.one(wanted, &mut |entity: Entity| {
                if self.scope.covers(&entity) {
                    flow = sink(entity);
                }
                flow
            });
            if flow.is_break() {
                return None;
            }
            parts.push(part);
        }
        Some(parts)
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
        self.filling.push(ReadResponse { entities }, self.patience())
    }

    fn finish(mut self, end: Option<Status>) {
        if self.flush().is_continue() {
            let patience = self.patience();
            self.filling.finish(end, patience);
        }
    }

    /// How long the client may take for a part: for long, unless others wait for a place to read.
    fn patience(&self) -> impl Fn() -> Duration + use<> {
        let (stall, waiting) = (self.stall, self.waiting.clone());
        move || if waiting.load(Ordering::Relaxed) > 0 { stall.min(BESIDE_OTHERS) } else { stall }
    }
}
