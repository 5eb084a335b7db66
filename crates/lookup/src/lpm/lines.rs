//! What all keys of a batch go through if there are exact keys: hash, tags, line. And what a line says of an address.
//!
//! Keys whose place is known at once take about fifty instructions in all, so those count: nothing is checked twice, and what is
//! the same for all keys of a table is decided before the loops.
#![allow(unsafe_code)]

use super::address::Address;
use super::directory::{self, Directory, KeyPlace};
use super::matcher::Matcher;
use super::pool::{Line, Ref};
use super::set::{Formats, HEAD, Kind};
use super::table::Table;
use super::view::{CHUNK, NEAR, View, prefetch};
use super::window::{WINDOW, masks};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Blocks between asking for tags and looking into the lines that these name: about as many lines as a core can have under way, so that it
/// compares prefixes while it waits for further lines.
const BEHIND: usize = 2;
/// In place of a slot: no line has the key, as its tag is in none of those that could.
const NOWHERE: usize = usize::MAX;

/// The lines of keys, and what they say. `go_on` gets the keys that have more behind a gate: their position, where they go, the rest
/// of the address. `out` has an element for each key, null at first.
///
/// # Safety
/// The processor has what the matcher needs. `directory` is that of `table`, and `keys` has that many words for each key.
#[inline(always)]
pub(super) unsafe fn first_lines<A: Address, M: Matcher>(
    view: &View<'_>,
    table: &Table<A>,
    directory: &Directory,
    keys: &[u64],
    out: &mut [*const u8],
    go_on: impl FnMut(usize, Ref, A),
) {
    // SAFETY: as promised to this function; only keys of one word are in their lines.
    unsafe {
        match directory.place {
            KeyPlace::Apart(_) => first_lines_of::<A, M, false, false>(view, table, directory, keys, out, go_on),
            _ if A::WORDS == 1 && table.lpm_bits <= 32 => {
                first_lines_of::<A, M, true, true>(view, table, directory, keys, out, go_on);
            }
            _ => first_lines_of::<A, M, true, false>(view, table, directory, keys, out, go_on),
        }
    }
}

/// # Safety
/// As for [`first_lines`]; with `ONE`, exact keys have one word; with `NARROW`, addresses have at most 32 bits.
#[inline(always)]
unsafe fn first_lines_of<A: Address, M: Matcher, const ONE: bool, const NARROW: bool>(
    view: &View<'_>,
    table: &Table<A>,
    directory: &Directory,
    keys: &[u64],
    out: &mut [*const u8],
    mut go_on: impl FnMut(usize, Ref, A),
) {
    let exact_words = if ONE { 1 } else { table.exact_words };
    let words = exact_words + A::WORDS;
    let count = out.len().min(CHUNK).min(keys.len() / words);
    let (keys, out) = (keys.as_ptr(), out.as_mut_ptr());
    // SAFETY: asked for keys before `count` only.
    let key = |index: usize| unsafe { std::slice::from_raw_parts(keys.add(index * words), words) };
    let mut hashes = [MaybeUninit::<u64>::uninit(); CHUNK];
    let mut slots = [MaybeUninit::<usize>::uninit(); CHUNK];
    let all = directory.slots();
    let (tags, lines) = (directory.tags.as_ptr(), directory.lines.as_ptr());
    let mut gated = [MaybeUninit::<(usize, Ref, u32)>::uninit(); CHUNK];
    let mut gates = 0;
    let narrow = directory.place == KeyPlace::Narrow;
    let (offset, shift) = if narrow { (HEAD, 32) } else { (HEAD - 8, 0) };
    // Near lines need not be waited for.
    let size = if all * size_of::<Line>() <= NEAR { CHUNK } else { M::BLOCK };
    let blocks = count.div_ceil(size);
    // The keys of a block that is so many rounds behind the first.
    let block = |round: usize, behind: usize| {
        let block = round.wrapping_sub(behind);
        if block < blocks { block * size..count.min((block + 1) * size) } else { 0..0 }
    };
    for round in 0..blocks + BEHIND {
        for index in block(round, 0) {
            let hash = directory.hash.words(&key(index)[..exact_words]);
            let slot = directory::home(hash, all);
            hashes[index].write(hash);
            slots[index].write(slot);
            prefetch(tags.wrapping_add(slot));
        }
        for index in block(round, 1) {
            // SAFETY: written a round before. A home is one of `all` slots, and `WINDOW` tags are behind the last.
            let at = unsafe {
                let (hash, slot) = (hashes[index].assume_init(), slots[index].assume_init());
                named(&*tags.add(slot).cast(), hash, slot, all)
            };
            slots[index].write(at);
            if at != NOWHERE {
                prefetch(lines.wrapping_add(at).cast());
            }
        }
        for index in block(round, BEHIND) {
            let (exact, address) = key(index).split_at(exact_words);
            // SAFETY: written rounds before. A slot is less than `all`, and lines are as many; a key lies within its line. `out` has `count`.
            unsafe {
                let out = &mut *out.add(index);
                let slot = slots[index].assume_init();
                if slot == NOWHERE {
                    continue;
                }
                let mut line: *const u8 = lines.add(slot).cast();
                if !(if ONE { load(line.add(offset)) >> shift == exact[0] } else { directory.is(slot, exact) }) {
                    let Some(slot) = directory.find_hashed(exact, hashes[index].assume_init()) else { continue };
                    line = lines.add(slot).cast();
                }
                let address = A::from_words(address, table.lpm_bits);
                let (found, child, len) = search::<A, M, NARROW>(view, &table.formats, line, address);
                *out = found;
                if !child.is_null() {
                    // What is behind gates comes later, and leaves the registers to this loop.
                    gated[gates & (CHUNK - 1)].write((index, child, len));
                    gates += 1;
                }
            }
        }
    }
    for gate in &gated[..gates.min(CHUNK)] {
        // SAFETY: written above.
        let (index, child, len) = unsafe { gate.assume_init() };
        go_on(index, child, A::from_words(&key(index)[exact_words..], table.lpm_bits).skip(len));
    }
}

