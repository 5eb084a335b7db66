//! Network namespaces for tests, commands to configure them, and a forwarding engine.

use io::Namespace;
use packet::{Batch, BatchOutput, Engine, PortId, ReasonTable};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a command. Returns whether it succeeded.
pub fn sh(command: &str) -> bool {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    if !output.status.success() {
        eprintln!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Namespaces that are removed when the test ends, also by a panic.
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
    /// Creates namespaces. Prints a message and returns `None` where that is not possible.
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
            // No spontaneous neighbour discovery, because tests count packets.
            let off = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            let set = format!("ip netns exec {name} sh -c '{off}'");
            all.names.push(name);
            assert!(sh(&set));
        }
        Some(all)
    }

    /// Returns the name of a namespace.
    pub fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// Runs `ip` in a namespace.
    pub fn ip(&self, index: usize, arguments: &str) {
        assert!(sh(&format!("ip -n {} {arguments}", self.names[index])), "ip {arguments}");
    }

    /// Runs a closure within a namespace.
    pub fn inside<T: Send>(&self, index: usize, work: impl FnOnce() -> T + Send) -> T {
        Namespace::open(&self.names[index]).unwrap().run(work).unwrap()
    }
}

/// Engine that forwards between ports 1 and 2.
pub struct Wire;

impl Engine for Wire {
    fn name(&self) -> &str {
        "wire"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed() {
            out.forward(reference, PortId(3 - packet.ingress_port.0));
        }
    }
}
