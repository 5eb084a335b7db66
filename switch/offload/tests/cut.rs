//! Compares a partitioned pipeline with the whole: random programs, split at random cut points.
//!
//! The interpreter runs the whole, the upper half and the lower half. Packets that leave the upper
//! half on the port to the lower tier enter the lower half, and its output passes the upper half
//! again. Of hot tables the upper half has some entries, which change repeatedly. Sent packets,
//! drops and their reasons, and counts of packets and bytes must be equal.

use asic::emit::{EmitTarget, GressUse as Pipe};
use asic::transform::TableSizes;
use entries::{StateUpdate, StoredEntry, WriteBatch, WriteError};
use fastrand::Rng;
use interp::{EntryRuntimeState, Interp, OutPacket};
use ir::{Arch, ControlKind, ExternKind, Pipeline, TableId, Terminator};
use offload::partition::{
    CutPoint, DivideError, PROBE, PartitionError, PartitionOptions, PipelinePartition, PointInBlock, RestartPoints,
    Resumption, TableMode, bridge_wire, cut_points_for_tables, partition_for_chip, partition_pipeline,
};
use offload::upper_tier_filter::{UpperTierFilter, applied_tables};
use packet::Verdict;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use testkit::differ::case::{PacketIn, ProgramSource, TestCase, TestEvent};
use testkit::differ::compile::tofino_errors;
use testkit::differ::config::Config;
use testkit::differ::{env_number, plan};

const OPTIONS: PartitionOptions = PartitionOptions { lower_port: 300, key: 0x7e55_ace5 };

/// Cases of the run, unless `TERRACE_CASES` sets it.
const CASES: u64 = 1_000;

/// Cases of programs that are written for a chip, likewise.
const DIVIDED: u64 = 900;

#[derive(Default, Debug)]
struct Tally {
    cut: u64,
    packets: u64,
    /// Packets that reached a cut point.
    bridged: u64,
    /// Those of them that finally left.
    sent_below: u64,
    asked: u64,
    followed: u64,
    /// Hot tables; and packets that passed only the upper half while a hot table had some entries,
    /// not all.
    hot: u64,
    hot_chosen: u64,
    hot_moved: u64,
    served_above: u64,
    /// Reasons for which packets continue where they should restart.
    continued: BTreeMap<String, u64>,
    /// Packets that restarted below.
    restarted: u64,
    /// Tables that packets write to with some entries above; packets that hit one of these there; and
    /// entries that ended below while they were above.
    cached: u64,
    cached_hits: u64,
    cached_ended: u64,
    refused: BTreeMap<&'static str, u64>,
    skipped: u64,
}

/// Returns some possible cut points of the control.
fn places(rng: &mut Rng, pipeline: &Pipeline) -> Vec<CutPoint> {
    let wanted = if pipeline.arch == Arch::Pna { ControlKind::MainControl } else { ControlKind::Ingress };
    let Some((id, control)) = pipeline.controls.iter().find(|(_, c)| c.kind == wanted) else { return Vec::new() };
    let mut all = Vec::new();
    for (block, data) in control.body.blocks.iter() {
        let mut add = |at, hot, resumption| {
            all.push(CutPoint { control: id, block, at, is_hot_miss: hot, resumption, reason: "asked".to_owned() })
        };
        let resumption = |rng: &mut Rng| match rng.u8(..3) {
            0 => Resumption::Restart,
            _ => Resumption::Continue,
        };
        (0..data.insts.len()).for_each(|n| add(PointInBlock::Inst(n), false, resumption(rng)));
        let applies = matches!(data.term.as_ref().map(|term| &term.term), Some(Terminator::Apply { .. }));
        add(PointInBlock::Term, applies && rng.bool(), resumption(rng));
        if applies {
            add(PointInBlock::Term, true, Resumption::Continue);
        }
    }
    rng.shuffle(&mut all);
    // Often a hot table alone, because each further cut point implies others, until little remains
    // above.
    if rng.bool() && all.iter().any(|stop| stop.is_hot_miss) {
        all.retain(|stop| stop.is_hot_miss);
        all.truncate(1);
    }
    all.truncate(rng.usize(1..=3));
    all
}

