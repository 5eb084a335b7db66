//! Transposition between rows of memory, one per packet, and vectors of their words, 32 bytes at a
//! time. Eight rows of 32 bytes take four loads, four loads with insertion, and eight shuffles.
//! Rows of 64 bytes are transposed in two halves, because accesses of 64 bytes nearly always cross
//! cache lines.

use super::assemble::{AsmOperand, Mem, VectorEmitError, WriteLanes, kreg, xmm, ymm, zmm};
use super::emit::Emitter;
use super::ir::{LANES, OpId, VectorOp, WORDS};
use super::regalloc::RegClass;
use iced_x86::Code as X86;

/// Addresses of eight rows.
#[derive(Clone, Copy)]
pub(super) enum RowAddress {
    /// An offset from addresses in a list.
    Pointers(Mem, i32),
    /// A first row and a stride in bytes.
    Stride(Mem, i32),
}

/// Words of half a line.
const HALF: usize = WORDS / 2;
/// Half a line in bytes.
const HALF_BYTES: usize = 8 * HALF;
/// A quarter of a line in bytes.
const QUARTER_BYTES: usize = HALF_BYTES / 2;

/// Rows that are loaded into one register, so that two shuffles restore their order.
const PAIRS: [[usize; 2]; 4] = [[0, 2], [1, 3], [4, 6], [5, 7]];

/// Shuffle control: the even quarters of two registers.
const EVEN: u8 = 0x88;
/// Shuffle control: the odd quarters of two registers.
const ODD: u8 = 0xdd;

/// Loaded part of half a line.
struct RowPart {
    /// Index of the half.
    half: usize,
    /// Offset in the row in bytes.
    from: i32,
    /// Whether only 16 bytes are loaded instead of 32.
    quarter: bool,
    /// Mask register of the accessible bytes, if not all are.
    mask: Option<u8>,
    /// The registers, by [`PAIRS`].
    registers: Vec<u8>,
}

impl Emitter {
    /// Emits the loads of eight rows and their transposition: `words` are the vectors of the rows'
    /// words that are used. A single word takes a gather; otherwise halves of rows are loaded and
    /// shuffled.
    pub(super) fn emit_rows(&mut self, id: OpId, words: [Option<OpId>; WORDS]) -> Result<(), VectorEmitError> {
        let VectorOp::Rows { pointers, offset, bytes } = self.ops[id.0 as usize] else {
            return Err(VectorEmitError::Form(id));
        };
        let mut used = (0..WORDS).filter_map(|word| Some((word, words[word]?)));
        if let (Some((word, result)), None) = (used.next(), used.next())
            && 8 * (word + 1) <= usize::from(bytes)
        {
            return self.load_one_word(RowAddress::Pointers(Mem::list(pointers), offset + 8 * word as i32), result);
        }
        let mut parts = Vec::new();
        for half in 0..2 {
            if words[HALF * half..][..HALF].iter().any(Option::is_some) {
                parts.push(self.choose_row_loads(half, &words, usize::from(bytes))?);
            }
        }
        for [first, second] in PAIRS {
            let address = RowAddress::Pointers(Mem::list(pointers), offset);
            let (first, second) = (self.row_operand(address, first), self.row_operand(address, second));
            for part in &mut parts {
                let register = self.load_row_pair(part, first, second)?;
                part.registers.push(register);
            }
        }
        // All loads are done before the shuffles, so that the address registers are free.
        self.end_step();
        for part in parts {
            self.release_mask(part.mask);
            self.shuffle_rows(&part, &words[HALF * part.half..][..HALF])?;
        }
        Ok(())
    }

