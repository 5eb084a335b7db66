//! Instructions that compute: where the bits of their results come from.

use super::Unrewritable;
use super::form::Check;
use super::shadow::Shadow;
use super::sym::{CONST, FIXED, Length, MOST_GIVEN, Sym, Words, is_constant, of_bits};
use interp::walk::{Op, Pc, Slot, Step, Walker};

/// An operand: where its bits come from, and its value.
pub type Operand = (Sym, u64);

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    Less,
    LessOrEqual,
}

fn is_const(sym: &Sym) -> bool {
    matches!(sym, Sym::Const | Sym::Fixed | Sym::Given(_))
}

/// Whether the number is of the form 2^n - 1.
fn is_low_mask(mask: u64) -> bool {
    mask & mask.wrapping_add(1) == 0
}

impl Shadow {
    fn operand(&self, walker: &Walker<'_>, slot: Slot) -> Operand {
        (self.sym(slot), walker.slots()[slot as usize])
    }

    /// The same, bit by bit, though all of them are constants by now.
    pub fn bitwise(&self, walker: &Walker<'_>, slot: Slot) -> Operand {
        (self.raw(slot), walker.slots()[slot as usize])
    }

    /// An instruction that computes.
    pub fn compute(&mut self, walker: &mut Walker<'_>, block: usize, pc: Pc, op: Op) -> Step {
        if let Op::Wide { index } = op {
            return self.wide(walker, block, pc, index);
        }
        if let Some((d, a, n)) = self.moves(walker, op) {
            return self.move_many(walker, pc, (d, a, n));
        }
        let made = self.result(walker, op);
        if made.is_none() && !matches!(op, Op::Field1 { .. } | Op::FieldN { .. }) {
            self.opaque(block, pc);
        }
        let step = walker.step(pc);
        if let Some((d, sym)) = made {
            self.set(d, sym);
        }
        step
    }

    /// Of an instruction that moves slots: to where, from where, and how many. A field of a header that is not valid stays as it is.
    fn moves(&mut self, walker: &Walker<'_>, op: Op) -> Option<(Slot, Slot, u32)> {
        let mut chosen = |c: Slot, a: Slot, b: Slot| {
            self.pin(c, u64::MAX);
            if walker.slots()[c as usize] != 0 { a } else { b }
        };
        match op {
            Op::Mov1 { d, a } => Some((d, a, 1)),
            Op::MovN { d, a, n } => Some((d, a, n)),
            Op::Field1 { h, d, a } => walker.valid()[h as usize].then_some((d, a, 1)),
            Op::FieldN { h, d, a, n } => walker.valid()[h as usize].then_some((d, a, n)),
            Op::Select1 { d, c, a, b } => Some((d, chosen(c, a, b), 1)),
            Op::SelectN { d, c, a, b, n } => Some((d, chosen(c, a, b), n)),
            _ => None,
        }
    }

    /// Where the result of an instruction on one slot goes, and where its bits come from; `None` if there is no rule.
    fn result(&mut self, walker: &Walker<'_>, op: Op) -> Option<(Slot, Sym)> {
        macro_rules! both {
            ($how:ident, $a:expr, $b:expr) => {
                (self.$how(walker, $a), self.$how(walker, $b))
            };
        }
        Some(match op {
            Op::Add1 { d, a, b, mask } => {
                let (a, b) = both!(operand, a, b);
                (d, self.sum(a, b, mask, false))
            }
            Op::Sub1 { d, a, b, mask } => {
                let (a, b) = both!(operand, a, b);
                (d, self.sum(a, b, mask, true))
            }
            Op::And1 { d, a, b } => {
                let (a, b) = both!(bitwise, a, b);
                (d, self.and(a, b))
            }
            Op::Or1 { d, a, b } => {
                let (a, b) = both!(bitwise, a, b);
                (d, self.or(a, b, true))
            }
            Op::Xor1 { d, a, b } => {
                let (a, b) = both!(bitwise, a, b);
                (d, self.or(a, b, false))
            }
            Op::Mask1 { d, a, mask } => {
                let a = self.bitwise(walker, a);
                (d, self.and(a, (Sym::Fixed, mask)))
            }
            Op::Slice1 { d, a, lo, mask } => {
                let a = self.bitwise(walker, a);
                let shifted = self.shifted(a, -(lo as i32));
                (d, self.and(shifted, (Sym::Fixed, mask)))
            }
            Op::Concat1 { d, a, b, shift } => {
                let (a, b) = both!(bitwise, a, b);
                let high = self.shifted(a, shift as i32);
                let low = self.below(b, shift);
                (d, self.or(high, low, true))
            }
            Op::Shl1 { d, a, b, mask } => {
                self.depends_on(b);
                let (a, by) = (self.bitwise(walker, a), walker.slots()[b as usize]);
                let shifted = self.shifted(a, by.min(64) as i32);
                (d, self.and(shifted, (Sym::Fixed, mask)))
            }
            Op::Shr1 { d, a, b } => {
                self.depends_on(b);
                let (a, by) = (self.bitwise(walker, a), walker.slots()[b as usize]);
                (d, self.shifted(a, -(by.min(64) as i32)).0)
            }
            Op::Eq1 { d, a, b } | Op::Ne1 { d, a, b } => {
                let (a, b) = both!(operand, a, b);
                (d, self.compare(a, b, Relation::Equal))
            }
            Op::Lt1 { d, a, b } => {
                let (a, b) = both!(operand, a, b);
                (d, self.compare(a, b, Relation::Less))
            }
            Op::Le1 { d, a, b } => {
                let (a, b) = both!(operand, a, b);
                (d, self.compare(a, b, Relation::LessOrEqual))
            }
            // The way says which headers are valid.
            Op::IsValid { d, .. } => (d, Sym::Fixed),
            _ => return None,
        })
    }

