//! Memory for the tests: a context with lists of all kinds, packets between guard bytes, and a
//! table to gather from.

use super::oracle::Space;
use super::random_inputs::Chance;
use std::ops::Range;

/// Maximum number of packets of a run, rounded up to whole vectors.
pub const PACKETS: usize = 48;
/// Size of a list of one word per packet, in bytes.
const LIST: i32 = 8 * PACKETS as i32;

/// Number of words that are equal for all packets.
pub const SHARED: usize = 16;
/// Offset of the first.
pub const SHARED_AT: i32 = 0;
/// Offset of the word with the table's address.
pub const TABLE_AT: i32 = 8 * SHARED as i32;
/// Number of sums of the lanes.
pub const SUMS: usize = 4;
/// Offset of the first.
pub const SUMS_AT: i32 = 192;
/// Number of lists that are only read.
pub const COLUMNS: usize = 6;
/// Offset of the first.
const COLUMNS_AT: i32 = 512;
/// Number of lists of packet addresses.
pub const POINTERS: usize = 2;
/// Offset of the first.
const POINTERS_AT: i32 = COLUMNS_AT + COLUMNS as i32 * LIST;
/// Number of lists that are written at any index.
pub const SCATTERED: usize = 3;
/// Offset of the first.
const SCATTERED_AT: i32 = POINTERS_AT + POINTERS as i32 * LIST;
/// Number of words in each.
pub const SCATTERED_PLACES: usize = 64;
/// Number of lists that show the code's values.
pub const SHOWN: usize = 80;
/// Offset of the first.
const SHOWN_AT: i32 = SCATTERED_AT + SCATTERED as i32 * 8 * SCATTERED_PLACES as i32;
/// Number of sets of lists that are appended to.
pub const SETS: usize = 4;
/// Offset of the first.
const SETS_AT: i32 = SHOWN_AT + SHOWN as i32 * LIST;
/// Number of lists of one word, and of several words, in each set.
pub const SET_LISTS: usize = 3;
/// Maximum number of words of a key.
pub const KEY_WORDS: usize = 9;
/// Capacity of a set's lists in packets, including those that may be overwritten.
const SET_PACKETS: usize = 144;
/// Size of a set's list of one word, in bytes.
const SET_LIST: i32 = 8 * SET_PACKETS as i32;
/// Size of a set's list of several words, in bytes.
const SET_KEYS: i32 = SET_LIST * KEY_WORDS as i32;
/// Distance between sets.
const SET: i32 = 64 + SET_LISTS as i32 * (SET_LIST + SET_KEYS);
/// Size of the context in bytes.
const CONTEXT_BYTES: usize = (SETS_AT + SETS as i32 * SET) as usize;

/// Distance between packets in bytes; accesses are in the middle.
const PACKET: usize = 320;
/// Offset of a packet's address from its first byte, before it is moved randomly.
const MIDDLE: usize = 96;
/// Offsets that may be added to packets' addresses.
pub const OFFSETS: Range<i32> = -32..64;
/// Size of the table in bytes.
pub const TABLE_BYTES: usize = 4096 + 64;

pub fn column(number: usize) -> i32 {
    COLUMNS_AT + number as i32 * LIST
}

pub fn pointers(number: usize) -> i32 {
    POINTERS_AT + number as i32 * LIST
}

pub fn scattered(number: usize) -> i32 {
    SCATTERED_AT + number as i32 * 8 * SCATTERED_PLACES as i32
}

pub fn shown(number: usize) -> i32 {
    SHOWN_AT + number as i32 * LIST
}

pub fn shared(number: usize) -> i32 {
    SHARED_AT + 8 * number as i32
}

pub fn sums(number: usize) -> i32 {
    SUMS_AT + 64 * number as i32
}

pub fn set_count(set: usize) -> i32 {
    SETS_AT + set as i32 * SET
}

pub fn set_list(set: usize, number: usize) -> i32 {
    set_count(set) + 64 + number as i32 * SET_LIST
}

pub fn set_keys(set: usize, number: usize) -> i32 {
    set_list(set, SET_LISTS) + number as i32 * SET_KEYS
}

/// The memory, at fixed addresses.
pub struct TestMemory {
    context: Vec<u64>,
    packets: Vec<u64>,
    table: Vec<u64>,
}

impl TestMemory {
    pub fn new(chance: &mut Chance) -> TestMemory {
        let mut fill = |bytes: usize| -> Vec<u64> { (0..bytes.div_ceil(8)).map(|_| chance.value()).collect() };
        let mut world =
            TestMemory { context: fill(CONTEXT_BYTES), packets: fill(PACKETS * PACKET), table: fill(TABLE_BYTES) };
        world.set(TABLE_AT, world.table.as_ptr() as u64);
        for set in 0..SETS {
            let length = chance.below(6) as u64;
            world.set(set_count(set), length);
        }
        for list in 0..POINTERS {
            let first = world.packets.as_ptr() as u64;
            let shift = chance.below(PACKETS);
            for packet in 0..PACKETS {
                let at = (packet * 5 + shift) % PACKETS * PACKET + MIDDLE + chance.below(64);
                world.set(pointers(list) + 8 * packet as i32, first + at as u64);
            }
        }
        world
    }

    /// Sets a word of the context.
    pub fn set(&mut self, at: i32, value: u64) {
        self.context[at as usize / 8] = value;
    }

    pub fn context(&self) -> u64 {
        self.context.as_ptr() as u64
    }

    /// Copies all of the memory.
    pub fn snapshot(&self) -> Space {
        let mut space = Space::default();
        for part in [&self.context, &self.packets, &self.table] {
            // `black_box` prevents the compiler from assuming that machine code left the words
            // unchanged.
            let words = std::hint::black_box(part);
            space.add(part.as_ptr() as u64, words.iter().flat_map(|word| word.to_le_bytes()).collect());
        }
        space
    }
}
