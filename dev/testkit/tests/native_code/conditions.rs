//! Compares native code with the interpreter where native code works on the packet's bytes in
//! place: conditions on header fields at any bits, combined in any form, checksums over such
//! fields, and parameters of any number of bytes that are written to headers.

use fastrand::Rng;
use std::fmt::Write;
use testkit::differ::env_number;
use testkit::differ::pair::EnginePair;

/// Conditions of a program, each with one bit of the result.
const CONDITIONS: usize = 64;

/// Field: its width, and its most frequent value in packets.
struct Field {
    width: u32,
    usual: u64,
}

fn ones(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// Returns fields of any widths or, if `whole`, of bytes and words as in most headers, because
/// checksums of those use other code.
fn fields(rng: &mut Rng, whole: bool) -> Vec<Field> {
    let (mut all, mut bits) = (Vec::new(), 0);
    while bits < 160 {
        if bits % 8 == 0 && rng.u8(..3) == 0 {
            // Halves of a byte, as in IPv4's first.
            let high = rng.u32(1..8);
            all.extend([high, 8 - high].map(|width| Field { width, usual: rng.u64(..) & ones(width) }));
            bits += 8;
            continue;
        }
        let width = match whole {
            true if bits % 16 == 8 => 8,
            true => rng.choice([8, 8, 16, 16, 32, 48, 64]).unwrap_or(8),
            false => rng.choice([1, 3, 4, 4, 5, 7, 8, 8, 12, 13, 16, 16, 24, 32, 48, 64]).unwrap_or(8),
        };
        let width = width.min(160 - bits);
        bits += width;
        all.push(Field { width, usual: rng.u64(..) & ones(width) });
    }
    all
}

/// Returns a condition on one field that holds for its usual value or, rarely, only for others.
fn field_condition(rng: &mut Rng, at: usize, field: &Field) -> String {
    let Field { width, usual } = *field;
    let name = format!("hdr.q.f{at}");
    let same = if rng.u8(..4) == 0 { "!=" } else { "==" };
    let shift = rng.u32(..width);
    match rng.u8(..8) {
        0 => format!("({name} & {}) {same} {}", mask(width, usual), usual & mask(width, usual)),
        1 => {
            let (low, high) = (shift, shift + rng.u32(..width - shift));
            format!("{name}[{high}:{low}] {same} {}", usual >> low & ones(high - low + 1))
        }
        2 => format!("({name} >> {shift}) {same} {}", usual >> shift),
        3 => format!("({name} << {shift}) {same} {}", usual << shift & ones(width)),
        4 => format!("({name} ^ {}) {same} 0", usual),
        5 => format!("~{name} {same} {}", !usual & ones(width)),
        6 => format!("{usual} {same} {name}"),
        _ => format!("{name} {same} {usual}"),
    }
}

/// Returns some bits of a number within the width.
fn mask(width: u32, usual: u64) -> u64 {
    (usual.rotate_left(7) ^ 0x5a5a_f00f_3c3c_9669) & ones(width)
}

fn condition(rng: &mut Rng, fields: &[Field]) -> String {
    let at = rng.usize(..fields.len());
    let mut text = field_condition(rng, at, &fields[at]);
    for _ in 0..rng.usize(..4) {
        let near = (at + rng.usize(..3)).min(fields.len() - 1);
        let other = field_condition(rng, near, &fields[near]);
        let join = if rng.u8(..3) == 0 { "||" } else { "&&" };
        text = format!("({text}) {join} ({other})");
        if rng.u8(..5) == 0 {
            text = format!("!({text})");
        }
    }
    text
}

/// Returns an assignment of a new value to a header field.
fn store(rng: &mut Rng, header: &str, fields: &[Field]) -> String {
    let (at, from) = (rng.usize(..fields.len()), rng.usize(..fields.len()));
    let (width, number) = (fields[at].width, rng.u64(..) & ones(fields[at].width));
    let to = format!("hdr.{header}.f{at}");
    match rng.u8(..4) {
        0 => format!("{to} = {number};"),
        1 => format!("{to} = {to} - {number};"),
        2 => format!("{to} = (bit<{width}>) hdr.{header}.f{from};"),
        _ => format!("{to} = ((bit<{width}>) hdr.{header}.f{from}) & {number};"),
    }
}

/// Returns a program that answers with its own header, and changes fields of the packet's.
fn program(rng: &mut Rng, fields: &[Field], summed: &[Field]) -> String {
    let mut text = String::from("#include <core.p4>\n#include <pna.p4>\nheader q_h {\n");
    for (at, field) in fields.iter().enumerate() {
        let _ = writeln!(text, "    bit<{}> f{at};", field.width);
    }
    text.push_str("}\nheader s_h {\n");
    for (at, field) in summed.iter().enumerate() {
        let _ = writeln!(text, "    bit<{}> f{at};", field.width);
    }
    let selected = rng.usize(..fields.len());
    let cases = [selected, (selected + 1).min(fields.len() - 1)];
    let state = |at: usize, state: &str, next: &str| {
        format!(
            "    state {state} {{ transition select(hdr.q.f{at}) {{ {}: {state}_usual; default: {next}; }} }}\n    state {state}_usual {{ \
             meta.met = meta.met + 1; transition {next}; }}\n",
            fields[at].usual
        )
    };
    let _ = write!(
        text,
        "}}\nheader r_h {{ bit<64> answers; bit<16> sum; bit<8> met; bit<24> a; bit<40> b; bit<48> c; bit<56> d; bit<4> e; bit<48> f; bit<4> g; }}\n\
         struct headers_t {{ q_h q; s_h s; r_h r; }}\nstruct metadata_t {{ bit<8> met; }}\n\
         parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {{\n    \
         state start {{ packet.extract(hdr.q); packet.extract(hdr.s); transition first; }}\n{}{}}}\n\
         control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,\n            \
         inout pna_pre_output_metadata_t ostd) {{ apply {{ }} }}\n\
         control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,\n                     \
         inout pna_main_output_metadata_t ostd) {{\n    InternetChecksum() sum;\n    \
         action set(bit<24> a, bit<40> b, bit<48> c, bit<56> d) {{\n        \
         hdr.r.a = a; hdr.r.b = b; hdr.r.c = c; hdr.r.d = d; hdr.r.e = 5; hdr.r.f = c; hdr.r.g = 9;\n    }}\n    \
         table parameters {{\n        actions = {{ set; NoAction; }}\n        default_action = set({}, {}, {}, {});\n    }}\n    \
         apply {{\n        if (!hdr.s.isValid()) {{ drop_packet(); exit; }}\n        bit<64> answers = 0;\n",
        state(cases[0], "first", "second"),
        state(cases[1], "second", "accept"),
        rng.u64(..) & ones(24),
        rng.u64(..) & ones(40),
        rng.u64(..) & ones(48),
        rng.u64(..) & ones(56),
    );
    for number in 0..CONDITIONS {
        let bit = 1u64 << number;
        let condition = condition(rng, fields);
        let _ = match number % 2 {
            0 => writeln!(text, "        if ({condition}) {{ answers = answers | 64w{bit}; }}"),
            _ => writeln!(text, "        answers = answers | (({condition}) ? 64w{bit} : 64w0);"),
        };
    }
    for (name, fields) in [("q", fields), ("s", summed)] {
        for _ in 0..rng.usize(..5) {
            let store = store(rng, name, fields);
            let _ = writeln!(text, "        {store}");
        }
    }
    let all: Vec<String> = (0..summed.len()).map(|at| format!("hdr.s.f{at}")).collect();
    let _ = write!(
        text,
        "        hdr.r.setValid();\n        hdr.r.answers = answers;\n        hdr.r.met = meta.met;\n        sum.add({{ {} }});\n        \
         hdr.r.sum = sum.get();\n        parameters.apply();\n        send_to_port((PortId_t) 2);\n    }}\n}}\n\
         control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {{\n    \
         apply {{ packet.emit(hdr.r); packet.emit(hdr.q); packet.emit(hdr.s); }}\n}}\nPNA_NIC(parse(), pre(), main_control(), deparse()) main;\n",
        all.join(", ")
    );
    text
}

fn packet(rng: &mut Rng, fields: &[Field], summed: &[Field]) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    for field in fields.iter().chain(summed) {
        let value = match rng.u8(..8) {
            0 => rng.u64(..),
            1 => field.usual ^ 1 << rng.u32(..field.width),
            _ => field.usual,
        };
        bits.extend((0..field.width).rev().map(|bit| value >> bit & 1 == 1));
    }
    let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    let mut bytes: Vec<u8> = bits.chunks(8).map(byte).collect();
    bytes.extend((0..rng.usize(..20)).map(|at| at as u8));
    bytes
}

