//! Namespace with veth pairs, the kernel's flow cache at one end of each, and flows written by
//! hand.

use crate::support::Namespaces;
use io::xdp::maps::{WINDOW, XdpKey, XdpKeyMask};
use io::xdp::{BUILT_IN, XdpMode, XdpPort, XdpProgram};
use io::{Namespace, RawPort};
use packet::Packet;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Namespace with pairs `a0`-`b0`, `a1`-`b1`: the `a` ends are ports, the `b` ends the outside
/// world.
pub struct Lab {
    // Dropped before the namespace.
    passes: Vec<Box<dyn Send>>,
    pub kernel: XdpProgram,
    pub namespaces: Namespaces,
}

impl Lab {
    pub fn new(pairs: usize, room: u32) -> Option<Lab> {
        if !BUILT_IN {
            println!("SKIPPED: built without clang, there is no XDP program");
            return None;
        }
        let namespaces = Namespaces::new(1)?;
        for pair in 0..pairs {
            namespaces.ip(0, &format!("link add a{pair} type veth peer name b{pair}"));
            namespaces.ip(0, &format!("link set a{pair} up"));
            namespaces.ip(0, &format!("link set b{pair} up"));
        }
        let kernel = XdpProgram::load(room).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(kernel.uncounted_reason(), None, "what the kernel loses is counted");
        let mut lab = Lab { passes: Vec::new(), kernel, namespaces };
        lab.let_pass(pairs);
        Some(lab)
    }

    /// Lets the outside ends accept packets from programs.
    pub fn let_pass(&mut self, pairs: usize) {
        let kernel = &self.kernel;
        let pass = |pair| Box::new(kernel.let_pass(&format!("b{pair}")).unwrap()) as Box<dyn Send>;
        let all = move || (0..pairs).map(pass).collect();
        self.passes = Namespace::open(self.namespaces.name(0)).unwrap().run(all).unwrap();
    }

    /// Lets only the first `kept` outside ends accept packets from programs.
    ///
    /// The kernel detaches a program when the last descriptor of its link is closed. Another test
    /// that starts a process holds a copy of the descriptor until that process runs, so this waits.
    pub fn stop_passing(&mut self, kept: usize) {
        let stopped = kept..self.passes.len();
        self.passes.truncate(kept);
        let began = Instant::now();
        for pair in stopped {
            while self.has_program(pair) {
                assert!(began.elapsed() < Duration::from_secs(10), "`b{pair}` keeps its program");
                sleep(Duration::from_millis(2));
            }
        }
    }

    /// Returns whether the outside end has an XDP program.
    fn has_program(&self, pair: usize) -> bool {
        let name = self.namespaces.name(0);
        let output = Command::new("ip").args(["-n", name, "link", "show", &format!("b{pair}")]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).contains("prog/xdp")
    }

    pub fn port(&self, pair: usize) -> XdpPort {
        self.port_as(pair, XdpMode::Native)
    }

    pub fn port_as(&self, pair: usize, mode: XdpMode) -> XdpPort {
        let kernel = &self.kernel;
        let open = || XdpPort::open_as(kernel, &format!("a{pair}"), pair as u32, mode);
        self.namespaces.inside(0, open).unwrap()
    }

    /// Opens the outside end. Must be called after the port is opened, which sends a frame to test
    /// whether the other end accepts it.
    pub fn world(&self, pair: usize) -> RawPort {
        self.namespaces.inside(0, || RawPort::open(&format!("b{pair}"))).unwrap()
    }
}

pub fn frame(len: usize, ethertype: u16, seed: u8) -> Packet {
    let mut bytes: Vec<u8> = (0..len).map(|index| (index as u8).wrapping_mul(7).wrapping_add(seed)).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
    Packet::from_bytes(&bytes).unwrap()
}

pub fn bytes(packets: &[Packet]) -> Vec<&[u8]> {
    packets.iter().map(Packet::bytes).collect()
}

/// Returns a key mask that matches on the Ethernet type.
pub fn by_type() -> XdpKeyMask {
    let mut shape =
        XdpKeyMask { mask: [0; WINDOW], gate_mask: [0; 16], gate_value: [0; 16], near: [0; 6], nears: 0, length: 0 };
    shape.mask[12..14].fill(0xff);
    shape
}

pub fn key(port: u32, ethertype: u16) -> XdpKey {
    let mut key = XdpKey { shape: 0, port: port as u16, length: 0, bytes: [0; WINDOW] };
    key.bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
    key
}
