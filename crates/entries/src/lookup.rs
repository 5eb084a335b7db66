//! Plain lookups: which entry of a table matches. For the control plane, and a model for tests; engines have their own.

use crate::entry::PackedKey;
use crate::kept::Entry;
use crate::layout::{KeyField, KeyLayout};
use crate::state::{State, TableState};
use ir::{MatchKind, TableId};
use num_bigint::BigUint;
use std::sync::Arc;

impl State {
    /// The entry that a packet with these key values hits: one value for each key but selector keys, in order.
    ///
    /// Exact keys are equal. Without priorities, the longest prefix wins. With priorities, the greatest; of equal ones the
    /// entry that was inserted first. `None` on a miss, and if there are too few or too many values, or one is too wide.
    pub fn lookup(&self, table: TableId, values: &[BigUint]) -> Option<Entry> {
        let layout = self.layouts.get(table.0 as usize)?;
        let state = &self.tables[table.0 as usize];
        let wide = |(field, value): (&KeyField, &BigUint)| value.bits() > u64::from(field.width);
        if values.len() != layout.fields.len() || layout.fields.iter().zip(values).any(wide) {
            return None;
        }
        let lpm_keys = layout.fields.iter().filter(|f| f.kind == MatchKind::Lpm).count();
        let others = layout.fields.iter().any(|f| !matches!(f.kind, MatchKind::Lpm | MatchKind::Exact));
        match (lpm_keys, others) {
            (0, false) => state.find(&packed(layout, values, 0), 0).cloned(),
            (1, false) => {
                let lens = state.prefix_lens.keys().rev();
                lens.filter_map(|len| state.find(&packed(layout, values, *len), 0)).next().cloned()
            }
            _ => {
                let values: Vec<Vec<u64>> = layout.fields.iter().zip(values).map(words).collect();
                let matches =
                    |entry: &&Entry| layout.fields.iter().zip(&values).all(|(f, v)| f.matches(entry.key(), v));
                ranked(state, layout).iter().find(matches).cloned()
            }
        }
    }
}

/// The key of the entry that would match exactly, or with a prefix of this length.
fn packed(layout: &KeyLayout, values: &[BigUint], prefix_len: u32) -> PackedKey {
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

fn words((field, value): (&KeyField, &BigUint)) -> Vec<u64> {
    let mut words = Vec::with_capacity(field.words);
    crate::bits::push_words(value, field.words, &mut words);
    words
}

/// All entries, strongest first.
fn ranked(state: &TableState, layout: &KeyLayout) -> Arc<Vec<Entry>> {
    let make = || {
        let mut all: Vec<Entry> = state.entries.iter().cloned().collect();
        all.sort_by_key(|entry| layout.strength(entry));
        Arc::new(all)
    };
    state.ranked.get_or_init(make).clone()
}
