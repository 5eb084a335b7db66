//! What code for eight packets at once is made of: one stretch of operations without jumps, carried out again and again.
//!
//! A vector has eight lanes of 64 bits, one for each packet; a mask has a bit for each. The code runs over a list of packets, eight at a time: `at` is the number
//! of the first of them in the list, and all lists are read from there. All places are in bytes from the context's first ([`crate::memory`]).

/// The number of an operation, and of what it gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Id(pub u32);

/// How two lanes are compared, as unsigned numbers unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cond {
    /// The same.
    Equal,
    /// Not the same.
    NotEqual,
    /// Less.
    Less,
    /// Less, or the same.
    LessOrEqual,
    /// Less, as two's complements.
    SignedLess,
    /// Less or the same, as two's complements.
    SignedLessOrEqual,
}

/// The most 64-bit words that rows are read or written by: a cache line.
pub const WORDS: usize = 8;

/// Packets, or lanes.
pub const LANES: usize = 8;

/// An operation. What it takes has been made before it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    // ---- vectors ----
    /// The number in each lane.
    Const(u64),
    /// The number of each lane's packet in the list: `at` and 0 to 7 more.
    Position,
    /// A word of each packet: 64 bytes of a list of words that begins there, from `8 * at` on.
    Column(i32),
    /// Sum, modulo 2^64.
    Add(Id, Id),
    /// Difference, modulo 2^64.
    Sub(Id, Id),
    /// Product, modulo 2^64.
    Mul(Id, Id),
    /// Quotient, rounded down, of numbers below 2^32. Of 0: any number.
    Quotient(Id, Id),
    /// Half of the product without carries by a number: the lower one, or if that is said the higher one.
    Carryless(Id, u64, bool),
    /// Both.
    And(Id, Id),
    /// Either.
    Or(Id, Id),
    /// One of both.
    Xor(Id, Id),
    /// Shifted to more significant places, by 0 to 63 bits.
    Shl(Id, u8),
    /// Shifted to less significant places, by 0 to 63 bits; zeros come in.
    Shr(Id, u8),
    /// Shifted to less significant places, by 0 to 63 bits; the sign comes in.
    Sar(Id, u8),
    /// Shifted to more significant places by as much as the other's lane says; 64 and more: 0.
    ShlBy(Id, Id),
    /// Shifted to less significant places by as much as the other's lane says; 64 and more: 0.
    ShrBy(Id, Id),
    /// Turned by 0 to 63 bits to more significant places.
    Rotl64(Id, u8),
    /// The lower 32 bits turned by 0 to 31 bits to more significant places; the upper ones, which are 0, stay so.
    Rotl32(Id, u8),
    /// Bytes of each lane: the result's byte `i` (0 is the least significant) is the lane's byte `[i]`, or 0 if that is [`ZERO_BYTE`].
    Bytes(Id, [u8; 8]),
    /// In lanes of the mask the first, in others the second.
    Blend(Id, Id, Id),
    /// 1 in lanes of the mask, 0 in others.
    Number(Id),
    /// So many bytes (4 or 8), least significant first, from the lane's address and the offset on, in lanes of the mask; 0 in others, whose addresses may be anything.
    Gather {
        /// Addresses.
        base: Id,
        /// What is added to them.
        offset: i32,
        /// How many bytes.
        bytes: u8,
        /// For which lanes.
        mask: Id,
    },
    /// The word that lies at this place behind the context, in all lanes.
    ContextWord(i32),
    /// A number of 1, 2, 4 or 8 bytes, in all lanes, that lies `offset` behind the address that lies at this place behind the context.
    Pointed {
        /// Where the address lies.
        pointer: i32,
        /// What is added to it.
        offset: i32,
        /// How many bytes.
        bytes: u8,
    },
    /// Reads `bytes` (1 to 64) from `offset` on behind each packet's first byte, whose address lies in the list. [`Op::Word`] gives its words.
    Rows {
        /// The list of addresses, all of which may be read from.
        pointers: i32,
        /// Bytes from there.
        offset: i32,
        /// How many bytes; no others are touched.
        bytes: u8,
    },
    /// The word (least significant byte first; bytes that were not read are 0) of so many times 8 bytes on in each row of an [`Op::Rows`].
    Word(Id, u8),

    // ---- masks ----
    /// The lanes that have a packet: the last ones of a list may have none.
    Active,
    /// All lanes or none.
    Certain(bool),
    /// Lanes in which that holds.
    Compare(Cond, Id, Id),
    /// In both masks.
    Both(Id, Id),
    /// In either mask.
    Either(Id, Id),
    /// In one of both masks.
    OneOf(Id, Id),
    /// In the first and not in the second.
    Without(Id, Id),
    /// Not in it.
    Not(Id),

    // ---- effects, which give nothing ----
    /// Puts lanes of a mask behind what lies in lists already: close together, in their order. In front of the lists' first ones lies nothing, and behind their last ones
    /// there is room for eight more, which may be written over.
    Append {
        /// Where the number of packets in the lists lies (a word), which grows.
        count: i32,
        /// Which lanes.
        mask: Id,
        /// Lists of words, and what is put there.
        columns: Vec<(i32, Id)>,
        /// Lists of several words (one or more) a packet, one behind the other.
        keys: Vec<(i32, Vec<Id>)>,
    },
    /// Adds lanes of a mask to eight words at that place, a lane to each.
    Accumulate {
        /// Where.
        at: i32,
        /// Which lanes.
        mask: Id,
        /// What.
        value: Id,
    },
    /// Writes lanes of a mask into a list of words, each at a place of its own.
    Scatter {
        /// The list.
        list: i32,
        /// Each lane's place in it.
        index: Id,
        /// Which lanes.
        mask: Id,
        /// What.
        value: Id,
    },
    /// Asks the memory for lines that will be wanted: those at some distances from the addresses that lie in a list, of eight packets so many behind the present ones. Places
    /// behind the list's last may hold anything.
    Ahead {
        /// The list of addresses.
        list: i32,
        /// How many packets.
        by: u8,
        /// The distances, in bytes.
        offsets: Vec<i32>,
    },
    /// Writes rows: words of each lane from `offset` on behind the lane's address, of them the bytes that the mask names (bit 0: the first byte). Where no byte of a
    /// word is named, any vector stands for it.
    Write {
        /// Addresses, a vector.
        pointers: Id,
        /// Bytes from there.
        offset: i32,
        /// Which bytes of the 64.
        bytes: u64,
        /// The words.
        words: Vec<Id>,
    },
}

