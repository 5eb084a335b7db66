//! What a runner does when nothing arrives.

use crate::sys::Poller;
use crate::{Attached, Readiness};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The shortest sleep of a runner with a port that cannot wake it.
const SHORTEST_NAP: Duration = Duration::from_micros(5);

/// How a runner trades processor time for latency when nothing arrives.
///
/// It first goes on asking its ports for `poll`, so that a packet that comes soon is seen at once. Then it sleeps until a port wakes it,
/// or, if some port cannot ([`Readiness::Poll`]), for a time that doubles up to `nap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// How long to go on asking. [`Duration::MAX`]: for ever, which costs a whole core.
    pub poll: Duration,
    /// The longest sleep while a port has to be asked: what a packet waits at most in a node that was idle.
    pub nap: Duration,
}

impl Default for Idle {
    /// Packets that come at less than 50 us from each other never wait; an idle port that has to be asked costs about 2 % of a core.
    fn default() -> Idle {
        Idle { poll: Duration::from_micros(50), nap: Duration::from_micros(500) }
    }
}

impl Idle {
    /// Never sleeps: least latency, one core.
    pub const BUSY: Idle = Idle { poll: Duration::MAX, nap: Duration::ZERO };
}

/// Where a runner is between its last packet and its sleep.
pub(crate) struct Waiter {
    pub(crate) idle: Idle,
    /// Since when nothing has arrived.
    since: Option<Instant>,
    /// All ports have been told to wake the runner, and were asked once more after that.
    armed: bool,
    nap: Duration,
    poller: Poller,
}

impl Waiter {
    pub(crate) fn new(idle: Idle) -> Waiter {
        Waiter { idle, since: None, armed: false, nap: SHORTEST_NAP, poller: Poller::default() }
    }

    /// Something arrived.
    pub(crate) fn busy(&mut self) {
        self.since = None;
        self.armed = false;
        self.nap = SHORTEST_NAP;
    }

    /// Nothing arrived in a round that ended at `now`: comes back at once, or waits for packets until `deadline` at the latest, or until
    /// `call` is readable. Before it sleeps it calls `rest`.
    pub(crate) fn wait(
        &mut self,
        ports: &[Attached],
        call: Option<BorrowedFd<'_>>,
        now: Instant,
        deadline: Instant,
        rest: impl FnOnce(),
    ) -> io::Result<()> {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < self.idle.poll {
            std::hint::spin_loop();
            return Ok(());
        }
        let states = || ports.iter().map(|attached| attached.port.readiness());
        let mut must_ask = false;
        for state in states() {
            match state {
                Readiness::Now => return Ok(()),
                Readiness::Poll => must_ask = true,
                Readiness::Wait(_) | Readiness::Ended => {}
            }
        }
        // A packet that came before a port was told to wake the runner would wake nobody: one more round.
        if !std::mem::replace(&mut self.armed, true) {
            return Ok(());
        }
        let mut timeout = deadline.saturating_duration_since(now);
        if must_ask {
            timeout = timeout.min(self.nap);
            self.nap = (self.nap * 2).min(self.idle.nap.max(SHORTEST_NAP));
        }
        let descriptors = states().filter_map(|state| match state {
            Readiness::Wait(descriptor) => Some(descriptor),
            _ => None,
        });
        rest();
        self.poller.wait(descriptors.chain(call), timeout)
    }
}
