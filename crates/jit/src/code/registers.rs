//! How values lie in registers and in memory, whatever function is being made.

use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::MemFlagsData;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use ir::Type;

/// The registers of a value.
pub type Regs = Vec<cl::Value>;

/// How many registers a value of the type takes.
pub fn regs_for(ty: Type) -> usize {
    entries::words_for(ty.width())
}

/// The type of a value's registers.
pub fn reg_type(ty: Type) -> cl::Type {
    if ty == Type::Bool { I8 } else { I64 }
}

/// All ones in the low `width` bits of 64.
pub fn mask(width: u32) -> u64 {
    match width {
        0 => 0,
        1..=63 => (1 << width) - 1,
        _ => u64::MAX,
    }
}

/// The type of a number of 1, 2, 4 or 8 bytes.
pub fn int(bytes: u32) -> cl::Type {
    match bytes {
        1 => I8,
        2 => I16,
        4 => I32,
        _ => I64,
    }
}

/// So many bytes in pieces of powers of two, none larger than `largest`: where each begins, and its size.
pub fn pieces(bytes: u32, largest: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = (1 << (bytes - at).checked_ilog2()?).min(largest);
        at += size;
        Some((at - size, size))
    })
}

/// The memory that only this thread touches, at addresses that are valid.
pub fn trusted() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Memory that nobody writes to while a stage runs: two reads of it are one.
pub fn steady() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_readonly().with_can_move()
}
