//! [`TierStats`]: packets that moved between tiers.

use std::sync::atomic::AtomicU64;

/// Number of packets that moved between tiers.
#[derive(Debug, Default)]
pub struct TierStats {
    /// Packets that the upper half finished.
    pub served_above: AtomicU64,
    /// Packets sent to lower tiers.
    pub sent_down: AtomicU64,
    /// Packets returned by lower tiers.
    pub returned: AtomicU64,
    /// Packets that entered the lower half without the upper one, because its entries were not checked
    /// in time.
    pub bypassed: AtomicU64,
    /// Packets that entered the lower half in this process.
    pub entered_below: AtomicU64,
}
