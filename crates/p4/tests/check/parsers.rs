//! Tests parsers: states and selects.

use super::{check, check_states};
use expect_test::expect;

#[test]
fn states() {
    check_states(
        "state begin { transition acept; }\nstate begin { transition accept; }\nstate accept { }\n",
        expect![[r#"
        error[duplicate]: `begin` is declared twice
         --> main.p4:4:7
          |
        3 | state begin { transition acept; }
          |       ----- first declared here
        4 | state begin { transition accept; }
          |       ^^^^^ declared again here
          |
          = help: rename or remove one of the two

        error[reserved-state]: `accept` is built in and cannot be declared
         --> main.p4:5:7
          |
        5 | state accept { }
          |       ^^^^^^
          |
          = help: give the state another name

        error[no-start]: parser `P` has no state `start`
         --> main.p4:2:8
          |
        2 | parser P(inout S s, in bit<8> n) {
          |        ^
          |
          = help: a parser begins in the state `start`: declare it, or rename the first state

        error[unknown-state]: no state `acept` is declared here
         --> main.p4:3:26
          |
        3 | state begin { transition acept; }
          |                          ^^^^^
          |
          = help: did you mean `accept`?
    "#]],
    );
}

#[test]
fn an_endless_parser() {
    check_states(
        "state start { transition next; }\nstate next { transition start; }\n",
        expect![[r#"
            error[endless-parser]: parser `P` never reaches `accept` or `reject`
             --> main.p4:2:8
              |
            2 | parser P(inout S s, in bit<8> n) {
              |        ^
              |
              = help: let one of its states end with `transition accept;`
        "#]],
    );
    // Reads of the packet or of a stack can end with an error, and so can a select without a match.
    check_states(
        "state start { transition next; }\nstate next { s.h = s.stack.last; transition start; }\n",
        expect![[r#"
        warning[endless-parser]: parser `P` never reaches `accept` or `reject`: it ends by an error alone
         --> main.p4:2:8
          |
        2 | parser P(inout S s, in bit<8> n) {
          |        ^
          |
          = help: let one of its states end with `transition accept;`
    "#]],
    );
    check_states(
        "state start { transition select(n) { 0: start; } }\n",
        expect![[r#"
        warning[endless-parser]: parser `P` never reaches `accept` or `reject`: it ends by an error alone
         --> main.p4:2:8
          |
        2 | parser P(inout S s, in bit<8> n) {
          |        ^
          |
          = help: let one of its states end with `transition accept;`
    "#]],
    );
}

#[test]
fn keysets() {
    check_states(
        "state start { transition select(s.x, s.k) {\n(1, Kind.one): accept;\n(1, 2): accept;\n(1 &&& 3, _): accept;\n(1 .. 3, default): accept;\n\
         1: accept;\n(true, _): accept;\n(8w1 &&& 16w1, _): accept;\n(next(1), _): accept;\n_: reject; } }\n",
        expect![[r#"
            error[type-mismatch]: `Kind` is needed here, and this is of type `int`
             --> main.p4:5:5
              |
            5 | (1, 2): accept;
              |     ^
              |
              = help: to convert explicitly, write `(Kind)2`

            error[keyset-length]: one column is given, and this select has 2
             --> main.p4:8:1
              |
            8 | 1: accept;
              | ^

            error[type-mismatch]: `bit<8>` is needed here, and this is of type `bool`
             --> main.p4:9:2
              |
            9 | (true, _): accept;
              |  ^^^^

            error[operand]: `&&&` does not apply to `bit<8>` and `bit<16>`
              --> main.p4:10:2
               |
            10 | (8w1 &&& 16w1, _): accept;
               |  ^^^^^^^^^^^^

            error[misplaced]: a key set cannot contain calls
              --> main.p4:11:2
               |
            11 | (next(1), _): accept;
               |  ^^^^^^^
        "#]],
    );
}

#[test]
fn what_can_be_selected_on() {
    check_states(
        "state start { transition select(s.h) { _: a; } }\nstate a { transition select({ s.x, s.y }, s.c) {\n({ 1, 2 }, Colour.red): b;\n(_, Colour.green): b; } }\n\
         state b { transition select(1) { _: accept; } }\n",
        expect![[r#"
            error[select-type]: values of type `H` cannot be selected on
             --> main.p4:3:33
              |
            3 | state start { transition select(s.h) { _: a; } }
              |                                 ^^^
              |
              = help: select on bits, integers, enums, bools and errors; name the fields one by one

            error[select-type]: values of type `int` cannot be selected on
             --> main.p4:7:29
              |
            7 | state b { transition select(1) { _: accept; } }
              |                             ^
              |
              = help: select on bits, integers, enums, bools and errors; name the fields one by one
        "#]],
    );
}

#[test]
fn value_sets() {
    check(
        "struct T { bit<8> a; bool b; }\nparser P(in bit<8> n, in bool b) {\nvalue_set<bit<8>>(4) one;\nvalue_set<T>(4) two;\nvalue_set<int>(4) three;\nvalue_set<bit<8>>(n) four;\n\
         state start { transition select(n) { one: accept; two: accept; } }\nstate a { transition select(n, b) { two: accept; one: accept; } } }",
        expect![[r#"
            error[value-set]: a value set cannot hold elements of type `int`
             --> main.p4:5:11
              |
            5 | value_set<int>(4) three;
              |           ^^^

            error[not-constant]: the size of a value set must be a constant integer
             --> main.p4:6:19
              |
            6 | value_set<bit<8>>(n) four;
              |                   ^

            error[type-mismatch]: the value set has elements of type `T`, which differs from the type of the selected values
             --> main.p4:7:51
              |
            4 | value_set<T>(4) two;
              |                 --- declared here
            ...
            7 | state start { transition select(n) { one: accept; two: accept; } }
              |                                                   ^^^

            error[type-mismatch]: the value set has elements of type `bit<8>`, which differs from the type of the selected values
             --> main.p4:8:50
              |
            3 | value_set<bit<8>>(4) one;
              |                      --- declared here
            ...
            8 | state a { transition select(n, b) { two: accept; one: accept; } } }
              |                                                  ^^^

            warning[unreachable-state]: no transition leads to state `a`
             --> main.p4:8:7
              |
            8 | state a { transition select(n, b) { two: accept; one: accept; } } }
              |       ^
        "#]],
    );
}

#[test]
fn masks_are_constant() {
    check_states(
        "state start { transition select(s.x) { n &&& n: accept; } }\n",
        expect![[r#"
        error[not-constant]: masks and ranges of a `select` must be known at compile time
         --> main.p4:3:40
          |
        3 | state start { transition select(s.x) { n &&& n: accept; } }
          |                                        ^
    "#]],
    );
}

#[test]
fn stacks_in_parsers() {
    check_states(
        "state start { s.stack.next = s.h;\ns.x = s.stack.last.f;\ns.stack.push_front(1);\ntransition accept; }\n",
        expect![[r#"
        error[stack-member]: `push_front` cannot be used in a parser
         --> main.p4:5:1
          |
        5 | s.stack.push_front(1);
          | ^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn what_belongs_in_controls() {
    check(
        "parser P() { state start { transition accept; } }\ncontrol C() { P() p; apply { } }\nparser Q() { C() c; state start { transition accept; } }",
        expect![[r#"
        error[instance-place]: parser `p` is instantiated in a control
         --> main.p4:2:15
          |
        2 | control C() { P() p; apply { } }
          |               ^^^^^
          |
          = help: parsers are instantiated in parsers, or without a name as arguments of the package

        error[instance-place]: control `c` is instantiated in a parser
         --> main.p4:3:14
          |
        3 | parser Q() { C() c; state start { transition accept; } }
          |              ^^^^^
          |
          = help: controls are instantiated in controls, or without a name as arguments of the package
    "#]],
    );
}

#[test]
fn what_is_never_reached() {
    check_states(
        "state start { transition select(s.x) { 1: accept; _: reject; 2: other; } }\nstate other { transition accept; }\nstate lost { transition other; }\n",
        expect![[r#"
            warning[unreachable-case]: this case is never reached
             --> main.p4:3:62
              |
            3 | state start { transition select(s.x) { 1: accept; _: reject; 2: other; } }
              |                                                   ---------- ^^^^^^^^^
              |                                                   |
              |                                                   this one matches everything
              |
              = help: move the case that matches everything to the end

            warning[unreachable-state]: no transition leads to state `lost`
             --> main.p4:5:7
              |
            5 | state lost { transition other; }
              |       ^^^^
        "#]],
    );
}
