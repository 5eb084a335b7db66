//! Vectorisation of single instructions.

use crate::crc::Crc;
use crate::lanes::bound::low_bits;
use crate::lanes::convert::{LaneValue, LookupResults, Vectorizer};
use crate::lanes::ir::{LaneCompare, OpId, VectorOp, ZERO_BYTE};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstructionData, Opcode};

impl Vectorizer<'_> {
    /// Converts an instruction. Returns `None` for an unsupported side effect, at which the lanes
    /// diverge. An unsupported computation is allowed as long as its result is not used.
    pub(super) fn convert_inst(&mut self, inst: cl::Inst) -> Option<()> {
        let data = self.func.dfg.insts[inst];
        match data {
            InstructionData::Load { opcode, arg, offset, .. } => {
                let bytes = self.bytes_read(inst, opcode)?;
                let address = self.add_offset(self.lane_value(arg), i64::from(offset));
                let read = self.convert_load(inst, address, bytes).unwrap_or(LaneValue::Unknown);
                self.set_result(inst, read)
            }
            InstructionData::Store { opcode, args, offset, .. } => {
                let [value, address] = args;
                let bytes = match opcode {
                    Opcode::Istore8 => 1,
                    Opcode::Istore16 => 2,
                    Opcode::Istore32 => 4,
                    _ => self.func.dfg.value_type(value).bytes(),
                };
                let address = self.add_offset(self.lane_value(address), i64::from(offset));
                let value = self.value_vector(value)?;
                self.convert_store(address, value, bytes)
            }
            InstructionData::Binary { opcode: opcode @ (Opcode::Udiv | Opcode::Urem), args: [a, b] } => {
                let computed = self.convert_division(opcode, a, b).unwrap_or(LaneValue::Unknown);
                self.set_result(inst, computed)
            }
            _ if data.opcode().is_call() || data.opcode().other_side_effects() || data.opcode().can_trap() => None,
            _ => {
                let computed = self.convert_computation(inst, &data).unwrap_or(LaneValue::Unknown);
                self.set_result(inst, computed)
            }
        }
    }

    fn set_result(&mut self, inst: cl::Inst, val: LaneValue) -> Option<()> {
        let result = self.func.dfg.inst_results(inst).first()?;
        self.values.insert(*result, val);
        Some(())
    }

    fn bytes_read(&self, inst: cl::Inst, opcode: Opcode) -> Option<u32> {
        match opcode {
            Opcode::Uload8 => Some(1),
            Opcode::Uload16 => Some(2),
            Opcode::Uload32 => Some(4),
            Opcode::Load => Some(self.func.dfg.value_type(*self.func.dfg.inst_results(inst).first()?).bytes()),
            _ => None,
        }
    }

    // ---- conversions ----

    /// Converts a value to a vector. Returns `None` for an address that is only known relative to a
    /// memory that lanes do not share, and for an unknown value.
    pub(super) fn vector_of(&mut self, val: LaneValue) -> Option<OpId> {
        match val {
            LaneValue::Vector(id) => Some(id),
            LaneValue::Mask(mask) => Some(self.b.mask_to_vector(mask)),
            LaneValue::Packet(offset) => {
                let data = self.b.add_pure(VectorOp::Column(self.packets.pointers));
                let offset = self.b.constant(offset as u64);
                Some(self.b.sum(data, offset))
            }
            LaneValue::Pointed(pointer, offset) => {
                let address = self.b.add_pure(VectorOp::ContextWord(pointer));
                let offset = self.b.constant(offset as u64);
                Some(self.b.sum(address, offset))
            }
            LaneValue::Found(lookup) => {
                let (hit, value) = (self.hit_lanes(lookup), self.b.add_pure(VectorOp::Column(lookup.list)));
                let zero = self.b.constant(0);
                Some(self.b.blend(hit, value, zero))
            }
            LaneValue::Value(lookup, offset) => {
                let value = self.b.add_pure(VectorOp::Column(lookup.list));
                let offset = self.b.constant(offset as u64);
                Some(self.b.sum(value, offset))
            }
            LaneValue::Frame(_) | LaneValue::Place(_) | LaneValue::Context(_) | LaneValue::Unknown => None,
        }
    }

    /// Returns the lanes with a hit.
    fn hit_lanes(&mut self, looked: LookupResults) -> OpId {
        let value = self.b.add_pure(VectorOp::Column(looked.list));
        let default = self.b.add_pure(VectorOp::ContextWord(looked.default));
        self.b.compare(LaneCompare::NotEqual, value, default)
    }

    /// Returns a value of the function as a vector.
    pub(super) fn value_vector(&mut self, value: cl::Value) -> Option<OpId> {
        self.vector_of(self.lane_value(value))
    }

    /// Returns the lanes in which a value is not 0.
    pub(super) fn nonzero_lanes(&mut self, val: LaneValue) -> Option<OpId> {
        match val {
            LaneValue::Mask(mask) => Some(mask),
            LaneValue::Found(looked) => Some(self.hit_lanes(looked)),
            val => {
                let (number, zero) = (self.vector_of(val)?, self.b.constant(0));
                Some(self.b.compare(LaneCompare::NotEqual, number, zero))
            }
        }
    }

    /// Adds an offset in bytes to an address.
    fn add_offset(&mut self, val: LaneValue, more: i64) -> LaneValue {
        match val {
            LaneValue::Frame(at) => LaneValue::Frame(at + more),
            LaneValue::Place(at) => LaneValue::Place(at + more),
            LaneValue::Context(at) => LaneValue::Context(at + more),
            LaneValue::Packet(at) => LaneValue::Packet(at + more),
            LaneValue::Pointed(place, at) => LaneValue::Pointed(place, at + more),
            LaneValue::Value(looked, at) => LaneValue::Value(looked, at + more),
            LaneValue::Vector(base) => {
                let more = self.b.constant(more as u64);
                LaneValue::Vector(self.b.sum(base, more))
            }
            other => other,
        }
    }

    // ---- computations ----

    fn bit_width(&self, value: cl::Value) -> u32 {
        self.func.dfg.value_type(value).bits()
    }

    /// Converts an instruction without effects. Returns `None` if vector code has no counterpart.
    fn convert_computation(&mut self, inst: cl::Inst, data: &InstructionData) -> Option<LaneValue> {
        let result = *self.func.dfg.inst_results(inst).first()?;
        let bits = self.bit_width(result);
        match *data {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
                Some(LaneValue::Vector(self.b.constant(imm.bits() as u64 & low_bits(bits))))
            }
            InstructionData::Unary { opcode, arg } => self.convert_unary(opcode, arg, bits),
            InstructionData::Binary { opcode, args: [a, b] } => self.convert_binary(opcode, a, b, bits),
            InstructionData::IntCompare { cond, args: [a, b], .. } => self.convert_compare(cond, a, b),
            InstructionData::Ternary { opcode: Opcode::Select, args: [cond, yes, no] } => {
                let (cond, yes, no) =
                    (self.nonzero_lanes(self.lane_value(cond))?, self.lane_value(yes), self.lane_value(no));
                match yes {
                    // A lookup that yields the default value on a miss: vector lists contain it
                    // already.
                    LaneValue::Found(lookup)
                        if no == LaneValue::Pointed(lookup.default, 0) && cond == self.hit_lanes(lookup) =>
                    {
                        Some(LaneValue::Value(lookup, 0))
                    }
                    _ => Some(self.select_lane_value(cond, yes, no)),
                }
            }
            _ => None,
        }
    }

    fn convert_unary(&mut self, opcode: Opcode, arg: cl::Value, bits: u32) -> Option<LaneValue> {
        let val = self.lane_value(arg);
        if matches!((opcode, val), (Opcode::Uextend | Opcode::Ireduce, LaneValue::Mask(_))) {
            return Some(val);
        }
        let a = self.vector_of(val)?;
        let ones = self.b.constant(low_bits(bits));
        let made = match opcode {
            Opcode::Uextend => a,
            Opcode::Ireduce => self.b.and(a, ones),
            Opcode::Bnot => self.b.xor(a, ones),
            Opcode::Bswap => {
                let bytes = bits as u8 / 8;
                self.b.permute_bytes(a, std::array::from_fn(|at| bytes.checked_sub(1 + at as u8).unwrap_or(ZERO_BYTE)))
            }
            _ => return None,
        };
        Some(LaneValue::Vector(made))
    }

    /// Converts an operation on two numbers of `bits` bits. Lanes have 64 bits; those above `bits`
    /// are 0 in each vector, so the result is masked. Returns `None` for an unsupported operation.
    fn convert_binary(&mut self, opcode: Opcode, a: cl::Value, b: cl::Value, bits: u32) -> Option<LaneValue> {
        let (x, y) = (self.lane_value(a), self.lane_value(b));
        if let Some(val) = self.convert_mask_logic(opcode, x, y) {
            return Some(val);
        }
        if let Some(val) = self.convert_address_sum(opcode, x, y) {
            return Some(val);
        }
        let (x, y) = (self.vector_of(x)?, self.vector_of(y)?);
        let ones = self.b.constant(low_bits(bits));
        let amount = self.b.constant_of(y).map(|by| (by & u64::from(bits - 1)) as u32);
        let result = match (opcode, amount) {
            (Opcode::Band, _) => self.b.and(x, y),
            (Opcode::Bor, _) => self.b.or(x, y),
            (Opcode::Bxor, _) => self.b.xor(x, y),
            (Opcode::Iadd, _) => self.b.sum(x, y),
            (Opcode::Isub, _) => self.b.difference(x, y),
            (Opcode::Imul, _) => self.b.product(x, y),
            (Opcode::Ishl, Some(by)) => self.b.shl(x, by),
            (Opcode::Ushr, Some(by)) => self.b.shr(x, by),
            (Opcode::Sshr, Some(by)) if bits == 64 => self.b.add_pure(VectorOp::Sar(x, by as u8)),
            (Opcode::Rotl, Some(by)) if bits == 64 => self.b.add_pure(VectorOp::Rotl64(x, by as u8)),
            (Opcode::Rotl, Some(by)) if bits == 32 => self.b.add_pure(VectorOp::Rotl32(x, by as u8)),
            (Opcode::Rotl, Some(by)) => {
                let (up, down) = (self.b.shl(x, by), self.b.shr(x, bits - by));
                self.b.or(up, down)
            }
            (Opcode::Ishl | Opcode::Ushr, None) if bits == 64 => {
                let shift_mask = self.b.constant(63);
                let by = self.b.and(y, shift_mask);
                self.b.add_pure(if opcode == Opcode::Ishl { VectorOp::ShlBy(x, by) } else { VectorOp::ShrBy(x, by) })
            }
            (Opcode::Umin, _) => {
                let less = self.b.compare(LaneCompare::Less, x, y);
                self.b.blend(less, x, y)
            }
            _ => return None,
        };
        // The mask folds away if no higher bits are possible.
        Some(LaneValue::Vector(self.b.and(result, ones)))
    }

    /// Converts a logic operation on bools, of which one is a mask and the other a mask or a
    /// constant. Returns `None` for other operands.
    fn convert_mask_logic(&mut self, opcode: Opcode, x: LaneValue, y: LaneValue) -> Option<LaneValue> {
        if !matches!(opcode, Opcode::Band | Opcode::Bor | Opcode::Bxor) {
            return None;
        }
        let to_mask = |this: &mut Self, val: LaneValue| match val {
            LaneValue::Mask(mask) => Some(mask),
            LaneValue::Vector(id) => match this.b.constant_of(id) {
                Some(bit @ 0..=1) => Some(this.b.constant_mask(bit == 1)),
                _ => None,
            },
            _ => None,
        };
        if !matches!(x, LaneValue::Mask(_)) && !matches!(y, LaneValue::Mask(_)) {
            return None;
        }
        let (x, y) = (to_mask(self, x)?, to_mask(self, y)?);
        Some(LaneValue::Mask(match opcode {
            Opcode::Band => self.b.mask_and(x, y),
            Opcode::Bor => self.b.mask_or(x, y),
            _ => self.b.mask_xor(x, y),
        }))
    }

    /// Converts the addition of a constant to an address.
    fn convert_address_sum(&mut self, opcode: Opcode, x: LaneValue, y: LaneValue) -> Option<LaneValue> {
        let constant = |val: LaneValue| match val {
            LaneValue::Vector(id) => self.b.constant_of(id),
            _ => None,
        };
        let is_address = |val: LaneValue| {
            matches!(
                val,
                LaneValue::Frame(_)
                    | LaneValue::Place(_)
                    | LaneValue::Context(_)
                    | LaneValue::Packet(_)
                    | LaneValue::Pointed(..)
                    | LaneValue::Value(..)
            )
        };
        match opcode {
            Opcode::Iadd if is_address(x) => constant(y).map(|addend| self.add_offset(x, addend as i64)),
            Opcode::Iadd if is_address(y) => constant(x).map(|addend| self.add_offset(y, addend as i64)),
            Opcode::Isub if is_address(x) => {
                constant(y).map(|subtrahend| self.add_offset(x, (subtrahend as i64).wrapping_neg()))
            }
            _ => None,
        }
    }

    /// Divides numbers of at most 32 bits. The function checks the divisor for 0 before.
    fn convert_division(&mut self, opcode: Opcode, a: cl::Value, b: cl::Value) -> Option<LaneValue> {
        let (a, b) = (self.value_vector(a)?, self.value_vector(b)?);
        if (self.b.possible_bits(a) | self.b.possible_bits(b)) > low_bits(32) {
            return None;
        }
        let quotient = self.b.add_pure(VectorOp::Quotient(a, b));
        Some(LaneValue::Vector(match opcode {
            Opcode::Udiv => quotient,
            _ => {
                let whole = self.b.product(quotient, b);
                let rest = self.b.difference(a, whole);
                // Less than the divisor; unused if the divisor is 0.
                let mask = self.b.constant(low_bits(64 - self.b.possible_bits(b).leading_zeros()));
                self.b.and(rest, mask)
            }
        }))
    }

    /// Computes the remainder of two words by a CRC's polynomial ([`crate::crc`]).
    pub(super) fn convert_crc_remainder(&mut self, inst: cl::Inst, words: [cl::Value; 2], crc: &Crc) -> Option<()> {
        let (first, second) = (self.value_vector(words[0])?, self.value_vector(words[1])?);
        let first = self.reduce_crc_word(first, crc);
        let second = self.b.xor(second, first);
        let remainder = self.reduce_crc_word(second, crc);
        // It has at most the polynomial's degree, 32 bits.
        let mask = self.b.constant(low_bits(32));
        let remainder = self.b.and(remainder, mask);
        self.set_result(inst, LaneValue::Vector(remainder))
    }

    fn reduce_crc_word(&mut self, word: OpId, crc: &Crc) -> OpId {
        let multiple = self.b.add_pure(VectorOp::Carryless(word, crc.polynomial_inverse(), false));
        self.b.add_pure(VectorOp::Carryless(multiple, crc.polynomial, true))
    }

    /// Converts a comparison. One of a lookup's result with 0 becomes the lanes with a hit. Returns
    /// `None` for a signed comparison of fewer than 64 bits, because lanes are zero-extended.
    fn convert_compare(&mut self, cond: IntCC, a: cl::Value, b: cl::Value) -> Option<LaneValue> {
        let bits = self.bit_width(a);
        if let (LaneValue::Found(lookup), LaneValue::Vector(zero)) = (self.lane_value(a), self.lane_value(b))
            && self.b.constant_of(zero) == Some(0)
            && cond == IntCC::NotEqual
        {
            return Some(LaneValue::Mask(self.hit_lanes(lookup)));
        }
        let (a, b) = (self.value_vector(a)?, self.value_vector(b)?);
        let (cond, is_swapped) = match cond {
            IntCC::Equal => (LaneCompare::Equal, false),
            IntCC::NotEqual => (LaneCompare::NotEqual, false),
            IntCC::UnsignedLessThan => (LaneCompare::Less, false),
            IntCC::UnsignedLessThanOrEqual => (LaneCompare::LessOrEqual, false),
            IntCC::UnsignedGreaterThan => (LaneCompare::Less, true),
            IntCC::UnsignedGreaterThanOrEqual => (LaneCompare::LessOrEqual, true),
            _ if bits != 64 => return None,
            IntCC::SignedLessThan => (LaneCompare::SignedLess, false),
            IntCC::SignedLessThanOrEqual => (LaneCompare::SignedLessOrEqual, false),
            IntCC::SignedGreaterThan => (LaneCompare::SignedLess, true),
            IntCC::SignedGreaterThanOrEqual => (LaneCompare::SignedLessOrEqual, true),
        };
        let (a, b) = if is_swapped { (b, a) } else { (a, b) };
        Some(LaneValue::Mask(self.b.compare(cond, a, b)))
    }
}
