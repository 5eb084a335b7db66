//! Naive lookups, for the control plane and as a model for tests; engines have their own.

use crate::entry::PackedKey;
use crate::layout::{KeyLayout, PackedKeyField};
use crate::state::{ControlState, TableState};
use crate::stored_entry::StoredEntry;
use ir::{MatchKind, TableId};
use num_bigint::BigUint;
use std::sync::Arc;

impl ControlState {
    /// Returns the entry that a packet with these key values hits: one value for each key except
    /// selector keys, in order.
    ///
    /// Exact keys must be equal. Without priorities, the longest prefix wins. With priorities, the
    /// greatest wins; among equal ones the entry inserted first. Returns `None` on a miss, for a
    /// wrong number of values, and for a value that is too wide.
    pub fn lookup(&self, table: TableId, values: &[BigUint]) -> Option<StoredEntry> {
        let layout = self.layouts.get(table.0 as usize)?;
        let state = &self.tables[table.0 as usize];
        let is_too_wide = |(field, value): (&PackedKeyField, &BigUint)| value.bits() > u64::from(field.width);
        if values.len() != layout.fields.len() || layout.fields.iter().zip(values).any(is_too_wide) {
            return None;
        }
        let lpm_keys = layout.fields.iter().filter(|f| f.kind == MatchKind::Lpm).count();
        let has_other_kinds = layout.fields.iter().any(|f| !matches!(f.kind, MatchKind::Lpm | MatchKind::Exact));
        match (lpm_keys, has_other_kinds) {
            (0, false) => state.get_entry(&packed_exact_key(layout, values, 0), 0).cloned(),
            (1, false) => {
                let longest_first = state.prefix_lens.keys().rev();
                longest_first
                    .filter_map(|len| state.get_entry(&packed_exact_key(layout, values, *len), 0))
                    .next()
                    .cloned()
            }
            _ => {
                let values: Vec<Vec<u64>> = layout.fields.iter().zip(values).map(value_words).collect();
                let matches =
                    |entry: &&StoredEntry| layout.fields.iter().zip(&values).all(|(f, v)| f.matches(entry.key(), v));
                entries_by_precedence(state, layout).iter().find(matches).cloned()
            }
        }
    }
}

/// Returns the key of the entry that would match exactly, or with a prefix of this length.
fn packed_exact_key(layout: &KeyLayout, values: &[BigUint], prefix_len: u32) -> PackedKey {
    let mut key = PackedKey::with_capacity(layout.len);
    for (field, value) in layout.fields.iter().zip(values) {
        if field.kind == MatchKind::Lpm {
            let host = field.width.saturating_sub(prefix_len);
            crate::bits::push_words(&((value >> host) << host), field.words, &mut key);
            key.push(u64::from(prefix_len));
        } else {
            crate::bits::push_words(value, field.words, &mut key);
        }
    }
    key
}

fn value_words((field, value): (&PackedKeyField, &BigUint)) -> Vec<u64> {
    let mut words = Vec::with_capacity(field.words);
    crate::bits::push_words(value, field.words, &mut words);
    words
}

/// Returns all entries in precedence order.
fn entries_by_precedence(state: &TableState, layout: &KeyLayout) -> Arc<Vec<StoredEntry>> {
    let make = || {
        let mut all: Vec<StoredEntry> = state.entries.iter().cloned().collect();
        all.sort_by_key(|entry| layout.match_precedence(entry));
        Arc::new(all)
    };
    state.by_precedence.get_or_init(make).clone()
}
