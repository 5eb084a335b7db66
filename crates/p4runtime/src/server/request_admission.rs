//! [`AdmissionLayer`]: admission of incoming requests. A complete message needs one of few permits
//! to be processed, and a large message needs a permit before it is received. Clients that send
//! much, or that never complete a message, therefore take neither memory nor permits from others.
//!
//! A holder of a permit never waits for a client. The response of a `Read` takes as long as its
//! client needs to receive it, so that a `Read` first needs a permit of its connection. If it has
//! to wait later, it returns its permits of this module ([`RequestPermits::release_permits`]).

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

/// Length of a message header in bytes (gRPC over HTTP/2, "Length-Prefixed-Message"): a compression
/// flag and the length in network order.
const HEADER: usize = 5;

/// Path of requests with long responses.
const READ: &str = "/p4.v1.P4Runtime/Read";

/// Layer that admits requests.
#[derive(Clone)]
pub struct AdmissionLayer {
    /// Permits for complete messages.
    requests: Arc<Semaphore>,
    /// Permits for large messages, from their first byte.
    large: Arc<Semaphore>,
    /// Length in bytes beyond which a message is large.
    large_from: usize,
}

impl AdmissionLayer {
    /// Creates the layer with the permits of `limits`.
    pub fn new(limits: &Limits) -> AdmissionLayer {
        let [requests, large] = [limits.requests, limits.large_messages].map(|places| Arc::new(Semaphore::new(places)));
        AdmissionLayer { requests, large, large_from: limits.large_message_bytes }
    }
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = AdmissionService<S>;

    fn layer(&self, inner: S) -> AdmissionService<S> {
        AdmissionService { inner, places: self.clone() }
    }
}

/// Service of the layer [`AdmissionLayer`].
#[derive(Clone)]
pub struct AdmissionService<S> {
    inner: S,
    places: AdmissionLayer,
}

/// Permits of a request until its response.
#[derive(Default)]
struct PermitSet {
    permits: Vec<OwnedSemaphorePermit>,
    /// Permit of the connection's limit of reads, for a read.
    own: Option<OwnedSemaphorePermit>,
    /// Whether the response has started or the request was dropped. A request has no permits from
    /// then on; further messages of a stream can follow.
    answered: bool,
}

/// Permits of a request, stored as its extension.
#[derive(Clone, Default)]
pub struct RequestPermits(Arc<Mutex<PermitSet>>);

impl RequestPermits {
    /// Takes the permit of the connection's limit of reads, which moves to the response.
    pub fn take_connection_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.0.lock().own.take()
    }

    /// Returns the other permits, before the request waits for a client.
    pub fn release_permits(&self) {
        let mut held = self.0.lock();
        held.answered = true;
        held.permits.clear();
    }
}

/// Guard that returns the permits when it is dropped.
struct ReleaseOnResponse(Arc<Mutex<PermitSet>>);

impl Drop for ReleaseOnResponse {
    fn drop(&mut self) {
        *self.0.lock() = PermitSet { answered: true, ..PermitSet::default() };
    }
}

impl<S> Service<Request<tonic::body::Body>> for AdmissionService<S>
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
        let held = Arc::<Mutex<PermitSet>>::default();
        let (places, kept) = (self.places.clone(), held.clone());
        let reads = (request.uri().path() == READ).then(|| Connection::of(request.extensions()).read_permits);
        let mut request = request.map(|body| tonic::body::Body::new(AdmittedBody::new(body, places, reads, held)));
        request.extensions_mut().insert(RequestPermits(kept.clone()));
        let (answer, until) = (self.inner.call(request), ReleaseOnResponse(kept));
        Box::pin(async move {
            let answer = answer.await;
            drop(until);
            answer
        })
    }
}

type PermitFuture = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Progress within a body.
#[derive(Clone, Copy, Default)]
struct BodyProgress {
    header: [u8; HEADER],
    /// Received bytes of the header.
    headed: usize,
    /// Outstanding bytes of the message.
    left: usize,
}

/// Permit that a body needs to continue.
#[derive(Clone, Copy)]
enum NeededPermit {
    Own,
    Large,
    Request,
}

