//! [`Tenants`]: whose packet it is, before the program has run it.
//!
//! The variable that says so gets its bits from the packet in the parser, and where they are depends on what the parser looked at until then. The shadow of the first packet of
//! a way sees both ([`Place`]); another packet that has the same bits in these places has its tenant's number there, too.

use super::form::{WINDOW, word_of, words};
use super::sym::{FIXED, Pins, Sym};
use interp::walk::Slot;

/// The most places that are known, and tried one by one: a parser reaches a header in a few ways.
const MOST: usize = 64;

/// Words of the packet's first bytes.
const WORDS: usize = WINDOW / 8;

/// Where the number is in packets that have these bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    mask: [u64; WORDS],
    value: [u64; WORDS],
    /// Its bits from the lowest, as numbers of the packet's.
    bits: Vec<u16>,
}

fn bit(window: &[u8; WINDOW], bit: u16) -> u64 {
    u64::from(window[usize::from(bit / 8)] >> (7 - bit % 8) & 1)
}

impl Place {
    /// Of a packet of which this was looked at, and whose variable has that value: `None` if it is made of anything but bits of its beginning.
    pub fn new(pins: &Pins, sym: &Sym, value: u64) -> Option<Place> {
        let Sym::Bits(bits) = sym else { return None };
        let width = bits.iter().rposition(|bit| *bit != FIXED)? + 1;
        let bits = bits[..width].to_vec();
        if bits.iter().any(|bit| usize::from(*bit) >= 8 * WINDOW) {
            return None;
        }
        let (mut mask, mut looked_at) = ([0; WORDS], [0; WORDS]);
        mask.iter_mut().zip(words(&pins.mask)).for_each(|(to, word)| *to = word);
        for (at, to) in looked_at.iter_mut().enumerate() {
            *to = word_of(&pins.window, at) & mask[at];
        }
        let place = Place { mask, value: looked_at, bits };
        (place.number(&pins.window) == value).then_some(place)
    }

    fn is_of(&self, window: &[u8; WINDOW]) -> bool {
        (0..WORDS).all(|at| word_of(window, at) & self.mask[at] == self.value[at])
    }

    fn number(&self, window: &[u8; WINDOW]) -> u64 {
        self.bits.iter().rev().fold(0, |number, at| number << 1 | bit(window, *at))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Tenants {
    /// The variable's.
    pub slot: Option<Slot>,
    places: Vec<Place>,
}

impl Tenants {
    /// A shadow has seen where it is.
    pub fn learn(&mut self, place: Option<Place>) {
        if let Some(place) = place.filter(|place| self.places.len() < MOST && !self.places.contains(place)) {
            self.places.push(place);
        }
    }

    /// The tenant of a packet with these first bytes; 0 if it says none, or none like it has been seen.
    pub fn of(&self, window: &[u8; WINDOW]) -> u64 {
        self.places.iter().find(|place| place.is_of(window)).map_or(0, |place| place.number(window))
    }
}
