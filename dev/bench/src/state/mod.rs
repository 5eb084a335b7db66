//! Tables that packets write: `programs/nat`, from memory, on one core. New sessions, established
//! ones, and the memory of a session.

use crate::machine::{self, thread_time};
use crate::program::{BenchProgram, Program, exact};
use crate::report::Report;
use crate::ring;
use crate::run::{CallResult, EntrantComparison, Options, Unit, format_count};
use anyhow::ensure;
use entries::{StateUpdate, UpdateKind, WriteBatch};
use interp::Config;
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

/// Name of the chart of established sessions.
pub const CHART: &str = "source NAT, established sessions";
/// Name of the group of new sessions and memory.
pub const GROUP: &str = "source NAT";
/// Numbers of sessions that are measured.
pub const SIZES: [usize; 4] = [1_000, 100_000, 1_000_000, 10_000_000];

const INSIDE_PORT: u32 = 1;
const OUTSIDE_PORT: u32 = 2;
/// Inside hosts; the sessions are spread over them.
const HOSTS: u32 = 100_000;
/// First host, 10.0.1.0. Subscribers are numbered from 10.0.0.0 on.
const FIRST_HOST: u32 = 0x0a00_0100;
/// The server that all sessions go to, 198.51.100.1.
const SERVER: [u8; 4] = [198, 51, 100, 1];
/// Packets of a batch.
const BATCH: usize = 256;
/// Batches that are made before the clock runs. They stay in the caches.
const READY: usize = 8;

/// Measures all numbers of sessions.
///
/// # Errors
/// If the program is missing or falls back to the interpreter, or a packet is not forwarded.
pub fn run(programs: &Path, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let program = Program::load(BenchProgram::Nat, programs)?;
    for sessions in options.sizes(&SIZES) {
        measure(&program, sessions, options, report)?;
    }
    Ok(())
}

fn measure(program: &Program, sessions: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let mut engine = Jit::new(program.pipeline.clone(), Config::default())?;
    ensure!(engine.fallback_reason().is_none(), "nat.p4 runs on the interpreter: {:?}", engine.fallback_reason());
    engine.write(&configuration(program)?)?;
    let before = machine::resident_bytes();
    let mut sender = Sender::new();
    // In an order that no table follows: a multiplication by an odd number permutes.
    let order: Vec<u32> = permutation(sessions as u32).collect();
    let mut spent = Duration::ZERO;
    for numbers in order.chunks(BATCH * READY) {
        spent += sender.send(&mut engine, numbers)?;
    }
    let name = |what: &str| format!("{} sessions: {what}", format_count(sessions));
    report.fact(GROUP, &name("new sessions"), sessions as f64 / spent.as_secs_f64() / 1e6, "M/s");
    let bytes = machine::resident_bytes().saturating_sub(before) as f64 / sessions as f64;
    report.fact(GROUP, &name("memory of a session before the control plane reads it"), bytes, "bytes");

    let (engine, sender) = (RefCell::new(engine), RefCell::new(sender));
    let mut next = options.seed as u32;
    let mut contest = EntrantComparison::new(CHART, "sessions", format_count(sessions), Unit::Mpps);
    contest.entrant("terrace", || {
        let numbers: Vec<u32> = (0..BATCH * READY)
            .map(|_| {
                next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((u64::from(next) * sessions as u64) >> 32) as u32
            })
            .collect();
        let took = sender.borrow_mut().send(&mut engine.borrow_mut(), &numbers);
        CallResult { operations: numbers.len() as u64, took: Some(took.unwrap_or(Duration::MAX)) }
    });
    report.push(contest.run(options));
    Ok(())
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

/// Sends packets of sessions, which are made before the clock runs.
struct Sender {
    template: [u8; 60],
    batches: Vec<Batch>,
    out: BatchOutput,
    now_ns: u64,
}

impl Sender {
    fn new() -> Sender {
        let mut template = [0; 60];
        template[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        template[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        template[16..18].copy_from_slice(&46u16.to_be_bytes());
        (template[22], template[23]) = (64, 17);
        template[30..34].copy_from_slice(&SERVER);
        template[36..38].copy_from_slice(&53u16.to_be_bytes());
        template[38..40].copy_from_slice(&26u16.to_be_bytes());
        Sender {
            template,
            batches: (0..READY).map(|_| Batch::new()).collect(),
            out: BatchOutput::new(),
            now_ns: 1_000_000_000,
        }
    }

    /// Returns the packet of a session: 60 bytes, UDP without a checksum.
    fn packet(&self, session: u32) -> [u8; 60] {
        let mut packet = self.template;
        packet[26..30].copy_from_slice(&(FIRST_HOST + session % HOSTS).to_be_bytes());
        packet[34..36].copy_from_slice(&((1024 + session / HOSTS) as u16).to_be_bytes());
        let sum = ring::checksum(ring::words(&packet[14..34]));
        packet[24..26].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// Sends a packet of each session. Returns the processor time.
    fn send(&mut self, engine: &mut Jit, sessions: &[u32]) -> anyhow::Result<Duration> {
        self.now_ns += 1_000;
        let mut batches = std::mem::take(&mut self.batches);
        for (batch, sessions) in batches.iter_mut().zip(sessions.chunks(BATCH)) {
            batch.clear();
            for session in sessions {
                batch.push_bytes(&self.packet(*session), PortId(INSIDE_PORT), self.now_ns)?;
            }
        }
        let start = thread_time();
        let mut forwarded = 0;
        for (batch, _) in batches.iter_mut().zip(sessions.chunks(BATCH)) {
            self.out.clear();
            engine.process(batch, &mut self.out);
            forwarded += self.out.verdicts().iter().filter(|e| matches!(e.verdict, Verdict::Forward { .. })).count();
        }
        let spent = thread_time() - start;
        self.batches = batches;
        ensure!(forwarded == sessions.len(), "{forwarded} of {} packets were forwarded", sessions.len());
        Ok(spent)
    }
}
