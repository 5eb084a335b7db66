//! Arguments and status of `PortPool.take` (`programs/include/terrace.p4`).

/// Arguments of `PortPool.take`.
#[derive(Clone, Copy, Debug)]
pub struct PortRequest {
    /// First of the addresses that the subscriber may have.
    pub first_address: u32,
    /// Number of these addresses.
    pub address_count: u32,
    /// Number of the subscriber.
    pub subscriber: u32,
    /// Maximum number of blocks of the subscriber.
    pub max_blocks: u32,
    /// Port space, such as that of UDP.
    pub space: u32,
    /// Chooses address, block and port, so that they cannot be guessed.
    pub hash: u32,
}

/// Status of `PortPool.take`: `PortPoolStatus_t` of `terrace.p4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortPoolStatus {
    /// A port was taken.
    Taken = 0,
    /// No block is free, or none of the subscriber's address.
    Empty = 1,
    /// All ports of the blocks that the subscriber may have are in use or rest.
    Quota = 2,
    /// The pool has no such address, subscriber or space.
    Invalid = 3,
}
