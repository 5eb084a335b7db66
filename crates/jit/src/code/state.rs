//! State of a function under construction, kept between instructions.

use crate::code::registers::ValueRegs;
use cranelift_codegen::ir as cl;
use cranelift_frontend::Variable;
use ir::{HeaderId, Value};
use std::collections::{BTreeMap, HashMap};

/// Registers of the deparser.
#[derive(Clone, Copy)]
pub struct DeparserState {
    /// Number of headers emitted.
    pub count: Variable,
    /// Address of the first.
    pub front: Variable,
    /// Address directly after the last.
    pub next: Variable,
    /// Nonzero if a header did not directly follow the previous one.
    pub gaps: Variable,
}

/// An action parameter within a table's value.
#[derive(Clone, Copy)]
pub struct ActionParam {
    /// Address of the value.
    pub value: cl::Value,
    /// Length of the value in bytes.
    pub len: u32,
    /// Offset of the parameter.
    pub at: u32,
    /// Size of the parameter in bytes.
    pub bytes: u32,
}

/// Masked comparison of a value with a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaskedCompare {
    pub value: cl::Value,
    pub mask: u64,
    pub want: u64,
    /// Whether the comparison is for equality or inequality.
    pub equal: bool,
}

/// Field cache of valid headers.
#[derive(Clone, Default)]
pub struct FieldCache {
    /// Values that equal the current value of a field.
    pub field_of_value: HashMap<Value, (HeaderId, u32)>,
    /// Registers with the current value of fields.
    pub field_regs: HashMap<(HeaderId, u32), ValueRegs>,
}

/// A pending store of some bits of a header.
#[derive(Clone, Copy, Debug)]
pub struct PendingStore {
    /// Number of bits: 1 to 64.
    pub width: u32,
    /// Value, in the low bits.
    pub value: cl::Value,
}

/// Pending stores of each header by their first bits. They do not overlap.
pub type PendingStores = BTreeMap<HeaderId, BTreeMap<u32, PendingStore>>;
