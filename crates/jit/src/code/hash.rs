//! Hashes: packing of the data, and algorithms computed inline or by calls.

use crate::analysis::frame_slots::FrameSlot;
use crate::code::annotations::InstRole;
use crate::code::call::{scalar_arg, value_args};
use crate::code::registers::{ValueRegs, trusted_flags};
use crate::code::stage::StageBuilder;
use crate::crc::{self, Crc};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{ExternArg, ExternFn, ExternId, ExternKind, HashAlgorithm, Type, Value};

impl StageBuilder<'_, '_> {
    /// Sets the result of a call, truncated to its width.
    pub(super) fn set_call_result(&mut self, results: &[Value], value: cl::Value) {
        let Some(result) = results.first() else { return };
        let ty = self.value_type(*result);
        let regs = self.cast(Type::Bit(64), ty, &[value]);
        self.set_value(*result, &regs);
    }

    /// Packs values without gaps, the first one's highest bit first, padded with 0 bits to whole
    /// words. Returns the words in order and the length in bytes.
    pub fn pack_values(&mut self, values: &[Value]) -> (ValueRegs, u32) {
        let (mut all, mut width): (ValueRegs, u32) = (ValueRegs::new(), 0);
        for value in values {
            let ty = self.value_type(*value);
            let regs: ValueRegs = self.value(*value).iter().map(|reg| self.as_number(ty, *reg)).collect();
            all = if width == 0 { regs } else { self.concat_regs(&all, width, &regs, ty.width()) };
            width += ty.width();
        }
        let bytes = width.div_ceil(8);
        if width == 0 {
            return (vec![self.iconst_u64(0)], 0);
        }
        let fill = width.next_multiple_of(64) - width;
        let zero = self.iconst_u64(0);
        let mut words = if fill == 0 { all } else { self.concat_regs(&all, width, &[zero], fill) };
        words.reverse();
        (words, bytes)
    }

    /// Stores packed words as bytes.
    pub fn store_packed(&mut self, base: cl::Value, words: &[cl::Value]) {
        for (index, word) in words.iter().enumerate() {
            let swapped = self.b.ins().bswap(*word);
            self.b.ins().store(trusted_flags(), swapped, base, index as i32 * 8);
        }
    }

    /// Computes the hash of values packed without gaps and, if `payload` is set, of the payload
    /// after them. Returns it in a register of 64 bits.
    fn emit_hash(&mut self, algorithm: HashAlgorithm, data: &[Value], payload: bool) -> cl::Value {
        if algorithm == HashAlgorithm::Csum16 && !payload {
            let zero = self.iconst_u64(0);
            let sum = self.add_words(zero, 0, data);
            return self.b.ins().bxor_imm_u(sum, 0xffff);
        }
        let (words, bytes) = self.pack_values(data);
        if let Some(crc) =
            crc::crc_params(algorithm).filter(|_| !payload && (crc::MIN_BYTES..=crc::MAX_BYTES).contains(&bytes))
        {
            return self.emit_crc(crc, &words, bytes);
        }
        let area = self.call_area();
        self.store_packed(area, &words);
        let algorithm_number = self.iconst_u64(crate::runtime::algorithm_number(algorithm));
        let bytes = self.iconst_u64(u64::from(bytes));
        let zero = self.iconst_u64(0);
        if payload {
            let cursor = self.slot_value(FrameSlot::Cursor);
            let frame = self.frame;
            return self
                .call_helper(self.c.helpers.hash_payload, &[frame, cursor, algorithm_number, area, bytes], true)
                .unwrap_or(zero);
        }
        self.call_helper(self.c.helpers.hash, &[algorithm_number, area, bytes], true).unwrap_or(zero)
    }

    /// Computes the CRC of packed words with `bytes` bytes. The first piece of eight bytes is the
    /// short one, because leading 0 bits do not change a remainder of 0.
    fn emit_crc(&mut self, crc: Crc, words: &[cl::Value], bytes: u32) -> cl::Value {
        let short = (bytes - 1) % 8 + 1;
        let (gap, used) = (64 - 8 * short, 8 * short);
        let words: ValueRegs =
            words[..bytes.div_ceil(8) as usize].iter().map(|word| self.b.ins().bswap(*word)).collect();
        let first = self.shl_imm(words[0], gap);
        let mut pieces = vec![self.b.ins().bxor_imm_u(first, (crc.initial << gap) as i64)];
        for pair in words.windows(2) {
            pieces.push(match gap {
                0 => pair[1],
                _ => {
                    let (low, high) = (self.shr_imm(pair[0], used), self.shl_imm(pair[1], gap));
                    self.b.ins().bor(low, high)
                }
            });
        }
        // The initial remainder is as wide as the first bytes of the data; the part that exceeds a
        // short first piece is in the second piece.
        if let (Some(second), 1..) = (pieces.get_mut(1), crc.initial.unbounded_shr(used)) {
            *second = self.b.ins().bxor_imm_u(*second, (crc.initial >> used) as i64);
        }
        let mut remainder = None;
        // The helper takes two words; a leading word of 0 does not change the CRC.
        if pieces.len() % 2 == 1 {
            pieces.insert(0, self.iconst_u64(0));
        }
        for pair in pieces.chunks(2) {
            let first = remainder.map_or(pair[0], |remainder| self.b.ins().bxor(pair[0], remainder));
            remainder = self.call_helper(crc.two_words, &[first, pair[1]], true);
            if let Some(call) = remainder.and_then(|value| self.b.func.dfg.value_def(value).inst()) {
                self.annotate(call, InstRole::Remainder { words: [first, pair[1]], crc });
            }
        }
        let remainder = remainder.unwrap_or(pieces[0]);
        self.b.ins().bxor_imm_u(remainder, crc.final_xor as i64)
    }

