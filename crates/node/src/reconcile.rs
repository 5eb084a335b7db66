//! A state as the writes that lead to it: for a store's new log and another process, which have the same pipeline, and for another pipeline, which takes
//! over all that fits, by name. A table fits if it has the same keys (name, kind and type, in any order), an
//! entry if its action has the same parameters, an object if it is of the same kind.

use entries::{
    ActionProfileGroup, ActionProfileMember, ActionSpec, Counter, Entry, KeyLayout, Naming, PackedAction, PackedEntry,
    State, StateError, Update, UpdateKind, WriteBatch, action_layout,
};
use ir::{ActionId, ExternId, ExternKind, Pipeline, TableId, ValueSetId};
use std::collections::HashMap;
use std::rc::Rc;

/// Updates in one batch: what a store holds in memory at once.
const BATCH: usize = 4096;

/// From words of the old layout to words of the new one: first old word, first new word, how many.
type Moves = Vec<(usize, usize, usize)>;

/// How the parts of one pipeline are found in another.
pub(crate) struct Matching<'a> {
    old: &'a Pipeline,
    new: &'a Pipeline,
    tables: HashMap<TableId, (TableId, Moves, usize)>,
    actions: HashMap<ActionId, (ActionId, Moves, usize)>,
    externs: HashMap<ExternId, ExternId>,
    value_sets: HashMap<ValueSetId, ValueSetId>,
}

impl<'a> Matching<'a> {
    /// Between two pipelines.
    pub fn new(old: &'a Pipeline, new: &'a Pipeline) -> Matching<'a> {
        let mut matching = Matching {
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
                && let Some((moves, len)) = matching.params(id, *to)
            {
                matching.actions.insert(id, (*to, moves, len));
            }
        }
        let tables: HashMap<&str, TableId> = new.tables.iter().map(|(id, t)| (&*t.preamble.name, id)).collect();
        for (id, table) in old.tables.iter() {
            if let Some(to) = tables.get(&*table.preamble.name)
                && let Some((moves, len)) = keys(&table.keys, &new.tables[*to].keys)
            {
                matching.tables.insert(id, (*to, moves, len));
            }
        }
        let sets: HashMap<&str, ValueSetId> = new.value_sets.iter().map(|(id, s)| (&*s.preamble.name, id)).collect();
        for (id, set) in old.value_sets.iter() {
            if let Some(to) = sets.get(&*set.preamble.name)
                && let Some((moves, _)) = keys(&set.keys, &new.value_sets[*to].keys)
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

    fn params(&self, old: ActionId, new: ActionId) -> Option<(Moves, usize)> {
        let (before, after) = (&self.old.actions[old].params, &self.new.actions[new].params);
        if before.len() != after.len() {
            return None;
        }
        let (from, to) = (action_layout(self.old, old), action_layout(self.new, new));
        let one = |(param, place): (&ir::Param, &entries::ArgField)| {
            let position = before.iter().position(|other| other.name == param.name && other.ty == param.ty)?;
            Some((from[position].offset, place.offset, place.words))
        };
        let moves = after.iter().zip(&to).map(one).collect::<Option<Moves>>()?;
        Some((moves, to.last().map_or(0, |place| place.offset + place.words)))
    }

    /// The new pipeline.
    pub fn other(&self) -> &'a Pipeline {
        self.new
    }

    /// What the new pipeline has instead of an object.
    pub fn object(&self, old: ExternId) -> Option<ExternId> {
        self.externs.get(&old).copied()
    }

    /// The meters of the new pipeline that count the same as an old one's: packets or bytes.
    pub fn meter(&self, old: ExternId) -> Option<ExternId> {
        let new = self.object(old)?;
        match (&self.old.externs[old].kind, &self.new.externs[new].kind) {
            (ExternKind::Meter { unit: before, .. }, ExternKind::Meter { unit: after, .. }) if before == after => {
                Some(new)
            }
            _ => None,
        }
    }

    /// Whether the direct meters of a table, before and after, count the same.
    pub fn has_same_direct_meter(&self, old: TableId) -> bool {
        let kind = |pipeline: &Pipeline, table: TableId| {
            Some(pipeline.externs[pipeline.tables[table].direct_meter?].kind.clone())
        };
        let after = self.tables.get(&old).and_then(|(new, ..)| kind(self.new, *new));
        after.is_some() && after == kind(self.old, old)
    }

