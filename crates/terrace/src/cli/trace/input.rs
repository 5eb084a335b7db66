//! [`TracedInput`]: the packet that is traced.

/// A packet with its ingress port and time.
pub(super) struct TracedInput {
    pub bytes: Vec<u8>,
    pub port: u32,
    /// Arrival time, in nanoseconds.
    pub at: u64,
}
