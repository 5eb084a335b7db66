//! Search for the line of each exact key in a batch (hash, tags, line), and search within a line.
//!
//! A key takes about fifty instructions, so each one matters: nothing is checked twice, and all
//! per-table decisions are made before the loops.
#![allow(unsafe_code)]

use super::address::AddressBits;
use super::directory::{self, ExactKeyDirectory, LineKeyFormat};
use super::matcher::PrefixMatcher;
use super::pool::{BlockRef, LineBytes};
use super::prefix_line::{HEADER_OFFSET, PrefixLineKind, PrefixLineLayouts};
use super::table::TypedLpmTable;
use super::view::{CACHED_BYTES, CHUNK_KEYS, LpmView, prefetch_line};
use super::window::{WINDOW_TAGS, match_tags};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Rounds between prefetching tags and reading the lines that they select. This keeps about the
/// maximum number of cache lines of a core in flight, so that it compares prefixes while it waits
/// for other lines.
const PIPELINE_ROUNDS: usize = 2;
/// Marks a key without a line, because no candidate tag matches.
const NO_SLOT: usize = usize::MAX;

/// Searches the line of each key. Writes the value found to `out`, which has an element per key,
/// initially null. Calls `go_on` for each key that matches a compressed child, with the key's
/// index, the child and the remaining address.
///
/// # Safety
/// The processor has the matcher's instructions. `directory` belongs to `table`, and `keys` holds
/// all words of each key.
#[inline(always)]
pub(super) unsafe fn search_first_lines<A: AddressBits, M: PrefixMatcher>(
    view: &LpmView<'_>,
    table: &TypedLpmTable<A>,
    directory: &ExactKeyDirectory,
    keys: &[u64],
    out: &mut [*const u8],
    go_on: impl FnMut(usize, BlockRef, A),
) {
    // SAFETY: guaranteed by the caller; only keys of one word are stored in their lines.
    unsafe {
        match directory.key_format {
            LineKeyFormat::Separate(_) => {
                search_first_lines_of::<A, M, false, false>(view, table, directory, keys, out, go_on)
            }
            _ if A::WORDS == 1 && table.lpm_bits <= 32 => {
                search_first_lines_of::<A, M, true, true>(view, table, directory, keys, out, go_on);
            }
            _ => search_first_lines_of::<A, M, true, false>(view, table, directory, keys, out, go_on),
        }
    }
}

