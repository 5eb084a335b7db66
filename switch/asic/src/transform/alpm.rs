//! Algorithmic TCAM: splits a prefix table into pivots and partitions.
//!
//! All keys in a row (exact ones first, then the prefix key) form one prefix for the pivots. One
//! pivot can therefore cover many small tenants, and one tenant can have many pivots. The pivot
//! table returns the number of a partition, and the original table gets that number as its first,
//! exact key. [`super::partitions`] stores entries in partitions.
//!
//! The transformed table has the properties `alpm_partitions` and `alpm_depth`. A chip compares all
//! entries of a partition in parallel, in SRAM.

use super::apply_site::{self, CodeInserter};
use super::entries::entry_update;
use super::partitions::{PartitionLimits, PartitionWrite, Partitions};
use super::prefix::{self, KeyPrefix};
use super::shadowed_map::{EntryChange, EntryMapping, ShadowedMap};
use super::{TableSizes, TransformError, TransformedPipeline};
use entries::{KeyLayout, PackedEntry, StateUpdate, StoredActionRef, StoredEntry, UpdateKind};
use ir::{
    Action, ActionArm, ActionCall, ActionId, ActionRef, KeyMatch, MatchKey, MatchKind, Param, Pipeline, Preamble,
    TableId, Terminator, Type, Value,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Shape of a table's partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AlpmOptions {
    /// Shape computed from the table's size.
    Fitted {
        /// Entries per partition, 8 to 4096.
        depth: u32,
        /// Own entries at which pivots are cut when a whole table is placed. Half the depth or less
        /// packs partitions well but takes twice the pivots.
        target: u32,
        /// Expected fill of the partitions, 0 to 1. The remainder is for updates.
        fill: f64,
    },
    /// Given shape.
    Given(PartitionLimits),
}

/// Pivots per multiple of the target. Pivots have between half the target and all of it as own
/// entries when a table is placed, and at least three quarters on average in announced BGP
/// prefixes.
const PIVOTS_PER_TARGET: f64 = 1.6;

impl AlpmOptions {
    /// Returns partitions of `depth` entries, with slightly more than two pivots each, nine tenths
    /// full.
    pub fn new(depth: u32) -> AlpmOptions {
        AlpmOptions::Fitted { depth, target: depth / 2, fill: 0.9 }
    }

    /// Returns the shape that a chip's compiler chooses for a table of `entries`: two subtrees per
    /// partition, and one spare slot in each, because an update writes the new entry before it
    /// removes the old one.
    pub fn with_partitions(entries: u64, partitions: u32) -> AlpmOptions {
        let depth = (entries + u64::from(partitions)).div_ceil(u64::from(partitions.max(1))) as u32;
        AlpmOptions::Given(PartitionLimits { partitions, depth, target: depth / 2, pivots: 2 * partitions })
    }

    /// Returns the shape for `entries` entries.
    pub fn partition_limits(&self, entries: u64) -> PartitionLimits {
        let (depth, target, fill) = match *self {
            AlpmOptions::Given(shape) => return shape,
            AlpmOptions::Fitted { depth, target, fill } => (depth.clamp(8, 4096), target, fill),
        };
        let target = target.clamp(2, depth - 1);
        // Reserves capacity for copies of covers: at most one per pivot, shared by the pivots of
        // one partition.
        let copies = 1.0 + 1.0 / f64::from(target);
        let partitions = (entries as f64 * copies / (f64::from(depth) * fill.clamp(0.05, 1.0))).ceil() + 1.0;
        let pivots = (entries as f64 * PIVOTS_PER_TARGET / f64::from(target)).ceil() + 16.0;
        PartitionLimits { partitions: partitions as u32, depth, target, pivots: pivots as u32 }
    }
}

/// Returns partitions and depth of a table made by [`partition_table`]: its first key is the
/// partition number. `None` for all others.
pub fn partition_dimensions(table: &ir::Table) -> Option<(u32, u32)> {
    let property = |name| table.properties.iter().find(|(known, _)| known == name)?.1.parse().ok();
    Some((property("alpm_partitions")?, property("alpm_depth")?))
}

