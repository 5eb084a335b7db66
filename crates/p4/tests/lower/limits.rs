//! Tests refused programs: other architectures, unknown externs, exponential expansion.

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
        unsupported-architecture at `Other(mine()) main`: not supported: the architecture of `Other`
    "#]],
    );
}

#[test]
fn unknown_externs() {
    let top = "extern widget { widget(); void turn(); } extern bit<8> magic();";
    check_errors(
        &v1model(top, "widget() w; apply { w.turn(); }"),
        expect![[r#"
        extern-without-implementation at `widget() w`: not supported: extern `widget`, which v1model does not define
    "#]],
    );
    check_errors(
        &v1model(top, "apply { meta.a = magic(); }"),
        expect![[r#"
        extern-without-implementation at `magic()`: not supported: extern `magic`, which v1model does not define
    "#]],
    );
}

/// Each function calls the one before twice. Without the limit this makes 2^40 copies.
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

/// Each struct holds the one before twice: 2^60 variables.
#[test]
fn exponential_types_end() {
    let mut top = String::from("struct s0 { bit<8> x; }\n");
    for n in 1..=60 {
        writeln!(top, "struct s{n} {{ s{} a; s{} b; }}", n - 1, n - 1).expect("a string takes all");
    }
    check_errors(
        &v1model(&top, "apply { s60 x; }"),
        expect![[r#"
        too-large at `s16`: a value of this type consists of more than 131072 parts, which is the limit
        too-large at `s33`: a value of this type consists of more than 131072 parts, which is the limit
        too-large at `s50`: a value of this type consists of more than 131072 parts, which is the limit
    "#]],
    );
}

#[test]
fn deep_types_end() {
    let mut top = String::from("struct s0 { bit<8> x; }\n");
    for n in 1..=5000 {
        writeln!(top, "struct s{n} {{ s{} a; }}", n - 1).expect("a string takes all");
    }
    check_errors(
        &v1model(&top, "apply { s5000 x; s5000 y = x; }"),
        expect![[r#"
        too-large at `s127`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s255`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s383`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s511`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s639`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s767`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s895`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1023`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1151`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1279`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1407`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1535`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1663`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1791`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s1919`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2047`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2175`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2303`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2431`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2559`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2687`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2815`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s2943`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3071`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3199`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3327`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3455`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3583`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3711`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3839`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s3967`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4095`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4223`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4351`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4479`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4607`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4735`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4863`: types are nested more than 128 levels deep here, which is the limit
        too-large at `s4991`: types are nested more than 128 levels deep here, which is the limit
    "#]],
    );
}

/// Nested blocks in functions that call each other. Each is within its own limit; the sum is not.
#[test]
fn deep_nesting_over_calls_ends() {
    let mut top = String::from("void f0(inout bit<8> x) { x = x + 1; }\n");
    for n in 1..=40 {
        let (open, close) = ("if (x != 3) {".repeat(60), "}".repeat(60));
        writeln!(top, "void f{n}(inout bit<8> x) {{ {open} f{}(x); {close} }}", n - 1).expect("a string takes all");
    }
    check_errors(
        &v1model(&top, "apply { f40(meta.b); }"),
        expect![[r#"
        limit at `x != 3`: calls, statements and expressions nest too deep once all calls are inlined
    "#]],
    );
}

#[test]
fn names_are_taken_once() {
    let top = "control sub(inout meta_t meta) {
            @name(\".t\") table t { key = { meta.a: exact; } actions = { NoAction; } }
            apply { t.apply(); }
        }";
    check_errors(
        &v1model(top, "sub() one; sub() two; apply { one.apply(meta); two.apply(meta); }"),
        expect![[r#"
        control-plane-name at `t`: table `t` has an absolute name, and its control has several instances
    "#]],
    );
}

#[test]
fn swapped_range() {
    let ingress = "table t { key = { meta.a: range; } actions = { NoAction; } const entries = { 9..5: NoAction(); } }
        apply { t.apply(); }";
    check_errors(
        &v1model("", ingress),
        expect![[r#"
        empty-range at `9..5`: this range is empty: its ends are swapped
    "#]],
    );
}
