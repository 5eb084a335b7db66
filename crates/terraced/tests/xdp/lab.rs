//! Namespace with veth pairs: the kernel's flow cache at one end of each, the outside world at the
//! other.

use cache_engines::{HookChoice, XdpPlan};
use interp::{Config, Interp, Outputs};
use io::{Namespace, Port, RawPort, TxBatch};
use ir::Pipeline;
use node::engine::{EngineControl, EngineFactory};
use packet::{Batch, BatchOutput, Counter, Engine, EngineCounters, Packet, PacketRef, PortCounters, PortId, Verdict};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time-out: longer than any packet takes on a busy machine.
const LONG: Duration = Duration::from_secs(5);

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split_whitespace()).output().is_ok_and(|output| output.status.success())
}

/// Namespace that is removed when the test ends, also by a panic.
struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

/// Namespace with veth pairs, and a gateway with the kernel's flow cache. The engine runs on the
/// test's own thread.
pub struct Lab {
    pub plan: XdpPlan,
    pub engine: Box<dyn EngineControl>,
    worker: Box<dyn Engine>,
    ports: Vec<Box<dyn Port>>,
    world: Vec<RawPort>,
    /// Programs that let the outside ends accept packets from programs.
    pub passes: Vec<Box<dyn Send>>,
    /// The engine's counters.
    pub counted: EngineCounters,
    batch: Batch,
    out: BatchOutput,
    namespace: Removed,
}

/// Hooks at which each test runs.
pub const HOOKS: [HookChoice; 2] = [HookChoice::Xdp, HookChoice::Tc];

/// Outcome of a packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Sent packets: port and bytes.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// Verdicts of the engine, if the kernel passed the packet up.
    pub told: Vec<Verdict>,
    /// Whether the kernel forwarded it.
    pub in_kernel: bool,
}

impl Lab {
    /// Creates a lab with ports 0 to `ports`, and the flow cache at a hook. Prints a message and returns `None` where that is not
    /// possible.
    pub fn new(hook: HookChoice, ports: u32, flows: u32, pipeline: &Arc<Pipeline>) -> Option<Lab> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("node-xdp-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        if !io::xdp::BUILT_IN || !ip(&format!("netns add {name}")) {
            println!("SKIPPED: needs root, and clang when it is built");
            return None;
        }
        let namespace = Removed(name.clone());
        let plan = XdpPlan::new(flows).with_hook(hook);
        if let (HookChoice::Tc, Ok(Some(why))) = (hook, plan.kernel().map(|kernel| kernel.tc_refusal())) {
            println!("SKIPPED: {why}");
            return None;
        }
        for port in 0..ports {
            assert!(ip(&format!("-n {name} link add a{port} mtu 3400 type veth peer name b{port} mtu 3400")));
            for end in ["a", "b"] {
                // Only the test may send.
                assert!(ip(&format!("-n {name} link set {end}{port} addrgenmode none")));
                assert!(ip(&format!("-n {name} link set {end}{port} up")));
            }
        }
        let open = || {
            let kernel = plan.kernel().expect("a kernel with XDP");
            let (mut near, mut world, mut passes) = (Vec::new(), Vec::new(), Vec::<Box<dyn Send>>::new());
            for port in 0..ports {
                if hook == HookChoice::Xdp {
                    passes.push(Box::new(kernel.let_pass(&format!("b{port}")).expect("a program for the world")));
                }
                let opened = plan.open(&format!("a{port}"), port).expect("a port");
                assert_eq!(opened.note, None);
                near.push(opened.port);
                // After the frame by which the port tests whether this end accepts any.
                world.push(RawPort::open(&format!("b{port}")).expect("the world"));
            }
            (near, world, passes)
        };
        let (ports, world, passes) = Namespace::open(&name).and_then(|namespace| namespace.run(open)).expect("made");
        let engine = plan.clone().shared().load(pipeline, &Config::default());
        let engine = engine.unwrap_or_else(|refusal| panic!("{}", refusal.message));
        let worker = engine.new_worker();
        let (batch, out) = (Batch::new(), BatchOutput::new());
        let counted = EngineCounters::default();
        Some(Lab { plan, engine, worker, ports, world, passes, counted, batch, out, namespace })
    }

    /// Takes the outside end of a port down.
    pub fn cut_off(&self, port: u32) {
        assert!(ip(&format!("-n {} link set b{port} down", self.namespace.0)));
    }

    /// Returns the packets that the kernel's program has finished.
    fn done(&self) -> (u64, u64) {
        let found = self.plan.kernel().expect("it was there").outcomes();
        assert_eq!((found.fault, found.not_a_port, found.no_headroom), (0, 0, 0), "{found:?}");
        (found.sent + found.redirected + found.dropped, found.missed)
    }

    /// Sends a packet from outside to a port, lets the engine process it if it arrives there, and
    /// waits for `expected` sent packets.
    pub fn send(&mut self, port: u32, bytes: &[u8], expected: usize) -> Seen {
        let before = self.done();
        let packet = packet::Packet::from_bytes(bytes).expect("a packet");
        assert_eq!(self.world[port as usize].send_all(&mut std::iter::once(&packet)), 1, "{} bytes", bytes.len());
        let mut seen = Seen::default();
        let deadline = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < deadline, "nobody says what became of a packet of {} bytes", bytes.len());
            let now = self.done();
            if now.0 > before.0 {
                seen.in_kernel = true;
                break;
            }
            if now.1 > before.1 && self.poll(&mut seen) {
                break;
            }
        }
        while seen.sent.len() < expected {
            assert!(Instant::now() < deadline, "a packet of {} bytes is lost: {seen:?}", bytes.len());
            self.collect(&mut seen);
        }
        seen
    }

    /// Runs one round of a runner. Returns whether a packet arrived.
    fn poll(&mut self, seen: &mut Seen) -> bool {
        self.batch.clear();
        self.out.clear();
        for (id, port) in self.ports.iter_mut().enumerate() {
            port.receive(PortId(id as u32), &mut self.batch).expect("the port is there");
        }
        if self.batch.is_empty() {
            return false;
        }
        self.counted.count_received(&self.batch);
        self.worker.process(&mut self.batch, &mut self.out);
        self.counted.count_batch(&self.batch, &self.out);
        for emission in self.out.verdicts() {
            seen.told.push(emission.verdict);
            if let Verdict::Forward { port } = emission.verdict {
                let packet = self.out.packet(&self.batch, emission.packet).expect("it is there").clone();
                self.ports[port.0 as usize].send(&mut TxBatch::copies_of(&[&packet]));
            }
            assert!(matches!(emission.packet, PacketRef::Input(_)), "no copies");
        }
        true
    }

    /// Sends packets from outside to a port at once, and waits until the kernel or the engine has
    /// processed them. Does not wait for the sent packets.
    pub fn send_all(&mut self, port: u32, packets: &[Packet]) {
        let before = self.done();
        let count = packets.len() as u64;
        assert_eq!(self.world[port as usize].send_all(&mut packets.iter()), packets.len());
        let (deadline, mut seen) = (Instant::now() + LONG, Seen::default());
        loop {
            let now = self.done();
            let came = now.0 - before.0 + seen.told.len() as u64;
            if came == count {
                return;
            }
            assert!(came < count && Instant::now() < deadline, "{came} of {count}");
            self.poll(&mut seen);
        }
    }

    /// Returns the counters of a port.
    pub fn port(&mut self, port: u32) -> PortCounters {
        self.ports[port as usize].counters().clone()
    }

    /// Collects the packets sent so far.
    pub fn collect(&mut self, seen: &mut Seen) {
        for (id, port) in self.world.iter_mut().enumerate() {
            let mut batch = Batch::new();
            port.receive(PortId(id as u32), &mut batch).expect("the world is there");
            seen.sent.extend(batch.packets().iter().map(|packet| (id as u32, packet.bytes().to_vec())));
        }
    }

    /// Waits until all is quiet, and checks that no unexpected packet was sent.
    pub fn nothing_more(&mut self) {
        std::thread::sleep(Duration::from_millis(50));
        let mut seen = Seen::default();
        self.collect(&mut seen);
        assert!(!self.poll(&mut seen) && seen == Seen::default(), "{seen:?}");
    }
}

