//! What is kept of the function that is being made, from instruction to instruction.

use crate::code::registers::Regs;
use cranelift_codegen::ir as cl;
use cranelift_frontend::Variable;
use ir::{HeaderId, Value};
use std::collections::{BTreeMap, HashMap};

/// What the deparser keeps in registers.
#[derive(Clone, Copy)]
pub struct Emitting {
    /// Headers emitted.
    pub count: Variable,
    /// The first one's address.
    pub front: Variable,
    /// Where the next one would stand right behind the last.
    pub next: Variable,
    /// Anything but 0 if one did not.
    pub gaps: Variable,
}

/// A parameter of an action where it lies in a table's value.
#[derive(Clone, Copy)]
pub struct Parameter {
    /// The value's address.
    pub value: cl::Value,
    /// How long the value is, in bytes.
    pub len: u32,
    /// Where in it the parameter is.
    pub at: u32,
    /// How many bytes it has.
    pub bytes: u32,
}

/// Whether a value's bits under a mask are those of a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Test {
    pub value: cl::Value,
    pub mask: u64,
    pub want: u64,
    /// They must be; or else, they must not.
    pub equal: bool,
}

/// What is known of fields of valid headers.
#[derive(Clone, Default)]
pub struct Held {
    /// Values that are what a field holds.
    pub fresh: HashMap<Value, (HeaderId, u32)>,
    /// What fields hold.
    pub held: HashMap<(HeaderId, u32), Regs>,
}

/// A stretch of bits of a header that is still to be written.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// How many: 1 to 64.
    pub width: u32,
    /// They, in the low bits.
    pub value: cl::Value,
}

/// For each header the pieces by their first bits. They don't overlap.
pub type Waiting = BTreeMap<HeaderId, BTreeMap<u32, Piece>>;
