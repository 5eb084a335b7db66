//! `PortPool`: outside ports for address translation, given out in blocks
//! (`programs/include/terrace.p4`).
//!
//! This is the definition of which port a call takes. It looks for ports in the plainest way.

use crate::pool_control::{AddressUsage, BLOCK_PORTS, BlockChange, BlockChanges, LostChanges, PoolControl, PortBlock};
use crate::port_request::{PortPoolStatus, PortRequest};
use ir::ExternId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// First port of a pool. Lower ports are never given out, because servers listen there.
pub const FIRST_PORT: u32 = 1024;
/// Blocks of an address: ports 1024 to 65535.
pub const ADDRESS_BLOCKS: u32 = ((1 << 16) - FIRST_PORT) / BLOCK_PORTS;

/// Maximum number of changes of owners that wait for a log.
const MAX_WAITING_CHANGES: usize = 1 << 16;
/// Least rest of a port that no entry got, in nanoseconds.
const UNUSED_REST_NS: u64 = 1_000_000_000;

/// A port that was taken, until it is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortLease {
    /// Index of the pool among the extern objects.
    pub pool: usize,
    /// Number of the outside address.
    pub address: u32,
    /// The port.
    pub port: u16,
    /// Port space.
    pub space: u32,
    /// Time at which it was taken, in nanoseconds.
    pub taken_ns: u64,
}

/// A port of a pool, with the subscriber to which its block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedPort {
    /// The pool.
    pub pool: ExternId,
    /// Number of the outside address.
    pub address: u32,
    /// The port.
    pub port: u16,
    /// Port space.
    pub space: u32,
    /// Number of the subscriber.
    pub subscriber: u32,
}

/// A port that rests before it is given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestingPort {
    /// The port.
    pub port: OwnedPort,
    /// End of the rest in nanoseconds.
    pub end_ns: u64,
}

/// How much of a pool is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortUsage {
    /// Ports in use, without those that rest.
    pub ports: u64,
    /// Blocks with an owner.
    pub blocks: usize,
    /// Subscribers with a block.
    pub subscribers: usize,
}

/// Returns the number of the address of a block, and its first port.
fn block_ports(number: u32) -> (u32, u16) {
    (number / ADDRESS_BLOCKS, (FIRST_PORT + number % ADDRESS_BLOCKS * BLOCK_PORTS) as u16)
}

/// A block of ports that belongs to a subscriber.
#[derive(Clone, Debug)]
struct Block {
    owner: u32,
    /// Ports in use, a bit each, by space.
    used: Vec<u64>,
    /// Resting ports: space, bit, and the end of the rest in nanoseconds.
    resting: Vec<(u32, u32, u64)>,
}

impl Block {
    fn is_empty(&self) -> bool {
        self.resting.is_empty() && self.used.iter().all(|used| *used == 0)
    }

    fn is_free(&self, space: u32, bit: u32) -> bool {
        let rests = self.resting.iter().any(|(of_space, resting, _)| (*of_space, *resting) == (space, bit));
        self.used[space as usize] >> bit & 1 == 0 && !rests
    }

    /// Takes the first free port from bit `start` on, cyclically.
    fn take(&mut self, space: u32, start: u32) -> Option<u32> {
        let bit = (0..BLOCK_PORTS).map(|n| (start + n) % BLOCK_PORTS).find(|bit| self.is_free(space, *bit))?;
        self.used[space as usize] |= 1 << bit;
        Some(bit)
    }
}

/// The ports of a pool's addresses.
#[derive(Clone, Debug)]
pub struct PortPool {
    addresses: u32,
    subscribers: u32,
    spaces: u32,
    rest_ns: u64,
    /// Blocks with an owner, by number: the address times [`ADDRESS_BLOCKS`] plus the block.
    blocks: BTreeMap<u32, Block>,
    /// Number of blocks with an owner, by address: a full pool refuses without a search.
    address_blocks: Vec<u32>,
    /// Blocks of each subscriber that has one, in the order in which it got them.
    owned: BTreeMap<u32, Vec<u32>>,
    /// Ends of rests in nanoseconds, with the block.
    rest_ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// Calls without a free block and beyond the quota, by their first address.
    refused: BTreeMap<u32, [u64; 2]>,
    /// Changes of owners, if a log reads them, and those that were lost.
    changes: Option<(VecDeque<BlockChange>, LostChanges)>,
}

