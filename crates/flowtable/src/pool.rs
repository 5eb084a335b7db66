//! Pools of ports for address translation: which outside address and port a session uses.
//!
//! Ports come in blocks of 64, the bits of a word. A block belongs to one subscriber (an inside
//! address), for all port spaces. A subscriber's blocks are of one outside address ("paired",
//! RFC 4787 section 4.1), and their number is limited. A port that was released rests before it is
//! given out again (RFC 6888, REQ-8).
//!
//! The pool gives out the same ports as the interpreter's, which is the definition. Finding one
//! costs the same however many are in use.

use std::collections::{HashMap, VecDeque};

/// First port of a pool. Lower ports are never given out, because servers listen there.
const FIRST_PORT: u32 = 1024;
/// Ports of a block.
const BLOCK_PORTS: u32 = 64;
/// Blocks of an address: ports 1024 to 65535.
const ADDRESS_BLOCKS: u32 = ((1 << 16) - FIRST_PORT) / BLOCK_PORTS;
/// Words of a bit for each block of an address.
const BLOCK_WORDS: usize = ADDRESS_BLOCKS.div_ceil(64) as usize;
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

/// The blocks of one address.
struct Address {
    /// Blocks without owner, a bit each.
    free: [u64; BLOCK_WORDS],
    /// Number of blocks with an owner.
    owned: u32,
    /// Owner of each block.
    owners: Box<[u32]>,
    /// Ports in use and resting ports: a word each for block and space.
    ports: Box<[[u64; 2]]>,
}

impl Address {
    fn new(spaces: u32) -> Address {
        let mut free = [u64::MAX; BLOCK_WORDS];
        free[BLOCK_WORDS - 1] = u64::MAX >> (BLOCK_WORDS as u32 * 64 - ADDRESS_BLOCKS);
        let (blocks, words) = (ADDRESS_BLOCKS as usize, (ADDRESS_BLOCKS * spaces) as usize);
        Address { free, owned: 0, owners: vec![0; blocks].into(), ports: vec![[0; 2]; words].into() }
    }

    /// Returns the first free block from `start` on, cyclically.
    fn find_free(&self, start: u32) -> Option<u32> {
        let (first, bit) = ((start / 64) as usize, start % 64);
        let upper = self.free[first] & (u64::MAX << bit);
        let later = (1..=BLOCK_WORDS).map(|n| {
            let word = (first + n) % BLOCK_WORDS;
            (word, self.free[word])
        });
        let mut words = std::iter::once((first, upper)).chain(later);
        words.find(|(_, free)| *free != 0).map(|(word, free)| word as u32 * 64 + free.trailing_zeros())
    }
}

/// The blocks of a subscriber, in the order in which it got them.
struct Subscriber {
    blocks: Vec<u32>,
    /// For each space the position before which all blocks are full.
    first_free: Box<[u32]>,
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
    subscribers: HashMap<u32, Subscriber>,
    /// Rests of released ports, and of ports that no entry got, by their end.
    rests: [VecDeque<Rest>; 2],
    ports_in_use: u64,
    blocks_in_use: usize,
}

impl PortPool {
    /// Creates a pool whose ports are all free.
    pub fn new(shape: PoolShape) -> PortPool {
        let addresses = shape.addresses.min(u32::MAX / ADDRESS_BLOCKS);
        PortPool {
            shape: PoolShape { addresses, ..shape },
            addresses: (0..addresses).map(|_| None).collect(),
            subscribers: HashMap::new(),
            rests: Default::default(),
            ports_in_use: 0,
            blocks_in_use: 0,
        }
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
        if let Some(block) = self.find_own_block(request) {
            return Ok(self.take_of_block(block, request));
        }
        let addresses = request.first_address..request.first_address + request.address_count;
        let own = self.subscribers.get(&request.subscriber).map_or(&[][..], |own| &own.blocks);
        if own.len() as u64 >= u64::from(request.max_blocks) {
            return Err(PoolRefusal::Quota);
        }
        let paired = own.iter().map(|block| block / ADDRESS_BLOCKS).find(|address| addresses.contains(address));
        let block = self.find_free_block(request, paired).ok_or(PoolRefusal::Empty)?;
        self.own_block(block, request.subscriber);
        Ok(self.take_of_block(block, request))
    }

    /// Returns the first of the subscriber's blocks at the request's addresses with a free port.
    fn find_own_block(&mut self, request: &PoolRequest) -> Option<u32> {
        let own = self.subscribers.get_mut(&request.subscriber)?;
        let addresses = request.first_address..request.first_address + request.address_count;
        let first_free = &mut own.first_free[request.space as usize];
        for position in *first_free as usize..own.blocks.len() {
            let block = own.blocks[position];
            let address = self.addresses[(block / ADDRESS_BLOCKS) as usize].as_ref()?;
            let [used, resting] = address.ports[(block % ADDRESS_BLOCKS * self.shape.spaces + request.space) as usize];
            if used | resting == u64::MAX {
                // Blocks before it are full, too, as long as none was passed over.
                *first_free += u32::from(*first_free as usize == position);
            } else if addresses.contains(&(block / ADDRESS_BLOCKS)) {
                return Some(block);
            }
        }
        None
    }

