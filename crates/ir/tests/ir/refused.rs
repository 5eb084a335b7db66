//! Pipelines that break a rule, each with the verifier's message for that rule.

use ir::text::parse;
use ir::verify::verify;
use ir::*;

/// Common first lines of the texts below.
const HEAD: &str = r#"pipeline "p" v1model
enum $E { A, B }
header_type $h_t {
  f: bit<8>
}
header_type $v_t {
  f: bit<8>
  options: varbit<32>
}
var $hdr.h.f: bit<8> field $hdr.h 0
var $hdr.v.f: bit<8> field $hdr.v 0
var $hdr.v.options: varbit<32> field $hdr.v 1
var $meta.m: bit<8> meta
header $hdr.h: $h_t { $hdr.h.f }
header $hdr.v: $v_t { $hdr.v.f, $hdr.v.options }
action $a (p: bit<8>)
action $b ()
extern $c: counter size 4 unit packets
extern $r: register size 4 elem (bit<8>) initial () data bit<8>
extern $d: direct_counter unit bytes
value_set $s size 4 {
  key "k": bit<8> exact
}
table $t {
  key "k": bit<8> ternary
  action $a
  action $b
  default $b()
}
"#;

/// Asserts that the verifier rejects a text after [`HEAD`] with exactly this message.
fn refused(text: &str, message: &str) {
    let pipeline = parse(&format!("{HEAD}{text}")).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
    refused_pipeline(&pipeline, &[message]);
}

fn refused_pipeline(pipeline: &Pipeline, messages: &[&str]) {
    let faults = verify(pipeline).expect_err("the pipeline breaks a rule");
    let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(found, messages);
}

/// Asserts that the verifier rejects a body of the ingress control.
fn body(text: &str, message: &str) {
    let text = format!("control \"c\" ingress {{\n  entry block0\nblock0:\n{text}}}\n");
    refused(&text, &format!("control `c`, {message}"));
}

/// Asserts that the verifier rejects a body of the parser.
fn parser(text: &str, message: &str) {
    let text = format!("control \"c\" parser {{\n  entry block0\nblock0:\n{text}}}\n");
    refused(&text, &format!("control `c`, {message}"));
}

#[test]
fn the_base_is_valid() {
    assert_eq!(parse(HEAD).map(|p| verify(&p)), Ok(Ok(())));
}

#[test]
fn names() {
    refused("var $meta.m: bit<1> meta\n", "var meta.m: the name is taken by another var");
    refused("enum $E { A }\n", "enum E: the name is taken by another enum");
    refused("enum $F { A, A }\n", "member A: the name is taken by another member");
    refused("extern $c: counter size 9 unit bytes\n", "extern c: the name is taken by another extern of its kind");
    refused("errors { Mine }\n", "errors : the first error is not NoError");
    refused("errors { NoError, X, X }\n", "error X: the name is taken by another error");
    refused("type \"T\" enum { }\ntype \"T\" enum { }\n", "type T: the name is taken by another type");
}

#[test]
fn types() {
    refused("var $wide: bit<65537> meta\n", "var wide: width 65537 is over the limit of 65536 bits");
    refused("var $odd: enum7 meta\n", "var odd: there is no enum7");
    refused(
        "header_type $x {\n  e: error\n}\n",
        "header_type x: field e has type Error, which is not a type that packets contain",
    );
    refused(
        "header_type $x {\n  a: varbit<8>\n  b: varbit<8>\n}\n",
        "header_type x: a header type has more than one varbit field",
    );
    refused(
        "extern $q: register size 1 elem (bit<8>) initial (300:bit<8>) data bit<8>\n",
        "extern q: the constant does not fit its type Bit(8)",
    );
    refused("extern $q: random 0:bit<8> 1:bit<9>\n", "extern q: the upper bound has type Bit(9), not Bit(8)");
}

