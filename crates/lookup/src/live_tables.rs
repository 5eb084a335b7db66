//! [`LiveTables`]: the control state and the published lookups of a running engine, with one writer
//! and any number of readers on other threads.
//!
//! The [`ControlState`] checks a write batch. The batch is then applied to the copy of all tables
//! that readers do not hold, and that copy is published. A reader therefore sees a batch in all
//! tables or in none. The other copy receives the same changes after its last reader has moved on,
//! at the next publication or in [`LiveTables::sync_standby`].
//!
//! Readers never wait. The writer waits until the readers of the other copy finish their batch. A
//! writer with a higher rate publishes batches together: [`LiveTables::write_batches`],
//! [`LiveTables::write_deferred`], [`LiveTables::begin_publish_group`].

use super::codec::EntryCodec;
use super::encode::LookupError;
use super::entry_ids::EntryIdAllocator;
use super::left_right::{LeftRight, LeftRightReader};
use super::lookups::{ChangesWithIds, LookupSet};
use entries::StoredEntry;
use entries::WriteError;
use entries::{ControlState, StateError};
use entries::{PackedKey, StoredAction};
use entries::{StateChange, WriteBatch};
use ir::{Entity, Pipeline, TableId};
use packet::Counter;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Reason why lookups cannot be created for a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LiveError {
    /// The pipeline is inconsistent: a bug in its producer.
    #[error(transparent)]
    State(#[from] StateError),
    /// Lookups cannot represent a table.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

/// Result of an accepted write.
#[derive(Clone, Debug)]
pub struct AppliedWrite {
    version: u64,
    batch: Arc<ChangesWithIds>,
}

impl AppliedWrite {
    /// Returns the version of the write. Readers with a [`LookupSet::version`] of at least this see
    /// it.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the changes in order.
    pub fn changes(&self) -> &[StateChange] {
        &self.batch.changes
    }

    /// Returns the changes in order, with the id of the entry if entries of the table have ids. The
    /// id of an inserted entry is newly allocated. The id of a deleted entry is reused once no
    /// reader can reach the entry any more.
    pub fn changes_with_ids(&self) -> impl Iterator<Item = (&StateChange, Option<u32>)> {
        self.batch.changes.iter().enumerate().map(|(index, change)| (change, self.batch.entry_id(index)))
    }
}

/// Maximum number of batches that are prefetched before they are applied, because the first-level
/// cache holds no more.
const MAX_PREFETCHED_BATCHES: usize = 32;

/// Control state of a pipeline and its published lookups.
pub struct LiveTables {
    state: ControlState,
    copies: LeftRight<LookupSet>,
    /// Changes that the published copy has and the standby copy lacks.
    standby_backlog: Vec<Arc<ChangesWithIds>>,
    /// Changes in the state that no copy has yet.
    unpublished: Vec<Arc<ChangesWithIds>>,
    /// Since when `unpublished` changes have waited for a reader.
    unpublished_since: Option<Instant>,
    /// By table; `None` for tables of entries without ids.
    entry_ids: Vec<Option<EntryIdAllocator>>,
    /// Ids of entries that unpublished changes delete. `retired_ids` holds those of each past
    /// publication.
    freed_ids: Vec<(TableId, u32)>,
    retired_ids: VecDeque<(u64, Vec<(TableId, u32)>)>,
    reader_timeout: Duration,
    /// State version at the last call of [`LiveTables::maintain`].
    version_at_last_maintenance: u64,
    /// Allocated buffer of an earlier batch, reused for the changes of the next batch.
    recycled_changes: Vec<StateChange>,
    /// For each table that the engine holds itself, the converter of its entries.
    codecs: Vec<Option<EntryCodec>>,
    /// Version of the state that readers see in their next batch.
    published_version: u64,
}

/// Maximum capacity of a recycled buffer, in changes: some megabytes.
const MAX_RECYCLED_CHANGES: usize = 1 << 16;

/// Changes per chunk when lookups are built from a state.
const LOAD_CHUNK_CHANGES: usize = 1 << 12;

/// Keeps the buffer of a batch for reuse if no other reference to the batch exists.
fn recycle_changes(spare: &mut Vec<StateChange>, batch: Arc<ChangesWithIds>) {
    if let Some(ChangesWithIds { mut changes, .. }) = Arc::into_inner(batch)
        && (spare.capacity() + 1..=MAX_RECYCLED_CHANGES).contains(&changes.capacity())
    {
        changes.clear();
        *spare = changes;
    }
}

impl LiveTables {
    /// Default of [`LiveTables::set_reader_timeout`]: far longer than a batch, and as long as
    /// copying tables with millions of entries.
    pub const READER_TIMEOUT: Duration = Duration::from_secs(1);

    /// Creates and publishes the initial state of a pipeline. `entry_ids` returns whether a table's
    /// values carry entry ids ([`super::ValueLayout::entry_id`]).
    pub fn new(pipeline: Arc<Pipeline>, entry_ids: impl Fn(TableId) -> bool) -> Result<LiveTables, LiveError> {
        LiveTables::with_state(ControlState::new(pipeline)?, entry_ids)
    }

    /// Creates and publishes lookups for an existing state. This takes half the time of writing the
    /// entries one by one, and less peak memory.
    /// Ids of entries are assigned in the state's order.
    pub fn with_state(state: ControlState, entry_ids: impl Fn(TableId) -> bool) -> Result<LiveTables, LiveError> {
        LiveTables::with_tables_elsewhere(state, entry_ids, &[])
    }

    /// Does what [`LiveTables::with_state`] does for a pipeline of which the engine holds some
    /// tables itself (`held_elsewhere`, by table). Their entries are in the state, but in no
    /// lookups.
    ///
    /// # Errors
    /// Those of [`LiveTables::with_state`].
    pub fn with_tables_elsewhere(
        state: ControlState,
        entry_ids: impl Fn(TableId) -> bool,
        held_elsewhere: &[bool],
    ) -> Result<LiveTables, LiveError> {
        let mut lookups = LookupSet::new(&state, &entry_ids, held_elsewhere)?;
        lookups.reserve_for_state(&state);
        let tables = || state.pipeline().tables.keys();
        let mut allocators: Vec<_> = tables().map(|table| entry_ids(table).then(EntryIdAllocator::default)).collect();
        let entries = tables().flat_map(|table| state.entries(table).map(move |e| (table, e.clone())));
        let entries = entries.map(|(table, entry)| StateChange::Inserted(table, entry, Counter::default()));
        let mut changes = object_changes(&state).chain(entries);
        loop {
            let chunk: Vec<StateChange> = changes.by_ref().take(LOAD_CHUNK_CHANGES).collect();
            if chunk.is_empty() {
                break;
            }
            let batch = assign_entry_ids(&mut allocators, &mut Vec::new(), chunk);
            lookups.apply_changes(&state, &batch);
        }
        drop(changes);
        lookups.track_changes();
        let codec = |table| EntryCodec::new(state.pipeline(), table, state.layout(table), lookups.encoder(table));
        let held = |table: &TableId| held_elsewhere.get(table.index()) == Some(&true);
        let codecs = state.pipeline().tables.keys().map(|table| held(&table).then(|| codec(table))).collect();
        Ok(LiveTables {
            codecs,
            published_version: state.version(),
            state,
            copies: LeftRight::new(lookups),
            standby_backlog: Vec::new(),
            unpublished: Vec::new(),
            unpublished_since: None,
            entry_ids: allocators,
            freed_ids: Vec::new(),
            retired_ids: VecDeque::new(),
            reader_timeout: LiveTables::READER_TIMEOUT,
            version_at_last_maintenance: 0,
            recycled_changes: Vec::new(),
        })
    }

    /// Sets the maximum time that the writer waits for a reader to finish its batch. After the
    /// timeout the writer abandons the copy that the reader holds and clones another. That costs
    /// memory and time, but a stuck reader does not stop the control plane.
    pub fn set_reader_timeout(&mut self, patience: Duration) {
        self.reader_timeout = patience;
    }

    /// Creates a reader for another thread.
    ///
    /// A thread that both reads and writes must [release](LeftRightReader::release) its reader
    /// before it writes. Otherwise every second write waits for it until the timeout.
    pub fn reader(&self) -> LeftRightReader {
        self.copies.reader()
    }

    /// Returns the control state, including unpublished changes. While a clone of the state exists,
    /// the next write to a table copies the table's index.
    pub fn state(&self) -> &ControlState {
        &self.state
    }

    /// Applies a batch and publishes it. A rejected batch changes nothing.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<AppliedWrite, WriteError> {
        self.begin_publish_group().write(batch)
    }

    /// Applies batches one by one, each atomically, and publishes them together. This is faster
    /// with many readers or batches because the writer waits for readers only once.
    pub fn write_batches<'a>(
        &mut self,
        batches: impl IntoIterator<Item = &'a WriteBatch>,
    ) -> Vec<Result<AppliedWrite, WriteError>> {
        let mut group = self.begin_publish_group();
        batches.into_iter().map(|batch| group.write(batch)).collect()
    }

    /// Applies a batch and publishes it if no reader has to be waited for. Otherwise the batch is
    /// published with the next write, by [`LiveTables::publish`], or after the reader timeout;
    /// compare [`AppliedWrite::version`]. For writers that have more batches to write and need no
    /// immediate publication.
    pub fn write_deferred(&mut self, batch: &WriteBatch) -> Result<AppliedWrite, WriteError> {
        let written = self.stage_batch(batch)?;
        if !self.try_publish()
            && self.unpublished_since.get_or_insert_with(Instant::now).elapsed() >= self.reader_timeout
        {
            self.publish();
        }
        Ok(written)
    }

    /// Starts a group of writes that are published together when the guard is dropped.
    pub fn begin_publish_group(&mut self) -> PublishGuard<'_> {
        PublishGuard(self)
    }

    /// Adds an entry as [`ControlState::add_from_data_plane`] does and publishes it. The only
    /// change is [`StateChange::Inserted`].
    pub fn add_from_data_plane(
        &mut self,
        table: TableId,
        key: PackedKey,
        action: StoredAction,
        idle_timeout_ns: u64,
    ) -> Option<AppliedWrite> {
        self.begin_publish_group().add_from_data_plane(table, key, action, idle_timeout_ns)
    }

    /// Removes an entry as [`ControlState::remove_idle`] does and publishes that. The only change
    /// is [`StateChange::Deleted`]. Returns `None` if the entry no longer exists.
    pub fn remove_idle(&mut self, table: TableId, entry: &StoredEntry) -> Option<AppliedWrite> {
        self.begin_publish_group().remove_idle(table, entry)
    }

    /// Publishes the unpublished changes. Waits up to the reader timeout until the readers of the
    /// standby copy finish their batch.
    pub fn publish(&mut self) {
        if self.unpublished.is_empty() || self.try_publish() {
            return;
        }
        if !self.copies.wait_for_standby(self.reader_timeout) {
            self.copies.replace_standby();
            // The new copy equals the published one.
            self.standby_backlog.clear();
        }
        let published = self.try_publish();
        debug_assert!(published, "only the writer takes the standby copy");
    }

    /// Publishes the unpublished changes if no reader holds the standby copy. Returns whether none
    /// remain.
    pub fn try_publish(&mut self) -> bool {
        if self.unpublished.is_empty() {
            return true;
        }
        if !self.catch_up_standby() {
            return false;
        }
        let Some(standby) = self.copies.standby() else { return false };
        standby.clear_tracked_changes();
        self.unpublished.iter().for_each(|batch| standby.apply_changes(&self.state, batch));
        self.published_version = standby.version();
        self.copies.publish();
        std::mem::swap(&mut self.standby_backlog, &mut self.unpublished);
        self.unpublished_since = None;
        if !self.freed_ids.is_empty() {
            self.retired_ids.push_back((self.copies.publication_count(), std::mem::take(&mut self.freed_ids)));
        }
        true
    }

    /// Applies the backlog to the standby copy. Returns false if a reader holds it.
    fn catch_up_standby(&mut self) -> bool {
        let Some((standby, current)) = self.copies.standby_and_current() else { return false };
        self.unpublished.iter().take(MAX_PREFETCHED_BATCHES).for_each(|batch| standby.prefetch_first_changes(batch));
        if !self.standby_backlog.is_empty() {
            standby.catch_up_from(current, &self.state, &self.standby_backlog);
            self.standby_backlog.drain(..).for_each(|batch| recycle_changes(&mut self.recycled_changes, batch));
        }
        true
    }

    /// Applies the backlog to the standby copy if no reader holds it, so that memory of deleted
    /// entries is freed. Publishes nothing. Returns whether nothing remains to be done: no reader
    /// holds old data.
    pub fn sync_standby(&mut self) -> bool {
        // The state is ahead of the backlog by the unpublished changes. Objects that the standby
        // copy reads too early from the state are corrected before it is published.
        self.catch_up_standby();
        self.copies.oldest_held();
        self.release_retired_ids();
        self.standby_backlog.is_empty() && self.retired_ids.is_empty() && self.copies.all_copies().count() == 2
    }

    /// Does background maintenance while the writer is idle: [`LiveTables::sync_standby`], and up
    /// to `pieces` pieces of pending reorganisation of some microseconds each, which later changes
    /// would otherwise do incrementally. Returns whether more remains.
    ///
    /// Does nothing if something was written since the last call, because the writer may have more
    /// to write. The work happens in the standby copy, which is published when it is complete.
    /// Lookup results don't change. Until then, a lookup in a classifier that was written rule by
    /// rule can take several times as long.
    pub fn maintain(&mut self, pieces: usize) -> bool {
        let version = self.state.version();
        let is_idle = std::mem::replace(&mut self.version_at_last_maintenance, version) == version;
        if !is_idle || !self.unpublished.is_empty() {
            return true;
        }
        self.sync_standby();
        if !self.standby_backlog.is_empty() {
            return true;
        }
        let Some((standby, current)) = self.copies.standby_and_current() else { return true };
        if standby.maintain(pieces) {
            return true;
        }
        if current.is_maintained() {
            return false;
        }
        self.copies.publish();
        true
    }

    /// Returns the version of the state that readers see in their next batch. Entries that the
    /// engine holds itself advance the state's version, but readers see them at once.
    pub fn published_version(&self) -> u64 {
        self.published_version
    }

    /// Returns the converter of a table's entries; `None` for a table that the engine does not hold
    /// itself.
    pub fn codec(&self, table: TableId) -> Option<&EntryCodec> {
        self.codecs.get(table.index())?.as_ref()
    }

    /// Adds an entry to the state that a packet has added to a table that the engine holds itself.
    /// Returns `None` under the conditions of [`ControlState::add_from_data_plane`].
    pub fn record_added_entry(
        &mut self,
        table: TableId,
        key: PackedKey,
        action: StoredAction,
        idle_timeout_ns: u64,
    ) -> Option<StoredEntry> {
        debug_assert!(self.codec(table).is_some(), "the engine holds the table");
        self.state.add_from_data_plane(table, key, action, idle_timeout_ns)
    }

    /// Sets the number of entries of a table that the engine holds itself and that the state does not
    /// have.
    pub fn set_entries_elsewhere(&mut self, table: TableId, count: u64) {
        self.state.set_entries_elsewhere(table, count);
    }

    /// Sets the idle timeout of an entry of a table that the engine holds itself.
    pub fn record_idle_timeout(&mut self, table: TableId, key: &[u64], idle_timeout_ns: u64) {
        self.state.set_idle_timeout(table, key, idle_timeout_ns);
    }

    /// Removes an entry from the state that the engine has removed from a table that it holds
    /// itself.
    pub fn record_removed_entry(&mut self, table: TableId, entry: &StoredEntry) {
        debug_assert!(self.codec(table).is_some(), "the engine holds the table");
        self.state.remove_idle(table, entry);
    }

    /// Returns the id of an entry, if entries of its table have ids.
    pub fn entry_id(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        self.entry_ids.get(table.index())?.as_ref()?.get(entry.sequence())
    }

    /// Returns the memory of the lookups in bytes: all copies and the entry ids, excluding the
    /// state.
    pub fn memory_bytes(&self) -> usize {
        let copies = self.copies.all_copies().map(|copy| copy.memory_bytes()).sum::<usize>();
        copies + self.entry_ids.iter().flatten().map(EntryIdAllocator::memory_bytes).sum::<usize>()
    }

    /// Returns the memory of one table's lookups in bytes: all copies and the entry ids.
    pub fn table_memory_bytes(&self, table: TableId) -> usize {
        let numbers =
            self.entry_ids.get(table.index()).and_then(Option::as_ref).map_or(0, EntryIdAllocator::memory_bytes);
        self.copies.all_copies().map(|copy| copy.table_memory_bytes(table)).sum::<usize>() + numbers
    }

    /// Applies a batch to the state; [`LiveTables::publish`] publishes it.
    fn stage_batch(&mut self, batch: &WriteBatch) -> Result<AppliedWrite, WriteError> {
        if self.unpublished.is_empty() {
            // Prefetches memory for the backlog of the standby copy while the state processes the
            // batch.
            let standby = self.copies.stale_standby();
            self.standby_backlog
                .iter()
                .take(MAX_PREFETCHED_BATCHES)
                .for_each(|batch| standby.prefetch_first_changes(batch));
        }
        let changes = self.state.apply_into(std::mem::take(&mut self.recycled_changes), batch)?;
        Ok(self.stage_changes(changes))
    }

    fn stage_changes(&mut self, changes: Vec<StateChange>) -> AppliedWrite {
        self.release_retired_ids();
        let batch = Arc::new(assign_entry_ids(&mut self.entry_ids, &mut self.freed_ids, changes));
        self.unpublished.push(batch.clone());
        AppliedWrite { version: self.state.version(), batch }
    }

    /// Releases ids that no reader can reach any more.
    fn release_retired_ids(&mut self) {
        if self.retired_ids.is_empty() {
            return;
        }
        let oldest = self.copies.oldest_held();
        while let Some((publication, _)) = self.retired_ids.front()
            && *publication <= oldest
            && let Some((_, freed)) = self.retired_ids.pop_front()
        {
            for (table, number) in freed {
                if let Some(Some(numbers)) = self.entry_ids.get_mut(table.index()) {
                    numbers.release(number);
                }
            }
        }
    }
}

