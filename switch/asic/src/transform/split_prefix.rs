//! Splits a prefix key that concatenates several values into one ternary key per value.
//!
//! Pivots ([`super::alpm`]) are prefixes of all keys in a row. A chip has no step that concatenates
//! a key before a lookup, and needs none, because a prefix in TCAM is a mask, and a longer prefix
//! is a higher priority. An entry with a prefix of n bits therefore has its first n bits in the
//! masks, and priority n + 1.

use super::apply_site;
use super::entries::{KeyWords, entry_update};
use super::shadowed_map::{EntryChange, EntryMapping, ShadowedMap};
use super::{TableSizes, TransformError, TransformedPipeline};
use entries::{KeyLayout, StateUpdate, StoredEntry, UpdateKind};
use ir::{Body, Inst, MatchKey, MatchKind, Pipeline, TableId, Terminator, TerminatorData, Value};
use std::sync::Arc;

/// Returns the tables (control-plane names) that [`split_prefix_key`] supports.
pub fn tables_with_concatenated_prefix(pipeline: &Pipeline) -> Vec<String> {
    let together = |(id, table): (TableId, &ir::Table)| {
        let site = apply_site::find_apply_site(pipeline, id).ok().filter(|_| has_only_prefix_key(table))?;
        let body = &pipeline.controls[site.control].body;
        let key = first_applied_key(body, site.block)?;
        (concatenated_parts(body, key).len() > 1).then(|| table.preamble.name.clone())
    };
    pipeline.tables.iter().filter_map(together).collect()
}

/// Splits the prefix key of a table (control-plane name).
///
/// # Errors
/// [`TransformError`]: the table has other keys than one prefix, or its key is a single value.
pub fn split_prefix_key(
    original: &Arc<Pipeline>,
    sizes: &TableSizes,
    table: &str,
) -> Result<TransformedPipeline, TransformError> {
    let id = apply_site::find_table(original, table)?;
    let declared = apply_site::check_movable(original, id)?;
    let site = apply_site::find_apply_site(original, id)?;
    let body = &original.controls[site.control].body;
    let key = first_applied_key(body, site.block).filter(|_| has_only_prefix_key(declared));
    let values = key.map(|key| concatenated_parts(body, key)).unwrap_or_default();
    if values.len() < 2 {
        return Err(TransformError::new(table, "its key is not a prefix that is put together of several values"));
    }
    let keys: Vec<MatchKey> = values
        .iter()
        .enumerate()
        .map(|(n, value)| {
            let name = match body.defining_inst(*value).map(|data| &data.inst) {
                Some(Inst::Load(var)) => original.vars[*var].name.clone(),
                _ => format!("{}_{n}", declared.keys[0].name),
            };
            MatchKey::new(name, body.value_type(*value), MatchKind::Ternary)
        })
        .collect();
    let rule = SplitPrefixMap { table: id, from: KeyLayout::new(&declared.keys), to: KeyLayout::new(&keys) };
    let mut transformed = (**original).clone();
    let changed = &mut transformed.tables[id];
    (changed.keys, changed.entries, changed.const_entries) = (keys, Vec::new(), false);
    let body = &mut transformed.controls[site.control].body;
    if let Some(TerminatorData { term: Terminator::Apply { keys, .. }, .. }) = &mut body.blocks[site.block].term {
        *keys = values;
    }
    ir::passes::remove_dead_values(body);
    let (map, pipeline) = ShadowedMap::new(original, transformed, original.tables.keys().collect(), &[id], rule)?;
    Ok(TransformedPipeline { pipeline, sizes: sizes.clone(), map: Box::new(map) })
}

fn has_only_prefix_key(table: &ir::Table) -> bool {
    matches!(&table.keys[..], [MatchKey { kind: MatchKind::Lpm, .. }])
}

/// Returns the first key of the table that a block applies.
fn first_applied_key(body: &Body, block: ir::Block) -> Option<Value> {
    match &body.blocks[block].term.as_ref()?.term {
        Terminator::Apply { keys, .. } => keys.first().copied(),
        _ => None,
    }
}

/// Returns the parts of a concatenated value, the highest bits first.
fn concatenated_parts(body: &Body, value: Value) -> Vec<Value> {
    match body.defining_inst(value).map(|data| &data.inst) {
        Some(Inst::Concat(high, low)) => [concatenated_parts(body, *high), concatenated_parts(body, *low)].concat(),
        _ => vec![value],
    }
}

