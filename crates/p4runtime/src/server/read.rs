//! `Read` (P4Runtime specification, section "Read RPC"): a snapshot, sent in parts at the client's
//! speed.
//!
//! A response of one part is produced at once and keeps nothing of the snapshot. A longer one needs
//! one of few permits, with a thread and a snapshot, until its client has received it. A request
//! that waits for such a permit holds no other shared resource, and permits are shared fairly
//! between clients.

use super::batch_status::status_of_parts;
use super::core::{ConfigSnapshot, ServerState};
use super::fair_semaphore::{ClientKey, FairPermit, FairSemaphore};
use super::read_bounds::{PART, WAITING};
use super::request_admission::RequestPermits;
use super::response_stream::{ReadResponseSender, ReadResponseStream};
use super::role::RoleScope;
use super::saved_config::UnstartedDevice;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::{Entity, ReadRequest, ReadResponse};
use crate::translate::leave_paged_tables_out;
use crate::{Code, Device, P4RuntimeError};
use prost::Message;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// Increment of the nice(2) value of threads for long responses, because their latency matters
/// least.
const NICER: i32 = 10;

/// Source of a read. All data is of one moment, except values that packets change, and the entries of
/// tables that packets write ([`crate::EntryPages`]).
struct ReadSnapshot {
    device: Arc<dyn Device>,
    target: ConfigSnapshot,
    scope: Arc<RoleScope>,
}

/// Splits entities into the parts of a response.
struct ResponseChunker {
    filling: ReadResponseSender,
    /// Timeout of the client for a part, normally and while other reads wait.
    stall: [Duration; 2],
    /// Semaphore of its permit.
    places: Arc<FairSemaphore>,
    entities: Vec<Entity>,
    bytes: usize,
    _place: FairPermit,
    turns: TimeSlices,
}

/// Time slices of a thread, shared with others in order of arrival.
struct TimeSlices {
    semaphore: Arc<Semaphore>,
    runtime: Handle,
    permit: Option<OwnedSemaphorePermit>,
}

impl TimeSlices {
    fn new(semaphore: &Arc<Semaphore>) -> TimeSlices {
        TimeSlices { semaphore: semaphore.clone(), runtime: Handle::current(), permit: None }
    }

    /// Waits for a time slice.
    fn acquire_slice(&mut self) {
        // The semaphore is never closed.
        self.permit = self.runtime.block_on(self.semaphore.clone().acquire_owned()).ok();
    }

    fn release_slice(&mut self) {
        self.permit = None;
    }
}

/// Origin of a read request: client and permits.
pub(super) struct ReadOrigin {
    pub client: ClientKey,
    pub admitted: RequestPermits,
}

impl ServerState {
    /// Starts a read. A short response is complete when the function returns; a long one waits for
    /// a permit and then comes from a thread of its own, at the client's speed.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device or an unknown role. `FAILED_PRECONDITION`: no pipeline runs.
    /// `RESOURCE_EXHAUSTED`: the request would have to wait and is too long for that.
    pub async fn read(
        self: &Arc<Self>,
        request: ReadRequest,
        origin: ReadOrigin,
    ) -> Result<ReadResponseStream, P4RuntimeError> {
        let scope = self.clients().arbitration.read_scope(request.device_id, &request.role)?;
        self.config_snapshot()?;
        let connection_permit = origin.admitted.take_connection_permit();
        let shutting_down = |_| P4RuntimeError::new(Code::Unavailable, "the server is shutting down");
        let permit = self.short_turns.clone().acquire_owned().await.map_err(shutting_down)?;
        let snapshot = self.snapshot_between_writes(scope.clone()).await?;
        let work = move || {
            let short_response = snapshot.read_short(&request);
            drop((permit, snapshot));
            (short_response, request)
        };
        let request = match tokio::task::spawn_blocking(work).await {
            Ok((Some((entities, end)), _)) => {
                let part = (!entities.is_empty()).then_some(ReadResponse { entities });
                return Ok(ReadResponseStream::complete(connection_permit, part, end));
            }
            Ok((None, request)) => request,
            Err(_) => return Err(P4RuntimeError::new(Code::Internal, "the server failed to execute this request")),
        };
        let (request, long_permit) = self.acquire_long_permit(request, origin).await?;
        let snapshot = self.snapshot_between_writes(scope).await?;
        let (filling, stream) = ReadResponseStream::new(connection_permit);
        let stall = [self.limits.stall_time, self.limits.stall_time_beside_others];
        let long_read_permits = self.long_read_permits.clone();
        let turns = TimeSlices::new(&self.long_turns);
        let chunker = ResponseChunker {
            filling,
            stall,
            places: long_read_permits,
            entities: Vec::new(),
            bytes: 0,
            _place: long_permit,
            turns,
        };
        let work = move || {
            // An error only costs latency of other threads.
            let _ = rustix::process::nice(NICER);
            snapshot.send(&request, chunker);
        };
        // The read has a thread of its own instead of one of a pool. Entities are allocated here
        // and freed by the sender, and the allocator's cache of a thread is freed with the thread.
        let thread = std::thread::Builder::new().name("read".to_owned()).spawn(work);
        let no_thread =
            |error| P4RuntimeError::new(Code::ResourceExhausted, format!("no thread for the read: {error}"));
        thread.map(|_| stream).map_err(no_thread)
    }

