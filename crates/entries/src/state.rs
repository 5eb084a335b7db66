//! The control state: everything that the control plane has written, as of one version.

use crate::batch::{CloneSession, DevicePort, MulticastGroup};
use crate::entry::{MeterConfig, PackedKey, StoredAction, TableEntry, UpdateKind};
use crate::entry_index::EntryIndex;
use crate::error::EntryError;
use crate::layout::KeyLayout;
use crate::packed::PackedEntry;
use crate::packer::EntryPacker;
use crate::profile::{PortStatuses, Profile};
use crate::sdn_strings::SdnStrings;
use crate::stored_entry::{EntryExtras, EntryFields, StoredEntry};
use crate::{packer, text, validate};
use ir::{Entity, ExternId, ExternKind, MatchKind, Pipeline, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// Error: a pipeline with invalid entries or default actions of its own. It is always a bug of the
/// code that made the pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the pipeline is inconsistent: {0}")]
pub struct StateError(pub Box<EntryError>);

impl From<EntryError> for StateError {
    fn from(error: EntryError) -> StateError {
        StateError(Box::new(error))
    }
}

/// Entries of one table.
#[derive(Clone, Debug)]
pub(crate) struct TableState {
    pub entries: EntryIndex,
    pub default: StoredAction,
    /// Maximum number of entries since the program was loaded.
    pub peak_entries: usize,
    /// Maximum number of entries since the last reset. Snapshots share it, because it belongs to
    /// the table, not to a version.
    pub peak_entries_since_reset: Arc<AtomicUsize>,
    /// Number of entries with each prefix length of the (first) lpm key.
    pub prefix_lens: BTreeMap<u32, usize>,
    /// All entries in match precedence order; computed on demand.
    pub by_precedence: OnceLock<Arc<Vec<StoredEntry>>>,
    /// Number of entries that packets have added and that only the engine holds.
    pub entries_elsewhere: u64,
    /// Whether the entries are left out of this snapshot.
    pub is_left_out: bool,
}

/// Reason for rejecting an insertion.
pub(crate) enum InsertError {
    /// An entry with the same key and priority exists.
    Duplicate,
    /// The table is full; its size.
    Full(u64),
}

impl TableState {
    fn new(default: StoredAction) -> TableState {
        TableState {
            entries: EntryIndex::new(),
            default,
            peak_entries: 0,
            peak_entries_since_reset: Arc::default(),
            prefix_lens: BTreeMap::new(),
            by_precedence: OnceLock::new(),
            entries_elsewhere: 0,
            is_left_out: false,
        }
    }

    pub fn get_entry(&self, key: &[u64], priority: i32) -> Option<&StoredEntry> {
        self.entries.get_entry(self.entries.hash_key(key, priority), key, priority)
    }

    /// Prefetches the index slot of this key and priority, and the entry in it.
    pub fn prefetch(&self, key: &[u64], priority: i32) {
        self.entries.prefetch_entry(self.entries.hash_key(key, priority));
    }

    /// Inserts the entry that `create_entry` creates, if none has this key and priority and the
    /// table has fewer than `size` entries.
    pub fn insert(
        &mut self,
        layout: &KeyLayout,
        key: &[u64],
        priority: i32,
        size: Option<u64>,
        create_entry: impl FnOnce() -> StoredEntry,
    ) -> Result<(), InsertError> {
        let reached_size = size.filter(|size| self.entries.len() as u64 + self.entries_elsewhere >= *size);
        let key_hash = self.entries.hash_key(key, priority);
        if let Some(size) = reached_size {
            let exists = self.entries.get_entry(key_hash, key, priority).is_some();
            return Err(if exists { InsertError::Duplicate } else { InsertError::Full(size) });
        }
        if !self.entries.insert(key_hash, key, priority, create_entry) {
            return Err(InsertError::Duplicate);
        }
        self.by_precedence.take();
        self.peak_entries = self.peak_entries.max(self.entries.len());
        // There is only one writer, and a plain load and store do not wait for its earlier writes
        // as `fetch_max` would.
        if self.peak_entries_since_reset.load(Ordering::Relaxed) < self.entries.len() {
            self.peak_entries_since_reset.store(self.entries.len(), Ordering::Relaxed);
        }
        if let Some(len) = prefix_len(layout, key) {
            *self.prefix_lens.entry(len).or_default() += 1;
        }
        Ok(())
    }

    /// Replaces the entry with the same key and priority, and returns the old one.
    pub fn replace(&mut self, entry: StoredEntry) -> Option<StoredEntry> {
        let key_hash = self.entries.hash_key(entry.key(), entry.priority());
        let slot = self.entries.get_entry_mut(key_hash, entry.key(), entry.priority())?;
        self.by_precedence.take();
        Some(std::mem::replace(slot, entry))
    }

    /// Reserves memory for `more` additional entries.
    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
    }

    /// Removes the entry with this key and priority, if `check` allows it. Returns the entry,
    /// `None` if there is none, or the error of `check`.
    pub fn remove_if<E>(
        &mut self,
        layout: &KeyLayout,
        key: &[u64],
        priority: i32,
        check: impl FnOnce(&StoredEntry) -> Result<(), E>,
    ) -> Result<Option<StoredEntry>, E> {
        let key_hash = self.entries.hash_key(key, priority);
        let Some(entry) = self.entries.remove_if(key_hash, key, priority, check)? else { return Ok(None) };
        // The cached order of the entries is computed again on demand.
        self.by_precedence.take();
        if let Some(len) = prefix_len(layout, key)
            && let Some(count) = self.prefix_lens.get_mut(&len)
        {
            *count -= 1;
            if *count == 0 {
                self.prefix_lens.remove(&len);
            }
        }
        Ok(Some(entry))
    }

    /// Removes the entry with this key and priority.
    pub fn remove(&mut self, layout: &KeyLayout, key: &[u64], priority: i32) -> Option<StoredEntry> {
        self.remove_if(layout, key, priority, |_| Ok::<(), Infallible>(())).unwrap_or(None)
    }
}

