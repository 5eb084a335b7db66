//! [`Matcher`]: which prefixes of a line an address has, as wide as the processor compares.
#![allow(unsafe_code)]

/// Compares an address with all prefixes of a line at once. Bit `n` of an answer is for the line's prefix `n`; bits of prefixes
/// that the line doesn't have say nothing.
pub(super) trait Matcher {
    /// Keys that take a step together, if their lines are far. More hide more of memory's latency, as long as a core has so many lines under way: those that know these
    /// instructions have twice as many as those that don't.
    const BLOCK: usize;

    /// Prefixes of 32 bits, at most 16, of which the line has `count`.
    ///
    /// # Safety
    /// `line` is the start of an aligned line, sixteen bytes may be read at `shifts`, and the processor has what the matcher needs.
    unsafe fn narrow(line: *const u8, shifts: *const u8, address: u32, count: u32) -> u32;

    /// Prefixes of 64 bits, at most 8, of which the line has `count`.
    ///
    /// # Safety
    /// As for [`Matcher::narrow`].
    unsafe fn middle(line: *const u8, shifts: *const u8, address: u64, count: u32) -> u32;
}

/// One after the other.
pub(super) struct Scalar;

impl Matcher for Scalar {
    const BLOCK: usize = 16;

    #[inline(always)]
    unsafe fn narrow(line: *const u8, shifts: *const u8, address: u32, _: u32) -> u32 {
        (0..10).fold(0, |mask, index| {
            // SAFETY: ten prefixes of four bytes are within the line, and ten shifts.
            let (prefix, shift) = unsafe { (line.cast::<u32>().add(index).read(), *shifts.add(index)) };
            let differs = u64::from(u32::from_le(prefix) ^ address) >> (shift & 63);
            mask | u32::from(differs == 0) << index
        })
    }

    #[inline(always)]
    unsafe fn middle(line: *const u8, shifts: *const u8, address: u64, _: u32) -> u32 {
        (0..6).fold(0, |mask, index| {
            // SAFETY: six prefixes of eight bytes are within the line, and six shifts.
            let (prefix, shift) = unsafe { (line.cast::<u64>().add(index).read(), *shifts.add(index)) };
            let differs = (u64::from_le(prefix) ^ address).checked_shr(u32::from(shift)).unwrap_or(0);
            mask | u32::from(differs == 0) << index
        })
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Matcher;
    use std::arch::asm;
    use std::arch::x86_64::*;

    // LLVM takes a shift and a comparison with zero apart, into a comparison of the count with the width and what else there is, six instructions more
    // than the two. So it is shown neither where the counts come from nor what becomes of the sum.

    macro_rules! shifts {
        ($name:ident, $vector:ty, $class:ident, $instruction:literal, $feature:literal) => {
            /// Each element of `words` without as many low bits as `counts` says; 0 if it has no more.
            #[inline]
            #[target_feature(enable = $feature)]
            fn $name(words: $vector, counts: $vector) -> $vector {
                let shifted;
                // SAFETY: the instruction is of this function's feature, and touches registers alone.
                unsafe {
                    asm!(concat!($instruction, " {0}, {1}, {2}"), out($class) shifted, in($class) words, in($class) counts,
                         options(pure, nomem, nostack, preserves_flags));
                }
                shifted
            }
        };
    }

    shifts!(shifted_8x32, __m256i, ymm_reg, "vpsrlvd", "avx2");
    shifts!(shifted_4x64, __m256i, ymm_reg, "vpsrlvq", "avx2");
    shifts!(shifted_16x32, __m512i, zmm_reg, "vpsrlvd", "avx512f");
    shifts!(shifted_8x64, __m512i, zmm_reg, "vpsrlvq", "avx512f");

    /// Needs AVX2.
    pub(in super::super) struct Avx2;

    impl Matcher for Avx2 {
        const BLOCK: usize = 16;

        #[inline(always)]
        unsafe fn narrow(line: *const u8, shifts: *const u8, address: u32, count: u32) -> u32 {
            // SAFETY: the caller's promise: AVX2, a whole line, sixteen bytes of shifts.
            unsafe {
                let address = _mm256_set1_epi32(address as i32);
                let half = |prefixes: *const u8, shifts: *const u8| {
                    let differs = _mm256_xor_si256(_mm256_load_si256(prefixes.cast()), address);
                    let shifts = _mm256_cvtepu8_epi32(_mm_loadl_epi64(shifts.cast()));
                    let same = _mm256_cmpeq_epi32(shifted_8x32(differs, shifts), _mm256_setzero_si256());
                    _mm256_movemask_ps(_mm256_castsi256_ps(same)) as u32
                };
                // Most lines have no more: a branch that is rarely guessed wrong.
                let first = half(line, shifts);
                if count > 8 { first | half(line.add(32), shifts.add(8)) << 8 } else { first }
            }
        }

        #[inline(always)]
        unsafe fn middle(line: *const u8, shifts: *const u8, address: u64, count: u32) -> u32 {
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

    /// Needs AVX-512 F.
    pub(in super::super) struct Avx512;

    impl Matcher for Avx512 {
        const BLOCK: usize = 32;

        #[inline(always)]
        unsafe fn narrow(line: *const u8, shifts: *const u8, address: u32, _: u32) -> u32 {
            // SAFETY: the caller's promise: AVX-512, a whole line, sixteen bytes of shifts.
            unsafe {
                let differs = _mm512_xor_si512(_mm512_load_si512(line.cast()), _mm512_set1_epi32(address as i32));
                let shifts = _mm512_cvtepu8_epi32(_mm_loadu_si128(shifts.cast()));
                u32::from(_mm512_cmpeq_epi32_mask(shifted_16x32(differs, shifts), _mm512_setzero_si512()))
            }
        }

        #[inline(always)]
        unsafe fn middle(line: *const u8, shifts: *const u8, address: u64, _: u32) -> u32 {
            // SAFETY: as above.
            unsafe {
                let differs = _mm512_xor_si512(_mm512_load_si512(line.cast()), _mm512_set1_epi64(address as i64));
                let shifts = _mm512_cvtepu8_epi64(_mm_loadl_epi64(shifts.cast()));
                u32::from(_mm512_cmpeq_epi64_mask(shifted_8x64(differs, shifts), _mm512_setzero_si512()))
            }
        }
    }
}
