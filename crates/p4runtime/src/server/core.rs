//! [`ServerState`]: state that all requests share: clients, the program, the order of writes.

use super::active_pipeline::{ActivePipeline, DigestConfigs};
use super::arbitration::{Arbitration, ArbitrationLimits, ArbitrationMessage, StreamId};
use super::credentials::Credentials;
use super::digests::Digests;
use super::fair_semaphore::FairSemaphore;
use super::limits::{Counters, Limits};
use super::outbox::Outbox;
use super::peer::Peer;
use super::read_bounds;
use super::role::RoleScope;
use super::saved_config::SavedConfig;
use super::state_handle::ServerStateHandle;
use crate::proto::v1::{PacketOut, StreamMessageResponse, Uint128, stream_message_response};
use crate::translate::StringsOf;
use crate::{Code, Device, P4RuntimeError};
use bytes::Bytes;
use entries::ControlState;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tracing::warn;

/// Streams and their arbitration. Both are under one lock, so that messages are queued in the order
/// of the events.
pub struct Clients {
    pub arbitration: Arbitration,
    pub outboxes: BTreeMap<StreamId, Arc<Outbox>>,
}

impl Clients {
    /// Queues arbitration messages. A client that does not read them is removed, which can cause
    /// further messages.
    pub fn queue_messages(&mut self, advice: Vec<ArbitrationMessage>) {
        let mut queue = VecDeque::from(advice);
        while let Some(ArbitrationMessage { stream, message }) = queue.pop_front() {
            let Some(outbox) = self.outboxes.get(&stream) else { continue };
            let update = Some(stream_message_response::Update::Arbitration(message));
            if !outbox.queue_required(StreamMessageResponse { update }) {
                self.outboxes.remove(&stream);
                queue.extend(self.arbitration.remove_stream(stream));
            }
        }
    }
}

/// Guard of the only request that changes the device's state.
pub type WriteGuard = OwnedMutexGuard<()>;

/// Config and state that reads and writes use, at one moment.
pub struct ConfigSnapshot {
    pub program: Arc<ActivePipeline>,
    pub state: ControlState,
    pub digests: DigestConfigs,
    /// Whether this is the saved config that awaits `COMMIT`, not the running one.
    pub awaits_commit: bool,
}

/// State that all requests share.
pub struct ServerState {
    pub device: Arc<dyn Device>,
    pub credentials: Credentials,
    pub limits: Limits,
    pub counters: Arc<Counters>,
    /// Permits for reads with long responses. Their duration depends on their clients.
    pub long_read_permits: Arc<FairSemaphore>,
    /// Permits to produce a part of a long response. Together with `short_turns` they leave
    /// processor time for other work.
    pub long_turns: Arc<Semaphore>,
    pub short_turns: Arc<Semaphore>,
    pub state_handle: ServerStateHandle,
    clients: Mutex<Clients>,
    program: Mutex<Option<Arc<ActivePipeline>>>,
    write_lock: Arc<tokio::sync::Mutex<()>>,
    next_stream: AtomicU64,
}

impl ServerState {
    /// Creates the state for a device, without clients.
    pub fn new(
        device: Arc<dyn Device>,
        held: ServerStateHandle,
        credentials: Credentials,
        limits: Limits,
        counters: Arc<Counters>,
    ) -> ServerState {
        let arbitration_limits = ArbitrationLimits { roles: limits.roles, clients: limits.clients_per_role };
        let arbitration = Arbitration::new(device.id(), arbitration_limits);
        ServerState {
            long_read_permits: FairSemaphore::new(limits.reads),
            long_turns: Arc::new(Semaphore::new(read_bounds::AT_WORK)),
            short_turns: Arc::new(Semaphore::new(read_bounds::AT_WORK)),
            state_handle: held,
            clients: Mutex::new(Clients { arbitration, outboxes: BTreeMap::new() }),
            program: Mutex::default(),
            write_lock: Arc::default(),
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
        self.state_handle.digests()
    }

    /// Returns the running program. If the device was given another one by other means, the digests
    /// are reset.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if there is none.
    pub fn program(&self) -> Result<Arc<ActivePipeline>, P4RuntimeError> {
        let Some(running) = self.device.running() else {
            return Err(P4RuntimeError::new(
                Code::FailedPrecondition,
                "no forwarding pipeline is set; set one with SetForwardingPipelineConfig",
            ));
        };
        let mut program = self.program.lock();
        if let Some(program) = program.as_ref().filter(|p| Arc::ptr_eq(&p.config.pipeline, &running.pipeline)) {
            return Ok(program.clone());
        }
        let active = Arc::new(ActivePipeline::new(running, &*self.device));
        let mut digests = self.digests();
        // On the first call, the digests are those of the previous process or those that the device
        // has stored.
        let mut configs = digests.configs();
        if program.is_none() && configs.is_empty() {
            configs = self.device.digests();
        }
        configs.retain(|id, _| active.has_digest(*id));
        digests.configure(&configs);
        *program = Some(active.clone());
        Ok(active)
    }

    /// Converts a packet from a controller to the device's form.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if no pipeline runs; the errors of [`crate::Schema::packet_out`].
    pub fn packet_out(&self, packet: &PacketOut) -> Result<Bytes, P4RuntimeError> {
        let program = self.program()?;
        let schema = &program.schema;
        let state = if schema.has_strings() { self.device.state() } else { None };
        let Some(state) = state else { return schema.packet_out(packet) };
        let mut packet = packet.clone();
        schema.number_packet(&StringsOf(&state), &mut packet)?;
        schema.packet_out(&packet)
    }

    /// Returns the config that awaits `COMMIT`, if there is one. Reads and writes then use it.
    ///
    /// # Errors
    /// `INTERNAL` if it cannot be used.
    pub fn saved(&self) -> Result<MutexGuard<'_, Option<SavedConfig>>, P4RuntimeError> {
        self.state_handle.saved(&*self.device)
    }

