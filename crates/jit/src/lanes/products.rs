//! Machine code for what is rarely computed for packets: quotients, and products without carries, of which CRCs are made.

use super::alloc::Kind;
use super::assemble::{Arg, EmitError, z};
use super::emit::Emitter;
use super::ir::{Id, LANES};
use iced_x86::Code as X86;

impl Emitter {
    /// By floating point: numbers below 2^32 and their quotients are exact there, and a quotient that is no whole number is not rounded up to one, as it is at least
    /// 2^-32 times itself away from it.
    pub(super) fn quotient(&mut self, id: Id, a: Id, b: Id) -> Result<(), EmitError> {
        let (a, b) = (self.vector(a)?, self.vector(b)?);
        let (made, by) = (self.claim(Kind::Vector)?, self.claim(Kind::Vector)?);
        self.asm.op(X86::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er, &[z(made), z(a)]);
        self.asm.op(X86::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er, &[z(by), z(b)]);
        self.asm.op(X86::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, &[z(made), z(made), z(by)]);
        self.asm.op(X86::EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae, &[z(made), z(made)]);
        self.release(&[by]);
        self.done(id, made);
        Ok(())
    }

    /// Products of even lanes and of odd ones, of 128 bits each, of which the halves are put side by side.
    pub(super) fn carryless(&mut self, id: Id, a: Id, by: u64, higher: bool) -> Result<(), EmitError> {
        let a = self.vector(a)?;
        let (even, odd) = (self.claim(Kind::Vector)?, self.claim(Kind::Vector)?);
        let by = Arg::Mem(self.asm.line([by; LANES]));
        for (lane, product) in [even, odd].into_iter().enumerate() {
            self.asm.op(X86::EVEX_Vpclmulqdq_zmm_zmm_zmmm512_imm8, &[z(product), z(a), by, Arg::Imm(lane as u8)]);
        }
        let halves = match higher {
            true => X86::EVEX_Vpunpckhqdq_zmm_k1z_zmm_zmmm512b64,
            false => X86::EVEX_Vpunpcklqdq_zmm_k1z_zmm_zmmm512b64,
        };
        self.asm.op(halves, &[z(even), z(even), z(odd)]);
        self.release(&[odd]);
        self.done(id, even);
        Ok(())
    }
}
