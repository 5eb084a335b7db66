//! Tests calls: arguments, overloads, inference, and allowed contexts.

use super::{check, check_decls, check_locals, check_stmts};
use expect_test::expect;

#[test]
fn numbers_and_names_of_arguments() {
    check_stmts(
        "s.x = next();\ns.x = next(1, 2);\ns.x = next(m = 1);\ns.x = next(n = 1);\ns.x = next(n = 1, 2);\ns.x = next(n = 1, n = 2);",
        expect![[r#"
            error[arguments]: function `next` needs an argument for `n`
              --> main.p4:4:7
               |
             4 | s.x = next();
               |       ^^^^^^
               |
              ::: prelude.p4:13:8
               |
            13 | bit<8> next(in bit<8> n) { return n + 1; }
               |        ---- declared here

            error[arguments]: function `next` takes 1 argument, not 2
              --> main.p4:5:7
               |
             5 | s.x = next(1, 2);
               |       ^^^^^^^^^^
               |
              ::: prelude.p4:13:8
               |
            13 | bit<8> next(in bit<8> n) { return n + 1; }
               |        ---- declared here

            error[arguments]: function `next` has no parameter `m`
              --> main.p4:6:12
               |
             6 | s.x = next(m = 1);
               |            ^
               |
              ::: prelude.p4:13:8
               |
            13 | bit<8> next(in bit<8> n) { return n + 1; }
               |        ---- declared here

            error[arguments]: either all arguments are named or none
              --> main.p4:8:7
               |
             8 | s.x = next(n = 1, 2);
               |       ^^^^^^^^^^^^^^
               |
              ::: prelude.p4:13:8
               |
            13 | bit<8> next(in bit<8> n) { return n + 1; }
               |        ---- declared here

            error[arguments]: `n` is given twice
              --> main.p4:9:19
               |
             9 | s.x = next(n = 1, n = 2);} }
               |                   ^^^^^
               |
              ::: prelude.p4:13:8
               |
            13 | bit<8> next(in bit<8> n) { return n + 1; }
               |        ---- declared here
        "#]],
    );
}

