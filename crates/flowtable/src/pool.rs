//! Pools of ports for address translation: which outside address and port a session uses.
//!
//! Ports come in blocks of 64, the bits of a word. A block belongs to one subscriber (an inside
//! address). A subscriber's blocks are of one outside address ("paired", RFC 4787 section 4.1),
//! and their number is limited. A port that was released rests before it is given out again (RFC
//! 6888, REQ-8). Each port and block is a bit that one compare-and-swap wins, so that limits are
//! exact for all workers at once, and no search is a guess: a port is found as long as one is
//! free.

use crate::word::Padded;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// Ports of a block.
pub const BLOCK_PORTS: u32 = 64;
/// Words of resting ports: of the current period, the one before, and the one that is cleared.
const RESTING: usize = 3;
/// A slot of a subscriber whose block is being chosen.
const CHOOSING: u32 = u32::MAX;

/// Properties of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolShape {
    /// Number of outside addresses.
    pub addresses: u32,
    /// First port; a multiple of 64.
    pub first_port: u16,
    /// Blocks of 64 ports of each address.
    pub blocks: u32,
    /// Number of subscribers; they have the numbers from 0 on.
    pub subscribers: u32,
    /// Maximum number of blocks of a subscriber.
    pub quota_blocks: u32,
    /// Blocks that are kept for subscribers without a block.
    pub reserved_blocks: u32,
    /// Ticks that a released port rests at least, and at most twice as long; 0: not at all.
    pub hold_ticks: u32,
    /// Ports that are never given out, at no address.
    pub excluded_ports: Vec<u16>,
}

/// A port of an address of the pool. It must be released once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// Number of the address, from 0 on.
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
    /// The free blocks are kept for subscribers without a block.
    #[error("the last free blocks are kept for subscribers without one: add an address to the pool")]
    Reserved,
}

/// The ports of one block.
struct Block {
    used: AtomicU64,
    resting: [AtomicU64; RESTING],
    /// The subscriber's number plus 1, or 0.
    owner: AtomicU32,
}

/// The blocks of one subscriber.
struct Subscriber {
    /// The address's number plus 1, or 0 if it has no block.
    address: AtomicU32,
    /// Block numbers plus 1; 0: none.
    blocks: Box<[AtomicU32]>,
}

/// A pool of ports that all workers share.
pub struct PortPool {
    shape: PoolShape,
    blocks: Box<[Block]>,
    /// Blocks without owner, a bit each; the words of one address follow each other.
    free: Box<[AtomicU64]>,
    free_blocks: Padded<AtomicU32>,
    subscribers: Box<[Subscriber]>,
    /// Bits of excluded ports, by block of an address.
    excluded: Box<[u64]>,
    /// Where the next part of the sweep begins.
    cursor: AtomicU32,
    is_sweeping: AtomicBool,
    /// Odd while a block is taken from its subscriber.
    freeing: Padded<AtomicU64>,
}

impl PortPool {
    /// Creates a pool whose ports are all free.
    ///
    /// # Panics
    /// Panics if the ports of an address do not fit 16 bits or a number is 0.
    pub fn new(shape: PoolShape) -> PortPool {
        let last_port = u32::from(shape.first_port) + shape.blocks * BLOCK_PORTS;
        assert!(last_port <= 1 << 16 && u32::from(shape.first_port).is_multiple_of(BLOCK_PORTS), "ports of 16 bits");
        assert!(shape.addresses != 0 && shape.blocks != 0 && shape.quota_blocks != 0, "a pool of nothing");
        let mut excluded = vec![0; shape.blocks as usize];
        for port in shape.excluded_ports.iter().filter_map(|port| port.checked_sub(shape.first_port)) {
            if let Some(word) = excluded.get_mut(usize::from(port) / 64) {
                *word |= 1 << (port % 64);
            }
        }
        let zeros = || [0; RESTING].map(AtomicU64::new);
        let block = |n: u32| Block {
            used: AtomicU64::new(excluded[(n % shape.blocks) as usize]),
            resting: zeros(),
            owner: AtomicU32::new(0),
        };
        let words = shape.blocks.div_ceil(64);
        let free_word = |n: u32| {
            let left = shape.blocks - n % words * 64;
            AtomicU64::new(if left >= 64 { u64::MAX } else { (1 << left) - 1 })
        };
        let subscriber = |_| Subscriber {
            address: AtomicU32::new(0),
            blocks: (0..shape.quota_blocks).map(|_| AtomicU32::new(0)).collect(),
        };
        PortPool {
            blocks: (0..shape.addresses * shape.blocks).map(block).collect(),
            free: (0..shape.addresses * words).map(free_word).collect(),
            free_blocks: Padded(AtomicU32::new(shape.addresses * shape.blocks)),
            subscribers: (0..shape.subscribers).map(subscriber).collect(),
            excluded: excluded.into(),
            cursor: AtomicU32::new(0),
            is_sweeping: AtomicBool::new(false),
            freeing: Padded::default(),
            shape,
        }
    }

