//! `terrace doctor` on real interfaces: it finds what is wrong, and its commands mend it.

#[allow(dead_code)]
mod command;

use command::{root, run};
use serde_json::Value;
use std::process::Command;

/// A namespace with the interface `port1`, removed at the end of the test.
struct Namespace(String);

impl Namespace {
    fn new() -> Namespace {
        let namespace = Namespace(format!("doctor-{}", std::process::id()));
        namespace.shell("ip netns add NETNS");
        namespace.shell("ip -n NETNS link add port1 type veth peer name far1");
        namespace.shell("ip -n NETNS link set far1 up");
        namespace
    }

    /// Runs a command line, in which NETNS stands for the namespace.
    fn shell(&self, line: &str) {
        let line = line.replace("NETNS", &self.0);
        let status = Command::new("sh").args(["-c", &line]).status().unwrap();
        assert!(status.success(), "{line}: {status}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

/// Returns the exit code and the findings about `port1` that ask for a change, by check.
fn examine(config: &str) -> (i32, Vec<(String, String)>) {
    let (code, out, err) = run(&["--json", "doctor", "--config", config]);
    assert_eq!(err, "");
    let result: Value = serde_json::from_str(&out).unwrap();
    let findings = result["findings"].as_array().unwrap().iter();
    let of_port = findings.filter(|it| it["subject"] == "port1" && it["severity"] != "ok");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (code, of_port.map(|it| (text(&it["check"]), text(&it["fix"]))).collect())
}

/// A port with an address, too small an MTU and a harmful offload, whose link is down. Each command
/// that `doctor` prints is executed, and afterwards nothing is left to change.
#[test]
fn the_commands_of_findings_mend_a_port() {
    let namespace = Namespace::new();
    namespace.shell("ip -n NETNS address add 192.0.2.1/24 dev port1");
    namespace.shell("ip netns exec NETNS ethtool -K port1 rx-udp-gro-forwarding on");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("node.toml");
    let region = root().join("examples/lab.yaml");
    let lines = format!(
        "region = {:?}\n[[port]]\nnumber = 1\ndevice = \"port1\"\nnetns = {:?}\n",
        region.display().to_string(),
        namespace.0
    );
    std::fs::write(&config, lines).unwrap();
    let config = config.display().to_string();

    let (code, found) = examine(&config);
    let checks: Vec<&str> = found.iter().map(|(check, _)| &**check).collect();
    assert_eq!((code, &*checks), (1, ["link", "mtu", "host-address", "offloads"].as_slice()));
    for (check, fix) in found.iter().filter(|(check, _)| check != "host-address") {
        let command = fix.split(", or").next().unwrap();
        assert!(command.starts_with("ip "), "{check}: {fix}");
        namespace.shell(command);
    }
    let (code, found) = examine(&config);
    let checks: Vec<&str> = found.iter().map(|(check, _)| &**check).collect();
    assert_eq!((code, &*checks), (0, ["host-address"].as_slice()));

    let (code, out, _) = run(&["doctor", "--verbose", "--netns", &namespace.0, "port1", "far1", "eth77"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("ok: far1: up (veth) [link]"), "{out}");
    assert!(out.contains("error: eth77: no such interface; there are far1, "), "{out}");
}
