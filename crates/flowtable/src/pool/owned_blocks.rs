//! The blocks of ports that have an owner, as a list for each subscriber.
//!
//! A packet that takes a port touches two cache lines in the common case: the subscriber's, which
//! leads to the first block with a free port, and that block's. Memory is reserved for all
//! subscribers and blocks at once, and nothing is moved while the pool is locked.
#![allow(unsafe_code)]

use crate::ShapeError;
use crate::area::Area;

/// No slot. Slots are numbered from 1 on, so that zeroed memory has none.
const NONE: u32 = 0;
/// Bytes of the parts of a block before its ports.
const HEADER_BYTES: usize = size_of::<Header>();

/// A block in the list of its owner. Its ports follow: [`PortWords`] for each port space.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    /// Number of the block among those of all addresses.
    block: u32,
    /// Subscriber.
    owner: u32,
    /// Slot of the subscriber's next block.
    next: u32,
    /// Position in the subscriber's list, from 0 on.
    position: u32,
}

/// Ports of a block in one port space: those in use, and those that rest, a bit each.
pub(super) type PortWords = [u64; 2];

/// Blocks with an owner, in slots that are used again.
pub(super) struct OwnedBlocks {
    spaces: usize,
    /// For each subscriber the slots of its first and its last block, and for each space the slot
    /// before which all blocks are full.
    lists: Area,
    /// Blocks by slot.
    blocks: Area,
    /// Bytes from one block to the next: whole cache lines.
    stride: usize,
    max_blocks: u32,
    /// Greatest slot that was ever used.
    last_slot: u32,
    free_slots: Vec<u32>,
    subscribers: usize,
}

/// Position of the slot of a subscriber's first block among its numbers.
const FIRST: usize = 0;
/// Position of the slot of its last block.
const LAST: usize = 1;
/// Position of the first slot of a port space.
const SPACES: usize = 2;

impl OwnedBlocks {
    /// Creates lists for subscribers with numbers below `subscribers`, all empty.
    ///
    /// # Errors
    /// The address space is too small for these subscribers and blocks.
    pub fn new(subscribers: u32, spaces: u32, max_blocks: u32) -> Result<OwnedBlocks, ShapeError> {
        let spaces = spaces as usize;
        let stride = (HEADER_BYTES + spaces * size_of::<PortWords>()).next_multiple_of(64);
        let list_bytes = (SPACES + spaces) * size_of::<u32>();
        Ok(OwnedBlocks {
            spaces,
            lists: Area::new(subscribers as usize * list_bytes)?,
            blocks: Area::new((max_blocks as usize + 1) * stride)?,
            stride,
            max_blocks,
            last_slot: NONE,
            free_slots: Vec::new(),
            subscribers: 0,
        })
    }

    /// Number of subscribers with a block.
    pub fn subscribers(&self) -> usize {
        self.subscribers
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.last_slot as usize - self.free_slots.len()
    }

    /// Returns the numbers of a subscriber, which [`OwnedBlocks::new`] has counted.
    fn list(&self, subscriber: u32) -> &[u32] {
        let len = SPACES + self.spaces;
        // SAFETY: in the area, which begins at a huge page and has zeros at first; this value is
        // its only user.
        unsafe { std::slice::from_raw_parts(self.lists.at(subscriber as usize * len * 4).cast(), len) }
    }

    fn list_mut(&mut self, subscriber: u32) -> &mut [u32] {
        let len = SPACES + self.spaces;
        // SAFETY: as in `list`.
        unsafe { std::slice::from_raw_parts_mut(self.lists.at(subscriber as usize * len * 4).cast(), len) }
    }

    fn address(&self, slot: u32) -> *mut u8 {
        assert!(slot <= self.last_slot, "slot {slot} of {}", self.last_slot);
        self.blocks.at(slot as usize * self.stride)
    }

    fn header(&self, slot: u32) -> &Header {
        // SAFETY: a block in the area, aligned to a cache line; zeros are a valid header; this
        // value is its only user.
        unsafe { &*self.address(slot).cast() }
    }

    fn header_mut(&mut self, slot: u32) -> &mut Header {
        // SAFETY: as in `header`.
        unsafe { &mut *self.address(slot).cast() }
    }

    fn port_words(&self, slot: u32, space: u32) -> *mut PortWords {
        assert!((space as usize) < self.spaces, "port space {space} of {}", self.spaces);
        self.address(slot).wrapping_add(HEADER_BYTES).cast::<PortWords>().wrapping_add(space as usize)
    }

    /// Returns the number of a block among those of all addresses.
    pub fn block(&self, slot: u32) -> u32 {
        self.header(slot).block
    }

    /// Returns the subscriber to which a block belongs.
    pub fn owner(&self, slot: u32) -> u32 {
        self.header(slot).owner
    }

