//! Batch lookups in [`Dir24`].
#![allow(unsafe_code)]

use super::super::address::AddressBits;
use super::super::table::TypedLpmTable;
use super::super::view::{CACHED_BYTES, CHUNK_KEYS, lookup_unresolved, prefetch_line};
use super::{BITS, Dir24};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Indices of keys that the index does not resolve.
struct UnresolvedKeys {
    key_indices: [MaybeUninit<u16>; CHUNK_KEYS],
    len: usize,
}

/// Constants for reading entries and values.
#[derive(Clone, Copy)]
struct EntryReader {
    entries: *const u8,
    entry_size_log2: u32,
    /// [`Dir24::fallback_number`].
    fallback_number: u32,
    /// Bits of a key, which is one word.
    key_bits: u32,
    /// Address of value number 0, and the distance between values in bytes.
    values: *const u8,
    value_stride: usize,
}

/// Looks up one-word keys in a table without exact keys. `walk` looks up the keys that the index
/// does not resolve.
pub(crate) fn lookup_batch<A: AddressBits>(
    table: &TypedLpmTable<A>,
    direct: &Dir24,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
) {
    let values = &table.forest.values;
    let (entries, size, fallback_number) =
        (direct.entries.as_ptr(), direct.entry_size_log2, Dir24::fallback_number(direct.entry_size_log2));
    let (value_base, stride) = (values.base_ptr(), values.stride());
    let reader = EntryReader {
        entries,
        entry_size_log2: size,
        fallback_number,
        key_bits: table.lpm_bits,
        values: value_base,
        value_stride: stride,
    };
    let count = out.len().min(keys.len());
    out[count..].fill(std::ptr::null());
    let mut unresolved = UnresolvedKeys { key_indices: [MaybeUninit::uninit(); CHUNK_KEYS], len: 0 };
    for (keys, out) in keys.chunks(CHUNK_KEYS).zip(out[..count].chunks_mut(CHUNK_KEYS)) {
        let keys = &keys[..out.len()];
        unresolved.len = 0;
        reader.read_entries(keys, out, &mut unresolved);
        if unresolved.len > 0 {
            // SAFETY: the first `len` have been written.
            let unresolved = unresolved.key_indices[..unresolved.len]
                .iter()
                .map(|index| usize::from(unsafe { index.assume_init() }));
            lookup_unresolved(unresolved, 1, keys, out, &walk);
        }
        if values.len() * stride > CACHED_BYTES {
            out.iter().for_each(|&value| prefetch_line(value));
        }
    }
}

impl EntryReader {
    /// Reads the entries of all keys. `keys` and `out` have the same length, at most
    /// [`CHUNK_KEYS`].
    fn read_entries(&self, keys: &[u64], out: &mut [*const u8], unresolved: &mut UnresolvedKeys) {
        keys.iter().for_each(|&key| prefetch_line(self.entry_ptr(key)));
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions, and `out` has an element per key.
            return unsafe { self.read_avx512(keys, out, unresolved) };
        }
        self.read_one_by_one(keys, out, unresolved);
    }

    /// Returns the address of a key's entry.
    #[inline(always)]
    fn entry_ptr(&self, key: u64) -> *const u8 {
        self.entries.wrapping_add(((key << (64 - self.key_bits)).leading_bits(BITS) as usize) << self.entry_size_log2)
    }

    fn read_one_by_one(&self, keys: &[u64], out: &mut [*const u8], unresolved: &mut UnresolvedKeys) {
        for (index, (&key, out)) in keys.iter().zip(out).enumerate() {
            // SAFETY: an entry exists for each value of `BITS` bits, and 64 readable bytes follow
            // the last.
            let number =
                u32::from_le(unsafe { self.entry_ptr(key).cast::<u32>().read_unaligned() }) & self.fallback_number;
            let value = self.values.wrapping_add(number as usize * self.value_stride);
            *out = select_unpredictable(number == 0, std::ptr::null(), value);
            unresolved.key_indices[unresolved.len].write(index as u16);
            unresolved.len += usize::from(number == self.fallback_number);
        }
    }

    /// Reads the entries of sixteen keys at once. A missing key of the last sixteen reads the first
    /// entry, and nothing is stored for it.
    ///
    /// # Safety
    /// The processor has AVX-512 F, and `out` is as long as `keys`.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn read_avx512(&self, keys: &[u64], out: &mut [*const u8], unresolved: &mut UnresolvedKeys) {
        use std::arch::x86_64::*;
        let (fallback, size) =
            (_mm512_set1_epi32(self.fallback_number as i32), _mm512_set1_epi32(self.entry_size_log2 as i32));
        let (left, right) = (_mm512_set1_epi64(i64::from(64 - self.key_bits)), _mm512_set1_epi64(i64::from(64 - BITS)));
        for first in (0..keys.len()).step_by(16) {
            let key_lanes = u32::MAX.checked_shr(32 - (keys.len() - first).min(16) as u32).unwrap_or(0);
            let key_lanes = [key_lanes as u8, (key_lanes >> 8) as u8];
            let half = |half: usize| {
                // SAFETY: masked to the existing keys.
                let keys = unsafe {
                    _mm512_maskz_loadu_epi64(key_lanes[half], keys.as_ptr().wrapping_add(first + 8 * half).cast())
                };
                _mm512_cvtepi64_epi32(_mm512_srlv_epi64(_mm512_sllv_epi64(keys, left), right))
            };
            let indices = _mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(1), 1);
            // SAFETY: as for one key; missing keys read the first entry.
            let words = unsafe { _mm512_i32gather_epi32::<1>(_mm512_sllv_epi32(indices, size), self.entries.cast()) };
            let numbers = _mm512_and_si512(words, fallback);
            let has_value = _mm512_test_epi32_mask(numbers, numbers);
            let mut fallback_lanes = _mm512_cmpeq_epi32_mask(numbers, fallback) & u16::from_le_bytes(key_lanes);
            for (half, numbers) in
                [_mm512_castsi512_si256(numbers), _mm512_extracti64x4_epi64(numbers, 1)].into_iter().enumerate()
            {
                let offsets =
                    _mm512_mul_epu32(_mm512_cvtepu32_epi64(numbers), _mm512_set1_epi64(self.value_stride as i64));
                let has_value = has_value.to_le_bytes()[half];
                let values = _mm512_maskz_add_epi64(has_value, offsets, _mm512_set1_epi64(self.values as i64));
                // SAFETY: masked to the existing elements.
                unsafe {
                    _mm512_mask_storeu_epi64(
                        out.as_mut_ptr().wrapping_add(first + 8 * half).cast(),
                        key_lanes[half],
                        values,
                    );
                }
            }
            while fallback_lanes != 0 {
                unresolved.key_indices[unresolved.len].write((first + fallback_lanes.trailing_zeros() as usize) as u16);
                unresolved.len += 1;
                fallback_lanes &= fallback_lanes - 1;
            }
        }
    }
}
