//! Instructions of arithmetic transformations, and their replacements.

use ir::{Body, Inst, Value};
use num_bigint::BigUint;

/// Instructions to insert before, and the replacement of the instruction. `None`: unchanged.
pub(super) type InstReplacement = Option<(Vec<(Inst, Value)>, Inst)>;

pub(super) fn inst_of(body: &Body, value: Value) -> Option<&Inst> {
    body.defining_inst(value).map(|data| &data.inst)
}

/// Returns the number of a constant value.
pub(super) fn constant_bits(body: &Body, value: Value) -> Option<&BigUint> {
    match inst_of(body, value)? {
        Inst::Const(c) => Some(&c.bits),
        _ => None,
    }
}
