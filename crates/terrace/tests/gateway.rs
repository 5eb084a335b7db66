//! Tests a node that serves a region file: packets over wired ports, changed files applied through
//! its control socket, restarts.

use io::memory::{self, MemoryPort};
use io::{AttachedPort, Port};
use node::admin::client::RequestError;
use node::admin::responder::NodeResponder;
use node::admin::{ControlRequest, ControlResponse, ControlSocket, ask};
use node::engine::reference;
use node::region::{RegionChanges, RegionError};
use node::{Node, NodeParts, Store, WorkerSpec};
use p4runtime::{Code, Device, PipelineConfig, ReconcileMode};
use packet::{Packet, PortId};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use terrace::program::{DEFAULT_PROGRAM, Sources, compile};

const PATIENCE: Duration = Duration::from_secs(20);

/// Node that serves the lab's region, with a wire at port 1 (server s1) and one at port 2 (server
/// s2).
struct Gateway {
    s1: MemoryPort,
    s2: MemoryPort,
    node: Arc<Node>,
    region: PathBuf,
    socket: PathBuf,
    _control: ControlSocket,
    folder: tempfile::TempDir,
}

fn lab_region() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab.yaml")).unwrap()
}

/// Starts a node without a program.
fn start(store: Option<Store>, ports: Vec<AttachedPort>) -> Arc<Node> {
    let parts = NodeParts {
        device_id: 1,
        seats: vec![WorkerSpec { core: None, ports }],
        idle: io::IdlePolicy::default(),
        settings: interp::Config { cpu_port: Some(510), ..interp::Config::default() },
        engine: reference(),
        store,
        translations: Default::default(),
        wings: terraced::wings(),
    };
    Arc::new(Node::start(parts).unwrap())
}

impl Gateway {
    fn start() -> Gateway {
        Gateway::with_store(|_| None)
    }

    fn with_store(store: impl Fn(&Path) -> Option<Store>) -> Gateway {
        let folder = tempfile::tempdir().unwrap();
        let (socket, region) = (folder.path().join("control.sock"), folder.path().join("region.yaml"));
        fs::write(&region, lab_region()).unwrap();
        let (s1, port1) = memory::pair("s1", "port1", 64).unwrap();
        let (s2, port2) = memory::pair("s2", "port2", 64).unwrap();
        let attached = |number, port: MemoryPort| AttachedPort { id: PortId(number), port: Box::new(port) };
        let node = start(store(folder.path()), vec![attached(1, port1), attached(2, port2)]);
        node.serve_region(&region, None).unwrap();
        let control = ControlSocket::open(&socket, Arc::new(NodeResponder(Arc::downgrade(&node))), false).unwrap();
        Gateway { s1, s2, node, region, socket, _control: control, folder }
    }

    fn apply(&self) -> Result<RegionChanges, String> {
        match ask(&self.socket, &ControlRequest::RegionApply { file: None }) {
            Ok(ControlResponse::RegionApplied(applied)) => Ok(applied),
            Err(RequestError::Refused(message)) => Err(message),
            other => panic!("{other:?}"),
        }
    }

    fn version(&self) -> u64 {
        self.node.version().program.unwrap().tables_version
    }

    fn received(&self) -> u64 {
        self.node.observe().sum().received.packets
    }