fn prefix_len(layout: &KeyLayout, key: &[u64]) -> Option<u32> {
    let field = layout.fields.iter().find(|f| f.kind == MatchKind::Lpm)?;
    Some(field.second(key)[0] as u32)
}

/// Objects of a [`ControlState`], shared by its copies until they change.
#[derive(Clone, Copy, Debug)]
pub struct SharedObjects<'a> {
    /// Members of each value set, by its number.
    pub value_sets: &'a [Arc<Vec<PackedKey>>],
    /// Configurations of indexed meters.
    pub meters: &'a Arc<BTreeMap<(ExternId, u64), MeterConfig>>,
    /// Multicast groups.
    pub multicast: &'a Arc<BTreeMap<u32, MulticastGroup>>,
    /// Clone and mirror sessions.
    pub clones: &'a Arc<BTreeMap<u32, CloneSession>>,
    /// Expire time profiles, in nanoseconds.
    pub expire_times: &'a Arc<BTreeMap<u8, u64>>,
}

/// Everything that the control plane has written, as of one version. A clone is a cheap snapshot
/// that later writes to the original do not change. (The first write after a snapshot copies a
/// shard of that table's index, a thousandth of a large table's.)
#[derive(Clone, Debug)]
pub struct ControlState {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) layouts: Arc<Vec<KeyLayout>>,
    pub(crate) set_layouts: Arc<Vec<KeyLayout>>,
    pub(crate) version: u64,
    pub(crate) sequence: u64,
    /// Uses an `Arc` without weak references, because its uniqueness check needs no locked
    /// instruction.
    pub(crate) tables: Vec<triomphe::Arc<TableState>>,
    pub(crate) profiles: BTreeMap<ExternId, Arc<Profile>>,
    /// Number of entries that use each member (`false`) or group (`true`).
    pub(crate) users: Arc<BTreeMap<(ExternId, bool, u32), u64>>,
    pub(crate) value_sets: Vec<Arc<Vec<PackedKey>>>,
    pub(crate) meters: Arc<BTreeMap<(ExternId, u64), MeterConfig>>,
    pub(crate) multicast: Arc<BTreeMap<u32, MulticastGroup>>,
    pub(crate) clones: Arc<BTreeMap<u32, CloneSession>>,
    pub(crate) expire_times: Arc<BTreeMap<u8, u64>>,
    pub(crate) ports: PortStatuses,
    pub(crate) sdn_strings: SdnStrings,
}

