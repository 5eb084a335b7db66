//! Tests parsers: states, select, sub-parsers, extraction.

use super::check_parser;
use expect_test::expect;

#[test]
fn select_on_constants() {
    let states = "state start { pkt.extract(hdr.eth); transition select(hdr.eth.type) { 0x8100: tag; 0x800: accept; } }
        state tag { pkt.extract(hdr.tags[0]); transition accept; }";
    check_parser(
        "",
        states,
        expect![[r#"
        control "p" parser {
          entry block0
          state "start" block1
          state "tag" block2
        block0:
          jump block1
        block1:
          extract $hdr.eth
          v0: bit<16> = load $hdr.eth.type
          switch v0 {
            33024:bit<16> => block2
            2048:bit<16> => block3
            _ => block4
          }
        block2:
          extract $hdr.tags[0]
          return
        block3:
          return
        block4:
          v1: bool = const false
          v2: error = const 2:error // NoMatch
          verify v1, v2
          reject
        }
    "#]],
    );
}

#[test]
fn select_on_masks_ranges_and_tuples() {
    let states = "value_set<bit<16>>(4) tagged;
        state start {
            pkt.extract(hdr.eth);
            transition select(hdr.eth.type, hdr.eth.src) {
                (0x8000 &&& 0xf000, _): reject;
                (1..9, 3): accept;
                (tagged, _): accept;
                default: start;
            }
        }";
    check_parser(
        "",
        states,
        expect![[r#"
        control "p" parser {
          entry block0
          state "start" block1
        block0:
          jump block1
        block1:
          extract $hdr.eth
          v0: bit<16> = load $hdr.eth.type
          v1: bit<48> = load $hdr.eth.src
          v2: bit<16> = const 61440:bit<16>
          v3: bit<16> = and v0, v2
          v4: bit<16> = const 32768:bit<16>
          v5: bool = eq v3, v4
          branch v5, block3, block4
        block2:
          return
        block3:
          reject
        block4:
          v6: bit<16> = const 1:bit<16>
          v7: bit<16> = const 9:bit<16>
          v8: bool = ge v0, v6
          v9: bool = le v0, v7
          v10: bool = and v8, v9
          v11: bit<48> = const 3:bit<48>
          v12: bool = eq v1, v11
          v13: bool = and v10, v12
          branch v13, block2, block5
        block5:
          v14: bool = in_value_set $p.tagged (v0)
          branch v14, block2, block1
        }
    "#]],
    );
}

/// `.next` counts, and rejects when the stack is full; the loop is not unrolled.
#[test]
fn stack_next() {
    let states = "state start { pkt.extract(hdr.tags.next); transition select(hdr.tags.last.pcp) { 0: start; default: accept; } }";
    check_parser(
        "",
        states,
        expect![[r#"
        control "p" parser {
          entry block0
          state "start" block1
        block0:
          jump block1
        block1:
          v0: bit<32> = load $hdr.tags.nextIndex
          v1: bit<32> = const 3:bit<32>
          v2: bool = lt v0, v1
          v3: error = const 3:error // StackOutOfBounds
          verify v2, v3
          switch v0 {
            0:bit<32> => block3
            1:bit<32> => block4
            2:bit<32> => block5
            _ => block6
          }
        block2:
          return
        block3:
          extract $hdr.tags[0]
          v4: bit<32> = const 1:bit<32>
          store $hdr.tags.nextIndex, v4
          jump block7
        block4:
          extract $hdr.tags[1]
          v5: bit<32> = const 2:bit<32>
          store $hdr.tags.nextIndex, v5
          jump block7
        block5:
          extract $hdr.tags[2]
          v6: bit<32> = const 3:bit<32>
          store $hdr.tags.nextIndex, v6
          jump block7
        block6:
          reject
        block7:
          v7: bit<32> = load $hdr.tags.nextIndex
          v8: bit<32> = const 4:bit<32>
          v9: bool = lt v7, v8
          v10: bit<32> = const 1:bit<32>
          v11: bool = ge v7, v10
          v12: bool = and v9, v11
          v13: error = const 3:error // StackOutOfBounds
          verify v12, v13
          v14: bit<32> = const 1:bit<32>
          v15: bit<32> = sub v7, v14
          v16: bit<3> = const 0:bit<3>
          v17: bit<32> = const 0:bit<32>
          v18: bool = eq v15, v17
          v19: bit<3> = load $hdr.tags[0].pcp
          v20: bit<3> = select v18, v19, v16
          v21: bit<32> = const 1:bit<32>
          v22: bool = eq v15, v21
          v23: bit<3> = load $hdr.tags[1].pcp
          v24: bit<3> = select v22, v23, v20
          v25: bit<32> = const 2:bit<32>
          v26: bool = eq v15, v25
          v27: bit<3> = load $hdr.tags[2].pcp
          v28: bit<3> = select v26, v27, v24
          switch v28 {
            0:bit<3> => block1
            _ => block2
          }
        }
    "#]],
    );
}

#[test]
fn sub_parser() {
    let top = "parser sub(packet_in b, out tag_t t, in bit<8> n) {
            bit<8> m = n;
            state start { transition select(m) { 1: more; default: accept; } }
            state more { b.extract(t); transition accept; }
        }";
    let states = "sub() s; state start { s.apply(pkt, hdr.tags[1], meta.a); transition done; } state done { meta.a = 2; transition accept; }";
    check_parser(
        top,
        states,
        expect![[r#"
        control "p" parser {
          entry block0
          state "start" block1
          state "done" block2
          state "s.start" block3
          state "s.more" block4
        block0:
          jump block1
        block1:
          set_invalid $hdr.tags[1]
          v0: bit<8> = load $meta.a
          jump block3
        block2:
          v1: bit<8> = const 2:bit<8>
          store $meta.a, v1
          return
        block3:
          switch v0 {
            1:bit<8> => block4
            _ => block2
          }
        block4:
          extract $hdr.tags[1]
          jump block2
        }
    "#]],
    );
}

#[test]
fn varbit_lookahead_verify_advance() {
    let states = "state start {
            tag_t t = pkt.lookahead<tag_t>();
            verify(t.pcp != 0, error.NoMatch);
            pkt.extract(hdr.opt, (bit<32>)t.vid);
            pkt.advance(8);
            pkt.extract<eth_t>(_);
            meta.n = pkt.length();
            transition accept;
        }";
    check_parser(
        "",
        states,
        expect![[r#"
        control "p" parser {
          entry block0
          state "start" block1
        block0:
          jump block1
        block1:
          v0: bit<16> = lookahead bit<16>
          v1: bit<3> = slice v0, 15, 13
          v2: bit<13> = slice v0, 12, 0
          set_valid $p.t
          store $p.t.pcp, v1
          store $p.t.vid, v2
          v3: bit<3> = const 0:bit<3>
          v4: bool = eq v1, v3
          v5: bool = logical_not v4
          v6: error = const 2:error // NoMatch
          verify v5, v6
          v7: bit<32> = cast bit<32>, v2
          extract_varbit $hdr.opt, v7
          v8: bit<32> = const 8:bit<32>
          advance v8
          extract $p.skipped
          v9: bit<32> = packet_length
          store $meta.n, v9
          return
        }
    "#]],
    );
}

#[test]
fn union_members() {
    let states =
        "state start { pkt.extract(hdr.either.tag); transition select(hdr.either.isValid()) { true: accept; } }";
    check_parser(
        "",
        states,
        expect![[r#"
        control "p" parser {
          entry block0
          state "start" block1
        block0:
          jump block1
        block1:
          extract $hdr.either.tag
          v0: bool = is_valid $hdr.either.eth
          v1: bool = is_valid $hdr.either.tag
          v2: bool = or v0, v1
          switch v2 {
            true => block2
            _ => block3
          }
        block2:
          return
        block3:
          v3: bool = const false
          v4: error = const 2:error // NoMatch
          verify v3, v4
          reject
        }
    "#]],
    );
}
