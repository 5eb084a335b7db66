//! [`ServerStateHandle`]: state that the server itself keeps for a device: digests with their
//! buffered messages, and the writes that await `COMMIT`. A take-over transfers it to the next
//! process.

use super::active_pipeline::DigestConfigs;
use super::digests::Digests;
use super::saved_config::SavedConfig;
use super::state_snapshot::ServerStateSnapshot;
use crate::{Code, Device, P4RuntimeError, PipelineConfig};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Interval at which the arrival of events is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Handle of the server's state for its device. Copies share the state.
#[derive(Clone, Default)]
pub struct ServerStateHandle(Arc<ServerStateInner>);

#[derive(Default)]
struct ServerStateInner {
    digests: Mutex<Digests>,
    saved: Mutex<Option<SavedConfig>>,
    /// Notified when a change of `digests` can have made a list due earlier.
    digests_changed: Notify,
    /// Digest messages that the device has reported. `arrived` counts those of them that are in
    /// `digests` or lost.
    reported: AtomicU64,
    arrived: AtomicU64,
}

impl std::fmt::Debug for ServerStateHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerStateHandle")
    }
}

/// Returns the error of a change during a take-over.
fn too_late() -> P4RuntimeError {
    P4RuntimeError::new(Code::Unavailable, "another process is taking over this node; connect again")
}

impl ServerStateHandle {
    /// Waits at most `within` until all reported digest messages have arrived; returns whether they
    /// have.
    pub fn wait_for_arrival(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while self.0.arrived.load(Ordering::Acquire) < self.0.reported.load(Ordering::Acquire) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        true
    }

    /// Freezes the state until [`ServerStateHandle::thaw`] and returns a snapshot. No list is sent
    /// meanwhile.
    pub fn freeze(&self) -> ServerStateSnapshot {
        let mut digests = self.digests();
        digests.set_frozen(true);
        let (lists, digests) = digests.snapshot(Instant::now());
        ServerStateSnapshot {
            sent_lists: lists,
            digests,
            uncommitted: self.0.saved.lock().as_ref().map(SavedConfig::snapshot),
        }
    }

    /// Resumes the normal operation.
    pub fn thaw(&self) {
        self.digests().set_frozen(false);
        self.0.digests_changed.notify_one();
    }

    /// Restores the state of another process. `saved` is the config that awaits `COMMIT`, from
    /// [`Device::saved`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a message cannot be decoded or a write does not fit the config.
    pub fn restore(
        &self,
        form: ServerStateSnapshot,
        saved: Option<PipelineConfig>,
        device: &dyn Device,
    ) -> Result<(), P4RuntimeError> {
        self.digests().restore(form.sent_lists, form.digests, Instant::now())?;
        if let (Some(waiting), Some(forwarding)) = (form.uncommitted, saved) {
            *self.0.saved.lock() = Some(SavedConfig::restore(forwarding, &waiting, device)?);
        }
        self.0.digests_changed.notify_one();
        Ok(())
    }

    pub(super) fn digests(&self) -> MutexGuard<'_, Digests> {
        self.0.digests.lock()
    }

    /// Returns the notification of changes that can have made a list due earlier.
    pub(super) fn digests_changed(&self) -> &Notify {
        &self.0.digests_changed
    }

    /// Sets the digests after a write.
    ///
    /// # Errors
    /// `UNAVAILABLE`: another process has taken over.
    pub(super) fn configure(&self, configs: &DigestConfigs) -> Result<(), P4RuntimeError> {
        let mut digests = self.digests();
        if digests.is_frozen() {
            return Err(too_late());
        }
        digests.configure(configs);
        self.0.digests_changed.notify_one();
        Ok(())
    }

    /// Returns the config that awaits `COMMIT` in a device, if there is one.
    ///
    /// # Errors
    /// `INTERNAL` if it cannot be used.
    pub(super) fn saved(&self, device: &dyn Device) -> Result<MutexGuard<'_, Option<SavedConfig>>, P4RuntimeError> {
        let kept = device.saved();
        let mut saved = self.0.saved.lock();
        match kept {
            None => *saved = None,
            Some(kept) => {
                let is_it = |saved: &SavedConfig| Arc::ptr_eq(&saved.program.config.pipeline, &kept.pipeline);
                if !saved.as_ref().is_some_and(is_it) {
                    *saved = Some(SavedConfig::new(kept, device)?);
                }
            }
        }
        Ok(saved)
    }

    /// Returns the config that awaits `COMMIT`, for a change.
    ///
    /// # Errors
    /// Those of [`ServerStateHandle::saved`]; `UNAVAILABLE`: another process has taken over.
    pub(super) fn saved_mut(&self, device: &dyn Device) -> Result<MutexGuard<'_, Option<SavedConfig>>, P4RuntimeError> {
        let saved = self.saved(device)?;
        // Checked under the lock, because `freeze` reads the saved config after it has set the
        // flag.
        if self.digests().is_frozen() { Err(too_late()) } else { Ok(saved) }
    }

    /// Counts a digest message that the device reports.
    pub(super) fn count_reported(&self) {
        self.0.reported.fetch_add(1, Ordering::Release);
    }

    /// Counts reported digest messages that have arrived or are lost.
    pub(super) fn count_arrived(&self, messages: u64) {
        self.0.arrived.fetch_add(messages, Ordering::Release);
    }
}
