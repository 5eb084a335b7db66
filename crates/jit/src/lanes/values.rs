//! Machine code for operations with vector and mask results.

use super::assemble::{AT, AsmOperand, CONTEXT, COUNT, Mem, VectorEmitError, WriteLanes, kreg, low_32_bits, ymm, zmm};
use super::emit::{Emitter, NUMBERS};
use super::ir::{OpId, VectorOp, ZERO_BYTE};
use super::logic;
use super::regalloc::RegClass;
use super::select::{LaneMask, MaskBinary, MaskCondition, VectorBinary, VectorShift};
use iced_x86::{Code as X86, Register};

impl Emitter {
    /// Ends the step; returns the result register and the lanes of the instruction.
    fn result_under(
        &mut self,
        id: OpId,
        under: LaneMask,
        mask: Option<u8>,
    ) -> Result<(u8, WriteLanes), VectorEmitError> {
        match (under, mask) {
            (LaneMask::Over(_, base), Some(mask)) => Ok((self.result_over(id, base)?, WriteLanes::Kept(mask))),
            (LaneMask::Zeroed(_), Some(mask)) => Ok((self.result_register(id)?, WriteLanes::Zeroed(mask))),
            _ => Ok((self.result_register(id)?, WriteLanes::All)),
        }
    }

    fn write_mask(&mut self, under: LaneMask) -> Result<Option<u8>, VectorEmitError> {
        match under {
            LaneMask::All => Ok(None),
            LaneMask::Zeroed(mask) | LaneMask::Over(mask, _) => self.mask_register(mask).map(Some),
        }
    }

    fn is_const(&self, id: OpId) -> bool {
        matches!(self.ops[id.0 as usize], VectorOp::Const(_))
    }

    /// Returns whether exchanging the operands saves a load, because the first must be in a
    /// register.
    fn should_swap(&self, [a, b]: [OpId; 2]) -> bool {
        let (has_a, has_b) = (self.places.register(a).is_some(), self.places.register(b).is_some());
        !has_a && (has_b || self.is_const(a) && !self.is_const(b))
    }

    /// Emits an operation with two vector operands. `lane_mask` says which lanes are computed and
    /// what the others contain.
    pub(super) fn emit_binary(
        &mut self,
        id: OpId,
        kind: VectorBinary,
        operands: [OpId; 2],
        lane_mask: LaneMask,
    ) -> Result<(), VectorEmitError> {
        let (code, commutes) = match kind {
            VectorBinary::Add => (X86::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, true),
            VectorBinary::Sub => (X86::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64, false),
            VectorBinary::Mul => (X86::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64, true),
            VectorBinary::MulLow => (X86::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64, true),
            VectorBinary::And => (X86::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64, true),
            VectorBinary::AndNot => (X86::EVEX_Vpandnq_zmm_k1z_zmm_zmmm512b64, false),
            VectorBinary::Or => (X86::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64, true),
            VectorBinary::Xor => (X86::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, true),
            VectorBinary::ShlBy => (X86::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, false),
            VectorBinary::ShrBy => (X86::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64, false),
        };
        let [a, b] = if commutes && self.should_swap(operands) { [operands[1], operands[0]] } else { operands };
        let mask = self.write_mask(lane_mask)?;
        let a = self.vector_register(a)?;
        let b = self.vector_operand(b)?;
        let (result, lanes) = self.result_under(id, lane_mask, mask)?;
        self.emit_on_lanes(lanes, code, &[zmm(result), zmm(a), b]);
        Ok(())
    }