impl ControlState {
    /// Creates the initial state of a pipeline: the program's own entries and default actions.
    ///
    /// # Errors
    /// The pipeline's own entries or default actions are invalid.
    pub fn new(pipeline: Arc<Pipeline>) -> Result<ControlState, StateError> {
        let layouts: Vec<KeyLayout> = pipeline.tables.values().map(|t| KeyLayout::new(&t.keys)).collect();
        let set_layouts: Vec<KeyLayout> = pipeline.value_sets.values().map(|s| KeyLayout::new(&s.keys)).collect();
        let mut tables = Vec::new();
        let mut sequence = 0;
        for (id, layout) in pipeline.tables.keys().zip(&layouts) {
            tables.push(triomphe::Arc::new(initial_table(&pipeline, id, layout, &mut sequence)?));
        }
        let is_profile =
            |kind: &ExternKind| matches!(kind, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. });
        let profiles = pipeline.externs.iter().filter(|(_, e)| is_profile(&e.kind));
        let profiles = profiles.map(|(id, _)| (id, Arc::default())).collect();
        Ok(ControlState {
            layouts: Arc::new(layouts),
            value_sets: vec![Arc::default(); set_layouts.len()],
            set_layouts: Arc::new(set_layouts),
            version: 0,
            sequence,
            tables,
            profiles,
            users: Arc::default(),
            meters: Arc::default(),
            multicast: Arc::default(),
            clones: Arc::default(),
            expire_times: Arc::default(),
            ports: None,
            sdn_strings: SdnStrings::default(),
            pipeline,
        })
    }

    /// Returns this state for another pipeline, which must have the same tables, actions and
    /// objects under the same numbers.
    pub fn with_pipeline(&self, pipeline: &Arc<Pipeline>) -> ControlState {
        ControlState { pipeline: pipeline.clone(), ..self.clone() }
    }

    /// Returns the objects that lookups share with the state.
    pub fn shared_objects(&self) -> SharedObjects<'_> {
        let ControlState { value_sets, meters, multicast, clones, expire_times, .. } = self;
        SharedObjects { value_sets, meters, multicast, clones, expire_times }
    }

    /// Returns the pipeline that the state belongs to.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Returns the version: 0 initially, incremented by each applied batch, except for link changes
    /// that affect nothing.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the layout of the packed keys of a table's entries. `table` must be the pipeline's.
    pub fn layout(&self, table: TableId) -> &KeyLayout {
        &self.layouts[table.0 as usize]
    }

    /// Returns the layout of the packed keys of a value set's members. `set` must be the
    /// pipeline's.
    pub fn value_set_layout(&self, set: ValueSetId) -> &KeyLayout {
        &self.set_layouts[set.0 as usize]
    }

    /// Creates a packer of entries for one of the pipeline's tables.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn entry_packer(&self, table: TableId) -> Result<EntryPacker<'_>, EntryError> {
        validate::find_table(&self.pipeline, table)?;
        EntryPacker::new(&self.pipeline, self.layout(table), table)
    }

    /// Packs an entry with [`PackedEntry::pack`].
    ///
    /// # Errors
    /// The table does not exist, or the errors of [`PackedEntry::pack`].
    pub fn pack_entry(&self, kind: UpdateKind, entry: &TableEntry) -> Result<PackedEntry, EntryError> {
        validate::find_table(&self.pipeline, entry.table)?;
        PackedEntry::pack(&self.pipeline, self.layout(entry.table), kind, entry)
    }

    /// Iterates over the entries of a table in no particular order.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = &StoredEntry> {
        self.tables.get(table.0 as usize).into_iter().flat_map(|t| t.entries.iter())
    }

    /// Returns a page of the entries of a table, and the number of the next page; `None` behind the
    /// last. The pages of 0, and so on until there is no next one, are all entries. An entry that is
    /// in the table all the time, modified or not, is in one of them also if the state changes
    /// between two calls.
    ///
    /// A page has about a thousandth of a large table's entries, and at most 8,192 of a small one's.
    pub fn entries_page(&self, table: TableId, page: usize) -> (impl Iterator<Item = &StoredEntry>, Option<usize>) {
        let entries = self.tables.get(table.index()).map(|table| table.entries.page(page));
        let next = entries.as_ref().and_then(|(_, next)| *next);
        (entries.into_iter().flat_map(|(entries, _)| entries), next)
    }

    /// Leaves the entries of a table out of this snapshot, so that it need not keep what later
    /// writes replace. The original is unchanged.
    pub fn leave_entries_out(&mut self, table: TableId) {
        if let Some(kept) = self.tables.get_mut(table.index()) {
            *kept = triomphe::Arc::new(TableState { is_left_out: true, ..TableState::new(kept.default.clone()) });
        }
    }

    /// Returns whether [`ControlState::leave_entries_out`] was called for a table.
    pub fn are_entries_left_out(&self, table: TableId) -> bool {
        self.tables.get(table.index()).is_some_and(|table| table.is_left_out)
    }

    /// Returns the number of entries of a table.
    pub fn entry_count(&self, table: TableId) -> usize {
        self.tables.get(table.0 as usize).map_or(0, |t| t.entries.len())
    }

    /// Returns the key layout and the mutable state of a table. A snapshot that shares the state
    /// keeps its own copy.
    pub(crate) fn table_mut(&mut self, table: TableId) -> (&KeyLayout, &mut TableState) {
        let index = table.index();
        (&self.layouts[index], triomphe::Arc::make_mut(&mut self.tables[index]))
    }

    /// Returns the maximum number of entries that a table has had since the program was loaded.
    pub fn peak_entries(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, |table| table.peak_entries)
    }

    /// Returns the maximum number of entries that a table has had since
    /// [`ControlState::reset_peak_entries`], or since the program was loaded.
    pub fn peak_entries_since_reset(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, |table| table.peak_entries_since_reset.load(Ordering::Relaxed))
    }

    /// Resets [`ControlState::peak_entries_since_reset`] to the current number of entries, also for
    /// all snapshots of this state. [`ControlState::peak_entries`] is unchanged.
    pub fn reset_peak_entries(&self) {
        for table in &self.tables {
            table.peak_entries_since_reset.store(table.entries.len(), Ordering::Relaxed);
        }
    }

    /// Estimates the memory of a table's entries in bytes, without the lookups of an engine and
    /// without rare attributes (metadata, meters).
    pub fn table_memory_bytes(&self, table: TableId) -> usize {
        let Some(table) = self.tables.get(table.index()) else { return 0 };
        // A sample is enough, because entries of one table differ little in size.
        let (mut sampled, mut bytes) = (0, 0);
        for entry in table.entries.iter().take(64) {
            (sampled, bytes) = (sampled + 1, bytes + entry.memory_bytes());
        }
        table.entries.memory_bytes() + bytes * table.entries.len() / sampled.max(1)
    }

    /// Returns the default action of a table. `table` must be the pipeline's.
    pub fn default_action(&self, table: TableId) -> &StoredAction {
        &self.tables[table.0 as usize].default
    }

    /// Returns the entry with this packed key and priority.
    pub fn get_entry(&self, table: TableId, key: &[u64], priority: i32) -> Option<&StoredEntry> {
        self.tables.get(table.0 as usize)?.get_entry(key, priority)
    }

    /// Returns the prefix lengths of the entries of a table with an lpm key (with several lpm keys:
    /// of the first), longest first.
    pub fn prefix_lens(&self, table: TableId) -> impl Iterator<Item = u32> + '_ {
        self.tables.get(table.0 as usize).into_iter().flat_map(|t| t.prefix_lens.keys().rev().copied())
    }

    /// Returns the members and groups of a profile or selector.
    pub fn profile(&self, profile: ExternId) -> Option<&Profile> {
        self.profiles.get(&profile).map(Arc::as_ref)
    }

    /// Returns the members of a value set, packed by [`ControlState::value_set_layout`].
    pub fn value_set(&self, set: ValueSetId) -> &[PackedKey] {
        self.value_sets.get(set.0 as usize).map_or(&[], |s| s.as_slice())
    }

    /// Returns the configuration of an indexed meter.
    pub fn meter(&self, meter: ExternId, index: u64) -> Option<&MeterConfig> {
        self.meters.get(&(meter, index))
    }

    /// Iterates over all configured indexed meters: object, index, configuration.
    pub fn meters(&self) -> impl Iterator<Item = (ExternId, u64, &MeterConfig)> {
        self.meters.iter().map(|((meter, index), config)| (*meter, *index, config))
    }

    /// Returns all multicast groups by id.
    pub fn multicast_groups(&self) -> &BTreeMap<u32, MulticastGroup> {
        &self.multicast
    }

    /// All clone or mirror sessions by number.
    pub fn clone_sessions(&self) -> &BTreeMap<u32, CloneSession> {
        &self.clones
    }

    /// PNA: returns the idle timeout in nanoseconds of each configured expire time profile.
    pub fn expire_times(&self) -> &BTreeMap<u8, u64> {
        &self.expire_times
    }

    /// Returns the status of the device's ports ([`crate::StateUpdate::Ports`]); `None`: unknown.
    pub fn ports(&self) -> Option<&BTreeMap<u32, DevicePort>> {
        self.ports.as_deref()
    }

    /// Returns the strings assigned to values.
    pub fn sdn_strings(&self) -> &SdnStrings {
        &self.sdn_strings
    }

    /// Formats an entry for messages.
    pub(crate) fn describe_entry(&self, table: TableId, key: &[u64], priority: i32) -> String {
        let keys = &self.pipeline.tables[table].keys;
        text::format_keys(keys, &self.layout(table).unpack(key), priority)
    }
}

