//! End to end over memif: a generator on one core, the overlay on another, each a process of its own, as DPDK can be started only once
//! in each. Every packet is accounted for, and looked at when it comes back.
//!
//! At full load the generator keeps a fixed number of packets under way; at half load it sends at half the rate of that, each packet with the time
//! it left. The time until a packet is back is that of both rings and the gateway.
//!
//! Each process has its core for itself: real-time priority keeps all others off it, and what could not be kept off (the machine under this
//! one, interrupts) is counted beside the times.

mod floor;
mod generator;
mod inside;
mod times;

use crate::engines::{self, Which};
use crate::leftovers::{Leftover, Process, What};
use crate::machine;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::run::Options;
use crate::world::{Layout, PORT, World};
use anyhow::{Context, ensure};
use io::dpdk::{DpdkOptions, DpdkPort};
use io::{Attached, Idle, Port, RunReport, Runner};
use packet::PortId;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use times::Summary;

/// Its place in the report.
pub const GROUP: &str = "end to end over memif, overlay, 10k VMs";

/// The world; numbers of its VMs fit into a packet's identification.
const WORLD: World = World { layout: Layout::ManyTenants, vms: 10_000 };

/// Until both processes have touched all their memory; what leaves before is accounted for, and measured by nobody.
const WARM_UP: Duration = Duration::from_millis(300);

/// Cores of both processes: the gateway's, then the generator's.
fn cores(core: usize) -> [usize; 2] {
    [core, if core == 0 { 1 } else { 0 }]
}

/// What the generator found out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Found {
    sent: u64,
    back: u64,
    not_sent: u64,
    wrong: u64,
    /// Packets a second that came back after the warm-up.
    rate: f64,
    /// How long packets took: all of them, and those that were not under way while the generator was stopped.
    all: Summary,
    timed: Summary,
    /// Whether it had real-time priority.
    never_stopped: bool,
    /// Rounds in which it did not get on; their time in all, and the longest one's, in seconds.
    pauses: u64,
    paused: f64,
    longest_pause: f64,
    /// Seconds that other processes had its core.
    kept_waiting: f64,
}

/// What the gateway did with what it received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Done {
    received: u64,
    sent: u64,
    dropped: u64,
    lost_at_port: u64,
    /// How long packets were in it ([`inside`]).
    inside: Summary,
    /// Seconds that other processes had its core.
    kept_waiting: f64,
}

/// Full load, then half load.
///
/// # Errors
/// A process fails, or a packet came back wrong or was not accounted for. That this was built without DPDK is noted.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 || cfg!(not(dpdk)) {
        report.note("memif: left out: it takes two cores and, when this is built, DPDK (Debian: libdpdk-dev)");
        return Ok(());
    }
    let seconds = if options.quick { 1.0 } else { 10.0 };
    let (found, done) = both(programs, core, 0.0, seconds)?;
    report.fact(GROUP, "full load", found.rate / 1e6, "Mpps");
    account("full load", &found, &done, report)?;
    let pauses = floor::Pauses::on(core, Duration::from_secs_f64(seconds / 2.0));
    report.fact(GROUP, "the gateway's core alone, pauses a second", pauses.rate(), "pauses/s");
    report.fact(GROUP, "the gateway's core alone, wait because of them, p99.9", pauses.wait(0.999) * 1e6, "us");
    let before = machine::stolen(&cores(core));
    let (found, done) = both(programs, core, found.rate / 2.0, seconds)?;
    let stolen = machine::stolen(&cores(core)).saturating_sub(before);
    report.fact(GROUP, "half load", found.rate / 1e6, "Mpps");
    account("half load", &found, &done, report)?;
    ensure!(found.timed.samples > 0, "memif: the generator was stopped all the time");
    latencies(&found, &done, stolen, report);
    Ok(())
}

/// How long packets took, and what of that may be the harness's or the machine's. A packet that was under way while the generator was stopped may have
/// waited for the generator; it counts among all packets alone.
fn latencies(found: &Found, done: &Done, stolen: Duration, report: &mut Report) {
    let mut fact = |name: &str, value: f64, unit: &str| report.fact(GROUP, &format!("half load, {name}"), value, unit);
    let all = [
        ("in the gateway", &done.inside),
        ("there and back", &found.timed),
        ("all packets, there and back", &found.all),
    ];
    for (which, times) in all {
        for (name, nanoseconds) in ["p50", "p99", "p99.9"].into_iter().zip(times.percentiles) {
            fact(&format!("{which}, {name}"), nanoseconds / 1e3, "us");
        }
        fact(&format!("{which}, the longest"), times.longest / 1e3, "us");
        fact(&format!("{which}, packets timed"), times.samples as f64, "packets");
    }
    fact("pauses of the generator of 20 us or more", found.pauses as f64, "pauses");
    fact("pauses of the generator, all together", found.paused * 1e3, "ms");
    fact("pauses of the generator, the longest", found.longest_pause * 1e6, "us");
    fact("other processes on the generator's core", found.kept_waiting * 1e3, "ms");
    fact("other processes on the gateway's core", done.kept_waiting * 1e3, "ms");
    fact("both cores taken by the machine under this one, with start and end", stolen.as_secs_f64() * 1e3, "ms");
    if !found.never_stopped {
        report.note("memif: no real-time priority (not root?): times contain those of other processes");
    }
}

