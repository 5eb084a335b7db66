//! CRCs of what programs hash for each packet: some bytes in registers, of which native code makes words.
//!
//! CRCs are reflected: a word's lowest bit is its polynomial's highest coefficient, so bytes follow each other as they lie in memory. Eight bytes, the remainder so far added to the
//! first of them, leave a remainder that is found by two carry-less multiplications: by the polynomial's inverse modulo 2⁶⁴, which tells what multiple of the polynomial has these
//! 64 lowest bits, and by the polynomial, which has the remainder in the bits above. (The other way round than Gopal and others, "Fast CRC Computation for Generic Polynomials Using
//! PCLMULQDQ Instruction", 2009, do it, who estimate the quotient from the highest bits. Exact, and without a first folding.)
#![allow(unsafe_code)]

use ir::HashAlgorithm;

/// A CRC as the catalogue of parametrised CRC algorithms describes it, its polynomial reflected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc {
    /// Two words go on: `(first, second) -> remainder`, of which the first has the start in it.
    pub two_words: usize,
    /// The remainder of nothing.
    pub start: u64,
    /// What is added in the end.
    pub last: u64,
    /// The polynomial, with the coefficient of its highest power as the lowest bit.
    pub polynomial: u64,
}

impl Crc {
    /// What gives 1 with the polynomial, in the lower half of a product without carries.
    pub fn inverse(&self) -> u64 {
        inverse(self.polynomial)
    }
}

/// Fewest bytes: the start lies within them.
pub const FEWEST: u32 = 4;
/// The most bytes. Longer ones are better not kept in registers.
pub const MOST: u32 = 64;

/// CRC-32/ISO-HDLC, and CRC-16/ARC, with the coefficient of their highest power as the lowest bit.
const CRC32: u64 = 0xedb8_8320 << 1 | 1;
const CRC16: u64 = 0xa001 << 1 | 1;

/// How an algorithm is computed here, if it is a CRC and the processor can do it.
pub fn of(algorithm: HashAlgorithm) -> Option<Crc> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("pclmulqdq") {
        use HashAlgorithm::*;
        let ones = u64::from(u32::MAX);
        return match algorithm {
            Crc32 | Crc32Custom | TargetDefault => {
                let two_words = x86::two_words::<CRC32> as *const () as usize;
                Some(Crc { two_words, start: ones, last: ones, polynomial: CRC32 })
            }
            Crc16 | Crc16Custom => {
                let two_words = x86::two_words::<CRC16> as *const () as usize;
                Some(Crc { two_words, start: 0, last: 0, polynomial: CRC16 })
            }
            _ => None,
        };
    }
    let _ = algorithm;
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::inverse;
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64,
        _mm_xor_si128,
    };

    /// The remainder of 16 bytes, in their order in memory.
    #[target_feature(enable = "pclmulqdq")]
    pub(super) extern "C" fn two_words<const POLYNOMIAL: u64>(first: u64, second: u64) -> u64 {
        let by = _mm_set_epi64x(POLYNOMIAL as i64, const { inverse(POLYNOMIAL) } as i64);
        // In the higher half.
        let remainder = |word: __m128i| _mm_clmulepi64_si128::<0x10>(_mm_clmulepi64_si128::<0x00>(word, by), by);
        let first = remainder(_mm_cvtsi64_si128(first as i64));
        let second = _mm_xor_si128(_mm_cvtsi64_si128(second as i64), _mm_unpackhi_epi64(first, first));
        let all = remainder(second);
        _mm_cvtsi128_si64(_mm_unpackhi_epi64(all, all)) as u64
    }
}

/// The lower half of a product without carries.
const fn product(a: u64, b: u64) -> u64 {
    let (mut sum, mut bit) = (0, 0);
    while bit < 64 {
        if b >> bit & 1 == 1 {
            sum ^= a << bit;
        }
        bit += 1;
    }
    sum
}

/// What gives 1 with an odd number, in the lower half. Newton's iteration, as 2 is 0 and -1 is 1: twice as many bits are right after each step.
const fn inverse(number: u64) -> u64 {
    let (mut inverse, mut step) = (1, 0);
    while step < 6 {
        inverse = product(number, product(inverse, inverse));
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
            assert_eq!(product(polynomial, inverse(polynomial)), 1, "{polynomial:#x}");
        }
    }

    /// Sixteen bytes of any kind: as by the tables of the reference.
    #[test]
    fn two_words_are_sixteen_bytes() {
        let mut compared = 0;
        for algorithm in [HashAlgorithm::Crc32, HashAlgorithm::Crc16] {
            let Some(crc) = of(algorithm) else { continue };
            // SAFETY: that is what it is the address of, and the processor has what it takes.
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
                let hash = two_words(words[0] ^ crc.start, words[1]) ^ crc.last;
                assert_eq!(hash, interp::host::hash(algorithm, &bytes), "{algorithm:?} of {bytes:02x?}");
                compared += 1;
            }
        }
        assert!(compared == 20_000 || of(HashAlgorithm::Crc32).is_none(), "only {compared} were compared");
    }
}
