//! Tests objects that P4Info omits: tables that are never applied and objects that only these use,
//! by the rules of p4c's front end.

use super::{compiled, pipeline, v1model, v1model_with};
use expect_test::{Expect, expect};
use ir::p4info::{P4Info, generate};

/// Returns the names of tables, actions, value sets and extern objects.
fn names(info: &P4Info) -> String {
    let tables = info.tables.iter().map(|t| ("table", &t.preamble));
    let actions = info.actions.iter().map(|a| ("action", &a.preamble));
    let profiles = info.action_profiles.iter().map(|p| ("profile", &p.preamble));
    let counters = info.counters.iter().map(|c| ("counter", &c.preamble));
    let direct = info.direct_counters.iter().map(|c| ("direct counter", &c.preamble));
    let registers = info.registers.iter().map(|r| ("register", &r.preamble));
    let sets = info.value_sets.iter().map(|s| ("value set", &s.preamble));
    let digests = info.digests.iter().map(|d| ("digest", &d.preamble));
    let all = tables.chain(actions).chain(profiles).chain(counters).chain(direct).chain(registers);
    let all = all.chain(sets).chain(digests).filter(|(_, preamble)| preamble.name != "NoAction");
    all.map(|(kind, preamble)| format!("{kind} {}\n", preamble.name)).collect()
}

fn check(top: &str, ingress: &str, expect: Expect) {
    expect.assert_eq(&names(&generate(&pipeline(&v1model(top, ingress)))));
}

/// Compares which of the tables `t` (with action `a`) and `u` (with action `b`) remain.
fn check_apply(apply: &str, expected: &str) {
    let ingress = format!(
        "action a() {{}} action b() {{}} const bool OFF = false; const bit<8> TWO = 2;
        table t {{ key = {{ meta.a: exact; }} actions = {{ a; }} default_action = a(); }}
        table u {{ key = {{ meta.a: exact; }} actions = {{ b; }} default_action = b(); }}
        apply {{ {apply} }}"
    );
    let info = generate(&pipeline(&v1model("", &ingress)));
    let tables: Vec<&str> = info.tables.iter().map(|t| t.preamble.alias.as_str()).collect();
    let actions: Vec<&str> = info.actions.iter().map(|a| a.preamble.alias.as_str()).collect();
    assert_eq!(format!("{} {}", tables.join(""), actions.join("")), expected, "of {apply}");
}

#[test]
fn tables_that_nothing_applies_go_with_their_actions() {
    check_apply("t.apply();", "t a");
    check_apply("t.apply(); u.apply();", "tu ab");
    check_apply("", " ");
    check_apply("if (t.apply().hit) {}", "t a");
    check_apply("if (meta.t || !u.apply().miss) {}", "u b");
    check_apply("switch (t.apply().action_run) { a: { u.apply(); } }", "tu ab");
    check_apply("meta.t = t.apply().hit;", "t a");
    check_apply("bool x = t.apply().hit;", "t a");
    check_apply("for (bit<8> i in 1..3) { t.apply(); }", "t a");
}

#[test]
fn code_that_a_known_condition_rules_out_uses_nothing() {
    check_apply("if (false) t.apply(); else u.apply();", "u b");
    check_apply("if (OFF) t.apply();", " ");
    check_apply("if (TWO == 2) t.apply(); else u.apply();", "t a");
    check_apply("if (!OFF && TWO > 1) t.apply();", "t a");
    check_apply("if (OFF && t.apply().hit) u.apply();", " ");
    check_apply("if (true || t.apply().hit) u.apply();", "u b");
    check_apply("meta.t = false ? t.apply().hit : u.apply().hit;", "u b");
    check_apply("switch (TWO) { 1: { t.apply(); } 2: { u.apply(); } }", "u b");
    check_apply("switch (TWO) { 1: { t.apply(); } default: { u.apply(); } }", "u b");
    // The value is known at run time, not before.
    check_apply("bool x = false; if (x) t.apply();", "t a");
    check_apply("if (t.apply().hit && false) u.apply();", "tu ab");
}

#[test]
fn what_stands_behind_return_is_gone_and_behind_exit_only_with_a_return() {
    check_apply("t.apply(); return; u.apply();", "t a");
    check_apply("if (meta.t) { return; } t.apply();", "t a");
    check_apply("if (meta.t) { return; } else { return; } t.apply();", " ");
    check_apply("exit; t.apply();", "t a");
    check_apply("if (meta.t) { return; } exit; t.apply();", " ");
    check_apply("switch (meta.a) { 1: { return; } default: { return; } } t.apply();", "t a");
    check_apply("for (bit<8> i in 1..3) { return; } t.apply();", "t a");
}