    /// A bit of a value that begins in a slot, counted from the lowest: which one of the packet it is, or a constant, and what it is now. What has another form is
    /// looked at.
    pub fn bit(&mut self, walker: &Walker<'_>, first: Slot, place: u32) -> (u16, bool) {
        let slot = first + place / 64;
        let value = walker.slots()[slot as usize] >> (place % 64) & 1 == 1;
        let bit = match self.raw(slot) {
            Sym::Bits(bits) => bits[(place % 64) as usize],
            Sym::Fixed => FIXED,
            other => {
                self.pins.pin(&other, u64::MAX);
                CONST
            }
        };
        (bit, value)
    }

    fn move_many(&mut self, walker: &mut Walker<'_>, pc: Pc, (d, a, n): (Slot, Slot, u32)) -> Step {
        if n == 1 {
            let (sym, step) = (self.raw(a), walker.step(pc));
            self.set(d, sym);
            return step;
        }
        let syms: Vec<Sym> = (a..a + n).map(|slot| self.raw(slot)).collect();
        let step = walker.step(pc);
        syms.into_iter().enumerate().for_each(|(at, sym)| self.set(d + at as Slot, sym));
        step
    }

    /// What both operands have in them that differs each time is in the result; nobody has looked at it yet.
    fn live(a: &Operand, b: &Operand) -> Option<Sym> {
        [a, b].into_iter().find(|operand| matches!(operand.0, Sym::Live(_))).map(|operand| operand.0.clone())
    }

    /// What is found depends on the slot's value, and not on the way alone, unless the program says the value.
    pub fn depends_on(&mut self, slot: Slot) {
        self.pin(slot, u64::MAX);
        let sym = self.sym(slot);
        self.pins.by_value(&sym);
    }

    /// A number that has no bits from there on.
    fn below(&mut self, a: Operand, shift: u32) -> Operand {
        if !matches!(a.0, Sym::Const | Sym::Bits(_)) {
            return a;
        }
        let mut bits = self.pins.bits(&a.0);
        bits[(shift as usize).min(64)..].fill(FIXED);
        (Sym::Bits(Box::new(bits)), a.1)
    }

    /// Of two constants, and of what differs each time, the result is one, too.
    fn known(a: &Operand, b: &Operand) -> Option<Sym> {
        let constant = match (&a.0, &b.0) {
            (Sym::Fixed, Sym::Fixed) => Some(Sym::Fixed),
            (one, other) if is_const(one) && is_const(other) => Some(Sym::Const),
            _ => None,
        };
        Self::live(a, b).or(constant)
    }

    fn pin_both(&mut self, a: &Operand, b: &Operand) -> Sym {
        self.pins.pin(&a.0, u64::MAX);
        self.pins.pin(&b.0, u64::MAX);
        Sym::Const
    }

    /// The sum or difference, modulo a power of two.
    fn sum(&mut self, a: Operand, b: Operand, mask: u64, minus: bool) -> Sym {
        if let Some(known) = Self::known(&a, &b) {
            return known;
        }
        let value = if minus { a.1.wrapping_sub(b.1) } else { a.1.wrapping_add(b.1) } & mask;
        let length = match (is_const(&a.0), is_const(&b.0)) {
            (false, true) => self.pins.as_length(&a.0, a.1).map(|length| (length, &b.0)),
            (true, false) if !minus => self.pins.as_length(&b.0, b.1).map(|length| (length, &a.0)),
            (false, false) if minus => {
                let both = self.pins.as_length(&a.0, a.1).zip(self.pins.as_length(&b.0, b.1));
                if both.is_some() {
                    return Sym::Const;
                }
                None
            }
            _ => None,
        };
        let Some((length, added)) = length else { return self.pin_both(&a, &b) };
        self.pins.by_value(added);
        self.length(length.of, value, mask)
    }

