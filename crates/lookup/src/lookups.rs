//! [`Lookups`]: all tables of a pipeline as engines look them up, and everything else of the control plane that packets ask for.
//!
//! A `Lookups` is one copy, as of one version of the [`State`]; it does not change while an engine sees it. [`super::Live`] makes
//! it, keeps it up to date and hands it out.

mod changes;

use super::encode::{Encoder, LookupError};
use super::exact::ExactTable;
use super::few::{Few, Slots};
use super::lpm::LpmTable;
use super::members::{MemberValues, Members};
use super::shape::{LookupKind, LookupShape};
use super::ternary::TernaryTable;
use super::value_set::ValueSet;
use super::wide::WideTable;
use entries::State;
use entries::{Action, MeterConfig};
use entries::{Change, CloneSession, MulticastGroup};
use ir::{Entity, ExternId, ExternKind, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::ptr::null;
use std::sync::Arc;

/// The widest key of an [`ExactTable`], in bits.
const WIDEST: u32 = 512;

/// What holds a table's entries.
#[derive(Clone)]
enum Structure {
    Keyless,
    Exact(ExactTable),
    /// Exact, of a width that is not for [`ExactTable`].
    Wide(WideTable),
    /// With the words of the exact part.
    Lpm(LpmTable, usize),
    Ternary(TernaryTable),
}

/// One table.
#[derive(Clone)]
pub(super) struct TableLookups {
    encoder: Arc<Encoder>,
    structure: Structure,
    /// All entries of `structure`, while they are a handful with short exact keys.
    few: Option<Few>,
    default: Box<[u8]>,
    /// The action profile or selector.
    pub(super) profile: Option<ExternId>,
    pub(super) members: MemberValues,
    entry_ids: u32,
}

/// Changes that the state has accepted together, with the numbers of the entries that they are about.
#[derive(Debug, Default)]
pub(super) struct NumberedChanges {
    pub changes: Vec<Change>,
    /// One for each change; empty if no entry among them has a number.
    pub numbers: Vec<Option<u32>>,
}

impl NumberedChanges {
    pub fn number(&self, index: usize) -> Option<u32> {
        self.numbers.get(index).copied().flatten()
    }
}

/// All tables of a pipeline, its profiles, value sets, groups, sessions and configurations, as of one version.
///
/// Tables and value sets are named by the pipeline's numbers; a number that the pipeline doesn't have panics.
#[derive(Clone)]
pub struct Lookups {
    version: u64,
    pub(super) tables: Vec<TableLookups>,
    /// By number of the extern object; empty for those that are no profile.
    pub(super) profiles: Vec<Members>,
    value_sets: Vec<ValueSet>,
    multicast: Arc<BTreeMap<u32, MulticastGroup>>,
    clones: Arc<BTreeMap<u32, CloneSession>>,
    meters: Arc<BTreeMap<(ExternId, u64), MeterConfig>>,
    expire_times: Arc<BTreeMap<u8, u64>>,
}

impl Lookups {
    /// Tables without entries; `entry_ids` says whose values carry entry numbers.
    pub(super) fn new(state: &State, entry_ids: impl Fn(TableId) -> bool) -> Result<Lookups, LookupError> {
        let pipeline = state.pipeline();
        let table = |id: TableId| {
            let encoder = Encoder::new(pipeline, id, state.layout(id), entry_ids(id))?;
            let structure = Structure::new(&encoder);
            let short = matches!(structure, Structure::Exact(_)) && encoder.shape.words == 1;
            let few = short.then(|| Few::new(encoder.longest));
            let default = encoder.padded_value(state.default_action(id));
            let profile = pipeline.tables[id].implementation;
            let profile = profile.filter(|id| pipeline.externs.get(*id).is_some_and(|e| is_profile(&e.kind)));
            let members = MemberValues::default();
            Ok(TableLookups { encoder: Arc::new(encoder), structure, few, default, profile, members, entry_ids: 0 })
        };
        let objects = state.shared_objects();
        let set = |id: ValueSetId| ValueSet::new(state.value_set_layout(id), objects.value_sets[id.index()].clone());
        Ok(Lookups {
            version: state.version(),
            tables: pipeline.tables.keys().map(table).collect::<Result<_, _>>()?,
            profiles: vec![Members::default(); pipeline.externs.len()],
            value_sets: pipeline.value_sets.keys().map(set).collect(),
            multicast: objects.multicast.clone(),
            clones: objects.clones.clone(),
            meters: objects.meters.clone(),
            expire_times: objects.expire_times.clone(),
        })
    }

    /// The version of the state that this copy shows: [`State::version`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How a table's keys and values lie in memory.
    pub fn shape(&self, table: TableId) -> &LookupShape {
        &self.tables[table.index()].encoder.shape
    }

    /// Looks up many keys of a table, each of [`LookupShape::words`] words, one after the other. `out` receives for each the
    /// first byte of the value of the entry that it hits, null if it hits none. There must be as many places in `out` as keys.
    ///
    /// The pointers are valid for as long as this copy is held.
    pub fn lookup_batch(&self, table: TableId, keys: &[u64], out: &mut [*const u8]) {
        let table = &self.tables[table.index()];
        if let Some(few) = &table.few {
            return few.lookup_batch(keys, out);
        }
        match &table.structure {
            Structure::Keyless => out.fill(null()),
            Structure::Exact(exact) => exact.lookup_batch(keys, out),
            Structure::Wide(wide) => wide.lookup_batch(keys, out),
            Structure::Lpm(lpm, _) if lpm.is_empty() => out.fill(null()),
            Structure::Lpm(lpm, _) => lpm.lookup_batch(keys, out),
            Structure::Ternary(ternary) if ternary.is_empty() => out.fill(null()),
            Structure::Ternary(ternary) => ternary.lookup_batch(keys, out),
        }
    }

    /// All entries of a table with exact keys of one word, if they are a handful: for whoever looks up one at a time. Valid for as long as this copy is held.
    pub fn slots(&self, table: TableId) -> Option<&Slots> {
        self.tables[table.index()].few.as_ref()?.slots()
    }

    /// The value of a table's default action: the first byte. Valid for as long as this copy is held.
    pub fn default_value(&self, table: TableId) -> *const u8 {
        self.tables[table.index()].default.as_ptr()
    }

    /// One past the greatest number that an entry of the table has or had. 0 if its entries have no numbers.
    pub fn entry_ids(&self, table: TableId) -> u32 {
        self.tables[table.index()].entry_ids
    }

    /// Whether a member of a parser's value set matches: for each key of the set its words, least significant first.
    pub fn in_value_set(&self, set: ValueSetId, keys: &[&[u64]]) -> bool {
        self.value_sets[set.index()].contains(keys)
    }

    /// All multicast groups by number.
    pub fn multicast_groups(&self) -> &BTreeMap<u32, MulticastGroup> {
        &self.multicast
    }

    /// All clone or mirror sessions by number.
    pub fn clone_sessions(&self) -> &BTreeMap<u32, CloneSession> {
        &self.clones
    }

    /// Configurations of the indexed meters, by meter and index.
    pub fn meters(&self) -> &BTreeMap<(ExternId, u64), MeterConfig> {
        &self.meters
    }

    /// PNA: idle time in nanoseconds of each configured expire time profile.
    pub fn expire_times(&self) -> &BTreeMap<u8, u64> {
        &self.expire_times
    }

    /// Whether no rearranging of tables is due: see [`super::Live::tidy`].
    pub fn is_tidy(&self) -> bool {
        self.tables.iter().all(|table| match &table.structure {
            Structure::Ternary(ternary) => ternary.is_tidy(),
            _ => true,
        })
    }

    /// Bytes of memory that this copy takes, without what it shares with the state.
    pub fn memory_bytes(&self) -> usize {
        let tables = self.tables.iter().map(TableLookups::memory_bytes).sum::<usize>();
        tables + self.profiles.iter().map(Members::memory_bytes).sum::<usize>()
    }

    /// Bytes of memory of one table in this copy.
    pub fn table_memory(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, TableLookups::memory_bytes)
    }
}

