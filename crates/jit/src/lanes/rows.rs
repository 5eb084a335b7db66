//! Rows of memory, one a packet, and vectors of their words: turned one into the other, 32 bytes at a time. Eight rows of 32 bytes take four loads and four that put another one
//! behind, and eight shuffles; 64 bytes are taken in two halves, because loads and stores of 64 bytes cross cache lines nearly always.

use super::alloc::Kind;
use super::assemble::{Arg, EmitError, Lanes, Mem, k, x, y, z};
use super::emit::Emitter;
use super::ir::{Id, LANES, Op, WORDS};
use iced_x86::Code as X86;

/// Where rows lie.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Behind addresses, which lie one behind the other.
    Pointers(Mem, i32),
    /// One behind the other, so many bytes apart.
    Stride(Mem, i32),
}

/// Words of half a line.
const HALF: usize = WORDS / 2;
/// Half a line, in bytes.
const HALF_BYTES: usize = 8 * HALF;
/// A quarter, in bytes.
const QUARTER_BYTES: usize = HALF_BYTES / 2;

/// Which rows are loaded into one register, one behind the other, so that two shuffles bring them into their order.
const PAIRS: [[usize; 2]; 4] = [[0, 2], [1, 3], [4, 6], [5, 7]];

/// Of quarters of two registers, the even ones.
const EVEN: u8 = 0x88;
/// Of quarters of two registers, the odd ones.
const ODD: u8 = 0xdd;

/// What of half a line is loaded.
struct Part {
    /// Which half.
    half: usize,
    /// Bytes from the row's offset.
    from: i32,
    /// Whether it is 16 bytes, not 32.
    quarter: bool,
    /// The bytes that may be touched, if they are not all.
    mask: Option<u8>,
    /// The registers, by [`PAIRS`].
    registers: Vec<u8>,
}

impl Emitter {
    pub(super) fn rows(&mut self, id: Id, words: [Option<Id>; WORDS]) -> Result<(), EmitError> {
        let Op::Rows { pointers, offset, bytes } = self.ops[id.0 as usize] else {
            return Err(EmitError::Form(id));
        };
        let mut wanted = (0..WORDS).filter_map(|word| Some((word, words[word]?)));
        if let (Some((word, made)), None) = (wanted.next(), wanted.next())
            && 8 * (word + 1) <= usize::from(bytes)
        {
            return self.one_word(Place::Pointers(Mem::list(pointers), offset + 8 * word as i32), made);
        }
        let mut parts = Vec::new();
        for half in 0..2 {
            if words[HALF * half..][..HALF].iter().any(Option::is_some) {
                parts.push(self.part(half, &words, usize::from(bytes))?);
            }
        }
        for [first, second] in PAIRS {
            let place = Place::Pointers(Mem::list(pointers), offset);
            let (first, second) = (self.row(place, first), self.row(place, second));
            for part in &mut parts {
                let register = self.pair(part, first, second)?;
                part.registers.push(register);
            }
        }
        self.retire();
        for part in parts {
            self.unused_mask(part.mask);
            self.turn_in(&part, &words[HALF * part.half..][..HALF])?;
        }
        Ok(())
    }

    /// A vector of one word of each row, which needs no shuffling.
    fn one_word(&mut self, place: Place, id: Id) -> Result<(), EmitError> {
        let mut pairs = [0; LANES / 2];
        for (pair, register) in pairs.iter_mut().enumerate() {
            *register = self.claim(Kind::Vector)?;
            let [first, second] = [0, 1].map(|row| Arg::Mem(self.row(place, 2 * pair + row)));
            self.asm.op(X86::EVEX_Vmovq_xmm_xmmm64, &[x(*register), first]);
            self.asm.op(X86::EVEX_Vmovhps_xmm_xmm_m64, &[x(*register), x(*register), second]);
        }
        self.retire();
        let [a, b, c, d] = pairs;
        let upper = Arg::Imm(1);
        for (to, from) in [(a, b), (c, d)] {
            self.asm.op(X86::EVEX_Vinserti64x2_ymm_k1z_ymm_xmmm128_imm8, &[y(to), y(to), x(from), upper]);
        }
        self.asm.op(X86::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &[z(a), z(a), y(c), upper]);
        self.release(&[b, c, d]);
        self.places.hold(id, a);
        Ok(())
    }

