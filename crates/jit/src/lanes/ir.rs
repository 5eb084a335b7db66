//! Vector IR: straight-line operations on eight packets, executed in a loop.
//!
//! A vector has eight lanes of 64 bits, one for each packet; a mask has a bit for each. The code
//! runs over a list of packets, eight at a time: `at` is the index of the first of them, from which
//! all lists are read. Offsets are in bytes from the context ([`crate::memory`]).

/// Id of an operation and of its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct OpId(pub u32);

/// Comparison of two lanes, unsigned unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneCompare {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less.
    Less,
    /// Less or equal.
    LessOrEqual,
    /// Less, signed.
    SignedLess,
    /// Less or equal, signed.
    SignedLessOrEqual,
}

/// Maximum number of 64-bit words of a row access: a cache line.
pub const WORDS: usize = 8;

/// Number of lanes.
pub const LANES: usize = 8;

/// An operation. Its operands precede it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum VectorOp {
    // ---- vectors ----
    /// The constant in each lane.
    Const(u64),
    /// Index of each lane's packet in the list: `at` plus 0 to 7.
    Position,
    /// A word of each packet: 64 bytes of the list at this offset, from `8 * at` on.
    Column(i32),
    /// Sum, modulo 2^64.
    Add(OpId, OpId),
    /// Difference, modulo 2^64.
    Sub(OpId, OpId),
    /// Product, modulo 2^64.
    Mul(OpId, OpId),
    /// Quotient, rounded down, of numbers below 2^32. Arbitrary for a divisor of 0.
    Quotient(OpId, OpId),
    /// Lower half of the carry-less product with a constant; the higher half if the flag is set.
    Carryless(OpId, u64, bool),
    /// AND.
    And(OpId, OpId),
    /// OR.
    Or(OpId, OpId),
    /// XOR.
    Xor(OpId, OpId),
    /// Left shift by 0 to 63 bits.
    Shl(OpId, u8),
    /// Logical right shift by 0 to 63 bits.
    Shr(OpId, u8),
    /// Arithmetic right shift by 0 to 63 bits.
    Sar(OpId, u8),
    /// Left shift by the other's lane; 64 and more yield 0.
    ShlBy(OpId, OpId),
    /// Logical right shift by the other's lane; 64 and more yield 0.
    ShrBy(OpId, OpId),
    /// Left rotation by 0 to 63 bits.
    Rotl64(OpId, u8),
    /// Left rotation of the lower 32 bits by 0 to 31 bits; the upper ones must be 0.
    Rotl32(OpId, u8),
    /// Byte permutation in each lane: the result's byte `i` (0 is the least significant) is the
    /// lane's byte `[i]`, or 0 for [`ZERO_BYTE`].
    Bytes(OpId, [u8; 8]),
    /// The first in lanes of the mask, the second in others.
    Blend(OpId, OpId, OpId),
    /// 1 in lanes of the mask, 0 in others.
    Number(OpId),
    /// Loads little-endian numbers of 4 or 8 bytes from each lane's address plus the offset, in
    /// lanes of the mask; 0 in others, which may have any address.
    Gather {
        /// Addresses.
        base: OpId,
        /// Offset added to them.
        offset: i32,
        /// Number of bytes.
        bytes: u8,
        /// Lanes to load.
        mask: OpId,
    },
    /// Broadcasts the word at this offset from the context.
    ContextWord(i32),
    /// Broadcasts a number of 1, 2, 4 or 8 bytes at `offset` from an address stored in the context.
    Pointed {
        /// Offset of the address in the context.
        pointer: i32,
        /// Offset added to it.
        offset: i32,
        /// Number of bytes.
        bytes: u8,
    },
    /// Loads `bytes` (1 to 64) at `offset` from each address in a list. [`VectorOp::Word`] extracts
    /// the words.
    Rows {
        /// Offset of the list of addresses, all of which must be readable.
        pointers: i32,
        /// Offset in bytes.
        offset: i32,
        /// Number of bytes; no others are accessed.
        bytes: u8,
    },
    /// Extracts a word by index from each row of a [`VectorOp::Rows`] (little-endian; bytes that
    /// were not loaded are 0).
    Word(OpId, u8),

    // ---- masks ----
    /// Lanes with a packet; the last vector of a list may have unused lanes.
    Active,
    /// All lanes or none.
    Certain(bool),
    /// Lanes in which the comparison holds.
    Compare(LaneCompare, OpId, OpId),
    /// Intersection.
    Both(OpId, OpId),
    /// Union.
    Either(OpId, OpId),
    /// Symmetric difference.
    OneOf(OpId, OpId),
    /// Lanes of the first that are not in the second.
    Without(OpId, OpId),
    /// Complement.
    Not(OpId),

    // ---- effects, without a result ----
    /// Appends lanes of a mask to lists, compressed and in order. Nothing may be stored before a
    /// list. After its last item there must be space for eight more, which may be overwritten.
    Append {
        /// Offset of the lists' length (a word), which is increased.
        count: i32,
        /// Lanes to append.
        mask: OpId,
        /// Lists of words, with the vectors to append.
        columns: Vec<(i32, OpId)>,
        /// Lists of several words (one or more) per packet, contiguous.
        keys: Vec<(i32, Vec<OpId>)>,
    },
    /// Adds lanes of a mask to eight words, one per lane.
    Accumulate {
        /// Offset of the words.
        at: i32,
        /// Lanes to add.
        mask: OpId,
        /// Values.
        value: OpId,
    },
    /// Stores lanes of a mask to a list of words, each at its own index.
    Scatter {
        /// Offset of the list.
        list: i32,
        /// Index of each lane.
        index: OpId,
        /// Lanes to store.
        mask: OpId,
        /// Values.
        value: OpId,
    },
    /// Prefetches lines at some offsets from the addresses in a list, for eight packets at a
    /// distance from the current ones. Addresses after the list's last may be arbitrary.
    Ahead {
        /// Offset of the list of addresses.
        list: i32,
        /// Distance in packets.
        by: u8,
        /// Offsets in bytes.
        offsets: Vec<i32>,
    },
    /// Stores rows: words of each lane at `offset` from the lane's address, only the bytes in the
    /// byte mask (bit 0: the first byte). A word without such bytes is arbitrary.
    Write {
        /// Addresses, a vector.
        pointers: OpId,
        /// Offset in bytes.
        offset: i32,
        /// Mask of the 64 bytes.
        bytes: u64,
        /// The words.
        words: Vec<OpId>,
    },
}

