//! Machine code for operations that give vectors and masks.

use super::alloc::Kind;
use super::assemble::{AT, Arg, CONTEXT, COUNT, EmitError, Lanes, Mem, k, lower, y, z};
use super::emit::{Emitter, NUMBERS};
use super::fuse::{Binary, Condition, Masks, Shift, Under};
use super::ir::{Id, Op, ZERO_BYTE};
use super::logic;
use iced_x86::{Code as X86, Register};

impl Emitter {
    /// Ends the step, and gives what it makes and the lanes that the instruction is for.
    fn result_under(&mut self, id: Id, under: Under, mask: Option<u8>) -> Result<(u8, Lanes), EmitError> {
        match (under, mask) {
            (Under::Over(_, base), Some(mask)) => Ok((self.result_over(id, base)?, Lanes::Kept(mask))),
            (Under::Zeroed(_), Some(mask)) => Ok((self.result(id)?, Lanes::Zeroed(mask))),
            _ => Ok((self.result(id)?, Lanes::All)),
        }
    }

    fn mask_of(&mut self, under: Under) -> Result<Option<u8>, EmitError> {
        match under {
            Under::All => Ok(None),
            Under::Zeroed(mask) | Under::Over(mask, _) => self.mask(mask).map(Some),
        }
    }

    fn is_const(&self, id: Id) -> bool {
        matches!(self.ops[id.0 as usize], Op::Const(_))
    }

    /// Whether the second had better be the one that has to be in a register.
    fn swap(&self, [a, b]: [Id; 2]) -> bool {
        let (has_a, has_b) = (self.places.register(a).is_some(), self.places.register(b).is_some());
        !has_a && (has_b || self.is_const(a) && !self.is_const(b))
    }

    pub(super) fn binary(&mut self, id: Id, kind: Binary, both: [Id; 2], under: Under) -> Result<(), EmitError> {
        let (code, commutes) = match kind {
            Binary::Add => (X86::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, true),
            Binary::Sub => (X86::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64, false),
            Binary::Mul => (X86::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64, true),
            Binary::MulLow => (X86::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64, true),
            Binary::And => (X86::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64, true),
            Binary::AndNot => (X86::EVEX_Vpandnq_zmm_k1z_zmm_zmmm512b64, false),
            Binary::Or => (X86::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64, true),
            Binary::Xor => (X86::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, true),
            Binary::ShlBy => (X86::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, false),
            Binary::ShrBy => (X86::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64, false),
        };
        let [a, b] = if commutes && self.swap(both) { [both[1], both[0]] } else { both };
        let mask = self.mask_of(under)?;
        let a = self.vector(a)?;
        let b = self.operand(b)?;
        let (made, lanes) = self.result_under(id, under, mask)?;
        self.on(lanes, code, &[z(made), z(a), b]);
        Ok(())
    }

    /// The first operand's register becomes the result's: best one that nobody needs any more. The last may be in memory.
    pub(super) fn ternary(&mut self, id: Id, table: u8, leaves: [Id; 3], under: Under) -> Result<(), EmitError> {
        let cost = |place: &usize| {
            let leaf = leaves[*place];
            let has = self.places.register(leaf).is_some();
            match (has, self.dies(leaf)) {
                (true, true) => 0,
                (false, true) if !self.is_const(leaf) => 1,
                (true, false) => 2,
                _ => 3,
            }
        };
        let first = match under {
            Under::Over(_, base) => leaves.iter().position(|leaf| *leaf == base),
            _ => (0..3).min_by_key(cost),
        };
        let first = first.unwrap_or(0);
        let mut others: Vec<usize> = (0..3).filter(|place| *place != first).collect();
        others.sort_by_key(|place| {
            let leaf = leaves[*place];
            (self.places.register(leaf).is_none(), self.is_const(leaf))
        });
        let order = [first, others[0], others[1]];
        let table = logic::permuted(table, order);
        let [base, second, third] = order.map(|place| leaves[place]);
        let mask = self.mask_of(under)?;
        let second = self.vector(second)?;
        let third = self.operand(third)?;
        let made = self.result_over(id, base)?;
        let lanes = match (under, mask) {
            (Under::Over(..), Some(mask)) => Lanes::Kept(mask),
            (Under::Zeroed(_), Some(mask)) => Lanes::Zeroed(mask),
            _ => Lanes::All,
        };
        let code = X86::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
        self.on(lanes, code, &[z(made), z(second), third, Arg::Imm(table)]);
        Ok(())
    }

