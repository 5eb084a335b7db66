//! Server state that a take-over transfers to the next process.

use crate::translate::DigestConfig;
use entries::WriteBatch;
use std::sync::Arc;
use std::time::Duration;

/// Snapshot of the server state, to be sent to another process.
#[derive(Clone, Debug, Default)]
pub struct ServerStateSnapshot {
    /// Number of digest lists sent; the next one has the following id.
    pub sent_lists: u64,
    /// Enabled digests.
    pub digests: Vec<DigestSnapshot>,
    /// Writes that await `COMMIT`; `None`: there are none besides the saved config, if any.
    pub uncommitted: Option<UncommittedSnapshot>,
}

/// Snapshot of an enabled digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestSnapshot {
    /// P4Info id.
    pub number: u32,
    /// Configuration.
    pub config: DigestConfig,
    /// Messages of an incomplete list: encoded `P4Data`.
    pub messages: Vec<Vec<u8>>,
    /// Age of the first message.
    pub age: Duration,
}

/// Writes to a config that was saved and not committed.
#[derive(Clone, Debug, Default)]
pub struct UncommittedSnapshot {
    /// Enabled digests by P4Info id.
    pub digests: Vec<(u32, DigestConfig)>,
    /// Writes to its tables, in order.
    pub batches: Arc<Vec<WriteBatch>>,
}
