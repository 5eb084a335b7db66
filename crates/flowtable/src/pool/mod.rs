//! Pools of ports for address translation: which outside address and port a session uses.
//!
//! Ports come in blocks of 64, the bits of a word. A block belongs to one subscriber (an inside
//! address), for all port spaces. A subscriber's blocks are of one outside address ("paired",
//! RFC 4787 section 4.1), and their number is limited. A port that was released rests before it is
//! given out again (RFC 6888, REQ-8).
//!
//! The pool gives out the same ports as the interpreter's, which is the definition. Finding one
//! costs the same however many are in use.

mod address;
mod changes;
mod owned_blocks;
mod usage;

pub use changes::{BlockChange, LostChanges};
pub use usage::{AddressUsage, OwnedBlock, PoolUsage, block_ports};

use crate::ShapeError;
use address::{ADDRESS_BLOCKS, Address, BLOCK_PORTS, FIRST_PORT};
use changes::ChangeList;
use owned_blocks::OwnedBlocks;
use std::collections::VecDeque;

/// Minimum rest of a port that no entry got, in nanoseconds: the next packet shall not meet the
/// key again that another entry has.
const UNUSED_REST_NS: u64 = 1_000_000_000;

/// Properties of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolShape {
    /// Number of outside addresses.
    pub addresses: u32,
    /// Number of subscribers; they have the numbers from 0 on.
    pub subscribers: u32,
    /// Number of port spaces, such as those of UDP and TCP.
    pub spaces: u32,
    /// Rest of a released port in nanoseconds.
    pub rest_ns: u64,
}

/// What a packet asks of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolRequest {
    /// First of the addresses that the subscriber may have.
    pub first_address: u32,
    /// Number of these addresses.
    pub address_count: u32,
    /// Number of the subscriber.
    pub subscriber: u32,
    /// Maximum number of blocks of the subscriber.
    pub max_blocks: u32,
    /// Port space.
    pub space: u32,
    /// Chooses address, block and port, so that they cannot be guessed.
    pub hash: u32,
}

/// A port that was taken. It must be released once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolPort {
    /// Number of the port among all ports and spaces of the pool.
    pub number: u32,
    /// Number of the outside address.
    pub address: u32,
    /// The port.
    pub port: u16,
}

/// Reason why a pool gave no port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolRefusal {
    /// No block is free, or none of the subscriber's address.
    #[error("the pool has no free block of ports: add an address to it")]
    Empty,
    /// All ports of the blocks that the subscriber may have are in use or rest.
    #[error("the subscriber has as many ports as its quota allows")]
    Quota,
    /// The pool has no such address, subscriber or space.
    #[error("the pool has no such address, subscriber or port space")]
    Invalid,
}

/// A port with the subscriber to which its block belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedPoolPort {
    /// The port.
    pub port: PoolPort,
    /// Port space.
    pub space: u32,
    /// Number of the subscriber.
    pub subscriber: u32,
}

/// Returns the port with a number, which belongs to a block.
fn pool_port(block: u32, number: u32) -> PoolPort {
    let port = FIRST_PORT + block % ADDRESS_BLOCKS * BLOCK_PORTS + number % BLOCK_PORTS;
    PoolPort { number, address: block / ADDRESS_BLOCKS, port: port as u16 }
}

/// A rest of a port.
#[derive(Clone, Copy)]
struct Rest {
    end_ns: u64,
    number: u32,
}

/// A pool of ports.
pub struct PortPool {
    shape: PoolShape,
    addresses: Vec<Option<Box<Address>>>,
    owned: OwnedBlocks,
    /// Rests of released ports, and of ports that no entry got, by their end.
    rests: [VecDeque<Rest>; 2],
    /// Ports in use, by address and port space.
    ports_in_use: Vec<u32>,
    /// Requests without a free block and beyond the quota, by their first address.
    refused: Vec<[u64; 2]>,
    /// Changes of owners, if a log reads them.
    changes: Option<Box<ChangeList>>,
}