/// Index for a zero byte in [`VectorOp::Bytes`].
pub const ZERO_BYTE: u8 = 0x80;

/// Operations in execution order.
#[derive(Clone, Debug, Default)]
pub struct VectorCode {
    /// The operations.
    pub ops: Vec<VectorOp>,
}

impl VectorOp {
    /// Returns the operands in order.
    pub fn operands(&self) -> Vec<OpId> {
        let mut all = Vec::new();
        self.clone().operands_mut(&mut |id| all.push(*id));
        all
    }

    /// Calls a function for each operand, which may change it.
    pub fn operands_mut(&mut self, change: &mut dyn FnMut(&mut OpId)) {
        use VectorOp::*;
        match self {
            Const(_)
            | Position
            | Column(_)
            | ContextWord(_)
            | Pointed { .. }
            | Rows { .. }
            | Active
            | Certain(_)
            | Ahead { .. } => {}
            Carryless(a, ..)
            | Shl(a, _)
            | Shr(a, _)
            | Sar(a, _)
            | Rotl64(a, _)
            | Rotl32(a, _)
            | Bytes(a, _)
            | Number(a)
            | Word(a, _)
            | Not(a) => change(a),
            Add(a, b)
            | Sub(a, b)
            | Mul(a, b)
            | Quotient(a, b)
            | And(a, b)
            | Or(a, b)
            | Xor(a, b)
            | ShlBy(a, b)
            | ShrBy(a, b)
            | Compare(_, a, b)
            | Both(a, b)
            | Either(a, b)
            | OneOf(a, b)
            | Without(a, b) => {
                change(a);
                change(b);
            }
            Blend(mask, a, b) => [mask, a, b].into_iter().for_each(change),
            Gather { base, mask, .. } => [base, mask].into_iter().for_each(change),
            Append { mask, columns, keys, .. } => {
                change(mask);
                columns.iter_mut().for_each(|(_, value)| change(value));
                keys.iter_mut().flat_map(|(_, words)| words).for_each(change);
            }
            Accumulate { mask, value, .. } => [mask, value].into_iter().for_each(change),
            Scatter { index, mask, value, .. } => [index, mask, value].into_iter().for_each(change),
            Write { pointers, words, .. } => {
                change(pointers);
                words.iter_mut().for_each(change);
            }
        }
    }

    /// Renames the operands.
    pub fn rename(&mut self, to: &impl Fn(OpId) -> OpId) {
        self.operands_mut(&mut |id| *id = to(*id));
    }

    /// Returns whether the operation has an effect, and no result.
    pub fn is_effect(&self) -> bool {
        use VectorOp::*;
        matches!(self, Append { .. } | Accumulate { .. } | Scatter { .. } | Ahead { .. } | Write { .. })
    }

    /// Returns whether the result is a mask.
    pub fn is_mask(&self) -> bool {
        use VectorOp::*;
        matches!(self, Active | Certain(_) | Compare(..) | Both(..) | Either(..) | OneOf(..) | Without(..) | Not(_))
    }
}
