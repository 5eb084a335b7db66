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
    from: usize,
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
    /// Creates a slicer for the segment that starts at step `from`. With `whole_fields`, the slice
    /// contains all bits that were read and is the same for all packets of a path.
    pub fn new(
        known: &'r RecorderFacts,
        code: &'r BlockCode,
        record: &'r ExecutionRecord,
        from: usize,
        whole_fields: bool,
    ) -> DependencySlicer<'r> {
        let done = vec![0; record.defs.len()];
        DependencySlicer {
            facts: known,
            code,
            record,
            from,
            visited_bits: done,
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

    fn add_dependency(&mut self, operand: &RecordedOperand, mask: u64) {
        if mask == 0 || self.facts.constants[operand.slot as usize] {
            return;
        }
        let mask = if self.whole_fields { u64::MAX } else { mask };
        if operand.def == NO_DEFINITION || (self.record.defs[operand.def as usize].step as usize) < self.from {
            self.mask.entry(operand.slot).or_insert(SlotBits { mask: 0, value: operand.value }).mask |= mask;
            return;
        }
        let done = &mut self.visited_bits[operand.def as usize];
        let more = mask & !*done;
        if more != 0 {
            *done |= more;
            self.worklist.push((operand.def, more));
        }
    }

    fn add_all(&mut self, operands: &[RecordedOperand]) {
        for operand in operands {
            self.add_dependency(operand, u64::MAX);
        }
    }

    fn slice_instruction(&mut self, def: &RecordedDef, mask: u64) {
        let record = self.record;
        let step = def.step as usize;
        let done = &record.steps[step];
        let operands = record.operands_of(step);
        match done.kind {
            // The found entry determines its results. The table application adds the bits of its
            // key.
            ExecutedKind::Apply { .. } | ExecutedKind::Live | ExecutedKind::AddEntry | ExecutedKind::Decision(_) => {
                return;
            }
            ExecutedKind::Pure | ExecutedKind::Effect if self.whole_fields => return self.add_all(operands),
            ExecutedKind::Pure | ExecutedKind::Effect => {}
        }
        match self.code.ops[done.pc as usize] {
            Op::Mov1 { .. } | Op::MovN { .. } => self.add_dependency(&operands[def.word as usize], mask),
            Op::Field1 { .. } | Op::FieldN { .. } => {
                self.add_dependency(&operands[0], 1);
                if operands[0].value != 0 {
                    self.add_dependency(&operands[1 + def.word as usize], mask);
                }
            }
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
            Op::Shl1 { .. } | Op::Shr1 { .. } => self.slice_shift(done.pc, operands, mask),
            Op::Eq1 { .. } | Op::Ne1 { .. } => self.slice_equality(&operands[..1], &operands[1..]),
            Op::Lt1 { .. } | Op::Le1 { .. } => {
                let bits = mask_from_difference(operands[0].value, operands[1].value);
                self.add_dependency(&operands[0], bits);
                self.add_dependency(&operands[1], bits);
            }
            Op::LtS1 { shift, .. } | Op::LeS1 { shift, .. } => {
                let bits = mask_from_difference(operands[0].value << shift, operands[1].value << shift) >> shift;
                self.add_dependency(&operands[0], bits);
                self.add_dependency(&operands[1], bits);
            }
            Op::Mask1 { mask: kept, .. } => self.add_dependency(&operands[0], mask & kept),
            Op::Sext1 { shift, .. } => {
                let width = 64 - shift;
                let low = u64::MAX >> shift;
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
            Op::Copy { .. } => self.slice_header_copy(done.pc, operands, def, mask),
            Op::SetValid { .. } | Op::SetInvalid { .. } => {}
            // Function calls and all other instructions.
            _ => self.add_all(operands),
        }
    }

    /// Slices `and`, for which a 0 in one operand decides, or with `one` an `or`, for which a 1
    /// decides.
    fn slice_and_or(&mut self, a: &RecordedOperand, b: &RecordedOperand, mask: u64, one: bool) {
        let decides = |operand: &RecordedOperand| if one { operand.value } else { !operand.value };
        let (by_a, by_b) = (decides(a) & mask, decides(b) & mask);
        let neither = mask & !by_a & !by_b;
        let both = by_a & by_b;
        let (from_a, from_b) = match self.sliced_bits(b) & both == both && self.sliced_bits(a) & both != both {
            true => (by_a & !by_b, by_b),
            false => (by_a, by_b & !by_a),
        };
        self.add_dependency(a, from_a | neither);
        self.add_dependency(b, from_b | neither);
    }

    fn slice_shift(&mut self, pc: u32, operands: &[RecordedOperand], mask: u64) {
        self.add_dependency(&operands[1], u64::MAX);
        let by = operands[1].value;
        if by < 64 {
            let left = matches!(self.code.ops[pc as usize], Op::Shl1 { .. });
            self.add_dependency(&operands[0], if left { mask >> by } else { mask << by });
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
        let differ = |(a, b): (&RecordedOperand, &RecordedOperand)| a.value ^ b.value;
        for (a, b) in pairs() {
            let known = self.sliced_bits(a) & self.sliced_bits(b) & differ((a, b));
            if known != 0 {
                self.add_dependency(a, highest_bit(known));
                return self.add_dependency(b, highest_bit(known));
            }
        }
        if let Some((a, b)) = pairs().rev().find(|pair| differ(*pair) != 0) {
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
            def if def != NO_DEFINITION && self.record.defs[def as usize].step as usize >= self.from => {
                self.visited_bits[def as usize]
            }
            _ => self.mask.get(&operand.slot).map_or(0, |bits| bits.mask),
        }
    }

    /// Slices a header copy. Operands: the source's validity, its fields, then the previous values
    /// of the other members of the destination's union. Results: the destination's fields, its
    /// validity, and these other members.
    fn slice_header_copy(&mut self, pc: InstIndex, operands: &[RecordedOperand], def: &RecordedDef, mask: u64) {
        self.add_dependency(&operands[0], 1);
        let fields = self.facts.effects[pc as usize].defs[0].1 as usize;
        let (word, valid) = (def.word as usize, operands[0].value != 0);
        if word < fields && valid {
            self.add_dependency(&operands[1 + word], mask);
        } else if word > fields && !valid {
            self.add_dependency(&operands[word], mask);
        }
    }

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
            let at = word * 64 + bit;
            if (range.0..range.1).contains(&at) {
                let from = at - range.0 + lo;
                if from < reg.width {
                    self.add_dependency(&operands[(from / 64) as usize], 1 << (from % 64));
                }
            }
        }
    }

    /// Adds the bits that a `switch` decision depended on.
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
        let mut known: Vec<u64> = operands.iter().map(|operand| self.sliced_bits(operand)).collect();
        for case in cases() {
            let differ = |at: usize| value[at] ^ case[at];
            if (0..value.len()).any(|at| differ(at) & known[at] != 0) {
                continue;
            }
            if let Some(at) = (0..value.len()).rev().find(|at| differ(*at) != 0) {
                known[at] |= highest_bit(differ(at));
            }
        }
        operands.iter().zip(known).for_each(|(operand, bits)| self.require_bits(operand, bits));
    }
}
