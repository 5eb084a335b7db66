//! Compares native code with the interpreter on variables that are copied to each other, within a
//! control, to and from sub-controls, around tables and branches. Native code coalesces such
//! copies.

use entries::Counter;
use fastrand::Rng;
use interp::{Config, Interp};
use jit::Jit;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use testkit::differ::compile::compile;
use testkit::differ::pair::{EnginePair, pna};
use testkit::differ::{env_number, sent_packets};

/// Number of variables of a control.
const VARIABLES: usize = 6;
/// Number of sub-controls, each of which may apply later ones.
const STEPS: usize = 3;

/// Builder of a control's text.
struct Making<'a> {
    rng: &'a mut Rng,
    /// Number of tables in this control so far.
    tables: usize,
    /// First sub-control that it may apply.
    steps: usize,
}

impl Making<'_> {
    fn variable(&mut self) -> String {
        format!("v{}", self.rng.usize(..VARIABLES))
    }

    /// Returns random statements, mostly copies.
    fn statements(&mut self, count: usize, depth: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let (to, from) = (self.variable(), self.variable());
            let _ = match self.rng.u8(..13) {
                0..=5 => writeln!(text, "{to} = {from};"),
                6 => writeln!(text, "{to} = {from} + {};", self.rng.u8(1..)),
                7 => writeln!(text, "{{ bit<8> t = {to}; {to} = {from}; {from} = t; }}"),
                8 if depth > 0 => {
                    let (one, other) = (self.statements(3, depth - 1), self.statements(2, depth - 1));
                    writeln!(text, "if ({to} < {from}) {{\n{one}}} else {{\n{other}}}")
                }
                9 if self.tables < 3 => {
                    self.tables += 1;
                    writeln!(text, "lookup_{}.apply();", self.tables)
                }
                10 if self.steps < STEPS => {
                    let mut all: Vec<usize> = (0..VARIABLES).collect();
                    self.rng.shuffle(&mut all);
                    writeln!(
                        text,
                        "step_{}_used.apply(v{}, v{}, v{}, v{});",
                        self.steps, all[0], all[1], all[2], all[3]
                    )
                }
                12 => writeln!(text, "{{ bit<8> t = {to}; if ({to} < {from}) {{ {to} = {to} + 1; }} {to} = t; }}"),
                11 if depth > 0 && self.rng.u8(..4) == 0 => writeln!(text, "if ({to} == {from}) {{ exit; }}"),
                _ => writeln!(text, "{to} = {from};"),
            };
        }
        text
    }

    /// Returns declarations and body of a control. Its variables are parameters or declared by
    /// `own`.
    fn control(&mut self, own: &str, statements: usize) -> (String, String) {
        let body = self.statements(statements, 2);
        let mut declared = String::from(own);
        for table in 1..=self.tables {
            let (key, to, from) = (self.variable(), self.variable(), self.variable());
            let _ = write!(
                declared,
                "action set_{table}(bit<8> p) {{ {to} = p; }}\naction copy_{table}() {{ {to} = {from}; }}\n\
                 table lookup_{table} {{ key = {{ {key}: exact; }} actions = {{ set_{table}; copy_{table}; }} \
                 default_action = copy_{table}(); const entries = {{ {}: set_{table}({}); {}: copy_{table}(); }} }}\n",
                self.rng.u8(..8),
                self.rng.u8(..),
                self.rng.u8(8..16),
            );
        }
        if self.steps < STEPS {
            let _ = writeln!(declared, "step_{0}() step_{0}_used;", self.steps);
        }
        (declared, body)
    }
}

fn program(rng: &mut Rng) -> String {
    let names: Vec<String> = (0..VARIABLES).map(|at| format!("v{at}")).collect();
    let fields: String = names.iter().map(|name| format!("bit<8> {name}; ")).collect();
    let mut types =
        format!("header q_h {{ {fields} }}\nstruct headers_t {{ q_h q; q_h r; }}\nstruct metadata_t {{ {fields} }}\n");
    for step in (0..STEPS).rev() {
        let (declared, body) =
            Making { rng, tables: 0, steps: step + 1 }.control("bit<8> v4 = 3; bit<8> v5 = v0;\n", 6);
        let _ = writeln!(
            types,
            "control step_{step}(inout bit<8> v0, inout bit<8> v1, in bit<8> given, inout bit<8> v3) {{\nbit<8> v2 = given;\n{declared}apply {{\n{body}}}\n}}"
        );
    }
    let own: String = names.iter().map(|name| format!("bit<8> {name} = hdr.q.{name};\n")).collect();
    let (declared, body) = Making { rng, tables: 0, steps: 0 }.control(&own, 24);
    let out: String = names.iter().map(|name| format!("hdr.r.{name} = {name} ^ meta.{name};\n")).collect();
    pna(
        &types,
        "state start { packet.extract(hdr.q); meta.v0 = hdr.q.v1; meta.v1 = meta.v0; transition accept; }",
        &format!(
            "{declared}apply {{\nsend_to_port((PortId_t) 2);\nmeta.v2 = v2;\n{body}meta.v3 = v3;\nhdr.r.setValid();\n{out}}}"
        ),
        "packet.emit(hdr.r); packet.emit(hdr.q);",
    )
}