#[test]
fn headers_and_their_variables() {
    refused(
        "var $x: bit<8> field $hdr.h 1\n",
        "var x: hdr.h is not linked back: field 1 of the header is another variable",
    );
    refused(
        "header $x: $h_t { $meta.m }\n",
        "header x: field 0 of the header is a variable that does not link back to it",
    );
    refused("header $x: $h_t { }\n", "header x: fields: 0 where 1 are needed");
    refused("header $x: hty9 { }\n", "header x: there is no hty9");
    refused("union $u { $hdr.h }\n", "union u: hdr.h does not refer back to this union");
    refused(
        "var $n: bit<16> next_index $x\nstack $x next $n { $hdr.h }\n",
        "stack x: the next index has type Bit(16), not Bit(32)",
    );
    refused(
        "var $n: bit<32> next_index $x\nstack $x next $n { $hdr.h, $hdr.v }\n",
        "stack x: hdr.v is not of the type of the stack's first element",
    );
    refused("intrinsic \"i\" = var99\n", "intrinsic i: there is no var99");
    refused("field_list 1 { var99 }\n", "field_list 1: there is no var99");
}

/// Asserts that the verifier rejects a table `$x` with these lines.
fn table(lines: &str, message: &str) {
    refused(&format!("table $x {{\n{lines}}}\n"), &format!("table x: {message}"));
}

#[test]
fn tables() {
    table("  action $a\n  default $b()\n", "b is not an action of the table");
    table("  action $a\n  default $a()\n", "arguments of a: 0 where 1 are needed");
    table("  action $a\n  default $a(256)\n", "the argument for p does not fit its type Bit(8)");
    table("  action $b\n  action $b\n  default $b()\n", "action1 is listed twice");
    table("  action $b table_only\n  default $b()\n", "the default action is @tableonly");
    table(
        "  action $b\n  action $a table_only default_only\n  default $b()\n",
        "an action is both @tableonly and @defaultonly",
    );
    table(
        "  key \"k\": varbit<8> exact\n  action $b\n  default $b()\n",
        "a key has type Varbit(8), which is not of fixed width",
    );
    table(
        "  key \"k\": bit<8> lpm\n  key \"l\": bit<8> lpm\n  action $b\n  default $b()\n",
        "more than one key is lpm",
    );
    table("  action $b\n  default $b()\n  implementation $c\n", "extern0 is not an action profile or selector");
    table("  action $b\n  default $b()\n  direct_counter $c\n", "extern0 is not a direct counter");
    table("  action $b\n  default $b()\n  direct_meter extern9\n", "there is no extern9");
    refused(
        "table $x {\n  action $b\n  default $b()\n  direct_counter $d\n}\ntable $y {\n  action $b\n  default $b()\n  direct_counter $d\n}\n",
        "extern d: extern2 is attached to more than one table",
    );
}

#[test]
fn entries() {
    let entry = |kind: &str, entry: &str, message: &str| {
        table(&format!("  key \"k\": bit<8> {kind}\n  action $b\n  default $b()\n  entry {entry}\n"), message);
    };
    entry("exact", "() => $b()", "keys of entry 0: 0 where 1 are needed");
    entry("exact", "(1 &&& 1) => $b()", "entry 0, key 0: the match is not of the key's kind");
    entry("exact", "(256) => $b()", "entry 0, key 0: a value is wider than the key");
    entry("exact", "(1) => $b() priority 3", "entry 0 has a priority, but the table's keys need none");
    entry("exact", "(1) => $a(1)", "a is not an action of the table");
    entry("ternary", "(3 &&& 1) => $b()", "entry 0, key 0: the value has bits outside the mask");
    entry("lpm", "(1 / 4) => $b()", "entry 0, key 0: the value has bits after its prefix");
    entry("lpm", "(0 / 9) => $b()", "entry 0, key 0: the prefix is longer than the key");
    entry("range", "(5 .. 4) => $b()", "entry 0, key 0: the range is empty");
    table(
        "  key \"k\": bit<8> exact\n  action $b default_only\n  default $b()\n  entry (1) => $b()\n",
        "b is @defaultonly, but an entry has it",
    );
}