    /// Loads one word of each row, which needs no shuffle.
    fn load_one_word(&mut self, place: RowAddress, id: OpId) -> Result<(), VectorEmitError> {
        let mut pairs = [0; LANES / 2];
        for (pair, register) in pairs.iter_mut().enumerate() {
            *register = self.claim_register(RegClass::Vector)?;
            let [first, second] = [0, 1].map(|row| AsmOperand::Mem(self.row_operand(place, 2 * pair + row)));
            self.asm.emit(X86::EVEX_Vmovq_xmm_xmmm64, &[xmm(*register), first]);
            self.asm.emit(X86::EVEX_Vmovhps_xmm_xmm_m64, &[xmm(*register), xmm(*register), second]);
        }
        self.end_step();
        let [a, b, c, d] = pairs;
        let upper = AsmOperand::Imm(1);
        for (to, from) in [(a, b), (c, d)] {
            self.asm.emit(X86::EVEX_Vinserti64x2_ymm_k1z_ymm_xmmm128_imm8, &[ymm(to), ymm(to), xmm(from), upper]);
        }
        self.asm.emit(X86::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &[zmm(a), zmm(a), ymm(c), upper]);
        self.release_vectors(&[b, c, d]);
        self.places.assign_register(id, a);
        Ok(())
    }

    /// Chooses the loads for the used words of half a line.
    fn choose_row_loads(
        &mut self,
        half: usize,
        words: &[Option<OpId>; WORDS],
        bytes: usize,
    ) -> Result<RowPart, VectorEmitError> {
        let wanted = |quarter: usize| words[HALF * half + 2 * quarter..][..2].iter().any(Option::is_some);
        let quarter = wanted(0) != wanted(1);
        let from = HALF_BYTES * half + if wanted(0) { 0 } else { QUARTER_BYTES };
        let all = if quarter { QUARTER_BYTES } else { HALF_BYTES };
        let there = bytes.saturating_sub(from);
        let mask = if there < all { Some(self.constant_mask((1 << there) - 1)?) } else { None };
        Ok(RowPart { half, from: from as i32, quarter, mask, registers: Vec::new() })
    }

    /// Loads two rows into one register: the first into its lower part, the second into its upper
    /// part. Only accessible bytes are read, with a mask if the part has others.
    fn load_row_pair(&mut self, part: &RowPart, first: Mem, second: Mem) -> Result<u8, VectorEmitError> {
        let (first, second) = (AsmOperand::Mem(first.plus(part.from)), AsmOperand::Mem(second.plus(part.from)));
        let both = self.claim_register(RegClass::Vector)?;
        let (load, masked, insert) = match part.quarter {
            true => {
                let masked = X86::EVEX_Vmovdqu8_xmm_k1z_xmmm128;
                (X86::EVEX_Vmovdqu64_xmm_k1z_xmmm128, masked, X86::EVEX_Vinserti64x2_zmm_k1z_zmm_xmmm128_imm8)
            }
            false => {
                let masked = X86::EVEX_Vmovdqu8_ymm_k1z_ymmm256;
                (X86::EVEX_Vmovdqu64_ymm_k1z_ymmm256, masked, X86::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8)
            }
        };
        let narrow = if part.quarter { xmm } else { ymm };
        // Position of the upper half in units of 32 or 16 bytes.
        let upper = AsmOperand::Imm(if part.quarter { 2 } else { 1 });
        let Some(mask) = part.mask else {
            self.asm.emit(load, &[narrow(both), first]);
            self.asm.emit(insert, &[zmm(both), zmm(both), second, upper]);
            return Ok(both);
        };
        let second_row = self.claim_register(RegClass::Vector)?;
        self.emit_on_lanes(WriteLanes::Zeroed(mask), masked, &[narrow(both), first]);
        self.emit_on_lanes(WriteLanes::Zeroed(mask), masked, &[narrow(second_row), second]);
        self.asm.emit(insert, &[zmm(both), zmm(both), narrow(second_row), upper]);
        self.release_vectors(&[second_row]);
        Ok(both)
    }

