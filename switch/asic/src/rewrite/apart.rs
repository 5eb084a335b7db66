//! A prefix key that is put together of several values becomes a key under a mask for each of them.
//!
//! Pivots ([`super::alpm`]) are prefixes of all keys in a row. A chip has no step that puts a key together before a lookup, and needs none: in its TCAM a
//! prefix is a mask, and a longer one a higher priority. So an entry for a prefix of n bits has its first n bits in the masks, and n + 1 as its
//! priority.

use super::entries::{Words, write};
use super::graph;
use super::shadow::{EntryChange, Rule, Shadowed};
use super::{RewriteError, Rewritten, Sizes};
use entries::{Entry, KeyLayout, Update, UpdateKind};
use ir::{Body, Inst, Key, MatchKind, Pipeline, TableId, Term, TermData, Value};
use std::sync::Arc;

/// The tables (control-plane names) that [`apart`] takes.
pub fn put_together(pipeline: &Pipeline) -> Vec<String> {
    let together = |(id, table): (TableId, &ir::Table)| {
        let site = graph::site(pipeline, id).ok().filter(|_| is_prefix(table))?;
        let body = &pipeline.controls[site.control].body;
        let key = applied(body, site.block)?;
        (parts(body, key).len() > 1).then(|| table.preamble.name.clone())
    };
    pipeline.tables.iter().filter_map(together).collect()
}

/// Takes the prefix key of a table (control-plane name) apart.
///
/// # Errors
/// A table with other keys than a prefix, or whose key is one value.
pub fn apart(first: &Arc<Pipeline>, sizes: &Sizes, table: &str) -> Result<Rewritten, RewriteError> {
    let id = graph::find(first, table)?;
    let declared = graph::plain(first, id)?;
    let site = graph::site(first, id)?;
    let body = &first.controls[site.control].body;
    let key = applied(body, site.block).filter(|_| is_prefix(declared));
    let values = key.map(|key| parts(body, key)).unwrap_or_default();
    if values.len() < 2 {
        return Err(RewriteError::new(table, "its key is not a prefix that is put together of several values"));
    }
    let keys: Vec<Key> = values
        .iter()
        .enumerate()
        .map(|(n, value)| {
            let name = match body.definition(*value).map(|data| &data.inst) {
                Some(Inst::Load(var)) => first.vars[*var].name.clone(),
                _ => format!("{}_{n}", declared.keys[0].name),
            };
            Key::new(name, body.value_type(*value), MatchKind::Ternary)
        })
        .collect();
    let rule = Apart { table: id, from: KeyLayout::new(&declared.keys), to: KeyLayout::new(&keys) };
    let mut second = (**first).clone();
    let changed = &mut second.tables[id];
    (changed.keys, changed.entries, changed.const_entries) = (keys, Vec::new(), false);
    let body = &mut second.controls[site.control].body;
    if let Some(TermData { term: Term::Apply { keys, .. }, .. }) = &mut body.blocks[site.block].term {
        *keys = values;
    }
    ir::passes::drop_unused(body);
    let (map, pipeline) = Shadowed::new(first, second, first.tables.keys().collect(), &[id], rule)?;
    Ok(Rewritten { pipeline, sizes: sizes.clone(), map: Box::new(map) })
}

fn is_prefix(table: &ir::Table) -> bool {
    matches!(&table.keys[..], [Key { kind: MatchKind::Lpm, .. }])
}

/// The first key of the table that a block ends by applying.
fn applied(body: &Body, block: ir::Block) -> Option<Value> {
    match &body.blocks[block].term.as_ref()?.term {
        Term::Apply { keys, .. } => keys.first().copied(),
        _ => None,
    }
}

/// What a value is put together of, the highest bits first.
fn parts(body: &Body, value: Value) -> Vec<Value> {
    match body.definition(value).map(|data| &data.inst) {
        Some(Inst::Concat(high, low)) => [parts(body, *high), parts(body, *low)].concat(),
        _ => vec![value],
    }
}

