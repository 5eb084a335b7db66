//! Converts a control-plane state to writes that reproduce it. With the same pipeline, the writes
//! are a store's compacted log or the transfer to another process. With another pipeline, they
//! transfer everything that fits, matched by name: a table fits if it has the same keys (name,
//! match kind and type, in any order), an entry if its action has the same parameters, an extern if
//! it has the same kind.

use entries::{
    ActionProfileGroup, ActionProfileMember, ActionSpec, ControlState, Counter, KeyLayout, PackedEntry,
    SdnStringUpdate, StateError, StateUpdate, StoredActionRef, StoredEntry, UpdateKind, WriteBatch, action_layout,
};
use ir::{ActionId, ExternId, ExternKind, Pipeline, TableId, ValueSetId};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum number of updates in one batch, which bounds the memory of a store.
const BATCH: usize = 4096;

/// Copies of words from the old layout to the new one: first old word, first new word, word count.
type WordMoves = Vec<(usize, usize, usize)>;

/// Maps the objects of one pipeline to those of another.
pub(crate) struct PipelineMapping<'a> {
    old: &'a Pipeline,
    new: &'a Pipeline,
    tables: HashMap<TableId, (TableId, WordMoves, usize)>,
    actions: HashMap<ActionId, (ActionId, WordMoves, usize)>,
    externs: HashMap<ExternId, ExternId>,
    value_sets: HashMap<ValueSetId, ValueSetId>,
}

