//! Memory that code of the tests runs over: a context with lists of all kinds, packets between guard bytes, and a table to gather from.

use super::chance::Chance;
use super::oracle::Space;
use std::ops::Range;

/// The most packets of a run, rounded up to whole turns.
pub const PACKETS: usize = 48;
/// A list of a word a packet, in bytes.
const LIST: i32 = 8 * PACKETS as i32;

/// Words that are the same for all packets, in number.
pub const SHARED: usize = 16;
/// The first of them.
pub const SHARED_AT: i32 = 0;
/// A word with the table's address.
pub const TABLE_AT: i32 = 8 * SHARED as i32;
/// Sums of the lanes, in number.
pub const SUMS: usize = 4;
/// The first of them.
pub const SUMS_AT: i32 = 192;
/// Lists that are only read, in number.
pub const COLUMNS: usize = 6;
/// The first of them.
const COLUMNS_AT: i32 = 512;
/// Lists of addresses of packets, in number.
pub const POINTERS: usize = 2;
/// The first of them.
const POINTERS_AT: i32 = COLUMNS_AT + COLUMNS as i32 * LIST;
/// Lists that are written to at any place, in number.
pub const SCATTERED: usize = 3;
/// The first of them.
const SCATTERED_AT: i32 = POINTERS_AT + POINTERS as i32 * LIST;
/// Places in each.
pub const SCATTERED_PLACES: usize = 64;
/// Lists that show what values code has, in number.
pub const SHOWN: usize = 80;
/// The first of them.
const SHOWN_AT: i32 = SCATTERED_AT + SCATTERED as i32 * 8 * SCATTERED_PLACES as i32;
/// Sets of lists that are appended to, in number.
pub const SETS: usize = 4;
/// The first of them.
const SETS_AT: i32 = SHOWN_AT + SHOWN as i32 * LIST;
/// Lists of a word in each, and of several words.
pub const SET_LISTS: usize = 3;
/// The most words of a key.
pub const KEY_WORDS: usize = 9;
/// The most packets in a set's lists, and those that may be written over.
const SET_PACKETS: usize = 144;
/// A set's list of a word, in bytes.
const SET_LIST: i32 = 8 * SET_PACKETS as i32;
/// A set's list of several words, in bytes.
const SET_KEYS: i32 = SET_LIST * KEY_WORDS as i32;
/// From set to set.
const SET: i32 = 64 + SET_LISTS as i32 * (SET_LIST + SET_KEYS);
/// All of it.
const CONTEXT_BYTES: usize = (SETS_AT + SETS as i32 * SET) as usize;

/// From packet to packet, in bytes: what is read and written lies in the middle.
const PACKET: usize = 320;
/// Where a packet's address points to, from its first byte, before chance moves it.
const MIDDLE: usize = 96;
/// What may be added to packets' addresses.
pub const OFFSETS: Range<i32> = -32..64;
/// The table, in bytes.
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

/// The memory, at addresses that stay.
pub struct World {
    context: Vec<u64>,
    packets: Vec<u64>,
    table: Vec<u64>,
}

impl World {
    pub fn new(chance: &mut Chance) -> World {
        let mut fill = |bytes: usize| -> Vec<u64> { (0..bytes.div_ceil(8)).map(|_| chance.value()).collect() };
        let mut world =
            World { context: fill(CONTEXT_BYTES), packets: fill(PACKETS * PACKET), table: fill(TABLE_BYTES) };
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

    /// A copy of all of it.
    pub fn snapshot(&self) -> Space {
        let mut space = Space::default();
        for part in [&self.context, &self.packets, &self.table] {
            // What machine code wrote is read word by word, so that it cannot be thought unchanged.
            let words = std::hint::black_box(part);
            space.add(part.as_ptr() as u64, words.iter().flat_map(|word| word.to_le_bytes()).collect());
        }
        space
    }
}