    /// Sets the digests of the running program after a write or a commit.
    ///
    /// # Errors
    /// `UNAVAILABLE`: the device cannot store them, or another process has taken over.
    pub fn set_digests(&self, digests: &DigestConfigs) -> Result<(), P4RuntimeError> {
        self.device.keep_digests(digests)?;
        self.state_handle.configure(digests)
    }

    /// Returns the program, state and digests that reads and writes use, and whether they await
    /// `COMMIT`.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if no pipeline is set.
    pub fn config_snapshot(&self) -> Result<ConfigSnapshot, P4RuntimeError> {
        if let Some(saved) = &*self.saved()? {
            let (program, state) = (saved.program.clone(), saved.state().clone());
            return Ok(ConfigSnapshot { program, state, digests: saved.digests.clone(), awaits_commit: true });
        }
        let gone = || P4RuntimeError::new(Code::FailedPrecondition, "the device runs no pipeline any more; set one");
        let program = self.program()?;
        let state = self.device.state().ok_or_else(gone)?;
        Ok(ConfigSnapshot { program, state, digests: self.digests().configs(), awaits_commit: false })
    }

    /// Waits until all earlier writes have ended, and returns the guard for the next one.
    pub async fn acquire_write_guard(&self) -> WriteGuard {
        self.write_lock.clone().lock_owned().await
    }

    /// Returns the scope of the sender of a write.
    ///
    /// # Errors
    /// Those of [`Arbitration::check_primary`].
    pub fn primary_scope(
        &self,
        device: u64,
        role_id: u64,
        role: &str,
        election: Option<Uint128>,
    ) -> Result<Arc<RoleScope>, P4RuntimeError> {
        let clients = self.clients();
        clients.arbitration.check_device(device)?;
        if role_id != 0 {
            return Err(P4RuntimeError::not_found(format!(
                "role id {role_id}: roles have names since P4Runtime 1.4; set `role`"
            )));
        }
        clients.arbitration.check_primary(device, role, election)
    }

    /// Registers a new stream of a client.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are too many.
    pub fn add_stream(&self, peer: Peer) -> Result<(StreamId, Arc<Outbox>), P4RuntimeError> {
        let mut clients = self.clients();
        if clients.outboxes.len() >= self.limits.streams {
            let why = format!("there are {} streams already; close one that is not needed", self.limits.streams);
            return Err(P4RuntimeError::new(Code::ResourceExhausted, why));
        }
        let id = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let outbox = Outbox::new(self.limits.outbox, peer);
        clients.outboxes.insert(id, outbox.clone());
        Ok((id, outbox))
    }

    /// Removes a stream.
    pub fn remove_stream(&self, stream: StreamId) {
        let mut clients = self.clients();
        clients.outboxes.remove(&stream);
        if let Some(role) = clients.arbitration.role_of_primary(stream) {
            warn!(role, stream, "the primary has left");
        }
        let advice = clients.arbitration.remove_stream(stream);
        clients.queue_messages(advice);
    }

    /// Ends all streams.
    pub fn end_all_streams(&self) {
        for outbox in self.clients().outboxes.values() {
            outbox.end(Some(tonic::Status::unavailable("the server is shutting down; connect again later")));
        }
    }

    /// Counts packets and notifications that no client received.
    pub fn count_lost(&self, messages: u64) {
        self.counters.lost_messages.fetch_add(messages, Ordering::Relaxed);
    }
}
