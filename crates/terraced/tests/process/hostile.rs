//! Tests that under any attack other clients are served and memory is bounded. `examples/hostile`
//! measures the same, with packets.

use crate::attacks::{ATTACKS, Target, attack};
use crate::daemon::{Daemon, config_in};
use crate::forward::{Forward, commit, pipeline};
use p4runtime::client::Client;
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use std::time::{Duration, Instant};

/// Duration of each attack.
const ATTACK: Duration = Duration::from_millis(700);
/// Memory bound in MiB: more than a node with few entries and the messages that clients may send
/// take.
const MOST_MIB: u64 = 1_024;
/// Time-out: far more than the latency on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a value of /proc/PID/status, in MiB.
fn memory(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let found = status.lines().find_map(|text| text.strip_prefix(line)).expect("the line is there");
    found.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}

async fn served(client: &mut Client, forward: &Forward, number: u64) {
    let update = forward.update(if number == 0 { Type::Insert } else { Type::Modify }, 7, number % 500);
    let written = tokio::time::timeout(PATIENCE, client.write(vec![update], Atomicity::ContinueOnError)).await;
    written.expect("it is served in time").expect("it may write");
    let entries = tokio::time::timeout(PATIENCE, forward.read(client)).await.expect("it is served in time");
    assert_eq!(entries.get(&7), Some(&(number % 500)));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_some_clients_do_others_are_served_and_memory_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::with(&config_in(folder.path(), "[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n"), &[]);
    let (mut client, _stream) = daemon.client().await;
    let pipeline = pipeline();
    commit(&mut client, &pipeline).await;
    let forward = Forward::new(&pipeline);
    let target = Target { plain: daemon.address.parse().expect("an address"), tls: None, token: None };
    let mut number = 0;
    for name in ATTACKS {
        // The node serves neither TLS nor tokens.
        if ["wrong certificates", "bad tokens"].contains(&name) {
            continue;
        }
        let attack = tokio::spawn(attack(name, target.clone(), Instant::now() + ATTACK));
        let before = number;
        while !attack.is_finished() {
            served(&mut client, &forward, number).await;
            number += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let times = attack.await.expect("it does not fail");
        let peak = memory(daemon.child.id(), "VmHWM:");
        println!("{name}: {times} times, {} answers meanwhile, {peak} MiB at most", number - before);
        assert!(times > 0, "{name}: it did not take place");
        assert!(peak < MOST_MIB, "{name}: {peak} MiB");
    }
    // Permits are released.
    drop(client);
    let deadline = Instant::now() + PATIENCE;
    while target.client().await.is_none() {
        assert!(Instant::now() < deadline, "nobody gets in any more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
