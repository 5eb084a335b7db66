//! [`Lookups`]: all tables of a pipeline as engines look them up, and everything else of the control plane that packets ask for.
//!
//! A `Lookups` is one copy, as of one version of the [`State`]; it does not change while an engine sees it. [`super::Live`] makes
//! it, keeps it up to date and hands it out.

use super::encode::{Encoder, KeyRoom, LookupError, ValueRoom};
use super::exact::ExactTable;
use super::few::Few;
use super::lpm::LpmTable;
use super::members::{MemberValues, Members};
use super::shape::{LookupKind, LookupShape};
use super::ternary::TernaryTable;
use super::value_set::ValueSet;
use super::wide::WideTable;
use crate::batch::{Change, CloneSession, MeterConfig, MulticastGroup};
use crate::entry::Action;
use crate::kept::Entry;
use crate::state::State;
use ir::{Entity, ExternId, ExternKind, TableId, ValueSetId};
use std::collections::BTreeMap;
use std::ptr::null;
use std::sync::Arc;

/// From so many insertions on it pays to make room for all of them first.
const BULK: usize = 1024;

/// How many changes ahead of its turn the memory of one is asked for.
const AHEAD: usize = 8;

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

/// Room for a key and a value while they are made.
#[derive(Default)]
struct Room {
    key: KeyRoom,
    value: ValueRoom,
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
        let set = |id: ValueSetId| ValueSet::new(state.value_set_layout(id), state.value_sets[id.index()].clone());
        Ok(Lookups {
            version: state.version(),
            tables: pipeline.tables.keys().map(table).collect::<Result<_, _>>()?,
            profiles: vec![Members::default(); pipeline.externs.len()],
            value_sets: pipeline.value_sets.keys().map(set).collect(),
            multicast: state.multicast.clone(),
            clones: state.clones.clone(),
            meters: state.meters.clone(),
            expire_times: state.expire_times.clone(),
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

    /// Bytes of memory that this copy takes, without what it shares with the state.
    pub fn memory_bytes(&self) -> usize {
        let tables = self.tables.iter().map(TableLookups::memory_bytes).sum::<usize>();
        tables + self.profiles.iter().map(Members::memory_bytes).sum::<usize>()
    }

    /// Bytes of memory of one table in this copy.
    pub fn table_memory(&self, table: TableId) -> usize {
        self.tables.get(table.index()).map_or(0, TableLookups::memory_bytes)
    }

    /// Carries out changes that the state has accepted; `state` is as they, and perhaps later ones, have left it.
    ///
    /// What is named only by its number is brought in line with that state, so that this copy is right again when all
    /// changes up to the state are carried out, in order.
    pub(super) fn apply(&mut self, state: &State, batch: &NumberedChanges) {
        self.apply_but(state, batch, &[]);
    }

    /// Begins to note what changes in tables, so that the other copy can [follow](Self::follow).
    pub(super) fn note_changes(&mut self) {
        self.exact_tables().for_each(ExactTable::note_changes);
    }

    /// Forgets what was noted: the other copy has followed.
    pub(super) fn forget_changes(&mut self) {
        self.exact_tables().for_each(ExactTable::forget_changes);
    }

    fn exact_tables(&mut self) -> impl Iterator<Item = &mut ExactTable> {
        self.tables.iter_mut().filter_map(|table| match &mut table.structure {
            Structure::Exact(exact) => Some(exact),
            _ => None,
        })
    }

    /// Carries out changes that `other` is ahead by: those that it has noted since it was equal to this copy, and only those, by taking over what they came
    /// to, all else as [`Lookups::apply`] does.
    pub(super) fn follow(&mut self, other: &Lookups, state: &State, behind: &[Arc<NumberedChanges>]) {
        let done: Vec<bool> = self.tables.iter_mut().zip(&other.tables).map(|(own, other)| own.follow(other)).collect();
        behind.iter().for_each(|batch| self.apply_but(state, batch, &done));
    }

    /// Carries out changes but those of entries of tables that are `done`.
    fn apply_but(&mut self, state: &State, batch: &NumberedChanges, done: &[bool]) {
        let mut groups = Vec::new();
        let mut room = Room::default();
        let is_done = |change: &Change| change.entry().is_some_and(|(table, _)| done.get(table.index()) == Some(&true));
        if batch.changes.len() >= BULK {
            self.reserve(&batch.changes, done);
            self.expect(batch);
        }
        for (index, change) in batch.changes.iter().enumerate() {
            if is_done(change) {
                continue;
            }
            if let Some((_, entry)) = batch.changes.get(index + 2 * AHEAD).and_then(Change::entry) {
                entry.expect();
            }
            if let Some(soon) = batch.changes.get(index + AHEAD) {
                self.prefetch(soon, &mut room.key);
            }
            let number = batch.number(index);
            match change {
                Change::Inserted(table, entry, _) => self.tables[table.index()].put(&mut room, entry, number),
                Change::Modified(table, old, new, _) if old.action() != new.action() => {
                    self.tables[table.index()].put(&mut room, new, number);
                }
                Change::Deleted(table, entry) => self.tables[table.index()].remove(&mut room, entry),
                Change::DefaultAction(table) => self.tables[table.index()].set_default(state.default_action(*table)),
                Change::Member(profile, id) => self.member(state, *profile, *id),
                Change::Group(profile, id) => groups.push((*profile, *id)),
                Change::ValueSet(set) => {
                    self.value_sets[set.index()].set(state.value_sets[set.index()].clone());
                }
                // Shared with the state: below. Values of counters and registers are the engine's.
                _ => {}
            }
        }
        // Behind the members, so that no group is made of members that come later in the batch.
        for (profile, id) in groups {
            if let (Some(profile), Some(members)) = (state.profile(profile), self.profiles.get_mut(profile.index())) {
                members.update_group(profile, id);
            }
        }
        if batch.changes.len() >= BULK {
            self.tidy(batch.changes.len());
        }
        share(&mut self.multicast, &state.multicast);
        share(&mut self.clones, &state.clones);
        share(&mut self.meters, &state.meters);
        share(&mut self.expire_times, &state.expire_times);
        self.version = state.version();
    }

    fn member(&mut self, state: &State, id: ExternId, member: u32) {
        let (Some(profile), Some(members)) = (state.profile(id), self.profiles.get_mut(id.index())) else { return };
        let users = self.tables.iter_mut().filter(|table| table.profile == Some(id));
        members.update_member(profile, member, users.map(|table| (&*table.encoder, &mut table.members)));
    }

    /// After a great load, the rearranging that single changes would do bit by bit: at most that many pieces of some microseconds.
    fn tidy(&mut self, pieces: usize) {
        for table in &mut self.tables {
            if let Structure::Ternary(ternary) = &mut table.structure {
                let mut left = pieces;
                while left > 0 && ternary.tidy() {
                    left -= 1;
                }
            }
        }
    }

    /// Asks for the memory that the first changes of a batch will touch, which will soon be applied. Those behind them ask in turn.
    pub(super) fn expect(&self, batch: &NumberedChanges) {
        let mut room = KeyRoom::new();
        batch.changes.iter().take(AHEAD).for_each(|change| self.prefetch(change, &mut room));
    }

    /// Asks for the memory that a change will touch.
    fn prefetch(&self, change: &Change, room: &mut KeyRoom) {
        let Some((table, entry)) = change.entry() else { return };
        let table = &self.tables[table.index()];
        if let Structure::Exact(exact) = &table.structure {
            exact.prefetch(table.encoder.key(entry.key(), room));
        }
    }

    /// Makes room for all entries of a state.
    pub(super) fn make_room(&mut self, state: &State) {
        for (table, id) in self.tables.iter_mut().zip(state.pipeline().tables.keys()) {
            if let Structure::Exact(exact) = &mut table.structure {
                exact.reserve(state.entry_count(id));
            }
        }
    }

    fn reserve(&mut self, changes: &[Change], done: &[bool]) {
        let mut counts = vec![0usize; self.tables.len()];
        for change in changes {
            match change {
                Change::Inserted(table, ..) => counts[table.index()] += 1,
                Change::Deleted(table, ..) => counts[table.index()] = counts[table.index()].saturating_sub(1),
                _ => {}
            }
        }
        for (at, (table, count)) in self.tables.iter_mut().zip(counts).enumerate() {
            if let Structure::Exact(exact) = &mut table.structure
                && count >= BULK
                && done.get(at) != Some(&true)
            {
                exact.reserve(count);
            }
        }
    }
}

fn is_profile(kind: &ExternKind) -> bool {
    matches!(kind, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. })
}

fn share<T>(mine: &mut Arc<T>, state: &Arc<T>) {
    if !Arc::ptr_eq(mine, state) {
        *mine = state.clone();
    }
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

    /// Adds an entry, or changes what it does.
    fn put(&mut self, room: &mut Room, entry: &Entry, number: Option<u32>) {
        let Room { key, value } = room;
        if let Some(number) = number {
            self.entry_ids = self.entry_ids.max(number.saturating_add(1));
        }
        let encoder = &*self.encoder;
        let value = encoder.value(entry.action(), number.unwrap_or(0), value);
        match &mut self.structure {
            // Nothing is ever hit.
            Structure::Keyless => {}
            Structure::Exact(exact) => {
                let key = encoder.key(entry.key(), key);
                exact.insert(key, value);
                if self.few.as_mut().is_some_and(|few| !few.insert(key[0], value)) {
                    self.few = None;
                }
            }
            Structure::Wide(wide) => wide.insert(encoder.key(entry.key(), key), value),
            Structure::Lpm(lpm, exact_words) => {
                let (exact, prefix) = encoder.key(entry.key(), key).split_at(*exact_words);
                lpm.insert(exact, prefix, encoder.prefix_len(entry.key()), value);
            }
            Structure::Ternary(ternary) => {
                ternary.insert(entry.key(), entry.priority(), entry.sequence(), value);
            }
        }
    }

    fn remove(&mut self, room: &mut Room, entry: &Entry) {
        let key = &mut room.key;
        match &mut self.structure {
            Structure::Keyless => {}
            Structure::Exact(exact) => {
                let key = self.encoder.key(entry.key(), key);
                exact.remove(key);
                if let Some(few) = &mut self.few {
                    few.remove(key[0]);
                }
            }
            Structure::Wide(wide) => wide.remove(self.encoder.key(entry.key(), key)),
            Structure::Lpm(lpm, exact_words) => {
                let (exact, prefix) = self.encoder.key(entry.key(), key).split_at(*exact_words);
                lpm.remove(exact, prefix, self.encoder.prefix_len(entry.key()));
            }
            Structure::Ternary(ternary) => {
                ternary.remove(entry.key(), entry.priority());
            }
        }
    }

    /// Takes over from `other` what it has noted. Whether it has, so that changes of entries need not be done to this table.
    fn follow(&mut self, other: &TableLookups) -> bool {
        let (Structure::Exact(own), Structure::Exact(exact)) = (&mut self.structure, &other.structure) else {
            return false;
        };
        let Some(changed) = own.follow(exact) else { return false };
        self.entry_ids = other.entry_ids;
        if changed && self.few.is_some() {
            self.few = other.few.clone();
        }
        true
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
