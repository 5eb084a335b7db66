//! Symbolic execution of computing instructions: the origin of each result bit.

use super::NotRewritable;
use super::form::ChecksumCheck;
use super::symbolic_executor::SymbolicExecutor;
use super::symbolic_value::{
    CONST, FIXED, LinearLength, MAX_ACTION_DATA, SymbolicSum, SymbolicValue, is_constant, symbolic_from_bits,
};
use interp::block_hook::{BlockStepper, InstIndex, Op, StepResult, WordIndex};

/// Operand: origin of its bits, and value.
pub type SymbolicOperand = (SymbolicValue, u64);

/// Comparison operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ComparisonOp {
    Equal,
    Less,
    LessOrEqual,
}

fn is_const(sym: &SymbolicValue) -> bool {
    matches!(sym, SymbolicValue::Const | SymbolicValue::Fixed | SymbolicValue::ActionData(_))
}

/// Returns whether the number has the form 2^n - 1.
fn is_low_mask(mask: u64) -> bool {
    mask & mask.wrapping_add(1) == 0
}

impl SymbolicExecutor {
    /// Returns the origin and value of a slot; the origin is a constant if all of its bits are
    /// constrained.
    fn tracked_operand(&self, stepper: &BlockStepper<'_>, slot: WordIndex) -> SymbolicOperand {
        (self.origin_of(slot), stepper.reg_words()[slot as usize])
    }

    /// Returns an operand with the origin of each bit, even if all bits are constrained.
    pub fn bitwise_operand(&self, stepper: &BlockStepper<'_>, slot: WordIndex) -> SymbolicOperand {
        (self.raw_origin(slot), stepper.reg_words()[slot as usize])
    }

    /// Executes a computing instruction and sets the origin of its result. An instruction without a
    /// rule constrains its operands, and its result is a constant of the flow. `block`: index of
    /// the block in the program.
    pub fn execute_compute(
        &mut self,
        stepper: &mut BlockStepper<'_>,
        block: usize,
        pc: InstIndex,
        op: Op,
    ) -> StepResult {
        if let Op::Wide { index } = op {
            return self.execute_wide(stepper, block, pc, index);
        }
        if let Some(slots) = self.slot_move(stepper, op) {
            return self.execute_move(stepper, pc, slots);
        }
        let result = self.single_slot_result(stepper, op);
        // A field write that is no move goes to an invalid header and has no effect.
        if result.is_none() && !matches!(op, Op::Field1 { .. } | Op::FieldN { .. }) {
            self.execute_opaque(block, pc);
        }
        let step = stepper.step(pc);
        if let Some((destination, origin)) = result {
            self.set_origin(destination, origin);
        }
        step
    }

    /// Returns destination, source and number of slots of a move. `None` for other instructions,
    /// and for writes to fields of invalid headers.
    fn slot_move(&mut self, stepper: &BlockStepper<'_>, op: Op) -> Option<(WordIndex, WordIndex, u32)> {
        let mut selected = |c: WordIndex, a: WordIndex, b: WordIndex| {
            self.constrain_slot_bits(c, u64::MAX);
            if stepper.reg_words()[c as usize] != 0 { a } else { b }
        };
        match op {
            Op::Mov1 { d, a } => Some((d, a, 1)),
            Op::MovN { d, a, n } => Some((d, a, n)),
            Op::Field1 { h, d, a } => stepper.header_validity()[h as usize].then_some((d, a, 1)),
            Op::FieldN { h, d, a, n } => stepper.header_validity()[h as usize].then_some((d, a, n)),
            Op::Select1 { d, c, a, b } => Some((d, selected(c, a, b), 1)),
            Op::SelectN { d, c, a, b, n } => Some((d, selected(c, a, b), n)),
            _ => None,
        }
    }

