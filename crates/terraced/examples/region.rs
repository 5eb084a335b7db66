//! What a region file of a million machines costs a node: `region [MACHINES [PACKETS_PER_SECOND]]`.
//!
//! It starts `terraced` (built with the same profile) with the file and a memif port, and prints how long the first application took,
//! what a comment, a rule, a machine more and a machine less cost after that, each as `terrace region apply` does it, and the most
//! memory that the process has had. Meanwhile packets of another VPC pass at an even pace: all of them must come back.

use io::Port;
use node::admin::protocol::{Answer, Request};
use node::admin::{Asking, ask};
use node::region::Applied;
use packet::{Batch, Packet, PortId};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::frame::{Ip, Tunnelled, segment};
use testkit::regions::{self, Size};

/// VPCs and servers of the region.
const SIZE: Size = Size { vpcs: 250, vms: 0, acl_rules: 4, servers: 1000 };
/// How often packets are sent.
const STEP: Duration = Duration::from_millis(1);

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
    fn start(folder: &Path) -> anyhow::Result<Daemon> {
        let path = |name: &str| folder.join(name).display().to_string();
        let text = format!(
            "region = {:?}\n[p4runtime]\nlisten = []\n[control]\nsocket = {:?}\n[[port]]\nnumber = 1\ndevice = \"memif:socket={},role=server\"\n",
            path("region.yaml"),
            path("control.sock"),
            path("port.sock")
        );
        std::fs::write(folder.join("node.toml"), text)?;
        let terraced = std::env::current_exe()?.with_file_name("../terraced");
        let child = Command::new(&terraced).arg("--config").arg(folder.join("node.toml")).spawn();
        let child = child.map_err(|error| anyhow::anyhow!("{}: {error}; build it first", terraced.display()))?;
        Ok(Daemon { child, control: folder.join("control.sock") })
    }

    fn wait(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while Asking::begin(&self.control, &Request::Version).is_err() {
            anyhow::ensure!(Instant::now() < deadline, "terraced does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn apply(&self, what: &str) -> anyhow::Result<Applied> {
        let began = Instant::now();
        let Answer::RegionApplied(applied) = ask(&self.control, &Request::RegionApply { file: None })? else {
            anyhow::bail!("no application")
        };
        let Applied { inserted, modified, deleted, .. } = applied;
        let ms = began.elapsed().as_secs_f64() * 1e3;
        println!("{what:<36} {ms:>9.1} ms, {inserted} entries added, {modified} changed, {deleted} removed");
        Ok(applied)
    }

    /// The most memory that the process has had.
    fn memory(&self) -> anyhow::Result<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or(" unknown");
        Ok(line.trim().to_owned())
    }
}

/// What machine 0 sends to the next one of its VPC, `v0`.
fn packet() -> anyhow::Result<Packet> {
    let of = |a, b, c, d| IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    let inner = Ip::new(of(10, 0, 0, 1), of(10, 0, 0, 2), 17, segment(1000, 80, 20));
    let frame = Tunnelled::new((of(198, 18, 0, 0), of(192, 0, 2, 1)), 100, inner);
    let mac = [2, 0, 0, 0, 1, 1];
    Ok(Packet::from_bytes(&Tunnelled { mac, ..frame }.bytes())?)
}

/// Sends packets until it is told to stop: how many were sent, and came back.
fn send(port: &mut dyn Port, per_second: usize, stop: &AtomicBool) -> anyhow::Result<(usize, usize)> {
    let packet = packet()?;
    let (mut sent, mut back) = (0, 0);
    let take = |port: &mut dyn Port| -> anyhow::Result<usize> {
        let mut batch = Batch::new();
        Ok(port.receive(PortId(1), &mut batch)?)
    };
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * per_second as f64) as usize;
        while sent < due {
            let count = (due - sent).min(64);
            let accepted = port.send_all(&mut std::iter::repeat_n(&packet, count));
            sent += accepted;
            if accepted < count {
                break;
            }
        }
        while let count @ 1.. = take(port)? {
            back += count;
        }
        std::thread::sleep(STEP);
    }
    let deadline = Instant::now() + Duration::from_secs(2);
    while back < sent && Instant::now() < deadline {
        back += take(port)?;
    }
    Ok((sent, back))
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let vms = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let per_second = arguments.next().map_or(Ok(100_000), |n| n.parse())?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("region.yaml");
    let text = regions::text(Size { vms, ..SIZE });
    std::fs::write(&file, &text)?;

    let began = Instant::now();
    let daemon = Daemon::start(folder.path())?;
    daemon.wait()?;
    println!("{:<36} {:>9.1} ms", "from start to packets", began.elapsed().as_secs_f64() * 1e3);
    println!("{:<36} {:>12}", "most memory so far", daemon.memory()?);

    let mut port = io::open_port(
        &format!("memif:socket={},role=client", folder.path().join("port.sock").display()),
        io::PortKind::Auto,
        &io::dpdk::DpdkOptions::default(),
    )?
    .port;
    std::thread::sleep(Duration::from_millis(300));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let sender = scope.spawn(|| send(&mut *port, per_second, &stop));
        let changes = changes(&daemon, &file, &text, vms);
        stop.store(true, Ordering::Relaxed);
        let (sent, back) = sender.join().expect("the sender does not panic")?;
        changes?;
        println!("{sent} packets of another VPC at {per_second} a second, {} lost", sent - back);
        if let Answer::Drops { drops } = ask(&daemon.control, &Request::Drops)? {
            drops.iter().for_each(|drop| println!("  {} {}: {} packets", drop.by, drop.reason, drop.count.packets));
        }
        anyhow::ensure!(sent == back && sent > per_second, "packets were lost");
        Ok(())
    })?;
    println!("{:<36} {:>12}", "most memory", daemon.memory()?);
    Ok(())
}

/// A comment, then ten changes of one VPC.
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
    let (at, name) = (vms / 2, format!("- {{name: m{}, ", vms / 2));
    let place = base.find(&name).unwrap_or_else(|| panic!("no machine {at}"));
    let line = "- {name: between, vpc: v7, server: s3, mac: '02:aa:00:00:00:02', addresses: [10.200.0.2]}\n";
    std::fs::write(file, format!("{}{line}{}", &base[..place], &base[place..]))?;
    daemon.apply("a machine more, in the middle")?;
    Ok(())
}
