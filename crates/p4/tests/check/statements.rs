//! Tests statements.

use super::{check_decls, check_locals, check_stmts};
use expect_test::expect;

#[test]
fn conditions() {
    check_stmts(
        "if (n) { }\nfor (bit<8> i = 0; i; i = i + 1) { }",
        expect![[r#"
        error[condition]: the condition of an `if` is of type `bit<8>`
         --> main.p4:4:5
          |
        4 | if (n) { }
          |     ^
          |
          = help: a condition is a `bool`: compare it, as in `x != 0`

        error[condition]: the condition of a `for` is of type `bit<8>`
         --> main.p4:5:20
          |
        5 | for (bit<8> i = 0; i; i = i + 1) { }} }
          |                    ^
          |
          = help: a condition is a `bool`: compare it, as in `x != 0`
    "#]],
    );
}

#[test]
fn loops() {
    check_stmts(
        "break;\ncontinue;\nfor (bit<8> i in 1 .. 4) { if (i == 2) { break; } continue; }\nfor (bit<8> i in n) { }\nfor (bool b in true .. false) { }\n\
         for (H h in s.stack) { }\nfor (bit<16> w in s.stack) { }\nfor (bit<8> i in (list<bit<8>>){ 1, 2 }) { s.x = i; }",
        expect![[r#"
            error[loop]: `break` can only be used in a loop
             --> main.p4:4:1
              |
            4 | break;
              | ^^^^^^

            error[loop]: `continue` can only be used in a loop
             --> main.p4:5:1
              |
            5 | continue;
              | ^^^^^^^^^

            error[for-in]: `bit<8>` has no elements to iterate over
             --> main.p4:7:18
              |
            7 | for (bit<8> i in n) { }
              |                  ^
              |
              = help: iterate over a range `a .. b`, a list or a stack

            error[for-in]: a range has integers as bounds, not `bool`
             --> main.p4:8:16
              |
            8 | for (bool b in true .. false) { }
              |                ^^^^

            error[for-in]: the loop variable is of type `bit<16>`, and the elements are `H`
              --> main.p4:10:19
               |
            10 | for (bit<16> w in s.stack) { }
               |                   ^^^^^^^
        "#]],
    );
}

#[test]
fn returns_and_exits() {
    check_stmts(
        "return 1;\nreturn;\nexit;",
        expect![[r#"
        error[return-value]: nothing can be returned here: only functions return values
         --> main.p4:4:1
          |
        4 | return 1;
          | ^^^^^^^^^
    "#]],
    );
    check_decls(
        "void f() { exit; }",
        expect![[r#"
        error[exit-place]: `exit` cannot be used in functions
         --> main.p4:2:12
          |
        2 | void f() { exit; }
          |            ^^^^^
    "#]],
    );
}

#[test]
fn op_assignment() {
    check_stmts(
        "s.x += 1;\ns.x += 16w1;\nn += 1;\ns.c += 1;\ns.x <<= 2;\ns.x |+|= n;",
        expect![[r#"
        error[operand]: `+` does not apply to `bit<8>` and `bit<16>`
         --> main.p4:5:1
          |
        5 | s.x += 16w1;
          | ^^^^^^^^^^^
          |
          = help: cast one side, as in `... + (bit<8>)...`

        error[not-writable]: this cannot be assigned to: `n` is an `in` parameter
         --> main.p4:6:1
          |
        2 | control C(inout S s, in bit<8> n)(bit<8> k) {
          |                      ----------- declared here
        ...
        6 | n += 1;
          | ^
          |
          = help: make it `inout`, or copy it into a variable first

        error[operand]: `+` does not apply to `Colour` and `int`
         --> main.p4:7:1
          |
        7 | s.c += 1;
          | ^^^^^^^^
    "#]],
    );
}

#[test]
fn switch_over_values() {
    check_stmts(
        "switch (n) { 1: { }\n1: { }\nn: { }\n16w2: { }\ndefault: { } }\nswitch (s.c) { Colour.red: { }\nColour.blue: { } }\nswitch (s.h) { default: { } }\n\
         switch (n) { default: { }\n3: { } }\nswitch (n) { default: { }\ndefault: { } }",
        expect![[r#"
            error[switch-label]: this label is used twice
             --> main.p4:5:1
              |
            4 | switch (n) { 1: { }
              |              - first used here
            5 | 1: { }
              | ^

            error[not-constant]: a label must be known at compile time
             --> main.p4:6:1
              |
            6 | n: { }
              | ^

            error[type-mismatch]: `bit<8>` is needed here, and this is of type `bit<16>`
             --> main.p4:7:1
              |
            4 | switch (n) { 1: { }
              |         - the compared value
            ...
            7 | 16w2: { }
              | ^^^^
              |
              = help: to convert explicitly, write `(bit<8>)16w2`

            error[unknown-member]: enum `Colour` has no `blue`
              --> main.p4:10:8
               |
            10 | Colour.blue: { } }
               |        ^^^^
               |
               = help: it has `red` and `green`

            error[switch-type]: there is no `switch` over `H`
              --> main.p4:11:9
               |
            11 | switch (s.h) { default: { } }
               |         ^^^
               |
               = help: a `switch` compares integers, enums, errors and bools, or takes `t.apply().action_run`

            error[switch-default]: `default` must be the last label of a `switch`
              --> main.p4:12:1
               |
            12 | switch (n) { default: { }
               | ^^^^^^^^^^^^^-------^^^^^
               |              |
               |              `default` is here

            error[switch-default]: a `switch` has only one `default`
              --> main.p4:14:1
               |
            14 | switch (n) { default: { }
               | ^^^^^^^^^^^^^-------^^^^^
               |              |
               |              the first
            15 | default: { } }} }
               | ------- the second
        "#]],
    );
}

#[test]
fn switch_over_actions() {
    check_locals(
        "action a() { }\naction b() { }\ntable t { actions = { a; b; NoAction; } }\n\
         apply { switch (t.apply().action_run) { a: { }\na: { }\nc: { }\ndefault: { } }\nswitch (t.apply().action_run) { a: b: { s.x = 1; } default: { } } } }\ncontrol D() {",
        expect![[r#"
            error[switch-label]: this label is used twice
             --> main.p4:7:1
              |
            6 | apply { switch (t.apply().action_run) { a: { }
              |                                         - first used here
            7 | a: { }
              | ^

            error[switch-label]: `c` is not an action of table `t`
             --> main.p4:8:1
              |
            8 | c: { }
              | ^
        "#]],
    );
}

#[test]
fn declarations_in_statements() {
    check_stmts(
        "Box<bit<8>>(1) b;\nbit<8> c = 1;\n{ bit<8> c = 2; }\nbool c = true;",
        expect![[r#"
        error[instance-place]: `b` cannot be instantiated in a control's `apply` block
         --> main.p4:4:1
          |
        4 | Box<bit<8>>(1) b;
          | ^^^^^^^^^^^^^^^^^
          |
          = help: declare the instance before the body, among the declarations

        error[duplicate]: `c` is declared twice
         --> main.p4:7:6
          |
        5 | bit<8> c = 1;
          |        - first declared here
        6 | { bit<8> c = 2; }
        7 | bool c = true;} }
          |      ^ declared again here
          |
          = help: rename or remove one of the two
    "#]],
    );
}