impl PortPool {
    /// Creates a pool whose ports are all free.
    pub fn new(addresses: u32, subscribers: u32, spaces: u32, rest_seconds: u32) -> PortPool {
        let addresses = addresses.min(u32::MAX / ADDRESS_BLOCKS);
        PortPool {
            addresses,
            address_blocks: vec![0; addresses as usize],
            subscribers,
            spaces,
            rest_ns: u64::from(rest_seconds) * 1_000_000_000,
            blocks: BTreeMap::new(),
            owned: BTreeMap::new(),
            rest_ends: BinaryHeap::new(),
            refused: BTreeMap::new(),
            changes: None,
        }
    }

    /// Takes a port at the time `now` in nanoseconds: one of the subscriber's blocks at the
    /// addresses of the request, else one of a new block. Returns address and port.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn take(&mut self, request: &PortRequest, now: u64) -> Result<(u32, u16), PortPoolStatus> {
        self.end_rests(now);
        let end = request.first_address.checked_add(request.address_count);
        let is_valid = end.is_some_and(|end| request.address_count != 0 && end <= self.addresses)
            && request.subscriber < self.subscribers
            && request.space < self.spaces;
        if !is_valid {
            return Err(PortPoolStatus::Invalid);
        }
        let addresses = request.first_address..request.first_address + request.address_count;
        let own = self.owned.get(&request.subscriber).cloned().unwrap_or_default();
        let usable: Vec<u32> =
            own.iter().copied().filter(|block| addresses.contains(&(block / ADDRESS_BLOCKS))).collect();
        if let Some(taken) = usable.iter().find_map(|block| self.take_of_block(*block, request)) {
            return Ok(taken);
        }
        if own.len() as u64 >= u64::from(request.max_blocks) {
            self.refused.entry(request.first_address).or_default()[1] += 1;
            return Err(PortPoolStatus::Quota);
        }
        let paired = usable.first().map(|block| block / ADDRESS_BLOCKS);
        let Some(block) = self.find_free_block(request, paired) else {
            self.refused.entry(request.first_address).or_default()[0] += 1;
            return Err(PortPoolStatus::Empty);
        };
        let used = vec![0; self.spaces as usize];
        self.address_blocks[(block / ADDRESS_BLOCKS) as usize] += 1;
        self.blocks.insert(block, Block { owner: request.subscriber, used, resting: Vec::new() });
        self.owned.entry(request.subscriber).or_default().push(block);
        self.note_change(block, request.subscriber, now, true);
        self.take_of_block(block, request).ok_or(PortPoolStatus::Empty)
    }

    /// Tells a log of a block that got an owner or lost it.
    fn note_change(&mut self, number: u32, subscriber: u32, at_ns: u64, is_given: bool) {
        let Some((waiting, lost)) = &mut self.changes else { return };
        if waiting.len() == MAX_WAITING_CHANGES {
            let first_ns = if lost.count == 0 { at_ns } else { lost.first_ns };
            *lost = LostChanges { count: lost.count + 1, first_ns, last_ns: at_ns };
            return;
        }
        let (address, first_port) = block_ports(number);
        waiting.push_back(BlockChange { at_ns, address, first_port, subscriber, is_given });
    }

    /// Releases all ports.
    pub fn clear(&mut self) {
        let is_noting = self.changes.is_some();
        self.blocks.clear();
        self.owned.clear();
        self.rest_ends.clear();
        self.refused.clear();
        self.address_blocks.fill(0);
        self.changes = is_noting.then(Default::default);
    }

    fn take_of_block(&mut self, number: u32, request: &PortRequest) -> Option<(u32, u16)> {
        let bit = self.blocks.get_mut(&number)?.take(request.space, request.hash % BLOCK_PORTS)?;
        let port = FIRST_PORT + number % ADDRESS_BLOCKS * BLOCK_PORTS + bit;
        Some((number / ADDRESS_BLOCKS, port as u16))
    }

    /// Returns a block without owner: of the subscriber's address if it has one (RFC 4787 section
    /// 4.1, "paired"), else of the first address that has one, from an address and a block that
    /// the hash chooses.
    fn find_free_block(&self, request: &PortRequest, paired: Option<u32>) -> Option<u32> {
        let chosen = request.hash / BLOCK_PORTS;
        let count = request.address_count;
        let in_range = (0..count).map(|n| request.first_address + (chosen % count + n) % count);
        let start = chosen / count % ADDRESS_BLOCKS;
        let mut usable = in_range.filter(|address| paired.is_none_or(|paired| paired == *address));
        let address = usable.find(|address| self.address_blocks[*address as usize] < ADDRESS_BLOCKS)?;
        let mut blocks = (0..ADDRESS_BLOCKS).map(|n| address * ADDRESS_BLOCKS + (start + n) % ADDRESS_BLOCKS);
        blocks.find(|block| !self.blocks.contains_key(block))
    }

    /// Releases the port of an entry that ends at the time `now` in nanoseconds. It rests before it
    /// is given out again (RFC 6888, REQ-8).
    pub fn release(&mut self, lease: &PortLease, now: u64) {
        self.release_until(lease, now, now.saturating_add(self.rest_ns));
    }

    /// Releases a port whose packet added no entry. It rests for a second at least, because another
    /// entry may have the key that contains the port: the next packet then takes another one.
    pub fn release_unused(&mut self, lease: &PortLease) {
        self.release_until(lease, lease.taken_ns, lease.taken_ns.saturating_add(self.rest_ns.max(UNUSED_REST_NS)));
    }

    fn release_until(&mut self, lease: &PortLease, now: u64, rest_end: u64) {
        let port = u32::from(lease.port) - FIRST_PORT;
        let (number, bit) = (lease.address * ADDRESS_BLOCKS + port / BLOCK_PORTS, port % BLOCK_PORTS);
        let Some(block) = self.blocks.get_mut(&number) else { return };
        block.used[lease.space as usize] &= !(1 << bit);
        if rest_end > now {
            block.resting.push((lease.space, bit, rest_end));
            self.rest_ends.push(Reverse((rest_end, number)));
        }
        self.free_if_empty(number, now);
    }

    /// Ends the rest of ports that is over at the time `now` in nanoseconds, and frees blocks of
    /// which no port is left in use.
    pub fn end_rests(&mut self, now: u64) {
        while let Some(Reverse((end, number))) = self.rest_ends.peek().copied().filter(|Reverse((end, _))| *end <= now)
        {
            self.rest_ends.pop();
            if let Some(block) = self.blocks.get_mut(&number) {
                block.resting.retain(|(_, _, rest_end)| *rest_end > end);
                self.free_if_empty(number, now);
            }
        }
    }

    fn free_if_empty(&mut self, number: u32, now: u64) {
        let Some(block) = self.blocks.get(&number).filter(|block| block.is_empty()) else { return };
        let owner = block.owner;
        self.note_change(number, owner, now, false);
        self.blocks.remove(&number);
        self.address_blocks[(number / ADDRESS_BLOCKS) as usize] -= 1;
        if let Some(own) = self.owned.get_mut(&owner) {
            own.retain(|block| *block != number);
            if own.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }

    /// Returns the subscriber to which the block of a port belongs.
    pub fn owner(&self, lease: &PortLease) -> Option<u32> {
        let port = u32::from(lease.port).checked_sub(FIRST_PORT)?;
        Some(self.blocks.get(&(lease.address * ADDRESS_BLOCKS + port / BLOCK_PORTS))?.owner)
    }

    /// Returns the resting ports of this pool, whose id is `pool`.
    pub fn resting_ports(&self, pool: ExternId) -> Vec<RestingPort> {
        let of_block = |(number, block): (&u32, &Block)| {
            let (number, subscriber) = (*number, block.owner);
            let port = move |(space, bit, end_ns): &(u32, u32, u64)| {
                let port = FIRST_PORT + number % ADDRESS_BLOCKS * BLOCK_PORTS + bit;
                let (address, port) = (number / ADDRESS_BLOCKS, port as u16);
                RestingPort { port: OwnedPort { pool, address, port, space: *space, subscriber }, end_ns: *end_ns }
            };
            block.resting.iter().map(port).collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(of_block).collect()
    }

    /// Takes a certain port for a subscriber, or with the end of its rest lets it rest. Returns
    /// false if the port is not free, belongs to another subscriber's block, or is none of the pool.
    pub fn restore(&mut self, port: &OwnedPort, rest_end_ns: Option<u64>) -> bool {
        let OwnedPort { address, port, space, subscriber, .. } = *port;
        let is_valid = address < self.addresses && space < self.spaces && subscriber < self.subscribers;
        let Some(port) = u32::from(port).checked_sub(FIRST_PORT).filter(|_| is_valid) else { return false };
        let (number, bit) = (address * ADDRESS_BLOCKS + port / BLOCK_PORTS, port % BLOCK_PORTS);
        if let Some(block) = self.blocks.get(&number)
            && (block.owner != subscriber || !block.is_free(space, bit))
        {
            return false;
        }
        let spaces = self.spaces as usize;
        let block = self.blocks.entry(number).or_insert_with(|| {
            self.address_blocks[address as usize] += 1;
            self.owned.entry(subscriber).or_default().push(number);
            Block { owner: subscriber, used: vec![0; spaces], resting: Vec::new() }
        });
        match rest_end_ns {
            None => block.used[space as usize] |= 1 << bit,
            Some(end_ns) => {
                block.resting.push((space, bit, end_ns));
                self.rest_ends.push(Reverse((end_ns, number)));
            }
        }
        true
    }

    /// Returns how much of the pool is in use.
    pub fn usage(&self) -> PortUsage {
        let ports = self.blocks.values().flat_map(|block| &block.used).map(|used| u64::from(used.count_ones())).sum();
        PortUsage { ports, blocks: self.blocks.len(), subscribers: self.owned.len() }
    }
}

impl PoolControl for PortPool {
    fn usage_by_address(&self) -> Vec<AddressUsage> {
        let mut usage: BTreeMap<u32, AddressUsage> = BTreeMap::new();
        let unused =
            |address: u32| AddressUsage { address, ports: vec![0; self.spaces as usize], ..AddressUsage::default() };
        for (number, block) in &self.blocks {
            let address = number / ADDRESS_BLOCKS;
            let of_address = usage.entry(address).or_insert_with(|| unused(address));
            of_address.blocks += 1;
            of_address.ports.iter_mut().zip(&block.used).for_each(|(sum, used)| *sum += used.count_ones());
        }
        for (address, [empty, quota]) in &self.refused {
            let of_address = usage.entry(*address).or_insert_with(|| unused(*address));
            (of_address.refused_empty, of_address.refused_quota) = (*empty, *quota);
        }
        usage.into_values().collect()
    }

    fn blocks_from(&self, (address, first_port): (u32, u16), limit: usize) -> Vec<PortBlock> {
        let first =
            address.saturating_mul(ADDRESS_BLOCKS) + u32::from(first_port).saturating_sub(FIRST_PORT) / BLOCK_PORTS;
        let block = |(number, block): (&u32, &Block)| {
            let (address, first_port) = block_ports(*number);
            let resting = (0..self.spaces).map(|space| {
                let of_space = block.resting.iter().filter(|(resting, _, _)| *resting == space);
                of_space.fold(0, |bits, (_, bit, _)| bits | 1 << bit)
            });
            let (resting, used) = (resting.collect(), block.used.clone());
            PortBlock { address, first_port, subscriber: block.owner, used, resting }
        };
        self.blocks.range(first..).take(limit).map(block).collect()
    }

    fn preview(&mut self, request: &PortRequest, now: u64) -> Result<(u32, u16), PortPoolStatus> {
        self.end_rests(now);
        let (changes, refused) = (self.changes.take(), self.refused.clone());
        let taken = self.take(request, now);
        if let Ok((address, port)) = taken {
            let port = u32::from(port) - FIRST_PORT;
            let number = address * ADDRESS_BLOCKS + port / BLOCK_PORTS;
            if let Some(block) = self.blocks.get_mut(&number) {
                block.used[request.space as usize] &= !(1 << (port % BLOCK_PORTS));
            }
            self.free_if_empty(number, now);
        }
        (self.changes, self.refused) = (changes, refused);
        taken
    }

    fn report_changes(&mut self, is_on: bool) {
        self.changes = is_on.then(|| self.changes.take().unwrap_or_default());
    }

    fn take_changes(&mut self, limit: usize) -> BlockChanges {
        let Some((waiting, lost)) = &mut self.changes else { return BlockChanges::default() };
        let changes = waiting.drain(..limit.min(waiting.len())).collect();
        let lost = if waiting.is_empty() { std::mem::take(lost) } else { LostChanges::default() };
        BlockChanges { changes, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn request(subscriber: u32, hash: u32) -> PortRequest {
        PortRequest { first_address: 0, address_count: 2, subscriber, max_blocks: 2000, space: 0, hash }
    }

    fn lease((address, port): (u32, u16)) -> PortLease {
        PortLease { pool: 0, address, port, space: 0, taken_ns: 0 }
    }

    /// RFC 4787 section 4.1: all ports of an address are found, and no other address is used.
    #[test]
    fn all_ports_of_one_address() {
        let mut pool = PortPool::new(2, 2, 1, 0);
        let taken: Vec<(u32, u16)> =
            (0..64_512u32).map(|n| pool.take(&request(1, n.wrapping_mul(0x9e37_79b9)), 0).unwrap()).collect();
        let address = taken[0].0;
        let ports: BTreeSet<u16> = taken.iter().map(|(_, port)| *port).collect();
        assert!(taken.iter().all(|(of, _)| *of == address), "one address for all ports of a subscriber");
        assert_eq!((ports.len(), ports.first(), ports.last()), (64_512, Some(&1024), Some(&65_535)));
        assert_eq!(pool.take(&request(1, 0), 0), Err(PortPoolStatus::Empty));
        assert_ne!(pool.take(&request(0, address * 64), 0).unwrap().0, address, "another subscriber has the other");
        taken.iter().for_each(|port| pool.release(&lease(*port), 0));
        assert_eq!((pool.usage().ports, pool.usage().blocks), (1, 1));
    }

    #[test]
    fn quota_spaces_and_invalid_requests() {
        let mut pool = PortPool::new(1, 4, 2, 0);
        let one_block = PortRequest { address_count: 1, max_blocks: 1, ..request(3, 77) };
        let ports: Vec<_> = (0..64).map(|_| pool.take(&one_block, 0).unwrap()).collect();
        assert_eq!(ports[0].1 % 64, 77 % 64);
        assert_eq!(pool.take(&one_block, 0), Err(PortPoolStatus::Quota));
        let other_space = PortRequest { space: 1, ..one_block };
        assert_eq!(pool.take(&other_space, 0), Ok(ports[0]), "the same block serves each space");
        for invalid in [
            PortRequest { address_count: 2, ..one_block },
            PortRequest { address_count: 0, ..one_block },
            PortRequest { first_address: u32::MAX, ..one_block },
            PortRequest { subscriber: 4, ..one_block },
            PortRequest { space: 2, ..one_block },
        ] {
            assert_eq!(pool.take(&invalid, 0), Err(PortPoolStatus::Invalid), "{invalid:?}");
        }
    }

    /// RFC 6888, REQ-8: a released port rests; its block stays with its subscriber.
    #[test]
    fn rest() {
        const SECOND: u64 = 1_000_000_000;
        let mut pool = PortPool::new(1, 2, 1, 120);
        let own = PortRequest { address_count: 1, ..request(0, 5) };
        let first = pool.take(&own, 0).unwrap();
        pool.release(&lease(first), SECOND);
        let second = pool.take(&own, 121 * SECOND - 1).unwrap();
        assert_ne!(first, second);
        assert_eq!((pool.usage().ports, pool.usage().blocks), (1, 1));
        assert_eq!(pool.take(&own, 121 * SECOND), Ok(first));
        [first, second].iter().for_each(|port| pool.release(&lease(*port), 121 * SECOND));
        assert_eq!((pool.usage().ports, pool.usage().blocks), (0, 1), "the block of resting ports");
        assert_eq!(pool.take(&request(1, 0), 241 * SECOND), Err(PortPoolStatus::Invalid));
        assert_eq!((pool.usage().ports, pool.usage().blocks), (0, 0));
    }

    /// A port whose packet added no entry is not the next one to be taken.
    #[test]
    fn unused_port_rests() {
        const SECOND: u64 = 1_000_000_000;
        let mut pool = PortPool::new(1, 2, 1, 0);
        let own = PortRequest { address_count: 1, ..request(0, 5) };
        let first = pool.take(&own, 0).unwrap();
        pool.release_unused(&lease(first));
        let second = pool.take(&own, SECOND - 1).unwrap();
        assert_ne!(second, first);
        pool.release(&lease(second), SECOND);
        assert_eq!(pool.take(&own, SECOND), Ok(first));
    }
}
