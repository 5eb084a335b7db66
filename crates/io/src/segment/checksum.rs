//! The Internet checksum (RFC 1071), and the checksums of IPv4, TCP and UDP.

use super::headers::{IpTransport, Transport};

/// Returns the ones' complement sum of big-endian 16-bit words; an odd last byte is padded with
/// zero.
pub(crate) fn internet_sum(bytes: &[u8]) -> u16 {
    // The sum does not depend on the byte order except for the order of its own bytes (RFC 1071,
    // section 2), so long words are added as they are in memory.
    let (words, tail) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    for pair in tail.chunks(2) {
        sum += u64::from(u16::from_ne_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    u16::from_be(fold(sum))
}

/// Returns a sum of words as one word, with end-around carry.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1): addresses,
/// protocol, and the length from the transport header to the end of the IP packet.
pub(crate) fn pseudo_header_sum(bytes: &[u8], headers: &IpTransport) -> u16 {
    let (at, len) = if headers.is_ipv6 { (8, 32) } else { (12, 8) };
    let addresses = &bytes[headers.network + at..headers.network + at + len];
    let length = (headers.end - headers.transport) as u64;
    fold(u64::from(internet_sum(addresses)) + length + u64::from(headers.protocol.number()))
}

/// Writes the pseudo-header's sum to the checksum field, as a card that completes it expects.
pub(crate) fn open_checksum(bytes: &mut [u8], headers: &IpTransport) {
    let sum = pseudo_header_sum(bytes, headers);
    let at = headers.checksum_at();
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Computes the transport checksum, whatever its field holds. A UDP checksum of 0 is stored as
/// 0xffff (RFC 768).
pub(crate) fn complete_transport_checksum(bytes: &mut [u8], headers: &IpTransport) {
    open_checksum(bytes, headers);
    let sum = internet_sum(&bytes[headers.transport..headers.end]);
    let checksum = match (!sum, headers.protocol) {
        (0, Transport::Udp) => 0xffff,
        (checksum, _) => checksum,
    };
    let at = headers.checksum_at();
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Computes the checksum of an IPv4 header.
pub(crate) fn complete_ipv4_checksum(bytes: &mut [u8], network: usize) {
    let header = &mut bytes[network..];
    let len = (usize::from(header[0] & 15) * 4).min(header.len());
    header[10..12].fill(0);
    let checksum = !internet_sum(&header[..len]);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Computes the Internet checksum over all bytes from `start`. The field at `start + offset`
/// contains the sum of the pseudo-header and receives the result. A result of 0 is stored as
/// 0xffff, as in the kernel. `None` if the field is outside the packet.
pub(crate) fn complete_checksum_at(bytes: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let covered = bytes.get_mut(start..)?;
    let sum = internet_sum(covered);
    let field = covered.get_mut(offset..offset.checked_add(2)?)?;
    let checksum = match !sum {
        0 => 0xffff,
        checksum => checksum,
    };
    field.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}
