//! [`Sym`]: what is known of a 64-bit slot besides its value: where its bits come from.
//!
//! A bit is a constant of the flow, or a bit of the packet that nobody has looked at. As soon as somebody looks ([`Pins::pin`]), the bit becomes part of the key,
//! and thereby a constant. Two forms more are followed: the packet's length and something, and one's complement sums.

use super::Unrewritable;
use super::form::{MAX_NEAR, MAX_TERMS, Sum, WINDOW, word};
use std::collections::BTreeSet;

/// A bit that is a constant of the flow.
pub const CONST: u16 = u16::MAX;
/// A bit that is the same for all packets of the way, whatever their values are: the program says it.
pub const FIXED: u16 = u16::MAX - 1;

/// Whether the bit is none of the packet's.
pub fn is_constant(bit: u16) -> bool {
    bit >= FIXED
}

/// Numbers that bound lengths are below this.
pub const MOST_GIVEN: i64 = 1 << 40;

/// For each bit, from the lowest, the bit of the packet that it is (the first bit of the first byte is 0), or [`CONST`].
pub type Bits = [u16; 64];

/// Where a slot's bits come from.
#[derive(Clone, Debug)]
pub enum Sym {
    /// The same for all packets of the flow.
    Const,
    /// The same for all packets of the way: the program says it.
    Fixed,
    /// What an entry gives its action: the same for all packets of the flow.
    Given(Given),
    /// Bit by bit.
    Bits(Box<Bits>),
    /// A number that grows with the packet's length.
    Length(Length),
    /// 16 bits: a sum, complemented if that is set.
    Sum(Box<Words>, bool),
    /// Different each time, for that reason.
    Live(Unrewritable),
}

/// A word of the parameters that an entry, or a default action, gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// Number of the table application on the packet's way.
    pub application: u32,
    /// Which word.
    pub word: u32,
}

/// A number that grows with the packet's length in bytes: the same for all packets of the way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Length {
    /// How much more it is than what it comes from.
    pub more: i64,
    /// First byte of the 16-bit field that it comes from; `None`: the length itself.
    pub of: Option<u16>,
}

impl Length {
    /// The packet's length, and so much more.
    pub const fn of_packet(more: i64) -> Length {
        Length { more, of: None }
    }
}

/// Lengths for which all decisions are the same, of a packet whose field at `of` is as far from its length as that of this one, and to which an entry gives the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    of: Option<u16>,
    given: Option<Given>,
    /// With the distance of that field added, and without what an entry gives: these are others for each flow.
    first: i64,
    last: i64,
}

/// A sum while it grows: its words may yet become constants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words {
    /// What is constant already.
    pub constant: u64,
    /// What of that the program says, whatever values the packet has.
    pub fixed: u64,
    /// Some of the constant is not the same for all packets of the way.
    pub open: bool,
    /// Fields whose distance from the length is added.
    pub of: Vec<u16>,
    /// How often the packet's length is in it.
    pub lengths: u32,
    /// What is added to these lengths in all, besides the distances of the fields that they come from.
    pub more: i64,
    /// Words of the packet: first byte and mask.
    pub terms: Vec<(u16, u16)>,
}

/// What was looked at, of one packet.
#[derive(Clone, Debug)]
pub struct Pins {
    /// The packet's first bytes.
    pub window: [u8; WINDOW],
    /// Its length in bytes.
    pub length: usize,
    /// Bits of the key.
    pub mask: [u8; WINDOW],
    /// See [`super::form::Shape::near`].
    pub near: BTreeSet<u16>,
    /// The length is part of the key.
    pub whole_length: bool,
    /// Lengths for which all decisions are the same.
    pub lengths: (i64, i64),
    /// What they come from.
    pub bounds: Vec<Bound>,
    /// What was found depends on the packet's values, and not on its way alone.
    pub by_value: bool,
    /// What stands in the way.
    pub failed: Option<Unrewritable>,
}

