//! Tests chains of checks with early exits, as programs have them before their first lookup:
//! merged, they let the same packets leave by the same exits. `DIFFER_SEED` sets the first seed,
//! `EMIT_CASES` the number of programs.

use asic::emit::run_tofino_passes;
use fastrand::Rng;
use interp::Interp;
use ir::{ControlKind, Pipeline, Terminator};
use packet::{PortId, Verdict};
use std::fmt::Write;
use std::sync::Arc;
use testkit::differ::compile::compile;
use testkit::differ::env_number;

/// Packets per program.
const PACKETS: usize = 200;

/// Returns a condition that seldom holds.
fn condition(rng: &mut Rng) -> String {
    let one = |rng: &mut Rng| match rng.u8(..10) {
        0 => format!("hdr.a.a == {}", rng.u8(..16)),
        1 => format!("(hdr.a.c & 7) == {}", rng.u8(..8)),
        2 => format!("hdr.a.b[2:1] == {} && hdr.a.a > 9", rng.u8(..4)),
        3 => format!("hdr.b.x == {}", rng.u8(1..9)),
        4 => format!("hdr.c.y == {}", rng.u8(1..9)),
        5 => format!("hdr.b.isValid() && hdr.b.z < {}", rng.u8(..3)),
        6 => format!("meta.m == {}", rng.u8(1..6)),
        7 => format!("hdr.a.d == {}", rng.u8(..12)),
        8 => format!("hdr.a.c + {} == hdr.a.d[7:0]", rng.u8(..4)),
        _ => format!("hdr.c.isValid() && hdr.a.c == {}", rng.u8(..32)),
    };
    match rng.u8(..4) {
        0 => format!("({}) || ({})", one(rng), one(rng)),
        _ => one(rng),
    }
}

fn way_out(rng: &mut Rng) -> String {
    let out = match rng.u8(..6) {
        0..3 => "drop_packet();",
        3 => "send_to_port((PortId_t) 5);",
        4 => "send_to_port((PortId_t) 5); hdr.b.setInvalid();",
        _ => "hdr.a.c = 77; send_to_port((PortId_t) 5);",
    };
    format!("meta.why = {}; {out} exit;", rng.u8(..))
}

fn statements(rng: &mut Rng, depth: usize, text: &mut String) {
    for _ in 0..rng.usize(2..6) {
        let indent = "    ".repeat(depth + 2);
        let header = if rng.bool() { "b" } else { "c" };
        match rng.u8(..18) {
            0..6 => {
                let _ = writeln!(text, "{indent}if ({}) {{ {} }}", condition(rng), way_out(rng));
            }
            6..9 if depth < 3 => {
                let _ = writeln!(text, "{indent}if (hdr.{header}.isValid()) {{");
                statements(rng, depth + 1, text);
                let _ = writeln!(text, "{indent}}} else {{");
                statements(rng, depth + 1, text);
                let _ = writeln!(text, "{indent}}}");
            }
            9 => {
                let _ = writeln!(
                    text,
                    "{indent}if ({}) {{ {} }} else {{ {} }}",
                    condition(rng),
                    way_out(rng),
                    way_out(rng)
                );
            }
            // A check on either side of a decision.
            10 | 11 => {
                let out = way_out(rng);
                let (one, other) = (condition(rng), condition(rng));
                let _ = writeln!(
                    text,
                    "{indent}if (hdr.{header}.isValid()) {{ if ({one}) {{ {out} }} }} else {{ if ({other}) {{ {out} }} }}"
                );
            }
            // The same decision twice, with an assignment in between that may change it.
            12 | 13 => {
                let between =
                    ["", "hdr.b.setInvalid();", "hdr.c.setInvalid();", "hdr.b.setValid();", "hdr.c.setValid();"];
                for _ in 0..2 {
                    let [yes, no] = [0; 2].map(|_| rng.choice(between).unwrap_or_default());
                    let (one, other) = (rng.u8(..), rng.u8(..));
                    let _ = writeln!(
                        text,
                        "{indent}if (hdr.{header}.isValid()) {{ meta.m = meta.m + {one}; {yes} }} else {{ hdr.a.c = {other}; {no} }}"
                    );
                }
            }
            // A variable that one check sets and the next one exits by.
            14 | 15 => {
                let (set, asked) = (rng.u8(..3), rng.u8(..3));
                let same = if rng.bool() { "==" } else { "!=" };
                let _ = writeln!(
                    text,
                    "{indent}if ({}) {{ meta.m = {set}; }}\n{indent}if (meta.m {same} {asked}) {{ {} }}",
                    condition(rng),
                    way_out(rng)
                );
            }
            16 => {
                let change = [
                    "hdr.a.c = hdr.a.c + 1;",
                    "meta.m = meta.m + (bit<8>) hdr.a.a;",
                    "t.apply();",
                    "hdr.c.setValid();",
                ];
                let _ = writeln!(text, "{indent}{}", rng.choice(change).unwrap_or_default());
            }
            _ => {
                let _ = writeln!(text, "{indent}if (hdr.{header}.isValid()) {{ meta.m = hdr.a.b[2:0] ++ 5w1; }}");
            }
        }
    }
}