/// Returns the initial state of a table: its default action and the entries that the program
/// declares. `sequence` is the number of the last entry inserted in any table, and advances.
fn initial_table(
    pipeline: &Pipeline,
    id: TableId,
    layout: &KeyLayout,
    sequence: &mut u64,
) -> Result<TableState, EntryError> {
    let table = &pipeline.tables[id];
    let mut state = TableState::new(packer::pack_call(pipeline, table, &table.default_action, true)?);
    for declared in &table.entries {
        let name = &table.preamble.name;
        let key = packer::pack_valid_keys(name, &table.keys, layout, &declared.keys)?;
        let call = packer::pack_call(pipeline, table, &declared.action, false)?;
        let file = pipeline.files.get(usize::from(declared.loc.file));
        let provenance = file.map(|file| Arc::from(format!("{file}:{}", declared.loc.line)));
        let entry = StoredEntry::new(EntryFields {
            key: &key,
            priority: declared.priority,
            is_const: declared.is_const || table.const_entries,
            action: call.packed(),
            sequence: *sequence + 1,
            idle_timeout_ns: 0,
            extras: EntryExtras::boxed_if_any(None, provenance.as_ref(), &[]),
        });
        // The first of several entries with the same key wins, so the others are dropped.
        if state.insert(layout, &key, declared.priority, None, || entry).is_ok() {
            *sequence += 1;
        }
    }
    Ok(state)
}
