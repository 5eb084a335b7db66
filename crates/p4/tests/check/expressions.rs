//! Tests members, lists, l-values and the other expressions.

use super::{check_locals, check_stmts};
use expect_test::expect;

#[test]
fn lists() {
    check_stmts(
        "H h = { 1 };\nh = { 1, 2 };\nh = { ..., 1 };\nh = { 1, ... };\nh = { f = 1 };\nh = { f = 1, ... };\nh = { f = 1, z = 2 };\n\
         h = { f = 1, f = 2, g = 3 };\ns.x = { 1 };\ns.x = { a = 1 };\ntake({ a = 1 });",
        expect![[r#"
            error[list-length]: a list of 1 values does not fit `H`, which has 2
             --> main.p4:4:7
              |
            4 | H h = { 1 };
              |       ^^^^^
              |
              = help: end the list with `...` to give the rest their default values

            error[dots-last]: `...` must be the last of the list
             --> main.p4:6:7
              |
            6 | h = { ..., 1 };
              |       ^^^

            error[missing-field]: fields of `H` are missing: `g`
             --> main.p4:8:5
              |
            8 | h = { f = 1 };
              |     ^^^^^^^^^
              |
             ::: prelude.p4:7:1
              |
            7 | header H { bit<8> f; bit<16> g; }
              | --------------------------------- its declaration
              |
              = help: give all fields, or end with `...` to give the rest their default values

            error[unknown-member]: `H` has no `z`
              --> main.p4:10:14
               |
            10 | h = { f = 1, z = 2 };
               |              ^
               |
               = help: it has `f` and `g`

            error[duplicate]: `f` is declared twice
              --> main.p4:11:14
               |
            11 | h = { f = 1, f = 2, g = 3 };
               |       -      ^ declared again here
               |       |
               |       first declared here
               |
               = help: rename or remove one of the two

            error[type-mismatch]: a list of 1 values does not fit `bit<8>`
              --> main.p4:12:7
               |
            12 | s.x = { 1 };
               | ---   ^^^^^
               | |
               | the assigned l-value

            error[type-mismatch]: `bit<8>` is needed here, and this has named fields
              --> main.p4:13:7
               |
            13 | s.x = { a = 1 };
               |       ^^^^^^^^^

            error[infer-struct]: it is not known which struct this is
              --> main.p4:14:6
               |
            14 | take({ a = 1 });} }
               |      ^^^^^^^^^
               |
               = help: write the type in front, as in `(S){x = 1}`
        "#]],
    );
}

#[test]
fn defaults() {
    check_stmts(
        "s.x = ...;\ntake(...);\nS t = ...;\nn.x = 1;",
        expect![[r#"
        error[misplaced]: `...` is a default value, and its type is not known here
         --> main.p4:5:6
          |
        5 | take(...);
          |      ^^^

        error[unknown-member]: `bit<8>` has no `x`
         --> main.p4:7:1
          |
        7 | n.x = 1;} }
          | ^^^
          |
          = help: only structs, headers, unions and stacks have members
    "#]],
    );
}