impl<'a> PipelineMapping<'a> {
    /// Maps the objects of `old` to those of `new`.
    pub fn new(old: &'a Pipeline, new: &'a Pipeline) -> PipelineMapping<'a> {
        let mut matching = PipelineMapping {
            old,
            new,
            tables: HashMap::new(),
            actions: HashMap::new(),
            externs: HashMap::new(),
            value_sets: HashMap::new(),
        };
        let actions: HashMap<&str, ActionId> = new.actions.iter().map(|(id, a)| (&*a.preamble.name, id)).collect();
        for (id, action) in old.actions.iter() {
            if let Some(to) = actions.get(&*action.preamble.name)
                && let Some((moves, len)) = matching.param_moves(id, *to)
            {
                matching.actions.insert(id, (*to, moves, len));
            }
        }
        let tables: HashMap<&str, TableId> = new.tables.iter().map(|(id, t)| (&*t.preamble.name, id)).collect();
        for (id, table) in old.tables.iter() {
            if let Some(to) = tables.get(&*table.preamble.name)
                && let Some((moves, len)) = key_moves(&table.keys, &new.tables[*to].keys)
            {
                matching.tables.insert(id, (*to, moves, len));
            }
        }
        let sets: HashMap<&str, ValueSetId> = new.value_sets.iter().map(|(id, s)| (&*s.preamble.name, id)).collect();
        for (id, set) in old.value_sets.iter() {
            if let Some(to) = sets.get(&*set.preamble.name)
                && let Some((moves, _)) = key_moves(&set.keys, &new.value_sets[*to].keys)
                && moves.iter().all(|(from, to, _)| from == to)
            {
                matching.value_sets.insert(id, *to);
            }
        }
        let externs: HashMap<&str, ExternId> = new.externs.iter().map(|(id, e)| (&*e.preamble.name, id)).collect();
        for (id, object) in old.externs.iter() {
            if let Some(to) = externs.get(&*object.preamble.name)
                && std::mem::discriminant(&new.externs[*to].kind) == std::mem::discriminant(&object.kind)
            {
                matching.externs.insert(id, *to);
            }
        }
        matching
    }

    fn param_moves(&self, old: ActionId, new: ActionId) -> Option<(WordMoves, usize)> {
        let (before, after) = (&self.old.actions[old].params, &self.new.actions[new].params);
        if before.len() != after.len() {
            return None;
        }
        let (from, to) = (action_layout(self.old, old), action_layout(self.new, new));
        let one = |(param, place): (&ir::Param, &entries::PackedArgField)| {
            let position = before.iter().position(|other| other.name == param.name && other.ty == param.ty)?;
            Some((from[position].offset, place.offset, place.words))
        };
        let moves = after.iter().zip(&to).map(one).collect::<Option<WordMoves>>()?;
        Some((moves, to.last().map_or(0, |place| place.offset + place.words)))
    }

    /// Returns the new pipeline.
    pub fn new_pipeline(&self) -> &'a Pipeline {
        self.new
    }

    /// Returns the extern of the new pipeline that replaces an old one.
    pub fn map_extern(&self, old: ExternId) -> Option<ExternId> {
        self.externs.get(&old).copied()
    }

    /// Returns the new pipeline's meter for an old one, if both count the same unit: packets or
    /// bytes.
    pub fn map_meter(&self, old: ExternId) -> Option<ExternId> {
        let new = self.map_extern(old)?;
        match (&self.old.externs[old].kind, &self.new.externs[new].kind) {
            (ExternKind::Meter { unit: before, .. }, ExternKind::Meter { unit: after, .. }) if before == after => {
                Some(new)
            }
            _ => None,
        }
    }

    /// Returns the new pipeline's pool of ports for an old one, if both have the same port spaces.
    pub fn map_pool(&self, old: ExternId) -> Option<ExternId> {
        let new = self.map_extern(old)?;
        match (&self.old.externs[old].kind, &self.new.externs[new].kind) {
            (ExternKind::PortPool { spaces: before, .. }, ExternKind::PortPool { spaces: after, .. })
                if before == after =>
            {
                Some(new)
            }
            _ => None,
        }
    }

    /// Returns the new pipeline's quota of entries for an old one.
    pub fn map_quota(&self, old: ExternId) -> Option<ExternId> {
        let new = self.map_extern(old)?;
        matches!(self.new.externs[new].kind, ExternKind::EntryQuota { .. }).then_some(new)
    }

    /// Converts the key of an exact entry to the new pipeline.
    pub fn map_key(&self, table: TableId, key: &[u64]) -> Option<(TableId, Vec<u64>)> {
        let (to, moves, len) = self.tables.get(&table)?;
        Some((*to, move_words(key, moves, *len).to_vec()))
    }

    /// Returns whether the old and the new direct meter of a table count the same unit.
    pub fn has_same_direct_meter(&self, old: TableId) -> bool {
        let kind = |pipeline: &Pipeline, table: TableId| {
            Some(pipeline.externs[pipeline.tables[table].direct_meter?].kind.clone())
        };
        let after = self.tables.get(&old).and_then(|(new, ..)| kind(self.new, *new));
        after.is_some() && after == kind(self.old, old)
    }

    fn map_action(&self, action: StoredActionRef<'_>) -> Option<MovedAction> {
        Some(match action {
            StoredActionRef::Call(id, args) => {
                let (to, moves, len) = self.actions.get(&id)?;
                MovedAction::Call(*to, move_words(args, moves, *len))
            }
            StoredActionRef::Member(id) => MovedAction::Member(id),
            StoredActionRef::Group(id) => MovedAction::Group(id),
        })
    }

    fn map_action_spec(&self, action: StoredActionRef<'_>) -> Option<ActionSpec> {
        self.map_action(action).map(|moved| moved.packed().to_spec(self.new))
    }

    /// Converts an entry to the new pipeline.
    pub fn map_entry(&self, table: TableId, entry: &StoredEntry) -> Option<PackedEntry> {
        let (to, moves, len) = self.tables.get(&table)?;
        let action = self.map_action(entry.action())?;
        let key = move_words(entry.key(), moves, *len);
        Some(PackedEntry::new(*to, &key, action.packed()).with_attributes_of(entry))
    }

    /// Returns the name translations of types that the new pipeline's control plane also sees as
    /// strings.
    fn name_updates(&self, state: &ControlState) -> Vec<StateUpdate> {
        let mut updates = Vec::new();
        for (name, space) in state.sdn_strings().spaces() {
            let Some(width) = p4runtime::string_width(self.new, name) else { continue };
            let fits = space.iter().filter(|(value, _)| value.bits() <= u64::from(width));
            updates.extend(fits.map(|(value, string)| {
                StateUpdate::SdnString(SdnStringUpdate {
                    space: name.clone(),
                    string: string.clone(),
                    value: Some(value.clone()),
                })
            }));
        }
        updates
    }

    /// Returns the updates for all state that fits, except entries, default actions, and values of
    /// counters and registers.
    pub fn object_updates(&self, state: &ControlState) -> Vec<StateUpdate> {
        let mut updates = self.name_updates(state);
        for (old, new) in &self.externs {
            let Some(contents) = state.profile(*old) else { continue };
            let profile = *new;
            for (id, member) in &contents.members {
                if let Some(ActionSpec::Call(action)) = self.map_action_spec(member.action.packed()) {
                    let member = ActionProfileMember { profile, id: *id, action };
                    updates.push(StateUpdate::Member(UpdateKind::Insert, member));
                }
            }
            for (id, group) in &contents.groups {
                let group = ActionProfileGroup { profile, id: *id, members: group.members.clone() };
                updates.push(StateUpdate::Group(UpdateKind::Insert, group));
            }
        }
        for (old, new) in &self.value_sets {
            let layout = state.value_set_layout(*old);
            let members: Vec<_> = state.value_set(*old).iter().map(|key| layout.unpack(key)).collect();
            if !members.is_empty() {
                updates.push(StateUpdate::ValueSet(*new, members));
            }
        }
        updates
            .extend(state.multicast_groups().values().cloned().map(|g| StateUpdate::Multicast(UpdateKind::Insert, g)));
        updates.extend(state.clone_sessions().values().cloned().map(|s| StateUpdate::Clone(UpdateKind::Insert, s)));
        updates.extend(state.expire_times().iter().map(|(profile, time)| StateUpdate::ExpireTime(*profile, *time)));
        for (meter, index, config) in state.meters() {
            if let Some(new) = self.externs.get(&meter) {
                updates.push(StateUpdate::Meter(*new, index, Some(*config)));
            }
        }
        updates
    }

    /// Returns the default actions that were set and fit.
    pub fn default_action_updates(&self, state: &ControlState) -> Vec<StateUpdate> {
        let of = |(old, table): (TableId, &ir::Table)| {
            let own = ActionSpec::Call(table.default_action.clone());
            let set = state.default_action(old);
            (set.to_spec(self.old) != own).then_some(())?;
            let (new, ..) = self.tables.get(&old)?;
            Some(StateUpdate::DefaultAction(*new, Some(self.map_action_spec(set.packed())?)))
        };
        self.old.tables.iter().filter_map(of).collect()
    }

    /// Returns the updates that transfer the fitting entries of an old table. Entries declared in
    /// the programs are changed or deleted as the controller did in the old program; all others are
    /// inserted. `owns` are the initial states of the old and the new pipeline. `counter` returns
    /// the direct counter with which an entry continues.
    pub fn entry_updates<'s, F: Fn(TableId, &StoredEntry) -> Option<Counter> + 's>(
        self: &Rc<Self>,
        old: TableId,
        state: &'s ControlState,
        owns: [&ControlState; 2],
        counter: F,
    ) -> impl Iterator<Item = StateUpdate> + use<'s, 'a, F> {
        let [own, fresh] = owns;
        let mut updates = Vec::new();
        for entry in sorted_by_insertion(own.entries(old)) {
            let Some(packed) = self.map_entry(old, entry) else { continue };
            let there = fresh.get_entry(packed.table, packed.key(), packed.priority);
            match (state.get_entry(old, entry.key(), entry.priority()), there) {
                (None, Some(there)) if !there.is_const() => {
                    updates.push(StateUpdate::Packed(UpdateKind::Delete, packed))
                }
                (Some(now), Some(there)) if there.is_const() && now.meter() != there.meter() => {
                    let keys = fresh.layout(packed.table).unpack(packed.key());
                    let id = entries::EntryId { table: packed.table, keys, priority: packed.priority };
                    updates.push(StateUpdate::DirectMeter(id, now.meter().copied()));
                }
                _ => {}
            }
        }
        let (new, matching) = (self.tables.get(&old).map(|(new, ..)| *new), self.clone());
        let counts = new.is_some_and(|new| {
            self.old.tables[old].direct_counter.is_some() && self.new.tables[new].direct_counter.is_some()
        });
        let brought = move |entry: &StoredEntry| {
            let mut packed = matching.map_entry(old, entry)?;
            packed.counter = if counts { counter(old, entry) } else { None };
            Some(packed)
        };
        let mut others = sorted_by_insertion(state.entries(old));
        // Entries that the new program declares are modified if they differ.
        if new.is_some_and(|new| fresh.entry_count(new) > 0) {
            others.retain(|entry| {
                let Some(packed) = brought(entry) else { return false };
                let Some(there) = fresh.get_entry(packed.table, packed.key(), packed.priority) else { return true };
                let same = PackedEntry::from_stored(UpdateKind::Modify, packed.table, there);
                if !there.is_const() && packed != same {
                    updates.push(StateUpdate::Packed(UpdateKind::Modify, packed));
                }
                false
            });
        }
        // Constant entries belong to their program and are not transferred.
        let others = others.into_iter().filter(|entry| !entry.is_const());
        let others = others.filter_map(move |entry| Some(StateUpdate::Packed(UpdateKind::Insert, brought(entry)?)));
        updates.into_iter().chain(others)
    }
}

