//! Tests the layout of diagnostics.

use super::parse;
use expect_test::{Expect, expect};
use p4::lex::Tok;

fn check_rendered(text: &str, expect: Expect) {
    let parsed = parse(text);
    let rendered: Vec<String> = parsed.diagnostics.iter().map(|d| d.render(&parsed.source_map, false)).collect();
    expect.assert_eq(&(rendered.join("\n\n") + "\n"));
}

#[test]
fn excerpt_with_caret_and_mend() {
    check_rendered(
        "header ethernet_t {\n    bit<48> dst;\n}\nstruct headers {\n    etherent_t eth;\n}\n",
        expect![[r#"
        error[unknown-type]: unknown type `etherent_t`
         --> main.p4:5:5
          |
        5 |     etherent_t eth;
          |     ^^^^^^^^^^
          |
          = help: did you mean `ethernet_t`?
    "#]],
    );
}

#[test]
fn label_on_another_line() {
    check_rendered(
        "control C() {\n    apply {\n        bit<8> x = 1\n        x = 2;\n    }\n}\n",
        expect![[r#"
        error[syntax]: expected `;`, found `x`
         --> main.p4:4:9
          |
        3 |         bit<8> x = 1
          |                     - `;` is missing here
        4 |         x = 2;
          |         ^
    "#]],
    );
}

#[test]
fn characters_are_counted_not_bytes() {
    check_rendered(
        "/* größer */ const bit<8> x = ;\n",
        expect![[r#"
        error[syntax]: expected an expression, found `;`
         --> main.p4:1:31
          |
        1 | /* größer */ const bit<8> x = ;
          |                               ^
    "#]],
    );
}

#[test]
fn a_line_of_megabytes_is_not_shown() {
    let parsed = parse(&format!("const bit<8> x = {} ;;= 1;", "1 + ".repeat(3000)));
    let rendered = parsed.diagnostics[0].render(&parsed.source_map, false);
    assert!(rendered.len() < 500, "{rendered}");
    assert!(rendered.contains("main.p4:1:"), "{rendered}");
}

#[test]
fn json() {
    let parsed = parse("struct S { bit<8> table; }\n");
    let json = parsed.diagnostics[0].to_json(&parsed.source_map);
    expect![[r#"
        {
          "code": "syntax",
          "column": 19,
          "end_column": 24,
          "end_line": 1,
          "file": "main.p4",
          "help": "`table` is a keyword; choose another name",
          "labels": [],
          "line": 1,
          "message": "expected a name, found `table`",
          "severity": "error"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&json).expect("a JSON value prints"));
}

#[test]
fn colour_only_when_asked_for() {
    let parsed = parse("struct S { bit<8> table; }\n");
    let diagnostic = &parsed.diagnostics[0];
    assert!(!diagnostic.render(&parsed.source_map, false).contains('\u{1b}'));
    assert!(diagnostic.render(&parsed.source_map, true).contains('\u{1b}'));
}

#[test]
fn token_dump() {
    let parsed = parse("#define W 8\nconst bit<W> x = 8w1; // end\n");
    expect![[r#"
        main.p4:2:1	Const	const
        main.p4:2:7	Bit	bit
        main.p4:2:10	Lt	<
        main.p4:2:11	Int	8
        main.p4:2:12	Gt	>
        main.p4:2:14	Ident	x
        main.p4:2:16	Assign	=
        main.p4:2:18	Int	8w1
        main.p4:2:21	Semi	;
        main.p4:3:1	Eof	
    "#]]
    .assert_eq(&p4::lex::dump(&parsed.tokens, &parsed.source_map));
    assert_eq!(parsed.tokens.last().map(|t| t.kind), Some(Tok::Eof));
}