    /// Emits a ternary logic operation. `truth_table` is the truth table for the operands in order.
    /// The first operand's register becomes the result's, so a dead value is preferred. The last
    /// may be in memory.
    pub(super) fn emit_ternary(
        &mut self,
        id: OpId,
        truth_table: u8,
        leaves: [OpId; 3],
        lane_mask: LaneMask,
    ) -> Result<(), VectorEmitError> {
        let cost = |index: &usize| {
            let leaf = leaves[*index];
            let is_in_register = self.places.register(leaf).is_some();
            match (is_in_register, self.is_last_use(leaf)) {
                (true, true) => 0,
                (false, true) if !self.is_const(leaf) => 1,
                (true, false) => 2,
                _ => 3,
            }
        };
        let first = match lane_mask {
            LaneMask::Over(_, base) => leaves.iter().position(|leaf| *leaf == base),
            _ => (0..3).min_by_key(cost),
        };
        let first = first.unwrap_or(0);
        let mut others: Vec<usize> = (0..3).filter(|index| *index != first).collect();
        others.sort_by_key(|index| {
            let leaf = leaves[*index];
            (self.places.register(leaf).is_none(), self.is_const(leaf))
        });
        let order = [first, others[0], others[1]];
        let truth_table = logic::permute_table(truth_table, order);
        let [base, second, third] = order.map(|index| leaves[index]);
        let mask = self.write_mask(lane_mask)?;
        let second = self.vector_register(second)?;
        let third = self.vector_operand(third)?;
        let result = self.result_over(id, base)?;
        let lanes = match (lane_mask, mask) {
            (LaneMask::Over(..), Some(mask)) => WriteLanes::Kept(mask),
            (LaneMask::Zeroed(_), Some(mask)) => WriteLanes::Zeroed(mask),
            _ => WriteLanes::All,
        };
        let code = X86::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
        self.emit_on_lanes(lanes, code, &[zmm(result), zmm(second), third, AsmOperand::Imm(truth_table)]);
        Ok(())
    }

    /// Emits a shift or rotation by the constant `by`, in bits.
    pub(super) fn emit_shift(
        &mut self,
        id: OpId,
        kind: VectorShift,
        a: OpId,
        by: u8,
        lane_mask: LaneMask,
    ) -> Result<(), VectorEmitError> {
        let code = match kind {
            VectorShift::Shl => X86::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
            VectorShift::Shr => X86::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8,
            VectorShift::Sar => X86::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8,
            VectorShift::Rotl64 => X86::EVEX_Vprolq_zmm_k1z_zmmm512b64_imm8,
            VectorShift::Rotl32 => X86::EVEX_Vprold_zmm_k1z_zmmm512b32_imm8,
        };
        let mask = self.write_mask(lane_mask)?;
        // The broadcast of this instruction would be of 32 bits.
        let a = if kind == VectorShift::Rotl32 { zmm(self.vector_register(a)?) } else { self.vector_operand(a)? };
        let (result, lanes) = self.result_under(id, lane_mask, mask)?;
        self.emit_on_lanes(lanes, code, &[zmm(result), a, AsmOperand::Imm(by)]);
        Ok(())
    }

    pub(super) fn emit_blend(&mut self, id: OpId, mask: OpId, a: OpId, b: OpId) -> Result<(), VectorEmitError> {
        let mask = self.mask_register(mask)?;
        let b = self.vector_register(b)?;
        let a = self.vector_operand(a)?;
        let made = self.result_register(id)?;
        self.emit_on_lanes(WriteLanes::Kept(mask), X86::EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64, &[zmm(made), zmm(b), a]);
        Ok(())
    }

    pub(super) fn emit_zeroed(&mut self, id: OpId, mask: OpId, a: OpId) -> Result<(), VectorEmitError> {
        let mask = self.mask_register(mask)?;
        let a = self.vector_operand(a)?;
        let made = self.result_register(id)?;
        self.copy_lanes(WriteLanes::Zeroed(mask), made, a);
        Ok(())
    }

    /// Copies an operand to a register in these lanes.
    fn copy_lanes(&mut self, lanes: WriteLanes, to: u8, from: AsmOperand) {
        match from {
            AsmOperand::Mem(mem) if mem.broadcast => {
                let word = AsmOperand::Mem(Mem { broadcast: false, ..mem });
                self.emit_on_lanes(lanes, X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[zmm(to), word]);
            }
            from => self.emit_on_lanes(lanes, X86::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[zmm(to), from]),
        }
    }

