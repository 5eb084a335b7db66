//! Native code for flow rewrites: hashes a key of a packet's first bytes, checks whether a row of
//! words is for the packet, and writes the row's new header.
//!
//! Everything that the flows of a path template share (offsets, masks, summed words) is in the
//! code; the values of one flow are in its row. `flowcache` defines the meaning of a rewrite and
//! has the same operations in plain Rust, against which this is tested.
//!
//! Packet words of 64 bits, and masks, are in host order, which must be little-endian.

mod apply;
mod emit;
mod hash;
mod native;

pub use crate::code::machine::CompileError;
pub use native::{EncodedOutcome, HashCode, HeaderBuffer, RewriteOutcome, RowCode, bytes_at};

/// Size of the memory for a new header, in bytes.
pub const HEADER_BUFFER_BYTES: usize = 256;

/// Bits of a packet that form its key.
#[derive(Clone, Debug, Default)]
pub struct FlowKeySpec {
    /// Offset of the first word in bytes.
    pub first: usize,
    /// Bits that count, for this word and those after it, except the fields of `near`.
    pub masks: Vec<u64>,
    /// Offsets of 16-bit fields that count as their difference to the packet's length, modulo 2^16,
    /// at the same position in the key.
    pub near: Vec<usize>,
    /// Whether the packet's length counts too.
    pub length: bool,
}

/// Hash function of keys: NH (UMAC: Black et al., 1999), a sum of products of pairs of words, each
/// with a secret number added.
#[derive(Clone, Debug)]
pub struct KeyHashSpec {
    /// Number shared by all keys with this specification.
    pub shape: u32,
    /// Secret numbers: a pair for the key's first word and `shape`, one for the last of an odd
    /// number of words, and one for each pair.
    pub secrets: Vec<[u64; 2]>,
}

/// Variable terms of a one's complement sum of 16-bit words (RFC 1071).
#[derive(Clone, Debug, Default)]
pub struct ChecksumTerms {
    /// How often the packet's length is added.
    pub lengths: u32,
    /// Offsets of four bytes each, and the mask of their bits, in memory order.
    pub terms: Vec<(usize, u32)>,
}

/// A checksum that a packet must have: exclusive or of `expected` and the 16 bits at `word`.
#[derive(Clone, Debug)]
pub struct RequiredChecksum {
    /// The summed words.
    pub words: ChecksumTerms,
    /// Folded sum, most significant byte first.
    pub expected: u16,
    /// Offset of the first byte.
    pub word: Option<usize>,
}

/// Eight bytes of a new header that are copied from the packet.
#[derive(Clone, Debug)]
pub struct CopiedWord {
    /// Index of the word in the new header.
    pub to: usize,
    /// Offset of eight bytes in the packet.
    pub from: usize,
    /// Rotation of the word, in bytes.
    pub places: u32,
    /// Mask of the bits that are copied.
    pub keep: u64,
}

/// Destination of a new header.
#[derive(Clone, Debug)]
pub enum RewriteTarget {
    /// In place; the mask of the unchanged bits of each word.
    InPlace(Vec<u64>),
    /// Separate memory, with the words copied from the packet.
    Separate(Vec<CopiedWord>),
}

/// A packet's new header.
#[derive(Clone, Debug)]
pub struct HeaderRewrite {
    /// Length in bytes. Bits that do not come from the packet are in the row, at
    /// [`FlowRowLayout::set`].
    pub len: usize,
    /// Destination.
    pub place: RewriteTarget,
    /// Offsets of 16-bit fields that are set to the packet's length plus a number of the row.
    pub lengths: Vec<usize>,
    /// Offsets of 16-bit fields that are set to a sum, complemented or not. Each has a constant in
    /// the row.
    pub sums: Vec<(usize, ChecksumTerms, bool)>,
}

/// Layout of a row of words. Numbers of 32 bits are stored two to a word, the first in the low
/// half.
#[derive(Clone, Debug)]
pub struct FlowRowLayout {
    /// Key of its packets.
    pub key: FlowKeySpec,
    /// Index of the word with the minimum length of its packets, and the maximum in the high half.
    pub bounds: usize,
    /// Index of the first word of the key: port, and in the high half the length, or 0. The other
    /// words follow.
    pub lead: usize,
    /// Index of the first word of the new header's bits.
    pub set: usize,
    /// Index of the word with the row's number, followed by the numbers added to lengths.
    pub smalls: usize,
    /// Index, among the 32-bit numbers from there on, of the constants of sums that are written.
    pub sums: usize,
    /// Index, among the 32-bit numbers, of the constants of sums that are checked.
    pub checked: usize,
    /// Required checksums.
    pub checks: Vec<RequiredChecksum>,
    /// The new header; `None` if packets are dropped.
    pub front: Option<HeaderRewrite>,
}

impl ChecksumTerms {
    fn depth(&self) -> usize {
        self.terms.iter().map(|(at, _)| at + 4).max().unwrap_or(0)
    }
}

impl FlowKeySpec {
    /// Returns the minimum length of a packet for reading the key.
    fn depth(&self) -> usize {
        let words = self.masks.iter().rposition(|mask| *mask != 0).map_or(0, |last| self.first + 8 * (last + 1));
        self.near.iter().map(|at| at + 2).chain([words]).max().unwrap_or(0)
    }
}

impl FlowRowLayout {
    /// Returns the minimum length of a packet for all reads and writes.
    fn depth(&self) -> usize {
        let checks = self.checks.iter().flat_map(|check| [check.words.depth(), check.word.map_or(0, |at| at + 2)]);
        let front = self.front.iter().flat_map(|front| {
            let place = match &front.place {
                RewriteTarget::InPlace(stays) => 8 * stays.len(),
                RewriteTarget::Separate(moved) => moved.iter().map(|moved| moved.from + 8).max().unwrap_or(0),
            };
            front.sums.iter().map(|(_, words, _)| words.depth()).chain([place])
        });
        checks.chain(front).chain([self.key.depth()]).max().unwrap_or(0)
    }

    /// Returns the number of words of a row that are read.
    fn words(&self) -> usize {
        let (mut set, mut numbers) = (0, (self.checked + self.checks.len()).max(1));
        if let Some(front) = &self.front {
            set = match &front.place {
                RewriteTarget::InPlace(stays) => stays.len(),
                RewriteTarget::Separate(_) => front.len.div_ceil(8),
            };
            numbers = numbers.max(self.sums + front.sums.len()).max(1 + front.lengths.len());
        }
        let ends = [self.set + set, self.smalls + numbers.div_ceil(2), self.lead + 1 + self.key.masks.len()];
        ends.into_iter().fold(self.bounds + 1, usize::max)
    }

    /// Returns whether all written fields fit, and all `near` fields are within the key.
    fn is_within(&self) -> bool {
        let FlowKeySpec { first, masks, near, .. } = &self.key;
        let key = *first..first + 8 * masks.len();
        let front = self.front.iter().all(|front| {
            let room = match &front.place {
                RewriteTarget::InPlace(stays) => 8 * stays.len(),
                RewriteTarget::Separate(_) => HEADER_BUFFER_BYTES.min(front.len.next_multiple_of(8)),
            };
            let fields = front.lengths.iter().chain(front.sums.iter().map(|(at, ..)| at));
            front.len <= room && fields.into_iter().all(|at| at + 2 <= room)
        });
        front && near.iter().all(|at| key.contains(at) && key.contains(&(at + 1)))
    }
}