/// Body of a request that waits for its permits.
struct AdmittedBody {
    body: tonic::body::Body,
    places: AdmissionLayer,
    held: Arc<Mutex<PermitSet>>,
    at: BodyProgress,
    /// Permits of its connection, if it is a read that has none of them yet.
    reads: Option<Arc<Semaphore>>,
    large: Option<OwnedSemaphorePermit>,
    /// Bytes that wait for a permit, and the pending permit.
    waiting: Option<(Bytes, NeededPermit, PermitFuture)>,
}

impl AdmittedBody {
    fn new(
        body: tonic::body::Body,
        places: AdmissionLayer,
        reads: Option<Arc<Semaphore>>,
        held: Arc<Mutex<PermitSet>>,
    ) -> AdmittedBody {
        AdmittedBody { body, places, held, at: BodyProgress::default(), reads, large: None, waiting: None }
    }

    /// Parses bytes as gRPC frames (a header with the length, then the message). Returns the permit
    /// that they need first, if it is missing; the bytes are then parsed again from the start.
    fn parse_bytes(&mut self, mut bytes: &[u8]) -> Option<NeededPermit> {
        if self.reads.is_some() {
            return Some(NeededPermit::Own);
        }
        let mut position = self.at;
        let mut last_of_large = false;
        while !bytes.is_empty() {
            if position.headed < HEADER {
                let count = bytes.len().min(HEADER - position.headed);
                position.header[position.headed..position.headed + count].copy_from_slice(&bytes[..count]);
                (position.headed, bytes) = (position.headed + count, &bytes[count..]);
                if position.headed < HEADER {
                    break;
                }
                let [_, length @ ..] = position.header;
                position.left = u32::from_be_bytes(length) as usize;
                if position.left > self.places.large_from && self.large.is_none() {
                    return Some(NeededPermit::Large);
                }
            } else {
                let count = bytes.len().min(position.left);
                (position.left, bytes) = (position.left - count, &bytes[count..]);
            }
            if position.left == 0 {
                let held = self.held.lock();
                if !held.answered && held.permits.is_empty() {
                    return Some(NeededPermit::Request);
                }
                position.headed = 0;
                last_of_large = self.large.is_some();
            }
        }
        self.at = position;
        // A request holds the permit until its response, a stream until its next message is
        // complete.
        if last_of_large {
            let mut held = self.held.lock();
            if !held.answered {
                held.permits.extend(self.large.take());
            }
        }
        None
    }

    fn wait_for_permit(&mut self, bytes: Bytes, needs: NeededPermit) {
        let among = match (needs, &self.reads) {
            (NeededPermit::Own, Some(reads)) => reads,
            (NeededPermit::Large, _) => &self.places.large,
            _ => &self.places.requests,
        };
        self.waiting = Some((bytes, needs, Box::pin(among.clone().acquire_owned())));
    }

    /// Stores a permit, unless the response has started.
    fn store_permit(&mut self, needs: NeededPermit, place: OwnedSemaphorePermit) {
        let mut held = self.held.lock();
        match needs {
            NeededPermit::Own => {
                self.reads = None;
                held.own = Some(place).filter(|_| !held.answered);
            }
            NeededPermit::Large => self.large = Some(place),
            NeededPermit::Request if held.answered => {}
            NeededPermit::Request => held.permits.push(place),
        }
    }
}

impl Body for AdmittedBody {
    type Data = Bytes;
    type Error = Status;

    /// Passes on a frame of the body once all permits that its messages need are there.
    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let bytes = match &mut self.waiting {
                Some((bytes, needed_permit, permit)) => {
                    let permit = std::task::ready!(permit.as_mut().poll(context));
                    let (bytes, needed_permit) = (bytes.clone(), *needed_permit);
                    self.waiting = None;
                    let Ok(permit) = permit else {
                        return Poll::Ready(Some(Err(Status::unavailable("the server is shutting down"))));
                    };
                    self.store_permit(needed_permit, permit);
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
            match self.parse_bytes(&bytes) {
                None => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(needed_permit) => self.wait_for_permit(bytes, needed_permit),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }
}