/// Returns the entries in insertion order, because of two matching entries the older one wins.
fn sorted_by_insertion<'s>(entries: impl Iterator<Item = &'s StoredEntry>) -> Vec<&'s StoredEntry> {
    let mut all: Vec<&StoredEntry> = entries.collect();
    all.sort_by_key(|entry| entry.sequence());
    all
}

/// Returns the writes, in batches to be applied in order, that make a fresh state of the same
/// pipeline equal to `state`.
///
/// # Errors
/// The pipeline is inconsistent, which an existing state of it rules out.
pub fn state_to_batches(state: &ControlState) -> Result<impl Iterator<Item = WriteBatch> + '_, StateError> {
    let fresh = ControlState::new(state.pipeline().clone())?;
    let matching = Rc::new(PipelineMapping::new(state.pipeline(), state.pipeline()));
    let (objects, defaults) = (matching.object_updates(state), matching.default_action_updates(state));
    let tables: Vec<TableId> = state.pipeline().tables.keys().collect();
    let entries =
        tables.into_iter().flat_map(move |table| matching.entry_updates(table, state, [&fresh, &fresh], |_, _| None));
    let mut updates = objects.into_iter().chain(entries).chain(defaults);
    Ok(std::iter::from_fn(move || {
        let batch: WriteBatch = updates.by_ref().take(BATCH).collect();
        (!batch.updates.is_empty()).then_some(batch)
    }))
}

