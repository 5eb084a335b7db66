//! A node that is started again has the tables that it had.

use crate::support::{Wired, entry, mark, marks, named};
use node::Store;
use p4runtime::{Device, Keep};
use std::collections::BTreeMap;
use std::path::Path;
use tables::{State, UpdateKind, WriteBatch};

fn open(path: &Path) -> Option<Store> {
    Some(Store::open(path).expect("a store"))
}

/// Everything in a state that a controller can see, in a comparable form.
pub fn contents(state: &State) -> BTreeMap<String, Vec<String>> {
    let pipeline = state.pipeline();
    let table = |id| {
        let mut entries: Vec<String> =
            state.entries(id).map(|e| format!("{:?}", e.to_table_entry(pipeline, id))).collect();
        entries.sort();
        entries.push(format!("{:?}", state.default_action(id)));
        (pipeline.tables[id].preamble.name.clone(), entries)
    };
    let mut all: BTreeMap<String, Vec<String>> = pipeline.tables.keys().map(table).collect();
    let profiles = pipeline.externs.keys().filter_map(|id| Some(format!("{:?}", state.profile(id)?)));
    all.insert("profiles".into(), profiles.collect());
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
        wired.commit(&marks(&["PROGRAM=2"]), Keep::Nothing);
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
        wired.node.commit(&saved, Keep::Nothing).expect("a good config");
    }
    let wired = Wired::start(1, open(&path));
    assert!(wired.node.saved().is_none());
    assert_eq!(wired.node.running().expect("runs").device_config, config);
}
