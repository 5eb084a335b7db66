//! Values: numbers of up to 64 bits in one register, wider ones in several, least significant first.
//!
//! A number's unused high bits are 0 at all times, also those of an `int<W>`. A bool is one byte, 0 or 1.

use crate::code::registers::{Regs, mask, regs_for};
use crate::code::stage::StageCode;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use ir::{BinaryOp, Type, UnaryOp};

impl StageCode<'_, '_> {
    /// A constant of 64 bits.
    pub fn number(&mut self, value: u64) -> cl::Value {
        self.b.ins().iconst(I64, value as i64)
    }

    /// A bool that is known.
    pub fn truth(&mut self, value: bool) -> cl::Value {
        self.b.ins().iconst(I8, i64::from(value))
    }

    /// Cuts a register to its low `width` bits.
    pub fn cut(&mut self, value: cl::Value, width: u32) -> cl::Value {
        match width {
            64.. => return value,
            // Without a constant that would have to come from memory.
            32 => {
                let low = self.b.ins().ireduce(I32, value);
                return self.b.ins().uextend(I64, low);
            }
            _ => {}
        }
        let mask = self.number(mask(width));
        self.b.ins().band(value, mask)
    }

    /// A register shifted left by a constant; 64 and more give 0.
    pub fn left(&mut self, value: cl::Value, by: u32) -> cl::Value {
        match by {
            0 => value,
            1..=63 => self.b.ins().ishl_imm_u(value, i64::from(by)),
            _ => self.number(0),
        }
    }

    /// A register shifted right by a constant; 64 and more give 0.
    pub fn right(&mut self, value: cl::Value, by: u32) -> cl::Value {
        match by {
            0 => value,
            1..=63 => self.b.ins().ushr_imm_u(value, i64::from(by)),
            _ => self.number(0),
        }
    }

    /// A bool or number as one register of 64 bits.
    pub fn as_number(&mut self, ty: Type, value: cl::Value) -> cl::Value {
        if ty == Type::Bool { self.b.ins().uextend(I64, value) } else { value }
    }

    /// Bits `lo..lo + width` of a number.
    pub fn bits(&mut self, value: &[cl::Value], lo: u32, width: u32) -> Regs {
        let count = entries::words_for(width);
        let zero = self.number(0);
        let mut out = Regs::new();
        for index in 0..count as u32 {
            let from = lo + index * 64;
            let (word, shift) = ((from / 64) as usize, from % 64);
            let low = value.get(word).copied().unwrap_or(zero);
            let mut part = self.right(low, shift);
            if shift > 0
                && let Some(high) = value.get(word + 1)
                && width > index * 64 + 64 - shift
            {
                let high = self.left(*high, 64 - shift);
                part = self.b.ins().bor(part, high);
            }
            out.push(self.cut(part, (width - index * 64).min(64)));
        }
        out
    }

    /// A number in a greater width, with 0 in front.
    pub fn widened(&mut self, value: &[cl::Value], width: u32) -> Regs {
        let zero = self.number(0);
        (0..entries::words_for(width)).map(|index| value.get(index).copied().unwrap_or(zero)).collect()
    }

    /// `high ++ low`.
    pub fn joined(&mut self, high: &[cl::Value], high_width: u32, low: &[cl::Value], low_width: u32) -> Regs {
        let width = high_width + low_width;
        let mut out = self.widened(low, width);
        if low_width == 0 {
            return self.widened(high, width);
        }
        for (index, part) in high.iter().enumerate() {
            let at = low_width + index as u32 * 64;
            let (word, shift) = ((at / 64) as usize, at % 64);
            if let Some(to) = out.get(word).copied() {
                let moved = self.left(*part, shift);
                out[word] = self.b.ins().bor(to, moved);
            }
            if shift > 0
                && let Some(to) = out.get(word + 1).copied()
            {
                let moved = self.right(*part, 64 - shift);
                out[word + 1] = self.b.ins().bor(to, moved);
            }
        }
        out
    }

    /// A register with the sign of its `width` bits spread to all 64.
    pub fn signed(&mut self, value: cl::Value, width: u32) -> cl::Value {
        if width == 0 || width >= 64 {
            return value;
        }
        let up = self.b.ins().ishl_imm_u(value, i64::from(64 - width));
        self.b.ins().sshr_imm_u(up, i64::from(64 - width))
    }

