//! [`TrieNodes`]: nodes of a multibit trie.
//!
//! A node of stride `k` resolves `k` bits with one slot for each of their `2^k` values. It holds
//! the prefixes that end within those bits. Each is expanded to the slots that it covers, except
//! slots of longer prefixes, so a lookup reads one slot. Prefixes are not expanded into child
//! nodes, because a lookup remembers the last value on its path. A change therefore touches the
//! slots of one node, 65,536 at most, regardless of the number of prefixes below. (Srinivasan and
//! Varghese, "Fast Address Lookups Using Controlled Prefix Expansion", 1998, describe the
//! expansion; without expansion into children, removal is as cheap as insertion.)
//!
//! A slot has 1, 2 or 4 bytes with a value number if no prefix is longer, or 8 bytes with a number
//! and a [`BlockRef`]. 16 bytes precede the slots; the first 4 are the number of the node's
//! [`NodeWriterState`].

use super::next_hops::VALUE_NUMBER_BITS;
use super::pool::{BlockRef, LinePool};

/// Bytes before the first slot.
pub(super) const PREAMBLE_BYTES: usize = 16;
/// Slot size, as a binary logarithm of bytes, of nodes that can have children.
pub(super) const INNER_SLOT_SIZE: u32 = 3;
const NUMBER_MASK: u64 = (1 << VALUE_NUMBER_BITS) - 1;

/// Prefix that ends in a node, packed as its first slot (16 bits), its length (8) and its value
/// number (32). Integer order equals prefix order: the prefixes that a prefix covers follow it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodePrefix(u64);

impl NodePrefix {
    pub(super) fn new(first: u64, len: u32, number: u32) -> NodePrefix {
        NodePrefix(first << 40 | u64::from(len) << 32 | u64::from(number))
    }

    pub(super) fn first_slot(self) -> u64 {
        self.0 >> 40
    }

    pub(super) fn len(self) -> u32 {
        (self.0 >> 32 & 255) as u32
    }

    pub(super) fn value_number(self) -> u32 {
        self.0 as u32
    }

    fn sort_key(self) -> u64 {
        self.0 >> 32
    }

    fn slot_span(self, stride: u32) -> u64 {
        1 << (stride - self.len())
    }
}

/// Data of a node that only the writer needs.
#[derive(Clone, Debug, Default)]
struct NodeWriterState {
    /// In ascending order.
    prefixes: Vec<NodePrefix>,
    /// Prefixes in this node and below.
    count: u32,
    /// Value of `count` when the node was built.
    count_at_build: u32,
}

/// All nodes of a table; their slots are in its [`LinePool`].
#[derive(Clone, Debug, Default)]
pub(super) struct TrieNodes {
    writer_states: Vec<NodeWriterState>,
    free: Vec<u32>,
    /// Allocated capacity of all [`NodeWriterState::prefixes`].
    allocated_prefixes: usize,
}

fn node_lines(stride: u32, size: u32) -> usize {
    (PREAMBLE_BYTES + (1 << (stride + size))).div_ceil(64)
}

/// Returns the minimum slot size for a value number.
pub(super) fn min_slot_size(number: u32) -> u32 {
    match number {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    }
}

impl TrieNodes {
    /// Creates a node of `stride` bits with these prefixes in ascending order, and fills its slots.
    /// `size` is the logarithm of a slot's size in bytes; `count` includes the prefixes below.
    pub(super) fn new_node(
        &mut self,
        pool: &mut LinePool,
        stride: u32,
        size: u32,
        prefixes: Vec<NodePrefix>,
        count: usize,
    ) -> BlockRef {
        self.allocated_prefixes += prefixes.capacity();
        let writer_state = NodeWriterState { prefixes, count: count as u32, count_at_build: count as u32 };
        let number = match self.free.pop() {
            Some(number) => {
                self.writer_states[number as usize] = writer_state;
                number
            }
            None => {
                self.writer_states.push(writer_state);
                self.writer_states.len() as u32 - 1
            }
        };
        let node = BlockRef::node(pool.allocate_block(node_lines(stride, size)), stride, size);
        pool.bytes_from_mut(node.line())[..4].copy_from_slice(&number.to_le_bytes());
        for &prefix in &self.writer_states[number as usize].prefixes {
            let first = prefix.first_slot();
            fill_slots(pool, node, first, first + prefix.slot_span(stride), prefix.value_number());
        }
        node
    }

