//! Keys of a table or value set: `FieldMatch` to [`KeyMatch`], and back.

use super::scalar::{Scalar, words};
use crate::proto::v1::{FieldMatch, field_match as f};
use crate::{P4RuntimeError, values};
use entries::{KeyLayout, PackedKey};
use ir::{KeyMatch, MatchKind};
use num_bigint::BigUint;
use num_traits::{One, Zero};

/// Match field with its P4Info id.
pub(super) struct MatchFieldSchema {
    pub id: u32,
    pub name: String,
    pub scalar: Scalar,
    pub kind: MatchKind,
}

/// Match fields of a table or value set in order, without selector keys.
pub(super) struct MatchFieldSchemas {
    /// Name for error messages, as in `table ingress.routes`.
    pub owner: String,
    pub list: Vec<MatchFieldSchema>,
}

impl MatchFieldSchemas {
    fn place(&self, field: &MatchFieldSchema) -> String {
        match field.name.is_empty() {
            true => self.owner.clone(),
            false => format!("{}, key {}", self.owner, field.name),
        }
    }

    /// Decodes one match for each field. An omitted field matches everything (section "Match
    /// Format").
    pub fn decode(&self, given: &[FieldMatch]) -> Result<Vec<KeyMatch>, P4RuntimeError> {
        let mut keys: Vec<Option<KeyMatch>> = vec![None; self.list.len()];
        for one in given {
            let position = self.position(one.field_id)?;
            let field = &self.list[position];
            if keys[position].is_some() {
                return Err(P4RuntimeError::invalid(format!("{}: it is given twice; give it once", self.place(field))));
            }
            keys[position] = Some(self.decode_match(field, one)?);
        }
        let pairs = keys.into_iter().zip(&self.list);
        pairs
            .map(|(key, field)| {
                key.or_else(|| field.kind.key_match(field.scalar.ty, None)).ok_or_else(|| self.missing(field))
            })
            .collect()
    }

    fn position(&self, id: u32) -> Result<usize, P4RuntimeError> {
        // Ids are mostly consecutive from 1.
        let guess = (id as usize).wrapping_sub(1);
        if self.list.get(guess).is_some_and(|field| field.id == id) {
            return Ok(guess);
        }
        self.list.iter().position(|field| field.id == id).ok_or_else(|| {
            let known: Vec<String> = self.list.iter().map(|field| format!("{} {}", field.id, field.name)).collect();
            P4RuntimeError::invalid(format!("{}: it has no key with id {id}; it has {}", self.owner, known.join(", ")))
        })
    }

    fn missing(&self, field: &MatchFieldSchema) -> P4RuntimeError {
        P4RuntimeError::invalid(format!(
            "{}: it is exact and cannot be left out; give field {}",
            self.place(field),
            field.id
        ))
    }

    /// Decodes the match of a field, which must be of the kind that the key has.
    fn decode_match(&self, field: &MatchFieldSchema, message: &FieldMatch) -> Result<KeyMatch, P4RuntimeError> {
        use f::FieldMatchType as T;
        let error_place = &|| self.place(field);
        let scalar = &field.scalar;
        match (field.kind, &message.field_match_type) {
            (MatchKind::Exact, Some(T::Exact(exact))) => Ok(KeyMatch::Exact(scalar.decode(&exact.value, error_place)?)),
            (MatchKind::Ternary, Some(T::Ternary(ternary))) => self.ternary(field, ternary),
            (MatchKind::Lpm, Some(T::Lpm(lpm))) => self.lpm(field, lpm),
            (MatchKind::Range, Some(T::Range(range))) => self.range(field, range),
            (MatchKind::Optional, Some(T::Optional(optional))) => {
                Ok(KeyMatch::Optional(Some(scalar.decode(&optional.value, error_place)?)))
            }
            (kind, message) => {
                let given_kind = match message {
                    Some(T::Exact(_)) => "an exact match",
                    Some(T::Ternary(_)) => "a ternary match",
                    Some(T::Lpm(_)) => "an lpm match",
                    Some(T::Range(_)) => "a range match",
                    Some(T::Optional(_)) => "an optional match",
                    Some(T::Other(_)) => "a match of another kind",
                    None => "a match without a kind",
                };
                Err(P4RuntimeError::invalid(format!(
                    "{}: {given_kind} is given, but the key is {}",
                    error_place(),
                    kind.keyword()
                )))
            }
        }
    }

    fn ternary(&self, field: &MatchFieldSchema, given: &f::Ternary) -> Result<KeyMatch, P4RuntimeError> {
        let place = &|| self.place(field);
        let value = field.scalar.decode_bits(&given.value, place)?;
        let mask = field.scalar.decode_mask(&given.mask, place)?;
        if mask.is_zero() {
            return Err(P4RuntimeError::invalid(format!(
                "{}: the mask is 0; leave the match out to match everything",
                place()
            )));
        }
        let corrected = &value & &mask;
        match corrected == value {
            true => Ok(KeyMatch::Ternary { value, mask }),
            false => Err(P4RuntimeError::invalid(format!(
                "{}: value {value:#x} has bits where mask {mask:#x} has none; write {corrected:#x}",
                place()
            ))),
        }
    }

