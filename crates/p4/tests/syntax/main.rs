//! Golden tests of the front end's syntax half: trees, tokens and diagnostics. `UPDATE_EXPECT=1
//! cargo test -p p4 --test syntax` rewrites them.

mod declarations;
mod errors;
mod expressions;
mod preprocessor;
mod rendering;
mod robustness;
mod statements;
mod tables;
mod types;

use expect_test::Expect;
use p4::parse::{ParsedProgram, parse_program};
use p4::preprocess::{MemoryLoader, PreprocessOptions};
use std::path::Path;

/// Parses `text` as `main.p4`.
fn parse(text: &str) -> ParsedProgram {
    parse_program(&MemoryLoader::new().with("main.p4", text), Path::new("main.p4"), &PreprocessOptions::default())
}

/// Formats the tree, followed by one line per diagnostic.
fn report(parsed: &ParsedProgram) -> String {
    let mut out = p4::ast::dump(&parsed.program);
    for diagnostic in &parsed.diagnostics {
        out.push_str(&diagnostic.one_line(&parsed.source_map));
        out.push('\n');
    }
    out
}

/// Compares the tree and the diagnostics of `input` with `expect`.
fn check(input: &str, expect: Expect) {
    expect.assert_eq(&report(&parse(input)));
}

/// Like [`check`], for statements in the `apply` block of a control with `h` and `x` in scope.
fn check_stmts(statements: &str, expect: Expect) {
    let program = format!(
        "header H {{ bit<8> f; }} enum E {{ a, b }} control C(inout H h, inout bit<8> x) {{ apply {{\n{statements}\n}} }}"
    );
    let parsed = parse(&program);
    let mut out = String::new();
    let tree = p4::ast::dump(&parsed.program);
    // The text around the statements is the same in every test.
    let apply = tree.find("(apply").map_or("", |at| &tree[at..]);
    out.push_str(apply.trim_end().strip_suffix(')').unwrap_or(apply));
    out.push('\n');
    for diagnostic in &parsed.diagnostics {
        out.push_str(&diagnostic.one_line(&parsed.source_map));
        out.push('\n');
    }
    expect.assert_eq(&out);
}

/// Like [`check`], for one expression in a program with types `T`, `E`, `H` and a generic function
/// `g`.
fn check_expr(expression: &str, expect: Expect) {
    let program = format!(
        "typedef bit<8> T; enum E {{ a, b }} header H {{ bit<8> f; }} extern X g<X>(in X x); const int c =\n{expression};"
    );
    let parsed = parse(&program);
    let tree = p4::ast::dump(&parsed.program);
    let value = tree.find("(const c int").map_or("", |at| tree[at + 12..].trim());
    let mut out = value.strip_suffix(')').unwrap_or(value).to_owned();
    out.push('\n');
    for diagnostic in &parsed.diagnostics {
        out.push_str(&diagnostic.one_line(&parsed.source_map));
        out.push('\n');
    }
    expect.assert_eq(&out);
}
