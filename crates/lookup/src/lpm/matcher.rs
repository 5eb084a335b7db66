//! [`PrefixMatcher`]: comparison of an address with the prefixes of a line, for each vector width.
#![allow(unsafe_code)]

/// Compares an address with all prefixes of a line at once. Bit `n` of a result is set if prefix
/// `n` matches; bits beyond the line's prefixes are unspecified.
pub(super) trait PrefixMatcher {
    /// Keys that take a step together if their lines are not in cache. More keys hide more memory
    /// latency, up to the number of cache lines that a core can have in flight. Processors with
    /// AVX-512 support twice the number of others.
    const BLOCK_KEYS: usize;

    /// Compares 32-bit prefixes, at most 16, of which the line has `count`.
    ///
    /// # Safety
    /// `line` is the start of an aligned line, sixteen bytes may be read at `shifts`, and the
    /// processor has the matcher's instructions.
    unsafe fn match_32(line: *const u8, shifts: *const u8, address: u32, count: u32) -> u32;

    /// Compares 64-bit prefixes, at most 8, of which the line has `count`.
    ///
    /// # Safety
    /// As for [`PrefixMatcher::match_32`].
    unsafe fn match_64(line: *const u8, shifts: *const u8, address: u64, count: u32) -> u32;
}

/// Compares prefixes one after the other.
pub(super) struct ScalarMatcher;

impl PrefixMatcher for ScalarMatcher {
    const BLOCK_KEYS: usize = 16;

    #[inline(always)]
    unsafe fn match_32(line: *const u8, shifts: *const u8, address: u32, _: u32) -> u32 {
        (0..10).fold(0, |mask, index| {
            // SAFETY: ten prefixes of four bytes are within the line, and ten shifts.
            let (prefix, shift) = unsafe { (line.cast::<u32>().add(index).read(), *shifts.add(index)) };
            let differs = u64::from(u32::from_le(prefix) ^ address) >> (shift & 63);
            mask | u32::from(differs == 0) << index
        })
    }

    #[inline(always)]
    unsafe fn match_64(line: *const u8, shifts: *const u8, address: u64, _: u32) -> u32 {
        (0..6).fold(0, |mask, index| {
            // SAFETY: six prefixes of eight bytes are within the line, and six shifts.
            let (prefix, shift) = unsafe { (line.cast::<u64>().add(index).read(), *shifts.add(index)) };
            let differs = (u64::from_le(prefix) ^ address).checked_shr(u32::from(shift)).unwrap_or(0);
            mask | u32::from(differs == 0) << index
        })
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2Matcher, Avx512Matcher};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::PrefixMatcher;
    use std::arch::asm;
    use std::arch::x86_64::*;

    // Inline assembly, because LLVM would transform a shift followed by a comparison with zero into
    // a comparison of the count with the width and more: six additional instructions. The assembly
    // hides the origin of the counts and the use of the result.

    macro_rules! define_variable_shift {
        ($name:ident, $vector:ty, $class:ident, $instruction:literal, $feature:literal) => {
            /// Shifts each element of `words` right by its element of `counts`; 0 if the count
            /// exceeds the width.
            #[inline]
            #[target_feature(enable = $feature)]
            fn $name(words: $vector, counts: $vector) -> $vector {
                let shifted;
                // SAFETY: the instruction belongs to this function's feature and uses registers
                // only.
                unsafe {
                    asm!(concat!($instruction, " {0}, {1}, {2}"), out($class) shifted, in($class) words, in($class) counts,
                         options(pure, nomem, nostack, preserves_flags));
                }
                shifted
            }
        };
    }

    define_variable_shift!(shifted_8x32, __m256i, ymm_reg, "vpsrlvd", "avx2");
    define_variable_shift!(shifted_4x64, __m256i, ymm_reg, "vpsrlvq", "avx2");
    define_variable_shift!(shifted_16x32, __m512i, zmm_reg, "vpsrlvd", "avx512f");
    define_variable_shift!(shifted_8x64, __m512i, zmm_reg, "vpsrlvq", "avx512f");

    /// Matcher for AVX2.
    pub(in super::super) struct Avx2Matcher;

    impl PrefixMatcher for Avx2Matcher {
        const BLOCK_KEYS: usize = 16;

        #[inline(always)]
        unsafe fn match_32(line: *const u8, shifts: *const u8, address: u32, count: u32) -> u32 {
            // SAFETY: guaranteed by the caller: AVX2, a whole line, sixteen bytes of shifts.
            unsafe {
                let address = _mm256_set1_epi32(address as i32);
                let half = |prefixes: *const u8, shifts: *const u8| {
                    let differs = _mm256_xor_si256(_mm256_load_si256(prefixes.cast()), address);
                    let shifts = _mm256_cvtepu8_epi32(_mm_loadl_epi64(shifts.cast()));
                    let same = _mm256_cmpeq_epi32(shifted_8x32(differs, shifts), _mm256_setzero_si256());
                    _mm256_movemask_ps(_mm256_castsi256_ps(same)) as u32
                };
                // Most lines have at most eight, so the branch is rarely mispredicted.
                let first = half(line, shifts);
                if count > 8 { first | half(line.add(32), shifts.add(8)) << 8 } else { first }
            }
        }

        #[inline(always)]
        unsafe fn match_64(line: *const u8, shifts: *const u8, address: u64, count: u32) -> u32 {
            // SAFETY: as above.
            unsafe {
                let address = _mm256_set1_epi64x(address as i64);
                let half = |prefixes: *const u8, shifts: *const u8| {
                    let differs = _mm256_xor_si256(_mm256_load_si256(prefixes.cast()), address);
                    let shifts = _mm256_cvtepu8_epi64(_mm_loadl_epi64(shifts.cast()));
                    let same = _mm256_cmpeq_epi64(shifted_4x64(differs, shifts), _mm256_setzero_si256());
                    _mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32
                };
                let first = half(line, shifts);
                if count > 4 { first | half(line.add(32), shifts.add(4)) << 4 } else { first }
            }
        }
    }

    /// Matcher for AVX-512 F.
    pub(in super::super) struct Avx512Matcher;

    impl PrefixMatcher for Avx512Matcher {
        const BLOCK_KEYS: usize = 32;

        #[inline(always)]
        unsafe fn match_32(line: *const u8, shifts: *const u8, address: u32, _: u32) -> u32 {
            // SAFETY: guaranteed by the caller: AVX-512, a whole line, sixteen bytes of shifts.
            unsafe {
                let differs = _mm512_xor_si512(_mm512_load_si512(line.cast()), _mm512_set1_epi32(address as i32));
                let shifts = _mm512_cvtepu8_epi32(_mm_loadu_si128(shifts.cast()));
                u32::from(_mm512_cmpeq_epi32_mask(shifted_16x32(differs, shifts), _mm512_setzero_si512()))
            }
        }

        #[inline(always)]
        unsafe fn match_64(line: *const u8, shifts: *const u8, address: u64, _: u32) -> u32 {
            // SAFETY: as above.
            unsafe {
                let differs = _mm512_xor_si512(_mm512_load_si512(line.cast()), _mm512_set1_epi64(address as i64));
                let shifts = _mm512_cvtepu8_epi64(_mm_loadl_epi64(shifts.cast()));
                u32::from(_mm512_cmpeq_epi64_mask(shifted_8x64(differs, shifts), _mm512_setzero_si512()))
            }
        }
    }
}