    /// Frees a node and returns its prefixes; the caller frees its children.
    pub(super) fn free_node(&mut self, pool: &mut LinePool, node: BlockRef) -> Vec<NodePrefix> {
        let number = record_number(pool, node);
        let record = std::mem::take(&mut self.writer_states[number]);
        self.allocated_prefixes -= record.prefixes.capacity();
        self.free.push(number as u32);
        pool.free_block(node.line(), node_lines(node.stride(), node.slot_size_log2()));
        record.prefixes
    }

    /// Returns the number of prefixes in a node and below.
    pub(super) fn prefix_count(&self, pool: &LinePool, node: BlockRef) -> u32 {
        self.writer_states[record_number(pool, node)].count
    }

    /// Counts a prefix that was inserted (`came`) or removed. Returns whether the node should be
    /// rebuilt, because it has grown by half or shrunk to a quarter.
    pub(super) fn update_count(&mut self, pool: &LinePool, node: BlockRef, came: bool) -> bool {
        let record = &mut self.writer_states[record_number(pool, node)];
        record.count = if came { record.count + 1 } else { record.count - 1 };
        if came {
            record.count > record.count_at_build + record.count_at_build / 2 + 4 && node.stride() < 16
        } else {
            record.count * 4 < record.count_at_build
        }
    }

    /// Inserts a prefix into a node, or replaces its value. Returns the node, which may have moved,
    /// and the previous value number.
    pub(super) fn insert_prefix(
        &mut self,
        pool: &mut LinePool,
        node: BlockRef,
        ending: NodePrefix,
    ) -> (BlockRef, Option<u32>) {
        let node = if node.slot_size_log2() < min_slot_size(ending.value_number()) {
            self.widen_slots(pool, node, min_slot_size(ending.value_number()))
        } else {
            node
        };
        let writer_state = &mut self.writer_states[record_number(pool, node)];
        let (index, old_number) =
            match writer_state.prefixes.binary_search_by_key(&ending.sort_key(), |other| other.sort_key()) {
                Ok(index) => (index, Some(std::mem::replace(&mut writer_state.prefixes[index], ending).value_number())),
                Err(index) => {
                    let old_capacity = writer_state.prefixes.capacity();
                    writer_state.prefixes.insert(index, ending);
                    self.allocated_prefixes += writer_state.prefixes.capacity() - old_capacity;
                    (index, None)
                }
            };
        expand_prefix(pool, node, &writer_state.prefixes, index, ending.value_number());
        (node, old_number)
    }

    /// Removes a prefix from a node and returns its value number.
    pub(super) fn remove_prefix(&mut self, pool: &mut LinePool, node: BlockRef, first: u64, len: u32) -> Option<u32> {
        let endings = &mut self.writer_states[record_number(pool, node)].prefixes;
        let find = |endings: &[NodePrefix], first: u64, len: u32| {
            endings.binary_search_by_key(&NodePrefix::new(first, len, 0).sort_key(), |other| other.sort_key()).ok()
        };
        let at = find(endings, first, len)?;
        let stride = node.stride();
        let covering = (0..len).rev().find_map(|len| find(endings, first >> (stride - len) << (stride - len), len));
        let under = covering.map_or(0, |at| endings[at].value_number());
        expand_prefix(pool, node, endings, at, under);
        Some(endings.remove(at).value_number())
    }

