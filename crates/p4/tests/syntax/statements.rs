//! Tests statements.

use super::check_stmts;
use expect_test::expect;

#[test]
fn assignments() {
    check_stmts(
        "x = 1; h.f = x; x[3:0] = 2; (x) = 3; h.s[1].f[i+:2] = 4;",
        expect![[r#"
        (apply
            (block (= x 1) (= (. h f) x) (= ([:] x 3 0) 2) (= x 3) (= ([+:] (. ([] (. h s) 1) f) i 2) 4)))
    "#]],
    );
}

#[test]
fn op_assignments() {
    check_stmts(
        "x += 1; x -= 1; x *= 1; x /= 1; x %= 1; x |+|= 1; x |-|= 1; x &= 1; x |= 1; x ^= 1; x <<= 1; x >>= 1;",
        expect![[r#"
            (apply
                (block
                  (+= x 1)
                  (-= x 1)
                  (*= x 1)
                  (/= x 1)
                  (%= x 1)
                  (|+|= x 1)
                  (|-|= x 1)
                  (&= x 1)
                  (|= x 1)
                  (^= x 1)
                  (<<= x 1)
                  (>>= x 1)))
        "#]],
    );
}

#[test]
fn calls() {
    check_stmts(
        "f(); h.setValid(); p.extract<H>(h); f<bit<8>, _>(a = x); t.apply(); this.f();",
        expect![[r#"
        (apply
            (block
              (call f)
              (call (. h setValid))
              (call (. p extract) (types H) h)
              (call f (types bit<8> _) (= a x))
              (call (. t apply))
              (call (. this f))))
    "#]],
    );
}

#[test]
fn direct_application() {
    check_stmts(
        "C.apply(h, x); E.a(1);",
        expect![[r#"
        (apply (block (apply C h x) (call (. (type E) a) 1)))
    "#]],
    );
}

#[test]
fn declarations() {
    check_stmts(
        "bit<8> a; H b = { 1 }; const bit<8> c = 2; H[4] d; tuple<bit<8>> e; H() f; bit<8> g[2]; @x bit<8> i;",
        expect![[r#"
            (apply
                (block
                  (var a bit<8>)
                  (var b H (list 1))
                  (const c bit<8> 2)
                  (var d (stack H 4))
                  (var e (tuple bit<8>))
                  (instance f H)
                  (var g (stack bit<8> 2))
                  (var i (@x) bit<8>)))
        "#]],
    );
}

#[test]
fn conditions() {
    check_stmts(
        "if (x == 1) x = 2; else if (x == 3) { x = 4; } else ; if (h.isValid() && !b) { }",
        expect![[r#"
        (apply
            (block
              (if (== x 1) (= x 2) (else (if (== x 3) (block (= x 4)) (else (empty)))))
              (if (&& (call (. h isValid)) (! b)) (block))))
    "#]],
    );
}

#[test]
fn dangling_else_belongs_to_the_inner_if() {
    check_stmts(
        "if (a) if (b) x = 1; else x = 2;",
        expect![[r#"
        (apply (block (if a (if b (= x 1) (else (= x 2))))))
    "#]],
    );
}

#[test]
fn switches() {
    check_stmts(
        "switch (t.apply().action_run) { a: { x = 1; } b: c: @x { x = 2; } default: { } } switch (x) { 1: 2: { } (3): { } E.a: { } -1: {} }",
        expect![[r#"
            (apply
                (block
                  (switch
                    (. (call (. t apply)) action_run)
                    (case a (block (= x 1)))
                    (case b)
                    (case c (block (@x) (= x 2)))
                    (case default (block)))
                  (switch x
                    (case 1)
                    (case 2 (block))
                    (case 3 (block))
                    (case (. (type E) a) (block))
                    (case (neg 1) (block)))))
        "#]],
    );
}

#[test]
fn loops() {
    check_stmts(
        "for (bit<8> i = 0; i < 8; i += 1) { break; } for (i = 0, bit<8> j = 1; true; ) continue; @unroll for (; b; i = i + 1, j -= 1, f()) { }
         for (bit<8> i in 0 .. 7) x = i; for (@a H e in hs) { } for (bit<8> k in l.m) { }",
        expect![[r#"
            (apply
                (block
                  (for (init (var i bit<8> 0)) (< i 8) (update (+= i 1)) (block (break)))
                  (for (init (= i 0) (var j bit<8> 1)) true (continue))
                  (for (@unroll) b (update (= i (+ i 1)) (-= j 1) (call f)) (block))
                  (for-in bit<8> i (.. 0 7) (= x i))
                  (for-in H e (@a) hs (block))
                  (for-in bit<8> k (. l m) (block))))
        "#]],
    );
}

#[test]
fn returns_and_blocks() {
    check_stmts(
        "return; return x + 1; exit; ; { { } } @a { x = 1; }",
        expect![[r#"
        (apply (block (return) (return (+ x 1)) (exit) (empty) (block (block)) (block (@a) (= x 1))))
    "#]],
    );
}

#[test]
fn statements_out_of_place() {
    check_stmts(
        "transition accept;\ntable t { }\naction a() { }\nx = 1;",
        expect![[r#"
        (apply (block (= x 1)))
        main.p4:2:1: error[syntax]: a transition is not allowed here; help: it belongs at the end of a parser state
        main.p4:3:1: error[syntax]: a table is not allowed here; help: declare it in the control, before `apply`
        main.p4:4:1: error[syntax]: an action is not allowed here; help: declare it in the control, before `apply`
    "#]],
    );
}

#[test]
fn expressions_are_no_statements() {
    check_stmts(
        "x;\nx == 1;\n5;\nf().g();\nf() = 3;\nx = 2;",
        expect![[r#"
        (apply (block (= x 2)))
        main.p4:2:2: error[syntax]: expected `=` or a call, found `;`
        main.p4:3:3: error[syntax]: expected `=` or a call, found `==`; help: `==` compares; `=` assigns
        main.p4:4:2: error[syntax]: expected `=` or a call, found `;`
        main.p4:5:1: error[syntax]: the result of a call cannot be called on as a statement; help: assign the first call's result to a variable
        main.p4:6:1: error[syntax]: this cannot be assigned to; help: the left side is a variable, field, element or slice
    "#]],
    );
}

#[test]
fn unknown_types_in_statements() {
    check_stmts(
        "Foo a;\nFoo<bit<8>> b;\nFoo(1) c;\nx = 1;",
        expect![[r#"
            (apply (block (var a Foo) (= x 1)))
            main.p4:2:1: error[unknown-type]: unknown type `Foo`; help: declare `Foo` before it is used, or include the file that declares it
            main.p4:3:1: error[unknown-type]: unknown type `Foo`; help: declare `Foo` before it is used, or include the file that declares it
            main.p4:4:1: error[unknown-type]: unknown type `Foo`; help: declare `Foo` before it is used, or include the file that declares it
        "#]],
    );
}

#[test]
fn annotation_without_declaration() {
    check_stmts(
        "@a x = 1;\nx = 2;",
        expect![[r#"
        (apply (block (= x 2)))
        main.p4:2:4: error[syntax]: annotations belong to a declaration, a block or a `for` loop; none follows
    "#]],
    );
}

#[test]
fn for_in_without_type() {
    check_stmts(
        "for (i in 0 .. 3) { }\nx = 2;",
        expect![[r#"
        (apply (block (= x 2)))
        main.p4:2:8: error[syntax]: the type of `i` is missing; help: write `for (bit<8> i in ...)`
    "#]],
    );
}

#[test]
fn loop_without_condition() {
    check_stmts(
        "for (;;) { }\nx = 2;",
        expect![[r#"
            (apply (block (= x 2)))
            main.p4:2:7: error[syntax]: the loop's condition is missing; help: write `true` if `break` ends the loop
            main.p4:2:8: error[syntax]: expected an expression, found `)`
        "#]],
    );
}

#[test]
fn forgotten_semicolons() {
    check_stmts(
        "bit<8> y = 1\nx = y\nf()\nif (x == 1) { return }\nx = 2",
        expect![[r#"
            (apply (block (var y bit<8> 1) (= x y) (call f) (if (== x 1) (block (return))) (= x 2)))
            main.p4:3:1: error[syntax]: expected `;`, found `x`
            main.p4:4:1: error[syntax]: expected `;`, found `f`
            main.p4:5:1: error[syntax]: expected `;`, found `if`
            main.p4:5:22: error[syntax]: expected `;`, found `}`
            main.p4:7:1: error[syntax]: expected `;`, found `}`
        "#]],
    );
}
