//! Tests stacks: indices known only at run time, `push_front`, `pop_front`.

use super::check_ingress;
use expect_test::expect;

/// Out of range, a read returns zero and a write has no effect.
#[test]
fn dynamic_index() {
    check_ingress(
        "",
        "apply { hdr.tags[meta.a].pcp = hdr.tags[meta.b].pcp; }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = load $meta.b
          v2: bit<3> = const 0:bit<3>
          v3: bit<8> = const 0:bit<8>
          v4: bool = eq v1, v3
          v5: bit<3> = load $hdr.tags[0].pcp
          v6: bit<3> = select v4, v5, v2
          v7: bit<8> = const 1:bit<8>
          v8: bool = eq v1, v7
          v9: bit<3> = load $hdr.tags[1].pcp
          v10: bit<3> = select v8, v9, v6
          v11: bit<8> = const 2:bit<8>
          v12: bool = eq v1, v11
          v13: bit<3> = load $hdr.tags[2].pcp
          v14: bit<3> = select v12, v13, v10
          v15: bit<8> = const 0:bit<8>
          v16: bool = eq v0, v15
          v17: bit<3> = select v16, v14, v5
          store $hdr.tags[0].pcp, v17
          v18: bit<8> = const 1:bit<8>
          v19: bool = eq v0, v18
          v20: bit<3> = select v19, v14, v9
          store $hdr.tags[1].pcp, v20
          v21: bit<8> = const 2:bit<8>
          v22: bool = eq v0, v21
          v23: bit<3> = select v22, v14, v13
          store $hdr.tags[2].pcp, v23
          return
        }
    "#]],
    );
}

#[test]
fn dynamic_index_of_headers() {
    check_ingress(
        "",
        "apply { hdr.tags[meta.a] = hdr.tags[meta.b]; }",
        expect![[r#"
            control "ingress" ingress {
              entry block0
            block0:
              v0: bit<8> = load $meta.a
              v1: bit<8> = load $meta.b
              switch v1 {
                0:bit<8> => block1
                1:bit<8> => block2
                2:bit<8> => block3
                _ => block4
              }
            block1:
              copy_header $ingress.element, $hdr.tags[0]
              jump block5
            block2:
              copy_header $ingress.element, $hdr.tags[1]
              jump block5
            block3:
              copy_header $ingress.element, $hdr.tags[2]
              jump block5
            block4:
              set_invalid $ingress.element
              jump block5
            block5:
              switch v0 {
                0:bit<8> => block6
                1:bit<8> => block7
                2:bit<8> => block8
                _ => block9
              }
            block6:
              copy_header $hdr.tags[0], $ingress.element
              return
            block7:
              copy_header $hdr.tags[1], $ingress.element
              return
            block8:
              copy_header $hdr.tags[2], $ingress.element
              return
            block9:
              return
            }
        "#]],
    );
}

#[test]
fn push_and_pop() {
    check_ingress(
        "",
        "apply { hdr.tags.push_front(1); hdr.tags.pop_front(2); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          copy_header $hdr.tags[2], $hdr.tags[1]
          copy_header $hdr.tags[1], $hdr.tags[0]
          set_invalid $hdr.tags[0]
          v0: bit<32> = load $hdr.tags.nextIndex
          v1: bit<32> = const 1:bit<32>
          v2: bit<32> = add v0, v1
          v3: bit<32> = const 3:bit<32>
          v4: bool = gt v2, v3
          v5: bit<32> = select v4, v3, v2
          copy_header $hdr.tags[0], $hdr.tags[2]
          set_invalid $hdr.tags[1]
          set_invalid $hdr.tags[2]
          v6: bit<32> = const 2:bit<32>
          v7: bit<32> = sub_sat v5, v6
          store $hdr.tags.nextIndex, v7
          return
        }
    "#]],
    );
}

/// The index is evaluated before the call that changes it. The copy-out goes to the element with
/// the saved index.
#[test]
fn index_is_saved_before_the_call() {
    let top = "void f(inout bit<3> x, inout bit<8> i) { i = i + 1; x = 5; }";
    check_ingress(
        top,
        "apply { f(hdr.tags[meta.a].pcp, meta.a); }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<3> = load $hdr.tags[0].pcp
          v2: bit<3> = load $hdr.tags[1].pcp
          v3: bit<3> = load $hdr.tags[2].pcp
          v4: bit<8> = const 1:bit<8>
          v5: bit<8> = add v0, v4
          v6: bit<3> = const 5:bit<3>
          v7: bit<8> = const 0:bit<8>
          v8: bool = eq v0, v7
          v9: bit<3> = select v8, v6, v1
          store $hdr.tags[0].pcp, v9
          v10: bit<8> = const 1:bit<8>
          v11: bool = eq v0, v10
          v12: bit<3> = select v11, v6, v2
          store $hdr.tags[1].pcp, v12
          v13: bit<8> = const 2:bit<8>
          v14: bool = eq v0, v13
          v15: bit<3> = select v14, v6, v3
          store $hdr.tags[2].pcp, v15
          store $meta.a, v5
          return
        }
    "#]],
    );
}
