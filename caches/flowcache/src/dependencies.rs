//! [`DependencySlicer`]: finds the bits of packet state that a decision depended on. The result is
//! small, but not always minimal.
//!
//! The slicer works backward from the operands of a decision, through the instructions that
//! computed them, to the state at the start of a segment. Each rule selects bits of an
//! instruction's operands that determine the required bits of the result, whatever the other bits
//! are. Therefore two packets that agree on the slice take the same decisions. The cache relies on
//! this property only.

use crate::record::{ExecutedKind, ExecutionRecord, NO_DEFINITION, RecordedDef, RecordedOperand, RecorderFacts};
use interp::block_hook::{BlockCode, InstIndex, Op, Reg, WideOp, WordIndex};
use ir::BinaryOp;
use std::collections::BTreeMap;

/// Relevant bits of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotBits {
    /// Mask of the relevant bits.
    pub mask: u64,
    /// Value of the slot.
    pub value: u64,
}

/// Relevant bits by slot.
pub type SlotMask = BTreeMap<WordIndex, SlotBits>;

/// Backward slicer for one segment of a record.
pub struct DependencySlicer<'r> {
    facts: &'r RecorderFacts,
    code: &'r BlockCode,
    record: &'r ExecutionRecord,
    /// First step of the segment. Earlier definitions are state at its start.
    first_step: usize,
    /// Bits of each definition that are in the slice.
    visited_bits: Vec<u64>,
    /// The slice: bits of the state at the start.
    pub mask: SlotMask,
    /// Definitions and bits still to be traced.
    worklist: Vec<(u32, u64)>,
    /// Include all bits that were read. The slice then depends only on the instructions, not on
    /// values.
    whole_fields: bool,
}

/// Returns all bits up to the highest one of a mask.
fn mask_up_to_highest(mask: u64) -> u64 {
    if mask == 0 { 0 } else { u64::MAX >> mask.leading_zeros() }
}

/// Returns the bits from the highest differing one on; all bits if the values are equal.
fn mask_from_difference(a: u64, b: u64) -> u64 {
    match a ^ b {
        0 => u64::MAX,
        difference => u64::MAX << (63 - difference.leading_zeros()),
    }
}

/// Returns the highest bit of a mask that is not 0.
fn highest_bit(mask: u64) -> u64 {
    1 << (63 - mask.leading_zeros())
}