    pub(super) fn shift(&mut self, id: Id, kind: Shift, a: Id, by: u8, under: Under) -> Result<(), EmitError> {
        let code = match kind {
            Shift::Shl => X86::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8,
            Shift::Shr => X86::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8,
            Shift::Sar => X86::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8,
            Shift::Rotl64 => X86::EVEX_Vprolq_zmm_k1z_zmmm512b64_imm8,
            Shift::Rotl32 => X86::EVEX_Vprold_zmm_k1z_zmmm512b32_imm8,
        };
        let mask = self.mask_of(under)?;
        // A word in all lanes would be one of 32 bits.
        let a = if kind == Shift::Rotl32 { z(self.vector(a)?) } else { self.operand(a)? };
        let (made, lanes) = self.result_under(id, under, mask)?;
        self.on(lanes, code, &[z(made), a, Arg::Imm(by)]);
        Ok(())
    }

    pub(super) fn blend(&mut self, id: Id, mask: Id, a: Id, b: Id) -> Result<(), EmitError> {
        let mask = self.mask(mask)?;
        let b = self.vector(b)?;
        let a = self.operand(a)?;
        let made = self.result(id)?;
        self.on(Lanes::Kept(mask), X86::EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64, &[z(made), z(b), a]);
        Ok(())
    }

    pub(super) fn zeroed(&mut self, id: Id, mask: Id, a: Id) -> Result<(), EmitError> {
        let mask = self.mask(mask)?;
        let a = self.operand(a)?;
        let made = self.result(id)?;
        self.copied(Lanes::Zeroed(mask), made, a);
        Ok(())
    }

    /// A register with what an operand has in these lanes.
    fn copied(&mut self, lanes: Lanes, to: u8, from: Arg) {
        match from {
            Arg::Mem(mem) if mem.broadcast => {
                let word = Arg::Mem(Mem { broadcast: false, ..mem });
                self.on(lanes, X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[z(to), word]);
            }
            from => self.on(lanes, X86::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[z(to), from]),
        }
    }

    pub(super) fn bytes(&mut self, id: Id, a: Id, from: [u8; 8]) -> Result<(), EmitError> {
        // The instruction knows 16 bytes at a time.
        let upper = from.map(|byte| if byte == ZERO_BYTE { byte } else { byte + 8 });
        let (lower, upper) = (u64::from_le_bytes(from), u64::from_le_bytes(upper));
        let table = Arg::Mem(self.asm.line([lower, upper, lower, upper, lower, upper, lower, upper]));
        let a = self.vector(a)?;
        let made = self.result(id)?;
        self.asm.op(X86::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512, &[z(made), z(a), table]);
        Ok(())
    }

    pub(super) fn number(&mut self, id: Id, mask: Id) -> Result<(), EmitError> {
        let mask = self.mask(mask)?;
        let made = self.result(id)?;
        let one = Arg::Mem(self.asm.word(1));
        self.on(Lanes::Zeroed(mask), X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[z(made), one]);
        Ok(())
    }

    /// A copy of a mask, for instructions that leave nothing of theirs.
    pub(super) fn mask_copy(&mut self, mask: u8) -> Result<u8, EmitError> {
        let copy = self.claim(Kind::Mask)?;
        self.asm.op(X86::VEX_Kmovb_kr_km8, &[k(copy), k(mask)]);
        Ok(copy)
    }

    pub(super) fn gather(&mut self, id: Id, base: Id, offset: i32, bytes: u8, mask: Id) -> Result<(), EmitError> {
        let base = self.vector(base)?;
        let mask = self.mask(mask)?;
        let copy = self.mask_copy(mask)?;
        let made = self.claim(Kind::Vector)?;
        self.zero(made);
        let index = Register::ZMM0 + u32::from(base);
        let from = Arg::Mem(Mem { base: Register::None, index, scale: 1, offset, broadcast: false });
        match bytes {
            8 => self.on(Lanes::Kept(copy), X86::EVEX_Vpgatherqq_zmm_k1_vm64z, &[z(made), from]),
            4 => {
                self.on(Lanes::Kept(copy), X86::EVEX_Vpgatherqd_ymm_k1_vm64z, &[y(made), from]);
                self.asm.op(X86::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, &[z(made), y(made)]);
            }
            _ => return Err(EmitError::Form(id)),
        }
        self.places.release(Kind::Mask, copy);
        self.done(id, made);
        Ok(())
    }

