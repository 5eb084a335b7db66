//! Values: numbers of up to 64 bits in one register, wider ones in several, least significant
//! first.
//!
//! A number's unused high bits are always 0, also those of an `int<W>`. A bool is one byte, 0 or 1.

use crate::code::registers::{ValueRegs, low_bits_mask, regs_for};
use crate::code::stage::StageBuilder;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use ir::{BinaryOp, Type, UnaryOp};

impl StageBuilder<'_, '_> {
    /// Emits a constant of 64 bits.
    pub fn iconst_u64(&mut self, value: u64) -> cl::Value {
        self.b.ins().iconst(I64, value as i64)
    }

    /// Emits a constant bool.
    pub fn iconst_bool(&mut self, value: bool) -> cl::Value {
        self.b.ins().iconst(I8, i64::from(value))
    }

    /// Masks a register to its low `width` bits.
    pub fn mask_to_width(&mut self, value: cl::Value, width: u32) -> cl::Value {
        match width {
            64.. => return value,
            // Avoids a constant that would be loaded from memory.
            32 => {
                let low = self.b.ins().ireduce(I32, value);
                return self.b.ins().uextend(I64, low);
            }
            _ => {}
        }
        let mask = self.iconst_u64(low_bits_mask(width));
        self.b.ins().band(value, mask)
    }

    /// Shifts a register left by a constant; 64 and more yield 0.
    pub fn shl_imm(&mut self, value: cl::Value, by: u32) -> cl::Value {
        match by {
            0 => value,
            1..=63 => self.b.ins().ishl_imm_u(value, i64::from(by)),
            _ => self.iconst_u64(0),
        }
    }

    /// Shifts a register right by a constant; 64 and more yield 0.
    pub fn shr_imm(&mut self, value: cl::Value, by: u32) -> cl::Value {
        match by {
            0 => value,
            1..=63 => self.b.ins().ushr_imm_u(value, i64::from(by)),
            _ => self.iconst_u64(0),
        }
    }

    /// Converts a bool or number to one 64-bit register.
    pub fn as_number(&mut self, ty: Type, value: cl::Value) -> cl::Value {
        if ty == Type::Bool { self.b.ins().uextend(I64, value) } else { value }
    }

    /// Extracts bits `lo..lo + width` of a number.
    /// Registers hold 64 bits each, the low ones first.
    pub fn bits(&mut self, value: &[cl::Value], lo: u32, width: u32) -> ValueRegs {
        let count = entries::words_for(width);
        let zero = self.iconst_u64(0);
        let mut regs = ValueRegs::new();
        for index in 0..count as u32 {
            let start = lo + index * 64;
            let (word, shift) = ((start / 64) as usize, start % 64);
            let this_word = value.get(word).copied().unwrap_or(zero);
            let mut part = self.shr_imm(this_word, shift);
            if shift > 0
                && let Some(next_word) = value.get(word + 1)
                && width > index * 64 + 64 - shift
            {
                let next_word = self.shl_imm(*next_word, 64 - shift);
                part = self.b.ins().bor(part, next_word);
            }
            regs.push(self.mask_to_width(part, (width - index * 64).min(64)));
        }
        regs
    }

    /// Zero-extends a number to a greater width.
    pub fn zero_extend_regs(&mut self, value: &[cl::Value], width: u32) -> ValueRegs {
        let zero = self.iconst_u64(0);
        (0..entries::words_for(width)).map(|index| value.get(index).copied().unwrap_or(zero)).collect()
    }

    /// Concatenates: `high ++ low`, with their widths in bits.
    pub fn concat_regs(&mut self, high: &[cl::Value], high_width: u32, low: &[cl::Value], low_width: u32) -> ValueRegs {
        let width = high_width + low_width;
        let mut regs = self.zero_extend_regs(low, width);
        if low_width == 0 {
            return self.zero_extend_regs(high, width);
        }
        for (index, part) in high.iter().enumerate() {
            let bit = low_width + index as u32 * 64;
            let (word, shift) = ((bit / 64) as usize, bit % 64);
            if let Some(word_so_far) = regs.get(word).copied() {
                let shifted = self.shl_imm(*part, shift);
                regs[word] = self.b.ins().bor(word_so_far, shifted);
            }
            if shift > 0
                && let Some(word_so_far) = regs.get(word + 1).copied()
            {
                let shifted = self.shr_imm(*part, 64 - shift);
                regs[word + 1] = self.b.ins().bor(word_so_far, shifted);
            }
        }
        regs
    }

