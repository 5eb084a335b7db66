//! Tests the text format: round trip, goldens, errors, hostile input.

use crate::generate;
use expect_test::{Expect, expect};
use ir::text::{parse, print};
use ir::*;
use proptest::prelude::*;

/// Compares the printed form. A text in this form must print unchanged.
fn check(text: &str, printed: Expect) {
    let pipeline = parse(text).unwrap_or_else(|e| panic!("{e:#?}"));
    let again = print(&pipeline);
    printed.assert_eq(&again);
    assert_eq!(parse(&again).as_ref(), Ok(&pipeline));
}

fn check_errors(text: &str, errors: Expect) {
    let found = parse(text).expect_err("the text has errors");
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    errors.assert_eq(&lines.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn printed_pipelines_parse_to_the_same(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        let pipeline = generate::pipeline(&bytes);
        let text = print(&pipeline);
        let parsed = parse(&text).map_err(|e| TestCaseError::fail(format!("{e:#?}\n{text}")))?;
        prop_assert_eq!(&parsed, &pipeline, "{}", text);
        prop_assert_eq!(print(&parsed), text);
    }

    #[test]
    fn generated_pipelines_verify(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        let pipeline = generate::pipeline(&bytes);
        let result = verify::verify_after("generation", &pipeline);
        prop_assert!(result.is_ok(), "{}\n{}", result.unwrap_err(), print(&pipeline));
    }

    #[test]
    fn any_text_is_refused_or_parsed(text in ".{0,200}") {
        let _ = parse(&text);
    }

    /// A valid text with one damaged line: any pipeline that still parses can be verified and
    /// printed.
    #[test]
    fn damaged_text_does_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        at in any::<prop::sample::Index>(),
        with in prop::sample::select(vec!["", "v0", "block9", "$x", "{", "}", "(", "bit<4>", "99", "\"", "..", "=", "enum7", "var3"]),
        cut in 0usize..12,
    ) {
        let mut text = print(&generate::pipeline(&bytes));
        let at = (0..=at.index(text.len())).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        let end = (at + cut..text.len()).find(|n| text.is_char_boundary(*n)).unwrap_or(text.len());
        text.replace_range(at..end, with);
        if let Ok(pipeline) = parse(&text) {
            let again = print(&pipeline);
            prop_assert_eq!(&parse(&again), &Ok(pipeline.clone()), "{}", again);
            if verify::verify(&pipeline).is_ok() {
                let mut pipeline = pipeline;
                let result = passes::run_passes(&mut pipeline, |_, _, _| {});
                prop_assert!(result.is_ok(), "{:?}", result);
            }
        }
    }
}

const ROUTER: &str = r#"
pipeline "router" v1model
file "router.p4"
header_type $ipv4_t {
  ttl: bit<8>
  dst: bit<32>
}
var $hdr.ipv4.ttl: bit<8> field $hdr.ipv4 0
var $hdr.ipv4.dst: bit<32> field $hdr.ipv4 1
var $standard_metadata.egress_spec: bit<9> intrinsic
header $hdr.ipv4: $ipv4_t { $hdr.ipv4.ttl .. $hdr.ipv4.dst }
intrinsic "standard_metadata.egress_spec" = $standard_metadata.egress_spec
action $NoAction()
action $ingress.forward(port: bit<9>) @0:9:3
table $ingress.routes @0:12:3 {
  key "hdr.ipv4.dst": bit<32> lpm
  action $ingress.forward
  action $NoAction default_only annotation "@defaultonly"
  default const $NoAction()
  size 1024
  entry (0x0a000000 / 8) => $ingress.forward(3) const @0:20:7
}
control "parse" parser {
  entry block0
  state "start" block0
block0:
  extract $hdr.ipv4 @0:5:5
  v0: bit<8> = load $hdr.ipv4.ttl
  v1: bit<8> = const 0:bit<8>
  v2: bool = ne v0, v1
  v3: error = const 6:error
  verify v2, v3
  return
}
control "ingress" ingress {
  entry block0
block0:
  v0: bit<32> = load $hdr.ipv4.dst
  apply $ingress.routes (v0) {
    $ingress.forward => block1
    $NoAction => block2
  } @0:30:5
block1(v1: bool, v2: bit<9>):
  store $standard_metadata.egress_spec, v2
  jump block3
block2(v3: bool):
  call mark_to_drop ()
  jump block3
block3:
  return
}
"#;