#[test]
fn invalid_headers() {
    check_stmts(
        "s.h = {#};\ns.u = {#};\ns.x = {#};",
        expect![[r#"
        error[type-mismatch]: `{#}` is not a value of `bit<8>`
         --> main.p4:6:7
          |
        6 | s.x = {#};} }
          | ---   ^^^
          | |
          | the assigned l-value
    "#]],
    );
}

#[test]
fn what_can_be_written() {
    check_stmts(
        "n = 1;\nk = 1;\nn[3:0] = 1;\ns.stack[n].f = 1;\ns.h.setValid();\nn.setValid();",
        expect![[r#"
            error[not-writable]: this cannot be assigned to: `n` is an `in` parameter
             --> main.p4:4:1
              |
            2 | control C(inout S s, in bit<8> n)(bit<8> k) {
              |                      ----------- declared here
            3 | apply {
            4 | n = 1;
              | ^
              |
              = help: make it `inout`, or copy it into a variable first

            error[not-writable]: this cannot be assigned to: `k` is a constructor parameter
             --> main.p4:5:1
              |
            2 | control C(inout S s, in bit<8> n)(bit<8> k) {
              |                                   -------- declared here
            ...
            5 | k = 1;
              | ^

            error[not-writable]: this cannot be assigned to: `n` is an `in` parameter
             --> main.p4:6:1
              |
            2 | control C(inout S s, in bit<8> n)(bit<8> k) {
              |                      ----------- declared here
            ...
            6 | n[3:0] = 1;
              | ^^^^^^
              |
              = help: make it `inout`, or copy it into a variable first

            error[unknown-member]: `bit<8>` has no method `setValid`
             --> main.p4:9:3
              |
            9 | n.setValid();} }
              |   ^^^^^^^^
              |
              = help: only headers are valid or invalid
        "#]],
    );
}

#[test]
fn members_of_stacks() {
    check_stmts(
        "s.h = s.stack.next;\ns.x = (bit<8>)s.stack.lastIndex;\nbit<32> z = s.stack.size;\ns.stack.push_front(n);\ns.stack.pop_front(1);\ns.h = s.stack.fist;",
        expect![[r#"
        error[stack-member]: `next` of a stack can only be used in a parser
         --> main.p4:4:7
          |
        4 | s.h = s.stack.next;
          |       ^^^^^^^^^^^^
          |
          = help: elsewhere, use an index, as in `stack[0]`

        error[stack-member]: `lastIndex` of a stack can only be used in a parser
         --> main.p4:5:15
          |
        5 | s.x = (bit<8>)s.stack.lastIndex;
          |               ^^^^^^^^^^^^^^^^^
          |
          = help: elsewhere, use an index, as in `stack[0]`

        error[not-constant]: the number of elements must be a constant integer
         --> main.p4:7:20
          |
        7 | s.stack.push_front(n);
          |                    ^
          |
          = help: use a literal, or a `const` of an integer type

        error[unknown-member]: a header stack has no `fist`
         --> main.p4:9:15
          |
        9 | s.h = s.stack.fist;} }
          |               ^^^^
          |
          = help: it has `next`, `last`, `lastIndex`, `size`, `push_front` and `pop_front`
    "#]],
    );
}

#[test]
fn methods_of_headers() {
    check_stmts(
        "bool b = s.h.isValid();\nb = s.u.isValid();\nb = s.isValid();\ns.u.setValid();\nb = s.h.isValid(1);\ns.h.clear();",
        expect![[r#"
        error[unknown-member]: `S` has no method `isValid`
         --> main.p4:6:7
          |
        6 | b = s.isValid();
          |       ^^^^^^^
          |
          = help: only headers are valid or invalid

        error[unknown-member]: `U` has no method `setValid`
         --> main.p4:7:5
          |
        7 | s.u.setValid();
          |     ^^^^^^^^
          |
          = help: set the validity of one of the union's headers

        error[arguments]: `isValid` takes no arguments
         --> main.p4:8:17
          |
        8 | b = s.h.isValid(1);
          |                 ^

        error[unknown-member]: `H` has no method `clear`
         --> main.p4:9:5
          |
        9 | s.h.clear();} }
          |     ^^^^^
    "#]],
    );
}

#[test]
fn sizes() {
    check_stmts(
        "s.x = s.h.minSizeInBits();\ns.x = H.maxSizeInBytes();\ns.x = s.c.minSizeInBits();",
        expect![[r#"
        error[size]: values of type `Colour` have no size in bits
         --> main.p4:6:7
          |
        6 | s.x = s.c.minSizeInBits();} }
          |       ^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn results_of_tables() {
    check_locals(
        "table t { actions = { NoAction; } }\napply { bool b = t.apply().hit;\nb = t.apply().found;\nb = t.apply().action_run == t.apply().action_run;\n\
         b = t.apply() == t.apply(); b = t; t(); t.insert(); t.apply(1);\n} }\ncontrol D() {",
        expect![[r#"
            error[unknown-member]: the result of `apply` has no `found`
             --> main.p4:5:15
              |
            5 | b = t.apply().found;
              |               ^^^^^
              |
              = help: it has `hit`, `miss` and `action_run`

            error[action-run]: `action_run` can only be used in a `switch`
             --> main.p4:6:5
              |
            6 | b = t.apply().action_run == t.apply().action_run;
              |     ^^^^^^^^^^^^^^^^^^^^
              |
              = help: write `switch (t.apply().action_run) { ... }`

            error[action-run]: `action_run` can only be used in a `switch`
             --> main.p4:6:29
              |
            6 | b = t.apply().action_run == t.apply().action_run;
              |                             ^^^^^^^^^^^^^^^^^^^^
              |
              = help: write `switch (t.apply().action_run) { ... }`

            error[compare]: values of type `the result of a table's apply` cannot be compared
             --> main.p4:7:5
              |
            7 | b = t.apply() == t.apply(); b = t; t(); t.insert(); t.apply(1);
              |     ^^^^^^^^^^^^^^^^^^^^^^

            error[not-a-value]: `t` is a table, and a value is needed here
             --> main.p4:7:33
              |
            7 | b = t.apply() == t.apply(); b = t; t(); t.insert(); t.apply(1);
              |                                 ^
              |
              = help: apply it, as in `t.apply()` or `t.apply().hit`

            error[not-callable]: `t` is a table, which is not called
             --> main.p4:7:36
              |
            7 | b = t.apply() == t.apply(); b = t; t(); t.insert(); t.apply(1);
              |                                    ^
              |
              = help: apply it: `t.apply()`

            error[unknown-member]: a table has no `insert`
             --> main.p4:7:43
              |
            7 | b = t.apply() == t.apply(); b = t; t(); t.insert(); t.apply(1);
              |                                           ^^^^^^
              |
              = help: it has `apply`

            error[arguments]: `apply` of a table takes no arguments
             --> main.p4:7:61
              |
            7 | b = t.apply() == t.apply(); b = t; t(); t.insert(); t.apply(1);
              |                                                             ^
        "#]],
    );
}

#[test]
fn misplaced_expressions() {
    check_stmts(
        "s.x = this;",
        expect![[r#"
        error[misplaced]: `this` can only be used to call a method, as in `this.f()`
         --> main.p4:4:7
          |
        4 | s.x = this;} }
          |       ^^^^
    "#]],
    );
}