    /// Sign-extends the low `width` bits of a register to 64.
    pub fn sign_extend(&mut self, value: cl::Value, width: u32) -> cl::Value {
        if width == 0 || width >= 64 {
            return value;
        }
        let up = self.b.ins().ishl_imm_u(value, i64::from(64 - width));
        self.b.ins().sshr_imm_u(up, i64::from(64 - width))
    }

    /// Casts a value to another type: to `bool` by its lowest bit, from a signed type by sign
    /// extension, otherwise by truncation or zero extension.
    pub fn cast(&mut self, from: Type, to: Type, value: &[cl::Value]) -> ValueRegs {
        if from == to {
            return value.to_vec();
        }
        if to == Type::Bool {
            let low = if from == Type::Bool { value[0] } else { self.mask_to_width(value[0], 1) };
            return match from {
                Type::Bool => vec![low],
                _ => vec![self.b.ins().ireduce(I8, low)],
            };
        }
        if from == Type::Bool {
            let number = self.b.ins().uextend(I64, value[0]);
            let number = self.mask_to_width(number, to.width());
            return self.zero_extend_regs(&[number], to.width());
        }
        let (old_width, new_width) = (from.width(), to.width());
        if new_width <= old_width || !from.is_signed() || old_width == 0 {
            return match new_width < old_width {
                true => self.bits(value, 0, new_width),
                false => self.zero_extend_regs(value, new_width),
            };
        }
        let last = value.len() - 1;
        let top = self.sign_extend(value[last], old_width - last as u32 * 64);
        let sign = self.b.ins().sshr_imm_u(top, 63);
        let count = entries::words_for(new_width);
        let mut regs: ValueRegs = value[..last].to_vec();
        regs.push(top);
        regs.resize(count, sign);
        let masked = self.mask_to_width(regs[count - 1], new_width - (count as u32 - 1) * 64);
        regs[count - 1] = masked;
        regs
    }

    /// Negates a bool.
    fn negate_bool(&mut self, a: cl::Value) -> cl::Value {
        self.negate_test(a).unwrap_or_else(|| self.b.ins().bxor_imm_u(a, 1))
    }

    /// Emits `op a`.
    pub fn unary(&mut self, op: UnaryOp, ty: Type, a: &[cl::Value]) -> ValueRegs {
        let top_width = ty.width() - (a.len() as u32 - 1) * 64;
        match op {
            UnaryOp::LogicalNot => vec![self.negate_bool(a[0])],
            UnaryOp::Not if ty == Type::Bool => vec![self.negate_bool(a[0])],
            UnaryOp::Not => {
                let mut out: ValueRegs = a.iter().map(|reg| self.b.ins().bnot(*reg)).collect();
                let last = out.len() - 1;
                out[last] = self.mask_to_width(out[last], top_width);
                out
            }
            UnaryOp::Neg => {
                let zero = self.iconst_u64(0);
                let zeros = vec![zero; a.len()];
                self.binary(BinaryOp::Sub, ty, &zeros, a, ty)
            }
        }
    }

    /// Emits `a op b`; `ty` is the type of `a`, `other` that of `b`.
    pub fn binary(&mut self, op: BinaryOp, ty: Type, a: &[cl::Value], b: &[cl::Value], other: Type) -> ValueRegs {
        use BinaryOp::*;
        match op {
            And | Or | Xor => a.iter().zip(b).map(|(a, b)| self.bitwise(op, *a, *b)).collect(),
            Eq | Ne => vec![self.equal(op == Eq, a, b)],
            Lt | Gt | Ge | Le if a.len() == 1 => vec![self.compare(op, ty, a[0], b[0])],
            Lt => vec![self.less(ty, a, b)],
            Gt => vec![self.less(ty, b, a)],
            Ge => {
                let less = self.less(ty, a, b);
                vec![self.b.ins().bxor_imm_u(less, 1)]
            }
            Le => {
                let less = self.less(ty, b, a);
                vec![self.b.ins().bxor_imm_u(less, 1)]
            }
            Add | Sub => self.add_or_sub(op, ty, a, b),
            _ if a.len() > 1 => self.arithmetic_call(op, ty, a, b, other),
            Mul => {
                let product = self.b.ins().imul(a[0], b[0]);
                vec![self.mask_to_width(product, ty.width())]
            }
            Shl | Shr => {
                // An amount of several words is out of range if a high word is not 0.
                let mut amount = b[0];
                if b.len() > 1 {
                    let high = b[1..].iter().copied().reduce(|x, y| self.b.ins().bor(x, y)).unwrap_or(amount);
                    let too_large = self.iconst_u64(u64::MAX);
                    amount = self.b.ins().select(high, too_large, amount);
                }
                vec![self.shift(op, ty, a[0], amount)]
            }
            Div | Mod | AddSat | SubSat if ty.is_signed() => self.arithmetic_call(op, ty, a, b, other),
            Div | Mod => vec![self.divide(op, a[0], b[0])],
            _ => vec![self.saturate(op, ty, a[0], b[0])],
        }
    }