    /// A value in another type.
    pub fn cast(&mut self, from: Type, to: Type, value: &[cl::Value]) -> Regs {
        if from == to {
            return value.to_vec();
        }
        if to == Type::Bool {
            let low = if from == Type::Bool { value[0] } else { self.cut(value[0], 1) };
            return match from {
                Type::Bool => vec![low],
                _ => vec![self.b.ins().ireduce(I8, low)],
            };
        }
        if from == Type::Bool {
            let number = self.b.ins().uextend(I64, value[0]);
            let number = self.cut(number, to.width());
            return self.widened(&[number], to.width());
        }
        let (old, new) = (from.width(), to.width());
        if new <= old || !from.is_signed() || old == 0 {
            return match new < old {
                true => self.bits(value, 0, new),
                false => self.widened(value, new),
            };
        }
        let last = value.len() - 1;
        let top = self.signed(value[last], old - last as u32 * 64);
        let sign = self.b.ins().sshr_imm_u(top, 63);
        let count = entries::words_for(new);
        let mut out: Regs = value[..last].to_vec();
        out.push(top);
        out.resize(count, sign);
        let cut = self.cut(out[count - 1], new - (count as u32 - 1) * 64);
        out[count - 1] = cut;
        out
    }

    /// A bool's opposite.
    fn opposite(&mut self, a: cl::Value) -> cl::Value {
        self.untested(a).unwrap_or_else(|| self.b.ins().bxor_imm_u(a, 1))
    }

    /// `op a`.
    pub fn unary(&mut self, op: UnaryOp, ty: Type, a: &[cl::Value]) -> Regs {
        let top_width = ty.width() - (a.len() as u32 - 1) * 64;
        match op {
            UnaryOp::LogicalNot => vec![self.opposite(a[0])],
            UnaryOp::Not if ty == Type::Bool => vec![self.opposite(a[0])],
            UnaryOp::Not => {
                let mut out: Regs = a.iter().map(|reg| self.b.ins().bnot(*reg)).collect();
                let last = out.len() - 1;
                out[last] = self.cut(out[last], top_width);
                out
            }
            UnaryOp::Neg => {
                let zero = self.number(0);
                let zeros = vec![zero; a.len()];
                self.binary(BinaryOp::Sub, ty, &zeros, a, ty)
            }
        }
    }

