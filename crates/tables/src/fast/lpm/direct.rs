//! [`Direct`]: what a table says of the first 24 bits of an address, in one load.
//!
//! A full routing table has prefixes of up to 24 bits, nearly all of them. Once there are many, each value of the first 24 bits has
//! an entry with the number of its value (the idea of DIR-24-8: Gupta, Lin and McKeown, "Routing Lookups in Hardware at Memory
//! Access Speeds", 1998). What is longer stays in the trie alone: where there is something, the entry says [`Direct::ask`].
//!
//! The trie knows everything, so entries are only ever derived from it: a change paints the entries that its prefix covers. That is
//! one entry for most changes and all of them for a default route, some milliseconds. Entries are as narrow as the values' numbers
//! allow, as caches hold more of them: with 254 next hops, 16 MiB.
#![allow(unsafe_code)]

use super::address::Address;
use super::batch::{CHUNK, look_elsewhere};
use super::forest::Forest;
use super::lines::prefetch;
use super::painter::{Canvas, Painter, covered};
use super::pool::Ref;
use super::table::Table;
use crate::fast::memory::HugeVec;
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Bits of an address that choose an entry.
pub(super) const BITS: u32 = 24;
/// With fewer prefixes a table has no entries. They go when there are half as many, so that no single change moves it to and fro.
pub(super) const MANY: usize = if cfg!(test) { 100 } else { 100_000 };
/// A table of more values than this, in bytes, is not in the caches: they are asked for.
const NEAR: usize = 256 << 10;

/// An entry for each value of the first [`BITS`] bits.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    /// Each of `1 << size` bytes, least significant first: the number of a value, 0 for none.
    entries: HugeVec<u8>,
    size: u32,
}

fn size_for(number: u32) -> u32 {
    match number {
        0..0xff => 0,
        0xff..0xffff => 1,
        _ => 2,
    }
}

impl Direct {
    /// Of everything below `root`.
    pub(super) fn new<A: Address>(forest: &Forest<A>, root: Ref) -> Direct {
        let size = size_for(forest.values.last());
        let mut direct = Direct { entries: HugeVec::new(), size };
        direct.entries.grow(1 << (BITS + size));
        direct.paint(forest, root, A::from_wide(0), 0);
        direct
    }

    /// The number that means: look into the trie.
    fn ask(size: u32) -> u32 {
        u32::MAX >> (32 - (8 << size))
    }

    /// Brings the entries of a prefix up to date, after it has come or gone.
    pub(super) fn paint<A: Address>(&mut self, forest: &Forest<A>, root: Ref, addr: A, len: u32) {
        self.make_wide_enough(forest.values.last());
        let (range, ask) = (covered(addr, len, BITS), Direct::ask(self.size));
        Painter { forest, canvas: self, bits: BITS, ask, range }.paint(root);
    }

    fn make_wide_enough(&mut self, number: u32) {
        let size = size_for(number);
        if size <= self.size {
            return;
        }
        let mut wider = Direct { entries: HugeVec::new(), size };
        wider.entries.grow(1 << (BITS + size));
        for at in 0..1 << BITS {
            let number = self.number(at);
            let number = if number == Direct::ask(self.size) { Direct::ask(size) } else { number };
            wider.fill(at as u64..at as u64 + 1, number);
        }
        *self = wider;
    }

    fn number(&self, at: usize) -> u32 {
        let width = 1 << self.size;
        let mut bytes = [0; 4];
        bytes[..width].copy_from_slice(&self.entries[at * width..][..width]);
        u32::from_le_bytes(bytes)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.bytes()
    }
}

impl Canvas for Direct {
    fn fill(&mut self, entries: Range<u64>, number: u32) {
        let bytes = &mut self.entries[(entries.start as usize) << self.size..(entries.end as usize) << self.size];
        match self.size {
            0 => bytes.fill(number as u8),
            1 => bytes.as_chunks_mut().0.fill((number as u16).to_le_bytes()),
            _ => bytes.as_chunks_mut().0.fill(number.to_le_bytes()),
        }
    }
}

/// Keys that entries don't answer: their positions.
struct Asking {
    who: [MaybeUninit<u16>; CHUNK],
    len: usize,
}

/// What entries and values are read with.
#[derive(Clone, Copy)]
struct Reader {
    entries: *const u8,
    size: u32,
    /// [`Direct::ask`].
    ask: u32,
    /// Of a key, which is one word.
    bits: u32,
    /// Value number 0, and bytes from one to the next.
    values: *const u8,
    stride: usize,
}

