//! The key of a table as bytes on a match crossbar.

use crate::demand::{Key, Table};
use crate::target::Target;

/// One byte of a key on a search bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Byte {
    /// Its bits that belong to the key.
    pub bits: u8,
    /// Which search bus brings it: a row of SRAM compares one bus with each word.
    pub bus: usize,
}

/// The key's bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct KeyBytes {
    /// In the order in which they lie on the buses.
    pub bytes: Vec<Byte>,
    /// Search buses that they take.
    pub buses: usize,
    /// Bytes of the crossbar: bytes that are compared under a mask in SRAM are on it once and in the word twice.
    pub crossbar: u32,
    /// Bits of the key.
    pub bits: u32,
}

/// Whether a key has more bytes than a crossbar, however they are put together.
pub(super) fn too_wide(table: &Table, crossbar: u32) -> bool {
    table.keys.iter().map(|k| u64::from(k.bits)).sum::<u64>() > u64::from(crossbar) * 8
}

/// Widths of the pieces that lie in bytes of their own: neighbouring fields of one header share a byte where one ends and the next begins,
/// as the packet has them; metadata does not. (Containers hold what the parser extracts; `phv` keeps a header's fields together.)
fn pieces(keys: &[&Key]) -> Vec<u32> {
    let header = |k: &Key| k.name.rsplit_once('.').filter(|(h, _)| h.contains("hdr")).map(|(h, _)| h.to_owned());
    let mut out: Vec<u32> = Vec::new();
    let mut open: Option<String> = None;
    for key in keys {
        let of = header(key);
        match out.last_mut() {
            Some(last) if of.is_some() && of == open && *last % 8 != 0 => *last += key.bits,
            _ => out.push(key.bits),
        }
        open = of;
    }
    out
}

/// Masks of the bytes of a key.
fn masks(keys: &[&Key]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces(keys) {
        out.extend(std::iter::repeat_n(0xff, (piece / 8) as usize));
        if piece % 8 != 0 {
            out.push(((1u16 << (piece % 8)) - 1) as u8);
        }
    }
    out
}

/// Puts bytes on buses of `width` bytes, one bus after the other (`input_xbar.cpp`: the fewest groups, each filled).
fn on_buses(masks: Vec<u8>, width: usize) -> (Vec<Byte>, usize) {
    let buses = masks.len().div_ceil(width).max(1);
    (masks.into_iter().enumerate().map(|(i, bits)| Byte { bits, bus: i / width }).collect(), buses)
}

/// The bytes that a hash table compares.
pub(super) fn of_exact(target: &Target, table: &Table) -> KeyBytes {
    let masks = masks(&table.keys.iter().collect::<Vec<_>>());
    let bits = masks.iter().map(|m| m.count_ones()).sum();
    let crossbar = masks.len() as u32;
    let (bytes, buses) = on_buses(masks, target.word_bytes());
    KeyBytes { bytes, buses, crossbar, bits }
}

/// The bytes that a partition of an algorithmic TCAM compares: those under a mask twice, once for "must be 0" and once for "must be 1"
/// (`table_layout.cpp`, algorithmic TCAM). The partition's number, `number_bits` wide, is on the crossbar only: it is the row.
pub(super) fn of_partition(target: &Target, table: &Table, number_bits: u32) -> KeyBytes {
    let exact: Vec<&Key> = table.keys.iter().filter(|k| k.exact).collect();
    let masked: Vec<&Key> = table.keys.iter().filter(|k| !k.exact).collect();
    let (mut all, twice) = (masks(&exact), masks(&masked));
    let crossbar = (all.len() + twice.len()) as u32 + number_bits.div_ceil(8);
    all.extend(twice.iter().chain(&twice));
    let bits = all.iter().map(|m| m.count_ones()).sum();
    let (bytes, buses) = on_buses(all, target.word_bytes());
    KeyBytes { bytes, buses, crossbar, bits }
}

/// Bits and crossbar bytes of a ternary key. A range is matched nibble by nibble, each in a byte of its own (`resource_estimate.cpp`,
/// range entries).
pub(super) fn of_ternary(table: &Table) -> (u32, u32) {
    let (range, plain): (Vec<&Key>, Vec<&Key>) = table.keys.iter().partition(|k| k.range);
    let (range, plain) = (masks(&range), masks(&plain));
    let sum = |m: &[u8]| m.iter().map(|m| m.count_ones()).sum::<u32>();
    (sum(&plain) + 2 * sum(&range), (plain.len() + 2 * range.len()) as u32)
}

/// Bits of hash that place an entry and so need not be kept, taken from the key: those that choose the word, and those that choose among the
/// blocks of the smallest way. Bytes of the bus with least bits go first, and among them those with least bits, so that whole bytes fall away
/// (`table_format.cpp`, ghost bits).
pub(super) fn without_ghosts(key: &KeyBytes, mut ghosts: u32) -> Vec<Byte> {
    let bits_of = |bus: usize| key.bytes.iter().filter(|b| b.bus == bus).map(|b| b.bits.count_ones()).sum::<u32>();
    let mut left = key.bytes.clone();
    left.sort_by_key(|b| (bits_of(b.bus), b.bus, b.bits.count_ones()));
    let mut kept = Vec::new();
    for mut byte in left {
        let width = byte.bits.count_ones();
        if ghosts >= width {
            ghosts -= width;
            continue;
        }
        while ghosts > 0 {
            byte.bits &= byte.bits - 1;
            ghosts -= 1;
        }
        kept.push(byte);
    }
    kept
}
