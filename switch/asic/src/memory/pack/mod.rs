//! Whether a number of entries can lie side by side in so many words.
//!
//! What a word can hold is more than a sum of bits (`table_format.cpp` of the back-end). A byte of a word is compared for one entry only. What
//! is not compared (which action, its data, addresses: the *overhead*) lies in the lower half of a word, from bit 0. An entry's version is
//! a nibble; in the two upper bytes of a word nibbles are compared one by one. An entry may be spread over words, but at most two entries of
//! a word may be spread; and a word compares one search bus.

mod form;
mod grid;

pub(super) use form::{Form, Overhead};

use super::key::{Byte, without_ghosts};
use form::{Plan, plan};
use grid::{Grid, Interleaved, Order, low};

/// Whether the form can be.
pub(super) fn packs(form: &Form) -> bool {
    let Some(plan) = plan(form) else { return false };
    let bytes = without_ghosts(form.key, form.ghosts);
    let start = Grid::new(form, &plan);
    let grid = start.clone().with_overhead(form, &plan);
    let filled = |grid: Grid| {
        [Order::GatewayLast, Order::Tight].into_iter().any(|order| grid.clone().fill(&plan, &bytes, order))
    };
    if grid.is_some_and(filled) {
        return true;
    }
    interleaved(start, form, &plan, bytes)
}

/// Puts the overhead of each entry into the hole of a byte that is not compared whole, next to it.
fn interleaved(mut grid: Grid, form: &Form, plan: &Plan, bytes: Vec<Byte>) -> bool {
    let bits = form.overhead.bits();
    let with: Vec<usize> = (0..plan.overhead.len()).filter(|w| plan.overhead[*w] > 0).collect();
    let bus = plan.bus[with[0]];
    if bits == 0 || bus.is_none() || with.iter().any(|w| plan.bus[*w] != bus) {
        return false;
    }
    let Some((byte, start, at, cycle)) = best_hole(&bytes, bus, bits) else { return false };
    grid.order = Order::Tight;
    grid.interleaved = Some(Interleaved { byte, at, cycle });
    for word in with {
        let mut from = 0usize;
        for _ in 0..plan.overhead[word] {
            let first = from as u32 * 8 + start;
            if first + bits > grid.half {
                return false;
            }
            grid.taken[word] |= low(bits) << first;
            let kept = u128::from(byte.bits) << (8 * (from + at));
            if from + at >= grid.width || grid.taken[word] & kept != 0 {
                return false;
            }
            grid.kept[word] |= kept;
            grid.kept_bytes[word] |= 1 << (from + at);
            from += cycle;
        }
    }
    grid.fill(plan, &bytes, Order::Tight)
}

/// The byte of a bus whose hole is best for `bits` of overhead: (byte, first bit of the overhead, byte's place, bytes of both together).
fn best_hole(bytes: &[Byte], bus: Option<usize>, bits: u32) -> Option<(Byte, u32, usize, usize)> {
    let of = |byte: Byte| {
        let (below, above) = (byte.bits.trailing_zeros(), byte.bits.leading_zeros());
        let hole = below.max(above);
        let cycle = (8 - hole + bits).div_ceil(8);
        let start = if below > above { ((cycle - 1) * 8 + below).checked_sub(bits)? } else { 8 - above };
        let at = if below > above { cycle - 1 } else { 0 };
        // Fewest bytes for both, and of those the fullest.
        Some(((cycle, hole), (byte, start, at as usize, cycle as usize)))
    };
    let mut holes =
        bytes.iter().filter(|b| Some(b.bus) == bus && b.bits & 0x81 != 0x81).filter_map(|b| of(*b)).collect::<Vec<_>>();
    holes.sort_by_key(|(rank, _)| *rank);
    holes.first().map(|(_, hole)| *hole)
}
