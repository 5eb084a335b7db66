//! The instructions of a decoded program.

use ir::{BinaryOp, UnaryOp};
use packet::EngineReason;

/// Index of a slot.
pub type Slot = u32;
/// Index of an instruction.
pub type Pc = u32;

/// A value in slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reg {
    /// First slot.
    pub slot: Slot,
    /// How many.
    pub words: u32,
    /// Width in bits; of a varbit the greatest.
    pub width: u32,
    /// Two's complement.
    pub signed: bool,
    /// A varbit: its length stands first.
    pub varbit: bool,
}

/// An instruction. A trailing `1` is the form for values of one slot. `d` is the destination, `a` and `b` are operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Mov1 { d: Slot, a: Slot },
    MovN { d: Slot, a: Slot, n: u32 },
    // Stores to a field of a header that may be invalid.
    Field1 { h: u32, d: Slot, a: Slot },
    FieldN { h: u32, d: Slot, a: Slot, n: u32 },
    Add1 { d: Slot, a: Slot, b: Slot, mask: u64 },
    Sub1 { d: Slot, a: Slot, b: Slot, mask: u64 },
    Mul1 { d: Slot, a: Slot, b: Slot, mask: u64 },
    And1 { d: Slot, a: Slot, b: Slot },
    Or1 { d: Slot, a: Slot, b: Slot },
    Xor1 { d: Slot, a: Slot, b: Slot },
    Not1 { d: Slot, a: Slot, mask: u64 },
    Neg1 { d: Slot, a: Slot, mask: u64 },
    Shl1 { d: Slot, a: Slot, b: Slot, mask: u64 },
    Shr1 { d: Slot, a: Slot, b: Slot },
    Eq1 { d: Slot, a: Slot, b: Slot },
    Ne1 { d: Slot, a: Slot, b: Slot },
    Lt1 { d: Slot, a: Slot, b: Slot },
    Le1 { d: Slot, a: Slot, b: Slot },
    // Signed comparisons: `shift` brings the sign to bit 63.
    LtS1 { d: Slot, a: Slot, b: Slot, shift: u32 },
    LeS1 { d: Slot, a: Slot, b: Slot, shift: u32 },
    Mask1 { d: Slot, a: Slot, mask: u64 },
    // Widens by sign: `shift` brings the sign to bit 63.
    Sext1 { d: Slot, a: Slot, shift: u32, mask: u64 },
    Slice1 { d: Slot, a: Slot, lo: u32, mask: u64 },
    Concat1 { d: Slot, a: Slot, b: Slot, shift: u32 },
    Select1 { d: Slot, c: Slot, a: Slot, b: Slot },
    SelectN { d: Slot, c: Slot, a: Slot, b: Slot, n: u32 },
    // What is wide or rare: index into `Code::wide`.
    Wide { index: u32 },
    IsValid { d: Slot, h: u32 },
    SetValid { h: u32 },
    SetInvalid { h: u32 },
    Copy { dst: u32, src: u32 },
    State { index: u32 },
    Extract { h: u32 },
    ExtractVarbit { h: u32, a: Slot },
    Advance { a: Slot },
    Lookahead { index: u32 },
    Verify { c: Slot, e: Slot },
    PacketLength { d: Slot },
    InValueSet { index: u32 },
    Emit { h: u32 },
    Call { index: u32 },
    Goto { pc: Pc },
    // As `Goto`, to somewhere before: uses up fuel.
    Back { pc: Pc },
    Branch { c: Slot, then: Pc, els: Pc },
    Switch { index: u32 },
    Apply { index: u32 },
    Return,
    Exit,
    Reject,
}

/// An operation that is not worth an instruction of its own.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum WideOp {
    Binary { op: BinaryOp, d: Reg, a: Reg, b: Reg },
    Unary { op: UnaryOp, d: Reg, a: Reg },
    Cast { d: Reg, a: Reg },
    Slice { d: Reg, a: Reg, lo: u32 },
    Concat { d: Reg, high: Reg, low: Reg },
}

/// How a block of the architecture ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// At its end.
    Return,
    /// By `exit`.
    Exit,
    /// A parser in state reject.
    Reject,
    /// The engine gave up; the packet is dropped.
    Abort(EngineReason),
}
