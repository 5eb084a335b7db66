//! New connections: their number, the time until their first request, and their TLS.
//!
//! Handshakes are done here and not by tonic, so that each one uses the certificates in force at
//! its start.

use super::connection::Connection;
use super::credentials::Credentials;
use super::limits::{Counters, Limits};
use super::peer::Peer;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use tracing::{info, warn};

/// Bytes of HTTP/2's preface and the header of a first frame, which a client must send within the
/// handshake time.
const BEGUN: usize = 24 + 9;

/// Admission of connections, shared by all listeners of a server.
#[derive(Clone)]
pub struct ConnectionLimiter {
    pub permits: Arc<Semaphore>,
    pub limits: Limits,
    /// Becomes true to cut all connections.
    pub closed: watch::Receiver<bool>,
    pub counters: Arc<Counters>,
}

/// Admitted connection.
pub struct AdmittedConnection {
    wire: ConnectionTransport,
    connection: Connection,
    received: usize,
    hurry: Option<Pin<Box<Sleep>>>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: OwnedSemaphorePermit,
}

/// Transport of a connection.
enum ConnectionTransport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ConnectionLimiter {
    /// Returns the connections of a listener, after their handshake if `credentials` are given.
    /// Connections beyond the limit are closed at once.
    pub fn accept_connections(
        self,
        listener: TcpListener,
        credentials: Option<Credentials>,
    ) -> impl tokio_stream::Stream<Item = io::Result<AdmittedConnection>> {
        ConnectionAcceptor { listener, door: self, credentials, handshakes: JoinSet::new(), pause: None }
    }

    fn acquire_permit(&self, peer: &Peer) -> Option<OwnedSemaphorePermit> {
        let place = self.permits.clone().try_acquire_owned().ok();
        if place.is_none() {
            self.counters.refused_connections.fetch_add(1, Ordering::Relaxed);
            warn!(who = %peer, "closed a connection: the limit of connections is reached");
        }
        place
    }

    fn admit_connection(
        self,
        wire: ConnectionTransport,
        peer: Peer,
        place: OwnedSemaphorePermit,
    ) -> AdmittedConnection {
        let mut closed = self.closed;
        AdmittedConnection {
            wire,
            connection: Connection::new(peer, &self.limits),
            received: 0,
            hurry: Some(Box::pin(tokio::time::sleep(self.limits.handshake_time))),
            closed: Box::pin(async move { drop(closed.wait_for(|closed| *closed).await) }),
            _place: place,
        }
    }

    /// Does the TLS handshake and returns the connection with its permit; `None` if it
    /// fails or takes too long.
    async fn perform_handshake(
        self,
        stream: TcpStream,
        peer: Peer,
        permit: OwnedSemaphorePermit,
        credentials: Credentials,
    ) -> Option<AdmittedConnection> {
        let acceptor = credentials.acceptor()?;
        match tokio::time::timeout(self.limits.handshake_time, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let peer = peer.with(stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()));
                Some(self.admit_connection(ConnectionTransport::Tls(Box::new(stream)), peer, permit))
            }
            Ok(Err(error)) => {
                info!(who = %peer, %error, "closed a connection: its TLS handshake failed");
                None
            }
            Err(_) => {
                info!(who = %peer, "closed a connection: its TLS handshake took too long");
                None
            }
        }
    }
}

struct ConnectionAcceptor {
    listener: TcpListener,
    door: ConnectionLimiter,
    credentials: Option<Credentials>,
    handshakes: JoinSet<Option<AdmittedConnection>>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl ConnectionAcceptor {
    /// Admits a connection. Returns it unless it needs a handshake.
    fn accept_stream(&mut self, stream: TcpStream, peer: Peer) -> Option<AdmittedConnection> {
        let place = self.door.acquire_permit(&peer)?;
        // An error only costs latency.
        let _ = stream.set_nodelay(true);
        let door = self.door.clone();
        match self.credentials.clone() {
            None => Some(door.admit_connection(ConnectionTransport::Plain(stream), peer, place)),
            Some(credentials) => {
                self.handshakes.spawn(door.perform_handshake(stream, peer, place, credentials));
                None
            }
        }
    }
}

impl tokio_stream::Stream for ConnectionAcceptor {
    type Item = io::Result<AdmittedConnection>;

    /// Returns the next connection whose handshake is complete, and starts the handshakes of new
    /// ones.
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            while let Poll::Ready(Some(handshake)) = self.handshakes.poll_join_next(context) {
                if let Ok(Some(connection)) = handshake {
                    return Poll::Ready(Some(Ok(connection)));
                }
            }
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match std::task::ready!(self.listener.poll_accept(context)) {
                Ok((stream, address)) => {
                    if let Some(connection) = self.accept_stream(stream, Peer::at(Some(address))) {
                        return Poll::Ready(Some(Ok(connection)));
                    }
                }
                // Most likely the process has no free file descriptors, which become available when
                // other connections close.
                Err(error) => {
                    warn!(%error, "connections cannot be taken; is the limit of open files too low?");
                    self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(50))));
                }
            }
        }
    }
}

impl Connected for AdmittedConnection {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.connection.clone()
    }
}

impl AsyncRead for AdmittedConnection {
    /// Reads from the connection. Fails if the server closes it, or if its first request is late.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if let Some(hurry) = &mut self.hurry
            && hurry.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let old_len = buffer.filled().len();
        let result = self.wire.poll_read(context, buffer);
        if self.hurry.is_some() {
            self.received += buffer.filled().len() - old_len;
            if self.received >= BEGUN {
                self.hurry = None;
            }
        }
        result
    }
}

impl ConnectionTransport {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            ConnectionTransport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            ConnectionTransport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for AdmittedConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            ConnectionTransport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            ConnectionTransport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            ConnectionTransport::Plain(stream) => Pin::new(stream).poll_flush(context),
            ConnectionTransport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            ConnectionTransport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            ConnectionTransport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            ConnectionTransport::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            ConnectionTransport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            ConnectionTransport::Plain(stream) => stream.is_write_vectored(),
            ConnectionTransport::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
