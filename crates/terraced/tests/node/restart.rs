//! Tests that a restarted node has its previous tables.

use crate::support::{Wired, entry, mark, marks, named, program};
use entries::{
    ActionProfileGroup, ActionProfileMember, ControlState, GroupMember, StateUpdate, UpdateKind, WriteBatch,
};
use node::Store;
use p4runtime::{Device, ReconcileMode};
use std::collections::BTreeMap;
use std::path::Path;

fn open(path: &Path) -> Option<Store> {
    Some(Store::open(path).expect("a store"))
}

/// Returns all state that is visible to a controller, in a comparable form.
pub fn contents(state: &ControlState) -> BTreeMap<String, Vec<String>> {
    let pipeline = state.pipeline();
    let table = |id| {
        let mut entries: Vec<String> =
            state.entries(id).map(|e| format!("{:?}", e.to_table_entry(pipeline, id))).collect();
        entries.sort();
        entries.push(format!("{:?}", state.default_action(id)));
        (pipeline.tables[id].preamble.name.clone(), entries)
    };
    let mut all: BTreeMap<String, Vec<String>> = pipeline.tables.keys().map(table).collect();
    // The available members depend on the links.
    let profile = |id| {
        let profile = state.profile(id)?;
        let groups: Vec<_> = profile.groups.iter().map(|(id, group)| (id, &group.members)).collect();
        Some(format!("{:?} {groups:?}", profile.members))
    };
    all.insert("profiles".into(), pipeline.externs.keys().filter_map(profile).collect());
    let named =
        state.sdn_strings().spaces().map(|(space, names)| format!("{space} {:?}", names.iter().collect::<Vec<_>>()));
    all.insert("names".into(), named.collect());
    let sets = pipeline.value_sets.keys().map(|id| format!("{:?}", state.value_set(id)));
    all.insert("value sets".into(), sets.collect());
    all.insert("meters".into(), state.meters().map(|meter| format!("{meter:?}")).collect());
    let groups = format!("{:?} {:?} {:?}", state.multicast_groups(), state.clone_sessions(), state.expire_times());
    all.insert("groups".into(), vec![groups]);
    all
}

#[test]
fn the_tables_and_the_pipeline_are_there_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("node.redb");
    let before = {
        let wired = Wired::start(1, open(&path));
        wired.commit(&marks(&["PROGRAM=2"]), ReconcileMode::Nothing);
        wired.write(&mark(&wired.node, UpdateKind::Insert, 5));
        for number in 0..500 {
            let mut batch = WriteBatch::new();
            batch.insert(entry(&wired.node, "forward", number, "out_of", &[number % 500]));
            if number > 10 {
                batch.delete(entry(&wired.node, "forward", number - 10, "drop", &[]));
            }
            wired.write(&batch);
        }
        let pipeline = wired.node.running().expect("runs").pipeline;
        let mut refused = WriteBatch::new();
        refused.insert(named(&pipeline, "forward", 1000, "drop", &[]));
        refused.insert(named(&pipeline, "forward", 499, "drop", &[]));
        assert!(wired.node.write(&[refused]).expect("runs")[0].is_err(), "499 is there");
        contents(&wired.node.state().expect("runs"))
    };
    let wired = Wired::start(1, open(&path));
    assert_eq!(contents(&wired.node.state().expect("runs")), before);
    let running = wired.node.running().expect("runs");
    assert_eq!((running.cookie, running.device_config), (Some(7), marks(&["PROGRAM=2"]).into()));
    assert!(Store::open(&path).is_err(), "the store is in use");
}

