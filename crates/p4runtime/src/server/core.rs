//! [`Core`]: what all requests share: clients, the program, the order of writes.

use super::arbitration::{Advice, Arbitration, Bounds, StreamId};
use super::credentials::Credentials;
use super::digests::Digests;
use super::held::Held;
use super::limits::{Counters, Limits};
use super::outbox::Outbox;
use super::peer::Peer;
use super::places::Places;
use super::program::{DigestConfigs, Program};
use super::read_bounds;
use super::role::Scope;
use super::saved::Saved;
use crate::proto::v1::{PacketOut, StreamMessageResponse, Uint128, stream_message_response};
use crate::translate::StringsOf;
use crate::{Code, Device, Refusal};
use bytes::Bytes;
use entries::State;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tracing::warn;

/// Streams, and which of them are primary. Under one lock, so that messages are queued in the order of what they tell.
pub struct Clients {
    pub arbitration: Arbitration,
    pub outboxes: BTreeMap<StreamId, Arc<Outbox>>,
}

impl Clients {
    /// Queues advice. A client that doesn't read it is no client any more, which is news for others.
    pub fn tell(&mut self, advice: Vec<Advice>) {
        let mut queue = VecDeque::from(advice);
        while let Some(Advice { stream, message }) = queue.pop_front() {
            let Some(outbox) = self.outboxes.get(&stream) else { continue };
            let update = Some(stream_message_response::Update::Arbitration(message));
            if !outbox.insist(StreamMessageResponse { update }) {
                self.outboxes.remove(&stream);
                queue.extend(self.arbitration.leave(stream));
            }
        }
    }
}

/// Who holds it is the only one that changes what the device runs.
pub type WriteTurn = OwnedMutexGuard<()>;

/// What reads and writes are of, at one moment.
pub struct Target {
    pub program: Arc<Program>,
    pub state: State,
    pub digests: DigestConfigs,
    /// It is not what runs, but waits for `COMMIT`.
    pub waits: bool,
}

/// What all requests share.
pub struct Core {
    pub device: Arc<dyn Device>,
    pub credentials: Credentials,
    pub limits: Limits,
    pub counters: Arc<Counters>,
    /// Places for reads with long answers, which depend on how fast their clients read.
    pub reads: Arc<Places>,
    /// Turns to make a part of a long answer, and to make a short one: the processor is there for others, too.
    pub long_turns: Arc<Semaphore>,
    pub short_turns: Arc<Semaphore>,
    pub held: Held,
    clients: Mutex<Clients>,
    program: Mutex<Option<Arc<Program>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
    next_stream: AtomicU64,
}

impl Core {
    /// For a device, without clients.
    pub fn new(
        device: Arc<dyn Device>,
        held: Held,
        credentials: Credentials,
        limits: Limits,
        counters: Arc<Counters>,
    ) -> Core {
        let bounds = Bounds { roles: limits.roles, clients: limits.clients_per_role };
        let arbitration = Arbitration::new(device.id(), bounds);
        Core {
            reads: Places::new(limits.reads),
            long_turns: Arc::new(Semaphore::new(read_bounds::AT_WORK)),
            short_turns: Arc::new(Semaphore::new(read_bounds::AT_WORK)),
            held,
            clients: Mutex::new(Clients { arbitration, outboxes: BTreeMap::new() }),
            program: Mutex::default(),
            turn: Arc::default(),
            next_stream: AtomicU64::new(1),
            counters,
            device,
            credentials,
            limits,
        }
    }

