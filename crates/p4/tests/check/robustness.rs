//! Hostile programs cause a diagnostic, never a panic or an endless loop.

use p4::check::check;
use p4::parse::parse_program;
use p4::preprocess::{MemoryLoader, PreprocessOptions};
use proptest::prelude::*;
use std::path::Path;

/// Checks the parsed text, with or without errors.
fn survive(text: &str) {
    let loader = MemoryLoader::new().with("main.p4", text).with("prelude.p4", super::PRELUDE);
    let parsed = parse_program(&loader, Path::new("main.p4"), &PreprocessOptions::default());
    let (program, diagnostics) = check(&parsed.program, &parsed.source_map);
    for diagnostic in &diagnostics {
        diagnostic.render(&parsed.source_map, false);
    }
    p4::hir::dump(&program);
    if !parsed.has_errors() && !diagnostics.iter().any(p4::diag::Diagnostic::is_error) {
        assert_eq!(p4::hir::verify(&program), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn deep_nesting() {
    for (open, close) in [("(", ")"), ("-(", ")"), ("{", "}"), ("(bit<8>)(", ")"), ("f(", ")")] {
        let text = format!("const bit<8> x = {}1{};", open.repeat(2000), close.repeat(2000));
        survive(&text);
    }
    survive(&format!("control C() {{ apply {{ {}{} }} }}", "if (true) {".repeat(2000), "}".repeat(2000)));
    survive(&format!("typedef {}bit<8>{} t;", "tuple<".repeat(2000), ">".repeat(2000)));
}

#[test]
fn large_numbers() {
    survive("const int x = 1 << 65000 << 65000 << 65000;");
    survive("const int x = 1 << 4294967296;");
    survive("const bit<65535> x = (65535w1 << 65534) * 3;");
    survive("const bit<8> x = 8w1 << 99999999999999999999;");
    survive("header H { } struct S { H[99999999999] h; bit<99999999999> b; }");
    survive("const int x = 999999999999999999999999999999999999999999 * 99999999999999999999999999 / 3;");
    survive(
        "header H { bit<8> f; } struct S { H[65536] h; } control C(inout S s) { apply { s.h.push_front(99999999999); S t = { ... }; t = s; } }",
    );
}

#[test]
fn types_within_themselves() {
    survive("struct S { S s; }");
    survive("struct S<T> { S<T> s; T t; }");
    survive("header_union U { U u; } typedef t t; type t t;");
    survive("struct A<T> { T t; } struct B<T> { A<A<A<T>>> t; } typedef B<B<bit<8>>> b;");
    survive("extern E<T> { E(); E<E<T>> f(); } control C() { E<bit<8>>() e; apply { e.f().f(); } }");
}

/// Program fragments, some of them wrong, for random combination.
const PARTS: &[&str] = &[
    "s.x",
    "n",
    "s",
    "s.h",
    "s.stack",
    "s.u",
    "s.k",
    "s.c",
    "Colour.red",
    "Kind.one",
    "1",
    "8w1",
    "16s3",
    "true",
    "{1, 2}",
    "{f = 1, ...}",
    "{#}",
    "...",
    "next(n)",
    "give()",
    "s.h.isValid()",
    "s.stack[n]",
    "n[3:0]",
    "n[s.y+:2]",
    "(bit<8>)k",
    "(Kind)2",
    "error.Odd",
    "\"text\"",
    "_",
    "Box<bit<8>>(1)",
    "take",
    "NoAction",
    "S",
    "t",
    "t.apply().hit",
    "b.get(n)",
];

/// Operators between the fragments.
const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "++", "<<", ">>", "==", "!=", "<", "&&", "||", "&", "|+|", "&&&", "..", "? n :"];

proptest! {
    #[test]
    fn random_expressions(parts in prop::collection::vec((0..PARTS.len(), 0..OPERATORS.len()), 1..5), form in 0..8) {
        let mut expr = String::new();
        for (part, operator) in &parts {
            expr = match expr.is_empty() {
                true => PARTS[*part].to_owned(),
                false => format!("({expr}) {} {}", OPERATORS[*operator], PARTS[*part]),
            };
        }
        let stmt = match form {
            0 => format!("s.x = {expr};"),
            1 => format!("if ({expr}) {{ }}"),
            2 => format!("take({expr});"),
            3 => format!("switch ({expr}) {{ {expr}: {{ }} default: {{ }} }}"),
            4 => format!("S v = {expr};"),
            5 => format!("{expr} += {expr};"),
            6 => format!("for (bit<8> i in {expr}) {{ }}"),
            _ => format!("const bit<8> c = {expr}; s.x = c;"),
        };
        let table = format!("table t {{ key = {{ {expr}: exact; }} actions = {{ NoAction; }} entries = {{ {expr}: NoAction; }} size = {expr}; }}");
        survive(&format!(
            "#include \"prelude.p4\"\ncontrol C(inout S s, in bit<8> n)(bit<8> k) {{ Box<bit<8>>(1) b; {table} apply {{ {stmt} }} }}\n\
             parser P(inout S s, in bit<8> n)(bit<8> k) {{ state start {{ {stmt} transition select({expr}) {{ {expr}: accept; _: reject; }} }} }}"
        ));
    }
}

#[test]
fn a_refused_argument_of_a_default_action() {
    survive(
        "action a(inout bit<8> x, bit<8> y) { }\ncontrol C(inout bit<8> z) { table t { actions = { a(z); } default_action = a(q, 1); } apply { } }",
    );
}

/// Builds a program of `n` lines, each made of its number and the one before it.
fn chain(first: &str, n: usize, line: impl Fn(usize, usize) -> String) -> String {
    (1..=n).fold(format!("{first}\n"), |text, at| text + &line(at, at - 1) + "\n")
}

#[test]
fn types_that_double() {
    survive(&chain("struct S0 { bit<8> a; }", 100, |n, m| format!("struct S{n} {{ S{m} a; S{m} b; }}")));
    survive(&chain("typedef bit<8> t0;", 100, |n, m| format!("typedef tuple<t{m}, t{m}> t{n};")));
    survive(&chain("struct S0<T> { T a; }", 100, |n, m| {
        format!("struct S{n}<T> {{ S{m}<T> a; S{m}<T> b; }} S{n}<bit<8>> x;")
    }));
    survive(&chain("struct S0<T, U> { }", 100, |n, m| {
        format!("struct S{n}<T, U> {{ }} typedef S{m}<t{m}, t{m}> t{n};").replace("<t0, t0>", "<bool, bool>")
    }));
    survive(&chain("header S0 { bit<8> a; }", 100, |n, m| format!("header S{n} {{ S{m}[9] a; }}")));
}

#[test]
fn types_that_are_deep() {
    survive(&chain("struct S0 { bit<8> a; }", 5000, |n, m| format!("struct S{n} {{ S{m} a; }}")));
    survive(&chain("typedef bit<8> t0;", 5000, |n, m| format!("type t{m} t{n}; const t{n} c{n} = 1;")));
    survive(&chain("struct S0<T> { T a; }", 5000, |n, m| format!("struct S{n}<T> {{ S{m}<T> a; }}")));
}

#[test]
fn constants_that_double() {
    survive(&chain("const int c0 = 3;", 100, |n, m| format!("const int c{n} = c{m} * c{m};")));
    survive(&chain("const string c0 = \"ab\";", 100, |n, m| format!("const string c{n} = c{m} ++ c{m};")));
    survive(&chain("const list<bit<8>> c0 = { 1, 2 };", 100, |n, m| {
        format!("const list<list<bit<8>>> c{n} = {{ c{m}, c{m} }};")
    }));
    let body = chain("", 100, |n, _| {
        format!("const bit<8> c{n} = {};", if n == 1 { "k".to_owned() } else { format!("c{} + c{}", n - 1, n - 1) })
    });
    survive(&format!("control C()(bit<8> k) {{ {body} apply {{ }} }}"));
}

#[test]
fn long_chains_of_operators() {
    for operator in ["+", "++", "&&", "?1:"] {
        survive(&format!("const bit<8> x = {}8w1;", format!("8w1 {operator} ").repeat(100_000)));
    }
    survive(&format!("const bit<8> x = s{};", ".a".repeat(100_000)));
    survive(&format!("const bit<8> x = s{};", "[1]".repeat(100_000)));
}

#[test]
fn very_many_mistakes() {
    let loader =
        MemoryLoader::new().with("main.p4", format!("control C() {{ apply {{ {} }} }}", "x = 1;\n".repeat(20_000)));
    let parsed = parse_program(&loader, Path::new("main.p4"), &PreprocessOptions::default());
    let (_, diagnostics) = check(&parsed.program, &parsed.source_map);
    assert!((1..=1000).contains(&diagnostics.len()), "{}", diagnostics.len());
}