    /// Returns destination and origin of a single-slot result; `None` if no rule exists. In an
    /// operation, `d` is the destination slot, and `a` and `b` are operand slots.
    fn single_slot_result(&mut self, stepper: &BlockStepper<'_>, op: Op) -> Option<(WordIndex, SymbolicValue)> {
        // Reads both operands by the method `how`.
        macro_rules! both {
            ($how:ident, $a:expr, $b:expr) => {
                (self.$how(stepper, $a), self.$how(stepper, $b))
            };
        }
        Some(match op {
            Op::Add1 { d, a, b, mask } => {
                let (a, b) = both!(tracked_operand, a, b);
                (d, self.execute_sum(a, b, mask, false))
            }
            Op::Sub1 { d, a, b, mask } => {
                let (a, b) = both!(tracked_operand, a, b);
                (d, self.execute_sum(a, b, mask, true))
            }
            Op::And1 { d, a, b } => {
                let (a, b) = both!(bitwise_operand, a, b);
                (d, self.execute_and(a, b))
            }
            Op::Or1 { d, a, b } => {
                let (a, b) = both!(bitwise_operand, a, b);
                (d, self.execute_or(a, b, true))
            }
            Op::Xor1 { d, a, b } => {
                let (a, b) = both!(bitwise_operand, a, b);
                (d, self.execute_or(a, b, false))
            }
            Op::Mask1 { d, a, mask } => {
                let a = self.bitwise_operand(stepper, a);
                (d, self.execute_and(a, (SymbolicValue::Fixed, mask)))
            }
            Op::Slice1 { d, a, lo, mask } => {
                let a = self.bitwise_operand(stepper, a);
                let shifted = self.shift_operand(a, -(lo as i32));
                (d, self.execute_and(shifted, (SymbolicValue::Fixed, mask)))
            }
            Op::Concat1 { d, a, b, shift } => {
                let (a, b) = both!(bitwise_operand, a, b);
                let high = self.shift_operand(a, shift as i32);
                let low = self.clear_high_bits(b, shift);
                (d, self.execute_or(high, low, true))
            }
            // The amount of a shift decides the origin of each result bit, so it is constrained.
            Op::Shl1 { d, a, b, mask } => {
                self.constrain_value(b);
                let (a, amount) = (self.bitwise_operand(stepper, a), stepper.reg_words()[b as usize]);
                let shifted = self.shift_operand(a, amount.min(64) as i32);
                (d, self.execute_and(shifted, (SymbolicValue::Fixed, mask)))
            }
            Op::Shr1 { d, a, b } => {
                self.constrain_value(b);
                let (a, amount) = (self.bitwise_operand(stepper, a), stepper.reg_words()[b as usize]);
                (d, self.shift_operand(a, -(amount.min(64) as i32)).0)
            }
            Op::Eq1 { d, a, b } | Op::Ne1 { d, a, b } => {
                let (a, b) = both!(tracked_operand, a, b);
                (d, self.execute_compare(a, b, ComparisonOp::Equal))
            }
            Op::Lt1 { d, a, b } => {
                let (a, b) = both!(tracked_operand, a, b);
                (d, self.execute_compare(a, b, ComparisonOp::Less))
            }
            Op::Le1 { d, a, b } => {
                let (a, b) = both!(tracked_operand, a, b);
                (d, self.execute_compare(a, b, ComparisonOp::LessOrEqual))
            }
            // The path determines which headers are valid.
            Op::IsValid { d, .. } => (d, SymbolicValue::Fixed),
            _ => return None,
        })
    }

    /// Returns origin and current value of bit `index`, counted from the lowest bit of the value in
    /// slot `first`. A value that has no origin by bits is constrained.
    pub fn bit_origin(&mut self, stepper: &BlockStepper<'_>, first: WordIndex, index: u32) -> (u16, bool) {
        let slot = first + index / 64;
        let value = stepper.reg_words()[slot as usize] >> (index % 64) & 1 == 1;
        let bit = match self.raw_origin(slot) {
            SymbolicValue::Bits(bits) => bits[(index % 64) as usize],
            SymbolicValue::Fixed => FIXED,
            other => {
                self.constraints.constrain_slot_bits(&other, u64::MAX);
                CONST
            }
        };
        (bit, value)
    }

