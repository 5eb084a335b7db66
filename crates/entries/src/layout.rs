//! Layout of packed keys and action arguments.

use crate::bits::{big_from_words, push_words, words_for};
use ir::{ActionId, KeyMatch, MatchKey, MatchKind, Pipeline};
use num_bigint::BigUint;
use std::cmp::Reverse;

/// Position of one key in the words of a packed key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackedKeyField {
    /// Position in [`ir::Table::keys`].
    pub position: usize,
    /// Match kind.
    pub kind: MatchKind,
    /// Width of the value in bits.
    pub width: u32,
    /// Whether ranges compare as two's complement.
    pub signed: bool,
    /// Number of words of one value.
    pub words: usize,
    /// First word in the packed key. The value (of a range: the lower bound) is followed by: for
    /// ternary the mask, for lpm one word with the prefix length, for a range the upper bound, for
    /// optional one word, 1 if the key is present.
    pub offset: usize,
}

impl PackedKeyField {
    /// Returns the number of words of the field, of the value and the second part.
    pub fn total_words(&self) -> usize {
        match self.kind {
            MatchKind::Exact | MatchKind::Selector => self.words,
            MatchKind::Ternary | MatchKind::Range => 2 * self.words,
            MatchKind::Lpm | MatchKind::Optional => self.words + 1,
        }
    }

    /// Returns the value's words (of a range: the lower bound's).
    pub fn value<'a>(&self, key: &'a [u64]) -> &'a [u64] {
        &key[self.offset..self.offset + self.words]
    }

    /// Returns the words after the value: mask, prefix length, upper bound or presence.
    pub fn second<'a>(&self, key: &'a [u64]) -> &'a [u64] {
        &key[self.offset + self.words..self.offset + self.total_words()]
    }

    /// Returns the value's words for writing, see [`PackedKeyField::value`].
    pub fn value_mut<'a>(&self, key: &'a mut [u64]) -> &'a mut [u64] {
        &mut key[self.offset..self.offset + self.words]
    }

    /// Returns the words after the value for writing, see [`PackedKeyField::second`].
    pub fn second_mut<'a>(&self, key: &'a mut [u64]) -> &'a mut [u64] {
        &mut key[self.offset + self.words..self.offset + self.total_words()]
    }
}

/// The fields of a table's or value set's keys, without selector keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyLayout {
    /// Fields in order.
    pub fields: Vec<PackedKeyField>,
    /// Number of words of a packed key.
    pub len: usize,
}

/// Precedence of an entry among those that match; the smallest wins. Compares priority, total
/// prefix length in bits, and insertion order.
pub type MatchPrecedence = (Reverse<i32>, Reverse<u64>, u64);

impl KeyLayout {
    /// Returns the words of a key's exact fields.
    pub fn exact_words<'a>(&'a self, key: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let exact = self.fields.iter().filter(|field| field.kind == MatchKind::Exact);
        exact.flat_map(|field| field.value(key)).copied()
    }

    /// Computes the layout of keys.
    pub fn new(keys: &[MatchKey]) -> KeyLayout {
        let mut layout = KeyLayout { fields: Vec::new(), len: 0 };
        for (position, key) in keys.iter().enumerate().filter(|(_, key)| key.kind != MatchKind::Selector) {
            let width = key.ty.width();
            let field = PackedKeyField {
                position,
                kind: key.kind,
                width,
                signed: key.ty.is_signed(),
                words: words_for(width),
                offset: layout.len,
            };
            layout.len += field.total_words();
            layout.fields.push(field);
        }
        layout
    }

    /// Unpacks keys.
    pub fn unpack(&self, key: &[u64]) -> Vec<KeyMatch> {
        let one = |field: &PackedKeyField| {
            let value = big_from_words(field.value(key));
            let second = field.second(key);
            match field.kind {
                MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(value),
                MatchKind::Ternary => KeyMatch::Ternary { value, mask: big_from_words(second) },
                MatchKind::Lpm => KeyMatch::Lpm { value, prefix_len: second[0] as u32 },
                MatchKind::Range => KeyMatch::Range { lo: value, hi: big_from_words(second) },
                MatchKind::Optional => KeyMatch::Optional((second[0] != 0).then_some(value)),
            }
        };
        self.fields.iter().map(one).collect()
    }
}

/// Position of an action's argument in the argument words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedArgField {
    /// Width in bits.
    pub width: u32,
    /// First word.
    pub offset: usize,
    /// Number of words.
    pub words: usize,
}

/// Returns the layout of an action's arguments.
pub fn action_layout(pipeline: &Pipeline, action: ActionId) -> Vec<PackedArgField> {
    let mut offset = 0;
    let place = |param: &ir::Param| {
        let width = param.ty.width();
        let field = PackedArgField { width, offset, words: words_for(width) };
        offset += field.words;
        field
    };
    pipeline.actions[action].params.iter().map(place).collect()
}

/// Packs arguments that are valid for the action.
pub fn pack_args(pipeline: &Pipeline, action: ActionId, args: &[BigUint]) -> Box<[u64]> {
    let params = &pipeline.actions[action].params;
    // The exact capacity avoids a copy when the vector becomes a box.
    let mut out = Vec::with_capacity(params.iter().map(|param| words_for(param.ty.width())).sum());
    for (param, arg) in params.iter().zip(args) {
        push_words(arg, words_for(param.ty.width()), &mut out);
    }
    out.into_boxed_slice()
}

/// Unpacks arguments.
pub fn unpack_args(pipeline: &Pipeline, action: ActionId, words: &[u64]) -> Vec<BigUint> {
    let one = |field: PackedArgField| big_from_words(&words[field.offset..field.offset + field.words]);
    action_layout(pipeline, action).into_iter().map(one).collect()
}
