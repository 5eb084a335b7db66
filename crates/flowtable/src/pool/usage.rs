//! How much of a pool is in use, and which subscriber has which block.

use super::PortPool;
use super::address::{ADDRESS_BLOCKS, BLOCK_PORTS, FIRST_PORT};

/// How much of a pool is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUsage {
    /// Ports in use, without those that rest.
    pub ports: u64,
    /// Blocks with an owner.
    pub blocks: usize,
    /// Subscribers with a block.
    pub subscribers: usize,
}

/// How much of an outside address is in use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressUsage {
    /// Number of the address.
    pub address: u32,
    /// Blocks with an owner.
    pub blocks: u32,
    /// Ports in use by port space, without those that rest.
    pub ports: Vec<u32>,
    /// Requests with this first address that found no free block.
    pub refused_empty: u64,
    /// Requests with this first address, of subscribers that had all ports of their quota.
    pub refused_quota: u64,
}

/// A block with an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedBlock {
    /// Number of the block among those of all addresses.
    pub block: u32,
    /// Subscriber.
    pub subscriber: u32,
    /// Ports in use, a bit each, by port space.
    pub used: Vec<u64>,
    /// Ports that rest, a bit each, by port space.
    pub resting: Vec<u64>,
}

/// Returns the number of the address of a block, and its first port.
pub fn block_ports(block: u32) -> (u32, u16) {
    (block / ADDRESS_BLOCKS, (FIRST_PORT + block % ADDRESS_BLOCKS * BLOCK_PORTS) as u16)
}

impl PortPool {
    /// Returns how much of the pool is in use.
    pub fn usage(&self) -> PoolUsage {
        let ports = self.ports_in_use.iter().map(|ports| u64::from(*ports)).sum();
        PoolUsage { ports, blocks: self.owned.blocks(), subscribers: self.owned.subscribers() }
    }

    /// Returns how much of each address is in use, for addresses of which something was in use or refused.
    pub fn usage_by_address(&self) -> impl Iterator<Item = AddressUsage> {
        let spaces = self.shape.spaces as usize;
        let used = (0..).zip(self.addresses.iter().zip(&self.refused));
        let used = used.filter(|(_, (blocks, refused))| blocks.is_some() || **refused != [0; 2]);
        used.map(move |(address, (blocks, [refused_empty, refused_quota]))| AddressUsage {
            address,
            blocks: blocks.as_ref().map_or(0, |blocks| blocks.owned()),
            ports: self.ports_in_use[address as usize * spaces..][..spaces].to_vec(),
            refused_empty: *refused_empty,
            refused_quota: *refused_quota,
        })
    }

    /// Returns the blocks with an owner from an address and port on, in this order.
    pub fn blocks_from(&self, address: u32, port: u16) -> impl Iterator<Item = OwnedBlock> {
        let (start, spaces) = (address as usize, self.shape.spaces);
        let first = u32::from(port).saturating_sub(FIRST_PORT) / BLOCK_PORTS;
        let addresses = self.addresses.iter().enumerate().skip(start);
        let blocks = addresses.flat_map(move |(address, blocks)| {
            let mut next = if address == start { first } else { 0 };
            std::iter::from_fn(move || {
                let blocks = blocks.as_ref().filter(|_| next < ADDRESS_BLOCKS)?;
                let found = blocks.find_owned(next)?;
                next = found + 1;
                Some((address as u32 * ADDRESS_BLOCKS + found, blocks.slot(found)?))
            })
        });
        blocks.map(move |(block, slot)| {
            let words = (0..spaces).map(|space| self.owned.ports(slot, space));
            let (used, resting) = words.map(|[used, resting]| (used, resting)).unzip();
            OwnedBlock { block, subscriber: self.owned.owner(slot), used, resting }
        })
    }
}
