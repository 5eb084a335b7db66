//! What a rewrite is: which packets it is for, and what becomes of them. Plain numbers, so that a program in the kernel can hold and run it.

use interp::{ByteForm, Credit};
use packet::DropReason;

/// Bytes from the start of a packet that a key, a copy or a sum can look at, and bytes of new headers: enough for a tunnel in a tunnel behind the bridge header of a tier above. The
/// kernel's program has fewer.
pub const WINDOW: usize = 256;
/// Fields of a key that are taken as their distance from the packet's length.
pub const MAX_NEAR: usize = 6;
/// Words of a sum that differ from packet to packet.
pub const MAX_TERMS: usize = 12;
/// Sums that are checked, and sums that are written, of one rewrite.
pub const MAX_SUMS: usize = 4;
/// Lengths that are written.
pub const MAX_LENGTHS: usize = 6;

/// Which bits of a packet make its key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Of the first bytes.
    pub mask: [u8; WINDOW],
    /// Bytes at which 16-bit fields begin that count as their difference to the packet's length, modulo 2^16; in order. So packets of one flow have one key
    /// whatever their length is. The mask has none of their bits.
    pub near: Vec<u16>,
    /// The packet's length is part of the key.
    pub length: bool,
}

/// What the packets of a flow have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// The port that they come in by.
    pub port: u32,
    /// Their length in bytes; 0 unless [`Shape::length`].
    pub length: u16,
    /// Their first bytes under the mask, and the differences in place of fields that are near the length.
    pub bytes: [u8; WINDOW],
}

impl Shape {
    /// Whether packets that have the same key by this shape have the same one by the other one, too.
    pub fn says_more_than(&self, other: &Shape) -> bool {
        let whole = |at: usize| self.mask[at] == 0xff && self.mask[at + 1] == 0xff;
        let near = |at: &u16| self.near.contains(at) || self.length && whole(*at as usize);
        self.mask.iter().zip(&other.mask).all(|(own, other)| other & !own == 0)
            && other.near.iter().all(near)
            && (self.length || !other.length)
    }

    /// The key of a packet.
    pub fn key(&self, bytes: &[u8], port: u32) -> Key {
        let mut key = Key { port, length: if self.length { bytes.len() as u16 } else { 0 }, bytes: [0; WINDOW] };
        let window = window(bytes);
        for (to, (byte, mask)) in key.bytes.iter_mut().zip(window.iter().zip(&self.mask)) {
            *to = byte & mask;
        }
        for at in self.near.iter().map(|at| *at as usize) {
            let distance = word(&window, at).wrapping_sub(bytes.len() as u16);
            key.bytes[at..at + 2].copy_from_slice(&distance.to_be_bytes());
        }
        key
    }
}

/// The first bytes of a packet, zeros behind a shorter one.
pub(super) fn window(bytes: &[u8]) -> [u8; WINDOW] {
    let mut window = [0; WINDOW];
    let len = bytes.len().min(WINDOW);
    window[..len].copy_from_slice(&bytes[..len]);
    window
}

/// The same in words of 64 bits, in the machine's order.
pub(super) fn words(window: &[u8; WINDOW]) -> impl Iterator<Item = u64> {
    window.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// One of them.
#[inline]
pub(super) fn word_of(window: &[u8; WINDOW], at: usize) -> u64 {
    window.as_chunks::<8>().0.get(at).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

pub(super) fn word(window: &[u8; WINDOW], at: usize) -> u16 {
    u16::from_be_bytes([window[at], window[at + 1]])
}

/// A one's complement sum of 16-bit words (RFC 1071), those that are the same for all packets of the flow added up already.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sum {
    /// The words that are known; not folded.
    pub constant: u64,
    /// How often the packet's length is added.
    pub lengths: u32,
    /// Words of the packet: first byte, and which bits.
    pub terms: Vec<(u16, u16)>,
}

impl Sum {
    /// The sum for a packet, folded to 16 bits: 0 only if all words are.
    pub fn of(&self, window: &[u8; WINDOW], length: usize) -> u16 {
        self.with(self.constant, window, length)
    }

    /// The same with another constant.
    #[inline]
    pub(super) fn with(&self, constant: u64, window: &[u8; WINDOW], length: usize) -> u16 {
        let words = self.terms.iter().map(|(at, mask)| u64::from(word(window, *at as usize) & mask));
        fold(constant + u64::from(self.lengths) * length as u64 + words.sum::<u64>())
    }
}

pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// What a sum must be, for the rewrite to be right for the packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Check {
    /// The sum.
    pub sum: Sum,
    /// What it must be: exclusive or of this with the word there, if there is one.
    pub expected: u16,
    /// First byte of that word.
    pub word: Option<u16>,
}

impl Check {
    /// Whether the packet passes, with that constant of the sum.
    pub(super) fn passes(&self, constant: u64, window: &[u8; WINDOW], length: usize) -> bool {
        let word = self.word.map_or(0, |at| word(window, at as usize));
        self.sum.with(constant, window, length) == self.expected ^ word
    }
}

/// The new beginning of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// Bytes that are added in front; negative: taken away.
    pub grow: i16,
    /// How many bytes, of the packet as it leaves, are made by `keep` and `set`.
    pub len: u16,
    /// Bits that stay what they are where the payload comes to lie: byte `i` is the received packet's byte `i - grow`.
    pub keep: [u8; WINDOW],
    /// Other bits.
    pub set: [u8; WINDOW],
    /// 16-bit fields that get the received packet's length plus something: first byte in the new packet, and what is added.
    pub lengths: Vec<(u16, i32)>,
    /// 16-bit fields that get a sum: first byte in the new packet; the sum over the received packet; complemented or not.
    pub sums: Vec<(u16, Sum, bool)>,
}

/// What becomes of the packets of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// They leave.
    Forward {
        /// By that port.
        port: u32,
        /// Looking like that.
        head: Box<Head>,
    },
    /// They are dropped.
    Drop(DropReason),
}

/// What a packet did, as packets like it can have it done again without the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// Which bits make the key.
    pub shape: Shape,
    /// The key.
    pub key: Key,
    /// Lengths in bytes for which it holds: the first, and the last.
    pub lengths: (u32, u32),
    /// What must add up besides.
    pub checks: Vec<Check>,
    /// What is done.
    pub fate: Fate,
    /// What each packet adds to, and by how many bytes.
    pub credits: Vec<(Credit, ByteForm)>,
}
