//! [`Receiving`]: requests on their way in. A message that has come in as a whole needs one of few places to be worked on, and a large one needs a
//! place before it is taken in: so that clients that send much, or that begin and never end, take neither memory nor places from others.
//!
//! Who has a place waits for nothing that a client decides. So a `Read`, whose answer takes as long as its client takes to read it, needs a place among
//! those of its connection first; and where it has to wait after that, it gives back what it has from here ([`Admitted::leave`]).

use super::connection::Connection;
use super::limits::Limits;
use bytes::Bytes;
use http_body::{Body, Frame};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::codegen::http::Request;
use tower::{Layer, Service};

/// A message's header (gRPC over HTTP/2, "Length-Prefixed-Message"): whether it is compressed, and its length, in network order.
const HEADER: usize = 5;

/// The path of requests whose answers last.
const READ: &str = "/p4.v1.P4Runtime/Read";

/// Gives requests their places.
#[derive(Clone)]
pub struct Receiving {
    /// For messages that are all there.
    requests: Arc<Semaphore>,
    /// For large ones, from their first byte on.
    large: Arc<Semaphore>,
    /// Messages of more bytes are large.
    large_from: usize,
}

impl Receiving {
    /// As many as there may be.
    pub fn new(limits: &Limits) -> Receiving {
        let [requests, large] = [limits.requests, limits.large_messages].map(|places| Arc::new(Semaphore::new(places)));
        Receiving { requests, large, large_from: limits.large_message_bytes }
    }
}

impl<S> Layer<S> for Receiving {
    type Service = Taking<S>;

    fn layer(&self, inner: S) -> Taking<S> {
        Taking { inner, places: self.clone() }
    }
}

/// The service.
#[derive(Clone)]
pub struct Taking<S> {
    inner: S,
    places: Receiving,
}

/// Places of a request until it is answered.
#[derive(Default)]
struct Held {
    permits: Vec<OwnedSemaphorePermit>,
    /// Of a read, that among the reads of its connection.
    own: Option<OwnedSemaphorePermit>,
    /// From when its answer begins (or nobody waits for it) a request has no places; of a stream, messages come after that.
    answered: bool,
}

/// The places of the request whose extension it is.
#[derive(Clone, Default)]
pub struct Admitted(Arc<Mutex<Held>>);

impl Admitted {
    /// That among the reads of its connection; it goes with the answer.
    pub fn own(&self) -> Option<OwnedSemaphorePermit> {
        self.0.lock().own.take()
    }

    /// Gives the others back: the request is going to wait for a client.
    pub fn leave(&self) {
        let mut held = self.0.lock();
        held.answered = true;
        held.permits.clear();
    }
}

/// Gives the places back when it is dropped.
struct UntilAnswered(Arc<Mutex<Held>>);

impl Drop for UntilAnswered {
    fn drop(&mut self) {
        *self.0.lock() = Held { answered: true, ..Held::default() };
    }
}

impl<S> Service<Request<tonic::body::Body>> for Taking<S>
where
    S: Service<Request<tonic::body::Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let held = Arc::<Mutex<Held>>::default();
        let (places, kept) = (self.places.clone(), held.clone());
        let reads = (request.uri().path() == READ).then(|| Connection::of(request.extensions()).reads);
        let mut request = request.map(|body| tonic::body::Body::new(Received::new(body, places, reads, held)));
        request.extensions_mut().insert(Admitted(kept.clone()));
        let (answer, until) = (self.inner.call(request), UntilAnswered(kept));
        Box::pin(async move {
            let answer = answer.await;
            drop(until);
            answer
        })
    }
}

type Place = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// How far a body is.
#[derive(Clone, Copy, Default)]
struct At {
    header: [u8; HEADER],
    /// Bytes of it that are there.
    headed: usize,
    /// Bytes of the message that are not.
    left: usize,
}

/// What can't go on before it has a place.
#[derive(Clone, Copy)]
enum Needs {
    Own,
    Large,
    Request,
}

/// The body of a request.
struct Received {
    body: tonic::body::Body,
    places: Receiving,
    held: Arc<Mutex<Held>>,
    at: At,
    /// Those of its connection, if it is a read that has none of them yet.
    reads: Option<Arc<Semaphore>>,
    large: Option<OwnedSemaphorePermit>,
    /// Bytes that wait for a place, and the place.
    waiting: Option<(Bytes, Needs, Place)>,
}

impl Received {
    fn new(
        body: tonic::body::Body,
        places: Receiving,
        reads: Option<Arc<Semaphore>>,
        held: Arc<Mutex<Held>>,
    ) -> Received {
        Received { body, places, held, at: At::default(), reads, large: None, waiting: None }
    }

    /// Goes over bytes. What they need first, if that is not there.
    fn pass(&mut self, mut bytes: &[u8]) -> Option<Needs> {
        if self.reads.is_some() {
            return Some(Needs::Own);
        }
        let mut at = self.at;
        let mut last_of_large = false;
        while !bytes.is_empty() {
            if at.headed < HEADER {
                let count = bytes.len().min(HEADER - at.headed);
                at.header[at.headed..at.headed + count].copy_from_slice(&bytes[..count]);
                (at.headed, bytes) = (at.headed + count, &bytes[count..]);
                if at.headed < HEADER {
                    break;
                }
                let [_, length @ ..] = at.header;
                at.left = u32::from_be_bytes(length) as usize;
                if at.left > self.places.large_from && self.large.is_none() {
                    return Some(Needs::Large);
                }
            } else {
                let count = bytes.len().min(at.left);
                (at.left, bytes) = (at.left - count, &bytes[count..]);
            }
            if at.left == 0 {
                let held = self.held.lock();
                if !held.answered && held.permits.is_empty() {
                    return Some(Needs::Request);
                }
                at.headed = 0;
                last_of_large = self.large.is_some();
            }
        }
        self.at = at;
        // A request has it until it is answered, a stream until its next message has come in.
        if last_of_large {
            let mut held = self.held.lock();
            if !held.answered {
                held.permits.extend(self.large.take());
            }
        }
        None
    }

    fn wait(&mut self, bytes: Bytes, needs: Needs) {
        let among = match (needs, &self.reads) {
            (Needs::Own, Some(reads)) => reads,
            (Needs::Large, _) => &self.places.large,
            _ => &self.places.requests,
        };
        self.waiting = Some((bytes, needs, Box::pin(among.clone().acquire_owned())));
    }

    /// Has a place. After the answer nothing keeps one.
    fn keep(&mut self, needs: Needs, place: OwnedSemaphorePermit) {
        let mut held = self.held.lock();
        match needs {
            Needs::Own => {
                self.reads = None;
                held.own = Some(place).filter(|_| !held.answered);
            }
            Needs::Large => self.large = Some(place),
            Needs::Request if held.answered => {}
            Needs::Request => held.permits.push(place),
        }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let bytes = match &mut self.waiting {
                Some((bytes, needs, place)) => {
                    let place = std::task::ready!(place.as_mut().poll(context));
                    let (bytes, needs) = (bytes.clone(), *needs);
                    self.waiting = None;
                    let Ok(place) = place else {
                        return Poll::Ready(Some(Err(Status::unavailable("the server ends"))));
                    };
                    self.keep(needs, place);
                    bytes
                }
                None => match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(bytes) => bytes,
                        Err(frame) => return Poll::Ready(Some(Ok(frame))),
                    },
                    other => return Poll::Ready(other),
                },
            };
            match self.pass(&bytes) {
                None => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(needs) => self.wait(bytes, needs),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }
}
