//! Compiles the emitted v1model and PNA programs again and compares them with the original:
//! packets, drops, state, and control-plane API.
//!
//! Random programs come from the differential harness. `DIFFER_SEED` sets the first seed,
//! `EMIT_CASES` the number.

use asic::emit::{EmitTarget, emit};
use asic::transform::TableSizes;
use ir::{Arch, ExternKind, Pipeline};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::differ::case::{PacketIn, ProgramSource, TestCase, TestEvent};
use testkit::differ::compile::compile;
use testkit::differ::config::Config;
use testkit::differ::env_number;
use testkit::differ::subject::{BatchResult, EngineInputs, EngineUnderTest, Oracle};
use testkit::differ::{compare, plan, print};

fn own(pipeline: &Pipeline) -> EmitTarget {
    match pipeline.arch {
        Arch::V1Model => EmitTarget::V1Model,
        Arch::Pna => EmitTarget::Pna,
    }
}

/// Failure of the emission or recompilation of a program.
#[derive(Debug)]
enum Fault {
    /// The target cannot express a construct.
    Unsupported(String),
    /// Any other failure is a bug.
    Bug(String),
}

/// Emits a pipeline and compiles the text. Returns both.
fn recompile(pipeline: &Pipeline) -> Result<(String, Pipeline), Fault> {
    let text = emit(pipeline, own(pipeline), &TableSizes::new()).map_err(|e| Fault::Unsupported(e.to_string()))?.text;
    let compiled = compile(&text, true).map_err(|e| Fault::Bug(format!("the text is refused:\n{e}\n{text}")))?;
    let (old, new) = (ir::p4info::generate(pipeline), ir::p4info::generate(&compiled));
    let differences = ir::p4info::differences(&new, &old);
    match differences.first() {
        Some(difference) => Err(Fault::Bug(format!("another control-plane API: {difference}\n{text}"))),
        None => Ok((text, compiled)),
    }
}