    /// A value that grows with the packet's length, and this is what it is for the packet; it is so as long as it does not leave `0..=most`.
    fn length(&mut self, of: Option<u16>, value: u64, most: u64) -> Sym {
        let more = value as i64 - self.pins.length as i64;
        let most = most.min(1 << 40) as i64;
        if value > 1 << 40 {
            self.pins.pin_length();
            return Sym::Const;
        }
        let length = self.pins.length_of(of, more);
        self.pins.within(length, most);
        Sym::Length(length)
    }

    pub fn and(&mut self, a: Operand, b: Operand) -> Sym {
        if let Some(live) = Self::live(&a, &b) {
            return live;
        }
        let (a, b) = if matches!(b.0, Sym::Length(_) | Sym::Sum(..)) { (b, a) } else { (a, b) };
        match (&a.0, &self.pins.settled(b.0.clone())) {
            (Sym::Fixed, Sym::Fixed) => return Sym::Fixed,
            (Sym::Length(length), mask) if is_const(mask) && is_low_mask(b.1) && a.1 & b.1 == a.1 => {
                self.pins.by_value(mask);
                return self.length(length.of, a.1, b.1);
            }
            (Sym::Sum(..), mask) if is_const(mask) && b.1 & 0xffff == 0xffff => {
                self.pins.by_value(mask);
                return a.0;
            }
            _ => {}
        }
        self.each(a, b, |a, b| match (a, b) {
            ((FIXED, false), _) | (_, (FIXED, false)) => Some(FIXED),
            ((FIXED, true), (bit, _)) | ((bit, _), (FIXED, true)) => Some(bit),
            ((CONST, false), _) | (_, (CONST, false)) => Some(CONST),
            ((CONST, true), (bit, _)) | ((bit, _), (CONST, true)) => Some(bit),
            _ => None,
        })
    }

    /// `or`; with `inclusive` false `xor`.
    pub fn or(&mut self, a: Operand, b: Operand, inclusive: bool) -> Sym {
        if let Some(live) = Self::live(&a, &b) {
            return live;
        }
        let (a, b) = if matches!(b.0, Sym::Length(_) | Sym::Sum(..)) { (b, a) } else { (a, b) };
        if matches!(a.0, Sym::Length(_) | Sym::Sum(..)) && is_const(&self.pins.settled(b.0.clone())) && b.1 == 0 {
            self.pins.by_value(&b.0);
            return a.0;
        }
        self.each(a, b, |a, b| match (a, b) {
            ((FIXED, true), _) | (_, (FIXED, true)) if inclusive => Some(FIXED),
            ((FIXED, false), (bit, _)) | ((bit, _), (FIXED, false)) => Some(bit),
            ((CONST, true), _) | (_, (CONST, true)) if inclusive => Some(CONST),
            ((CONST, false), (bit, _)) | ((bit, _), (CONST, false)) => Some(bit),
            _ => None,
        })
    }

    /// Bit by bit; where there is no rule both bits are looked at.
    pub fn each(&mut self, a: Operand, b: Operand, rule: impl Fn((u16, bool), (u16, bool)) -> Option<u16>) -> Sym {
        let (of_a, of_b) = (self.pins.bits(&a.0), self.pins.bits(&b.0));
        let mut bits = [CONST; 64];
        for (at, bit) in bits.iter_mut().enumerate() {
            let known = |from: u16| if from != FIXED && self.pins.is_pinned(from) { CONST } else { from };
            let (from_a, from_b) = (known(of_a[at]), known(of_b[at]));
            // What becomes of a bit that may differ depends on a value.
            let free = !is_constant(from_a) || !is_constant(from_b);
            self.pins.by_value |= free && (from_a == CONST || from_b == CONST);
            match rule((from_a, a.1 >> at & 1 == 1), (from_b, b.1 >> at & 1 == 1)) {
                Some(from) => *bit = from,
                None => {
                    self.pins.pin_bit(from_a);
                    self.pins.pin_bit(from_b);
                    *bit = if (from_a, from_b) == (FIXED, FIXED) { FIXED } else { CONST };
                }
            }
        }
        of_bits(bits)
    }