    /// Emits a call that hashes values: `hash`, or the computation or update of a checksum.
    /// `results` is empty for the verification of a checksum, which only sets the packet's checksum
    /// error.
    pub(super) fn hash_call(
        &mut self,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[ExternArg],
        results: &[Value],
    ) {
        use ExternFn::*;
        let algorithm = self.algorithm(object, args);
        let payload = matches!(func, VerifyChecksumWithPayload | UpdateChecksumWithPayload);
        match func {
            HashGet | Checksum16Get if args.len() == 1 => {
                let hash = self.emit_hash(algorithm, &value_args(args, 0), false);
                self.set_call_result(results, hash);
            }
            HashGet | Hash => {
                let first = usize::from(func == Hash);
                let hash = self.emit_hash(algorithm, &value_args(args, first + 1), false);
                self.hash_in_range(hash, scalar_arg(args, first), scalar_arg(args, first + 2), results);
            }
            UpdateChecksum | UpdateChecksumWithPayload => {
                let hash = self.emit_hash(algorithm, &value_args(args, 1), payload);
                let cond = self.value(scalar_arg(args, 0))[0];
                // 128 bits wide, like the interpreter's.
                let (old_type, old) = (self.value_type(scalar_arg(args, 2)), self.value(scalar_arg(args, 2)));
                let unsigned = if old_type == Type::Bool { old_type } else { Type::Bit(old_type.width()) };
                let old = self.cast(unsigned, Type::Bit(128), &old);
                let low = self.b.ins().select(cond, hash, old[0]);
                let zero = self.iconst_u64(0);
                let high = self.b.ins().select(cond, zero, old[1]);
                let Some(result) = results.first() else { return };
                let ty = self.value_type(*result);
                let regs = self.cast(Type::Bit(128), ty, &[low, high]);
                self.set_value(*result, &regs);
            }
            _ => {
                let hash = self.emit_hash(algorithm, &value_args(args, 1), payload);
                let checksum = scalar_arg(args, 2);
                let width = self.value_type(checksum).width();
                let hash = self.mask_to_width(hash, width.min(64));
                let regs = self.value(checksum);
                let hash = self.zero_extend_regs(&[hash], width);
                let ty = Type::Bit(width);
                let differs = self.binary(ir::BinaryOp::Ne, ty, &hash, &regs, ty)[0];
                let cond = self.value(scalar_arg(args, 0))[0];
                let wrong = self.b.ins().band(cond, differs);
                let wrong = self.b.ins().uextend(I64, wrong);
                let before = self.slot_value(FrameSlot::ChecksumError);
                let after = self.b.ins().bor(before, wrong);
                self.set_slot(FrameSlot::ChecksumError, after);
            }
        }
    }

    /// Computes base + hash mod max as 128-bit numbers; the remainder by 0 is 0.
    fn hash_in_range(&mut self, hash: cl::Value, base: Value, max: Value, results: &[Value]) {
        let wide = Type::Bit(128);
        let number = |code: &mut Self, value: Value| {
            let ty = code.value_type(value);
            let unsigned = if ty == Type::Bool { ty } else { Type::Bit(ty.width()) };
            let regs = code.value(value);
            code.cast(unsigned, wide, &regs)
        };
        let (base, max) = (number(self, base), number(self, max));
        let zero = self.iconst_u64(0);
        let exceeds_64_bits = self.b.ins().icmp(IntCC::NotEqual, max[1], zero);
        let is_low_zero = self.b.ins().icmp(IntCC::Equal, max[0], zero);
        let one = self.iconst_u64(1);
        let divisor = self.b.ins().select(is_low_zero, one, max[0]);
        let remainder = self.b.ins().urem(hash, divisor);
        let remainder = self.b.ins().select(is_low_zero, zero, remainder);
        // A limit above 64 bits exceeds any hash.
        let remainder = self.b.ins().select(exceeds_64_bits, hash, remainder);
        let sum = self.binary(ir::BinaryOp::Add, wide, &base, &[remainder, zero], wide);
        let Some(result) = results.first() else { return };
        let ty = self.value_type(*result);
        let regs = self.cast(wide, ty, &sum);
        self.set_value(*result, &regs);
    }

    fn algorithm(&self, object: Option<ExternId>, args: &[ExternArg]) -> HashAlgorithm {
        let named = args.iter().find_map(|arg| match arg {
            ExternArg::Str(name) => interp::host::hash_algorithm(name),
            _ => None,
        });
        let kind = object.and_then(|id| self.c.pipeline.externs.get(id)).map(|object| &object.kind);
        let own = match kind {
            Some(ExternKind::Hash { algorithm, .. }) => Some(*algorithm),
            _ => None,
        };
        named.or(own).unwrap_or(HashAlgorithm::Csum16)
    }
}