/// Splits a prefix table (control-plane name) into pivots and partitions.
///
/// # Errors
/// [`TransformError`]: the table has no prefix key, has keys that are neither exact nor prefixes,
/// or has keys wider than [`prefix::MAX_KEY_BITS`] bits together.
pub fn partition_table(
    original: &Arc<Pipeline>,
    sizes: &TableSizes,
    table: &str,
    options: &AlpmOptions,
) -> Result<TransformedPipeline, TransformError> {
    let id = apply_site::find_table(original, table)?;
    let declared = apply_site::check_movable(original, id)?;
    let site = apply_site::find_apply_site(original, id)?;
    let order = key_order(declared)?;
    let entries = sizes.get(table).copied().or(declared.size).unwrap_or(1024);
    let shape = options.partition_limits(entries);
    let width: u32 = declared.keys.iter().map(|key| key.ty.width()).sum();
    let partition_bits = (32 - (shape.partitions - 1).leading_zeros()).max(1);

    let mut transformed = (**original).clone();
    let param = Param::new("partition", Type::Bit(partition_bits));
    let partition_action = transformed.actions.push(Action {
        preamble: Preamble { name: format!("{table}_partition"), hidden: true, ..Preamble::default() },
        params: vec![param],
        loc: declared.loc,
    });
    let key = |name: String, partition_bits, kind| MatchKey::new(name, Type::Bit(partition_bits), kind);
    let mut pivots = apply_site::derived_table(declared, "pivots");
    pivots.keys = vec![key("pivot".to_owned(), width, MatchKind::Lpm)];
    pivots.actions = vec![ActionRef::new(partition_action)];
    pivots.default_action = ActionCall { action: partition_action, args: vec![num_bigint::BigUint::ZERO] };
    (pivots.const_default, pivots.size) = (true, Some(u64::from(shape.pivots)));
    let pivots_name = pivots.preamble.name.clone();
    let pivots = transformed.tables.push(pivots);

    let partitioned = &mut transformed.tables[id];
    (partitioned.entries, partitioned.const_entries) = (Vec::new(), false);
    partitioned.keys.insert(0, key("partition".to_owned(), partition_bits, MatchKind::Exact));
    partitioned.size = Some(u64::from(shape.partitions) * u64::from(shape.depth));
    partitioned.properties.push(("alpm_partitions".to_owned(), shape.partitions.to_string()));
    partitioned.properties.push(("alpm_depth".to_owned(), shape.depth.to_string()));
    let capacity = partitioned.size.unwrap_or(0);

    let body = &mut transformed.controls[site.control].body;
    let (keys, arms, loc) = apply_site::take_apply(body, site.block, table)?;
    let mut code = CodeInserter { body, block: site.block, loc };
    let key_row = concat_keys(&mut code, &keys, &order);
    let (hit_block, params) = code.arm_block(&[Type::Bit(partition_bits)]);
    code.set_terminator(Terminator::Apply {
        table: pivots,
        keys: vec![key_row],
        arms: vec![ActionArm { action: partition_action, block: hit_block }],
    });
    code.block = hit_block;
    let keys = std::iter::once(params[1]).chain(keys).collect();
    code.set_terminator(Terminator::Apply { table: id, keys, arms });

    let rule = PartitionedMap {
        name: table.to_owned(),
        from: id,
        pivots,
        lead: partition_action,
        width,
        layout: KeyLayout::new(&declared.keys),
        order,
        partitions: Partitions::new(shape),
        writes: 0,
    };
    let numbers = original.tables.keys().collect();
    let (map, pipeline) = ShadowedMap::new(original, transformed, numbers, &[id, pivots], rule)?;
    let mut sizes = sizes.clone();
    sizes.insert(table.to_owned(), capacity);
    sizes.insert(pivots_name, u64::from(shape.pivots));
    Ok(TransformedPipeline { pipeline, sizes, map: Box::new(map) })
}

