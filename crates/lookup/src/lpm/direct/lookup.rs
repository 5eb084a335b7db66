//! Looking up in [`Direct`]: the entries of all keys of a batch.
#![allow(unsafe_code)]

use super::super::address::Address;
use super::super::table::Table;
use super::super::view::{CHUNK, NEAR, look_elsewhere, prefetch};
use super::{BITS, Direct};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

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
pub(crate) fn lookup<A: Address>(
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
