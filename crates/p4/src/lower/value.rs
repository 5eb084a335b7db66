//! What expressions yield, and where they point.
//!
//! Scalars are SSA values. Headers, stacks and unions that sit in storage are yielded by reference ([`Val::Ref`]).

use super::place::Place;
use crate::hir::Ty;
use ir::{Value, VarId};
use num_bigint::{BigInt, BigUint, Sign};
use std::rc::Rc;
use std::sync::Arc;

/// What an expression yields.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Scalar(Value),
    /// A number of type `int`.
    Int(BigInt),
    Text(Arc<str>),
    Void,
    /// A struct, tuple or list.
    Struct(Rc<[Val]>),
    /// A header, stack or union, where it is.
    Ref(Place),
    /// A valid header of these fields.
    Header(Rc<[Val]>),
    /// An invalid header, or a union without a valid member.
    Invalid(Ty),
    /// A stack of these elements.
    Stack(Rc<[Val]>, Ty),
    /// An object, or something else that only compilation knows.
    Object,
}

/// A number modulo 2^width.
pub(super) fn wrap(value: &BigInt, width: u32) -> BigUint {
    let modulus = BigInt::from(1) << width;
    let (sign, bits) = (value % &modulus).into_parts();
    match sign {
        Sign::Minus => ((BigUint::from(1u8) << width) - bits) % (BigUint::from(1u8) << width),
        _ => bits,
    }
}

/// Whether the value refers to storage.
pub(super) fn holds_reference(val: &Val) -> bool {
    match val {
        Val::Ref(_) => true,
        Val::Struct(parts) | Val::Header(parts) | Val::Stack(parts, _) => parts.iter().any(holds_reference),
        _ => false,
    }
}

/// Where an expression points.
#[derive(Clone, Debug)]
pub(super) enum Access {
    Place(Place),
    /// Not in storage.
    Val(Val),
    /// The candidate of that index. `next` is the stack whose next index it is.
    Dynamic {
        candidates: Rc<[Place]>,
        index: Value,
        next: Option<VarId>,
    },
    /// Bits of a scalar.
    Slice {
        base: Box<Access>,
        hi: u32,
        lo: u32,
        ty: Ty,
    },
    /// Bits of a scalar from a place known at run time.
    DynSlice {
        base: Box<Access>,
        lo: Value,
        width: u32,
        ty: Ty,
    },
}