fn is_profile(kind: &ExternKind) -> bool {
    matches!(kind, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. })
}

impl Structure {
    fn new(encoder: &Encoder) -> Structure {
        let (shape, longest) = (&encoder.shape, encoder.longest);
        match shape.kind {
            LookupKind::Keyless => Structure::Keyless,
            LookupKind::Exact if !(1..=WIDEST).contains(&shape.key_bits) => {
                Structure::Wide(WideTable::new(shape.words))
            }
            LookupKind::Exact => Structure::Exact(ExactTable::new(shape.key_bits, longest)),
            LookupKind::Lpm => {
                let bits = shape.keys.last().map_or(0, |place| place.width);
                let exact_words = shape.key_bits.div_ceil(64) as usize;
                Structure::Lpm(LpmTable::new(shape.key_bits, bits, longest), exact_words)
            }
            LookupKind::Ternary => Structure::Ternary(TernaryTable::new(&shape.keys, shape.words, longest)),
        }
    }
}

impl TableLookups {
    /// Where in a value the number of a member or group lies.
    pub(super) fn number_offset(&self) -> usize {
        self.encoder.shape.value.data()
    }

    fn set_default(&mut self, action: &Action) {
        self.default = self.encoder.padded_value(action);
    }

    fn memory_bytes(&self) -> usize {
        let entries = match &self.structure {
            Structure::Keyless => 0,
            Structure::Exact(exact) => exact.memory_bytes(),
            Structure::Wide(wide) => wide.memory_bytes(),
            Structure::Lpm(lpm, _) => lpm.memory_bytes(),
            Structure::Ternary(ternary) => ternary.memory_bytes(),
        };
        entries + self.default.len() + self.members.memory_bytes()
    }
}
