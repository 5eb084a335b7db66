//! The machine's limit: for each packet N cache lines at random places of tables of a given size, each line's place known only
//! from the line before, with prefetches in batches; and a plain rewrite of the packet's headers.
//!
//! This is what a gateway could reach that computes nothing: no parser, no checks, no hash of a key, no comparison with what the line
//! holds. What a program reaches is judged as a part of it.

#![allow(unsafe_code)] // prefetches

use crate::memory::HugeWords;
use std::rc::Rc;

/// 64-bit words of a cache line.
const LINE: usize = 8;

/// Packets whose lines are fetched together.
pub const BATCH: usize = 64;

/// Tables of random words, and in which order a packet looks at them.
#[derive(Debug, Clone)]
pub struct Lines {
    tables: Rc<Vec<Table>>,
    order: Vec<usize>,
}

#[derive(Debug)]
struct Table {
    words: HugeWords,
    lines: u64,
}

impl Lines {
    /// Tables of so many bytes each, filled with random words, each looked at once.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn new(bytes: &[usize], seed: u64) -> std::io::Result<Lines> {
        let mut state = seed | 1;
        let mut tables = Vec::new();
        for &bytes in bytes {
            let lines = (bytes / 64).max(1);
            let mut words = HugeWords::zeroed(lines * LINE)?;
            for word in words.iter_mut() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *word = state >> 16;
            }
            tables.push(Table { words, lines: lines as u64 });
        }
        Ok(Lines { order: (0..tables.len()).collect(), tables: Rc::new(tables) })
    }

    /// The same tables, looked at in this order; a table that is named twice is looked at twice.
    ///
    /// # Panics
    /// There is no table with such a number.
    pub fn in_order(&self, order: &[usize]) -> Lines {
        assert!(order.iter().all(|&table| table < self.tables.len()), "{order:?}");
        Lines { tables: self.tables.clone(), order: order.to_vec() }
    }

    /// Looks at one line of each table in the order for each of at most [`BATCH`] keys, and leaves in `keys` what it found there. All random
    /// bits of a key decide over each place.
    pub fn look(&self, keys: &mut [u64]) {
        let mut places = [0usize; BATCH];
        for &table in &self.order {
            let table = &self.tables[table];
            for (key, place) in keys.iter().zip(&mut places) {
                *place = table.place(*key);
                prefetch(&table.words, *place);
            }
            for (key, place) in keys.iter_mut().zip(&places) {
                *key ^= table.words[*place];
            }
        }
    }
}

impl Table {
    /// The first word of the line that a key leads to: the key's bits are mixed by a multiplication, and the product's upper half is scaled
    /// to the number of lines.
    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed) * u128::from(self.lines)) >> 64) as usize * LINE
    }
}

#[inline(always)]
fn prefetch(words: &HugeWords, place: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees, and `place` lies within the words.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().add(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, place);
}

/// Where a plain VXLAN packet over IPv4 without options has what is read and written, in bytes from the first.
mod offset {
    pub const OUTER_DESTINATION: usize = 30;
    pub const OUTER_CHECKSUM: usize = 24;
    pub const OUTER_TTL: usize = 22;
    pub const VNI: usize = 46;
    pub const INNER_MAC: usize = 50;
    pub const INNER_TTL: usize = 72;
    pub const INNER_CHECKSUM: usize = 74;
    pub const INNER_DESTINATION: usize = 80;
    pub const END: usize = 84;
}

/// The key of a packet: VNI and inner destination. 0 for one too short.
#[inline(always)]
pub fn key(packet: &[u8]) -> u64 {
    let Some(packet) = packet.first_chunk::<{ offset::END }>() else { return 0 };
    let word = |at: usize| u64::from(u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]));
    (word(offset::VNI) >> 8) << 32 | word(offset::INNER_DESTINATION)
}

/// Writes what a gateway writes: outer destination, VNI, inner MAC, both TTLs, both checksums (by difference). The values come from
/// `found`, as they would come from the last table.
#[inline(always)]
pub fn rewrite(packet: &mut [u8], found: u64) {
    let Some(packet) = packet.first_chunk_mut::<{ offset::END }>() else { return };
    let value = found.to_le_bytes();
    packet[offset::OUTER_DESTINATION..offset::OUTER_DESTINATION + 4].copy_from_slice(&value[..4]);
    packet[offset::VNI..offset::VNI + 3].copy_from_slice(&value[1..4]);
    packet[offset::INNER_MAC..offset::INNER_MAC + 6].copy_from_slice(&value[2..]);
    packet[offset::OUTER_TTL] = 64;
    packet[offset::INNER_TTL] = packet[offset::INNER_TTL].wrapping_sub(1);
    for (at, by) in [(offset::OUTER_CHECKSUM, found as u16), (offset::INNER_CHECKSUM, 0x0100)] {
        let sum = u32::from(u16::from_be_bytes([packet[at], packet[at + 1]])) + u32::from(by);
        packet[at..at + 2].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_all_lines() {
        let lines = Lines::new(&[64 * 128], 7).expect("a few kilobytes");
        let table = &lines.tables[0];
        let mut seen = [0u32; 128];
        for key in 0..128 * 64u64 {
            seen[table.place(key) / LINE] += 1;
        }
        assert!(seen.iter().all(|&n| (20..200).contains(&n)), "each line about 64 times: {seen:?}");
    }

    #[test]
    fn each_line_depends_on_the_one_before() {
        let lines = Lines::new(&[1 << 12, 1 << 16], 7).expect("a few kilobytes");
        let mut keys = [1, 2, 1];
        lines.look(&mut keys);
        assert_eq!(keys[0], keys[2], "the same key finds the same");
        assert_ne!(keys[0], keys[1]);
        let first = 1 ^ lines.tables[0].words[lines.tables[0].place(1)];
        assert_eq!(keys[0], first ^ lines.tables[1].words[lines.tables[1].place(first)]);
    }

    #[test]
    fn a_table_can_be_looked_at_twice() {
        let lines = Lines::new(&[1 << 12, 1 << 16], 7).expect("a few kilobytes");
        let (mut once, mut twice) = ([1], [1]);
        lines.in_order(&[0]).look(&mut once);
        lines.in_order(&[0]).look(&mut once);
        lines.in_order(&[0, 0]).look(&mut twice);
        assert_eq!(once, twice);
    }

    #[test]
    fn a_short_packet_is_left_alone() {
        let mut short = [7u8; 83];
        assert_eq!(key(&short), 0);
        rewrite(&mut short, u64::MAX);
        assert_eq!(short, [7; 83]);
    }
}