    pub fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock()
    }

    pub fn digests(&self) -> MutexGuard<'_, Digests> {
        self.held.digests()
    }

    /// The program that runs. If the device was given another one by other means, digests start anew.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if there is none.
    pub fn program(&self) -> Result<Arc<Program>, Refusal> {
        let Some(running) = self.device.running() else {
            return Err(Refusal::new(
                Code::FailedPrecondition,
                "no forwarding pipeline is set; set one with SetForwardingPipelineConfig",
            ));
        };
        let mut program = self.program.lock();
        if let Some(program) = program.as_ref().filter(|p| Arc::ptr_eq(&p.forwarding.pipeline, &running.pipeline)) {
            return Ok(program.clone());
        }
        let new = Arc::new(Program::new(running, &*self.device));
        let mut digests = self.digests();
        // The first time they are those of the process before, which it has handed on, or the device has kept.
        let mut configs = digests.configs();
        if program.is_none() && configs.is_empty() {
            configs = self.device.digests();
        }
        configs.retain(|id, _| new.has_digest(*id));
        digests.configure(&configs);
        *program = Some(new.clone());
        Ok(new)
    }

    /// A packet from a controller, as the device takes it.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if nothing runs; what [`crate::Schema::packet_out`] refuses.
    pub fn packet_out(&self, packet: &PacketOut) -> Result<Bytes, Refusal> {
        let program = self.program()?;
        let schema = &program.schema;
        let state = if schema.has_strings() { self.device.state() } else { None };
        let Some(state) = state else { return schema.packet_out(packet) };
        let mut packet = packet.clone();
        schema.number_packet(&StringsOf(&state), &mut packet)?;
        schema.packet_out(&packet)
    }

    /// The config that waits for `COMMIT`, if one does: reads and writes are of it.
    ///
    /// # Errors
    /// `INTERNAL` if it can't be used.
    pub fn saved(&self) -> Result<MutexGuard<'_, Option<Saved>>, Refusal> {
        self.held.saved(&*self.device)
    }

    /// Digests of what runs, as a write or a commit left them.
    ///
    /// # Errors
    /// `UNAVAILABLE`: the device cannot keep them, or another process has them already.
    pub fn configure(&self, digests: &DigestConfigs) -> Result<(), Refusal> {
        self.device.keep_digests(digests)?;
        self.held.configure(digests)
    }

    /// What reads and writes are of: program, state, digests, and whether it waits for `COMMIT`.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if no pipeline is set.
    pub fn target(&self) -> Result<Target, Refusal> {
        if let Some(saved) = &*self.saved()? {
            let (program, state) = (saved.program.clone(), saved.state().clone());
            return Ok(Target { program, state, digests: saved.digests.clone(), waits: true });
        }
        let gone = || Refusal::new(Code::FailedPrecondition, "the device runs no pipeline any more; set one");
        let program = self.program()?;
        let state = self.device.state().ok_or_else(gone)?;
        Ok(Target { program, state, digests: self.digests().configs(), waits: false })
    }

    /// Waits for all writes before to have ended.
    pub async fn turn(&self) -> WriteTurn {
        self.turn.clone().lock_owned().await
    }

    /// What the sender of a write may do.
    ///
    /// # Errors
    /// As [`Arbitration::check`].
    pub fn primary(
        &self,
        device: u64,
        role_id: u64,
        role: &str,
        election: Option<Uint128>,
    ) -> Result<Arc<Scope>, Refusal> {
        let clients = self.clients();
        clients.arbitration.check_device(device)?;
        if role_id != 0 {
            return Err(Refusal::not_found(format!(
                "role id {role_id}: roles have names since P4Runtime 1.4; set `role`"
            )));
        }
        clients.arbitration.check(device, role, election)
    }

    /// Takes in a new stream of a client.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are too many.
    pub fn enter(&self, peer: Peer) -> Result<(StreamId, Arc<Outbox>), Refusal> {
        let mut clients = self.clients();
        if clients.outboxes.len() >= self.limits.streams {
            let why = format!("there are {} streams already; close one that is not needed", self.limits.streams);
            return Err(Refusal::new(Code::ResourceExhausted, why));
        }
        let id = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let outbox = Outbox::new(self.limits.outbox, peer);
        clients.outboxes.insert(id, outbox.clone());
        Ok((id, outbox))
    }

    /// A stream has ended, or is to end.
    pub fn leave(&self, stream: StreamId) {
        let mut clients = self.clients();
        clients.outboxes.remove(&stream);
        if let Some(role) = clients.arbitration.role_of_primary(stream) {
            warn!(role, stream, "the primary has left");
        }
        let advice = clients.arbitration.leave(stream);
        clients.tell(advice);
    }

    /// Ends all streams.
    pub fn end(&self) {
        for outbox in self.clients().outboxes.values() {
            outbox.end(Some(tonic::Status::unavailable("the server ends; connect again later")));
        }
    }

    /// Counts packets and notifications that no client got.
    pub fn count_lost(&self, messages: u64) {
        self.counters.lost_messages.fetch_add(messages, Ordering::Relaxed);
    }
}
