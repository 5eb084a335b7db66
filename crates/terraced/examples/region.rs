//! Measures the cost of a region file of a million VMs for a node: `region [MACHINES
//! [PACKETS_PER_SECOND [PORT]]]`.
//!
//! PORT is `memif`, or for one end of a veth pair (root): `raw`, `af-packet`, `af-xdp`, or `xdp`,
//! the flow cache in the kernel.
//!
//! Starts `terraced` (built with the same profile) with the file and the port. Prints the duration
//! of the first application, of a comment, a rule, an added and a removed VM after that, each
//! applied as by `terrace region apply`, and the peak memory of the process. Meanwhile packets of
//! another VPC pass at an even pace, and all of them must return. A first interval without changes
//! shows the machine's own losses: those of a processor that others took for longer than a queue
//! lasts.

use io::Port;
use node::admin::protocol::{ControlRequest, ControlResponse};
use node::admin::{ResponseStream, ask};
use node::region::RegionChanges;
use packet::{Batch, Packet, PortId};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::frame::{IpPacket, VxlanFrame, segment};
use testkit::regions::{self, RegionSize};

/// VPCs and servers of the region.
const SIZE: RegionSize = RegionSize { vpcs: 250, vms: 0, acl_rules: 4, servers: 1000 };
/// Interval between sends.
const STEP: Duration = Duration::from_millis(1);
/// Duration of the interval without changes.
const QUIET: Duration = Duration::from_secs(5);
/// Processor of the node's worker. The generator and the node's other threads are on the other
/// processor.
const WORKER_CORE: usize = 1;
/// Maximum number of missed sends that are made up for if the generator was preempted, because more
/// at once would be a burst.
const MOST_BEHIND: usize = 2;

struct Daemon {
    child: Child,
    control: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// Starts `terraced` with its files in `folder`.
    fn start(folder: &Path, wire: &Wire) -> anyhow::Result<Daemon> {
        let path = |name: &str| folder.join(name).display().to_string();
        let text = format!(
            "region = {:?}\ncores = [{WORKER_CORE}]\nidle = \"poll\"\n[p4runtime]\nlisten = []\n[control]\nsocket = {:?}\n{}",
            path("region.yaml"),
            path("control.sock"),
            wire.setting(folder)
        );
        std::fs::write(folder.join("node.toml"), text)?;
        let terraced = std::env::current_exe()?.with_file_name("../terraced");
        let child = Command::new(&terraced).arg("--config").arg(folder.join("node.toml")).spawn();
        let child = child.map_err(|error| anyhow::anyhow!("{}: {error}; build it first", terraced.display()))?;
        Ok(Daemon { child, control: folder.join("control.sock") })
    }

