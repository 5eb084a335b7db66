//! Compares native code with the interpreter after the first lookup of the hot path, where native
//! code has a duplicate for packets with known headers. Headers are added and removed there, fields
//! are changed and checksummed, and registers keep state.

use fastrand::Rng;
use std::fmt::Write;
use testkit::differ::env_number;
use testkit::differ::pair::{EnginePair, assert_vector_path_used, pna};

/// Number of headers that the parser extracts in a row; one more is only ever added.
const HEADERS: usize = 4;
/// Number of lookups of a program.
const TABLES: usize = 4;
/// Fields of a header, with their widths. The last is for checksums.
const FIELDS: [(&str, u32); 10] = [
    ("next", 8),
    ("value", 8),
    ("high", 3),
    ("low", 5),
    ("word", 16),
    ("twelve", 12),
    ("across", 8),
    ("four", 4),
    ("long", 48),
    ("sum", 16),
];

fn header(rng: &mut Rng) -> String {
    match rng.usize(..=HEADERS) {
        HEADERS => String::from("hdr.extra"),
        at => format!("hdr.h{at}"),
    }
}

/// Returns an element of a checksummed list, and its width.
fn summed(rng: &mut Rng, of: &str) -> (String, u32) {
    let (field, width) = FIELDS[rng.usize(..FIELDS.len())];
    match rng.u8(..8) {
        0 => (format!("{}w{}", width, rng.u8(..7)), width),
        1 => (String::from("meta.seen"), 8),
        2 => (format!("{}.{field}", header(rng)), width),
        _ => (format!("{of}.{field}"), width),
    }
}

/// Returns a checksum of values that are, at least mostly, whole words together, and its
/// destination.
fn sum(rng: &mut Rng) -> String {
    let of = header(rng);
    let (mut list, mut bits): (Vec<String>, u32) = (Vec::new(), 0);
    if rng.bool() {
        // As in real headers: in their order.
        list.extend(FIELDS[..9].iter().map(|(field, _)| format!("{of}.{field}")));
        bits = FIELDS[..9].iter().map(|(_, width)| width).sum();
    }
    for _ in 0..rng.usize(..5) {
        let (value, width) = summed(rng, &of);
        list.push(value);
        bits += width;
    }
    let missing = bits.next_multiple_of(16) - bits;
    if list.is_empty() || missing > 0 && rng.u8(..8) > 0 {
        list.push(format!("{}w1", if missing > 0 { missing } else { 16 }));
    }
    let list = list.join(", ");
    let into = header(rng);
    let get = if rng.bool() { "get" } else { "get_state" };
    format!("sums.clear(); sums.add({{ {list} }}); {into}.sum = sums.{get}();")
}

fn change(rng: &mut Rng) -> String {
    let (header, number) = (header(rng), rng.u8(1..));
    let (field, width) = FIELDS[rng.usize(1..FIELDS.len())];
    match rng.u8(..12) {
        0 => format!("{header}.setInvalid();"),
        1 => format!("{header}.setValid();"),
        2 => format!("{header}.{field} = {header}.{field} + {};", number % 8),
        3 => format!("{header}.{field} = {}w{};", width, number % 8),
        4 => format!("meta.seen = meta.seen ^ {header}.value;"),
        5 => String::from("seen_packets.count((bit<8>) meta.seen[3:0]);"),
        6 => {
            // Fields that are read, then written, then summed again.
            let list = FIELDS[..9].iter().map(|(field, _)| format!("{header}.{field}")).collect::<Vec<_>>().join(", ");
            let once = format!("sums.clear(); sums.add({{ {list} }}); meta.seen = meta.seen ^ sums.get()[7:0];");
            format!("{once} {header}.{field} = {header}.{field} + (bit<{width}>) meta.seen; {once}")
        }
        7 => format!("{header} = {};", self::header(rng)),
        8 => String::from("if (meta.seen[4:3] == 0) { truncate(40 + (bit<32>) meta.seen[2:0]); }"),
        _ => sum(rng),
    }
}

fn changes(rng: &mut Rng, most: usize) -> String {
    (0..rng.usize(1..=most)).map(|_| change(rng) + " ").collect()
}