    /// Executes a move of `count` slots with the origins of their bits. The origins are read before
    /// the step, because the two ranges can overlap.
    fn execute_move(
        &mut self,
        stepper: &mut BlockStepper<'_>,
        pc: InstIndex,
        (to, from, count): (WordIndex, WordIndex, u32),
    ) -> StepResult {
        if count == 1 {
            let (sym, step) = (self.raw_origin(from), stepper.step(pc));
            self.set_origin(to, sym);
            return step;
        }
        let syms: Vec<SymbolicValue> = (from..from + count).map(|slot| self.raw_origin(slot)).collect();
        let step = stepper.step(pc);
        syms.into_iter().enumerate().for_each(|(at, sym)| self.set_origin(to + at as WordIndex, sym));
        step
    }

    /// Returns the live operand, if one exists: the result is live, without a constraint yet.
    fn live_operand(a: &SymbolicOperand, b: &SymbolicOperand) -> Option<SymbolicValue> {
        [a, b].into_iter().find(|operand| matches!(operand.0, SymbolicValue::Live(_))).map(|operand| operand.0.clone())
    }

    /// Records that the path's form depends on the slot's value, unless the program determines the
    /// value.
    pub fn constrain_value(&mut self, slot: WordIndex) {
        self.constrain_slot_bits(slot, u64::MAX);
        let sym = self.origin_of(slot);
        self.constraints.note_value_dependence(&sym);
    }

    /// Clears the bits from `shift` on.
    fn clear_high_bits(&mut self, a: SymbolicOperand, shift: u32) -> SymbolicOperand {
        if !matches!(a.0, SymbolicValue::Const | SymbolicValue::Bits(_)) {
            return a;
        }
        let mut bits = self.constraints.bit_origins(&a.0);
        bits[(shift as usize).min(64)..].fill(FIXED);
        (SymbolicValue::Bits(Box::new(bits)), a.1)
    }

    /// Returns the result of two constants (constant), or of a live operand (live).
    fn known_result(a: &SymbolicOperand, b: &SymbolicOperand) -> Option<SymbolicValue> {
        let constant = match (&a.0, &b.0) {
            (SymbolicValue::Fixed, SymbolicValue::Fixed) => Some(SymbolicValue::Fixed),
            (one, other) if is_const(one) && is_const(other) => Some(SymbolicValue::Const),
            _ => None,
        };
        Self::live_operand(a, b).or(constant)
    }

    /// Constrains both operands. Returns the origin of their result, a constant of the flow.
    fn constrain_both(&mut self, a: &SymbolicOperand, b: &SymbolicOperand) -> SymbolicValue {
        self.constraints.constrain_slot_bits(&a.0, u64::MAX);
        self.constraints.constrain_slot_bits(&b.0, u64::MAX);
        SymbolicValue::Const
    }

    /// Executes an addition, or with `is_subtraction` a subtraction, under the mask of the result's
    /// width. A length plus or minus a constant stays a length. The difference of two lengths is a
    /// constant. Other operands are constrained.
    fn execute_sum(
        &mut self,
        a: SymbolicOperand,
        b: SymbolicOperand,
        mask: u64,
        is_subtraction: bool,
    ) -> SymbolicValue {
        if let Some(result) = Self::known_result(&a, &b) {
            return result;
        }
        let value = if is_subtraction { a.1.wrapping_sub(b.1) } else { a.1.wrapping_add(b.1) } & mask;
        let length = match (is_const(&a.0), is_const(&b.0)) {
            (false, true) => self.constraints.as_length(&a.0, a.1).map(|length| (length, &b.0)),
            (true, false) if !is_subtraction => self.constraints.as_length(&b.0, b.1).map(|length| (length, &a.0)),
            (false, false) if is_subtraction => {
                let both = self.constraints.as_length(&a.0, a.1).zip(self.constraints.as_length(&b.0, b.1));
                if both.is_some() {
                    return SymbolicValue::Const;
                }
                None
            }
            _ => None,
        };
        let Some((length, added)) = length else { return self.constrain_both(&a, &b) };
        self.constraints.note_value_dependence(added);
        self.length_value(length.field, value, mask)
    }