/// Returns tables, counters and registers, by name.
fn state(pipeline: &Pipeline, subject: &dyn EngineUnderTest) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for (id, table) in pipeline.tables.iter() {
        let state = subject.state();
        let entry = |e: &entries::StoredEntry| entries::format_entry(pipeline, &e.to_table_entry(pipeline, id));
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

fn digests(pipeline: &Pipeline, subject: &mut dyn EngineUnderTest) -> Vec<String> {
    let taken = subject.take_digests();
    taken.into_iter().map(|(id, values)| format!("{} {values:?}", pipeline.externs[id].preamble.name)).collect()
}

/// Runs a case on the program and on the recompiled one.
fn run(case: &TestCase, emitted: Arc<Pipeline>) -> Result<usize, String> {
    let moved = case.remapped(case.source.clone(), emitted.clone());
    let build = |pipeline| EngineInputs { text: None, pipeline, setup: &case.setup };
    let mut old = Oracle::new(&build(&case.pipeline))?;
    let mut new = Oracle::new(&build(&emitted))?;
    let mut packets = 0;
    for (step, (left, right)) in case.steps.iter().zip(&moved.steps).enumerate() {
        match (left, right) {
            (TestEvent::Write(left), TestEvent::Write(right)) => {
                // A rejected update may become valid when entries are moved, because moving assigns
                // the priorities that they need.
                let left = old.write(left);
                if left.is_err() {
                    continue;
                }
                let right = new.write(right);
                if right.is_err() {
                    return Err(format!("step {step}: a write: {left:?}, {right:?}"));
                }
            }
            (TestEvent::Packets(batch), _) => {
                packets += batch.len();
                let (left, right): (BatchResult, BatchResult) = (old.process(batch), new.process(batch));
                if let Some(difference) = compare::compare_results(&left, &right) {
                    return Err(format!("step {step}: {difference}"));
                }
            }
            (TestEvent::Tick(now), _) => {
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

fn round_trip(case: &TestCase) -> Result<usize, Fault> {
    let (text, emitted) = recompile(&case.pipeline)?;
    run(case, Arc::new(emitted)).map_err(|difference| Fault::Bug(format!("{difference}\n{text}")))
}

fn first_line(text: &str) -> String {
    text.lines().take(2).collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

#[test]
fn made_programs_come_back_the_same() {
    let (first, cases) = (env_number("DIFFER_SEED", 30_000), env_number("EMIT_CASES", 200));
    let (mut packets, mut done, mut refused) = (0, 0, BTreeMap::<String, u64>::new());
    let mut bugs = Vec::new();
    for seed in first..first + cases {
        let case =
            plan::generate_case(seed, &Config::small()).unwrap_or_else(|r| panic!("seed {seed}: {}", r.diagnostics));
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
            ProgramSource::Made(program) => print::print_program(program),
            ProgramSource::File(file) => file.clone(),
        };
        let all: Vec<String> =
            bugs.iter().map(|(seed, what, _)| format!("seed {seed}: {}", first_line(what))).collect();
        panic!("{}\n\nthe program of seed {seed}:\n{text}\n\n{what}", all.join("\n"));
    }
    println!("{done} of {cases} programs, {packets} packets; refused: {refused:?}");
    assert!(done >= cases * 98 / 100, "few programs have a form: {refused:?}");
}

/// P4Info includes a table after an `exit`, which no packet reaches, and a digest that is sent
/// there.
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
    let (emitted, _) = recompile(&pipeline).unwrap_or_else(|fault| panic!("{fault:?}"));
    assert!(emitted.contains("if (no_packet_gets_here)") && emitted.contains("behind.apply();"), "{emitted}");
}

#[test]
fn the_gateway_comes_back_the_same() {
    for seed in 0..3 {
        let case = plan::switch_gateway_case(seed, 800).expect("a case for the gateway");
        let packets = round_trip(&case).unwrap_or_else(|fault| match fault {
            Fault::Bug(what) | Fault::Unsupported(what) => panic!("seed {seed}: {what}"),
        });
        assert_eq!(packets, 800);
    }
}

/// The gateway as a v1model program forwards the same packets to the same ports, drops the same for
/// the same reasons, and has the same tables.
#[test]
fn the_gateway_runs_on_v1model() {
    for seed in 0..3 {
        let case = plan::switch_gateway_case(seed, 800).expect("a case for the gateway");
        let text = emit(&case.pipeline, EmitTarget::V1Model, &TableSizes::new())
            .unwrap_or_else(|error| panic!("{error}"))
            .text;
        let emitted = Arc::new(compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}")));
        assert_eq!(emitted.arch, Arch::V1Model);
        let mut case = case;
        // v1model has no name for the CPU port, so the configuration gives its number.
        case.setup.cpu_port = Some(510);
        let packets = run(&case, emitted).unwrap_or_else(|difference| panic!("seed {seed}: {difference}\n{text}"));
        assert_eq!(packets, 800);
    }
}

/// Returns a packet with words of all ones or zeros with few changes, because sums of these
/// overflow and give either zero.
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
    // Some of the bytes that the program skips, then a number of options.
    let skipped = rng.usize(..4);
    bytes.iter_mut().take(skipped).skip(1).for_each(|byte| *byte = 0xfe);
    if let Some(count) = bytes.get_mut(skipped.max(1)) {
        *count = rng.u8(..) & 0xf7;
    }
    PacketIn { port: 1, at: 0, bytes }
}

/// Compares the v1model checksum program on packets.
fn checksums_are_the_same(pipeline: Pipeline) {
    let text = emit(&pipeline, EmitTarget::V1Model, &TableSizes::new()).unwrap_or_else(|error| panic!("{error}")).text;
    let emitted = Arc::new(compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}")));
    // The only checksum that has a counterpart.
    assert_eq!(text.matches("HashAlgorithm.csum16").count(), 1, "{text}");
    let mut rng = fastrand::Rng::with_seed(env_number("DIFFER_SEED", 1));
    let steps = (0..100).map(|_| TestEvent::Packets((0..100).map(|_| full_and_empty(&mut rng)).collect())).collect();
    let (source, setup) = (ProgramSource::File("checksums.p4".to_owned()), interp::Config::default());
    let case = TestCase { seed: 1, source, pipeline: Arc::new(pipeline), setup, steps };
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

/// The checksum program in a version in which packets reenter the parser's first block: a sum
/// starts before it.
#[test]
fn a_checksum_in_a_loop_begins_once() {
    let mut pipeline = checksums();
    let parser = pipeline.controls.values_mut().find(|c| c.kind == ir::ControlKind::MainParser).expect("a parser");
    let start = parser.body.states.iter().find(|state| state.name == "start").expect("a first state").block;
    assert!(parser.body.can_reach(start, start));
    parser.body.entry = Some(start);
    checksums_are_the_same(pipeline);
}

/// Truncated bytes are the same in the text for PNA and in that for v1model.
#[test]
fn packets_are_cut_the_same() {
    let path = testkit::gateway::root().join("tests/corpus/pna/truncate.p4");
    let pipeline = Arc::new(testkit::gateway::compile(&path).expect("a program of the corpus"));
    let text = emit(&pipeline, EmitTarget::V1Model, &TableSizes::new()).unwrap_or_else(|error| panic!("{error}")).text;
    let emitted = Arc::new(compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}")));
    let mut rng = fastrand::Rng::with_seed(env_number("DIFFER_SEED", 1));
    let mut packet = |n: u8| {
        let mut bytes = vec![n % 10, rng.u8(..16)];
        bytes.resize_with(rng.usize(2..14), || rng.u8(..));
        PacketIn { port: 1, at: 0, bytes }
    };
    let steps = vec![TestEvent::Packets((0..200).map(&mut packet).collect())];
    let (source, setup) = (ProgramSource::File("truncate.p4".to_owned()), interp::Config::default());
    let mut case = TestCase { seed: 1, source, pipeline, setup, steps };
    round_trip(&case).unwrap_or_else(|fault| panic!("{fault:?}"));
    case.setup.cpu_port = Some(510);
    run(&case, emitted).unwrap_or_else(|difference| panic!("{difference}\n{text}"));
}

/// A construct that v1model lacks is rejected with name and location.
#[test]
fn what_v1model_lacks_is_named() {
    let path = testkit::gateway::root().join("tests/corpus/pna/add_on_miss.p4");
    let pipeline = testkit::gateway::compile(&path).expect("a program of the corpus");
    let error = emit(&pipeline, EmitTarget::V1Model, &TableSizes::new()).expect_err("a refusal").to_string();
    assert!(error.contains("add_on_miss.p4:") && error.contains("adds entries"), "{error}");
}

/// Fields of variable length cannot be part of words that the program names.
#[test]
fn a_varbit_in_a_sum_is_named() {
    let text = include_str!("emit_round_trip/checksums.p4")
        .replace("header result_h {", "header options_h { varbit<32> all; } header result_h {")
        .replace("    result_h result;", "    result_h result; options_h options;")
        .replace("        lone.add(", "        update.add(hdr.options.all); lone.add(");
    let pipeline = compile(&text, true).unwrap_or_else(|error| panic!("{error}"));
    let error = emit(&pipeline, EmitTarget::V1Model, &TableSizes::new()).expect_err("a refusal").to_string();
    assert!(error.contains("made.p4:160:9: a varbit field in a checksum"), "{error}");
}