    /// Shuffles loaded rows to vectors of the words of half a line.
    fn shuffle_rows(&mut self, part: &RowPart, words: &[Option<OpId>]) -> Result<(), VectorEmitError> {
        let [a, b, c, d] = part.registers[..] else {
            return Err(VectorEmitError::Registers);
        };
        // The words of a single quarter are at the position of the first ones of a half.
        let halves = [X86::EVEX_Vpunpcklqdq_zmm_k1z_zmm_zmmm512b64, X86::EVEX_Vpunpckhqdq_zmm_k1z_zmm_zmmm512b64];
        for (parity, code) in halves.into_iter().enumerate() {
            let used: Vec<(usize, OpId)> =
                [parity, parity + 2].into_iter().filter_map(|word| Some((word, words[word]?))).collect();
            if used.is_empty() {
                continue;
            }
            let (lower, upper) = (self.claim_register(RegClass::Vector)?, self.claim_register(RegClass::Vector)?);
            self.asm.emit(code, &[zmm(lower), zmm(a), zmm(b)]);
            self.asm.emit(code, &[zmm(upper), zmm(c), zmm(d)]);
            for (word, id) in used {
                let result = self.claim_register(RegClass::Vector)?;
                let quarters = if word < 2 || part.quarter { EVEN } else { ODD };
                let args = [zmm(result), zmm(lower), zmm(upper), AsmOperand::Imm(quarters)];
                self.asm.emit(X86::EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8, &args);
                self.places.assign_register(id, result);
            }
            self.release_vectors(&[lower, upper]);
        }
        self.release_vectors(&[a, b, c, d]);
        Ok(())
    }

    /// Returns the operand of a row's first byte.
    pub(super) fn row_operand(&mut self, place: RowAddress, row: usize) -> Mem {
        match place {
            RowAddress::Stride(first, stride) => first.plus(stride * row as i32),
            RowAddress::Pointers(list, offset) => {
                let scratch = self.next_scratch();
                let pointer = AsmOperand::Mem(list.plus(8 * row as i32));
                self.asm.emit(X86::Mov_r64_rm64, &[AsmOperand::Reg(scratch), pointer]);
                Mem::at(scratch, offset)
            }
        }
    }

    /// Returns a mask register with these bits.
    pub(super) fn constant_mask(&mut self, bits: u64) -> Result<u8, VectorEmitError> {
        let mask = self.claim_register(RegClass::Mask)?;
        let bits = AsmOperand::Mem(self.asm.pool_word(bits));
        self.asm.emit(X86::VEX_Kmovq_kr_km64, &[kreg(mask), bits]);
        Ok(mask)
    }

    /// Releases a claimed mask register.
    pub(super) fn release_mask(&mut self, mask: Option<u8>) {
        if let Some(mask) = mask {
            self.places.release(RegClass::Mask, mask);
        }
    }

    /// Emits the stores of rows, see [`VectorOp::Write`]: each half of a line by itself, with the
    /// words that have bytes to write.
    pub(super) fn emit_write(
        &mut self,
        pointers: OpId,
        offset: i32,
        bytes: u64,
        words: &[OpId],
    ) -> Result<(), VectorEmitError> {
        let is_written = |word: usize| bytes >> (8 * word) & 0xff != 0;
        if bytes != 0 {
            let list = self.in_memory(pointers)?;
            for half in 0..2 {
                let mut registers = [None; HALF];
                for (word, register) in registers.iter_mut().enumerate() {
                    let word = HALF * half + word;
                    if is_written(word) {
                        *register = Some(self.vector_register(words[word])?);
                    }
                }
                let address = RowAddress::Pointers(list, offset + (HALF_BYTES * half) as i32);
                self.write_half(address, (bytes >> (HALF_BYTES * half)) as u32, registers)?;
            }
        }
        self.end_step();
        Ok(())
    }