/// Returns the positions of the keys in row order: the exact keys, then the prefix key.
fn key_order(table: &ir::Table) -> Result<Vec<usize>, TransformError> {
    let refused = |reason: String| Err(TransformError::new(&table.preamble.name, reason));
    let is_unsupported = |key: &&MatchKey| !matches!(key.kind, MatchKind::Exact | MatchKind::Lpm);
    if let Some(key) = table.keys.iter().find(is_unsupported) {
        return refused(format!("its key {} is neither exact nor a prefix, and so has no place in a trie", key.name));
    }
    let mut order: Vec<usize> = (0..table.keys.len()).collect();
    order.sort_by_key(|position| table.keys[*position].kind == MatchKind::Lpm);
    if order.last().is_none_or(|position| table.keys[*position].kind != MatchKind::Lpm) {
        return refused("it has no prefix key; an exact table needs no partitions".to_owned());
    }
    let width: u32 = table.keys.iter().map(|key| key.ty.width()).sum();
    if width > prefix::MAX_KEY_BITS || table.keys.iter().any(|key| key.ty.width() > 128) {
        let max_bits = prefix::MAX_KEY_BITS;
        return refused(format!(
            "its keys have {width} bits; a row of at most {max_bits}, each key at most 128, can be parted"
        ));
    }
    Ok(order)
}

/// Returns an entry's keys in a row as one prefix, as pivots see them. `None` for a table that
/// cannot be partitioned, or other key types.
pub fn entry_prefix(table: &ir::Table, keys: &[KeyMatch]) -> Option<KeyPrefix> {
    let order = key_order(table).ok()?;
    order.iter().try_fold(KeyPrefix::ALL, |prefix, at| {
        let width = table.keys[*at].ty.width();
        let (value, len) = match keys.get(*at)? {
            KeyMatch::Exact(value) => (value, width),
            KeyMatch::Lpm { value, prefix_len } => (value, *prefix_len),
            _ => return None,
        };
        Some(prefix.append(u128::try_from(value).ok()?, width, len))
    })
}

/// Concatenates all keys to one value.
fn concat_keys(code: &mut CodeInserter<'_>, keys: &[Value], order: &[usize]) -> Value {
    let values: Vec<Value> = order.iter().map(|at| keys[*at]).collect();
    let mut row = None;
    for value in values {
        let bits = Type::Bit(code.body.value_type(value).width());
        let value = code.cast(bits, value);
        row = Some(match row {
            Some(row) => code.concat(row, value),
            None => value,
        });
    }
    row.unwrap_or_else(|| code.const_bits(0, 0u32))
}

/// Entry mapping of a partitioned table.
struct PartitionedMap {
    name: String,
    from: TableId,
    pivots: TableId,
    lead: ActionId,
    width: u32,
    layout: KeyLayout,
    order: Vec<usize>,
    partitions: Partitions<StoredEntry>,
    writes: u64,
}

impl PartitionedMap {
    fn key_prefix(&self, key: &[u64]) -> KeyPrefix {
        self.order.iter().fold(KeyPrefix::ALL, |prefix, at| {
            let field = &self.layout.fields[*at];
            let value = field.value(key).iter().rev().fold(0u128, |value, word| value << 64 | u128::from(*word));
            let len = if field.kind == MatchKind::Lpm { field.second(key)[0] as u32 } else { field.width };
            prefix.append(value, field.width, len)
        })
    }

    fn partition_update(&self, kind: UpdateKind, partition: u32, entry: &StoredEntry) -> StateUpdate {
        let key: Vec<u64> = std::iter::once(u64::from(partition)).chain(entry.key().iter().copied()).collect();
        entry_update(kind, self.from, &key, entry, 0)
    }

    fn pivot_update(&self, kind: UpdateKind, prefix: &KeyPrefix, partition: u32) -> StateUpdate {
        let mut key = prefix.to_words(self.width);
        key.push(u64::from(prefix.len()));
        let arg = [u64::from(partition)];
        StateUpdate::Packed(kind, PackedEntry::new(self.pivots, &key, StoredActionRef::Call(self.lead, &arg)))
    }

