//! Measures packets per second of the gateway on a veth pair: forwarded in the kernel, and by
//! AF_XDP alone, in one run.
//!
//! ```sh
//! cargo run --release -p terraced --example xdp_rate -- [SECONDS] [FLOWS]    # as root
//! ```
//!
//! The generator is the kernel's own (BPF_PROG_TEST_RUN with live frames): a program at the far end
//! sends each frame, and the gateway's port receives it as from a wire. It and the kernel's part of
//! forwarding run on one processor. The user-space part first runs there too, and then on its own
//! processor. "By AF_XDP alone" means the same port and kernel program without any flow, so that
//! all packets pass the socket in both directions: through no engine, through native code, and
//! through the interpreter.

use cache_engines::XdpPlan;
use entries::WriteBatch;
use interp::Config;
use io::xdp::{XdpPort, XdpProgram};
use io::{Namespace, Port, TxBatch};
use ir::Pipeline;
use node::engine::{EngineFactory, native, reference};
use packet::{
    Batch, BatchOutput, Engine, Packet, PacketOrigin, PacketRef, PacketVerdict, PortId, ReasonTable, Verdict,
};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::differ::case::TestEvent;

/// Frames per call of the generator.
const CALL: u32 = 1 << 17;

/// Engine that returns all packets to their port.
struct Mirror;

impl Engine for Mirror {
    fn name(&self) -> &str {
        "nothing"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (index, packet) in batch.packets().iter().enumerate() {
            let verdict = Verdict::Forward { port: packet.ingress_port };
            out.emit(PacketVerdict { packet: PacketRef::Input(index as u16), origin: PacketOrigin::Received, verdict });
        }
    }
}

/// Runs `ip` with arguments that spaces separate.
fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.is_ok_and(|code| code.success()), "ip {arguments}: run as root");
}

struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

/// Receives, runs an engine, and sends on a port until stopped. Returns the number of sent packets.
fn serve(port: &mut XdpPort, engine: &mut dyn Engine, port_number: u32, stop: &AtomicBool) -> u64 {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    let before = port.counters().sent.packets;
    while !stop.load(Ordering::Relaxed) {
        batch.clear();
        out.clear();
        if port.receive(PortId(port_number), &mut batch).is_err() || batch.is_empty() {
            std::thread::yield_now();
            continue;
        }
        engine.process(&mut batch, &mut out);
        let forwarded: Vec<&Packet> = out
            .verdicts()
            .iter()
            .filter(|emission| matches!(emission.verdict, Verdict::Forward { .. }))
            .filter_map(|emission| out.packet(&batch, emission.packet))
            .collect();
        port.send(&mut TxBatch::copies_of(&forwarded));
    }
    port.counters().sent.packets - before
}

/// Packets that leave by their input port, as in a gateway with one uplink, and the entries that
/// they need.
struct Scene {
    pipeline: Arc<Pipeline>,
    entries: WriteBatch,
    /// One packet of each flow.
    frames: Vec<Vec<u8>>,
    /// Port number.
    number: u32,
}

/// Finds a packet in a tunnel that the gateway sends back by its input port, and makes `flows`
/// flows of it. Tries one generated region after another.
fn scene(flows: usize) -> anyhow::Result<Scene> {
    for seed in 0.. {
        let case = testkit::differ::plan::gateway_case(seed, 400)?;
        let Some(TestEvent::Write(entries)) = case.steps.first() else { continue };
        let mut oracle = interp::Interp::new(case.pipeline.clone(), Config::default())?;
        oracle.write(entries)?;
        for step in &case.steps {
            let TestEvent::Packets(packets) = step else { continue };
            for packet in packets {
                let bytes = &packet.bytes;
                // Bytes 12 and 62 are the outer and inner EtherType: IPv4 in VXLAN over IPv4. Byte
                // 73 is the inner protocol: TCP or UDP.
                let tunnelled = bytes.len() >= 92 && bytes[12..14] == [8, 0] && bytes[62..64] == [8, 0];
                let outputs = oracle.process(bytes, packet.port, 0);
                let Some((port, _)) = outputs.sent().next().filter(|_| tunnelled && [6, 17].contains(&bytes[73]))
                else {
                    continue;
                };
                // Other ports within the tunnel make other flows.
                // Bytes 84 and 85 are the inner source port.
                let flow = |number: usize| {
                    let mut bytes = bytes.clone();
                    bytes[84..86].copy_from_slice(&(1_024 + number as u16).to_be_bytes());
                    bytes
                };
                let frames: Vec<Vec<u8>> = (0..flows).map(flow).collect();
                let returns = |bytes: &Vec<u8>| {
                    oracle.process(bytes, port, 0).sent().next().is_some_and(|(leaves, _)| leaves == port)
                };
                if frames.iter().all(returns) {
                    let (pipeline, entries) = (case.pipeline.clone(), entries.clone());
                    return Ok(Scene { pipeline, entries, frames, number: port });
                }
            }
        }
    }
    anyhow::bail!("no packet of any region is forwarded")
}

