//! Tests errors and the partial trees after them.

use super::check;
use expect_test::expect;

#[test]
fn missing_semicolon() {
    check(
        "control C() { apply {\nbit<8> x = 1\nx = 2;\n} }",
        expect![[r#"
            (control C (params) (apply (block (var x bit<8> 1) (= x 2))))
            main.p4:3:1: error[syntax]: expected `;`, found `x`
        "#]],
    );
}

#[test]
fn missing_brace_of_a_block() {
    check(
        "control A() {\napply {\nif (true) {\nf();\n}\n}\n\ncontrol B() { apply { } }\nstruct S { bit<8> f; }",
        expect![[r#"
            (control B (params) (apply (block)))
            (struct S (bit<8> f))
            main.p4:8:1: error[syntax]: expected `}`, found `control`
        "#]],
    );
}

#[test]
fn missing_brace_of_a_state() {
    check(
        "parser P() {\nstate start {\nx = 1;\nstate next {\ntransition accept;\n}\n}\nstruct S {}",
        expect![[r#"
        (parser P (params) (state next (transition accept)))
        (struct S)
        main.p4:4:1: error[syntax]: expected `}`, found another state
    "#]],
    );
}

#[test]
fn brace_too_many() {
    check(
        "struct S { }\n}\nstruct T { }",
        expect![[r#"
        (struct S)
        (struct T)
        main.p4:2:1: error[syntax]: this `}` closes nothing; help: remove it, or look for a `}` too many above
    "#]],
    );
}

#[test]
fn misspelled_keyword() {
    check(
        "contorl C() { apply { } }\nheadr H { bit<8> f; }\nstruct S { }",
        expect![[r#"
            (struct S)
            main.p4:1:1: error[unknown-type]: unknown type `contorl`; help: did you mean `control`?
            main.p4:2:1: error[unknown-type]: unknown type `headr`; help: did you mean `header`?
        "#]],
    );
}

#[test]
fn keyword_as_name() {
    check(
        "struct S { bit<8> table; bit<8> ok; }",
        expect![[r#"
        (struct S (bit<8> ok))
        main.p4:1:19: error[syntax]: expected a name, found `table`; help: `table` is a keyword; choose another name
    "#]],
    );
}

#[test]
fn variable_at_top_level() {
    check(
        "bit<8> x;\nbit<8> y = 1;\nconst bit<8> z;\nconst bit<8> w = 1;",
        expect![[r#"
        (const w bit<8> 1)
        main.p4:1:9: error[syntax]: expected `(`, found `;`; help: make it a `const`, or declare it in a parser, control or action
        main.p4:2:10: error[syntax]: expected `(`, found `=`; help: make it a `const`, or declare it in a parser, control or action
        main.p4:3:15: error[syntax]: expected `=`, found `;`; help: give the constant a value: `const ... z = value;`
    "#]],
    );
}

#[test]
fn control_without_apply() {
    check(
        "control C() { bit<8> x; }\ncontrol D() { apply { } bit<8> y; apply { } }",
        expect![[r#"
        (control C (params) (var x bit<8>) (apply (block)))
        (control D (params) (var y bit<8>) (apply (block)))
        main.p4:1:25: error[syntax]: control `C` has no `apply` block; help: add `apply { ... }` at its end
        main.p4:2:32: error[syntax]: declarations come before `apply`; help: move the declaration before it
        main.p4:2:41: error[syntax]: a second `apply`
    "#]],
    );
}

#[test]
fn parser_without_states() {
    check(
        "parser P() { bit<8> x; }\nparser Q() { state start { } bit<8> y; }",
        expect![[r#"
        (parser P (params) (var x bit<8>))
        (parser Q (params) (var y bit<8>) (state start))
        main.p4:1:24: error[syntax]: the parser has no state; help: add `state start { ... }`
        main.p4:2:37: error[syntax]: declarations come before states; help: move the declaration before it
    "#]],
    );
}

#[test]
fn members_in_the_wrong_container() {
    check(
        "parser P() { table t { } action a() { } state start { switch (x) { } return; transition accept; x = 1; } }\ncontrol C() { value_set<bit<8>>(4) v; state s { } apply { } }\ntable t { actions = { a; } }",
        expect![[r#"
            (parser P (params) (state start (transition accept)))
            (control C (params) (apply (block)))
            main.p4:1:14: error[syntax]: a table is not allowed in a parser; help: declare it in a control
            main.p4:1:26: error[syntax]: an action is not allowed in a parser; help: declare it in a control
            main.p4:1:55: error[syntax]: `switch` is not allowed in a parser state; help: choose with `transition select`, repeat with a state that leads to itself
            main.p4:1:70: error[syntax]: `return` is not allowed in a parser state; help: choose with `transition select`, repeat with a state that leads to itself
            main.p4:1:97: error[syntax]: nothing can follow the transition of a state
            main.p4:2:15: error[syntax]: a value set is not allowed in a control; help: declare it in a parser
            main.p4:2:39: error[syntax]: a parser state is not allowed here; help: it belongs in a parser, next to the other states
            main.p4:3:1: error[syntax]: a table is not allowed at the top level; help: declare it in a control
        "#]],
    );
}

#[test]
fn method_without_result_type() {
    check(
        "extern E { E(); f(in bit<8> x); void g(); }",
        expect![[r#"
        (extern E (constructor E (params)) (method g (params) void))
        main.p4:1:17: error[syntax]: the result type of `f` is missing; help: write `void f(...)`; a constructor is named `E`
    "#]],
    );
}

#[test]
fn instance_without_name() {
    check(
        "extern E { E(); }\nE();\nE() e;",
        expect![[r#"
            (extern E (constructor E (params)))
            (instance e E)
            main.p4:2:4: error[syntax]: expected the instance's name, found `;`; help: name it: `E(...) name;`
        "#]],
    );
}

#[test]
fn enums_and_errors() {
    check(
        "enum E { }\nenum F { a = 1 }\nenum bit<8> G { a }\nerror { }\nerror { A }",
        expect![[r#"
        (error A)
        main.p4:1:10: error[syntax]: enum `E` has no members; help: give it at least one
        main.p4:2:12: error[syntax]: members have values only in an enum with an underlying type; help: write `enum bit<8> Name { ... }`
        main.p4:3:19: error[syntax]: expected `=`, found `}`
        main.p4:4:9: error[syntax]: expected a name, found `}`
    "#]],
    );
}

#[test]
fn error_in_an_initialiser() {
    check(
        "control C() { apply {\nx = { a = 1, b };\ny = { 1, c = 2 };\nz = 1;\n} }",
        expect![[r#"
        (control C (params) (apply (block (= z 1))))
        main.p4:2:16: error[syntax]: expected `=`, found `}`
        main.p4:3:12: error[syntax]: expected `,` or `}`, found `=`
    "#]],
    );
}

#[test]
fn error_in_a_nested_block() {
    check(
        "control C() { apply {\nif (x) {\ny = = 1;\nz = 2;\n}\nw = 3;\n} }",
        expect![[r#"
        (control C (params) (apply (block (if x (block (= z 2))) (= w 3))))
        main.p4:3:5: error[syntax]: expected an expression, found `=`
    "#]],
    );
}

#[test]
fn unclosed_string_and_comment() {
    check(
        "const string a = \"x;\n",
        expect![[r#"
        main.p4:1:18: error[syntax]: this string is never closed; help: add the closing `"`
        main.p4:2:1: error[syntax]: expected an expression, found the end of the program
    "#]],
    );
    check(
        "const bit<8> a = 1;\n/* never",
        expect![[r#"
        (const a bit<8> 1)
        main.p4:2:1: error[syntax]: this comment is never closed; help: add the closing `*/`
    "#]],
    );
}

#[test]
fn unknown_characters() {
    check(
        "const bit<8> a = 1 $ 2;\nconst bit<8> é = 1;\nconst bit<8> b = 3;",
        expect![[r#"
        (const b bit<8> 3)
        main.p4:1:20: error[syntax]: expected `;`, found `$`
        main.p4:2:14: error[syntax]: expected a name, found `é`
    "#]],
    );
}

#[test]
fn unclosed_annotation() {
    check(
        "@a(b\nconst bit<8> x = 1;",
        expect![[r#"
        main.p4:1:3: error[syntax]: the annotation's `(` is never closed; help: add `)`
    "#]],
    );
}

#[test]
fn too_many_errors_say_so() {
    let parsed = super::parse(&"bit<8> x;\n".repeat(200));
    assert_eq!(parsed.diagnostics.len(), 101);
    assert_eq!(parsed.diagnostics.last().map(|d| d.code), Some("limit"));
}
