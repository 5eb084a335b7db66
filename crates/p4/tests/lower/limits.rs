//! What is refused: other architectures, unknown externs, programs that explode.

use super::{check_errors, v1model};
use expect_test::expect;
use std::fmt::Write;

#[test]
fn other_architectures() {
    let source = "#include <core.p4>
        control c(inout bit<8> x); package Other(c the);
        control mine(inout bit<8> x) { apply {} }
        Other(mine()) main;";
    check_errors(
        source,
        expect![[r#"
        not-supported at `Other(mine()) main`: not supported yet: architecture `Other`
    "#]],
    );
}

#[test]
fn unknown_externs() {
    let top = "extern widget { widget(); void turn(); } extern bit<8> magic();";
    check_errors(
        &v1model(top, "widget() w; apply { w.turn(); }"),
        expect![[r#"
        not-supported at `widget() w`: not supported yet: extern `widget` in this architecture
    "#]],
    );
    check_errors(
        &v1model(top, "apply { meta.a = magic(); }"),
        expect![[r#"
        not-supported at `magic()`: not supported yet: extern `magic` in this architecture
    "#]],
    );
}

/// Each function calls the one before twice: 2^40 copies, were it not for the limit.
#[test]
fn exponential_inlining_ends() {
    let mut top = String::from("bit<8> f0(in bit<8> x) { return x + 1; }\n");
    for n in 1..=40 {
        writeln!(top, "bit<8> f{n}(in bit<8> x) {{ return f{}(f{}(x)); }}", n - 1, n - 1).expect("a string takes all");
    }
    check_errors(
        &v1model(&top, "apply { meta.a = f40(meta.b); }"),
        expect![[r#"
        limit at `f18(f18(x))`: the program is too large once all calls are inlined
    "#]],
    );
}

#[test]
fn deep_calls_end() {
    let mut top = String::from("void f0(inout bit<8> x) { x = x + 1; }\n");
    for n in 1..=500 {
        writeln!(top, "void f{n}(inout bit<8> x) {{ f{}(x); }}", n - 1).expect("a string takes all");
    }
    check_errors(
        &v1model(&top, "apply { f500(meta.b); }"),
        expect![[r#"
        limit at `f436(x)`: calls nest more than 64 deep
    "#]],
    );
}

#[test]
fn too_much_storage() {
    check_errors(
        &v1model("", "apply { tag_t[1000000] many; many.push_front(1); }"),
        expect![[r#"
        stack-size at `1000000`: a stack of 1000000 elements is not supported
    "#]],
    );
}
