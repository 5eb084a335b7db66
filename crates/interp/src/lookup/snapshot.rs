//! Lookups of an explainer, which finds entries in the control state on demand. Its tables hold
//! only entries that were hit, so that their creation costs nothing.
//!
//! Exact keys cost one probe of the state's index, a single lpm key one probe for each prefix
//! length in use. All other tables are scanned.

use super::matching::{entry_matches, precedence, prefix_mask};
use entries::{ControlState, KeyLayout, PackedKey, PackedKeyField, StoredEntry};
use ir::{MatchKind, TableId};

/// Returns the entry of a table that matches a packet's key, which is in the layout of an entry.
pub fn find_in_state<'a>(
    state: &'a ControlState,
    table: TableId,
    layout: &KeyLayout,
    key: &[u64],
) -> Option<&'a StoredEntry> {
    let mut inexact_fields = layout.fields.iter().filter(|field| field.kind != MatchKind::Exact);
    // Exact tables and tables with one prefix are found by key; others are scanned.
    match (inexact_fields.next(), inexact_fields.next()) {
        (None, _) => state.get_entry(table, &PackedKey::from_slice(key), 0),
        (Some(field), None) if field.kind == MatchKind::Lpm => {
            longest_prefix(state, table, field, PackedKey::from_slice(key))
        }
        _ => {
            let matching = state.entries(table).filter(|entry| entry_matches(layout, entry.key(), |f| f.value(key)));
            matching.min_by_key(|entry| precedence(layout, entry))
        }
    }
}

/// Returns the entry with the longest prefix that matches the key, by one exact lookup for each
/// prefix length in the table. `field` is the LPM field; all others are exact.
fn longest_prefix<'a>(
    state: &'a ControlState,
    table: TableId,
    field: &PackedKeyField,
    mut key: PackedKey,
) -> Option<&'a StoredEntry> {
    // Prefix lengths decrease, so that a cleared bit is not needed again.
    state.prefix_lens(table).find_map(|len| {
        let value = field.value_mut(&mut key);
        value.iter_mut().enumerate().for_each(|(word, bits)| *bits &= prefix_mask(field, len, word));
        field.second_mut(&mut key)[0] = u64::from(len);
        state.get_entry(table, &key, 0)
    })
}
