//! [`Moved`]: counts of what moved between tiers.

use std::sync::atomic::AtomicU64;

/// What moved between tiers.
#[derive(Debug, Default)]
pub struct Moved {
    /// Packets with which the upper half was done.
    pub above: AtomicU64,
    /// Packets that went down.
    pub down: AtomicU64,
    /// Packets that came back.
    pub back: AtomicU64,
    /// Packets that the lower half in this process was given.
    pub below: AtomicU64,
}