    /// Returns a copy of the node with larger slots, and frees the old one.
    pub(super) fn widen_slots(&mut self, pool: &mut LinePool, node: BlockRef, size: u32) -> BlockRef {
        let stride = node.stride();
        let wider = BlockRef::node(pool.allocate_block(node_lines(stride, size)), stride, size);
        let preamble: [u8; PREAMBLE_BYTES] = std::array::from_fn(|index| pool.bytes_from(node.line())[index]);
        pool.bytes_from_mut(wider.line())[..PREAMBLE_BYTES].copy_from_slice(&preamble);
        for slot in 0..1 << stride {
            let number = read_slot(pool, node, slot) & NUMBER_MASK;
            fill_slots(pool, wider, slot, slot + 1, number as u32);
        }
        pool.free_block(node.line(), node_lines(stride, node.slot_size_log2()));
        wider
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.allocated_prefixes * size_of::<NodePrefix>()
            + self.writer_states.capacity() * size_of::<NodeWriterState>()
            + self.free.capacity() * size_of::<u32>()
    }
}

fn record_number(pool: &LinePool, node: BlockRef) -> usize {
    let bytes = pool.line(node.line());
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}

/// Reads a raw slot.
fn read_slot(pool: &LinePool, node: BlockRef, slot: u64) -> u64 {
    let bytes = &pool.bytes_from(node.line())[PREAMBLE_BYTES + ((slot as usize) << node.slot_size_log2())..];
    match node.slot_size_log2() {
        0 => u64::from(bytes[0]),
        1 => u64::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        2 => u64::from(u32::from_le_bytes(std::array::from_fn(|index| bytes[index]))),
        _ => u64::from_le_bytes(std::array::from_fn(|index| bytes[index])),
    }
}

/// Returns the value number of a slot and its child.
pub(super) fn slot_entry(pool: &LinePool, node: BlockRef, slot: u64) -> (u32, BlockRef) {
    let word = read_slot(pool, node, slot);
    (
        (word & NUMBER_MASK) as u32,
        if node.slot_size_log2() == INNER_SLOT_SIZE { BlockRef(word >> VALUE_NUMBER_BITS) } else { BlockRef::NULL },
    )
}

/// Returns the child of a slot.
pub(super) fn child_at(pool: &LinePool, node: BlockRef, slot: u64) -> BlockRef {
    if node.slot_size_log2() == INNER_SLOT_SIZE {
        BlockRef(read_slot(pool, node, slot) >> VALUE_NUMBER_BITS)
    } else {
        BlockRef::NULL
    }
}

/// Sets the child of a slot, in a node with slots of [`INNER_SLOT_SIZE`].
pub(super) fn set_child(pool: &mut LinePool, node: BlockRef, slot: u64, child: BlockRef) {
    let word = read_slot(pool, node, slot) & NUMBER_MASK | child.0 << VALUE_NUMBER_BITS;
    pool.bytes_from_mut(node.line())[PREAMBLE_BYTES + slot as usize * 8..][..8].copy_from_slice(&word.to_le_bytes());
}

/// Writes `number` to the slots that the prefix at index `at` covers, except slots of longer
/// prefixes.
fn expand_prefix(pool: &mut LinePool, node: BlockRef, endings: &[NodePrefix], at: usize, number: u32) {
    let stride = node.stride();
    let prefix = endings[at];
    let end = prefix.first_slot() + prefix.slot_span(stride);
    let mut next = prefix.first_slot();
    for inner in endings[at + 1..].iter().take_while(|inner| inner.first_slot() < end) {
        if inner.first_slot() >= next {
            fill_slots(pool, node, next, inner.first_slot(), number);
            next = inner.first_slot() + inner.slot_span(stride);
        }
    }
    fill_slots(pool, node, next, end, number);
}

/// Writes a number to the slots `from..to` and keeps their children.
fn fill_slots(pool: &mut LinePool, node: BlockRef, from: u64, to: u64, number: u32) {
    let size = node.slot_size_log2();
    let bytes = &mut pool.bytes_from_mut(node.line())[PREAMBLE_BYTES..][(from as usize) << size..(to as usize) << size];
    match size {
        0 => bytes.fill(number as u8),
        1 => bytes.as_chunks_mut().0.fill((number as u16).to_le_bytes()),
        2 => bytes.as_chunks_mut().0.fill(number.to_le_bytes()),
        _ => {
            for slot in bytes.as_chunks_mut().0 {
                *slot = (u64::from_le_bytes(*slot) & !NUMBER_MASK | u64::from(number)).to_le_bytes();
            }
        }
    }
}
