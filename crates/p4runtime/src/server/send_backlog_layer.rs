//! [`SendBacklogLayer`]: layer around a service that adds its responses to the send backlog of
//! their connections and delays them.

use super::connection::Connection;
use super::send_backlog::SendBacklog;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

/// Layer that adds the responses of a service to the send backlog of their connections.
#[derive(Clone, Copy)]
pub struct SendBacklogLayer;

impl<S> Layer<S> for SendBacklogLayer {
    type Service = SendBacklogService<S>;

    fn layer(&self, inner: S) -> SendBacklogService<S> {
        SendBacklogService { inner }
    }
}

/// Service of the layer [`SendBacklogLayer`].
#[derive(Clone)]
pub struct SendBacklogService<S> {
    inner: S,
}

impl<S, I, O> Service<Request<I>> for SendBacklogService<S>
where
    S: Service<Request<I>, Response = Response<O>>,
    S::Future: Send + 'static,
    O: Body<Data = Bytes> + Send + Unpin + 'static,
{
    type Response = Response<SendBacklogBody<O>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let unsent = Connection::of(request.extensions()).send_backlog;
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map(|answer| answer.map(|body| SendBacklogBody { body, unsent })) })
    }
}

/// Response body that waits while the send backlog of its connection is full.
pub struct SendBacklogBody<B> {
    body: B,
    unsent: Arc<SendBacklog>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for SendBacklogBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::ready!(self.unsent.poll_room(context));
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| self.unsent.counted(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    struct Endless;

    impl Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; 40])))))
        }
    }

    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn streams_of_a_connection_wait_for_each_other() {
        let unsent = SendBacklog::new(100);
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let (waker, mut kept) = (Waker::from(woken.clone()), Vec::new());
        let mut streams = [(); 3].map(|()| SendBacklogBody { body: Endless, unsent: unsent.clone() });
        let mut poll = |at: usize| {
            let polled = Pin::new(&mut streams[at]).poll_frame(&mut Context::from_waker(&waker));
            match polled {
                Poll::Ready(frame) => Some(frame.unwrap().unwrap().into_data().unwrap()),
                Poll::Pending => None,
            }
        };
        kept.extend([0, 1, 1].map(|at| poll(at).expect("there is room")));
        assert_eq!(unsent.bytes(), 120, "one more than there may be");
        assert!(poll(0).is_none() && poll(2).is_none() && poll(2).is_none());
        let part = kept[0].split_off(10);
        drop(kept.remove(0));
        assert_eq!((unsent.bytes(), woken.0.load(Ordering::Relaxed)), (120, 0), "a part of it is still there");
        drop(part);
        assert_eq!((unsent.bytes(), woken.0.load(Ordering::Relaxed)), (80, 1));
        assert!(poll(2).is_some_and(|bytes| bytes.len() == 40));
        drop(kept);
        assert_eq!(unsent.bytes(), 0);
    }
}