/// The slot that a key's tags name, of so many in all: that of the line with the key, if there is one, nearly always. `tags` are those from its home on.
#[inline(always)]
fn named(tags: &[u8; WINDOW], hash: u64, home: usize, all: usize) -> usize {
    let (same, free) = masks(tags, directory::tag(hash));
    if same == 0 && free != 0 {
        return NOWHERE;
    }
    // The first with the right tag. If there is none, any line will do: its key differs.
    let at = home + (same.trailing_zeros() as usize & 31);
    if at >= all { at - all } else { at }
}

/// The longest prefix in a line: the first byte of its value, null if the address has none; then what is behind the line's gate, if
/// the address passes, and how many bits of the address the gate takes.
///
/// # Safety
/// `line` is a line of a set of these formats, whose prefixes have at most 32 bits if `NARROW`, and the processor has what the matcher needs.
#[inline(always)]
pub(super) unsafe fn search<A: Address, M: Matcher, const NARROW: bool>(
    view: &View<'_>,
    formats: &Formats,
    line: *const u8,
    address: A,
) -> (*const u8, Ref, u32) {
    // SAFETY: all offsets of a format lie within the line (`Format::new`), and shifts end 16 bytes before it does.
    unsafe {
        let head = load(line.add(HEAD));
        let format = &formats.formats[(head >> 8 & 15) as usize];
        let width = if NARROW { 4 } else { format.width };
        let shifts = line.add(format.shifts as usize);
        let count = head as u32 & 15;
        let mask = match width {
            4 => M::narrow(line, shifts, address.top(32) as u32, count),
            8 => M::middle(line, shifts, address.top(64), count),
            _ => matches_wide(line, shifts, address.wide()),
        } & ((1 << count) - 1);
        let lane = mask.trailing_zeros() as usize & 15;
        let cells = line.add(format.cells as usize);
        let mut cell = cells.wrapping_add(lane * formats.cell);
        if format.kind == Kind::Apart {
            cell = view.pool.wrapping_add((load(cells) as u32 as usize) << 6).wrapping_add(lane * 8);
            prefetch(cell);
        }
        if view.numbered {
            let number = if mask != 0 { load(cell) as u32 as usize } else { 0 };
            cell = view.values.wrapping_add(number * view.stride);
        }
        let found = select_unpredictable(mask != 0, cell, std::ptr::null());
        if format.kind != Kind::Gated {
            return (found, Ref::NULL, 0);
        }
        let (child, len) = gate(line.add(format.gate as usize), width, head, address);
        (found, child, len)
    }
}

/// What is behind a line's gate, if the address passes, and how many bits of the address it takes.
///
/// # Safety
/// `at` is the gate of a line with this head, in a format with prefixes of so many bytes.
#[inline(always)]
pub(super) unsafe fn gate<A: Address>(at: *const u8, width: u8, head: u64, address: A) -> (Ref, u32) {
    // SAFETY: as promised: bits of the gate, and eight bytes behind them, within the line.
    unsafe {
        let bits = match width {
            4 => u128::from(load(at) as u32) << 96,
            8 => u128::from(load(at)) << 64,
            _ => u128::from_le(at.cast::<u128>().read_unaligned()),
        };
        let len = (head >> 16 & 255) as u32;
        let passes = address.shares(A::from_wide(bits), len);
        (Ref(if passes { load(at.add(width as usize)) } else { 0 }), len)
    }
}

/// Prefixes of 128 bits, at most 3.
///
/// # Safety
/// 48 bytes may be read at `line` and 3 at `shifts`.
#[inline(always)]
unsafe fn matches_wide(line: *const u8, shifts: *const u8, address: u128) -> u32 {
    let mut mask = 0;
    for index in 0..3 {
        // SAFETY: the caller's promise.
        let (prefix, shift) = unsafe { (line.cast::<u128>().add(index).read(), *shifts.add(index)) };
        let differs = (u128::from_le(prefix) ^ address).checked_shr(u32::from(shift)).unwrap_or(0);
        mask |= u32::from(differs == 0) << index;
    }
    mask
}

/// # Safety
/// Eight bytes may be read.
#[inline(always)]
unsafe fn load(from: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    u64::from_le(unsafe { from.cast::<u64>().read_unaligned() })
}
