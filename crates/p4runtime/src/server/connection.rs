//! [`Connection`]: what the requests of one connection share, so that who makes many of them takes room from nobody but itself.

use super::limits::Limits;
use super::peer::Peer;
use super::unsent::Unsent;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::Extensions;

/// A connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub peer: Peer,
    /// Bytes of answers that its client has not taken in.
    pub unsent: Arc<Unsent>,
    /// Places for its `Read`s.
    pub reads: Arc<Semaphore>,
}

impl Connection {
    /// With nothing on its way.
    pub fn new(peer: Peer, limits: &Limits) -> Connection {
        let reads = Arc::new(Semaphore::new(limits.reads_per_connection));
        Connection { peer, unsent: Unsent::new(limits.unsent_bytes), reads }
    }

    /// The one that a request came by; without one (which no request is) it has one of its own.
    pub fn of(extensions: &Extensions) -> Connection {
        extensions.get::<Connection>().cloned().unwrap_or_else(|| Connection::new(Peer::default(), &Limits::default()))
    }
}