    /// Takes a port for a subscriber: a free one of its blocks, searched from a place that `hash`
    /// chooses, else one of a new block.
    ///
    /// # Panics
    /// Panics if there is no such subscriber.
    pub fn take(&self, subscriber: u32, hash: u32) -> Result<Lease, PoolRefusal> {
        loop {
            let freeing = self.freeing.0.load(Acquire);
            match self.try_take(subscriber, hash) {
                Some(Ok(lease)) => return Ok(lease),
                // A refusal counts only if no block of the subscriber was taken from it meanwhile:
                // until that ends, the ports of the block seem to be in use.
                Some(Err(refusal)) if freeing & 1 == 0 && self.freeing.0.load(Acquire) == freeing => {
                    return Err(refusal);
                }
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Takes a port, or says why there is none; `None` if another worker is about to get a block
    /// for the subscriber.
    fn try_take(&self, subscriber: u32, hash: u32) -> Option<Result<Lease, PoolRefusal>> {
        let own = &self.subscribers[subscriber as usize];
        let (mut is_choosing, mut vacant) = (false, None);
        for slot in &own.blocks {
            match slot.load(Acquire) {
                0 => vacant = vacant.or(Some(slot)),
                CHOOSING => is_choosing = true,
                number => {
                    if let Some(lease) = self.take_of_block(number - 1, subscriber, hash) {
                        return Some(Ok(lease));
                    }
                }
            }
        }
        if is_choosing {
            return None;
        }
        let Some(vacant) = vacant else { return Some(Err(PoolRefusal::Quota)) };
        vacant.compare_exchange(0, CHOOSING, AcqRel, Acquire).ok()?;
        let chosen = self.choose_block(own, subscriber, hash);
        vacant.store(chosen.map_or(0, |number| number + 1), Release);
        match chosen {
            Ok(number) => self.take_of_block(number, subscriber, hash).map(Ok),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    /// Takes a free port of a block, if the subscriber has the block.
    fn take_of_block(&self, number: u32, subscriber: u32, hash: u32) -> Option<Lease> {
        let block = &self.blocks[number as usize];
        let start = hash % BLOCK_PORTS;
        loop {
            // In this order, because a release lets a port rest before it is no longer used.
            let used = block.used.load(Acquire);
            let free = !(used | block.resting());
            if free == 0 {
                return None;
            }
            let bit = (free.rotate_right(start).trailing_zeros() + start) % BLOCK_PORTS;
            if block.used.compare_exchange(used, used | 1 << bit, AcqRel, Acquire).is_err() {
                continue;
            }
            if block.owner.load(Acquire) != subscriber + 1 {
                // The block was taken from the subscriber meanwhile.
                block.used.fetch_and(!(1 << bit), AcqRel);
                return None;
            }
            if block.resting() >> bit & 1 != 0 {
                // Taken and released by another worker between the two looks.
                block.used.fetch_and(!(1 << bit), AcqRel);
                continue;
            }
            let (address, in_address) = (number / self.shape.blocks, number % self.shape.blocks);
            let port = u32::from(self.shape.first_port) + in_address * BLOCK_PORTS + bit;
            return Some(Lease { address, port: port as u16 });
        }
    }

    /// Returns a free block of the subscriber's address, or of any if it has none, and makes it
    /// the subscriber's.
    fn choose_block(&self, own: &Subscriber, subscriber: u32, hash: u32) -> Result<u32, PoolRefusal> {
        loop {
            let paired = own.address.load(Acquire);
            if paired != 0 && self.free_blocks.0.load(Acquire) <= self.shape.reserved_blocks {
                return Err(PoolRefusal::Reserved);
            }
            let count = if paired == 0 { self.shape.addresses } else { 1 };
            let start = if paired == 0 { hash / BLOCK_PORTS % self.shape.addresses } else { paired - 1 };
            let addresses = (0..count).map(|n| (start + n) % self.shape.addresses);
            let found = addresses.into_iter().find_map(|address| self.take_free_block(address, hash));
            let number = found.ok_or(PoolRefusal::Empty)?;
            let address = number / self.shape.blocks + 1;
            let before = own.address.compare_exchange(0, address, AcqRel, Acquire);
            if before.is_ok() || before == Err(address) {
                self.blocks[number as usize].owner.store(subscriber + 1, Release);
                return Ok(number);
            }
            // Another worker has chosen another address for the subscriber.
            self.give_free_block(number);
        }
    }

    fn words_per_address(&self) -> u32 {
        self.shape.blocks.div_ceil(64)
    }

    /// Takes a block without owner of an address.
    fn take_free_block(&self, address: u32, hash: u32) -> Option<u32> {
        let words = self.words_per_address();
        let start = hash % words;
        for n in (0..words).map(|n| (start + n) % words) {
            let word = &self.free[(address * words + n) as usize];
            let lowest = |free: u64| (free != 0).then(|| free & (free - 1));
            if let Ok(free) = word.fetch_update(AcqRel, Acquire, lowest) {
                self.free_blocks.0.fetch_sub(1, AcqRel);
                return Some(address * self.shape.blocks + n * 64 + free.trailing_zeros());
            }
        }
        None
    }

    fn give_free_block(&self, number: u32) {
        let (address, in_address) = (number / self.shape.blocks, number % self.shape.blocks);
        self.free_blocks.0.fetch_add(1, AcqRel);
        let word = address * self.words_per_address() + in_address / 64;
        self.free[word as usize].fetch_or(1 << (in_address % 64), AcqRel);
    }

    /// Gives a port back at tick `now`. It rests for the pool's hold time.
    pub fn release(&self, lease: Lease, now: u32) {
        let port = u32::from(lease.port - self.shape.first_port);
        let block = &self.blocks[(lease.address * self.shape.blocks + port / BLOCK_PORTS) as usize];
        let bit = 1 << (port % BLOCK_PORTS);
        if self.shape.hold_ticks != 0 {
            block.resting[self.period(now)].fetch_or(bit, AcqRel);
        }
        let before = block.used.fetch_and(!bit, AcqRel);
        debug_assert!(before & bit != 0, "{lease:?} was released twice");
    }

    /// Returns which word has the ports that are released at a tick.
    fn period(&self, now: u32) -> usize {
        (now / self.shape.hold_ticks.max(1)) as usize % RESTING
    }

    /// Ends the rest of ports that have rested long enough, and takes blocks without a port in
    /// use from their subscribers, among `budget` blocks. It must get round at least once in each
    /// hold time. Returns how many blocks became free.
    ///
    /// One member sweeps at a time; a call during another does nothing.
    pub fn sweep(&self, budget: u32, now: u32) -> u32 {
        if self.is_sweeping.swap(true, Acquire) {
            return 0;
        }
        let count = self.sweep_exclusively(budget, now);
        self.is_sweeping.store(false, Release);
        count
    }

    fn sweep_exclusively(&self, budget: u32, now: u32) -> u32 {
        let count = self.blocks.len() as u32;
        let first = self.cursor.load(Relaxed);
        let budget = budget.min(count);
        self.cursor.store((first + budget) % count, Relaxed);
        let oldest = (self.period(now) + 1) % RESTING;
        let numbers = (0..budget).map(|n| (first + n) % count);
        numbers
            .filter(|number| {
                let block = &self.blocks[*number as usize];
                if block.resting[oldest].load(Relaxed) != 0 {
                    block.resting[oldest].store(0, Release);
                }
                self.free_if_empty(*number)
            })
            .count() as u32
    }

    /// Takes a block without a used or resting port from its subscriber.
    fn free_if_empty(&self, number: u32) -> bool {
        let block = &self.blocks[number as usize];
        let empty = self.excluded[(number % self.shape.blocks) as usize];
        let owner = block.owner.load(Acquire);
        if owner == 0 || block.resting() != 0 || block.used.load(Relaxed) != empty {
            return false;
        }
        self.freeing.0.fetch_add(1, AcqRel);
        // With all bits set, no worker takes a port of it.
        let mut is_freed = block.used.compare_exchange(empty, u64::MAX, AcqRel, Acquire).is_ok();
        if is_freed {
            let own = &self.subscribers[owner as usize - 1];
            // A block that its subscriber is about to get has an owner, but no slot yet.
            let is_choosing = own.blocks.iter().any(|slot| slot.load(Acquire) == CHOOSING);
            is_freed = block.resting() == 0 && !is_choosing;
            if is_freed {
                block.owner.store(0, Release);
                self.forget_block(own, number);
            }
            block.used.store(empty, Release);
            if is_freed {
                self.give_free_block(number);
            }
        }
        self.freeing.0.fetch_add(1, AcqRel);
        is_freed
    }

    /// Takes a block out of its subscriber's slots, and with the last one the address.
    fn forget_block(&self, own: &Subscriber, number: u32) {
        for slot in &own.blocks {
            let _ = slot.compare_exchange(number + 1, 0, AcqRel, Acquire);
        }
        // While the first slot is taken, no worker gets a block of the old address.
        let is_last = own.blocks.iter().all(|slot| slot.load(Acquire) == 0);
        if is_last && own.blocks[0].compare_exchange(0, CHOOSING, AcqRel, Acquire).is_ok() {
            if own.blocks[1..].iter().all(|slot| slot.load(Acquire) == 0) {
                own.address.store(0, Release);
            }
            own.blocks[0].store(0, Release);
        }
    }

    /// Returns how many blocks have no owner.
    pub fn free_blocks(&self) -> u32 {
        self.free_blocks.0.load(Acquire)
    }

    /// Returns how many ports a subscriber uses.
    pub fn used_ports(&self, subscriber: u32) -> u32 {
        let numbers = self.subscribers[subscriber as usize].blocks.iter().map(|slot| slot.load(Acquire));
        let used = |number: u32| {
            let number = number as usize - 1;
            let excluded = self.excluded[number % self.excluded.len()];
            (self.blocks[number].used.load(Acquire) & !excluded).count_ones()
        };
        numbers.filter(|number| *number != 0 && *number != CHOOSING).map(used).sum()
    }
}

impl Block {
    fn resting(&self) -> u64 {
        self.resting.iter().fold(0, |all, word| all | word.load(Acquire))
    }
}
