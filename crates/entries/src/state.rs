//! [`State`]: what the control plane has said, as of one version.

use crate::batch::{CloneSession, MulticastGroup, Port};
use crate::entry::{Action, MeterConfig, PackedKey, TableEntry, UpdateKind};
use crate::error::EntryError;
use crate::index::Index;
use crate::kept::{Entry, Parts, Rare};
use crate::layout::KeyLayout;
use crate::names::Names;
use crate::packed::PackedEntry;
use crate::packer::EntryPacker;
use crate::profile::{Ports, Profile};
use crate::{packer, text, validate};
use ir::{Entity, ExternId, ExternKind, MatchKind, Pipeline, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// A pipeline whose own entries or default actions are not valid: always a bug of what made the pipeline.
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
    pub entries: Index,
    pub default: Action,
    /// The most entries that there ever were.
    pub most: usize,
    /// The most since somebody began to count anew. Of the table, not of one version of it: snapshots share it.
    pub most_since: Arc<AtomicUsize>,
    /// How many entries have each prefix length of the (first) lpm key.
    pub prefix_lens: BTreeMap<u32, usize>,
    /// All entries, strongest first; made on demand.
    pub ranked: OnceLock<Arc<Vec<Entry>>>,
}

/// Why there is no room for an entry.
pub(crate) enum NoRoom {
    /// There is one with the same key and priority.
    Duplicate,
    /// There are as many as there may be.
    Full(u64),
}

impl TableState {
    fn new(default: Action) -> TableState {
        TableState {
            entries: Index::new(),
            default,
            most: 0,
            most_since: Arc::default(),
            prefix_lens: BTreeMap::new(),
            ranked: OnceLock::new(),
        }
    }

    pub fn find(&self, key: &[u64], priority: i32) -> Option<&Entry> {
        self.entries.find(self.entries.place(key, priority), key, priority)
    }

    /// Asks for the memory of the place where an entry with this key and priority is, or might be, and of the entry.
    pub fn expect(&self, key: &[u64], priority: i32) {
        self.entries.expect(self.entries.place(key, priority));
    }

    /// Adds the entry that `make` makes, if there is none with this key and priority yet, and fewer than `size` in all.
    pub fn insert(
        &mut self,
        layout: &KeyLayout,
        key: &[u64],
        priority: i32,
        size: Option<u64>,
        make: impl FnOnce() -> Entry,
    ) -> Result<(), NoRoom> {
        let full = size.filter(|size| self.entries.len() as u64 >= *size);
        let place = self.entries.place(key, priority);
        if let Some(size) = full {
            let there = self.entries.find(place, key, priority).is_some();
            return Err(if there { NoRoom::Duplicate } else { NoRoom::Full(size) });
        }
        if !self.entries.insert(place, key, priority, make) {
            return Err(NoRoom::Duplicate);
        }
        self.ranked.take();
        self.most = self.most.max(self.entries.len());
        // One writes at a time, and does not wait for what it has written before, as `fetch_max` would.
        if self.most_since.load(Ordering::Relaxed) < self.entries.len() {
            self.most_since.store(self.entries.len(), Ordering::Relaxed);
        }
        if let Some(len) = prefix_len(layout, key) {
            *self.prefix_lens.entry(len).or_default() += 1;
        }
        Ok(())
    }

    /// Puts an entry in the place of the one with its key and priority, which is given back.
    pub fn replace(&mut self, entry: Entry) -> Option<Entry> {
        let place = self.entries.place(entry.key(), entry.priority());
        let place = self.entries.find_mut(place, entry.key(), entry.priority())?;
        self.ranked.take();
        Some(std::mem::replace(place, entry))
    }

    /// Makes room for so many more entries.
    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
    }

    /// Takes out the entry with this key and priority, if `may` allows it.
    pub fn remove_if<E>(
        &mut self,
        layout: &KeyLayout,
        key: &[u64],
        priority: i32,
        may: impl FnOnce(&Entry) -> Result<(), E>,
    ) -> Result<Option<Entry>, E> {
        let place = self.entries.place(key, priority);
        let Some(entry) = self.entries.remove_if(place, key, priority, may)? else { return Ok(None) };
        self.ranked.take();
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

    /// Takes out the entry with this key and priority.
    pub fn remove(&mut self, layout: &KeyLayout, key: &[u64], priority: i32) -> Option<Entry> {
        self.remove_if(layout, key, priority, |_| Ok::<(), Infallible>(())).unwrap_or(None)
    }
}

fn prefix_len(layout: &KeyLayout, key: &[u64]) -> Option<u32> {
    let field = layout.fields.iter().find(|f| f.kind == MatchKind::Lpm)?;
    Some(field.second(key)[0] as u32)
}

