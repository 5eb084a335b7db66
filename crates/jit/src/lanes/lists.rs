//! Machine code for stores to lists.

use super::assemble::{AsmOperand, CONTEXT, Mem, VectorEmitError, WriteLanes, kreg, low_32_bits, zmm};
use super::emit::{Emitter, NUMBERS};
use super::ir::{LANES, OpId, VectorOp};
use super::regalloc::RegClass;
use super::rows::RowAddress;
use iced_x86::{Code as X86, Register};

/// Register with the length of the lists, as index into lists of one word per packet.
const LENGTH: Register = Register::RAX;
/// Register with the index into lists of several words per packet.
const WORDS_LENGTH: Register = Register::RCX;

impl Emitter {
    /// Emits an append, skipped if the mask is empty. Values that are in no register are loaded
    /// temporarily, so that all values have the same locations whether or not the code is skipped.
    ///
    /// Compressing a vector costs two permutations. Therefore only the lane numbers are compressed,
    /// and each value is permuted by them.
    /// `count` is the offset of the lists' length; see [`VectorOp::Append`].
    pub(super) fn emit_append(
        &mut self,
        count: i32,
        mask: OpId,
        columns: &[(i32, OpId)],
        keys: &[(i32, Vec<OpId>)],
    ) -> Result<(), VectorEmitError> {
        let mask = self.mask_register(mask)?;
        let max_key_words = keys.iter().map(|(_, words)| words.len()).max().unwrap_or(0);
        // Vector registers that appending the longest keys takes, in addition to the order.
        self.begin_fixed(match max_key_words {
            0 | 1 => 2,
            2 => 4,
            _ => 12,
        })?;
        let skip = self.asm.label();
        self.asm.emit(X86::VEX_Kortestb_kr_kr, &[kreg(mask), kreg(mask)]);
        self.asm.emit_jump(X86::Je_rel32_64, skip)?;
        let length = AsmOperand::Mem(Mem::at(CONTEXT, count));
        self.asm.emit(X86::Mov_r64_rm64, &[AsmOperand::Reg(LENGTH), length]);
        let order = self.claim_register(RegClass::Vector)?;
        let numbers = AsmOperand::Mem(self.asm.pool_line(NUMBERS));
        self.asm.emit(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[zmm(order), numbers]);
        // Only the register form, because the memory form takes about a hundred cycles on some
        // machines.
        self.emit_on_lanes(WriteLanes::Zeroed(mask), X86::EVEX_Vpcompressq_zmmm512_k1z_zmm, &[zmm(order), zmm(order)]);
        for (list, value) in columns {
            self.append_words(order, *list, &[*value])?;
        }
        for (list, words) in keys {
            self.append_words(order, *list, words)?;
        }
        self.release_vectors(&[order]);
        let lane_count = AsmOperand::Reg(low_32_bits(WORDS_LENGTH));
        self.asm.emit(X86::VEX_Kmovb_r32_kr, &[lane_count, kreg(mask)]);
        self.asm.emit(X86::Popcnt_r32_rm32, &[lane_count, lane_count]);
        self.asm.emit(X86::Add_r64_rm64, &[AsmOperand::Reg(LENGTH), AsmOperand::Reg(WORDS_LENGTH)]);
        self.asm.emit(X86::Mov_rm64_r64, &[length, AsmOperand::Reg(LENGTH)]);
        self.asm.bind(skip);
        self.end_fixed();
        self.end_step();
        Ok(())
    }

    /// Emits stores of the selected lanes to the end of a list with `words` per packet. `order` is
    /// a vector with the numbers of the selected lanes first. Lanes after them are overwritten
    /// later.
    fn append_words(&mut self, order: u8, list: i32, words: &[OpId]) -> Result<(), VectorEmitError> {
        let store = X86::EVEX_Vmovdqu64_zmmm512_k1z_zmm;
        let list_end = |index| Mem { base: CONTEXT, index, scale: 8, offset: list, broadcast: false };
        match words {
            [] => {}
            [word] => {
                let word = self.permute_to_order(order, *word)?;
                self.asm.emit(store, &[AsmOperand::Mem(list_end(LENGTH)), zmm(word)]);
                self.release_vectors(&[word]);
            }
            [first, second] => {
                let (first, second) = (self.permute_to_order(order, *first)?, self.permute_to_order(order, *second)?);
                let interleaved = self.claim_register(RegClass::Vector)?;
                let double =
                    AsmOperand::Mem(Mem { base: LENGTH, index: LENGTH, scale: 1, offset: 0, broadcast: false });
                self.asm.emit(X86::Lea_r64_m, &[AsmOperand::Reg(WORDS_LENGTH), double]);
                for (half, interleaving) in IN_TURNS.into_iter().enumerate() {
                    let interleaving = AsmOperand::Mem(self.asm.pool_line(interleaving));
                    self.asm.emit(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[zmm(interleaved), interleaving]);
                    let args = [zmm(interleaved), zmm(first), zmm(second)];
                    self.asm.emit(X86::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64, &args);
                    self.asm.emit(
                        store,
                        &[AsmOperand::Mem(list_end(WORDS_LENGTH).plus(64 * half as i32)), zmm(interleaved)],
                    );
                }
                self.release_vectors(&[first, second, interleaved]);
            }
            words => {
                let word_count = words.len() as i32;
                self.asm.with_number(X86::Mov_r32_imm32, low_32_bits(WORDS_LENGTH), word_count)?;
                self.asm.emit(X86::Imul_r64_rm64, &[AsmOperand::Reg(WORDS_LENGTH), AsmOperand::Reg(LENGTH)]);
                for (part, four) in words.chunks(4).enumerate() {
                    let first = list_end(WORDS_LENGTH).plus(32 * part as i32);
                    self.append_rows(order, RowAddress::Stride(first, 8 * word_count), four)?;
                }
            }
        }
        Ok(())
    }

