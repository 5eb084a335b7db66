//! Tests tables: declarations, entries, application.

use super::{check_declarations, check_ingress, v1model};
use expect_test::expect;

const TABLE: &str = "
    action set(bit<8> v) { meta.a = v; }
    action twice(inout bit<8> x, bit<8> by) { x = x + by; }
    @id(77) @brief(\"A table\") table t {
        key = { hdr.eth.isValid(): exact; hdr.eth.dst[15:0]: ternary; meta.a + 1: lpm @name(\"sum\"); hdr.tags[1].vid: range; }
        actions = { set; twice(meta.b); @defaultonly NoAction; }
        default_action = NoAction();
        const entries = {
            (true, 0x1200 &&& 0xff00, 8w0x80 &&& 0xc0, 1..5): set(1);
            (false, _, _, _): twice(meta.b, 2);
        }
        size = 64;
    }";

#[test]
fn declaration() {
    let source = v1model("", &format!("{TABLE} apply {{ t.apply(); }}"));
    check_declarations(
        &source,
        &["table", "action"],
        expect![[r#"
        action $ingress.set (v: bit<8>)
        action $ingress.twice (by: bit<8>)
        action $NoAction () annotation "@noWarn(\"unused\")"
        table $ingress.t id 77 brief "A table" {
          key "hdr.eth.$valid$": bool exact
          key "hdr.eth.dst[15:0]": bit<16> ternary
          key "sum": bit<8> lpm
          key "hdr.tags[1].vid": bit<13> range
          action $ingress.set
          action $ingress.twice
          action $NoAction default_only
          default $NoAction()
          size 64
          const_entries
          entry (1, 4608 &&& 65280, 128 / 2, 1 .. 5) => $ingress.set(1) priority 2 const
          entry (0, 0 &&& 0, 0 / 0, 0 .. 8191) => $ingress.twice(2) priority 1 const
        }
    "#]],
    );
}

#[test]
fn application() {
    check_ingress(
        "",
        &format!("{TABLE} apply {{ t.apply(); meta.b = 1; }}"),
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bool = is_valid $hdr.eth
          v1: bit<48> = load $hdr.eth.dst
          v2: bit<16> = slice v1, 15, 0
          v3: bit<8> = load $meta.a
          v4: bit<8> = const 1:bit<8>
          v5: bit<8> = add v3, v4
          v6: bit<13> = load $hdr.tags[1].vid
          apply $ingress.t (v0, v2, v5, v6) {
            $ingress.set => block1
            $ingress.twice => block2
            $NoAction => block3
          }
        block1(v7: bool, v8: bit<8>):
          store $meta.a, v8
          jump block4
        block2(v9: bool, v10: bit<8>):
          v11: bit<8> = load $meta.b
          v12: bit<8> = add v11, v10
          store $meta.b, v12
          jump block4
        block3(v13: bool):
          jump block4
        block4:
          v14: bit<8> = const 1:bit<8>
          store $meta.b, v14
          return
        }
    "#]],
    );
}

#[test]
fn hit_in_an_expression() {
    let ingress = "action a() {} table t { key = { meta.a: exact; } actions = { a; NoAction; } }
        apply { if (meta.t && t.apply().hit) { meta.b = 1; } }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bool = load $meta.t
          branch v0, block1, block2(v0)
        block1:
          v1: bit<8> = load $meta.a
          apply $ingress.t (v1) {
            $ingress.a => block4
            $NoAction => block5
          }
        block2(v2: bool):
          branch v2, block6, block7
        block3(v3: bool):
          jump block2(v3)
        block4(v4: bool):
          jump block3(v4)
        block5(v5: bool):
          jump block3(v5)
        block6:
          v6: bit<8> = const 1:bit<8>
          store $meta.b, v6
          return
        block7:
          return
        }
    "#]],
    );
}

#[test]
fn switch_on_the_action() {
    let ingress =
        "action a() {} action b() { exit; } table t { key = { meta.a: exact; } actions = { a; b; NoAction; } }
        apply { switch (t.apply().action_run) { a: { meta.b = 1; } default: { meta.b = 2; } } }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          apply $ingress.t (v0) {
            $ingress.a => block1
            $ingress.b => block2
            $NoAction => block3
          }
        block1(v1: bool):
          v2: bit<8> = const 1:bit<8>
          store $meta.b, v2
          return
        block2(v3: bool):
          exit
        block3(v4: bool):
          v5: bit<8> = const 2:bit<8>
          store $meta.b, v5
          return
        }
    "#]],
    );
}

