//! CRCs of short byte strings: the 5-tuples and addresses that programs hash for each packet.
//!
//! Processes eight bytes a step with eight tables (Kounavis and Berry, "Novel Table Lookup-Based
//! Algorithms for High-Performance CRC Generation", 2008). From 32 bytes on, crc32 uses carry-less
//! multiplication where the processor supports it, because it is faster there.

/// Contributions of each of eight bytes to the remainder, by the byte's distance from the end.
/// Polynomials are reflected.
type Tables = [[u32; 256]; 8];

static CRC32: Tables = tables(0xedb8_8320);
static CRC16: Tables = tables(0xa001);

/// CRC-32/ISO-HDLC: reflected 0x04c11db7, start and final xor all ones.
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    match bytes.len() {
        ..32 => !remainder(&CRC32, u32::MAX, bytes),
        _ => crc32fast::hash(bytes),
    }
}

/// CRC-16/ARC: reflected 0x8005, start 0.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    remainder(&CRC16, 0, bytes) as u16
}

/// Computes the tables of a reflected polynomial. Table 0 has the remainder of each single byte;
/// table `d` that of the byte followed by `d` zero bytes.
const fn tables(polynomial: u32) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ polynomial } else { value >> 1 };
            bit += 1;
        }
        tables[0][index] = value;
        index += 1;
    }
    let mut distance = 1;
    while distance < 8 {
        let mut index = 0;
        while index < 256 {
            let nearer = tables[distance - 1][index];
            tables[distance][index] = (nearer >> 8) ^ tables[0][(nearer & 0xff) as usize];
            index += 1;
        }
        distance += 1;
    }
    tables
}

/// Returns the remainder of `bytes` that continues from the remainder `start`. Each step adds the
/// contributions of eight (then four, then one) bytes, whose lookups do not wait for each other.
/// The low bits of a remainder meet the first byte, because the polynomial is reflected.
#[inline]
fn remainder(tables: &Tables, start: u32, bytes: &[u8]) -> u32 {
    let contribution = |distance: usize, word: u64, shift: u32| tables[distance][(word >> shift & 0xff) as usize];
    let (chunks_of_8, remaining) = bytes.as_chunks::<8>();
    let crc = chunks_of_8.iter().fold(start, |crc, chunk| {
        let word = u64::from_le_bytes(*chunk) ^ u64::from(crc);
        contribution(7, word, 0)
            ^ contribution(6, word, 8)
            ^ contribution(5, word, 16)
            ^ contribution(4, word, 24)
            ^ contribution(3, word, 32)
            ^ contribution(2, word, 40)
            ^ contribution(1, word, 48)
            ^ contribution(0, word, 56)
    });
    let (chunks_of_4, remaining) = remaining.as_chunks::<4>();
    let crc = chunks_of_4.iter().fold(crc, |crc, chunk| {
        let word = u64::from(u32::from_le_bytes(*chunk) ^ crc);
        contribution(3, word, 0) ^ contribution(2, word, 8) ^ contribution(1, word, 16) ^ contribution(0, word, 24)
    });
    remaining.iter().fold(crc, |crc, byte| tables[0][((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes a CRC by its definition, bit by bit.
    fn by_bits(polynomial: u32, start: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(start, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 })
        })
    }

    /// The check values of the CRC catalogue: the CRC of the ASCII digits 1 to 9.
    #[test]
    fn check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc16(b"123456789"), 0xbb3d);
        assert_eq!(crc32(b""), 0);
    }

    /// Compares all implementations on each length from 0 to 200 bytes, with several contents and
    /// alignments.
    #[test]
    fn equal_to_the_definition() {
        let mut random = 1u64;
        let data: Vec<u8> = (0..4096)
            .map(|_| {
                random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                crate::algorithm::scramble(random) as u8
            })
            .collect();
        let mut compared = 0;
        for len in 0..=200 {
            for offset in (0..data.len() - 200).step_by(97) {
                let bytes = &data[offset..offset + len];
                assert_eq!(crc32(bytes), !by_bits(0xedb8_8320, u32::MAX, bytes), "crc32 of {bytes:?}");
                assert_eq!(!remainder(&CRC32, u32::MAX, bytes), crc32(bytes), "crc32 by tables of {bytes:?}");
                assert_eq!(u32::from(crc16(bytes)), by_bits(0xa001, 0, bytes), "crc16 of {bytes:?}");
                compared += 1;
            }
        }
        assert!(compared > 8000, "only {compared} byte strings were compared");
    }
}
