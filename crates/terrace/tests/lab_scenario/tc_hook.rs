//! TCP between VMs whose servers leave checksums and segmentation to the hardware, through the flow
//! cache at the tc hook.

use crate::changes::lab_with;
use crate::place::{Turn, json, turn};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// iperf3's server; it ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn inside(namespace: &str, command: &[&str]) -> Command {
    let mut all = Command::new("ip");
    all.args(["netns", "exec", namespace]).args(command);
    all
}

/// Returns a counter of a namespace's kernel.
fn counter(namespace: &str, name: &str) -> u64 {
    let output = inside(namespace, &["nstat", "-asz", name]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// Returns the bytes that one TCP connection of iperf3 carried.
fn carried(client: &str, address: &str) -> Option<f64> {
    let output = inside(client, &["iperf3", "-J", "-n", "20M", "-c", address]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).ok()?;
    report["end"]["sum_received"]["bytes"].as_f64()
}

fn note<'n>(stats: &'n Value, words: &str) -> &'n str {
    let mut notes = stats["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    notes.find(|note| note.contains(words)).unwrap_or_else(|| panic!("no note with {words:?}: {stats}"))
}

fn leading_number(note: &str) -> u64 {
    let words = note.split(|c: char| !c.is_ascii_digit());
    words.filter(|word| !word.is_empty()).find_map(|word| word.parse().ok()).unwrap_or_else(|| panic!("{note}"))
}

#[test]
fn tcp_with_offloads_passes_the_tc_hook_in_super_frames() {
    let Some(turn) = turn() else { return };
    if Command::new("iperf3").arg("--version").output().is_err() {
        println!("SKIPPED: needs iperf3");
        return;
    }
    let (_folder, _file) = lab_with(&turn, &["--cache", "xdp", "--hook", "tc"]);
    let stats = turn.stats();
    if !stats["notes"].to_string().contains("hook tc") {
        assert!(stats["notes"].to_string().contains("needs Linux 6.6"), "{stats}");
        println!("SKIPPED: this kernel has no tcx");
        return;
    }
    let (code, ports) = json(&["show", "ports", "--lab", &turn.lab]);
    assert_eq!((code, &ports["ports"][0]["path"]), (Some(0), &Value::from("tc")), "{ports}");
    let state = terrace::lab::LabState::load(&turn.lab).unwrap().topology;
    // The lab turns these off; real servers have them on.
    for server in ["s1", "s2", "s3"] {
        let namespace = state.namespace_of(server);
        let links = inside(&namespace, &["ls", "/sys/class/net"]).output().unwrap();
        for link in String::from_utf8_lossy(&links.stdout).split_whitespace().filter(|name| *name != "lo") {
            let _ = inside(&namespace, &["ethtool", "-K", link, "tx", "on", "tso", "on", "gso", "on"]).output();
        }
    }
    let [a, b, c] = ["red-a", "red-b", "red-c"].map(|name| state.endpoint(name).unwrap().namespace);
    for namespace in [&a, &b, &c] {
        assert!(
            inside(namespace, &["ethtool", "-K", "eth0", "tx", "on", "tso", "on"]).output().unwrap().status.success()
        );
    }
    transfer(&a, (&b, "10.0.0.12"), &turn);
    let stats = turn.stats();
    let tc = note(&stats, "super-frames of");
    // 20 MiB are some 15,000 segments, in at least 330 super-frames of 64 KiB.
    assert!(leading_number(tc) > 100, "{tc}");
    assert!(tc.contains(" 0 packets exceeded the MTU"), "{tc}");

    // The third server is over IPv6, so each header becomes longer: the kernel cuts super-frames
    // before the process, and the flow in the kernel has the other packets.
    transfer(&a, (&c, "10.0.1.13"), &turn);
    let stats = turn.stats();
    let tc = note(&stats, "super-frames of");
    let cut = tc.split(" unknown, ").nth(1).map_or(0, leading_number);
    assert!(cut > 0, "{tc}");
}

/// Sends data from a VM to another one of this address. It arrives, without a wrong checksum.
fn transfer(from: &str, (to, address): (&str, &str), turn: &Turn) {
    let server = inside(to, &["iperf3", "-s"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _server = Server(server);
    let wrong = counter(to, "TcpInCsumErrors");
    let began = Instant::now();
    let bytes = loop {
        // The server may not listen yet.
        match carried(from, address) {
            Some(bytes) => break bytes,
            None => assert!(began.elapsed() < PATIENCE, "TCP does not connect: {}", turn.stats()),
        }
    };
    // iperf3 stops counting when the sender's kernel has the last byte, not the receiver.
    assert!(bytes >= f64::from(4 << 20), "{bytes}");
    assert_eq!(counter(to, "TcpInCsumErrors"), wrong);
}
