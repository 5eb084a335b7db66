//! Instructions of a stage's function as eight lanes carry them out.

use crate::crc::Crc;
use crate::lanes::bound::low;
use crate::lanes::convert::{Converting, Looked, Val};
use crate::lanes::ir::{Cond, Id, Op, ZERO_BYTE};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstructionData, Opcode};

impl Converting<'_> {
    /// An instruction. `None`: it does something that code for eight has no form for, and lanes that are here are left to the function. What only computes
    /// and has no form is no matter as long as nobody uses it.
    pub(super) fn instruction(&mut self, inst: cl::Inst) -> Option<()> {
        let data = self.func.dfg.insts[inst];
        match data {
            InstructionData::Load { opcode, arg, offset, .. } => {
                let bytes = self.bytes_read(inst, opcode)?;
                let address = self.offset(self.of(arg), i64::from(offset));
                let read = self.read(inst, address, bytes).unwrap_or(Val::Unknown);
                self.give(inst, read)
            }
            InstructionData::Store { opcode, args, offset, .. } => {
                let [value, address] = args;
                let bytes = match opcode {
                    Opcode::Istore8 => 1,
                    Opcode::Istore16 => 2,
                    Opcode::Istore32 => 4,
                    _ => self.func.dfg.value_type(value).bytes(),
                };
                let address = self.offset(self.of(address), i64::from(offset));
                let value = self.numbers(value)?;
                self.write_to(address, value, bytes)
            }
            InstructionData::Binary { opcode: opcode @ (Opcode::Udiv | Opcode::Urem), args: [a, b] } => {
                let computed = self.divide(opcode, a, b).unwrap_or(Val::Unknown);
                self.give(inst, computed)
            }
            _ if data.opcode().is_call() || data.opcode().other_side_effects() || data.opcode().can_trap() => None,
            _ => {
                let computed = self.compute(inst, &data).unwrap_or(Val::Unknown);
                self.give(inst, computed)
            }
        }
    }

    fn give(&mut self, inst: cl::Inst, val: Val) -> Option<()> {
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

    // ---- forms ----

    /// A value as numbers.
    pub(super) fn vector(&mut self, val: Val) -> Option<Id> {
        match val {
            Val::Vector(id) => Some(id),
            Val::Mask(mask) => Some(self.b.number(mask)),
            Val::Packet(at) => {
                let data = self.b.plain(Op::Column(self.packets.pointers));
                let at = self.b.constant(at as u64);
                Some(self.b.sum(data, at))
            }
            Val::Pointed(place, more) => {
                let address = self.b.plain(Op::ContextWord(place));
                let more = self.b.constant(more as u64);
                Some(self.b.sum(address, more))
            }
            Val::Found(looked) => {
                let (hit, value) = (self.hit(looked), self.b.plain(Op::Column(looked.list)));
                let none = self.b.constant(0);
                Some(self.b.blend(hit, value, none))
            }
            Val::Value(looked, at) => {
                let value = self.b.plain(Op::Column(looked.list));
                let at = self.b.constant(at as u64);
                Some(self.b.sum(value, at))
            }
            Val::Frame(_) | Val::Place(_) | Val::Context(_) | Val::Unknown => None,
        }
    }

    /// In which lanes an entry was found.
    fn hit(&mut self, looked: Looked) -> Id {
        let value = self.b.plain(Op::Column(looked.list));
        let default = self.b.plain(Op::ContextWord(looked.default));
        self.b.compare(Cond::NotEqual, value, default)
    }

    /// A value of the function as numbers.
    pub(super) fn numbers(&mut self, value: cl::Value) -> Option<Id> {
        self.vector(self.of(value))
    }

    /// In which lanes a value is not 0.
    pub(super) fn condition(&mut self, val: Val) -> Option<Id> {
        match val {
            Val::Mask(mask) => Some(mask),
            Val::Found(looked) => Some(self.hit(looked)),
            val => {
                let (number, zero) = (self.vector(val)?, self.b.constant(0));
                Some(self.b.compare(Cond::NotEqual, number, zero))
            }
        }
    }

    /// An address so many bytes behind another.
    fn offset(&mut self, val: Val, more: i64) -> Val {
        match val {
            Val::Frame(at) => Val::Frame(at + more),
            Val::Place(at) => Val::Place(at + more),
            Val::Context(at) => Val::Context(at + more),
            Val::Packet(at) => Val::Packet(at + more),
            Val::Pointed(place, at) => Val::Pointed(place, at + more),
            Val::Value(looked, at) => Val::Value(looked, at + more),
            Val::Vector(base) => {
                let more = self.b.constant(more as u64);
                Val::Vector(self.b.sum(base, more))
            }
            other => other,
        }
    }

    // ---- computing ----

    fn bits(&self, value: cl::Value) -> u32 {
        self.func.dfg.value_type(value).bits()
    }

    fn compute(&mut self, inst: cl::Inst, data: &InstructionData) -> Option<Val> {
        let result = *self.func.dfg.inst_results(inst).first()?;
        let bits = self.bits(result);
        match *data {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
                Some(Val::Vector(self.b.constant(imm.bits() as u64 & low(bits))))
            }
            InstructionData::Unary { opcode, arg } => self.unary(opcode, arg, bits),
            InstructionData::Binary { opcode, args: [a, b] } => self.binary(opcode, a, b, bits),
            InstructionData::IntCompare { cond, args: [a, b], .. } => self.compare(cond, a, b),
            InstructionData::Ternary { opcode: Opcode::Select, args: [cond, yes, no] } => {
                let (cond, yes, no) = (self.condition(self.of(cond))?, self.of(yes), self.of(no));
                match yes {
                    Val::Found(looked) if no == Val::Pointed(looked.default, 0) && cond == self.hit(looked) => {
                        Some(Val::Value(looked, 0))
                    }
                    _ => Some(self.either(cond, yes, no)),
                }
            }
            _ => None,
        }
    }

    fn unary(&mut self, opcode: Opcode, arg: cl::Value, bits: u32) -> Option<Val> {
        let val = self.of(arg);
        if matches!((opcode, val), (Opcode::Uextend | Opcode::Ireduce, Val::Mask(_))) {
            return Some(val);
        }
        let a = self.vector(val)?;
        let ones = self.b.constant(low(bits));
        let made = match opcode {
            Opcode::Uextend => a,
            Opcode::Ireduce => self.b.and(a, ones),
            Opcode::Bnot => self.b.xor(a, ones),
            Opcode::Bswap => {
                let bytes = bits as u8 / 8;
                self.b.bytes(a, std::array::from_fn(|at| bytes.checked_sub(1 + at as u8).unwrap_or(ZERO_BYTE)))
            }
            _ => return None,
        };
        Some(Val::Vector(made))
    }

    fn binary(&mut self, opcode: Opcode, a: cl::Value, b: cl::Value, bits: u32) -> Option<Val> {
        let (x, y) = (self.of(a), self.of(b));
        if let Some(val) = self.masks(opcode, x, y) {
            return Some(val);
        }
        if let Some(val) = self.address(opcode, x, y) {
            return Some(val);
        }
        let (x, y) = (self.vector(x)?, self.vector(y)?);
        let ones = self.b.constant(low(bits));
        let amount = self.b.constant_of(y).map(|by| (by & u64::from(bits - 1)) as u32);
        let made = match (opcode, amount) {
            (Opcode::Band, _) => self.b.and(x, y),
            (Opcode::Bor, _) => self.b.or(x, y),
            (Opcode::Bxor, _) => self.b.xor(x, y),
            (Opcode::Iadd, _) => self.b.sum(x, y),
            (Opcode::Isub, _) => self.b.difference(x, y),
            (Opcode::Imul, _) => self.b.product(x, y),
            (Opcode::Ishl, Some(by)) => self.b.shl(x, by),
            (Opcode::Ushr, Some(by)) => self.b.shr(x, by),
            (Opcode::Sshr, Some(by)) if bits == 64 => self.b.plain(Op::Sar(x, by as u8)),
            (Opcode::Rotl, Some(by)) if bits == 64 => self.b.plain(Op::Rotl64(x, by as u8)),
            (Opcode::Rotl, Some(by)) if bits == 32 => self.b.plain(Op::Rotl32(x, by as u8)),
            (Opcode::Rotl, Some(by)) => {
                let (up, down) = (self.b.shl(x, by), self.b.shr(x, bits - by));
                self.b.or(up, down)
            }
            (Opcode::Ishl | Opcode::Ushr, None) if bits == 64 => {
                let most = self.b.constant(63);
                let by = self.b.and(y, most);
                self.b.plain(if opcode == Opcode::Ishl { Op::ShlBy(x, by) } else { Op::ShrBy(x, by) })
            }
            (Opcode::Umin, _) => {
                let less = self.b.compare(Cond::Less, x, y);
                self.b.blend(less, x, y)
            }
            _ => return None,
        };
        // What has no more bits than its type has stays as it is.
        Some(Val::Vector(self.b.and(made, ones)))
    }

    /// Bools put together.
    fn masks(&mut self, opcode: Opcode, x: Val, y: Val) -> Option<Val> {
        if !matches!(opcode, Opcode::Band | Opcode::Bor | Opcode::Bxor) {
            return None;
        }
        let mask = |this: &mut Self, val: Val| match val {
            Val::Mask(mask) => Some(mask),
            Val::Vector(id) => match this.b.constant_of(id) {
                Some(bit @ 0..=1) => Some(this.b.certain(bit == 1)),
                _ => None,
            },
            _ => None,
        };
        if !matches!(x, Val::Mask(_)) && !matches!(y, Val::Mask(_)) {
            return None;
        }
        let (x, y) = (mask(self, x)?, mask(self, y)?);
        Some(Val::Mask(match opcode {
            Opcode::Band => self.b.both(x, y),
            Opcode::Bor => self.b.either(x, y),
            _ => self.b.one_of(x, y),
        }))
    }

    /// An address and a constant.
    fn address(&mut self, opcode: Opcode, x: Val, y: Val) -> Option<Val> {
        let constant = |val: Val| match val {
            Val::Vector(id) => self.b.constant_of(id),
            _ => None,
        };
        let is_address = |val: Val| {
            matches!(
                val,
                Val::Frame(_) | Val::Place(_) | Val::Context(_) | Val::Packet(_) | Val::Pointed(..) | Val::Value(..)
            )
        };
        match opcode {
            Opcode::Iadd if is_address(x) => constant(y).map(|more| self.offset(x, more as i64)),
            Opcode::Iadd if is_address(y) => constant(x).map(|more| self.offset(y, more as i64)),
            Opcode::Isub if is_address(x) => constant(y).map(|less| self.offset(x, (less as i64).wrapping_neg())),
            _ => None,
        }
    }

    /// Numbers of at most 32 bits. Who divides has asked whether the divisor is 0.
    fn divide(&mut self, opcode: Opcode, a: cl::Value, b: cl::Value) -> Option<Val> {
        let (a, b) = (self.numbers(a)?, self.numbers(b)?);
        if (self.b.may(a) | self.b.may(b)) > low(32) {
            return None;
        }
        let quotient = self.b.plain(Op::Quotient(a, b));
        Some(Val::Vector(match opcode {
            Opcode::Udiv => quotient,
            _ => {
                let whole = self.b.product(quotient, b);
                let rest = self.b.difference(a, whole);
                // Less than the divisor; of a divisor of 0 nobody uses it.
                let mask = self.b.constant(low(64 - self.b.may(b).leading_zeros()));
                self.b.and(rest, mask)
            }
        }))
    }

    /// The remainder of two words by a CRC's polynomial ([`crate::crc`]).
    pub(super) fn remainder(&mut self, inst: cl::Inst, words: [cl::Value; 2], crc: &Crc) -> Option<()> {
        let (first, second) = (self.numbers(words[0])?, self.numbers(words[1])?);
        let first = self.one_word(first, crc);
        let second = self.b.xor(second, first);
        let remainder = self.one_word(second, crc);
        // It has the polynomial's degree: 32 at most.
        let mask = self.b.constant(low(32));
        let remainder = self.b.and(remainder, mask);
        self.give(inst, Val::Vector(remainder))
    }

    fn one_word(&mut self, word: Id, crc: &Crc) -> Id {
        let multiple = self.b.plain(Op::Carryless(word, crc.inverse(), false));
        self.b.plain(Op::Carryless(multiple, crc.polynomial, true))
    }

    fn compare(&mut self, cond: IntCC, a: cl::Value, b: cl::Value) -> Option<Val> {
        let bits = self.bits(a);
        if let (Val::Found(looked), Val::Vector(zero)) = (self.of(a), self.of(b))
            && self.b.constant_of(zero) == Some(0)
            && cond == IntCC::NotEqual
        {
            return Some(Val::Mask(self.hit(looked)));
        }
        let (a, b) = (self.numbers(a)?, self.numbers(b)?);
        let (cond, turned) = match cond {
            IntCC::Equal => (Cond::Equal, false),
            IntCC::NotEqual => (Cond::NotEqual, false),
            IntCC::UnsignedLessThan => (Cond::Less, false),
            IntCC::UnsignedLessThanOrEqual => (Cond::LessOrEqual, false),
            IntCC::UnsignedGreaterThan => (Cond::Less, true),
            IntCC::UnsignedGreaterThanOrEqual => (Cond::LessOrEqual, true),
            _ if bits != 64 => return None,
            IntCC::SignedLessThan => (Cond::SignedLess, false),
            IntCC::SignedLessThanOrEqual => (Cond::SignedLessOrEqual, false),
            IntCC::SignedGreaterThan => (Cond::SignedLess, true),
            IntCC::SignedGreaterThanOrEqual => (Cond::SignedLessOrEqual, true),
        };
        let (a, b) = if turned { (b, a) } else { (a, b) };
        Some(Val::Mask(self.b.compare(cond, a, b)))
    }
}
