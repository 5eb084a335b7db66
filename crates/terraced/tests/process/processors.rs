//! Tests that a worker has its processor alone: the service runs on the others.

use crate::carried::{Other, message_value};
use crate::daemon::{Daemon, config_in};
use crate::signals::manager;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the processors on which a thread may run: `0,2-3` in the system's notation.
fn allowed(status: &str) -> BTreeSet<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("the system lists them");
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().expect("a number")..=last.parse().expect("a number")
    });
    ranges.flatten().collect()
}

/// Returns all threads of a process by name, with their processors.
fn threads(process: &str) -> Vec<(String, BTreeSet<usize>)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten();
    let one = |task: std::fs::DirEntry| {
        // Threads may end meanwhile.
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        Some((status.lines().next()?.strip_prefix("Name:")?.trim().to_owned(), allowed(&status)))
    };
    tasks.filter_map(one).collect()
}

/// Checks that only the worker may run on its processor. Except the log's thread, which starts
/// before that processor is known. Waits, because a started thread sets its own name and affinity,
/// on a busy machine some time after the service is ready.
fn check(process: &str, own: usize) {
    let is_worker = |(name, _): &&(String, BTreeSet<usize>)| name.starts_with("worker-");
    let begun = Instant::now();
    let threads = loop {
        let threads = threads(process);
        let workers: Vec<_> = threads.iter().filter(is_worker).collect();
        if matches!(&workers[..], [(_, on)] if on.iter().eq([&own])) {
            break threads;
        }
        assert!(begun.elapsed() < PATIENCE, "{threads:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    let others: Vec<_> = threads.iter().filter(|(name, _)| !name.starts_with("worker-") && name != "log").collect();
    assert!(others.len() > 3 && others.iter().all(|(_, on)| !on.is_empty() && !on.contains(&own)), "{threads:?}");
}

#[test]
fn the_service_stays_off_the_workers_processors_and_a_successor_finds_them() {
    let here = allowed(&std::fs::read_to_string("/proc/self/status").expect("the system tells"));
    let (Some(own), true) = (here.first().copied(), here.len() > 1) else {
        return println!("there is one processor here; nothing can be kept apart");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (manager, socket) = manager(folder.path());
    let takeover = folder.path().join("takeover");
    let control = folder.path().join("control");
    let text = format!(
        "cores = [{own}]\ntakeover_socket = {takeover:?}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[control]\nsocket = {control:?}\n"
    );
    let mut first = Daemon::with(&config_in(folder.path(), &text), &[("NOTIFY_SOCKET", &socket)]);
    manager.next_message_with("READY=1");
    check(&first.child.id().to_string(), own);
    // The successor does not inherit the affinity: it finds the processor for its own worker.
    first.signal("USR2");
    let next =
        Other(message_value(&manager.next_message_with("READY=1"), "MAINPID").expect("it says which").to_owned());
    assert!(first.child.wait().expect("it is ours").success());
    check(&next.0, own);
}
