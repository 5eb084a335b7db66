//! Tests directives and macros. Trees show the preprocessed program.

use super::report;
use expect_test::{Expect, expect};
use p4::parse::parse_program;
use p4::preprocess::{MemoryLoader, PreprocessLimits, PreprocessOptions};
use std::path::Path;

/// Compares the tokens of `text`, joined by single blanks, followed by the diagnostics.
fn check_tokens(text: &str, expect: Expect) {
    check_files(&[("main.p4", text)], expect);
}

fn check_files(files: &[(&str, &str)], expect: Expect) {
    check_with(files, &PreprocessOptions::default(), expect);
}

fn check_with(files: &[(&str, &str)], options: &PreprocessOptions, expect: Expect) {
    let loader = files.iter().fold(MemoryLoader::new(), |loader, (path, text)| loader.with(path, *text));
    let out = p4::preprocess::preprocess(&loader, Path::new("main.p4"), options);
    let words: Vec<&str> = out.tokens.iter().map(|token| &*token.text).collect();
    let mut text = words.join(" ").trim_end().to_owned() + "\n";
    for diagnostic in &out.diagnostics {
        text.push_str(&diagnostic.one_line(&out.source_map));
        text.push('\n');
    }
    expect.assert_eq(&text);
}

#[test]
fn object_macros() {
    check_tokens(
        "#define A 1\n#define B A + A\n#define EMPTY\nB; EMPTY A;\n#undef A\nA B;",
        expect![[r#"
        1 + 1 ; 1 ; A A + A ;
    "#]],
    );
}

#[test]
fn function_macros() {
    check_tokens(
        "#define MAX(a, b) ((a) > (b) ? (a) : (b))\nMAX(1, MAX(x, f(y, z))); MAX ; MAX\n (2,\n 3);",
        expect![[r#"
            ( ( 1 ) > ( ( ( x ) > ( f ( y , z ) ) ? ( x ) : ( f ( y , z ) ) ) ) ? ( 1 ) : ( ( ( x ) > ( f ( y , z ) ) ? ( x ) : ( f ( y , z ) ) ) ) ) ; MAX ; ( ( 2 ) > ( 3 ) ? ( 2 ) : ( 3 ) ) ;
        "#]],
    );
}

#[test]
fn macros_without_parameters_and_variadic() {
    check_tokens(
        "#define F() f\n#define V(x, ...) x: __VA_ARGS__;\n#define W(...) [__VA_ARGS__]\nF(); V(a, b, c) V(a) W() W(1,2)",
        expect![[r#"
            f ; a : b , c ; a : ; [ ] [ 1 , 2 ]
        "#]],
    );
}

#[test]
fn recursive_macros_end() {
    check_tokens(
        "#define A B\n#define B A\n#define F(x) F(x + 1)\nA B F(1) F(F(2))",
        expect![[r#"
        A B F ( 1 + 1 ) F ( F ( 2 + 1 ) + 1 )
    "#]],
    );
}

#[test]
fn macro_that_expands_to_a_macro_name() {
    check_tokens(
        "#define F(x) <x>\n#define G F\nG(1) G (2)",
        expect![[r#"
        < 1 > < 2 >
    "#]],
    );
}

#[test]
fn paste_and_stringify() {
    check_tokens(
        "#define CAT(a, b) a ## b\n#define STR(x) #x\n#define XSTR(x) STR(x)\n#define N 4\nCAT(he, ader) CAT(x, 1) CAT(, y) CAT(z,) CAT(,) CAT(8w, 0x1F) STR(a + \"b\") XSTR(N) STR(N)",
        expect![[r#"
            header x1 y z 8w0x1F "a + \"b\"" "4" "N"
        "#]],
    );
}

#[test]
fn bad_paste() {
    check_tokens(
        "#define CAT(a, b) a ## b\nCAT(x, +);",
        expect![[r#"
            x + ;
        "#]],
    );
}

#[test]
fn wrong_number_of_arguments() {
    check_tokens(
        "#define F(x, y) x y\nF(1);\nF(1, 2, 3);\nF(1, 2);\nF(",
        expect![[r#"
            F ; F ; 1 2 ; F
            main.p4:2:1: error[macro-arguments]: macro `F` takes 2 arguments, not 1
            main.p4:3:1: error[macro-arguments]: macro `F` takes 2 arguments, not 3
            main.p4:5:1: error[macro-arguments]: the arguments of macro `F` are never closed; help: add `)`
        "#]],
    );
}

#[test]
fn conditions() {
    check_tokens(
        "#define A 3\n#if A > 2 && defined(A) && !defined B\nyes1\n#else\nno1\n#endif\n#ifdef B\nno2\n#elif A == 3\nyes2\n#elif 1\nno3\n#else\nno4\n#endif\n#ifndef B\nyes3\n#endif\n#if 0\n#if 1\nno5\n#else\nno6\n#endif\n#endif",
        expect![[r#"
            yes1 yes2 yes3
        "#]],
    );
}

#[test]
fn condition_arithmetic() {
    check_tokens(
        "#if (1 + 2 * 3 == 7) && (7 / 2 == 3) && (-7 % 4 == -3) && (1 << 4 >> 2 == 4) && (~0 == -1) && (5 ^ 1) == 4 && (6 & 3 | 8) == 10 && (0 ? 0 : 1) && 0x10 == 16 && 2u == 2\nyes\n#endif\n#if 1 || 1 / 0\nyes\n#endif\n#if 0 && 1 / 0\nno\n#endif\n#if UNKNOWN == 0\nyes\n#endif",
        expect![[r#"
            yes yes yes
        "#]],
    );
}

#[test]
fn bad_conditions() {
    check_tokens(
        "#if 1 / 0\n#endif\n#if\n#endif\n#if (1\n#endif\n#if 1 2\n#endif\n#if \"x\"\n#endif\n#if 99999999999999999999\n#endif",
        expect![[r#"

            main.p4:1:7: error[bad-condition]: division by zero
            main.p4:3:1: error[bad-condition]: `#if` has no condition
            main.p4:5:5: error[bad-condition]: this `(` is never closed
            main.p4:7:7: error[bad-condition]: an operator is missing before `2`
            main.p4:9:5: error[bad-condition]: `"x"` does not belong in the condition
            main.p4:11:5: warning[bad-constant]: the number has more than 64 bits; the high bits are dropped
        "#]],
    );
}

#[test]
fn unbalanced_conditionals() {
    check_tokens(
        "#else\n#endif\n#elif 1\n#if 1\n#else\n#else\n#elif 1\n#endif\n#ifdef X\nnot read",
        expect![[r#"

        main.p4:1:1: error[unbalanced-conditional]: `#else` without `#if` in this file
        main.p4:2:1: error[unbalanced-conditional]: `#endif` without `#if` in this file
        main.p4:3:1: error[unbalanced-conditional]: `#elif` without `#if` in this file
        main.p4:6:1: error[unbalanced-conditional]: `#else` after `#else`
        main.p4:7:1: error[unbalanced-conditional]: `#elif` after `#else`
        main.p4:9:1: error[unbalanced-conditional]: this conditional is never closed; help: add `#endif`
    "#]],
    );
}

#[test]
fn skipped_text_need_not_be_p4() {
    check_tokens(
        "#if 0\ndon't \"do\nthis /* ' */ é\n#error no\n#include <none>\n#else\n\"a\nb\"\n#endif\nx",
        expect![[r#"
            "a
            b" x
        "#]],
    );
}

#[test]
fn continuations_and_comments() {
    check_tokens(
        "#define A 1 \\\n + 2 // not this\n#define B /* nor\n this */ 3\nA B // x \\\n still a comment\ny /**/ z",
        expect![[r#"
            1 + 2 3 y z
        "#]],
    );
}

#[test]
fn includes() {
    check_files(
        &[
            ("main.p4", "#include \"sub/a.p4\"\n#include <lib.p4>\n#define NAME <lib.p4>\n#include NAME\nmain"),
            ("sub/a.p4", "#include \"b.p4\"\na"),
            ("sub/b.p4", "b"),
            ("lib.p4", "wrong"),
        ],
        expect![[r#"
            b a main
            main.p4:2:10: error[include-not-found]: there is no file `lib.p4`; help: no include directory was given; give one with -I
            main.p4:4:10: error[include-not-found]: there is no file `lib.p4`; help: no include directory was given; give one with -I
        "#]],
    );
}

#[test]
fn include_directories() {
    let options =
        PreprocessOptions { include_dirs: vec!["inc1".into(), "inc2".into()], ..PreprocessOptions::default() };
    check_with(
        &[
            (
                "main.p4",
                "#include <a.p4>\n#include \"a.p4\"\n#include <b.p4>\n#include <once.p4>\n#include <../inc1/once.p4>\n",
            ),
            ("a.p4", "here"),
            ("inc1/a.p4", "inc1"),
            ("inc2/a.p4", "inc2"),
            ("inc2/b.p4", "b"),
            ("inc1/once.p4", "#pragma once\nonce"),
        ],
        &options,
        expect![[r#"
            inc1 here b once
        "#]],
    );
}

#[test]
fn missing_include() {
    check_tokens(
        "#include <core.p4>\n#include\n#include foo\nx",
        expect![[r#"
        x
        main.p4:1:10: error[include-not-found]: there is no file `core.p4`; help: no include directory was given; give one with -I
        main.p4:2:1: error[bad-directive]: `#include` needs a file name; help: write `#include <core.p4>` or `#include "my.p4"`
        main.p4:3:10: error[bad-directive]: `#include` needs a file name; help: write `#include <core.p4>` or `#include "my.p4"`
    "#]],
    );
}

#[test]
fn include_guard() {
    check_files(
        &[("main.p4", "#include \"g.p4\"\n#include \"g.p4\"\n"), ("g.p4", "#ifndef G\n#define G\ng\n#endif\n")],
        expect![[r#"
            g
        "#]],
    );
}

#[test]
fn endless_inclusion() {
    check_files(
        &[("main.p4", "#include \"main.p4\"\n")],
        expect![[r#"

            main.p4:1:10: error[limit]: `#include` nests deeper than 200; help: guard the file with `#ifndef` or `#pragma once`
        "#]],
    );
}

#[test]
fn exponential_macros_are_bounded() {
    let mut text = String::from("#define A0 x x\n");
    for n in 1..40 {
        text.push_str(&format!("#define A{n} A{} A{}\n", n - 1, n - 1));
    }
    text.push_str("A39\n");
    let options = PreprocessOptions {
        limits: PreprocessLimits { tokens: 2000, ..PreprocessLimits::default() },
        ..PreprocessOptions::default()
    };
    let loader = MemoryLoader::new().with("main.p4", text);
    let out = p4::preprocess::preprocess(&loader, Path::new("main.p4"), &options);
    assert!(out.tokens.len() <= 2001);
    assert_eq!(out.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["limit"]);
}

#[test]
fn predefined_macros() {
    let options = PreprocessOptions {
        defines: vec![("__p4c__".into(), "1".into()), ("TWICE(x)".into(), "x x".into())],
        ..PreprocessOptions::default()
    };
    check_with(
        &[("main.p4", "#if __p4c__\nTWICE(a)\n#endif\n__FILE__ __LINE__\n\n__LINE__")],
        &options,
        expect![[r#"
        a a "main.p4" 4 6
    "#]],
    );
}

#[test]
fn messages() {
    check_tokens(
        "#warning mind   the gap\n#error it's \"bad\n#unknown x\n#\n#pragma x y\nz",
        expect![[r#"
            z
            main.p4:1:1: warning[warning-directive]: mind the gap
            main.p4:2:1: error[error-directive]: it's "bad
            main.p4:3:1: warning[unknown-directive]: unknown directive `#unknown` is ignored
        "#]],
    );
}

#[test]
fn bad_definitions() {
    check_tokens(
        "#define\n#define 1 2\n#define F(x\n#define G(x y) z\n#define H ## x\n#define defined 1\n#define A 1\n#define A 1\n#define A 2\n",
        expect![[r#"

            main.p4:1:1: error[bad-directive]: the macro's name is missing after `#define`
            main.p4:2:9: error[bad-directive]: the number `1` cannot be the name of a macro
            main.p4:3:12: error[bad-directive]: the macro's parameters are not closed; help: add `)`
            main.p4:4:13: error[bad-directive]: the macro's parameters are names with commas between them; help: write `,` or `)`
            main.p4:5:11: error[bad-directive]: `##` cannot be at the edge of a macro; help: put a token on both sides of it
            main.p4:6:9: error[bad-directive]: `defined` cannot be the name of a macro
            main.p4:9:9: warning[macro-redefined]: `A` is defined differently; help: write `#undef A` first if it is meant
        "#]],
    );
}

/// Locations of errors in included files, in macros, and after `#line`.
#[test]
fn positions() {
    let loader = MemoryLoader::new()
        .with("main.p4", "#include \"inc.p4\"\n#define BAD = =\nconst bit<8> x\n   BAD 1;\n#line 100 \"gen.p4\"\nconst bit<8> = 2;\n")
        .with("inc.p4", "\nconst bit<8> 5;\n");
    let parsed = parse_program(&loader, Path::new("main.p4"), &PreprocessOptions::default());
    expect![[r#"
        inc.p4:2:14: error[syntax]: expected a name, found the number `5`
        main.p4:4:4: error[syntax]: expected an expression, found `=`
        gen.p4:100:14: error[syntax]: expected a name, found `=`
    "#]]
    .assert_eq(&report(&parsed));
}

/// Expansion that multiplies text instead of tokens is bounded, too.
#[test]
fn exponential_texts_are_bounded() {
    let nested = |name: &str, inner: &str| format!("{}{inner}{}\n", format!("{name}(").repeat(60), ")".repeat(60));
    let string = "#define S(x) #x\n#define X(x) S(x)\n".to_owned() + &nested("X", "\"\\\\\"");
    let paste = "#define C(x) x##x\n#define X(x) C(x)\n".to_owned() + &nested("X", "a");
    let call = "#define X(x) x x\n".to_owned() + &nested("X", "a");
    let long = format!("#define A {}\n#define B A A A A A A A A\n{}", "x".repeat(1 << 20), "B ".repeat(100));
    for text in [string, paste, call, long] {
        let loader = MemoryLoader::new().with("main.p4", text);
        let out = p4::preprocess::preprocess(&loader, Path::new("main.p4"), &PreprocessOptions::default());
        assert_eq!(out.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["limit"]);
    }
}

/// After an unmatched quote, the line's remainder is a single token to the preprocessor, and any
/// number of tokens to P4.
#[test]
fn tokens_behind_a_quote_are_bounded() {
    let text = format!("'{}\n", " x".repeat(3000));
    let options = PreprocessOptions {
        limits: PreprocessLimits { tokens: 2000, ..PreprocessLimits::default() },
        ..PreprocessOptions::default()
    };
    let loader = MemoryLoader::new().with("main.p4", text);
    let out = p4::preprocess::preprocess(&loader, Path::new("main.p4"), &options);
    assert_eq!(out.tokens.len(), 2001);
    assert_eq!(out.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["limit"]);
}

/// After the limit of findings no more are reported, because conditionals that are still open then
/// are not the program's fault.
#[test]
fn nothing_is_found_behind_the_last_finding() {
    let text = format!("#if 1\n#ifdef A\n#else\n{}#endif\n#endif\n", "#error no\n".repeat(150));
    let loader = MemoryLoader::new().with("main.p4", text);
    let out = p4::preprocess::preprocess(&loader, Path::new("main.p4"), &PreprocessOptions::default());
    let codes: Vec<&str> = out.diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, [vec!["error-directive"; 100], vec!["limit"]].concat());
}

/// cpp puts a line marker into a string if many of its lines are skipped, and p4c's scanner takes
/// the marker's quotes for the string's (p4-constraints 143). Here the string continues.
#[test]
fn strings_with_many_skipped_lines() {
    check_tokens(
        "\"a\n#if 0\n\n\n\n\n\n\n\n\n\n\n#endif\nb\" c",
        expect![[r#"
        "a
        b" c
    "#]],
    );
}

/// Part of a preprocessing token has its own span. Tokens of a macro have the span of its use,
/// arguments the span where they are written.
#[test]
fn spans() {
    let text = "#define ID(x) x >>= 1\nID(a b) 0xe+ID c\\\nd ID( \\\n e);";
    let loader = MemoryLoader::new().with("main.p4", text);
    let out = p4::preprocess::preprocess(&loader, Path::new("main.p4"), &PreprocessOptions::default());
    let shown: Vec<String> =
        out.tokens.iter().map(|t| format!("{}={:?}", t.text, out.source_map.text(t.span))).collect();
    expect![[r#"
        a="a"
        b="b"
        >="ID"
        >=="ID"
        1="ID"
        0xe="0xe"
        +="+"
        ID="ID"
        cd="c\\\nd"
        e="e"
        >="ID"
        >=="ID"
        1="ID"
        ;=";"
        ="""#]]
    .assert_eq(&shown.join("\n"));
}

/// Line markers that name the program's origin, as another preprocessor writes them.
#[test]
fn line_markers_in_the_source() {
    let text = "# 7 \"a.p4\" 1\nconst bit<8> = 2;\n# 1 \"b.p4\" 2\n\nconst bit<8> = 3;\n";
    let loader = MemoryLoader::new().with("main.p4", text);
    let parsed = parse_program(&loader, Path::new("main.p4"), &PreprocessOptions::default());
    expect![[r#"
        a.p4:7:14: error[syntax]: expected a name, found `=`
        b.p4:2:14: error[syntax]: expected a name, found `=`
    "#]]
    .assert_eq(&report(&parsed));
}