#[test]
fn directions_of_arguments() {
    check_decls(
        "void f(in bit<8> a, out bit<8> b, inout bit<8> c, bit<8> d) { b = a; }\n\
         control C(inout S s, in bit<8> n) { apply {\nf(n, s.x, s.y, 1);\nf(n, n, s.y, 1);\nf(n, _, s.y, n);\nf(_, s.x, 1, 1);\nf(n, s.h.g, s.y, 1);\n} }",
        expect![[r#"
            error[not-writable]: argument for the `out` parameter `b` cannot be written: `n` is an `in` parameter
             --> main.p4:5:6
              |
            3 | control C(inout S s, in bit<8> n) { apply {
              |                      ----------- declared here
            4 | f(n, s.x, s.y, 1);
            5 | f(n, n, s.y, 1);
              |      ^
              |
              = help: make it `inout`, or copy it into a variable first

            error[not-constant]: the argument for `d` must be known at compile time
             --> main.p4:6:14
              |
            2 | void f(in bit<8> a, out bit<8> b, inout bit<8> c, bit<8> d) { b = a; }
              |                                                   -------- the parameter has no direction
            ...
            6 | f(n, _, s.y, n);
              |              ^

            error[arguments]: `_` is allowed only as an `out` argument, and `a` is none
             --> main.p4:7:3
              |
            7 | f(_, s.x, 1, 1);
              |   ^

            error[not-writable]: argument for the `inout` parameter `c` cannot be written: this is a value, not an l-value
             --> main.p4:7:11
              |
            7 | f(_, s.x, 1, 1);
              |           ^
              |
              = help: name a variable, parameter or field of one

            error[type-mismatch]: `bit<8>` is needed here, and this is of type `bit<16>`
             --> main.p4:8:6
              |
            2 | void f(in bit<8> a, out bit<8> b, inout bit<8> c, bit<8> d) { b = a; }
              |                     ------------ `out` parameter of function `f`
            ...
            8 | f(n, s.h.g, s.y, 1);
              |      ^^^^^
        "#]],
    );
}

#[test]
fn overloads() {
    check(
        "extern void f(in bit<8> a);\nextern void f(in bit<8> a, in bit<8> b);\nextern void g(in bit<8> a);\nextern void g(in bool a);\n\
         control C() { apply {\nf(1);\nf(1, 2);\nf();\ng(true);\ng(8w1);\ng(16w1);\n} }",
        expect![[r#"
            error[arguments]: no `f` takes these 0 arguments
             --> main.p4:8:1
              |
            1 | extern void f(in bit<8> a);
              |             - takes 1 argument
            2 | extern void f(in bit<8> a, in bit<8> b);
              |             - takes 2 arguments
            ...
            8 | f();
              | ^^^

            error[overload]: no `g` takes arguments of these types
              --> main.p4:11:1
               |
             3 | extern void g(in bit<8> a);
               |             - a candidate
             4 | extern void g(in bool a);
               |             - a candidate
            ...
            11 | g(16w1);
               | ^^^^^^^
        "#]],
    );
}

#[test]
fn inference() {
    check_stmts(
        "take(1);\ntake(8w1);\ntake<bit<8>>(1);\ntake({ 8w1, 2 });\nbit<8> b = give();\ngive();\ntake<bit<8>, bool>(1);",
        expect![[r#"
            error[infer-type]: type argument `T` of `take` has no width: a number here has none
              --> main.p4:4:1
               |
             4 | take(1);
               | ^^^^^^^
               |
              ::: prelude.p4:11:13
               |
            11 | extern void take<T>(in T value);
               |             ---- declared here
               |
               = help: give the numbers a width, as in `16w5`

            error[infer-type]: type argument `T` of `take` has no width: a number here has none
              --> main.p4:7:1
               |
             7 | take({ 8w1, 2 });
               | ^^^^^^^^^^^^^^^^
               |
              ::: prelude.p4:11:13
               |
            11 | extern void take<T>(in T value);
               |             ---- declared here
               |
               = help: give the numbers a width, as in `16w5`

            error[infer-type]: type argument `T` of `give` cannot be inferred from the arguments
              --> main.p4:9:1
               |
             9 | give();
               | ^^^^^^
               |
              ::: prelude.p4:12:10
               |
            12 | extern T give<T>();
               |          ---- declared here
               |
               = help: write it, as in `give<...>(...)`

            error[arguments]: function `take` has 1 type parameters, and 2 type arguments are given
              --> main.p4:10:1
               |
            10 | take<bit<8>, bool>(1);} }
               | ^^^^^^^^^^^^^^^^^^^^^
               |
              ::: prelude.p4:11:13
               |
            11 | extern void take<T>(in T value);
               |             ---- declared here
        "#]],
    );
}

#[test]
fn conflicting_inference() {
    check_decls(
        "extern void two<T>(in T a, in T b);\ncontrol C() { apply {\ntwo(8w1, 1);\ntwo(1, 8w1);\ntwo(8w1, 16w1);\ntwo(8w1, true);\n} }",
        expect![[r#"
        error[type-mismatch]: `bit<8>` is needed here, and this is of type `bit<16>`
         --> main.p4:6:10
          |
        2 | extern void two<T>(in T a, in T b);
          |                            ------ parameter `b` of function `two`
        ...
        6 | two(8w1, 16w1);
          |          ^^^^
          |
          = help: to convert explicitly, write `(bit<8>)16w1`

        error[type-mismatch]: `bit<8>` is needed here, and this is of type `bool`
         --> main.p4:7:10
          |
        2 | extern void two<T>(in T a, in T b);
          |                            ------ parameter `b` of function `two`
        ...
        7 | two(8w1, true);
          |          ^^^^
    "#]],
    );
}

#[test]
fn methods_of_externs() {
    check_locals(
        "Box<bit<16>>(1) b;\nBox(8w1) c;\nBox(1) d;\nBox<bool>(true) e;\napply {\nbit<16> w = b.get(n);\nw = b.got(n);\nb.put(w);\nb.put(s.x);\ns.x = c.get(n);\ns.x = e.get(n);\n} }\ncontrol D() {",
        expect![[r#"
            error[infer-type]: a type argument of `Box` has no width
              --> main.p4:5:1
               |
             5 | Box(1) d;
               | ^^^^^^^^
               |
              ::: prelude.p4:10:17
               |
            10 | extern Box<T> { Box(T first); T get(in bit<8> at); void put(out T value); }
               |                 --- declared here
               |
               = help: write the type arguments: `Box<...>(...)`

            error[unknown-member]: extern `Box` has no `got`
             --> main.p4:9:7
              |
            9 | w = b.got(n);
              |       ^^^
              |
              = help: did you mean `get`?

            error[type-mismatch]: `bit<16>` is needed here, and this is of type `bit<8>`
              --> main.p4:11:7
               |
            11 | b.put(s.x);
               |       ^^^
               |
              ::: prelude.p4:10:61
               |
            10 | extern Box<T> { Box(T first); T get(in bit<8> at); void put(out T value); }
               |                                                             ----------- `out` parameter of method `put`

            error[type-mismatch]: `bit<8>` is needed here, and this is of type `bool`
              --> main.p4:13:7
               |
            13 | s.x = e.get(n);
               | ---   ^^^^^^^^
               | |
               | the assigned l-value
        "#]],
    );
}

#[test]
fn objects_are_no_values() {
    check_locals(
        "Box(8w1) b;\napply {\ns.x = b;\ntake(b);\nb = b;\n} }\ncontrol X() { apply { } }\ncontrol D() { X() x; apply { take(x); x.apply(1); x(); } }\ncontrol E() {",
        expect![[r#"
            error[type-mismatch]: `bit<8>` is needed here, and this is of type `Box<bit<8>>`
             --> main.p4:5:7
              |
            5 | s.x = b;
              | ---   ^
              | |
              | the assigned l-value

            error[not-writable]: this cannot be assigned to: this is a value, not an l-value
             --> main.p4:7:1
              |
            7 | b = b;
              | ^
              |
              = help: name a variable, parameter or field of one

            error[argument-type]: a value of type `X` cannot be the argument for `value`
              --> main.p4:10:35
               |
            10 | control D() { X() x; apply { take(x); x.apply(1); x(); } }
               |                                   ^
               |
              ::: prelude.p4:11:21
               |
            11 | extern void take<T>(in T value);
               |                     ---------- parameter `value` of function `take`

            error[arguments]: control `X` takes 0 arguments, not 1
              --> main.p4:10:39
               |
             9 | control X() { apply { } }
               |         - declared here
            10 | control D() { X() x; apply { take(x); x.apply(1); x(); } }
               |                                       ^^^^^^^^^^

            error[not-callable]: `x` is an instance, which cannot be called
              --> main.p4:10:51
               |
            10 | control D() { X() x; apply { take(x); x.apply(1); x(); } }
               |                                                   ^
        "#]],
    );
}
