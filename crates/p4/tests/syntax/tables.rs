//! Tests tables.

use super::check;
use expect_test::expect;

/// Checks a table in a control.
fn check_table(table: &str, expect: expect_test::Expect) {
    check(&format!("control C() {{\n{table}\napply {{ }} }}"), expect);
}

#[test]
fn keys_and_actions() {
    check_table(
        "table t { key = { h.f: exact; h.g & 0xff: lpm @name(\"g\"); h.x[3:0]: ternary; } actions = { a; @defaultonly b; .c; d(x, _); @tableonly @x(1) e(); } }",
        expect![[r#"
            (control C
              (params)
              (table t
                (key ((. h f) exact) ((& (. h g) 0xff) lpm (@name "g")) (([:] (. h x) 3 0) ternary))
                (actions a (b (@defaultonly)) .c (d x _) (e (@tableonly) (@x 1))))
              (apply (block)))
        "#]],
    );
}

#[test]
fn properties() {
    check_table(
        "@name(\"n\") table t { actions = { a; } const default_action = a(1); size = 1024; @x const implementation = f(32); type = 1; add_on_miss = true; idle_timeout_with_auto_delete = true; }",
        expect![[r#"
            (control C
              (params)
              (table t
                (@name "n")
                (actions a)
                (const default_action (call a 1))
                (size 1024)
                (const implementation (@x) (call f 32))
                (type 1)
                (add_on_miss true)
                (idle_timeout_with_auto_delete true))
              (apply (block)))
        "#]],
    );
}

#[test]
fn entries() {
    check_table(
        "table t { key = { x: exact; y: ternary; } actions = { a; b; }
           const entries = { (1, _) : a(1); (0x10 &&& 0xf0, 2 .. 3) : b() @name(\"e\"); 7: a; _ : b; } largest_priority_wins = false; }",
        expect![[r#"
            (control C
              (params)
              (table t
                (key (x exact) (y ternary))
                (actions a b)
                (const entries
                  (entry (tuple 1 _) (a 1))
                  (entry (tuple (&&& 0x10 0xf0) (.. 2 3)) (b) (@name "e"))
                  (entry 7 a)
                  (entry _ b))
                (largest_priority_wins false))
              (apply (block)))
        "#]],
    );
}

#[test]
fn entries_with_priorities() {
    check_table(
        "table t { key = { x: ternary; } actions = { a; } entries = { const priority = 10: 1 &&& 3 : a(); priority = (5 + 6): (_) : a(); const default : a; priority: a; } }",
        expect![[r#"
            (control C
              (params)
              (table t
                (key (x ternary))
                (actions a)
                (entries
                  (const entry (priority 10) (&&& 1 3) (a))
                  (entry (priority (+ 5 6)) (tuple _) (a))
                  (const entry default a)
                  (entry priority a)))
              (apply (block)))
        "#]],
    );
}

#[test]
fn empty_key() {
    check_table(
        "table t { key = { } actions = { } }",
        expect![[r#"
        (control C (params) (table t (key) (actions)) (apply (block)))
    "#]],
    );
}

#[test]
fn errors_in_tables_do_not_lose_the_rest() {
    check_table(
        "table t {\nkey = {\nh.f exact;\nh.g: lpm;\n}\nconst actions = { a; }\ndefault = a;\nactions = {\na\nb;\nc;\n}\nsize 5;\ndefault_action = a;\n}",
        expect![[r#"
            (control C
              (params)
              (table t (key ((. h g) lpm)) (actions a b c) (default_action a))
              (apply (block)))
            main.p4:4:5: error[syntax]: expected `:`, found `exact`
            main.p4:7:7: error[syntax]: `actions` cannot be `const`; help: remove `const`
            main.p4:8:1: error[syntax]: expected a property, found `default`; help: did you mean `default_action`?
            main.p4:11:1: error[syntax]: expected `;`, found `b`
            main.p4:14:6: error[syntax]: expected `=`, found the number `5`
        "#]],
    );
}

#[test]
fn no_properties() {
    check_table(
        "table t { }",
        expect![[r#"
        (control C (params) (table t) (apply (block)))
        main.p4:2:11: error[syntax]: table `t` has no properties; help: it needs at least `actions = { ... }`
    "#]],
    );
}