#[test]
fn a_router_reads_well() {
    check(
        ROUTER,
        expect![[r#"
        pipeline "router" v1model
        file "router.p4"
        errors { NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort, ParserTimeout, ParserInvalidArgument }
        header_type $ipv4_t {
          ttl: bit<8>
          dst: bit<32>
        }
        var $hdr.ipv4.ttl: bit<8> field $hdr.ipv4 0
        var $hdr.ipv4.dst: bit<32> field $hdr.ipv4 1
        var $standard_metadata.egress_spec: bit<9> intrinsic
        header $hdr.ipv4: $ipv4_t { $hdr.ipv4.ttl .. $hdr.ipv4.dst }
        intrinsic "standard_metadata.egress_spec" = $standard_metadata.egress_spec
        action $NoAction ()
        action $ingress.forward (port: bit<9>) @0:9:3
        table $ingress.routes @0:12:3 {
          key "hdr.ipv4.dst": bit<32> lpm
          action $ingress.forward
          action $NoAction default_only annotation "@defaultonly"
          default const $NoAction()
          size 1024
          entry (0xa000000 / 8) => $ingress.forward(3) const @0:20:7
        }
        control "parse" parser {
          entry block0
          state "start" block0
        block0:
          extract $hdr.ipv4 @0:5:5
          v0: bit<8> = load $hdr.ipv4.ttl
          v1: bit<8> = const 0:bit<8>
          v2: bool = ne v0, v1
          v3: error = const 6:error // ParserInvalidArgument
          verify v2, v3
          return
        }
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<32> = load $hdr.ipv4.dst
          apply $ingress.routes (v0) {
            $ingress.forward => block1
            $NoAction => block2
          } @0:30:5
        block1(v1: bool, v2: bit<9>):
          store $standard_metadata.egress_spec, v2
          jump block3
        block2(v3: bool):
          call mark_to_drop ()
          jump block3
        block3:
          return
        }
    "#]],
    );
}

#[test]
fn errors_name_place_and_mend() {
    check_errors("", expect!["1:1: expected `pipeline`, found the end of the text; write `pipeline` here"]);
    check_errors(
        "pipeline \"x\" v2model",
        expect!["1:14: expected the architecture, found `v2model`; it is one of v1model, pna"],
    );
    check_errors(
        "pipeline \"x\" v1model\nvar $a: bit<8> metadata\nvar $b: bits<8> meta\nheader $h: $nope { }\nfrob\nvar $c: bit<99999999999> meta\n",
        expect![[r#"
            2:16: `metadata` is no kind of variable; it is one of field, meta, intrinsic, local, next_index
            3:9: expected a type, found `bits`; write a type here
            4:12: no header_type is called `$nope`; declare it: `header_type $nope ...`
            5:1: `frob` declares nothing; start the line with var, header, table, control, ...
            6:13: the number is too great; it has to fit 32 bits"#]],
    );
    check_errors(
        "pipeline \"x\" pna\ncontrol \"c\" main_control {\n  entry block0\nblock0:\n  v0: bit<8> = const 5\n  v1: bit<8> = frob v0\n  switch v0 {\n    1:bit<8> -> block1\n    _ => block0\n  }\n  v9: bool = const true\n  return\n  return\nblock7:\n}\nvar $late meta\n",
        expect![[r#"
            6:3: expected `:`, found `v1`; write `:` here
            6:16: `frob` is no instruction; the instructions are listed in docs/reference/ir.md
            8:14: expected `=>`, found `-`; write `=>` here
            13:3: an instruction after the block's end; start the next block before it
            14:1: found block7, expected block1; number blocks in order
            16:11: expected `:`, found `meta`; write `:` here"#]],
    );
    check_errors(
        "pipeline \"x\" pna\nfile \"no end\n",
        expect![[r#"2:6: the string has no end; close it with `"` on the same line; a line end is `\n`"#]],
    );
    check_errors(
        "pipeline \"x\" pna\nfile \"\\u{d800}\"\n",
        expect![[r#"2:6: this `\u` escape is no character; write `\u{hex digits}`"#]],
    );
    check_errors(
        "pipeline \"x\" pna\ncontrol \"c\" main_control {\n  entry none\n  unused v3: bool\n}\n",
        expect![
            "2:9: v0 is not defined in this control; values are numbered from v0 without gaps; `unused v0: bool` keeps a number"
        ],
    );
    check_errors(
        "pipeline \"x\" pna\nvar $a: bit<1> meta\nvar $a: bit<1> meta\nintrinsic \"i\" = $a\n",
        expect!["4:17: more than one var is called `$a`; say which: `var0`, `var1`, ..."],
    );
}

#[test]
fn deep_and_long_texts_are_bounded() {
    let deep = format!("pipeline \"x\" pna\ntype \"t\" new_type {}", "tuple(".repeat(100_000));
    assert!(parse(&deep).is_err());
    let long = format!("pipeline \"x\" pna\nannotation \"{}", "9".repeat(1 << 24));
    assert!(parse(&long).is_err());
    let number = format!("pipeline \"x\" pna\nfield_list {} {{ }}", "9".repeat(30_000));
    assert!(parse(&number).is_err());
    let ranges = format!(
        "pipeline \"x\" pna\nheader_type $t {{\n}}\n{}{}",
        (0..2000).map(|n| format!("var $v{n}: bool meta\n")).collect::<String>(),
        (0..2000).map(|n| format!("header $h{n}: $t {{ var0 .. var1999 }}\n")).collect::<String>(),
    );
    assert!(parse(&ranges).is_err());
}

#[test]
fn equal_names_are_told_apart_by_number() {
    let mut p = Pipeline::new("twice", Arch::Pna);
    for ty in [Type::Bit(1), Type::Bit(2)] {
        let var = p.add_var("same", ty, VarKind::Meta, SourceLoc::default());
        p.intrinsics.insert(format!("{ty:?}"), var);
    }
    let text = print(&p);
    assert!(text.contains("\"Bit(2)\" = var1"), "{text}");
    assert_eq!(parse(&text), Ok(p));
}

/// Optional parts belong to their line, also if the next declaration starts with the same word.
#[test]
fn a_declaration_is_not_taken_for_a_part_of_the_line_before() {
    let mut p = Pipeline::new("lines", Arch::Pna);
    let ty = p.header_types.push(HeaderType { name: "h_t".into(), fields: Vec::new() });
    let member = p.add_header("u.h", ty, false, SourceLoc::default());
    p.add_header("last", ty, false, SourceLoc::default());
    p.add_union("u", vec![member]);
    p.actions.push(Action { preamble: Preamble::default(), params: Vec::new(), loc: SourceLoc::default() });
    assert_eq!(parse(&print(&p)), Ok(p));
}