    /// Returns a value that is linear in the packet's length, and is `value` for this packet.
    /// `field`: offset of the end-relative field that it comes from, if any. Constrains the length
    /// so that the value stays in `0..=max`.
    fn length_value(&mut self, field: Option<u16>, value: u64, max: u64) -> SymbolicValue {
        let offset = value as i64 - self.constraints.length as i64;
        // Bounds are signed, and a value of more than 40 bits is no length.
        let max = max.min(1 << 40) as i64;
        if value > 1 << 40 {
            self.constraints.constrain_length();
            return SymbolicValue::Const;
        }
        let length = self.constraints.length_from(field, offset);
        self.constraints.constrain_within(length, max);
        SymbolicValue::Length(length)
    }

    /// Returns the origin of a bitwise `and`. A mask of low bits that does not change a length
    /// keeps it, and a mask that covers 16 bits keeps a sum. A bit that a constant clears is a
    /// constant.
    pub fn execute_and(&mut self, a: SymbolicOperand, b: SymbolicOperand) -> SymbolicValue {
        if let Some(live) = Self::live_operand(&a, &b) {
            return live;
        }
        // A length or a sum is the first operand from here on.
        let (a, b) = if matches!(b.0, SymbolicValue::Length(_) | SymbolicValue::Sum(..)) { (b, a) } else { (a, b) };
        match (&a.0, &self.constraints.simplified(b.0.clone())) {
            (SymbolicValue::Fixed, SymbolicValue::Fixed) => return SymbolicValue::Fixed,
            (SymbolicValue::Length(length), mask) if is_const(mask) && is_low_mask(b.1) && a.1 & b.1 == a.1 => {
                self.constraints.note_value_dependence(mask);
                return self.length_value(length.field, a.1, b.1);
            }
            (SymbolicValue::Sum(..), mask) if is_const(mask) && b.1 & 0xffff == 0xffff => {
                self.constraints.note_value_dependence(mask);
                return a.0;
            }
            _ => {}
        }
        // A 0 decides the result, and a 1 passes the bit of the other operand on.
        self.execute_bitwise(a, b, |a, b| match (a, b) {
            ((FIXED, false), _) | (_, (FIXED, false)) => Some(FIXED),
            ((FIXED, true), (bit, _)) | ((bit, _), (FIXED, true)) => Some(bit),
            ((CONST, false), _) | (_, (CONST, false)) => Some(CONST),
            ((CONST, true), (bit, _)) | ((bit, _), (CONST, true)) => Some(bit),
            _ => None,
        })
    }

    /// Returns the origin of an `or`, or with `inclusive` false of a `xor`. An operand that is 0
    /// keeps a length or a sum.
    pub fn execute_or(&mut self, a: SymbolicOperand, b: SymbolicOperand, inclusive: bool) -> SymbolicValue {
        if let Some(live) = Self::live_operand(&a, &b) {
            return live;
        }
        // A length or a sum is the first operand from here on.
        let (a, b) = if matches!(b.0, SymbolicValue::Length(_) | SymbolicValue::Sum(..)) { (b, a) } else { (a, b) };
        if matches!(a.0, SymbolicValue::Length(_) | SymbolicValue::Sum(..))
            && is_const(&self.constraints.simplified(b.0.clone()))
            && b.1 == 0
        {
            self.constraints.note_value_dependence(&b.0);
            return a.0;
        }
        // In an `or`, a 1 decides the result. A 0 passes the bit of the other operand on.
        self.execute_bitwise(a, b, |a, b| match (a, b) {
            ((FIXED, true), _) | (_, (FIXED, true)) if inclusive => Some(FIXED),
            ((FIXED, false), (bit, _)) | ((bit, _), (FIXED, false)) => Some(bit),
            ((CONST, true), _) | (_, (CONST, true)) if inclusive => Some(CONST),
            ((CONST, false), (bit, _)) | ((bit, _), (CONST, false)) => Some(bit),
            _ => None,
        })
    }

