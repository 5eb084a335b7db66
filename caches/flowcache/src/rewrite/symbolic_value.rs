//! [`SymbolicValue`]: the origin of the bits of a 64-bit slot, tracked beside the slot's value.
//!
//! A bit is a constant of the flow, or an unconstrained bit of the packet. Reading a bit
//! ([`PathConstraints::constrain_slot_bits`]) makes it part of the key, and so a constant. Two more
//! forms are tracked: the packet's length plus a number, and one's complement sums.

use super::NotRewritable;
use super::form::{MAX_END_RELATIVE_FIELDS, MAX_TERMS, PacketSum, WINDOW, word};
use std::collections::BTreeSet;

/// A constant of the flow.
pub const CONST: u16 = u16::MAX;
/// A constant of the path: the program determines the bit for all packets of the path.
pub const FIXED: u16 = u16::MAX - 1;

/// Returns whether the bit is a constant, not a bit of the packet.
pub fn is_constant(bit: u16) -> bool {
    bit >= FIXED
}

/// Exclusive upper limit of action data in length bounds.
pub const MAX_ACTION_DATA: i64 = 1 << 40;

/// Origin of each bit, lowest first: a bit number of the packet (0 is the first bit of the first
/// byte), or a constant.
pub type BitOrigins = [u16; 64];

/// Origin of a slot's bits.
#[derive(Clone, Debug)]
pub enum SymbolicValue {
    /// Constant of the flow.
    Const,
    /// Constant of the path: the program determines the value.
    Fixed,
    /// Action data: a constant of the flow.
    ActionData(ActionDataWord),
    /// Origin of each bit.
    Bits(Box<BitOrigins>),
    /// Number that is linear in the packet's length.
    Length(LinearLength),
    /// 16-bit one's complement sum, complemented if the flag is set.
    Sum(Box<SymbolicSum>, bool),
    /// Differs for each packet, for this reason.
    Live(NotRewritable),
}

/// Word of the action data of an entry or default action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActionDataWord {
    /// Index of the table application on the path.
    pub application: u32,
    /// Index of the word.
    pub word: u32,
}

/// Number that is linear in the packet's length in bytes. Equal for all packets of the path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinearLength {
    /// Difference to the field at `of`, or to the length.
    pub offset: i64,
    /// Offset of the 16-bit end-relative field that it comes from; `None`: the length itself.
    pub field: Option<u16>,
}

impl LinearLength {
    /// Returns the packet's length plus `offset`.
    pub const fn of_packet(offset: i64) -> LinearLength {
        LinearLength { offset, field: None }
    }
}

/// Length range with equal decisions, relative to the field at `field` and to a word of action
/// data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LengthRange {
    field: Option<u16>,
    action_data: Option<ActionDataWord>,
    /// Bounds with the field's distance added and the action data subtracted, because these differ
    /// between flows.
    first: i64,
    last: i64,
}

/// Sum under construction. Its terms can still become constants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SymbolicSum {
    /// Sum of the constants.
    pub constant: u64,
    /// Part of `constant` that the program determines for all packets of the path.
    pub fixed: u64,
    /// Part of `constant` differs between packets of the path.
    pub varies: bool,
    /// Offsets of the end-relative fields that contribute their distance.
    pub fields: Vec<u16>,
    /// Number of times that the packet's length is added.
    pub lengths: u32,
    /// Constant added to these lengths, besides the distances of fields.
    pub length_offset: i64,
    /// Words of the packet: offset and mask.
    pub terms: Vec<(u16, u16)>,
}

/// Constraints of one packet's path.
#[derive(Clone, Debug)]
pub struct PathConstraints {
    /// First bytes of the packet.
    pub window: [u8; WINDOW],
    /// Length of the packet in bytes.
    pub length: usize,
    /// Constrained bits, which form the key.
    pub mask: [u8; WINDOW],
    /// End-relative fields ([`super::form::KeyMask::end_relative_fields`]).
    pub end_relative_fields: BTreeSet<u16>,
    /// The length is part of the key.
    pub is_exact_length: bool,
    /// First and last length with equal decisions, in bytes.
    pub lengths: (i64, i64),
    /// Length ranges that `lengths` results from.
    pub bounds: Vec<LengthRange>,
    /// The form of the rewrite depends on values, not only on the path.
    pub depends_on_values: bool,
    /// Reason why no rewrite is possible.
    pub failed: Option<NotRewritable>,
}

impl PathConstraints {
    /// Creates the state without constraints.
    pub fn new(bytes: &[u8]) -> PathConstraints {
        PathConstraints {
            window: super::form::window(bytes),
            length: bytes.len(),
            mask: [0; WINDOW],
            end_relative_fields: BTreeSet::new(),
            is_exact_length: false,
            lengths: (0, packet::MAX_LEN as i64),
            bounds: Vec::new(),
            depends_on_values: false,
            failed: None,
        }
    }