/// Implements [`search_first_lines`]. With `ONE`, exact keys have one word; with `NARROW`,
/// addresses have at most 32 bits.
///
/// # Safety
/// As for [`search_first_lines`].
#[inline(always)]
unsafe fn search_first_lines_of<A: AddressBits, M: PrefixMatcher, const ONE: bool, const NARROW: bool>(
    view: &LpmView<'_>,
    table: &TypedLpmTable<A>,
    directory: &ExactKeyDirectory,
    keys: &[u64],
    out: &mut [*const u8],
    mut go_on: impl FnMut(usize, BlockRef, A),
) {
    let exact_words = if ONE { 1 } else { table.exact_words };
    let words = exact_words + A::WORDS;
    let count = out.len().min(CHUNK_KEYS).min(keys.len() / words);
    let (keys, out) = (keys.as_ptr(), out.as_mut_ptr());
    // SAFETY: called for keys before `count` only.
    let key = |index: usize| unsafe { std::slice::from_raw_parts(keys.add(index * words), words) };
    let mut hashes = [MaybeUninit::<u64>::uninit(); CHUNK_KEYS];
    let mut slots = [MaybeUninit::<usize>::uninit(); CHUNK_KEYS];
    let all = directory.slot_count();
    let (tags, lines) = (directory.tags.as_ptr(), directory.lines.as_ptr());
    let mut with_child = [MaybeUninit::<(usize, BlockRef, u32)>::uninit(); CHUNK_KEYS];
    let mut child_count = 0;
    let narrow = directory.key_format == LineKeyFormat::Narrow;
    let (offset, shift) = if narrow { (HEADER_OFFSET, 32) } else { (HEADER_OFFSET - 8, 0) };
    // Lines in cache need no waiting.
    let size = if all * size_of::<LineBytes>() <= CACHED_BYTES { CHUNK_KEYS } else { M::BLOCK_KEYS };
    let block_count = count.div_ceil(size);
    // Returns the keys of the block `behind` rounds after the first.
    let block = |round: usize, behind: usize| {
        let block = round.wrapping_sub(behind);
        if block < block_count { block * size..count.min((block + 1) * size) } else { 0..0 }
    };
    for round in 0..block_count + PIPELINE_ROUNDS {
        for index in block(round, 0) {
            let hash = directory.hash.hash_words(&key(index)[..exact_words]);
            let slot = directory::home_slot(hash, all);
            hashes[index].write(hash);
            slots[index].write(slot);
            prefetch_line(tags.wrapping_add(slot));
        }
        for index in block(round, 1) {
            // SAFETY: written a round before. A home is one of `all` slots, and `WINDOW_TAGS` tags
            // follow the last.
            let found_slot = unsafe {
                let (hash, slot) = (hashes[index].assume_init(), slots[index].assume_init());
                matching_slot(&*tags.add(slot).cast(), hash, slot, all)
            };
            slots[index].write(found_slot);
            // A key without a line costs no access to memory.
            if found_slot != NO_SLOT {
                prefetch_line(lines.wrapping_add(found_slot).cast());
            }
        }
        for index in block(round, PIPELINE_ROUNDS) {
            let (exact, address) = key(index).split_at(exact_words);
            // SAFETY: written in earlier rounds. A slot is less than `all`, the number of lines; a
            // key lies within its line. `out` has `count` elements.
            unsafe {
                let out = &mut *out.add(index);
                let slot = slots[index].assume_init();
                if slot == NO_SLOT {
                    continue;
                }
                let mut line: *const u8 = lines.add(slot).cast();
                if !(if ONE {
                    load_u64(line.add(offset)) >> shift == exact[0]
                } else {
                    directory.line_has_key(slot, exact)
                }) {
                    let Some(slot) = directory.find_hashed(exact, hashes[index].assume_init()) else { continue };
                    line = lines.add(slot).cast();
                }
                let address = A::from_words(address, table.lpm_bits);
                let (found, child, len) = search_line::<A, M, NARROW>(view, &table.line_layouts, line, address);
                *out = found;
                if !child.is_null() {
                    // Children are processed after the loop to keep its registers free.
                    with_child[child_count & (CHUNK_KEYS - 1)].write((index, child, len));
                    child_count += 1;
                }
            }
        }
    }
    for waiting in &with_child[..child_count.min(CHUNK_KEYS)] {
        // SAFETY: written above.
        let (index, child, len) = unsafe { waiting.assume_init() };
        go_on(index, child, A::from_words(&key(index)[exact_words..], table.lpm_bits).skip_bits(len));
    }
}

/// Returns the first slot with a matching tag, of `all` slots. If the key has a line, it is nearly
/// always this one. `tags` starts at the key's home slot.
#[inline(always)]
fn matching_slot(tags: &[u8; WINDOW_TAGS], hash: u64, home: usize, all: usize) -> usize {
    let (same, free) = match_tags(tags, directory::directory_tag(hash));
    if same == 0 && free != 0 {
        return NO_SLOT;
    }
    // The first slot with a matching tag. Without one, any line will do, because its key differs.
    let at = home + (same.trailing_zeros() as usize & 31);
    if at >= all { at - all } else { at }
}