/// Returns statements between lookups.
fn step(rng: &mut Rng, remembers: bool) -> String {
    let header = header(rng);
    match rng.u8(..6) {
        0 => format!("if ({header}.isValid()) {{ {} }}", changes(rng, 2)),
        1 => format!("if (meta.seen[0:0] == 0) {{ {} }} else {{ {} }}", changes(rng, 2), changes(rng, 2)),
        2 if remembers => String::from(
            "{ bit<8> before = last.read(meta.seen[1:0]); last.write(meta.seen[1:0], meta.seen); meta.seen = meta.seen + before; }",
        ),
        _ => changes(rng, 2),
    }
}

fn table(rng: &mut Rng, number: usize) -> String {
    let mut text = String::new();
    for action in 0..3 {
        let _ = writeln!(
            text,
            "    action do_{number}_{action}(bit<8> by) {{ meta.seen = meta.seen + by; {} }}",
            changes(rng, 3)
        );
    }
    let key = if rng.bool() { String::from("meta.seen") } else { format!("{}.value", header(rng)) };
    let _ = write!(
        text,
        "    table lookup_{number} {{ key = {{ {key}: exact; hdr.h0.next: exact; }}\n        \
         actions = {{ do_{number}_0; do_{number}_1; do_{number}_2; leave; }} default_action = do_{number}_0({});\n        \
         const entries = {{ ",
        rng.u8(..)
    );
    for value in (0..64).filter(|_| rng.u8(..2) == 0).collect::<Vec<u8>>() {
        let action = match rng.u8(..16) {
            0 => String::from("leave()"),
            _ => format!("do_{number}_{}({})", rng.usize(..3), rng.u8(..4)),
        };
        let _ = write!(text, "({value}, 0): {action}; ");
    }
    text.push_str("} }\n");
    text
}

fn program(rng: &mut Rng) -> String {
    let fields: String = FIELDS.iter().map(|(field, width)| format!("bit<{width}> {field}; ")).collect();
    let parts: String = (0..HEADERS).map(|at| format!("part_h h{at}; ")).collect();
    let types = format!(
        "header part_h {{ {fields} }}\nstruct headers_t {{ {parts} part_h extra; }}\nstruct metadata_t {{ bit<8> seen; }}"
    );
    let mut states = String::from("    state start { transition s0; }\n");
    for at in 0..HEADERS {
        let next = if at + 1 == HEADERS { String::from("accept") } else { format!("s{}", at + 1) };
        let _ = writeln!(
            states,
            "    state s{at} {{ packet.extract(hdr.h{at}); transition select(hdr.h{at}.next) {{ 0: {next}; default: accept; }} }}"
        );
    }
    let mut control = String::from(
        "    InternetChecksum() sums;\n    Register<bit<8>, bit<2>>(4) last;\n    \
         Counter<bit<64>, bit<8>>(16, PNA_CounterType_t.PACKETS_AND_BYTES) seen_packets;\n    \
         action leave() { meta.seen = 77; exit; }\n",
    );
    (0..TABLES).for_each(|number| control.push_str(&table(rng, number)));
    let remembers = rng.u8(..4) == 0;
    control.push_str("    apply {\n        send_to_port((PortId_t) 2);\n");
    for number in 0..TABLES {
        let _ = writeln!(control, "        lookup_{number}.apply();\n        {}", step(rng, remembers));
    }
    control.push_str("        if (hdr.h0.isValid()) { hdr.h0.value = meta.seen; }\n    }");
    let mut order: Vec<String> = (0..HEADERS).map(|at| format!("h{at}")).collect();
    order.insert(rng.usize(..=HEADERS), String::from("extra"));
    if rng.u8(..3) == 0 {
        rng.shuffle(&mut order);
    }
    let emits: String = order.iter().map(|name| format!("packet.emit(hdr.{name}); ")).collect();
    pna(&types, &states, &control, &emits)
}

