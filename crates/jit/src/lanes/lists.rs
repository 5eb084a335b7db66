//! Machine code for what is put into lists.

use super::alloc::Kind;
use super::assemble::{Arg, CONTEXT, EmitError, Lanes, Mem, k, lower, z};
use super::emit::{Emitter, NUMBERS};
use super::ir::{Id, LANES, Op};
use super::rows::Place;
use iced_x86::{Code as X86, Register};

/// How many packets the lists have: words that the lists' first bytes are so many of behind.
const LENGTH: Register = Register::RAX;
/// The same for lists of several words.
const WORDS_LENGTH: Register = Register::RCX;

impl Emitter {
    /// Jumped over if there is nobody. Values that are in no register are loaded for the moment, so that all are where they were, whether or not it is jumped.
    ///
    /// To bring the mask's lanes close together takes two of what putting lanes in an order takes: so the former is done once, with the lanes' numbers.
    pub(super) fn append(
        &mut self,
        count: i32,
        mask: Id,
        columns: &[(i32, Id)],
        keys: &[(i32, Vec<Id>)],
    ) -> Result<(), EmitError> {
        let mask = self.mask(mask)?;
        let most = keys.iter().map(|(_, words)| words.len()).max().unwrap_or(0);
        self.fix(match most {
            0 | 1 => 2,
            2 => 4,
            _ => 12,
        })?;
        let nobody = self.asm.label();
        self.asm.op(X86::VEX_Kortestb_kr_kr, &[k(mask), k(mask)]);
        self.asm.jump(X86::Je_rel32_64, nobody)?;
        let length = Arg::Mem(Mem::at(CONTEXT, count));
        self.asm.op(X86::Mov_r64_rm64, &[Arg::Reg(LENGTH), length]);
        let order = self.claim(Kind::Vector)?;
        let numbers = Arg::Mem(self.asm.line(NUMBERS));
        self.asm.op(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[z(order), numbers]);
        // In this form only: to memory it takes about a hundred cycles on some machines.
        self.on(Lanes::Zeroed(mask), X86::EVEX_Vpcompressq_zmmm512_k1z_zmm, &[z(order), z(order)]);
        for (list, value) in columns {
            self.append_words(order, *list, &[*value])?;
        }
        for (list, words) in keys {
            self.append_words(order, *list, words)?;
        }
        self.release(&[order]);
        let many = Arg::Reg(lower(WORDS_LENGTH));
        self.asm.op(X86::VEX_Kmovb_r32_kr, &[many, k(mask)]);
        self.asm.op(X86::Popcnt_r32_rm32, &[many, many]);
        self.asm.op(X86::Add_r64_rm64, &[Arg::Reg(LENGTH), Arg::Reg(WORDS_LENGTH)]);
        self.asm.op(X86::Mov_rm64_r64, &[length, Arg::Reg(LENGTH)]);
        self.asm.bind(nobody);
        self.open();
        self.retire();
        Ok(())
    }

    fn append_words(&mut self, order: u8, list: i32, words: &[Id]) -> Result<(), EmitError> {
        let store = X86::EVEX_Vmovdqu64_zmmm512_k1z_zmm;
        let behind = |index| Mem { base: CONTEXT, index, scale: 8, offset: list, broadcast: false };
        match words {
            [] => {}
            [word] => {
                let word = self.in_order(order, *word)?;
                self.asm.op(store, &[Arg::Mem(behind(LENGTH)), z(word)]);
                self.release(&[word]);
            }
            [first, second] => {
                let (first, second) = (self.in_order(order, *first)?, self.in_order(order, *second)?);
                let both = self.claim(Kind::Vector)?;
                let double = Arg::Mem(Mem { base: LENGTH, index: LENGTH, scale: 1, offset: 0, broadcast: false });
                self.asm.op(X86::Lea_r64_m, &[Arg::Reg(WORDS_LENGTH), double]);
                for (half, turns) in IN_TURNS.into_iter().enumerate() {
                    let turns = Arg::Mem(self.asm.line(turns));
                    self.asm.op(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[z(both), turns]);
                    let args = [z(both), z(first), z(second)];
                    self.asm.op(X86::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64, &args);
                    self.asm.op(store, &[Arg::Mem(behind(WORDS_LENGTH).plus(64 * half as i32)), z(both)]);
                }
                self.release(&[first, second, both]);
            }
            words => {
                let many = words.len() as i32;
                self.asm.with_number(X86::Mov_r32_imm32, lower(WORDS_LENGTH), many)?;
                self.asm.op(X86::Imul_r64_rm64, &[Arg::Reg(WORDS_LENGTH), Arg::Reg(LENGTH)]);
                for (part, four) in words.chunks(4).enumerate() {
                    let first = behind(WORDS_LENGTH).plus(32 * part as i32);
                    self.append_rows(order, Place::Stride(first, 8 * many), four)?;
                }
            }
        }
        Ok(())
    }