impl<'r> DependencySlicer<'r> {
    /// Creates a slicer for the segment that starts at step `first_step`. With `whole_fields`, the
    /// slice contains all bits that were read and is the same for all packets of a path.
    pub fn new(
        facts: &'r RecorderFacts,
        code: &'r BlockCode,
        record: &'r ExecutionRecord,
        first_step: usize,
        whole_fields: bool,
    ) -> DependencySlicer<'r> {
        let visited_bits = vec![0; record.defs.len()];
        DependencySlicer {
            facts,
            code,
            record,
            first_step,
            visited_bits,
            mask: SlotMask::new(),
            worklist: Vec::new(),
            whole_fields,
        }
    }

    /// Adds bits of an operand to the slice, and traces them back to the start.
    pub fn require_bits(&mut self, operand: &RecordedOperand, mask: u64) {
        self.add_dependency(operand, mask);
        while let Some((def, mask)) = self.worklist.pop() {
            let record = self.record;
            let def = &record.defs[def as usize];
            self.slice_instruction(def, mask);
        }
    }

    /// Adds bits of an operand to the slice: bits of a value that the segment computes to the
    /// worklist, other bits to the slice of the state at its start. A constant is no dependency.
    fn add_dependency(&mut self, operand: &RecordedOperand, mask: u64) {
        if mask == 0 || self.facts.constants[operand.slot as usize] {
            return;
        }
        let mask = if self.whole_fields { u64::MAX } else { mask };
        if operand.def == NO_DEFINITION || (self.record.defs[operand.def as usize].step as usize) < self.first_step {
            self.mask.entry(operand.slot).or_insert(SlotBits { mask: 0, value: operand.value }).mask |= mask;
            return;
        }
        let visited = &mut self.visited_bits[operand.def as usize];
        let new_bits = mask & !*visited;
        if new_bits != 0 {
            *visited |= new_bits;
            self.worklist.push((operand.def, new_bits));
        }
    }

    /// Adds all bits of these operands to the slice.
    fn add_all(&mut self, operands: &[RecordedOperand]) {
        for operand in operands {
            self.add_dependency(operand, u64::MAX);
        }
    }

    /// Adds the operand bits on which the bits `mask` of the result `def` depend. Where the
    /// recorded values allow it, the slice is smaller than for all values: an `and` with a 0
    /// depends on that operand alone. Operands are in the order of [`crate::effects::effects`].
    fn slice_instruction(&mut self, def: &RecordedDef, mask: u64) {
        let record = self.record;
        let step = def.step as usize;
        let executed = &record.steps[step];
        let operands = record.operands_of(step);
        match executed.kind {
            // The found entry determines its results. The table application adds the bits of its
            // key.
            ExecutedKind::Apply { .. } | ExecutedKind::Live | ExecutedKind::AddEntry | ExecutedKind::Decision(_) => {
                return;
            }
            ExecutedKind::Pure | ExecutedKind::Effect if self.whole_fields => return self.add_all(operands),
            ExecutedKind::Pure | ExecutedKind::Effect => {}
        }
        match self.code.ops[executed.pc as usize] {
            Op::Mov1 { .. } | Op::MovN { .. } => self.add_dependency(&operands[def.word as usize], mask),
            Op::Field1 { .. } | Op::FieldN { .. } => {
                self.add_dependency(&operands[0], 1);
                if operands[0].value != 0 {
                    self.add_dependency(&operands[1 + def.word as usize], mask);
                }
            }
            // A carry moves only to higher bits, so operand bits above the highest required one do
            // not matter.
            Op::Add1 { .. } | Op::Sub1 { .. } | Op::Mul1 { .. } => {
                self.add_dependency(&operands[0], mask_up_to_highest(mask));
                self.add_dependency(&operands[1], mask_up_to_highest(mask));
            }
            Op::Neg1 { .. } => self.add_dependency(&operands[0], mask_up_to_highest(mask)),
            Op::Not1 { .. } => self.add_dependency(&operands[0], mask),
            Op::And1 { .. } => self.slice_and_or(&operands[0], &operands[1], mask, false),
            Op::Or1 { .. } => self.slice_and_or(&operands[0], &operands[1], mask, true),
            Op::Xor1 { .. } => {
                self.add_dependency(&operands[0], mask);
                self.add_dependency(&operands[1], mask);
            }
            Op::Shl1 { .. } | Op::Shr1 { .. } => self.slice_shift(executed.pc, operands, mask),
            Op::Eq1 { .. } | Op::Ne1 { .. } => self.slice_equality(&operands[..1], &operands[1..]),
            // A comparison is decided at the highest bit in which the operands differ.
            Op::Lt1 { .. } | Op::Le1 { .. } => {
                let bits = mask_from_difference(operands[0].value, operands[1].value);
                self.add_dependency(&operands[0], bits);
                self.add_dependency(&operands[1], bits);
            }
            // `shift` moves the sign bit to bit 63.
            Op::LtS1 { shift, .. } | Op::LeS1 { shift, .. } => {
                let bits = mask_from_difference(operands[0].value << shift, operands[1].value << shift) >> shift;
                self.add_dependency(&operands[0], bits);
                self.add_dependency(&operands[1], bits);
            }
            Op::Mask1 { mask: kept, .. } => self.add_dependency(&operands[0], mask & kept),
            Op::Sext1 { shift, .. } => {
                let width = 64 - shift;
                let low = u64::MAX >> shift;
                // All bits from the sign on are copies of it.
                let sign = if mask & !(low >> 1) != 0 { 1 << (width - 1) } else { 0 };
                self.add_dependency(&operands[0], mask & low | sign);
            }
            Op::Slice1 { lo, mask: kept, .. } => self.add_dependency(&operands[0], (mask & kept) << lo),
            Op::Concat1 { shift, .. } => {
                let low = if shift == 0 { 0 } else { u64::MAX >> (64 - shift.min(64)) };
                self.add_dependency(&operands[0], mask >> shift);
                self.add_dependency(&operands[1], mask & low);
            }
            Op::Select1 { .. } => {
                self.add_dependency(&operands[0], 1);
                self.add_dependency(&operands[if operands[0].value != 0 { 1 } else { 2 }], mask);
            }
            Op::SelectN { n, .. } => {
                self.add_dependency(&operands[0], 1);
                let first = if operands[0].value != 0 { 1 } else { 1 + n };
                self.add_dependency(&operands[(first + def.word) as usize], mask);
            }
            Op::IsValid { .. } => self.add_dependency(&operands[0], 1),
            Op::Wide { index } => self.slice_wide(&self.code.wide[index as usize], operands, def.word, mask),
            Op::Copy { .. } => self.slice_header_copy(executed.pc, operands, def, mask),
            Op::SetValid { .. } | Op::SetInvalid { .. } => {}
            // Function calls and all other instructions.
            _ => self.add_all(operands),
        }
    }

    /// Slices an `and`, for which a 0 in one operand decides a bit, or with `is_or` an `or`, for
    /// which a 1 decides. For bits that both operands decide, takes the operand that adds less to
    /// the slice.
    fn slice_and_or(&mut self, a: &RecordedOperand, b: &RecordedOperand, mask: u64, is_or: bool) {
        let deciding_bits = |operand: &RecordedOperand| if is_or { operand.value } else { !operand.value };
        let (decided_by_a, decided_by_b) = (deciding_bits(a) & mask, deciding_bits(b) & mask);
        let undecided = mask & !decided_by_a & !decided_by_b;
        let decided_twice = decided_by_a & decided_by_b;
        let (bits_of_a, bits_of_b) = match self.sliced_bits(b) & decided_twice == decided_twice
            && self.sliced_bits(a) & decided_twice != decided_twice
        {
            true => (decided_by_a & !decided_by_b, decided_by_b),
            false => (decided_by_a, decided_by_b & !decided_by_a),
        };
        self.add_dependency(a, bits_of_a | undecided);
        self.add_dependency(b, bits_of_b | undecided);
    }

    /// Slices a shift: all bits of the amount, and the required bits of the value, moved back by
    /// the amount. An amount of 64 or more has the result 0 whatever the value is.
    fn slice_shift(&mut self, pc: u32, operands: &[RecordedOperand], mask: u64) {
        self.add_dependency(&operands[1], u64::MAX);
        let amount = operands[1].value;
        if amount < 64 {
            let is_left = matches!(self.code.ops[pc as usize], Op::Shl1 { .. });
            self.add_dependency(&operands[0], if is_left { mask >> amount } else { mask << amount });
        }
    }

    /// Slices an equality: all bits of equal operands, else one differing bit, preferably one that
    /// is in the slice already.
    fn slice_equality(&mut self, a: &[RecordedOperand], b: &[RecordedOperand]) {
        let pairs = || a.iter().zip(b);
        if pairs().all(|(a, b)| a.value == b.value) {
            self.add_all(a);
            return self.add_all(b);
        }
        let difference_of = |(a, b): (&RecordedOperand, &RecordedOperand)| a.value ^ b.value;
        for (a, b) in pairs() {
            let sliced_difference = self.sliced_bits(a) & self.sliced_bits(b) & difference_of((a, b));
            if sliced_difference != 0 {
                self.add_dependency(a, highest_bit(sliced_difference));
                return self.add_dependency(b, highest_bit(sliced_difference));
            }
        }
        if let Some((a, b)) = pairs().rev().find(|pair| difference_of(*pair) != 0) {
            let bit = highest_bit(a.value ^ b.value);
            self.add_dependency(a, bit);
            self.add_dependency(b, bit);
        }
    }

    /// Returns the bits of an operand that are in the slice already.
    fn sliced_bits(&self, operand: &RecordedOperand) -> u64 {
        if self.facts.constants[operand.slot as usize] {
            return u64::MAX;
        }
        match operand.def {
            def if def != NO_DEFINITION && self.record.defs[def as usize].step as usize >= self.first_step => {
                self.visited_bits[def as usize]
            }
            _ => self.mask.get(&operand.slot).map_or(0, |bits| bits.mask),
        }
    }

    /// Slices a header copy. Operands: the source's validity, its fields, then the previous values
    /// of the other members of the destination's union. Results: the destination's fields, its
    /// validity, and these other members. `def.word` is the index of the required word among the
    /// results.
    fn slice_header_copy(&mut self, pc: InstIndex, operands: &[RecordedOperand], def: &RecordedDef, mask: u64) {
        self.add_dependency(&operands[0], 1);
        let field_words = self.facts.effects[pc as usize].defs[0].1 as usize;
        let (word, source_is_valid) = (def.word as usize, operands[0].value != 0);
        if word < field_words && source_is_valid {
            self.add_dependency(&operands[1 + word], mask);
        } else if word > field_words && !source_is_valid {
            self.add_dependency(&operands[word], mask);
        }
    }

    /// Slices an instruction on values of more than 64 bits. `word`: index of the required word in
    /// the result, the least significant first; `mask`: required bits of that word. The words of
    /// the first operand precede those of the second.
    fn slice_wide(&mut self, op: &WideOp, operands: &[RecordedOperand], word: u32, mask: u64) {
        match *op {
            WideOp::Binary { op: BinaryOp::Eq | BinaryOp::Ne, a, b, .. } if a.words == b.words => {
                let (a, b) = operands.split_at(a.words as usize);
                self.slice_equality(a, b);
            }
            WideOp::Binary { op: BinaryOp::And, a, .. } => {
                self.slice_and_or(&operands[word as usize], &operands[(a.words + word) as usize], mask, false);
            }
            WideOp::Binary { op: BinaryOp::Or, a, .. } => {
                self.slice_and_or(&operands[word as usize], &operands[(a.words + word) as usize], mask, true);
            }
            WideOp::Binary { op: BinaryOp::Xor, a, .. } => {
                self.add_dependency(&operands[word as usize], mask);
                self.add_dependency(&operands[(a.words + word) as usize], mask);
            }
            WideOp::Cast { d, a } if !(a.is_varbit || a.is_signed && d.width > a.width) => {
                self.slice_bit_range(operands, (a, 0), (word, mask), (0, a.width.min(d.width)));
            }
            WideOp::Slice { d, a, lo } if !a.is_varbit => {
                self.slice_bit_range(operands, (a, lo), (word, mask), (0, d.width))
            }
            WideOp::Concat { d, high, low } if !high.is_varbit && !low.is_varbit => {
                let (of_high, of_low) = operands.split_at(high.words as usize);
                self.slice_bit_range(of_low, (low, 0), (word, mask), (0, low.width));
                self.slice_bit_range(of_high, (high, 0), (word, mask), (low.width, d.width));
            }
            _ => self.add_all(operands),
        }
    }

    /// Slices a bit copy: bits `range.0..range.1` of the result are the operand's bits from `lo`
    /// on. `mask` are the required bits of the result's word.
    fn slice_bit_range(
        &mut self,
        operands: &[RecordedOperand],
        (reg, lo): (Reg, u32),
        (word, mask): (u32, u64),
        range: (u32, u32),
    ) {
        for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
            let result_bit = word * 64 + bit;
            if (range.0..range.1).contains(&result_bit) {
                let operand_bit = result_bit - range.0 + lo;
                if operand_bit < reg.width {
                    self.add_dependency(&operands[(operand_bit / 64) as usize], 1 << (operand_bit % 64));
                }
            }
        }
    }

    /// Adds the bits that a `switch` decision depended on: all bits of a value that a case matches;
    /// otherwise, for each case, one bit in which the value differs from it. `index`: index of the
    /// switch in the code.
    pub fn require_switch(&mut self, step: usize, index: u32) {
        let operands = self.record.operands_of(step);
        if self.whole_fields {
            return operands.iter().for_each(|operand| self.require_bits(operand, u64::MAX));
        }
        let switch = &self.code.switches[index as usize];
        let value: Vec<u64> = operands.iter().map(|operand| operand.value).collect();
        let cases = || {
            let narrow = switch.narrow.iter().map(|(word, _)| std::slice::from_ref(word));
            narrow.chain(switch.wide.iter().map(|(words, _)| &**words))
        };
        if cases().any(|case| case == value) {
            return operands.iter().for_each(|operand| self.require_bits(operand, u64::MAX));
        }
        let mut required: Vec<u64> = operands.iter().map(|operand| self.sliced_bits(operand)).collect();
        for case in cases() {
            let difference = |word: usize| value[word] ^ case[word];
            if (0..value.len()).any(|word| difference(word) & required[word] != 0) {
                continue;
            }
            if let Some(word) = (0..value.len()).rev().find(|word| difference(*word) != 0) {
                required[word] |= highest_bit(difference(word));
            }
        }
        operands.iter().zip(required).for_each(|(operand, bits)| self.require_bits(operand, bits));
    }
}