/// Returns a packet, mostly with all headers and a payload.
fn packet(rng: &mut Rng) -> Vec<u8> {
    let header = FIELDS.iter().map(|(_, width)| *width as usize).sum::<usize>() / 8;
    let len = if rng.u8(..8) > 0 { HEADERS * header + rng.usize(..20) } else { rng.usize(..HEADERS * header) };
    let mut bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
    for at in (0..HEADERS).map(|at| at * header).filter(|at| at + 1 < len) {
        bytes[at] = u8::from(rng.u8(..20) == 0);
        bytes[at + 1] %= 64;
    }
    bytes
}

#[test]
fn packets_fare_alike_behind_lookups() {
    let (seed, rounds) = (env_number("SEED", fastrand::u64(..1 << 32)), env_number("ROUNDS", 24));
    println!("SEED={seed} ROUNDS={rounds}");
    let mut rng = Rng::with_seed(seed);
    let (mut onward, mut lookups) = (0, 0);
    let mut eights = [0; 2];
    for round in 0..rounds {
        let text = program(&mut rng);
        let mut both = EnginePair::new(&format!("SEED={seed}, round {round}"), &text, round % 2 == 0);
        let own = both.native.hot_path_lookup_count();
        onward += u64::from(own > 1);
        lookups += own;
        for _ in 0..4 {
            let packets: Vec<Vec<u8>> = (0..200).map(|_| packet(&mut rng)).collect();
            both.assert_same_packets(&packets);
        }
        both.add_vector_counts(&mut eights);
    }
    assert_vector_path_used(eights, rounds * 100);
    assert!(onward * 3 > rounds, "only {onward} of {rounds} programs had lookups behind lookups of their trace");
    println!("{lookups} lookups of traces in {rounds} programs");
}

/// Returns a program that ends with one header type in place of the received other one, replaced in
/// `action` or `behind`.
fn replacing_program(action: &str, behind: &str) -> String {
    let control = format!(
        "action instead(bit<24> more) {{ {action} }}
        table lookup {{ key = {{ hdr.first.value: exact; }} actions = {{ instead; NoAction; }} default_action = NoAction();
                        const entries = {{ 1: instead(7); 2: instead(8); }} }}
        apply {{ send_to_port((PortId_t) 2); lookup.apply(); {behind} }}"
    );
    pna(
        "header part_h { bit<8> value; bit<24> more; } struct headers_t { part_h first; part_h other; } struct metadata_t { }",
        "state start { transition select(packet.lookahead<bit<8>>()) { 0: other; default: first; } }
        state first { packet.extract(hdr.first); transition accept; }
        state other { packet.extract(hdr.other); transition accept; }",
        &control,
        "packet.emit(hdr.other); packet.emit(hdr.first);",
    )
}

/// A header that replaces another one has another address.
#[test]
fn a_header_in_place_of_another_leaves() {
    let packets: Vec<Vec<u8>> = (0..64u8).map(|number| vec![number % 4, 9, 9, 9, number]).collect();
    let change = "hdr.first.setInvalid(); hdr.other.setValid(); hdr.other.more =";
    let mut some = EnginePair::new("in an action", &replacing_program(&format!("{change} more;"), ""), true);
    let leave = some.assert_same_packets(&packets);
    assert_eq!((&*leave[1], &*leave[3]), (&[0, 0, 0, 7, 1][..], &[3, 9, 9, 9, 3][..]));
    let mut all =
        EnginePair::new("behind all", &replacing_program("hdr.first.more = more;", &format!("{change} 5;")), true);
    let leave = all.assert_same_packets(&packets);
    assert_eq!((&*leave[1], &*leave[3]), (&[0, 0, 0, 5, 1][..], &[0, 0, 0, 5, 3][..]));
    assert_eq!(&*leave[4], [0, 0, 0, 5, 4]);
}