    /// Sends a packet on s1's wire. Returns whether it arrived on s2's.
    fn reaches_s2(&mut self, packet: &Packet) -> bool {
        let before = self.received();
        assert_eq!(self.s1.send_all(&mut std::iter::once(packet)), 1);
        let began = Instant::now();
        while self.received() == before {
            assert!(began.elapsed() < PATIENCE, "the gateway received nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.s2.take().is_some()
    }
}

/// Builds a UDP datagram of a VM of s1 in VXLAN with this VNI, from 10.0.0.11.
fn datagram(vni: u32, to: [u8; 4]) -> Packet {
    let inner = {
        let udp = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0x10, 0, 0x0a], [2, 0, 0x5e, 0, 0, 1])
            .ipv4([10, 0, 0, 11], to, 64)
            .udp(1000, 2000);
        let mut bytes = Vec::new();
        udp.write(&mut bytes, b"hello").unwrap();
        bytes
    };
    let mut vxlan = vec![8, 0, 0, 0];
    vxlan.extend((vni << 8).to_be_bytes());
    vxlan.extend(inner);
    let udp = etherparse::PacketBuilder::ethernet2([2, 0, 0, 1, 0, 2], [2, 0, 0, 1, 0, 1])
        .ipv4([192, 0, 2, 11], [192, 0, 2, 1], 64)
        .udp(50000, 4789);
    let mut bytes = Vec::new();
    udp.write(&mut bytes, &vxlan).unwrap();
    Packet::from_bytes(&bytes).unwrap()
}

/// Additional VM, for the last list of the lab's region.
const NEW_VM: &str = "  - {name: red-z, vpc: red, server: s2, mac: 02:00:00:10:00:77, addresses: [10.0.0.77]}\n";

#[test]
fn the_program_that_a_node_brings_along_is_what_the_compiler_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/gateway/gateway.ir");
    let compiled = compile(Path::new(DEFAULT_PROGRAM), &Sources::default()).pipeline.unwrap();
    let made = ir::text::print(&compiled);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(made == kept, "programs/gateway/gateway.ir is not gateway.p4's: run this test with BLESS=1");
}

#[test]
fn packets_flow_and_are_counted_by_reason() {
    let mut gateway = Gateway::start();
    assert!(gateway.reaches_s2(&datagram(100, [10, 0, 0, 12])), "red-a to red-b");
    assert!(!gateway.reaches_s2(&datagram(100, [10, 66, 0, 1])), "a black hole");
    assert!(!gateway.reaches_s2(&datagram(77, [10, 0, 0, 12])), "an unknown VNI");
    let mut drops: Vec<(String, u64)> =
        gateway.node.drops().into_iter().map(|dropped| (dropped.reason, dropped.count.packets)).collect();
    drops.sort();
    assert_eq!(drops, [("blackhole_route".to_owned(), 1), ("unknown_vni".to_owned(), 1)]);
    let counters = gateway.node.counters();
    let received = counters.iter().find(|cell| cell.counter.ends_with("vpc_received")).unwrap();
    assert_eq!((received.label.as_deref(), received.count.packets), (Some("red"), 2), "{counters:?}");
}

#[test]
fn a_changed_region_file_is_applied_and_a_wrong_one_changes_nothing() {
    let mut gateway = Gateway::start();
    let (to_b, to_new) = (datagram(100, [10, 0, 0, 12]), datagram(100, [10, 0, 0, 77]));
    assert!(gateway.reaches_s2(&to_b) && !gateway.reaches_s2(&to_new));
    let version = gateway.version();

    // One line is wrong, so nothing is applied, not even the new VM.
    let wrong = "  - {name: red-y, vpc: rad, server: s2, mac: 02:00:00:10:00:78, addresses: [10.0.0.78]}\n";
    fs::write(&gateway.region, format!("{}{NEW_VM}{wrong}", lab_region())).unwrap();
    let message = gateway.apply().unwrap_err();
    assert!(message.contains("region.yaml:") && message.contains("rad"), "{message}");
    assert!(gateway.reaches_s2(&to_b) && !gateway.reaches_s2(&to_new));
    assert_eq!(gateway.version(), version);
    let Ok(ControlResponse::Region(status)) = ask(&gateway.socket, &ControlRequest::Region) else {
        panic!("no status")
    };
    assert!(status.refused.is_some_and(|refused| refused.contains("rad")) && status.vpcs == 3);

    fs::write(&gateway.region, format!("{}{NEW_VM}", lab_region())).unwrap();
    let Ok(ControlResponse::RegionDiffers(difference)) =
        ask(&gateway.socket, &ControlRequest::RegionDiff { file: None })
    else {
        panic!("no difference")
    };
    assert_eq!((difference.lines.len(), difference.summary.inserted), (1, 1), "{difference:?}");
    assert!(difference.lines[0].starts_with("+ gateway.vm_nc.vm_nc_v4: "), "{difference:?}");
    assert_eq!(gateway.version(), version, "a difference writes nothing");
    let applied = gateway.apply().unwrap();
    assert_eq!((applied.inserted, applied.modified, applied.deleted), (1, 0, 0), "what did not change is not touched");
    assert!(gateway.reaches_s2(&to_b) && gateway.reaches_s2(&to_new));

    // Reapplying the same file changes nothing; a file without the VM removes it.
    let applied = gateway.apply().unwrap();
    assert_eq!((applied.inserted, applied.modified, applied.deleted), (0, 0, 0));
    fs::write(&gateway.region, lab_region()).unwrap();
    assert_eq!(gateway.apply().unwrap().deleted, 1);
    assert!(gateway.reaches_s2(&to_b) && !gateway.reaches_s2(&to_new));
}