    /// Shifted up, or down.
    pub fn shifted(&mut self, a: Operand, by: i32) -> Operand {
        let value = match by {
            0 => a.1,
            64.. => 0,
            1.. => a.1 << by,
            -63..=-1 => a.1 >> -by,
            _ => 0,
        };
        if by == 0 || matches!(a.0, Sym::Fixed | Sym::Live(_)) {
            return (a.0, value);
        }
        let from = self.pins.bits(&a.0);
        let mut bits = [FIXED; 64];
        for (at, bit) in bits.iter_mut().enumerate() {
            let place = at as i32 - by;
            if (0..64).contains(&place) {
                *bit = from[place as usize];
            }
        }
        (of_bits(bits), value)
    }

    fn compare(&mut self, a: Operand, b: Operand, relation: Relation) -> Sym {
        if let Some(known) = Self::known(&a, &b) {
            return known;
        }
        if relation == Relation::Equal && matches!((&a.0, &b.0), (Sym::Sum(..), _) | (_, Sym::Sum(..))) {
            return self.check(a, b);
        }
        let follows = |sym: &Sym| matches!(sym, Sym::Length(_));
        // That a field is equal to a constant says all of it.
        let either = relation != Relation::Equal || follows(&a.0) || follows(&b.0);
        let length = |shadow: &mut Shadow, operand: &Operand| match either && !is_const(&operand.0) {
            true => shadow.pins.as_length(&operand.0, operand.1),
            false => None,
        };
        // A field of its own is taken as a length only where what it is compared with is one, or a constant.
        let usable = |shadow: &Shadow, sym: &Sym| is_const(sym) || follows(sym) || shadow.pins.field(sym).is_some();
        let (from_a, from_b) = match usable(self, &a.0) && usable(self, &b.0) {
            true => (length(self, &a), length(self, &b)),
            false => (None, None),
        };
        match (from_a, from_b) {
            // Their difference is a constant.
            (Some(_), Some(_)) => {}
            (Some(length), None) if is_const(&b.0) => self.against(length, (&b, a.1), relation, false),
            (None, Some(length)) if is_const(&a.0) => self.against(length, (&a, b.1), relation, true),
            _ => return self.pin_both(&a, &b),
        }
        Sym::Const
    }

    /// A length, which is `value` now, against a constant; which one comes first in the comparison.
    fn against(&mut self, length: Length, (constant, value): (&Operand, u64), relation: Relation, reversed: bool) {
        let more = self.pins.more(length);
        let number = constant.1.min(MOST_GIVEN as u64) as i64;
        let given = match constant.0 {
            Sym::Given(given) if number < MOST_GIVEN => Some((given, number)),
            _ => {
                self.pins.by_value(&constant.0);
                None
            }
        };
        let constant = number - more;
        let value = value as i64 - more;
        let (below, from) = (i64::MIN..=constant - 1, constant..=i64::MAX);
        let (up_to, above) = (i64::MIN..=constant, constant + 1..=i64::MAX);
        let range = match (relation, reversed) {
            (Relation::Equal, _) if value == constant => return self.pins.pin_length(),
            (Relation::Equal, _) if value < constant => below,
            (Relation::Equal, _) => above,
            (Relation::Less, false) | (Relation::LessOrEqual, true) => {
                let (yes, no) = if reversed { (from, below) } else { (below, from) };
                if yes.contains(&value) { yes } else { no }
            }
            (Relation::LessOrEqual, false) | (Relation::Less, true) => {
                let (yes, no) = if reversed { (above, up_to) } else { (up_to, above) };
                if yes.contains(&value) { yes } else { no }
            }
        };
        self.pins.bound_by(length.of, given, *range.start(), *range.end());
    }

    /// A sum against something: if it is that, it must be so for each packet; if it isn't, no two packets are alike.
    fn check(&mut self, a: Operand, b: Operand) -> Sym {
        let (a, b) = if matches!(a.0, Sym::Sum(..)) { (a, b) } else { (b, a) };
        let Sym::Sum(words, complement) = &a.0 else { return Sym::Const };
        if a.1 != b.1 {
            self.pins.fail(Unrewritable::Checksum);
            return Sym::Const;
        }
        let flip = if *complement { 0xffff } else { 0 };
        let word = self.pins.field(&b.0);
        let expected = match word {
            Some(_) => flip,
            None => {
                self.pins.pin(&b.0, u64::MAX);
                self.pins.by_value(&b.0);
                b.1 as u16 ^ flip
            }
        };
        self.checked(words, expected, word);
        Sym::Const
    }

    /// A sum must be that, or that and a word of the packet.
    pub fn checked(&mut self, words: &Words, expected: u16, word: Option<u16>) {
        self.pins.by_value |= words.open;
        let check = Check { sum: Default::default(), expected, word };
        self.checks.push((words.clone(), check));
    }
}
