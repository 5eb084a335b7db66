//! The blocks of ports that have an owner, as a list for each subscriber.
//!
//! A packet that takes a port touches two cache lines in the common case: the subscriber's, which
//! leads to the first block with a free port, and the ports of that block. Memory is allocated in
//! chunks, so that nothing is moved while the pool is locked.

/// No slot.
const NONE: u32 = u32::MAX;
/// Subscribers of a page, and blocks of a chunk.
const CHUNK: usize = 1024;

/// A block in the list of its owner.
#[derive(Clone, Copy)]
struct Node {
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

struct Chunk {
    nodes: Box<[Node]>,
    /// For each block and space.
    ports: Box<[PortWords]>,
}

/// Blocks with an owner, in slots that are used again.
pub(super) struct OwnedBlocks {
    spaces: usize,
    /// For each subscriber the slots of its first and its last block, and for each space the slot
    /// before which all blocks are full.
    pages: Vec<Option<Box<[u32]>>>,
    chunks: Vec<Chunk>,
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
    pub fn new(subscribers: u32, spaces: u32) -> OwnedBlocks {
        let pages = (subscribers as usize).div_ceil(CHUNK);
        OwnedBlocks {
            spaces: spaces as usize,
            pages: (0..pages).map(|_| None).collect(),
            chunks: Vec::new(),
            free_slots: Vec::new(),
            subscribers: 0,
        }
    }

    /// Number of subscribers with a block.
    pub fn subscribers(&self) -> usize {
        self.subscribers
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.chunks.len() * CHUNK - self.free_slots.len()
    }

    fn list(&self, subscriber: u32) -> Option<&[u32]> {
        let page = self.pages[subscriber as usize / CHUNK].as_ref()?;
        let len = SPACES + self.spaces;
        Some(&page[subscriber as usize % CHUNK * len..][..len])
    }

    fn list_mut(&mut self, subscriber: u32) -> &mut [u32] {
        let len = SPACES + self.spaces;
        let page = &mut self.pages[subscriber as usize / CHUNK];
        let page = page.get_or_insert_with(|| vec![NONE; CHUNK * len].into());
        &mut page[subscriber as usize % CHUNK * len..][..len]
    }

    fn node(&self, slot: u32) -> &Node {
        &self.chunks[slot as usize / CHUNK].nodes[slot as usize % CHUNK]
    }

    fn node_mut(&mut self, slot: u32) -> &mut Node {
        &mut self.chunks[slot as usize / CHUNK].nodes[slot as usize % CHUNK]
    }

    /// Returns the number of a block among those of all addresses.
    pub fn block(&self, slot: u32) -> u32 {
        self.node(slot).block
    }

    /// Returns the subscriber to which a block belongs.
    pub fn owner(&self, slot: u32) -> u32 {
        self.node(slot).owner
    }

    /// Returns the ports of a block in a port space.
    pub fn ports(&self, slot: u32, space: u32) -> PortWords {
        self.chunks[slot as usize / CHUNK].ports[slot as usize % CHUNK * self.spaces + space as usize]
    }

    /// Returns the ports of a block in a port space.
    pub fn ports_mut(&mut self, slot: u32, space: u32) -> &mut PortWords {
        &mut self.chunks[slot as usize / CHUNK].ports[slot as usize % CHUNK * self.spaces + space as usize]
    }

    /// Returns the blocks of a subscriber with their slots, in the order in which it got them.
    pub fn blocks_of(&self, subscriber: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut slot = self.list(subscriber).map_or(NONE, |list| list[FIRST]);
        std::iter::from_fn(move || {
            let (found, node) = (slot, self.node_at(slot)?);
            slot = node.next;
            Some((found, node.block))
        })
    }

    fn node_at(&self, slot: u32) -> Option<&Node> {
        (slot != NONE).then(|| self.node(slot))
    }

    /// Returns how many blocks a subscriber has.
    pub fn count_of(&self, subscriber: u32) -> u32 {
        let last = self.list(subscriber).map_or(NONE, |list| list[LAST]);
        self.node_at(last).map_or(0, |last| last.position + 1)
    }

    /// Returns the slot of the first of a subscriber's blocks that has a free port in a space and
    /// is usable.
    pub fn find_free_port(&mut self, subscriber: u32, space: u32, is_usable: impl Fn(u32) -> bool) -> Option<u32> {
        let first = self.list(subscriber)?[SPACES + space as usize];
        let (mut slot, mut first_free) = (first, first);
        while let Some(&Node { block, next, .. }) = self.node_at(slot) {
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

    /// Gives a block to a subscriber. Returns its slot.
    pub fn push(&mut self, subscriber: u32, block: u32) -> u32 {
        if self.free_slots.is_empty() {
            self.add_chunk();
        }
        let slot = self.free_slots.pop().expect("add_chunk has added some");
        let position = self.count_of(subscriber);
        *self.node_mut(slot) = Node { block, owner: subscriber, next: NONE, position };
        let list = self.list_mut(subscriber);
        let last = std::mem::replace(&mut list[LAST], slot);
        list.iter_mut().filter(|first| **first == NONE).for_each(|first| *first = slot);
        match last {
            NONE => self.subscribers += 1,
            last => self.node_mut(last).next = slot,
        }
        slot
    }

    fn add_chunk(&mut self) {
        let node = Node { block: 0, owner: 0, next: NONE, position: 0 };
        let first = (self.chunks.len() * CHUNK) as u32;
        self.chunks.push(Chunk { nodes: vec![node; CHUNK].into(), ports: vec![[0; 2]; CHUNK * self.spaces].into() });
        self.free_slots.extend((first..first + CHUNK as u32).rev());
    }

    /// Notes that a port of a block became free in a space. Returns whether all ports of all
    /// spaces are free now.
    pub fn note_free_port(&mut self, slot: u32, space: u32) -> bool {
        if (0..self.spaces as u32).all(|space| self.ports(slot, space) == [0; 2]) {
            return true;
        }
        let Node { owner, position, .. } = *self.node(slot);
        let first = self.list_mut(owner)[SPACES + space as usize];
        if self.node_at(first).is_none_or(|first| position < first.position) {
            self.list_mut(owner)[SPACES + space as usize] = slot;
        }
        false
    }

    /// Takes a block from its owner. All of its ports are free.
    pub fn remove(&mut self, slot: u32) {
        let Node { owner, next, .. } = *self.node(slot);
        let before = self.blocks_of(owner).map(|(slot, _)| slot).take_while(|other| *other != slot).last();
        if let Some(before) = before {
            self.node_mut(before).next = next;
        }
        let mut follower = next;
        while follower != NONE {
            let node = self.node_mut(follower);
            node.position -= 1;
            follower = node.next;
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