impl Pins {
    /// Nothing is looked at yet.
    pub fn new(bytes: &[u8]) -> Pins {
        Pins {
            window: super::form::window(bytes),
            length: bytes.len(),
            mask: [0; WINDOW],
            near: BTreeSet::new(),
            whole_length: false,
            lengths: (0, packet::MAX_LEN as i64),
            bounds: Vec::new(),
            by_value: false,
            failed: None,
        }
    }

    /// It cannot be done.
    pub fn fail(&mut self, why: Unrewritable) {
        self.failed.get_or_insert(why);
    }

    /// Whether the bit is a constant of the flow.
    pub fn is_pinned(&self, bit: u16) -> bool {
        is_constant(bit) || self.mask.get(bit as usize / 8).is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1)
    }

    /// Somebody looked at the bit.
    pub fn pin_bit(&mut self, bit: u16) {
        if is_constant(bit) {
            return;
        }
        match self.mask.get_mut(bit as usize / 8) {
            Some(byte) => *byte |= 1 << (7 - bit % 8),
            None => self.fail(Unrewritable::TooDeep),
        }
    }

    /// The length is what it is.
    pub fn pin_length(&mut self) {
        self.whole_length = true;
    }

    /// Only lengths `first..=last` decide alike.
    pub fn bound(&mut self, first: i64, last: i64) {
        self.bound_by(None, None, first, last);
    }

    /// The same, where these come from a field's distance from the length, and from a number that an entry gives, and what that is.
    pub fn bound_by(&mut self, of: Option<u16>, given: Option<(Given, i64)>, first: i64, last: i64) {
        let value = given.map_or(0, |(_, value)| value);
        let less = of.map_or(0, |at| self.distance(at)) - value;
        let given = given.map(|(given, _)| given);
        let bound = Bound { of, given, first: first.saturating_add(less), last: last.saturating_add(less) };
        if !self.bounds.contains(&bound) {
            self.bounds.push(bound);
        }
        self.narrow(bound, value);
    }

    /// `value`: what the entry gives.
    fn narrow(&mut self, bound: Bound, value: i64) {
        let less = bound.of.map_or(0, |at| self.distance(at)) - value;
        let (first, last) = (bound.first.saturating_sub(less), bound.last.saturating_sub(less));
        self.lengths = (self.lengths.0.max(first), self.lengths.1.min(last));
    }

    fn at_least(&mut self, first: i64) {
        self.lengths.0 = self.lengths.0.max(first);
    }

    /// How far the field there is from the length.
    fn distance(&self, at: u16) -> i64 {
        i64::from(word(&self.window, at as usize)) - self.length as i64
    }

    /// How much more than the packet's length it is, for this packet.
    pub fn more(&self, length: Length) -> i64 {
        length.more + length.of.map_or(0, |at| self.distance(at))
    }

    /// How much more than the lengths in a sum is added with them, for this packet.
    fn more_of(&self, words: &Words) -> i64 {
        words.more + words.of.iter().map(|at| self.distance(*at)).sum::<i64>()
    }

    /// What is so much more than the packet's length, for this packet, and comes from that field.
    pub fn length_of(&self, of: Option<u16>, more: i64) -> Length {
        Length { more: more - of.map_or(0, |at| self.distance(at)), of }
    }

    /// Only as long as the number stays in `0..=most`.
    pub fn within(&mut self, length: Length, most: i64) {
        let more = self.more(length);
        self.bound_by(length.of, None, -more, most - more);
    }

    /// Nothing is looked at yet, but the packet is of the way of another one, of which this is known. `given`: what entries give it. `None`: they give what none can.
    pub fn again(&mut self, mask: &[u8; WINDOW], bounds: &[Bound], given: impl Fn(Given) -> Option<u64>) -> Option<()> {
        self.mask = *mask;
        for bound in bounds {
            let value = bound.given.map_or(Some(0), &given)?;
            self.narrow(*bound, i64::try_from(value).ok().filter(|value| *value < MOST_GIVEN)?);
        }
        Some(())
    }

    /// A value decides what is done that the packet's way does not say, unless the program does.
    pub fn by_value(&mut self, sym: &Sym) {
        self.by_value |= !matches!(sym, Sym::Fixed);
    }

    /// Somebody looked at these bits of a slot.
    pub fn pin(&mut self, sym: &Sym, mask: u64) {
        match sym {
            Sym::Const | Sym::Fixed | Sym::Given(_) => {}
            _ if mask == 0 => {}
            Sym::Bits(bits) => {
                (0..64).filter(|bit| mask >> bit & 1 == 1).for_each(|bit| self.pin_bit(bits[bit]));
            }
            Sym::Length(_) => self.pin_length(),
            Sym::Sum(..) => self.fail(Unrewritable::Checksum),
            Sym::Live(why) => self.fail(*why),
        }
    }

    /// The slot's bits, what is no bit of the packet being pinned.
    pub fn bits(&mut self, sym: &Sym) -> Bits {
        match sym {
            Sym::Bits(bits) => **bits,
            Sym::Fixed => [FIXED; 64],
            other => {
                self.pin(other, u64::MAX);
                [CONST; 64]
            }
        }
    }

    /// If all bits are constants by now, so is the slot.
    pub fn settled(&self, sym: Sym) -> Sym {
        match &sym {
            Sym::Bits(bits) if bits.iter().all(|bit| self.is_pinned(*bit)) => Sym::Const,
            _ => sym,
        }
    }

    /// Whether it is a number of 16 bits.
    pub fn is_short(&self, length: Length) -> bool {
        (0..=0xffff).contains(&(self.length as i64 + self.more(length)))
    }

    /// The first byte of the 16-bit field that the slot is.
    pub fn field(&self, sym: &Sym) -> Option<u16> {
        let Sym::Bits(bits) = sym else { return None };
        let first = bits[15];
        let straight = !is_constant(first)
            && first.is_multiple_of(8)
            && (first as usize) < (WINDOW - 1) * 8
            && (0..16).all(|bit| bits[bit] == first + 15 - bit as u16)
            && bits[16..].iter().all(|bit| is_constant(*bit));
        straight.then_some(first / 8)
    }

    /// The slot as the packet's length and something: it is that, or a 16-bit field that is near the length. Such a field then counts, in the key, as its
    /// distance from the length.
    pub fn as_length(&mut self, sym: &Sym, value: u64) -> Option<Length> {
        if let Sym::Length(length) = sym {
            return Some(*length);
        }
        let at = self.field(sym)?;
        let add = value as i64 - self.length as i64;
        let near = (-160..=0).contains(&add) && (20..=0xffff).contains(&value);
        let known = self.near.contains(&at);
        let free = self.near.len() < MAX_NEAR && !self.near.iter().any(|other| other.abs_diff(at) < 2);
        if !(near && (known || free) && !(0..16).any(|bit| self.is_pinned(at * 8 + bit))) {
            return None;
        }
        self.near.insert(at);
        let length = Length { more: 0, of: Some(at) };
        self.within(length, 0xffff);
        Some(length)
    }

    /// Adds bits, most significant first, to a sum, 16 to a word, the last one filled with zeros.
    pub fn add_words(&mut self, sum: &mut Words, data: &[Piece]) {
        let mut at = 0;
        for piece in data {
            match piece {
                Piece::Bit(bit, value) => {
                    self.add_bit(sum, at % 16, *bit, *value);
                    at += 1;
                }
                Piece::Length(length) if at % 16 == 0 => {
                    sum.lengths += 1;
                    sum.more += length.more;
                    sum.of.extend(length.of);
                    at += 16;
                }
                Piece::Length(length) => {
                    self.pin_length();
                    let value = (self.length as i64 + self.more(*length)) as u16;
                    for bit in (0..16).rev() {
                        self.add_bit(sum, at % 16, CONST, value >> bit & 1 == 1);
                        at += 1;
                    }
                }
            }
        }
        if sum.terms.len() > 4 * MAX_TERMS * 8 {
            self.fail(Unrewritable::TooMuch);
        }
    }

    /// A bit at place `at`, from the highest, of a word.
    fn add_bit(&mut self, sum: &mut Words, at: u16, bit: u16, value: bool) {
        let weight = 0x8000 >> at;
        let aligned =
            !is_constant(bit) && bit >= at && (bit - at).is_multiple_of(8) && ((bit - at) as usize) < (WINDOW - 1) * 8;
        if !aligned {
            self.pin_bit(bit);
            let more = if value { u64::from(weight) } else { 0 };
            sum.constant += more;
            match bit {
                FIXED => sum.fixed += more,
                _ => sum.open = true,
            }
            return;
        }
        let first = (bit - at) / 8;
        match sum.terms.iter_mut().find(|(byte, mask)| *byte == first && mask & weight == 0) {
            Some((_, mask)) => *mask |= weight,
            None => sum.terms.push((first, weight)),
        }
    }

    /// The words of a sum that differ from packet to packet, and how often the length is in it; its constant is each packet's own.
    pub fn terms(mask: &[u8; WINDOW], words: &Words) -> Sum {
        let terms = words.terms.iter().map(|(at, bits)| (*at, bits & !pinned(mask, *at)));
        Sum { constant: 0, lengths: words.lengths, terms: terms.filter(|(_, bits)| *bits != 0).collect() }
    }

    /// The sum's constant: all that is constant by now added up.
    pub fn closed(&mut self, words: &Words) -> u64 {
        let constant = words.constant as i64 + self.more_of(words) + self.known_terms(words);
        if constant >= 0 || words.lengths == 0 {
            return constant as u64;
        }
        // A negative rest belongs to the lengths: whatever they are, together they must be more than nothing.
        self.at_least(-constant / i64::from(words.lengths) + 1);
        constant.rem_euclid(0xffff) as u64
    }

    /// The same of a sum whose constants are another packet's: with these terms it must come out as `value` for this one. `None` if that leaves a choice.
    pub fn solve(&mut self, words: &Words, terms: &Sum, value: u16) -> Option<u64> {
        if words.lengths > 0 {
            self.at_least((-self.more_of(words)).max(0) / i64::from(words.lengths) + 1);
        }
        let rest = terms.with(0, &self.window, self.length);
        let constant = (u64::from(value) + 0xffff - u64::from(rest)) % 0xffff;
        // 0 and 0xffff differ where all else is 0.
        if constant != 0 {
            return Some(constant);
        }
        let some = words.lengths > 0 || words.fixed > 0 || self.known_terms(words) > 0;
        (value != 0 && some).then_some(0xffff)
    }

    /// What the words that are looked at add up to.
    fn known_terms(&self, words: &Words) -> i64 {
        let known = |(at, bits): &(u16, u16)| word(&self.window, *at as usize) & self.pinned(*at) & bits;
        words.terms.iter().map(|term| i64::from(known(term))).sum()
    }

    /// The bits of a word that were looked at.
    fn pinned(&self, at: u16) -> u16 {
        pinned(&self.mask, at)
    }

    /// Whether it is the same for all packets of the flow.
    pub fn is_known(&self, words: &Words) -> bool {
        words.lengths == 0 && words.terms.iter().all(|(at, mask)| mask & !self.pinned(*at) == 0)
    }

    /// What the sum is, for the packet.
    pub fn value(&self, words: &Words) -> u16 {
        let terms =
            words.terms.iter().map(|(at, mask)| i64::from(word(&self.window, *at as usize) & mask)).sum::<i64>();
        let lengths = i64::from(words.lengths) * self.length as i64 + self.more_of(words);
        super::form::fold((words.constant as i64 + terms + lengths).max(0) as u64)
    }
}

fn pinned(mask: &[u8; WINDOW], at: u16) -> u16 {
    u16::from_be_bytes([mask[at as usize], mask[at as usize + 1]])
}

/// A piece of what is summed.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// A bit of the packet or a constant, and its value.
    Bit(u16, bool),
    /// 16 bits: a length.
    Length(Length),
}

/// What bits make.
pub fn of_bits(bits: Bits) -> Sym {
    match bits.iter().copied().min() {
        Some(FIXED) if bits.iter().all(|bit| *bit == FIXED) => Sym::Fixed,
        Some(CONST) => Sym::Const,
        // Which of its bits the program says is kept in sight.
        _ => Sym::Bits(Box::new(bits)),
    }
}
