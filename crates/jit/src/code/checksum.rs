//! One's complement sums of 16-bit words: the Internet checksum (RFC 1071), of values and of
//! memory.

use crate::analysis::frame_slots::FrameSlot;
use crate::code::call::{scalar_arg, value_args};
use crate::code::registers::low_bits_mask;
use crate::code::stage::StageBuilder;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode};
use ir::{ExternArg, ExternFn, ExternId, ExternKind, Value};

impl StageBuilder<'_, '_> {
    /// Adds the 16-bit words of values packed without gaps to `sum`, which is at most `max_sum`;
    /// folds the result to 16 bits. `max_sum` bounds the sum, so that folding takes no more steps
    /// than needed.
    pub(super) fn add_words(&mut self, mut sum: cl::Value, mut max_sum: u64, values: &[Value]) -> cl::Value {
        if let Some((words, max_words)) = self.sum_in_packet_order(values) {
            let words = self.fold_sum(words, max_words);
            let words = self.swap_bytes(words, 2);
            if max_sum == 0 {
                return words;
            }
            let sum = self.b.ins().iadd(sum, words);
            return self.fold_sum(sum, max_sum + 0xffff);
        }
        let mut end_bits = 0;
        for value in values {
            let ty = self.value_type(*value);
            let width = ty.width();
            end_bits += width;
            for (index, reg) in self.value(*value).into_iter().enumerate() {
                let reg = self.as_number(ty, reg);
                let reg_bits = width.saturating_sub(index as u32 * 64).min(64);
                // 2^16 counts as 1, so a number may be at any multiple of 16 bits; only its end
                // within a word matters.
                let end_bits = end_bits - index as u32 * 64;
                let shift = (16 - end_bits % 16) % 16;
                let parts = match reg_bits {
                    0 => vec![],
                    1..=32 => vec![reg],
                    _ => vec![self.mask_to_width(reg, 32), self.shr_imm(reg, 32)],
                };
                for part in parts {
                    let part = self.shl_imm(part, shift);
                    sum = self.b.ins().iadd(sum, part);
                    max_sum += (low_bits_mask(reg_bits.min(32))) << shift;
                }
            }
        }
        self.fold_sum(sum, max_sum)
    }

    /// Swaps the bytes of a number of 2 or 4 bytes.
    fn swap_bytes(&mut self, value: cl::Value, bytes: u32) -> cl::Value {
        let narrow = self.truncate_reg(value, bytes);
        let swapped = self.b.ins().bswap(narrow);
        self.b.ins().uextend(I64, swapped)
    }

    /// Returns the complement of a folded sum. A byte-swapped sum is complemented before the swap,
    /// so that a store need not swap it again.
    fn complement(&mut self, sum: cl::Value) -> cl::Value {
        let swapped = match self.defining_inst(sum) {
            Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) => match self.defining_inst(arg) {
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

    /// Folds a sum of at most `most` to 16 bits with end-around carry. Adding a number to itself
    /// with its halves exchanged leaves in the upper half the sum of both, including the carry from
    /// the lower half.
    fn fold_sum(&mut self, mut sum: cl::Value, most: u64) -> cl::Value {
        if most <= 0xffff {
            return sum;
        }
        if most > u64::from(u32::MAX) {
            let exchanged = self.b.ins().rotl_imm_u(sum, 32);
            let both = self.b.ins().iadd(sum, exchanged);
            sum = self.shr_imm(both, 32);
        }
        let sum = self.b.ins().ireduce(I32, sum);
        let exchanged = self.b.ins().rotl_imm_u(sum, 16);
        let both = self.b.ins().iadd(sum, exchanged);
        let upper = self.b.ins().ushr_imm_u(both, 16);
        self.b.ins().uextend(I64, upper)
    }

    /// Resets all sums to 0 at the entry of a body.
    pub fn reset_checksums(&mut self) {
        let zero = self.iconst_u64(0);
        for (id, object) in self.c.pipeline.externs.iter() {
            if matches!(object.kind, ExternKind::InternetChecksum) {
                self.set_slot(FrameSlot::Sum(id), zero);
            }
        }
        if self.c.keeps_packet_state {
            let (context, frame) = (self.context, self.frame);
            self.call_helper(self.c.helpers.begin_block, &[context, frame], false);
        }
    }

    /// Returns the maximum of a sum before the instruction: 0 if it is known to be 0 before the
    /// block and no instruction of the block has changed it.
    fn max_checksum(&self, object: ExternId) -> u64 {
        let index = self.c.plan.slots.index_of(FrameSlot::Sum(object));
        let fresh =
            self.c.plan.constants.before(self.node, index) == Some(0) && !self.changed_checksums.contains(&object);
        if fresh { 0 } else { 0xffff }
    }

    /// Emits a method of an `InternetChecksum` object, which keeps a folded sum in a frame slot.
    /// `get` returns the complement of the sum, `getState` the sum.
    pub(super) fn internet_checksum(
        &mut self,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[ExternArg],
        results: &[Value],
    ) {
        use ExternFn::*;
        let Some(object) = object else { return };
        let slot = FrameSlot::Sum(object);
        let zero = self.iconst_u64(0);
        let max_sum = self.max_checksum(object);
        if !matches!(func, InternetChecksumGet | InternetChecksumGetState) {
            self.changed_checksums.insert(object);
        }
        match func {
            InternetChecksumClear => self.set_slot(slot, zero),
            InternetChecksumSetState => {
                let state = self.low_register(scalar_arg(args, 0));
                let state = self.mask_to_width(state, 16);
                self.set_slot(slot, state);
            }
            InternetChecksumAdd => {
                let sum = self.slot_value(slot);
                let sum = self.add_words(sum, max_sum, &value_args(args, 0));
                self.set_slot(slot, sum);
            }
            InternetChecksumSubtract => {
                let other = self.add_words(zero, 0, &value_args(args, 0));
                // Subtraction in one's complement adds the complement.
                let other = self.b.ins().bxor_imm_u(other, 0xffff);
                let sum = self.slot_value(slot);
                let sum = self.b.ins().iadd(sum, other);
                let sum = self.fold_sum(sum, 0x1_fffe);
                self.set_slot(slot, sum);
            }
            _ => {
                let mut sum = self.slot_value(slot);
                if func == InternetChecksumGet {
                    sum = self.complement(sum);
                }
                self.set_call_result(results, sum);
            }
        }
    }
}