fn program(rng: &mut Rng) -> String {
    let mut apply = String::new();
    statements(rng, 0, &mut apply);
    format!(
        "#include <core.p4>\n#include <pna.p4>
header a_h {{ bit<4> a; bit<4> b; bit<8> c; bit<16> d; }}
header b_h {{ bit<8> x; bit<8> z; }}
header c_h {{ bit<8> y; }}
struct headers_t {{ a_h a; b_h b; c_h c; }}
struct metadata_t {{ bit<8> m; bit<8> why; }}
parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {{
    state start {{ p.extract(hdr.a); transition select(hdr.a.b[3:3] ++ hdr.a.b[0:0]) {{ 0: accept; 1: b; 2: c; default: both; }} }}
    state b {{ p.extract(hdr.b); transition accept; }}
    state c {{ p.extract(hdr.c); transition accept; }}
    state both {{ p.extract(hdr.b); transition c; }}
}}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {{ apply {{ }} }}
control main_block(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {{
    action set(bit<8> v) {{ hdr.a.c = v; }}
    table t {{ key = {{ hdr.a.a: exact; }} actions = {{ set; NoAction; }} const entries = {{ 1: set(9); 2: set(10); }} default_action = NoAction(); }}
    apply {{
{apply}        send_to_port((PortId_t) 1);
    }}
}}
control deparse(packet_out p, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {{ apply {{ p.emit(hdr.a); p.emit(hdr.b); p.emit(hdr.c); }} }}
PNA_NIC(parse(), pre(), main_block(), deparse()) main;\n"
    )
}

/// Counts the reachable decisions of the main control.
fn decisions(p: &Pipeline) -> usize {
    let main = p.controls.values().find(|c| c.kind == ControlKind::MainControl).expect("a main control");
    let decides =
        |b: &ir::Block| matches!(main.body.blocks[*b].term, Some(ref t) if matches!(t.term, Terminator::Branch { .. }));
    ir::reverse_postorder(&main.body).iter().filter(|b| decides(b)).count()
}

#[test]
fn checks_in_a_row_let_the_same_packets_out() {
    let (first, cases) = (env_number("DIFFER_SEED", 40_000), env_number("EMIT_CASES", 150));
    eprintln!("seeds {first}..{}; DIFFER_SEED and EMIT_CASES change that", first + cases);
    let (mut before, mut after, mut fates) = (0, 0, [0usize; 3]);
    for seed in first..first + cases {
        let mut rng = Rng::with_seed(seed);
        let text = program(&mut rng);
        let pipeline = compile(&text, true).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let mut changed = pipeline.clone();
        run_tofino_passes(&mut changed);
        ir::verify::verify(&changed)
            .unwrap_or_else(|error| panic!("seed {seed}: {error:?}\n{}", ir::text::print(&changed)));
        before += decisions(&pipeline);
        after += decisions(&changed);
        let engine = |p: &Pipeline| Interp::new(Arc::new(p.clone()), interp::Config::default()).expect("it loads");
        let (mut whole, mut joined) = (engine(&pipeline), engine(&changed));
        for _ in 0..PACKETS {
            let mut bytes = [0u8; 12].map(|_| rng.u8(..12));
            bytes[0] = rng.u8(..);
            bytes[2] = 0;
            let expected = whole.process(&bytes, 0, 0).packets().to_vec();
            let found = joined.process(&bytes, 0, 0).packets().to_vec();
            assert_eq!(expected, found, "seed {seed}: {bytes:?}\n{text}\n{}", ir::text::print(&changed));
            fates[match expected[0].verdict {
                Verdict::Forward { port: PortId(1) } => 0,
                Verdict::Forward { .. } => 1,
                _ => 2,
            }] += 1;
        }
    }
    eprintln!("{before} decisions became {after}; packets that went through, left early, were dropped: {fates:?}");
    let enough = after + 200 < before && fates.iter().all(|count| *count > PACKETS * cases as usize / 20);
    assert!(cases < 150 || enough, "{before} decisions became {after}; {fates:?}");
}
