//! Tests loops, which are cycles of blocks except over the elements of a value.

use super::check_ingress;
use expect_test::expect;

#[test]
fn for_loop_with_break_and_continue() {
    let ingress = "apply {
        for (bit<8> i = 0; i < 5; i = i + 1) {
            if (i == meta.a) { continue; }
            if (i == meta.b) { break; }
            meta.c = meta.c + 1;
        }
    }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = const 0:bit<8>
          store $ingress.i, v0
          jump block1
        block1:
          v1: bit<8> = load $ingress.i
          v2: bit<8> = const 5:bit<8>
          v3: bool = lt v1, v2
          branch v3, block2, block4
        block2:
          v4: bit<8> = load $meta.a
          v5: bool = eq v1, v4
          branch v5, block3, block5
        block3:
          v6: bit<8> = load $ingress.i
          v7: bit<8> = const 1:bit<8>
          v8: bit<8> = add v6, v7
          store $ingress.i, v8
          jump block1
        block4:
          return
        block5:
          v9: bit<8> = load $meta.b
          v10: bool = eq v1, v9
          branch v10, block4, block6
        block6:
          v11: bit<16> = load $meta.c
          v12: bit<16> = const 1:bit<16>
          v13: bit<16> = add v11, v12
          store $meta.c, v13
          jump block3
        }
    "#]],
    );
}

/// The last value of the range is reached without stepping beyond it.
#[test]
fn for_in_range() {
    check_ingress(
        "",
        "apply { for (bit<8> i in 250..255) { meta.a = meta.a + i; } }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = const 250:bit<8>
          v1: bit<8> = const 255:bit<8>
          jump block1(v0)
        block1(v2: bit<8>):
          v3: bool = le v2, v1
          branch v3, block2, block4
        block2:
          v4: bit<8> = load $meta.a
          v5: bit<8> = add v4, v2
          store $meta.a, v5
          v6: bool = eq v2, v1
          branch v6, block4, block3
        block3:
          v7: bit<8> = const 1:bit<8>
          v8: bit<8> = add v2, v7
          jump block1(v8)
        block4:
          return
        }
    "#]],
    );
}

#[test]
fn for_in_stack() {
    check_ingress(
        "",
        "apply { for (tag_t t in hdr.tags) { if (t.isValid()) { meta.a = meta.a + 1; } } }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          copy_header $ingress.tmp[0], $hdr.tags[0]
          copy_header $ingress.tmp[1], $hdr.tags[1]
          copy_header $ingress.tmp[2], $hdr.tags[2]
          v0: bit<32> = load $hdr.tags.nextIndex
          store $ingress.tmp.nextIndex, v0
          set_invalid $ingress.t
          copy_header $ingress.t, $ingress.tmp[0]
          v1: bool = is_valid $ingress.t
          branch v1, block3, block2
        block1:
          return
        block2:
          set_invalid $ingress.t
          copy_header $ingress.t, $ingress.tmp[1]
          v2: bool = is_valid $ingress.t
          branch v2, block5, block4
        block3:
          v3: bit<8> = load $meta.a
          v4: bit<8> = const 1:bit<8>
          v5: bit<8> = add v3, v4
          store $meta.a, v5
          jump block2
        block4:
          set_invalid $ingress.t
          copy_header $ingress.t, $ingress.tmp[2]
          v6: bool = is_valid $ingress.t
          branch v6, block6, block1
        block5:
          v7: bit<8> = load $meta.a
          v8: bit<8> = const 1:bit<8>
          v9: bit<8> = add v7, v8
          store $meta.a, v9
          jump block4
        block6:
          v10: bit<8> = load $meta.a
          v11: bit<8> = const 1:bit<8>
          v12: bit<8> = add v10, v11
          store $meta.a, v12
          return
        }
    "#]],
    );
}
