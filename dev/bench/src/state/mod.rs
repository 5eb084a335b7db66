//! Tables that packets write: `programs/nat`, from memory, on one core. New sessions, established
//! ones, and the memory of a session.

pub mod sender;

use crate::machine;
use crate::program::{BenchProgram, Program, exact};
use crate::report::Report;
use crate::run::{CallResult, EntrantComparison, Options, Unit, format_count};
use crate::systems::nftables::{self, NatFlows};
use crate::systems::vpp::Vpp;
use crate::systems::vpp_setup::VppSetup;
use anyhow::ensure;
use entries::{StateUpdate, UpdateKind, WriteBatch};
use interp::Config;
use jit::Jit;
use sender::{BATCH, FIRST_HOST, HOSTS, INSIDE_PORT, OUTSIDE_PORT, READY, Sender, answer, packet};
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

/// Name of the chart of established sessions.
pub const CHART: &str = "source NAT, established sessions";
/// Name of the group of new sessions and memory.
pub const GROUP: &str = "source NAT";
/// Numbers of sessions that are measured.
pub const SIZES: [usize; 4] = [1_000, 100_000, 1_000_000, 10_000_000];

/// Largest number of sessions for which other systems run: 10 M would take more than 12 GB.
const MAX_PEER_SESSIONS: usize = 1_000_000;
/// Name of the kernel's NAT in charts.
pub const KERNEL: &str = "nftables snat";
/// Name of VPP in charts.
pub const VPP: &str = "VPP NAT44-ED";
/// Name of the chart of workers.
pub const WORKERS_CHART: &str = "source NAT, both directions of sessions";
/// Sessions of the chart of workers.
const WORKERS_SESSIONS: u32 = 100_000;

/// Measures all numbers of sessions, beside VPP if there is a build of it.
///
/// # Errors
/// If the program is missing or falls back to the interpreter, or a packet is not forwarded.
pub fn run(
    programs: &Path,
    vpp_build: Option<&Path>,
    core: usize,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let program = Program::load(BenchProgram::Nat, programs)?;
    for sessions in options.sizes(&SIZES) {
        measure(&program, sessions, options, report)?;
        if sessions > MAX_PEER_SESSIONS {
            continue;
        }
        if let Err(error) = measure_kernel(sessions, options, report) {
            report.note(format!("state: without {KERNEL}, {} sessions: {error:#}", format_count(sessions)));
        }
        if let Some(build) = vpp_build {
            measure_vpp(build, core, sessions, report)?;
        }
    }
    if vpp_build.is_none() {
        report.note("state: without VPP: pass the folder of a build as --vpp");
    }
    measure_workers(&program, core, options, report)
}

/// Returns an engine with the program and its configuration.
fn engine(program: &Program) -> anyhow::Result<Jit> {
    let mut engine = Jit::new(program.pipeline.clone(), Config::default())?;
    ensure!(engine.fallback_reason().is_none(), "nat.p4 runs on the interpreter: {:?}", engine.fallback_reason());
    engine.write(&configuration(program)?)?;
    Ok(engine)
}

/// Adds a session for each number. Returns the processor time of the packets. In between the time
/// advances, as a node's housekeeping thread does on another core: it allocates memory ahead of need.
fn add_sessions(engine: &mut Jit, sender: &mut Sender, numbers: &[u32]) -> anyhow::Result<Duration> {
    let mut spent = Duration::ZERO;
    for numbers in numbers.chunks(BATCH * READY) {
        spent += sender.send(engine, numbers.iter().map(|number| packet(*number)))?;
        engine.advance_time(sender.now_ns());
    }
    Ok(spent)
}

/// Returns the name of a figure for a number of sessions.
pub fn figure(sessions: usize, what: &str) -> String {
    format!("{} sessions: {what}", format_count(sessions))
}

fn measure(program: &Program, sessions: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let mut engine = engine(program)?;
    let before = machine::resident_bytes();
    let mut sender = Sender::new(INSIDE_PORT);
    // In an order that no table follows: a multiplication by an odd number permutes.
    let order: Vec<u32> = permutation(sessions as u32).collect();
    let spent = add_sessions(&mut engine, &mut sender, &order)?;
    report.fact(GROUP, &figure(sessions, "new sessions"), sessions as f64 / spent.as_secs_f64() / 1e6, "M/s");
    let bytes = machine::resident_bytes().saturating_sub(before) as f64 / sessions as f64;
    report.fact(GROUP, &figure(sessions, "memory of a session"), bytes, "bytes");

    let (engine, sender) = (RefCell::new(engine), RefCell::new(sender));
    let mut next = options.seed as u32;
    let mut contest = EntrantComparison::new(CHART, "sessions", format_count(sessions), Unit::Mpps);
    contest.entrant("terrace", || {
        let packets: Vec<[u8; 60]> = (0..BATCH * READY).map(|_| packet(random_session(&mut next, sessions))).collect();
        let took = sender.borrow_mut().send(&mut engine.borrow_mut(), packets.into_iter());
        CallResult { operations: (BATCH * READY) as u64, took: Some(took.unwrap_or(Duration::MAX)) }
    });
    report.push(contest.run(options));
    Ok(())
}

fn random_session(next: &mut u32, sessions: usize) -> u32 {
    *next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    ((u64::from(*next) * sessions as u64) >> 32) as u32
}

