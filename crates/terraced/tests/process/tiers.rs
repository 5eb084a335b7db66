//! Tests a switch in one process and the tiers below it in two others, with memifs between. Each
//! flow keeps its path, and its order while it does; a killed tier interrupts its flows only until
//! that is detected; a returning tier gets its flows back; and no sender on a front port can imitate
//! a tier.

use crate::daemon::Daemon;
use crate::forward::{Forward, commit, pipeline};
use io::Port;
use io::memif::MemifPort;
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use packet::{Batch, Packet, PortId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(20);
/// Time after which a silent tier counts as gone.
const SILENCE: Duration = Duration::from_millis(400);
pub const KEY: u32 = 0x0bad_cafe;
/// Port for frames to destination 2: none exists.
const NOWHERE: u64 = 9;
/// Flows of the test, distinguished by their source.
pub const FLOWS: u64 = 24;
/// Received frames by flow: number and time of the last.
type Last = BTreeMap<u64, (u32, Instant)>;

/// Returns a frame of a flow, with its number.
pub fn frame(flow: u64, number: u32) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[5] = 1;
    bytes[6..12].copy_from_slice(&(0x0200_0000_0000 | flow).to_be_bytes()[2..]);
    bytes[12..14].copy_from_slice(&crate::wire::KIND.to_be_bytes());
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn text(folder: &Path, tiers: &str, ports: &[(u32, String, &str)]) -> String {
    let ports = ports.iter().map(|(number, device, tier)| {
        let link = if tier.is_empty() { String::new() } else { format!("tier_link = {tier:?}\n") };
        format!("[[port]]\nnumber = {number}\ndevice = {device:?}\n{link}")
    });
    let control = folder.join("control.sock");
    let ports: String = ports.collect();
    format!(
        "[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[metrics]\nlisten = [\"127.0.0.1:0\"]\n[control]\nsocket = {control:?}\n[tiers]\nbridge_key = {KEY}\nprobe_timeout_ms = {}\n{tiers}\n{ports}",
        SILENCE.as_millis()
    )
}

pub struct Process {
    daemon: Option<Daemon>,
    /// Address of its metrics.
    metrics: String,
    folder: tempfile::TempDir,
    text: String,
}

impl Process {
    pub fn new(tiers: &str, ports: &[(u32, String, &str)]) -> Process {
        let folder = tempfile::tempdir().expect("a folder");
        let text = text(folder.path(), tiers, ports);
        let mut process = Process { daemon: None, metrics: String::new(), folder, text };
        process.start();
        process
    }

    /// Creates a process with the lower tiers, reached by `link`.
    pub fn below(tiers: &str, link: String) -> Process {
        Process::new(&format!("local = [\"dpu\", \"cpu\"]\n{tiers}"), &[(301, link, "upper")])
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Starts the process, with the program and the port for frames to destination 1.
    fn start(&mut self) {
        let file = crate::daemon::config_in(self.folder.path(), &self.text);
        let daemon = Daemon::with(&file, &[]);
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(async {
            let (mut client, _stream) = daemon.client().await;
            let pipeline = pipeline();
            commit(&mut client, &pipeline).await;
            let forward = Forward::new(&pipeline);
            let updates = vec![forward.update(Type::Insert, 1, 1), forward.update(Type::Insert, 2, NOWHERE)];
            client.write(updates, Atomicity::ContinueOnError).await.expect("a good entry");
        });
        self.metrics = daemon.metrics();
        self.daemon = Some(daemon);
    }

    /// Kills it without notice.
    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        daemon.child.kill().expect("it is ours");
        daemon.child.wait().expect("it ends");
    }

    /// Returns the packets that the tiers of this process served.
    fn served(&self) -> u64 {
        ["switch", "dpu", "cpu"]
            .map(|tier| self.counted(&format!("terrace_tier_packets_total{{tier=\"{tier}\"}}")))
            .iter()
            .sum()
    }

    /// Returns a count of a metric family with a label.
    pub fn counted(&self, line: &str) -> u64 {
        let page = crate::scraped::get(&self.metrics, "GET /metrics HTTP/1.0\r\n\r\n");
        let found = page.lines().find(|text| text.contains(line));
        found.and_then(|text| text.rsplit(' ').next()?.parse::<f64>().ok()).map_or(0, |number| number as u64)
    }
}

/// Returned frames since the last call of [`Traffic::settle`], compared with the sent ones.
pub struct Settled {
    pub lost: u32,
    /// Frames that returned behind a later one of their flow.
    pub overtaken: u32,
    /// Maximum time in which a flow got nothing.
    pub gap: Duration,
}

impl Settled {
    /// Panics unless all frames came back, flow by flow in the order of their sending. Holds while
    /// no flow changes its path: where one does, its frames on the new path may overtake those that
    /// are still on the old one.
    pub fn expect_all_in_order(&self, why: &str) {
        assert_eq!((self.lost, self.overtaken), (0, 0), "frames (lost, overtaken): {why}");
    }
}

/// Sender of frames of all flows in turn, at some rate.
pub struct Traffic {
    end: MemifPort,
    /// Number of the next frame.
    number: u32,
    sent: u32,
    last: Last,
    gap: Duration,
    overtaken: u32,
    back: u32,
}

impl Traffic {
    pub fn new(device: &str) -> Traffic {
        let mut end = MemifPort::open(device).expect("a port");
        let began = Instant::now();
        while end.port_fault().is_some() {
            assert!(began.elapsed() < PATIENCE, "{:?}", end.last_fault());
        }
        Traffic { end, number: 1, sent: 0, last: Last::new(), gap: Duration::ZERO, overtaken: 0, back: 0 }
    }

    pub fn run(&mut self, time: Duration, also: &dyn Fn(&mut MemifPort)) {
        let began = Instant::now();
        let mut batch = Batch::new();
        while began.elapsed() < time {
            let frames: Vec<Packet> =
                (0..FLOWS).map(|flow| Packet::from_bytes(&frame(flow, self.number)).expect("short")).collect();
            assert_eq!(self.end.send_all(&mut frames.iter()), frames.len());
            self.number += 1;
            self.sent += FLOWS as u32;
            also(&mut self.end);
            std::thread::sleep(Duration::from_millis(2));
            self.take(&mut batch);
        }
        // Frames in flight arrive.
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            self.take(&mut batch);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn take(&mut self, batch: &mut Batch) {
        batch.clear();
        self.end.receive(PortId(1), batch).expect("it goes on");
        for packet in batch.packets() {
            let bytes = packet.bytes();
            let flow = u64::from(bytes[11]);
            let (number, _, _, program) = crate::wire::read(bytes);
            assert_eq!((bytes.len(), program), (64, 1), "it went through the whole program");
            self.back += 1;
            let (last, when) = self.last.get(&flow).copied().unwrap_or((0, Instant::now()));
            self.gap = self.gap.max(when.elapsed());
            self.overtaken += u32::from(number <= last);
            self.last.insert(flow, (number.max(last), Instant::now()));
        }
    }

    pub fn settle(&mut self) -> Settled {
        Settled {
            lost: std::mem::take(&mut self.sent) - std::mem::take(&mut self.back),
            overtaken: std::mem::take(&mut self.overtaken),
            gap: std::mem::take(&mut self.gap),
        }
    }
}

#[test]
fn a_tier_that_dies_costs_no_flow_more_than_the_time_until_it_is_noticed() {
    let sockets = tempfile::tempdir().expect("a folder");
    let memif = |name: &str, role: &str| format!("memif:socket={},role={role}", sockets.path().join(name).display());
    let absent = "absent = [\"second\"]";
    let below = |name: &str| Process::below(absent, memif(name, "client"));
    let switch = Process::new(
        &format!("local = [\"switch\"]\nswitch_engine = \"jit\"\n{absent}"),
        &[
            (1, memif("front", "server"), ""),
            (301, memif("one", "server"), "lower"),
            (302, memif("two", "server"), "lower"),
        ],
    );
    let (mut one, two) = (below("one"), below("two"));
    let mut traffic = Traffic::new(&memif("front", "client"));
    // Until both respond.
    traffic.run(Duration::from_millis(1_500), &|_| {});
    traffic.settle();
    let served = || one.served() + two.served();
    let before = served();
    traffic.run(Duration::from_millis(1_500), &|_| {});
    assert_eq!(served() - before, u64::from(traffic.sent), "each frame has been with one of the tiers below");
    traffic.settle().expect_all_in_order("both are there");

    // Sender on a front port that knows the key.
    let mut forged = vec![0; 120];
    forged[12..14].copy_from_slice(&offload::partition::ETHERTYPE.to_be_bytes());
    forged[14..18].copy_from_slice(&KEY.to_be_bytes());
    forged[18] = offload::partition::RETURNED;
    forged[22] = 1;
    let forged = [Packet::from_bytes(&forged).expect("short")];
    traffic.run(Duration::from_millis(300), &|end| assert_eq!(end.send_all(&mut forged.iter()), 1));
    traffic.settle().expect_all_in_order("a forged frame came back, or cost another one");
    assert!(switch.counted("reason=\"unexpected_bridge_header\"") > 50, "they are counted by their reason");

    one.kill();
    traffic.run(Duration::from_millis(2_500), &|_| {});
    let Settled { lost, gap, .. } = traffic.settle();
    println!("killed: {lost} frames lost, a flow without any for {gap:?}");
    assert!(lost > 0, "it had flows");
    assert!(gap > SILENCE / 2 && gap < SILENCE * 3, "a flow got nothing for {gap:?}");
    traffic.run(Duration::from_millis(1_000), &|_| {});
    traffic.settle().expect_all_in_order("the other one has them all");

    one.start();
    traffic.run(Duration::from_millis(2_500), &|_| {});
    traffic.settle();
    traffic.run(Duration::from_millis(1_000), &|_| {});
    traffic.settle().expect_all_in_order("both are there again");
}