    /// Appends up to four words per packet of keys with more than two.
    fn append_rows(&mut self, order: u8, place: RowAddress, words: &[OpId]) -> Result<(), VectorEmitError> {
        let mut registers = [None; 4];
        for (register, word) in registers.iter_mut().zip(words) {
            *register = Some(self.permute_to_order(order, *word)?);
        }
        let bytes = u32::MAX >> (8 * (4 - words.len()));
        self.write_half(place, bytes, registers)?;
        for register in registers.into_iter().flatten() {
            self.release_vectors(&[register]);
        }
        Ok(())
    }

    /// Returns a claimed register with the value's lanes in this order.
    fn permute_to_order(&mut self, order: u8, id: OpId) -> Result<u8, VectorEmitError> {
        let made = self.claim_register(RegClass::Vector)?;
        let from = match (self.places.register(id), &self.ops[id.0 as usize]) {
            (Some(register), _) => zmm(register),
            // All lanes are equal.
            (None, VectorOp::Const(_) | VectorOp::ContextWord(_)) => {
                self.load_value(RegClass::Vector, made, id)?;
                return Ok(made);
            }
            (None, VectorOp::Column(list)) if self.rematerializable[id.0 as usize] => AsmOperand::Mem(Mem::list(*list)),
            (None, _) => {
                self.load_value(RegClass::Vector, made, id)?;
                zmm(made)
            }
        };
        self.asm.emit(X86::EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64, &[zmm(made), zmm(order), from]);
        Ok(made)
    }

    pub(super) fn emit_accumulate(&mut self, at: i32, mask: OpId, value: OpId) -> Result<(), VectorEmitError> {
        let mask = self.mask_register(mask)?;
        let value = self.vector_operand(value)?;
        let sum = self.claim_register(RegClass::Vector)?;
        let place = AsmOperand::Mem(Mem::at(CONTEXT, at));
        self.asm.emit(X86::EVEX_Vmovdqu64_zmm_k1z_zmmm512, &[zmm(sum), place]);
        self.emit_on_lanes(
            WriteLanes::Kept(mask),
            X86::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
            &[zmm(sum), zmm(sum), value],
        );
        self.asm.emit(X86::EVEX_Vmovdqu64_zmmm512_k1z_zmm, &[place, zmm(sum)]);
        self.release_vectors(&[sum]);
        self.end_step();
        Ok(())
    }

    /// Emits prefetches for the next packets.
    pub(super) fn emit_prefetch(&mut self, list: i32, by: u8, offsets: &[i32]) {
        for packet in 0..LANES {
            let scratch = self.next_scratch();
            let pointer = AsmOperand::Mem(Mem::list(list).plus(8 * (i32::from(by) + packet as i32)));
            self.asm.emit(X86::Mov_r64_rm64, &[AsmOperand::Reg(scratch), pointer]);
            for offset in offsets {
                self.asm.emit(X86::Prefetcht0_m8, &[AsmOperand::Mem(Mem::at(scratch, *offset))]);
            }
        }
        self.end_step();
    }

    /// Emits a scatter, skipped if the mask is empty. Not skipped for the mask of all packets: a
    /// page that was never written may not be mapped yet, and stores without lanes to such pages
    /// take hundreds of cycles.
    /// See [`VectorOp::Scatter`].
    pub(super) fn emit_scatter(
        &mut self,
        list: i32,
        index: OpId,
        mask: OpId,
        value: OpId,
    ) -> Result<(), VectorEmitError> {
        let is_for_all = matches!(self.ops[mask.0 as usize], VectorOp::Active);
        let mask = self.mask_register(mask)?;
        let value = self.vector_register(value)?;
        let index_register = match self.ops[index.0 as usize] {
            VectorOp::Position => None,
            _ => Some(self.vector_register(index)?),
        };
        let skip = self.asm.label();
        self.begin_fixed(0)?;
        if !is_for_all {
            self.asm.emit(X86::VEX_Kortestb_kr_kr, &[kreg(mask), kreg(mask)]);
            self.asm.emit_jump(X86::Je_rel32_64, skip)?;
        }
        if let Some(index_register) = index_register {
            let copy = self.mask_copy(mask)?;
            let index = Register::ZMM0 + u32::from(index_register);
            let memory = AsmOperand::Mem(Mem { base: CONTEXT, index, scale: 8, offset: list, broadcast: false });
            self.emit_on_lanes(WriteLanes::Kept(copy), X86::EVEX_Vpscatterqq_vm64z_k1_zmm, &[memory, zmm(value)]);
            self.places.release(RegClass::Mask, copy);
        } else {
            let store = X86::EVEX_Vmovdqu64_zmmm512_k1z_zmm;
            self.emit_on_lanes(WriteLanes::Kept(mask), store, &[AsmOperand::Mem(Mem::list(list)), zmm(value)]);
        }
        if !is_for_all {
            self.asm.bind(skip);
        }
        self.end_fixed();
        self.end_step();
        Ok(())
    }
}

/// Interleaves the lanes of two vectors: the first eight results, and the last.
const IN_TURNS: [[u64; 8]; 2] = [[0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]];
