//! [`PoolControl`]: what the control plane asks of a pool of ports (`programs/include/terrace.p4`): how much of
//! it is in use, which subscriber has which block, and which blocks changed hands.

use crate::port_request::{PortPoolStatus, PortRequest};

/// Ports of a block.
pub const BLOCK_PORTS: u32 = 64;

/// How much of an outside address is in use.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AddressUsage {
    /// Number of the outside address.
    pub address: u32,
    /// Blocks with an owner.
    pub blocks: u32,
    /// Ports in use by port space, without those that rest.
    pub ports: Vec<u32>,
    /// Calls with this first address that found no free block.
    pub refused_empty: u64,
    /// Calls with this first address, for subscribers that had all ports of their quota.
    pub refused_quota: u64,
}

/// A block of ports that belongs to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBlock {
    /// Number of the outside address.
    pub address: u32,
    /// Its first port.
    pub first_port: u16,
    /// Number of the subscriber.
    pub subscriber: u32,
    /// Ports in use by port space: bit n is port `first_port` + n.
    pub used: Vec<u64>,
    /// Ports that rest, in the same form.
    pub resting: Vec<u64>,
}

impl PortBlock {
    /// Returns the address and port behind the block, from which the next page begins.
    pub fn behind(&self) -> (u32, u16) {
        match self.first_port.checked_add(BLOCK_PORTS as u16) {
            Some(port) => (self.address, port),
            None => (self.address + 1, 0),
        }
    }
}

/// A block that was given to a subscriber, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockChange {
    /// Time of the packet that took its first port, or of the end of its last port, in nanoseconds.
    pub at_ns: u64,
    /// Number of the outside address.
    pub address: u32,
    /// First port of the block.
    pub first_port: u16,
    /// Number of the subscriber.
    pub subscriber: u32,
    /// Whether the subscriber got the block; otherwise it gave it back.
    pub is_given: bool,
}

/// Changes that were lost, because too many waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LostChanges {
    /// Their number.
    pub count: u64,
    /// Time of the first one in nanoseconds.
    pub first_ns: u64,
    /// Time of the last one in nanoseconds.
    pub last_ns: u64,
}

/// Changes in their order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BlockChanges {
    /// The changes.
    pub changes: Vec<BlockChange>,
    /// Changes behind them that were lost.
    pub lost: LostChanges,
}

/// A pool of ports as the control plane reads it.
pub trait PoolControl {
    /// Returns how much of each address is in use, for addresses of which something was in use or refused.
    fn usage_by_address(&self) -> Vec<AddressUsage>;

    /// Returns the blocks with an owner from an address and port on, at most `limit`, in this order. A
    /// block that has an owner all the time is in one page exactly.
    fn blocks_from(&self, first: (u32, u16), limit: usize) -> Vec<PortBlock>;

    /// Returns the port that a call at the time `now` in nanoseconds would take, without taking it.
    ///
    /// # Errors
    /// The reason why it would get none.
    fn preview(&mut self, request: &PortRequest, now: u64) -> Result<(u32, u16), PortPoolStatus>;

    /// Begins or ends to note blocks that get an owner or lose it. Those that are taken over with their
    /// sessions are not noted.
    fn report_changes(&mut self, is_on: bool);

    /// Takes the oldest changes, at most `limit`. Too many that wait are lost and counted.
    fn take_changes(&mut self, limit: usize) -> BlockChanges;
}