    /// Returns the ports of a block in a port space.
    pub fn ports(&self, slot: u32, space: u32) -> PortWords {
        // SAFETY: in the block, aligned to 8 bytes; this value is its only user.
        unsafe { *self.port_words(slot, space) }
    }

    /// Returns the ports of a block in a port space.
    pub fn ports_mut(&mut self, slot: u32, space: u32) -> &mut PortWords {
        // SAFETY: as in `ports`.
        unsafe { &mut *self.port_words(slot, space) }
    }

    /// Returns the blocks of a subscriber with their slots, in the order in which it got them.
    pub fn blocks_of(&self, subscriber: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut slot = self.list(subscriber)[FIRST];
        std::iter::from_fn(move || {
            let (found, header) = (slot, self.header_at(slot)?);
            slot = header.next;
            Some((found, header.block))
        })
    }

    fn header_at(&self, slot: u32) -> Option<&Header> {
        (slot != NONE).then(|| self.header(slot))
    }

    /// Returns how many blocks a subscriber has.
    pub fn count_of(&self, subscriber: u32) -> u32 {
        self.header_at(self.list(subscriber)[LAST]).map_or(0, |last| last.position + 1)
    }

    /// Returns the slot of the first of a subscriber's blocks that has a free port in a space and
    /// is usable.
    pub fn find_free_port(&mut self, subscriber: u32, space: u32, is_usable: impl Fn(u32) -> bool) -> Option<u32> {
        let first = self.list(subscriber)[SPACES + space as usize];
        let (mut slot, mut first_free) = (first, first);
        while let Some(&Header { block, next, .. }) = self.header_at(slot) {
            let [used, resting] = self.ports(slot, space);
            if used | resting != u64::MAX {
                if is_usable(block) {
                    break;
                }
            } else if first_free == slot {
                first_free = next;
            }
            slot = next;
        }
        if first_free != first {
            self.list_mut(subscriber)[SPACES + space as usize] = first_free;
        }
        (slot != NONE).then_some(slot)
    }

    /// Prefetches the numbers of a subscriber.
    pub fn prefetch_list(&self, subscriber: u32) {
        let list = self.list(subscriber).as_ptr_range();
        crate::prefetch::for_write(list.start.cast());
        crate::prefetch::for_write(list.end.wrapping_sub(1).cast());
    }

    /// Prefetches, for each port space, the first block of a subscriber that may have a free port.
    pub fn prefetch_blocks(&self, subscriber: u32) {
        let slots = &self.list(subscriber)[SPACES..];
        for slot in slots.iter().filter(|slot| **slot != NONE) {
            crate::prefetch::for_write(self.address(*slot));
        }
    }

    /// Gives a block to a subscriber. Returns its slot.
    ///
    /// # Panics
    /// Panics if all blocks have an owner.
    pub fn push(&mut self, subscriber: u32, block: u32) -> u32 {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            assert!(self.last_slot < self.max_blocks, "all {} blocks have an owner", self.max_blocks);
            self.last_slot += 1;
            self.last_slot
        });
        let position = self.count_of(subscriber);
        *self.header_mut(slot) = Header { block, owner: subscriber, next: NONE, position };
        let list = self.list_mut(subscriber);
        let last = std::mem::replace(&mut list[LAST], slot);
        list.iter_mut().filter(|first| **first == NONE).for_each(|first| *first = slot);
        match last {
            NONE => self.subscribers += 1,
            last => self.header_mut(last).next = slot,
        }
        slot
    }

    /// Notes that a port of a block became free in a space. Returns whether all ports of all
    /// spaces are free now.
    pub fn note_free_port(&mut self, slot: u32, space: u32) -> bool {
        if (0..self.spaces as u32).all(|space| self.ports(slot, space) == [0; 2]) {
            return true;
        }
        let Header { owner, position, .. } = *self.header(slot);
        let first = self.list(owner)[SPACES + space as usize];
        if self.header_at(first).is_none_or(|first| position < first.position) {
            self.list_mut(owner)[SPACES + space as usize] = slot;
        }
        false
    }

    /// Takes a block from its owner. All of its ports are free.
    pub fn remove(&mut self, slot: u32) {
        let Header { owner, next, .. } = *self.header(slot);
        let before = self.blocks_of(owner).map(|(slot, _)| slot).take_while(|other| *other != slot).last();
        if let Some(before) = before {
            self.header_mut(before).next = next;
        }
        let mut follower = next;
        while follower != NONE {
            let header = self.header_mut(follower);
            header.position -= 1;
            follower = header.next;
        }
        let list = self.list_mut(owner);
        if list[LAST] == slot {
            list[LAST] = before.unwrap_or(NONE);
        }
        list.iter_mut().filter(|first| **first == slot).for_each(|first| *first = next);
        let is_empty = list[FIRST] == NONE;
        self.subscribers -= usize::from(is_empty);
        self.free_slots.push(slot);
    }
}
