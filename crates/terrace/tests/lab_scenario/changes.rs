//! Tests region files that are applied under traffic.

use crate::place::{TERRACE, Turn, json, lab_up, region_text, terrace, turn, turn_beside_others};
use crate::text_edits::edited;
use serde_json::json as value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// Sends numbered datagrams from `red-a` to `red-b`, one a millisecond, until stopped. Returns
/// their number.
fn send_numbers(turn: &Turn, stop: &Arc<AtomicBool>) -> JoinHandle<u32> {
    let socket = turn.namespace("red-a").run(|| UdpSocket::bind("10.0.0.11:0").unwrap()).unwrap();
    let stop = Arc::clone(stop);
    spawn(move || {
        let mut number = 0u32;
        while !stop.load(Ordering::Relaxed) {
            socket.send_to(&number.to_be_bytes(), "10.0.0.12:9000").unwrap();
            number += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        number
    })
}

/// Receives the datagrams until none has arrived for a second.
fn receive_numbers(turn: &Turn) -> JoinHandle<Vec<u32>> {
    let socket = turn.namespace("red-b").run(|| UdpSocket::bind("10.0.0.12:9000").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    // The kernel's default buffer holds only about 220 datagrams, and on a busy machine this thread
    // may start a quarter of a second after the first was sent.
    socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).unwrap();
    spawn(move || {
        let (mut numbers, mut bytes) = (Vec::new(), [0; 4]);
        while socket.recv(&mut bytes).is_ok() {
            numbers.push(u32::from_be_bytes(bytes));
        }
        numbers
    })
}

/// Sends a megabyte in each direction between `blue-b` and `blue-a` repeatedly until stopped, and
/// checks the content. Returns the number of repetitions.
fn talk_tcp(turn: &Turn, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let content: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    let listener = turn.namespace("blue-a").run(|| TcpListener::bind("[fd00:100::11]:9001").unwrap()).unwrap();
    let mut client = turn.namespace("blue-b").run(|| TcpStream::connect("[fd00:100::11]:9001").unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    spawn(move || {
        let mut bytes = vec![0; 4096];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            server.write_all(&bytes[..count]).unwrap();
        }
    });
    let stop = Arc::clone(stop);
    spawn(move || {
        let mut rounds = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut writer = client.try_clone().unwrap();
            let sent = content.clone();
            let sender = spawn(move || writer.write_all(&sent).unwrap());
            let mut back = vec![0; content.len()];
            client.read_exact(&mut back).unwrap();
            sender.join().unwrap();
            assert!(back == content, "round {rounds}");
            rounds += 1;
        }
        rounds
    })
}

/// Starts a lab; the region file in its directory is the active one.
fn lab(turn: &Turn) -> (tempfile::TempDir, String) {
    lab_with(turn, &[])
}

/// Starts a lab with additional arguments.
pub fn lab_with(turn: &Turn, more: &[&str]) -> (tempfile::TempDir, String) {
    lab_up(turn, &region_text(), more)
}

fn edit(file: &str, from: &str, to: &str) {
    std::fs::write(file, edited(&region_text(), &[(from, to)])).unwrap();
}

fn apply(turn: &Turn) -> serde_json::Value {
    let (code, applied) = json(&["region", "apply", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{applied}");
    applied
}

fn reached(turn: &Turn, from: &str, to: &str) -> bool {
    let (code, _) = json(&["lab", "ping", from, to, "--count", "2", "--name", &turn.lab]);
    code == Some(0)
}

#[test]
fn changes_under_load_lose_nothing_for_flows_that_they_do_not_touch() {
    let Some(turn) = turn() else { return };
    let (_folder, file) = lab(&turn);
    let stop = Arc::new(AtomicBool::new(false));
    let receiver = receive_numbers(&turn);
    let sender = send_numbers(&turn, &stop);
    let talk = talk_tcp(&turn, &stop);

    assert!(reached(&turn, "green-b", "fd00:100::12"));
    for round in 0..8 {
        // The peering is removed, restored, and so on; and every line of the file moves.
        let (from, to) = if round % 2 == 0 {
            ("  - between: [red, green]", "  []  # no peerings, and one more line\n\n")
        } else {
            ("region: lab", "region: lab")
        };
        edit(&file, from, to);
        let applied = apply(&turn);
        let [inserted, deleted] = ["inserted", "deleted"].map(|what| applied[what].as_u64().unwrap());
        match round % 2 {
            0 => assert_eq!((inserted, deleted), (0, 7), "{applied}"),
            _ => assert_eq!((inserted, deleted), (7, 0), "{applied}"),
        }
    }
    // The last file has the peering. Without it:
    edit(&file, "  - between: [red, green]", "  []");
    apply(&turn);
    assert_eq!(turn.drops(), [], "nothing was dropped, of any flow");
    assert!(!reached(&turn, "green-b", "fd00:100::12"), "the flow that the change is about");
    assert_eq!(turn.drops(), [("no_route".to_owned(), 2)]);

    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().unwrap();
    let received = receiver.join().unwrap();
    assert!(sent > 500, "{sent} are too few to say anything");
    let missing: Vec<u32> = (0..sent).filter(|number| !received.contains(number)).collect();
    assert_eq!(missing, [0; 0], "lost, of {sent}: {}", turn.stats());
    assert!(received.into_iter().eq(0..sent), "all, once, in order");
    assert!(talk.join().unwrap() >= 2, "TCP went on");
    assert_eq!(turn.drops(), [("no_route".to_owned(), 2)]);
    assert!(terrace(&["lab", "down", "--name", &turn.lab]).status.success());
    turn.assert_nothing_left();
}

#[test]
fn a_wrong_region_file_is_refused_and_changes_nothing() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, file) = lab(&turn);
    let before = turn.stats();
    let wrong = [
        ("10.3.0.0/24", "10.3.0.7/24", "write 10.3.0.0/24"),
        ("vpc: blue,  server: s2", "vpc: bleu,  server: s2", "bleu"),
        (
            "10.0.0.12, \"fd00:100::12\"]}\n  - {name: red-c",
            "10.0.0.11, \"fd00:100::12\"]}\n  - {name: red-c",
            "10.0.0.11",
        ),
        ("region: lab", "region: [", "region.yaml:"),
    ];
    for (from, to, names) in wrong {
        edit(&file, from, to);
        let output = terrace(&["region", "apply", "--lab", &turn.lab]);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{to}: {complained}");
        assert!(complained.contains(names) && complained.contains("region.yaml:"), "{complained}");
    }
    let gone = Command::new(TERRACE).args(["region", "apply", "/nowhere.yaml", "--lab", &turn.lab]).output().unwrap();
    assert_eq!(gone.status.code(), Some(3));
    let after = turn.stats();
    assert_eq!(before["version"], after["version"], "the tables were not written");
    assert!(reached(&turn, "blue-b", "blue-a") && reached(&turn, "red-a", "10.3.0.11"));
    // A correct file is still accepted.
    edit(&file, "10.66.0.0/16", "10.67.0.0/16");
    assert_eq!(apply(&turn)["inserted"], value!(1));
    assert!(!reached(&turn, "red-a", "10.67.0.1"));
    assert_eq!(turn.drops(), [("blackhole_route".to_owned(), 2)]);
    assert!(terrace(&["lab", "down", "--name", &turn.lab]).status.success());
    turn.assert_nothing_left();
}
