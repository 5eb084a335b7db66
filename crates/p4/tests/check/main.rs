//! Golden tests of the checker: rendered diagnostics, and the typed program as text.
//! `UPDATE_EXPECT=1 cargo test -p p4 --test check` rewrites them.

mod accepted;
mod actions_and_tables;
mod annotations;
mod call_places;
mod calls;
mod declarations;
mod entries;
mod expressions;
mod instances;
mod operators;
mod parsers;
mod robustness;
mod slices;
mod statements;
mod typed;
mod types;

use expect_test::Expect;
use p4::check::check as check_program;
use p4::diag::Diagnostic;
use p4::hir::Program;
use p4::parse::parse_program;
use p4::preprocess::{MemoryLoader, PreprocessOptions};
use p4::span::SourceMap;
use std::path::Path;

/// Declarations that most tests of statements need.
const PRELUDE: &str = "
error { NoError, Odd }
match_kind { exact, ternary, lpm, range }
action NoAction() {}
enum Colour { red, green }
enum bit<8> Kind { one = 1, two = 2 }
header H { bit<8> f; bit<16> g; }
header_union U { H a; H b; }
struct S { bit<8> x; bit<8> y; H h; H[4] stack; U u; Colour c; Kind k; }
extern Box<T> { Box(T first); T get(in bit<8> at); void put(out T value); }
extern void take<T>(in T value);
extern T give<T>();
bit<8> next(in bit<8> n) { return n + 1; }
";

/// Checks `text` as `main.p4`, which may include `prelude.p4` and the include files of the
/// repository.
fn run(text: &str) -> (Program, Vec<Diagnostic>, SourceMap) {
    let loader = MemoryLoader::new()
        .with("main.p4", text)
        .with("prelude.p4", PRELUDE)
        .with("include/core.p4", include_str!("../../../../programs/include/core.p4"))
        .with("include/v1model.p4", include_str!("../../../../programs/include/v1model.p4"))
        .with("include/pna.p4", include_str!("../../../../programs/include/pna.p4"));
    let options = PreprocessOptions { include_dirs: vec!["include".into()], ..PreprocessOptions::default() };
    let parsed = parse_program(&loader, Path::new("main.p4"), &options);
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
    let (program, diagnostics) = check_program(&parsed.program, &parsed.source_map);
    (program, diagnostics, parsed.source_map)
}

/// Renders all diagnostics.
fn rendered(diagnostics: &[Diagnostic], map: &SourceMap) -> String {
    let shown: Vec<String> = diagnostics.iter().map(|d| d.render(map, false).trim_end().to_owned() + "\n").collect();
    shown.join("\n")
}

/// Compares the diagnostics of a program with `expect`.
fn check(input: &str, expect: Expect) {
    let (_, diagnostics, map) = run(input);
    expect.assert_eq(&rendered(&diagnostics, &map));
}

/// Like [`check`], after the prelude.
fn check_decls(decls: &str, expect: Expect) {
    check(&format!("#include \"prelude.p4\"\n{}", decls.trim_start()), expect);
}

/// Like [`check`], for statements in a control's `apply` block, which may use `s`, `n` and the
/// constructor parameter `k`.
fn check_stmts(statements: &str, expect: Expect) {
    check(&in_control("", statements), expect);
}

/// Like [`check`], for declarations in a control.
fn check_locals(locals: &str, expect: Expect) {
    check(&in_control(locals, ""), expect);
}

/// Like [`check`], for the states of a parser, which may use `s` and `n`.
fn check_states(states: &str, expect: Expect) {
    let states = states.trim_start();
    check(&format!("#include \"prelude.p4\"\nparser P(inout S s, in bit<8> n) {{\n{states}}}\n"), expect);
}

fn in_control(locals: &str, statements: &str) -> String {
    let (locals, statements) = (locals.trim_start(), statements.trim_start());
    format!(
        "#include \"prelude.p4\"\ncontrol C(inout S s, in bit<8> n)(bit<8> k) {{\n{locals}apply {{\n{statements}}} }}\n"
    )
}

/// Asserts that the program has no error.
fn accept(input: &str) -> Program {
    let (program, diagnostics, map) = run(input);
    let errors: Vec<_> = diagnostics.into_iter().filter(Diagnostic::is_error).collect();
    assert!(errors.is_empty(), "{}", rendered(&errors, &map));
    assert_eq!(p4::hir::verify(&program), Vec::<String>::new());
    program
}

/// Compares the typed form of statements in a control's `apply` block.
fn typed_stmts(statements: &str, expect: Expect) {
    let program = accept(&in_control("", statements));
    let text = p4::hir::dump(&program);
    let apply = text.find("    apply {\n").map_or("", |at| &text[at..]);
    let lines: Vec<&str> = apply.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    // The last line closes the control.
    expect.assert_eq(&(lines[..lines.len().saturating_sub(1)].join("\n") + "\n"));
}

/// Compares the typed form of the parsers and controls of a program.
fn typed(input: &str, expect: Expect) {
    let program = accept(input);
    let text = p4::hir::dump(&program);
    let objects = ["\nparser ", "\ncontrol "].iter().filter_map(|word| text.find(word)).min();
    expect.assert_eq(objects.map_or("", |at| text[at..].trim_start()));
}
