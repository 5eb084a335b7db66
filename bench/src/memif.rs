//! End to end over memif: a generator on one core, the overlay on another, each a process of its own, as DPDK can be started only once
//! in each. Every packet is accounted for, and looked at when it comes back.
//!
//! At full load the generator keeps a fixed number of packets under way; at half load it sends at half the rate of that, each packet with the time
//! it left. The time until a packet is back is that of both rings and the gateway.

use crate::engines::{self, Which};
use crate::machine;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::ring::Template;
use crate::run::Options;
use crate::world::{Choice, Flows, Layout, PORT, World};
use anyhow::{Context, bail, ensure};
use io::dpdk::{DpdkOptions, DpdkPort};
use io::{Attached, Idle, Outgoing, Port, RunReport, Runner};
use packet::{Batch, Packet, PortId};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Its place in the report.
pub const GROUP: &str = "end to end over memif, overlay, 10k VMs";

/// The world; numbers of its VMs fit into a packet's identification.
const WORLD: World = World { layout: Layout::ManyTenants, vms: 10_000 };

/// Packets under way at full load.
const UNDER_WAY: u64 = 1024;

/// Packets that are sent together.
const BURST: usize = 32;

/// Where a packet carries the time it left at, in bytes: the payload of 64-byte frames.
const STAMP: usize = 96;

/// What the generator found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Found {
    sent: u64,
    back: u64,
    not_sent: u64,
    wrong: u64,
    seconds: f64,
    /// Nanoseconds: median, 99th percentile, 99.9th.
    times: [f64; 3],
}

/// What the gateway did with what it received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Done {
    received: u64,
    sent: u64,
    dropped: u64,
    lost_at_port: u64,
}

/// Full load, then half load.
///
/// # Errors
/// A packet came back wrong or was not accounted for. That there is no DPDK is noted.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("memif: left out: it takes two cores");
        return Ok(());
    }
    let seconds = if options.quick { 1.0 } else { 5.0 };
    let (found, done) = match both(programs, core, 0.0, seconds) {
        Ok(both) => both,
        Err(error) => {
            report.note(format!("memif: left out: {error:#}"));
            return Ok(());
        }
    };
    let rate = found.back as f64 / found.seconds / 1e6;
    report.fact(GROUP, "full load", rate, "Mpps");
    account("full load", &found, &done, report)?;
    let (found, done) = both(programs, core, rate * 1e6 / 2.0, seconds)?;
    report.fact(GROUP, "half load", found.back as f64 / found.seconds / 1e6, "Mpps");
    account("half load", &found, &done, report)?;
    for (name, nanoseconds) in ["p50", "p99", "p99.9"].into_iter().zip(found.times) {
        report.fact(GROUP, &format!("half load, there and back, {name}"), nanoseconds / 1e3, "us");
    }
    Ok(())
}

/// Sent is what came back and what is known to be lost, and nothing came back wrong.
fn account(load: &str, found: &Found, done: &Done, report: &mut Report) -> anyhow::Result<()> {
    report.fact(GROUP, &format!("{load}, packets sent"), found.sent as f64, "packets");
    report.fact(GROUP, &format!("{load}, packets back"), found.back as f64, "packets");
    let lost = done.dropped + done.lost_at_port + (found.sent - found.sent.min(done.received));
    report.fact(GROUP, &format!("{load}, packets lost, with reason"), lost as f64, "packets");
    ensure!(found.wrong == 0, "memif, {load}: {} packets came back wrong", found.wrong);
    ensure!(done.received <= found.sent, "memif, {load}: {done:?} received more than {found:?} sent");
    ensure!(
        done.received == done.sent + done.dropped + done.lost_at_port,
        "memif, {load}: not accounted for: {done:?}"
    );
    ensure!(found.back <= done.sent, "memif, {load}: more came back than left: {found:?}, {done:?}");
    let unknown = done.sent - found.back;
    report.fact(GROUP, &format!("{load}, packets not accounted for"), unknown as f64, "packets");
    Ok(())
}