/// Returns the cut points of a program of which the upper half has some entries of each table to which
/// packets add entries.
fn cached_places(pipeline: &Pipeline) -> Vec<CutPoint> {
    let written = pipeline.tables.iter().filter(|(_, table)| table.add_on_miss);
    let modes = written.map(|(table, _)| (table, TableMode::Hot(8))).collect();
    cut_points_for_tables(pipeline, &modes).unwrap_or_default()
}

struct Halves {
    whole: Interp,
    upper: Interp,
    lower: Interp,
    share: UpperTierFilter,
    /// Size of a bridge header in bytes.
    bridge: usize,
    /// Cut points at which packets restart below.
    restarts: RestartPoints,
    seed: u64,
    /// Hits above of entries that packets have added.
    hits: BTreeMap<(TableId, Box<[u64]>), u64>,
}

type Seen = Vec<(Verdict, Vec<u8>)>;

fn seen(packet: &OutPacket) -> (Verdict, Vec<u8>) {
    (packet.verdict, packet.bytes.clone())
}

impl Halves {
    fn new(case: &TestCase, cut: &PipelinePartition, room: u64) -> Halves {
        let engine = |pipeline: Arc<Pipeline>| Interp::new(pipeline, case.setup.clone()).expect("it loads");
        let mut with_port = case.setup.clone();
        with_port.ports = with_port.ports.map(|mut ports| {
            ports.insert(OPTIONS.lower_port);
            ports
        });
        let upper = Interp::new(Arc::new(cut.upper.clone()), with_port).expect("the upper half loads");
        Halves {
            whole: engine(case.pipeline.clone()),
            upper,
            lower: engine(Arc::new(cut.lower.clone())),
            share: UpperTierFilter::new(&case.pipeline, cut, |_| room),
            bridge: cut.bridge_bits() as usize / 8,
            restarts: cut.restart_points(),
            seed: case.seed,
            hits: BTreeMap::new(),
        }
    }

    /// Returns the entries above of tables to which packets add entries.
    fn cached(&self) -> Vec<(TableId, StoredEntry)> {
        let written = |table: &TableId| self.whole.pipeline().tables[*table].add_on_miss;
        let sets = self.share.hot_sets().filter(|(table, _)| written(table));
        sets.flat_map(|(table, hot)| hot.entries().map(move |entry| (table, entry.clone()))).collect()
    }

    /// Removes entries above that have ended below before a packet arrives.
    fn end_cached(&mut self, at: u64, tally: &mut Tally) {
        if self.cached().is_empty() {
            return;
        }
        self.whole.advance_time(at);
        self.lower.advance_time(at);
        for (table, entry) in self.cached() {
            if self.lower.state().get_entry(table, entry.key(), entry.priority()).is_none() {
                tally.cached_ended += 1;
                let mut batch = WriteBatch::new();
                assert!(self.share.remove_hot(table, &entry, &mut batch));
                self.upper.write(&batch).expect("it has the entry");
            }
        }
    }

    /// Restarts the timers below of entries that a packet has just hit above.
    fn restart_timers(&mut self, at: u64, tally: &mut Tally) {
        for (table, entry) in self.cached() {
            let above = self.upper.state().get_entry(table, entry.key(), entry.priority()).cloned();
            let above = above.unwrap_or_else(|| panic!("it is above: {entry:?}"));
            let count = self.upper.entry_counter(table, &above).map_or(0, |count| count.packets);
            if self.hits.insert((table, entry.key().into()), count).unwrap_or(0) < count {
                tally.cached_hits += 1;
                let level = self.lower.entry_level(table, &entry).expect("it is below, too");
                self.lower.set_entry_level(table, &entry, EntryRuntimeState { idle_since_ns: at, ..level });
            }
        }
    }

    /// Runs the lower half's output through the upper half.
    fn back(&mut self, packet: &OutPacket, at: u64) -> Vec<(Verdict, Vec<u8>)> {
        let Verdict::Forward { port } = packet.verdict else { return vec![seen(packet)] };
        let mut frame = vec![0; self.bridge];
        bridge_wire::write_return_header(&mut frame, OPTIONS.key, port.0, 0);
        frame.extend_from_slice(&packet.bytes);
        self.upper.process(&frame, OPTIONS.lower_port, at).packets().iter().map(seen).collect()
    }

