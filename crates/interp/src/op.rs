//! Instructions of a decoded program.

use ir::{BinaryOp, UnaryOp};
use packet::EngineReason;

/// Index of a 64-bit word of the frame.
pub type WordIndex = u32;
/// Index of an instruction.
pub type InstIndex = u32;

/// Register: the words of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reg {
    /// First word.
    pub first_word: WordIndex,
    /// Number of words.
    pub words: u32,
    /// Width in bits; of a varbit the maximum.
    pub width: u32,
    /// Whether the value is in two's complement.
    pub is_signed: bool,
    /// Whether the value is a varbit: its first word is its length in bits.
    pub is_varbit: bool,
}

/// Instruction. A trailing `1` is the variant for values of one word. `d` is the destination, `a`
/// and `b` are operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Mov1 { d: WordIndex, a: WordIndex },
    MovN { d: WordIndex, a: WordIndex, n: u32 },
    // Stores to a field of a header that can be invalid.
    Field1 { h: u32, d: WordIndex, a: WordIndex },
    FieldN { h: u32, d: WordIndex, a: WordIndex, n: u32 },
    Add1 { d: WordIndex, a: WordIndex, b: WordIndex, mask: u64 },
    Sub1 { d: WordIndex, a: WordIndex, b: WordIndex, mask: u64 },
    Mul1 { d: WordIndex, a: WordIndex, b: WordIndex, mask: u64 },
    And1 { d: WordIndex, a: WordIndex, b: WordIndex },
    Or1 { d: WordIndex, a: WordIndex, b: WordIndex },
    Xor1 { d: WordIndex, a: WordIndex, b: WordIndex },
    Not1 { d: WordIndex, a: WordIndex, mask: u64 },
    Neg1 { d: WordIndex, a: WordIndex, mask: u64 },
    Shl1 { d: WordIndex, a: WordIndex, b: WordIndex, mask: u64 },
    Shr1 { d: WordIndex, a: WordIndex, b: WordIndex },
    Eq1 { d: WordIndex, a: WordIndex, b: WordIndex },
    Ne1 { d: WordIndex, a: WordIndex, b: WordIndex },
    Lt1 { d: WordIndex, a: WordIndex, b: WordIndex },
    Le1 { d: WordIndex, a: WordIndex, b: WordIndex },
    // Signed comparisons. `shift` moves the sign to bit 63.
    LtS1 { d: WordIndex, a: WordIndex, b: WordIndex, shift: u32 },
    LeS1 { d: WordIndex, a: WordIndex, b: WordIndex, shift: u32 },
    Mask1 { d: WordIndex, a: WordIndex, mask: u64 },
    // Sign extension. `shift` moves the sign to bit 63.
    Sext1 { d: WordIndex, a: WordIndex, shift: u32, mask: u64 },
    Slice1 { d: WordIndex, a: WordIndex, lo: u32, mask: u64 },
    Concat1 { d: WordIndex, a: WordIndex, b: WordIndex, shift: u32 },
    Select1 { d: WordIndex, c: WordIndex, a: WordIndex, b: WordIndex },
    SelectN { d: WordIndex, c: WordIndex, a: WordIndex, b: WordIndex, n: u32 },
    // Wide or rare operation: index into `BlockCode::wide`.
    Wide { index: u32 },
    IsValid { d: WordIndex, h: u32 },
    SetValid { h: u32 },
    SetInvalid { h: u32 },
    Copy { dst: u32, src: u32 },
    State { index: u32 },
    Extract { h: u32 },
    ExtractVarbit { h: u32, a: WordIndex },
    Advance { a: WordIndex },
    Lookahead { index: u32 },
    Verify { c: WordIndex, e: WordIndex },
    PacketLength { d: WordIndex },
    InValueSet { index: u32 },
    Emit { h: u32 },
    Call { index: u32 },
    Goto { pc: InstIndex },
    // Backward `Goto`; consumes fuel.
    Back { pc: InstIndex },
    Branch { c: WordIndex, then: InstIndex, els: InstIndex },
    Switch { index: u32 },
    Apply { index: u32 },
    Return,
    Exit,
    Reject,
}

/// Operation on wide values, or one that is too rare for an instruction of its own.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum WideOp {
    Binary { op: BinaryOp, d: Reg, a: Reg, b: Reg },
    Unary { op: UnaryOp, d: Reg, a: Reg },
    Cast { d: Reg, a: Reg },
    Slice { d: Reg, a: Reg, lo: u32 },
    Concat { d: Reg, high: Reg, low: Reg },
}

/// Exit of a programmable block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockExit {
    /// End of the block.
    Return,
    /// `exit` statement.
    Exit,
    /// Parser state reject.
    Reject,
    /// A limit or an error of the engine; the packet is dropped.
    Abort(EngineReason),
}