/// Searches a line for the longest matching prefix. Returns the address of its value, or null
/// without a match; the compressed child, if the address matches it; and the number of address bits
/// that the child covers. Prefixes are sorted by falling length, so the first match is the longest.
///
/// # Safety
/// `line` is a prefix line with these layouts, its prefixes have at most 32 bits if `NARROW`, and
/// the processor has the matcher's instructions.
#[inline(always)]
pub(super) unsafe fn search_line<A: AddressBits, M: PrefixMatcher, const NARROW: bool>(
    view: &LpmView<'_>,
    layouts: &PrefixLineLayouts,
    line: *const u8,
    address: A,
) -> (*const u8, BlockRef, u32) {
    // SAFETY: all offsets of a layout lie within the line (`PrefixLineLayout::new`), and shifts end
    // at least 16 bytes before its end.
    unsafe {
        let header = load_u64(line.add(HEADER_OFFSET));
        let format = &layouts.layouts[(header >> 8 & 15) as usize];
        let width = if NARROW { 4 } else { format.prefix_bytes };
        let shifts = line.add(format.shifts_offset as usize);
        let count = header as u32 & 15;
        let mask = match width {
            4 => M::match_32(line, shifts, address.leading_bits(32) as u32, count),
            8 => M::match_64(line, shifts, address.leading_bits(64), count),
            _ => match_wide_prefixes(line, shifts, address.to_left_u128()),
        } & ((1 << count) - 1);
        let lane = mask.trailing_zeros() as usize & 15;
        let cells = line.add(format.cells_offset as usize);
        let mut cell = cells.wrapping_add(lane * layouts.cell_bytes);
        if format.kind == PrefixLineKind::OutOfLine {
            cell = view.pool.wrapping_add((load_u64(cells) as u32 as usize) << 6).wrapping_add(lane * 8);
            prefetch_line(cell);
        }
        if view.uses_value_numbers {
            let number = if mask != 0 { load_u64(cell) as u32 as usize } else { 0 };
            cell = view.values.wrapping_add(number * view.value_stride);
        }
        let found = select_unpredictable(mask != 0, cell, std::ptr::null());
        if format.kind != PrefixLineKind::WithChild {
            return (found, BlockRef::NULL, 0);
        }
        let (child, len) = read_child(line.add(format.child_offset as usize), width, header, address);
        (found, child, len)
    }
}

/// Returns a line's compressed child, if the address matches it, and the number of address bits
/// that it covers.
///
/// # Safety
/// `at` is the child of a line with this header, in a layout with prefixes of `width` bytes.
#[inline(always)]
pub(super) unsafe fn read_child<A: AddressBits>(at: *const u8, width: u8, head: u64, address: A) -> (BlockRef, u32) {
    // SAFETY: guaranteed by the caller: the child's prefix and the following eight bytes are within
    // the line.
    unsafe {
        let bits = match width {
            4 => u128::from(load_u64(at) as u32) << 96,
            8 => u128::from(load_u64(at)) << 64,
            _ => u128::from_le(at.cast::<u128>().read_unaligned()),
        };
        let len = (head >> 16 & 255) as u32;
        let passes = address.shares_leading_bits(A::from_left_u128(bits), len);
        (BlockRef(if passes { load_u64(at.add(width as usize)) } else { 0 }), len)
    }
}

/// Compares 128-bit prefixes, at most 3.
///
/// # Safety
/// 48 bytes may be read at `line` and 3 at `shifts`.
#[inline(always)]
unsafe fn match_wide_prefixes(line: *const u8, shifts: *const u8, address: u128) -> u32 {
    let mut mask = 0;
    for index in 0..3 {
        // SAFETY: guaranteed by the caller.
        let (prefix, shift) = unsafe { (line.cast::<u128>().add(index).read(), *shifts.add(index)) };
        let differs = (u128::from_le(prefix) ^ address).checked_shr(u32::from(shift)).unwrap_or(0);
        mask |= u32::from(differs == 0) << index;
    }
    mask
}

/// Loads eight bytes.
///
/// # Safety
/// Eight bytes may be read.
#[inline(always)]
unsafe fn load_u64(from: *const u8) -> u64 {
    // SAFETY: guaranteed by the caller.
    u64::from_le(unsafe { from.cast::<u64>().read_unaligned() })
}
