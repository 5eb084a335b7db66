//! Compares programs before and after the transformations for the chip on the interpreter:
//! arithmetic in fewer operations and earlier, and tests that move from the parser into the
//! control. `DIFFER_SEED` sets the first seed, `EMIT_CASES` the number.

use asic::emit::{legalize_for_tofino, run_tofino_passes};
use interp::Interp;
use ir::{BinaryOp, ControlKind, Inst, Pipeline};
use std::sync::Arc;
use testkit::differ::case::{TestCase, TestEvent};
use testkit::differ::compile::compile;
use testkit::differ::config::Config;
use testkit::differ::env_number;
use testkit::differ::plan;
use testkit::gateway;

/// Returns the number of arithmetic operations per block of the controls.
fn arithmetic(p: &Pipeline) -> Vec<usize> {
    let step = |inst: &Inst| match inst {
        Inst::Binary(op, ..) => !op.is_comparison(),
        Inst::Select { .. } => true,
        _ => false,
    };
    let main = |kind| matches!(kind, ControlKind::MainControl | ControlKind::Egress);
    let controls = p.controls.values().filter(|c| main(c.kind));
    controls.flat_map(|c| c.body.blocks.values()).map(|b| b.insts.iter().filter(|i| step(&i.inst)).count()).collect()
}

fn in_steps(pipeline: &Pipeline) -> Pipeline {
    let mut changed = pipeline.clone();
    run_tofino_passes(&mut changed);
    ir::verify::verify(&changed).unwrap_or_else(|error| panic!("{error:?}\n{}", ir::text::print(&changed)));
    changed
}

/// Runs both. Returns the number of compared packets.
fn compare(case: &TestCase, changed: Pipeline) -> usize {
    let engine = |pipeline| Interp::new(Arc::new(pipeline), case.setup.clone()).expect("it loads");
    let (mut before, mut after) = (engine((*case.pipeline).clone()), engine(changed.clone()));
    let mut count = 0;
    for step in &case.steps {
        match step {
            TestEvent::Write(batch) => assert_eq!(before.write(batch).is_ok(), after.write(batch).is_ok()),
            TestEvent::Tick(at) => {
                before.advance_time(*at);
                after.advance_time(*at);
            }
            TestEvent::Packets(packets) => {
                for packet in packets {
                    count += 1;
                    let expected = before.process(&packet.bytes, packet.port, packet.at).packets().to_vec();
                    let found = after.process(&packet.bytes, packet.port, packet.at).packets().to_vec();
                    assert_eq!(
                        expected,
                        found,
                        "seed {}: {packet:?}\n{}\n---- changed\n{}",
                        case.seed,
                        ir::text::print(&case.pipeline),
                        ir::text::print(&changed)
                    );
                }
            }
        }
    }
    count
}

#[test]
fn fewer_and_earlier_steps_do_the_same_in_made_programs() {
    let (first, cases) = (env_number("DIFFER_SEED", 70_000), env_number("EMIT_CASES", 300));
    eprintln!("seeds {first}..{}; DIFFER_SEED and EMIT_CASES change that", first + cases);
    let config = Config { packets: 60, random: 0, ..Config::small() };
    let (mut programs, mut packets) = (0, 0);
    for seed in first..first + cases {
        let case = plan::generate_case(seed, &config).unwrap_or_else(|r| panic!("seed {seed}: {}", r.diagnostics));
        let changed = in_steps(&case.pipeline);
        if arithmetic(&changed) != arithmetic(&case.pipeline) {
            programs += 1;
            packets += compare(&case, changed);
        }
    }
    eprintln!("{programs} programs changed, {packets} packets");
    assert!(cases < 300 || (programs > 20 && packets > 1_000), "{programs} programs, {packets} packets");
}

#[test]
fn fewer_and_earlier_steps_do_the_same_in_the_gateway() {
    for seed in 0..2 {
        let case = plan::switch_gateway_case(seed, 600).expect("a case for the gateway");
        assert!(compare(&case, in_steps(&case.pipeline)) > 500);
    }
}

