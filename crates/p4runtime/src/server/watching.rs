//! [`Watch`]: what a server's owner sees of its clients and their requests; [`Observer`]: who is told of each request.

use super::arbitration::StreamId;
use super::core::Core;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// What a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestKind {
    /// `Write`.
    Write,
    /// `Read`, until the answer begins.
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
    /// All of them.
    pub const ALL: [RequestKind; 6] = [
        RequestKind::Write,
        RequestKind::Read,
        RequestKind::SetPipeline,
        RequestKind::GetPipeline,
        RequestKind::Stream,
        RequestKind::Capabilities,
    ];

    /// As in metrics.
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

/// Is told of requests. It must not wait.
pub trait Observer: Send + Sync {
    /// A request was answered; `refused`: with an error.
    fn answered(&self, kind: RequestKind, time: Duration, refused: bool);
}

/// The one who is told.
#[derive(Clone)]
pub struct Observing(pub Arc<dyn Observer>);

impl std::fmt::Debug for Observing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observing")
    }
}

/// A client whose stream is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address, and the name in its certificate if it has one.
    pub who: String,
    /// Since when.
    pub since: Instant,
    /// Its role, once it has said so; empty: the default role.
    pub role: Option<String>,
    /// Its election id; `None`: it only reads, or has not said.
    pub election: Option<u128>,
    /// Whether it is the primary of its role.
    pub primary: bool,
    /// Messages that wait for it.
    pub waiting: usize,
}

/// Sees the clients of a server, from before it serves until it has ended.
#[derive(Default)]
pub struct Watch {
    core: Mutex<Weak<Core>>,
    places: OnceLock<(Arc<Semaphore>, usize)>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

impl Watch {
    /// The server begins. `places` are free places of `of` connections.
    pub(super) fn begin(&self, core: &Arc<Core>, places: &Arc<Semaphore>, of: usize) {
        *self.core.lock() = Arc::downgrade(core);
        // A second server with the same watch shows its clients, and the first one's connections.
        let _ = self.places.set((places.clone(), of));
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.places.get().map_or(0, |(free, of)| of.saturating_sub(free.available_permits()))
    }

    /// Clients whose streams are open, in the order in which they came.
    pub fn clients(&self) -> Vec<Client> {
        let Some(core) = self.core.lock().upgrade() else { return Vec::new() };
        let clients = core.clients();
        let one = |(id, outbox): (&StreamId, &Arc<super::outbox::Outbox>)| {
            let (role, election, primary) = match clients.arbitration.standing(*id) {
                Some((role, election, primary)) => (Some(role.to_owned()), election, primary),
                None => (None, None, false),
            };
            let (peer, since) = outbox.origin();
            Client { who: peer.to_string(), since: *since, role, election, primary, waiting: outbox.waiting() }
        };
        clients.outboxes.iter().map(one).collect()
    }
}