    /// Returns a block without owner: of the subscriber's address if it has one, else of the first
    /// address that has one, from an address and a block that the hash chooses.
    fn find_free_block(&self, request: &PoolRequest, paired: Option<u32>) -> Option<u32> {
        let (chosen, count) = (request.hash / BLOCK_PORTS, request.address_count);
        let start = chosen / count % ADDRESS_BLOCKS;
        let block_of = |address: u32| {
            let block = match &self.addresses[address as usize] {
                None => Some(start),
                Some(blocks) if blocks.owned == ADDRESS_BLOCKS => None,
                Some(blocks) => blocks.find_free(start),
            };
            block.map(|block| address * ADDRESS_BLOCKS + block)
        };
        match paired {
            Some(address) => block_of(address),
            None => (0..count).find_map(|n| block_of(request.first_address + (chosen % count + n) % count)),
        }
    }

    /// Gives a block without owner to a subscriber.
    fn own_block(&mut self, block: u32, subscriber: u32) {
        let spaces = self.shape.spaces;
        let address = &mut self.addresses[(block / ADDRESS_BLOCKS) as usize];
        let blocks = address.get_or_insert_with(|| Box::new(Address::new(spaces)));
        let in_address = block % ADDRESS_BLOCKS;
        blocks.free[(in_address / 64) as usize] &= !(1 << (in_address % 64));
        blocks.owned += 1;
        blocks.owners[in_address as usize] = subscriber;
        self.blocks_in_use += 1;
        let new = || Subscriber { blocks: Vec::new(), first_free: vec![0; spaces as usize].into() };
        self.subscribers.entry(subscriber).or_insert_with(new).blocks.push(block);
    }

    /// Takes the first free port of a block that has one, from the bit on that the hash chooses.
    fn take_of_block(&mut self, block: u32, request: &PoolRequest) -> PoolPort {
        let word = block % ADDRESS_BLOCKS * self.shape.spaces + request.space;
        let mut bit = 0;
        if let Some(address) = &mut self.addresses[(block / ADDRESS_BLOCKS) as usize] {
            let [used, resting] = &mut address.ports[word as usize];
            let start = request.hash % BLOCK_PORTS;
            bit = ((!(*used | *resting)).rotate_right(start).trailing_zeros() + start) % BLOCK_PORTS;
            *used |= 1 << bit;
        }
        self.ports_in_use += 1;
        PoolPort {
            number: (block * self.shape.spaces + request.space) * BLOCK_PORTS + bit,
            address: block / ADDRESS_BLOCKS,
            port: (FIRST_PORT + block % ADDRESS_BLOCKS * BLOCK_PORTS + bit) as u16,
        }
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
    /// same time. It does not rest.
    pub fn give_back(&mut self, number: u32) {
        self.release_until(0, number, 0, 0);
    }

    fn release_until(&mut self, queue: usize, number: u32, now: u64, end_ns: u64) {
        let Some([used, resting]) = self.port_words(number) else { return };
        let bit = 1 << (number % BLOCK_PORTS);
        debug_assert!(*used & bit != 0, "port {number} is released twice");
        *used &= !bit;
        if end_ns > now {
            *resting |= bit;
            let rests = &mut self.rests[queue];
            // Times of workers differ a little.
            let behind = rests.iter().rev().take_while(|rest| rest.end_ns > end_ns).count();
            rests.insert(rests.len() - behind, Rest { end_ns, number });
        }
        self.ports_in_use -= 1;
        self.update_block(number);
    }

    fn port_words(&mut self, number: u32) -> Option<&mut [u64; 2]> {
        let (word, words) = (number / BLOCK_PORTS, ADDRESS_BLOCKS * self.shape.spaces);
        self.addresses.get_mut((word / words) as usize)?.as_mut()?.ports.get_mut((word % words) as usize)
    }

    /// Ends the rests that are over at the time `now` in nanoseconds.
    pub fn end_rests(&mut self, now: u64) {
        for queue in 0..self.rests.len() {
            while let Some(rest) = self.rests[queue].pop_front_if(|rest| rest.end_ns <= now) {
                if let Some([_, resting]) = self.port_words(rest.number) {
                    *resting &= !(1 << (rest.number % BLOCK_PORTS));
                }
                self.update_block(rest.number);
            }
        }
    }

    /// Notes that a port has been released or has rested: its block is no longer full, or free.
    fn update_block(&mut self, number: u32) {
        let spaces = self.shape.spaces;
        let (space, block) = (number / BLOCK_PORTS % spaces, number / BLOCK_PORTS / spaces);
        let Some(Some(address)) = self.addresses.get_mut((block / ADDRESS_BLOCKS) as usize) else { return };
        let in_address = block % ADDRESS_BLOCKS;
        let words = (in_address * spaces) as usize..((in_address + 1) * spaces) as usize;
        let is_empty = address.ports[words].iter().all(|[used, resting]| used | resting == 0);
        let owner = address.owners[in_address as usize];
        let Some(own) = self.subscribers.get_mut(&owner) else { return };
        let Some(position) = own.blocks.iter().position(|own| *own == block) else { return };
        if !is_empty {
            let first_free = &mut own.first_free[space as usize];
            *first_free = (*first_free).min(position as u32);
            return;
        }
        own.blocks.remove(position);
        for first_free in own.first_free.iter_mut().filter(|first| **first as usize > position) {
            *first_free -= 1;
        }
        if own.blocks.is_empty() {
            self.subscribers.remove(&owner);
        }
        address.free[(in_address / 64) as usize] |= 1 << (in_address % 64);
        address.owned -= 1;
        self.blocks_in_use -= 1;
    }

    /// Returns how much of the pool is in use.
    pub fn usage(&self) -> PoolUsage {
        PoolUsage { ports: self.ports_in_use, blocks: self.blocks_in_use, subscribers: self.subscribers.len() }
    }
}
