//! [`LookupSet`]: the lookup structures of all tables of a pipeline, and the other control-plane
//! state that engines read per packet.
//!
//! A `LookupSet` is one copy of the [`ControlState`] at one version. It is immutable while an
//! engine holds it. [`super::LiveTables`] creates, updates and publishes it.

mod changes;

use super::encode::{EntryEncoder, LookupError};
use super::exact::ExactTable;
use super::lookup_layout::{LookupKind, LookupLayout};
use super::lpm::LpmTable;
use super::members::{MemberValues, ProfileMembers};
use super::small_table::{SmallTable, SmallTableHash};
use super::ternary::TernaryTable;
use super::value_set::ValueSetMatcher;
use super::wide::WideKeyTable;
use entries::ControlState;
use entries::{CloneSession, MulticastGroup, StateChange};
use entries::{MeterConfig, StoredAction};
use ir::{Entity, ExternId, ExternKind, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::ptr::null;
use std::sync::Arc;

/// Widest key of an [`ExactTable`], in bits.
const MAX_EXACT_KEY_BITS: u32 = 512;

/// Data structure that holds a table's entries.
#[derive(Clone)]
enum LookupStructure {
    Keyless,
    Exact(ExactTable),
    /// Exact match with a key width that [`ExactTable`] does not support.
    Wide(WideKeyTable),
    /// With the number of words of the exact part.
    Lpm(LpmTable, usize),
    Ternary(TernaryTable),
}

/// Lookup structures of one table.
#[derive(Clone)]
pub(super) struct TableLookups {
    encoder: Arc<EntryEncoder>,
    structure: LookupStructure,
    /// Copy of all entries of `structure`, for tables of few entries with short exact keys.
    small_table: Option<SmallTable>,
    default: Box<[u8]>,
    /// The table's action profile or selector.
    pub(super) profile: Option<ExternId>,
    pub(super) members: MemberValues,
    entry_id_bound: u32,
}

/// Changes that the state accepted together, with the ids of their entries.
#[derive(Debug, Default)]
pub(super) struct ChangesWithIds {
    pub changes: Vec<StateChange>,
    /// Entry id of each change; empty if no change concerns an entry with an id.
    pub entry_ids: Vec<Option<u32>>,
}

impl ChangesWithIds {
    pub fn entry_id(&self, index: usize) -> Option<u32> {
        self.entry_ids.get(index).copied().flatten()
    }
}

/// Lookup structures of all tables, and profiles, value sets, groups, sessions and configurations,
/// at one version.
///
/// Methods that take a table or value set panic if the pipeline does not have its number.
#[derive(Clone)]
pub struct LookupSet {
    version: u64,
    pub(super) tables: Vec<TableLookups>,
    /// By number of the extern object; empty for externs that are not profiles.
    pub(super) profiles: Vec<ProfileMembers>,
    value_sets: Vec<ValueSetMatcher>,
    multicast_groups: Arc<BTreeMap<u32, MulticastGroup>>,
    clone_sessions: Arc<BTreeMap<u32, CloneSession>>,
    meters: Arc<BTreeMap<(ExternId, u64), MeterConfig>>,
    expire_times: Arc<BTreeMap<u8, u64>>,
    /// For each table, whether the engine holds its entries itself. Such a table is empty here.
    held_elsewhere: Arc<[bool]>,
}

impl LookupSet {
    /// Creates empty tables. `entry_ids` returns whether a table's values carry entry ids,
    /// `held_elsewhere` tells of each table whether the engine holds its entries itself.
    pub(super) fn new(
        state: &ControlState,
        entry_ids: impl Fn(TableId) -> bool,
        held_elsewhere: &[bool],
    ) -> Result<LookupSet, LookupError> {
        let pipeline = state.pipeline();
        let new_table = |id: TableId| {
            let encoder = EntryEncoder::new(pipeline, id, state.layout(id), entry_ids(id))?;
            let structure = LookupStructure::new(&encoder);
            let has_one_word_key = matches!(structure, LookupStructure::Exact(_)) && encoder.layout.words == 1;
            let small_table = has_one_word_key.then(|| SmallTable::new(encoder.max_value_len_bytes));
            let default = encoder.padded_value(state.default_action(id));
            let profile = pipeline.tables[id].implementation;
            let profile = profile.filter(|id| pipeline.externs.get(*id).is_some_and(|e| is_profile(&e.kind)));
            let members = MemberValues::default();
            Ok(TableLookups {
                encoder: Arc::new(encoder),
                structure,
                small_table,
                default,
                profile,
                members,
                entry_id_bound: 0,
            })
        };
        let objects = state.shared_objects();
        let new_value_set =
            |id: ValueSetId| ValueSetMatcher::new(state.value_set_layout(id), objects.value_sets[id.index()].clone());
        Ok(LookupSet {
            version: state.version(),
            tables: pipeline.tables.keys().map(new_table).collect::<Result<_, _>>()?,
            profiles: vec![ProfileMembers::default(); pipeline.externs.len()],
            value_sets: pipeline.value_sets.keys().map(new_value_set).collect(),
            multicast_groups: objects.multicast.clone(),
            clone_sessions: objects.clones.clone(),
            meters: objects.meters.clone(),
            expire_times: objects.expire_times.clone(),
            held_elsewhere: held_elsewhere.into(),
        })
    }

    /// Returns the version of the state in this copy: [`ControlState::version`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the memory layout of a table's keys and values.
    pub fn layout(&self, table: TableId) -> &LookupLayout {
        &self.tables[table.index()].encoder.layout
    }

    /// Returns the encoder of a table's entries.
    pub(super) fn encoder(&self, table: TableId) -> &Arc<EntryEncoder> {
        &self.tables[table.index()].encoder
    }

    /// Looks up consecutive keys of [`LookupLayout::words`] words each. Writes to `out`, for each
    /// key, the address of the value of the entry that it hits, or null on a miss. `out` must have
    /// one element per key.
    ///
    /// The pointers are valid as long as this copy is held.
    pub fn lookup_batch(&self, table: TableId, keys: &[u64], out: &mut [*const u8]) {
        let table = &self.tables[table.index()];
        if let Some(small_table) = &table.small_table {
            return small_table.lookup_batch(keys, out);
        }
        match &table.structure {
            LookupStructure::Keyless => out.fill(null()),
            LookupStructure::Exact(exact) => exact.lookup_batch(keys, out),
            LookupStructure::Wide(wide) => wide.lookup_batch(keys, out),
            LookupStructure::Lpm(lpm, _) if lpm.is_empty() => out.fill(null()),
            LookupStructure::Lpm(lpm, _) => lpm.lookup_batch(keys, out),
            LookupStructure::Ternary(ternary) if ternary.is_empty() => out.fill(null()),
            LookupStructure::Ternary(ternary) => ternary.lookup_batch(keys, out),
        }
    }

    /// Returns the perfect hash of a table with one-word exact keys and few entries, for lookups of
    /// single keys. Valid as long as this copy is held.
    pub fn small_table_hash(&self, table: TableId) -> Option<&SmallTableHash> {
        self.tables[table.index()].small_table.as_ref()?.hash()
    }

    /// Returns the address of the default action's value. Valid as long as this copy is held.
    pub fn default_value(&self, table: TableId) -> *const u8 {
        self.tables[table.index()].default.as_ptr()
    }

    /// Returns one more than the largest entry id that the table has had; 0 if its entries have no
    /// ids.
    pub fn entry_id_bound(&self, table: TableId) -> u32 {
        self.tables[table.index()].entry_id_bound
    }

    /// Returns whether a member of a parser value set matches. `keys` holds the words of each key
    /// of the set, least significant first.
    pub fn value_set_contains(&self, set: ValueSetId, keys: &[&[u64]]) -> bool {
        self.value_sets[set.index()].contains(keys)
    }

    /// Returns all multicast groups by id.
    pub fn multicast_groups(&self) -> &BTreeMap<u32, MulticastGroup> {
        &self.multicast_groups
    }

    /// Returns all clone or mirror sessions by id.
    pub fn clone_sessions(&self) -> &BTreeMap<u32, CloneSession> {
        &self.clone_sessions
    }

    /// Returns the configurations of indexed meters, by meter and index.
    pub fn meters(&self) -> &BTreeMap<(ExternId, u64), MeterConfig> {
        &self.meters
    }

    /// Returns the idle time in nanoseconds of each configured expire time profile (PNA).
    pub fn expire_times(&self) -> &BTreeMap<u8, u64> {
        &self.expire_times
    }

    /// Returns whether no reorganisation of tables is pending; see [`super::LiveTables::maintain`].
    pub fn is_maintained(&self) -> bool {
        self.tables.iter().all(|table| match &table.structure {
            LookupStructure::Ternary(ternary) => ternary.is_maintained(),
            _ => true,
        })
    }

    /// Returns the memory of this copy in bytes, excluding data shared with the state.
    pub fn memory_bytes(&self) -> usize {
        let tables = self.tables.iter().map(TableLookups::memory_bytes).sum::<usize>();
        tables + self.profiles.iter().map(ProfileMembers::memory_bytes).sum::<usize>()
    }

    /// Returns the memory of one table in this copy, in bytes.
    pub fn table_memory_bytes(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, TableLookups::memory_bytes)
    }
}