/// The overlay's computations after its lookups are moved before them.
#[test]
fn the_overlay_computes_before_it_looks_up() {
    let overlay = gateway::compile(&gateway::root().join("programs/overlay/overlay.p4")).expect("the overlay");
    let changed = in_steps(&overlay);
    let control = changed.controls.values().find(|c| c.kind == ControlKind::MainControl).expect("a main control");
    let body = &control.body;
    let xors = |block| {
        let of = |i: &&ir::InstData| matches!(i.inst, Inst::Binary(BinaryOp::Xor, ..));
        let block: &ir::BlockData = &body.blocks[block];
        block.insts.iter().filter(of).count()
    };
    let entry = body.entry.expect("an entry");
    assert!(xors(entry) >= 4, "{}", ir::text::print(&changed));
}

/// Variables that carry decisions from one `if` to the next, and one that is set before an `if`
/// changes it.
const FORKS: &str = "#include <core.p4>\n#include <pna.p4>\n
header a_h { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { a_h a; }
struct metadata_t { }
parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { p.extract(hdr.a); transition accept; }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) { apply { } }
control main_block(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    action set(bit<8> v) { hdr.a.d = v; }
    action stop() { drop_packet(); exit; }
    table t { key = { hdr.a.b: exact; } actions = { set; stop; NoAction; } const entries = { 1: set(9); 2: stop(); } default_action = NoAction(); }
    apply {
        bool fine;
        bit<8> sum;
        bit<8> late;
        send_to_port((PortId_t) 1);
        if (hdr.a.a < 2) { fine = hdr.a.b == hdr.a.c; sum = hdr.a.b + 1; } else { fine = hdr.a.c != 0; sum = hdr.a.c; }
        if (!fine) { drop_packet(); exit; }
        if (sum > hdr.a.a) { hdr.a.a = 77; drop_packet(); exit; }
        t.apply();
        late = 3;
        if (hdr.a.c == 2) { late = hdr.a.b ^ 5; }
        hdr.a.d = hdr.a.d + late;
    }
}
control deparse(packet_out p, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) { apply { p.emit(hdr.a); } }
PNA_NIC(parse(), pre(), main_block(), deparse()) main;
";

#[test]
fn decisions_of_branches_stay_what_they_are() {
    let pipeline = compile(FORKS, true).expect("the program");
    let changed = in_steps(&pipeline);
    let named = |i: &ir::InstData| match i.inst {
        Inst::Store(v, _) if changed.vars[v].kind == ir::VarKind::Local => {
            changed.vars[v].name.rsplit('.').next().map(str::to_owned)
        }
        _ => None,
    };
    let stored: Vec<String> = changed.insts().filter_map(named).collect();
    assert!(stored.is_empty(), "{stored:?} are left: {}", ir::text::print(&changed));
    let engine = |p: &Pipeline| Interp::new(Arc::new(p.clone()), interp::Config::default()).expect("it loads");
    let (mut before, mut after) = (engine(&pipeline), engine(&changed));
    let mut sent = 0;
    for a in 0..8u8 {
        for b in 0..5u8 {
            for c in 0..5u8 {
                let bytes = [a, b, c, 4, 1, 2, 3];
                let expected = before.process(&bytes, 0, 0).packets().to_vec();
                let found = after.process(&bytes, 0, 0).packets().to_vec();
                assert_eq!(expected, found, "{bytes:?}");
                sent += usize::from(matches!(expected[0].verdict, packet::Verdict::Forward { .. }));
            }
        }
    }
    assert!((20..180).contains(&sent), "{sent} of 200");
}

