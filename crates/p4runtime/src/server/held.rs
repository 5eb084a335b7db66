//! [`Held`]: what the server itself holds for a device, beside what the device holds: digests with the messages that wait for more, and the writes that
//! wait for `COMMIT`. A process that takes over goes on with it.

use super::digests::Digests;
use super::forms::HeldForm;
use super::program::DigestConfigs;
use super::saved::Saved;
use crate::{Code, Device, Forwarding, Refusal};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How often it is looked whether events have arrived.
const SOON: Duration = Duration::from_millis(1);

/// What a server holds for its device. A copy of it is the same.
#[derive(Clone, Default)]
pub struct Held(Arc<Parts>);

#[derive(Default)]
struct Parts {
    digests: Mutex<Digests>,
    saved: Mutex<Option<Saved>>,
    /// Something in `digests` has changed that may be due earlier.
    news: Notify,
    /// Digest messages that the device has told of, and that are in `digests` or gone.
    told: AtomicU64,
    arrived: AtomicU64,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

/// What those are told whose changes come too late.
fn too_late() -> Refusal {
    Refusal::new(Code::Unavailable, "another process takes over this node; connect again")
}

impl Held {
    /// Waits until all digest messages that the device has told of are here, at most so long; whether they are.
    pub fn settle(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while self.0.arrived.load(Ordering::Acquire) < self.0.told.load(Ordering::Acquire) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(SOON);
        }
        true
    }

    /// From now on nothing of it changes, and no list is sent, until [`Held::thaw`]: what there is.
    pub fn freeze(&self) -> HeldForm {
        let mut digests = self.digests();
        digests.freeze(true);
        let (lists, digests) = digests.form(Instant::now());
        HeldForm { lists, digests, waiting: self.0.saved.lock().as_ref().map(Saved::form) }
    }

    /// It goes on as before.
    pub fn thaw(&self) {
        self.digests().freeze(false);
        self.0.news.notify_one();
    }

    /// Goes on with what another process had. `saved` is the config that waits for `COMMIT` in the device, as [`Device::saved`] gives it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a message is none, or a write is not one of that config.
    pub fn take_up(&self, form: HeldForm, saved: Option<Forwarding>, device: &dyn Device) -> Result<(), Refusal> {
        self.digests().take_up(form.lists, form.digests, Instant::now())?;
        if let (Some(waiting), Some(forwarding)) = (form.waiting, saved) {
            *self.0.saved.lock() = Some(Saved::again(forwarding, &waiting, device)?);
        }
        self.0.news.notify_one();
        Ok(())
    }

    pub(super) fn digests(&self) -> MutexGuard<'_, Digests> {
        self.0.digests.lock()
    }

    /// Something in the digests may be due earlier.
    pub(super) fn news(&self) -> &Notify {
        &self.0.news
    }

    /// Digests as a write left them.
    ///
    /// # Errors
    /// `UNAVAILABLE`: another process has them already.
    pub(super) fn configure(&self, configs: &DigestConfigs) -> Result<(), Refusal> {
        let mut digests = self.digests();
        if digests.is_frozen() {
            return Err(too_late());
        }
        digests.configure(configs);
        self.0.news.notify_one();
        Ok(())
    }

    /// The config that waits for `COMMIT` in a device, if one does.
    ///
    /// # Errors
    /// `INTERNAL` if it can't be used.
    pub(super) fn saved(&self, device: &dyn Device) -> Result<MutexGuard<'_, Option<Saved>>, Refusal> {
        let kept = device.saved();
        let mut saved = self.0.saved.lock();
        match kept {
            None => *saved = None,
            Some(kept) => {
                let is_it = |saved: &Saved| Arc::ptr_eq(&saved.program.forwarding.pipeline, &kept.pipeline);
                if !saved.as_ref().is_some_and(is_it) {
                    *saved = Some(Saved::new(kept, device)?);
                }
            }
        }
        Ok(saved)
    }

    /// The same, to change something in it.
    ///
    /// # Errors
    /// As [`Held::saved`]; `UNAVAILABLE`: another process has it already.
    pub(super) fn saved_mut(&self, device: &dyn Device) -> Result<MutexGuard<'_, Option<Saved>>, Refusal> {
        let saved = self.saved(device)?;
        // Asked under the lock: whoever freezes looks at it later.
        if self.digests().is_frozen() { Err(too_late()) } else { Ok(saved) }
    }

    /// The device tells of a digest message.
    pub(super) fn tells(&self) {
        self.0.told.fetch_add(1, Ordering::Release);
    }

    /// Messages that the device has told of have come.
    pub(super) fn comes(&self, messages: u64) {
        self.0.arrived.fetch_add(messages, Ordering::Release);
    }
}
