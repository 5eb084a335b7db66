//! Lookups of a batch, in passes: each touches for all keys of the batch what the pass before has asked the memory for.
//!
//! 1. Hash the exact key, ask for its tags.
//! 2. Compare the tags, ask for the line.
//! 3. Compare the key and the line's prefixes; if there is more behind its gate, ask for that.
//! 4. Node by node, all keys that are still on their way; then the sets that they came to; and again.
//!
//! With no exact key the first three are left out. A key's answer is written whenever a longer prefix is found, so nothing is
//! looked at twice.
#![allow(unsafe_code)]

use super::address::Address;
use super::direct;
use super::levels;
use super::lines::{first_lines, search};
use super::matcher::{Matcher, Scalar};
use super::node::{INNER, PREAMBLE};
use super::pool::Ref;
use super::root::{Root, Slots};
use super::table::{Short, Table};
use super::values::NUMBER_BITS;
use super::view::{CHUNK, MASKS, NEAR, View, prefetch};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// So many keys or more with one exact key are looked up as in a table without.
const SAME: usize = 24;
/// So few keys of a table without exact keys are looked up one by one.
const FEW: usize = 4;
/// A key on its way through nodes or at a set.
#[derive(Clone, Copy)]
struct Cursor<A> {
    /// The word that has the slot, or the set's line.
    at: *const u8,
    /// The address behind the slot's bits; at a set, from the set's first bit on.
    rest: A,
    /// Which key.
    key: u16,
    /// Bits of the word before the slot.
    shift: u8,
    /// Of slots, as a logarithm.
    size: u8,
}

/// Keys at nodes and at sets: at most [`CHUNK`] together. Cursors are written before they are read: to fill them all for a batch of which few keys
/// go so far would cost more than the lookups.
struct Way<A> {
    nodes: [MaybeUninit<Cursor<A>>; CHUNK],
    sets: [MaybeUninit<Cursor<A>>; CHUNK],
    at_nodes: usize,
    at_sets: usize,
}

impl<A: Address> Table<A> {
    /// Looks up `out.len()` keys, each of `exact_words` words and then [`Address::WORDS`]. Keys that aren't there find nothing.
    pub(super) fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        let walk = |keys: &[u64], out: &mut [*const u8]| walk(self, keys, out);
        match &self.short {
            Short::Direct(direct) => direct::lookup(self, direct, keys, out, walk),
            Short::Levels(levels) => levels::lookup(self, levels, keys, out, walk),
            Short::None => walk(keys, out),
        }
    }

    pub(super) fn lookup(&self, key: &[u64]) -> Option<&[u8]> {
        let mut out = [std::ptr::null()];
        self.lookup_batch(key, &mut out);
        bytes(self, out[0], self.longest_value)
    }
}

/// The same without a shorter way.
fn walk<A: Address>(table: &Table<A>, keys: &[u64], out: &mut [*const u8]) {
    if table.directory.is_none() && out.len() <= FEW {
        return walk_each(table, keys, out);
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has it.
            return unsafe { lookup_avx512(table, keys, out) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has it.
            return unsafe { lookup_avx2(table, keys, out) };
        }
    }
    // SAFETY: a scalar matcher needs nothing.
    unsafe { lookup_with::<A, Scalar>(table, keys, out) }
}

/// The same, one key after the other, of a table without exact keys: what many take steps for together is slower for few.
fn walk_each<A: Address>(table: &Table<A>, keys: &[u64], out: &mut [*const u8]) {
    let view = View::new(&table.forest);
    for (key, out) in keys.chunks_exact(A::WORDS).zip(out) {
        let (mut at, mut address, mut found) = (table.root, A::from_words(key, table.lpm_bits), std::ptr::null());
        while !at.is_null() {
            let (here, to, len) = if at.is_set() {
                let line = view.pool.wrapping_add((at.line() as usize) << 6);
                // SAFETY: a set's line in the pool, whose formats these are; a scalar matcher needs nothing.
                unsafe { search::<A, Scalar, false>(&view, view.formats, line, address) }
            } else {
                let slot = Slots::of(&view, at, 0).map_or(0, |slots| slots.read(address));
                let number = slot as usize & ((1 << NUMBER_BITS) - 1);
                let here = if number != 0 { view.values.wrapping_add(number * view.stride) } else { std::ptr::null() };
                (here, Ref(slot >> NUMBER_BITS), at.stride())
            };
            found = if here.is_null() { found } else { here };
            (at, address) = (to, address.skip(len));
        }
        *out = found;
    }
}

/// The same without vector instructions: what other processors do.
#[cfg(test)]
pub(super) fn lookup_scalar<A: Address>(table: &Table<A>, keys: &[u64], out: &mut [*const u8]) {
    // SAFETY: a scalar matcher needs nothing.
    unsafe { lookup_with::<A, Scalar>(table, keys, out) }
}