/// Declared priorities, of which the smallest wins, are converted so that the largest wins.
#[test]
fn priorities() {
    let ingress = "action a() {} table t {
            key = { meta.a: ternary; }
            actions = { a; }
            default_action = a();
            largest_priority_wins = false;
            priority_delta = 10;
            entries = { const priority = 10: 1: a(); 2: a(); priority = 5: _: a(); }
        }
        apply { t.apply(); }";
    check_declarations(
        &v1model("", ingress),
        &["table"],
        expect![[r#"
        table $ingress.t {
          key "meta.a": bit<8> ternary
          action $ingress.a
          default $ingress.a()
          property "largest_priority_wins" "false"
          property "priority_delta" "10"
          entry (1 &&& 255) => $ingress.a() priority 15 const
          entry (2 &&& 255) => $ingress.a() priority 5
          entry (0 &&& 0) => $ingress.a() priority 20
        }
    "#]],
    );
}

/// Tests names: `@name`, absolute names, instances, global actions.
#[test]
fn control_plane_names() {
    let top = "action global() {}
        control sub(inout meta_t meta) {
            @name(\"other\") action a() {}
            table t { key = { meta.a: exact; } actions = { a; global; } default_action = a(); }
            apply { t.apply(); }
        }";
    let ingress = "@name(\".absolute\") action b() {}
        @name(\".over.there\") table t { key = { meta.a: exact; } actions = { b; NoAction; } }
        sub() one; @name(\"deux\") sub() two;
        apply { t.apply(); one.apply(meta); two.apply(meta); }";
    let source = v1model(top, ingress);
    check_declarations(
        &source,
        &["table", "action"],
        expect![[r#"
        action $absolute ()
        action $NoAction () annotation "@noWarn(\"unused\")"
        action $ingress.one.other ()
        action $global ()
        action $ingress.deux.other ()
        table $over.there {
          key "meta.a": bit<8> exact
          action $absolute
          action $NoAction
          default $NoAction()
        }
        table $ingress.one.t {
          key "meta.a": bit<8> exact
          action $ingress.one.other
          action $global
          default $ingress.one.other()
        }
        table $ingress.deux.t {
          key "meta.a": bit<8> exact
          action $ingress.deux.other
          action $global
          default $ingress.deux.other()
        }
    "#]],
    );
}

/// Returns a program with a table key of a translated type with this mapping.
fn with_mapping(mapping: &str) -> String {
    let top =
        format!("@p4runtime_translation(\"\", string) @p4runtime_translation_mappings({mapping}) type bit<10> vrf_t;");
    let table =
        "vrf_t vrf = (vrf_t)10w1; table t { key = { vrf: exact; } actions = { NoAction; } } apply { t.apply(); }";
    v1model(&top, table)
}

#[test]
fn strings_of_a_type_are_in_the_pipeline() {
    let mapping = "{\n  // The first one.\n  {\"\", 0}, {\"a \\\" b\", 10w0x3ff,},\n}";
    check_declarations(
        &with_mapping(mapping),
        &["type", "mapping"],
        expect![[r#"
            type "vrf_t" new_type bit<10> translated "" string annotation "@p4runtime_translation_mappings({ { \"\" , 0 } , { \"a \\\" b\" , 10w0x3ff , } , })"
            mapping "vrf_t" { "" = 0, "a \" b" = 1023 }
        "#]],
    );
    check_declarations(&with_mapping("{}"), &["mapping"], expect![[""]]);
}

#[test]
fn mappings_that_contradict_themselves_are_refused() {
    for (mapping, message) in [
        ("{ {\"a\", 1024} }", "1024 does not fit in the 10 bits of `vrf_t`"),
        ("{ {\"a\", 1}, {\"a\", 2} }", "\"a\" is mapped twice"),
        ("{ {\"a\", 1}, {\"b\", 1} }", "1 is mapped to by \"a\" and by \"b\""),
        ("{ {\"a\", x} }", "the body of `@p4runtime_translation_mappings` has the wrong form"),
        ("{ {\"a\", 1} {\"b\", 2} }", "the body of `@p4runtime_translation_mappings` has the wrong form"),
        ("\"a\", 1", "the body of `@p4runtime_translation_mappings` has the wrong form"),
    ] {
        let compiled = super::compiled(&with_mapping(mapping));
        let errors: Vec<&str> =
            compiled.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.message.as_str()).collect();
        assert_eq!(errors, [message], "{mapping}");
    }
}
