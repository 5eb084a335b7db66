//! Tests tables: keys, actions, properties.

use super::{check, check_locals};
use expect_test::expect;

#[test]
fn keys() {
    check_locals(
        "table t { key = { n: exact; s.h: exact; s.x: exakt; s.c: ternary; n + 1: lpm; s.u.isValid(): exact; } actions = { } }\ntable u { key = { u.apply().hit: exact; } actions = { } }\n",
        expect![[r#"
            error[key-type]: a value of type `H` cannot be a key
             --> main.p4:3:29
              |
            3 | table t { key = { n: exact; s.h: exact; s.x: exakt; s.c: ternary; n + 1: lpm; s.u.isValid(): exact; } actions = { } }
              |                             ^^^
              |
              = help: keys are bits, integers with a width, enums, errors and bools

            error[match-kind]: there is no match kind `exakt`
             --> main.p4:3:46
              |
            3 | table t { key = { n: exact; s.h: exact; s.x: exakt; s.c: ternary; n + 1: lpm; s.u.isValid(): exact; } actions = { } }
              |                                              ^^^^^
              |
              = help: did you mean `exact`?

            error[recursion]: table `u` cannot refer to itself
             --> main.p4:4:19
              |
            4 | table u { key = { u.apply().hit: exact; } actions = { } }
              |       -           ^
              |       |
              |       its declaration
              |
              = help: P4 has no recursion: call something that is declared before
        "#]],
    );
}

#[test]
fn lists_of_actions() {
    check_locals(
        "action a(inout bit<8> x, bit<8> y) { }\naction b() { }\ntable t { actions = { a; b; b; } }\ntable u { actions = { a(s.x); a(s.x, 1); next; c; } }\ntable v { actions = { a(n); } }\ntable w { key = { n: exact; } }\n",
        expect![[r#"
            error[bound-action]: parameter `x` of action `a` must be bound
             --> main.p4:5:23
              |
            3 | action a(inout bit<8> x, bit<8> y) { }
              |          -------------- it has a direction
            4 | action b() { }
            5 | table t { actions = { a; b; b; } }
              |                       ^
              |
              = help: give it a value: `a(...)`

            error[duplicate]: action `b` is listed twice
             --> main.p4:5:29
              |
            5 | table t { actions = { a; b; b; } }
              |                          -  ^
              |                          |
              |                          first listed here

            error[duplicate]: action `a` is listed twice
             --> main.p4:6:31
              |
            6 | table u { actions = { a(s.x); a(s.x, 1); next; c; } }
              |                       ------  ^^^^^^^^^
              |                       |
              |                       first listed here

            error[not-an-action]: `next` is a function, and an action is needed here
             --> main.p4:6:42
              |
            6 | table u { actions = { a(s.x); a(s.x, 1); next; c; } }
              |                                          ^^^^

            error[unknown-name]: no name `c` is declared here
             --> main.p4:6:48
              |
            6 | table u { actions = { a(s.x); a(s.x, 1); next; c; } }
              |                                                ^
              |
              = help: did you mean `C`?

            error[not-writable]: argument for the `inout` parameter `x` cannot be written: `n` is an `in` parameter
             --> main.p4:7:25
              |
            2 | control C(inout S s, in bit<8> n)(bit<8> k) {
              |                      ----------- declared here
            ...
            7 | table v { actions = { a(n); } }
              |                         ^
              |
              = help: make it `inout`, or copy it into a variable first

            error[no-actions]: table `w` has no `actions`
             --> main.p4:8:7
              |
            8 | table w { key = { n: exact; } }
              |       ^
              |
              = help: add `actions = { ... }`; `NoAction` does nothing
        "#]],
    );
}

#[test]
fn default_actions() {
    check_locals(
        "action a(inout bit<8> x, bit<8> y) { }\naction b() { }\ntable t { actions = { a(s.x); } default_action = b; }\n\
         table u { actions = { a(s.x); } default_action = a(s.x, 1); }\ntable v { actions = { a(s.x); } default_action = a(s.y, 1); }\n\
         table w { actions = { a(s.x); } default_action = a(s.x, n); }\ntable x { default_action = b; actions = { b; } }\n\
         table y { actions = { @tableonly b; } default_action = b; }\ntable z { actions = { b; } default_action = 1; }\ntable z2 { actions = { a(s.x); } default_action = a; }\n",
        expect![[r#"
            error[unlisted-action]: action `b` is not in the list of actions of table `t`
             --> main.p4:5:50
              |
            5 | table t { actions = { a(s.x); } default_action = b; }
              |       - the table                                ^
              |
              = help: add `b;` to `actions`

            error[bound-action]: this differs from the argument in the list of actions
             --> main.p4:7:52
              |
            7 | table v { actions = { a(s.x); } default_action = a(s.y, 1); }
              |                       ------ listed here           ^^^

            error[not-constant]: the argument of an action here must be known at compile time
             --> main.p4:8:57
              |
            8 | table w { actions = { a(s.x); } default_action = a(s.x, n); }
              |                                                         ^

            error[default-action]: `default_action` must follow the list of actions
             --> main.p4:9:11
              |
            9 | table x { default_action = b; actions = { b; } }
              |           ^^^^^^^^^^^^^^^^^^^
              |
              = help: move it after `actions = { ... }`

            error[default-action]: action `b` is marked `@tableonly` and cannot be the default
              --> main.p4:10:56
               |
            10 | table y { actions = { @tableonly b; } default_action = b; }
               |                       ------------ listed here         ^

            error[default-action]: `default_action` must be an action
              --> main.p4:11:45
               |
            11 | table z { actions = { b; } default_action = 1; }
               |                                             ^

            error[bound-action]: parameter `x` must be given the value that it has in the list of actions
              --> main.p4:12:51
               |
            12 | table z2 { actions = { a(s.x); } default_action = a; }
               |                        ------ listed here         ^
        "#]],
    );
}

#[test]
fn without_no_action() {
    check(
        "control C() { table t { actions = { } } apply { } }",
        expect![[r#"
        error[default-action]: table `t` has no default action, and `NoAction` is not declared
         --> main.p4:1:21
          |
        1 | control C() { table t { actions = { } } apply { } }
          |                     ^
          |
          = help: include core.p4, or write `default_action = ...`
    "#]],
    );
    check(
        "action NoAction(bit<8> x) { }\ncontrol C() { table t { actions = { } } apply { } }",
        expect![[r#"
        error[default-action]: `NoAction`, the default of tables that name none, has parameters
         --> main.p4:1:8
          |
        1 | action NoAction(bit<8> x) { }
          |        ^^^^^^^^
        2 | control C() { table t { actions = { } } apply { } }
          |                     - a table without a default action
    "#]],
    );
}

#[test]
fn properties() {
    check_locals(
        "table t { actions = { } size = n; }\ntable u { actions = { } size = 10; size = 20; }\ntable v { actions = { } size = k; }\n\
         table w { actions = { } size = true; }\ntable x { actions = { } something = other; }\ntable y { actions = { } priority_delta = 0; largest_priority_wins = 1; }\n",
        expect![[r#"
            error[table-size]: the size of a table must be a constant integer
             --> main.p4:3:32
              |
            3 | table t { actions = { } size = n; }
              |                                ^

            error[duplicate]: `size` is declared twice
             --> main.p4:4:36
              |
            4 | table u { actions = { } size = 10; size = 20; }
              |                         ----       ^^^^ declared again here
              |                         |
              |                         first declared here
              |
              = help: rename or remove one of the two

            error[table-size]: the size of a table must be a constant integer
             --> main.p4:6:32
              |
            6 | table w { actions = { } size = true; }
              |                                ^^^^

            error[unknown-name]: no name `other` is declared here
             --> main.p4:7:37
              |
            7 | table x { actions = { } something = other; }
              |                                     ^^^^^

            error[table-property]: `priority_delta` must be a positive constant
             --> main.p4:8:25
              |
            8 | table y { actions = { } priority_delta = 0; largest_priority_wins = 1; }
              |                         ^^^^^^^^^^^^^^^^^^^

            error[table-property]: `largest_priority_wins` must be `true` or `false`
             --> main.p4:8:45
              |
            8 | table y { actions = { } priority_delta = 0; largest_priority_wins = 1; }
              |                                             ^^^^^^^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn parameters_of_the_control_plane() {
    check(
        "#include <v1model.p4>\nstruct S { bit<8> x; }\ncontrol C() { action a(S s) { } table t { actions = { a; } } apply { } }",
        expect![[r#"
            error[control-plane-type]: `s` is set by the control plane, which knows no values of type `S`
             --> main.p4:3:24
              |
            3 | control C() { action a(S s) { } table t { actions = { a; } } apply { } }
              |                        ^^^
              |
              = help: use `bit`, `int`, `bool`, a `type` of these, or an enum with an underlying type
        "#]],
    );
}

#[test]
fn a_direct_counter_has_one_table() {
    check(
        "#include <v1model.p4>\ncontrol C(inout bit<8> x) {\ndirect_counter(CounterType.packets) c;\ntable t { actions = { NoAction; } key = { x: exact; } counters = c; }\ntable u { actions = { NoAction; } key = { x: exact; } counters = c; }\napply { } }",
        expect![[r#"
            error[shared-extern]: `c` is attached to two tables
             --> main.p4:5:55
              |
            4 | table t { actions = { NoAction; } key = { x: exact; } counters = c; }
              |                                                       ------------- attached here first
            5 | table u { actions = { NoAction; } key = { x: exact; } counters = c; }
              |                                                       ^^^^^^^^^^^^^
              |
              = help: give each table an instance of its own
        "#]],
    );
}

#[test]
fn tables_that_add_entries() {
    check(
        "#include <pna.p4>\ncontrol C(inout bit<8> x) {\naction hit(bit<8> v) { x = v; }\naction miss() { add_entry(\"hit\", 8w1, (ExpireTimeProfileId_t)1); }\n\
         table t { key = { x: exact; } actions = { hit; miss; } default_action = miss; }\n\
         table u { key = { x: exact; } actions = { hit; miss; NoAction; } add_on_miss = true; }\n\
         table v { key = { x: exact; } actions = { hit; miss; } default_action = miss; add_on_miss = true; }\napply { } }",
        expect![[r#"
            error[add-on-miss]: action `miss` calls `add_entry`, and table `t` adds no entries
             --> main.p4:5:48
              |
            5 | table t { key = { x: exact; } actions = { hit; miss; } default_action = miss; }
              |       - the table                              ^^^^
              |
              = help: set `add_on_miss = true` in the table, and make the action its `default_action`

            error[add-on-miss]: action `miss` calls `add_entry`, and is not the default action of table `u`
             --> main.p4:6:48
              |
            6 | table u { key = { x: exact; } actions = { hit; miss; NoAction; } add_on_miss = true; }
              |       - the table                              ^^^^
              |
              = help: set `add_on_miss = true` in the table, and make the action its `default_action`
        "#]],
    );
}

#[test]
fn properties_that_the_architecture_does_not_know() {
    check(
        "#include <v1model.p4>\ncontrol C() { table t { actions = { } suport_timeout = true; } apply { } }",
        expect![[r#"
            warning[unknown-property]: the architecture has no table property `suport_timeout`
             --> main.p4:2:39
              |
            2 | control C() { table t { actions = { } suport_timeout = true; } apply { } }
              |                                       ^^^^^^^^^^^^^^
              |
              = help: did you mean `support_timeout`?
        "#]],
    );
}

/// A size is not negative; 0 sets no minimum.
#[test]
fn sizes() {
    check_locals("table t { actions = { } size = 0; }\n", expect![""]);
    check_locals(
        "table t { actions = { } size = 0 - 1; }\n",
        expect![[r#"
        error[table-size]: a table of -1 entries is not possible
         --> main.p4:3:32
          |
        3 | table t { actions = { } size = 0 - 1; }
          |                                ^^^^^
          |
          = help: remove `size`, or write 0, to guarantee no number of entries
    "#]],
    );
    check_locals(
        "table t { actions = { } size = 8s0 - 3; }\n",
        expect![[r#"
        error[table-size]: a table of -3 entries is not possible
         --> main.p4:3:32
          |
        3 | table t { actions = { } size = 8s0 - 3; }
          |                                ^^^^^^^
          |
          = help: remove `size`, or write 0, to guarantee no number of entries
    "#]],
    );
}

/// The arguments of a default action are those of the action list, in the same order if their
/// evaluation has visible effects.
#[test]
fn the_order_of_bound_arguments() {
    let table = |list: &str, default: &str| {
        format!(
            "action a(in bit<8> x, in bit<8> y) {{ }}\ntable t {{ actions = {{ a({list}); }} default_action = a({default}); }}\n"
        )
    };
    check_locals(&table("y = s.y, x = s.x", "x = s.x, y = s.y"), expect![""]);
    check_locals(&table("y = next(s.y), x = next(s.x)", "y = next(s.y), x = next(s.x)"), expect![""]);
    check_locals(
        &table("y = next(s.y), x = next(s.x)", "x = next(s.x), y = next(s.y)"),
        expect![[r#"
        error[bound-action]: the arguments are in another order than in the list of actions, and their evaluation may have effects
         --> main.p4:4:75
          |
        4 | table t { actions = { a(y = next(s.y), x = next(s.x)); } default_action = a(x = next(s.x), y = next(s.y)); }
          |                       ------------------------------- listed here         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}
