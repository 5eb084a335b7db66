//! A state as the writes that lead to it: for a store's new log, and for another pipeline that takes over what fits.

use ir::TableId;
use tables::{
    ActionProfileGroup, ActionProfileMember, Entry, PackedEntry, State, StateError, Update, UpdateKind, WriteBatch,
};

/// Updates in one batch: what a store holds in memory at once.
const BATCH: usize = 4096;

/// The writes that make a new state of the same pipeline equal to `state`, in batches that can be applied one after the other.
///
/// # Errors
/// If the pipeline contradicts itself, which a state of it rules out.
pub fn writes(state: &State) -> Result<impl Iterator<Item = WriteBatch> + '_, StateError> {
    let fresh = State::new(state.pipeline().clone())?;
    let updates = objects(state).chain(pipeline_tables(state).flat_map(move |table| entries(state, &fresh, table)));
    Ok(batched(updates.chain(defaults(state))))
}

/// Updates in batches.
fn batched(mut updates: impl Iterator<Item = Update>) -> impl Iterator<Item = WriteBatch> {
    std::iter::from_fn(move || {
        let batch: WriteBatch = updates.by_ref().take(BATCH).collect();
        (!batch.updates.is_empty()).then_some(batch)
    })
}

fn pipeline_tables(state: &State) -> impl Iterator<Item = TableId> + use<> {
    state.pipeline().tables.keys().collect::<Vec<_>>().into_iter()
}

/// Everything that entries may refer to, and what stands alone.
fn objects(state: &State) -> impl Iterator<Item = Update> + '_ {
    let pipeline = state.pipeline();
    let profiles = pipeline.externs.keys().filter_map(move |id| Some((id, state.profile(id)?)));
    let profiles = profiles.flat_map(move |(profile, contents)| {
        let members = contents.members.iter().filter_map(move |(id, member)| {
            let tables::ActionSpec::Call(action) = member.action.to_spec(pipeline) else { return None };
            Some(Update::Member(UpdateKind::Insert, ActionProfileMember { profile, id: *id, action }))
        });
        let groups = contents.groups.iter().map(move |(id, group)| {
            let group = ActionProfileGroup { profile, id: *id, members: group.members.clone() };
            Update::Group(UpdateKind::Insert, group)
        });
        members.chain(groups)
    });
    let sets = pipeline.value_sets.keys().filter(|set| !state.value_set(*set).is_empty()).map(move |set| {
        let layout = state.value_set_layout(set);
        Update::ValueSet(set, state.value_set(set).iter().map(|key| layout.unpack(key)).collect())
    });
    let multicast = state.multicast_groups().values().map(|group| Update::Multicast(UpdateKind::Insert, group.clone()));
    let clones = state.clone_sessions().values().map(|session| Update::Clone(UpdateKind::Insert, session.clone()));
    let times = state.expire_times().iter().map(|(profile, time)| Update::ExpireTime(*profile, *time));
    let meters = state.meters().map(|(object, index, config)| Update::Meter(object, index, Some(*config)));
    profiles.chain(sets).chain(multicast).chain(clones).chain(times).chain(meters)
}

fn entries<'a>(state: &'a State, fresh: &State, table: TableId) -> impl Iterator<Item = Update> + use<'a> {
    let layout = state.layout(table);
    let mut updates = Vec::new();
    // The program's own entries, which a controller may have changed.
    let mut own: Vec<&Entry> = fresh.entries(table).collect();
    own.sort_by_key(|entry| entry.sequence());
    for entry in own {
        let (old, now) = (packed(table, entry), state.find(table, entry.key(), entry.priority()));
        match now {
            None => updates.push(Update::Packed(UpdateKind::Delete, old)),
            Some(now) if entry.is_const() && now.meter() != entry.meter() => {
                let id = tables::EntryId { table, keys: layout.unpack(now.key()), priority: now.priority() };
                updates.push(Update::DirectMeter(id, now.meter().copied()));
            }
            Some(now) if !entry.is_const() && packed(table, now) != old => {
                updates.push(Update::Packed(UpdateKind::Modify, packed(table, now)));
            }
            Some(_) => {}
        }
    }
    let known: std::collections::HashSet<u64> =
        fresh.entries(table).filter_map(|e| state.find(table, e.key(), e.priority())).map(Entry::sequence).collect();
    let mut others: Vec<&Entry> = state.entries(table).filter(|entry| !known.contains(&entry.sequence())).collect();
    // Of two entries that match, the older one wins.
    others.sort_by_key(|entry| entry.sequence());
    updates.into_iter().chain(others.into_iter().map(move |e| Update::Packed(UpdateKind::Insert, packed(table, e))))
}

fn packed(table: TableId, entry: &Entry) -> PackedEntry {
    PackedEntry::new(table, entry.key(), entry.action()).with_attributes_of(entry)
}

fn defaults(state: &State) -> impl Iterator<Item = Update> + '_ {
    let pipeline = state.pipeline();
    pipeline.tables.iter().filter(|(_, table)| !table.const_default).filter_map(move |(id, table)| {
        let now = state.default_action(id).to_spec(pipeline);
        let own = tables::ActionSpec::Call(table.default_action.clone());
        (now != own).then_some(Update::DefaultAction(id, Some(now)))
    })
}
