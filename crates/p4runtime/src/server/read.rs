//! `Read` (P4Runtime specification, section "Read RPC"): a snapshot, sent in parts as fast as the client reads.
//!
//! An answer of one part needs nobody's patience: it is made at once, and nothing of the snapshot is kept. A longer one needs one of few places, with
//! a thread and a snapshot, for as long as its client takes to read it. Whoever waits for such a place has nothing that others need, and clients get
//! them in turn, however many each asks for.

use super::answer::{Answer, Filling};
use super::batch_status::of_parts;
use super::core::{Core, Target};
use super::places::{Identity, Place, Places};
use super::read_bounds::{PART, WAITING};
use super::received::Admitted;
use super::role::Scope;
use super::saved::Untouched;
use crate::proto::v1::entity::Entity as E;
use crate::proto::v1::{Entity, ReadRequest, ReadResponse};
use crate::{Code, Device, Refusal};
use prost::Message;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// How much nicer than others the threads of long answers are (nice(2)): whoever reads everything can wait a moment longer, and makes nobody wait.
const NICER: i32 = 10;

/// What is read from; all of one moment, but for what packets change.
struct Snapshot {
    device: Arc<dyn Device>,
    target: Target,
    scope: Arc<Scope>,
}

/// What is read, into parts of an answer.
struct Feed {
    filling: Filling,
    /// How long a client may take for a part, and how long while others wait.
    stall: [Duration; 2],
    /// Its place is one of these.
    places: Arc<Places>,
    entities: Vec<Entity>,
    bytes: usize,
    _place: Place,
    turns: Turns,
}

/// A thread's turns to work, among those of others, in the order of asking.
struct Turns {
    among: Arc<Semaphore>,
    runtime: Handle,
    mine: Option<OwnedSemaphorePermit>,
}

impl Turns {
    fn new(among: &Arc<Semaphore>) -> Turns {
        Turns { among: among.clone(), runtime: Handle::current(), mine: None }
    }

    /// Waits for one.
    fn begin(&mut self) {
        // They are never closed.
        self.mine = self.runtime.block_on(self.among.clone().acquire_owned()).ok();
    }

    fn end(&mut self) {
        self.mine = None;
    }
}

/// Who asks for an answer, and with what.
pub(super) struct Reader {
    pub who: Identity,
    pub admitted: Admitted,
}

impl Core {
    /// Begins a read.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device, or no such role. `FAILED_PRECONDITION`: nothing runs. `RESOURCE_EXHAUSTED`: it would have to wait, and is too long
    /// for that.
    pub async fn read(self: &Arc<Self>, request: ReadRequest, by: Reader) -> Result<Answer, Refusal> {
        let scope = self.clients().arbitration.reader(request.device_id, &request.role)?;
        self.target()?;
        let own = by.admitted.own();
        let ends = |_| Refusal::new(Code::Unavailable, "the server ends");
        let permit = self.short_turns.clone().acquire_owned().await.map_err(ends)?;
        let snapshot = self.snapshot_between_writes(scope.clone()).await?;
        let work = move || {
            let short = snapshot.short(&request);
            drop((permit, snapshot));
            (short, request)
        };
        let request = match tokio::task::spawn_blocking(work).await {
            Ok((Some((entities, end)), _)) => {
                let part = (!entities.is_empty()).then_some(ReadResponse { entities });
                return Ok(Answer::whole(own, part, end));
            }
            Ok((None, request)) => request,
            Err(_) => return Err(Refusal::new(Code::Internal, "the server failed at this request")),
        };
        let (request, place) = self.place_for_long(request, by).await?;
        let snapshot = self.snapshot_between_writes(scope).await?;
        let (filling, answer) = Answer::new(own);
        let stall = [self.limits.stall_time, self.limits.stall_time_beside_others];
        let places = self.reads.clone();
        let turns = Turns::new(&self.long_turns);
        let feed = Feed { filling, stall, places, entities: Vec::new(), bytes: 0, _place: place, turns };
        let work = move || {
            // Without it, it is not slower.
            let _ = rustix::process::nice(NICER);
            snapshot.send(&request, feed);
        };
        // A thread of its own, and not one that others use after it: entities are asked for here and given back where they are sent, and what an
        // allocator keeps for a thread goes with the thread.
        let thread = std::thread::Builder::new().name("read".to_owned()).spawn(work);
        let no_thread = |error| Refusal::new(Code::ResourceExhausted, format!("no thread for the read: {error}"));
        thread.map(|_| answer).map_err(no_thread)
    }

    /// A place for a long answer, and the request, which has nothing else while it waits: who has such places now, clients decide.
    async fn place_for_long(&self, request: ReadRequest, by: Reader) -> Result<(ReadRequest, Place), Refusal> {
        if let Some(place) = self.reads.try_take(&by.who) {
            return Ok((request, place));
        }
        let packed = request.encode_to_vec();
        drop(request);
        if packed.len() > WAITING {
            let (reads, kib) = (self.limits.reads, WAITING >> 10);
            let why = format!(
                "{reads} long answers are being read, and a request of more than {kib} KiB cannot wait; ask for less at once, or again later"
            );
            return Err(Refusal::new(Code::ResourceExhausted, why));
        }
        by.admitted.leave();
        let place = self.reads.take(by.who).await;
        let request = ReadRequest::decode(&packed[..]);
        request.map(|request| (request, place)).map_err(|error| Refusal::new(Code::Internal, error.to_string()))
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
        feed.turns.begin();
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
        self.turns.end();
        let flow = self.filling.push(ReadResponse { entities }, self.patience());
        if flow.is_continue() {
            self.turns.begin();
        }
        flow
    }

    fn finish(mut self, end: Option<Status>) {
        let flow = self.flush();
        self.turns.end();
        if flow.is_continue() {
            let patience = self.patience();
            self.filling.finish(end, patience);
        }
    }

    /// How long the client may take for a part: for long, unless others wait for a place to read.
    fn patience(&self) -> impl Fn() -> Duration + use<> {
        let ([alone, beside_others], places) = (self.stall, self.places.clone());
        move || if places.wanted() { alone.min(beside_others) } else { alone }
    }
}