/// The assignment of strings to values is stored with the writes, and so are the members' watch
/// ports.
#[test]
fn strings_and_watch_ports_come_back() {
    use p4runtime::proto::v1::{self, entity::Entity as E, field_match as f};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("node.redb");
    let config = program("everything.p4", &[]);
    let pipeline = ir::text::parse(&config).expect("it was printed");
    let schema = p4runtime::Schema::new(std::sync::Arc::new(pipeline));
    let table =
        |name: &str| schema.info().tables.iter().find(|t| t.preamble.name.ends_with(name)).expect("it is there");
    let action =
        |name: &str| schema.info().actions.iter().find(|a| a.preamble.name.ends_with(name)).expect("it is there");
    let exact = |value: &[u8]| {
        let field_match_type = Some(f::FieldMatchType::Exact(f::Exact { value: value.to_vec().into() }));
        v1::FieldMatch { field_id: 1, field_match_type }
    };
    let named = |name: &str| v1::TableEntry {
        table_id: table(".names").preamble.id,
        r#match: vec![exact(name.as_bytes())],
        action: Some(v1::TableAction {
            r#type: Some(v1::table_action::Type::Action(v1::Action {
                action_id: action(".drop").preamble.id,
                params: Vec::new(),
            })),
        }),
        ..v1::TableEntry::default()
    };
    let write = |node: &node::Node, r#type: v1::update::Type, entry: v1::TableEntry| {
        let entity = Some(v1::Entity { entity: Some(E::TableEntry(entry)) });
        let updates = [v1::Update { r#type: r#type.into(), entity }];
        let mut oneshots = p4runtime::Oneshots::new(&schema, node.state().expect("runs"), &updates);
        let updates = schema.translate_update(&mut oneshots, &updates[0]).expect("it is good");
        node.write(&[WriteBatch { updates }]).expect("runs").remove(0).expect("it is good");
    };
    let read = |node: &node::Node| {
        let wanted = v1::TableEntry { table_id: table(".names").preamble.id, ..v1::TableEntry::default() };
        let wanted = v1::Entity { entity: Some(E::TableEntry(wanted)) };
        let mut found = Vec::new();
        let state = node.state().expect("runs");
        schema
            .read(node, &state, &wanted, &mut |entity| {
                let Some(E::TableEntry(entry)) = entity.entity else { panic!("no entry") };
                found.push(entry);
                std::ops::ControlFlow::Continue(())
            })
            .expect("it is good");
        found.sort_by_key(|entry| format!("{:?}", entry.r#match));
        found
    };
    let before = {
        let wired = Wired::start(1, open(&path));
        wired.commit(&config, ReconcileMode::Nothing);
        for name in ["a", "b", "c"] {
            write(&wired.node, v1::update::Type::Insert, named(name));
        }
        // Its string is kept, and has the same value later.
        write(&wired.node, v1::update::Type::Delete, named("b"));
        let selector =
            schema.pipeline().externs.iter().find(|(_, e)| e.preamble.name.ends_with(".ways")).expect("it is there").0;
        let drop =
            schema.pipeline().actions.iter().find(|(_, a)| a.preamble.name.ends_with(".drop")).expect("it is there").0;
        let action = ir::ActionCall { action: drop, args: Vec::new() };
        let mut batch = WriteBatch::new();
        batch.push(StateUpdate::Member(UpdateKind::Insert, ActionProfileMember { profile: selector, id: 1, action }));
        let members = vec![GroupMember { member: 1, weight: 2, watch: Some(1) }];
        batch.push(StateUpdate::Group(UpdateKind::Insert, ActionProfileGroup { profile: selector, id: 1, members }));
        wired.write(&batch);
        contents(&wired.node.state().expect("runs"))
    };
    assert!(before["names"][0].contains("example.org/name"), "{before:?}");
    let wired = Wired::start(1, open(&path));
    let state = wired.node.state().expect("runs");
    assert_eq!(contents(&state), before);
    assert_eq!(read(&wired.node), [named("a"), named("c")]);
    // Port states are detected again, not restored.
    assert_eq!(state.ports().expect("the node has told").keys().copied().collect::<Vec<_>>(), [1, crate::support::CPU]);
    // A store's new log, and another process, get the same.
    let mut again = ControlState::new(state.pipeline().clone()).expect("a good pipeline");
    node::state_to_batches(&state)
        .expect("a good pipeline")
        .for_each(|batch| drop(again.apply(&batch).expect("it is good")));
    assert_eq!(contents(&again), before);
    // A new program with the same type keeps its assignments.
    wired.commit(&config, ReconcileMode::ValidObjects);
    assert_eq!(read(&wired.node), [named("a"), named("c")]);
    wired.commit(&config, ReconcileMode::Nothing);
    assert!(wired.node.state().expect("runs").sdn_strings().spaces().next().is_none());
}

#[test]
fn a_saved_config_waits_over_a_restart_and_a_commit_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("node.redb");
    let config = marks(&[]);
    {
        let wired = Wired::start(1, open(&path));
        wired.node.save(&crate::support::forwarding(&wired.node, &config)).expect("saved");
        assert!(wired.node.running().is_none());
    }
    {
        let wired = Wired::start(1, open(&path));
        let saved = wired.node.saved().expect("it was saved");
        wired.node.commit(&saved, ReconcileMode::Nothing).expect("a good config");
    }
    let wired = Wired::start(1, open(&path));
    assert!(wired.node.saved().is_none());
    assert_eq!(wired.node.running().expect("runs").device_config, config);
}
