//! [`Places`]: so many at a time, shared out between those who ask. Whoever has the fewest gets the next one: who asks a hundred times waits for itself.

use super::access::TokenHash;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Whom things are shared out between. The surest that is known of a client: a name costs a certificate, another address costs little.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// The name in its certificate.
    Name(String),
    /// Its token, one of those that are listed.
    Token(TokenHash),
    /// Its address, from whichever port.
    Address(IpAddr),
    /// Nothing is known.
    #[default]
    Unknown,
}

/// Places.
#[derive(Debug)]
pub struct Places {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    free: usize,
    /// Who has some, and how many.
    held: BTreeMap<Identity, usize>,
    /// Who wants one, in the order of asking. Some may have gone.
    waiting: VecDeque<(Identity, oneshot::Sender<Place>)>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    among: Arc<Places>,
    whose: Identity,
}

impl Places {
    /// So many.
    pub fn new(count: usize) -> Arc<Places> {
        Arc::new(Places { inner: Mutex::new(Inner { free: count, held: BTreeMap::new(), waiting: VecDeque::new() }) })
    }

    /// A place, if one is free.
    pub fn try_take(self: &Arc<Self>, whose: &Identity) -> Option<Place> {
        self.inner.lock().take(whose).then(|| Place { among: self.clone(), whose: whose.clone() })
    }

    /// Waits for a place; not any more, when the future is dropped.
    pub async fn take(self: &Arc<Self>, whose: Identity) -> Place {
        let (sender, receiver) = oneshot::channel();
        self.inner.lock().waiting.push_back((whose.clone(), sender));
        self.give_out();
        match receiver.await {
            Ok(place) => place,
            // Only who waits takes itself off the list.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether somebody waits.
    pub fn wanted(&self) -> bool {
        self.inner.lock().waiting.iter().any(|(_, sender)| !sender.is_closed())
    }

    fn give_out(self: &Arc<Self>) {
        loop {
            let next = self.inner.lock().next();
            let Some((whose, sender)) = next else { return };
            // Who has gone meanwhile gives it back by this.
            let _ = sender.send(Place { among: self.clone(), whose });
        }
    }
}

impl Inner {
    /// Gives a place, if there is one, to the first of those with the fewest.
    fn next(&mut self) -> Option<(Identity, oneshot::Sender<Place>)> {
        if self.free == 0 {
            return None;
        }
        self.waiting.retain(|(_, sender)| !sender.is_closed());
        let has = |index: &usize| self.waiting.get(*index).and_then(|(whose, _)| self.held.get(whose)).copied();
        let first = (0..self.waiting.len()).min_by_key(|index| has(index).unwrap_or(0))?;
        let next = self.waiting.remove(first)?;
        self.take(&next.0).then_some(next)
    }

    fn take(&mut self, whose: &Identity) -> bool {
        let free = self.free > 0;
        if free {
            self.free -= 1;
            *self.held.entry(whose.clone()).or_default() += 1;
        }
        free
    }

    fn give_back(&mut self, whose: &Identity) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(whose) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(whose);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.among.inner.lock().give_back(&self.whose);
        self.among.give_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn who(name: &str) -> Identity {
        Identity::Name(name.to_owned())
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_has_fewest_is_next() {
        let places = Places::new(2);
        let mut greedy: Vec<_> = (0..5).map(|_| Box::pin(places.take(who("greedy")))).collect();
        let mut had: Vec<Place> = greedy.iter_mut().filter_map(|future| poll(future.as_mut())).collect();
        assert_eq!(had.len(), 2, "nobody else wants them");
        let mut modest = pin!(places.take(who("modest")));
        assert!(poll(modest.as_mut()).is_none() && places.wanted());
        drop(had.pop());
        let place = poll(modest.as_mut()).expect("before those who came before it");
        assert!(greedy[2..].iter_mut().all(|future| poll(future.as_mut()).is_none()));
        drop(place);
        had.extend(poll(greedy[2].as_mut()));
        assert_eq!(had.len(), 2, "in the order of asking");
    }

    #[test]
    fn who_goes_gets_none_and_keeps_none() {
        let places = Places::new(1);
        let place = poll(pin!(places.take(who("a")))).expect("it is free");
        let (mut gone, mut next) = (Box::pin(places.take(who("b"))), pin!(places.take(who("c"))));
        assert!(poll(gone.as_mut()).is_none() && poll(next.as_mut()).is_none());
        drop(gone);
        drop(place);
        let place = poll(next.as_mut()).expect("the one before it has gone");
        // Given, and never taken.
        let mut late = Box::pin(places.take(who("d")));
        assert!(poll(late.as_mut()).is_none());
        drop(place);
        drop(late);
        assert!(!places.wanted());
        assert!(poll(pin!(places.take(who("e")))).is_some(), "it is free again");
        assert!(places.inner.lock().held.is_empty() && places.inner.lock().free == 1);
    }
}