/// Objects of a [`State`] as it holds them: copies share them until they change.
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

/// Everything that the control plane has written, as of one version. Cloning it makes a snapshot: cheap, and later
/// writes to the original don't touch it. (A write after a snapshot copies a piece of that table's index, at most a thousandth of a large
/// table's.)
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) layouts: Arc<Vec<KeyLayout>>,
    pub(crate) set_layouts: Arc<Vec<KeyLayout>>,
    pub(crate) version: u64,
    pub(crate) sequence: u64,
    /// Counted without weak references, so that to see whether there is another owner takes no locked instruction.
    pub(crate) tables: Vec<triomphe::Arc<TableState>>,
    pub(crate) profiles: BTreeMap<ExternId, Arc<Profile>>,
    /// How many entries name each member (`false`) or group (`true`).
    pub(crate) users: Arc<BTreeMap<(ExternId, bool, u32), u64>>,
    pub(crate) value_sets: Vec<Arc<Vec<PackedKey>>>,
    pub(crate) meters: Arc<BTreeMap<(ExternId, u64), MeterConfig>>,
    pub(crate) multicast: Arc<BTreeMap<u32, MulticastGroup>>,
    pub(crate) clones: Arc<BTreeMap<u32, CloneSession>>,
    pub(crate) expire_times: Arc<BTreeMap<u8, u64>>,
    pub(crate) ports: Ports,
    pub(crate) names: Names,
}

impl State {
    /// The state of a pipeline that nobody has written to: the program's own entries and default actions.
    pub fn new(pipeline: Arc<Pipeline>) -> Result<State, StateError> {
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
        Ok(State {
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
            names: Names::default(),
            pipeline,
        })
    }

    /// The same as the state of another pipeline, which must have the same tables, actions and objects under the same numbers.
    pub fn of(&self, pipeline: &Arc<Pipeline>) -> State {
        State { pipeline: pipeline.clone(), ..self.clone() }
    }