    /// Records that no rewrite is possible. The first reason is kept.
    pub fn fail(&mut self, why: NotRewritable) {
        self.failed.get_or_insert(why);
    }

    /// Returns whether the bit is a constant of the flow.
    pub fn is_constrained(&self, bit: u16) -> bool {
        is_constant(bit) || self.mask.get(bit as usize / 8).is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1)
    }

    /// Constrains a bit.
    pub fn constrain_bit(&mut self, bit: u16) {
        if is_constant(bit) {
            return;
        }
        match self.mask.get_mut(bit as usize / 8) {
            Some(byte) => *byte |= 1 << (7 - bit % 8),
            None => self.fail(NotRewritable::TooDeep),
        }
    }

    /// Constrains the length to its exact value.
    pub fn constrain_length(&mut self) {
        self.is_exact_length = true;
    }

    /// Constrains the length to `first..=last`.
    pub fn bound_length(&mut self, first: i64, last: i64) {
        self.bound_length_by(None, None, first, last);
    }

    /// Constrains the length to `first..=last`, given that the bounds derive from the field at
    /// offset `field`, and from a word of action data with its current value.
    pub fn bound_length_by(
        &mut self,
        field: Option<u16>,
        action_data: Option<(ActionDataWord, i64)>,
        first: i64,
        last: i64,
    ) {
        let value = action_data.map_or(0, |(_, value)| value);
        let base = field.map_or(0, |at| self.distance(at)) - value;
        let action_word = action_data.map(|(word, _)| word);
        let bound = LengthRange {
            field,
            action_data: action_word,
            first: first.saturating_add(base),
            last: last.saturating_add(base),
        };
        if !self.bounds.contains(&bound) {
            self.bounds.push(bound);
        }
        self.narrow_lengths(bound, value);
    }

    /// Narrows `lengths` by a range. `value`: current value of its action data.
    fn narrow_lengths(&mut self, bound: LengthRange, value: i64) {
        let base = bound.field.map_or(0, |at| self.distance(at)) - value;
        let (first, last) = (bound.first.saturating_sub(base), bound.last.saturating_sub(base));
        self.lengths = (self.lengths.0.max(first), self.lengths.1.min(last));
    }

    fn at_least(&mut self, first: i64) {
        self.lengths.0 = self.lengths.0.max(first);
    }

    /// Returns the field's value minus the packet's length.
    fn distance(&self, at: u16) -> i64 {
        i64::from(word(&self.window, at as usize)) - self.length as i64
    }

    /// Returns the number minus the packet's length, for this packet.
    pub fn length_offset(&self, length: LinearLength) -> i64 {
        length.offset + length.field.map_or(0, |at| self.distance(at))
    }

    /// Returns the constant added to the lengths of a sum, including the distances of fields, for
    /// this packet.
    fn sum_offset(&self, words: &SymbolicSum) -> i64 {
        words.length_offset + words.fields.iter().map(|at| self.distance(*at)).sum::<i64>()
    }

    /// Returns the number that is the packet's length plus `more` for this packet, and comes from
    /// the field at `of`.
    pub fn length_from(&self, field: Option<u16>, offset: i64) -> LinearLength {
        LinearLength { offset: offset - field.map_or(0, |at| self.distance(at)), field }
    }

    /// Constrains the length so that the number stays in `0..=max`.
    pub fn constrain_within(&mut self, length: LinearLength, max: i64) {
        let offset = self.length_offset(length);
        self.bound_length_by(length.field, None, -offset, max - offset);
    }

    /// Starts from the constraints of another packet of the path. `action_data` returns the current
    /// value of a word of action data. Returns `None` if a value exceeds the limit.
    pub fn resume_path(
        &mut self,
        mask: &[u8; WINDOW],
        bounds: &[LengthRange],
        action_data: impl Fn(ActionDataWord) -> Option<u64>,
    ) -> Option<()> {
        self.mask = *mask;
        for bound in bounds {
            let value = bound.action_data.map_or(Some(0), &action_data)?;
            self.narrow_lengths(*bound, i64::try_from(value).ok().filter(|value| *value < MAX_ACTION_DATA)?);
        }
        Some(())
    }

    /// Records that the form of the rewrite depends on a value, unless the program determines it.
    pub fn note_value_dependence(&mut self, sym: &SymbolicValue) {
        self.depends_on_values |= !matches!(sym, SymbolicValue::Fixed);
    }

    /// Constrains these bits of a slot.
    pub fn constrain_slot_bits(&mut self, sym: &SymbolicValue, mask: u64) {
        match sym {
            SymbolicValue::Const | SymbolicValue::Fixed | SymbolicValue::ActionData(_) => {}
            _ if mask == 0 => {}
            SymbolicValue::Bits(bits) => {
                (0..64).filter(|bit| mask >> bit & 1 == 1).for_each(|bit| self.constrain_bit(bits[bit]));
            }
            SymbolicValue::Length(_) => self.constrain_length(),
            SymbolicValue::Sum(..) => self.fail(NotRewritable::Checksum),
            SymbolicValue::Live(why) => self.fail(*why),
        }
    }

    /// Returns the origin of each bit. Constrains values of other forms.
    pub fn bit_origins(&mut self, sym: &SymbolicValue) -> BitOrigins {
        match sym {
            SymbolicValue::Bits(bits) => **bits,
            SymbolicValue::Fixed => [FIXED; 64],
            other => {
                self.constrain_slot_bits(other, u64::MAX);
                [CONST; 64]
            }
        }
    }

    /// Returns a constant if all bits are constrained.
    pub fn simplified(&self, sym: SymbolicValue) -> SymbolicValue {
        match &sym {
            SymbolicValue::Bits(bits) if bits.iter().all(|bit| self.is_constrained(*bit)) => SymbolicValue::Const,
            _ => sym,
        }
    }

    /// Returns whether the number fits into 16 bits.
    pub fn is_short(&self, length: LinearLength) -> bool {
        (0..=0xffff).contains(&(self.length as i64 + self.length_offset(length)))
    }

    /// Returns the offset of the 16-bit packet field that the slot equals.
    pub fn packet_field(&self, sym: &SymbolicValue) -> Option<u16> {
        let SymbolicValue::Bits(bits) = sym else { return None };
        let first = bits[15];
        let straight = !is_constant(first)
            && first.is_multiple_of(8)
            && (first as usize) < (WINDOW - 1) * 8
            && (0..16).all(|bit| bits[bit] == first + 15 - bit as u16)
            && bits[16..].iter().all(|bit| is_constant(*bit));
        straight.then_some(first / 8)
    }

    /// Returns the slot as the packet's length plus a number: a tracked length, or a 16-bit field
    /// close to the length. Such a field is then stored in the key as its distance from the length.
    pub fn as_length(&mut self, sym: &SymbolicValue, value: u64) -> Option<LinearLength> {
        if let SymbolicValue::Length(length) = sym {
            return Some(*length);
        }
        let field = self.packet_field(sym)?;
        let distance = value as i64 - self.length as i64;
        // A length field counts all bytes of the packet but those of the headers before it.
        let is_near = (-160..=0).contains(&distance) && (20..=0xffff).contains(&value);
        let is_known = self.end_relative_fields.contains(&field);
        let is_free = self.end_relative_fields.len() < MAX_END_RELATIVE_FIELDS
            && !self.end_relative_fields.iter().any(|other| other.abs_diff(field) < 2);
        if !(is_near && (is_known || is_free) && !(0..16).any(|bit| self.is_constrained(field * 8 + bit))) {
            return None;
        }
        self.end_relative_fields.insert(field);
        let length = LinearLength { offset: 0, field: Some(field) };
        self.constrain_within(length, 0xffff);
        Some(length)
    }

    /// Adds bits, most significant first, to a sum: 16 to a word, the last word padded with zeros.
    /// A length that does not start at a word is constrained and added bit by bit.
    pub fn add_words(&mut self, sum: &mut SymbolicSum, operands: &[SumOperand]) {
        let mut bit_index = 0;
        for operand in operands {
            match operand {
                SumOperand::Bit(bit, value) => {
                    self.add_bit(sum, bit_index % 16, *bit, *value);
                    bit_index += 1;
                }
                SumOperand::Length(length) if bit_index % 16 == 0 => {
                    sum.lengths += 1;
                    sum.length_offset += length.offset;
                    sum.fields.extend(length.field);
                    bit_index += 16;
                }
                SumOperand::Length(length) => {
                    self.constrain_length();
                    let value = (self.length as i64 + self.length_offset(*length)) as u16;
                    for bit in (0..16).rev() {
                        self.add_bit(sum, bit_index % 16, CONST, value >> bit & 1 == 1);
                        bit_index += 1;
                    }
                }
            }
        }
        // Terms can still become constants, so more of them are allowed than in a rewrite.
        if sum.terms.len() > 4 * MAX_TERMS * 8 {
            self.fail(NotRewritable::TooMuch);
        }
    }

    /// Adds a bit at position `at` of a 16-bit word, from the highest. A packet bit at that
    /// position of a word at any byte offset becomes a term. Any other bit is constrained and added
    /// to the constant.
    fn add_bit(&mut self, sum: &mut SymbolicSum, at: u16, origin: u16, value: bool) {
        let weight = 0x8000 >> at;
        let is_aligned = !is_constant(origin)
            && origin >= at
            && (origin - at).is_multiple_of(8)
            && ((origin - at) as usize) < (WINDOW - 1) * 8;
        if !is_aligned {
            self.constrain_bit(origin);
            let addend = if value { u64::from(weight) } else { 0 };
            sum.constant += addend;
            match origin {
                FIXED => sum.fixed += addend,
                _ => sum.varies = true,
            }
            return;
        }
        let first = (origin - at) / 8;
        match sum.terms.iter_mut().find(|(byte, mask)| *byte == first && mask & weight == 0) {
            Some((_, mask)) => *mask |= weight,
            None => sum.terms.push((first, weight)),
        }
    }

    /// Returns the unconstrained terms of a sum and the number of lengths. The constant differs by
    /// packet.
    pub fn free_terms(mask: &[u8; WINDOW], words: &SymbolicSum) -> PacketSum {
        let terms = words.terms.iter().map(|(at, bits)| (*at, bits & !constrained_bits(mask, *at)));
        PacketSum { constant: 0, lengths: words.lengths, terms: terms.filter(|(_, bits)| *bits != 0).collect() }
    }

    /// Returns the sum's constant: the sum of all constants and constrained terms.
    pub fn sum_constant(&mut self, words: &SymbolicSum) -> u64 {
        let constant = words.constant as i64 + self.sum_offset(words) + self.constrained_sum(words);
        if constant >= 0 || words.lengths == 0 {
            return constant as u64;
        }
        // Lengths absorb a negative remainder, so the total must stay positive.
        self.at_least(-constant / i64::from(words.lengths) + 1);
        constant.rem_euclid(0xffff) as u64
    }

    /// Returns the constant with which the sum equals `value` for this packet. `words` has the
    /// constants of another packet of the path. Returns `None` if the result is ambiguous.
    pub fn solve_constant(&mut self, words: &SymbolicSum, terms: &PacketSum, value: u16) -> Option<u64> {
        if words.lengths > 0 {
            self.at_least((-self.sum_offset(words)).max(0) / i64::from(words.lengths) + 1);
        }
        let variable_part = terms.sum_with(0, &self.window, self.length);
        let constant = (u64::from(value) + 0xffff - u64::from(variable_part)) % 0xffff;
        // 0 and 0xffff give different sums if all other terms are 0.
        if constant != 0 {
            return Some(constant);
        }
        let is_nonzero = words.lengths > 0 || words.fixed > 0 || self.constrained_sum(words) > 0;
        (value != 0 && is_nonzero).then_some(0xffff)
    }

    /// Returns the sum of the constrained terms.
    fn constrained_sum(&self, words: &SymbolicSum) -> i64 {
        let constrained_part =
            |(at, bits): &(u16, u16)| word(&self.window, *at as usize) & self.constrained_bits(*at) & bits;
        words.terms.iter().map(|term| i64::from(constrained_part(term))).sum()
    }

    /// Returns the constrained bits of a word.
    fn constrained_bits(&self, at: u16) -> u16 {
        constrained_bits(&self.mask, at)
    }

    /// Returns whether the sum is a constant of the flow.
    pub fn is_constant_sum(&self, words: &SymbolicSum) -> bool {
        words.lengths == 0 && words.terms.iter().all(|(at, mask)| mask & !self.constrained_bits(*at) == 0)
    }

    /// Returns the value of the sum for the packet.
    pub fn sum_value(&self, words: &SymbolicSum) -> u16 {
        let terms =
            words.terms.iter().map(|(at, mask)| i64::from(word(&self.window, *at as usize) & mask)).sum::<i64>();
        let lengths = i64::from(words.lengths) * self.length as i64 + self.sum_offset(words);
        super::form::fold_sum((words.constant as i64 + terms + lengths).max(0) as u64)
    }
}

fn constrained_bits(mask: &[u8; WINDOW], at: u16) -> u16 {
    u16::from_be_bytes([mask[at as usize], mask[at as usize + 1]])
}

/// Operand of a sum.
#[derive(Clone, Copy, Debug)]
pub enum SumOperand {
    /// Origin and value of a bit.
    Bit(u16, bool),
    /// 16-bit length.
    Length(LinearLength),
}

/// Returns the symbolic value of 64 bits.
pub fn symbolic_from_bits(bits: BitOrigins) -> SymbolicValue {
    match bits.iter().copied().min() {
        Some(FIXED) if bits.iter().all(|bit| *bit == FIXED) => SymbolicValue::Fixed,
        Some(CONST) => SymbolicValue::Const,
        // Bits that the program determines stay distinguished.
        _ => SymbolicValue::Bits(Box::new(bits)),
    }
}