enum MovedAction {
    Call(ActionId, Vec<u64>),
    Member(u32),
    Group(u32),
}

impl MovedAction {
    fn packed(&self) -> StoredActionRef<'_> {
        match self {
            MovedAction::Call(action, args) => StoredActionRef::Call(*action, args),
            MovedAction::Member(id) => StoredActionRef::Member(*id),
            MovedAction::Group(id) => StoredActionRef::Group(*id),
        }
    }
}

fn move_words(words: &[u64], moves: &WordMoves, len: usize) -> Vec<u64> {
    let mut out = vec![0; len];
    for (from, to, count) in moves {
        out[*to..to + count].copy_from_slice(&words[*from..from + count]);
    }
    out
}

/// Returns the word copies between the two key layouts, and the new length, if the keys are the
/// same.
fn key_moves(old: &[ir::MatchKey], new: &[ir::MatchKey]) -> Option<(WordMoves, usize)> {
    let (from, to) = (KeyLayout::new(old), KeyLayout::new(new));
    if from.fields.len() != to.fields.len() {
        return None;
    }
    let one = |place: &entries::PackedKeyField| {
        let key = &new[place.position];
        let source = from.fields.iter().find(|field| {
            let other = &old[field.position];
            other.name == key.name && other.kind == key.kind && other.ty == key.ty
        })?;
        Some((source.offset, place.offset, place.total_words()))
    };
    Some((to.fields.iter().map(one).collect::<Option<WordMoves>>()?, to.len))
}
