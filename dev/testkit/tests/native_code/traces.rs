//! Compares native code with the interpreter on parsers of any shape. Native code duplicates their
//! hot paths; packets follow these, leave them and rejoin, and end at any byte.

use fastrand::Rng;
use interp::{Config, Interp};
use jit::Jit;
use std::fmt::Write;
use std::sync::Arc;
use testkit::differ::compile::compile;
use testkit::differ::pair::{EnginePair, assert_vector_path_used, pna};
use testkit::differ::{env_number, sent_packets};

/// Number of headers, one for each state of a program's parser. Transitions go to later states.
const STATES: usize = 7;

/// Returns a parser state with its transitions: by select, with or without lookahead.
fn state(rng: &mut Rng, at: usize) -> String {
    let later = |rng: &mut Rng| match rng.usize(at + 1..STATES + 2) {
        next if next >= STATES => String::from("accept"),
        next => format!("s{next}"),
    };
    let mut text = format!("    state s{at} {{\n        packet.extract(hdr.h{at});\n");
    if rng.u8(..3) == 0 {
        let _ = writeln!(text, "        verify(hdr.h{at}.value != {}, error.Bad);", rng.u8(..16));
    }
    if rng.u8(..3) == 0 {
        let _ = writeln!(text, "        meta.seen = meta.seen ^ packet.lookahead<bit<8>>();");
    }
    if at + 1 == STATES {
        text.push_str("        transition accept;\n    }\n");
        return text;
    }
    let (first, second, third) = (format!("s{}", at + 1), later(rng), later(rng));
    // One case reaches the first case's target, or another, through another state. Mostly that
    // extracts nothing.
    let side = if rng.bool() { first.clone() } else { later(rng) };
    let does = match rng.u8(..4) {
        0 => String::from("meta.seen = meta.seen ^ packet.lookahead<bit<88>>()[7:0];"),
        1 => format!("verify(meta.seen != {}, error.Bad);", rng.u8(..4)),
        _ => format!("meta.seen = meta.seen + {};", rng.u8(1..)),
    };
    let _ = write!(
        text,
        "        transition select(hdr.h{at}.next) {{ 0: {first}; 1: {second}; 2: side{at}; 3: reject; default: {third}; }}\n    }}\n    \
         state side{at} {{ {does} transition {side}; }}\n",
    );
    text
}

/// Returns a condition of the control before its lookup: on errors, on the validity of headers, on
/// fields.
fn question(rng: &mut Rng) -> String {
    let at = rng.usize(..STATES);
    let number = rng.u8(..16);
    match rng.u8(..8) {
        7 if rng.bool() => {
            String::from("{ bit<8> n = calls.read(0); calls.write(0, n + 1); meta.seen = meta.seen + n; }")
        }
        5 if rng.bool() => format!("hdr.h{at}.value = hdr.h{at}.value + 1;"),
        6 if rng.bool() => String::from("numbered.apply();"),
        0 => String::from("if (istd.parser_error != error.NoError) { answer(255); exit; }"),
        1 => format!("if (!hdr.h{at}.isValid()) {{ answer({number}); exit; }}"),
        2 => format!("if (hdr.h{at}.isValid() && hdr.h{at}.value == {number}) {{ meta.seen = meta.seen + 7; }}"),
        3 => format!("if (meta.seen == {number}) {{ hdr.h{at}.setInvalid(); }}"),
        _ => format!("meta.seen = meta.seen ^ hdr.h{at}.value;"),
    }
}

