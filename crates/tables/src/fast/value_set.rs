//! [`ValueSet`]: whether a member of a parser's value set matches.

use crate::entry::PackedKey;
use crate::layout::{KeyField, KeyLayout};
use hashbrown::HashSet;
use ir::MatchKind;
use std::cmp::Ordering;
use std::sync::Arc;

/// The members of one value set.
#[derive(Clone, Debug)]
pub(super) struct ValueSet {
    layout: Arc<KeyLayout>,
    members: Arc<Vec<PackedKey>>,
    /// The same if all keys are exact: then one look is enough.
    exact: Option<Arc<HashSet<PackedKey>>>,
}

impl ValueSet {
    /// `layout` is that of the members' keys.
    pub fn new(layout: &KeyLayout, members: Arc<Vec<PackedKey>>) -> ValueSet {
        let mut set = ValueSet { layout: Arc::new(layout.clone()), members: Arc::default(), exact: None };
        set.set(members);
        set
    }

    /// Other members.
    pub fn set(&mut self, members: Arc<Vec<PackedKey>>) {
        let all_exact = self.layout.fields.iter().all(|field| field.kind == MatchKind::Exact);
        // A handful is compared as fast as it is hashed.
        let hashed = all_exact && members.len() > 4;
        self.exact = hashed.then(|| Arc::new(members.iter().cloned().collect()));
        self.members = members;
    }

    /// Whether a member matches. `keys` has the words of each key of the set, least significant first.
    pub fn contains(&self, keys: &[&[u64]]) -> bool {
        let fields = &self.layout.fields;
        if fields.iter().any(|field| keys.get(field.position).is_none_or(|key| key.len() != field.words)) {
            return false;
        }
        if let Some(exact) = &self.exact {
            let mut key = PackedKey::new();
            for field in fields {
                key.extend_from_slice(keys[field.position]);
            }
            return exact.contains(&key);
        }
        let matches = |member: &PackedKey| fields.iter().all(|f| field_matches(f, member, keys[f.position]));
        self.members.iter().any(matches)
    }
}

/// Whether a value matches one key of a packed member or entry. `value` has the field's number of words.
pub(super) fn field_matches(field: &KeyField, member: &[u64], value: &[u64]) -> bool {
    let (want, second) = (field.value(member), field.second(member));
    match field.kind {
        MatchKind::Exact => value == want,
        MatchKind::Ternary => value.iter().zip(second).zip(want).all(|((v, mask), want)| v & mask == *want),
        MatchKind::Optional => second[0] == 0 || value == want,
        MatchKind::Selector => true,
        MatchKind::Lpm => {
            let host = field.width.saturating_sub(second[0] as u32);
            let differs = |(index, (v, want)): (usize, (&u64, &u64))| (v ^ want) & from_bit(host, index) != 0;
            !value.iter().zip(want).enumerate().any(differs)
        }
        MatchKind::Range => {
            let sign = if field.signed { field.width.checked_sub(1) } else { None };
            compare(want, value, sign) != Ordering::Greater && compare(value, second, sign) != Ordering::Greater
        }
    }
}

/// The bits of word `index` of a value that are at or above `bit`.
fn from_bit(bit: u32, index: usize) -> u64 {
    let below = (u64::from(bit)).saturating_sub(index as u64 * 64);
    if below >= 64 { 0 } else { u64::MAX << below }
}

/// Which is greater. If there is a sign bit it is flipped: that maps the order of two's complement to that of unsigned numbers.
fn compare(a: &[u64], b: &[u64], sign: Option<u32>) -> Ordering {
    let flip = |index: usize| match sign {
        Some(bit) if (bit / 64) as usize == index => 1u64 << (bit % 64),
        _ => 0,
    };
    let words = a.iter().zip(b).enumerate().rev();
    words.map(|(i, (a, b))| (a ^ flip(i)).cmp(&(b ^ flip(i)))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}
