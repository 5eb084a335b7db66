//! Tests expressions: precedence, the types-or-values ambiguities, initialisers.

use super::check_expr;
use expect_test::expect;

#[test]
fn integer_literals() {
    check_expr(
        "{ 0, 42, 1_000, 0x2A, 0XfF, 0b1010, 0o17, 0d9, 8w255, 4s7, 16w0xBEEF, 8w0b1111_0000 }",
        expect![[r#"
        (list 0 42 1000 0x2a 0xff 0b1010 0o17 9 8w255 4s7 16w0xbeef 8w0b11110000)
    "#]],
    );
}

#[test]
fn bad_integer_literals() {
    check_expr(
        "{ 12ab, 0x, 8w, 0b12, 99999999999w1 }",
        expect![[r#"
        (list <error> <error> <error> <error> <error>)
        main.p4:2:3: error[bad-integer]: `12ab` is not an integer: `a` is not a digit of base 10; help: integers are written 42, 0x2A, 0b10, 0o7, 8w42 (bit<8>), 8s42 (int<8>)
        main.p4:2:9: error[bad-integer]: `0x` is not an integer: digits are missing after `0x`; help: integers are written 42, 0x2A, 0b10, 0o7, 8w42 (bit<8>), 8s42 (int<8>)
        main.p4:2:13: error[bad-integer]: `8w` is not an integer: digits are missing after `8w`; help: integers are written 42, 0x2A, 0b10, 0o7, 8w42 (bit<8>), 8s42 (int<8>)
        main.p4:2:17: error[bad-integer]: `0b12` is not an integer: `2` is not a digit of base 2; help: integers are written 42, 0x2A, 0b10, 0o7, 8w42 (bit<8>), 8s42 (int<8>)
        main.p4:2:23: error[bad-integer]: `99999999999w1` is not an integer: the width `99999999999` is too large; help: integers are written 42, 0x2A, 0b10, 0o7, 8w42 (bit<8>), 8s42 (int<8>)
    "#]],
    );
}

#[test]
fn other_literals() {
    check_expr(
        r#"{ true, false, "text", "with \" quote", this, {#}, error.NoError }"#,
        expect![[r#"
        (list true false "text" "with \" quote" this {#} (. (type error) NoError))
    "#]],
    );
}

#[test]
fn multiplication_before_addition_before_shift() {
    check_expr(
        "a << b + c * d - e",
        expect![[r#"
        (<< a (- (+ b (* c d)) e))
    "#]],
    );
}

#[test]
fn bit_operators_bind_tighter_than_comparisons() {
    check_expr(
        "a & b == c | d ^ e",
        expect![[r#"
        (== (& a b) (| c (^ d e)))
    "#]],
    );
}

#[test]
fn logical_operators_are_loosest() {
    check_expr(
        "!a == b && c || d && e",
        expect![[r#"
        (|| (&& (== (! a) b) c) (&& d e))
    "#]],
    );
}

#[test]
fn left_associative() {
    check_expr(
        "a - b - c ++ d |+| e |-| f",
        expect![[r#"
        (|-| (|+| (++ (- (- a b) c) d) e) f)
    "#]],
    );
}

#[test]
fn prefix_operators_bind_tighter_than_infix() {
    check_expr(
        "-a + ~b * +c",
        expect![[r#"
        (+ (neg a) (* (~ b) (+ c)))
    "#]],
    );
}

#[test]
fn prefix_operators_are_looser_than_suffixes() {
    check_expr(
        "-a.b[1](2)",
        expect![[r#"
        (neg (call ([] (. a b) 1) 2))
    "#]],
    );
}

#[test]
fn conditional_is_right_associative() {
    check_expr(
        "a ? b : c ? d : e",
        expect![[r#"
        (?: a b (?: c d e))
    "#]],
    );
}

#[test]
fn conditional_in_slice() {
    check_expr(
        "a[b ? 7 : 3 : 0]",
        expect![[r#"
        ([:] a (?: b 7 3) 0)
    "#]],
    );
}

#[test]
fn right_shift_is_two_tokens() {
    check_expr(
        "{ a >> 2, a > b, a >= b, a >> b >> c }",
        expect![[r#"
        (list (>> a 2) (> a b) (>= a b) (>> (>> a b) c))
    "#]],
    );
}

#[test]
fn spaced_right_shift_is_no_shift() {
    check_expr(
        "a > > b",
        expect![[r#"

        main.p4:2:5: error[syntax]: expected an expression, found `>`
    "#]],
    );
}

#[test]
fn slices() {
    check_expr(
        "{ a[7:0], a[i+:4], a[i + 1], a[3][1:0] }",
        expect![[r#"
        (list ([:] a 7 0) ([+:] a i 4) ([] a (+ i 1)) ([:] ([] a 3) 1 0))
    "#]],
    );
}

#[test]
fn members_may_be_named_like_keywords_and_types() {
    check_expr(
        "{ a.apply, a.key, a.type, a.T, a.list, a.priority.state }",
        expect![[r#"
        (list (. a apply) (. a key) (. a type) (. a T) (. a list) (. (. a priority) state))
    "#]],
    );
}

#[test]
fn type_members() {
    check_expr(
        "{ E.a, error.X, .E.b, a < E.a, T.maxValue }",
        expect![[r#"
        (list
            (. (type E) a)
            (. (type error) X)
            (. (type .E) b)
            (< a (. (type E) a))
            (. (type T) maxValue))
    "#]],
    );
}

#[test]
fn casts() {
    check_expr(
        "{ (bit<8>) a, (T) -b, (T)(a + b), (bit<8>)(T) c + 1, (H) { 1 }, (tuple<bit<8>>) { 2 } }",
        expect![[r#"
        (list
            (cast bit<8> a)
            (cast T (neg b))
            (cast T (+ a b))
            (+ (cast bit<8> (cast T c)) 1)
            (cast H (list 1))
            (cast (tuple bit<8>) (list 2)))
    "#]],
    );
}

#[test]
fn parenthesised_type_member_is_no_cast() {
    check_expr(
        "{ (E.a), (E.a == x), (T(1)), (a) - b }",
        expect![[r#"
        (list (. (type E) a) (== (. (type E) a) x) (new T 1) (- a b))
    "#]],
    );
}

#[test]
fn cast_binds_tighter_than_infix() {
    check_expr(
        "(bit<16>) a ++ b[3:0]",
        expect![[r#"
        (++ (cast bit<16> a) ([:] b 3 0))
    "#]],
    );
}

#[test]
fn calls_with_types_and_names() {
    check_expr(
        "{ f(), f(1, _), f(x = 1, y = _), p.lookahead<H>(), p.read<bit<8>>(0), g<T>(1), m.f<_, tuple<T, T>>(a) }",
        expect![[r#"
            (list
                (call f)
                (call f 1 _)
                (call f (= x 1) (= y _))
                (call (. p lookahead) (types H))
                (call (. p read) (types bit<8>) 0)
                (call g (types T) 1)
                (call (. m f) (types _ (tuple T T)) a))
        "#]],
    );
}

#[test]
fn less_than_is_no_type_argument() {
    check_expr(
        "{ a < b, a < (b), a.f < b.f, a < b && c > (d) }",
        expect![[r#"
        (list (< a b) (< a b) (< (. a f) (. b f)) (&& (< a b) (> c d)))
    "#]],
    );
}

#[test]
fn unknown_type_argument() {
    check_expr(
        "p.lookahead<Q>()",
        expect![[r#"
        (call (. p lookahead) (types Q))
        main.p4:2:13: error[unknown-type]: unknown type `Q`; help: declare `Q` before it is used, or include the file that declares it
    "#]],
    );
}

#[test]
fn constructor_calls() {
    check_expr(
        "{ T(), H(1, x = 2), X<bit<8>>(3) }",
        expect![[r#"
        (list (new T) (new H 1 (= x 2)) (call X (types bit<8>) 3))
    "#]],
    );
}

#[test]
fn initialisers() {
    check_expr(
        "{ {}, { 1, }, { 1, ... }, { ... }, { x = 1, y = { z = 2 } }, { x = 1, ... }, { x = 1, ..., } }",
        expect![[r#"
            (list
                (list)
                (list 1)
                (list 1 ...)
                (list ...)
                (fields (= x 1) (= y (fields (= z 2))))
                (fields (= x 1) ...)
                (fields (= x 1) ...))
        "#]],
    );
}

#[test]
fn rest_must_be_last() {
    check_expr(
        "{ x = 1, ..., y = 2 }",
        expect![[r#"

        main.p4:2:10: error[syntax]: `...` must come last
    "#]],
    );
}

#[test]
fn type_without_a_value() {
    check_expr(
        "a + T",
        expect![[r#"

        main.p4:2:6: error[syntax]: expected a value, but `T` is a type; found `;` after it; help: a cast is written `(T) value`
    "#]],
    );
}

#[test]
fn underscore_is_no_value() {
    check_expr(
        "1 + _",
        expect![[r#"

        main.p4:2:5: error[syntax]: `_` is not a value here; help: it is only an argument for an `out` parameter, or a key set
    "#]],
    );
}

#[test]
fn cast_to_unknown_type() {
    check_expr(
        "{ (Q) 5, (Q) a, (a) + 1 }",
        expect![[r#"
        (list (cast Q 5) (cast Q a) (+ a 1))
        main.p4:2:4: error[unknown-type]: unknown type `Q`; help: declare `Q` before it is used, or include the file that declares it
        main.p4:2:11: error[unknown-type]: unknown type `Q`; help: declare `Q` before it is used, or include the file that declares it
    "#]],
    );
}
