//! Tests expressions, assignments, l-values.

use super::check_ingress;
use expect_test::expect;

#[test]
fn short_circuit_with_side_effects() {
    let top = "bool odd(inout bit<8> x) { x = x + 1; return x[0:0] == 1; }";
    check_ingress(
        top,
        "apply { meta.t = meta.t && odd(meta.a); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bool = load $meta.t
          branch v0, block1, block2(v0)
        block1:
          v1: bit<8> = load $meta.a
          v2: bit<8> = const 1:bit<8>
          v3: bit<8> = add v1, v2
          store $meta.a, v3
          v4: bit<1> = slice v3, 0, 0
          v5: bit<1> = const 1:bit<1>
          v6: bool = eq v4, v5
          jump block2(v6)
        block2(v7: bool):
          store $meta.t, v7
          return
        }
    "#]],
    );
}

#[test]
fn slices_as_l_values() {
    check_ingress(
        "",
        "apply { meta.a[5:2] = meta.b[3:0]; }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.b
          v1: bit<4> = slice v0, 3, 0
          v2: bit<8> = load $meta.a
          v3: bit<2> = slice v2, 7, 6
          v4: bit<6> = concat v3, v1
          v5: bit<2> = slice v2, 1, 0
          v6: bit<8> = concat v4, v5
          store $meta.a, v6
          return
        }
    "#]],
    );
}

/// Swapped headers: both are copied before either is written.
#[test]
fn swapped_headers() {
    let top = "struct two { eth_t x; eth_t y; }";
    let ingress = "apply { two t; t.x = hdr.eth; t.y = hdr.inner; t = { t.y, t.x }; hdr.eth = t.x; hdr.inner = t.y; }";
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
          copy_header $ingress.tmp, $ingress.t.y
          copy_header $ingress.tmp_1, $ingress.t.x
          copy_header $ingress.t.x, $ingress.tmp
          copy_header $ingress.t.y, $ingress.tmp_1
          copy_header $hdr.eth, $ingress.t.x
          copy_header $hdr.inner, $ingress.t.y
          return
        }
    "#]],
    );
}

#[test]
fn header_equality() {
    check_ingress(
        "",
        "apply { meta.t = hdr.tags[0] == hdr.tags[1]; }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bool = is_valid $hdr.tags[0]
          v1: bool = is_valid $hdr.tags[1]
          v2: bool = eq v0, v1
          v3: bit<3> = load $hdr.tags[0].pcp
          v4: bit<3> = load $hdr.tags[1].pcp
          v5: bool = eq v3, v4
          v6: bool = and v2, v5
          v7: bit<13> = load $hdr.tags[0].vid
          v8: bit<13> = load $hdr.tags[1].vid
          v9: bool = eq v7, v8
          v10: bool = and v6, v9
          store $meta.t, v10
          return
        }
    "#]],
    );
}

#[test]
fn header_from_fields() {
    check_ingress(
        "",
        "apply { hdr.tags[1] = { 3, 4 }; hdr.tags[2] = (tag_t){#}; }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<3> = const 3:bit<3>
          v1: bit<13> = const 4:bit<13>
          set_valid $hdr.tags[1]
          store $hdr.tags[1].pcp, v0
          store $hdr.tags[1].vid, v1
          set_invalid $hdr.tags[2]
          return
        }
    "#]],
    );
}

/// `? :` evaluates one side only, where the other has side effects.
#[test]
fn conditional_expressions() {
    let top = "bit<8> bump(inout bit<8> x) { x = x + 1; return x; }";
    let ingress = "apply { meta.a = meta.t ? 8w1 : meta.b; meta.b = meta.t ? bump(meta.a) : 0; }";
    check_ingress(
        top,
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bool = load $meta.t
          v1: bit<8> = const 1:bit<8>
          v2: bit<8> = load $meta.b
          v3: bit<8> = select v0, v1, v2
          store $meta.a, v3
          branch v0, block1, block2
        block1:
          v4: bit<8> = const 1:bit<8>
          v5: bit<8> = add v3, v4
          store $meta.a, v5
          jump block3(v5)
        block2:
          v6: bit<8> = const 0:bit<8>
          jump block3(v6)
        block3(v7: bit<8>):
          store $meta.b, v7
          return
        }
    "#]],
    );
}

#[test]
fn shifts_concatenation_saturation() {
    let ingress =
        "apply { meta.c = meta.a ++ meta.b; meta.c = meta.c << 3; meta.a = meta.a |+| (bit<8>)meta.c[7:0] >> meta.b; }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = load $meta.b
          v2: bit<16> = concat v0, v1
          v3: bit<32> = const 3:bit<32>
          v4: bit<16> = shl v2, v3
          store $meta.c, v4
          v5: bit<8> = slice v4, 7, 0
          v6: bit<8> = add_sat v0, v5
          v7: bit<8> = shr v6, v1
          store $meta.a, v7
          return
        }
    "#]],
    );
}

/// Locals are zero at their declaration.
#[test]
fn uninitialised_locals() {
    check_ingress(
        "",
        "apply { bit<8> x; meta.a = x; tag_t t; meta.t = t.isValid(); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = const 0:bit<8>
          store $meta.a, v0
          set_invalid $ingress.t
          v1: bool = is_valid $ingress.t
          store $meta.t, v1
          return
        }
    "#]],
    );
}

#[test]
fn switch_on_a_value() {
    let ingress = "apply { switch (meta.a) { 1: 2: { meta.b = 1; } 3: { meta.b = 2; } default: { meta.b = 3; } } }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          switch v0 {
            1:bit<8> => block1
            2:bit<8> => block1
            3:bit<8> => block2
            _ => block3
          }
        block1:
          v1: bit<8> = const 1:bit<8>
          store $meta.b, v1
          return
        block2:
          v2: bit<8> = const 2:bit<8>
          store $meta.b, v2
          return
        block3:
          v3: bit<8> = const 3:bit<8>
          store $meta.b, v3
          return
        }
    "#]],
    );
}