    /// How the words that are wanted of half a line are loaded.
    fn part(&mut self, half: usize, words: &[Option<Id>; WORDS], bytes: usize) -> Result<Part, EmitError> {
        let wanted = |quarter: usize| words[HALF * half + 2 * quarter..][..2].iter().any(Option::is_some);
        let quarter = wanted(0) != wanted(1);
        let from = HALF_BYTES * half + if wanted(0) { 0 } else { QUARTER_BYTES };
        let all = if quarter { QUARTER_BYTES } else { HALF_BYTES };
        let there = bytes.saturating_sub(from);
        let mask = if there < all { Some(self.constant_mask((1 << there) - 1)?) } else { None };
        Ok(Part { half, from: from as i32, quarter, mask, registers: Vec::new() })
    }

    /// Loads two rows into one register.
    fn pair(&mut self, part: &Part, first: Mem, second: Mem) -> Result<u8, EmitError> {
        let (first, second) = (Arg::Mem(first.plus(part.from)), Arg::Mem(second.plus(part.from)));
        let to = self.claim(Kind::Vector)?;
        let (load, masked, put) = match part.quarter {
            true => {
                let masked = X86::EVEX_Vmovdqu8_xmm_k1z_xmmm128;
                (X86::EVEX_Vmovdqu64_xmm_k1z_xmmm128, masked, X86::EVEX_Vinserti64x2_zmm_k1z_zmm_xmmm128_imm8)
            }
            false => {
                let masked = X86::EVEX_Vmovdqu8_ymm_k1z_ymmm256;
                (X86::EVEX_Vmovdqu64_ymm_k1z_ymmm256, masked, X86::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8)
            }
        };
        let narrow = if part.quarter { x } else { y };
        // The upper half begins with the second 32 bytes, or the third 16.
        let behind = Arg::Imm(if part.quarter { 2 } else { 1 });
        let Some(mask) = part.mask else {
            self.asm.op(load, &[narrow(to), first]);
            self.asm.op(put, &[z(to), z(to), second, behind]);
            return Ok(to);
        };
        let other = self.claim(Kind::Vector)?;
        self.on(Lanes::Zeroed(mask), masked, &[narrow(to), first]);
        self.on(Lanes::Zeroed(mask), masked, &[narrow(other), second]);
        self.asm.op(put, &[z(to), z(to), narrow(other), behind]);
        self.release(&[other]);
        Ok(to)
    }

    /// Makes vectors of the words of half a line.
    fn turn_in(&mut self, part: &Part, words: &[Option<Id>]) -> Result<(), EmitError> {
        let [a, b, c, d] = part.registers[..] else {
            return Err(EmitError::Registers);
        };
        // Of a quarter, the words lie where the first ones of a half would.
        let halves = [X86::EVEX_Vpunpcklqdq_zmm_k1z_zmm_zmmm512b64, X86::EVEX_Vpunpckhqdq_zmm_k1z_zmm_zmmm512b64];
        for (parity, code) in halves.into_iter().enumerate() {
            let wanted: Vec<(usize, Id)> =
                [parity, parity + 2].into_iter().filter_map(|word| Some((word, words[word]?))).collect();
            if wanted.is_empty() {
                continue;
            }
            let (lower, upper) = (self.claim(Kind::Vector)?, self.claim(Kind::Vector)?);
            self.asm.op(code, &[z(lower), z(a), z(b)]);
            self.asm.op(code, &[z(upper), z(c), z(d)]);
            for (word, id) in wanted {
                let made = self.claim(Kind::Vector)?;
                let quarters = if word < 2 || part.quarter { EVEN } else { ODD };
                let args = [z(made), z(lower), z(upper), Arg::Imm(quarters)];
                self.asm.op(X86::EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8, &args);
                self.places.hold(id, made);
            }
            self.release(&[lower, upper]);
        }
        self.release(&[a, b, c, d]);
        Ok(())
    }

    /// A row's first byte.
    pub(super) fn row(&mut self, place: Place, row: usize) -> Mem {
        match place {
            Place::Stride(first, stride) => first.plus(stride * row as i32),
            Place::Pointers(list, offset) => {
                let scratch = self.scratch();
                let pointer = Arg::Mem(list.plus(8 * row as i32));
                self.asm.op(X86::Mov_r64_rm64, &[Arg::Reg(scratch), pointer]);
                Mem::at(scratch, offset)
            }
        }
    }