#[test]
fn control_flow() {
    body("  v0: bool = const true\n", "block0: the block has no terminator");
    body("  jump block7\n", "block0: there is no block7");
    body(
        "  v0: bool = const true\n  jump block1(v0)\nblock1:\n  return\n",
        "block0: arguments for block1: 1 where 0 are needed",
    );
    body(
        "  v0: bool = const true\n  jump block1(v0)\nblock1(v1: bit<1>):\n  return\n",
        "block0: v0 has type Bool, not Bit(1)",
    );
    body(
        "  v0: bit<1> = const 1:bit<1>\n  branch v0, block1, block1\nblock1:\n  return\n",
        "block0: v0 has type Bit(1), not Bool",
    );
    body(
        "  v0: bit<8> = const 1:bit<8>\n  switch v0 {\n    1:bit<8> => block1\n    1:bit<8> => block1\n    _ => block1\n  }\nblock1:\n  return\n",
        "block0: two cases have the constant 1",
    );
    body(
        "  v0: bit<8> = const 1:bit<8>\n  switch v0 {\n    1:bit<9> => block1\n    _ => block1\n  }\nblock1:\n  return\n",
        "block0: a case has type Bit(9), not Bit(8)",
    );
    body("  reject\n", "block0: reject is only for parsers");
    parser("  exit\n", "block0: exit is only for controls");
    refused(
        "control \"c\" ingress {\n  entry none\nblock0:\n  return\n}\n",
        "control `c`: there are blocks but no entry",
    );
    refused("control \"c\" ingress {\n  entry block3\n}\n", "control `c`: there is no block3");
    refused(
        "control \"c\" ingress {\n  entry block0\nblock0(v0: bool):\n  return\n}\n",
        "control `c`: the entry block must not have parameters",
    );
    refused(
        "control \"c\" ingress {\n  entry block0\n  state \"start\" block0\nblock0:\n  return\n}\n",
        "control `c`: a state is only for parsers",
    );
    refused(
        "control \"c\" main_control {\n  entry none\n}\n",
        "control `c`: the control's role does not exist in this architecture",
    );
    refused(
        "control \"c\" egress {\n  entry none\n}\ncontrol \"d\" ingress {\n  entry none\n}\n",
        "control `d`: the controls are not in the order of the architecture, each at most once",
    );
}

#[test]
fn values() {
    body(
        "  store $meta.m, v0\n  v0: bit<8> = const 1:bit<8>\n  return\n",
        "block0, instruction 0: v0 is used where its definition may not have run",
    );
    body("  store $meta.m, v0\n  return\n  unused v0: bit<8>\n", "block0, instruction 0: v0 is used but never defined");
    body("  store $meta.m, v7\n  return\n", "block0, instruction 0: there is no v7");
    body(
        "  v0: bool = const true\n  branch v0, block1, block2\nblock1:\n  v1: bit<8> = const 1:bit<8>\n  jump block2\nblock2:\n  store $meta.m, v1\n  return\n",
        "block2, instruction 0: v1 is used where its definition may not have run",
    );
    body("  v0: bool = const true\n  v0: bool = const false\n  return\n", "block0: the value is defined twice: v0");
    body(
        "  v0: bit<8> = const 256:bit<8>\n  return\n",
        "block0, instruction 0: the constant does not fit its type Bit(8)",
    );
    body("  v0: $E = const 2:$E\n  return\n", "block0, instruction 0: the constant does not fit its type Enum(enum0)");
    body("  v0: error = const 7:error\n  return\n", "block0, instruction 0: the constant does not fit its type Error");
    body("  v0: bit<9> = load $meta.m\n  return\n", "block0, instruction 0: result v0 has type Bit(9), not Bit(8)");
    body("  load $meta.m\n  return\n", "block0, instruction 0: results: 0 where 1 are needed");
    body("  v0: bit<8> = load var99\n  return\n", "block0, instruction 0: there is no var99");
}

/// Asserts that the verifier rejects a line after `v0: bit<8>`, `v1: bool`, `v2: int<4>`.
fn inst(line: &str, message: &str) {
    let text = format!(
        "  v0: bit<8> = load $meta.m\n  v1: bool = const true\n  v2: int<4> = const 1:int<4>\n  {line}\n  return\n"
    );
    body(&text, &format!("block0, instruction 3: {message}"));
}

#[test]
fn instructions() {
    inst("v3: bit<8> = add v0, v2", "v2 has type Int(4), not Bit(8)");
    inst("v3: bool = neg v1", "neg is not defined on Bool");
    inst("v3: bit<8> = logical_not v0", "logical_not is not defined on Bit(8)");
    inst("v3: bit<8> = shl v0, v2", "the shift amount v2 has type Int(4), which is not bit<N>");
    inst("v3: bool = lt v1, v1", "the operation is not defined on Bool");
    inst("v3: bit<4> = slice v0, 8, 5", "bits 8..=5 are not within Bit(8)");
    inst("v3: bit<9> = concat v0, v1", "concat is not defined on Bool");
    inst("v3: bit<8> = select v0, v0, v0", "v0 has type Bit(8), not Bool");
    inst("v3: varbit<8> = cast varbit<8>, v0", "a cast from Bit(8) to Varbit(8) is not defined");
    inst("store $meta.m, v1", "v1 has type Bool, not Bit(8)");
    inst("store var99, v1", "there is no var99");
    inst("v3: bool = is_valid hdr9", "there is no hdr9");
    inst("copy_header $hdr.h, $hdr.v", "header hdr.v is not of the type that it is copied to");
    inst("emit $hdr.h", "emit is only for deparsers");
    inst("extract $hdr.h", "extract is only for parsers");
    inst("v3: bit<32> = packet_length", "packet_length is only for parsers");
    inst("v3: bool = in_value_set $s (v0)", "in_value_set is only for parsers");
}