fn program(rng: &mut Rng) -> String {
    let mut types = String::from("error { Bad }\n");
    for at in 0..STATES {
        let _ = writeln!(types, "header h{at}_h {{ bit<8> next; bit<8> value; bit<{}> more; }}", 8 * rng.u32(1..5));
    }
    types.push_str("header answer_h { bit<8> code; bit<8> seen; }\nstruct headers_t { answer_h answer; ");
    (0..STATES).for_each(|at| types.push_str(&format!("h{at}_h h{at}; ")));
    types.push_str("}\nstruct metadata_t { bit<8> seen; }");
    let mut states = String::from("    state start { transition s0; }\n");
    (0..STATES).for_each(|at| states.push_str(&state(rng, at)));
    let mut control = String::from(
        "    Register<bit<8>, bit<1>>(1) calls;\n    action answer(bit<8> code) { hdr.answer.setValid(); hdr.answer.code = code; hdr.answer.seen = meta.seen; send_to_port((PortId_t) 2); }\n    \
         action change(bit<8> by) { meta.seen = meta.seen + by; hdr.h0.value = by; }\n    \
         table numbered { actions = { change; } default_action = change(5); }
        table lookup { key = { hdr.h0.value: exact; meta.seen: exact; } actions = { answer; change; } default_action = change(3);\n        \
         const entries = { ",
    );
    for key in (0..16 * 16).filter(|_| rng.u8(..4) == 0).collect::<Vec<u32>>() {
        let _ = write!(control, "({}, {}): answer({}); ", key / 16, key % 16, rng.u8(..));
    }
    control.push_str("} }\n    apply {\n");
    (0..rng.usize(1..6)).for_each(|_| control.push_str(&format!("        {}\n", question(rng))));
    control.push_str("        lookup.apply();\n        answer(hdr.h0.value);\n    }");
    let emits: String = (0..STATES).map(|at| format!("packet.emit(hdr.h{at}); ")).collect();
    pna(&types, &states, &control, &format!("packet.emit(hdr.answer); {emits}"))
}

/// Returns a packet of any length, mostly one that follows the hot path.
fn packet(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.bool() { 80 } else { rng.usize(..60) };
    let strange = rng.u8(..3) * 4;
    (0..len).map(|_| if rng.u8(..40) < strange { rng.u8(..5) } else { 0 }).collect()
}

#[test]
fn packets_fare_alike_wherever_they_turn_off() {
    let (seed, rounds) = (env_number("SEED", fastrand::u64(..1 << 32)), env_number("ROUNDS", 24));
    println!("SEED={seed} ROUNDS={rounds}");
    let mut rng = Rng::with_seed(seed);
    let (mut traced, mut short, mut long) = (0, 0, 0);
    let mut eights = [0; 2];
    for round in 0..rounds {
        let text = program(&mut rng);
        let mut both = EnginePair::new(&format!("SEED={seed}, round {round}"), &text, round % 2 == 0);
        let trace = both.native.hot_path_bytes();
        traced += u64::from(trace.is_some());
        for _ in 0..4 {
            let packets: Vec<Vec<u8>> = (0..200).map(|_| packet(&mut rng)).collect();
            let needed = trace.unwrap_or(u32::MAX) as usize;
            short += packets.iter().filter(|packet| packet.len() < needed).count();
            long += packets.iter().filter(|packet| packet.len() >= needed).count();
            both.assert_same_packets(&packets);
        }
        both.add_vector_counts(&mut eights);
    }
    assert_vector_path_used(eights, rounds * 20);
    let packets = rounds as usize * 800;
    assert!(traced * 3 > rounds * 2, "only {traced} of {rounds} programs had a trace");
    assert!(
        short > packets / 8 && long > packets / 4,
        "{short} packets were too short for a trace, and {long} long enough, of {packets}"
    );
}

/// A parser may enter only as many states as it has. A packet that leaves the hot path has not
/// entered that path's later states.
#[test]
fn states_are_counted_once() {
    let mut states = String::from("state start { transition s0; }\n");
    for at in 0..4 {
        let next = if at == 3 { String::from("accept") } else { format!("s{}", at + 1) };
        let _ = writeln!(
            states,
            "state s{at} {{ packet.extract(hdr.h{at}); transition select(hdr.h{at}.next) {{ 0: {next}; 1: reject; default: accept; }} }}"
        );
    }
    let text = pna(
        "header part_h { bit<8> next; bit<8> value; }
        struct headers_t { part_h h0; part_h h1; part_h h2; part_h h3; } struct metadata_t { }",
        &states,
        "action put(bit<8> value) { hdr.h0.value = value; }
        table lookup { key = { hdr.h0.value: exact; } actions = { put; } default_action = put(200); const entries = { 1: put(7); } }
        apply { send_to_port((PortId_t) 2); lookup.apply(); }",
        "packet.emit(hdr.h0); packet.emit(hdr.h1); packet.emit(hdr.h2); packet.emit(hdr.h3);",
    );
    let pipeline = Arc::new(compile(&text, true).unwrap_or_else(|errors| panic!("{errors}")));
    let packets: Vec<Vec<u8>> = (0..64u8).map(|n| vec![0, n % 3, 0, 1, 0, 2, n % 4, 3, n]).collect();
    for limit in 1..9 {
        let config = Config { max_parser_states: limit, ..Config::default() };
        let mut oracle = Interp::new(pipeline.clone(), config.clone()).expect("the interpreter loads it");
        let mut native = Jit::new(pipeline.clone(), config).expect("native code is made");
        assert!(native.hot_path_bytes().is_some(), "a trace");
        assert_eq!(sent_packets(&mut oracle, &packets), sent_packets(&mut native, &packets), "{limit} states");
    }
}

/// Returns a program that extracts `bytes` bytes and carries `carried` words over 44 lookups.
fn program_at_a_limit(bytes: usize, carried: usize) -> String {
    let fields: String = (0..carried).map(|n| format!("bit<64> m{n}; ")).collect();
    let set: String = (0..carried).map(|n| format!("meta.m{n} = hdr.h.value * {}; ", 2 * n + 3)).collect();
    let sum: String = (0..carried).map(|n| format!("hdr.h.value = hdr.h.value ^ meta.m{n}; ")).collect();
    let mut tables = String::from("action add(bit<64> value) { hdr.h.key = hdr.h.key + value; }\n");
    let mut applied = String::new();
    for n in 0..44 {
        let _ = writeln!(
            tables,
            "table t{n} {{ key = {{ hdr.h.key: exact; }} actions = {{ add; }} default_action = add({n}); size = 100000; }}"
        );
        let _ = write!(applied, "t{n}.apply(); ");
    }
    pna(
        &format!(
            "header h_h {{ bit<64> key; bit<64> value; bit<{}> more; }}
            struct headers_t {{ h_h h; }} struct metadata_t {{ {fields} }}",
            8 * (bytes - 16)
        ),
        "state start { packet.extract(hdr.h); transition accept; }",
        &format!("{tables} apply {{ {set} {applied} {sum} send_to_port((PortId_t) 2); }}"),
        "packet.emit(hdr.h);",
    )
}

/// Beyond a limit of the code for eight packets, a program has none. The engine names the limit and
/// counts the packets, and does with them what the interpreter does.
#[test]
fn a_program_beyond_a_limit_of_vector_code_says_so() {
    if !jit::supports_vector_path() {
        return;
    }
    for (bytes, carried, expected) in
        [(64, 2, None), (600, 2, Some("headers_too_long")), (64, 420, Some("lists_too_large"))]
    {
        let mut both =
            EnginePair::new(&format!("{bytes} bytes, {carried} words"), &program_at_a_limit(bytes, carried), true);
        let packets: Vec<Vec<u8>> = (0..64u8).map(|n| vec![n; bytes]).collect();
        both.assert_same_packets(&packets);
        let refusal = both.native.vector_refusal();
        assert_eq!(refusal.map(jit::VectorRefusal::name), expected, "{refusal:?}");
        assert_eq!(both.native.vector_stage_count() > 0, expected.is_none());
        let counts: Vec<(&str, u64)> = both.native.vector_refusal_counts().into_iter().collect();
        let expected: Vec<(&str, u64)> = expected.into_iter().map(|name| (name, 64)).collect();
        assert_eq!(counts, expected);
        assert!(refusal.is_none_or(|refusal| refusal.is_limit() && refusal.to_string().contains("are the limit")));
    }
}