/// Looks up the keys of a table without exact keys, of one word each; `walk` looks up those that an entry doesn't answer.
pub(super) fn lookup<A: Address>(
    table: &Table<A>,
    direct: &Direct,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
) {
    let values = &table.forest.values;
    let (entries, size, ask) = (direct.entries.as_ptr(), direct.size, Direct::ask(direct.size));
    let (start, stride) = (values.start(), values.stride());
    let reader = Reader { entries, size, ask, bits: table.lpm_bits, values: start, stride };
    let there = out.len().min(keys.len());
    out[there..].fill(std::ptr::null());
    let mut asking = Asking { who: [MaybeUninit::uninit(); CHUNK], len: 0 };
    for (keys, out) in keys.chunks(CHUNK).zip(out[..there].chunks_mut(CHUNK)) {
        let keys = &keys[..out.len()];
        asking.len = 0;
        reader.read(keys, out, &mut asking);
        if asking.len > 0 {
            // SAFETY: as many are written.
            let asking = asking.who[..asking.len].iter().map(|who| usize::from(unsafe { who.assume_init() }));
            look_elsewhere(asking, 1, keys, out, &walk);
        }
        if values.len() * stride > NEAR {
            out.iter().for_each(|&value| prefetch(value));
        }
    }
}

impl Reader {
    /// `keys` and `out` are equally long, at most [`CHUNK`].
    fn read(&self, keys: &[u64], out: &mut [*const u8], asking: &mut Asking) {
        keys.iter().for_each(|&key| prefetch(self.place(key)));
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has it, and there are as many keys as answers.
            return unsafe { self.read_avx512(keys, out, asking) };
        }
        self.read_each(keys, out, asking);
    }

    /// A key's entry.
    #[inline(always)]
    fn place(&self, key: u64) -> *const u8 {
        self.entries.wrapping_add(((key << (64 - self.bits)).top(BITS) as usize) << self.size)
    }

    fn read_each(&self, keys: &[u64], out: &mut [*const u8], asking: &mut Asking) {
        for (index, (&key, out)) in keys.iter().zip(out).enumerate() {
            // SAFETY: there is an entry for each value of so many bits, and 64 bytes behind the last.
            let number = u32::from_le(unsafe { self.place(key).cast::<u32>().read_unaligned() }) & self.ask;
            let value = self.values.wrapping_add(number as usize * self.stride);
            *out = select_unpredictable(number == 0, std::ptr::null(), value);
            asking.who[asking.len].write(index as u16);
            asking.len += usize::from(number == self.ask);
        }
    }

    /// Sixteen keys at once.
    ///
    /// # Safety
    /// The processor has AVX-512 F, and `out` is as long as `keys`.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn read_avx512(&self, keys: &[u64], out: &mut [*const u8], asking: &mut Asking) {
        use std::arch::x86_64::*;
        let (ask, size) = (_mm512_set1_epi32(self.ask as i32), _mm512_set1_epi32(self.size as i32));
        let (left, right) = (_mm512_set1_epi64(i64::from(64 - self.bits)), _mm512_set1_epi64(i64::from(64 - BITS)));
        for first in (0..keys.len()).step_by(16) {
            let there = u32::MAX.checked_shr(32 - (keys.len() - first).min(16) as u32).unwrap_or(0);
            let there = [there as u8, (there >> 8) as u8];
            let half = |half: usize| {
                // SAFETY: masked to the keys that are there.
                let keys = unsafe {
                    _mm512_maskz_loadu_epi64(there[half], keys.as_ptr().wrapping_add(first + 8 * half).cast())
                };
                _mm512_cvtepi64_epi32(_mm512_srlv_epi64(_mm512_sllv_epi64(keys, left), right))
            };
            let places = _mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(1), 1);
            // SAFETY: as for one; keys that aren't there have the first entry.
            let words = unsafe { _mm512_i32gather_epi32::<1>(_mm512_sllv_epi32(places, size), self.entries.cast()) };
            let numbers = _mm512_and_si512(words, ask);
            let some = _mm512_test_epi32_mask(numbers, numbers);
            let mut asks = _mm512_cmpeq_epi32_mask(numbers, ask) & u16::from_le_bytes(there);
            for (half, numbers) in
                [_mm512_castsi512_si256(numbers), _mm512_extracti64x4_epi64(numbers, 1)].into_iter().enumerate()
            {
                let offsets = _mm512_mul_epu32(_mm512_cvtepu32_epi64(numbers), _mm512_set1_epi64(self.stride as i64));
                let some = some.to_le_bytes()[half];
                let values = _mm512_maskz_add_epi64(some, offsets, _mm512_set1_epi64(self.values as i64));
                // SAFETY: masked to the answers that are wanted.
                unsafe {
                    _mm512_mask_storeu_epi64(
                        out.as_mut_ptr().wrapping_add(first + 8 * half).cast(),
                        there[half],
                        values,
                    );
                }
            }
            while asks != 0 {
                asking.who[asking.len].write((first + asks.trailing_zeros() as usize) as u16);
                asking.len += 1;
                asks &= asks - 1;
            }
        }
    }
}
