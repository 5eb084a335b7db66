//! [`Justify`]: which bits of a packet's state made the program do what it did, as few as can be found at little cost.
//!
//! Works backward: from what a decision read, through the instructions that made it, to the state at the start of a stretch. Each rule asks for bits of an
//! instruction's operands such that, whatever the other bits are, the bits of the result that are asked for come out the same. So two packets that agree
//! on what was found take the same decisions; that is all that a cache relies on.

use crate::record::{Def, Kind, Known, NONE, Operand, Record};
use interp::walk::{Code, Op, Pc, Reg, Slot, WideOp};
use ir::BinaryOp;
use std::collections::BTreeMap;

/// Bits of a slot that matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bits {
    /// Which.
    pub mask: u64,
    /// What is in the slot.
    pub value: u64,
}

/// Bits that matter, by slot.
pub type Mask = BTreeMap<Slot, Bits>;

/// Asks what a stretch of a record depended on.
pub struct Justify<'r> {
    known: &'r Known,
    code: &'r Code,
    record: &'r Record,
    /// The first step of the stretch: what was there before is its start.
    from: usize,
    /// Bits of each definition that are justified.
    done: Vec<u64>,
    /// What was found.
    pub mask: Mask,
    /// Still to be asked.
    open: Vec<(u32, u64)>,
    /// What is found depends on the instructions alone, not on values: all of whatever was read.
    whole: bool,
}

/// All bits up to the highest of a mask.
fn up_to(mask: u64) -> u64 {
    if mask == 0 { 0 } else { u64::MAX >> mask.leading_zeros() }
}

/// The bits from the highest in which two values differ; all, if they are equal.
fn from_difference(a: u64, b: u64) -> u64 {
    match a ^ b {
        0 => u64::MAX,
        difference => u64::MAX << (63 - difference.leading_zeros()),
    }
}

/// The highest bit of a mask that is not 0.
fn highest(mask: u64) -> u64 {
    1 << (63 - mask.leading_zeros())
}