    fn bitwise(&mut self, op: BinaryOp, a: cl::Value, b: cl::Value) -> cl::Value {
        let both = match op {
            BinaryOp::And => self.merge_tests(a, b, true),
            BinaryOp::Or => self.merge_tests(a, b, false),
            _ => None,
        };
        if let Some(both) = both {
            return both;
        }
        match op {
            BinaryOp::And => self.b.ins().band(a, b),
            BinaryOp::Or => self.b.ins().bor(a, b),
            _ => self.b.ins().bxor(a, b),
        }
    }

    fn equal(&mut self, equal: bool, a: &[cl::Value], b: &[cl::Value]) -> cl::Value {
        if let ([a], [b]) = (a, b) {
            for (value, constant) in [(*a, *b), (*b, *a)] {
                if let Some(constant) = self.constant_of(constant) {
                    return self.is_constant(value, constant, equal);
                }
            }
            return self.b.ins().icmp(if equal { IntCC::Equal } else { IntCC::NotEqual }, *a, *b);
        }
        let differences: ValueRegs = a.iter().zip(b).map(|(a, b)| self.b.ins().bxor(*a, *b)).collect();
        let first = differences[0];
        let all = differences[1..].iter().fold(first, |x, y| self.b.ins().bor(x, *y));
        let zero = self.iconst_u64(0);
        self.b.ins().icmp(if equal { IntCC::Equal } else { IntCC::NotEqual }, all, zero)
    }

    fn compare(&mut self, op: BinaryOp, ty: Type, a: cl::Value, b: cl::Value) -> cl::Value {
        use IntCC::*;
        let (a, b, order) = if ty.is_signed() {
            let order = [SignedLessThan, SignedGreaterThan, SignedGreaterThanOrEqual, SignedLessThanOrEqual];
            (self.sign_extend(a, ty.width()), self.sign_extend(b, ty.width()), order)
        } else {
            (a, b, [UnsignedLessThan, UnsignedGreaterThan, UnsignedGreaterThanOrEqual, UnsignedLessThanOrEqual])
        };
        let order = match op {
            BinaryOp::Lt => order[0],
            BinaryOp::Gt => order[1],
            BinaryOp::Ge => order[2],
            _ => order[3],
        };
        self.b.ins().icmp(order, a, b)
    }

    /// Emits `a < b` for numbers of any width and returns a bool. Words are compared from the
    /// lowest up: a higher word decides unless it is equal.
    fn less(&mut self, ty: Type, a: &[cl::Value], b: &[cl::Value]) -> cl::Value {
        let last = a.len() - 1;
        let (mut a_top, mut b_top) = (a[last], b[last]);
        let mut order = IntCC::UnsignedLessThan;
        if ty.is_signed() {
            let width = ty.width() - last as u32 * 64;
            (a_top, b_top) = (self.sign_extend(a_top, width), self.sign_extend(b_top, width));
            order = IntCC::SignedLessThan;
        }
        let mut result: Option<cl::Value> = None;
        for (a, b) in a[..last].iter().zip(&b[..last]) {
            let less = self.b.ins().icmp(IntCC::UnsignedLessThan, *a, *b);
            result = Some(match result {
                None => less,
                Some(lower_words) => {
                    let is_equal = self.b.ins().icmp(IntCC::Equal, *a, *b);
                    self.b.ins().select(is_equal, lower_words, less)
                }
            });
        }
        let less = self.b.ins().icmp(order, a_top, b_top);
        match result {
            None => less,
            Some(lower_words) => {
                let is_equal = self.b.ins().icmp(IntCC::Equal, a_top, b_top);
                self.b.ins().select(is_equal, lower_words, less)
            }
        }
    }