/// Packet generator.
struct Generator<'g> {
    kernel: &'g XdpProgram,
    /// Namespace in which the interface number is valid.
    namespace: Namespace,
    far: u32,
    core: usize,
    frames: &'g [Vec<u8>],
    time: Duration,
}

impl Generator<'_> {
    /// Generates packets. Returns the duration.
    fn run(&self) -> anyhow::Result<Duration> {
        self.namespace.run(|| {
            let _ = io::pin_current_thread(&[self.core]);
            let start = Instant::now();
            while start.elapsed() < self.time {
                self.kernel.generate(self.far, self.frames, CALL)?;
            }
            Ok(start.elapsed())
        })?
    }
}

/// Returns the packets per second of flows in the kernel's cache. Loads an engine, and installs
/// each flow by its first packet.
fn in_kernel(
    plan: &XdpPlan,
    (pipeline, entries): (&Arc<ir::Pipeline>, &WriteBatch),
    port_number: u32,
    generator: &Generator<'_>,
) -> anyhow::Result<f64> {
    let (kernel, frames) = (generator.kernel, generator.frames);
    let mut engine =
        plan.clone().shared().load(pipeline, &Config::default()).map_err(|refusal| anyhow::anyhow!(refusal.message))?;
    engine.write(entries)?;
    // The interpreter processes the first packet of each flow.
    let mut worker = engine.new_worker();
    for frame in frames {
        let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
        batch.push_bytes(frame, PortId(port_number), io::now())?;
        worker.process(&mut batch, &mut out);
    }
    anyhow::ensure!(
        kernel.installed_keys() == frames.len(),
        "{} of {} flows are in the kernel",
        kernel.installed_keys(),
        frames.len()
    );
    // Drains packets that the last run left in a ring.
    std::thread::sleep(Duration::from_millis(200));
    let before = kernel.outcomes();
    let elapsed = generator.run()?;
    let after = kernel.outcomes();
    anyhow::ensure!(after.missed == before.missed, "{before:?} {after:?}");
    Ok((after.sent - before.sent) as f64 / elapsed.as_secs_f64())
}

/// Prepares the ports and the kernel's cache, measures each path, and prints the rates.
fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let flows: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100);
    let time = Duration::from_secs_f64(seconds);
    let Scene { pipeline, entries, frames, number } = scene(flows)?;
    let namespace = format!("xdp-rate-{}", std::process::id());
    ip(&format!("netns add {namespace}"));
    let _removed = Removed(namespace.clone());
    ip(&format!("-n {namespace} link add near mtu 3400 type veth peer name far mtu 3400"));
    // Only the generator may send.
    ["near", "far"].iter().for_each(|end| ip(&format!("-n {namespace} link set {end} addrgenmode none up")));
    let plan = XdpPlan::new(flows.max(1_024) as u32 * 2);
    let kernel = plan.kernel().map_err(|why| anyhow::anyhow!("{why}"))?;
    let open = || -> anyhow::Result<_> {
        let port = XdpPort::open(kernel, "near", number)?;
        let far = XdpPort::open(kernel, "far", number + 1)?;
        let index = far.interface();
        drop(far);
        Ok((port, index, kernel.sink("far")?))
    };
    let (mut port, far, _passes) = Namespace::open(&namespace)?.run(open)??;
    let cores = io::allowed_cores()?;
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    println!(
        "{} bytes a packet, {flows} flows, {seconds} s each; {:?}, zero copy: {}",
        frames[0].len(),
        port.mode(),
        port.is_zero_copy()
    );

    let generator =
        Generator { kernel, namespace: Namespace::open(&namespace)?, far, core: first, frames: &frames, time };
    let measure_alone = |port: &mut XdpPort, engine: &mut dyn Engine, core: usize| -> anyhow::Result<f64> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let _ = io::pin_current_thread(&[core]);
                serve(port, engine, number, &stop)
            });
            let elapsed = generator.run();
            stop.store(true, Ordering::Relaxed);
            let sent = server.join().map_err(|_| anyhow::anyhow!("the server panicked"))?;
            Ok(sent as f64 / elapsed?.as_secs_f64())
        })
    };
    let mut rates = Vec::new();
    for (core, placement) in [(first, "on the same processor"), (last, "on a processor of its own")] {
        rates.push((
            format!("AF_XDP alone, through nothing, {placement}"),
            measure_alone(&mut port, &mut Mirror, core)?,
        ));
        for (choice, engine_name) in [(native(), "native code"), (reference(), "the interpreter")] {
            let engine = choice.load(&pipeline, &Config::default());
            let mut engine = engine.map_err(|refusal| anyhow::anyhow!(refusal.message))?;
            engine.write(&entries)?;
            let rate = measure_alone(&mut port, &mut *engine.new_worker(), core)?;
            rates.push((format!("AF_XDP alone, through {engine_name}, {placement}"), rate));
        }
    }

    let rate = in_kernel(&plan, (&pipeline, &entries), number, &generator)?;
    println!("in the kernel: {:.3} million packets a second", rate / 1e6);
    for (description, rate_alone) in &rates {
        println!("{description}: {:.3}; the kernel has {:.1} x as many", rate_alone / 1e6, rate / rate_alone);
    }
    Ok(())
}