    /// What lookups share with it.
    pub fn shared_objects(&self) -> SharedObjects<'_> {
        let State { value_sets, meters, multicast, clones, expire_times, .. } = self;
        SharedObjects { value_sets, meters, multicast, clones, expire_times }
    }

    /// The pipeline that the state belongs to.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// 0 at first, one more for each batch applied, unless it only tells of links on which nothing depends.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How the keys of a table's entries lie in words. `table` must be the pipeline's.
    pub fn layout(&self, table: TableId) -> &KeyLayout {
        &self.layouts[table.0 as usize]
    }

    /// As [`State::layout`], for the members of a value set.
    pub fn value_set_layout(&self, set: ValueSetId) -> &KeyLayout {
        &self.set_layouts[set.0 as usize]
    }

    /// Makes a packed entry for one of the pipeline's tables.
    ///
    /// # Errors
    /// There is no such table.
    pub fn packer(&self, table: TableId) -> Result<EntryPacker<'_>, EntryError> {
        validate::table(&self.pipeline, table)?;
        EntryPacker::new(&self.pipeline, self.layout(table), table)
    }

    /// As [`PackedEntry::pack`].
    ///
    /// # Errors
    /// As there.
    pub fn pack(&self, kind: UpdateKind, entry: &TableEntry) -> Result<PackedEntry, EntryError> {
        validate::table(&self.pipeline, entry.table)?;
        PackedEntry::pack(&self.pipeline, self.layout(entry.table), kind, entry)
    }

    /// The entries of a table in no particular order.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = &Entry> {
        self.tables.get(table.0 as usize).into_iter().flat_map(|t| t.entries.iter())
    }

    /// How many entries a table has.
    pub fn entry_count(&self, table: TableId) -> usize {
        self.tables.get(table.0 as usize).map_or(0, |t| t.entries.len())
    }

    /// Where the keys of a table's entries lie, and its entries, to be changed: a snapshot that shares them keeps its own.
    pub(crate) fn place(&mut self, table: TableId) -> (&KeyLayout, &mut TableState) {
        let index = table.index();
        (&self.layouts[index], triomphe::Arc::make_mut(&mut self.tables[index]))
    }

    /// The most entries that a table has had since the program was loaded.
    pub fn entry_high_water(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, |table| table.most)
    }

    /// The most entries that a table has had since [`State::begin_high_water`], or since the program was loaded.
    pub fn entry_high_water_since(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, |table| table.most_since.load(Ordering::Relaxed))
    }

    /// Begins to look anew for [`State::entry_high_water_since`], from the entries that there are; all snapshots of this state see that.
    /// [`State::entry_high_water`] stays.
    pub fn begin_high_water(&self) {
        for table in &self.tables {
            table.most_since.store(table.entries.len(), Ordering::Relaxed);
        }
    }

    /// Bytes of memory that the entries of a table take, about: the lookups of an engine come on top, and what few entries have (metadata, meters).
    pub fn table_memory(&self, table: TableId) -> usize {
        let Some(table) = self.tables.get(table.index()) else { return 0 };
        // Entries of one table differ by little.
        let (mut some, mut bytes) = (0, 0);
        for entry in table.entries.iter().take(64) {
            (some, bytes) = (some + 1, bytes + entry.memory_bytes());
        }
        table.entries.memory_bytes() + bytes * table.entries.len() / some.max(1)
    }

    /// The default action of a table. `table` must be the pipeline's.
    pub fn default_action(&self, table: TableId) -> &Action {
        &self.tables[table.0 as usize].default
    }

    /// The entry with that packed key and priority.
    pub fn find(&self, table: TableId, key: &[u64], priority: i32) -> Option<&Entry> {
        self.tables.get(table.0 as usize)?.find(key, priority)
    }

    /// The prefix lengths that the entries of a table with an lpm key have (with several: of the first one), longest first.
    pub fn prefix_lens(&self, table: TableId) -> impl Iterator<Item = u32> + '_ {
        self.tables.get(table.0 as usize).into_iter().flat_map(|t| t.prefix_lens.keys().rev().copied())
    }

    /// Members and groups of a profile or selector.
    pub fn profile(&self, profile: ExternId) -> Option<&Profile> {
        self.profiles.get(&profile).map(Arc::as_ref)
    }

    /// The members of a value set, packed by [`State::value_set_layout`].
    pub fn value_set(&self, set: ValueSetId) -> &[PackedKey] {
        self.value_sets.get(set.0 as usize).map_or(&[], |s| s.as_slice())
    }

    /// The configuration of an indexed meter.
    pub fn meter(&self, meter: ExternId, index: u64) -> Option<&MeterConfig> {
        self.meters.get(&(meter, index))
    }

    /// All indexed meters that are configured: object, index, configuration.
    pub fn meters(&self) -> impl Iterator<Item = (ExternId, u64, &MeterConfig)> {
        self.meters.iter().map(|((meter, index), config)| (*meter, *index, config))
    }

    /// All multicast groups by number.
    pub fn multicast_groups(&self) -> &BTreeMap<u32, MulticastGroup> {
        &self.multicast
    }

    /// All clone or mirror sessions by number.
    pub fn clone_sessions(&self) -> &BTreeMap<u32, CloneSession> {
        &self.clones
    }

    /// PNA: idle time in nanoseconds of each configured expire time profile.
    pub fn expire_times(&self) -> &BTreeMap<u8, u64> {
        &self.expire_times
    }

    /// The ports of the device, and whether each is up ([`crate::Update::Ports`]); `None`: nothing is known of them.
    pub fn ports(&self) -> Option<&BTreeMap<u32, Port>> {
        self.ports.as_deref()
    }

    /// The strings that stand for values.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// An entry in words, for messages.
    pub(crate) fn describe(&self, table: TableId, key: &[u64], priority: i32) -> String {
        let keys = &self.pipeline.tables[table].keys;
        text::format_keys(keys, &self.layout(table).unpack(key), priority)
    }
}

fn initial_table(
    pipeline: &Pipeline,
    id: TableId,
    layout: &KeyLayout,
    sequence: &mut u64,
) -> Result<TableState, EntryError> {
    let table = &pipeline.tables[id];
    let mut state = TableState::new(packer::call(pipeline, table, &table.default_action, true)?);
    for declared in &table.entries {
        let name = &table.preamble.name;
        let key = packer::packed_keys(name, &table.keys, layout, &declared.keys)?;
        let call = packer::call(pipeline, table, &declared.action, false)?;
        let file = pipeline.files.get(usize::from(declared.loc.file));
        let provenance = file.map(|file| Arc::from(format!("{file}:{}", declared.loc.line)));
        let made = Entry::new(Parts {
            key: &key,
            priority: declared.priority,
            is_const: declared.is_const || table.const_entries,
            action: call.packed(),
            sequence: *sequence + 1,
            idle_timeout_ns: 0,
            rare: Rare::boxed(None, provenance.as_ref(), &[]),
        });
        // A second entry with the same key is never reached: the first one wins.
        if state.insert(layout, &key, declared.priority, None, || made).is_ok() {
            *sequence += 1;
        }
    }
    Ok(state)
}