#[test]
fn a_comment_in_the_first_line_changes_nothing_but_what_is_said_of_lines() {
    let mut gateway = Gateway::start();
    let to_b = datagram(100, [10, 0, 0, 12]);
    assert!(gateway.reaches_s2(&to_b));
    let version = gateway.version();
    let machine = |gateway: &Gateway| {
        let told = gateway.node.explain(to_b.bytes(), 1).unwrap();
        let text = serde_json::to_string(&told).unwrap();
        let at = text.find("VM red-b").unwrap_or_else(|| panic!("{text}"));
        text[..at].rsplit(':').nth(1).unwrap().parse::<u32>().unwrap()
    };
    let line = machine(&gateway);
    fs::write(&gateway.region, format!("# another line\n{}", lab_region())).unwrap();
    let applied = gateway.apply().unwrap();
    assert_eq!((applied.inserted, applied.modified, applied.deleted, applied.others), (0, 0, 0, 0));
    assert_eq!(gateway.version(), version, "without a change there is no new version, and no cache is stale");
    assert_eq!(machine(&gateway), line + 1, "the line of the file as it is now");
    assert!(gateway.reaches_s2(&to_b));
}

#[test]
fn uplinks_that_do_not_fit_the_ports_are_told_at_each_application() {
    let gateway = Gateway::start();
    // Ports 1 and 2 are open with an MTU of 1500 bytes. The region has more ports, and the default
    // MTU of its uplinks is 1600.
    let applied = gateway.apply().unwrap();
    let told = |warnings: &[String], words: &[&str]| {
        warnings.iter().any(|warning| words.iter().all(|word| warning.contains(word)))
    };
    assert!(told(&applied.warnings, &["region.yaml:", "port 3, which is not open", "--port 3=INTERFACE"]), "{applied}");
    assert!(told(&applied.warnings, &["port 1 (port1) takes 1500", "mtu: 1500"]), "{applied}");
    assert_eq!(gateway.node.region_status().unwrap().warnings, applied.warnings);
    assert!(applied.to_string().contains("warning: "), "{applied}");

    let fits = lab_region().replace("{name: to-s1,   port: 1,", "{name: to-s1, mtu: 1500, port: 1,");
    assert_ne!(fits, lab_region());
    fs::write(&gateway.region, fits).unwrap();
    let applied = gateway.apply().unwrap();
    assert!(!told(&applied.warnings, &["port 1 (port1)"]), "{applied}");
}