    /// Changes the hot entries.
    fn choose(&mut self, seed: u64, tally: &mut Tally) {
        let tables: Vec<TableId> = self.share.hot_sets().map(|(table, _)| table).collect();
        for table in tables {
            let state = self.lower.state().clone();
            let weigh = |entry: &StoredEntry| {
                let mut hasher = DefaultHasher::new();
                (seed, entry.key(), entry.priority()).hash(&mut hasher);
                hasher.finish() % 4
            };
            let (moves, batch) = self.share.reselect_hot(table, &state, weigh);
            tally.hot_chosen += moves.added.len() as u64;
            tally.hot_moved += moves.removed.len() as u64;
            self.upper.write(&batch).expect("the upper half takes what was chosen");
        }
    }

    /// Writes a batch that the whole accepts to both halves.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let changes = self.lower.state().clone().apply(batch)?;
        let above = self.share.filter_batch(batch, &changes);
        self.upper.write(&above)?;
        self.lower.write(batch)
    }

    fn packet(&mut self, bytes: &[u8], port: u32, at: u64, tally: &mut Tally) -> (Seen, Seen) {
        self.end_cached(at, tally);
        let expected = self.whole.process(bytes, port, at).packets().iter().map(seen).collect();
        let mut found = Seen::new();
        for first in self.upper.process(bytes, port, at).packets() {
            match first.verdict {
                Verdict::Forward { port: to } if to.0 == OPTIONS.lower_port => {
                    tally.bridged += 1;
                    let mut frame = first.bytes.clone();
                    let told = bridge_wire::complete_header(&mut frame, OPTIONS.key, to.0, bytes.len() as u16, 0);
                    let told = told.filter(|told| told.cut_point < PROBE).expect("what goes down has a bridge header");
                    let below = if self.restarts.contains(told.cut_point) {
                        tally.restarted += 1;
                        assert_eq!(
                            &frame[self.bridge..],
                            bytes,
                            "seed {}, cut point {}: it goes down as it arrived",
                            self.seed,
                            told.cut_point
                        );
                        self.lower.set_metered_length(None);
                        self.lower.process(bytes, port, at)
                    } else {
                        self.lower.set_metered_length(Some(told.length_bytes.into()));
                        self.lower.process(&frame, OPTIONS.lower_port, at)
                    };
                    tally.sent_below += below.sent().count() as u64;
                    for packet in below.packets() {
                        found.extend(self.back(packet, at));
                    }
                }
                _ => {
                    tally.served_above += u64::from(self.share.hot_sets().any(|(_, hot)| !hot.is_empty()));
                    found.push(seen(first));
                }
            }
        }
        tally.packets += 1;
        self.restart_timers(at, tally);
        (expected, found)
    }

    /// Compares the counts of the whole with the sum of both halves.
    fn counters(&self, what: &dyn Fn() -> String) {
        let pipeline = self.whole.pipeline().clone();
        for (id, object) in pipeline.externs.iter() {
            let ExternKind::Counter { size, .. } = object.kind else { continue };
            for index in 0..size.min(256) {
                let count =
                    |engine: &Interp| engine.counter(id, index).map_or([0, 0], |data| [data.packets, data.bytes]);
                let [above, below] = [&self.upper, &self.lower].map(count);
                let (expected, found) = (count(&self.whole), [0, 1].map(|n| above[n].wrapping_add(below[n])));
                let name = &object.preamble.name;
                assert!(expected == found, "{}: counter {name} [{index}]: {expected:?}, {found:?}", what());
            }
        }
    }
}

fn describe(case: &TestCase, cut: &PipelinePartition) -> String {
    let upper = ir::text::print(&cut.upper);
    let lower = ir::text::print(&cut.lower);
    let whole = ir::text::print(&case.pipeline);
    let path = std::env::temp_dir().join(format!("terrace-cut-{}.txt", case.seed));
    let text = format!("{:#?}\n{whole}\n---- upper\n{upper}\n---- lower\n{lower}", cut.cut_points);
    let written = std::fs::write(&path, text).is_ok();
    if written { format!("the pipelines are in {}", path.display()) } else { String::new() }
}