    fn lpm(&self, field: &MatchFieldSchema, given: &f::Lpm) -> Result<KeyMatch, P4RuntimeError> {
        let place = &|| self.place(field);
        let prefix_len = field.scalar.decode_prefix(given.prefix_len, place)?;
        let value = field.scalar.decode_bits(&given.value, place)?;
        let host = field.scalar.width() - prefix_len;
        let corrected = (&value >> host) << host;
        match corrected == value {
            true => Ok(KeyMatch::Lpm { value, prefix_len }),
            false => Err(P4RuntimeError::invalid(format!(
                "{}: {value:#x}/{prefix_len} has bits set after the prefix; write {corrected:#x}/{prefix_len}",
                place()
            ))),
        }
    }

    /// Decodes a range. A range of all values is an error, because P4Runtime requires that it is
    /// left out.
    fn range(&self, field: &MatchFieldSchema, message: &f::Range) -> Result<KeyMatch, P4RuntimeError> {
        let error_place = &|| self.place(field);
        let lo = field.scalar.decode(&message.low, error_place)?;
        let hi = field.scalar.decode(&message.high, error_place)?;
        if field.kind.key_match(field.scalar.ty, None) == Some(KeyMatch::Range { lo: lo.clone(), hi: hi.clone() }) {
            return Err(P4RuntimeError::invalid(format!(
                "{}: the range has all values; leave the match out to match everything",
                error_place()
            )));
        }
        // Flipping the sign bits maps the order of two's complement to that of unsigned numbers.
        let sign_bit = match field.scalar.ty.is_signed() {
            true => BigUint::one() << field.scalar.width().saturating_sub(1),
            false => BigUint::ZERO,
        };
        match (&lo ^ &sign_bit) <= (&hi ^ &sign_bit) {
            true => Ok(KeyMatch::Range { lo, hi }),
            false => Err(P4RuntimeError::invalid(format!(
                "{}: the range {lo:#x}..{hi:#x} is empty; the lower bound comes first",
                error_place()
            ))),
        }
    }

    /// Encodes the keys of an entry, without fields that match everything.
    pub fn encode(&self, layout: &KeyLayout, key: &[u64]) -> Vec<FieldMatch> {
        let fields = self.list.iter().zip(&layout.fields);
        fields.filter_map(|(field, at)| encode_one(field, at.value(key), at.second(key))).collect()
    }

    /// Encodes matches, without fields that match everything.
    pub fn encode_matches(&self, keys: &[KeyMatch]) -> Vec<FieldMatch> {
        let one = |(field, key): (&MatchFieldSchema, &KeyMatch)| {
            let (value, second) = split_match(key, field.scalar.width());
            encode_one(field, &value, &second)
        };
        self.list.iter().zip(keys).filter_map(one).collect()
    }
}

/// Packs matches into the key of an [`entries::StoredEntry`]. They must be valid for the layout.
pub(super) fn pack_key(layout: &KeyLayout, keys: &[KeyMatch]) -> PackedKey {
    let mut out = PackedKey::new();
    for (field, key) in layout.fields.iter().zip(keys) {
        let (value, second) = split_match(key, field.width);
        out.extend(value);
        out.extend(second.into_iter().take(field.total_words() - field.words));
    }
    out
}

/// Splits a match into words, in the layout of [`entries::PackedKeyField`].
fn split_match(key: &KeyMatch, width: u32) -> (Vec<u64>, Vec<u64>) {
    match key {
        KeyMatch::Exact(value) => (words(value, width), Vec::new()),
        KeyMatch::Ternary { value, mask } => (words(value, width), words(mask, width)),
        KeyMatch::Lpm { value, prefix_len } => (words(value, width), vec![u64::from(*prefix_len)]),
        KeyMatch::Range { lo, hi } => (words(lo, width), words(hi, width)),
        KeyMatch::Optional(value) => {
            (words(value.as_ref().unwrap_or(&BigUint::ZERO), width), vec![u64::from(value.is_some())])
        }
    }
}

/// Encodes the match of a field; `None` if it matches everything. `second` is the mask, the prefix
/// length or the upper bound.
fn encode_one(field: &MatchFieldSchema, value: &[u64], second: &[u64]) -> Option<FieldMatch> {
    use f::FieldMatchType as T;
    let scalar = &field.scalar;
    let is_zero = |words: &[u64]| words.iter().all(|word| *word == 0);
    let match_type = match field.kind {
        MatchKind::Exact | MatchKind::Selector => T::Exact(f::Exact { value: scalar.encode(value) }),
        MatchKind::Ternary | MatchKind::Optional | MatchKind::Lpm if is_zero(second) => return None,
        MatchKind::Ternary => T::Ternary(f::Ternary { value: values::encode(value), mask: scalar.encode_mask(second) }),
        MatchKind::Lpm => {
            let len = second.first().map_or(0, |len| *len as u32);
            T::Lpm(f::Lpm { value: values::encode(value), prefix_len: scalar.encode_prefix(len) })
        }
        MatchKind::Range => {
            let Some(KeyMatch::Range { lo, hi }) = field.kind.key_match(field.scalar.ty, None) else { return None };
            if value == words(&lo, scalar.width()) && second == words(&hi, scalar.width()) {
                return None;
            }
            T::Range(f::Range { low: scalar.encode(value), high: scalar.encode(second) })
        }
        MatchKind::Optional => T::Optional(f::Optional { value: scalar.encode(value) }),
    };
    Some(FieldMatch { field_id: field.id, field_match_type: Some(match_type) })
}