#[test]
fn controllers_read_the_tables_of_a_region_and_do_not_write_them() {
    let gateway = Gateway::start();
    let running = gateway.node.running().expect("the gateway runs");
    for refusal in [
        gateway.node.commit(&running, ReconcileMode::Nothing).unwrap_err(),
        gateway.node.write(&[]).unwrap_err(),
        gateway.node.save(&running).unwrap_err(),
    ] {
        assert_eq!(refusal.code, Code::FailedPrecondition);
        assert!(refusal.message.contains("terrace region apply"), "{}", refusal.message);
    }
    let info = ir::p4info::generate(&running.pipeline);
    assert_eq!(p4runtime::p4info::encode(&info), running.p4info, "controllers get the program's P4Info");
}

#[test]
fn a_node_without_a_region_says_so() {
    let node = start(None, Vec::new());
    assert!(matches!(node.apply_region(None), Err(RegionError::None)));
    assert!(matches!(node.region_status(), Err(RegionError::None)));
    let error = node.apply_region(None).unwrap_err().to_string();
    assert!(error.contains("terrace gateway run --region"), "{error}");
}

#[test]
fn a_wrong_file_at_the_start_leaves_a_node_without_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("region.yaml");
    fs::write(&file, "region: [").unwrap();
    let node = start(None, Vec::new());
    assert!(matches!(node.serve_region(&file, None), Err(RegionError::File(_))));
    assert!(node.running().is_none());
    let other =
        compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/overlay/overlay.p4"), &Sources::default());
    let other = ir::text::print(&other.pipeline.unwrap()).into_bytes();
    fs::write(&file, lab_region()).unwrap();
    let error = node.serve_region(&file, Some(other)).unwrap_err();
    assert!(matches!(error, RegionError::Program(_)), "{error}");
}

#[test]
fn a_file_that_is_mended_has_the_gateway_run_instead_of_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("region.yaml");
    let node = start(None, Vec::new());
    let overlay = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/overlay/overlay.p4");
    let overlay = compile(&overlay, &Sources::default()).pipeline.unwrap();
    let device_config = ir::text::print(&overlay);
    let pipeline = node.verify(device_config.as_bytes()).unwrap();
    let config =
        PipelineConfig { pipeline, p4info: bytes::Bytes::new(), device_config: device_config.into(), cookie: None };
    node.commit(&config, ReconcileMode::Nothing).unwrap();

    fs::write(&file, "region: [").unwrap();
    assert!(matches!(node.serve_region(&file, None), Err(RegionError::File(_))));
    assert_eq!(node.running().unwrap().pipeline.name, "overlay", "what ran goes on");
    assert!(node.region_status().unwrap().refused.is_some());
    fs::write(&file, lab_region()).unwrap();
    let entries = node.diff_region(None).unwrap().summary.inserted;
    assert_eq!(node.running().unwrap().pipeline.name, "overlay", "a difference changes nothing");
    assert_eq!(node.apply_region(None).unwrap().inserted, entries);
    assert_eq!(node.running().unwrap().pipeline.name, "gateway");
    assert!(entries > 50 && node.region_status().unwrap().refused.is_none());
}

#[test]
fn after_a_restart_vpcs_have_their_numbers_and_nothing_is_written_again() {
    let open = |folder: &Path| Some(Store::open(&folder.join("store")).unwrap());
    let gateway = Gateway::with_store(open);
    // `aaa` would get the first id if the others did not have theirs already.
    let more = lab_region().replacen("vpcs:\n", "vpcs:\n  - {name: aaa, vni: 4242}\n", 1);
    assert_ne!(more, lab_region());
    fs::write(&gateway.region, &more).unwrap();
    assert_eq!(gateway.apply().unwrap().modified, 0);
    let Gateway { node, region, folder, _control, .. } = gateway;
    drop(_control);
    drop(node);

    let node = start(open(folder.path()), Vec::new());
    let applied = node.serve_region(&region, None).unwrap();
    let RegionChanges { inserted, modified, deleted, others, .. } = applied;
    assert_eq!((inserted, modified, deleted, others), (0, 0, 0, 0), "the store had all of it");
    fs::write(&region, format!("{more}{NEW_VM}")).unwrap();
    assert_eq!(node.apply_region(None).unwrap().inserted, 1);
}
