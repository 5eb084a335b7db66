//! Layout of values in areas of words, and the host's record of a call site.

use crate::decode::layout;
use crate::program::{DecodedCall, Reg};
use ir::Type;

/// Words of a value in an argument or result area. Bits above the value's width are 0; words are
/// least significant first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValueSlot {
    /// First word.
    pub first_word: usize,
    /// Number of words: [`entries::words_for`] the width, and one more for a varbit.
    pub words: usize,
    /// Width in bits; of a varbit the maximum.
    pub width: u32,
    /// Whether the value is a varbit: the first word is its length in bits, the others are its bits
    /// as a number.
    pub is_varbit: bool,
}

impl ValueSlot {
    pub(super) fn new(reg: Reg) -> ValueSlot {
        ValueSlot {
            first_word: reg.first_word as usize,
            words: reg.words as usize,
            width: reg.width,
            is_varbit: reg.is_varbit,
        }
    }
}

/// Lays out values one after the other.
pub(super) fn lay_out_values(types: impl Iterator<Item = Type>) -> Vec<ValueSlot> {
    let mut next = 0;
    let place = |ty| {
        let reg = layout::register_at(ty, next);
        next += reg.words;
        ValueSlot::new(reg)
    };
    types.map(place).collect()
}

/// The host's record of a call site.
#[derive(Clone, Debug)]
pub(super) struct CallSiteRecord {
    pub call: DecodedCall,
    pub arg_words: usize,
    pub result_words: usize,
    /// Table argument of the call.
    pub table: Option<usize>,
    /// Whether the call reads the payload ([`crate::host::ExternCallSite::payload`]).
    pub payload: bool,
    /// Whether the call accesses the checksum state of the packet.
    pub uses_checksum_state: bool,
    /// Whether the call can have an [`crate::host::ArchEffect`].
    pub has_arch_effect: bool,
    /// Varbit arguments, for the check of their lengths.
    pub varbits: Vec<ValueSlot>,
}
