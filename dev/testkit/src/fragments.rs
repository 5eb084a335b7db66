//! Splits IP packets into fragments, and puts them together again as a receiver does.

use crate::frame::checksum;

/// Bytes of an IPv6 header.
const V6_HEADER: usize = 40;

/// Splits an IP packet without options or extension headers into fragments with `per` bytes each, a
/// multiple of 8. Over IPv4, the identification has 16 bits.
pub fn fragments(packet: &[u8], per: usize, identification: u32) -> Vec<Vec<u8>> {
    let header = if packet[0] >> 4 == 4 { 20 } else { V6_HEADER };
    let (header, data) = packet.split_at(header);
    let count = data.len().div_ceil(per);
    let parts = data.chunks(per).enumerate();
    parts.map(|(n, part)| fragment(header, part, (n * per / 8) as u16, n + 1 < count, identification)).collect()
}

/// Returns a fragment with this data. `offset` is in units of 8 bytes.
pub fn fragment(header: &[u8], data: &[u8], offset: u16, more: bool, identification: u32) -> Vec<u8> {
    let mut header = header.to_vec();
    if header[0] >> 4 == 4 {
        header[2..4].copy_from_slice(&((20 + data.len()) as u16).to_be_bytes());
        header[4..6].copy_from_slice(&(identification as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(u16::from(more) << 13 | offset).to_be_bytes());
        set_checksum(&mut header);
    } else {
        let next = std::mem::replace(&mut header[6], 44);
        header[4..6].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes());
        header.extend([next, 0]);
        header.extend((offset << 3 | u16::from(more)).to_be_bytes());
        header.extend(identification.to_be_bytes());
    }
    [&header, data].concat()
}

/// Puts fragments in order together.
///
/// # Panics
/// They are not those of one datagram, or one is missing.
pub fn reassembled(parts: &[Vec<u8>]) -> Vec<u8> {
    let is_v4 = parts[0][0] >> 4 == 4;
    // Identification, offset and flag, and where the data begins.
    let read = |part: &Vec<u8>| {
        let word = |at: usize| u16::from_be_bytes([part[at], part[at + 1]]);
        match is_v4 {
            true => (u32::from(word(4)), word(6) & 0x1fff, word(6) & 0x2000 != 0, 20),
            false => (u32::from(word(44)) << 16 | u32::from(word(46)), word(42) >> 3, word(42) & 1 != 0, V6_HEADER + 8),
        }
    };
    let mut data = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let (identification, offset, more, begin) = read(part);
        assert_eq!(identification, read(&parts[0]).0, "of one datagram");
        assert_eq!(usize::from(offset) * 8, data.len(), "without holes");
        assert_eq!(more, n + 1 < parts.len());
        data.extend(&part[begin..]);
    }
    let mut header = parts[0][..if is_v4 { 20 } else { V6_HEADER }].to_vec();
    if is_v4 {
        header[2..4].copy_from_slice(&((20 + data.len()) as u16).to_be_bytes());
        header[6..8].fill(0);
        set_checksum(&mut header);
    } else {
        header[4..6].copy_from_slice(&(data.len() as u16).to_be_bytes());
        header[6] = parts[0][V6_HEADER];
    }
    [header, data].concat()
}

/// Returns the identification of an IPv4 packet.
pub fn identification(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[4], packet[5]])
}

fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = checksum(header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
}
