//! Native code for what packets of known flows have done to them: a key from a packet's first bytes, and its hash; whether a row of words is for the packet; and the
//! row's new beginning of the packet.
//!
//! What all flows of a way share (places, masks, which words are summed) is in the code, what each has of its own in its row. `flowcache` says what a rewrite
//! means, and has the same in plain Rust, which is what this is tested against.
//!
//! Packets' words of 64 bits, and masks, are in the machine's order: the code is made for machines that begin with the least significant byte.

mod apply;
mod emit;
mod hash;
mod native;

pub use crate::code::machine::CompileError;
pub use native::{Done, HashCode, Head, RowCode, Told, bytes_at};

/// Bytes of room for a packet's new beginning.
pub const HEAD: usize = 256;

/// Which bits of a packet make its key.
#[derive(Clone, Debug, Default)]
pub struct Key {
    /// Where the first word begins, in bytes.
    pub first: usize,
    /// The bits that count of this word and those behind it, but those of `near`.
    pub masks: Vec<u64>,
    /// Fields of 16 bits, by their first bytes, that count as their difference to the packet's length, modulo 2^16, at the same place in the key.
    pub near: Vec<usize>,
    /// The packet's length counts, too.
    pub length: bool,
}

/// How a key is hashed: NH (UMAC: Black et al., 1999), a sum of products of pairs of words, each with a secret number added.
#[derive(Clone, Debug)]
pub struct Hashing {
    /// A number that all keys of this form have.
    pub shape: u32,
    /// Secret numbers: a pair for the key's first word and `shape`, one for the last of an odd number of words, and one for each pair.
    pub secrets: Vec<[u64; 2]>,
}

/// Words of a one's complement sum of 16-bit words (RFC 1071), but those that are known.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// How often the packet's length is added.
    pub lengths: u32,
    /// Where four bytes begin, and which of their bits; in memory's order.
    pub terms: Vec<(usize, u32)>,
}

/// A sum that a packet must have: exclusive or of `expected` and the 16 bits at `word`.
#[derive(Clone, Debug)]
pub struct Check {
    /// Of which words.
    pub words: Words,
    /// Folded, most significant byte first.
    pub expected: u16,
    /// First byte.
    pub word: Option<usize>,
}

/// Eight bytes of a new beginning that are the packet's, moved.
#[derive(Clone, Debug)]
pub struct Moved {
    /// Which word of the new beginning.
    pub to: usize,
    /// Where in the packet eight bytes begin.
    pub from: usize,
    /// How many places on they lie in the word; what falls off comes in at its beginning.
    pub places: u32,
    /// The bits that are taken.
    pub keep: u64,
}

/// Where a new beginning is written.
#[derive(Clone, Debug)]
pub enum Place {
    /// Over the old one: which bits of each of its words stay.
    There(Vec<u64>),
    /// Apart, and what is taken of the packet.
    Apart(Vec<Moved>),
}

/// A packet's new beginning.
#[derive(Clone, Debug)]
pub struct Front {
    /// Bytes of it. Bits that do not come from the packet are in the row, at [`Row::set`].
    pub len: usize,
    /// Where it is written.
    pub place: Place,
    /// Fields of 16 bits that get the packet's length and a number of the row.
    pub lengths: Vec<usize>,
    /// Fields of 16 bits that get a sum, complemented or not. Each has a constant in the row.
    pub sums: Vec<(usize, Words, bool)>,
}

/// What is in a row of words, and what is done with it. Numbers of 32 bits lie two to a word, the first in the low half.
#[derive(Clone, Debug)]
pub struct Row {
    /// The key of its packets.
    pub key: Key,
    /// The word with the first length of packets that it is for, and in the high half the last.
    pub bounds: usize,
    /// The first word of the key: port, and in the high half the length, or 0. Its other words are behind it.
    pub lead: usize,
    /// First word of the new beginning's bits.
    pub set: usize,
    /// The word with the number that comes back, and the numbers added to lengths behind it.
    pub smalls: usize,
    /// Which numbers, from there on, are constants of sums that are written, and of those that are checked.
    pub sums: usize,
    /// The same.
    pub checked: usize,
    /// What must add up.
    pub checks: Vec<Check>,
    /// What is written; nothing, if packets are dropped.
    pub front: Option<Front>,
}

impl Words {
    fn depth(&self) -> usize {
        self.terms.iter().map(|(at, _)| at + 4).max().unwrap_or(0)
    }
}

impl Key {
    /// How long a packet must be for its words to be read.
    fn depth(&self) -> usize {
        let words = self.masks.iter().rposition(|mask| *mask != 0).map_or(0, |last| self.first + 8 * (last + 1));
        self.near.iter().map(|at| at + 2).chain([words]).max().unwrap_or(0)
    }
}

impl Row {
    /// How long a packet must be for everything that is read and written.
    fn depth(&self) -> usize {
        let checks = self.checks.iter().flat_map(|check| [check.words.depth(), check.word.map_or(0, |at| at + 2)]);
        let front = self.front.iter().flat_map(|front| {
            let place = match &front.place {
                Place::There(stays) => 8 * stays.len(),
                Place::Apart(moved) => moved.iter().map(|moved| moved.from + 8).max().unwrap_or(0),
            };
            front.sums.iter().map(|(_, words, _)| words.depth()).chain([place])
        });
        checks.chain(front).chain([self.key.depth()]).max().unwrap_or(0)
    }

    /// Words of a row that are read.
    fn words(&self) -> usize {
        let (mut set, mut numbers) = (0, (self.checked + self.checks.len()).max(1));
        if let Some(front) = &self.front {
            set = match &front.place {
                Place::There(stays) => stays.len(),
                Place::Apart(_) => front.len.div_ceil(8),
            };
            numbers = numbers.max(self.sums + front.sums.len()).max(1 + front.lengths.len());
        }
        let ends = [self.set + set, self.smalls + numbers.div_ceil(2), self.lead + 1 + self.key.masks.len()];
        ends.into_iter().fold(self.bounds + 1, usize::max)
    }

    /// Whether all that is written has room, and all that is looked at in a row is behind its beginning.
    fn is_within(&self) -> bool {
        let Key { first, masks, near, .. } = &self.key;
        let key = *first..first + 8 * masks.len();
        let front = self.front.iter().all(|front| {
            let room = match &front.place {
                Place::There(stays) => 8 * stays.len(),
                Place::Apart(_) => HEAD.min(front.len.next_multiple_of(8)),
            };
            let fields = front.lengths.iter().chain(front.sums.iter().map(|(at, ..)| at));
            front.len <= room && fields.into_iter().all(|at| at + 2 <= room)
        });
        front && near.iter().all(|at| key.contains(at) && key.contains(&(at + 1)))
    }
}