/// Adds VPP to the chart and the figures of a number of sessions, with the same packets.
fn measure_vpp(build: &Path, core: usize, sessions: usize, report: &mut Report) -> anyhow::Result<()> {
    let order: Vec<u32> = permutation(sessions as u32).collect();
    let packets = order.iter().map(|session| packet(*session).to_vec());
    let rates = Vpp::start(build, core, &VppSetup::source_nat(sessions), packets)?.measure()?;
    report.fact(GROUP, &figure(sessions, &format!("{VPP}, new sessions")), rates.new_per_s / 1e6, "M/s");
    let mpps = rates.established_pps / 1e6;
    report.fact(GROUP, &figure(sessions, &format!("{VPP}, established")), mpps, "Mpps");
    let megabytes = rates.resident_bytes as f64 / 1e6;
    report.fact(GROUP, &figure(sessions, &format!("{VPP}, resident memory")), megabytes, "MB");
    report.add_entry(CHART, &format_count(sessions), VPP, mpps);
    Ok(())
}

/// Adds the kernel to the chart and the figures of a number of sessions, with the same packets.
fn measure_kernel(sessions: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let flows = NatFlows { sessions: sessions as u32, hosts: HOSTS, first_host: FIRST_HOST, packet: packet(0) };
    let rates = nftables::measure(&flows, options.window * options.windows as u32)?;
    report.fact(GROUP, &figure(sessions, &format!("{KERNEL}, new sessions")), rates.new_per_s / 1e6, "M/s");
    let mpps = rates.established_pps / 1e6;
    report.fact(GROUP, &figure(sessions, &format!("{KERNEL}, established")), mpps, "Mpps");
    report.add_entry(CHART, &format_count(sessions), KERNEL, mpps);
    Ok(())
}

/// Measures one worker with the packets from inside, and two at the same time, of which the second
/// has the answers: each session's directions are on different workers.
fn measure_workers(program: &Program, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("state: two workers are left out: they take two cores");
        return Ok(());
    }
    let mut first = engine(program)?;
    let mut sender = Sender::new(INSIDE_PORT);
    let inside: Vec<[u8; 60]> = permutation(WORKERS_SESSIONS).map(packet).collect();
    let mut answers = Vec::new();
    for packets in inside.chunks(BATCH * READY) {
        sender.send(&mut first, packets.iter().copied())?;
        answers.extend(sender.sent().map(answer));
    }
    let second = RefCell::new(first.new_worker());
    let first = RefCell::new(first);
    let other = if core == 0 { 1 } else { 0 };
    let length = options.window / 2;
    let run_both = |with_answers: bool| {
        let (mut first, mut second) = (first.borrow_mut(), second.borrow_mut());
        let (first, second): (&mut Jit, &mut Jit) = (&mut first, &mut second);
        let rates = std::thread::scope(|scope| {
            let answers =
                with_answers.then(|| scope.spawn(|| send_repeatedly(second, OUTSIDE_PORT, &answers, other, length)));
            let one = scope.spawn(|| send_repeatedly(first, INSIDE_PORT, &inside, core, length));
            [Some(one), answers].map(|thread| thread.map_or(0.0, |thread| thread.join().unwrap_or(0.0)))
        });
        let rate: f64 = rates.iter().sum();
        CallResult { operations: 1_000_000, took: Some(Duration::from_secs_f64(1e6 / rate.max(1.0))) }
    };
    let mut contest =
        EntrantComparison::new(WORKERS_CHART, "sessions", format_count(WORKERS_SESSIONS as usize), Unit::Mpps);
    contest.entrant("one worker", || run_both(false));
    contest.entrant("two workers", || run_both(true));
    report.push(contest.run(options));
    Ok(())
}

/// Sends the packets again and again on a core, for a time. Returns packets per second of processor
/// time; 0 if one is not forwarded.
fn send_repeatedly(engine: &mut Jit, port: u32, packets: &[[u8; 60]], core: usize, length: Duration) -> f64 {
    machine::pin_to_core(core);
    let mut sender = Sender::new(port);
    let (mut sent, mut spent) = (0, Duration::ZERO);
    for packets in packets.chunks(BATCH * READY).cycle() {
        let Ok(took) = sender.send(engine, packets.iter().copied()) else { return 0.0 };
        (sent, spent) = (sent + packets.len(), spent + took);
        if spent >= length {
            break;
        }
    }
    sent as f64 / spent.as_secs_f64().max(1e-9)
}

/// Returns the numbers below `count` in a scattered order.
fn permutation(count: u32) -> impl Iterator<Item = u32> {
    let bits = u32::BITS - count.max(2).leading_zeros();
    let mask = u32::MAX >> (u32::BITS - bits);
    (0..=mask).map(move |n| n.wrapping_mul(0x9e37_79b1) & mask).filter(move |n| *n < count)
}

/// Returns the entries of `links`, and long expire times.
fn configuration(program: &Program) -> anyhow::Result<WriteBatch> {
    let links = program.table("links", ["inside", "outside"])?;
    let (mac, next_mac) = (0x0200_0000_0001, 0x0200_0000_0022);
    let pool = [u64::from(FIRST_HOST & 0xffff_0000), 0xcb00_7100, 1024, 64, 0x5eed];
    let inside = [[u64::from(OUTSIDE_PORT), mac, next_mac].as_slice(), &pool].concat();
    let entries = [
        links.entry(vec![exact(INSIDE_PORT)], 0, &inside),
        links.entry(vec![exact(OUTSIDE_PORT)], 1, &[u64::from(INSIDE_PORT), mac, next_mac]),
    ];
    let mut updates: Vec<StateUpdate> =
        entries.into_iter().map(|entry| StateUpdate::Entry(UpdateKind::Insert, entry)).collect();
    updates.extend((0..4).map(|profile| StateUpdate::ExpireTime(profile, 7_440_000_000_000)));
    Ok(WriteBatch { updates })
}