    /// Waits until the node answers.
    fn wait(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while ResponseStream::begin(&self.control, &ControlRequest::Version).is_err() {
            anyhow::ensure!(Instant::now() < deadline, "terraced does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Applies the region file, and prints the duration and the changes. `change`: its description.
    fn apply(&self, change: &str) -> anyhow::Result<RegionChanges> {
        let began = Instant::now();
        let ControlResponse::RegionApplied(applied) = ask(&self.control, &ControlRequest::RegionApply { file: None })?
        else {
            anyhow::bail!("no application")
        };
        let RegionChanges { inserted, modified, deleted, .. } = applied;
        let ms = began.elapsed().as_secs_f64() * 1e3;
        println!("{change:<36} {ms:>9.1} ms, {inserted} entries added, {modified} changed, {deleted} removed");
        Ok(applied)
    }

    /// Returns the peak memory of the process.
    fn memory(&self) -> anyhow::Result<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or(" unknown");
        Ok(line.trim().to_owned())
    }
}

/// Interfaces of a veth pair: the node's and the generator's.
const VETH: [&str; 2] = ["tregion0", "tregion1"];

/// Link between the generator and the node.
enum Wire {
    Memif,
    /// A veth pair, with the driver and flow cache of the node's end.
    Veth {
        by: &'static str,
        cache: &'static str,
    },
}

impl Wire {
    /// Creates the link. For each kind except `memif`, this is a veth pair.
    fn new(kind: &str) -> anyhow::Result<Wire> {
        let (by, cache) = match kind {
            "memif" => return Ok(Wire::Memif),
            "raw" => ("raw", "none"),
            "af-packet" => ("af-packet", "none"),
            "af-xdp" => ("af-xdp", "none"),
            "xdp" => ("auto", "xdp"),
            _ => anyhow::bail!("`{kind}` is no kind of port: memif, raw, af-packet, af-xdp, or xdp"),
        };
        let ip = |arguments: &[&str]| -> anyhow::Result<()> {
            let status = Command::new("ip").args(arguments).status()?;
            anyhow::ensure!(status.success(), "`ip {}` failed", arguments.join(" "));
            Ok(())
        };
        ip(&["link", "add", VETH[0], "type", "veth", "peer", "name", VETH[1]])?;
        let wire = Wire::Veth { by, cache };
        for end in VETH {
            // Prevents the kernel's own IPv6 packets.
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1")?;
            ip(&["link", "set", end, "up"])?;
        }
        Ok(wire)
    }

    /// Returns the configuration of the node's port and its cache.
    fn setting(&self, folder: &Path) -> String {
        match self {
            Wire::Memif => {
                let socket = folder.join("port.sock");
                format!("[[port]]\nnumber = 1\ndevice = \"memif:socket={},role=server\"\n", socket.display())
            }
            Wire::Veth { by, cache } => {
                format!("[cache]\nkind = {cache:?}\n[[port]]\nnumber = 1\ndevice = {:?}\ndriver = {by:?}\n", VETH[0])
            }
        }
    }

    /// Opens the generator's end.
    fn open(&self, folder: &Path) -> anyhow::Result<Box<dyn Port>> {
        let (device, kind) = match self {
            Wire::Memif => {
                (format!("memif:socket={},role=client", folder.join("port.sock").display()), io::PortKind::Auto)
            }
            Wire::Veth { .. } => (VETH[1].to_owned(), io::PortKind::Raw),
        };
        Ok(io::open_port(&device, kind, &io::dpdk::DpdkOptions::default())?.port)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Wire::Veth { .. } = self {
            let _ = Command::new("ip").args(["link", "del", VETH[0]]).status();
        }
    }
}

/// Returns a packet of VM 0 to the next VM of its VPC, `v0`.
fn packet() -> anyhow::Result<Packet> {
    let of = |a, b, c, d| IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    let inner = IpPacket::new(of(10, 0, 0, 1), of(10, 0, 0, 2), 17, segment(1000, 80, 20));
    let frame = VxlanFrame::new((of(198, 18, 0, 0), of(192, 0, 2, 1)), 100, inner);
    let mac = [2, 0, 0, 0, 1, 1];
    Ok(Packet::from_bytes(&VxlanFrame { mac, ..frame }.bytes())?)
}

/// Sends `per_second` packets each second until stopped. Returns the numbers of sent and returned
/// packets.
fn send(port: &mut dyn Port, per_second: usize, stop: &AtomicBool) -> anyhow::Result<(usize, usize)> {
    let packet = packet()?;
    let (mut sent, mut returned) = (0, 0);
    let receive = |port: &mut dyn Port| -> anyhow::Result<usize> {
        let mut batch = Batch::new();
        Ok(port.receive(PortId(1), &mut batch)?)
    };
    let max_due = MOST_BEHIND * (per_second * STEP.as_millis() as usize / 1000).max(1);
    // Packets that are due to be sent, and the time up to which they are counted.
    let (mut due, mut last) = (0.0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        due = (due + (now - last).as_secs_f64() * per_second as f64).min(max_due as f64);
        last = now;
        let count = due as usize;
        let accepted = port.send_all(&mut std::iter::repeat_n(&packet, count));
        sent += accepted;
        due -= accepted as f64;
        while let count @ 1.. = receive(port)? {
            returned += count;
        }
        std::thread::sleep(STEP);
    }
    let deadline = Instant::now() + Duration::from_secs(2);
    while returned < sent && Instant::now() < deadline {
        returned += receive(port)?;
    }
    Ok((sent, returned))
}

/// Packets of another VPC during an operation.
struct Passed {
    sent: usize,
    lost: usize,
    seconds: f64,
}

impl std::fmt::Display for Passed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Passed { sent, lost, seconds } = self;
        write!(f, "{sent} packets of another VPC at {:.0} a second, {lost} lost", *sent as f64 / seconds)
    }
}

