//! Tests names and declarations.

use super::{check, check_decls, check_stmts};
use expect_test::expect;

#[test]
fn duplicate_names() {
    check_decls(
        "const bit<8> a = 1;\nconst bit<8> a = 2;\nerror { Odd }\nstruct T { bit<8> x; bool x; }",
        expect![[r#"
        error[duplicate]: `a` is declared twice
         --> main.p4:3:14
          |
        2 | const bit<8> a = 1;
          |              - first declared here
        3 | const bit<8> a = 2;
          |              ^ declared again here
          |
          = help: rename or remove one of the two

        error[duplicate]: the error `Odd` is declared already
         --> main.p4:4:9
          |
        4 | error { Odd }
          |         ^^^
          |
          = help: all declarations share one set of names: use the existing member

        error[duplicate]: `x` is declared twice
         --> main.p4:5:27
          |
        5 | struct T { bit<8> x; bool x; }
          |                   -       ^ declared again here
          |                   |
          |                   first declared here
          |
          = help: rename or remove one of the two
    "#]],
    );
}

#[test]
fn unknown_names_suggest_near_ones() {
    check_stmts(
        "s.x = nn;\ns.xx = n;\ns.c = Colour.rad;",
        expect![[r#"
        error[unknown-name]: no name `nn` is declared here
         --> main.p4:4:7
          |
        4 | s.x = nn;
          |       ^^

        error[unknown-member]: struct `S` has no `xx`
         --> main.p4:5:3
          |
        5 | s.xx = n;
          |   ^^
          |
          = help: it has `x`, `y`, `h`, `stack`, `u`, `c` and `k`

        error[unknown-member]: enum `Colour` has no `rad`
         --> main.p4:6:14
          |
        6 | s.c = Colour.rad;} }
          |              ^^^
          |
          = help: did you mean `red`?
    "#]],
    );
}

#[test]
fn a_name_is_not_known_before_its_declaration() {
    check_decls(
        "const bit<8> a = b;\nconst bit<8> b = 1;",
        expect![[r#"
        error[unknown-name]: no name `b` is declared here
         --> main.p4:2:18
          |
        2 | const bit<8> a = b;
          |                  ^
    "#]],
    );
}

#[test]
fn a_leading_dot_looks_only_at_the_top_level() {
    check_stmts(
        "s.x = .n;",
        expect![[r#"
        error[unknown-name]: no name `n` is declared here
         --> main.p4:4:7
          |
        4 | s.x = .n;} }
          |       ^^
    "#]],
    );
}

#[test]
fn names_of_the_wrong_sort() {
    check_stmts(
        "s.x = next;\ns.x = NoAction;\ns.x = n(1);",
        expect![[r#"
        error[not-a-value]: `next` is a function, and a value is needed here
         --> main.p4:4:7
          |
        4 | s.x = next;
          |       ^^^^
          |
          = help: call it, as in `next(...)`

        error[not-a-value]: `NoAction` is an action, and a value is needed here
         --> main.p4:5:7
          |
        5 | s.x = NoAction;
          |       ^^^^^^^^
          |
          = help: call it, as in `NoAction(...)`

        error[not-callable]: `n` is a variable or parameter, which cannot be called
         --> main.p4:6:7
          |
        6 | s.x = n(1);} }
          |       ^
    "#]],
    );
}

#[test]
fn recursion_is_refused() {
    check_decls(
        "bit<8> f(in bit<8> a) { return f(a); }\ncontrol C() { apply { C.apply(); } }",
        expect![[r#"
        error[recursion]: function `f` cannot refer to itself
         --> main.p4:2:32
          |
        2 | bit<8> f(in bit<8> a) { return f(a); }
          |        - its declaration       ^
          |
          = help: P4 has no recursion: call something that is declared before

        error[recursion]: control `C` cannot refer to itself
         --> main.p4:3:23
          |
        3 | control C() { apply { C.apply(); } }
          |         -             ^
          |         |
          |         its declaration
          |
          = help: P4 has no recursion: call something that is declared before
    "#]],
    );
}

#[test]
fn a_variable_may_not_hide_a_parameter() {
    check_stmts(
        "bit<8> n = 1;",
        expect![[r#"
        error[shadow]: `n` hides the parameter of that name
         --> main.p4:4:8
          |
        2 | control C(inout S s, in bit<8> n)(bit<8> k) {
          |                      ----------- the parameter
        3 | apply {
        4 | bit<8> n = 1;} }
          |        ^
          |
          = help: give it another name
    "#]],
    );
}

#[test]
fn constants_are_known_at_compile_time() {
    check_stmts(
        "const bit<8> c = n;",
        expect![[r#"
        error[not-constant]: the value of a constant must be known at compile time
         --> main.p4:4:18
          |
        4 | const bit<8> c = n;} }
          |              -   ^
          |              |
          |              the constant
    "#]],
    );
}

#[test]
fn constants_of_externs() {
    check(
        "extern E { E(); }\nconst E e = 1;",
        expect![[r#"
        error[const-type]: a constant cannot be of type `E`
         --> main.p4:2:9
          |
        2 | const E e = 1;
          |         ^
    "#]],
    );
}

#[test]
fn variables_of_types_without_values() {
    check_stmts(
        "int i;\nstring t;\nBox<bit<8>> b;",
        expect![[r#"
        error[variable-type]: a variable cannot be of type `int`
         --> main.p4:4:1
          |
        4 | int i;
          | ^^^^^^
          |
          = help: `int` is for constants: give the variable a width, as in `int<32>`

        error[variable-type]: a variable cannot be of type `string`
         --> main.p4:5:1
          |
        5 | string t;
          | ^^^^^^^^^

        error[variable-type]: a variable cannot be of type `Box<bit<8>>`
         --> main.p4:6:1
          |
        6 | Box<bit<8>> b;} }
          | ^^^^^^^^^^^^^^
          |
          = help: to make an instance, write `Box<bit<8>>() b;`
    "#]],
    );
}

#[test]
fn parameters() {
    check(
        "parser P();\ncontrol D();\nextern E { E(); }\n\
         control C(P p, in E e, in int i, inout bit<8> d = 1)(in bit<8> b) { apply { } }\n\
         action a(bit<8> x, in bit<8> y, E e) { }\n\
         bit<8> f(@optional bit<8> o) { return o; }",
        expect![[r#"
            error[param-type]: parameter `p` cannot be of type `P`
             --> main.p4:4:11
              |
            4 | control C(P p, in E e, in int i, inout bit<8> d = 1)(in bit<8> b) { apply { } }
              |           ^^^
              |
              = help: parsers and controls are constructor parameters, in the second pair of parentheses

            error[param-type]: parameter `e` of extern type `E` cannot have a direction
             --> main.p4:4:16
              |
            4 | control C(P p, in E e, in int i, inout bit<8> d = 1)(in bit<8> b) { apply { } }
              |                ^^^^^^
              |
              = help: remove the direction

            error[param-type]: parameter `i` of type `int` cannot have a direction
             --> main.p4:4:24
              |
            4 | control C(P p, in E e, in int i, inout bit<8> d = 1)(in bit<8> b) { apply { } }
              |                        ^^^^^^^^
              |
              = help: values of this type exist at compile time only: remove the direction

            error[param-default]: parameter `d` is `inout` and cannot have a default value
             --> main.p4:4:34
              |
            4 | control C(P p, in E e, in int i, inout bit<8> d = 1)(in bit<8> b) { apply { } }
              |                                  ^^^^^^^^^^^^^^^^^^

            error[param-type]: a constructor parameter has no direction
             --> main.p4:4:54
              |
            4 | control C(P p, in E e, in int i, inout bit<8> d = 1)(in bit<8> b) { apply { } }
              |                                                      ^^^^^^^^^^^

            error[param-order]: parameters without direction come last in an action
             --> main.p4:5:10
              |
            5 | action a(bit<8> x, in bit<8> y, E e) { }
              |          ^^^^^^^^  ----------- this one has a direction

            error[param-type]: a parameter of an action cannot be the extern `E`
             --> main.p4:5:33
              |
            5 | action a(bit<8> x, in bit<8> y, E e) { }
              |                                 ^^^

            error[param-optional]: `@optional` is for parameters of externs, packages and types of parsers and controls
             --> main.p4:6:10
              |
            6 | bit<8> f(@optional bit<8> o) { return o; }
              |          ^^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn results_of_functions() {
    check(
        "int f() { return 1; }\nbit<8> g(in bool b) { if (b) { return 1; } }\nvoid h() { return 1; }\nbit<8> i() { return; }",
        expect![[r#"
            error[result-type]: a result cannot be of type `int`
             --> main.p4:1:1
              |
            1 | int f() { return 1; }
              | ^^^

            error[missing-return]: function `g` does not return a value on all paths
             --> main.p4:2:8
              |
            2 | bit<8> g(in bool b) { if (b) { return 1; } }
              |        ^                                    - the end can be reached here
              |
              = help: end each path with `return value;`

            error[return-value]: nothing can be returned here: the function has the result type `void`
             --> main.p4:3:12
              |
            3 | void h() { return 1; }
              |            ^^^^^^^^^

            error[return-value]: a value of type `bit<8>` must be returned here
             --> main.p4:4:14
              |
            4 | bit<8> i() { return; }
              |              ^^^^^^^
        "#]],
    );
}

#[test]
fn externs() {
    check(
        "extern E { void E(); E(in bit<8> a); void g(); void g(); }",
        expect![[r#"
            error[method]: the constructor of `E` has a result type
             --> main.p4:1:17
              |
            1 | extern E { void E(); E(in bit<8> a); void g(); void g(); }
              |                 ^
              |
              = help: remove the result type

            error[param-type]: a constructor parameter has no direction
             --> main.p4:1:24
              |
            1 | extern E { void E(); E(in bit<8> a); void g(); void g(); }
              |                        ^^^^^^^^^^^

            error[duplicate]: `g` of extern `E` is declared twice with the same parameters
             --> main.p4:1:53
              |
            1 | extern E { void E(); E(in bit<8> a); void g(); void g(); }
              |                                           -         ^
              |                                           |
              |                                           first declared here
        "#]],
    );
}

#[test]
fn main_is_a_package() {
    check(
        "extern E { E(); }\nE() main;",
        expect![[r#"
        error[main]: `main` must be an instance of a package, not of `E`
         --> main.p4:2:5
          |
        2 | E() main;
          |     ^^^^
    "#]],
    );
    check(
        "header main { }",
        expect![[r#"
        error[main]: `main` must be an instance of a package
         --> main.p4:1:8
          |
        1 | header main { }
          |        ^^^^
    "#]],
    );
}

#[test]
fn static_assertions() {
    check(
        "#include <core.p4>\nconst bool a = static_assert(1 + 1 == 3, \"it is 2\");\nconst bool b = static_assert(true);",
        expect![[r#"
        error[static-assert]: it is 2
         --> main.p4:2:16
          |
        2 | const bool a = static_assert(1 + 1 == 3, "it is 2");
          |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn nesting_has_a_limit() {
    let text = format!("const bool b = {}true;", "!".repeat(220));
    let (_, diagnostics, map) = super::run(&text);
    expect![[r#"
        main.p4:1:216: error[too-deep]: nested more than 200 levels deep, which is the limit
    "#]]
    .assert_eq(&diagnostics.iter().map(|d| d.one_line(&map) + "\n").collect::<String>());
}
