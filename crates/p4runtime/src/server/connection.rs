//! [`Connection`]: state that the requests of one connection share. Its limits ensure that a
//! connection with a large number of requests takes no capacity from others.

use super::limits::Limits;
use super::peer::Peer;
use super::send_backlog::SendBacklog;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::Extensions;

/// State shared by the requests of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub peer: Peer,
    /// Response bytes that the client has not received yet.
    pub send_backlog: Arc<SendBacklog>,
    /// Permits for `Read`s.
    pub read_permits: Arc<Semaphore>,
}

impl Connection {
    /// Creates the state of a new connection.
    pub fn new(peer: Peer, limits: &Limits) -> Connection {
        let reads = Arc::new(Semaphore::new(limits.reads_per_connection));
        Connection { peer, send_backlog: SendBacklog::new(limits.unsent_bytes), read_permits: reads }
    }

    /// Returns the connection of a request; a new one if there is none, which does not happen.
    pub fn of(extensions: &Extensions) -> Connection {
        extensions.get::<Connection>().cloned().unwrap_or_else(|| Connection::new(Peer::default(), &Limits::default()))
    }
}