/// Lengths that a parser tests one after the other, with several errors; the packet carries the
/// error.
const LENGTHS: &str = "#include <core.p4>\n#include <pna.p4>\n
error { Short, Long, Kind, Small }
header a_h { bit<8> kind; bit<16> length; bit<8> found; }
header b_h { bit<16> length; bit<16> rest; }
struct headers_t { a_h a; b_h b; }
struct metadata_t { bit<16> seen; }
parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        p.extract(hdr.a);
        verify(hdr.a.length >= 20, error.Short);
        verify(hdr.a.length < 0x123, error.Long);
        verify(hdr.a.kind != 3, error.Kind);
        transition select(hdr.a.kind) { 1: second; 2: third; default: accept; }
    }
    state second {
        verify(hdr.a.length > 40, error.Small);
        p.extract(hdr.b);
        verify(hdr.b.length <= 100, error.Long);
        meta.seen = hdr.a.length;
        transition asks;
    }
    state asks {
        transition select(meta.seen) { 60: once_more; 61: fourth; default: accept; }
    }
    state once_more {
        meta.seen = hdr.b.length;
        transition accept;
    }
    state fourth {
        meta.seen = 7;
        transition accept;
    }
    state third {
        p.extract(hdr.b);
        verify(hdr.b.length <= 50, error.Small);
        verify(hdr.a.length > 60, error.Short);
        transition accept;
    }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) { apply { } }
control main_block(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    apply {
        if (istd.parser_error == error.Short) { hdr.a.found = 1; }
        else if (istd.parser_error == error.Long) { hdr.a.found = 2; }
        else if (istd.parser_error == error.Kind) { hdr.a.found = 3; }
        else if (istd.parser_error == error.Small) { hdr.a.found = 4; }
        else { hdr.a.found = 0; hdr.b.rest = meta.seen; }
        send_to_port((PortId_t) 1);
    }
}
control deparse(packet_out p, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { p.emit(hdr.a); p.emit(hdr.b); }
}
PNA_NIC(parse(), pre(), main_block(), deparse()) main;
";

#[test]
fn tests_that_the_control_makes_find_the_same_error() {
    let pipeline = compile(LENGTHS, true).expect("the program");
    let chip = legalize_for_tofino(&pipeline);
    let parser = chip.controls.values().find(|c| c.kind == ControlKind::MainParser).expect("a parser");
    let orders = |i: &&ir::InstData| matches!(i.inst, Inst::Binary(op, ..) if op.is_comparison() && op != BinaryOp::Eq && op != BinaryOp::Ne);
    let blocks = ir::reverse_postorder(&parser.body);
    let insts = blocks.iter().flat_map(|b| &parser.body.blocks[*b].insts);
    let cases: Vec<_> = insts.filter(orders).filter(|i| chip_tests(&parser.body, i)).collect();
    assert!(cases.is_empty(), "{cases:?}");
    let engine =
        |pipeline: &Pipeline| Interp::new(Arc::new(pipeline.clone()), interp::Config::default()).expect("it loads");
    let late = blocks
        .iter()
        .flat_map(|b| &parser.body.blocks[*b].insts)
        .filter(|i| matches!(i.inst, Inst::Load(v) if chip.vars[v].name == "meta.seen"));
    assert_eq!(late.count(), 0, "{}", ir::text::print(&chip));
    let (mut whole, mut chip) = (engine(&pipeline), engine(&chip));
    let mut errors = [0; 5];
    let lengths = [0u16, 19, 20, 40, 41, 60, 61, 100, 0x122, 0x123, 0x124, 0xffff];
    for kind in 0..5u8 {
        for first in lengths {
            for second in lengths.iter().chain(&[50, 51, 101]) {
                let bytes =
                    [vec![kind], first.to_be_bytes().to_vec(), vec![9], second.to_be_bytes().to_vec(), vec![0; 20]]
                        .concat();
                let expected = whole.process(&bytes, 0, 0).packets().to_vec();
                let found = chip.process(&bytes, 0, 0).packets().to_vec();
                // Headers after a failed test are parsed, and leave unchanged.
                assert_eq!(expected[0].bytes, found[0].bytes, "kind {kind}, lengths {first} and {second}");
                errors[usize::from(expected[0].bytes[3])] += 1;
            }
        }
    }
    assert!(errors.iter().all(|count| *count > 10), "{errors:?}");
}

/// Returns whether a comparison decides the parser's path.
fn chip_tests(body: &ir::Body, inst: &ir::InstData) -> bool {
    let result = inst.results[0];
    let branch = |t: &ir::TerminatorData| matches!(t.term, ir::Terminator::Branch { cond, .. } if cond == result);
    body.blocks.values().filter_map(|b| b.term.as_ref()).any(branch)
}