    pub(super) fn emit_bytes(&mut self, id: OpId, a: OpId, from: [u8; 8]) -> Result<(), VectorEmitError> {
        // The instruction permutes within 16 bytes.
        let upper = from.map(|byte| if byte == ZERO_BYTE { byte } else { byte + 8 });
        let (lower, upper) = (u64::from_le_bytes(from), u64::from_le_bytes(upper));
        let table = AsmOperand::Mem(self.asm.pool_line([lower, upper, lower, upper, lower, upper, lower, upper]));
        let a = self.vector_register(a)?;
        let made = self.result_register(id)?;
        self.asm.emit(X86::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512, &[zmm(made), zmm(a), table]);
        Ok(())
    }

    pub(super) fn emit_number(&mut self, id: OpId, mask: OpId) -> Result<(), VectorEmitError> {
        let mask = self.mask_register(mask)?;
        let made = self.result_register(id)?;
        let one = AsmOperand::Mem(self.asm.pool_word(1));
        self.emit_on_lanes(WriteLanes::Zeroed(mask), X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[zmm(made), one]);
        Ok(())
    }

    /// Copies a mask, for instructions that clear it.
    pub(super) fn mask_copy(&mut self, mask: u8) -> Result<u8, VectorEmitError> {
        let copy = self.claim_register(RegClass::Mask)?;
        self.asm.emit(X86::VEX_Kmovb_kr_km8, &[kreg(copy), kreg(mask)]);
        Ok(copy)
    }

    /// Emits a gather of 4 or 8 bytes from the address in each lane of the mask plus `offset`;
    /// other lanes become 0. The instruction clears its mask, so it gets a copy.
    pub(super) fn emit_gather(
        &mut self,
        id: OpId,
        base: OpId,
        offset: i32,
        bytes: u8,
        mask: OpId,
    ) -> Result<(), VectorEmitError> {
        let base = self.vector_register(base)?;
        let mask = self.mask_register(mask)?;
        let copy = self.mask_copy(mask)?;
        let result = self.claim_register(RegClass::Vector)?;
        self.zero_register(result);
        let index = Register::ZMM0 + u32::from(base);
        let memory = AsmOperand::Mem(Mem { base: Register::None, index, scale: 1, offset, broadcast: false });
        match bytes {
            8 => self.emit_on_lanes(WriteLanes::Kept(copy), X86::EVEX_Vpgatherqq_zmm_k1_vm64z, &[zmm(result), memory]),
            4 => {
                self.emit_on_lanes(WriteLanes::Kept(copy), X86::EVEX_Vpgatherqd_ymm_k1_vm64z, &[ymm(result), memory]);
                self.asm.emit(X86::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, &[zmm(result), ymm(result)]);
            }
            _ => return Err(VectorEmitError::Form(id)),
        }
        self.places.release(RegClass::Mask, copy);
        self.finish_step_with(id, result);
        Ok(())
    }

    /// Emits the broadcast of a number of 1, 2, 4 or 8 bytes at `offset` from the address that is
    /// stored at `pointer` in the context. Small numbers go through a general register,
    /// zero-extended.
    pub(super) fn emit_pointed(
        &mut self,
        id: OpId,
        pointer: i32,
        offset: i32,
        bytes: u8,
    ) -> Result<(), VectorEmitError> {
        let scratch = self.next_scratch();
        self.asm.emit(X86::Mov_r64_rm64, &[AsmOperand::Reg(scratch), AsmOperand::Mem(Mem::at(CONTEXT, pointer))]);
        let result = self.result_register(id)?;
        let memory = AsmOperand::Mem(Mem::at(scratch, offset));
        let code = match bytes {
            8 => {
                self.asm.emit(X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[zmm(result), memory]);
                return Ok(());
            }
            4 => X86::Mov_r32_rm32,
            2 => X86::Movzx_r32_rm16,
            1 => X86::Movzx_r32_rm8,
            _ => return Err(VectorEmitError::Form(id)),
        };
        self.asm.emit(code, &[AsmOperand::Reg(low_32_bits(scratch)), memory]);
        self.asm.emit(X86::EVEX_Vpbroadcastq_zmm_k1z_r64, &[zmm(result), AsmOperand::Reg(scratch)]);
        Ok(())
    }

