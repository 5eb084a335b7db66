//! [`Nodes`]: nodes of a multibit trie.
//!
//! A node of stride `k` looks at `k` bits at once: one slot for each of their `2^k` values. It holds the prefixes that end within
//! those bits, each of them painted over the slots that it covers and no longer one does, so a lookup reads one slot. Nothing is
//! painted further down: a lookup remembers the last value it saw. So a change touches the slots of one node, 65,536 at most,
//! however many prefixes are below (Srinivasan and Varghese, "Fast Address Lookups Using Controlled Prefix Expansion", 1998,
//! have the expansion; without pushing it down, removing is as cheap as adding).
//!
//! A slot is 1, 2 or 4 bytes with a value's number if no prefix goes deeper, or 8 with a number and a [`Ref`]. The slots follow
//! 16 bytes, of which the first 4 are the number of the node's [`Record`].

use super::pool::{Pool, Ref};
use super::values::NUMBER_BITS;

/// Bytes before the first slot.
pub(super) const PREAMBLE: usize = 16;
/// Slot size (as a logarithm) of nodes that can have children.
pub(super) const INNER: u32 = 3;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// A prefix that ends in a node: its first slot (16 bits), its length (8), the number of its value (32). As integers they are in
/// the order of a walk: what a prefix covers follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending(u64);

impl Ending {
    pub(super) fn new(first: u64, len: u32, number: u32) -> Ending {
        Ending(first << 40 | u64::from(len) << 32 | u64::from(number))
    }

    pub(super) fn first(self) -> u64 {
        self.0 >> 40
    }

    pub(super) fn len(self) -> u32 {
        (self.0 >> 32 & 255) as u32
    }

    pub(super) fn number(self) -> u32 {
        self.0 as u32
    }

    fn order(self) -> u64 {
        self.0 >> 32
    }

    fn slots(self, stride: u32) -> u64 {
        1 << (stride - self.len())
    }
}

/// What only the writer needs of a node.
#[derive(Clone, Debug, Default)]
struct Record {
    /// In order.
    endings: Vec<Ending>,
    /// Prefixes here and below.
    count: u32,
    /// The same when the node was built.
    built: u32,
}

/// All nodes of a table; their slots are in its [`Pool`].
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    records: Vec<Record>,
    free: Vec<u32>,
    /// Allocated for [`Record::endings`].
    endings: usize,
}

fn lines(stride: u32, size: u32) -> usize {
    (PREAMBLE + (1 << (stride + size))).div_ceil(64)
}

/// The smallest slots that hold a number.
pub(super) fn size_for(number: u32) -> u32 {
    match number {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    }
}

