//! Comparisons with constants, moved as close to the packet's bytes as possible.
//!
//! `hdr.ethernet.type == 0x800` compares two bytes of memory with `08 00`: byte swaps, shifts,
//! masks and extensions are inverted on the constant at compile time instead of executed for each
//! packet. Conjunctions over adjacent bytes (`version == 4 && ihl == 5`) become one comparison.

use crate::code::registers::{int_type, low_bits_mask, steady_flags};
use crate::code::stage::StageBuilder;
use crate::code::state::MaskedCompare;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode};

/// A value loaded from memory that is not written: bytes in host order at an offset from an
/// address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LoadSource {
    root: cl::Value,
    at: i64,
    bytes: i64,
}

impl StageBuilder<'_, '_> {
    fn width(&self, value: cl::Value) -> u32 {
        self.b.func.dfg.value_type(value).bits()
    }

    /// Returns the instruction that defines a value.
    pub(super) fn defining_inst(&self, value: cl::Value) -> Option<InstructionData> {
        let dfg = &self.b.func.dfg;
        let made = dfg.value_def(dfg.resolve_aliases(value)).inst()?;
        Some(dfg.insts[made])
    }

    /// Returns the value of a constant.
    pub fn constant_of(&self, value: cl::Value) -> Option<u64> {
        match self.defining_inst(value)? {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
                Some(imm.bits() as u64 & low_bits_mask(self.width(value)))
            }
            _ => None,
        }
    }

    /// Compares a number with a constant for equality, or with `equal` false for inequality.
    pub fn is_constant(&mut self, value: cl::Value, constant: u64, equal: bool) -> cl::Value {
        let mask = low_bits_mask(self.width(value));
        if constant & !mask != 0 {
            return self.iconst_bool(!equal);
        }
        if let Some(value) = self.constant_of(value) {
            return self.iconst_bool((value == constant) == equal);
        }
        let test = MaskedCompare { value, mask, want: constant, equal };
        let chain: Vec<MaskedCompare> = std::iter::successors(Some(test), |test| self.peel_operand(*test)).collect();
        // A comparison with an earlier value needs the instructions from there to the last.
        let cost = |(place, test): &(usize, &MaskedCompare)| (chain.len() - place) as u32 + self.test_cost(test);
        let best = chain.iter().enumerate().rev().min_by_key(cost).map_or(test, |(_, test)| *test);
        self.emit_test(best)
    }

    /// Returns the negation of a comparison's result, if it is one.
    pub fn negate_test(&mut self, answer: cl::Value) -> Option<cl::Value> {
        if let Some(test) = self.find_test(answer) {
            return Some(self.emit_test(MaskedCompare { equal: !test.equal, ..test }));
        }
        match self.defining_inst(answer)? {
            InstructionData::IntCompare { cond, args: [a, b], .. } => Some(self.b.ins().icmp(cond.complement(), a, b)),
            _ => None,
        }
    }

    fn find_test(&self, answer: cl::Value) -> Option<MaskedCompare> {
        self.tests.get(&self.b.func.dfg.resolve_aliases(answer)).copied()
    }

    /// Merges two tests of adjacent bytes: both must hold (`equal`), or one must fail. Returns
    /// `None` if the bytes are not adjacent, or if one load and comparison cannot do it.
    pub fn merge_tests(&mut self, first_test: cl::Value, second_test: cl::Value, equal: bool) -> Option<cl::Value> {
        let find = |result| self.find_test(result).filter(|test| test.equal == equal);
        let (first_test, second_test) = (find(first_test)?, find(second_test)?);
        let (first, second) = (self.read(first_test.value)?, self.read(second_test.value)?);
        let have_same_base =
            first.root == second.root || self.read(first.root).is_some_and(|root| self.read(second.root) == Some(root));
        if !have_same_base {
            return None;
        }
        let start = first.at.min(second.at);
        let bytes = (first.at + first.bytes).max(second.at + second.bytes) - start;
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return None;
        }
        let shifted = |test: &MaskedCompare, read: &LoadSource| {
            let shift = 8 * (read.at - start) as u32;
            (test.mask << shift, test.want << shift)
        };
        let ((mask, want), (other_mask, other_want)) = (shifted(&first_test, &first), shifted(&second_test, &second));
        // Contradictory tests are left as they are.
        if (want ^ other_want) & mask & other_mask != 0 {
            return None;
        }
        let ty = int_type(bytes as u32);
        let value = self.b.ins().load(ty, steady_flags(), first.root, i32::try_from(start).ok()?);
        let test = MaskedCompare { value, mask: mask | other_mask, want: want | other_want, equal };
        (self.test_cost(&test) <= 1).then(|| self.emit_test(test))
    }

    /// Emits a test.
    fn emit_test(&mut self, test: MaskedCompare) -> cl::Value {
        let ty = self.b.func.dfg.value_type(test.value);
        let mut value = test.value;
        if test.mask != low_bits_mask(ty.bits()) {
            let mask = self.b.ins().iconst(ty, test.mask as i64);
            value = self.b.ins().band(value, mask);
        }
        let want = self.b.ins().iconst(ty, test.want as i64);
        let order = if test.equal { IntCC::Equal } else { IntCC::NotEqual };
        let answer = self.b.ins().icmp(order, value, want);
        self.tests.insert(answer, test);
        answer
    }

    /// Returns the approximate number of instructions besides the comparison. A constant of more
    /// than 31 bits needs one of its own.
    fn test_cost(&self, test: &MaskedCompare) -> u32 {
        let width = self.width(test.value);
        let far = |number: u64| u32::from(width == 64 && number > i32::MAX as u64);
        let masked = test.mask != low_bits_mask(width);
        u32::from(masked) + far(test.want) + if masked { far(test.mask) } else { 0 }
    }

    /// Returns the equivalent test of the value's operand, if there is one. A test that always
    /// fails is not changed.
    fn peel_operand(&self, test: MaskedCompare) -> Option<MaskedCompare> {
        let MaskedCompare { mask: bits, want, .. } = test;
        let width = self.width(test.value);
        let width_mask = low_bits_mask(width);
        Some(match self.defining_inst(test.value)? {
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => {
                let narrow = low_bits_mask(self.width(arg));
                (want & !narrow == 0).then_some(MaskedCompare { value: arg, mask: bits & narrow, ..test })?
            }
            InstructionData::Unary { opcode: Opcode::Ireduce, arg } => MaskedCompare { value: arg, ..test },
            InstructionData::Unary { opcode: Opcode::Bnot, arg } => {
                MaskedCompare { value: arg, want: !want & bits, ..test }
            }
            InstructionData::Unary { opcode: Opcode::Bswap, arg } => {
                let swapped = |number: u64| number.swap_bytes() >> (64 - width);
                MaskedCompare { value: arg, mask: swapped(bits), want: swapped(want), ..test }
            }
            InstructionData::Binary { opcode, args: [arg, constant] } => {
                let constant = self.constant_of(constant)?;
                let shift = (constant % u64::from(width)) as u32;
                match opcode {
                    Opcode::Band => (want & !constant == 0).then_some(MaskedCompare {
                        value: arg,
                        mask: bits & constant,
                        ..test
                    })?,
                    Opcode::Bxor => MaskedCompare { value: arg, want: (want ^ constant) & bits, ..test },
                    Opcode::Ushr if want & !(width_mask >> shift) == 0 => {
                        MaskedCompare { value: arg, mask: (bits << shift) & width_mask, want: want << shift, ..test }
                    }
                    Opcode::Ishl if want & !(width_mask << shift) == 0 => {
                        MaskedCompare { value: arg, mask: bits >> shift, want: want >> shift, ..test }
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// Strips truncations and extensions from a value of which only the low `width` bits are used.
    pub fn strip_truncation(&self, mut value: cl::Value, width: u32) -> cl::Value {
        loop {
            value = match self.defining_inst(value) {
                Some(InstructionData::Binary { opcode: Opcode::Band, args: [arg, by] })
                    if self.constant_of(by).is_some_and(|by| by & low_bits_mask(width) == low_bits_mask(width)) =>
                {
                    arg
                }
                Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) if self.width(arg) >= width => {
                    match self.defining_inst(arg) {
                        Some(InstructionData::Unary { opcode: Opcode::Ireduce, arg }) => arg,
                        _ => return value,
                    }
                }
                _ => return value,
            };
        }
    }

    /// Returns the memory that a value is loaded from, if it is not written.
    fn read(&self, value: cl::Value) -> Option<LoadSource> {
        let InstructionData::Load { opcode: Opcode::Load, arg, flags, offset } = self.defining_inst(value)? else {
            return None;
        };
        let flags = self.b.func.dfg.mem_flags[flags];
        if !flags.readonly() {
            return None;
        }
        let resolved = |value| self.b.func.dfg.resolve_aliases(value);
        let (mut root, mut at) = (resolved(arg), i64::from(offset));
        while let Some(InstructionData::Binary { opcode: Opcode::Iadd, args: [base, more] }) = self.defining_inst(root)
        {
            let Some(more) = self.constant_of(more) else { break };
            (root, at) = (resolved(base), at.checked_add(more as i64)?);
        }
        Some(LoadSource { root, at, bytes: i64::from(self.width(value) / 8) })
    }
}
