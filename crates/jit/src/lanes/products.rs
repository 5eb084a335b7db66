//! Machine code for rare computations: quotients, and the carry-less products of CRCs.

use super::assemble::{AsmOperand, VectorEmitError, zmm};
use super::emit::Emitter;
use super::ir::{LANES, OpId};
use super::regalloc::RegClass;
use iced_x86::Code as X86;

impl Emitter {
    /// Emits a quotient by floating point. Numbers below 2^32 are exact, and the quotient is never
    /// rounded up to an integer, because its relative distance to the next one is at least 2^-32.
    pub(super) fn emit_quotient(&mut self, id: OpId, a: OpId, b: OpId) -> Result<(), VectorEmitError> {
        let (a, b) = (self.vector_register(a)?, self.vector_register(b)?);
        let (made, by) = (self.claim_register(RegClass::Vector)?, self.claim_register(RegClass::Vector)?);
        self.asm.emit(X86::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er, &[zmm(made), zmm(a)]);
        self.asm.emit(X86::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er, &[zmm(by), zmm(b)]);
        self.asm.emit(X86::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, &[zmm(made), zmm(made), zmm(by)]);
        self.asm.emit(X86::EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae, &[zmm(made), zmm(made)]);
        self.release_vectors(&[by]);
        self.finish_step_with(id, made);
        Ok(())
    }

    /// Emits 128-bit products of even and of odd lanes, and interleaves their halves.
    pub(super) fn emit_carryless(&mut self, id: OpId, a: OpId, by: u64, higher: bool) -> Result<(), VectorEmitError> {
        let a = self.vector_register(a)?;
        let (even, odd) = (self.claim_register(RegClass::Vector)?, self.claim_register(RegClass::Vector)?);
        let by = AsmOperand::Mem(self.asm.pool_line([by; LANES]));
        for (lane, product) in [even, odd].into_iter().enumerate() {
            self.asm.emit(
                X86::EVEX_Vpclmulqdq_zmm_zmm_zmmm512_imm8,
                &[zmm(product), zmm(a), by, AsmOperand::Imm(lane as u8)],
            );
        }
        let halves = match higher {
            true => X86::EVEX_Vpunpckhqdq_zmm_k1z_zmm_zmmm512b64,
            false => X86::EVEX_Vpunpcklqdq_zmm_k1z_zmm_zmmm512b64,
        };
        self.asm.emit(halves, &[zmm(even), zmm(even), zmm(odd)]);
        self.release_vectors(&[odd]);
        self.finish_step_with(id, even);
        Ok(())
    }
}
