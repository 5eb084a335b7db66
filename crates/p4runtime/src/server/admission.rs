//! New connections: how many there may be, and how long one may say nothing.

use super::limits::Counters;
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
use tokio::time::Sleep;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// A client that has sent less than HTTP/2's preface and the header of a first frame has not begun.
const BEGUN: usize = 24 + 9;

/// Who may connect, over all listeners of a server.
#[derive(Clone)]
pub struct Door {
    pub places: Arc<Semaphore>,
    pub handshake: Duration,
    /// Set: all connections are cut.
    pub closed: watch::Receiver<bool>,
    pub counters: Arc<Counters>,
}

/// A connection that has a place.
pub struct Guest {
    stream: TcpStream,
    received: usize,
    hurry: Option<Pin<Box<Sleep>>>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: OwnedSemaphorePermit,
}

impl Door {
    /// Connections of a listener. Those without a place are closed at once.
    pub fn guests(self, listener: TcpListener) -> impl tokio_stream::Stream<Item = io::Result<Guest>> {
        Guests { listener, door: self, pause: None }
    }

    fn admit(&self, stream: TcpStream) -> Option<Guest> {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.counters.refused_connections.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // Slower is not wrong.
        let _ = stream.set_nodelay(true);
        let mut closed = self.closed.clone();
        Some(Guest {
            stream,
            received: 0,
            hurry: Some(Box::pin(tokio::time::sleep(self.handshake))),
            closed: Box::pin(async move { drop(closed.wait_for(|closed| *closed).await) }),
            _place: place,
        })
    }
}

struct Guests {
    listener: TcpListener,
    door: Door,
    pause: Option<Pin<Box<Sleep>>>,
}

impl tokio_stream::Stream for Guests {
    type Item = io::Result<Guest>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match std::task::ready!(self.listener.poll_accept(context)) {
                Ok((stream, _)) => {
                    if let Some(guest) = self.door.admit(stream) {
                        return Poll::Ready(Some(Ok(guest)));
                    }
                }
                // No more files, most likely: they come back when others close theirs.
                Err(_) => self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(50)))),
            }
        }
    }
}

impl Connected for Guest {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
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
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.hurry.is_some() {
            self.received += buffer.filled().len() - before;
            if self.received >= BEGUN {
                self.hurry = None;
            }
        }
        read
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
