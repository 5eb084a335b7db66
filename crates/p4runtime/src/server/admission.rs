//! New connections: how many there may be, how long one may say nothing, and their TLS.
//!
//! Handshakes are done here and not by tonic, so that each uses the certificates that are in force when it begins.

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

/// A client that has sent less than HTTP/2's preface and the header of a first frame has not begun.
const BEGUN: usize = 24 + 9;

/// Who may connect, over all listeners of a server.
#[derive(Clone)]
pub struct Door {
    pub places: Arc<Semaphore>,
    pub limits: Limits,
    /// Set: all connections are cut.
    pub closed: watch::Receiver<bool>,
    pub counters: Arc<Counters>,
}

/// A connection that has a place.
pub struct Guest {
    wire: Wire,
    connection: Connection,
    received: usize,
    hurry: Option<Pin<Box<Sleep>>>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: OwnedSemaphorePermit,
}

/// What bytes come through.
enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Door {
    /// Connections of a listener, after their handshake if there are `credentials`. Those without a place are closed at once.
    pub fn guests(
        self,
        listener: TcpListener,
        credentials: Option<Credentials>,
    ) -> impl tokio_stream::Stream<Item = io::Result<Guest>> {
        Guests { listener, door: self, credentials, handshakes: JoinSet::new(), pause: None }
    }

    fn place(&self, peer: &Peer) -> Option<OwnedSemaphorePermit> {
        let place = self.places.clone().try_acquire_owned().ok();
        if place.is_none() {
            self.counters.refused_connections.fetch_add(1, Ordering::Relaxed);
            warn!(who = %peer, "closed a connection: there are as many as there may be");
        }
        place
    }

    fn guest(self, wire: Wire, peer: Peer, place: OwnedSemaphorePermit) -> Guest {
        let mut closed = self.closed;
        Guest {
            wire,
            connection: Connection::new(peer, &self.limits),
            received: 0,
            hurry: Some(Box::pin(tokio::time::sleep(self.limits.handshake_time))),
            closed: Box::pin(async move { drop(closed.wait_for(|closed| *closed).await) }),
            _place: place,
        }
    }

    /// Does the handshake. Nothing, if it fails.
    async fn shake(
        self,
        stream: TcpStream,
        peer: Peer,
        place: OwnedSemaphorePermit,
        credentials: Credentials,
    ) -> Option<Guest> {
        let acceptor = credentials.acceptor()?;
        match tokio::time::timeout(self.limits.handshake_time, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let peer = peer.with(stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()));
                Some(self.guest(Wire::Tls(Box::new(stream)), peer, place))
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

struct Guests {
    listener: TcpListener,
    door: Door,
    credentials: Option<Credentials>,
    handshakes: JoinSet<Option<Guest>>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Guests {
    /// Takes in a connection. The guest, if it has no handshake to do.
    fn arrived(&mut self, stream: TcpStream, peer: Peer) -> Option<Guest> {
        let place = self.door.place(&peer)?;
        // Slower is not wrong.
        let _ = stream.set_nodelay(true);
        let door = self.door.clone();
        match self.credentials.clone() {
            None => Some(door.guest(Wire::Plain(stream), peer, place)),
            Some(credentials) => {
                self.handshakes.spawn(door.shake(stream, peer, place, credentials));
                None
            }
        }
    }
}

impl tokio_stream::Stream for Guests {
    type Item = io::Result<Guest>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            while let Poll::Ready(Some(done)) = self.handshakes.poll_join_next(context) {
                if let Ok(Some(guest)) = done {
                    return Poll::Ready(Some(Ok(guest)));
                }
            }
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match std::task::ready!(self.listener.poll_accept(context)) {
                Ok((stream, address)) => {
                    if let Some(guest) = self.arrived(stream, Peer::at(Some(address))) {
                        return Poll::Ready(Some(Ok(guest)));
                    }
                }
                // No more files, most likely: they come back when others close theirs.
                Err(error) => {
                    warn!(%error, "connections cannot be taken; is the limit of open files too low?");
                    self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(50))));
                }
            }
        }
    }
}

impl Connected for Guest {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.connection.clone()
    }
}

impl AsyncRead for Guest {
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
        let before = buffer.filled().len();
        let read = self.wire.poll_read(context, buffer);
        if self.hurry.is_some() {
            self.received += buffer.filled().len() - before;
            if self.received >= BEGUN {
                self.hurry = None;
            }
        }
        read
    }
}

impl Wire {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