/// Returns a change for each object that lookups read from the state by id.
fn object_changes(state: &ControlState) -> impl Iterator<Item = StateChange> {
    let pipeline = state.pipeline();
    let profiles = || pipeline.externs.keys().filter_map(|id| Some((id, state.profile(id)?)));
    let members =
        profiles().flat_map(|(id, profile)| profile.members.keys().map(move |member| StateChange::Member(id, *member)));
    let groups =
        profiles().flat_map(|(id, profile)| profile.groups.keys().map(move |group| StateChange::Group(id, *group)));
    let sets = pipeline.value_sets.keys().map(StateChange::ValueSet);
    let defaults = pipeline.tables.keys().map(StateChange::DefaultAction);
    members.chain(groups).chain(sets).chain(defaults).collect::<Vec<_>>().into_iter()
}

/// Assigns ids to the entries of changes, in their order. `allocators` has that of each table whose
/// values carry ids. Appends the ids of deleted entries to `freed`.
fn assign_entry_ids(
    allocators: &mut [Option<EntryIdAllocator>],
    freed: &mut Vec<(TableId, u32)>,
    changes: Vec<StateChange>,
) -> ChangesWithIds {
    let has_ids = allocators.iter().any(Option::is_some);
    let mut id_of_change = |change: &StateChange| {
        let (StateChange::Inserted(table, entry, _)
        | StateChange::Modified(table, _, entry, _)
        | StateChange::Deleted(table, entry)
        | StateChange::DirectCounter(table, entry, _)) = change
        else {
            return None;
        };
        let allocator = allocators.get_mut(table.index())?.as_mut()?;
        match change {
            StateChange::Inserted(..) => Some(allocator.allocate(entry.sequence())),
            StateChange::Deleted(..) => {
                let id = allocator.retire(entry.sequence())?;
                freed.push((*table, id));
                Some(id)
            }
            _ => allocator.get(entry.sequence()),
        }
    };
    let entry_ids = if has_ids { changes.iter().map(&mut id_of_change).collect() } else { Vec::new() };
    ChangesWithIds { changes, entry_ids }
}

