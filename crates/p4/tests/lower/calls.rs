//! Tests copy-in and copy-out, `return`, `exit`, nesting.

use super::check_ingress;
use expect_test::expect;

/// `inout` by reference where the difference is not visible. The result of the function is the
/// parameter of a join block.
#[test]
fn function_with_early_return() {
    let top = "bit<8> clamp(in bit<8> x) { if (x > 9) { return 9; } return x; }";
    check_ingress(
        top,
        "apply { meta.a = clamp(meta.b); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.b
          v1: bit<8> = const 9:bit<8>
          v2: bool = gt v0, v1
          branch v2, block2, block1(v0)
        block1(v3: bit<8>):
          store $meta.a, v3
          return
        block2:
          v4: bit<8> = const 9:bit<8>
          jump block1(v4)
        }
    "#]],
    );
}

/// Two parameters with one argument: each has its own storage, and the last copy wins.
#[test]
fn aliased_arguments_are_copied() {
    let top = "void both(inout bit<8> x, inout bit<8> y) { x = 1; y = y + 1; }";
    check_ingress(
        top,
        "apply { both(meta.a, meta.a); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = const 1:bit<8>
          v2: bit<8> = add v0, v1
          store $meta.a, v2
          return
        }
    "#]],
    );
}

/// An action that writes the variable that its parameter was copied from: the copy-out comes after
/// it.
#[test]
fn action_that_sees_its_argument() {
    let ingress = "action f(inout bit<8> x) { x = x + 1; meta.a = 7; } apply { f(meta.a); }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = const 1:bit<8>
          v2: bit<8> = add v0, v1
          store $meta.a, v2
          return
        }
    "#]],
    );
}

/// An out header starts invalid even though its argument is valid. The later argument is a copy,
/// because it has side effects.
#[test]
fn out_header_starts_invalid() {
    let top = "bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
        void make(out tag_t t, in bit<8> n) { if (n == 1) { t.setValid(); t.vid = 5; } }";
    check_ingress(
        top,
        "apply { make(hdr.tags[0], bump(meta.a)); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          set_invalid $ingress.make.t
          v0: bit<8> = load $meta.a
          v1: bit<8> = const 1:bit<8>
          v2: bit<8> = add v0, v1
          store $meta.a, v2
          v3: bit<8> = const 1:bit<8>
          v4: bool = eq v2, v3
          branch v4, block1, block2
        block1:
          set_valid $ingress.make.t
          v5: bit<13> = const 5:bit<13>
          store $ingress.make.t.vid, v5
          jump block2
        block2:
          copy_header $hdr.tags[0], $ingress.make.t
          return
        }
    "#]],
    );
}

/// `exit` leaves all nested calls after their copy-outs.
#[test]
fn exit_copies_out() {
    let ingress = "action f(inout bit<8> x) { x = 3; if (meta.a == 1) { exit; } x = 4; }
        apply { f(meta.a); meta.b = 1; }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = const 3:bit<8>
          v2: bit<8> = const 1:bit<8>
          v3: bool = eq v0, v2
          branch v3, block1, block2
        block1:
          store $meta.a, v1
          exit
        block2:
          v4: bit<8> = const 4:bit<8>
          store $meta.a, v4
          v5: bit<8> = const 1:bit<8>
          store $meta.b, v5
          return
        }
    "#]],
    );
}

/// Arguments are evaluated from left to right.
#[test]
fn evaluation_order() {
    let top = "bit<8> bump(inout bit<8> x) { x = x + 1; return x; }";
    check_ingress(
        top,
        "apply { meta.b = meta.a - bump(meta.a) - meta.a; }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = const 1:bit<8>
          v2: bit<8> = add v0, v1
          store $meta.a, v2
          v3: bit<8> = sub v0, v2
          v4: bit<8> = sub v3, v2
          store $meta.b, v4
          return
        }
    "#]],
    );
}

/// A control instantiated twice in a control: constructor arguments are constants; locals are per
/// instance and initialised at each call.
#[test]
fn instances_of_a_control() {
    let top = "control add(inout bit<8> x)(bit<8> n) { bit<8> before = x; apply { if (before == 0) { return; } x = x + n; } }";
    check_ingress(
        top,
        "add(1) one; add(2) two; apply { one.apply(meta.a); two.apply(meta.a); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = const 0:bit<8>
          v2: bool = eq v0, v1
          branch v2, block1, block2
        block1:
          v3: bit<8> = load $meta.a
          v4: bit<8> = const 0:bit<8>
          v5: bool = eq v3, v4
          branch v5, block3, block4
        block2:
          v6: bit<8> = const 1:bit<8>
          v7: bit<8> = add v0, v6
          store $meta.a, v7
          jump block1
        block3:
          return
        block4:
          v8: bit<8> = const 2:bit<8>
          v9: bit<8> = add v3, v8
          store $meta.a, v9
          return
        }
    "#]],
    );
}

/// A generic function, and a struct as its result.
#[test]
fn generic_function() {
    let top = "struct pair<T> { T x; T y; }
        pair<T> swap<T>(in pair<T> p) { return { p.y, p.x }; }";
    let ingress = "apply { pair<bit<8>> p = { meta.a, meta.b }; p = swap(p); meta.a = p.x; meta.b = p.y; }";
    check_ingress(
        top,
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = load $meta.b
          store $meta.a, v1
          store $meta.b, v0
          return
        }
    "#]],
    );
}

/// The inner call's result is still in the storage that the outer call's parameter gets.
#[test]
fn nested_calls_of_one_function() {
    let top = "struct two { eth_t x; eth_t y; }
        two swap(in two p) { return { p.y, p.x }; }";
    let ingress = "apply { two t; t.x = hdr.eth; t.y = hdr.inner; t = swap(swap(t)); hdr.eth = t.x; }";
    check_ingress(
        top,
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          set_invalid $ingress.t.x
          set_invalid $ingress.t.y
          copy_header $ingress.t.x, $hdr.eth
          copy_header $ingress.t.y, $hdr.inner
          copy_header $ingress.swap.p.x, $ingress.t.y
          copy_header $ingress.swap.p.y, $ingress.t.x
          copy_header $ingress.t.x, $ingress.swap.p.y
          copy_header $ingress.t.y, $ingress.swap.p.x
          copy_header $hdr.eth, $ingress.t.x
          return
        }
    "#]],
    );
}