impl<'r> Justify<'r> {
    /// For the stretch of a record that begins at step `from`. `whole`: asks for all of what was read, so that what is found is the same for all packets
    /// that took the same way.
    pub fn new(known: &'r Known, code: &'r Code, record: &'r Record, from: usize, whole: bool) -> Justify<'r> {
        let done = vec![0; record.defs.len()];
        Justify { known, code, record, from, done, mask: Mask::new(), open: Vec::new(), whole }
    }

    /// The bits of an operand had to be what they were.
    pub fn need(&mut self, operand: &Operand, mask: u64) {
        self.ask(operand, mask);
        while let Some((def, mask)) = self.open.pop() {
            let record = self.record;
            let def = &record.defs[def as usize];
            self.rule(def, mask);
        }
    }

    fn ask(&mut self, operand: &Operand, mask: u64) {
        if mask == 0 || self.known.constants[operand.slot as usize] {
            return;
        }
        let mask = if self.whole { u64::MAX } else { mask };
        if operand.def == NONE || (self.record.defs[operand.def as usize].step as usize) < self.from {
            self.mask.entry(operand.slot).or_insert(Bits { mask: 0, value: operand.value }).mask |= mask;
            return;
        }
        let done = &mut self.done[operand.def as usize];
        let more = mask & !*done;
        if more != 0 {
            *done |= more;
            self.open.push((operand.def, more));
        }
    }

    fn all(&mut self, operands: &[Operand]) {
        for operand in operands {
            self.ask(operand, u64::MAX);
        }
    }

    fn rule(&mut self, def: &Def, mask: u64) {
        let record = self.record;
        let step = def.step as usize;
        let done = &record.steps[step];
        let operands = record.operands(step);
        match done.kind {
            // What an entry gives is the entry's; that it was found is justified where the table was applied.
            Kind::Apply { .. } | Kind::Live | Kind::AddEntry | Kind::Decision(_) => return,
            Kind::Pure | Kind::Effect if self.whole => return self.all(operands),
            Kind::Pure | Kind::Effect => {}
        }
        match self.code.ops[done.pc as usize] {
            Op::Mov1 { .. } | Op::MovN { .. } => self.ask(&operands[def.word as usize], mask),
            Op::Field1 { .. } | Op::FieldN { .. } => {
                self.ask(&operands[0], 1);
                if operands[0].value != 0 {
                    self.ask(&operands[1 + def.word as usize], mask);
                }
            }
            Op::Add1 { .. } | Op::Sub1 { .. } | Op::Mul1 { .. } => {
                self.ask(&operands[0], up_to(mask));
                self.ask(&operands[1], up_to(mask));
            }
            Op::Neg1 { .. } => self.ask(&operands[0], up_to(mask)),
            Op::Not1 { .. } => self.ask(&operands[0], mask),
            Op::And1 { .. } => self.either(&operands[0], &operands[1], mask, false),
            Op::Or1 { .. } => self.either(&operands[0], &operands[1], mask, true),
            Op::Xor1 { .. } => {
                self.ask(&operands[0], mask);
                self.ask(&operands[1], mask);
            }
            Op::Shl1 { .. } | Op::Shr1 { .. } => self.shift(done.pc, operands, mask),
            Op::Eq1 { .. } | Op::Ne1 { .. } => self.equal(&operands[..1], &operands[1..]),
            Op::Lt1 { .. } | Op::Le1 { .. } => {
                let bits = from_difference(operands[0].value, operands[1].value);
                self.ask(&operands[0], bits);
                self.ask(&operands[1], bits);
            }
            Op::LtS1 { shift, .. } | Op::LeS1 { shift, .. } => {
                let bits = from_difference(operands[0].value << shift, operands[1].value << shift) >> shift;
                self.ask(&operands[0], bits);
                self.ask(&operands[1], bits);
            }
            Op::Mask1 { mask: kept, .. } => self.ask(&operands[0], mask & kept),
            Op::Sext1 { shift, .. } => {
                let width = 64 - shift;
                let low = u64::MAX >> shift;
                let sign = if mask & !(low >> 1) != 0 { 1 << (width - 1) } else { 0 };
                self.ask(&operands[0], mask & low | sign);
            }
            Op::Slice1 { lo, mask: kept, .. } => self.ask(&operands[0], (mask & kept) << lo),
            Op::Concat1 { shift, .. } => {
                let low = if shift == 0 { 0 } else { u64::MAX >> (64 - shift.min(64)) };
                self.ask(&operands[0], mask >> shift);
                self.ask(&operands[1], mask & low);
            }
            Op::Select1 { .. } => {
                self.ask(&operands[0], 1);
                self.ask(&operands[if operands[0].value != 0 { 1 } else { 2 }], mask);
            }
            Op::SelectN { n, .. } => {
                self.ask(&operands[0], 1);
                let first = if operands[0].value != 0 { 1 } else { 1 + n };
                self.ask(&operands[(first + def.word) as usize], mask);
            }
            Op::IsValid { .. } => self.ask(&operands[0], 1),
            Op::Wide { index } => self.wide(&self.code.wide[index as usize], operands, def.word, mask),
            Op::Copy { .. } => self.copy(done.pc, operands, def, mask),
            Op::SetValid { .. } | Op::SetInvalid { .. } => {}
            // A function's result, and whatever else there is.
            _ => self.all(operands),
        }
    }

    /// `and`, for which a 0 on one side is enough; with `one`, `or`, for which a 1 is.
    fn either(&mut self, a: &Operand, b: &Operand, mask: u64, one: bool) {
        let decides = |operand: &Operand| if one { operand.value } else { !operand.value };
        let (by_a, by_b) = (decides(a) & mask, decides(b) & mask);
        let neither = mask & !by_a & !by_b;
        let both = by_a & by_b;
        let (from_a, from_b) = match self.known(b) & both == both && self.known(a) & both != both {
            true => (by_a & !by_b, by_b),
            false => (by_a, by_b & !by_a),
        };
        self.ask(a, from_a | neither);
        self.ask(b, from_b | neither);
    }

    fn shift(&mut self, pc: u32, operands: &[Operand], mask: u64) {
        self.ask(&operands[1], u64::MAX);
        let by = operands[1].value;
        if by < 64 {
            let left = matches!(self.code.ops[pc as usize], Op::Shl1 { .. });
            self.ask(&operands[0], if left { mask >> by } else { mask << by });
        }
    }

    /// Equality: all bits if they are equal, one that differs if not; rather one that is known anyway.
    fn equal(&mut self, a: &[Operand], b: &[Operand]) {
        let pairs = || a.iter().zip(b);
        if pairs().all(|(a, b)| a.value == b.value) {
            self.all(a);
            return self.all(b);
        }
        let differ = |(a, b): (&Operand, &Operand)| a.value ^ b.value;
        for (a, b) in pairs() {
            let known = self.known(a) & self.known(b) & differ((a, b));
            if known != 0 {
                self.ask(a, highest(known));
                return self.ask(b, highest(known));
            }
        }
        if let Some((a, b)) = pairs().rev().find(|pair| differ(*pair) != 0) {
            let bit = highest(a.value ^ b.value);
            self.ask(a, bit);
            self.ask(b, bit);
        }
    }

    /// The bits of an operand that are justified already.
    fn known(&self, operand: &Operand) -> u64 {
        if self.known.constants[operand.slot as usize] {
            return u64::MAX;
        }
        match operand.def {
            def if def != NONE && self.record.defs[def as usize].step as usize >= self.from => self.done[def as usize],
            _ => self.mask.get(&operand.slot).map_or(0, |bits| bits.mask),
        }
    }

    /// Operands: the source's validity, its fields, then what the other members of the destination's union were. Results: the destination's fields, its
    /// validity, and the others again.
    fn copy(&mut self, pc: Pc, operands: &[Operand], def: &Def, mask: u64) {
        self.ask(&operands[0], 1);
        let fields = self.known.effects[pc as usize].defs[0].1 as usize;
        let (word, valid) = (def.word as usize, operands[0].value != 0);
        if word < fields && valid {
            self.ask(&operands[1 + word], mask);
        } else if word > fields && !valid {
            self.ask(&operands[word], mask);
        }
    }

    fn wide(&mut self, op: &WideOp, operands: &[Operand], word: u32, mask: u64) {
        match *op {
            WideOp::Binary { op: BinaryOp::Eq | BinaryOp::Ne, a, b, .. } if a.words == b.words => {
                let (a, b) = operands.split_at(a.words as usize);
                self.equal(a, b);
            }
            WideOp::Binary { op: BinaryOp::And, a, .. } => {
                self.either(&operands[word as usize], &operands[(a.words + word) as usize], mask, false);
            }
            WideOp::Binary { op: BinaryOp::Or, a, .. } => {
                self.either(&operands[word as usize], &operands[(a.words + word) as usize], mask, true);
            }
            WideOp::Binary { op: BinaryOp::Xor, a, .. } => {
                self.ask(&operands[word as usize], mask);
                self.ask(&operands[(a.words + word) as usize], mask);
            }
            WideOp::Cast { d, a } if !(a.varbit || a.signed && d.width > a.width) => {
                self.bits(operands, (a, 0), (word, mask), (0, a.width.min(d.width)));
            }
            WideOp::Slice { d, a, lo } if !a.varbit => self.bits(operands, (a, lo), (word, mask), (0, d.width)),
            WideOp::Concat { d, high, low } if !high.varbit && !low.varbit => {
                let (of_high, of_low) = operands.split_at(high.words as usize);
                self.bits(of_low, (low, 0), (word, mask), (0, low.width));
                self.bits(of_high, (high, 0), (word, mask), (low.width, d.width));
            }
            _ => self.all(operands),
        }
    }

    /// The bits `range.0..range.1` of a result are those of an operand from bit `lo` on; asked are the bits `mask` of the result's word.
    fn bits(&mut self, operands: &[Operand], (reg, lo): (Reg, u32), (word, mask): (u32, u64), range: (u32, u32)) {
        for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
            let at = word * 64 + bit;
            if (range.0..range.1).contains(&at) {
                let from = at - range.0 + lo;
                if from < reg.width {
                    self.ask(&operands[(from / 64) as usize], 1 << (from % 64));
                }
            }
        }
    }

    /// The decision of a `switch` went where it went.
    pub fn switch(&mut self, step: usize, index: u32) {
        let operands = self.record.operands(step);
        if self.whole {
            return operands.iter().for_each(|operand| self.need(operand, u64::MAX));
        }
        let switch = &self.code.switches[index as usize];
        let value: Vec<u64> = operands.iter().map(|operand| operand.value).collect();
        let cases = || {
            let narrow = switch.narrow.iter().map(|(word, _)| std::slice::from_ref(word));
            narrow.chain(switch.wide.iter().map(|(words, _)| &**words))
        };
        if cases().any(|case| case == value) {
            return operands.iter().for_each(|operand| self.need(operand, u64::MAX));
        }
        let mut known: Vec<u64> = operands.iter().map(|operand| self.known(operand)).collect();
        for case in cases() {
            let differ = |at: usize| value[at] ^ case[at];
            if (0..value.len()).any(|at| differ(at) & known[at] != 0) {
                continue;
            }
            if let Some(at) = (0..value.len()).rev().find(|at| differ(*at) != 0) {
                known[at] |= highest(differ(at));
            }
        }
        operands.iter().zip(known).for_each(|(operand, bits)| self.need(operand, bits));
    }
}
