//! End to end over memif: a generator on one core, the overlay on another, each a process of its
//! own. Every packet is accounted for, and checked when it comes back.
//!
//! At full load the generator keeps a fixed number of packets in flight. At half load it sends at
//! half of that rate, each packet with its send time. The round-trip time includes both rings and
//! the gateway.
//!
//! Each process has its core for itself, because real-time priority keeps all other processes off
//! it. The remaining interruptions (hypervisor, interrupts) are reported with the times.

mod floor;
mod generator;
mod inside;
mod loads;
mod times;

use crate::engines::{self, EngineKind};
use crate::external_resources::{ExternalResource, Process, ResourceGuard};
use crate::machine;
use crate::program::{BenchProgram, Program};
use crate::report::Report;
use crate::run::Options;
use crate::workload::{PORT, TenantLayout, Workload};
use anyhow::{Context, ensure};
use io::dpdk::DpdkOptions;
use io::{AttachedPort, IdlePolicy, Port, PortKind, RunStats, Runner};
use loads::{LoadResults, latencies, report_account};
use packet::PortId;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use times::LatencySummary;

/// Group of the results in the report.
pub const GROUP: &str = "end to end over memif, overlay, 10k VMs";

/// The workload. The numbers of its VMs fit into a packet's identification.
const WORLD: Workload = Workload { layout: TenantLayout::ManyTenants, vms: 10_000 };

/// Warm-up time, in which both processes touch all their memory. Packets sent in it are accounted
/// for, but not measured.
const WARM_UP: Duration = Duration::from_millis(300);

/// Returns the cores of the gateway and of the generator.
fn cores(core: usize) -> [usize; 2] {
    [core, if core == 0 { 1 } else { 0 }]
}

/// Results of the generator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct GeneratorResult {
    sent: u64,
    back: u64,
    not_sent: u64,
    wrong: u64,
    /// Packets per second that came back after the warm-up.
    rate: f64,
    /// Latency of all packets, and of those that were not in flight during a pause of the
    /// generator.
    all: LatencySummary,
    timed: LatencySummary,
    /// Whether the process had real-time priority.
    never_stopped: bool,
    /// Number of pauses, their total length and the longest one's, in seconds.
    pauses: u64,
    paused: f64,
    longest_pause: f64,
    /// Seconds that other processes used its core.
    kept_waiting: f64,
}

/// Results of the gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct GatewayResult {
    received: u64,
    sent: u64,
    dropped: u64,
    lost_at_port: u64,
    /// Latency of packets within the gateway ([`inside`]).
    inside: LatencySummary,
    /// Seconds that other processes used its core.
    kept_waiting: f64,
}

/// Number of windows of each load, in turn.
const WINDOWS: usize = 5;

/// Measures full load and half load, in turn.
///
/// # Errors
/// If a process fails, or a packet came back wrong or was not accounted for.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("memif: left out: it takes two cores");
        return Ok(());
    }
    let seconds = if options.quick { 0.5 } else { 4.0 };
    let (mut full, mut half) = (LoadResults::new("full load"), LoadResults::new("half load"));
    let mut stolen = Duration::ZERO;
    for _ in 0..WINDOWS {
        let rate = full.run(programs, core, 0.0, seconds)?;
        let stolen_before = machine::stolen_time(&cores(core));
        half.run(programs, core, rate / 2.0, seconds)?;
        stolen += machine::stolen_time(&cores(core)).saturating_sub(stolen_before);
    }
    for load in [&full, &half] {
        load.report_windows("", "Mpps", report, |(generator, _)| generator.rate / 1e6);
        report_account(load, report);
    }
    let pauses = floor::Pauses::record_on(core, Duration::from_secs_f64(seconds));
    report.fact(GROUP, "the gateway's core alone, pauses a second", pauses.rate(), "pauses/s");
    report.fact(GROUP, "the gateway's core alone, wait because of them, p99.9", pauses.wait(0.999) * 1e6, "us");
    ensure!(
        half.windows.iter().all(|(generator, _)| generator.timed.samples > 0),
        "memif: the generator was stopped all the time"
    );
    latencies(&half, report);
    let name = "half load, both cores taken by the machine under this one, with start and end";
    report.fact(GROUP, name, stolen.as_secs_f64() * 1e3, "ms");
    Ok(())
}

