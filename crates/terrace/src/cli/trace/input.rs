//! [`Input`]: the packet that is traced.

/// A packet and where it arrives.
pub(super) struct Input {
    pub bytes: Vec<u8>,
    pub port: u32,
    /// Nanoseconds.
    pub at: u64,
}
