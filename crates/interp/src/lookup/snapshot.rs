//! An explainer's lookups: entries are found in the control plane's state when a packet asks. A
//! table holds no entries but those that were hit, so it costs nothing to begin with.
//!
//! Exact keys are one probe of the state's index, one lpm key is a probe for each prefix length in
//! use, all else is a scan.

use super::matching::{entry_matches, precedence, prefix_mask};
use entries::{Entry, KeyField, KeyLayout, PackedKey, State};
use ir::{MatchKind, TableId};

/// The entry of a table for a packet's key, which is laid out as an entry's.
pub fn find_in_state<'a>(state: &'a State, table: TableId, layout: &KeyLayout, key: &[u64]) -> Option<&'a Entry> {
    let mut others = layout.fields.iter().filter(|field| field.kind != MatchKind::Exact);
    match (others.next(), others.next()) {
        (None, _) => state.find(table, &PackedKey::from_slice(key), 0),
        (Some(field), None) if field.kind == MatchKind::Lpm => {
            longest_prefix(state, table, field, PackedKey::from_slice(key))
        }
        _ => {
            let matching = state.entries(table).filter(|entry| entry_matches(layout, entry.key(), |f| f.value(key)));
            matching.min_by_key(|entry| precedence(layout, entry))
        }
    }
}

fn longest_prefix<'a>(state: &'a State, table: TableId, field: &KeyField, mut key: PackedKey) -> Option<&'a Entry> {
    // Lengths become shorter: a bit once cleared is not needed again.
    state.prefix_lens(table).find_map(|len| {
        let value = field.value_mut(&mut key);
        value.iter_mut().enumerate().for_each(|(word, bits)| *bits &= prefix_mask(field, len, word));
        field.second_mut(&mut key)[0] = u64::from(len);
        state.find(table, &key, 0)
    })
}