#[test]
fn bytes_in_place_are_what_fields_are() {
    let seed = env_number("SEED", fastrand::u64(..1 << 32));
    let rounds = env_number("ROUNDS", 12);
    println!("SEED={seed} ROUNDS={rounds}");
    let mut rng = Rng::with_seed(seed);
    let mut both_ways = 0;
    for round in 0..rounds {
        let [fields, summed] = [false, round % 3 > 0].map(|whole| fields(&mut rng, whole));
        let text = program(&mut rng, &fields, &summed);
        // Also without the passes, because they change conditions.
        let mut both = EnginePair::new(&format!("SEED={seed}, round {round}"), &text, round % 2 == 0);
        let (mut yes, mut no) = (0, 0);
        for _ in 0..4 {
            let packets: Vec<Vec<u8>> = (0..100).map(|_| packet(&mut rng, &fields, &summed)).collect();
            for left in both.assert_same_packets(&packets) {
                let answers = u64::from_be_bytes(left[..8].try_into().expect("eight bytes"));
                (yes, no) = (yes | answers, no | !answers);
            }
        }
        both_ways += (yes & no).count_ones() as usize;
    }
    let asked = rounds as usize * CONDITIONS;
    assert!(both_ways > asked * 3 / 4, "only {both_ways} of {asked} conditions were answered both ways");
}