    /// Translates partition writes to updates of the transformed tables. `deleted` is the entry
    /// just deleted, because a removal can refer to it.
    fn push_updates(&mut self, writes: &[PartitionWrite], deleted: Option<&StoredEntry>, out: &mut Vec<StateUpdate>) {
        self.writes += writes.len() as u64;
        for write in writes {
            out.extend(match write {
                PartitionWrite::Insert(partition, prefix) => self
                    .partitions
                    .get(prefix)
                    .map(|entry| self.partition_update(UpdateKind::Insert, *partition, entry)),
                PartitionWrite::Remove(partition, prefix) => {
                    let entry = self.partitions.get(prefix).or(deleted);
                    entry.map(|entry| self.partition_update(UpdateKind::Delete, *partition, entry))
                }
                PartitionWrite::AddPivot(partition, prefix) => {
                    Some(self.pivot_update(UpdateKind::Insert, prefix, *partition))
                }
                PartitionWrite::MovePivot(partition, prefix) => {
                    Some(self.pivot_update(UpdateKind::Modify, prefix, *partition))
                }
                PartitionWrite::RemovePivot(prefix) => Some(self.pivot_update(UpdateKind::Delete, prefix, 0)),
            });
        }
    }
}

impl EntryMapping for PartitionedMap {
    fn is_mapped(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin_batch(&mut self) {
        self.partitions.begin_batch();
    }

    fn undo_batch(&mut self) {
        self.partitions.undo_batch();
    }

    /// Translates a change of an entry to changes of pivots and partitions. An action change
    /// reaches all copies of the entry.
    fn map_entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        let name = self.name.clone();
        let full_error =
            |full_error| format!("table {name}: {full_error}; delete entries, or plan it with a larger size");
        let mut writes = Vec::new();
        match change {
            EntryChange::Inserted(entry) => {
                let prefix = self.key_prefix(entry.key());
                self.partitions.insert(prefix, entry.clone(), &mut writes).map_err(full_error)?;
                self.push_updates(&writes, None, out);
            }
            EntryChange::Modified(_, new) => {
                let prefix = self.key_prefix(new.key());
                self.partitions.replace(prefix, new.clone());
                let holders = self.partitions.partitions_holding(&prefix);
                self.writes += holders.len() as u64;
                out.extend(
                    holders.into_iter().map(|partition| self.partition_update(UpdateKind::Modify, partition, new)),
                );
            }
            EntryChange::Deleted(entry) => {
                self.partitions.delete(self.key_prefix(entry.key()), &mut writes).map_err(full_error)?;
                self.push_updates(&writes, Some(entry), out);
            }
        }
        Ok(())
    }

    /// Places all entries of an empty table at once, which packs partitions better than one by one.
    /// Each update carries the index of the entry that it came from. Returns `false` if the table
    /// has entries already.
    fn map_jointly(
        &mut self,
        entries: &[(usize, &StoredEntry)],
        out: &mut Vec<(usize, StateUpdate)>,
    ) -> Result<bool, String> {
        if !self.partitions.is_empty() || self.partitions.pivot_count() > 1 {
            return Ok(false);
        }
        let origins: HashMap<KeyPrefix, usize> =
            entries.iter().map(|(index, entry)| (self.key_prefix(entry.key()), *index)).collect();
        let new: Vec<(KeyPrefix, StoredEntry)> =
            entries.iter().map(|(_, entry)| (self.key_prefix(entry.key()), (*entry).clone())).collect();
        let mut writes = Vec::new();
        self.partitions
            .build_partitions(new, &mut writes)
            .map_err(|full| format!("table {}: {full}; delete entries, or plan it with a larger size", self.name))?;
        let first = entries.first().map_or(0, |(index, _)| *index);
        let mut updates = Vec::with_capacity(writes.len());
        self.push_updates(&writes, None, &mut updates);
        let origin = |write: &PartitionWrite| match write {
            PartitionWrite::Insert(_, prefix) => origins.get(prefix).copied().unwrap_or(first),
            _ => first,
        };
        out.extend(writes.iter().map(origin).zip(updates));
        Ok(true)
    }

    fn stats(&self) -> Vec<(String, f64)> {
        let (name, p) = (&self.name, &self.partitions);
        vec![
            (format!("{name}: entries"), p.len() as f64),
            (format!("{name}: entries in partitions, copies included"), p.stored_entries() as f64),
            (format!("{name}: partitions in use"), p.used_partitions() as f64),
            (format!("{name}: pivots"), p.pivot_count() as f64),
            (format!("{name}: writes"), self.writes as f64),
        ]
    }
}