    fn action(&self, action: PackedAction<'_>) -> Option<Moved> {
        Some(match action {
            PackedAction::Call(id, args) => {
                let (to, moves, len) = self.actions.get(&id)?;
                Moved::Call(*to, moved(args, moves, *len))
            }
            PackedAction::Member(id) => Moved::Member(id),
            PackedAction::Group(id) => Moved::Group(id),
        })
    }

    fn spec(&self, action: PackedAction<'_>) -> Option<ActionSpec> {
        self.action(action).map(|moved| moved.packed().to_spec(self.new))
    }

    /// An entry as one of the new pipeline.
    pub fn entry(&self, table: TableId, entry: &Entry) -> Option<PackedEntry> {
        let (to, moves, len) = self.tables.get(&table)?;
        let action = self.action(entry.action())?;
        let key = moved(entry.key(), moves, *len);
        Some(PackedEntry::new(*to, &key, action.packed()).with_attributes_of(entry))
    }

    /// The strings that stand for values, of types that the new pipeline's control plane sees as strings, too.
    fn names(&self, state: &State) -> Vec<Update> {
        let mut updates = Vec::new();
        for (name, space) in state.names().spaces() {
            let Some(width) = p4runtime::string_width(self.new, name) else { continue };
            let fits = space.iter().filter(|(value, _)| value.bits() <= u64::from(width));
            updates.extend(fits.map(|(value, string)| {
                Update::Name(Naming { space: name.clone(), string: string.clone(), value: Some(value.clone()) })
            }));
        }
        updates
    }

    /// The updates that bring over what fits of everything but entries and values of counters and registers.
    pub fn objects(&self, state: &State) -> Vec<Update> {
        let mut updates = self.names(state);
        for (old, new) in &self.externs {
            let Some(contents) = state.profile(*old) else { continue };
            let profile = *new;
            for (id, member) in &contents.members {
                if let Some(ActionSpec::Call(action)) = self.spec(member.action.packed()) {
                    let member = ActionProfileMember { profile, id: *id, action };
                    updates.push(Update::Member(UpdateKind::Insert, member));
                }
            }
            for (id, group) in &contents.groups {
                let group = ActionProfileGroup { profile, id: *id, members: group.members.clone() };
                updates.push(Update::Group(UpdateKind::Insert, group));
            }
        }
        for (old, new) in &self.value_sets {
            let layout = state.value_set_layout(*old);
            let members: Vec<_> = state.value_set(*old).iter().map(|key| layout.unpack(key)).collect();
            if !members.is_empty() {
                updates.push(Update::ValueSet(*new, members));
            }
        }
        updates.extend(state.multicast_groups().values().cloned().map(|g| Update::Multicast(UpdateKind::Insert, g)));
        updates.extend(state.clone_sessions().values().cloned().map(|s| Update::Clone(UpdateKind::Insert, s)));
        updates.extend(state.expire_times().iter().map(|(profile, time)| Update::ExpireTime(*profile, *time)));
        for (meter, index, config) in state.meters() {
            if let Some(new) = self.externs.get(&meter) {
                updates.push(Update::Meter(*new, index, Some(*config)));
            }
        }
        updates
    }

    /// The default actions that were set and fit.
    pub fn defaults(&self, state: &State) -> Vec<Update> {
        let of = |(old, table): (TableId, &ir::Table)| {
            let own = ActionSpec::Call(table.default_action.clone());
            let set = state.default_action(old);
            (set.to_spec(self.old) != own).then_some(())?;
            let (new, ..) = self.tables.get(&old)?;
            Some(Update::DefaultAction(*new, Some(self.spec(set.packed())?)))
        };
        self.old.tables.iter().filter_map(of).collect()
    }