/// Starts both processes, each on a core of its own, and waits for both. Returns their results.
/// `rate` is in packets per second; 0 sends as fast as packets come back.
fn run_both(programs: &Path, core: usize, rate: f64, seconds: f64) -> anyhow::Result<(GeneratorResult, GatewayResult)> {
    let socket = std::env::temp_dir().join(format!("terrace-bench-{}.sock", std::process::id()));
    let _removed = ResourceGuard::new(ExternalResource::Path(socket.clone()));
    let [gateway_core, generator_core] = cores(core);
    let start = |role: &str, core: usize, arguments: &[String]| -> anyhow::Result<Process> {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(std::env::current_exe()?);
        command.arg(role).arg(&socket).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Ok(Process::start(&mut command)?)
    };
    let mut gateway = start("memif-gateway", gateway_core, &[programs.display().to_string()])?;
    // The gateway listens, and waits without using its core, because the thread that accepts needs
    // the core too.
    let wait_start = Instant::now();
    while !socket.exists() && gateway.exit_status()?.is_none() && wait_start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let generator = start("memif-generator", generator_core, &[rate.to_string(), seconds.to_string()])?;
    let generator_result = wait_for_result(generator, Duration::from_secs_f64(seconds + 40.0)).context("the generator");
    // The end of its standard input makes the gateway print its results.
    drop(gateway.child.stdin.take());
    let gateway_result = wait_for_result(gateway, Duration::from_secs(20)).context("the gateway");
    Ok((serde_json::from_str(&generator_result?)?, serde_json::from_str(&gateway_result?)?))
}

/// Waits for a child to end, for a limited time, and returns the last line of its output.
fn wait_for_result(mut process: Process, patience: Duration) -> anyhow::Result<String> {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = process.exit_status()? {
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

/// Runs one of the two processes if these are its arguments; `None` otherwise.
pub fn role(arguments: &[String]) -> Option<anyhow::Result<()>> {
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["memif-gateway", socket, programs] => Some(run_gateway(socket, &PathBuf::from(programs))),
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

/// Interval at which each side checks whether the other is connected.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until the other process is connected.
fn wait_until_connected(port: &mut dyn Port) -> anyhow::Result<()> {
    let patience = Instant::now();
    loop {
        std::thread::sleep(LOOK);
        if port.port_fault().is_none() {
            return Ok(());
        }
        ensure!(patience.elapsed() < Duration::from_secs(20), "the other process does not come");
    }
}

/// Runs the overlay until standard input ends.
fn run_gateway(socket: &str, programs: &Path) -> anyhow::Result<()> {
    let program = Program::load(BenchProgram::Overlay, programs)?;
    let mut engine = engines::load(EngineKind::MEASURED, &program, WORLD)?.engine;
    let mut port = open("server", socket)?;
    wait_until_connected(&mut *port)?;
    let (port, times) = inside::LatencyPort::new(port);
    let mut runner = Runner::new(vec![AttachedPort::new(PORT, port)])?.with_idle(IdlePolicy::BUSY);
    // Polled here, because a thread that waits for the end would never get this core.
    let mut on_tick = |_: &mut Box<dyn engines::Writable>, _: &RunStats| {
        if machine::input_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    machine::set_realtime_priority();
    let waited_before = machine::waiting_time();
    let report = runner.run(&mut engine, &AtomicBool::new(false), &mut on_tick)?;
    let (_, port) = report.ports.get(&PortId(PORT)).context("its port")?;
    let received = port.received.packets;
    let lost = port.drops.total().packets;
    let result = GatewayResult {
        received,
        sent: port.sent.packets,
        dropped: received - received.min(port.sent.packets + lost),
        lost_at_port: lost,
        inside: times.lock().summary(),
        kept_waiting: (machine::waiting_time() - waited_before).as_secs_f64(),
    };
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}
