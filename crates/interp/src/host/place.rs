//! Where values lie in areas of words, and what the host keeps of a call with them.

use crate::decode::layout;
use crate::program::{Call, Reg};
use ir::Type;

/// Where a value lies in an area of words. The value's bits above its width are 0; words are least significant first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// First word.
    pub word: usize,
    /// How many: [`entries::words_for`] the width, and one more for a varbit.
    pub words: usize,
    /// Width in bits; of a varbit the greatest.
    pub width: u32,
    /// The first word is the length in bits, the others are the bits as a number.
    pub varbit: bool,
}

impl Place {
    pub(super) fn new(reg: Reg) -> Place {
        Place { word: reg.slot as usize, words: reg.words as usize, width: reg.width, varbit: reg.varbit }
    }
}

/// Values one after the other.
pub(super) fn places(types: impl Iterator<Item = Type>) -> Vec<Place> {
    let mut next = 0;
    let place = |ty| {
        let reg = layout::reg(ty, next);
        next += reg.words;
        Place::new(reg)
    };
    types.map(place).collect()
}

/// What the host keeps of a call site.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub call: Call,
    pub arg_words: usize,
    pub result_words: usize,
    /// The table that the call names.
    pub table: Option<usize>,
    /// See [`crate::host::Site::payload`].
    pub payload: bool,
    /// It reads or changes what checksum objects keep for a packet.
    pub lane: bool,
    /// It may have an [`crate::host::Effect`].
    pub asks: bool,
    /// Arguments whose length is to be looked at.
    pub varbits: Vec<Place>,
}
