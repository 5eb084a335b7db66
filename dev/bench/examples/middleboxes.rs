//! Measures how much work a switch takes from a server, for `programs/nat` and `programs/middleboxes`.
//!
//! ```text
//! for p in nat/nat middleboxes/{load_balancer/load_balancer,minilb/minilb,firewall/firewall,proxy/proxy,trojan_detector/trojan_detector}; do
//!   terrace compile programs/$p.p4 -o target/bench/programs/$(basename $p).ir; done
//! cargo run --release -p bench --example middleboxes [FLOWS [SIZES.csv]]
//! ```
//!
//! `SIZES.csv` has a distribution of flow sizes: lines `bytes,share of smaller flows`. Without it, each
//! flow has 10,000 packets. Of 10,000 active flows, each sends a packet of 60 bytes in 10 ms, in one
//! direction: a million packets a second. FLOWS is at most 65,536, the size of the firewall's table. It ends
//! when half of the flows that send at a time have ended, because fewer would be another rate.
//!
//! Only the time of the server counts, as the switch is emulated. It is the time of native code for
//! the packets that go down, and that of the control plane (`advance_time`) beyond what it takes
//! without a switch. It is compared with native code for all packets, in the same run.

use anyhow::{Context, ensure};
use bench::machine;
use entries::{StateUpdate, WriteBatch, find_table};
use interp::Config;
use ir::Pipeline;
use node::engine::{EngineControl, EngineFactory, SharedEngineFactory, native};
use offload::partition::TableMode;
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch_engines::tiers::TiersPlan;

/// Flows that send at a time.
const ACTIVE: usize = 10_000;
/// Packets of a flow, without a distribution.
const LONG_FLOW: u64 = 10_000;
/// Bytes of payload in a packet, for sizes of flows in bytes.
const SEGMENT: f64 = 1_460.0;
const BATCH: usize = 64;
const ROUND_NS: u64 = 10_000_000;
const SECOND: u64 = 1_000_000_000;
const CLIENTS: u32 = 0x0a00_0000;

/// A program with its configuration and the packets that it gets.
struct Middlebox {
    name: &'static str,
    /// Tables to which packets add entries, of which the switch has some.
    cached: &'static [&'static str],
    entries: fn(flows: u32) -> Vec<String>,
    port: u32,
    protocol: u8,
    /// Destination of all flows.
    server: (u32, u16),
}

const SERVER: u32 = 0xcb00_7109;
const SERVICE: u32 = 0xc633_6401;
const LINKS: [&str; 2] =
    ["links: port=1 -> inside(to=2, mac=1, next_mac=2)", "links: port=2 -> outside(to=1, mac=3, next_mac=4)"];

fn with_links(more: impl IntoIterator<Item = String>) -> Vec<String> {
    LINKS.iter().map(|link| (*link).to_owned()).chain(more).collect()
}

fn middleboxes() -> [Middlebox; 6] {
    let nat = |_| {
        let inside = "inside(to=2, mac=1, next_mac=2, first=0x0a000000, public_first=0xc6336400, count=1024, blocks=1024, key=7)";
        vec![format!("links: port=1 -> {inside}"), "links: port=2 -> outside(to=1, mac=3, next_mac=4)".to_owned()]
    };
    let balancer = |_| {
        let backends =
            (0..64).map(|n| format!("backends: group=1, bucket={n} -> backend(to={}, mac={n})", 0x0a01_0000 + n));
        let service = format!("services: address={SERVICE}, port=53, protocol=17 -> service(group_number=1, last=63)");
        with_links(backends.chain([service]))
    };
    let minilb = |_| {
        let backends =
            (0..64).map(|n| format!("backends: number={n} -> backend(address={}, mac={n})", 0x0a01_0000 + n));
        with_links(backends.chain(["pool: default -> choose(last=63)".to_owned()]))
    };
    let firewall = |flows| {
        let allowed = |n: u32| {
            let (address, port) = client(n);
            format!(
                "outbound: protocol=17, source={address}, source_port={port}, destination={SERVER}, destination_port=53 -> allow()"
            )
        };
        with_links((0..flows).map(allowed))
    };
    let proxy =
        |_| with_links(["proxied_ports: port=80 -> redirect(address=0x0a000909, port=3128, next_mac=9)".to_owned()]);
    let trojan = |_| with_links(["kinds: port=22 -> ssh()", "kinds: port=6667 -> irc()"].map(str::to_owned));
    let server = (SERVER, 53);
    [
        Middlebox { name: "nat", cached: &["sessions"], entries: nat, port: 1, protocol: 17, server },
        Middlebox {
            name: "load_balancer",
            cached: &["connections"],
            entries: balancer,
            port: 2,
            protocol: 17,
            server: (SERVICE, 53),
        },
        Middlebox { name: "minilb", cached: &["assignments"], entries: minilb, port: 2, protocol: 17, server },
        Middlebox { name: "firewall", cached: &[], entries: firewall, port: 1, protocol: 17, server },
        Middlebox { name: "proxy", cached: &[], entries: proxy, port: 1, protocol: 6, server: (SERVER, 80) },
        Middlebox {
            name: "trojan_detector",
            cached: &["ssh_hosts", "download_hosts", "flagged_hosts"],
            entries: trojan,
            port: 1,
            protocol: 6,
            server: (SERVER, 80),
        },
    ]
}