/// Starts both processes and waits for both.
fn both(programs: &Path, core: usize, rate: f64, seconds: f64) -> anyhow::Result<(Found, Done)> {
    let socket = std::env::temp_dir().join(format!("terrace-bench-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let other = if core == 0 { 1 } else { 0 };
    let start = |role: &str, core: usize, more: &[String]| -> anyhow::Result<Child> {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(std::env::current_exe()?);
        command.arg(role).arg(&socket).args(more);
        Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?)
    };
    let mut gateway = start("memif-gateway", core, &[programs.display().to_string()])?;
    let generator = start("memif-generator", other, &[rate.to_string(), seconds.to_string()]);
    let found = generator.and_then(|generator| finish(generator, Duration::from_secs_f64(seconds + 30.0)));
    // Its standard input ends: it says what it did.
    drop(gateway.stdin.take());
    let done = finish(gateway, Duration::from_secs(20));
    let _ = std::fs::remove_file(&socket);
    Ok((serde_json::from_str(&found?)?, serde_json::from_str(&done?)?))
}

/// Waits for a child's end, not for ever, and gives the last line that it said.
fn finish(mut child: Child, patience: Duration) -> anyhow::Result<String> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            bail!("a process does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut text = String::new();
    child.stdout.take().context("its output")?.read_to_string(&mut text)?;
    text.lines().last().map(str::to_owned).context("a process said nothing")
}

/// One of the two processes, if these are its arguments; `None` for all others.
pub fn role(arguments: &[String]) -> Option<anyhow::Result<()>> {
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["memif-gateway", socket, programs] => Some(gateway(socket, &PathBuf::from(programs))),
        ["memif-generator", socket, rate, seconds] => {
            let numbers = rate.parse().and_then(|rate| Ok((rate, seconds.parse()?)));
            Some(numbers.map_err(Into::into).and_then(|(rate, seconds)| generator(socket, rate, seconds)))
        }
        _ => None,
    }
}

fn open(role: &str, socket: &str) -> anyhow::Result<DpdkPort> {
    let device = format!("net_memif0,role={role},socket={socket},socket-abstract=no,rsize=11");
    Ok(DpdkPort::open(&device, &DpdkOptions::default())?)
}

/// Runs the overlay until standard input ends.
fn gateway(socket: &str, programs: &Path) -> anyhow::Result<()> {
    let program = Program::load(Kind::Overlay, programs)?;
    let mut engine = engines::load(Which::MEASURED, &program, WORLD)?.engine;
    let mut runner = Runner::new(vec![Attached::new(PORT, open("server", socket)?)])?.with_idle(Idle::BUSY);
    let stop = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        watched.store(true, Ordering::Relaxed);
    });
    let mut on_tick = |_: &mut Box<dyn engines::Writable>, _: &RunReport| ControlFlow::Continue(());
    let report = runner.run(&mut engine, &stop, &mut on_tick)?;
    let (_, port) = report.ports.get(&PortId(PORT)).context("its port")?;
    let received = port.received.packets;
    let lost = port.drops.total().packets;
    let done = Done {
        received,
        sent: port.sent.packets,
        dropped: received - received.min(port.sent.packets + lost),
        lost_at_port: lost,
    };
    println!("{}", serde_json::to_string(&done)?);
    Ok(())
}

