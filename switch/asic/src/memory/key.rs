//! Key of a table as bytes on a match crossbar.

use crate::demand::{KeyDemand, TableDemand};
use crate::target::ChipTarget;

/// One byte of a key on a search bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeyByte {
    /// Mask of the bits that belong to the key.
    pub bits: u8,
    /// Index of its search bus. A row of SRAM compares each word with one bus.
    pub bus: usize,
}

/// Bytes of a key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct KeyBytes {
    /// Bytes in bus order.
    pub bytes: Vec<KeyByte>,
    /// Number of search buses.
    pub buses: usize,
    /// Bytes on the crossbar. Bytes compared under a mask in SRAM are on it once and in the word
    /// twice.
    pub crossbar: u32,
    /// Bits of the key.
    pub bits: u32,
}

/// Returns whether a key has more bits than a crossbar, regardless of their arrangement.
pub(super) fn exceeds_crossbar(table: &TableDemand, crossbar: u32) -> bool {
    table.keys.iter().map(|k| u64::from(k.bits)).sum::<u64>() > u64::from(crossbar) * 8
}

/// Returns the widths of the runs that occupy bytes of their own. Neighbouring fields of one header
/// share the byte at their boundary, as in the packet, because `phv` keeps a header's fields
/// together. Metadata fields do not share.
fn key_run_widths(keys: &[&KeyDemand]) -> Vec<u32> {
    let header = |k: &KeyDemand| k.name.rsplit_once('.').filter(|(h, _)| h.contains("hdr")).map(|(h, _)| h.to_owned());
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

/// Returns the mask of each byte of a key.
fn byte_masks(keys: &[&KeyDemand]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in key_run_widths(keys) {
        out.extend(std::iter::repeat_n(0xff, (piece / 8) as usize));
        if piece % 8 != 0 {
            out.push(((1u16 << (piece % 8)) - 1) as u8);
        }
    }
    out
}

/// Assigns bytes to buses of `width` bytes, filling one bus after the other (`input_xbar.cpp`: the
/// fewest groups, each filled).
fn assign_buses(masks: Vec<u8>, width: usize) -> (Vec<KeyByte>, usize) {
    let buses = masks.len().div_ceil(width).max(1);
    (masks.into_iter().enumerate().map(|(i, bits)| KeyByte { bits, bus: i / width }).collect(), buses)
}

/// Returns the bytes that a hash table compares.
pub(super) fn exact_key_bytes(target: &ChipTarget, table: &TableDemand) -> KeyBytes {
    let masks = byte_masks(&table.keys.iter().collect::<Vec<_>>());
    let bits = masks.iter().map(|m| m.count_ones()).sum();
    let crossbar = masks.len() as u32;
    let (bytes, buses) = assign_buses(masks, target.word_bytes());
    KeyBytes { bytes, buses, crossbar, bits }
}

/// Returns the bytes that a partition of an algorithmic TCAM compares. Masked bytes appear twice,
/// once for "must be 0" and once for "must be 1" (`table_layout.cpp`, algorithmic TCAM). The
/// partition number, `number_bits` wide, is only on the crossbar because it addresses the row.
pub(super) fn partition_key_bytes(target: &ChipTarget, table: &TableDemand, number_bits: u32) -> KeyBytes {
    let exact: Vec<&KeyDemand> = table.keys.iter().filter(|k| k.exact).collect();
    let masked: Vec<&KeyDemand> = table.keys.iter().filter(|k| !k.exact).collect();
    let (mut all, twice) = (byte_masks(&exact), byte_masks(&masked));
    let crossbar = (all.len() + twice.len()) as u32 + number_bits.div_ceil(8);
    all.extend(twice.iter().chain(&twice));
    let bits = all.iter().map(|m| m.count_ones()).sum();
    let (bytes, buses) = assign_buses(all, target.word_bytes());
    KeyBytes { bytes, buses, crossbar, bits }
}

/// Returns bits and crossbar bytes of a ternary key. A range is matched nibble by nibble, each
/// nibble in its own byte (`resource_estimate.cpp`, range entries).
pub(super) fn ternary_key_size(table: &TableDemand) -> (u32, u32) {
    let (range, plain): (Vec<&KeyDemand>, Vec<&KeyDemand>) = table.keys.iter().partition(|k| k.range);
    let (range, plain) = (byte_masks(&range), byte_masks(&plain));
    let sum = |m: &[u8]| m.iter().map(|m| m.count_ones()).sum::<u32>();
    (sum(&plain) + 2 * sum(&range), (plain.len() + 2 * range.len()) as u32)
}

/// Removes ghost bits from the key: hash bits that address an entry and therefore need not be
/// stored. These are the bits that choose the word, and those that choose among the blocks of the
/// smallest way. Bytes of the bus with the fewest bits go first, and among them those with the
/// fewest bits, so that whole bytes disappear (`table_format.cpp`, ghost bits).
pub(super) fn without_ghost_bits(key: &KeyBytes, mut ghosts: u32) -> Vec<KeyByte> {
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