/// Interpreter for comparison.
pub struct Oracle {
    pub interp: Interp,
    /// The interpreter's counters.
    pub counted: EngineCounters,
    /// Received packets of each port.
    pub came: BTreeMap<u32, Counter>,
}

impl Oracle {
    pub fn new(pipeline: &Arc<Pipeline>) -> Oracle {
        let interp = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter takes it");
        Oracle { interp, counted: EngineCounters::default(), came: BTreeMap::new() }
    }

    fn count(&mut self, port: u32, len: usize, outputs: &Outputs) {
        self.counted.received.count_packet(len);
        self.came.entry(port).or_default().count_packet(len);
        for packet in outputs.packets() {
            match packet.verdict {
                Verdict::Forward { port } => {
                    self.counted.forwarded.entry(port).or_default().count_packet(packet.bytes.len())
                }
                Verdict::ToCpu { reason } => {
                    self.counted.to_cpu.entry(reason).or_default().count_packet(packet.bytes.len())
                }
                Verdict::Drop(reason) => self.counted.drops.count_drop(reason, packet.bytes.len()),
            }
        }
    }

    /// Compares the outcome of a packet with the interpreter's, both at time `now`.
    pub fn compare(&mut self, lab: &mut Lab, port: u32, bytes: &[u8]) -> Compared {
        let mut outputs = Outputs::new();
        self.interp.process_into(bytes, port, io::now(), &mut outputs);
        self.count(port, bytes.len(), &outputs);
        let sent: Vec<(u32, Vec<u8>)> = outputs.sent().map(|(port, bytes)| (port, bytes.to_vec())).collect();
        let found = lab.send(port, bytes, sent.len());
        assert_eq!(sent, found.sent, "a packet of {} bytes at port {port}: {bytes:02x?}", bytes.len());
        let verdicts: Vec<Verdict> = outputs.packets().iter().map(|packet| packet.verdict).collect();
        assert!(found.in_kernel || verdicts == found.told, "{verdicts:?} and {:?}", found.told);
        Compared { in_kernel: found.in_kernel, forwarded: !sent.is_empty() }
    }
}

/// Result of [`Oracle::compare`]: whether the kernel forwarded the packet, and whether any packet
/// was sent.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub in_kernel: bool,
    pub forwarded: bool,
}

impl Lab {
    /// Replaces the engine by a new one for the same program, after which the old one is dropped.
    pub fn another(&mut self, pipeline: &Arc<Pipeline>) {
        let engine = self.plan.clone().shared().load(pipeline, &Config::default());
        let engine = engine.unwrap_or_else(|refusal| panic!("{}", refusal.message));
        self.worker = engine.new_worker();
        self.engine = engine;
    }
}
