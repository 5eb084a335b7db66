//! The blocks of one outside address.

/// First port of a pool. Lower ports are never given out, because servers listen there.
pub(super) const FIRST_PORT: u32 = 1024;
/// Ports of a block.
pub(super) const BLOCK_PORTS: u32 = 64;
/// Blocks of an address: ports 1024 to 65535.
pub(super) const ADDRESS_BLOCKS: u32 = ((1 << 16) - FIRST_PORT) / BLOCK_PORTS;
/// Words of a bit for each block of an address.
const BLOCK_WORDS: usize = ADDRESS_BLOCKS.div_ceil(64) as usize;
/// The bits of the last of these words.
const LAST_WORD: u64 = u64::MAX >> (BLOCK_WORDS as u32 * 64 - ADDRESS_BLOCKS);

/// The blocks of an address: which have an owner, and where [`super::owned_blocks`] has them.
pub(super) struct Address {
    /// Blocks without owner, a bit each.
    free: [u64; BLOCK_WORDS],
    /// Number of blocks with an owner.
    owned: u32,
    /// Slot of each block with an owner.
    slots: Box<[u32]>,
}

impl Address {
    /// Creates an address without owners.
    pub fn new() -> Address {
        let mut free = [u64::MAX; BLOCK_WORDS];
        free[BLOCK_WORDS - 1] = LAST_WORD;
        Address { free, owned: 0, slots: vec![0; ADDRESS_BLOCKS as usize].into() }
    }

    /// Returns the first free block from `start` on, cyclically.
    pub fn find_free(&self, start: u32) -> Option<u32> {
        if self.owned == ADDRESS_BLOCKS {
            return None;
        }
        let (first, bit) = ((start / 64) as usize, start % 64);
        let upper = self.free[first] & (u64::MAX << bit);
        let later = (1..=BLOCK_WORDS).map(|n| {
            let word = (first + n) % BLOCK_WORDS;
            (word, self.free[word])
        });
        let mut words = std::iter::once((first, upper)).chain(later);
        words.find(|(_, free)| *free != 0).map(|(word, free)| word as u32 * 64 + free.trailing_zeros())
    }

    /// Returns the slot of a block with an owner.
    pub fn slot(&self, block: u32) -> Option<u32> {
        let is_free = self.free[(block / 64) as usize] >> (block % 64) & 1 != 0;
        (!is_free).then(|| self.slots[block as usize])
    }

    /// Returns the first block with an owner from `start` on.
    pub fn find_owned(&self, start: u32) -> Option<u32> {
        let (first, bit) = ((start / 64) as usize, start % 64);
        let owned = |word: usize| {
            let from = if word == first { u64::MAX << bit } else { u64::MAX };
            // The bits behind the last block are not set in `free`, either.
            let valid = if word == BLOCK_WORDS - 1 { LAST_WORD } else { u64::MAX };
            (word, !self.free[word] & from & valid)
        };
        let mut words = (first..BLOCK_WORDS).map(owned);
        words.find(|(_, owned)| *owned != 0).map(|(word, owned)| word as u32 * 64 + owned.trailing_zeros())
    }

    /// Returns how many blocks have an owner.
    pub fn owned(&self) -> u32 {
        self.owned
    }

    /// Notes that a free block has an owner.
    pub fn own(&mut self, block: u32, slot: u32) {
        self.free[(block / 64) as usize] &= !(1 << (block % 64));
        self.owned += 1;
        self.slots[block as usize] = slot;
    }

    /// Notes that a block has no owner any more.
    pub fn disown(&mut self, block: u32) {
        self.free[(block / 64) as usize] |= 1 << (block % 64);
        self.owned -= 1;
    }
}
