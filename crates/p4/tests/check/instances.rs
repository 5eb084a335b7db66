//! Tests instances, constructors, packages and abstract methods.

use super::{check, check_decls, check_locals};
use expect_test::expect;

const ARCHITECTURE: &str = "control Ct<H>(inout H h, in bit<8> n);\nparser Pt<H>(out H h);\npackage Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);\nheader H { }\n";

fn check_main(decls: &str, expect: expect_test::Expect) {
    check(&format!("{ARCHITECTURE}{decls}"), expect);
}

#[test]
fn a_package_takes_what_fits_its_types() {
    check_main(
        "parser P(out H h) { state start { transition accept; } }\ncontrol C(inout H h, in bit<8> n) { apply { } }\nPkg(P(), C()) main;",
        expect![[""]],
    );
}

#[test]
fn a_package_refuses_what_does_not_fit() {
    check_main(
        "header I { }\nparser P(out H h) { state start { transition accept; } }\ncontrol A(inout I h, in bit<8> n) { apply { } }\ncontrol B(in H h, in bit<8> n) { apply { } }\n\
         control C(inout H h) { apply { } }\nPkg(P(), A()) a;\nPkg(P(), B()) b;\nPkg(P(), C()) c;\nPkg(P(), P()) d;\nPkg(P()) e;\nPkg(P(), 1) f;",
        expect![[r#"
            error[object-type]: `A` does not fit `Ct<H>`: its parameter `h` is of type `I`, and `H` is needed
              --> main.p4:10:10
               |
             3 | package Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);
               |                         ------- parameter `c` of constructor of `Pkg`
            ...
            10 | Pkg(P(), A()) a;
               |          ^^^

            error[object-type]: `B` does not fit `Ct<H>`: its parameter `h` is `in`, and `inout` is needed
              --> main.p4:11:10
               |
             3 | package Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);
               |                         ------- parameter `c` of constructor of `Pkg`
            ...
            11 | Pkg(P(), B()) b;
               |          ^^^

            error[object-type]: `C` does not fit `Ct<H>`: it has 1 parameters, and 2 are needed
              --> main.p4:12:10
               |
             3 | package Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);
               |                         ------- parameter `c` of constructor of `Pkg`
            ...
            12 | Pkg(P(), C()) c;
               |          ^^^

            error[object-type]: `P` does not fit `Ct<H>`: it is a parser, and a control is needed
              --> main.p4:13:10
               |
             3 | package Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);
               |                         ------- parameter `c` of constructor of `Pkg`
            ...
            13 | Pkg(P(), P()) d;
               |          ^^^

            error[arguments]: constructor of `Pkg` needs an argument for `c`
              --> main.p4:14:1
               |
             3 | package Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);
               |         --- declared here
            ...
            14 | Pkg(P()) e;
               | ^^^^^^^^^^

            error[type-mismatch]: `Ct<H>` is needed here, and this is of type `int`
              --> main.p4:15:10
               |
             3 | package Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);
               |                         ------- parameter `c` of constructor of `Pkg`
            ...
            15 | Pkg(P(), 1) f;
               |          ^
        "#]],
    );
}

