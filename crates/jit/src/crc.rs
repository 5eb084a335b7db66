//! CRCs of hash inputs that fit in registers.
//!
//! The CRCs are reflected: a word's lowest bit is its polynomial's highest coefficient, so bytes
//! are in memory order. Eight bytes, with the previous remainder added to the first of them, are
//! reduced by two carry-less multiplications: the first by the polynomial's inverse modulo 2⁶⁴
//! gives the multiple of the polynomial with these 64 lowest bits; the second by the polynomial
//! leaves the remainder in the upper bits. This is exact and needs no initial folding. (Gopal et
//! al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009, instead
//! estimate the quotient from the highest bits.)
#![allow(unsafe_code)]

use ir::HashAlgorithm;

/// Parameters of a CRC as in the catalogue of parametrised CRC algorithms, with a reflected
/// polynomial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc {
    /// Address of `(first, second) -> remainder` over two words; the first includes the initial
    /// remainder.
    pub two_words: usize,
    /// Initial remainder.
    pub initial: u64,
    /// Value added (XOR) to the final remainder.
    pub final_xor: u64,
    /// Polynomial, with the coefficient of its highest power as the lowest bit.
    pub polynomial: u64,
}

impl Crc {
    /// Returns the inverse of the polynomial for carry-less multiplication modulo 2⁶⁴.
    pub fn polynomial_inverse(&self) -> u64 {
        clmul_inverse(self.polynomial)
    }
}

/// Minimum length in bytes: the initial remainder must fit within the input.
pub const MIN_BYTES: u32 = 4;
/// Maximum length in bytes, because longer inputs do not fit in registers.
pub const MAX_BYTES: u32 = 64;

/// CRC-32/ISO-HDLC and CRC-16/ARC, with the coefficient of the highest power as the lowest bit.
const CRC32: u64 = 0xedb8_8320 << 1 | 1;
const CRC16: u64 = 0xa001 << 1 | 1;

/// Returns the parameters of an algorithm, if it is a CRC and the processor supports PCLMULQDQ.
pub fn crc_params(algorithm: HashAlgorithm) -> Option<Crc> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("pclmulqdq") {
        use HashAlgorithm::*;
        let ones = u64::from(u32::MAX);
        return match algorithm {
            Crc32 | Crc32Custom | TargetDefault => {
                let two_words = x86::two_words::<CRC32> as *const () as usize;
                Some(Crc { two_words, initial: ones, final_xor: ones, polynomial: CRC32 })
            }
            Crc16 | Crc16Custom => {
                let two_words = x86::two_words::<CRC16> as *const () as usize;
                Some(Crc { two_words, initial: 0, final_xor: 0, polynomial: CRC16 })
            }
            _ => None,
        };
    }
    let _ = algorithm;
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::clmul_inverse;
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64,
        _mm_xor_si128,
    };

    /// Returns the remainder of 16 bytes, in memory order.
    #[target_feature(enable = "pclmulqdq")]
    pub(super) extern "C" fn two_words<const POLYNOMIAL: u64>(first: u64, second: u64) -> u64 {
        let by = _mm_set_epi64x(POLYNOMIAL as i64, const { clmul_inverse(POLYNOMIAL) } as i64);
        // The remainder is in the higher half.
        let remainder = |word: __m128i| _mm_clmulepi64_si128::<0x10>(_mm_clmulepi64_si128::<0x00>(word, by), by);
        let first = remainder(_mm_cvtsi64_si128(first as i64));
        let second = _mm_xor_si128(_mm_cvtsi64_si128(second as i64), _mm_unpackhi_epi64(first, first));
        let all = remainder(second);
        _mm_cvtsi128_si64(_mm_unpackhi_epi64(all, all)) as u64
    }
}

/// Returns the lower half of a carry-less product.
const fn clmul_low(a: u64, b: u64) -> u64 {
    let (mut sum, mut bit) = (0, 0);
    while bit < 64 {
        if b >> bit & 1 == 1 {
            sum ^= a << bit;
        }
        bit += 1;
    }
    sum
}

/// Returns the inverse of an odd number for carry-less multiplication modulo 2⁶⁴. Newton's
/// iteration, where 2 is 0 and -1 is 1: each step doubles the number of correct bits.
const fn clmul_inverse(number: u64) -> u64 {
    let (mut inverse, mut step) = (1, 0);
    while step < 6 {
        inverse = clmul_low(number, clmul_low(inverse, inverse));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_are_inverse() {
        for polynomial in [CRC32, CRC16, 1, u64::MAX] {
            assert_eq!(clmul_low(polynomial, clmul_inverse(polynomial)), 1, "{polynomial:#x}");
        }
    }

    /// Compares the CRC of sixteen random bytes with the table-driven reference.
    #[test]
    fn two_words_are_sixteen_bytes() {
        let mut compared = 0;
        for algorithm in [HashAlgorithm::Crc32, HashAlgorithm::Crc16] {
            let Some(crc) = crc_params(algorithm) else { continue };
            // SAFETY: the address is that of such a function, and the processor supports its
            // instructions.
            let two_words: extern "C" fn(u64, u64) -> u64 = unsafe { std::mem::transmute(crc.two_words) };
            let mut random = 5u64;
            let mut byte = || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 56) as u8
            };
            for round in 0..10_000 {
                let bytes: [u8; 16] = std::array::from_fn(|_| if round % 3 == 0 { 0xff } else { byte() });
                let words: [u64; 2] =
                    std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|at| bytes[8 * word + at])));
                let hash = two_words(words[0] ^ crc.initial, words[1]) ^ crc.final_xor;
                assert_eq!(hash, interp::host::hash(algorithm, &bytes), "{algorithm:?} of {bytes:02x?}");
                compared += 1;
            }
        }
        assert!(compared == 20_000 || crc_params(HashAlgorithm::Crc32).is_none(), "only {compared} were compared");
    }
}