/// The same with AVX2 at most, if the processor has it.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) fn lookup_half<A: Address>(table: &Table<A>, keys: &[u64], out: &mut [*const u8]) {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has it.
        return unsafe { lookup_avx2(table, keys, out) };
    }
    lookup_scalar(table, keys, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn lookup_avx512<A: Address>(table: &Table<A>, keys: &[u64], out: &mut [*const u8]) {
    use super::lanes::Lanes;
    use super::matcher::Avx512;

    let view = View::new(&table.forest);
    let mut memory = MaybeUninit::uninit();
    let lanes = Lanes::new(&mut memory);
    let whole = table.directory.is_none().then(|| Root::at(&view, table, table.root));
    let words = table.exact_words + A::WORDS;
    let eights = super::eights::available() && super::eights::suits(table);
    let mut addresses = [MaybeUninit::<u64>::uninit(); 2 * CHUNK];
    out.fill(std::ptr::null());
    for (keys, out) in keys.chunks(CHUNK * words).zip(out.chunks_mut(CHUNK)) {
        let count = out.len().min(keys.len() / words);
        let out = &mut out[..count];
        // SAFETY: the features are this function's. The table's blocks are whole: each `Ref` in a line or slot names one in the
        // pool, of the form that it says. There are `count` keys and answers.
        unsafe {
            let start = if A::WORDS == 1 { Lanes::start::<false> } else { Lanes::start::<true> };
            match (&table.directory, &whole, root_of_all(&view, table, keys, count)) {
                (_, Some(root), _) => {
                    start(lanes, &view, root, (keys.as_ptr(), table.lpm_bits), out.as_mut_ptr(), count);
                }
                (_, _, Some(root)) => {
                    for (index, to) in addresses[..count * A::WORDS].iter_mut().enumerate() {
                        let (key, word) = (index / A::WORDS, index % A::WORDS);
                        to.write(keys[key * words + table.exact_words + word]);
                    }
                    let addresses = addresses.as_ptr().cast();
                    start(lanes, &view, &root, (addresses, table.lpm_bits), out.as_mut_ptr(), count);
                }
                (Some(directory), ..) => {
                    let mut go_on = |index: usize, to: Ref, rest: u128| {
                        prefetch(view.pool.wrapping_add((to.line() as usize) << 6));
                        lanes.put(to, rest, index);
                    };
                    if eights {
                        let directory = (directory, table.lpm_bits);
                        super::eights::first_lines(&view, &table.formats, directory, keys, out, |index, to, rest| {
                            go_on(index, to, rest.wide())
                        })
                    } else {
                        first_lines::<A, Avx512>(&view, table, directory, keys, out, |index, to, rest| {
                            go_on(index, to, rest.wide())
                        })
                    }
                }
                (None, None, None) => {}
            }
            loop {
                let walk = if A::WORDS == 1 { Lanes::walk::<false> } else { Lanes::walk::<true> };
                walk(lanes, &view, out.as_mut_ptr());
                let going = lanes.sets(|key, set, rest| {
                    let line = view.pool.wrapping_add((set.line() as usize) << 6);
                    let rest = A::from_wide(rest);
                    let (found, to, len) = search::<A, Avx512, false>(&view, view.formats, line, rest);
                    out[key] = select_unpredictable(!found.is_null(), found, out[key]);
                    prefetch(view.pool.wrapping_add((to.line() as usize) << 6));
                    (to, rest.skip(len).wide())
                });
                if !going {
                    break;
                }
            }
        }
        if table.forest.values.len() * view.stride > NEAR {
            out.iter().for_each(|&value| prefetch(value));
        }
    }
}

/// What all of `count` keys see first, if they are many and have one exact key.
fn root_of_all<A: Address>(view: &View<'_>, table: &Table<A>, keys: &[u64], count: usize) -> Option<Root> {
    let directory = table.directory.as_ref()?;
    if count < SAME || !same_exact(keys, table.exact_words, table.exact_words + A::WORDS) {
        return None;
    }
    let slot = directory.find(&keys[..table.exact_words]);
    Some(slot.map_or_else(Root::empty::<A>, |slot| Root::of_line(view, table, &table.formats, &directory.lines[slot])))
}

/// Whether all keys have the exact key of the first.
#[inline(always)]
fn same_exact(keys: &[u64], exact_words: usize, words: usize) -> bool {
    let first = &keys[..exact_words];
    if exact_words == 1 {
        return keys.iter().step_by(words).all(|&word| word == first[0]);
    }
    keys.chunks_exact(words).all(|key| &key[..exact_words] == first)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn lookup_avx2<A: Address>(table: &Table<A>, keys: &[u64], out: &mut [*const u8]) {
    // SAFETY: this function's features are the matcher's.
    unsafe { lookup_with::<A, super::matcher::Avx2>(table, keys, out) }
}

/// # Safety
/// The processor has what the matcher needs.
#[inline(always)]
unsafe fn lookup_with<A: Address, M: Matcher>(table: &Table<A>, keys: &[u64], out: &mut [*const u8]) {
    let view = View::new(&table.forest);
    let mut way = Way::<A> {
        nodes: [const { MaybeUninit::uninit() }; CHUNK],
        sets: [const { MaybeUninit::uninit() }; CHUNK],
        at_nodes: 0,
        at_sets: 0,
    };
    let whole = table.directory.is_none().then(|| Root::at(&view, table, table.root)).filter(Root::is_near);
    let words = table.exact_words + A::WORDS;
    out.fill(std::ptr::null());
    for (keys, out) in keys.chunks(CHUNK * words).zip(out.chunks_mut(CHUNK)) {
        let count = out.len().min(keys.len() / words);
        let out = &mut out[..count];
        let root = root_of_all(&view, table, keys, count).filter(Root::is_near);
        // SAFETY: the table's blocks are whole: each `Ref` in a line or slot names one in the pool, of the form that it says.
        unsafe {
            let mut go_on = |index: usize, to, rest| way.go(&view, to, rest, index as u16);
            let address = |index: usize| {
                let key = keys.get_unchecked(index * words + table.exact_words..(index + 1) * words);
                A::from_words(key, table.lpm_bits)
            };
            match (root.as_ref().or(whole.as_ref()), &table.directory) {
                (Some(root), _) => root.look_up(&view, address, out, go_on),
                (None, Some(directory)) => first_lines::<A, M>(&view, table, directory, keys, out, go_on),
                (None, None) => (0..count).for_each(|index| go_on(index, table.root, address(index))),
            }
            while way.at_nodes + way.at_sets > 0 {
                while way.at_nodes > 0 {
                    step_nodes(&view, &mut way, out);
                }
                step_sets::<A, M>(&view, &mut way, out);
            }
        }
        if table.forest.values.len() * view.stride > NEAR {
            out.iter().for_each(|&value| prefetch(value));
        }
    }
}

impl<A: Address> Way<A> {
    /// Sends a key on to what `to` names, and asks for the word or line that it will see there.
    #[inline(always)]
    fn go(&mut self, view: &View<'_>, to: Ref, address: A, key: u16) {
        let block = view.pool.wrapping_add((to.line() as usize) << 6);
        let (stride, size) = (to.stride(), to.size());
        let byte = PREAMBLE + ((address.top(stride) as usize) << size);
        let at = if to.is_set() { block } else { block.wrapping_add(byte & !7) };
        prefetch(at);
        // Written to both lists, kept in one: which is hard to predict.
        let (nodes, sets) = (self.at_nodes & (CHUNK - 1), self.at_sets & (CHUNK - 1));
        let (shift, size) = ((byte & 7) as u8 * 8, size as u8);
        self.nodes[nodes].write(Cursor { at, rest: address.step(stride), key, shift, size });
        self.sets[sets].write(Cursor { at, rest: address, key, shift, size });
        self.at_nodes += usize::from(!to.is_null() & !to.is_set());
        self.at_sets += usize::from(to.is_set());
    }
}

/// One slot for each key at a node.
///
/// # Safety
/// Cursors point into the pool of `view`.
#[inline(always)]
unsafe fn step_nodes<A: Address>(view: &View<'_>, way: &mut Way<A>, out: &mut [*const u8]) {
    let count = std::mem::take(&mut way.at_nodes);
    for index in 0..count {
        // SAFETY: written when the list became so long; what this loop sends on goes to places before it.
        let cursor = unsafe { way.nodes[index & (CHUNK - 1)].assume_init() };
        // SAFETY: an aligned word inside of a node.
        let word = u64::from_le(unsafe { cursor.at.cast::<u64>().read() }) >> cursor.shift;
        let word = word & MASKS[cursor.size as usize & INNER as usize];
        let number = word as usize & ((1 << NUMBER_BITS) - 1);
        let out = &mut out[cursor.key as usize];
        *out = if number != 0 { view.values.wrapping_add(number * view.stride) } else { *out };
        way.go(view, Ref(word >> NUMBER_BITS), cursor.rest, cursor.key);
    }
}

/// The lines of all keys at a set.
///
/// # Safety
/// Cursors point into the pool of `view`, and the processor has what the matcher needs.
#[inline(always)]
unsafe fn step_sets<A: Address, M: Matcher>(view: &View<'_>, way: &mut Way<A>, out: &mut [*const u8]) {
    let count = std::mem::take(&mut way.at_sets);
    for index in 0..count {
        // SAFETY: as above.
        let Cursor { at, rest, key, .. } = unsafe { way.sets[index & (CHUNK - 1)].assume_init() };
        // SAFETY: a set's line in the pool, whose formats these are.
        let (found, child, len) = unsafe { search::<A, M, false>(view, view.formats, at, rest) };
        let out = &mut out[key as usize];
        *out = select_unpredictable(!found.is_null(), found, *out);
        if !child.is_null() {
            way.go(view, child, rest.skip(len), key);
        }
    }
}

/// The `len` bytes of a value that a lookup found.
pub(super) fn bytes<A>(_table: &Table<A>, value: *const u8, len: usize) -> Option<&[u8]> {
    // SAFETY: a lookup in this table gave it: a cell or value of at least so many bytes in the table's memory, which stays as long
    // as nobody changes the table.
    (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value, len) })
}
