//! Results of expressions: values and l-values.
//!
//! Scalars are SSA values. Headers, stacks and unions in storage are represented by reference
//! ([`RValue::Ref`]).

use super::storage::Storage;
use crate::hir::Ty;
use ir::{Value, VarId};
use num_bigint::{BigInt, BigUint, Sign};
use std::rc::Rc;
use std::sync::Arc;

/// Value of an expression.
#[derive(Clone, Debug)]
pub(super) enum RValue {
    Scalar(Value),
    /// A number of type `int`.
    Int(BigInt),
    Text(Arc<str>),
    Void,
    /// A struct, tuple or list.
    Struct(Rc<[RValue]>),
    /// A header, stack or union in storage.
    Ref(Storage),
    /// A valid header with these fields.
    Header(Rc<[RValue]>),
    /// An invalid header, or a union without a valid member.
    Invalid(Ty),
    /// A stack with these elements.
    Stack(Rc<[RValue]>, Ty),
    /// An object, or another compile-time only value.
    Object,
}

/// Returns a number modulo 2^width.
pub(super) fn wrap_to_width(value: &BigInt, width: u32) -> BigUint {
    let modulus = BigInt::from(1) << width;
    let (sign, bits) = (value % &modulus).into_parts();
    match sign {
        Sign::Minus => ((BigUint::from(1u8) << width) - bits) % (BigUint::from(1u8) << width),
        _ => bits,
    }
}

/// Returns whether the value refers to storage.
pub(super) fn holds_reference(val: &RValue) -> bool {
    match val {
        RValue::Ref(_) => true,
        RValue::Struct(parts) | RValue::Header(parts) | RValue::Stack(parts, _) => parts.iter().any(holds_reference),
        _ => false,
    }
}

/// A resolved l-value.
#[derive(Clone, Debug)]
pub(super) enum LValue {
    Storage(Storage),
    /// A value that is not in storage.
    Value(RValue),
    /// The candidate with this index. `next` is the next index of the stack to be updated, for
    /// `stack.next`.
    Dynamic {
        candidates: Rc<[Storage]>,
        index: Value,
        next: Option<VarId>,
    },
    /// Bits of a scalar.
    Slice {
        base: Box<LValue>,
        hi: u32,
        lo: u32,
        ty: Ty,
    },
    /// Bits of a scalar from a run-time position.
    DynSlice {
        base: Box<LValue>,
        lo: Value,
        width: u32,
        ty: Ty,
    },
}