#[test]
fn constructors() {
    check_locals(
        "Box<bit<8>>() a;\nBox<bit<8>>(n) b;\nBox<bit<8>>(k) c;\nS() d;\nBox<bit<8>>(true) e;\n",
        expect![[r#"
        error[arguments]: constructor `Box` needs an argument for `first`
          --> main.p4:3:1
           |
         3 | Box<bit<8>>() a;
           | ^^^^^^^^^^^^^^^
           |
          ::: prelude.p4:10:17
           |
        10 | extern Box<T> { Box(T first); T get(in bit<8> at); void put(out T value); }
           |                 --- declared here

        error[not-constant]: the argument for `first` must be known at compile time
          --> main.p4:4:13
           |
         4 | Box<bit<8>>(n) b;
           |             ^
           |
          ::: prelude.p4:10:21
           |
        10 | extern Box<T> { Box(T first); T get(in bit<8> at); void put(out T value); }
           |                     ------- the parameter has no direction

        error[construct]: `S` is not a type that can be instantiated
         --> main.p4:6:1
          |
        6 | S() d;
          | ^^^^^

        error[type-mismatch]: `bit<8>` is needed here, and this is of type `bool`
          --> main.p4:7:13
           |
         7 | Box<bit<8>>(true) e;
           |             ^^^^
           |
          ::: prelude.p4:10:21
           |
        10 | extern Box<T> { Box(T first); T get(in bit<8> at); void put(out T value); }
           |                     ------- parameter `first` of constructor `Box`
    "#]],
    );
}

#[test]
fn where_instances_are_made() {
    check_main(
        "control C(inout H h, in bit<8> n) { apply { } }\nC() c;\nCt<H>() d;\ncontrol D() { Pkg() p; apply { } }\nextern E { }\nE() e;",
        expect![[r#"
        error[instance-place]: `c` cannot be instantiated at the top level
         --> main.p4:6:1
          |
        6 | C() c;
          | ^^^^^
          |
          = help: controls are instantiated in controls, or without a name as arguments of the package

        error[construct]: `Ct` is only a type: it has no body and cannot be instantiated
         --> main.p4:7:1
          |
        7 | Ct<H>() d;
          | ^^^^^^^^^

        error[arguments]: constructor of `Pkg` needs an argument for `p`
         --> main.p4:8:15
          |
        3 | package Pkg<H>(Pt<H> p, Ct<H> c, @optional Ct<H> d);
          |         --- declared here
        ...
        8 | control D() { Pkg() p; apply { } }
          |               ^^^^^^^

        error[construct]: extern `E` has no constructor
          --> main.p4:10:1
           |
        10 | E() e;
           | ^^^^^
    "#]],
    );
    check_decls(
        "action a() { Box<bit<8>>(1) b; }",
        expect![[r#"
        error[instance-place]: `b` cannot be instantiated in an action
         --> main.p4:2:14
          |
        2 | action a() { Box<bit<8>>(1) b; }
          |              ^^^^^^^^^^^^^^^^^
          |
          = help: declare the instance before the body, among the declarations
    "#]],
    );
    check_locals(
        "action a() { take(Box<bit<8>>(1)); }\n",
        expect![[r#"
        error[instance-place]: a constructor cannot be called in an action
         --> main.p4:3:19
          |
        3 | action a() { take(Box<bit<8>>(1)); }
          |                   ^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn constructor_parameters() {
    check(
        "control X() { apply { } }\nparser Pt();\nextern E { E(X x); }\ncontrol C()(X x, Pt p) { apply { } }",
        expect![[r#"
        error[param-type]: a parameter of an extern's constructor cannot be of type `X`
         --> main.p4:3:14
          |
        3 | extern E { E(X x); }
          |              ^^^

        error[param-type]: parameter `x` cannot be of type `X`, which has a body
         --> main.p4:4:13
          |
        4 | control C()(X x, Pt p) { apply { } }
          |             ^^^
          |
          = help: declare a type without a body, as in `control C();`, and use that

        error[param-type]: parser `p` cannot be used in a control
         --> main.p4:4:18
          |
        4 | control C()(X x, Pt p) { apply { } }
          |                  ^^^^
          |
          = help: parsers are used in parsers
    "#]],
    );
}

#[test]
fn abstract_methods() {
    check(
        "extern A { A(); abstract bit<8> f(in bit<8> x); bit<8> g(); }\nA() a = { bit<8> f(in bit<8> x) { return x + this.g(); } };\nA() b;\n\
         A() c = { bit<8> f(in bit<16> x) { return 1; } };\nA() d = { bit<8> f(in bit<8> x) { return 1; } bit<8> h() { return 1; } };\n\
         extern B { B(); }\nB() e = { bit<8> f() { return 1; } };\npackage P(A a);\nP(A()) p;",
        expect![[r#"
            error[abstract]: `b` does not implement `f`
             --> main.p4:3:5
              |
            1 | extern A { A(); abstract bit<8> f(in bit<8> x); bit<8> g(); }
              |                                 - the abstract method
            2 | A() a = { bit<8> f(in bit<8> x) { return x + this.g(); } };
            3 | A() b;
              |     ^
              |
              = help: implement it in a block after the name: `E() e = { ... };`

            error[abstract]: `f` does not have the parameters and result of the abstract method
             --> main.p4:4:18
              |
            1 | extern A { A(); abstract bit<8> f(in bit<8> x); bit<8> g(); }
              |                                 - the abstract method
            ...
            4 | A() c = { bit<8> f(in bit<16> x) { return 1; } };
              |                  ^

            error[abstract]: extern `A` has no abstract method `h`
             --> main.p4:5:54
              |
            5 | A() d = { bit<8> f(in bit<8> x) { return 1; } bit<8> h() { return 1; } };
              |                                                      ^
              |
              = help: it has `f`

            error[initializer]: extern `B` has no abstract methods to implement
             --> main.p4:7:5
              |
            7 | B() e = { bit<8> f() { return 1; } };
              |     ^

            error[abstract]: extern `A` has the abstract method `f`, which is not implemented here
             --> main.p4:9:3
              |
            1 | extern A { A(); abstract bit<8> f(in bit<8> x); bit<8> g(); }
              |                                 - the abstract method
            ...
            9 | P(A()) p;
              |   ^^^
              |
              = help: give the instance a name and a block that implements it: `E() e = { ... };`
        "#]],
    );
}

#[test]
fn version_of_v1model() {
    check(
        "#define V1MODEL_VERSION 20000101\n#include <v1model.p4>",
        expect![[r#"
        error[v1model-version]: there is no version 20000101 of v1model
          --> include/v1model.p4:40:35
           |
        40 | const bit<32> __v1model_version = V1MODEL_VERSION;
           |                                   ^^^^^^^^^^^^^^^
           |
           = help: define V1MODEL_VERSION as 20180101 to 20200408
    "#]],
    );
}