#[test]
fn copies_are_what_they_were_copied_from() {
    let seed = env_number("SEED", fastrand::u64(..1 << 32));
    let rounds = env_number("ROUNDS", 40);
    println!("SEED={seed} ROUNDS={rounds}");
    let mut rng = Rng::with_seed(seed);
    let mut answers = 0;
    for round in 0..rounds {
        let text = program(&mut rng);
        let mut both = EnginePair::new(&format!("SEED={seed}, round {round}"), &text, round % 2 == 0);
        let packets: Vec<Vec<u8>> = (0..200).map(|_| (0..VARIABLES).map(|_| rng.u8(..16)).collect()).collect();
        answers +=
            both.assert_same_packets(&packets).iter().map(|bytes| &bytes[..VARIABLES]).collect::<BTreeSet<_>>().len();
    }
    assert!(answers > rounds as usize * 20, "only {answers} different answers in {rounds} programs");
}

/// Full batches of the longest packets maximise the per-batch counters. The tables' counts must
/// equal the interpreter's.
#[test]
fn full_batches_of_long_packets_are_counted() {
    let mut rng = Rng::with_seed(7);
    let pipeline = Arc::new(compile(&program(&mut rng), true).unwrap_or_else(|errors| panic!("{errors}")));
    let mut oracle = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter loads it");
    let mut native = Jit::new(pipeline.clone(), Config::default()).expect("native code is made");
    for _ in 0..3 {
        let packets: Vec<Vec<u8>> = (0..packet::MAX_BATCH)
            .map(|_| (0..packet::MAX_LEN).map(|at| if at < VARIABLES { rng.u8(..16) } else { 0x5a }).collect())
            .collect();
        assert_eq!(sent_packets(&mut oracle, &packets), sent_packets(&mut native, &packets));
    }
    let mut most = 0;
    for table in pipeline.tables.keys() {
        let wanted: Vec<_> = oracle.action_counters(table).map(|(_, counted)| counted).collect();
        let mut counted = vec![[Counter::default(); 2]; wanted.len()];
        for place in native.stats().tables.iter().filter(|place| place.table == table) {
            for ([misses, hits], action) in counted.iter_mut().zip(&place.actions) {
                *misses += action.misses;
                *hits += action.hits;
            }
        }
        assert_eq!(counted, wanted);
        most = wanted.iter().flatten().map(|counted| counted.bytes).fold(most, u64::max);
    }
    assert!(most > 3 << 20, "no table was applied to most packets: {most} bytes at most");
}

/// A variable gets its old value back where one path passed another store. The compiler never emits
/// such code, so a line is inserted into its output.
#[test]
fn what_is_put_back_behind_a_branch_is_put_back() {
    let text = pna(
        "header part_h { bit<8> value; bit<8> other; } struct headers_t { part_h part; } struct metadata_t { bit<8> held; }",
        "state start { packet.extract(hdr.part); transition accept; }",
        "apply {
            meta.held = hdr.part.value;
            if (hdr.part.other == 1) { meta.held = 9; }
            hdr.part.other = meta.held;
            send_to_port((PortId_t) 2);
        }",
        "packet.emit(hdr.part);",
    );
    let made = ir::text::print(&compile(&text, true).unwrap_or_else(|errors| panic!("{errors}")));
    let (_, first) = made.split_once("store $meta.held, ").expect("a store of what the header has");
    let value: String = first.chars().take_while(|c| c.is_alphanumeric()).collect();
    let load = made.lines().find(|line| line.contains("= load $meta.held")).expect("a load behind the branch");
    let changed = made.replace(load, &format!("  store $meta.held, {value}\n{load}"));
    let pipeline = Arc::new(ir::text::parse(&changed).unwrap_or_else(|errors| panic!("{errors:?}\n{changed}")));
    assert!(ir::verify::verify(&pipeline).is_ok(), "{changed}");
    let mut oracle = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter loads it");
    let mut native = Jit::new(pipeline, Config::default()).expect("native code is made");
    let packets: Vec<Vec<u8>> = (0..64).map(|number| vec![number, number % 3]).collect();
    let leave = sent_packets(&mut oracle, &packets);
    assert_eq!(&*leave[1], [1, 1], "the value is put back");
    assert_eq!(leave, sent_packets(&mut native, &packets));
}
