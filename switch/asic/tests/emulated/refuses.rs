//! Tests rejections of the chip with their messages, and the exact state that it carries from pass
//! to pass.

use asic::emulate::{
    EmulatedSwitch, ParallelSplit, PipeSpread, PlacedPart, PlacedTable, PlacementMap, PlacementMapError, SwitchError,
    SwitchViolation,
};
use entries::{ActionSpec, TableEntry, WriteBatch};
use interp::Config;
use ir::{ActionCall, KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{DropReason, EngineReason, Verdict};
use std::sync::Arc;
use testkit::differ::compile::compile;

/// Returns two tables. The first one's action writes the second one's key, or its condition, or
/// neither.
fn pipeline(second: &str) -> Arc<Pipeline> {
    pipeline_with("", second)
}

fn pipeline_with(properties: &str, second: &str) -> Arc<Pipeline> {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header h_t {{ bit<16> a; bit<16> b; bit<32> c; }}\n\
         struct headers {{ h_t h; }}\n\
         struct meta_t {{ bit<16> x; bit<12> y; }}\n\
         parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t s) {{\n\
           state start {{ p.extract(hdr.h); transition accept; }}\n\
         }}\n\
         control V(inout headers hdr, inout meta_t m) {{ apply {{}} }}\n\
         control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {{\n\
           action set(bit<16> v) {{ m.x = v; }}\n\
           action port(bit<9> v) {{ s.egress_spec = v; }}\n\
           action mark(bit<16> v) {{ m.x = v; if (m.x == 7) {{ s.priority = 1; }} }}\n\
           table first {{ key = {{ hdr.h.a: exact; }} actions = {{ set; NoAction; }} {properties} default_action = NoAction(); }}\n\
           table marks {{ key = {{ hdr.h.a: exact; }} actions = {{ mark; }} default_action = mark(0); }}\n\
           table by_x {{ key = {{ m.x: exact; }} actions = {{ port; NoAction; }} default_action = NoAction(); }}\n\
           table by_b {{ key = {{ hdr.h.b: exact; }} actions = {{ port; NoAction; }} default_action = NoAction(); }}\n\
           table masked {{ key = {{ hdr.h.b: ternary; }} actions = {{ port; NoAction; }} default_action = NoAction(); }}\n\
           apply {{ m.y = 12w5; {second} }}\n\
         }}\n\
         control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {{ apply {{ hdr.h.b = (bit<16>)m.y + m.x; }} }}\n\
         control C(inout headers hdr, inout meta_t m) {{ apply {{}} }}\n\
         control D(packet_out p, in headers hdr) {{ apply {{ p.emit(hdr.h); }} }}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    );
    Arc::new(compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

fn table(pipeline: &Pipeline, name: &str) -> TableId {
    entries::find_table(pipeline, name).expect("a table of that name")
}

/// Name of a table, and its parts: pass, stage, capacity.
type At<'a> = (&'a str, &'a [(u32, u32, u64)]);

fn placed(pipeline: &Pipeline, folds: u32, tables: &[At<'_>]) -> PlacementMap {
    let part =
        |(pass, stage, capacity): &(u32, u32, u64)| PlacedPart { pass: *pass, stage: *stage, capacity: *capacity };
    let one = |(name, parts): &At<'_>| {
        (table(pipeline, name), PlacedTable { parts: parts.iter().map(part).collect(), split: None })
    };
    PlacementMap { stages: 12, passes: PlacementMap::folded_passes(folds), tables: tables.iter().map(one).collect() }
}

fn action(pipeline: &Pipeline, name: &str, args: &[u64]) -> ActionSpec {
    let mut all = pipeline.actions.iter();
    let (action, _) = all.find(|(_, action)| action.preamble.name.ends_with(name)).expect("an action of that name");
    ActionSpec::Call(ActionCall { action, args: args.iter().map(|arg| BigUint::from(*arg)).collect() })
}

fn exact(pipeline: &Pipeline, name: &str, key: u64, spec: ActionSpec) -> TableEntry {
    TableEntry::new(table(pipeline, name), vec![KeyMatch::Exact(BigUint::from(key))], spec)
}

fn ternary(pipeline: &Pipeline, value: u64, mask: u64, priority: i32, port: u64) -> TableEntry {
    let key = KeyMatch::Ternary { value: BigUint::from(value), mask: BigUint::from(mask) };
    TableEntry::new(table(pipeline, "masked"), vec![key], action(pipeline, "port", &[port])).with_priority(priority)
}

fn insert(switch: &mut EmulatedSwitch, entries: impl IntoIterator<Item = TableEntry>) -> Result<(), String> {
    let mut batch = WriteBatch::new();
    entries.into_iter().for_each(|entry| {
        batch.insert(entry);
    });
    switch.write(&batch).map_err(|error| error.to_string())
}

fn packet(a: u16, b: u16) -> Vec<u8> {
    [&a.to_be_bytes()[..], &b.to_be_bytes(), &[1, 2, 3, 4], b"payload"].concat()
}

fn switch(pipeline: &Arc<Pipeline>, placed: PlacementMap) -> EmulatedSwitch {
    EmulatedSwitch::new(pipeline.clone(), placed, Config::default()).expect("the chip takes it")
}

fn verdict(switch: &mut EmulatedSwitch, a: u16, b: u16) -> Verdict {
    switch.process_one(&packet(a, b), 1, 0)[0].verdict
}

const FAULT: Verdict = Verdict::Drop(DropReason::Engine(EngineReason::EngineBug));

/// Returns the only violation, with its text.
fn violation(switch: &EmulatedSwitch) -> (SwitchViolation, String) {
    let mut all = switch.violations();
    let (violation, packets) = all.next().expect("a violation");
    assert_eq!((packets, all.next()), (1, None));
    (*violation, violation.describe(switch.pipeline()))
}

/// A table key that is written in the table's own stage: the packet is dropped, and the report
/// names stage and fix. One stage later the program runs.
#[test]
fn a_key_must_be_made_in_an_earlier_stage() {
    let pipeline = pipeline("first.apply(); by_x.apply();");
    let entries =
        |p: &Pipeline| [exact(p, "first", 1, action(p, "set", &[7])), exact(p, "by_x", 7, action(p, "port", &[3]))];
    for (stage, good) in [(4, false), (3, false), (5, true)] {
        let mut switch =
            switch(&pipeline, placed(&pipeline, 1, &[("first", &[(0, 4, 9)]), ("by_x", &[(0, stage, 9)])]));
        insert(&mut switch, entries(&pipeline)).expect("entries are taken");
        let found = verdict(&mut switch, 1, 0);
        if good {
            assert!(matches!(found, Verdict::Forward { port } if port.0 == 3), "{found:?}");
            assert_eq!(switch.violations().count(), 0);
            continue;
        }
        assert_eq!(found, FAULT);
        let (violation, text) = violation(&switch);
        assert!(matches!(violation, SwitchViolation::Key { made: 4, .. }), "{violation:?}");
        assert_eq!(
            text,
            format!(
                "table I.by_x is in pass 0, stage {stage}, but its key is made by an action in stage 4: place it in stage 5 or later"
            )
        );
    }
}

/// A value that an action wrote can decide only in a later stage. A hit decides at once, also where
/// the action itself tests a value that it wrote.
#[test]
fn a_condition_must_be_made_in_an_earlier_stage() {
    let (set, mark) = (("first", "set"), ("marks", "mark"));
    for ((table, act), code, stages) in [
        (set, "first.apply(); if (m.x == 7) { by_b.apply(); }", [(4, false), (5, true)]),
        (set, "if (first.apply().hit) { by_b.apply(); }", [(3, false), (4, true)]),
        (set, "switch (first.apply().action_run) { set: { by_b.apply(); } default: { } }", [(3, false), (4, true)]),
        (mark, "if (marks.apply().hit) { by_b.apply(); }", [(3, false), (4, true)]),
        (mark, "marks.apply(); if (s.priority == 1) { by_b.apply(); }", [(4, false), (5, true)]),
    ] {
        let pipeline = pipeline(code);
        for (stage, good) in stages {
            let mut switch =
                switch(&pipeline, placed(&pipeline, 1, &[(table, &[(0, 4, 9)]), ("by_b", &[(0, stage, 9)])]));
            let entries = [
                exact(&pipeline, table, 1, action(&pipeline, act, &[7])),
                exact(&pipeline, "by_b", 2, action(&pipeline, "port", &[3])),
            ];
            insert(&mut switch, entries).expect("entries are taken");
            let found = verdict(&mut switch, 1, 2);
            assert_eq!(matches!(found, Verdict::Forward { port } if port.0 == 3), good, "{code} {stage}: {found:?}");
            if !good {
                assert!(
                    matches!(violation(&switch).0, SwitchViolation::Condition { need, .. } if need == stage + 1),
                    "{code}"
                );
            }
        }
    }
}

/// Independent tables may be in any stages and passes. A table that depends on another one may not
/// be in an earlier pass, and no table is applied twice in a pass.
#[test]
fn passes_have_an_order() {
    let pipeline = pipeline("first.apply(); by_b.apply();");
    let entries =
        |p: &Pipeline| [exact(p, "first", 1, action(p, "set", &[7])), exact(p, "by_b", 2, action(p, "port", &[3]))];
    for (first, second) in [((0, 4), (0, 1)), ((2, 4), (0, 1)), ((1, 4), (2, 0)), ((2, 4), (1, 7))] {
        let parts = [("first", &[(first.0, first.1, 9)][..]), ("by_b", &[(second.0, second.1, 9)])];
        let mut any = switch(&pipeline, placed(&pipeline, 2, &parts));
        insert(&mut any, entries(&pipeline)).expect("entries are taken");
        let out = any.process_one(&packet(1, 2), 1, 0);
        assert!(matches!(out[0].verdict, Verdict::Forward { port } if port.0 == 3), "{first:?} {second:?}: {out:?}");
        assert_eq!(out[0].bytes[..4], [0, 1, 0, 12], "{first:?} {second:?}");
        assert_eq!(any.violations().count(), 0);
    }
    let needs = self::pipeline("first.apply(); by_x.apply();");
    let early = placed(&needs, 2, &[("first", &[(1, 4, 9)]), ("by_x", &[(0, 9, 9)])]);
    let error = EmulatedSwitch::new(needs.clone(), early, Config::default())
        .err()
        .expect("the key is not there yet")
        .to_string();
    assert_eq!(
        error,
        "table I.by_x is placed in pass 0, but its input (its key) is available only from pass 1: place it later"
    );
    let twice = self::pipeline("first.apply(); first.apply();");
    let mut twice = switch(&twice, placed(&twice, 1, &[("first", &[(0, 4, 9)])]));
    assert_eq!(verdict(&mut twice, 1, 2), FAULT);
    assert!(matches!(violation(&twice).0, SwitchViolation::Twice { pass: 0, .. }));
}

/// The parts hold exactly their capacity. A batch that does not fit is rejected as a whole.
#[test]
fn an_entry_that_does_not_fit_is_refused() {
    let pipeline = pipeline("first.apply();");
    let mut switch = switch(&pipeline, placed(&pipeline, 1, &[("first", &[(0, 1, 2), (0, 2, 1)])]));
    let entry = |key| exact(&pipeline, "first", key, action(&pipeline, "set", &[key]));
    insert(&mut switch, [entry(1), entry(2)]).expect("two fit");
    let error = insert(&mut switch, [entry(3), entry(4)]).expect_err("four do not");
    assert_eq!(
        error,
        "update 1: table I.first: the chip can hold 3 entries (2 in pass 0, stage 1, 1 in pass 0, stage 2); \
         delete some, or plan for more of them"
    );
    assert_eq!(switch.part_fill(table(&pipeline, "first")), [(2, 2), (0, 1)]);
    insert(&mut switch, [entry(3)]).expect("three do");
    assert_eq!(switch.part_fill(table(&pipeline, "first")), [(2, 2), (1, 1)]);
    let mut swap = WriteBatch::new();
    swap.insert(entry(4));
    swap.delete(entry(1));
    switch.write(&swap).expect("in the end there are three");
    assert_eq!(switch.state().entry_count(table(&pipeline, "first")), 3);
    for (key, hit) in [(1, false), (2, true), (3, true), (4, true)] {
        let before = switch.action_counters(table(&pipeline, "first"))[0].1[1].packets;
        verdict(&mut switch, key, 0);
        assert_eq!(switch.action_counters(table(&pipeline, "first"))[0].1[1].packets - before, u64::from(hit), "{key}");
    }
}

/// Entries of higher priority are in earlier parts, so existing entries move.
#[test]
fn stronger_entries_come_first() {
    let pipeline = pipeline("masked.apply();");
    let mut switch = switch(&pipeline, placed(&pipeline, 1, &[("masked", &[(0, 1, 1), (0, 2, 1), (0, 3, 1)])]));
    let masked = table(&pipeline, "masked");
    insert(&mut switch, [ternary(&pipeline, 0, 0, 1, 1)]).expect("there is room");
    insert(&mut switch, [ternary(&pipeline, 0, 1, 2, 2)]).expect("there is room");
    insert(&mut switch, [ternary(&pipeline, 0, 3, 3, 3)]).expect("there is room");
    assert_eq!((switch.part_fill(masked), switch.moved_entries(masked)), (vec![(1, 1); 3], 3));
    for (b, port) in [(4, 3), (2, 2), (1, 1)] {
        assert!(matches!(verdict(&mut switch, 0, b), Verdict::Forward { port: found } if found.0 == port), "{b}");
    }
    assert!(insert(&mut switch, [ternary(&pipeline, 7, 7, 9, 4)]).is_err());
}

/// The program's own entries need capacity, too.
#[test]
fn the_programs_entries_must_fit() {
    let pipeline = pipeline_with("const entries = { 1: set(1); 2: set(2); }", "first.apply();");
    let small = placed(&pipeline, 1, &[("first", &[(0, 1, 1)])]);
    let error = EmulatedSwitch::new(pipeline.clone(), small, Config::default()).err().expect("no room");
    assert!(matches!(error, SwitchError::Entries(_)), "{error}");
    let large = placed(&pipeline, 1, &[("first", &[(0, 1, 2)])]);
    assert_eq!(switch(&pipeline, large).part_fill(table(&pipeline, "first")), [(2, 2)]);
}

/// Ingress passes only the live state to egress, to the bit: the validity of the next header, and
/// 28 bits of metadata, in whole bytes. The traffic manager carries the destination.
#[test]
fn the_bridge_has_what_is_needed() {
    let pipeline = pipeline("first.apply();");
    let mut one = switch(&pipeline, placed(&pipeline, 1, &[("first", &[(0, 1, 9)])]));
    let out = one.process_one(&packet(1, 2), 1, 0);
    assert_eq!(out[0].bytes, [&[0, 1, 0, 5, 1, 2, 3, 4], &b"payload"[..]].concat());
    let crossings = &one.stats().crossings;
    assert_eq!((crossings.len(), crossings[0].packets, crossings[0].bits), (1, 1, 1 + 28 + 3));
    assert_eq!(one.stats().passes[1].bytes, 4 + 15);
    // Three more crossings with two folded pipes.
    let mut two = switch(&pipeline, placed(&pipeline, 2, &[("first", &[(2, 1, 9)])]));
    assert_eq!(two.process_one(&packet(1, 2), 1, 0)[0].bytes, out[0].bytes);
    assert_eq!(two.stats().crossings.iter().map(|crossing| crossing.packets).collect::<Vec<_>>(), [1, 1, 1]);
}

/// Entries of a split table are in the pipe that their packets pass, and each pipe has its own
/// capacity.
#[test]
fn parallel_pipes_hold_their_own_entries() {
    let pipeline = pipeline("first.apply(); by_b.apply();");
    let mut split = placed(&pipeline, 1, &[("first", &[(0, 1, 2)]), ("by_b", &[(0, 2, 8)])]);
    let by_key = |by| Some(ParallelSplit { key: 0, by, pipes: 2 });
    split.tables.entry(table(&pipeline, "first")).or_default().split = by_key(PipeSpread::Bit(0));
    let mut one = switch(&pipeline, split.clone());
    let entry = |key| exact(&pipeline, "first", key, action(&pipeline, "set", &[key]));
    insert(&mut one, [entry(1), entry(2), entry(3), entry(4)]).expect("two in each pipe");
    assert_eq!(one.part_fill(table(&pipeline, "first")), [(4, 4)]);
    let error = insert(&mut one, [entry(6)]).expect_err("the pipe of even keys is full");
    assert!(error.contains("can hold 2 entries"), "{error}");
    verdict(&mut one, 3, 0);
    assert_eq!(one.action_counters(table(&pipeline, "first"))[0].1[1].packets, 1);
    split.tables.entry(table(&pipeline, "by_b")).or_default().split = by_key(PipeSpread::Parity);
    let mut two = switch(&pipeline, split);
    assert!(matches!(verdict(&mut two, 3, 1), Verdict::Forward { .. }));
    assert_eq!(verdict(&mut two, 3, 3), FAULT);
    assert!(matches!(violation(&two).0, SwitchViolation::Pipe { pass: 0, pipe: 0, packet: 1, .. }));
}

/// An invalid placement is rejected with a reason.
#[test]
fn a_placement_that_is_none_is_refused() {
    let pipeline = pipeline("first.apply(); by_b.apply();");
    let good: [At<'_>; 2] = [("first", &[(0, 1, 9)]), ("by_b", &[(0, 2, 9)])];
    assert_eq!(placed(&pipeline, 1, &good).check_pipeline(&pipeline), Ok(()));
    let wrong = |parts: &[(u32, u32, u64)]| placed(&pipeline, 1, &[good[0], ("by_b", parts)]).check_pipeline(&pipeline);
    assert!(matches!(wrong(&[]), Err(PlacementMapError::NoPlace { table }) if table == "I.by_b"));
    for (parts, why) in [
        (&[(2, 0, 1)][..], "is in a pass that does not exist"),
        (&[(0, 12, 1)], "is beyond the last stage"),
        (&[(0, 3, 1), (0, 3, 1)], "comes after one that a packet meets later"),
    ] {
        assert!(matches!(wrong(parts), Err(PlacementMapError::Part { what, .. }) if what == why), "{why}");
    }
    let passes = PlacementMap { passes: Vec::new(), ..placed(&pipeline, 1, &good) };
    assert_eq!(passes.check_pipeline(&pipeline), Err(PlacementMapError::Passes));
    let mut split = placed(&pipeline, 1, &good);
    split.tables.entry(table(&pipeline, "first")).or_default().split =
        Some(ParallelSplit { key: 1, by: PipeSpread::Hash, pipes: 2 });
    assert!(matches!(split.check_pipeline(&pipeline), Err(PlacementMapError::Split { key: 1, keys: 1, .. })));
}