    pub(super) fn emit_active(&mut self, id: OpId) -> Result<(), VectorEmitError> {
        let (rest, scratch) = (self.claim_register(RegClass::Vector)?, self.next_scratch());
        self.asm.emit(X86::Mov_r64_rm64, &[AsmOperand::Reg(scratch), AsmOperand::Reg(COUNT)]);
        self.asm.emit(X86::Sub_r64_rm64, &[AsmOperand::Reg(scratch), AsmOperand::Reg(AT)]);
        self.asm.emit(X86::EVEX_Vpbroadcastq_zmm_k1z_r64, &[zmm(rest), AsmOperand::Reg(scratch)]);
        let numbers = AsmOperand::Mem(self.asm.pool_line(NUMBERS));
        let made = self.result_register(id)?;
        self.asm.emit(
            X86::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
            &[kreg(made), zmm(rest), numbers, AsmOperand::Imm(GREATER)],
        );
        self.release_vectors(&[rest]);
        Ok(())
    }

    /// Emits a comparison or bit test of two vectors into a mask, only for lanes of `within` if
    /// given.
    pub(super) fn emit_condition(
        &mut self,
        id: OpId,
        condition: MaskCondition,
        within: Option<OpId>,
    ) -> Result<(), VectorEmitError> {
        let within = within.map(|mask| self.mask_register(mask)).transpose()?;
        let (MaskCondition::Compare(_, _, mut a, mut b) | MaskCondition::Test(_, mut a, mut b)) = condition;
        if matches!(condition, MaskCondition::Test(..)) && self.should_swap([a, b]) {
            (a, b) = (b, a);
        }
        let a = self.vector_register(a)?;
        let b = self.vector_operand(b)?;
        let result = self.result_register(id)?;
        let lanes = within.map_or(WriteLanes::All, WriteLanes::Kept);
        let args = [kreg(result), zmm(a), b];
        match condition {
            MaskCondition::Compare(number, signed, ..) => {
                let code = match signed {
                    true => X86::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8,
                    false => X86::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
                };
                self.emit_on_lanes(lanes, code, &[args[0], args[1], args[2], AsmOperand::Imm(number)]);
            }
            MaskCondition::Test(true, ..) => self.emit_on_lanes(lanes, X86::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64, &args),
            MaskCondition::Test(false, ..) => self.emit_on_lanes(lanes, X86::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64, &args),
        }
        Ok(())
    }

    pub(super) fn emit_masks(&mut self, id: OpId, kind: MaskBinary, a: OpId, b: OpId) -> Result<(), VectorEmitError> {
        let (a, b) = (self.mask_register(a)?, self.mask_register(b)?);
        let made = kreg(self.result_register(id)?);
        match kind {
            MaskBinary::Both => self.asm.emit(X86::VEX_Kandb_kr_kr_kr, &[made, kreg(a), kreg(b)]),
            MaskBinary::Either => self.asm.emit(X86::VEX_Korb_kr_kr_kr, &[made, kreg(a), kreg(b)]),
            MaskBinary::OneOf => self.asm.emit(X86::VEX_Kxorb_kr_kr_kr, &[made, kreg(a), kreg(b)]),
            // The instruction complements its first operand.
            MaskBinary::Without => self.asm.emit(X86::VEX_Kandnb_kr_kr_kr, &[made, kreg(b), kreg(a)]),
        }
        Ok(())
    }
}

/// Predicate number of the comparison.
const GREATER: u8 = 6;