/// Guard of a group of writes, which are published together when it is dropped.
pub struct PublishGuard<'a>(&'a mut LiveTables);

impl PublishGuard<'_> {
    /// Applies a batch atomically.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<AppliedWrite, WriteError> {
        self.0.stage_batch(batch)
    }

    /// Adds an entry as [`LiveTables::add_from_data_plane`] does.
    pub fn add_from_data_plane(
        &mut self,
        table: TableId,
        key: PackedKey,
        action: StoredAction,
        idle_timeout_ns: u64,
    ) -> Option<AppliedWrite> {
        let entry = self.0.state.add_from_data_plane(table, key, action, idle_timeout_ns)?;
        Some(self.0.stage_changes(vec![StateChange::Inserted(table, entry, Counter::default())]))
    }

    /// Removes an entry as [`LiveTables::remove_idle`] does.
    pub fn remove_idle(&mut self, table: TableId, entry: &StoredEntry) -> Option<AppliedWrite> {
        let there = self.0.state.get_entry(table, entry.key(), entry.priority());
        let there = there.filter(|there| there.sequence() == entry.sequence())?.clone();
        self.0.state.remove_idle(table, &there);
        Some(self.0.stage_changes(vec![StateChange::Deleted(table, there)]))
    }

    /// Returns the state including the writes of the group.
    pub fn state(&self) -> &ControlState {
        self.0.state()
    }
}

impl Drop for PublishGuard<'_> {
    fn drop(&mut self) {
        self.0.publish();
    }
}