/// Sends packets while `operation` runs. Returns the packets and how long it ran.
fn passed(
    port: &mut dyn Port,
    per_second: usize,
    operation: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Passed> {
    let (stop, began) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(port, per_second, &stop));
        let outcome = operation();
        stop.store(true, Ordering::Relaxed);
        let (sent, returned) = sender.join().expect("the sender does not panic")?;
        outcome?;
        Ok(Passed { sent, lost: sent - returned, seconds: began.elapsed().as_secs_f64() })
    })
}

/// Starts a node with the region, measures it without and with changes, and prints the results.
fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let vms = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let per_second = arguments.next().map_or(Ok(100_000), |n| n.parse())?;
    let wire = Wire::new(&arguments.next().unwrap_or_else(|| "memif".to_owned()))?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("region.yaml");
    let text = regions::text(RegionSize { vms, ..SIZE });
    std::fs::write(&file, &text)?;

    let began = Instant::now();
    let daemon = Daemon::start(folder.path(), &wire)?;
    // The daemon has been started with all processors; the generator is pinned.
    io::pin_current_thread(&[1 - WORKER_CORE])?;
    daemon.wait()?;
    println!("{:<36} {:>9.1} ms", "from start to packets", began.elapsed().as_secs_f64() * 1e3);
    println!("{:<36} {:>12}", "most memory so far", daemon.memory()?);

    let mut port = wire.open(folder.path())?;
    std::thread::sleep(Duration::from_millis(300));
    let without = passed(&mut *port, per_second, || {
        std::thread::sleep(QUIET);
        Ok(())
    })?;
    println!("without a change: {without}");
    let with = passed(&mut *port, per_second, || changes(&daemon, &file, &text, vms))?;
    println!("with the changes: {with}");
    if let ControlResponse::Drops { drops } = ask(&daemon.control, &ControlRequest::Drops)? {
        drops.iter().for_each(|drop| println!("  {} {}: {} packets", drop.by, drop.reason, drop.count.packets));
    }
    anyhow::ensure!(without.sent.min(with.sent) > per_second / 2, "too few packets to say anything");
    anyhow::ensure!(with.lost == 0, "packets were lost");
    println!("{:<36} {:>12}", "most memory", daemon.memory()?);
    Ok(())
}

/// Applies a comment, then ten changes of one VPC.
fn changes(daemon: &Daemon, file: &Path, text: &str, vms: usize) -> anyhow::Result<()> {
    std::fs::write(file, format!("# a comment\n{text}"))?;
    let applied = daemon.apply("a comment in the first line")?;
    anyhow::ensure!((applied.inserted, applied.modified, applied.deleted) == (0, 0, 0), "a comment changes nothing");
    let with_rule = |port: usize| {
        let (before, after) = text.split_once("- name: v7\n").expect("a VPC");
        format!("# a comment\n{before}- name: v7\n{}", after.replacen("ports: 1001", &format!("ports: {port}"), 1))
    };
    for round in 0..4 {
        std::fs::write(file, with_rule(2000 + round))?;
        daemon.apply("a rule of a VPC")?;
    }
    let base = with_rule(2003);
    let more =
        format!("{base}- {{name: more, vpc: v7, server: s3, mac: '02:aa:00:00:00:01', addresses: [10.200.0.1]}}\n");
    for _ in 0..3 {
        std::fs::write(file, &more)?;
        daemon.apply("a machine more, at the end")?;
        std::fs::write(file, &base)?;
        daemon.apply("a machine less, at the end")?;
    }
    let (vm, name) = (vms / 2, format!("- {{name: m{}, ", vms / 2));
    let offset = base.find(&name).unwrap_or_else(|| panic!("no machine {vm}"));
    let line = "- {name: between, vpc: v7, server: s3, mac: '02:aa:00:00:00:02', addresses: [10.200.0.2]}\n";
    std::fs::write(file, format!("{}{line}{}", &base[..offset], &base[offset..]))?;
    daemon.apply("a machine more, in the middle")?;
    Ok(())
}