    /// A mask register with these bits.
    pub(super) fn constant_mask(&mut self, bits: u64) -> Result<u8, EmitError> {
        let mask = self.claim(Kind::Mask)?;
        let bits = Arg::Mem(self.asm.word(bits));
        self.asm.op(X86::VEX_Kmovq_kr_km64, &[k(mask), bits]);
        Ok(mask)
    }

    /// A mask register that was claimed is used no more.
    pub(super) fn unused_mask(&mut self, mask: Option<u8>) {
        if let Some(mask) = mask {
            self.places.release(Kind::Mask, mask);
        }
    }

    pub(super) fn write(&mut self, pointers: Id, offset: i32, bytes: u64, words: &[Id]) -> Result<(), EmitError> {
        let named = |word: usize| bytes >> (8 * word) & 0xff != 0;
        if bytes != 0 {
            let list = self.in_memory(pointers)?;
            for half in 0..2 {
                let mut registers = [None; HALF];
                for (word, register) in registers.iter_mut().enumerate() {
                    let word = HALF * half + word;
                    if named(word) {
                        *register = Some(self.vector(words[word])?);
                    }
                }
                let place = Place::Pointers(list, offset + (HALF_BYTES * half) as i32);
                self.write_half(place, (bytes >> (HALF_BYTES * half)) as u32, registers)?;
            }
        }
        self.retire();
        Ok(())
    }

    /// Writes bytes of half a line to each row: words of which none is named need no register.
    pub(super) fn write_half(&mut self, place: Place, bytes: u32, words: [Option<u8>; HALF]) -> Result<(), EmitError> {
        let [a, b, c, d] = words;
        let (lower, upper) = (bytes as u16, (bytes >> (8 * QUARTER_BYTES / 8)) as u16);
        match (lower, upper) {
            (0, 0) => Ok(()),
            (_, 0) => self.write_quarter(place, 0, lower, [a, b]),
            (0, _) => self.write_quarter(place, QUARTER_BYTES as i32, upper, [c, d]),
            _ => self.write_both_quarters(place, bytes, words),
        }
    }

    /// Two words side by side: of even and of odd rows, a quarter each. The registers, and whether they were claimed.
    fn side_by_side(&mut self, [a, b]: [Option<u8>; 2]) -> Result<[(u8, bool); 2], EmitError> {
        let (low, high) = (X86::EVEX_Vpunpcklqdq_zmm_k1z_zmm_zmmm512b64, X86::EVEX_Vpunpckhqdq_zmm_k1z_zmm_zmmm512b64);
        let mut shuffled = |code, a, b| {
            let made = self.claim(Kind::Vector)?;
            self.asm.op(code, &[z(made), z(a), z(b)]);
            Ok::<_, EmitError>((made, true))
        };
        match (a, b) {
            (Some(a), Some(b)) => Ok([shuffled(low, a, b)?, shuffled(high, a, b)?]),
            // A single word of even rows, or of odd ones, is in its place already.
            (Some(a), None) => Ok([(a, false), shuffled(high, a, a)?]),
            (None, Some(b)) => Ok([shuffled(low, b, b)?, (b, false)]),
            (None, None) => Err(EmitError::Registers),
        }
    }

    fn release_claimed(&mut self, registers: &[(u8, bool)]) {
        for (register, claimed) in registers {
            if *claimed {
                self.release(&[*register]);
            }
        }
    }

    fn write_quarter(&mut self, at: Place, from: i32, bytes: u16, words: [Option<u8>; 2]) -> Result<(), EmitError> {
        match (words, bytes) {
            ([Some(word), _], LOWER_WORD) => return self.write_word(at, from, word),
            ([_, Some(word)], UPPER_WORD) => return self.write_word(at, from + 8, word),
            _ => {}
        }
        let sides = self.side_by_side(words)?;
        let part = self.claim(Kind::Vector)?;
        let mask = if bytes == u16::MAX { None } else { Some(self.constant_mask(u64::from(bytes))?) };
        for row in 0..LANES {
            let to = Arg::Mem(self.row(at, row).plus(from));
            let (side, lane) = (sides[row % 2].0, row as u8 / 2);
            let store = X86::EVEX_Vmovdqu64_xmmm128_k1z_xmm;
            let extract = X86::EVEX_Vextracti64x2_xmmm128_k1z_zmm_imm8;
            match (mask, lane) {
                (None, 0) => self.asm.op(store, &[to, x(side)]),
                (None, lane) => self.asm.op(extract, &[to, z(side), Arg::Imm(lane)]),
                (Some(mask), lane) => {
                    if lane != 0 {
                        self.asm.op(extract, &[x(part), z(side), Arg::Imm(lane)]);
                    }
                    let from = if lane == 0 { side } else { part };
                    self.on(Lanes::Kept(mask), X86::EVEX_Vmovdqu8_xmmm128_k1z_xmm, &[to, x(from)]);
                }
            }
        }
        self.unused_mask(mask);
        self.release(&[part]);
        self.release_claimed(&sides);
        Ok(())
    }