/// Sends for so many seconds: at `rate` packets a second, or (0) as many as come back.
fn generator(socket: &str, rate: f64, seconds: f64) -> anyhow::Result<()> {
    let mut port = open("client", socket)?;
    let patience = Instant::now();
    while port.trouble().is_some() {
        ensure!(patience.elapsed() < Duration::from_secs(20), "the gateway does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut traffic = Traffic::new()?;
    let (start, mut batch, mut found) = (Instant::now(), Batch::new(), Found::default());
    let mut quiet = Instant::now();
    while start.elapsed().as_secs_f64() < seconds || quiet.elapsed() < Duration::from_millis(300) {
        let elapsed = start.elapsed();
        let due = if rate > 0.0 { (elapsed.as_secs_f64() * rate) as u64 } else { found.back + UNDER_WAY };
        if elapsed.as_secs_f64() < seconds && due >= found.sent + BURST as u64 {
            found.sent += traffic.send(&mut port, start)?;
        }
        batch.clear();
        if port.receive(PortId(1), &mut batch)? > 0 {
            quiet = Instant::now();
            traffic.look(&batch, start, &mut found);
        }
    }
    found.not_sent = port.counters().drops.total().packets;
    found.seconds = seconds;
    found.times = [0.5, 0.99, 0.999].map(|part| traffic.times.percentile(part));
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

/// Packets on their way out, and what is known of those that came back.
struct Traffic {
    packets: Vec<Packet>,
    template: Template,
    flows: Flows,
    /// The server of each VM, by number.
    servers: Vec<[u8; 4]>,
    times: Times,
}

impl Traffic {
    fn new() -> anyhow::Result<Traffic> {
        let template = Template::new(64);
        let flows = Flows::new(&WORLD, Choice::Uniform, 1 << 16, 1);
        let packet = template.packet(*flows.all().first().context("flows")?);
        let packets: Result<Vec<Packet>, _> = (0..BURST).map(|_| Packet::from_bytes(&packet)).collect();
        let servers = (0..WORLD.vms).map(|number| WORLD.vm(number).server.to_be_bytes()).collect();
        Ok(Traffic { packets: packets?, template, flows, servers, times: Times::new() })
    }

    /// Sends the next packets, all with the time now. Returns how many the port took.
    fn send(&mut self, port: &mut DpdkPort, start: Instant) -> anyhow::Result<u64> {
        let now = start.elapsed().as_nanos() as u64;
        for packet in &mut self.packets {
            let bytes = packet.bytes_mut();
            self.template.write(self.flows.next_flow(), bytes);
            bytes[STAMP..STAMP + 8].copy_from_slice(&now.to_be_bytes());
        }
        let packets: Vec<&Packet> = self.packets.iter().collect();
        Ok(port.send(&mut Outgoing::copies_of(&packets)) as u64)
    }

    /// Counts what came back, and looks whether it goes to its VM's server.
    fn look(&mut self, batch: &Batch, start: Instant, found: &mut Found) {
        let now = start.elapsed().as_nanos() as u64;
        for packet in batch.packets() {
            let bytes = packet.bytes();
            found.back += 1;
            let (Some(server), Some(number), Some(stamp)) =
                (bytes.get(30..34), bytes.get(68..70), bytes.get(STAMP..).and_then(<[u8]>::first_chunk::<8>))
            else {
                found.wrong += 1;
                continue;
            };
            let number = usize::from(u16::from_be_bytes([number[0], number[1]]));
            if self.servers.get(number).is_none_or(|right| right != server) {
                found.wrong += 1;
            }
            self.times.add(now.saturating_sub(u64::from_be_bytes(*stamp)));
        }
    }
}

/// Times in steps of 64 ns, up to 4 ms; what is longer counts as that.
struct Times {
    counts: Vec<u64>,
    total: u64,
}

impl Times {
    const STEP: u64 = 64;
    const STEPS: usize = 1 << 16;

    fn new() -> Times {
        Times { counts: vec![0; Times::STEPS], total: 0 }
    }

    fn add(&mut self, nanoseconds: u64) {
        self.counts[((nanoseconds / Times::STEP) as usize).min(Times::STEPS - 1)] += 1;
        self.total += 1;
    }

    /// Nanoseconds within which this part of all were back.
    fn percentile(&self, part: f64) -> f64 {
        let wanted = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return ((step as u64 + 1) * Times::STEP) as f64;
            }
        }
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut times = Times::new();
        for _ in 0..990 {
            times.add(1000);
        }
        for _ in 0..10 {
            times.add(100_000);
        }
        assert_eq!(times.percentile(0.5), 1024.0);
        assert_eq!(times.percentile(0.99), 1024.0);
        assert_eq!(times.percentile(0.999), 100_032.0);
        times.add(u64::MAX);
        assert_eq!(times.percentile(1.0), (Times::STEPS as u64 * Times::STEP) as f64);
    }

    #[test]
    fn all_that_is_sent_has_to_be_somewhere() {
        let found = Found { sent: 100, back: 90, ..Found::default() };
        let done = Done { received: 95, sent: 90, dropped: 5, lost_at_port: 0 };
        let mut report = Report::default();
        account("full load", &found, &done, &mut report).expect("5 never arrived, 5 were dropped, 90 came back");
        assert_eq!(report.value(GROUP, "full load, packets lost, with reason"), Some(10.0));
        assert!(account("full load", &found, &Done { received: 96, ..done.clone() }, &mut report).is_err());
        assert!(account("full load", &Found { wrong: 1, ..found }, &done, &mut report).is_err());
    }
}
