//! Tests that a node that is killed at any moment and restarted has the tables of a prefix of the
//! written batches: whole batches, and none that was acknowledged is missing.

use crate::daemon::Daemon;
use crate::forward::{Forward, commit, pipeline};
use p4runtime::client::Client;
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Number of kills, unless TERRACE_KILLS sets it.
const KILLS: usize = 8;

/// Returns batch `number`: two new entries, a modification, and a deletion of an old entry.
fn batch(number: u64) -> Vec<(Type, u64, u64)> {
    let mut updates = vec![(Type::Insert, 2 * number, number % 500), (Type::Insert, 2 * number + 1, number % 500)];
    if number > 0 {
        updates.push((Type::Modify, 2 * number - 1, (number + 7) % 500));
    }
    if number > 200 {
        updates.push((Type::Delete, 2 * (number - 200), 0));
    }
    updates
}

/// Returns the entries after this number of batches.
fn model(batches: u64) -> BTreeMap<u64, u64> {
    let mut entries = BTreeMap::new();
    for (kind, destination, port) in (0..batches).flat_map(batch) {
        match kind {
            Type::Delete => entries.remove(&destination),
            _ => entries.insert(destination, port),
        };
    }
    entries
}

/// Writes batches from `number` on until the node is gone. Returns the number of acknowledged
/// batches, including those before `number`.
async fn write(mut client: Client, forward: &Forward, mut number: u64) -> u64 {
    loop {
        let updates = batch(number).into_iter().map(|(kind, to, port)| forward.update(kind, to, port)).collect();
        if client.write(updates, Atomicity::RollbackOnError).await.is_err() {
            return number;
        }
        number += 1;
    }
}

#[test]
fn killed_at_any_moment_the_tables_are_those_of_whole_batches() {
    let kills = std::env::var("TERRACE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let seed =
        std::env::var("TERRACE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let pipeline = pipeline();
    let forward = Forward::new(&pipeline);
    runtime.block_on(async {
        let (daemon, _) = Daemon::start(&store);
        let (mut client, _stream) = daemon.client().await;
        commit(&mut client, &pipeline).await;
    });
    let (mut batches, mut unacknowledged, began) = (0, 0, Instant::now());
    for kill in 0..kills {
        let moment = Duration::from_micros(random.u64(0..120_000));
        let acknowledged = runtime.block_on(async {
            let (mut daemon, _) = Daemon::start(&store);
            let (client, stream) = daemon.client().await;
            let writing = write(client, &forward, batches);
            let killing = async {
                tokio::time::sleep(moment).await;
                daemon.child.kill().expect("it runs");
            };
            let (acknowledged, ()) = tokio::join!(writing, killing);
            drop(stream);
            acknowledged
        });
        let found = runtime.block_on(async {
            let (daemon, _) = Daemon::start(&store);
            let (mut client, _stream) = daemon.client().await;
            forward.read(&mut client).await
        });
        let written = found.keys().next_back().map_or(0, |last| last / 2 + 1);
        assert!(written >= acknowledged, "kill {kill}: {acknowledged} batches were acknowledged, {written} are there");
        assert!(
            written <= acknowledged + 1,
            "kill {kill}: {written} batches are there, {acknowledged} and one were sent"
        );
        assert!(found == model(written), "kill {kill}: not the entries of {written} batches");
        unacknowledged += written - acknowledged;
        batches = written;
    }
    println!("{kills} kills, {batches} batches, {unacknowledged} of them not acknowledged, {:?}", began.elapsed());
    assert!(batches > 20 * kills as u64 / 8, "too few batches to mean anything: {batches}");
}
