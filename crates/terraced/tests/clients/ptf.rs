//! Tests packets through a node over veth pairs while a controller writes its tables, judged by the
//! Packet Test Framework: tests/ptf.

use crate::python::{Compiled, Terraced, interpreter, judge, root, with_modules};
use std::path::Path;
use std::process::Command;

/// Number of tests. Fewer mean that some were not found.
const TESTS: usize = 23;

/// Number of ports; they are numbered from 1.
const PORTS: usize = 4;

fn sh(command: &str) -> bool {
    let output = Command::new("sh").args(["-c", command]).output().expect("a shell");
    if !output.status.success() {
        eprintln!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Two network namespaces with wires between them, removed when the test ends, also by a panic.
struct Lab {
    /// Namespace of the node's ends, `node1` and so on.
    inner: String,
    /// Namespace of the tester's ends, `wire1` and so on.
    outer: String,
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in [&self.inner, &self.outer] {
            sh(&format!("ip netns del {name}"));
        }
    }
}

impl Lab {
    /// Creates the namespaces. Prints a message and returns `None` where that is not possible.
    fn new(what: &str) -> Option<Lab> {
        let name = |end: &str| format!("ptf-{}-{what}-{end}", std::process::id());
        let lab = Lab { inner: name("node"), outer: name("wire") };
        for name in [&lab.inner, &lab.outer] {
            if !sh(&format!("ip netns add {name}")) {
                println!("SKIPPED: network namespaces cannot be made here; run as root");
                return None;
            }
            // No spontaneous neighbour discovery, because tests count packets.
            let off = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            assert!(sh(&format!("ip netns exec {name} sh -c '{off}' && ip -n {name} link set lo up")));
        }
        for port in 1..=PORTS {
            let (inner, outer) = (&lab.inner, &lab.outer);
            let add = format!("ip -n {inner} link add node{port} type veth peer name wire{port} netns {outer}");
            let up = format!("ip -n {inner} link set node{port} up && ip -n {outer} link set wire{port} up");
            assert!(sh(&format!("{add} && {up}")));
        }
        Some(lab)
    }

    /// Returns the configuration of a node with the ports.
    fn config(&self, top: &str, by: &str) -> String {
        let port =
            |port| format!("[[port]]\nnumber = {port}\ndevice = \"node{port}\"\nnetns = \"{}\"\n{by}\n", self.inner);
        format!("{top}\n{}", (1..=PORTS).map(port).collect::<String>())
    }
}

fn run(what: &str, top: &str, by: &str) {
    let Some(lab) = Lab::new(what) else { return };
    let programs = Compiled::new(&["everything"]);
    // In the tester's namespace, so that both use its loopback interface.
    let node = Terraced::start(&["ip", "netns", "exec", &lab.outer], &lab.config(top, by));
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ptf");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.outer]).arg(interpreter()).arg("-B").arg(root().join(".venv/bin/ptf"));
    command.arg("--test-dir").arg(suite).arg("--log-file").arg(programs.path().join("ptf.log"));
    // Namespace of the node's ends, which a test sets down.
    command.env("NODE_NETNS", &lab.inner);
    for port in 1..=PORTS {
        command.args(["-i", &format!("{port}@wire{port}")]);
    }
    judge(&with_modules(command, &node, &programs).output().expect("ip starts"), &node, TESTS);
}

#[test]
fn packets_go_as_the_tables_say_by_raw_sockets() {
    run("raw", "", "driver = \"raw\"");
}

#[test]
fn packets_go_as_the_tables_say_by_the_default_means() {
    run("auto", "", "");
}

#[test]
fn packets_go_as_the_tables_say_on_the_emulated_switch() {
    run("asic", "engine = \"asic\"", "driver = \"raw\"");
}

#[test]
fn packets_go_as_the_tables_say_behind_a_flow_cache() {
    // Its slow path is the reference engine.
    run("cache", "engine = \"interp\"\n[cache]\nkind = \"adaptive\"", "driver = \"raw\"");
}
