//! [`State`]: what the control plane has said, as of one version.

use crate::batch::{CloneSession, MeterConfig, MulticastGroup};
use crate::entry::{Action, Entry, PackedKey};
use crate::error::EntryError;
use crate::layout::KeyLayout;
use crate::profile::Profile;
use crate::{text, validate};
use hashbrown::{DefaultHashBuilder, HashTable};
use ir::{ExternId, ExternKind, MatchKind, Pipeline, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
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
    pub entries: HashTable<Arc<Entry>>,
    pub hasher: DefaultHashBuilder,
    pub default: Action,
    /// How many entries have each prefix length of the (first) lpm key.
    pub prefix_lens: BTreeMap<u32, usize>,
    /// All entries, strongest first; made on demand.
    pub ranked: OnceLock<Arc<Vec<Arc<Entry>>>>,
}

impl TableState {
    fn new(default: Action) -> TableState {
        TableState {
            entries: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            default,
            prefix_lens: BTreeMap::new(),
            ranked: OnceLock::new(),
        }
    }

    pub fn hash(&self, key: &[u64], priority: i32) -> u64 {
        self.hasher.hash_one((key, priority))
    }

    pub fn find(&self, key: &[u64], priority: i32) -> Option<&Arc<Entry>> {
        self.entries.find(self.hash(key, priority), |e| e.priority == priority && e.key.as_slice() == key)
    }

    pub fn insert(&mut self, layout: &KeyLayout, entry: Arc<Entry>) {
        if let Some(len) = prefix_len(layout, &entry.key) {
            *self.prefix_lens.entry(len).or_default() += 1;
        }
        self.ranked.take();
        let hash = self.hash(&entry.key, entry.priority);
        let hasher = self.hasher.clone();
        self.entries.insert_unique(hash, entry, |e| hasher.hash_one((e.key.as_slice(), e.priority)));
    }

    /// Makes room for so many more entries.
    pub fn reserve(&mut self, more: usize) {
        let hasher = self.hasher.clone();
        self.entries.reserve(more, |e| hasher.hash_one((e.key.as_slice(), e.priority)));
    }

    pub fn remove(&mut self, layout: &KeyLayout, key: &[u64], priority: i32) -> Option<Arc<Entry>> {
        let hash = self.hash(key, priority);
        let found = self.entries.find_entry(hash, |e| e.priority == priority && e.key.as_slice() == key).ok()?;
        let (entry, _) = found.remove();
        self.ranked.take();
        if let Some(len) = prefix_len(layout, key)
            && let Some(count) = self.prefix_lens.get_mut(&len)
        {
            *count -= 1;
            if *count == 0 {
                self.prefix_lens.remove(&len);
            }
        }
        Some(entry)
    }
}

fn prefix_len(layout: &KeyLayout, key: &[u64]) -> Option<u32> {
    let field = layout.fields.iter().find(|f| f.kind == MatchKind::Lpm)?;
    Some(field.second(key)[0] as u32)
}

/// Everything that the control plane has written, as of one version. Cloning it makes a snapshot: cheap, and later
/// writes to the original don't touch it. (The first write to a table after a snapshot copies that table's
/// index, 8 bytes an entry.)
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) layouts: Arc<Vec<KeyLayout>>,
    pub(crate) set_layouts: Arc<Vec<KeyLayout>>,
    pub(crate) version: u64,
    pub(crate) sequence: u64,
    pub(crate) tables: Vec<Arc<TableState>>,
    pub(crate) profiles: BTreeMap<ExternId, Arc<Profile>>,
    /// How many entries name each member (`false`) or group (`true`).
    pub(crate) users: Arc<BTreeMap<(ExternId, bool, u32), u64>>,
    pub(crate) value_sets: Vec<Arc<Vec<PackedKey>>>,
    pub(crate) meters: Arc<BTreeMap<(ExternId, u64), MeterConfig>>,
    pub(crate) multicast: Arc<BTreeMap<u32, MulticastGroup>>,
    pub(crate) clones: Arc<BTreeMap<u32, CloneSession>>,
    pub(crate) expire_times: Arc<BTreeMap<u8, u64>>,
}

impl State {
    /// The state of a pipeline that nobody has written to: the program's own entries and default actions.
    pub fn new(pipeline: Arc<Pipeline>) -> Result<State, StateError> {
        let layouts: Vec<KeyLayout> = pipeline.tables.values().map(|t| KeyLayout::new(&t.keys)).collect();
        let set_layouts: Vec<KeyLayout> = pipeline.value_sets.values().map(|s| KeyLayout::new(&s.keys)).collect();
        let mut tables = Vec::new();
        let mut sequence = 0;
        for (id, layout) in pipeline.tables.keys().zip(&layouts) {
            tables.push(Arc::new(initial_table(&pipeline, id, layout, &mut sequence)?));
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
            pipeline,
        })
    }

    /// The pipeline that the state belongs to.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// 0 at first, one more for each batch applied.
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

    /// The entries of a table in no particular order.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = &Arc<Entry>> {
        self.tables.get(table.0 as usize).into_iter().flat_map(|t| t.entries.iter())
    }

    /// How many entries a table has.
    pub fn entry_count(&self, table: TableId) -> usize {
        self.tables.get(table.0 as usize).map_or(0, |t| t.entries.len())
    }

    /// The default action of a table. `table` must be the pipeline's.
    pub fn default_action(&self, table: TableId) -> &Action {
        &self.tables[table.0 as usize].default
    }

    /// The entry with that packed key and priority.
    pub fn find(&self, table: TableId, key: &[u64], priority: i32) -> Option<&Arc<Entry>> {
        self.tables.get(table.0 as usize)?.find(key, priority)
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
    let mut state = TableState::new(validate::call(pipeline, table, &table.default_action, true)?);
    for declared in &table.entries {
        let name = &table.preamble.name;
        let key = validate::keys(name, &table.keys, layout, &declared.keys)?;
        // A second entry with the same key is never reached: the first one wins.
        if state.find(&key, declared.priority).is_some() {
            continue;
        }
        let action = validate::call(pipeline, table, &declared.action, false)?;
        *sequence += 1;
        let file = pipeline.files.get(usize::from(declared.loc.file));
        let provenance = file.map(|file| Arc::from(format!("{file}:{}", declared.loc.line)));
        let entry = Entry {
            key,
            priority: declared.priority,
            is_const: declared.is_const || table.const_entries,
            action,
            sequence: *sequence,
            idle_timeout_ns: 0,
            meter: None,
            provenance,
            metadata: Box::default(),
        };
        state.insert(layout, Arc::new(entry));
    }
    Ok(state)
}