impl PortPool {
    /// Creates a pool whose ports are all free.
    ///
    /// # Errors
    /// The address space is too small for these addresses and subscribers.
    pub fn new(shape: PoolShape) -> Result<PortPool, ShapeError> {
        let addresses = shape.addresses.min(u32::MAX / ADDRESS_BLOCKS);
        let max_blocks = addresses * ADDRESS_BLOCKS;
        Ok(PortPool {
            shape: PoolShape { addresses, ..shape },
            addresses: (0..addresses).map(|_| None).collect(),
            owned: OwnedBlocks::new(shape.subscribers, shape.spaces, max_blocks)?,
            rests: Default::default(),
            ports_in_use: vec![0; addresses as usize * shape.spaces as usize],
            refused: vec![[0; 2]; addresses as usize],
            changes: None,
        })
    }

    /// Returns how many numbers the ports of all spaces have: at most 2^32 are possible.
    pub fn numbers(&self) -> u64 {
        let PoolShape { addresses, spaces, .. } = self.shape;
        u64::from(addresses) * u64::from(ADDRESS_BLOCKS * BLOCK_PORTS) * u64::from(spaces)
    }

    /// Takes a port at the time `now` in nanoseconds: one of the subscriber's blocks at the
    /// addresses of the request, else one of a new block.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn take(&mut self, request: &PoolRequest, now: u64) -> Result<PoolPort, PoolRefusal> {
        self.end_rests(now);
        let end = request.first_address.checked_add(request.address_count);
        let is_valid = end.is_some_and(|end| request.address_count != 0 && end <= self.shape.addresses)
            && request.subscriber < self.shape.subscribers
            && request.space < self.shape.spaces;
        if !is_valid {
            return Err(PoolRefusal::Invalid);
        }
        let addresses = request.first_address..request.first_address + request.address_count;
        let is_usable = |block: u32| addresses.contains(&(block / ADDRESS_BLOCKS));
        let PoolRequest { subscriber, space, .. } = *request;
        if let Some(slot) = self.owned.find_free_port(subscriber, space, is_usable) {
            return Ok(self.take_of_block(slot, request));
        }
        if self.owned.count_of(subscriber) >= request.max_blocks {
            self.refused[request.first_address as usize][1] += 1;
            return Err(PoolRefusal::Quota);
        }
        let paired = self.owned.blocks_of(subscriber).find(|(_, block)| is_usable(*block));
        let paired = paired.map(|(_, block)| block / ADDRESS_BLOCKS);
        let Some(block) = self.find_free_block(request, paired) else {
            self.refused[request.first_address as usize][0] += 1;
            return Err(PoolRefusal::Empty);
        };
        let slot = self.own_block(block, subscriber);
        self.note_change(BlockChange { at_ns: now, block, subscriber, is_given: true });
        Ok(self.take_of_block(slot, request))
    }

    /// Returns the port that a request at the time `now` in nanoseconds would get, without taking it. Neither
    /// counts a refusal nor notes a change.
    ///
    /// # Errors
    /// The reason why it would get none.
    pub fn preview(&mut self, request: &PoolRequest, now: u64) -> Result<PoolPort, PoolRefusal> {
        self.end_rests(now);
        let (changes, address) = (self.changes.take(), request.first_address as usize);
        let refused = self.refused.get(address).copied();
        let taken = self.take(request, now);
        if let Ok(port) = &taken {
            self.give_back(port.number, now);
        }
        self.changes = changes;
        if let (Some(counts), Some(refused)) = (self.refused.get_mut(address), refused) {
            *counts = refused;
        }
        taken
    }

    /// Prefetches what [`PortPool::take`] reads and writes for these subscribers. They are an
    /// assumption: some may take no port, and invalid ones are ignored.
    pub fn prefetch(&self, subscribers: &[u32]) {
        let valid = || subscribers.iter().filter(|subscriber| **subscriber < self.shape.subscribers);
        valid().for_each(|subscriber| self.owned.prefetch_list(*subscriber));
        valid().for_each(|subscriber| self.owned.prefetch_blocks(*subscriber));
    }

    /// Returns a block without owner: of the subscriber's address if it has one, else of the first
    /// address that has one, from an address and a block that the hash chooses.
    fn find_free_block(&self, request: &PoolRequest, paired: Option<u32>) -> Option<u32> {
        let (chosen, count) = (request.hash / BLOCK_PORTS, request.address_count);
        let start = chosen / count % ADDRESS_BLOCKS;
        let block_of = |address: u32| {
            let block = match &self.addresses[address as usize] {
                None => Some(start),
                Some(blocks) => blocks.find_free(start),
            };
            block.map(|block| address * ADDRESS_BLOCKS + block)
        };
        match paired {
            Some(address) => block_of(address),
            None => (0..count).find_map(|n| block_of(request.first_address + (chosen % count + n) % count)),
        }
    }

    /// Gives a block without owner to a subscriber. Returns its slot.
    fn own_block(&mut self, block: u32, subscriber: u32) -> u32 {
        let slot = self.owned.push(subscriber, block);
        let address = &mut self.addresses[(block / ADDRESS_BLOCKS) as usize];
        address.get_or_insert_with(|| Box::new(Address::new())).own(block % ADDRESS_BLOCKS, slot);
        slot
    }

    /// Tells a log of a block that got an owner or lost it.
    fn note_change(&mut self, change: BlockChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// Returns the number of ports in use of a block's address, in a port space.
    fn ports_in_use_mut(&mut self, block: u32, space: u32) -> &mut u32 {
        &mut self.ports_in_use[(block / ADDRESS_BLOCKS * self.shape.spaces + space) as usize]
    }

    /// Takes the first free port of a block that has one, from the bit on that the hash chooses.
    fn take_of_block(&mut self, slot: u32, request: &PoolRequest) -> PoolPort {
        let block = self.owned.block(slot);
        let [used, resting] = self.owned.ports_mut(slot, request.space);
        let start = request.hash % BLOCK_PORTS;
        let bit = ((!(*used | *resting)).rotate_right(start).trailing_zeros() + start) % BLOCK_PORTS;
        *used |= 1 << bit;
        *self.ports_in_use_mut(block, request.space) += 1;
        pool_port(block, (block * self.shape.spaces + request.space) * BLOCK_PORTS + bit)
    }

    /// Releases a port at the time `now` in nanoseconds. It rests for the pool's time.
    pub fn release(&mut self, number: u32, now: u64) {
        self.release_until(0, number, now, now.saturating_add(self.shape.rest_ns));
    }

    /// Releases a port that was taken at the time `taken_ns` and that no entry got. It rests for a
    /// second at least.
    pub fn release_unused(&mut self, number: u32, taken_ns: u64) {
        let rest_ns = self.shape.rest_ns.max(UNUSED_REST_NS);
        self.release_until(1, number, taken_ns, taken_ns.saturating_add(rest_ns));
    }

    /// Releases a port that no packet has used, because another worker has added the session at the
    /// same time. It does not rest. `taken_ns`: when it was taken.
    pub fn give_back(&mut self, number: u32, taken_ns: u64) {
        self.release_until(0, number, taken_ns, taken_ns);
    }

    fn release_until(&mut self, queue: usize, number: u32, now: u64, end_ns: u64) {
        let Some((slot, space)) = self.find_slot(number) else { return };
        let [used, resting] = self.owned.ports_mut(slot, space);
        let bit = 1 << (number % BLOCK_PORTS);
        debug_assert!(*used & bit != 0, "port {number} is released twice");
        *used &= !bit;
        if end_ns > now {
            *resting |= bit;
            self.add_rest(queue, Rest { end_ns, number });
        }
        *self.ports_in_use_mut(self.owned.block(slot), space) -= 1;
        self.update_block(slot, space, now);
    }

    fn add_rest(&mut self, queue: usize, rest: Rest) {
        let rests = &mut self.rests[queue];
        // Times of workers differ a little.
        let behind = rests.iter().rev().take_while(|other| other.end_ns > rest.end_ns).count();
        rests.insert(rests.len() - behind, rest);
    }

    /// Returns slot and port space of a port whose block has an owner.
    fn find_slot(&self, number: u32) -> Option<(u32, u32)> {
        let (word, spaces) = (number / BLOCK_PORTS, self.shape.spaces);
        let (block, space) = (word / spaces, word % spaces);
        let address = self.addresses.get((block / ADDRESS_BLOCKS) as usize)?.as_ref()?;
        Some((address.slot(block % ADDRESS_BLOCKS)?, space))
    }

    /// Returns the port of a number that has an owner, its space, and its subscriber.
    pub fn describe(&self, number: u32) -> Option<OwnedPoolPort> {
        let (slot, space) = self.find_slot(number)?;
        let block = self.owned.block(slot);
        Some(OwnedPoolPort { port: pool_port(block, number), space, subscriber: self.owned.owner(slot) })
    }

    /// Returns the resting ports with the ends of their rests in nanoseconds.
    pub fn resting_ports(&self) -> impl Iterator<Item = (OwnedPoolPort, u64)> {
        let rests = self.rests.iter().flatten();
        rests.filter_map(|rest| Some((self.describe(rest.number)?, rest.end_ns)))
    }

    /// Takes a certain port for a subscriber, or with the end of its rest lets it rest. Returns its
    /// number; `None` if the port is not free, belongs to another subscriber's block, or is none of
    /// the pool.
    pub fn restore(
        &mut self,
        (address, port, space): (u32, u16, u32),
        subscriber: u32,
        rest_end_ns: Option<u64>,
    ) -> Option<u32> {
        let PoolShape { addresses, subscribers, spaces, .. } = self.shape;
        let is_valid = address < addresses && space < spaces && subscriber < subscribers;
        let port = u32::from(port).checked_sub(FIRST_PORT).filter(|_| is_valid)?;
        let (block, bit) = (address * ADDRESS_BLOCKS + port / BLOCK_PORTS, port % BLOCK_PORTS);
        let number = (block * spaces + space) * BLOCK_PORTS + bit;
        let slot = match self.find_slot(number) {
            Some((slot, _)) if self.owned.owner(slot) == subscriber => slot,
            Some(_) => return None,
            None => self.own_block(block, subscriber),
        };
        let [used, resting] = self.owned.ports_mut(slot, space);
        if (*used | *resting) >> bit & 1 != 0 {
            return None;
        }
        match rest_end_ns {
            None => {
                *used |= 1 << bit;
                *self.ports_in_use_mut(block, space) += 1;
            }
            Some(end_ns) => {
                *resting |= 1 << bit;
                self.add_rest(0, Rest { end_ns, number });
            }
        }
        Some(number)
    }

    /// Ends the rests that are over at the time `now` in nanoseconds.
    pub fn end_rests(&mut self, now: u64) {
        for queue in 0..self.rests.len() {
            while let Some(rest) = self.rests[queue].pop_front_if(|rest| rest.end_ns <= now) {
                let Some((slot, space)) = self.find_slot(rest.number) else { continue };
                let [_, resting] = self.owned.ports_mut(slot, space);
                *resting &= !(1 << (rest.number % BLOCK_PORTS));
                self.update_block(slot, space, now);
            }
        }
    }

    /// Notes that a port has been released or has rested at the time `now` in nanoseconds: its block is no
    /// longer full, or free.
    fn update_block(&mut self, slot: u32, space: u32, now: u64) {
        if !self.owned.note_free_port(slot, space) {
            return;
        }
        let (block, subscriber) = (self.owned.block(slot), self.owned.owner(slot));
        self.note_change(BlockChange { at_ns: now, block, subscriber, is_given: false });
        if let Some(Some(address)) = self.addresses.get_mut((block / ADDRESS_BLOCKS) as usize) {
            address.disown(block % ADDRESS_BLOCKS);
        }
        self.owned.remove(slot);
    }

    /// Begins or ends to note blocks that get an owner or lose it.
    pub fn report_changes(&mut self, is_on: bool) {
        match (is_on, &self.changes) {
            (true, None) => self.changes = Some(Box::default()),
            (true, Some(_)) => {}
            (false, _) => self.changes = None,
        }
    }

    /// Takes the oldest changes of owners, at most `limit`, and those that were lost after them.
    pub fn take_changes(&mut self, limit: usize) -> (Vec<BlockChange>, LostChanges) {
        self.changes.as_mut().map(|changes| changes.take(limit)).unwrap_or_default()
    }
}
