//! Comparisons with constants, as near to the packet's bytes as they come.
//!
//! `hdr.ethernet.type == 0x800` compares two bytes of memory with `08 00`: what lies between the bytes and the number (their order, shifts, masks, widths) is
//! undone on the constant, when the code is made, and not on each packet. What is asked of neighbouring bytes, all of which must be so (`version == 4 && ihl == 5`),
//! is one comparison of all of them.

use crate::code::registers::{int, mask, steady};
use crate::code::stage::StageCode;
use crate::code::state::Test;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode};

/// A value that is read from memory that nobody writes to: bytes in the machine's order, so far behind an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Read {
    root: cl::Value,
    at: i64,
    bytes: i64,
}

impl StageCode<'_, '_> {
    fn width(&self, value: cl::Value) -> u32 {
        self.b.func.dfg.value_type(value).bits()
    }

    /// The instruction that makes a value.
    pub(super) fn made_by(&self, value: cl::Value) -> Option<InstructionData> {
        let dfg = &self.b.func.dfg;
        let made = dfg.value_def(dfg.resolve_aliases(value)).inst()?;
        Some(dfg.insts[made])
    }

    /// What a value is, if it is a constant.
    pub fn constant_of(&self, value: cl::Value) -> Option<u64> {
        match self.made_by(value)? {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
                Some(imm.bits() as u64 & mask(self.width(value)))
            }
            _ => None,
        }
    }

    /// Whether a number is that constant; with `equal` false whether it is not.
    pub fn is_constant(&mut self, value: cl::Value, constant: u64, equal: bool) -> cl::Value {
        let mask = mask(self.width(value));
        if constant & !mask != 0 {
            return self.truth(!equal);
        }
        if let Some(value) = self.constant_of(value) {
            return self.truth((value == constant) == equal);
        }
        let test = Test { value, mask, want: constant, equal };
        let chain: Vec<Test> = std::iter::successors(Some(test), |test| self.peeled(*test)).collect();
        // Whoever compares with one of them needs the instructions between it and the last.
        let cost = |(place, test): &(usize, &Test)| (chain.len() - place) as u32 + self.cost(test);
        let best = chain.iter().enumerate().rev().min_by_key(cost).map_or(test, |(_, test)| *test);
        self.tested(best)
    }

    /// The opposite of a comparison's answer, if it is one.
    pub fn untested(&mut self, answer: cl::Value) -> Option<cl::Value> {
        if let Some(test) = self.test_of(answer) {
            return Some(self.tested(Test { equal: !test.equal, ..test }));
        }
        match self.made_by(answer)? {
            InstructionData::IntCompare { cond, args: [a, b], .. } => Some(self.b.ins().icmp(cond.complement(), a, b)),
            _ => None,
        }
    }

    fn test_of(&self, answer: cl::Value) -> Option<Test> {
        self.tests.get(&self.b.func.dfg.resolve_aliases(answer)).copied()
    }

    /// Two tests as one, if their bytes stand side by side: both must hold (`equal`), or one of them must fail.
    pub fn both_tested(&mut self, one: cl::Value, other: cl::Value, equal: bool) -> Option<cl::Value> {
        let test = |answer| self.test_of(answer).filter(|test| test.equal == equal);
        let (one, other) = (test(one)?, test(other)?);
        let (first, second) = (self.read(one.value)?, self.read(other.value)?);
        let same =
            first.root == second.root || self.read(first.root).is_some_and(|root| self.read(second.root) == Some(root));
        if !same {
            return None;
        }
        let at = first.at.min(second.at);
        let bytes = (first.at + first.bytes).max(second.at + second.bytes) - at;
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return None;
        }
        let moved = |test: &Test, read: &Read| {
            let by = 8 * (read.at - at) as u32;
            (test.mask << by, test.want << by)
        };
        let ((mask, want), (other_mask, other_want)) = (moved(&one, &first), moved(&other, &second));
        if (want ^ other_want) & mask & other_mask != 0 {
            return None;
        }
        let ty = int(bytes as u32);
        let value = self.b.ins().load(ty, steady(), first.root, i32::try_from(at).ok()?);
        let test = Test { value, mask: mask | other_mask, want: want | other_want, equal };
        (self.cost(&test) <= 1).then(|| self.tested(test))
    }

    /// Makes a test.
    fn tested(&mut self, test: Test) -> cl::Value {
        let ty = self.b.func.dfg.value_type(test.value);
        let mut value = test.value;
        if test.mask != mask(ty.bits()) {
            let mask = self.b.ins().iconst(ty, test.mask as i64);
            value = self.b.ins().band(value, mask);
        }
        let want = self.b.ins().iconst(ty, test.want as i64);
        let order = if test.equal { IntCC::Equal } else { IntCC::NotEqual };
        let answer = self.b.ins().icmp(order, value, want);
        self.tests.insert(answer, test);
        answer
    }

    /// How many instructions more than a comparison it takes, about. A constant of more than 31 bits takes one of its own.
    fn cost(&self, test: &Test) -> u32 {
        let width = self.width(test.value);
        let far = |number: u64| u32::from(width == 64 && number > i32::MAX as u64);
        let masked = test.mask != mask(width);
        u32::from(masked) + far(test.want) + if masked { far(test.mask) } else { 0 }
    }

    /// The same test of what the value is made from, if there is one. A test that always fails is left as it is.
    fn peeled(&self, test: Test) -> Option<Test> {
        let Test { mask: bits, want, .. } = test;
        let width = self.width(test.value);
        let all = mask(width);
        Some(match self.made_by(test.value)? {
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => {
                let narrow = mask(self.width(arg));
                (want & !narrow == 0).then_some(Test { value: arg, mask: bits & narrow, ..test })?
            }
            InstructionData::Unary { opcode: Opcode::Ireduce, arg } => Test { value: arg, ..test },
            InstructionData::Unary { opcode: Opcode::Bnot, arg } => Test { value: arg, want: !want & bits, ..test },
            InstructionData::Unary { opcode: Opcode::Bswap, arg } => {
                let swapped = |number: u64| number.swap_bytes() >> (64 - width);
                Test { value: arg, mask: swapped(bits), want: swapped(want), ..test }
            }
            InstructionData::Binary { opcode, args: [arg, by] } => {
                let by = self.constant_of(by)?;
                let shift = (by % u64::from(width)) as u32;
                match opcode {
                    Opcode::Band => (want & !by == 0).then_some(Test { value: arg, mask: bits & by, ..test })?,
                    Opcode::Bxor => Test { value: arg, want: (want ^ by) & bits, ..test },
                    Opcode::Ushr if want & !(all >> shift) == 0 => {
                        Test { value: arg, mask: (bits << shift) & all, want: want << shift, ..test }
                    }
                    Opcode::Ishl if want & !(all << shift) == 0 => {
                        Test { value: arg, mask: bits >> shift, want: want >> shift, ..test }
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// A value of which only the low bits are asked for: without what would cut it to them, or to more.
    pub fn uncut(&self, mut value: cl::Value, width: u32) -> cl::Value {
        loop {
            value = match self.made_by(value) {
                Some(InstructionData::Binary { opcode: Opcode::Band, args: [arg, by] })
                    if self.constant_of(by).is_some_and(|by| by & mask(width) == mask(width)) =>
                {
                    arg
                }
                Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) if self.width(arg) >= width => {
                    match self.made_by(arg) {
                        Some(InstructionData::Unary { opcode: Opcode::Ireduce, arg }) => arg,
                        _ => return value,
                    }
                }
                _ => return value,
            };
        }
    }

    /// Where a value is read from, if nobody writes there.
    fn read(&self, value: cl::Value) -> Option<Read> {
        let InstructionData::Load { opcode: Opcode::Load, arg, flags, offset } = self.made_by(value)? else {
            return None;
        };
        let flags = self.b.func.dfg.mem_flags[flags];
        if !flags.readonly() {
            return None;
        }
        let resolved = |value| self.b.func.dfg.resolve_aliases(value);
        let (mut root, mut at) = (resolved(arg), i64::from(offset));
        while let Some(InstructionData::Binary { opcode: Opcode::Iadd, args: [base, more] }) = self.made_by(root) {
            let Some(more) = self.constant_of(more) else { break };
            (root, at) = (resolved(base), at.checked_add(more as i64)?);
        }
        Some(Read { root, at, bytes: i64::from(self.width(value) / 8) })
    }
}
