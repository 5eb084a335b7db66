//! Hostile input: deep nesting, random tokens, programs truncated anywhere. Nothing panics,
//! overflows the stack or hangs.

use super::parse;
use p4::parse::ParsedProgram;
use proptest::prelude::*;

/// Parses, then traverses the tree in all supported ways.
fn exercise(text: &str) -> ParsedProgram {
    let parsed = parse(text);
    let _ = p4::ast::dump(&parsed.program);
    let _ = parsed.program.clone() == parsed.program;
    for diagnostic in &parsed.diagnostics {
        let _ = diagnostic.render(&parsed.source_map, false);
        let _ = diagnostic.to_json(&parsed.source_map);
    }
    parsed
}

/// Repeats `open` `count` times, in a context where it nests.
fn nested(prefix: &str, open: &str, count: usize) -> String {
    format!("{prefix}{}", open.repeat(count))
}

#[test]
fn deep_nesting_is_refused() {
    let deep = 100_000;
    for (prefix, open) in [
        ("const bit<8> x = ", "("),
        ("const bit<8> x = ", "-"),
        ("const bit<8> x = ", "{"),
        ("const bit<8> x = ", "a["),
        ("const bit<8> x = ", "f("),
        ("const bit<8> x = ", "(bit<8>)"),
        ("const bit<8> x = ", "a ? "),
        ("const bit<8> x = ", "a ? b : "),
        ("const bit<8> x = ", "1 + "),
        ("const bit<8> x = 1", "+ 1"),
        ("const bit<8> x = a", ".b"),
        ("const bit<8> x = a", "[1]"),
        ("const bit<8> x = a", "(1)"),
        ("const ", "tuple<"),
        ("const ", "bit<("),
        ("const ", "bit<(bit<8>)(bit<("),
        ("const bit<8>", "[1]"),
        ("control C() { apply {", "{"),
        ("control C() { apply {", "if (a) "),
        ("control C() { apply { if (a) ;", "else if (a) ;"),
        ("control C() { apply {", "for (;;) "),
        ("control C() { apply {", "switch (a) { b: {"),
        ("@x", "(@x"),
        ("", "@x["),
        ("extern E {} ", "E() e = {"),
    ] {
        let parsed = exercise(&nested(prefix, open, deep));
        assert!(parsed.has_errors(), "{prefix}{open}...");
        assert!(parsed.diagnostics.len() <= 200, "{prefix}{open}...: {}", parsed.diagnostics.len());
    }
}

#[test]
fn moderate_nesting_is_accepted() {
    let text = format!("const bit<8> x = {}1{};", "(".repeat(100), ")".repeat(100));
    assert!(exercise(&text).diagnostics.is_empty());
    let text = format!("const bit<8> x = 1{};", " + 1".repeat(200));
    assert!(exercise(&text).diagnostics.is_empty());
}

#[test]
fn macros_of_hostile_shape() {
    let chain: String = (1..2000).map(|n| format!("#define M{n} M{}\n", n - 1)).collect();
    assert!(exercise(&format!("{chain}M1999")).has_errors());
    let calls = format!("#define F(x) x\n{}1{};", "F(".repeat(5000), ")".repeat(5000));
    assert!(exercise(&calls).has_errors());
    assert!(exercise(&"#if 1\n".repeat(5000)).has_errors());
    assert!(exercise(&format!("#if {}1\n#endif", "(".repeat(5000))).has_errors());
    // Conditional expressions nest without limit, because nothing recurses by them.
    assert!(!exercise(&format!("#if {}1\n#endif", "1 ? 1 : ".repeat(5000))).has_errors());
    let nested = format!("#if {}1{}\n#endif", "(".repeat(100_000), ")".repeat(100_000));
    assert!(!exercise(&nested).has_errors());
    assert!(!exercise(&format!("#if {}1\n#endif", "!".repeat(100_000))).has_errors());
}

const PROGRAM: &str = r#"
#define W 8
#define ADD(a, b) ((a) + (b))
header H { bit<W> f; varbit<32> v; }
struct S<T> { T t; H[4] hs; }
enum bit<8> E { a = 1, b = ADD(1, 2) }
error { Bad }
extern packet_in { void extract<T>(out T t); T lookahead<T>(); }
extern R<T> { R(bit<32> n); abstract T f(in T t); }
parser P(packet_in p, out H h)(bit<8> n) {
    value_set<bit<8>>(4) vs;
    state start { p.extract(h); transition select(h.f, p.lookahead<bit<8>>()) { (1, _): next; (2 &&& 3, 4 .. 5): accept; vs: next; default: reject; } }
    state next { if (n == 1) { h.f = 1; } transition accept; }
}
control C(inout H h, inout S<bit<8>> s) {
    R<bit<8>>(4) r = { bit<8> f(in bit<8> t) { return t >> 1; } };
    @name("x") action a(bit<8> x) { h.f = x |+| 1; s.hs[0].f[3:0] += 2; }
    table t { key = { h.f: exact @name("k"); } actions = { a; @defaultonly NoAction; } const entries = { 1: a(2); } size = 4; default_action = a(1); }
    apply {
        switch (t.apply().action_run) { a: { exit; } default: { } }
        for (bit<8> i in 0 .. 3) { h.f = (bit<8>) i ++ 4w1 < E.a ? (bit<8>) 1 : -2; }
        C.apply(h, s);
    }
}
"#;

#[test]
fn the_program_is_right() {
    let parsed = exercise(PROGRAM);
    assert_eq!(parsed.diagnostics, []);
}

#[test]
fn programs_cut_anywhere() {
    for end in 0..PROGRAM.len() {
        exercise(&PROGRAM[..end]);
        exercise(&PROGRAM[end..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn programs_with_tokens_moved(edits in prop::collection::vec((0usize..400, 0usize..400, 0u8..3), 1..6)) {
        let mut words: Vec<String> = parse(PROGRAM).tokens.iter().map(|t| t.text.to_string()).collect();
        for (from, to, what) in edits {
            let (from, to) = (from % words.len(), to % words.len());
            match what {
                0 => { words.remove(from); }
                1 => { let word = words[from].clone(); words.insert(to, word); }
                _ => words.swap(from, to),
            }
        }
        exercise(&words.join(" "));
        exercise(&words.join("\n"));
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        exercise(&text);
    }

    #[test]
    fn directive_soup(words in prop::collection::vec(prop::sample::select(vec![
        "#define", "#undef", "#if", "#ifdef", "#else", "#elif", "#endif", "#include", "#line", "#error", "\n", "\n", "\\\n",
        "A", "B", "F", "(", ")", ",", "##", "#", "x", "1", "0", "\"s\"", "\"", "/*", "*/", "//", "<", ">", "defined", "...",
        "__VA_ARGS__", "__LINE__", "&&", "?", ":", "/", "-", "F(x)", "F(A,", "#define F(x) x ## A #x\n", "#define A B F\n",
    ]), 0..60)) {
        exercise(&words.join(" "));
    }
}
