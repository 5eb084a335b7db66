//! What the service manager is told (sd_notify(3)), if there is one, and its watchdog.

use sd_notify::NotifyState;
use std::time::Duration;

/// Tells all of it in one message. Without a service manager nothing happens.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// It serves; `status` is for people. After a take-over it is this process that the service consists of.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready, NotifyState::Status(status)]);
}

/// It reads its configuration again; [`ready`] follows.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// It ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("ending")]);
}

/// Says now and then that the workers are alive, so that a node that hangs is started again.
pub(super) struct Watchdog {
    every: Duration,
    since: Duration,
    seen: Vec<u64>,
}

impl Watchdog {
    /// As the service manager asks for; `None` if it doesn't.
    pub fn asked_for() -> Option<Watchdog> {
        sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()).map(Watchdog::new)
    }

    fn new(limit: Duration) -> Watchdog {
        Watchdog { every: limit / 3, since: Duration::ZERO, seen: Vec::new() }
    }

    /// Some time has passed. `beats` says how far each worker has come.
    pub fn tick(&mut self, passed: Duration, beats: impl FnOnce() -> Vec<u64>) {
        if let Some(hang) = self.due(passed, beats) {
            match hang {
                None => tell(&[NotifyState::Watchdog]),
                Some(worker) => {
                    tracing::error!(worker, "a worker hangs; the service manager will start the node again")
                }
            }
        }
    }

    /// Nothing if it is not yet time; else the worker that has not moved since the last time, if there is one.
    fn due(&mut self, passed: Duration, beats: impl FnOnce() -> Vec<u64>) -> Option<Option<usize>> {
        self.since += passed;
        if self.since < self.every {
            return None;
        }
        self.since = Duration::ZERO;
        let now = beats();
        let hang = now.iter().zip(&self.seen).position(|(now, seen)| now == seen);
        self.seen = now;
        Some(hang)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_stands_still_is_noticed() {
        let mut dog = Watchdog::new(Duration::from_secs(3));
        let second = Duration::from_secs(1);
        assert_eq!(dog.due(second / 2, || vec![0, 0]), None);
        assert_eq!(dog.due(second / 2, || vec![5, 5]), Some(None));
        assert_eq!(dog.due(second, || vec![6, 6]), Some(None));
        assert_eq!(dog.due(second, || vec![7, 6]), Some(Some(1)));
        assert_eq!(dog.due(second, || vec![8, 7]), Some(None), "it goes on");
    }
}