#[test]
fn parsers() {
    parser("  extract $hdr.v\n  return\n", "block0, instruction 0: the header has a varbit field and needs a length");
    parser(
        "  v0: bit<32> = const 8:bit<32>\n  extract_varbit $hdr.h, v0\n  return\n",
        "block0, instruction 1: the header has no varbit field for the given length",
    );
    parser(
        "  v0: bit<8> = const 8:bit<8>\n  advance v0\n  return\n",
        "block0, instruction 1: v0 has type Bit(8), not Bit(32)",
    );
    parser(
        "  v0: error = lookahead error\n  return\n",
        "block0, instruction 0: the lookahead has type Error, which is not a type of fixed width that packets contain",
    );
    parser(
        "  v0: bit<9> = const 8:bit<9>\n  v1: bool = in_value_set $s (v0)\n  return\n",
        "block0, instruction 1: v0 has type Bit(9), not Bit(8)",
    );
    parser(
        "  v0: bit<8> = const 8:bit<8>\n  apply $t (v0) {\n    $a => block1\n    $b => block2\n  }\nblock1(v1: bool, v2: bit<8>):\n  return\nblock2(v3: bool):\n  return\n",
        "block0: a table application is only for controls",
    );
}

#[test]
fn table_applications() {
    let apply = |apply: &str, message: &str| {
        let text = format!(
            "  v0: bit<8> = load $meta.m\n  v3: bool = const true\n  {apply}\nblock1(v1: bool, v2: bit<8>):\n  return\nblock2(v4: bool):\n  return\n"
        );
        body(&text, &format!("block0: {message}"));
    };
    apply("apply $t (v0) {\n    $a => block1\n  }", "the table has no arm for action1 b");
    apply("apply $t () {\n    $a => block1\n    $b => block2\n  }", "keys: 0 where 1 are needed");
    apply("apply $t (v3) {\n    $a => block1\n    $b => block2\n  }", "v3 has type Bool, not Bit(8)");
    apply(
        "apply $t (v0) {\n    $a => block2\n    $b => block2\n  }",
        "parameters of block2, which is the arm of action0: 1 where 2 are needed",
    );
    apply(
        "apply $t (v0) {\n    $a => block1\n    $b => block2\n    $b => block2\n  }",
        "the arm of action1 is listed twice",
    );
    apply("apply table9 (v0) {\n  }", "there is no table9");
}

#[test]
fn extern_calls() {
    inst("call counter.count (v0)", "`counter.count` is called without its counter");
    inst("call counter.count $r (v0)", "`counter.count` is a method of a counter, not of a register");
    inst("call counter.count $c ()", "`counter.count` takes (value) or (value, value), not ()");
    inst("call mark_to_drop $c ()", "`mark_to_drop` is no method, but has an object");
    inst("call drop_packet ()", "`drop_packet` is only for PNA");
    inst("call register.write $r (v0, (v1))", "v1 has type Bool, not Bit(8)");
    inst("call register.write $r (v0, ())", "leaves of the register: 0 where 1 are needed");
    inst("v3: bool = call register.read $r (v0)", "result v3 has type Bool, not Bit(8)");
    inst("call assert (v0, \"x\")", "v0 has type Bit(8), not Bool");
    inst("call recirculate (vars (var99))", "there is no var99");
    inst("call direct_counter.count $d (table table9)", "there is no table9");
}

#[test]
fn faults_are_bounded() {
    let mut p = Pipeline::new("many", Arch::Pna);
    for _ in 0..1000 {
        p.add_var("same", Type::Bit(1), VarKind::Meta, SourceLoc::default());
    }
    assert_eq!(verify(&p).expect_err("equal names").len(), 100);
}
