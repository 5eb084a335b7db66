//! Tests one's complement sums with a constant, in the forms of real programs: each becomes one
//! operation with the same result. `DIFFER_SEED` sets the first seed, `EMIT_CASES` the number of
//! programs.

use asic::emit::run_tofino_passes;
use fastrand::Rng;
use interp::Interp;
use ir::{BinaryOp, ControlKind, Inst, Pipeline, Type};
use packet::Verdict;
use std::sync::Arc;
use testkit::differ::compile::compile;
use testkit::differ::env_number;

/// Packets per program.
const PACKETS: usize = 120;

/// Returns a sum in more than `width` bits that goes to `hdr.a.r`, and whether its carry is added
/// to it.
fn sum(rng: &mut Rng, width: u32) -> (String, bool) {
    let ones = (1u64 << width) - 1;
    let wide = width + rng.u32(1..3);
    let top = wide - 1;
    let constant = match rng.u8(..6) {
        0 => 1,
        1 => ones,
        2 => ones - 1,
        3 => 1 << (width - 1),
        4 => 1 << rng.u32(..width),
        _ => rng.u64(1..=ones),
    };
    let mut terms = vec![format!("(bit<{wide}>) hdr.a.x")];
    let values =
        [format!("(bit<{wide}>) hdr.a.y"), format!("(bit<{wide}>) ~hdr.a.y"), format!("(bit<{wide}>) hdr.a.p1")];
    (0..rng.usize(..3)).for_each(|_| terms.push(rng.choice(&values).cloned().unwrap_or_default()));
    let has_constant = terms.len() == 1 || rng.bool();
    if has_constant {
        terms.push(format!("{wide}w{constant}"));
    }
    rng.shuffle(&mut terms);
    let parts = |rng: &mut Rng, to: u32| {
        let low = match rng.bool() {
            true => format!("(bit<{to}>) s[{}:0]", width - 1),
            false => format!("(bit<{to}>) (bit<{width}>) s"),
        };
        let high = format!("(bit<{to}>) s[{top}:{width}]");
        if rng.bool() { (low, high) } else { (high, low) }
    };
    let mut text = format!("bit<{wide}> s = {};\n        ", terms.join(" + "));
    let twice = rng.bool();
    if twice {
        let (one, other) = parts(rng, wide);
        text += &format!("s = {one} + {other};\n        ");
    }
    let (one, other) = parts(rng, width);
    let (end, carries) = match rng.u8(..8) {
        // Not such a sum: the carry is incomplete, another sum's, or subtracted.
        0 if wide > width + 1 => (format!("s[{}:0] + (bit<{width}>) s[{top}:{top}]", width - 1), false),
        1 => (format!("s[{}:0] + (bit<{width}>) other[{top}:{width}]", width - 1), false),
        2 => (format!("{one} - {other}"), false),
        3 => (format!("s[{}:1] ++ 1w0", width - 1), false),
        _ => (format!("{one} + {other}"), true),
    };
    let few = terms.len() <= if twice { 4.min(1 << (wide - width)) } else { 2 };
    let known = matches!(width, 8 | 16) || has_constant && terms.len() == 2;
    let text = format!(
        "{text}bit<{wide}> other = (bit<{wide}>) hdr.a.y + {wide}w{ones};\n        hdr.a.r = {end};\n        \
         hdr.a.keep = (bit<40>) other;"
    );
    (text, carries && few && known)
}

fn program(sum: &str, width: u32) -> String {
    let pad = 8 - width % 8;
    format!(
        "#include <core.p4>\n#include <pna.p4>
header a_h {{ bit<{width}> x; bit<{width}> y; bit<{width}> r; bit<40> keep; bit<{pad}> p1; bit<{pad}> p2; bit<{pad}> p3; }}
struct headers_t {{ a_h a; }}
struct metadata_t {{ }}
parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {{
    state start {{ p.extract(hdr.a); transition accept; }}
}}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {{ apply {{ }} }}
control main_block(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {{
    apply {{
        {sum}
        send_to_port((PortId_t) 1);
    }}
}}
control deparse(packet_out p, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {{ apply {{ p.emit(hdr.a); }} }}
PNA_NIC(parse(), pre(), main_block(), deparse()) main;\n"
    )
}

/// Counts the additions of a control in more bits than `width`, except that of `other`.
fn wider(p: &Pipeline, width: u32) -> usize {
    let main = p.controls.values().find(|c| c.kind == ControlKind::MainControl).expect("a main control");
    let insts = main.body.blocks.values().flat_map(|b| &b.insts);
    let wide = insts.filter(|i| {
        matches!(i.inst, Inst::Binary(BinaryOp::Add, ..))
            && i.results.iter().any(|v| matches!(main.body.value_type(*v), Type::Bit(w) if w > width))
    });
    wide.count() - 1
}

#[test]
fn a_carry_that_is_added_again_is_a_choice() {
    let (first, cases) = (env_number("DIFFER_SEED", 7_000), env_number("EMIT_CASES", 120));
    eprintln!("carries: DIFFER_SEED={first} EMIT_CASES={cases}");
    let (mut rewritten, mut others, mut carried, mut plain) = (0, 0, 0, 0);
    for seed in first..first + cases {
        let mut rng = Rng::with_seed(seed);
        let width = rng.choice([4u32, 8, 8, 12, 16, 16, 16, 16, 24]).unwrap_or(16);
        let (sum, is) = sum(&mut rng, width);
        let text = program(&sum, width);
        let before = compile(&text, true).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let mut after = before.clone();
        run_tofino_passes(&mut after);
        ir::verify::verify(&after).unwrap_or_else(|error| panic!("seed {seed}: {error:?}\n{text}"));
        assert_eq!(wider(&after, width) == 0, is, "seed {seed}: {text}\n{}", ir::text::print(&after));
        match is {
            true => rewritten += 1,
            false => others += 1,
        }
        let engine = |p: Pipeline| Interp::new(Arc::new(p), interp::Config::default()).expect("it loads");
        let (mut one, mut other) = (engine(before), engine(after));
        for n in 0..PACKETS {
            let mut bytes: Vec<u8> = (0..32).map(|_| rng.u8(..)).collect();
            match n % 4 {
                0 => bytes[..4].fill(0xff),
                1 => bytes[..4].fill(0),
                2 => bytes[0] = 0xff,
                _ => {}
            }
            let expected = one.process(&bytes, 1, 0).packets().to_vec();
            assert_eq!(expected, other.process(&bytes, 1, 0).packets(), "seed {seed}: {bytes:02x?}\n{text}");
            assert!(matches!(expected[0].verdict, Verdict::Forward { .. }));
            let [x, out] = [(&bytes, 0), (&expected[0].bytes, 2 * width)].map(|(of, from)| bits(of, from, width));
            match out >= x {
                true => plain += u64::from(is),
                false => carried += u64::from(is),
            }
        }
    }
    eprintln!("{rewritten} rewritten, {others} others; {carried} packets with a carry, {plain} without");
    assert!(rewritten * 4 > cases && others * 10 > cases, "{rewritten} of {cases}, {others} others");
    assert!(carried > 10 * cases && plain > 10 * cases, "{carried} with a carry, {plain} without");
}

/// Returns `width` bits from an offset.
fn bits(bytes: &[u8], from: u32, width: u32) -> u64 {
    (from..from + width).fold(0, |sum, at| sum << 1 | u64::from(bytes[at as usize / 8] >> (7 - at % 8) & 1))
}