/// Entry mapping from a prefix to ternary keys.
struct SplitPrefixMap {
    table: TableId,
    from: KeyLayout,
    to: KeyLayout,
}

impl SplitPrefixMap {
    /// Returns the keys of an entry, and its priority.
    fn ternary_keys(&self, entry: &StoredEntry) -> (KeyWords, i32) {
        let from = &self.from.fields[0];
        let (value, len) = (from.value(entry.key()), from.second(entry.key())[0]);
        let mask: KeyWords = (0..value.len() as u64).map(|word| prefix_mask_word(from.width, len, word)).collect();
        let mut out: KeyWords = std::iter::repeat_n(0, self.to.len).collect();
        let mut above = from.width;
        for to in &self.to.fields {
            above -= to.width;
            copy_bits(value, above, to.width, to.value_mut(&mut out));
            copy_bits(&mask, above, to.width, to.second_mut(&mut out));
        }
        (out, i32::try_from(len + 1).unwrap_or(i32::MAX))
    }
}

/// Returns a word of the mask of the first `len` of `width` bits.
fn prefix_mask_word(width: u32, len: u64, word: u64) -> u64 {
    // Lowest set bit.
    let from = u64::from(width) - len.min(width.into());
    let below = from.saturating_sub(64 * word).min(64);
    let all = u64::from(width).saturating_sub(64 * word).min(64);
    let ones = |n: u64| if n == 64 { u64::MAX } else { (1 << n) - 1 };
    ones(all) & !ones(below)
}

/// Copies `width` bits of a number, starting at bit `low`.
fn copy_bits(from: &[u64], low: u32, width: u32, to: &mut [u64]) {
    let (word, shift) = ((low / 64) as usize, low % 64);
    for (n, out) in to.iter_mut().enumerate() {
        let at = |n: usize| from.get(n).copied().unwrap_or(0);
        let high = if shift == 0 { 0 } else { at(word + n + 1) << (64 - shift) };
        let left = width.saturating_sub(64 * n as u32);
        let ones = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
        *out = (at(word + n) >> shift | high) & ones;
    }
}

impl EntryMapping for SplitPrefixMap {
    fn is_mapped(&self, table: TableId) -> bool {
        table == self.table
    }

    fn begin_batch(&mut self) {}

    fn undo_batch(&mut self) {}

    fn map_entry(&mut self, table: TableId, change: EntryChange<'_>, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        let (kind, entry): (UpdateKind, &StoredEntry) = match change {
            EntryChange::Inserted(entry) => (UpdateKind::Insert, entry),
            EntryChange::Modified(_, entry) => (UpdateKind::Modify, entry),
            EntryChange::Deleted(entry) => (UpdateKind::Delete, entry),
        };
        let (key, priority) = self.ternary_keys(entry);
        out.push(entry_update(kind, table, &key, entry, priority));
        Ok(())
    }

    fn stats(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a bitwise model.
    #[test]
    fn masks_and_parts_are_those_of_the_bits() {
        let width = 152;
        let number = [0x0123_4567_89ab_cdefu64, 0xfedc_ba98_7654_3210, 0x00c0_ffee];
        let bit = |words: &[u64], n: u32| words[(n / 64) as usize] >> (n % 64) & 1;
        for len in [0, 1, 23, 24, 63, 64, 65, 88, 127, 128, 151, 152] {
            let mask: Vec<u64> = (0..3).map(|word| prefix_mask_word(width, len, word)).collect();
            for n in 0..192 {
                let set = n < width && u64::from(width - n) <= len;
                assert_eq!(bit(&mask, n), u64::from(set), "bit {n} of a prefix of {len}");
            }
        }
        for (low, wide) in [(128u32, 24u32), (0, 128), (60, 70), (3, 7), (64, 64)] {
            let mut out = vec![0; wide.div_ceil(64) as usize];
            copy_bits(&number, low, wide, &mut out);
            assert!((0..wide).all(|n| bit(&out, n) == bit(&number, low + n)), "{wide} bits from {low}: {out:x?}");
            assert!((wide..out.len() as u32 * 64).all(|n| bit(&out, n) == 0), "more than {wide} bits: {out:x?}");
        }
    }
}