fn is_profile(kind: &ExternKind) -> bool {
    matches!(kind, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. })
}

impl LookupStructure {
    fn new(encoder: &EntryEncoder) -> LookupStructure {
        let (shape, longest) = (&encoder.layout, encoder.max_value_len_bytes);
        match shape.kind {
            LookupKind::Keyless => LookupStructure::Keyless,
            LookupKind::Exact if !(1..=MAX_EXACT_KEY_BITS).contains(&shape.key_bits) => {
                LookupStructure::Wide(WideKeyTable::new(shape.words))
            }
            LookupKind::Exact => LookupStructure::Exact(ExactTable::new(shape.key_bits, longest)),
            LookupKind::Lpm => {
                let bits = shape.keys.last().map_or(0, |place| place.width_bits);
                let exact_words = shape.key_bits.div_ceil(64) as usize;
                LookupStructure::Lpm(LpmTable::new(shape.key_bits, bits, longest), exact_words)
            }
            LookupKind::Ternary => LookupStructure::Ternary(TernaryTable::new(&shape.keys, shape.words, longest)),
        }
    }
}

impl TableLookups {
    /// Returns the offset in bytes of the member id or group id in a value.
    pub(super) fn member_id_offset(&self) -> usize {
        self.encoder.layout.value.data_offset()
    }

    fn set_default(&mut self, action: &StoredAction) {
        self.default = self.encoder.padded_value(action);
    }

    fn memory_bytes(&self) -> usize {
        let entries = match &self.structure {
            LookupStructure::Keyless => 0,
            LookupStructure::Exact(exact) => exact.memory_bytes(),
            LookupStructure::Wide(wide) => wide.memory_bytes(),
            LookupStructure::Lpm(lpm, _) => lpm.memory_bytes(),
            LookupStructure::Ternary(ternary) => ternary.memory_bytes(),
        };
        entries + self.default.len() + self.members.memory_bytes()
    }
}