/// Prefixes as keys under masks.
struct Apart {
    table: TableId,
    from: KeyLayout,
    to: KeyLayout,
}

impl Apart {
    /// The keys of an entry, and its priority.
    fn keys(&self, entry: &Entry) -> (Words, i32) {
        let from = &self.from.fields[0];
        let (value, len) = (from.value(entry.key()), from.second(entry.key())[0]);
        let mask: Words = (0..value.len() as u64).map(|word| first_bits(from.width, len, word)).collect();
        let mut out: Words = std::iter::repeat_n(0, self.to.len).collect();
        let mut above = from.width;
        for to in &self.to.fields {
            above -= to.width;
            bits(value, above, to.width, to.value_mut(&mut out));
            bits(&mask, above, to.width, to.second_mut(&mut out));
        }
        (out, i32::try_from(len + 1).unwrap_or(i32::MAX))
    }
}

/// A word of the mask of the first `len` of `width` bits.
fn first_bits(width: u32, len: u64, word: u64) -> u64 {
    // Bits from this one on are set, counted from the lowest.
    let from = u64::from(width) - len.min(width.into());
    let below = from.saturating_sub(64 * word).min(64);
    let all = u64::from(width).saturating_sub(64 * word).min(64);
    let ones = |n: u64| if n == 64 { u64::MAX } else { (1 << n) - 1 };
    ones(all) & !ones(below)
}

/// Copies `width` bits of a number, from bit `low` on.
fn bits(from: &[u64], low: u32, width: u32, to: &mut [u64]) {
    let (word, shift) = ((low / 64) as usize, low % 64);
    for (n, out) in to.iter_mut().enumerate() {
        let at = |n: usize| from.get(n).copied().unwrap_or(0);
        let high = if shift == 0 { 0 } else { at(word + n + 1) << (64 - shift) };
        let left = width.saturating_sub(64 * n as u32);
        let ones = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
        *out = (at(word + n) >> shift | high) & ones;
    }
}

impl Rule for Apart {
    fn owns(&self, table: TableId) -> bool {
        table == self.table
    }

    fn begin(&mut self) {}

    fn undo(&mut self) {}

    fn entry(&mut self, table: TableId, change: EntryChange<'_>, out: &mut Vec<Update>) -> Result<(), String> {
        let (kind, entry): (UpdateKind, &Entry) = match change {
            EntryChange::Inserted(entry) => (UpdateKind::Insert, entry),
            EntryChange::Modified(_, entry) => (UpdateKind::Modify, entry),
            EntryChange::Deleted(entry) => (UpdateKind::Delete, entry),
        };
        let (key, priority) = self.keys(entry);
        out.push(write(kind, table, &key, entry, priority));
        Ok(())
    }

    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit.
    #[test]
    fn masks_and_parts_are_those_of_the_bits() {
        let width = 152;
        let number = [0x0123_4567_89ab_cdefu64, 0xfedc_ba98_7654_3210, 0x00c0_ffee];
        let bit = |words: &[u64], n: u32| words[(n / 64) as usize] >> (n % 64) & 1;
        for len in [0, 1, 23, 24, 63, 64, 65, 88, 127, 128, 151, 152] {
            let mask: Vec<u64> = (0..3).map(|word| first_bits(width, len, word)).collect();
            for n in 0..192 {
                let set = n < width && u64::from(width - n) <= len;
                assert_eq!(bit(&mask, n), u64::from(set), "bit {n} of a prefix of {len}");
            }
        }
        for (low, wide) in [(128u32, 24u32), (0, 128), (60, 70), (3, 7), (64, 64)] {
            let mut out = vec![0; wide.div_ceil(64) as usize];
            bits(&number, low, wide, &mut out);
            assert!((0..wide).all(|n| bit(&out, n) == bit(&number, low + n)), "{wide} bits from {low}: {out:x?}");
            assert!((wide..out.len() as u32 * 64).all(|n| bit(&out, n) == 0), "more than {wide} bits: {out:x?}");
        }
    }
}