    /// Executes an operation bit by bit. `rule` gets origin and value of a bit of each operand and
    /// returns the origin of the result's bit; if it returns `None`, both bits are constrained.
    pub fn execute_bitwise(
        &mut self,
        a: SymbolicOperand,
        b: SymbolicOperand,
        rule: impl Fn((u16, bool), (u16, bool)) -> Option<u16>,
    ) -> SymbolicValue {
        let (origins_a, origins_b) = (self.constraints.bit_origins(&a.0), self.constraints.bit_origins(&b.0));
        let mut bits = [CONST; 64];
        for (at, bit) in bits.iter_mut().enumerate() {
            let simplified =
                |from: u16| if from != FIXED && self.constraints.is_constrained(from) { CONST } else { from };
            let (from_a, from_b) = (simplified(origins_a[at]), simplified(origins_b[at]));
            // Whether an unconstrained bit passes depends on the value of a constant of the flow.
            let is_free = !is_constant(from_a) || !is_constant(from_b);
            self.constraints.depends_on_values |= is_free && (from_a == CONST || from_b == CONST);
            match rule((from_a, a.1 >> at & 1 == 1), (from_b, b.1 >> at & 1 == 1)) {
                Some(from) => *bit = from,
                None => {
                    self.constraints.constrain_bit(from_a);
                    self.constraints.constrain_bit(from_b);
                    *bit = if (from_a, from_b) == (FIXED, FIXED) { FIXED } else { CONST };
                }
            }
        }
        symbolic_from_bits(bits)
    }

    /// Shifts left by `amount` bits, or right if it is negative. Returns origin and value of the
    /// result. The program determines the vacated bits.
    pub fn shift_operand(&mut self, a: SymbolicOperand, amount: i32) -> SymbolicOperand {
        let value = match amount {
            0 => a.1,
            64.. => 0,
            1.. => a.1 << amount,
            -63..=-1 => a.1 >> -amount,
            _ => 0,
        };
        if amount == 0 || matches!(a.0, SymbolicValue::Fixed | SymbolicValue::Live(_)) {
            return (a.0, value);
        }
        let origins = self.constraints.bit_origins(&a.0);
        let mut bits = [FIXED; 64];
        for (at, bit) in bits.iter_mut().enumerate() {
            let source_bit = at as i32 - amount;
            if (0..64).contains(&source_bit) {
                *bit = origins[source_bit as usize];
            }
        }
        (symbolic_from_bits(bits), value)
    }

    /// Executes a comparison and constrains the values that decided it: the packet's length, if an
    /// operand follows it, otherwise the bits of both operands. A sum that is compared for equality
    /// becomes a checksum check.
    fn execute_compare(&mut self, a: SymbolicOperand, b: SymbolicOperand, relation: ComparisonOp) -> SymbolicValue {
        if let Some(result) = Self::known_result(&a, &b) {
            return result;
        }
        if relation == ComparisonOp::Equal
            && matches!((&a.0, &b.0), (SymbolicValue::Sum(..), _) | (_, SymbolicValue::Sum(..)))
        {
            return self.add_equality_check(a, b);
        }
        let is_length = |sym: &SymbolicValue| matches!(sym, SymbolicValue::Length(_));
        // Equality with a constant constrains all bits of a field.
        let may_use_length = relation != ComparisonOp::Equal || is_length(&a.0) || is_length(&b.0);
        let as_length = |executor: &mut SymbolicExecutor, operand: &SymbolicOperand| match may_use_length
            && !is_const(&operand.0)
        {
            true => executor.constraints.as_length(&operand.0, operand.1),
            false => None,
        };
        // A plain field is treated as a length only if the other operand is a length or a constant.
        let is_comparable = |executor: &SymbolicExecutor, sym: &SymbolicValue| {
            is_const(sym) || is_length(sym) || executor.constraints.packet_field(sym).is_some()
        };
        let (from_a, from_b) = match is_comparable(self, &a.0) && is_comparable(self, &b.0) {
            true => (as_length(self, &a), as_length(self, &b)),
            false => (None, None),
        };
        match (from_a, from_b) {
            // The difference is constant.
            (Some(_), Some(_)) => {}
            (Some(length), None) if is_const(&b.0) => self.compare_length(length, (&b, a.1), relation, false),
            (None, Some(length)) if is_const(&a.0) => self.compare_length(length, (&a, b.1), relation, true),
            _ => return self.constrain_both(&a, &b),
        }
        SymbolicValue::Const
    }

