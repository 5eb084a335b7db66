//! A pipeline in two does what the whole does: random programs, cut at random places.
//!
//! The interpreter runs the whole, the upper half and the lower half. What leaves the upper half on the port that leads down is given to the
//! lower one. Packets that leave, drops and their reasons, and packets counted must be the same.

use fastrand::Rng;
use interp::{Interp, OutPacket};
use ir::{Arch, Arg, ControlKind, ExternFn, ExternKind, Inst, MeterUnit, Pipeline};
use offload::cut::{At, Cut, CutError, Options, Stop, cut};
use packet::Verdict;
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::Update;
use testkit::differ::case::{Case, Step};
use testkit::differ::config::Config;
use testkit::differ::plan;

const OPTIONS: Options = Options { down_port: 300, key: 0x7e55_ace5 };

/// Cases of the run, unless `TERRACE_CASES` says otherwise.
const CASES: u64 = 1_000;

#[derive(Default, Debug)]
struct Tally {
    cut: u64,
    packets: u64,
    /// Packets that came to a stop.
    bridged: u64,
    /// Of those, packets that left at last.
    sent_below: u64,
    asked: u64,
    followed: u64,
    refused: BTreeMap<&'static str, u64>,
    skipped: u64,
}

/// Some places in the control that can be cut.
fn places(rng: &mut Rng, pipeline: &Pipeline) -> Vec<Stop> {
    let wanted = if pipeline.arch == Arch::Pna { ControlKind::MainControl } else { ControlKind::Ingress };
    let Some((id, control)) = pipeline.controls.iter().find(|(_, c)| c.kind == wanted) else { return Vec::new() };
    let mut all = Vec::new();
    for (block, data) in control.body.blocks.iter() {
        let mut add = |at| all.push(Stop { control: id, block, at, why: "asked".to_owned() });
        (0..data.insts.len()).for_each(|n| add(At::Inst(n)));
        add(At::Term);
    }
    rng.shuffle(&mut all);
    all.truncate(rng.usize(1..=3));
    all
}

/// What depends on the packet's length as it was received, which the lower half does not know.
fn asks_for_bytes(pipeline: &Pipeline) -> bool {
    let by_bytes = |kind: &ExternKind| {
        matches!(
            kind,
            ExternKind::Meter { unit: MeterUnit::Bytes, .. } | ExternKind::DirectMeter { unit: MeterUnit::Bytes }
        )
    };
    let length = pipeline.intrinsics.get("standard_metadata.packet_length");
    let egress = pipeline.controls.values().filter(|control| control.kind == ControlKind::Egress);
    let insts = egress.flat_map(|control| control.body.blocks.values()).flat_map(|block| &block.insts);
    let loads = |inst: &Inst| matches!((inst, length), (Inst::Load(var), Some(length)) if var == length);
    insts.into_iter().any(|data| loads(&data.inst)) || pipeline.externs.values().any(|inst| by_bytes(&inst.kind))
}

/// Random numbers come from one sequence for all objects: split in two, each half has its own.
fn is_random(pipeline: &Pipeline) -> bool {
    let insts = pipeline.controls.values().flat_map(|c| c.body.blocks.values()).flat_map(|b| &b.insts);
    insts.into_iter().any(|data| {
        let Inst::Extern { func, args, .. } = &data.inst else { return false };
        let hashed = args.iter().any(|arg| matches!(arg, Arg::Str(name) if name == "random"));
        matches!(func, ExternFn::Random | ExternFn::RandomRead) || hashed
    })
}

struct Halves {
    whole: Interp,
    upper: Interp,
    lower: Interp,
}

type Seen = Vec<(Verdict, Vec<u8>)>;

fn seen(packet: &OutPacket) -> (Verdict, Vec<u8>) {
    (packet.verdict, packet.bytes.clone())
}

impl Halves {
    fn new(case: &Case, cut: &Cut) -> Halves {
        let engine = |pipeline: Arc<Pipeline>| Interp::new(pipeline, case.setup.clone()).expect("it loads");
        let mut with_port = case.setup.clone();
        with_port.ports = with_port.ports.map(|mut ports| {
            ports.insert(OPTIONS.down_port);
            ports
        });
        let upper = Interp::new(Arc::new(cut.upper.clone()), with_port).expect("the upper half loads");
        Halves { whole: engine(case.pipeline.clone()), upper, lower: engine(Arc::new(cut.lower.clone())) }
    }

