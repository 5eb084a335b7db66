//! Idle handling of a runner: polling, then sleeping.

use crate::sys::Poller;
use crate::{AttachedPort, Readiness};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Shortest sleep of a runner with a port that cannot wake it.
const MIN_SLEEP: Duration = Duration::from_micros(5);

/// Trades CPU time for latency while no packets arrive.
///
/// The runner first polls its ports for the duration `poll`, so that a packet that arrives in this
/// time has no additional latency. Then it sleeps until a port wakes it. If a port cannot wake it
/// ([`Readiness::Poll`]), it sleeps for a time that doubles up to `sleep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePolicy {
    /// Duration of polling. [`Duration::MAX`] means forever, which uses a whole core.
    pub poll_time: Duration,
    /// Longest sleep while a port must be polled. It is the maximum additional latency of a packet
    /// at an idle node.
    pub max_sleep: Duration,
}

impl Default for IdlePolicy {
    /// Packets less than 50 us apart have no additional latency. An idle port that must be polled
    /// uses about 2 % of a core.
    fn default() -> IdlePolicy {
        IdlePolicy { poll_time: Duration::from_micros(50), max_sleep: Duration::from_micros(500) }
    }
}

impl IdlePolicy {
    /// Never sleeps: minimum latency, one core.
    pub const BUSY: IdlePolicy = IdlePolicy { poll_time: Duration::MAX, max_sleep: Duration::ZERO };
}

/// State of a runner between its last packet and its sleep.
pub(crate) struct IdleState {
    pub(crate) idle: IdlePolicy,
    /// Time of the first poll without packets after the last packet.
    since: Option<Instant>,
    /// All ports were armed to wake the runner and polled once after that.
    armed: bool,
    sleep: Duration,
    poller: Poller,
}

impl IdleState {
    pub(crate) fn new(idle: IdlePolicy) -> IdleState {
        IdleState { idle, since: None, armed: false, sleep: MIN_SLEEP, poller: Poller::default() }
    }

    /// Resets the state after packets arrived.
    pub(crate) fn reset_idle(&mut self) {
        self.since = None;
        self.armed = false;
        self.sleep = MIN_SLEEP;
    }

    /// Handles a poll that ended at `now` without packets. Returns immediately while the runner
    /// still polls. Otherwise, calls `on_sleep` and sleeps until a packet arrives, `waker` is
    /// readable, or `deadline`. `ports` are all ports of the runner.
    ///
    /// # Errors
    /// The system cannot wait for the descriptors.
    pub(crate) fn wait(
        &mut self,
        ports: &[AttachedPort],
        waker: Option<BorrowedFd<'_>>,
        now: Instant,
        deadline: Instant,
        on_sleep: impl FnOnce(),
    ) -> io::Result<()> {
        let idle_since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(idle_since) < self.idle.poll_time {
            std::hint::spin_loop();
            return Ok(());
        }
        let readiness = || ports.iter().map(|attached| attached.port.readiness());
        let mut must_poll = false;
        for state in readiness() {
            match state {
                Readiness::Now => return Ok(()),
                Readiness::Poll => must_poll = true,
                Readiness::Wait(_) | Readiness::Ended => {}
            }
        }
        // Poll again after the ports were armed, because a packet that arrived before does not wake
        // the runner.
        if !std::mem::replace(&mut self.armed, true) {
            return Ok(());
        }
        let mut timeout = deadline.saturating_duration_since(now);
        // A port without a descriptor is polled after a sleep that doubles each time.
        if must_poll {
            timeout = timeout.min(self.sleep);
            self.sleep = (self.sleep * 2).min(self.idle.max_sleep.max(MIN_SLEEP));
        }
        let descriptors = readiness().filter_map(|state| match state {
            Readiness::Wait(descriptor) => Some(descriptor),
            _ => None,
        });
        on_sleep();
        self.poller.wait(descriptors.chain(waker), timeout)
    }
}
