//! Network namespaces for tests, the commands that fill them, and an engine that forwards.

use io::Namespace;
use packet::{Batch, Engine, Output, PortId, ReasonTable};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a command; whether it succeeded.
pub fn sh(command: &str) -> bool {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    if !output.status.success() {
        eprintln!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Namespaces that are removed when the test ends, in whatever way.
pub struct Namespaces {
    names: Vec<String>,
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            sh(&format!("ip netns del {name}"));
        }
    }
}

impl Namespaces {
    /// `None`, and a message, where namespaces cannot be made.
    pub fn new(count: usize) -> Option<Namespaces> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut all = Namespaces { names: Vec::new() };
        for index in 0..count {
            let name = format!("io-test-{}-{number}-{index}", std::process::id());
            if !sh(&format!("ip netns add {name}")) {
                println!("SKIPPED: network namespaces cannot be made here; run as root");
                return None;
            }
            // No neighbour discovery on its own account: tests count packets.
            let off = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            let set = format!("ip netns exec {name} sh -c '{off}'");
            all.names.push(name);
            assert!(sh(&set));
        }
        Some(all)
    }

    /// The name of one.
    pub fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// Runs `ip` in one.
    pub fn ip(&self, index: usize, arguments: &str) {
        assert!(sh(&format!("ip -n {} {arguments}", self.names[index])), "ip {arguments}");
    }

    /// Does something within one.
    pub fn inside<T: Send>(&self, index: usize, work: impl FnOnce() -> T + Send) -> T {
        Namespace::open(&self.names[index]).unwrap().run(work).unwrap()
    }
}

/// Forwards between ports 1 and 2.
pub struct Wire;

impl Engine for Wire {
    fn name(&self) -> &str {
        "wire"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        for (reference, packet) in batch.indexed() {
            out.forward(reference, PortId(3 - packet.ingress_port.0));
        }
    }
}