    /// Compares a length, which is `value` for this packet, with a constant, and constrains the
    /// packet's length to the lengths with the same result. `reversed`: the constant is the left
    /// operand.
    fn compare_length(
        &mut self,
        length: LinearLength,
        (constant, value): (&SymbolicOperand, u64),
        relation: ComparisonOp,
        reversed: bool,
    ) {
        let offset = self.constraints.length_offset(length);
        let number = constant.1.min(MAX_ACTION_DATA as u64) as i64;
        // The bound refers to action data by its place, so that it holds for other entries too.
        let action_data = match constant.0 {
            SymbolicValue::ActionData(word) if number < MAX_ACTION_DATA => Some((word, number)),
            _ => {
                self.constraints.note_value_dependence(&constant.0);
                None
            }
        };
        // The packet length at which both are equal.
        let threshold = number - offset;
        let packet_length = value as i64 - offset;
        let (below, at_least) = (i64::MIN..=threshold - 1, threshold..=i64::MAX);
        let (up_to, above) = (i64::MIN..=threshold, threshold + 1..=i64::MAX);
        let range = match (relation, reversed) {
            (ComparisonOp::Equal, _) if packet_length == threshold => return self.constraints.constrain_length(),
            (ComparisonOp::Equal, _) if packet_length < threshold => below,
            (ComparisonOp::Equal, _) => above,
            (ComparisonOp::Less, false) | (ComparisonOp::LessOrEqual, true) => {
                let (if_true, if_false) = if reversed { (at_least, below) } else { (below, at_least) };
                if if_true.contains(&packet_length) { if_true } else { if_false }
            }
            (ComparisonOp::LessOrEqual, false) | (ComparisonOp::Less, true) => {
                let (if_true, if_false) = if reversed { (above, up_to) } else { (up_to, above) };
                if if_true.contains(&packet_length) { if_true } else { if_false }
            }
        };
        self.constraints.bound_length_by(length.field, action_data, *range.start(), *range.end());
    }

    /// Compares a sum for equality. An equal sum becomes a check; an unequal one prevents a
    /// rewrite. Returns the origin of the result.
    fn add_equality_check(&mut self, a: SymbolicOperand, b: SymbolicOperand) -> SymbolicValue {
        let (a, b) = if matches!(a.0, SymbolicValue::Sum(..)) { (a, b) } else { (b, a) };
        let SymbolicValue::Sum(sum, complement) = &a.0 else { return SymbolicValue::Const };
        if a.1 != b.1 {
            self.constraints.fail(NotRewritable::Checksum);
            return SymbolicValue::Const;
        }
        let complement_mask = if *complement { 0xffff } else { 0 };
        let packet_word = self.constraints.packet_field(&b.0);
        // A check compares the sum with `expected`, or with `expected` xor a word of the packet.
        let expected = match packet_word {
            Some(_) => complement_mask,
            None => {
                self.constraints.constrain_slot_bits(&b.0, u64::MAX);
                self.constraints.note_value_dependence(&b.0);
                b.1 as u16 ^ complement_mask
            }
        };
        self.add_check(sum, expected, packet_word);
        SymbolicValue::Const
    }

    /// Adds a check: the sum must equal `expected`, or `expected` xor a word of the packet.
    pub fn add_check(&mut self, words: &SymbolicSum, expected: u16, word: Option<u16>) {
        self.constraints.depends_on_values |= words.varies;
        let check = ChecksumCheck { sum: Default::default(), expected, word };
        self.checks.push((words.clone(), check));
    }
}
