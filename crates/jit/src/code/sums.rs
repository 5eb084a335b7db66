//! One's complement sums of 16-bit words: the Internet checksum (RFC 1071), of values and of memory.

use crate::analysis::cells::Cell;
use crate::code::call::{scalar, values};
use crate::code::registers::mask;
use crate::code::stage::StageCode;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode};
use ir::{Arg, ExternFn, ExternId, ExternKind, Value};

impl StageCode<'_, '_> {
    /// The sum of the 16-bit words of values packed without gaps, added to `sum`, which is at most `most`; folded.
    pub(super) fn add_words(&mut self, mut sum: cl::Value, mut most: u64, values: &[Value]) -> cl::Value {
        if let Some((words, greatest)) = self.words_as_in_packets(values) {
            let words = self.folded(words, greatest);
            let words = self.swapped(words, 2);
            if most == 0 {
                return words;
            }
            let sum = self.b.ins().iadd(sum, words);
            return self.folded(sum, most + 0xffff);
        }
        let mut end = 0;
        for value in values {
            let ty = self.value_type(*value);
            let width = ty.width();
            end += width;
            for (index, reg) in self.value(*value).into_iter().enumerate() {
                let reg = self.as_number(ty, reg);
                let own = width.saturating_sub(index as u32 * 64).min(64);
                // 2^16 counts as 1, so a number may stand at any multiple of 16 bits: only where it ends within its word matters.
                let end = end - index as u32 * 64;
                let shift = (16 - end % 16) % 16;
                let parts = match own {
                    0 => vec![],
                    1..=32 => vec![reg],
                    _ => vec![self.cut(reg, 32), self.right(reg, 32)],
                };
                for part in parts {
                    let part = self.left(part, shift);
                    sum = self.b.ins().iadd(sum, part);
                    most += (mask(own.min(32))) << shift;
                }
            }
        }
        self.folded(sum, most)
    }

    /// A number of 2 or 4 bytes in the other order.
    fn swapped(&mut self, value: cl::Value, bytes: u32) -> cl::Value {
        let narrow = self.narrowed(value, bytes);
        let swapped = self.b.ins().bswap(narrow);
        self.b.ins().uextend(I64, swapped)
    }

    /// The complement of a folded sum; of one that is swapped, the other way round, so that a store need not swap it again.
    fn complement(&mut self, sum: cl::Value) -> cl::Value {
        let swapped = match self.made_by(sum) {
            Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) => match self.made_by(arg) {
                Some(InstructionData::Unary { opcode: Opcode::Bswap, arg }) => Some(arg),
                _ => None,
            },
            _ => None,
        };
        match swapped {
            Some(half) => {
                let half = self.b.ins().bnot(half);
                let half = self.b.ins().bswap(half);
                self.b.ins().uextend(I64, half)
            }
            None => self.b.ins().bxor_imm_u(sum, 0xffff),
        }
    }

    /// Folds a sum of at most `most` to 16 bits with end-around carry: a number plus itself with its halves exchanged has, in the upper half, the sum of
    /// both with the carry out of the lower one.
    fn folded(&mut self, mut sum: cl::Value, most: u64) -> cl::Value {
        if most <= 0xffff {
            return sum;
        }
        if most > u64::from(u32::MAX) {
            let exchanged = self.b.ins().rotl_imm_u(sum, 32);
            let both = self.b.ins().iadd(sum, exchanged);
            sum = self.right(both, 32);
        }
        let sum = self.b.ins().ireduce(I32, sum);
        let exchanged = self.b.ins().rotl_imm_u(sum, 16);
        let both = self.b.ins().iadd(sum, exchanged);
        let upper = self.b.ins().ushr_imm_u(both, 16);
        self.b.ins().uextend(I64, upper)
    }

    /// At the entry of a body all sums are 0.
    pub fn clear_sums(&mut self) {
        let zero = self.number(0);
        for (id, object) in self.c.pipeline.externs.iter() {
            if matches!(object.kind, ExternKind::InternetChecksum) {
                self.set_cell(Cell::Sum(id), zero);
            }
        }
        if self.c.keeps_packet_state {
            let (context, frame) = (self.context, self.frame);
            self.call_helper(self.c.helpers.begin_block, &[context, frame], false);
        }
    }

    /// The greatest that a sum can be before the instruction: nothing, if it is certainly 0 before the block and no instruction of it has changed it.
    fn most_sum(&self, object: ExternId) -> u64 {
        let index = self.c.plan.cells.of(Cell::Sum(object));
        let fresh = self.c.plan.constants.before(self.node, index) == Some(0) && !self.summed.contains(&object);
        if fresh { 0 } else { 0xffff }
    }

    pub(super) fn internet_checksum(
        &mut self,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[Arg],
        results: &[Value],
    ) {
        use ExternFn::*;
        let Some(object) = object else { return };
        let cell = Cell::Sum(object);
        let zero = self.number(0);
        let most = self.most_sum(object);
        if !matches!(func, InternetChecksumGet | InternetChecksumGetState) {
            self.summed.insert(object);
        }
        match func {
            InternetChecksumClear => self.set_cell(cell, zero),
            InternetChecksumSetState => {
                let state = self.low(scalar(args, 0));
                let state = self.cut(state, 16);
                self.set_cell(cell, state);
            }
            InternetChecksumAdd => {
                let sum = self.cell(cell);
                let sum = self.add_words(sum, most, &values(args, 0));
                self.set_cell(cell, sum);
            }
            InternetChecksumSubtract => {
                let other = self.add_words(zero, 0, &values(args, 0));
                let other = self.b.ins().bxor_imm_u(other, 0xffff);
                let sum = self.cell(cell);
                let sum = self.b.ins().iadd(sum, other);
                let sum = self.folded(sum, 0x1_fffe);
                self.set_cell(cell, sum);
            }
            _ => {
                let mut sum = self.cell(cell);
                if func == InternetChecksumGet {
                    sum = self.complement(sum);
                }
                self.give(results, sum);
            }
        }
    }
}
