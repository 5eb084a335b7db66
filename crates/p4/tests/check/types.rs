//! Tests types: where they are allowed, and their components.

use super::{check, check_decls, check_stmts};
use expect_test::expect;

#[test]
fn widths_and_sizes() {
    check(
        "const bit<8> b = 1;\nstruct S { bit<(0 - 1)> a; int<0> c; bit<100000> d; bit<(true)> e; }",
        expect![[r#"
        error[width]: a width of -1 bits is not possible
         --> main.p4:2:12
          |
        2 | struct S { bit<(0 - 1)> a; int<0> c; bit<100000> d; bit<(true)> e; }
          |            ^^^^^^^^^^^^
          |
          = help: the smallest width here is 0

        error[width]: a width of 0 bits is not possible
         --> main.p4:2:28
          |
        2 | struct S { bit<(0 - 1)> a; int<0> c; bit<100000> d; bit<(true)> e; }
          |                            ^^^^^^
          |
          = help: the smallest width here is 1

        error[width]: a width of 100000 bits is not supported
         --> main.p4:2:38
          |
        2 | struct S { bit<(0 - 1)> a; int<0> c; bit<100000> d; bit<(true)> e; }
          |                                      ^^^^^^^^^^^
          |
          = help: the limit is 65535 bits

        error[not-constant]: the width of a type must be a constant integer
         --> main.p4:2:57
          |
        2 | struct S { bit<(0 - 1)> a; int<0> c; bit<100000> d; bit<(true)> e; }
          |                                                         ^^^^^^
          |
          = help: use a literal, or a `const` of an integer type
    "#]],
    );
    check(
        "header H { }\nstruct S { H[0-1] a; }\nextern E { E(); }\nstruct T { E[2] b; }",
        expect![[r#"
            error[stack-size]: a stack of -1 elements is not possible
             --> main.p4:2:14
              |
            2 | struct S { H[0-1] a; }
              |              ^^^
              |
              = help: a stack has from 1 to 65536 elements

            error[stack-type]: a stack cannot have elements of type `E`
             --> main.p4:4:12
              |
            4 | struct T { E[2] b; }
              |            ^
              |
              = help: stacks are made of headers or header unions
        "#]],
    );
}

#[test]
fn fields() {
    check(
        "header N { bit<8> f; }\nenum E { a }\nextern X { X(); }\n\
         header H { error e; E e2; N n; tuple<bit<8>> t; }\n\
         struct S { X x; string s; }\nheader_union U { bit<8> b; }\nheader V { varbit<8> a; varbit<8> b; }",
        expect![[r#"
            error[field-type]: a field of a header cannot be of type `error`
             --> main.p4:4:18
              |
            4 | header H { error e; E e2; N n; tuple<bit<8>> t; }
              |        -         ^
              |        |
              |        in this header
              |
              = help: headers hold `bit`, `int`, `varbit`, `bool`, enums with an underlying type, and structs of these

            error[field-type]: a field of a header cannot be of type `E`
             --> main.p4:4:23
              |
            4 | header H { error e; E e2; N n; tuple<bit<8>> t; }
              |        -              ^^
              |        |
              |        in this header
              |
              = help: headers hold `bit`, `int`, `varbit`, `bool`, enums with an underlying type, and structs of these

            error[field-type]: a field of a header cannot be of type `N`
             --> main.p4:4:29
              |
            4 | header H { error e; E e2; N n; tuple<bit<8>> t; }
              |        - in this header     ^
              |
              = help: headers hold `bit`, `int`, `varbit`, `bool`, enums with an underlying type, and structs of these

            error[field-type]: a field of a header cannot be of type `tuple<bit<8>>`
             --> main.p4:4:46
              |
            4 | header H { error e; E e2; N n; tuple<bit<8>> t; }
              |        - in this header                      ^
              |
              = help: headers hold `bit`, `int`, `varbit`, `bool`, enums with an underlying type, and structs of these

            error[field-type]: a field of a struct cannot be of type `X`
             --> main.p4:5:14
              |
            5 | struct S { X x; string s; }
              |        -     ^
              |        |
              |        in this struct
              |
              = help: structs hold values: bits, bools, enums, errors, headers, stacks, structs and tuples

            error[field-type]: a field of a struct cannot be of type `string`
             --> main.p4:5:24
              |
            5 | struct S { X x; string s; }
              |        -               ^
              |        |
              |        in this struct
              |
              = help: structs hold values: bits, bools, enums, errors, headers, stacks, structs and tuples

            error[field-type]: a field of a header union cannot be of type `bit<8>`
             --> main.p4:6:25
              |
            6 | header_union U { bit<8> b; }
              |              -          ^
              |              |
              |              in this header union
              |
              = help: unions hold headers only

            error[two-varbits]: a header can have only one `varbit` field
             --> main.p4:7:25
              |
            7 | header V { varbit<8> a; varbit<8> b; }
              |            ------------ ^^^^^^^^^^^^
              |            |
              |            the first is here
              |
              = help: split the header in two, so that each has one `varbit`
        "#]],
    );
}

#[test]
fn type_arguments() {
    check(
        "struct G<T> { T t; }\nstruct A { G a; G<bit<8>, bool> b; bit<8> c; }\nstruct B { A<bool> b; }\n\
         struct N { G<G<bool>> g; }\nheader HG<T> { T t; }\nstruct C { HG<error> h; }",
        expect![[r#"
            error[type-arguments]: `G` needs type arguments
             --> main.p4:2:12
              |
            2 | struct A { G a; G<bit<8>, bool> b; bit<8> c; }
              |            ^
              |
              = help: write `G<...>` with 1 type argument

            error[type-arguments]: `G` takes 1 type arguments, and 2 are given
             --> main.p4:2:17
              |
            2 | struct A { G a; G<bit<8>, bool> b; bit<8> c; }
              |                 ^^^^^^^^^^^^^^^

            error[type-arguments]: `A` takes no type arguments
             --> main.p4:3:12
              |
            3 | struct B { A<bool> b; }
              |            ^^^^^^^

            error[type-arguments]: `G` cannot be a type argument of itself
             --> main.p4:4:12
              |
            4 | struct N { G<G<bool>> g; }
              |            ^^^^^^^^^^

            error[field-type]: with these type arguments, field `t` of `HG` would be of type `error`
             --> main.p4:6:12
              |
            5 | header HG<T> { T t; }
              |                ---- the field
            6 | struct C { HG<error> h; }
              |            ^^^^^^^^^
              |
              = help: headers hold `bit`, `int`, `varbit`, `bool`, enums with an underlying type, and structs of these
        "#]],
    );
}

#[test]
fn new_types() {
    check(
        "header H { }\ntype H h_t;\ntype bit<8> a_t;\nconst a_t a = 1;\nconst a_t b = (a_t)8w1 + 1;\nconst a_t c = (a_t)16w1;",
        expect![[r#"
            error[new-type]: `type` cannot make a new type of `H`
             --> main.p4:2:1
              |
            2 | type H h_t;
              | ^^^^^^^^^^^
              |
              = help: `type` applies to `bit`, `int` with a width and `bool`; `typedef` gives any type another name

            error[operand]: `+` does not apply to `a_t` and `int`
             --> main.p4:5:15
              |
            5 | const a_t b = (a_t)8w1 + 1;
              |               ^^^^^^^^^^^^
              |
              = help: cast one side, as in `... + (a_t)...`

            error[cast]: `bit<16>` cannot be cast to `a_t`
             --> main.p4:6:15
              |
            6 | const a_t c = (a_t)16w1;
              |               ^^^^^^^^^
              |
              = help: a `a_t` is made of a `bit<8>`: cast to that first
        "#]],
    );
}

#[test]
fn enums() {
    check(
        "enum bool E { a = 1 }\nenum bit<2> F { a = 1, b = 4 }\nconst bit<2> f = F.a;\nconst F g = 1;",
        expect![[r#"
            error[enum-type]: an enum cannot have the underlying type `bool`
             --> main.p4:1:6
              |
            1 | enum bool E { a = 1 }
              |      ^^^^ - of this enum
              |
              = help: use `bit<W>` or `int<W>`

            error[enum-value]: value 4 does not fit in `bit<2>`
             --> main.p4:2:24
              |
            2 | enum bit<2> F { a = 1, b = 4 }
              |                        ^^^^^

            error[type-mismatch]: `F` is needed here, and this is of type `int`
             --> main.p4:4:13
              |
            4 | const F g = 1;
              |       -     ^
              |       |
              |       the type of the constant
              |
              = help: to convert explicitly, write `(F)1`
        "#]],
    );
}

#[test]
fn tuples() {
    check(
        "extern E { E(); }\ntypedef tuple<bit<8>, E> t;",
        expect![[r#"
            error[tuple-type]: a tuple cannot hold values of type `E`
             --> main.p4:2:23
              |
            2 | typedef tuple<bit<8>, E> t;
              |                       ^
        "#]],
    );
    check_stmts(
        "tuple<bit<8>, bool> t = { 1, true };\nbool b = t[1];\nb = t[2];\nb = t[n];\nbit<8> c = t[1];",
        expect![[r#"
        error[index]: there is no element 2 in a tuple of 2
         --> main.p4:6:7
          |
        6 | b = t[2];
          |       ^

        error[index]: the index of a tuple must be a constant
         --> main.p4:7:7
          |
        7 | b = t[n];
          |       ^

        error[type-mismatch]: `bit<8>` is needed here, and this is of type `bool`
         --> main.p4:8:12
          |
        8 | bit<8> c = t[1];} }
          | ------     ^^^^
          | |
          | the type of the variable
    "#]],
    );
}

#[test]
fn generic_structs_are_inferred_from_lists() {
    check_decls(
        "struct P<T> { T a; bit<8> b; }\nconst P<bit<4>> p = { 1, 2 };\nconst P<bit<4>> q = { a = true, b = 2 };",
        expect![[r#"
        error[type-mismatch]: `bit<4>` is needed here, and this is of type `bool`
         --> main.p4:4:27
          |
        4 | const P<bit<4>> q = { a = true, b = 2 };
          |                           ^^^^
    "#]],
    );
}

#[test]
fn overflow_is_a_warning() {
    check(
        "const bit<8> a = 256;\nconst int<8> b = 128;\nconst bit<8> c = -1;\nconst bit<8> d = 8w255 + 8w1;\nconst bit<4> e = 4w16;",
        expect![[r#"
        warning[overflow]: value 256 does not fit in `bit<8>` and becomes 0
         --> main.p4:1:18
          |
        1 | const bit<8> a = 256;
          |                  ^^^

        warning[overflow]: value 128 does not fit in `int<8>` and becomes -128
         --> main.p4:2:18
          |
        2 | const int<8> b = 128;
          |                  ^^^

        warning[overflow]: negative value -1 in the unsigned type `bit<8>` becomes 255
         --> main.p4:3:18
          |
        3 | const bit<8> c = -1;
          |                  ^^

        warning[overflow]: value 256 does not fit in `bit<8>` and becomes 0
         --> main.p4:4:18
          |
        4 | const bit<8> d = 8w255 + 8w1;
          |                  ^^^^^^^^^^^

        warning[overflow]: value 16 does not fit in `bit<4>` and becomes 0
         --> main.p4:5:18
          |
        5 | const bit<4> e = 4w16;
          |                  ^^^^
    "#]],
    );
}

#[test]
fn sizes_that_cannot_be_dealt_with() {
    check(
        "header H { bit<8> f; }\nstruct A { H[60000] a; H[60000] b; H[60000] c; }\nstruct B { A a; }",
        expect![[r#"
        error[too-large]: a value of this type consists of more than 131072 parts, which is the limit
         --> main.p4:2:12
          |
        2 | struct A { H[60000] a; H[60000] b; H[60000] c; }
          |            ^^^^^^^^

        error[too-large]: a value of this type consists of more than 131072 parts, which is the limit
         --> main.p4:2:24
          |
        2 | struct A { H[60000] a; H[60000] b; H[60000] c; }
          |                        ^^^^^^^^

        error[too-large]: a value of this type consists of more than 131072 parts, which is the limit
         --> main.p4:2:36
          |
        2 | struct A { H[60000] a; H[60000] b; H[60000] c; }
          |                                    ^^^^^^^^
    "#]],
    );
    check(
        "const int a = 1 << 65000;\nconst int b = a * a * a;\nconst int c = 1 << 70000;",
        expect![[r#"
        error[too-large]: integers of more than 131072 bits are not supported
         --> main.p4:2:15
          |
        2 | const int b = a * a * a;
          |               ^^^^^^^^^

        error[shift]: a shift by 70000 is not supported; the limit is 65536
         --> main.p4:3:15
          |
        3 | const int c = 1 << 70000;
          |               ^^^^^^^^^^
    "#]],
    );
    check(
        "typedef bit<40000> w;\nconst w a = 1;\ncontrol C(in w x) { apply { bool b = x ++ x == x; } }",
        expect![[r#"
        error[width]: this is 80000 bits wide, and the limit is 65535 bits
         --> main.p4:3:38
          |
        3 | control C(in w x) { apply { bool b = x ++ x == x; } }
          |                                      ^^^^^^
    "#]],
    );
}

/// A stack's size is positive.
#[test]
fn stacks_of_nothing() {
    check(
        "header H { }\nstruct S { H[0] a; bit<8>[1 - 1] b; H[1] c; }\ntypedef H[0] T;",
        expect![[r#"
        error[stack-size]: a stack of 0 elements is not possible
         --> main.p4:2:14
          |
        2 | struct S { H[0] a; bit<8>[1 - 1] b; H[1] c; }
          |              ^
          |
          = help: a stack has from 1 to 65536 elements

        error[stack-size]: a stack of 0 elements is not possible
         --> main.p4:2:27
          |
        2 | struct S { H[0] a; bit<8>[1 - 1] b; H[1] c; }
          |                           ^^^^^
          |
          = help: a stack has from 1 to 65536 elements

        error[stack-size]: a stack of 0 elements is not possible
         --> main.p4:3:11
          |
        3 | typedef H[0] T;
          |           ^
          |
          = help: a stack has from 1 to 65536 elements
    "#]],
    );
}
