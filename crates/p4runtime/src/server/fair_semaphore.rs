//! [`FairSemaphore`]: semaphore with a fair share for each client. The waiting client with the
//! fewest permits gets the next one, so that a client with a hundred requests waits for its own.

use super::access::TokenHash;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Identity of a client for fair sharing. The strongest known one is used, because a name costs a
/// certificate but another address costs little.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientKey {
    /// Name in its certificate.
    Name(String),
    /// Its listed token.
    Token(TokenHash),
    /// Its address, with any port.
    Address(IpAddr),
    /// Unknown.
    #[default]
    Unknown,
}

/// Semaphore with a fair share for each client.
#[derive(Debug)]
pub struct FairSemaphore {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    free: usize,
    /// Number of permits of each client.
    held: BTreeMap<ClientKey, usize>,
    /// Waiting requests in order of arrival. Some can be cancelled.
    waiting: VecDeque<(ClientKey, oneshot::Sender<FairPermit>)>,
}

/// Permit, returned on drop.
#[derive(Debug)]
pub struct FairPermit {
    semaphore: Arc<FairSemaphore>,
    client: ClientKey,
}

impl FairSemaphore {
    /// Creates a semaphore with `count` permits.
    pub fn new(count: usize) -> Arc<FairSemaphore> {
        Arc::new(FairSemaphore {
            inner: Mutex::new(Inner { free: count, held: BTreeMap::new(), waiting: VecDeque::new() }),
        })
    }

    /// Returns a permit if one is free.
    pub fn try_acquire(self: &Arc<Self>, client: &ClientKey) -> Option<FairPermit> {
        self.inner.lock().take_permit(client).then(|| FairPermit { semaphore: self.clone(), client: client.clone() })
    }

    /// Waits for a permit. Dropping the future cancels the request.
    pub async fn acquire(self: &Arc<Self>, client: ClientKey) -> FairPermit {
        let (sender, receiver) = oneshot::channel();
        self.inner.lock().waiting.push_back((client.clone(), sender));
        self.serve_waiters();
        match receiver.await {
            Ok(place) => place,
            // Unreachable, because only this future removes its request.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns whether a request waits.
    pub fn has_waiters(&self) -> bool {
        self.inner.lock().waiting.iter().any(|(_, sender)| !sender.is_closed())
    }

    fn serve_waiters(self: &Arc<Self>) {
        loop {
            let next = self.inner.lock().next();
            let Some((client, sender)) = next else { return };
            // If the request was cancelled meanwhile, this returns the permit.
            let _ = sender.send(FairPermit { semaphore: self.clone(), client });
        }
    }
}

impl Inner {
    /// Takes a permit for the first request of the client with the fewest permits.
    fn next(&mut self) -> Option<(ClientKey, oneshot::Sender<FairPermit>)> {
        if self.free == 0 {
            return None;
        }
        self.waiting.retain(|(_, sender)| !sender.is_closed());
        let has = |index: &usize| self.waiting.get(*index).and_then(|(client, _)| self.held.get(client)).copied();
        let first = (0..self.waiting.len()).min_by_key(|index| has(index).unwrap_or(0))?;
        let next = self.waiting.remove(first)?;
        self.take_permit(&next.0).then_some(next)
    }

    fn take_permit(&mut self, client: &ClientKey) -> bool {
        let free = self.free > 0;
        if free {
            self.free -= 1;
            *self.held.entry(client.clone()).or_default() += 1;
        }
        free
    }

    fn release_permit(&mut self, client: &ClientKey) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(client) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(client);
            }
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        self.semaphore.inner.lock().release_permit(&self.client);
        self.semaphore.serve_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn who(name: &str) -> ClientKey {
        ClientKey::Name(name.to_owned())
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_has_fewest_is_next() {
        let places = FairSemaphore::new(2);
        let mut greedy: Vec<_> = (0..5).map(|_| Box::pin(places.acquire(who("greedy")))).collect();
        let mut had: Vec<FairPermit> = greedy.iter_mut().filter_map(|future| poll(future.as_mut())).collect();
        assert_eq!(had.len(), 2, "nobody else wants them");
        let mut modest = pin!(places.acquire(who("modest")));
        assert!(poll(modest.as_mut()).is_none() && places.has_waiters());
        drop(had.pop());
        let place = poll(modest.as_mut()).expect("before those who came before it");
        assert!(greedy[2..].iter_mut().all(|future| poll(future.as_mut()).is_none()));
        drop(place);
        had.extend(poll(greedy[2].as_mut()));
        assert_eq!(had.len(), 2, "in the order of asking");
    }

    #[test]
    fn who_goes_gets_none_and_keeps_none() {
        let places = FairSemaphore::new(1);
        let place = poll(pin!(places.acquire(who("a")))).expect("it is free");
        let (mut gone, mut next) = (Box::pin(places.acquire(who("b"))), pin!(places.acquire(who("c"))));
        assert!(poll(gone.as_mut()).is_none() && poll(next.as_mut()).is_none());
        drop(gone);
        drop(place);
        let place = poll(next.as_mut()).expect("the one before it has gone");
        // The permit is sent to the request and never received.
        let mut late = Box::pin(places.acquire(who("d")));
        assert!(poll(late.as_mut()).is_none());
        drop(place);
        drop(late);
        assert!(!places.has_waiters());
        assert!(poll(pin!(places.acquire(who("e")))).is_some(), "it is free again");
        assert!(places.inner.lock().held.is_empty() && places.inner.lock().free == 1);
    }
}
