//! Tests uses of types, and which names are types.

use super::check;
use expect_test::expect;

#[test]
fn base_types() {
    check(
        "struct S { bit a; bit<8> b; int<16> c; varbit<32> d; bool e; error f; int g; string h; bit<(W + 1)> i; int<(4)> j; bit<W> k; }",
        expect![[r#"
            (struct S
              (bit a)
              (bit<8> b)
              (int<16> c)
              (varbit<32> d)
              (bool e)
              (error f)
              (int g)
              (string h)
              ((bit (+ W 1)) i)
              (int<4> j)
              (bit<W> k))
        "#]],
    );
}

#[test]
fn compound_types() {
    check(
        "header H { bit<8> f; } extern R<T> { R(); } struct S { H[4] a; H b[2][3]; tuple<bit<8>, H> c; list<tuple<H, H>> d; R<bit<8>> e; R<R<bit<8>>> f; tuple<> g; }",
        expect![[r#"
            (header H (bit<8> f))
            (extern R (types T) (constructor R (params)))
            (struct S
              ((stack H 4) a)
              ((stack (stack H 2) 3) b)
              ((tuple bit<8> H) c)
              ((list (tuple H H)) d)
              ((<> R bit<8>) e)
              ((<> R (<> R bit<8>)) f)
              ((tuple) g))
        "#]],
    );
}

#[test]
fn width_may_compare_in_parentheses() {
    check(
        "struct S { bit<(a > b ? 8 : 4)> x; bit<8 + 8> y; }",
        expect![[r#"
        (struct S ((bit (?: (> a b) 8 4)) x) ((bit (+ 8 8)) y))
    "#]],
    );
}

#[test]
fn absolute_names() {
    check(
        "struct S {} control C(in .S s) { apply { .S t; .S.f(1); } }",
        expect![[r#"
        (struct S)
        (control C (params (in .S s)) (apply (block (var t .S) (call (. (type .S) f) 1))))
    "#]],
    );
}

#[test]
fn local_names_hide_types() {
    check(
        "struct t { bit<8> f; } control C(inout bit<8> t) { apply { t = t + 1; if ((t) - 1 == 0) {} } }",
        expect![[r#"
            (struct t (bit<8> f))
            (control C (params (inout bit<8> t)) (apply (block (= t (+ t 1)) (if (== (- t 1) 0) (block)))))
        "#]],
    );
}

#[test]
fn type_parameters_end_with_their_declaration() {
    check(
        "extern E<T> { void f(in T t); } extern void g(in T t);",
        expect![[r#"
        (extern E (types T) (method f (params (in T t)) void))
        (extern (method g (params (in T t)) void))
        main.p4:1:50: error[unknown-type]: unknown type `T`; help: declare `T` before it is used, or include the file that declares it
    "#]],
    );
}

#[test]
fn result_type_may_be_a_type_parameter() {
    check(
        "extern T f<T>(in T t); extern tuple<T, bit<8>> g<T>(); extern P { T read<T>(); }",
        expect![[r#"
        (extern (method f (types T) (params (in T t)) T))
        (extern (method g (types T) (params) (tuple T bit<8>)))
        (extern P (method read (types T) (params) T))
    "#]],
    );
}

#[test]
fn misspelled_type() {
    check(
        "header ethernet_t { bit<8> f; }\nstruct headers { etherent_t eth; }",
        expect![[r#"
        (header ethernet_t (bit<8> f))
        (struct headers (etherent_t eth))
        main.p4:2:18: error[unknown-type]: unknown type `etherent_t`; help: did you mean `ethernet_t`?
    "#]],
    );
}

#[test]
fn value_is_no_type() {
    check(
        "const bit<8> size = 8; struct S { size f; }",
        expect![[r#"
            (const size bit<8> 8)
            (struct S (size f))
            main.p4:1:35: error[unknown-type]: `size` is not a type; help: it is declared as a value; a type is needed here
        "#]],
    );
}

#[test]
fn void_is_no_value_type() {
    check(
        "struct S { void f; bit<8> g; }",
        expect![[r#"
        (struct S (bit<8> g))
        main.p4:1:12: error[syntax]: `void` is not the type of a value; help: it is only the result type of a function or method
    "#]],
    );
}
