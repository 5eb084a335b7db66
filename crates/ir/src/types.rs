//! Scalar types and constants.

use crate::entity::EnumId;
use num_bigint::BigUint;

/// Maximum width of a scalar, in bits. P4 sets no limit; this one bounds memory on hostile input.
pub const MAX_WIDTH: u32 = 1 << 16;

/// The type of a scalar value or variable. The IR has no aggregates, because lowering flattens
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Type {
    /// `bool`.
    Bool,
    /// `bit<W>`, unsigned, W bits; W may be 0.
    Bit(u32),
    /// `int<W>`, two's complement, W bits.
    Int(u32),
    /// `varbit<W>`: at most W bits, with a length of its own at run time.
    Varbit(u32),
    /// `error`: an index into [`crate::Pipeline::errors`].
    Error,
    /// An enumeration without underlying type: an index into its members. Enumerations with an
    /// underlying type are lowered to that type.
    Enum(EnumId),
}

/// Width in bits of the index that represents an `error` or an enumeration member.
pub const ORDINAL_WIDTH: u32 = 32;

impl Type {
    /// Returns the width in bits; the maximum for a `varbit`.
    pub fn width(self) -> u32 {
        match self {
            Type::Bool => 1,
            Type::Bit(w) | Type::Int(w) | Type::Varbit(w) => w,
            Type::Error | Type::Enum(_) => ORDINAL_WIDTH,
        }
    }
    /// Reports whether comparison, right shift and widening treat the top bit as a sign.
    pub fn is_signed(self) -> bool {
        matches!(self, Type::Int(_))
    }
    /// Reports whether arithmetic is defined on the type.
    pub fn is_numeric(self) -> bool {
        matches!(self, Type::Bit(_) | Type::Int(_))
    }
}

/// A constant: `bits` is the value modulo 2^width (two's complement for `int<W>`); a `bool` is 0 or
/// one. An error or enumeration constant is the index of an existing member. The only `varbit`
/// constant is the empty one, with bits 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Const {
    /// Type of the constant.
    pub ty: Type,
    /// Value of the constant.
    pub bits: BigUint,
}

impl Const {
    /// Creates a constant of that type; `bits` is taken modulo 2^width.
    pub fn new(ty: Type, bits: impl Into<BigUint>) -> Self {
        let mut bits: BigUint = bits.into();
        let width = u64::from(ty.width());
        if bits.bits() > width {
            bits %= BigUint::from(1u8) << width;
        }
        Const { ty, bits }
    }
    /// Creates `true` or `false`.
    pub fn bool(value: bool) -> Self {
        Const { ty: Type::Bool, bits: BigUint::from(u8::from(value)) }
    }
}
