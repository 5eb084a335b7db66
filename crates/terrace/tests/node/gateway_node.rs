//! A gateway of packets in memory: a node that serves a region file, with its control socket.

use super::command::run as terrace;
use super::gateway_packets::{Side, from_server, ip_packet, read_sent};
use io::memory::{self, MemoryPort};
use io::{AttachedPort, IdlePolicy};
use node::admin::ControlSocket;
use node::admin::responder::NodeResponder;
use node::engine::SharedEngineFactory;
use node::{Node, NodeParts, WorkerSpec};
use packet::PortId;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The uplink to the Internet.
pub const ISP: u8 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that serves a region file, and the wires of uplinks 1 to 6.
pub struct Gateway {
    pub node: Arc<Node>,
    pub wires: Vec<MemoryPort>,
    pub socket: String,
    file: PathBuf,
    region: String,
    _control: ControlSocket,
    _folder: tempfile::TempDir,
}

impl Gateway {
    pub fn start(engine: SharedEngineFactory, region: String) -> Gateway {
        let folder = tempfile::tempdir().unwrap();
        let (mut wires, mut ports) = (Vec::new(), Vec::new());
        for number in 1..=6 {
            let (inner, outer) = memory::pair(&format!("uplink{number}"), "wire", 1 << 12).unwrap();
            ports.push(AttachedPort { id: PortId(number), port: Box::new(inner) });
            wires.push(outer);
        }
        let parts = NodeParts {
            device_id: 1,
            seats: vec![WorkerSpec { core: None, ports }],
            idle: IdlePolicy::default(),
            settings: interp::Config { cpu_port: Some(510), ..interp::Config::default() },
            engine,
            store: None,
            translations: Default::default(),
            wings: terraced::wings(),
        };
        let node = Arc::new(Node::start(parts).unwrap());
        let file = folder.path().join("region.yaml");
        std::fs::write(&file, &region).unwrap();
        node.serve_region(&file, None).unwrap();
        let socket = folder.path().join("control.sock");
        let control = ControlSocket::open(&socket, Arc::new(NodeResponder(Arc::downgrade(&node))), false).unwrap();
        Gateway { node, wires, socket: socket.display().to_string(), file, region, _control: control, _folder: folder }
    }

    /// Sends packets of machines of a VPC, and returns what left to the Internet: protocol and both sides.
    pub fn send(&mut self, vni: u32, packets: &[(u8, Side, Side)], passing: usize) -> Vec<(u8, Side, Side)> {
        let server = Ipv4Addr::new(192, 0, 2, 11);
        for (protocol, from, to) in packets {
            let frame = from_server(1, server, vni, &ip_packet(*protocol, *from, *to));
            assert!(self.wires[0].send_bytes(&frame).unwrap());
        }
        let mut left = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while left.len() < passing {
            assert!(Instant::now() < deadline, "{} of {passing} packets left: {:?}", left.len(), self.node.drops());
            match self.wires[usize::from(ISP) - 1].take() {
                Some(packet) => left.push(read_sent(packet.bytes())),
                None => std::thread::yield_now(),
            }
        }
        left
    }

    pub fn run(&self, words: &[&str]) -> String {
        let (code, out, err) = terrace(&[words, &["--node", &self.socket]].concat());
        assert_eq!(code, 0, "{words:?}: {err}");
        out
    }

    pub fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[&["--json"], words].concat())).expect("JSON")
    }

    /// Returns the path of the region file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns `FILE:LINE` of the line of the region file that contains a text.
    pub fn line(&self, text: &str) -> String {
        let at = self.region.lines().position(|line| line.contains(text)).expect("a line with the text");
        format!("{}:{}", self.file.display(), at + 1)
    }

    /// Explains a packet that arrives on a port.
    pub fn trace(&self, port: u8, frame: &[u8]) -> String {
        self.run(&["trace", "--port", &port.to_string(), "--hex", &packet::hex(frame)])
    }
}
