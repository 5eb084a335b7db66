//! What is emitted for v1model and PNA, compiled again, does what the program does: same packets, drops, state, and control-plane API.
//!
//! Made programs come from the differential harness; the first seed is another one with `DIFFER_SEED`, their number with `EMIT_CASES`.

use asic::emit::{Target, emit};
use asic::rewrite::Sizes;
use ir::{Arch, ExternKind, Pipeline};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::differ::case::{Case, PacketIn, Source, Step};
use testkit::differ::compile::compile;
use testkit::differ::config::Config;
use testkit::differ::number;
use testkit::differ::subject::{Answer, Build, Oracle, Subject};
use testkit::differ::{compare, plan, print};

fn own(pipeline: &Pipeline) -> Target {
    match pipeline.arch {
        Arch::V1Model => Target::V1Model,
        Arch::Pna => Target::Pna,
    }
}

/// What happened to a program on its way out and in again.
#[derive(Debug)]
enum Fault {
    /// There is no form for something.
    Unsupported(String),
    /// All else is a bug.
    Bug(String),
}

/// The pipeline that the emitted text is.
fn again(pipeline: &Pipeline) -> Result<(String, Pipeline), Fault> {
    let text = emit(pipeline, own(pipeline), &Sizes::new()).map_err(|e| Fault::Unsupported(e.to_string()))?.text;
    let compiled = compile(&text, true).map_err(|e| Fault::Bug(format!("the text is refused:\n{e}\n{text}")))?;
    let (old, new) = (ir::p4info::generate(pipeline), ir::p4info::generate(&compiled));
    let differences = ir::p4info::differences(&new, &old);
    match differences.first() {
        Some(difference) => Err(Fault::Bug(format!("another control-plane API: {difference}\n{text}"))),
        None => Ok((text, compiled)),
    }
}

/// Tables, counters and registers, by name.
fn state(pipeline: &Pipeline, subject: &dyn Subject) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for (id, table) in pipeline.tables.iter() {
        let state = subject.state();
        let entry = |e: &entries::Entry| entries::format_entry(pipeline, &e.to_table_entry(pipeline, id));
        let mut entries: Vec<String> = state.entries(id).map(entry).collect();
        entries.sort();
        all.insert(format!("table {}", table.preamble.name), entries);
    }
    for (id, object) in pipeline.externs.iter() {
        let name = &object.preamble.name;
        let values: Vec<String> = match object.kind {
            ExternKind::Counter { size, .. } => {
                (0..size.min(512)).map(|n| format!("{:?}", subject.counter(id, n))).collect()
            }
            ExternKind::Register { size, .. } => {
                (0..size.min(512)).map(|n| format!("{:?}", subject.register(id, n))).collect()
            }
            _ => continue,
        };
        all.insert(format!("object {name}"), values);
    }
    all
}

fn digests(pipeline: &Pipeline, subject: &mut dyn Subject) -> Vec<String> {
    let taken = subject.take_digests();
    taken.into_iter().map(|(id, values)| format!("{} {values:?}", pipeline.externs[id].preamble.name)).collect()
}

/// Runs a case on the program and on what was emitted of it.
fn run(case: &Case, emitted: Arc<Pipeline>) -> Result<usize, String> {
    let moved = case.moved(case.source.clone(), emitted.clone());
    let build = |pipeline| Build { text: None, pipeline, setup: &case.setup };
    let mut old = Oracle::new(&build(&case.pipeline))?;
    let mut new = Oracle::new(&build(&emitted))?;
    let mut packets = 0;
    for (step, (left, right)) in case.steps.iter().zip(&moved.steps).enumerate() {
        match (left, right) {
            (Step::Write(left), Step::Write(right)) => {
                // What is refused may be sound once it is moved: moving gives entries the priority that they need.
                let left = old.write(left);
                if left.is_err() {
                    continue;
                }
                let right = new.write(right);
                if right.is_err() {
                    return Err(format!("step {step}: a write: {left:?}, {right:?}"));
                }
            }
            (Step::Packets(batch), _) => {
                packets += batch.len();
                let (left, right): (Answer, Answer) = (old.process(batch), new.process(batch));
                if let Some(difference) = compare::answers(&left, &right) {
                    return Err(format!("step {step}: {difference}"));
                }
            }
            (Step::Tick(now), _) => {
                old.tick(*now);
                new.tick(*now);
            }
            _ => return Err("steps that do not fit".to_owned()),
        }
        let (left, right) = (digests(&case.pipeline, &mut old), digests(&emitted, &mut new));
        if left != right {
            return Err(format!("step {step}: digests {left:?}, {right:?}"));
        }
    }
    let (left, right) = (state(&case.pipeline, &old), state(&emitted, &new));
    for (name, left) in &left {
        if right.get(name) != Some(left) {
            return Err(format!("{name}: {left:?}, {:?}", right.get(name)));
        }
    }
    Ok(packets)
}