fn compare(case: &TestCase, cut: &PipelinePartition, tally: &mut Tally) {
    let mut halves = Halves::new(case, cut, case.seed % 9);
    if env_number("TERRACE_DESCRIBE", 0) == case.seed {
        eprintln!("{}", describe(case, cut));
    }
    if env_number("TERRACE_DESCRIBE", 0) == 1 {
        eprintln!("seed {}", case.seed);
    }
    tally.hot += cut.hot_tables.len() as u64;
    let above = applied_tables(&cut.upper);
    let written = |table: &&TableId| case.pipeline.tables[**table].add_on_miss;
    tally.cached += cut.hot_tables.iter().filter(written).count() as u64;
    let unused = cut.hot_tables.iter().find(|table| !above.contains(table));
    assert_eq!(unused, None, "seed {}: nobody looks for hot entries there; {}", case.seed, describe(case, cut));
    for (number, step) in case.steps.iter().enumerate() {
        if (case.seed + number as u64).is_multiple_of(2) {
            halves.choose(case.seed + number as u64, tally);
        }
        match step {
            TestEvent::Write(batch) => {
                // A counter exists in both halves, and the control plane reads the sum: a write
                // sets only one of them.
                let mut batch = batch.clone();
                batch.updates.retain(|update| !matches!(update, StateUpdate::Counter(..)));
                let whole = halves.whole.write(&batch);
                let halves = halves.write(&batch);
                // Tables that packets add to may differ in the entries that can be deleted. When
                // one side accepts a batch that the other rejects, their entries and packets
                // differ, so the case ends here.
                if whole.is_ok() != halves.is_ok() {
                    let written = case.pipeline.tables.values().any(|t| t.add_on_miss || t.idle_timeout);
                    assert!(written, "seed {}: {whole:?} {halves:?}", case.seed);
                    return;
                }
            }
            TestEvent::Tick(at) => {
                for engine in [&mut halves.whole, &mut halves.upper, &mut halves.lower] {
                    engine.advance_time(*at);
                }
            }
            TestEvent::Packets(packets) => {
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
    let (cases, first) = (env_number("TERRACE_CASES", CASES), env_number("TERRACE_SEED", 1));
    eprintln!("seeds {first}..{}; TERRACE_SEED and TERRACE_CASES change that", first + cases);
    let config = Config { packets: 120, random: 0, ..Config::small() };
    let mut tally = Tally::default();
    for seed in first..first + cases {
        let case = plan::generate_case(seed, &config).expect("a program that compiles");
        let stops = places(&mut Rng::with_seed(seed), &case.pipeline);
        match partition_pipeline(&case.pipeline, &stops, OPTIONS) {
            Ok(cut) => {
                tally.cut += 1;
                tally.asked += cut.cut_points.iter().filter(|point| point.is_requested).count() as u64;
                tally.followed += cut.cut_points.iter().filter(|point| !point.is_requested).count() as u64;
                compare(&case, &cut, &mut tally);
            }
            Err(PartitionError::Varbit(_)) => *tally.refused.entry("varbit").or_default() += 1,
            Err(PartitionError::EgressLength) => *tally.refused.entry("length").or_default() += 1,
            Err(PartitionError::SecondPass(_)) => *tally.refused.entry("again").or_default() += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    eprintln!("{tally:#?}");
    // The comparison must have covered enough to be meaningful.
    assert!(tally.cut * 3 > cases, "{tally:?}");
    assert!(tally.bridged * 5 > tally.packets && tally.bridged < tally.packets, "{tally:?}");
    assert!(tally.sent_below * 10 > tally.bridged && tally.followed > 0, "{tally:?}");
    assert!(tally.hot * 20 > tally.cut && tally.hot_chosen > tally.hot && tally.hot_moved > 0, "{tally:?}");
    assert!(tally.served_above * 300 > tally.packets, "{tally:?}");
}

/// The upper half has some entries of the tables to which packets add entries. Packets that miss there,
/// or change an expire time, restart below.
#[test]
fn halves_with_entries_of_packets_do_what_the_whole_does() {
    let (cases, first) = (env_number("TERRACE_CASES", CASES), env_number("TERRACE_SEED", 1));
    eprintln!("seeds {first}..{}; TERRACE_SEED and TERRACE_CASES change that", first + cases);
    let config = Config {
        pna: 95,
        packets: 120,
        random: 0,
        stacks: 10,
        externs: 10,
        unions: 1,
        varbits: 1,
        passes: 3,
        multicast: 3,
        add_on_miss: 60,
        sessions: 40,
        applied_twice: 30,
        ragged: 0,
        plain_packets: true,
        ..Config::small()
    };
    let mut tally = Tally::default();
    for seed in first..first + cases {
        // Other seeds have few of these tables.
        let case = plan::generate_case(3 * seed, &config).expect("a program that compiles");
        let mut stops = cached_places(&case.pipeline);
        // Some have other cut points beside them.
        if seed % 3 == 0 && !stops.is_empty() {
            stops.extend(places(&mut Rng::with_seed(seed), &case.pipeline).into_iter().take(1));
        }
        if stops.is_empty() {
            tally.skipped += 1;
            continue;
        }
        match partition_pipeline(&case.pipeline, &stops, OPTIONS) {
            Ok(cut) => {
                tally.cut += 1;
                for reason in cut.cut_points.iter().filter_map(|point| point.reason.split_once("because ")) {
                    *tally.continued.entry(reason.1.split('`').next().unwrap_or_default().to_owned()).or_default() += 1;
                }
                compare(&case, &cut, &mut tally);
            }
            Err(PartitionError::Varbit(_)) => *tally.refused.entry("varbit").or_default() += 1,
            Err(PartitionError::EgressLength) => *tally.refused.entry("length").or_default() += 1,
            Err(PartitionError::SecondPass(_)) => *tally.refused.entry("again").or_default() += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    eprintln!("{tally:#?}");
    assert!(tally.cached * 4 > cases && tally.restarted > tally.cached, "{tally:?}");
    assert!(tally.cached_hits > cases && tally.cached_ended > 0 && tally.hot_moved > 0, "{tally:?}");
}

/// Programs are written for a chip as far as it can express them. Both halves, the upper one before
/// it is written, agree with the whole.
#[test]
fn what_a_chip_has_no_form_for_is_done_below() {
    let (cases, first) = (env_number("TERRACE_CASES", DIVIDED), env_number("TERRACE_SEED", 1));
    eprintln!("seeds {first}..{}; TERRACE_SEED and TERRACE_CASES change that", first + cases);
    let config = Config { packets: 120, random: 0, ..Config::small() };
    let (mut tally, mut whole) = (Tally::default(), 0);
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + cases {
        let case = plan::generate_case(seed, &config).expect("a program that compiles");
        if case.pipeline.arch != Arch::Pna {
            tally.skipped += 1;
            continue;
        }
        match partition_for_chip(&case.pipeline, EmitTarget::T2na, &TableSizes::new(), Pipe::Ingress, OPTIONS) {
            Ok(divided) => {
                let errors = tofino_errors(&divided.emitted.text);
                assert!(errors.is_empty(), "seed {seed}: {}\n{}", errors.join("\n"), divided.emitted.text);
                divided.emitted.left_out.iter().for_each(|what| *left.entry(what.construct.clone()).or_default() += 1);
                let Some(cut) = divided.partition else {
                    whole += 1;
                    continue;
                };
                tally.cut += 1;
                tally.followed += cut.cut_points.iter().filter(|point| !point.is_requested).count() as u64;
                tally.asked += cut.cut_points.iter().filter(|point| point.is_requested).count() as u64;
                compare(&case, &cut, &mut tally);
            }
            Err(DivideError::Cut { error: PartitionError::Varbit(_), .. }) => {
                *tally.refused.entry("varbit").or_default() += 1
            }
            Err(DivideError::Cut { error: PartitionError::SecondPass(_), .. }) => {
                *tally.refused.entry("again").or_default() += 1
            }
            Err(DivideError::Cut { error, .. }) => panic!("seed {seed}: {error}"),
            Err(DivideError::Emit(error)) => {
                *left.entry(format!("refused: {error}")).or_default() += 1;
                *tally.refused.entry("no form").or_default() += 1;
            }
        }
    }
    eprintln!("{whole} whole, left out: {left:#?}\n{tally:#?}");
    assert!(tally.cut * 10 > cases - tally.skipped && tally.asked > tally.cut, "{tally:?}");
    assert!(tally.packets >= 120 * tally.cut && tally.bridged < tally.packets, "{tally:?}");
}

/// Three in sixteen packets need code that a chip cannot express. Only those are passed to the tier
/// below, whatever path others take.
#[test]
fn only_packets_that_need_more_than_a_chip_can_do_go_down() {
    let text = include_str!("programs/rare.p4");
    let pipeline = Arc::new(testkit::differ::compile::compile(text, true).unwrap_or_else(|error| panic!("{error}")));
    let divided = partition_for_chip(&pipeline, EmitTarget::Tna, &TableSizes::new(), Pipe::Ingress, OPTIONS)
        .expect("it can be divided");
    assert!(divided.emitted.left_out.is_empty(), "{:?}", divided.emitted.left_out);
    let cut = divided.partition.expect("the chip cannot divide");
    let why: Vec<&str> = cut.cut_points.iter().map(|point| point.reason.as_str()).collect();
    assert_eq!(why, ["multiplication or division", "`digest.pack`", "arithmetic on more than 32 bits"]);
    let mut rng = Rng::with_seed(1);
    let mut packet = |n: u64| PacketIn {
        port: rng.u32(..4),
        at: n,
        bytes: [&[rng.u8(..16), rng.u8(..4)], &std::array::from_fn::<u8, 30, _>(|_| rng.u8(..))[..]].concat(),
    };
    let packets: Vec<PacketIn> = (0..2_000).map(&mut packet).collect();
    let needs = packets.iter().filter(|packet| (7..=9).contains(&packet.bytes[0])).count() as u64;
    let source = ProgramSource::File("rare.p4".to_owned());
    let case = TestCase {
        seed: 1,
        source,
        pipeline,
        setup: interp::Config::default(),
        steps: vec![TestEvent::Packets(packets)],
    };
    let mut tally = Tally::default();
    compare(&case, &cut, &mut tally);
    assert!((300..450).contains(&needs) && tally.bridged == needs, "{needs} packets need more: {tally:?}");
}

/// All programs of the PNA corpus can be divided, except those that mirror or recirculate and one
/// deparser that emits too little. Only counters and deparser code are omitted.
#[test]
fn the_corpus_is_divided() {
    let root = testkit::gateway::root();
    let files = std::fs::read_dir(root.join("tests/corpus/pna")).expect("the corpus");
    let mut files: Vec<_> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "p4"));
    files.sort();
    let (mut refused, mut left, mut cuts) = (Vec::new(), Vec::new(), 0);
    for path in &files {
        let pipeline = testkit::gateway::compile(path).unwrap_or_else(|error| panic!("{error}"));
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match partition_for_chip(&pipeline, EmitTarget::Tna, &TableSizes::new(), Pipe::Ingress, OPTIONS) {
            Ok(divided) => {
                let errors = tofino_errors(&divided.emitted.text);
                assert!(errors.is_empty(), "{name}: {}\n{}", errors.join("\n"), divided.emitted.text);
                cuts += u64::from(divided.partition.is_some());
                left.extend((!divided.emitted.left_out.is_empty()).then_some(name));
            }
            Err(_) => refused.push(name),
        }
    }
    // The first one emits only some of the headers that the tier below needs; the last one
    // recirculates, too.
    assert_eq!(refused, ["checksum", "mirror", "recirculate", "three_blocks"]);
    assert_eq!(left, ["counter_direct", "digest", "idle_auto_delete"]);
    assert!(files.len() > 20 && cuts > 8, "{cuts} of {} were cut", files.len());
}
