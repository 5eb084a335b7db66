//! Hash and checksum algorithms over byte strings, as bmv2 computes them.
//!
//! CRC parameters are those of the catalogue of parametrised CRC algorithms: crc32 is CRC-32/ISO-HDLC, crc16 is CRC-16/ARC.

use ir::HashAlgorithm;

/// CRC-32/ISO-HDLC: reflected 0x04c11db7, start and final xor all ones.
pub fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = reflected_table(0xedb8_8320);
    !bytes.iter().fold(u32::MAX, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

/// CRC-16/ARC: reflected 0x8005, start 0.
pub fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u32; 256] = reflected_table(0xa001);
    let crc = bytes.iter().fold(0, |crc: u32, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8));
    crc as u16
}

const fn reflected_table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ polynomial } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// The one's complement sum of 16-bit words in network order, an odd last byte padded with a zero behind it; `start`
/// is a sum to go on from.
pub fn ones_sum(start: u16, bytes: &[u8]) -> u16 {
    let mut sum = u64::from(start);
    let mut chunks = bytes.chunks_exact(2);
    for pair in &mut chunks {
        sum += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let [last] = chunks.remainder() {
        sum += u64::from(*last) << 8;
    }
    fold(sum)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// One's complement `a - b` (RFC 1624: `a + ~b`).
pub fn ones_subtract(a: u16, b: u16) -> u16 {
    fold(u64::from(a) + u64::from(!b))
}

/// The Internet checksum (RFC 1071): the complement of the sum.
pub fn csum16(bytes: &[u8]) -> u16 {
    !ones_sum(0, bytes)
}

/// The exclusive or of the 16-bit words, the last one padded with a zero byte.
pub fn xor16(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    bytes.chunks(2).fold(0, |sum, pair| sum ^ word(pair))
}

/// bmv2's `identity`: the first eight bytes (or fewer, if there are fewer) as one number.
pub fn identity(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The algorithm `random`: a 64-bit mix of the data with fixed keys, the same in each run.
fn mixed(bytes: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        state = scramble(state ^ identity(chunk)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    scramble(state)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
pub fn scramble(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The hash of the bytes.
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

/// The algorithm of a v1model `HashAlgorithm` member's name.
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

    /// The check values of the CRC catalogue: the CRC of the ASCII digits 1 to 9.
    #[test]
    fn crc_check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc16(b"123456789"), 0xbb3d);
        assert_eq!(crc32(b""), 0);
    }

    /// RFC 1071, section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
    #[test]
    fn rfc1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(ones_sum(0, &bytes), 0xddf2);
        assert_eq!(csum16(&bytes), !0xddf2);
        assert_eq!(ones_sum(0, &bytes[..7]), ones_sum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0x00]));
    }

    /// RFC 1624, section 4: header checksum 0xdd2f, a field changes from 0x5555 to 0x3285, the new checksum is 0x0000.
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
