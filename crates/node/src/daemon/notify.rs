//! Notifications to the service manager (sd_notify(3)) and its watchdog.

use sd_notify::NotifyState;
use std::time::Duration;

/// Sends all states in one message. Does nothing without a service manager.
fn notify_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be notified");
    }
}

/// Reports that the node serves; `status` is a text for the operator. After a take-over, also
/// reports this process as the main process of the service.
pub(super) fn ready(status: &str) {
    notify_manager(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the configuration is reloading; [`ready`] follows.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify_manager(&[NotifyState::Reloading, now]),
        Err(_) => notify_manager(&[NotifyState::Reloading]),
    }
}

/// Reports that the node is stopping.
pub(super) fn stopping() {
    notify_manager(&[NotifyState::Stopping, NotifyState::Status("ending")]);
}

/// Reports periodically that the workers are alive, so that the service manager restarts a node
/// that hangs.
pub(super) struct Watchdog {
    every: Duration,
    since: Duration,
    seen: Vec<u64>,
}

impl Watchdog {
    /// Creates the watchdog with the service manager's interval; `None` if it has none.
    pub fn asked_for() -> Option<Watchdog> {
        sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()).map(Watchdog::new)
    }

    fn new(limit: Duration) -> Watchdog {
        Watchdog { every: limit / 3, since: Duration::ZERO, seen: Vec::new() }
    }

    /// Advances the time by `passed`. `beats` returns the tick count of each worker.
    pub fn tick(&mut self, passed: Duration, beats: impl FnOnce() -> Vec<u64>) {
        if let Some(hang) = self.check_if_due(passed, beats) {
            match hang {
                None => notify_manager(&[NotifyState::Watchdog]),
                Some(worker) => {
                    tracing::error!(worker, "a worker hangs; the service manager will start the node again")
                }
            }
        }
    }

    /// Returns `None` before the next check is due, else the first worker without progress since
    /// the last check, if any.
    fn check_if_due(&mut self, passed: Duration, beats: impl FnOnce() -> Vec<u64>) -> Option<Option<usize>> {
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
        assert_eq!(dog.check_if_due(second / 2, || vec![0, 0]), None);
        assert_eq!(dog.check_if_due(second / 2, || vec![5, 5]), Some(None));
        assert_eq!(dog.check_if_due(second, || vec![6, 6]), Some(None));
        assert_eq!(dog.check_if_due(second, || vec![7, 6]), Some(Some(1)));
        assert_eq!(dog.check_if_due(second, || vec![8, 7]), Some(None), "it goes on");
    }
}