    /// Stores bytes of half a line to each row; words without stored bytes need no register.
    pub(super) fn write_half(
        &mut self,
        place: RowAddress,
        bytes: u32,
        words: [Option<u8>; HALF],
    ) -> Result<(), VectorEmitError> {
        let [a, b, c, d] = words;
        let (lower, upper) = (bytes as u16, (bytes >> (8 * QUARTER_BYTES / 8)) as u16);
        match (lower, upper) {
            (0, 0) => Ok(()),
            (_, 0) => self.write_quarter(place, 0, lower, [a, b]),
            (0, _) => self.write_quarter(place, QUARTER_BYTES as i32, upper, [c, d]),
            _ => self.write_both_quarters(place, bytes, words),
        }
    }

    /// Interleaves two words: the even and the odd rows, a quarter each. Returns the registers, and
    /// whether they were claimed.
    fn side_by_side(&mut self, [a, b]: [Option<u8>; 2]) -> Result<[(u8, bool); 2], VectorEmitError> {
        let (low, high) = (X86::EVEX_Vpunpcklqdq_zmm_k1z_zmm_zmmm512b64, X86::EVEX_Vpunpckhqdq_zmm_k1z_zmm_zmmm512b64);
        let mut shuffled = |code, a, b| {
            let made = self.claim_register(RegClass::Vector)?;
            self.asm.emit(code, &[zmm(made), zmm(a), zmm(b)]);
            Ok::<_, VectorEmitError>((made, true))
        };
        match (a, b) {
            (Some(a), Some(b)) => Ok([shuffled(low, a, b)?, shuffled(high, a, b)?]),
            // A single word of the even or odd rows is already in place.
            (Some(a), None) => Ok([(a, false), shuffled(high, a, a)?]),
            (None, Some(b)) => Ok([shuffled(low, b, b)?, (b, false)]),
            (None, None) => Err(VectorEmitError::Registers),
        }
    }

    fn release_claimed(&mut self, registers: &[(u8, bool)]) {
        for (register, claimed) in registers {
            if *claimed {
                self.release_vectors(&[*register]);
            }
        }
    }

    /// Emits stores of 16 bytes to each row, `from` bytes after the row's address. `bytes` has a
    /// bit for each byte to write. `words` are the registers of the two words; `None` for a word
    /// that is not written.
    fn write_quarter(
        &mut self,
        address: RowAddress,
        from: i32,
        bytes: u16,
        words: [Option<u8>; 2],
    ) -> Result<(), VectorEmitError> {
        match (words, bytes) {
            ([Some(word), _], LOWER_WORD) => return self.write_word(address, from, word),
            ([_, Some(word)], UPPER_WORD) => return self.write_word(address, from + 8, word),
            _ => {}
        }
        let row_pairs = self.side_by_side(words)?;
        let extracted = self.claim_register(RegClass::Vector)?;
        let mask = if bytes == u16::MAX { None } else { Some(self.constant_mask(u64::from(bytes))?) };
        for row in 0..LANES {
            let memory = AsmOperand::Mem(self.row_operand(address, row).plus(from));
            let (row_pair, lane) = (row_pairs[row % 2].0, row as u8 / 2);
            let store = X86::EVEX_Vmovdqu64_xmmm128_k1z_xmm;
            let extract = X86::EVEX_Vextracti64x2_xmmm128_k1z_zmm_imm8;
            match (mask, lane) {
                (None, 0) => self.asm.emit(store, &[memory, xmm(row_pair)]),
                (None, lane) => self.asm.emit(extract, &[memory, zmm(row_pair), AsmOperand::Imm(lane)]),
                (Some(mask), lane) => {
                    if lane != 0 {
                        self.asm.emit(extract, &[xmm(extracted), zmm(row_pair), AsmOperand::Imm(lane)]);
                    }
                    let source = if lane == 0 { row_pair } else { extracted };
                    self.emit_on_lanes(
                        WriteLanes::Kept(mask),
                        X86::EVEX_Vmovdqu8_xmmm128_k1z_xmm,
                        &[memory, xmm(source)],
                    );
                }
            }
        }
        self.release_mask(mask);
        self.release_vectors(&[extracted]);
        self.release_claimed(&row_pairs);
        Ok(())
    }

