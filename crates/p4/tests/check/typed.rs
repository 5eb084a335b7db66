//! Tests the typed program, which records the checker's decisions.

use super::{typed, typed_stmts};
use expect_test::expect;

#[test]
fn implicit_casts_are_written_out() {
    typed_stmts(
        "s.x = 5;\ns.x = s.k;\nint<16> i = -3;\nbool b = s.k == 2;\ns.x = n + s.k;\ns.h = { 1, 2 };\ns.h = { g = 1, ... };\ns.h = {#};",
        expect![[r#"
                apply {
                    s.x = 8w5;
                    s.x = (bit<8>)s.k;
                    int<16> i = 16s-3;
                    bool b = ((bit<8>)s.k == 8w2);
                    s.x = (n + (bit<8>)s.k);
                    s.h = (H){8w1, 16w2};
                    s.h = (H){8w0, 16w1};
                    s.h = (H){#};
                }
        "#]],
    );
}

#[test]
fn constants_are_folded() {
    typed_stmts(
        "s.x = 2 + 3 * 4;\nconst bit<8> c = 255;\ns.x = c |+| 1;\ns.x = c >> 1;\ns.h.g = 8w1 ++ 8w2;\ns.x = (16w0x1234)[15:8];\nbool b = Kind.one == Kind.two || !true;\n\
         s.x = 10 / 3 + 10 % 3;\nint<8> i = -128 |-| 8s1;\ns.x = true ? 1 : n;\ns.x = (bit<8>)(int<8>)-1;\nconst tuple<bit<8>, bool> t = { 7, false };\ns.x = t[0];\ns.h.g = H.minSizeInBits();",
        expect![[r#"
                apply {
                    s.x = 8w14;
                    s.x = 8w255;
                    s.x = 8w127;
                    s.h.g = 16w258;
                    s.x = 8w18;
                    bool b = false;
                    s.x = 8w4;
                    int<8> i = 8s-128;
                    s.x = 8w1;
                    s.x = 8w255;
                    s.x = 8w7;
                    s.h.g = 16w24;
                }
        "#]],
    );
}

#[test]
fn inferred_and_default_arguments() {
    typed_stmts(
        "take(8w1);\ntake({ n, true });\ns.x = give();\ns.x = next(n = 4);\ns.h.setValid();\nif (s.h.isValid() && s.u.isValid()) { s.stack.push_front(1); }",
        expect![[r#"
                apply {
                    take<bit<8>>(8w1);
                    take<tuple<bit<8>, bool>>((tuple<bit<8>, bool>){n, true});
                    s.x = give<bit<8>>();
                    s.x = next(8w4);
                    s.h.setValid();
                    if ((s.h.isValid() && s.u.isValid())) {
                        s.stack.push_front(1);
                    }
                }
        "#]],
    );
}

#[test]
fn slices_and_shifts() {
    typed_stmts(
        "s.x[3:0] = n[7:4];\ns.x = n << 3;\ns.x = n >> s.y;\ns.x[4+:2] = 1;\ns.x = (bit<8>)n[s.y+:3];\ns.x += 1;",
        expect![[r#"
                apply {
                    s.x[3:0] = n[7:4];
                    s.x = (n << 32w3);
                    s.x = (n >> s.y);
                    s.x[5:4] = 2w1;
                    s.x = (bit<8>)n[s.y+:3];
                    s.x += 8w1;
                }
        "#]],
    );
}

#[test]
fn switches_and_loops() {
    typed_stmts(
        "switch (n) { 1: 2: { s.x = 1; } default: { s.x = 2; } }\nfor (bit<8> i in 1 .. n) { if (i == 3) break; else { continue; } }\nfor (bit<8> i = 0, s.y = 1; i < 4; i = i + 1) s.x = i;",
        expect![[r#"
                apply {
                    switch (n) {
                        8w1, 8w2: {
                            s.x = 8w1;
                        }
                        default: {
                            s.x = 8w2;
                        }
                    }
                    for (bit<8> i in 8w1 .. n) {
                        if ((i == 8w3)) {
                            break;
                        }
                        else {
                            continue;
                        }
                    }
                    for (bit<8> i = 8w0, s.y = 8w1; (i < 8w4); i = (i + 8w1)) {
                        s.x = i;
                    }
                }
        "#]],
    );
}

#[test]
fn a_control_with_tables() {
    typed(
        "#include \"prelude.p4\"\ncontrol C(inout S s, in bit<8> n)(bit<8> k) {\naction a(inout bit<8> x, bit<8> v) { x = v; }\n\
         table t { key = { n: exact; s.y: ternary @name(\"y\"); } actions = { a(s.x); NoAction; } const default_action = a(s.x, 3); size = 100 * k;\n\
         const entries = { (1, _): a(s.x, 2); (2, 1 &&& 3): NoAction; } }\ntable u { actions = { } }\n\
         apply { if (t.apply().hit) { switch (u.apply().action_run) { NoAction: { a(s.y, n); } } } } }",
        expect![[r#"
            control C(inout S s, in bit<8> n)(bit<8> k) {
                action a(inout bit<8> x, bit<8> v) {
                    x = v;
                }
                table t {
                    key n: exact;
                    key s.y: ternary;
                    action a(s.x);
                    action NoAction();
                    const default_action a(8w3);
                    const entry (8w1, _): a(8w2);
                    const entry (8w2, 8w1 &&& 8w3): NoAction();
                    size (8w100 * k);
                }
                table u {
                    action NoAction();
                    default_action NoAction();
                }
                apply {
                    if (t.apply().hit) {
                        switch (u.apply().action_run) {
                            NoAction: {
                                a(s.y, n);
                            }
                        }
                    }
                }
            }
        "#]],
    );
}

#[test]
fn a_parser() {
    typed(
        "#include <core.p4>\nheader H { bit<8> f; }\nstruct S { H a; H[2] b; }\nparser Sub(packet_in p, out H h) { state start { p.extract(h); transition accept; } }\n\
         parser P(packet_in p, out S s)(bool deep) { Sub() sub; value_set<tuple<bit<8>, bit<8>>>(4) vs;\n\
         state start { p.extract(s.b.next); sub.apply(p, s.a); verify(s.b.last.f != 0, error.NoMatch); transition select(s.a.f, p.lookahead<bit<8>>()) {\n\
         (1, _): start; (2 &&& 6, 3 .. 5): other; vs: accept; default: reject; } }\nstate other { } }",
        expect![[r#"
            parser Sub(packet_in p, out H h) {
                state start {
                    p.extract<H>(h);
                    transition accept;
                }
            }
            parser P(packet_in p, out S s)(bool deep) {
                Sub() sub;
                value_set<tuple<bit<8>, bit<8>>>(4) vs;
                state start {
                    p.extract<H>(s.b.next);
                    sub.apply(p, s.a);
                    verify((s.b.last.f != 8w0), error.NoMatch);
                    transition select (s.a.f, p.lookahead<bit<8>>()) {
                        (8w1, _): start;
                        (8w2 &&& 8w6, 8w3 .. 8w5): other;
                        (vs): accept;
                        (_): reject;
                    }
                }
                state other {
                    transition reject;
                }
            }
        "#]],
    );
}

#[test]
fn packages_infer_their_types() {
    let program = super::accept(
        "control Ct<H, M>(inout H h, in M m);\npackage Pkg<H, M>(Ct<H, M> c);\nheader H { }\ncontrol C(inout H h, in bit<8> m) { apply { } }\nPkg(C()) main;",
    );
    let text = p4::hir::dump(&program);
    expect!["Pkg<H, bit<8>>(C()) main;"].assert_eq(text.lines().last().unwrap_or_default());
    assert!(program.main.is_some());
}

#[test]
fn generic_parsers_and_controls() {
    let program = super::accept(
        "control Ct(inout bit<8> x);\npackage Pkg(Ct a, Ct b);\ncontrol C<T>(inout T x) { apply { T y = x; x = y; } }\nPkg(C(), C<bit<8>>()) main;",
    );
    expect!["Pkg(C<bit<8>>(), C<bit<8>>()) main;"]
        .assert_eq(p4::hir::dump(&program).lines().last().unwrap_or_default());
}

#[test]
fn abstract_methods() {
    typed(
        "extern A<T> { A(); abstract T f(in T x); T g(); }\ncontrol C(inout bit<8> x) { A<bit<8>>() a = { bit<8> f(in bit<8> y) { return y + this.g(); } }; apply { x = a.f(x); } }",
        expect![[r#"
            control C(inout bit<8> x) {
                A<bit<8>>() a = {
                    bit<8> f(in bit<8> y);
                }
                apply {
                    x = a.f(x);
                }
            }
        "#]],
    );
}
