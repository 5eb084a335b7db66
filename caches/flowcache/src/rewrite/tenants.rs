//! [`TenantExtractor`]: finds the tenant id in a packet's bytes before the program runs.
//!
//! The parser sets the tenant variable from packet bits, at positions that depend on the bits it
//! read before. Symbolic execution of the first packet of a path records both ([`TenantIdBits`]).
//! Another packet with the same values of these bits has its tenant id at the same position.

use super::form::{WINDOW, window_word, words};
use super::symbolic_value::{FIXED, PathConstraints, SymbolicValue};
use interp::block_hook::WordIndex;

/// Maximum number of known positions, which are tried one by one. A parser has few paths to a
/// header.
const MAX_POSITIONS: usize = 64;

/// Number of 64-bit words of the window.
const WORDS: usize = WINDOW / 8;

/// Position of the tenant id in packets with certain header bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantIdBits {
    mask: [u64; WORDS],
    value: [u64; WORDS],
    /// Bits of the id from the lowest, as bit numbers of the packet.
    bits: Vec<u16>,
}

fn packet_bit(window: &[u8; WINDOW], bit: u16) -> u64 {
    u64::from(window[usize::from(bit / 8)] >> (7 - bit % 8) & 1)
}

impl TenantIdBits {
    /// Creates the position from the constraints of a packet, given the variable's origin and
    /// value. Returns `None` if the id does not consist of bits of the window.
    pub fn new(constraints: &PathConstraints, origin: &SymbolicValue, value: u64) -> Option<TenantIdBits> {
        let SymbolicValue::Bits(bits) = origin else { return None };
        // The bits above the id are those that the program determines.
        let width = bits.iter().rposition(|bit| *bit != FIXED)? + 1;
        let bits = bits[..width].to_vec();
        if bits.iter().any(|bit| usize::from(*bit) >= 8 * WINDOW) {
            return None;
        }
        let (mut mask, mut values) = ([0; WORDS], [0; WORDS]);
        mask.iter_mut().zip(words(&constraints.mask)).for_each(|(to, word)| *to = word);
        for (at, to) in values.iter_mut().enumerate() {
            *to = window_word(&constraints.window, at) & mask[at];
        }
        let position = TenantIdBits { mask, value: values, bits };
        (position.tenant_id(&constraints.window) == value).then_some(position)
    }

    /// Returns whether a packet has the header bits for which the position holds.
    fn matches_packet(&self, window: &[u8; WINDOW]) -> bool {
        (0..WORDS).all(|at| window_word(window, at) & self.mask[at] == self.value[at])
    }

    /// Returns the tenant id of a packet that matches.
    fn tenant_id(&self, window: &[u8; WINDOW]) -> u64 {
        self.bits.iter().rev().fold(0, |number, at| number << 1 | packet_bit(window, *at))
    }
}

/// Extracts the tenant id from packets.
#[derive(Debug, Default)]
pub struct TenantExtractor {
    /// Slot of the tenant variable.
    pub slot: Option<WordIndex>,
    places: Vec<TenantIdBits>,
}

impl TenantExtractor {
    /// Adds a position that symbolic execution found.
    pub fn add_position(&mut self, place: Option<TenantIdBits>) {
        if let Some(place) = place.filter(|place| self.places.len() < MAX_POSITIONS && !self.places.contains(place)) {
            self.places.push(place);
        }
    }

    /// Returns the tenant id of a packet with these first bytes; 0 if no known position matches.
    pub fn tenant_of(&self, window: &[u8; WINDOW]) -> u64 {
        self.places.iter().find(|place| place.matches_packet(window)).map_or(0, |place| place.tenant_id(window))
    }
}
