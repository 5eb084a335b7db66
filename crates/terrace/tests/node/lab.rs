//! Node of this process that runs the gateway with the lab's region. Packets flow over wired ports,
//! and `terrace` queries it.

use cache_engines::CachePlan;
use io::memory::{self, MemoryPort};
use io::{AttachedPort, IdlePolicy};
use node::admin::ControlSocket;
use node::admin::responder::NodeResponder;
use node::engine::{EngineFactory, SharedEngineFactory, native};
use node::{Node, NodeParts, WorkerSpec};
use offload::partition::TableMode;
use p4runtime::{Device, PipelineConfig, ReconcileMode};
use packet::PortId;
use region::{GatewayEntries, IdAssignments};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use switch_engines::tiers::TiersPlan;
use terrace::program::{DEFAULT_PROGRAM, Sources, compile};

pub use crate::command::{root, run as terrace};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Node with the lab's region, and the wires of uplinks 1 to 5.
pub struct Lab {
    pub node: Arc<Node>,
    pub wires: Vec<MemoryPort>,
    pub socket: String,
    _control: ControlSocket,
    pub folder: tempfile::TempDir,
}

impl Lab {
    pub fn start() -> Lab {
        Lab::with(native(), Vec::new(), "examples/lab.yaml")
    }

    /// Starts a switch without the table `acl_in.v4`, and the tiers below it in their own node. Their region has no
    /// services and no Internet: a switch sends packets that may need a session to the CPU.
    pub fn apart() -> [Lab; 2] {
        let (above, below) = memory::pair("to-below", "to-switch", 1 << 12).unwrap();
        let held = [("acl_in.v4".to_owned(), TableMode::Absent)].into();
        let plan = TiersPlan::in_one_process(native(), CachePlan::default().shared(), held);
        let plan = TiersPlan { link_timeout: Duration::from_secs(3600), ..plan };
        let switch = TiersPlan { below: None, down: vec![301], ..plan.clone() };
        let lower = TiersPlan { above: None, up: vec![401], ..plan };
        let port = |number, port: MemoryPort| vec![AttachedPort { id: PortId(number), port: Box::new(port) }];
        [(switch, port(301, above)), (lower, port(401, below))]
            .map(|(plan, link)| Lab::with(plan.shared(), link, "tests/regions/plain.yaml"))
    }

    fn with(engine: SharedEngineFactory, links: Vec<AttachedPort>, file: &str) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let (mut wires, mut ports) = (Vec::new(), links);
        for number in 1..=5 {
            let (inner, outer) = memory::pair(&format!("uplink{number}"), "wire", 1 << 12).unwrap();
            ports.push(AttachedPort { id: PortId(number), port: Box::new(inner) });
            wires.push(outer);
        }
        let settings = interp::Config { cpu_port: Some(510), ..interp::Config::default() };
        let seats = vec![WorkerSpec { core: None, ports }];
        let parts = NodeParts {
            device_id: 1,
            seats,
            idle: IdlePolicy::default(),
            settings,
            engine,
            store: None,
            translations: Default::default(),
            wings: terraced::wings(),
        };
        let node = Arc::new(Node::start(parts).unwrap());
        let compiled = compile(Path::new(DEFAULT_PROGRAM), &Sources::default()).pipeline.unwrap();
        let device_config = ir::text::print(&compiled);
        let pipeline = node.verify(device_config.as_bytes()).expect("a good config");
        let region = region::load(&root().join(file)).unwrap();
        let entries = region::entries(&region, file, &pipeline, &mut IdAssignments::default()).unwrap();
        let config =
            PipelineConfig { pipeline, p4info: bytes::Bytes::new(), device_config: device_config.into(), cookie: None };
        node.commit(&config, ReconcileMode::Nothing).expect("a good config");
        let written = node.write(&[region::diff(GatewayEntries::default(), entries)]).expect("a program runs");
        written.into_iter().for_each(|outcome| outcome.expect("a good batch"));
        let socket = folder.path().join("control.sock");
        let control = ControlSocket::open(&socket, Arc::new(NodeResponder(Arc::downgrade(&node))), false).unwrap();
        Lab { node, wires, socket: socket.display().to_string(), _control: control, folder }
    }

    /// Waits until all packets are counted.
    pub fn settle(&self) {
        let received = || self.node.observe().sum().received.packets;
        let mut before = received();
        loop {
            // Port counters are updated at a tick, every 10 ms.
            std::thread::sleep(Duration::from_millis(50));
            let now = received();
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// Runs `ask` under continuous traffic.
    pub fn under_traffic<T>(&mut self, packets: &[(u32, Vec<u8>)], ask: impl FnOnce(&str) -> T) -> T {
        let stop = AtomicBool::new(false);
        let (wires, socket) = (&mut self.wires, &self.socket);
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for (port, bytes) in packets {
                        wires[*port as usize - 1].send_bytes(bytes).expect("short");
                    }
                    std::thread::sleep(Duration::from_millis(5));
                    wires.iter_mut().for_each(|wire| while wire.take().is_some() {});
                }
            });
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ask(socket)));
            stop.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

pub fn bytes_of(hex: &str) -> Vec<u8> {
    packet::unhex(hex).expect("hex digits")
}

/// Returns a TCP packet of red-a to an address, on port 1.
pub fn from_red_a(to: &str, port: &str) -> Vec<u8> {
    let args = ["trace", "--json", "--region", "examples/lab.yaml", "--vni", "100", "--inner-src", "10.0.0.11"];
    let (code, out, err) = terrace(&[&args[..], &["--inner-dst", to, "--dport", port]].concat());
    assert_eq!(code, 0, "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    bytes_of(document["packet"]["hex"].as_str().unwrap())
}

/// Returns packets to red-b, to a port that an ACL denies, and one without VXLAN.
pub fn traffic() -> Vec<(u32, Vec<u8>)> {
    let lone = from_red_a("10.0.0.12", "80")[..36].to_vec();
    vec![(1, from_red_a("10.0.0.12", "80")), (1, from_red_a("10.0.0.12", "2323")), (2, lone)]
}
