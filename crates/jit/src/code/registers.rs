//! Representation of values in registers and in memory.

use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::MemFlagsData;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use ir::Type;

/// Registers of a value, lowest word first.
pub type ValueRegs = Vec<cl::Value>;

/// Returns the number of registers of a value of the type.
pub fn regs_for(ty: Type) -> usize {
    entries::words_for(ty.width())
}

/// Returns the type of a value's registers.
pub fn reg_type(ty: Type) -> cl::Type {
    if ty == Type::Bool { I8 } else { I64 }
}

/// Returns a mask of the low `width` bits of 64.
pub fn low_bits_mask(width: u32) -> u64 {
    match width {
        0 => 0,
        1..=63 => (1 << width) - 1,
        _ => u64::MAX,
    }
}

/// Returns the type of a number of 1, 2, 4 or 8 bytes.
pub fn int_type(bytes: u32) -> cl::Type {
    match bytes {
        1 => I8,
        2 => I16,
        4 => I32,
        _ => I64,
    }
}

/// Splits `bytes` bytes into powers of two, none larger than `largest`: offset and size of each.
pub fn split_powers_of_two(bytes: u32, largest: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = (1 << (bytes - at).checked_ilog2()?).min(largest);
        at += size;
        Some((at - size, size))
    })
}

/// Flags for memory that only this thread accesses, at valid addresses.
pub fn trusted_flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Flags for memory that is not written while a stage runs: equal loads can be merged.
pub fn steady_flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_readonly().with_can_move()
}