    fn packet(&mut self, bytes: &[u8], port: u32, at: u64, tally: &mut Tally) -> (Seen, Seen) {
        let expected = self.whole.process(bytes, port, at).packets().iter().map(seen).collect();
        let mut found = Seen::new();
        for first in self.upper.process(bytes, port, at).packets() {
            match first.verdict {
                Verdict::Forward { port } if port.0 == OPTIONS.down_port => {
                    tally.bridged += 1;
                    let below = self.lower.process(&first.bytes, OPTIONS.down_port, at);
                    tally.sent_below += below.sent().count() as u64;
                    found.extend(below.packets().iter().map(seen));
                }
                _ => found.push(seen(first)),
            }
        }
        tally.packets += 1;
        (expected, found)
    }

    /// Packets counted: both halves together.
    fn counters(&self, what: &dyn Fn() -> String) {
        let pipeline = self.whole.pipeline().clone();
        for (id, object) in pipeline.externs.iter() {
            let ExternKind::Counter { size, .. } = object.kind else { continue };
            for index in 0..size.min(256) {
                let count = |engine: &Interp| engine.counter(id, index).map_or(0, |data| data.packets);
                let (expected, found) = (count(&self.whole), count(&self.upper) + count(&self.lower));
                let name = &object.preamble.name;
                assert!(expected == found, "{}: counter {name} [{index}]: {expected}, {found}", what());
            }
        }
    }
}

fn describe(case: &Case, cut: &Cut) -> String {
    let upper = ir::text::print(&cut.upper);
    let lower = ir::text::print(&cut.lower);
    let whole = ir::text::print(&case.pipeline);
    let path = std::env::temp_dir().join(format!("terrace-cut-{}.txt", case.seed));
    let text = format!("{:#?}\n{whole}\n---- upper\n{upper}\n---- lower\n{lower}", cut.points);
    let written = std::fs::write(&path, text).is_ok();
    if written { format!("the pipelines are in {}", path.display()) } else { String::new() }
}

fn compare(case: &Case, cut: &Cut, tally: &mut Tally) {
    let mut halves = Halves::new(case, cut);
    for step in &case.steps {
        match step {
            Step::Write(batch) => {
                // A counter has two places, of which the control plane reads the sum: to set it is not for both.
                let mut batch = batch.clone();
                batch.updates.retain(|update| !matches!(update, Update::Counter(..)));
                let whole = halves.whole.write(&batch);
                let (upper, lower) = (halves.upper.write(&batch), halves.lower.write(&batch));
                // Tables that packets add to may differ in what there is to delete.
                if whole.is_ok() && (upper.is_err() || lower.is_err()) {
                    let written = case.pipeline.tables.values().any(|t| t.add_on_miss || t.idle_timeout);
                    assert!(written, "seed {}: {upper:?} {lower:?}", case.seed);
                }
            }
            Step::Tick(at) => {
                for engine in [&mut halves.whole, &mut halves.upper, &mut halves.lower] {
                    engine.advance_time(*at);
                }
            }
            Step::Packets(packets) => {
                for packet in packets {
                    let (mut expected, mut found) = halves.packet(&packet.bytes, packet.port, packet.at, tally);
                    expected.sort_by_key(|seen| format!("{seen:?}"));
                    found.sort_by_key(|seen| format!("{seen:?}"));
                    if expected != found {
                        panic!("seed {}: {packet:?}\n{expected:?}\n{found:?}\n{}", case.seed, describe(case, cut));
                    }
                }
            }
        }
    }
    halves.counters(&|| format!("seed {}; {}", case.seed, describe(case, cut)));
}

#[test]
fn halves_do_what_the_whole_does() {
    let cases = std::env::var("TERRACE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let first: u64 = std::env::var("TERRACE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    eprintln!("seeds {first}..{}; TERRACE_SEED and TERRACE_CASES change that", first + cases);
    let config = Config { packets: 120, random: 0, ..Config::small() };
    let mut tally = Tally::default();
    for seed in first..first + cases {
        let case = plan::case(seed, &config).expect("a program that compiles");
        if asks_for_bytes(&case.pipeline) || is_random(&case.pipeline) {
            tally.skipped += 1;
            continue;
        }
        let stops = places(&mut Rng::with_seed(seed), &case.pipeline);
        match cut(&case.pipeline, &stops, OPTIONS) {
            Ok(cut) => {
                tally.cut += 1;
                tally.asked += cut.points.iter().filter(|point| point.asked).count() as u64;
                tally.followed += cut.points.iter().filter(|point| !point.asked).count() as u64;
                compare(&case, &cut, &mut tally);
            }
            Err(CutError::Varbit(_)) => *tally.refused.entry("varbit").or_default() += 1,
            Err(CutError::Again(_)) => *tally.refused.entry("again").or_default() += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    eprintln!("{tally:#?}");
    // A comparison that saw too little says nothing.
    assert!(tally.cut * 3 > cases, "{tally:?}");
    assert!(tally.bridged * 5 > tally.packets, "{tally:?}");
    assert!(tally.sent_below * 10 > tally.bridged && tally.followed > 0, "{tally:?}");
}
