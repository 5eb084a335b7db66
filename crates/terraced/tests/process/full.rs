//! Tests a node on the emulated switch that a controller fills. Entries that fit are read back as
//! written; others are rejected with `RESOURCE_EXHAUSTED` and a sentence.

use crate::daemon::{Daemon, config_in};
use crate::forward::{Forward, commit, pipeline};
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use std::collections::BTreeMap;

/// Entries per request.
const BATCH: u64 = 512;

/// gRPC's code.
const RESOURCE_EXHAUSTED: i32 = 8;

/// Fills `forward`. Returns the message for the first entry that does not fit.
async fn fill(daemon: &Daemon) -> String {
    let (mut client, _stream) = daemon.client().await;
    let pipeline = pipeline();
    commit(&mut client, &pipeline).await;
    let forward = Forward::new(&pipeline);
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    let refused = loop {
        let keys = held.len() as u64..held.len() as u64 + BATCH;
        let updates = keys.clone().map(|key| forward.update(Type::Insert, key, key % 500)).collect();
        match client.write(updates, Atomicity::RollbackOnError).await {
            Ok(()) => held.extend(keys.map(|key| (key, key % 500))),
            Err(status) => break status,
        }
        assert!(held.len() < 1 << 20, "it is full at last");
    };
    assert!(held.len() as u64 >= BATCH, "only {} were taken", held.len());
    // The first update that does not fit stops its batch, of which no update is applied.
    let parts = p4runtime::server::parts_of(&refused).expect("an error for each update");
    let full: Vec<_> = parts.iter().filter(|part| part.canonical_code == RESOURCE_EXHAUSTED).collect();
    assert_eq!(full.len(), 1, "{refused:?}");
    assert_eq!(forward.read(&mut client).await, held);
    full[0].message.clone()
}

#[test]
fn a_chip_that_is_full_says_so_by_p4runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    for (compress, sentence) in [
        ("none", "table Decide.forward: the chip can hold "),
        ("pieces:forward*2", "table Decide.forward: the chip cannot hold the entry: "),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = format!("engine = \"asic\"\n[switch]\ndefault_table_entries = 2000\ncompress = \"{compress}\"\n");
        let text = format!("{engine}[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n");
        let daemon = Daemon::with(&config_in(folder.path(), &text), &[]);
        let said = runtime.block_on(fill(&daemon));
        assert!(said.starts_with(sentence), "{said}");
        println!("{said}");
    }
}