impl Nodes {
    /// A node with these prefixes, in order, of `count` with those below.
    pub(super) fn new_node(
        &mut self,
        pool: &mut Pool,
        stride: u32,
        size: u32,
        endings: Vec<Ending>,
        count: usize,
    ) -> Ref {
        self.endings += endings.capacity();
        let record = Record { endings, count: count as u32, built: count as u32 };
        let number = match self.free.pop() {
            Some(number) => {
                self.records[number as usize] = record;
                number
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        let node = Ref::node(pool.take(lines(stride, size)), stride, size);
        pool.bytes_mut(node.line())[..4].copy_from_slice(&number.to_le_bytes());
        for &ending in &self.records[number as usize].endings {
            let first = ending.first();
            fill(pool, node, first, first + ending.slots(stride), ending.number());
        }
        node
    }

    /// Gives a node back; its children are the caller's.
    pub(super) fn free_node(&mut self, pool: &mut Pool, node: Ref) -> Vec<Ending> {
        let number = record_number(pool, node);
        let record = std::mem::take(&mut self.records[number]);
        self.endings -= record.endings.capacity();
        self.free.push(number as u32);
        pool.give_back(node.line(), lines(node.stride(), node.size()));
        record.endings
    }

    /// Prefixes in a node and below it.
    pub(super) fn count(&self, pool: &Pool, node: Ref) -> u32 {
        self.records[record_number(pool, node)].count
    }

    /// Counts a prefix that came (or went). Whether the node should be built anew, as it has half as many again, or a quarter.
    pub(super) fn counted(&mut self, pool: &Pool, node: Ref, came: bool) -> bool {
        let record = &mut self.records[record_number(pool, node)];
        record.count = if came { record.count + 1 } else { record.count - 1 };
        if came {
            record.count > record.built + record.built / 2 + 4 && node.stride() < 16
        } else {
            record.count * 4 < record.built
        }
    }

    /// Puts a prefix of a node, or another value for it. The node, which may have moved, and the number that was there.
    pub(super) fn put(&mut self, pool: &mut Pool, node: Ref, ending: Ending) -> (Ref, Option<u32>) {
        let node = if node.size() < size_for(ending.number()) {
            self.resize(pool, node, size_for(ending.number()))
        } else {
            node
        };
        let record = &mut self.records[record_number(pool, node)];
        let (at, before) = match record.endings.binary_search_by_key(&ending.order(), |other| other.order()) {
            Ok(at) => (at, Some(std::mem::replace(&mut record.endings[at], ending).number())),
            Err(at) => {
                let room = record.endings.capacity();
                record.endings.insert(at, ending);
                self.endings += record.endings.capacity() - room;
                (at, None)
            }
        };
        paint(pool, node, &record.endings, at, ending.number());
        (node, before)
    }

    /// Removes a prefix from a node; the number of its value.
    pub(super) fn take(&mut self, pool: &mut Pool, node: Ref, first: u64, len: u32) -> Option<u32> {
        let endings = &mut self.records[record_number(pool, node)].endings;
        let find = |endings: &[Ending], first: u64, len: u32| {
            endings.binary_search_by_key(&Ending::new(first, len, 0).order(), |other| other.order()).ok()
        };
        let at = find(endings, first, len)?;
        let stride = node.stride();
        let covering = (0..len).rev().find_map(|len| find(endings, first >> (stride - len) << (stride - len), len));
        let under = covering.map_or(0, |at| endings[at].number());
        paint(pool, node, endings, at, under);
        Some(endings.remove(at).number())
    }

    /// The same node with larger slots.
    pub(super) fn resize(&mut self, pool: &mut Pool, node: Ref, size: u32) -> Ref {
        let stride = node.stride();
        let wider = Ref::node(pool.take(lines(stride, size)), stride, size);
        let preamble: [u8; PREAMBLE] = std::array::from_fn(|index| pool.bytes(node.line())[index]);
        pool.bytes_mut(wider.line())[..PREAMBLE].copy_from_slice(&preamble);
        for slot in 0..1 << stride {
            let number = read(pool, node, slot) & NUMBER;
            fill(pool, wider, slot, slot + 1, number as u32);
        }
        pool.give_back(node.line(), lines(stride, node.size()));
        wider
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.endings * size_of::<Ending>()
            + self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<u32>()
    }
}

fn record_number(pool: &Pool, node: Ref) -> usize {
    let bytes = pool.line(node.line());
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}

/// A slot as it is.
fn read(pool: &Pool, node: Ref, slot: u64) -> u64 {
    let bytes = &pool.bytes(node.line())[PREAMBLE + ((slot as usize) << node.size())..];
    match node.size() {
        0 => u64::from(bytes[0]),
        1 => u64::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        2 => u64::from(u32::from_le_bytes(std::array::from_fn(|index| bytes[index]))),
        _ => u64::from_le_bytes(std::array::from_fn(|index| bytes[index])),
    }
}

/// The number that a slot gives, and what is behind it.
pub(super) fn slot(pool: &Pool, node: Ref, slot: u64) -> (u32, Ref) {
    let word = read(pool, node, slot);
    ((word & NUMBER) as u32, if node.size() == INNER { Ref(word >> NUMBER_BITS) } else { Ref::NULL })
}

/// What is behind a slot.
pub(super) fn child(pool: &Pool, node: Ref, slot: u64) -> Ref {
    if node.size() == INNER { Ref(read(pool, node, slot) >> NUMBER_BITS) } else { Ref::NULL }
}

/// Sets what is behind a slot of a node with slots of size [`INNER`].
pub(super) fn set_child(pool: &mut Pool, node: Ref, slot: u64, child: Ref) {
    let word = read(pool, node, slot) & NUMBER | child.0 << NUMBER_BITS;
    pool.bytes_mut(node.line())[PREAMBLE + slot as usize * 8..][..8].copy_from_slice(&word.to_le_bytes());
}

/// Paints `number` over what the prefix at `at` covers and no longer one does.
fn paint(pool: &mut Pool, node: Ref, endings: &[Ending], at: usize, number: u32) {
    let stride = node.stride();
    let prefix = endings[at];
    let end = prefix.first() + prefix.slots(stride);
    let mut next = prefix.first();
    for inner in endings[at + 1..].iter().take_while(|inner| inner.first() < end) {
        if inner.first() >= next {
            fill(pool, node, next, inner.first(), number);
            next = inner.first() + inner.slots(stride);
        }
    }
    fill(pool, node, next, end, number);
}

/// Writes a number to the slots from `from` up to `to`; what is behind them stays.
fn fill(pool: &mut Pool, node: Ref, from: u64, to: u64, number: u32) {
    let size = node.size();
    let bytes = &mut pool.bytes_mut(node.line())[PREAMBLE..][(from as usize) << size..(to as usize) << size];
    match size {
        0 => bytes.fill(number as u8),
        1 => bytes.as_chunks_mut().0.fill((number as u16).to_le_bytes()),
        2 => bytes.as_chunks_mut().0.fill(number.to_le_bytes()),
        _ => {
            for slot in bytes.as_chunks_mut().0 {
                *slot = (u64::from_le_bytes(*slot) & !NUMBER | u64::from(number)).to_le_bytes();
            }
        }
    }
}