/// Ports that parser and control compare with numbers, one of which is not a port of the chip.
const PORTS: &str = "#include <core.p4>\n#include <pna.p4>\n
header a_h { bit<8> a; bit<16> port; }
header b_h { bit<8> b; }
struct headers_t { a_h a; b_h b; b_h c; }
struct metadata_t { }
parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { p.extract(hdr.a); transition select(istd.input_port) { (PortId_t) 5: one; (PortId_t) 700: two; (PortId_t) 511: two; default: accept; } }
    state one { p.extract(hdr.b); transition accept; }
    state two { p.extract(hdr.c); transition accept; }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) { apply { } }
control main_block(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    apply {
        send_to_port((PortId_t) 1);
        if (istd.input_port == (PortId_t) 700) { drop_packet(); exit; }
        if (istd.input_port != (PortId_t) 1212) { hdr.a.a = hdr.a.a + 1; }
        if (istd.input_port != (PortId_t) 9) { hdr.a.port = (bit<16>) (bit<32>) istd.input_port; }
    }
}
control deparse(packet_out p, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) { apply { p.emit(hdr.a); p.emit(hdr.b); p.emit(hdr.c); } }
PNA_NIC(parse(), pre(), main_block(), deparse()) main;
";

#[test]
fn ports_are_compared_in_the_bits_that_they_have() {
    let pipeline = compile(PORTS, true).expect("the program");
    let changed = legalize_for_tofino(&pipeline);
    let engine = |p: &Pipeline| Interp::new(Arc::new(p.clone()), interp::Config::default()).expect("it loads");
    let (mut before, mut after) = (engine(&pipeline), engine(&changed));
    let mut seen = std::collections::HashSet::new();
    // 188 and 700 are equal in 9 bits.
    for port in [0, 1, 5, 9, 188, 300, 510, 511] {
        let bytes = [7, 3, 3, 4, 5];
        let expected = before.process(&bytes, port, 0).packets().to_vec();
        assert_eq!(expected, after.process(&bytes, port, 0).packets().to_vec(), "port {port}");
        seen.insert(expected[0].bytes.clone());
    }
    assert_eq!(seen.len(), 8, "each port leaves its mark");
    let emitted = crate::emitted(&pipeline, &asic::transform::TableSizes::new()).text;
    assert!(emitted.contains("transition select(ig_intr_md.ingress_port)"), "{emitted}");
    assert!(!emitted.contains("700") && !emitted.contains("1212"), "{emitted}");
}

/// A value without an expression needs no operation before the lookup. Entries that match no port
/// of the chip keep the key unchanged.
#[test]
fn a_port_that_is_a_key_has_its_bits() {
    let tables = "
    table t { key = { istd.input_port: exact; hdr.a.a: exact; } actions = { NoAction; } const entries = { ((PortId_t) 5, 7): NoAction(); } default_action = NoAction(); size = 8; }
    table u { key = { istd.input_port: exact; } actions = { NoAction; } const entries = { (PortId_t) 700: NoAction(); } default_action = NoAction(); }
    table v { key = { istd.input_port: ternary; } actions = { NoAction; } default_action = NoAction(); size = 8; }
    apply {
        t.apply(); u.apply(); v.apply();
        send_to_port";
    let text = PORTS.replacen("\n    apply {\n        send_to_port", tables, 1);
    let pipeline = compile(&text, true).expect("the program");
    let emitted = crate::emitted(&pipeline, &asic::transform::TableSizes::new()).text;
    let errors = crate::check(&emitted);
    assert!(errors.is_empty(), "{}\n{emitted}", errors.join("\n"));
    let keys: Vec<&str> = emitted.lines().map(str::trim).filter(|line| line.contains("ingress_port:")).collect();
    let starts = [
        "ig_intr_md.ingress_port: exact",
        "(bit<32>) ig_intr_md.ingress_port: exact",
        "(bit<32>) ig_intr_md.ingress_port: ternary",
    ];
    assert!(
        keys.len() == 3 && keys.iter().zip(starts).all(|(key, start)| key.starts_with(start)),
        "{keys:?}\n{emitted}"
    );
}
