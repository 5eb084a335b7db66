//! Hash and checksum algorithms over byte strings, compatible with bmv2.
//!
//! CRC parameters are those of the catalogue of parametrised CRC algorithms: crc32 is
//! CRC-32/ISO-HDLC, crc16 is CRC-16/ARC.

use crate::crc::{crc16, crc32};
use ir::HashAlgorithm;

/// Adds 16-bit words in network order to the one's complement sum `start`. An odd last byte is
/// padded with a zero byte.
pub fn ones_sum(start: u16, bytes: &[u8]) -> u16 {
    // Words can be added in pairs and folded at the end, because 2^16 is 1 modulo 2^16 - 1. Only a
    // sum of zeros gives 0.
    let (pairs, remaining) = bytes.as_chunks::<4>();
    let sum: u64 = pairs.iter().map(|pair| u64::from(u32::from_be_bytes(*pair))).sum();
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low));
    fold(u64::from(start) + sum + remaining.chunks(2).map(word).sum::<u64>())
}

/// Folds a sum to 16 bits with end-around carry.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the one's complement `a - b` (RFC 1624: `a + ~b`).
pub fn ones_subtract(a: u16, b: u16) -> u16 {
    fold(u64::from(a) + u64::from(!b))
}

/// Returns the Internet checksum (RFC 1071): the complement of the sum.
pub fn csum16(bytes: &[u8]) -> u16 {
    !ones_sum(0, bytes)
}

/// Returns the exclusive or of the 16-bit words, the last one padded with a zero byte.
pub fn xor16(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    bytes.chunks(2).fold(0, |sum, pair| sum ^ word(pair))
}

/// Returns bmv2's `identity`: the first eight bytes, or fewer, as one number.
pub fn identity(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Implements the algorithm `random`: a 64-bit mix of the data with fixed keys, equal in each run.
fn mixed(bytes: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        state = scramble(state ^ identity(chunk)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    scramble(state)
}

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014).
pub fn scramble(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns the hash of the bytes.
pub fn hash(algorithm: HashAlgorithm, bytes: &[u8]) -> u64 {
    match algorithm {
        HashAlgorithm::Crc32 | HashAlgorithm::Crc32Custom | HashAlgorithm::TargetDefault => u64::from(crc32(bytes)),
        HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => u64::from(crc16(bytes)),
        HashAlgorithm::Csum16 => u64::from(csum16(bytes)),
        HashAlgorithm::Xor16 => u64::from(xor16(bytes)),
        HashAlgorithm::Identity => identity(bytes),
        HashAlgorithm::Random => mixed(bytes),
    }
}

/// Returns the algorithm with the name of a v1model `HashAlgorithm` member.
pub fn by_name(name: &str) -> Option<HashAlgorithm> {
    Some(match name.rsplit('.').next()? {
        "crc32" => HashAlgorithm::Crc32,
        "crc32_custom" => HashAlgorithm::Crc32Custom,
        "crc16" => HashAlgorithm::Crc16,
        "crc16_custom" => HashAlgorithm::Crc16Custom,
        "random" => HashAlgorithm::Random,
        "identity" => HashAlgorithm::Identity,
        "csum16" => HashAlgorithm::Csum16,
        "xor16" => HashAlgorithm::Xor16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
    #[test]
    fn rfc1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(ones_sum(0, &bytes), 0xddf2);
        assert_eq!(csum16(&bytes), !0xddf2);
        assert_eq!(ones_sum(0, &bytes[..7]), ones_sum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0x00]));
    }

    /// Compares with a sum of single words, as RFC 1071 defines it, for each length up to 100 bytes
    /// and sums near overflow.
    #[test]
    fn sums_word_by_word() {
        let mut random = 7u64;
        for len in 0..=100 {
            for start in [0, 1, 0x1234, 0xfffe, 0xffff] {
                random = scramble(random ^ start);
                let fill = |index: usize| match random % 4 {
                    0 => 0xff,
                    1 => 0,
                    _ => scramble(random.wrapping_add(index as u64)) as u8,
                };
                let bytes: Vec<u8> = (0..len).map(fill).collect();
                let sum = bytes.chunks(2).fold(start, |sum, pair| {
                    let sum = sum + u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
                    (sum & 0xffff) + (sum >> 16)
                });
                assert_eq!(u64::from(ones_sum(start as u16, &bytes)), sum, "{start:#x} and {bytes:?}");
            }
        }
    }

    /// RFC 1624, section 4: header checksum 0xdd2f, a field changes from 0x5555 to 0x3285, the new
    /// checksum is 0x0000.
    #[test]
    fn rfc1624_example() {
        let sum = ones_subtract(!0xdd2f, 0x5555);
        assert_eq!(!ones_sum(sum, &[0x32, 0x85]), 0x0000);
    }

    #[test]
    fn xor_and_identity() {
        assert_eq!(xor16(&[0x12, 0x34, 0xff, 0x00, 0x80]), 0x1234 ^ 0xff00 ^ 0x8000);
        assert_eq!(identity(&[1, 2]), 0x0102);
        assert_eq!(identity(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
    }
}
