//! The machine's limit: for each packet N cache lines at random positions in tables of a given
//! size, each position known only from the previous line, with prefetches in batches; and a plain
//! rewrite of the packet's headers.
//!
//! A gateway without computation would reach this rate: no parser, no checks, no hash of a key, no
//! comparison of the key. The rates of programs are judged relative to it.

#![allow(unsafe_code)] // prefetches

use crate::memory::HugeWords;
use std::rc::Rc;

/// Number of 64-bit words in a cache line.
const LINE: usize = 8;

/// Number of packets that are prefetched together.
pub const BATCH: usize = 64;

/// Tables of random words, and the order in which a packet accesses them.
#[derive(Debug, Clone)]
pub struct Lines {
    tables: Rc<Vec<WordTable>>,
    order: Vec<usize>,
}

#[derive(Debug)]
struct WordTable {
    words: HugeWords,
    lines: u64,
}

impl Lines {
    /// Creates tables of the given sizes in bytes, filled with random words, each accessed once per
    /// packet.
    ///
    /// # Errors
    /// If there is not enough memory.
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
            tables.push(WordTable { words, lines: lines as u64 });
        }
        Ok(Lines { order: (0..tables.len()).collect(), tables: Rc::new(tables) })
    }

    /// Returns the same tables with another order of access. A table that is listed twice is
    /// accessed twice.
    ///
    /// # Panics
    /// If a table does not exist.
    pub fn in_order(&self, order: &[usize]) -> Lines {
        assert!(order.iter().all(|&table| table < self.tables.len()), "{order:?}");
        Lines { tables: self.tables.clone(), order: order.to_vec() }
    }

    /// Accesses one line of each table, in order, for each of at most [`BATCH`] keys. Replaces
    /// `keys` with the words that it read. All random bits of a key determine each position.
    pub fn access_lines(&self, keys: &mut [u64]) {
        let mut places = [0usize; BATCH];
        for &table in &self.order {
            let table = &self.tables[table];
            for (key, place) in keys.iter().zip(&mut places) {
                *place = table.line_position(*key);
                prefetch(&table.words, *place);
            }
            for (key, place) in keys.iter_mut().zip(&places) {
                *key ^= table.words[*place];
            }
        }
    }
}

impl WordTable {
    /// Returns the position of the first word of a key's line: the key's bits are mixed by a
    /// multiplication, and the product's upper half is scaled to the number of lines.
    #[inline(always)]
    fn line_position(&self, key: u64) -> usize {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed) * u128::from(self.lines)) >> 64) as usize * LINE
    }
}

#[inline(always)]
fn prefetch(words: &HugeWords, place: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no visible effect, and `place` is within the words.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().add(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, place);
}

/// Byte offsets of the accessed fields in a plain VXLAN packet over IPv4 without options.
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

/// Returns the key of a packet: VNI and inner destination. 0 if the packet is too short.
#[inline(always)]
pub fn key(packet: &[u8]) -> u64 {
    let Some(packet) = packet.first_chunk::<{ offset::END }>() else { return 0 };
    let word = |at: usize| u64::from(u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]));
    (word(offset::VNI) >> 8) << 32 | word(offset::INNER_DESTINATION)
}

/// Writes the fields that a gateway writes: outer destination, VNI, inner MAC, both TTLs, both
/// checksums (incrementally). The values come from `found`, as they would come from the last table.
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
            seen[table.line_position(key) / LINE] += 1;
        }
        assert!(seen.iter().all(|&n| (20..200).contains(&n)), "each line about 64 times: {seen:?}");
    }

    #[test]
    fn each_line_depends_on_the_one_before() {
        let lines = Lines::new(&[1 << 12, 1 << 16], 7).expect("a few kilobytes");
        let mut keys = [1, 2, 1];
        lines.access_lines(&mut keys);
        assert_eq!(keys[0], keys[2], "the same key finds the same");
        assert_ne!(keys[0], keys[1]);
        let first = 1 ^ lines.tables[0].words[lines.tables[0].line_position(1)];
        assert_eq!(keys[0], first ^ lines.tables[1].words[lines.tables[1].line_position(first)]);
    }

    #[test]
    fn a_table_can_be_looked_at_twice() {
        let lines = Lines::new(&[1 << 12, 1 << 16], 7).expect("a few kilobytes");
        let (mut once, mut twice) = ([1], [1]);
        lines.in_order(&[0]).access_lines(&mut once);
        lines.in_order(&[0]).access_lines(&mut once);
        lines.in_order(&[0, 0]).access_lines(&mut twice);
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
