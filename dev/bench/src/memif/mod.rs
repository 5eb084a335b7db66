//! End to end over memif: a generator on one core, the overlay on another, each a process of its own. Every packet is accounted for, and looked at when it comes back.
//!
//! At full load the generator keeps a fixed number of packets under way; at half load it sends at half the rate of that, each packet with the time
//! it left. The time until a packet is back is that of both rings and the gateway.
//!
//! Each process has its core for itself: real-time priority keeps all others off it, and what could not be kept off (the machine under this
//! one, interrupts) is counted beside the times.

mod floor;
mod generator;
mod inside;
mod loads;
mod times;

use crate::engines::{self, Which};
use crate::leftovers::{Leftover, Process, What};
use crate::machine;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::run::Options;
use crate::world::{Layout, PORT, World};
use anyhow::{Context, ensure};
use io::dpdk::DpdkOptions;
use io::{Attached, Idle, Port, PortKind, RunReport, Runner};
use loads::{Load, account, latencies};
use packet::PortId;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

/// How often each load is measured, in turn.
const WINDOWS: usize = 5;

/// Full load and half of it, in turn.
///
/// # Errors
/// A process fails, or a packet came back wrong or was not accounted for.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("memif: left out: it takes two cores");
        return Ok(());
    }
    let seconds = if options.quick { 0.5 } else { 4.0 };
    let (mut full, mut half) = (Load::new("full load"), Load::new("half load"));
    let mut stolen = Duration::ZERO;
    for _ in 0..WINDOWS {
        let rate = full.run(programs, core, 0.0, seconds)?;
        let before = machine::stolen(&cores(core));
        half.run(programs, core, rate / 2.0, seconds)?;
        stolen += machine::stolen(&cores(core)).saturating_sub(before);
    }
    for load in [&full, &half] {
        load.say("", "Mpps", report, |(found, _)| found.rate / 1e6);
        account(load, report);
    }
    let pauses = floor::Pauses::on(core, Duration::from_secs_f64(seconds));
    report.fact(GROUP, "the gateway's core alone, pauses a second", pauses.rate(), "pauses/s");
    report.fact(GROUP, "the gateway's core alone, wait because of them, p99.9", pauses.wait(0.999) * 1e6, "us");
    ensure!(
        half.windows.iter().all(|(found, _)| found.timed.samples > 0),
        "memif: the generator was stopped all the time"
    );
    latencies(&half, report);
    let name = "half load, both cores taken by the machine under this one, with start and end";
    report.fact(GROUP, name, stolen.as_secs_f64() * 1e3, "ms");
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

fn open(role: &str, socket: &str) -> anyhow::Result<Box<dyn Port>> {
    let device = format!("net_memif0,role={role},socket={socket},socket-abstract=no");
    Ok(io::open_port(&device, PortKind::Auto, &DpdkOptions::default())?.port)
}

/// How often each side looks whether the other is there.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until the other process is there.
fn settle(port: &mut dyn Port) -> anyhow::Result<()> {
    let patience = Instant::now();
    loop {
        std::thread::sleep(LOOK);
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
    settle(&mut *port)?;
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
        inside: times.lock().summary(),
        kept_waiting: (machine::kept_waiting() - before).as_secs_f64(),
    };
    println!("{}", serde_json::to_string(&done)?);
    Ok(())
}