fn round_trip(case: &Case) -> Result<usize, Fault> {
    let (text, emitted) = again(&case.pipeline)?;
    run(case, Arc::new(emitted)).map_err(|difference| Fault::Bug(format!("{difference}\n{text}")))
}

fn first_line(text: &str) -> String {
    text.lines().take(2).collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

#[test]
fn made_programs_come_back_the_same() {
    let (first, cases) = (number("DIFFER_SEED", 30_000), number("EMIT_CASES", 200));
    let (mut packets, mut done, mut refused) = (0, 0, BTreeMap::<String, u64>::new());
    let mut bugs = Vec::new();
    for seed in first..first + cases {
        let case = plan::case(seed, &Config::small()).unwrap_or_else(|r| panic!("seed {seed}: {}", r.diagnostics));
        match round_trip(&case) {
            Ok(n) => {
                packets += n;
                done += 1;
            }
            Err(Fault::Unsupported(what)) => {
                *refused.entry(what.split(": ").last().unwrap_or_default().to_owned()).or_default() += 1
            }
            Err(Fault::Bug(what)) => bugs.push((seed, what, case.source.clone())),
        }
    }
    if let Some((seed, what, source)) = bugs.first() {
        let text = match source {
            Source::Made(program) => print::print(program),
            Source::File(file) => file.clone(),
        };
        let all: Vec<String> =
            bugs.iter().map(|(seed, what, _)| format!("seed {seed}: {}", first_line(what))).collect();
        panic!("{}\n\nthe program of seed {seed}:\n{text}\n\n{what}", all.join("\n"));
    }
    println!("{done} of {cases} programs, {packets} packets; refused: {refused:?}");
    assert!(done >= cases * 98 / 100, "few programs have a form: {refused:?}");
}

/// P4Info has a table behind an `exit`, which no packet applies, and a digest that is sent there.
#[test]
fn what_no_packet_reaches_stays_in_p4info() {
    let text = "#include <core.p4>
        #include <v1model.p4>
        header h_t { bit<8> a; }
        struct hdr_t { h_t h; }
        struct meta_t { bit<8> m; }
        struct note_t { bit<8> a; }
        parser p(packet_in pkt, out hdr_t hdr, inout meta_t m, inout standard_metadata_t sm) {
            state start { pkt.extract(hdr.h); transition accept; }
        }
        control c(inout hdr_t hdr, inout meta_t m) { apply {} }
        control i(inout hdr_t hdr, inout meta_t m, inout standard_metadata_t sm) {
            action set(bit<8> x) { m.m = x; digest<note_t>(1, { x }); }
            table behind { key = { hdr.h.a: exact; } actions = { set; NoAction; } size = 7; }
            apply { bool off = false; if (off) { behind.apply(); } }
        }
        control e(inout hdr_t hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
        control k(inout hdr_t hdr, inout meta_t m) { apply {} }
        control d(packet_out pkt, in hdr_t hdr) { apply { pkt.emit(hdr.h); } }
        V1Switch(p(), c(), i(), e(), k(), d()) main;";
    let pipeline = compile(text, true).unwrap_or_else(|error| panic!("{error}"));
    let info = ir::p4info::generate(&pipeline);
    assert_eq!((info.tables.len(), info.digests.len()), (1, 1));
    let (emitted, _) = again(&pipeline).unwrap_or_else(|fault| panic!("{fault:?}"));
    assert!(emitted.contains("if (no_packet_gets_here)") && emitted.contains("behind.apply();"), "{emitted}");
}

#[test]
fn the_gateway_comes_back_the_same() {
    for seed in 0..3 {
        let case = plan::gateway(seed, 800).expect("a case for the gateway");
        let packets = round_trip(&case).unwrap_or_else(|fault| match fault {
            Fault::Bug(what) | Fault::Unsupported(what) => panic!("seed {seed}: {what}"),
        });
        assert_eq!(packets, 800);
    }
}

/// The gateway as a v1model program forwards the same packets to the same ports, drops the same for the same reasons, and has the same tables.
#[test]
fn the_gateway_runs_on_v1model() {
    for seed in 0..3 {
        let case = plan::gateway(seed, 800).expect("a case for the gateway");
        let text = emit(&case.pipeline, Target::V1Model, &Sizes::new()).unwrap_or_else(|error| panic!("{error}")).text;
        let emitted = Arc::new(compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}")));
        assert_eq!(emitted.arch, Arch::V1Model);
        let mut case = case;
        // v1model has no name for the CPU: the engine is told which port it is.
        case.setup.cpu_port = Some(510);
        let packets = run(&case, emitted).unwrap_or_else(|difference| panic!("seed {seed}: {difference}\n{text}"));
        assert_eq!(packets, 800);
    }
}

/// A packet of words that are nearly full or empty, so that sums run over and come out as either zero.
fn full_and_empty(rng: &mut fastrand::Rng) -> PacketIn {
    let word = |rng: &mut fastrand::Rng| match rng.u8(..8) {
        0 | 1 => 0xffff,
        2 | 3 => 0,
        4 => 0xfffe,
        5 => 1,
        _ => rng.u16(..),
    };
    let words = if rng.u8(..8) == 0 { rng.usize(0..20) } else { rng.usize(20..40) };
    let mut bytes: Vec<u8> = (0..words).flat_map(|_| word(rng).to_be_bytes()).collect();
    // Of what the program skips, some bytes, and then a number of options.
    let skipped = rng.usize(..4);
    bytes.iter_mut().take(skipped).skip(1).for_each(|byte| *byte = 0xfe);
    if let Some(count) = bytes.get_mut(skipped.max(1)) {
        *count = rng.u8(..) & 0xf7;
    }
    PacketIn { port: 1, at: 0, bytes }
}

/// The program of checksums for v1model does the same with packets.
fn checksums_are_the_same(pipeline: Pipeline) {
    let text = emit(&pipeline, Target::V1Model, &Sizes::new()).unwrap_or_else(|error| panic!("{error}")).text;
    let emitted = Arc::new(compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}")));
    // The one checksum that has a counterpart.
    assert_eq!(text.matches("HashAlgorithm.csum16").count(), 1, "{text}");
    let mut rng = fastrand::Rng::with_seed(number("DIFFER_SEED", 1));
    let steps = (0..100).map(|_| Step::Packets((0..100).map(|_| full_and_empty(&mut rng)).collect())).collect();
    let (source, setup) = (Source::File("checksums.p4".to_owned()), interp::Config::default());
    let case = Case { seed: 1, source, pipeline: Arc::new(pipeline), setup, steps };
    let packets = run(&case, emitted).unwrap_or_else(|difference| panic!("{difference}\n{text}"));
    assert_eq!(packets, 10_000);
}

fn checksums() -> Pipeline {
    compile(include_str!("emit_round_trip/checksums.p4"), true).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn checksums_are_arithmetic_on_v1model() {
    checksums_are_the_same(checksums());
}

/// As above, where packets enter the parser's first block again: a sum begins before it.
#[test]
fn a_checksum_in_a_loop_begins_once() {
    let mut pipeline = checksums();
    let parser = pipeline.controls.values_mut().find(|c| c.kind == ir::ControlKind::MainParser).expect("a parser");
    let start = parser.body.states.iter().find(|state| state.name == "start").expect("a first state").block;
    assert!(parser.body.leads_to(start, start));
    parser.body.entry = Some(start);
    checksums_are_the_same(pipeline);
}

/// Bytes that are cut off are the same ones in the text for PNA and in that for v1model.
#[test]
fn packets_are_cut_the_same() {
    let path = testkit::gateway::root().join("tests/corpus/pna/truncate.p4");
    let pipeline = Arc::new(testkit::gateway::compile(&path).expect("a program of the corpus"));
    let text = emit(&pipeline, Target::V1Model, &Sizes::new()).unwrap_or_else(|error| panic!("{error}")).text;
    let emitted = Arc::new(compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}")));
    let mut rng = fastrand::Rng::with_seed(number("DIFFER_SEED", 1));
    let mut packet = |n: u8| {
        let mut bytes = vec![n % 10, rng.u8(..16)];
        bytes.resize_with(rng.usize(2..14), || rng.u8(..));
        PacketIn { port: 1, at: 0, bytes }
    };
    let steps = vec![Step::Packets((0..200).map(&mut packet).collect())];
    let (source, setup) = (Source::File("truncate.p4".to_owned()), interp::Config::default());
    let mut case = Case { seed: 1, source, pipeline, setup, steps };
    round_trip(&case).unwrap_or_else(|fault| panic!("{fault:?}"));
    case.setup.cpu_port = Some(510);
    run(&case, emitted).unwrap_or_else(|difference| panic!("{difference}\n{text}"));
}

/// What v1model lacks is refused by name and place.
#[test]
fn what_v1model_lacks_is_named() {
    let path = testkit::gateway::root().join("tests/corpus/pna/add_on_miss.p4");
    let pipeline = testkit::gateway::compile(&path).expect("a program of the corpus");
    let error = emit(&pipeline, Target::V1Model, &Sizes::new()).expect_err("a refusal").to_string();
    assert!(error.contains("add_on_miss.p4:") && error.contains("adds entries"), "{error}");
}

/// Fields of no fixed length have no place in words that the program names.
#[test]
fn a_varbit_in_a_sum_is_named() {
    let text = include_str!("emit_round_trip/checksums.p4")
        .replace("header result_h {", "header options_h { varbit<32> all; } header result_h {")
        .replace("    result_h result;", "    result_h result; options_h options;")
        .replace("        lone.add(", "        update.add(hdr.options.all); lone.add(");
    let pipeline = compile(&text, true).unwrap_or_else(|error| panic!("{error}"));
    let error = emit(&pipeline, Target::V1Model, &Sizes::new()).expect_err("a refusal").to_string();
    assert!(error.contains("made.p4:160:9: a varbit field in a checksum"), "{error}");
}