/// Returns address and port of a flow's client.
fn client(number: u32) -> (u32, u16) {
    (CLIENTS + number % 65_536, 1_024 + (number / 65_536 * 7) as u16)
}

impl Middlebox {
    /// Writes the packet of a flow: 60 bytes, with the IPv4 checksum and no other.
    fn write_packet(&self, flow: u32, bytes: &mut [u8; 60]) {
        let (source, port) = client(flow);
        *bytes = [0; 60];
        (bytes[12], bytes[14], bytes[17], bytes[22], bytes[23]) = (8, 0x45, 46, 64, self.protocol);
        bytes[26..30].copy_from_slice(&source.to_be_bytes());
        bytes[30..34].copy_from_slice(&self.server.0.to_be_bytes());
        bytes[34..36].copy_from_slice(&port.to_be_bytes());
        bytes[36..38].copy_from_slice(&self.server.1.to_be_bytes());
        match self.protocol {
            17 => bytes[39] = 26,
            _ => (bytes[46], bytes[47]) = (0x50, 0x10),
        }
        let words = bytes[14..34].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

/// An engine with a worker, and the time that it took.
struct Timed {
    control: Box<dyn EngineControl>,
    worker: Box<dyn Engine>,
    batch: Batch,
    out: BatchOutput,
    packets: Duration,
    work: Duration,
    forwarded: u64,
    drops: BTreeMap<String, u64>,
}

impl Timed {
    fn new(factory: &SharedEngineFactory, pipeline: &Arc<Pipeline>, entries: &WriteBatch) -> anyhow::Result<Timed> {
        let mut control = factory.load(pipeline, &Config::default()).map_err(|error| anyhow::anyhow!(error.message))?;
        control.advance_time(SECOND);
        control.write(entries).map_err(|error| anyhow::anyhow!(error.to_string()))?;
        let worker = control.new_worker();
        let (batch, out) = (Batch::new(), BatchOutput::new());
        Ok(Timed {
            control,
            worker,
            batch,
            out,
            packets: Duration::ZERO,
            work: Duration::ZERO,
            forwarded: 0,
            drops: BTreeMap::new(),
        })
    }

    fn send(&mut self, middlebox: &Middlebox, flows: &[u32], now: u64) -> anyhow::Result<()> {
        let mut bytes = [0; 60];
        for flows in flows.chunks(BATCH) {
            self.batch.clear();
            self.out.clear();
            for flow in flows {
                middlebox.write_packet(*flow, &mut bytes);
                self.batch.push_bytes(&bytes, PortId(middlebox.port), now).context("a batch has room")?;
            }
            let began = Instant::now();
            self.worker.process(&mut self.batch, &mut self.out);
            self.packets += began.elapsed();
            for entry in self.out.verdicts() {
                if let Verdict::Drop(reason) = entry.verdict {
                    *self.drops.entry(self.worker.reasons().drop_name(reason).into_owned()).or_default() += 1;
                }
            }
            let sent = self.out.verdicts().iter().filter(|entry| matches!(entry.verdict, Verdict::Forward { .. }));
            self.forwarded += sent.count() as u64;
        }
        Ok(())
    }

    fn pass(&mut self, now: u64) {
        self.worker.on_idle();
        let began = Instant::now();
        self.control.maintain_tables();
        self.control.advance_time(now);
        self.work += began.elapsed();
    }
}

/// Returns the packets of each flow.
fn flow_sizes(flows: u32, file: Option<&Path>) -> anyhow::Result<Vec<u64>> {
    let Some(file) = file else { return Ok(vec![LONG_FLOW; flows as usize]) };
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let points = text.lines().filter_map(|line| {
        let (bytes, share) = line.split_once(',')?;
        Some((bytes.trim().parse::<f64>().ok()?, share.trim().parse::<f64>().ok()?))
    });
    let points: Vec<(f64, f64)> = points.collect();
    ensure!(points.len() > 1, "{} has no points", file.display());
    let mut rng = fastrand::Rng::with_seed(1);
    let size = |share: f64| {
        let at = points.partition_point(|(_, below)| *below < share).clamp(1, points.len() - 1);
        let ((low, from), (high, to)) = (points[at - 1], points[at]);
        let part = if to > from { ((share - from) / (to - from)).clamp(0.0, 1.0) } else { 1.0 };
        (low.ln() + (high.ln() - low.ln()) * part).exp()
    };
    Ok((0..flows).map(|_| (size(rng.f64()) / SEGMENT).ceil().max(1.0) as u64).collect())
}

fn measure(middlebox: &Middlebox, sizes: &[u64]) -> anyhow::Result<()> {
    let path = machine::results().join("programs").join(format!("{}.ir", middlebox.name));
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}: compile it first", path.display()))?;
    let pipeline = Arc::new(ir::text::parse(&text).map_err(|errors| anyhow::anyhow!("{errors:?}"))?);
    let lines = (middlebox.entries)(sizes.len() as u32);
    let updates = lines.iter().map(|line| entries::parse_write(&pipeline, line));
    let mut entries = WriteBatch { updates: updates.collect::<Result<_, _>>()? };
    entries.updates.extend((0..4).map(|profile| StateUpdate::ExpireTime(profile, 300 * SECOND)));
    let modes = middlebox.cached.iter().map(|table| ((*table).to_owned(), TableMode::Hot(1 << 20))).collect();
    for table in middlebox.cached {
        find_table(&pipeline, table)?;
    }
    let tiers = TiersPlan::in_one_process(native(), native(), modes).shared();
    let mut tiers = Timed::new(&tiers, &pipeline, &entries)?;
    let mut whole = Timed::new(&native(), &pipeline, &entries)?;
    let mut server = Timed::new(&native(), &pipeline, &entries)?;
    let (mut active, mut next, mut now, mut packets): (Vec<(u32, u64)>, usize, u64, u64) = (Vec::new(), 0, SECOND, 0);
    loop {
        let mut first = Vec::new();
        while active.len() < ACTIVE && next < sizes.len() {
            active.push((next as u32, sizes[next]));
            first.push(next as u32);
            next += 1;
        }
        // Fewer flows than that would be another rate of packets.
        if active.len() < ACTIVE.min(sizes.len()) / 2 {
            break;
        }
        let flows: Vec<u32> = active.iter().map(|(flow, _)| *flow).collect();
        tiers.send(middlebox, &flows, now)?;
        whole.send(middlebox, &flows, now)?;
        if !middlebox.cached.is_empty() {
            server.send(middlebox, &first, now)?;
        }
        packets += flows.len() as u64;
        active.iter_mut().for_each(|(_, left)| *left -= 1);
        active.retain(|(_, left)| *left > 0);
        now += ROUND_NS;
        [&mut tiers, &mut whole, &mut server].into_iter().for_each(|engine| engine.pass(now));
    }
    ensure!(
        whole.forwarded == packets && tiers.forwarded == packets,
        "{}: of {packets} packets {} and {} were forwarded: {:?}",
        middlebox.name,
        whole.forwarded,
        tiers.forwarded,
        whole.drops
    );
    let by_tier = tiers.control.packets_by_tier();
    let down = by_tier.iter().filter(|(tier, _)| *tier != "switch").map(|(_, count)| count).sum::<u64>();
    let each = |time: Duration| time.as_secs_f64() * 1e9 / packets as f64;
    let control = tiers.work.saturating_sub(whole.work);
    println!(
        "{:16} {packets:>11} packets  {:>8.4} % down (first packets {:.4} %)  whole {:>6.1} ns  server {:>6.2} ns + control {:>5.2} ns  saved {:>6.2} %",
        middlebox.name,
        100.0 * down as f64 / packets as f64,
        100.0 * next as f64 / packets as f64,
        each(whole.packets),
        each(server.packets),
        each(control),
        100.0 * (1.0 - (server.packets + control).as_secs_f64() / whole.packets.as_secs_f64()),
    );
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let flows = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let file = std::env::args().nth(2);
    machine::pin_to_core(1);
    let sizes = flow_sizes(flows, file.as_deref().map(Path::new))?;
    middleboxes().iter().try_for_each(|middlebox| measure(middlebox, &sizes))
}