    /// Up to four words a packet of keys that have more than two.
    fn append_rows(&mut self, order: u8, place: Place, words: &[Id]) -> Result<(), EmitError> {
        let mut registers = [None; 4];
        for (register, word) in registers.iter_mut().zip(words) {
            *register = Some(self.in_order(order, *word)?);
        }
        let bytes = u32::MAX >> (8 * (4 - words.len()));
        self.write_half(place, bytes, registers)?;
        for register in registers.into_iter().flatten() {
            self.release(&[register]);
        }
        Ok(())
    }

    /// A claimed register with the value's lanes in this order.
    fn in_order(&mut self, order: u8, id: Id) -> Result<u8, EmitError> {
        let made = self.claim(Kind::Vector)?;
        let from = match (self.places.register(id), &self.ops[id.0 as usize]) {
            (Some(register), _) => z(register),
            // The same in all lanes.
            (None, Op::Const(_) | Op::ContextWord(_)) => {
                self.load(Kind::Vector, made, id)?;
                return Ok(made);
            }
            (None, Op::Column(list)) if self.renewable[id.0 as usize] => Arg::Mem(Mem::list(*list)),
            (None, _) => {
                self.load(Kind::Vector, made, id)?;
                z(made)
            }
        };
        self.asm.op(X86::EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64, &[z(made), z(order), from]);
        Ok(made)
    }

    pub(super) fn accumulate(&mut self, at: i32, mask: Id, value: Id) -> Result<(), EmitError> {
        let mask = self.mask(mask)?;
        let value = self.operand(value)?;
        let sum = self.claim(Kind::Vector)?;
        let place = Arg::Mem(Mem::at(CONTEXT, at));
        self.asm.op(X86::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[z(sum), place]);
        self.on(Lanes::Kept(mask), X86::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, &[z(sum), z(sum), value]);
        self.asm.op(X86::EVEX_Vmovdqu64_zmmm512_k1z_zmm, &[place, z(sum)]);
        self.release(&[sum]);
        self.retire();
        Ok(())
    }

    /// Asks for lines that the next packets, or those behind them, will want.
    pub(super) fn ahead(&mut self, list: i32, by: u8, offsets: &[i32]) {
        for packet in 0..LANES {
            let scratch = self.scratch();
            let pointer = Arg::Mem(Mem::list(list).plus(8 * (i32::from(by) + packet as i32)));
            self.asm.op(X86::Mov_r64_rm64, &[Arg::Reg(scratch), pointer]);
            for offset in offsets {
                self.asm.op(X86::Prefetcht0_m8, &[Arg::Mem(Mem::at(scratch, *offset))]);
            }
        }
        self.retire();
    }

    /// Jumped over if there is nobody, unless the mask is that of all packets: a place that nothing was ever written to may have no page yet, and stores of no lanes to
    /// such places take hundreds of cycles.
    pub(super) fn scatter(&mut self, list: i32, index: Id, mask: Id, value: Id) -> Result<(), EmitError> {
        let all = matches!(self.ops[mask.0 as usize], Op::Active);
        let mask = self.mask(mask)?;
        let value = self.vector(value)?;
        let place = match self.ops[index.0 as usize] {
            Op::Position => None,
            _ => Some(self.vector(index)?),
        };
        let nobody = self.asm.label();
        self.fix(0)?;
        if !all {
            self.asm.op(X86::VEX_Kortestb_kr_kr, &[k(mask), k(mask)]);
            self.asm.jump(X86::Je_rel32_64, nobody)?;
        }
        if let Some(place) = place {
            let copy = self.mask_copy(mask)?;
            let index = Register::ZMM0 + u32::from(place);
            let to = Arg::Mem(Mem { base: CONTEXT, index, scale: 8, offset: list, broadcast: false });
            self.on(Lanes::Kept(copy), X86::EVEX_Vpscatterqq_vm64z_k1_zmm, &[to, z(value)]);
            self.places.release(Kind::Mask, copy);
        } else {
            let store = X86::EVEX_Vmovdqu64_zmmm512_k1z_zmm;
            self.on(Lanes::Kept(mask), store, &[Arg::Mem(Mem::list(list)), z(value)]);
        }
        if !all {
            self.asm.bind(nobody);
        }
        self.open();
        self.retire();
        Ok(())
    }
}

/// Lanes of two vectors in turns: the first eight, and the last.
const IN_TURNS: [[u64; 8]; 2] = [[0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]];