/// Sent is what came back and what is known to be lost, and nothing came back wrong.
fn account(load: &str, found: &Found, done: &Done, report: &mut Report) -> anyhow::Result<()> {
    report.fact(GROUP, &format!("{load}, packets sent"), found.sent as f64, "packets");
    report.fact(GROUP, &format!("{load}, packets back"), found.back as f64, "packets");
    report.fact(GROUP, &format!("{load}, packets that found no room in the ring"), found.not_sent as f64, "packets");
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
    let _removed = Leftover::new(What::Path(socket.clone()));
    let [of_gateway, of_generator] = cores(core);
    let start = |role: &str, core: usize, more: &[String]| -> anyhow::Result<Process> {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(std::env::current_exe()?);
        command.arg(role).arg(&socket).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Ok(Process::start(&mut command)?)
    };
    let mut gateway = start("memif-gateway", of_gateway, &[programs.display().to_string()])?;
    // The gateway listens, and waits without using its core, which the thread that accepts needs, too.
    let patience = Instant::now();
    while !socket.exists() && gateway.ended()?.is_none() && patience.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let generator = start("memif-generator", of_generator, &[rate.to_string(), seconds.to_string()])?;
    let found = finish(generator, Duration::from_secs_f64(seconds + 40.0)).context("the generator");
    // Its standard input ends: it says what it did.
    drop(gateway.child.stdin.take());
    let done = finish(gateway, Duration::from_secs(20)).context("the gateway");
    Ok((serde_json::from_str(&found?)?, serde_json::from_str(&done?)?))
}

/// Waits for a child's end, not for ever, and gives the last line that it said.
fn finish(mut process: Process, patience: Duration) -> anyhow::Result<String> {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = process.ended()? {
            break status;
        }
        ensure!(start.elapsed() < patience, "it does not end");
        std::thread::sleep(Duration::from_millis(50));
    };
    let mut text = String::new();
    process.child.stdout.take().context("its output")?.read_to_string(&mut text)?;
    ensure!(status.success(), "it ends with {status}");
    text.lines().last().map(str::to_owned).context("it said nothing")
}

/// One of the two processes, if these are its arguments; `None` for all others.
pub fn role(arguments: &[String]) -> Option<anyhow::Result<()>> {
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["memif-gateway", socket, programs] => Some(gateway(socket, &PathBuf::from(programs))),
        ["memif-generator", socket, rate, seconds] => {
            let numbers = rate.parse().and_then(|rate| Ok((rate, seconds.parse()?)));
            Some(numbers.map_err(Into::into).and_then(|(rate, seconds)| generator::run(socket, rate, seconds)))
        }
        _ => None,
    }
}

fn open(role: &str, socket: &str) -> anyhow::Result<DpdkPort> {
    let device = format!("net_memif0,role={role},socket={socket},socket-abstract=no,rsize=11");
    Ok(DpdkPort::open(&device, &DpdkOptions::default())?)
}

/// How often each side looks whether the other is there. A client that looks begins to connect anew, so it gives the server time: DPDK's memif
/// server (22.11) ends its process when a client that it has just accepted is gone.
const LOOK: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// Waits until the other process is there.
fn settle(port: &mut DpdkPort, every: Duration) -> anyhow::Result<()> {
    let patience = Instant::now();
    loop {
        std::thread::sleep(every);
        if port.trouble().is_none() {
            return Ok(());
        }
        ensure!(patience.elapsed() < Duration::from_secs(20), "the other process does not come");
    }
}

/// Runs the overlay until standard input ends.
fn gateway(socket: &str, programs: &Path) -> anyhow::Result<()> {
    let program = Program::load(Kind::Overlay, programs)?;
    let mut engine = engines::load(Which::MEASURED, &program, WORLD)?.engine;
    let mut port = open("server", socket)?;
    settle(&mut port, LOOK[0])?;
    let (port, times) = inside::Timed::new(port);
    let mut runner = Runner::new(vec![Attached::new(PORT, port)])?.with_idle(Idle::BUSY);
    // A thread that waits for the end would never get this core.
    let mut on_tick = |_: &mut Box<dyn engines::Writable>, _: &RunReport| {
        if machine::input_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    machine::never_stopped();
    let before = machine::kept_waiting();
    let report = runner.run(&mut engine, &AtomicBool::new(false), &mut on_tick)?;
    let (_, port) = report.ports.get(&PortId(PORT)).context("its port")?;
    let received = port.received.packets;
    let lost = port.drops.total().packets;
    let done = Done {
        received,
        sent: port.sent.packets,
        dropped: received - received.min(port.sent.packets + lost),
        lost_at_port: lost,
        inside: times.lock().unwrap_or_else(PoisonError::into_inner).summary(),
        kept_waiting: (machine::kept_waiting() - before).as_secs_f64(),
    };
    println!("{}", serde_json::to_string(&done)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_sent_has_to_be_somewhere() {
        let found = Found { sent: 100, back: 90, ..Found::default() };
        let done = Done { received: 95, sent: 90, dropped: 5, ..Done::default() };
        let mut report = Report::default();
        account("full load", &found, &done, &mut report).expect("5 never arrived, 5 were dropped, 90 came back");
        assert_eq!(report.value(GROUP, "full load, packets lost, with reason"), Some(10.0));
        assert!(account("full load", &found, &Done { received: 96, ..done.clone() }, &mut report).is_err());
        assert!(account("full load", &Found { wrong: 1, ..found }, &done, &mut report).is_err());
    }
}