/// No byte: [`Op::Bytes`].
pub const ZERO_BYTE: u8 = 0x80;

/// Operations in the order in which they are carried out.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The operations.
    pub ops: Vec<Op>,
}

impl Op {
    /// What it takes, in order.
    pub fn operands(&self) -> Vec<Id> {
        let mut all = Vec::new();
        self.clone().operands_mut(&mut |id| all.push(*id));
        all
    }

    /// Calls for everything that the operation takes, which may be changed.
    pub fn operands_mut(&mut self, change: &mut dyn FnMut(&mut Id)) {
        use Op::*;
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

    /// Gives other numbers to what it takes.
    pub fn rename(&mut self, to: &impl Fn(Id) -> Id) {
        self.operands_mut(&mut |id| *id = to(*id));
    }

    /// Whether it has an effect, and gives nothing.
    pub fn is_effect(&self) -> bool {
        use Op::*;
        matches!(self, Append { .. } | Accumulate { .. } | Scatter { .. } | Ahead { .. } | Write { .. })
    }

    /// Whether it gives a mask.
    pub fn is_mask(&self) -> bool {
        use Op::*;
        matches!(self, Active | Certain(_) | Compare(..) | Both(..) | Either(..) | OneOf(..) | Without(..) | Not(_))
    }
}