    /// `a op b`; `ty` is the type of `a`, `other` that of `b`.
    pub fn binary(&mut self, op: BinaryOp, ty: Type, a: &[cl::Value], b: &[cl::Value], other: Type) -> Regs {
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
                vec![self.cut(product, ty.width())]
            }
            Shl | Shr => {
                // An amount of several words is great if a high one isn't 0.
                let mut amount = b[0];
                if b.len() > 1 {
                    let high = b[1..].iter().copied().reduce(|x, y| self.b.ins().bor(x, y)).unwrap_or(amount);
                    let most = self.number(u64::MAX);
                    amount = self.b.ins().select(high, most, amount);
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
            BinaryOp::And => self.both_tested(a, b, true),
            BinaryOp::Or => self.both_tested(a, b, false),
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
        let differences: Regs = a.iter().zip(b).map(|(a, b)| self.b.ins().bxor(*a, *b)).collect();
        let first = differences[0];
        let all = differences[1..].iter().fold(first, |x, y| self.b.ins().bor(x, *y));
        let zero = self.number(0);
        self.b.ins().icmp(if equal { IntCC::Equal } else { IntCC::NotEqual }, all, zero)
    }

    fn compare(&mut self, op: BinaryOp, ty: Type, a: cl::Value, b: cl::Value) -> cl::Value {
        use IntCC::*;
        let (a, b, order) = if ty.is_signed() {
            let order = [SignedLessThan, SignedGreaterThan, SignedGreaterThanOrEqual, SignedLessThanOrEqual];
            (self.signed(a, ty.width()), self.signed(b, ty.width()), order)
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

    fn less(&mut self, ty: Type, a: &[cl::Value], b: &[cl::Value]) -> cl::Value {
        let last = a.len() - 1;
        let (mut a_top, mut b_top) = (a[last], b[last]);
        let mut order = IntCC::UnsignedLessThan;
        if ty.is_signed() {
            let width = ty.width() - last as u32 * 64;
            (a_top, b_top) = (self.signed(a_top, width), self.signed(b_top, width));
            order = IntCC::SignedLessThan;
        }
        let mut result: Option<cl::Value> = None;
        for (a, b) in a[..last].iter().zip(&b[..last]) {
            let less = self.b.ins().icmp(IntCC::UnsignedLessThan, *a, *b);
            result = Some(match result {
                None => less,
                Some(below) => {
                    let same = self.b.ins().icmp(IntCC::Equal, *a, *b);
                    self.b.ins().select(same, below, less)
                }
            });
        }
        let less = self.b.ins().icmp(order, a_top, b_top);
        match result {
            None => less,
            Some(below) => {
                let same = self.b.ins().icmp(IntCC::Equal, a_top, b_top);
                self.b.ins().select(same, below, less)
            }
        }
    }

    fn add_or_sub(&mut self, op: BinaryOp, ty: Type, a: &[cl::Value], b: &[cl::Value]) -> Regs {
        let mut out = Regs::new();
        let mut carry: Option<cl::Value> = None;
        let last = a.len() - 1;
        for (index, (a, b)) in a.iter().zip(b).enumerate() {
            let add = op == BinaryOp::Add;
            let first = if add { self.b.ins().iadd(*a, *b) } else { self.b.ins().isub(*a, *b) };
            let mut sum = first;
            if let Some(carry) = carry {
                sum = if add { self.b.ins().iadd(first, carry) } else { self.b.ins().isub(first, carry) };
            }
            if index < last {
                let over = match add {
                    true => self.b.ins().icmp(IntCC::UnsignedLessThan, first, *a),
                    false => self.b.ins().icmp(IntCC::UnsignedLessThan, *a, *b),
                };
                let over = match carry {
                    None => over,
                    Some(_) => {
                        let again = match add {
                            true => self.b.ins().icmp(IntCC::UnsignedLessThan, sum, first),
                            false => self.b.ins().icmp(IntCC::UnsignedGreaterThan, sum, first),
                        };
                        self.b.ins().bor(over, again)
                    }
                };
                carry = Some(self.b.ins().uextend(I64, over));
            }
            out.push(sum);
        }
        out[last] = self.cut(out[last], ty.width() - last as u32 * 64);
        out
    }

    fn shift(&mut self, op: BinaryOp, ty: Type, a: cl::Value, amount: cl::Value) -> cl::Value {
        let width = ty.width();
        let limit = self.number(64);
        let small = self.b.ins().icmp(IntCC::UnsignedLessThan, amount, limit);
        match op {
            BinaryOp::Shl => {
                let shifted = self.b.ins().ishl(a, amount);
                let shifted = self.cut(shifted, width);
                let zero = self.number(0);
                self.b.ins().select(small, shifted, zero)
            }
            _ if ty.is_signed() => {
                let wide = self.signed(a, width);
                let most = self.number(63);
                let amount = self.b.ins().select(small, amount, most);
                let shifted = self.b.ins().sshr(wide, amount);
                self.cut(shifted, width)
            }
            _ => {
                let shifted = self.b.ins().ushr(a, amount);
                let zero = self.number(0);
                self.b.ins().select(small, shifted, zero)
            }
        }
    }

    fn divide(&mut self, op: BinaryOp, a: cl::Value, b: cl::Value) -> cl::Value {
        let (zero, one) = (self.number(0), self.number(1));
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
            let zero = self.number(0);
            return self.b.ins().select(below, zero, rest);
        }
        let most = self.number(mask(ty.width()));
        let sum = self.b.ins().iadd(a, b);
        let over = match ty.width() {
            64 => self.b.ins().icmp(IntCC::UnsignedLessThan, sum, a),
            _ => self.b.ins().icmp(IntCC::UnsignedGreaterThan, sum, most),
        };
        self.b.ins().select(over, most, sum)
    }

    /// What is rare is computed by a function of the engine.
    fn arithmetic_call(&mut self, op: BinaryOp, ty: Type, a: &[cl::Value], b: &[cl::Value], other: Type) -> Regs {
        let count = a.len();
        self.store_area(0, a);
        self.store_area(count, b);
        let operation = self.number(op as u64);
        let kind = self.number(u64::from(ty.width()) | u64::from(ty.is_signed()) << 32);
        let other = self.number(u64::from(other.width()));
        let area = self.area();
        self.call_helper(self.c.helpers.arithmetic, &[operation, kind, other, area], false);
        (0..regs_for(ty)).map(|index| self.load_area(index)).collect()
    }
}