/// Paths that join pass separate values to the stage after the next lookup.
#[test]
fn what_was_done_on_different_ways_is_known_behind_the_next_lookup() {
    let control = "bit<24> got; bit<8> way;
        action one(bit<24> more) { got = more; way = 1; }
        action two(bit<24> more) { got = more + 1; way = 2; }
        action none() { got = 3; way = 3; }
        action last(bit<8> more) { hdr.first.seen = hdr.first.seen + more; }
        table lookup { key = { hdr.first.value: exact; } actions = { one; two; none; } default_action = none();
                       const entries = { 1: one(7); 2: two(8); 3: one(9); 4: two(10); } }
        table next { key = { hdr.first.other: exact; } actions = { last; NoAction; } default_action = NoAction();
                     const entries = { 1: last(1); 2: last(2); } }
        apply {
            send_to_port((PortId_t) 2);
            bool found = lookup.apply().hit;
            bit<24> changed = found ? got : 24w77;
            if (hdr.first.other == 2) { changed = changed ^ 5; }
            bool again = next.apply().hit;
            if (found && !again) { hdr.first.more = changed; } else { hdr.first.more = got; }
            hdr.first.way = way + (bit<8>) (bit<1>) again;
        }";
    let text = pna(
        "header part_h { bit<8> value; bit<8> other; bit<24> more; bit<8> way; bit<8> seen; } struct headers_t { part_h first; } struct metadata_t { }",
        "state start { packet.extract(hdr.first); transition accept; }",
        control,
        "packet.emit(hdr.first);",
    );
    for passes in [false, true] {
        let mut both = EnginePair::new("ways that meet", &text, passes);
        let packets: Vec<Vec<u8>> = (0..240u8).map(|at| vec![at % 6, at / 6 % 4, 9, 9, 9, 9, at]).collect();
        // One by one, then eight at a time.
        assert_eq!(both.assert_same_packets(&packets), both.assert_same_packets(&packets));
        let [through, _] = both.vector_packet_counts();
        assert!(through >= 480 || !jit::supports_vector_path(), "only {through} packets took the vector path");
    }
}

/// Values of two bodies have the same numbers: a checksum in v1model's deparser must not use values
/// of the bodies before it.
#[test]
fn sums_of_two_bodies_are_apart() {
    for loads in 0..6 {
        let before: String = (0..loads).map(|at| format!("seen = seen + hdr.a.f{at}; ")).collect();
        let text = format!(
            "#include <core.p4>\n#include <v1model.p4>
            header a_h {{ bit<16> f0; bit<16> f1; bit<16> f2; bit<16> f3; bit<16> f4; bit<16> f5; bit<16> sum; }}
            struct headers_t {{ a_h a; }}
            struct metadata_t {{ }}
            parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
                state start {{ packet.extract(hdr.a); transition accept; }}
            }}
            control check(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
            control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
                action to(bit<9> port) {{ std.egress_spec = port; }}
                table lookup {{ key = {{ hdr.a.f0: exact; }} actions = {{ to; }} default_action = to(2); const entries = {{ 1: to(3); }} }}
                apply {{ lookup.apply(); }}
            }}
            control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{ apply {{ }} }}
            control update(inout headers_t hdr, inout metadata_t meta) {{
                apply {{ update_checksum(true, {{ hdr.a.f0, hdr.a.f1, hdr.a.f2, hdr.a.f3, hdr.a.f4, hdr.a.f5 }}, hdr.a.sum, HashAlgorithm.csum16); }}
            }}
            control deparse(packet_out packet, in headers_t hdr) {{
                bit<16> r;
                bit<16> seen = 0;
                apply {{
                    {before}
                    hash(r, HashAlgorithm.csum16, 16w0, {{ hdr.a.f0 ^ hdr.a.f5, seen ^ hdr.a.f1 }}, 32w65535);
                    if (r[0:0] == 1) {{ packet.emit(hdr.a); }}
                }}
            }}
            V1Switch(parse(), check(), ingress(), egress(), update(), deparse()) main;"
        );
        let mut both = EnginePair::new(&format!("{loads} loads"), &text, true);
        let mut rng = Rng::with_seed(loads);
        let packets: Vec<Vec<u8>> = (0..200).map(|_| (0..20).map(|_| rng.u8(..)).collect()).collect();
        let lengths: std::collections::BTreeSet<usize> =
            both.assert_same_packets(&packets).iter().map(Vec::len).collect();
        assert!(lengths.len() > 1, "some packets leave with the header, others without");
    }
}
