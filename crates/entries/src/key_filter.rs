//! [`KeyFilter`]: conditions on single keys of an entry, compared on packed words.
//!
//! It selects entries of tables whose keys are all exact, such as flow tables with millions of
//! entries: a comparison costs an operation for each word that a condition covers.

use crate::layout::KeyLayout;
use crate::push_words;
use crate::text::{EntryTextError, find_name, parse_value};
use ir::{MatchKey, MatchKind};
use num_bigint::BigUint;
use num_traits::One;

/// A condition on one key of a table: its bits under `mask` are those of `value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyCondition {
    /// Position of the key in [`ir::Table::keys`].
    pub position: usize,
    /// The value.
    pub value: BigUint,
    /// The bits that are compared.
    pub mask: BigUint,
}

impl KeyCondition {
    /// Parses `KEY=VALUE` or `KEY=VALUE/LENGTH`, which compares the first `LENGTH` bits. `KEY` is
    /// the name of a key of the table `owner`, or a suffix of it after a dot. Values are those of
    /// [`crate::parse_entry`].
    ///
    /// # Errors
    /// No such key, a value that is none, or one that the key is too narrow for.
    pub fn parse(owner: &str, keys: &[MatchKey], text: &str) -> Result<KeyCondition, EntryTextError> {
        let (name, value) = text.split_once('=').ok_or_else(|| EntryTextError::Condition { text: text.to_owned() })?;
        let names = || keys.iter().map(|key| key.name.as_str());
        let position = find_name(names(), name.trim()).map_err(|_| EntryTextError::UnknownName {
            owner: format!("table {owner}"),
            what: "key",
            name: name.trim().to_owned(),
            known: names().collect::<Vec<_>>().join(", "),
        })?;
        let key = &keys[position];
        let width = key.ty.width();
        let refused =
            || EntryTextError::Match { key: key.name.clone(), kind: key.kind.keyword(), text: value.trim().to_owned() };
        let (value, length) = match value.trim().split_once('/') {
            None => (value.trim(), width),
            Some((value, length)) => (value.trim(), length.trim().parse().map_err(|_| refused())?),
        };
        let value = parse_value(value)?;
        if length > width || value.bits() > u64::from(width) {
            return Err(refused());
        }
        let mask = ((BigUint::one() << length) - BigUint::one()) << (width - length);
        Ok(KeyCondition { position, value: value & &mask, mask })
    }
}

/// Conditions on the words of a packed key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyFilter {
    /// Index of a word, the bits that are compared, and their values.
    words: Vec<(usize, u64, u64)>,
    /// Whether two conditions contradict each other.
    is_contradiction: bool,
}

impl KeyFilter {
    /// Converts conditions on keys that are exact; others are ignored.
    pub fn new(layout: &KeyLayout, conditions: &[KeyCondition]) -> KeyFilter {
        let [mut mask, mut value] = [vec![0; layout.len], vec![0; layout.len]];
        let mut is_contradiction = false;
        for condition in conditions {
            let field = layout.fields.iter().find(|field| field.position == condition.position);
            let Some(field) = field.filter(|field| field.kind == MatchKind::Exact) else { continue };
            let [mut own_mask, mut own_value] = [Vec::new(), Vec::new()];
            push_words(&condition.mask, field.words, &mut own_mask);
            push_words(&condition.value, field.words, &mut own_value);
            for (index, (own_mask, own_value)) in own_mask.into_iter().zip(own_value).enumerate() {
                let word = field.offset + index;
                is_contradiction |= (value[word] ^ own_value) & mask[word] & own_mask != 0;
                mask[word] |= own_mask;
                value[word] |= own_value;
            }
        }
        KeyFilter { is_contradiction, ..KeyFilter::from_words(&mask, &value) }
    }

    /// Makes a filter that compares these bits of a key's words.
    pub fn from_words(mask: &[u64], value: &[u64]) -> KeyFilter {
        let words = mask.iter().zip(value).enumerate().filter(|(_, (mask, _))| **mask != 0);
        let words = words.map(|(index, (mask, value))| (index, *mask, *value & *mask)).collect();
        KeyFilter { words, is_contradiction: false }
    }

    /// Returns mask and value of `len` words, and whether nothing matches: the inverse of
    /// [`KeyFilter::from_words`].
    pub fn to_words(&self, len: usize) -> ([Vec<u64>; 2], bool) {
        let [mut mask, mut value] = [vec![0; len], vec![0; len]];
        for (index, own_mask, own_value) in self.words.iter().filter(|(index, ..)| *index < len) {
            (mask[*index], value[*index]) = (*own_mask, *own_value);
        }
        ([mask, value], self.is_contradiction)
    }

    /// Returns a filter that matches nothing.
    pub fn nothing() -> KeyFilter {
        KeyFilter { words: Vec::new(), is_contradiction: true }
    }

    /// Returns whether the key matches. `word` returns a word of it.
    #[inline]
    pub fn matches(&self, word: impl Fn(usize) -> u64) -> bool {
        !self.is_contradiction && self.words.iter().all(|(index, mask, value)| word(*index) & mask == *value)
    }
}
