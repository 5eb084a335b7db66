//! Feasibility check for packing a number of entries into a number of words.
//!
//! A word's capacity is more than a sum of bits (`table_format.cpp` of the back-end). A byte of a
//! word is compared for only one entry. The *overhead* (action selector, data, addresses) is not
//! compared and is in the lower half of a word, from bit 0. An entry's version is a nibble; nibbles
//! of a word's two upper bytes are compared separately. An entry can be split over words, but at
//! most two entries of a word can be split. A word compares one search bus.

mod grid;
mod row_format;

pub(super) use row_format::{EntryOverhead, RowFormat};

use super::key::{KeyByte, without_ghost_bits};
use grid::{BytePlacement, InterleavedByte, RowGrid, low_mask};
use row_format::{RowPlan, plan_row};

/// Returns whether the format is feasible.
pub(super) fn is_packable(form: &RowFormat) -> bool {
    let Some(plan) = plan_row(form) else { return false };
    let bytes = without_ghost_bits(form.key, form.ghost_bits);
    let start = RowGrid::new(form, &plan);
    let grid = start.clone().with_overhead(form, &plan);
    let filled = |grid: RowGrid| {
        [BytePlacement::GatewayLast, BytePlacement::Tight]
            .into_iter()
            .any(|order| grid.clone().place_entries(&plan, &bytes, order))
    };
    if grid.is_some_and(filled) {
        return true;
    }
    packs_interleaved(start, form, &plan, bytes)
}

/// Tries to place each entry's overhead into the unused bits of a partial byte next to it. Returns
/// whether the entries then fit.
fn packs_interleaved(mut grid: RowGrid, form: &RowFormat, plan: &RowPlan, bytes: Vec<KeyByte>) -> bool {
    let bits = form.overhead.total_bits();
    let overhead_words: Vec<usize> = (0..plan.overhead.len()).filter(|w| plan.overhead[*w] > 0).collect();
    let bus = plan.bus[overhead_words[0]];
    if bits == 0 || bus.is_none() || overhead_words.iter().any(|w| plan.bus[*w] != bus) {
        return false;
    }
    let Some((byte, start, byte_in_cycle, cycle)) = best_hole(&bytes, bus, bits) else { return false };
    grid.order = BytePlacement::Tight;
    grid.interleaved = Some(InterleavedByte { byte, at: byte_in_cycle, cycle });
    for word in overhead_words {
        let mut first_byte = 0usize;
        for _ in 0..plan.overhead[word] {
            let first_bit = first_byte as u32 * 8 + start;
            if first_bit + bits > grid.overhead_bits {
                return false;
            }
            grid.taken[word] |= low_mask(bits) << first_bit;
            let byte_mask = u128::from(byte.bits) << (8 * (first_byte + byte_in_cycle));
            if first_byte + byte_in_cycle >= grid.width || grid.taken[word] & byte_mask != 0 {
                return false;
            }
            grid.reserved[word] |= byte_mask;
            grid.reserved_bytes[word] |= 1 << (first_byte + byte_in_cycle);
            first_byte += cycle;
        }
    }
    grid.place_entries(plan, &bytes, BytePlacement::Tight)
}

/// Returns the byte of a bus with the best hole for `bits` of overhead: (byte, first bit of the
/// overhead, byte position, bytes of both).
fn best_hole(bytes: &[KeyByte], bus: Option<usize>, bits: u32) -> Option<(KeyByte, u32, usize, usize)> {
    let of = |byte: KeyByte| {
        let (below, above) = (byte.bits.trailing_zeros(), byte.bits.leading_zeros());
        let hole = below.max(above);
        let cycle = (8 - hole + bits).div_ceil(8);
        let start = if below > above { ((cycle - 1) * 8 + below).checked_sub(bits)? } else { 8 - above };
        let at = if below > above { cycle - 1 } else { 0 };
        // Fewest bytes for both, then the fullest byte.
        Some(((cycle, hole), (byte, start, at as usize, cycle as usize)))
    };
    let mut holes =
        bytes.iter().filter(|b| Some(b.bus) == bus && b.bits & 0x81 != 0x81).filter_map(|b| of(*b)).collect::<Vec<_>>();
    holes.sort_by_key(|(rank, _)| *rank);
    holes.first().map(|(_, hole)| *hole)
}
