//! [`ServerMonitor`]: view of a server's clients for its owner; [`Observer`]: callback for each
//! request.

use super::arbitration::StreamId;
use super::core::ServerState;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestKind {
    /// `Write`.
    Write,
    /// `Read`, until the response starts.
    Read,
    /// `SetForwardingPipelineConfig`.
    SetPipeline,
    /// `GetForwardingPipelineConfig`.
    GetPipeline,
    /// `StreamChannel`, until it is open.
    Stream,
    /// `Capabilities`.
    Capabilities,
}

impl RequestKind {
    /// All types.
    pub const ALL: [RequestKind; 6] = [
        RequestKind::Write,
        RequestKind::Read,
        RequestKind::SetPipeline,
        RequestKind::GetPipeline,
        RequestKind::Stream,
        RequestKind::Capabilities,
    ];

    /// Returns the name used in metrics.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Write => "write",
            RequestKind::Read => "read",
            RequestKind::SetPipeline => "set_pipeline",
            RequestKind::GetPipeline => "get_pipeline",
            RequestKind::Stream => "stream",
            RequestKind::Capabilities => "capabilities",
        }
    }
}

/// Callback for requests. It must not block.
pub trait Observer: Send + Sync {
    /// Called when a request was answered; `refused`: with an error.
    fn answered(&self, kind: RequestKind, time: Duration, refused: bool);
}

/// Handle of an observer.
#[derive(Clone)]
pub struct ObserverHandle(pub Arc<dyn Observer>);

impl std::fmt::Debug for ObserverHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observing")
    }
}

/// Client with an open stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedClient {
    /// Its address, and the name in its certificate if it has one.
    pub client_name: String,
    /// Time of its connection.
    pub connected_at: Instant,
    /// Its role, after its first arbitration update; empty: the default role.
    pub role: Option<String>,
    /// Its election id; `None`: it only reads, or has not sent one.
    pub election: Option<u128>,
    /// Whether it is the primary of its role.
    pub is_primary: bool,
    /// Number of messages queued for it.
    pub queued_messages: usize,
}

/// View of the clients of a server, from before it serves until it has ended.
#[derive(Default)]
pub struct ServerMonitor {
    core: Mutex<Weak<ServerState>>,
    places: OnceLock<(Arc<Semaphore>, usize)>,
}

impl std::fmt::Debug for ServerMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

impl ServerMonitor {
    /// Attaches the view to a server. `places` are the free permits of `of` connections.
    pub(super) fn attach(&self, core: &Arc<ServerState>, places: &Arc<Semaphore>, of: usize) {
        *self.core.lock() = Arc::downgrade(core);
        // A second server with the same view shows its own clients, but the connections of the
        // first server.
        let _ = self.places.set((places.clone(), of));
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.places.get().map_or(0, |(free, of)| of.saturating_sub(free.available_permits()))
    }

    /// Returns the clients with open streams, in the order of their connection.
    pub fn clients(&self) -> Vec<ConnectedClient> {
        let Some(core) = self.core.lock().upgrade() else { return Vec::new() };
        let clients = core.clients();
        let connected_client = |(id, outbox): (&StreamId, &Arc<super::outbox::Outbox>)| {
            let (role, election, primary) = match clients.arbitration.stream_status(*id) {
                Some((role, election, primary)) => (Some(role.to_owned()), election, primary),
                None => (None, None, false),
            };
            let (peer, since) = outbox.origin();
            ConnectedClient {
                client_name: peer.to_string(),
                connected_at: *since,
                role,
                election,
                is_primary: primary,
                queued_messages: outbox.waiting(),
            }
        };
        clients.outboxes.iter().map(connected_client).collect()
    }
}
