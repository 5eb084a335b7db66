//! What a server hands to the process that takes over from it.

use crate::translate::DigestConfig;
use entries::WriteBatch;
use std::sync::Arc;
use std::time::Duration;

/// What is held, to be sent to another process.
#[derive(Clone, Debug, Default)]
pub struct HeldForm {
    /// How many digest lists were sent: the next has the number after.
    pub lists: u64,
    /// The digests that are enabled.
    pub digests: Vec<DigestForm>,
    /// What waits for `COMMIT`; `None`: nothing is known beside the config that was saved, if one was.
    pub waiting: Option<WaitingForm>,
}

/// A digest that is enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestForm {
    /// Its number in P4Info.
    pub number: u32,
    /// How its messages are sent.
    pub config: DigestConfig,
    /// Messages of a list that is not full: `P4Data`, encoded.
    pub messages: Vec<Vec<u8>>,
    /// How long the first of them has waited.
    pub waited: Duration,
}

/// Writes to a config that was saved and not committed.
#[derive(Clone, Debug, Default)]
pub struct WaitingForm {
    /// Digests that were enabled, by their numbers in P4Info.
    pub digests: Vec<(u32, DigestConfig)>,
    /// What was written to its tables, in order.
    pub batches: Arc<Vec<WriteBatch>>,
}
