//! Tests that nothing remains after Ctrl-C, after a kill, and after a failure.

use crate::place::{TERRACE, Turn, root, terrace, turn_beside_others};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts a demo and waits until it has printed `said`.
fn demo_until(turn: &Turn, said: &str) -> Child {
    let mut command = Command::new(TERRACE);
    command.args(["demo", "--name", &turn.lab]).current_dir(root()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut demo = command.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    if !said.is_empty() {
        assert!(lines.by_ref().any(|line| line.unwrap().contains(said)), "the demo never said `{said}`");
    }
    // Continues to read, so that the demo can continue to write.
    std::thread::spawn(move || lines.count());
    demo
}

fn signal(process: &Child, signal: &str) {
    let id = process.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
}

fn wait(process: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(status) = process.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = process.kill();
    panic!("the demo did not end within 20 seconds");
}

/// Returns the processes on a machine of the lab.
fn processes_on(turn: &Turn, machine: &str) -> Vec<u32> {
    let namespace = format!("{}-{machine}", turn.lab);
    let output = Command::new("ip").args(["netns", "pids", &namespace]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(|id| id.parse().unwrap()).collect()
}

#[test]
fn ctrl_c_while_the_lab_is_built_leaves_nothing() {
    let Some(turn) = turn_beside_others() else { return };
    let mut demo = demo_until(&turn, "");
    while turn.traces().len() < 4 {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&demo, "-INT");
    assert_eq!(wait(&mut demo), Some(4), "stopped is neither success nor `not as expected`");
    turn.assert_nothing_left();
}

#[test]
fn ctrl_c_while_iperf3_runs_leaves_nothing() {
    let Some(turn) = turn_beside_others() else { return };
    let mut demo = demo_until(&turn, "TCP (iperf3)");
    std::thread::sleep(Duration::from_millis(700));
    let senders = processes_on(&turn, "red-a");
    assert!(!senders.is_empty(), "iperf3 runs");
    signal(&demo, "-INT");
    assert_eq!(wait(&mut demo), Some(4));
    turn.assert_nothing_left();
    let alive: Vec<&u32> = senders.iter().filter(|id| terrace::lab::Process::with_id(**id).is_some()).collect();
    assert_eq!(alive, [&0; 0], "processes outlive the namespace that they were in");
}

#[test]
fn what_a_killed_demo_leaves_is_removed_by_lab_down() {
    let Some(turn) = turn_beside_others() else { return };
    let mut demo = demo_until(&turn, "Who reaches whom");
    signal(&demo, "-KILL");
    assert_eq!(wait(&mut demo), None);
    assert!(
        turn.traces().iter().any(|trace| trace.contains("gateway")),
        "the gateway outlives it: {:?}",
        turn.traces()
    );
    assert!(terrace(&["lab", "down", "--name", &turn.lab]).status.success());
    let left = turn.traces();
    assert!(left.iter().all(|trace| trace == &format!("terrace-{}", turn.lab)), "only its files: {left:?}");
    let _ = std::fs::remove_dir_all(std::env::temp_dir().join(format!("terrace-{}", turn.lab)));
}

#[test]
fn sigterm_to_the_gateway_of_a_lab_ends_it_and_down_removes_the_rest() {
    let Some(turn) = turn_beside_others() else { return };
    let region = root().join("examples/lab.yaml");
    let up = terrace(&["lab", "up", "--region", &region.display().to_string(), "--name", &turn.lab]);
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let state = terrace::lab::LabState::load(&turn.lab).unwrap();
    let gateway = state.gateway.unwrap();
    assert!(Command::new("kill").args(["-TERM", &gateway.id.to_string()]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(5);
    while gateway.alive() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!gateway.alive(), "SIGTERM ends a gateway");
    let status = terrace(&["lab", "status", "--name", &turn.lab]);
    assert_eq!(status.status.code(), Some(1), "a lab without its gateway is not whole");
    assert!(terrace(&["lab", "down", "--name", &turn.lab]).status.success());
    turn.assert_nothing_left();
}
