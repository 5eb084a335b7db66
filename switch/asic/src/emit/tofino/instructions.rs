//! Instructions that rewrites of arithmetic look at, and what takes their place.

use ir::{Body, Inst, Value};
use num_bigint::BigUint;

/// Instructions to put before, and what the instruction becomes.
pub(super) type Rewrite = Option<(Vec<(Inst, Value)>, Inst)>;

pub(super) fn inst(body: &Body, value: Value) -> Option<&Inst> {
    body.definition(value).map(|data| &data.inst)
}

/// The number that a value always is.
pub(super) fn constant(body: &Body, value: Value) -> Option<&BigUint> {
    match inst(body, value)? {
        Inst::Const(c) => Some(&c.bits),
        _ => None,
    }
}