    /// A whole word a row, which needs no shuffling.
    fn write_word(&mut self, at: Place, from: i32, word: u8) -> Result<(), EmitError> {
        let part = self.claim(Kind::Vector)?;
        for row in 0..LANES {
            let to = Arg::Mem(self.row(at, row).plus(from));
            let lane = row as u8 / 2;
            if row % 2 == 0 && lane != 0 {
                self.asm.op(X86::EVEX_Vextracti64x2_xmmm128_k1z_zmm_imm8, &[x(part), z(word), Arg::Imm(lane)]);
            }
            let side = x(if lane == 0 { word } else { part });
            let code = if row % 2 == 0 { X86::EVEX_Vmovq_xmmm64_xmm } else { X86::EVEX_Vmovhps_m64_xmm };
            self.asm.op(code, &[to, side]);
        }
        self.release(&[part]);
        Ok(())
    }

    fn write_both_quarters(&mut self, at: Place, bytes: u32, words: [Option<u8>; HALF]) -> Result<(), EmitError> {
        let lower = self.side_by_side([words[0], words[1]])?;
        let upper = self.side_by_side([words[2], words[3]])?;
        let pair = [self.claim(Kind::Vector)?, self.claim(Kind::Vector)?];
        let part = self.claim(Kind::Vector)?;
        let mask = if bytes == u32::MAX { None } else { Some(self.constant_mask(u64::from(bytes))?) };
        for (four, order) in TWO_ROWS.into_iter().enumerate() {
            // Of even rows, and of odd ones: two rows in a register.
            for parity in 0..2 {
                let order = Arg::Mem(self.asm.line(order));
                self.asm.op(X86::EVEX_Vmovdqa64_zmm_k1z_zmmm512, &[z(pair[parity]), order]);
                let args = [z(pair[parity]), z(lower[parity].0), z(upper[parity].0)];
                self.asm.op(X86::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64, &args);
            }
            for row in 0..LANES / 2 {
                let to = Arg::Mem(self.row(at, 4 * four + row));
                self.store_half(to, pair[row % 2], row / 2, mask, part);
            }
        }
        self.unused_mask(mask);
        self.release(&pair);
        self.release(&[part]);
        self.release_claimed(&lower);
        self.release_claimed(&upper);
        Ok(())
    }

    /// Stores the lower or upper half of a register.
    fn store_half(&mut self, to: Arg, from: u8, half: usize, mask: Option<u8>, part: u8) {
        let extract = X86::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
        match (mask, half) {
            (None, 0) => self.asm.op(X86::EVEX_Vmovdqu64_ymmm256_k1z_ymm, &[to, y(from)]),
            (None, _) => self.asm.op(extract, &[to, z(from), Arg::Imm(1)]),
            (Some(mask), half) => {
                if half != 0 {
                    self.asm.op(extract, &[y(part), z(from), Arg::Imm(1)]);
                }
                let from = if half == 0 { from } else { part };
                self.on(Lanes::Kept(mask), X86::EVEX_Vmovdqu8_ymmm256_k1z_ymm, &[to, y(from)]);
            }
        }
    }
}

/// The first word of a quarter.
const LOWER_WORD: u16 = 0x00ff;
/// The second one.
const UPPER_WORD: u16 = 0xff00;

/// Quarters of two registers side by side: the lower two of each, and the upper two.
const TWO_ROWS: [[u64; LANES]; 2] = [[0, 1, 8, 9, 2, 3, 10, 11], [4, 5, 12, 13, 6, 7, 14, 15]];