    /// The updates that make a table of the new pipeline hold the entries of the old one's that fit: those that the programs have themselves are
    /// changed or deleted as a controller has done with the old program's, the others are inserted. `owns` are the states of the old and of the new
    /// pipeline as nobody has written to them; `counter` gives what an entry's direct counter is to go on with.
    pub fn entries<'s, F: Fn(TableId, &Entry) -> Option<Counter> + 's>(
        self: &Rc<Self>,
        old: TableId,
        state: &'s State,
        owns: [&State; 2],
        counter: F,
    ) -> impl Iterator<Item = Update> + use<'s, 'a, F> {
        let [own, fresh] = owns;
        let mut updates = Vec::new();
        for entry in ordered(own.entries(old)) {
            let Some(packed) = self.entry(old, entry) else { continue };
            let there = fresh.find(packed.table, packed.key(), packed.priority);
            match (state.find(old, entry.key(), entry.priority()), there) {
                (None, Some(there)) if !there.is_const() => updates.push(Update::Packed(UpdateKind::Delete, packed)),
                (Some(now), Some(there)) if there.is_const() && now.meter() != there.meter() => {
                    let keys = fresh.layout(packed.table).unpack(packed.key());
                    let id = entries::EntryId { table: packed.table, keys, priority: packed.priority };
                    updates.push(Update::DirectMeter(id, now.meter().copied()));
                }
                _ => {}
            }
        }
        let (new, matching) = (self.tables.get(&old).map(|(new, ..)| *new), self.clone());
        let counts = new.is_some_and(|new| {
            self.old.tables[old].direct_counter.is_some() && self.new.tables[new].direct_counter.is_some()
        });
        let brought = move |entry: &Entry| {
            let mut packed = matching.entry(old, entry)?;
            packed.counter = if counts { counter(old, entry) } else { None };
            Some(packed)
        };
        let mut others = ordered(state.entries(old));
        // Those that the new program has itself are changed, if they are not as it has them.
        if new.is_some_and(|new| fresh.entry_count(new) > 0) {
            others.retain(|entry| {
                let Some(packed) = brought(entry) else { return false };
                let Some(there) = fresh.find(packed.table, packed.key(), packed.priority) else { return true };
                let same = PackedEntry::of(UpdateKind::Modify, packed.table, there);
                if !there.is_const() && packed != same {
                    updates.push(Update::Packed(UpdateKind::Modify, packed));
                }
                false
            });
        }
        // The old program's own that cannot be changed are the program's affair.
        let others = others.into_iter().filter(|entry| !entry.is_const());
        let others = others.filter_map(move |entry| Some(Update::Packed(UpdateKind::Insert, brought(entry)?)));
        updates.into_iter().chain(others)
    }
}

/// In the order in which they came: of two entries that match, the older one wins.
fn ordered<'s>(entries: impl Iterator<Item = &'s Entry>) -> Vec<&'s Entry> {
    let mut all: Vec<&Entry> = entries.collect();
    all.sort_by_key(|entry| entry.sequence());
    all
}

/// The writes that make a new state of the same pipeline equal to `state`, in batches that can be applied one after the other.
///
/// # Errors
/// If the pipeline contradicts itself, which a state of it rules out.
pub fn writes(state: &State) -> Result<impl Iterator<Item = WriteBatch> + '_, StateError> {
    let fresh = State::new(state.pipeline().clone())?;
    let matching = Rc::new(Matching::new(state.pipeline(), state.pipeline()));
    let (objects, defaults) = (matching.objects(state), matching.defaults(state));
    let tables: Vec<TableId> = state.pipeline().tables.keys().collect();
    let entries =
        tables.into_iter().flat_map(move |table| matching.entries(table, state, [&fresh, &fresh], |_, _| None));
    let mut updates = objects.into_iter().chain(entries).chain(defaults);
    Ok(std::iter::from_fn(move || {
        let batch: WriteBatch = updates.by_ref().take(BATCH).collect();
        (!batch.updates.is_empty()).then_some(batch)
    }))
}

enum Moved {
    Call(ActionId, Vec<u64>),
    Member(u32),
    Group(u32),
}

impl Moved {
    fn packed(&self) -> PackedAction<'_> {
        match self {
            Moved::Call(action, args) => PackedAction::Call(*action, args),
            Moved::Member(id) => PackedAction::Member(*id),
            Moved::Group(id) => PackedAction::Group(*id),
        }
    }
}

fn moved(words: &[u64], moves: &Moves, len: usize) -> Vec<u64> {
    let mut out = vec![0; len];
    for (from, to, count) in moves {
        out[*to..to + count].copy_from_slice(&words[*from..from + count]);
    }
    out
}

/// How the words of keys move, if they are the same keys.
fn keys(old: &[ir::Key], new: &[ir::Key]) -> Option<(Moves, usize)> {
    let (from, to) = (KeyLayout::new(old), KeyLayout::new(new));
    if from.fields.len() != to.fields.len() {
        return None;
    }
    let one = |place: &entries::KeyField| {
        let key = &new[place.position];
        let source = from.fields.iter().find(|field| {
            let other = &old[field.position];
            other.name == key.name && other.kind == key.kind && other.ty == key.ty
        })?;
        Some((source.offset, place.offset, place.total_words()))
    };
    Some((to.fields.iter().map(one).collect::<Option<Moves>>()?, to.len))
}
