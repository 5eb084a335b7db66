//! Tests entries that tables declare.

use super::check_locals;
use expect_test::expect;

/// Checks entries of a table with an exact, an lpm and a ternary key.
fn check_entries(entries: &str, expect: expect_test::Expect) {
    check_locals(
        &format!(
            "action a(bit<8> v) {{ }}\naction b() {{ }}\ntable t {{ key = {{ s.x: exact; s.y: lpm; n: ternary; }} actions = {{ a; @defaultonly b; NoAction; }} {entries} }}\n"
        ),
        expect,
    );
}

#[test]
fn keys_of_entries() {
    check_entries(
        "const entries = {\n(1, 2, 3): a(1);\n(1, 0xf0 &&& 0xf0, _): a(2);\n(1, 0x0f &&& 0x0f, 1): a(1);\n(1 &&& 3, 2, 3): a(1);\n(1, 2, 1 .. 3): a(1);\n(1, 2): a(1);\n(1, 2, true): a(1);\n(n, 2, 3): a(1);\n }",
        expect![[r#"
            error[keyset-length]: 2 columns are given, and this table has 3
              --> main.p4:11:1
               |
            11 | (1, 2): a(1);
               | ^^^^^^

            error[type-mismatch]: `bit<8>` is needed here, and this is of type `bool`
              --> main.p4:12:8
               |
            12 | (1, 2, true): a(1);
               |        ^^^^

            error[not-constant]: the key of an entry must be known at compile time
              --> main.p4:13:2
               |
            13 | (n, 2, 3): a(1);
               |  ^

            error[entry-key]: this is not the mask of a prefix: its 1 bits must come first
             --> main.p4:8:5
              |
            8 | (1, 0x0f &&& 0x0f, 1): a(1);
              |     ^^^^

            error[entry-key]: a key of kind `exact` cannot match a mask
             --> main.p4:9:2
              |
            9 | (1 &&& 3, 2, 3): a(1);
              |  ^

            error[entry-key]: a key of kind `ternary` cannot match a range
              --> main.p4:10:8
               |
            10 | (1, 2, 1 .. 3): a(1);
               |        ^
        "#]],
    );
}

#[test]
fn actions_of_entries() {
    check_entries(
        "const entries = {\n(1, 2, 3): a;\n(1, 2, 4): a(n);\n(1, 2, 5): b;\n(1, 2, 6): c;\n(1, 2, 7): a(1, 2);\n }",
        expect![[r#"
            error[arguments]: action `a` needs an argument for `v`
             --> main.p4:6:12
              |
            3 | action a(bit<8> v) { }
              |        - declared here
            ...
            6 | (1, 2, 3): a;
              |            ^

            error[not-constant]: the argument of an action here must be known at compile time
             --> main.p4:7:14
              |
            7 | (1, 2, 4): a(n);
              |              ^

            error[entry-action]: action `b` is marked `@defaultonly` and cannot be used in entries
             --> main.p4:8:12
              |
            5 | table t { key = { s.x: exact; s.y: lpm; n: ternary; } actions = { a; @defaultonly b; NoAction; } const entries = {
              |                                                                      -------------- listed here
            ...
            8 | (1, 2, 5): b;
              |            ^

            error[unknown-name]: no name `c` is declared here
             --> main.p4:9:12
              |
            9 | (1, 2, 6): c;
              |            ^
              |
              = help: did you mean `C`?

            error[arguments]: action `a` takes 1 argument, not 2
              --> main.p4:10:12
               |
             3 | action a(bit<8> v) { }
               |        - declared here
            ...
            10 | (1, 2, 7): a(1, 2);
               |            ^^^^^^^
        "#]],
    );
}

#[test]
fn priorities() {
    check_entries(
        "entries = {\n(1, 2, 3): a(1);\npriority = 3: (1, 2, 4): a(2);\n }",
        expect![[r#"
        error[priority]: the first entry must have a priority, as others have one
         --> main.p4:6:1
          |
        6 | (1, 2, 3): a(1);
          | ^^^^^^^^^^^^^^^^
        7 | priority = 3: (1, 2, 4): a(2);
          | ------------------------------ for example this one
    "#]],
    );
    check_entries(
        "const entries = {\npriority = 3: (1, 2, 4): a(2);\n }",
        expect![[r#"
        error[priority]: `const entries` have no priorities: their order decides
         --> main.p4:6:1
          |
        6 | priority = 3: (1, 2, 4): a(2);
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          |
          = help: remove the priorities, or `const` before `entries`
    "#]],
    );
    check_entries(
        "priority_delta = 10; entries = {\npriority = 3: (1, 2, 4): a(2);\n(1, 2, 5): a(2);\n }",
        expect![[r#"
        error[priority]: an entry gets the priority -7, and priorities are from 0 to 4294967295
         --> main.p4:5:7
          |
        5 | table t { key = { s.x: exact; s.y: lpm; n: ternary; } actions = { a; @defaultonly b; NoAction; } priority_delta = 10; entries = {
          |       ^
        6 | priority = 3: (1, 2, 4): a(2);
        7 | (1, 2, 5): a(2);
          | ---------------- this entry
          |
          = help: write its priority, or choose another `priority_delta`
    "#]],
    );
}

#[test]
fn priorities_need_keys_that_overlap() {
    check_locals(
        "table t { key = { n: exact; } actions = { NoAction; } entries = { priority = 1: 1: NoAction; } }\n",
        expect![[r#"
        error[priority]: with these keys, at most one entry matches, so there are no priorities
         --> main.p4:3:11
          |
        3 | table t { key = { n: exact; } actions = { NoAction; } entries = { priority = 1: 1: NoAction; } }
          |           ^^^^^^^^^^^^^^^^^^^                                     -------------------------- a priority is given here
    "#]],
    );
}

#[test]
fn duplicate_entries() {
    check_locals(
        "table t { key = { n: exact; } actions = { NoAction; } const entries = {\n1: NoAction;\n2: NoAction;\n1: NoAction;\n } }\n",
        expect![[r#"
        error[entry-duplicate]: an entry with this key exists
         --> main.p4:6:1
          |
        4 | 1: NoAction;
          | ------------ the other entry
        5 | 2: NoAction;
        6 | 1: NoAction;
          | ^^^^^^^^^^^^
          |
          = help: remove one of the two
    "#]],
    );
}

#[test]
fn entries_without_a_key() {
    check_locals(
        "table t { actions = { NoAction; } entries = { 1: NoAction; } }\ntable u { actions = { NoAction; } entries = { 1: NoAction; } key = { n: exact; } }\n",
        expect![[r#"
        error[entries]: table `t` has entries but no key
         --> main.p4:3:7
          |
        3 | table t { actions = { NoAction; } entries = { 1: NoAction; } }
          |       ^
          |
          = help: add a `key`, or use `default_action`

        error[entries]: the entries precede the table's key
         --> main.p4:4:35
          |
        4 | table u { actions = { NoAction; } entries = { 1: NoAction; } key = { n: exact; } }
          |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^ ------------------- the key
          |
          = help: move `entries` after `key`
    "#]],
    );
}