#[test]
fn extern_objects_stay_as_long_as_their_control_does() {
    check(
        "control inner()(bool on) {
            counter<bit<32>>(8, CounterType.packets) c;
            action b() { c.count(0); }
            table u { actions = { b; } default_action = b(); }
            apply { if (on) u.apply(); }
        }",
        "inner(true) first; inner(false) second; inner(true) never;
        register<bit<8>, bit<32>>(4) r;
        direct_counter(CounterType.bytes) d;
        action_profile(16) shared;
        action a() {}
        table gone {
            key = { meta.a: exact; } actions = { a; NoAction; } counters = d;
            @name(\"in_place\") implementation = action_profile(8);
        }
        table also_gone { key = { meta.a: exact; } actions = { a; NoAction; } implementation = shared; }
        apply { first.apply(); second.apply(); }",
        expect![[r#"
            table ingress.first.u
            action ingress.first.b
            profile ingress.shared
            counter ingress.first.c
            counter ingress.second.c
            register ingress.r
        "#]],
    );
}

#[test]
fn actions_are_left_if_a_table_lists_them_or_the_control_calls_them() {
    check(
        "action global(inout bit<8> x) { x = 1; } action unused_global() {}",
        "action called(bit<8> x) { meta.a = x; } action inner() { meta.b = 1; } action outer() { inner(); } action none() {}
        table t { actions = { outer; } default_action = outer(); }
        apply { t.apply(); called(3); exit; global(meta.a); }",
        expect![[r#"
            table ingress.t
            action ingress.outer
            action ingress.called
            action global
        "#]],
    );
}

#[test]
fn a_table_in_the_key_of_another_is_used_with_it() {
    check(
        "",
        "action a() {} table t { key = { meta.a: exact; } actions = { a; } default_action = a(); }
        table u { key = { t.apply().hit: exact @name(\"h\"); } actions = { a; } default_action = a(); }
        apply { u.apply(); }",
        expect![[r#"
            table ingress.t
            table ingress.u
            action ingress.a
        "#]],
    );
}

#[test]
fn digests_of_code_that_is_left() {
    check(
        "struct one_t { bit<8> a; } struct two_t { bit<8> b; }",
        "action a() { digest<one_t>(1, {meta.a}); } table gone { actions = { a; } default_action = a(); }
        apply { if (false) { digest<one_t>(1, {meta.a}); } digest<two_t>(1, {meta.b}); }",
        expect![[r#"
            digest two_t
        "#]],
    );
}

#[test]
fn value_sets_of_states_that_are_reached() {
    let states = "value_set<bit<8>>(4) used; value_set<bit<8>>(4) unreached; value_set<bit<8>>(4) unused;
        state start { transition select(meta.a) { used: accept; default: next; } }
        state next { transition accept; }
        state island { transition select(meta.a) { unreached: accept; default: next; } }";
    let source = v1model_with("", "bit<8> a;", states, "apply {}");
    assert_eq!(names(&generate(&pipeline(&source))), "value set p.used\n");
}

#[test]
fn ids_and_aliases_are_of_what_is_left() {
    // If `gone.t` remained, the alias would have to be longer.
    let info = generate(&pipeline(&v1model(
        "control c() { action a() {} table t { actions = { a; } default_action = a(); } apply {} }",
        "c() gone; action a() {} table t { actions = { a; } default_action = a(); } apply { gone.apply(); t.apply(); }",
    )));
    assert_eq!(info.tables.iter().map(|t| t.preamble.alias.as_str()).collect::<Vec<_>>(), ["t"]);
    assert_eq!(info.actions.iter().map(|t| t.preamble.alias.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_table_that_goes_is_told() {
    let compiled = compiled(&v1model(
        "control c()(bool on) { table t { actions = { NoAction; } } apply { if (on) t.apply(); } }
        control never() { table w { actions = { NoAction; } } apply {} }",
        "c(true) x; c(false) y; table u { actions = { NoAction; } } table v { actions = { NoAction; } }
        apply { x.apply(); y.apply(); v.apply(); }",
    ));
    let said: Vec<&str> = compiled.diagnostics.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(said, ["table `u` is never applied"], "of `t` one instance is left, and no control of `w` is made");
    assert!(!compiled.has_errors() && compiled.pipeline.is_some());
}