    /// Emits the sum or difference of numbers of several words, with the carry or borrow from word
    /// to word. The bits above the type's width are cleared.
    fn add_or_sub(&mut self, op: BinaryOp, ty: Type, a: &[cl::Value], b: &[cl::Value]) -> ValueRegs {
        let mut regs = ValueRegs::new();
        let mut carry: Option<cl::Value> = None;
        let last = a.len() - 1;
        for (index, (a, b)) in a.iter().zip(b).enumerate() {
            let is_add = op == BinaryOp::Add;
            let partial = if is_add { self.b.ins().iadd(*a, *b) } else { self.b.ins().isub(*a, *b) };
            let mut sum = partial;
            if let Some(carry) = carry {
                sum = if is_add { self.b.ins().iadd(partial, carry) } else { self.b.ins().isub(partial, carry) };
            }
            if index < last {
                let carries = match is_add {
                    true => self.b.ins().icmp(IntCC::UnsignedLessThan, partial, *a),
                    false => self.b.ins().icmp(IntCC::UnsignedLessThan, *a, *b),
                };
                let carries = match carry {
                    None => carries,
                    Some(_) => {
                        let carries_again = match is_add {
                            true => self.b.ins().icmp(IntCC::UnsignedLessThan, sum, partial),
                            false => self.b.ins().icmp(IntCC::UnsignedGreaterThan, sum, partial),
                        };
                        self.b.ins().bor(carries, carries_again)
                    }
                };
                carry = Some(self.b.ins().uextend(I64, carries));
            }
            regs.push(sum);
        }
        regs[last] = self.mask_to_width(regs[last], ty.width() - last as u32 * 64);
        regs
    }

    /// Emits a shift of a number in one register. The amount is in bits and may be of any size: 64
    /// and more shift out all bits, which the machine's instruction would not do.
    fn shift(&mut self, op: BinaryOp, ty: Type, a: cl::Value, amount: cl::Value) -> cl::Value {
        let width = ty.width();
        let limit = self.iconst_u64(64);
        let is_in_range = self.b.ins().icmp(IntCC::UnsignedLessThan, amount, limit);
        match op {
            BinaryOp::Shl => {
                let shifted = self.b.ins().ishl(a, amount);
                let shifted = self.mask_to_width(shifted, width);
                let zero = self.iconst_u64(0);
                self.b.ins().select(is_in_range, shifted, zero)
            }
            _ if ty.is_signed() => {
                let wide = self.sign_extend(a, width);
                let max_shift = self.iconst_u64(63);
                let amount = self.b.ins().select(is_in_range, amount, max_shift);
                let shifted = self.b.ins().sshr(wide, amount);
                self.mask_to_width(shifted, width)
            }
            _ => {
                let shifted = self.b.ins().ushr(a, amount);
                let zero = self.iconst_u64(0);
                self.b.ins().select(is_in_range, shifted, zero)
            }
        }
    }

    fn divide(&mut self, op: BinaryOp, a: cl::Value, b: cl::Value) -> cl::Value {
        let (zero, one) = (self.iconst_u64(0), self.iconst_u64(1));
        let by_zero = self.b.ins().icmp(IntCC::Equal, b, zero);
        let divisor = self.b.ins().select(by_zero, one, b);
        if op == BinaryOp::Div {
            let quotient = self.b.ins().udiv(a, divisor);
            self.b.ins().select(by_zero, zero, quotient)
        } else {
            let rest = self.b.ins().urem(a, divisor);
            self.b.ins().select(by_zero, a, rest)
        }
    }

    fn saturate(&mut self, op: BinaryOp, ty: Type, a: cl::Value, b: cl::Value) -> cl::Value {
        if op == BinaryOp::SubSat {
            let rest = self.b.ins().isub(a, b);
            let below = self.b.ins().icmp(IntCC::UnsignedLessThan, a, b);
            let zero = self.iconst_u64(0);
            return self.b.ins().select(below, zero, rest);
        }
        let most = self.iconst_u64(low_bits_mask(ty.width()));
        let sum = self.b.ins().iadd(a, b);
        let over = match ty.width() {
            64 => self.b.ins().icmp(IntCC::UnsignedLessThan, sum, a),
            _ => self.b.ins().icmp(IntCC::UnsignedGreaterThan, sum, most),
        };
        self.b.ins().select(over, most, sum)
    }

    /// Calls a function of the engine for a rare operation.
    fn arithmetic_call(&mut self, op: BinaryOp, ty: Type, a: &[cl::Value], b: &[cl::Value], other: Type) -> ValueRegs {
        let count = a.len();
        self.store_call_area(0, a);
        self.store_call_area(count, b);
        let operation = self.iconst_u64(op as u64);
        let kind = self.iconst_u64(u64::from(ty.width()) | u64::from(ty.is_signed()) << 32);
        let other = self.iconst_u64(u64::from(other.width()));
        let area = self.call_area();
        self.call_helper(self.c.helpers.arithmetic, &[operation, kind, other, area], false);
        (0..regs_for(ty)).map(|index| self.load_call_area(index)).collect()
    }
}