    pub(super) fn pointed(&mut self, id: Id, pointer: i32, offset: i32, bytes: u8) -> Result<(), EmitError> {
        let scratch = self.scratch();
        self.asm.op(X86::Mov_r64_rm64, &[Arg::Reg(scratch), Arg::Mem(Mem::at(CONTEXT, pointer))]);
        let made = self.result(id)?;
        let from = Arg::Mem(Mem::at(scratch, offset));
        let code = match bytes {
            8 => {
                self.asm.op(X86::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[z(made), from]);
                return Ok(());
            }
            4 => X86::Mov_r32_rm32,
            2 => X86::Movzx_r32_rm16,
            1 => X86::Movzx_r32_rm8,
            _ => return Err(EmitError::Form(id)),
        };
        self.asm.op(code, &[Arg::Reg(lower(scratch)), from]);
        self.asm.op(X86::EVEX_Vpbroadcastq_zmm_k1z_r64, &[z(made), Arg::Reg(scratch)]);
        Ok(())
    }

    pub(super) fn active(&mut self, id: Id) -> Result<(), EmitError> {
        let (rest, scratch) = (self.claim(Kind::Vector)?, self.scratch());
        self.asm.op(X86::Mov_r64_rm64, &[Arg::Reg(scratch), Arg::Reg(COUNT)]);
        self.asm.op(X86::Sub_r64_rm64, &[Arg::Reg(scratch), Arg::Reg(AT)]);
        self.asm.op(X86::EVEX_Vpbroadcastq_zmm_k1z_r64, &[z(rest), Arg::Reg(scratch)]);
        let numbers = Arg::Mem(self.asm.line(NUMBERS));
        let made = self.result(id)?;
        self.asm.op(X86::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, &[k(made), z(rest), numbers, Arg::Imm(GREATER)]);
        self.release(&[rest]);
        Ok(())
    }

    pub(super) fn condition(&mut self, id: Id, condition: Condition, within: Option<Id>) -> Result<(), EmitError> {
        let within = within.map(|mask| self.mask(mask)).transpose()?;
        let (Condition::Compare(_, _, mut a, mut b) | Condition::Test(_, mut a, mut b)) = condition;
        if matches!(condition, Condition::Test(..)) && self.swap([a, b]) {
            (a, b) = (b, a);
        }
        let a = self.vector(a)?;
        let b = self.operand(b)?;
        let made = self.result(id)?;
        let lanes = within.map_or(Lanes::All, Lanes::Kept);
        let args = [k(made), z(a), b];
        match condition {
            Condition::Compare(number, signed, ..) => {
                let code = match signed {
                    true => X86::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8,
                    false => X86::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
                };
                self.on(lanes, code, &[args[0], args[1], args[2], Arg::Imm(number)]);
            }
            Condition::Test(true, ..) => self.on(lanes, X86::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64, &args),
            Condition::Test(false, ..) => self.on(lanes, X86::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64, &args),
        }
        Ok(())
    }

    pub(super) fn masks(&mut self, id: Id, kind: Masks, a: Id, b: Id) -> Result<(), EmitError> {
        let (a, b) = (self.mask(a)?, self.mask(b)?);
        let made = k(self.result(id)?);
        match kind {
            Masks::Both => self.asm.op(X86::VEX_Kandb_kr_kr_kr, &[made, k(a), k(b)]),
            Masks::Either => self.asm.op(X86::VEX_Korb_kr_kr_kr, &[made, k(a), k(b)]),
            Masks::OneOf => self.asm.op(X86::VEX_Kxorb_kr_kr_kr, &[made, k(a), k(b)]),
            // The instruction's first is the one that lanes may not be in.
            Masks::Without => self.asm.op(X86::VEX_Kandnb_kr_kr_kr, &[made, k(b), k(a)]),
        }
        Ok(())
    }
}

/// The comparison's number.
const GREATER: u8 = 6;
