//! [`LinkWatch`]: tells other threads that a port went down or came up.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Signals that a link has gone down or come up since the last wait.
#[derive(Debug, Default)]
pub struct LinkWatch {
    changed: Mutex<bool>,
    news: Condvar,
}

impl LinkWatch {
    /// Signals a change.
    pub(crate) fn notify_change(&self) {
        *self.changed.lock() = true;
        self.news.notify_all();
    }

    /// Waits until a link goes down or comes up, at most `at_most`.
    pub fn wait_for_change(&self, at_most: Duration) {
        let mut changed = self.changed.lock();
        self.news.wait_while_for(&mut changed, |changed| !*changed, at_most);
        *changed = false;
    }
}
