//! How keys and arguments lie in words.

use crate::bits::{big_from_words, push_words, words_for};
use ir::{ActionId, Key, KeyMatch, MatchKind, Pipeline};
use num_bigint::BigUint;
use std::cmp::Reverse;

/// One key of an entry in its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyField {
    /// Position in [`ir::Table::keys`].
    pub position: usize,
    /// How it is matched.
    pub kind: MatchKind,
    /// Width of the value in bits.
    pub width: u32,
    /// Whether ranges compare as two's complement.
    pub signed: bool,
    /// Words of one value.
    pub words: usize,
    /// First word in the packed key. There lies the value (of a range: the lower bound), and behind it: ternary: the
    /// mask; lpm: one word with the prefix length; range: the upper bound; optional: one word, 1 if the key is present.
    pub offset: usize,
}

impl KeyField {
    /// All words of the field, of the value and what follows it.
    pub fn total_words(&self) -> usize {
        match self.kind {
            MatchKind::Exact | MatchKind::Selector => self.words,
            MatchKind::Ternary | MatchKind::Range => 2 * self.words,
            MatchKind::Lpm | MatchKind::Optional => self.words + 1,
        }
    }

    /// The value's words (of a range: the lower bound's).
    pub fn value<'a>(&self, key: &'a [u64]) -> &'a [u64] {
        &key[self.offset..self.offset + self.words]
    }

    /// What lies behind the value: mask, prefix length, upper bound or presence.
    pub fn second<'a>(&self, key: &'a [u64]) -> &'a [u64] {
        &key[self.offset + self.words..self.offset + self.total_words()]
    }

    /// As [`KeyField::value`].
    pub fn value_mut<'a>(&self, key: &'a mut [u64]) -> &'a mut [u64] {
        &mut key[self.offset..self.offset + self.words]
    }

    /// As [`KeyField::second`].
    pub fn second_mut<'a>(&self, key: &'a mut [u64]) -> &'a mut [u64] {
        &mut key[self.offset + self.words..self.offset + self.total_words()]
    }
}

/// The fields of a table's or value set's keys, without selector keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyLayout {
    /// In order.
    pub fields: Vec<KeyField>,
    /// Words of a whole key.
    pub len: usize,
}

/// How strong an entry is among those that match: the least one wins. Its priority, the bits of its prefixes, and when it was inserted.
pub type Strength = (Reverse<i32>, Reverse<u64>, u64);

impl KeyLayout {
    /// The words of a key's exact fields.
    pub fn exact_words<'a>(&'a self, key: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        let exact = self.fields.iter().filter(|field| field.kind == MatchKind::Exact);
        exact.flat_map(|field| field.value(key)).copied()
    }

    /// The layout for these keys.
    pub fn new(keys: &[Key]) -> KeyLayout {
        let mut layout = KeyLayout { fields: Vec::new(), len: 0 };
        for (position, key) in keys.iter().enumerate().filter(|(_, key)| key.kind != MatchKind::Selector) {
            let width = key.ty.width();
            let field = KeyField {
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

    /// The keys again.
    pub fn unpack(&self, key: &[u64]) -> Vec<KeyMatch> {
        let one = |field: &KeyField| {
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

/// Where an action's argument lies among the argument words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgField {
    /// Width in bits.
    pub width: u32,
    /// First word.
    pub offset: usize,
    /// Words.
    pub words: usize,
}

/// The layout of an action's arguments.
pub fn action_layout(pipeline: &Pipeline, action: ActionId) -> Vec<ArgField> {
    let mut offset = 0;
    let place = |param: &ir::Param| {
        let width = param.ty.width();
        let field = ArgField { width, offset, words: words_for(width) };
        offset += field.words;
        field
    };
    pipeline.actions[action].params.iter().map(place).collect()
}

/// Packs arguments that are valid for the action.
pub fn pack_args(pipeline: &Pipeline, action: ActionId, args: &[BigUint]) -> Box<[u64]> {
    let params = &pipeline.actions[action].params;
    // Exactly as long as needed: then the box is made without a copy.
    let mut out = Vec::with_capacity(params.iter().map(|param| words_for(param.ty.width())).sum());
    for (param, arg) in params.iter().zip(args) {
        push_words(arg, words_for(param.ty.width()), &mut out);
    }
    out.into_boxed_slice()
}

/// The arguments again.
pub fn unpack_args(pipeline: &Pipeline, action: ActionId, words: &[u64]) -> Vec<BigUint> {
    let one = |field: ArgField| big_from_words(&words[field.offset..field.offset + field.words]);
    action_layout(pipeline, action).into_iter().map(one).collect()
}
