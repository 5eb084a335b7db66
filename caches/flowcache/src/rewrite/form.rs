//! Definition of a rewrite: the packets that it matches and their treatment. It consists of plain
//! numbers, so that a program in the kernel can store and execute it.

use interp::{ByteCount, DeferredCount};
use packet::DropReason;

/// First bytes of a packet that keys, copies and sums can read, and maximum length of new headers.
/// It suffices for a tunnel in a tunnel behind a bridge header. The kernel program has a smaller
/// limit.
pub const WINDOW: usize = 256;
/// Maximum number of end-relative fields of a key.
pub const MAX_END_RELATIVE_FIELDS: usize = 6;
/// Maximum number of packet words of a sum.
pub const MAX_TERMS: usize = 12;
/// Maximum number of checked sums, and of written sums, of a rewrite.
pub const MAX_SUMS: usize = 4;
/// Maximum number of written lengths.
pub const MAX_LENGTHS: usize = 6;

/// Bits of a packet that form its key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyMask {
    /// Mask of the first bytes.
    pub mask: [u8; WINDOW],
    /// Offsets of 16-bit end-relative fields, in order. The key has their difference to the
    /// packet's length, modulo 2^16, so that packets of a flow have one key for all lengths. The
    /// mask excludes their bits.
    pub end_relative_fields: Vec<u16>,
    /// The packet's length is part of the key.
    pub length: bool,
}

/// Key of a flow.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowKey {
    /// Ingress port.
    pub port: u32,
    /// Packet length in bytes; 0 unless [`KeyMask::length`].
    pub length: u16,
    /// Masked first bytes, with the differences of end-relative fields.
    pub bytes: [u8; WINDOW],
}

impl KeyMask {
    /// Returns whether packets with equal keys under this mask have equal keys under `other` as
    /// well.
    pub fn is_refinement_of(&self, other: &KeyMask) -> bool {
        let has_whole_word = |at: usize| self.mask[at] == 0xff && self.mask[at + 1] == 0xff;
        let has_field = |at: &u16| self.end_relative_fields.contains(at) || self.length && has_whole_word(*at as usize);
        self.mask.iter().zip(&other.mask).all(|(own, other)| other & !own == 0)
            && other.end_relative_fields.iter().all(has_field)
            && (self.length || !other.length)
    }

    /// Returns the key of a packet.
    pub fn key(&self, bytes: &[u8], port: u32) -> FlowKey {
        let mut key = FlowKey { port, length: if self.length { bytes.len() as u16 } else { 0 }, bytes: [0; WINDOW] };
        let window = window(bytes);
        for (to, (byte, mask)) in key.bytes.iter_mut().zip(window.iter().zip(&self.mask)) {
            *to = byte & mask;
        }
        for at in self.end_relative_fields.iter().map(|at| *at as usize) {
            let distance = word(&window, at).wrapping_sub(bytes.len() as u16);
            key.bytes[at..at + 2].copy_from_slice(&distance.to_be_bytes());
        }
        key
    }
}

/// Returns the first bytes of a packet, padded with zeros.
pub(super) fn window(bytes: &[u8]) -> [u8; WINDOW] {
    let mut window = [0; WINDOW];
    let len = bytes.len().min(WINDOW);
    window[..len].copy_from_slice(&bytes[..len]);
    window
}

/// Returns the window's 64-bit words in host order.
pub(super) fn words(window: &[u8; WINDOW]) -> impl Iterator<Item = u64> {
    window.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// Returns a 64-bit word of the window in host order; 0 beyond its end.
#[inline]
pub(super) fn window_word(window: &[u8; WINDOW], at: usize) -> u64 {
    window.as_chunks::<8>().0.get(at).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

pub(super) fn word(window: &[u8; WINDOW], at: usize) -> u16 {
    u16::from_be_bytes([window[at], window[at + 1]])
}

/// One's complement sum of 16-bit words (RFC 1071). The words that are equal for all packets of the
/// flow are summed up in advance.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PacketSum {
    /// Sum of the constant words, not folded.
    pub constant: u64,
    /// Number of times that the packet's length is added.
    pub lengths: u32,
    /// Words of the packet: offset and mask.
    pub terms: Vec<(u16, u16)>,
}

impl PacketSum {
    /// Returns the sum for a packet, folded to 16 bits. It is 0 only if all words are 0.
    pub fn of(&self, window: &[u8; WINDOW], length: usize) -> u16 {
        self.sum_with(self.constant, window, length)
    }

    /// Returns the sum with another constant.
    #[inline]
    pub(super) fn sum_with(&self, constant: u64, window: &[u8; WINDOW], length: usize) -> u16 {
        let words = self.terms.iter().map(|(at, mask)| u64::from(word(window, *at as usize) & mask));
        fold_sum(constant + u64::from(self.lengths) * length as u64 + words.sum::<u64>())
    }
}

pub(super) fn fold_sum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Checksum that must hold for the rewrite to apply to a packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ChecksumCheck {
    /// The sum.
    pub sum: PacketSum,
    /// Required value: this, xor the packet word at `word`, if any.
    pub expected: u16,
    /// Offset of that word.
    pub word: Option<u16>,
}

impl ChecksumCheck {
    /// Returns whether the packet passes, with this constant of the sum.
    pub(super) fn holds_for(&self, constant: u64, window: &[u8; WINDOW], length: usize) -> bool {
        let word = self.word.map_or(0, |at| word(window, at as usize));
        self.sum.sum_with(constant, window, length) == self.expected ^ word
    }
}

/// New header of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewHeader {
    /// Bytes added at the start; negative: removed.
    pub len_delta: i16,
    /// Length of the new header: the bytes of the sent packet that `keep_mask` and `set_bytes`
    /// produce.
    pub len: u16,
    /// Mask of the bits kept from the packet: byte `i` is the received packet's byte
    /// `i - len_delta`.
    pub keep_mask: [u8; WINDOW],
    /// All other bits.
    pub set_bytes: [u8; WINDOW],
    /// 16-bit fields that are set to the received packet's length plus a number: offset in the new
    /// packet, and the number.
    pub lengths: Vec<(u16, i32)>,
    /// 16-bit fields that are set to a sum: offset in the new packet, sum over the received packet,
    /// and whether it is complemented.
    pub sums: Vec<(u16, PacketSum, bool)>,
}

/// Treatment of the packets of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FlowAction {
    /// Forward.
    Forward {
        /// Egress port.
        port: u32,
        /// New header.
        head: Box<NewHeader>,
    },
    /// Drop for this reason.
    Drop(DropReason),
}

/// Treatment of a flow's packets without the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowRewrite {
    /// Key mask.
    pub key_mask: KeyMask,
    /// Key.
    pub key: FlowKey,
    /// First and last packet length that the rewrite applies to, in bytes.
    pub lengths: (u32, u32),
    /// Checksums that must hold.
    pub checks: Vec<ChecksumCheck>,
    /// Treatment.
    pub action: FlowAction,
    /// Counters that each packet updates, and by how many bytes.
    pub counter_updates: Vec<(DeferredCount, ByteCount)>,
}