    /// Stores one word per row, which needs no shuffle.
    fn write_word(&mut self, at: RowAddress, from: i32, word: u8) -> Result<(), VectorEmitError> {
        let part = self.claim_register(RegClass::Vector)?;
        for row in 0..LANES {
            let to = AsmOperand::Mem(self.row_operand(at, row).plus(from));
            let lane = row as u8 / 2;
            if row % 2 == 0 && lane != 0 {
                self.asm
                    .emit(X86::EVEX_Vextracti64x2_xmmm128_k1z_zmm_imm8, &[xmm(part), zmm(word), AsmOperand::Imm(lane)]);
            }
            let side = xmm(if lane == 0 { word } else { part });
            let code = if row % 2 == 0 { X86::EVEX_Vmovq_xmmm64_xmm } else { X86::EVEX_Vmovhps_m64_xmm };
            self.asm.emit(code, &[to, side]);
        }
        self.release_vectors(&[part]);
        Ok(())
    }

    /// Emits stores of 32 bytes to each row. `bytes` has a bit for each byte to write, `words` the
    /// registers of the four words.
    fn write_both_quarters(
        &mut self,
        address: RowAddress,
        bytes: u32,
        words: [Option<u8>; HALF],
    ) -> Result<(), VectorEmitError> {
        let lower = self.side_by_side([words[0], words[1]])?;
        let upper = self.side_by_side([words[2], words[3]])?;
        let pair = [self.claim_register(RegClass::Vector)?, self.claim_register(RegClass::Vector)?];
        let extracted = self.claim_register(RegClass::Vector)?;
        let mask = if bytes == u32::MAX { None } else { Some(self.constant_mask(u64::from(bytes))?) };
        for (row_group, order) in TWO_ROWS.into_iter().enumerate() {
            // Even rows and odd rows: two rows per register.
            for parity in 0..2 {
                let order = AsmOperand::Mem(self.asm.pool_line(order));
                self.asm.emit(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[zmm(pair[parity]), order]);
                let args = [zmm(pair[parity]), zmm(lower[parity].0), zmm(upper[parity].0)];
                self.asm.emit(X86::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64, &args);
            }
            for row in 0..LANES / 2 {
                let memory = AsmOperand::Mem(self.row_operand(address, 4 * row_group + row));
                self.store_half(memory, pair[row % 2], row / 2, mask, extracted);
            }
        }
        self.release_mask(mask);
        self.release_vectors(&pair);
        self.release_vectors(&[extracted]);
        self.release_claimed(&lower);
        self.release_claimed(&upper);
        Ok(())
    }

    /// Stores the lower or upper half of a register.
    fn store_half(&mut self, to: AsmOperand, from: u8, half: usize, mask: Option<u8>, part: u8) {
        let extract = X86::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
        match (mask, half) {
            (None, 0) => self.asm.emit(X86::EVEX_Vmovdqu64_ymmm256_k1z_ymm, &[to, ymm(from)]),
            (None, _) => self.asm.emit(extract, &[to, zmm(from), AsmOperand::Imm(1)]),
            (Some(mask), half) => {
                if half != 0 {
                    self.asm.emit(extract, &[ymm(part), zmm(from), AsmOperand::Imm(1)]);
                }
                let from = if half == 0 { from } else { part };
                self.emit_on_lanes(WriteLanes::Kept(mask), X86::EVEX_Vmovdqu8_ymmm256_k1z_ymm, &[to, ymm(from)]);
            }
        }
    }
}

/// Byte mask of the first word of a quarter.
const LOWER_WORD: u16 = 0x00ff;
/// Byte mask of the second word.
const UPPER_WORD: u16 = 0xff00;

/// Interleaves quarters of two registers: the lower two of each, and the upper two.
const TWO_ROWS: [[u64; LANES]; 2] = [[0, 1, 8, 9, 2, 3, 10, 11], [4, 5, 12, 13, 6, 7, 14, 15]];