    /// Waits for a permit for a long response and returns it with the request, which holds no other
    /// resource meanwhile, because the wait depends on other clients.
    async fn acquire_long_permit(
        &self,
        request: ReadRequest,
        origin: ReadOrigin,
    ) -> Result<(ReadRequest, FairPermit), P4RuntimeError> {
        if let Some(permit) = self.long_read_permits.try_acquire(&origin.client) {
            return Ok((request, permit));
        }
        // Encoded again, because the decoded form can be far larger.
        let packed = request.encode_to_vec();
        drop(request);
        if packed.len() > WAITING {
            let (reads, kib) = (self.limits.reads, WAITING >> 10);
            let reason = format!(
                "{reads} long reads are in progress, and a request of more than {kib} KiB cannot wait; ask for less at once, or retry later"
            );
            return Err(P4RuntimeError::new(Code::ResourceExhausted, reason));
        }
        origin.admitted.release_permits();
        let permit = self.long_read_permits.acquire(origin.client).await;
        let request = ReadRequest::decode(&packed[..]);
        request.map(|request| (request, permit)).map_err(|error| P4RuntimeError::new(Code::Internal, error.to_string()))
    }

    /// Takes a snapshot between two writes, so that each write is visible completely or not at all.
    async fn snapshot_between_writes(&self, scope: Arc<RoleScope>) -> Result<ReadSnapshot, P4RuntimeError> {
        let turn = self.acquire_write_guard().await;
        let snapshot = self.snapshot(scope);
        drop(turn);
        snapshot
    }

    fn snapshot(&self, scope: Arc<RoleScope>) -> Result<ReadSnapshot, P4RuntimeError> {
        let mut target = self.config_snapshot()?;
        let device: Arc<dyn Device> = match target.awaits_commit {
            true => Arc::new(UnstartedDevice(target.program.config.pipeline.clone())),
            false => self.device.clone(),
        };
        leave_paged_tables_out(&*device, target.program.schema.pipeline(), &mut target.state);
        Ok(ReadSnapshot { device, target, scope })
    }

    /// Returns all entities of a read, without a scope.
    ///
    /// # Errors
    /// The status that a client receives.
    pub fn read_at_once(&self, request: &ReadRequest) -> Result<Vec<Entity>, Status> {
        let snapshot = self.snapshot(Arc::new(RoleScope::Full)).map_err(|refusal| refusal.status())?;
        let mut found = Vec::new();
        let mut sink = |entity| {
            found.push(entity);
            ControlFlow::Continue(())
        };
        let parts: Vec<_> = request.entities.iter().map(|wanted| snapshot.read_one(wanted, &mut sink)).collect();
        status_of_parts("requests", &parts).map(|()| found)
    }
}

impl ReadSnapshot {
    /// Returns the response with its end, if it fits in one part.
    fn read_short(&self, request: &ReadRequest) -> Option<(Vec<Entity>, Option<Status>)> {
        let (mut entities, mut bytes) = (Vec::new(), 0);
        let parts = self.read_matching(request, &mut |entity: Entity| {
            bytes += entity.encoded_len();
            entities.push(entity);
            if bytes > PART { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Some((entities, status_of_parts("requests", &parts).err()))
    }

    fn send(&self, request: &ReadRequest, mut feed: ResponseChunker) {
        feed.turns.acquire_slice();
        let Some(parts) = self.read_matching(request, &mut |entity| feed.push(entity)) else { return };
        feed.finish(status_of_parts("requests", &parts).err());
    }

    /// Passes the requested entities within the role's scope to the sink. Returns the result of
    /// each request; `None` if the sink breaks.
    fn read_matching(
        &self,
        request: &ReadRequest,
        sink: &mut dyn FnMut(Entity) -> ControlFlow<()>,
    ) -> Option<Vec<Result<(), P4RuntimeError>>> {
        let mut results = Vec::with_capacity(request.entities.len());
        for filter in &request.entities {
            let mut flow = ControlFlow::Continue(());
            let result = self.read_one(filter, &mut |entity: Entity| {
                if self.scope.covers(&entity) {
                    flow = sink(entity);
                }
                flow
            });
            if flow.is_break() {
                return None;
            }
            results.push(result);
        }
        Some(results)
    }

    fn read_one(&self, wanted: &Entity, sink: &mut dyn FnMut(Entity) -> ControlFlow<()>) -> Result<(), P4RuntimeError> {
        let target = &self.target;
        match &wanted.entity {
            None => Err(P4RuntimeError::invalid("the request has no entity; set one of its fields")),
            Some(E::DigestEntry(entry)) => {
                let found = target.program.read_digests(&target.digests, entry)?;
                let _ = found.into_iter().try_for_each(sink);
                Ok(())
            }
            Some(_) => target.program.schema.read(&*self.device, &target.state, wanted, sink),
        }
    }
}

impl ResponseChunker {
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
        self.turns.release_slice();
        let flow = self.filling.push_part(ReadResponse { entities }, self.stall_timeout());
        if flow.is_continue() {
            self.turns.acquire_slice();
        }
        flow
    }

    fn finish(mut self, end: Option<Status>) {
        let flow = self.flush();
        self.turns.release_slice();
        if flow.is_continue() {
            let patience = self.stall_timeout();
            self.filling.finish(end, patience);
        }
    }

    /// Returns the timeout of the client for a part, which is shorter while others wait for a
    /// permit.
    fn stall_timeout(&self) -> impl Fn() -> Duration + use<> {
        let ([alone, beside_others], places) = (self.stall, self.places.clone());
        move || if places.has_waiters() { alone.min(beside_others) } else { alone }
    }
}
