//! Tests declarations of the top level, parsers and controls.

use super::check;
use expect_test::expect;

#[test]
fn constants_and_typedefs() {
    check(
        "const bit<16> TYPE_IPV4 = 0x800; typedef bit<48> mac_t; type bit<9> port_t; typedef bit<8> arr[4]; ; typedef struct P { bit<8> x; } Q; typedef enum F { a } G;",
        expect![[r#"
            (const TYPE_IPV4 bit<16> 0x800)
            (typedef mac_t bit<48>)
            (type port_t bit<9>)
            (typedef arr (stack bit<8> 4))
            (typedef Q (struct P (bit<8> x)))
            (typedef G (enum F a))
        "#]],
    );
}

#[test]
fn headers_structs_unions() {
    check(
        "@a header H { @b bit<8> type; varbit<320> apply; } header_union U { H h; } struct G<T> { T t; } struct Empty {} header K<T, S> { T t; S s; }",
        expect![[r#"
            (header H (@a) (bit<8> type (@b)) (varbit<320> apply))
            (header_union U (H h))
            (struct G (types T) (T t))
            (struct Empty)
            (header K (types T S) (T t) (S s))
        "#]],
    );
}

#[test]
fn enums() {
    check(
        "enum E { a, b, } enum bit<8> F { x = 1, y = 1 + 1 } error { A, B } match_kind { exact, lpm, }",
        expect![[r#"
        (enum E a b)
        (enum F bit<8> (= x 1) (= y (+ 1 1)))
        (error A B)
        (match_kind exact lpm)
    "#]],
    );
}

#[test]
fn externs() {
    check(
        "extern packet_in { void extract<T>(out T h); void extract<T>(out T h, in bit<32> n); @pure bit<32> length(); }
         extern Reg<T, I> { Reg(bit<32> size); abstract T apply(inout T value, @optional in I i); }
         extern void f(in bit<8> x, bit<8> y = 3); extern R g<R>(); extern Later; extern Reg<bit<8>, bit<8>> h();",
        expect![[r#"
            (extern packet_in
              (method extract (types T) (params (out T h)) void)
              (method extract (types T) (params (out T h) (in bit<32> n)) void)
              (method length (@pure) (params) bit<32>))
            (extern Reg
              (types T I)
              (constructor Reg (params (bit<32> size)))
              (abstract-method apply (params (inout T value) (in I i (@optional))) T))
            (extern (method f (params (in bit<8> x) (bit<8> y (default 3))) void))
            (extern (method g (types R) (params) R))
            (extern (method h (params) (<> Reg bit<8> bit<8>)))
        "#]],
    );
}

#[test]
fn parser_types_and_packages() {
    check(
        "extern packet_in {} parser P<H>(packet_in b, out H h); control C<H, M>(inout H h, inout M m); package Top<H, M>(P<H> p, @optional C<H, M> c);",
        expect![[r#"
            (extern packet_in)
            (parser P (types H) (params (packet_in b) (out H h)))
            (control C (types H M) (params (inout H h) (inout M m)))
            (package Top (types H M) (params ((<> P H) p) ((<> C H M) c (@optional))))
        "#]],
    );
}

#[test]
fn functions() {
    check(
        "bit<8> max(in bit<8> a, in bit<8> b) { return a > b ? a : b; } T id<T>(in T t) { return t; } void nop() {}",
        expect![[r#"
            (function max (params (in bit<8> a) (in bit<8> b)) bit<8> (block (return (?: (> a b) a b))))
            (function id (types T) (params (in T t)) T (block (return t)))
            (function nop (params) void (block))
        "#]],
    );
}

#[test]
fn instances() {
    check(
        "extern V { V(); abstract bit<8> f(in bit<8> x); } extern R<T> { R(T t); }
         package P(V v); @name(\"x.y\") R<bit<8>>(3) r; P(V()) main;
         V() v = { R<bit<8>>(t = 1) inner; bit<8> f(in bit<8> x) { return x + 1; } };",
        expect![[r#"
            (extern V (constructor V (params)) (abstract-method f (params (in bit<8> x)) bit<8>))
            (extern R (types T) (constructor R (params (T t))))
            (package P (params (V v)))
            (instance r (@name "x.y") (<> R bit<8>) 3)
            (instance main P (new V))
            (instance v V
              (initializer
                (instance inner (<> R bit<8>) (= t 1))
                (function f (params (in bit<8> x)) bit<8> (block (return (+ x 1))))))
        "#]],
    );
}

#[test]
fn parser_with_states() {
    check(
        "header H { bit<16> t; } extern packet_in { void extract<T>(out T t); bit<8> peek(); }
         parser P(packet_in p, out H h)(bit<8> n) {
             const bit<8> k = 1; bit<8> v = 0; value_set<bit<16>>(4) vs; value_set<tuple<bit<8>, bit<8>>>(2) ws;
             @name(\"s\") state start { p.extract(h); v = 1; { bit<8> w; } transition select(h.t, v) { (0x800, 1): next; (0x800 &&& 0xff00, _): next; (1 .. 5, default): accept; vs: next; default: reject; } }
             state next { if (v == 1) { v = 2; } else v = 3; transition accept; }
             state stop { }
         }",
        expect![[r#"
            (header H (bit<16> t))
            (extern packet_in (method extract (types T) (params (out T t)) void) (method peek (params) bit<8>))
            (parser P
              (params (packet_in p) (out H h))
              (constructor (bit<8> n))
              (const k bit<8> 1)
              (var v bit<8> 0)
              (value_set vs bit<16> 4)
              (value_set ws (tuple bit<8> bit<8>) 2)
              (state start
                (@name "s")
                (call (. p extract) h)
                (= v 1)
                (block (var w bit<8>))
                (transition
                  (select (. h t) v)
                  (case (tuple 0x800 1) next)
                  (case (tuple (&&& 0x800 0xff00) _) next)
                  (case (tuple (.. 1 5) default) accept)
                  (case vs next)
                  (case default reject)))
              (state next (if (== v 1) (block (= v 2)) (else (= v 3))) (transition accept))
              (state stop))
        "#]],
    );
}

#[test]
fn keysets() {
    check(
        "typedef bit<8> T; enum E { a } parser P(in bit<8> x) { state start { transition select(x) { 1: a; (2): a; (3 + 4) * 2: a; (T) 5: a; (T) 5 &&& 7: a; (E.a): a; (E.a, 2): a; (1 &&& 2): a; (_): a; (1, 2 .. 3): a; _: a; } } }",
        expect![[r#"
            (typedef T bit<8>)
            (enum E a)
            (parser P
              (params (in bit<8> x))
              (state start
                (transition
                  (select x)
                  (case 1 a)
                  (case 2 a)
                  (case (* (+ 3 4) 2) a)
                  (case (cast T 5) a)
                  (case (&&& (cast T 5) 7) a)
                  (case (. (type E) a) a)
                  (case (tuple (. (type E) a) 2) a)
                  (case (tuple (&&& 1 2)) a)
                  (case (tuple _) a)
                  (case (tuple 1 (.. 2 3)) a)
                  (case _ a))))
        "#]],
    );
}

#[test]
fn control_with_everything() {
    check(
        "header H { bit<8> f; } extern R { R(bit<8> n); }
         control C(inout H h)(bit<8> n, bool b) {
             const bit<8> k = 1; bit<8> v; R(n) r; H() inst;
             @hidden action a(bit<8> p, inout bit<8> q) { q = p; }
             apply { a(1, v); { } ; exit; }
         }",
        expect![[r#"
            (header H (bit<8> f))
            (extern R (constructor R (params (bit<8> n))))
            (control C
              (params (inout H h))
              (constructor (bit<8> n) (bool b))
              (const k bit<8> 1)
              (var v bit<8>)
              (instance r R n)
              (instance inst H)
              (action a (@hidden) (params (bit<8> p) (inout bit<8> q)) (block (= q p)))
              (apply (block (call a 1 v) (block) (empty) (exit))))
        "#]],
    );
}

#[test]
fn keywords_as_names() {
    check(
        "struct S { bit<8> key; bit<8> actions; bit<8> state; bit<8> entries; bit<8> type; bit<8> priority; bit<8> list; }
         control key(inout S state) { bit<8> apply; action actions() {} apply { state.key = 1; apply = 2; actions(); bit<8> type = 3; type = type + 1; } }",
        expect![[r#"
            (struct S
              (bit<8> key)
              (bit<8> actions)
              (bit<8> state)
              (bit<8> entries)
              (bit<8> type)
              (bit<8> priority)
              (bit<8> list))
            (control key
              (params (inout S state))
              (var apply bit<8>)
              (action actions (params) (block))
              (apply
                (block (= (. state key) 1) (= apply 2) (call actions) (var type bit<8> 3) (= type (+ type 1)))))
        "#]],
    );
}

#[test]
fn annotations() {
    check(
        "@a @b() @c(x, (y), [z;]) @name(\"p\" ++ \"q\") @k(x = 1, y = \"z\") @list[1, 2, \"x\"] @kv[a = 1, b = {2}] @e[]
         @if const bit<8> x = 1;
         @pragma unroll 4 then
         const bit<8> y = 2;",
        expect![[r#"
            (const x
              (@a)
              (@b)
              (@c (tokens x , ( y ) , [ z ; ]))
              (@name "pq")
              (@k (= x 1) (= y "z"))
              (@list (list 1 2 "x"))
              (@kv (pairs (= a 1) (= b (list 2))))
              (@e)
              (@if)
              bit<8>
              1)
            (const y (@unroll (tokens 4 then)) bit<8> 2)
        "#]],
    );
}

#[test]
fn annotations_with_wrong_bodies() {
    check(
        "@name(1) const bit<8> a = 1; @p4runtime_translation(\"\", bool) type bit<8> b; @p4runtime_translation(\"u\", bit<8>) type bit<8> c; @pkginfo const bit<8> d = 1;",
        expect![[r#"
            (const a (@name 1) bit<8> 1)
            (type b (@p4runtime_translation (tokens "" , bool)) bit<8>)
            (type c (@p4runtime_translation (tokens "u" , bit < 8 >)) bit<8>)
            (const d (@pkginfo) bit<8> 1)
            main.p4:1:1: error[bad-annotation]: the body of `@name` has the wrong form; help: write @name("...")
            main.p4:1:30: error[bad-annotation]: the body of `@p4runtime_translation` has the wrong form; help: write @p4runtime_translation("uri", bit<32>) or ("uri", string)
            main.p4:1:129: error[bad-annotation]: the body of `@pkginfo` has the wrong form; help: write @pkginfo(name = "...", version = "...")
        "#]],
    );
}
