//! Tests the log: appended records are read back in order, and a compaction can be interrupted at
//! any point.

use entries::{StateUpdate, WriteBatch};
use node::{Store, StoreError, StoredConfig};

fn batch(number: u64) -> WriteBatch {
    [StateUpdate::ExpireTime(number as u8, number)].into_iter().collect()
}

fn stored_records(store: &mut Store) -> Vec<u64> {
    let read = store.replay_batches(|batches| {
        let time = |batch: Result<WriteBatch, StoreError>| {
            let [StateUpdate::ExpireTime(_, time)] = batch?.updates[..] else { panic!("not one time") };
            Ok(time)
        };
        batches.map(time).collect::<Result<Vec<u64>, _>>()
    });
    read.expect("a good log")
}

fn config(cookie: u64) -> StoredConfig {
    StoredConfig { p4info: vec![1, 2], device_config: vec![3; 100], cookie: Some(cookie) }
}

#[test]
fn appends_come_back_after_a_rewrite_that_was_broken_off_or_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut store = Store::open(&path).expect("a new store");
    store.replace_config(&config(1), [batch(1), batch(2)].into_iter()).expect("written");
    store.append_batches([batch(3)].iter()).expect("written");
    store.begin_compaction();
    store.write_compacted(0, &batch(100)).expect("written");
    store.append_batches([batch(4)].iter()).expect("written");
    drop(store);
    let mut store = Store::open(&path).expect("it is there");
    assert_eq!(stored_records(&mut store), [1, 2, 3, 4], "broken off");
    store.begin_compaction();
    store.append_batches([batch(5), batch(6)].iter()).expect("written");
    for number in 0..10 {
        store.write_compacted(number, &batch(100 + number)).expect("written");
    }
    store.append_batches([batch(7)].iter()).expect("written");
    store.end_compaction().expect("written");
    store.append_batches([batch(8)].iter()).expect("written");
    let expected: Vec<u64> = (100..110).chain([5, 6, 7, 8]).collect();
    assert_eq!(stored_records(&mut store), expected);
    assert_eq!(store.update_count(), 14);
    drop(store);
    let mut store = Store::open(&path).expect("it is there");
    assert_eq!(stored_records(&mut store), expected);
    store.append_batches([batch(9)].iter()).expect("written");
    assert_eq!(stored_records(&mut store).last(), Some(&9));
    assert_eq!(store.running_config().expect("readable"), Some(config(1)));
}

#[test]
fn another_config_takes_the_log_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut store = Store::open(&path).expect("a new store");
    store.save_config(&config(9)).expect("written");
    store.replace_config(&config(1), [batch(1)].into_iter()).expect("written");
    assert_eq!(store.saved_config().expect("readable"), None);
    store.begin_compaction();
    store.replace_config(&config(2), [batch(20)].into_iter()).expect("written");
    assert!(
        !store.write_compacted(0, &batch(1)).expect("nothing to write"),
        "the rewrite belonged to the other config"
    );
    assert_eq!(stored_records(&mut store), [20]);
    assert_eq!(store.running_config().expect("readable").and_then(|config| config.cookie), Some(2));
}

#[test]
fn what_is_no_store_is_refused_with_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    std::fs::write(&path, vec![7; 10_000]).expect("written");
    let Err(error) = Store::open(&path) else { panic!("it was opened") };
    assert!(error.to_string().contains("store"), "{error}");
}
