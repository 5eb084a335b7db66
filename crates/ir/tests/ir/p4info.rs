//! Tests P4Info: ids, aliases, layout, comparison.

use expect_test::{Expect, expect};
use ir::p4info::{compare, generate, name_hash, to_txtpb};
use ir::text::parse;
use ir::*;
use proptest::prelude::*;

fn pipeline(text: &str) -> Pipeline {
    let pipeline = parse(&format!("pipeline \"p\" v1model\n{text}")).unwrap_or_else(|e| panic!("{e:#?}"));
    verify::verify_after("writing", &pipeline).unwrap_or_else(|e| panic!("{e}"));
    pipeline
}

fn check(text: &str, expected: Expect) {
    let info = generate(&pipeline(text));
    let printed = to_txtpb(&info);
    expected.assert_eq(&printed);
    assert_eq!(compare(&info, &printed), Ok(Vec::new()), "what is printed compares as equal");
}

/// Ids that p4c gives to these names in the P4Info of its own samples.
#[test]
fn ids_are_those_of_p4c() {
    for (prefix, name, id) in [
        (0x01, "NoAction", 21257015),
        (0x01, "ingressImpl.my_drop", 32254556),
        (0x02, "ingressImpl.t", 48995541),
        (0x03, "MyParser.pvs", 56033750),
        (0x16, "ingress.reg", 382856063),
        (0x17, "digest_0", 401776493),
    ] {
        assert_eq!((prefix << 24) | (name_hash(name) & 0xff_ffff), id, "{name}");
    }
}

#[test]
fn a_table_with_all_that_a_table_has() {
    check(
        r#"
annotation "@pkginfo(name=\"gw\", version=\"1.2\")"
annotation "@platform_property(multicast_group_table_size=64)"
annotation "@brief(\"A gateway\")"
var $in.colour: bit<2> local
type "vni_t" new_type bit<24> translated "example.org/vni" 32
type "name_t" new_type bit<16> translated "example.org/name" string
type "raw_t" new_type bit<9>
type "kind_t" serializable_enum 16 { A = 1, B = 0x8100 }
type "unused_t" struct { a: bit<8> }
extern $in.prof: action_selector crc16 size 128 width 14 annotation "@max_group_size(8)" annotation "@selector_size_semantics(\"sum_of_members\")" annotation "@max_member_weight(4)"
extern $in.cnt: direct_counter unit both
extern $in.met: direct_meter unit bytes
action $in.set (port: bit<9> type "raw_t" annotation "@brief(\"where to\")", nh: bit<32> id 7) annotation "@my(1)"
action $NoAction () annotation "@noWarn(\"unused\")"
action $in.quiet () hidden
table $in.routes id 0x11 brief "Routes" annotation "@structured[1, \"x\", 2 * 3, 1 == 2]" annotation "@kv[a=1, b=true]" {
  key "meta.vni": bit<24> exact type "vni_t"
  key "meta.name": bit<16> exact type "name_t"
  key "hdr.kind": bit<16> ternary type "kind_t" annotation "@id(9)" annotation "@x"
  key "meta.hash": bit<14> selector
  key "hdr.dst": bit<32> lpm
  action $in.set table_only
  action $NoAction default_only
  default const $NoAction()
  size 4096
  implementation $in.prof
  direct_counter $in.cnt
  direct_meter $in.met
  meter_result $in.colour
  idle_timeout
  const_entries
  entry (1, 2, 0 &&& 0, 0x0a000000 / 8) => $in.set(1, 2) const
}
"#,
        expect![[r##"
            # proto-file: p4/config/v1/p4info.proto
            # proto-message: p4.config.v1.P4Info

            pkg_info {
              name: "gw"
              version: "1.2"
              doc {
                brief: "A gateway"
              }
              arch: "v1model"
              platform_properties {
                multicast_group_table_size: 64
              }
            }
            tables {
              preamble {
                id: 33554449
                name: "in.routes"
                alias: "routes"
                doc {
                  brief: "Routes"
                }
                structured_annotations {
                  name: "structured"
                  expression_list {
                    expressions {
                      int64_value: 1
                    }
                    expressions {
                      string_value: "x"
                    }
                    expressions {
                      int64_value: 6
                    }
                    expressions {
                      bool_value: false
                    }
                  }
                }
                structured_annotations {
                  name: "kv"
                  kv_pair_list {
                    kv_pairs {
                      key: "a"
                      value {
                        int64_value: 1
                      }
                    }
                    kv_pairs {
                      key: "b"
                      value {
                        bool_value: true
                      }
                    }
                  }
                }
              }
              match_fields {
                id: 1
                name: "meta.vni"
                bitwidth: 32
                match_type: EXACT
                type_name {
                  name: "vni_t"
                }
              }
              match_fields {
                id: 2
                name: "meta.name"
                match_type: EXACT
                type_name {
                  name: "name_t"
                }
              }
              match_fields {
                id: 3
                name: "hdr.kind"
                annotations: "@x"
                bitwidth: 16
                match_type: TERNARY
              }
              match_fields {
                id: 5
                name: "hdr.dst"
                bitwidth: 32
                match_type: LPM
              }
              action_refs {
                id: 21846953
                annotations: "@tableonly"
                scope: TABLE_ONLY
              }
              action_refs {
                id: 21257015
                annotations: "@defaultonly"
                scope: DEFAULT_ONLY
              }
              const_default_action_id: 21257015
              initial_default_action {
                action_id: 21257015
              }
              implementation_id: 287104693
              direct_resource_ids: 326509255
              direct_resource_ids: 368200203
              size: 4096
              idle_timeout_behavior: NOTIFY_CONTROL
              is_const_table: true
              has_initial_entries: true
            }
            actions {
              preamble {
                id: 21846953
                name: "in.set"
                alias: "set"
                annotations: "@my(1)"
              }
              params {
                id: 1
                name: "port"
                bitwidth: 9
                doc {
                  brief: "where to"
                }
                type_name {
                  name: "raw_t"
                }
              }
              params {
                id: 7
                name: "nh"
                bitwidth: 32
              }
            }
            actions {
              preamble {
                id: 21257015
                name: "NoAction"
                alias: "NoAction"
                annotations: "@noWarn(\"unused\")"
              }
            }
            action_profiles {
              preamble {
                id: 287104693
                name: "in.prof"
                alias: "prof"
              }
              table_ids: 33554449
              with_selector: true
              size: 128
              max_group_size: 8
              sum_of_members {
                max_member_weight: 4
              }
            }
            direct_counters {
              preamble {
                id: 326509255
                name: "in.cnt"
                alias: "cnt"
              }
              spec {
                unit: BOTH
              }
              direct_table_id: 33554449
            }
            direct_meters {
              preamble {
                id: 368200203
                name: "in.met"
                alias: "met"
              }
              spec {
                unit: BYTES
              }
              direct_table_id: 33554449
            }
            type_info {
              serializable_enums {
                key: "kind_t"
                value {
                  underlying_type {
                    bitwidth: 16
                  }
                  members {
                    name: "A"
                    value: "\000\001"
                  }
                  members {
                    name: "B"
                    value: "\201\000"
                  }
                }
              }
              new_types {
                key: "name_t"
                value {
                  translated_type {
                    uri: "example.org/name"
                    sdn_string {
                    }
                  }
                }
              }
              new_types {
                key: "raw_t"
                value {
                  original_type {
                    bitstring {
                      bit {
                        bitwidth: 9
                      }
                    }
                  }
                }
              }
              new_types {
                key: "vni_t"
                value {
                  translated_type {
                    uri: "example.org/vni"
                    sdn_bitwidth: 32
                  }
                }
              }
            }
        "##]],
    );
}

#[test]
fn objects_value_sets_and_packet_metadata() {
    check(
        r#"
header_type $punt_t {
  reason: bit<8>
  pad: bit<7>
}
type "idx_t" new_type bit<10>
type "pair_t" struct { a: bool, b: named "e_t", c: tuple(bit<4>, int<5>, varbit<8>, error), d: stack "h_t" 3 }
type "e_t" enum { X, Y }
type "h_t" header { f: bit<8> }
controller_header "packet_in" $punt_t (reason: bit<8> annotation "@y", pad: bit<7> annotation "@hidden")
extern $in.c: counter size 10 unit packets index "idx_t"
extern $in.m: meter size 20 unit bytes
extern $eg.m: register size 30 elem (bool) initial () data named "pair_t"
extern $pair_t: digest data named "pair_t" fields (bool)
extern $in.h: hash crc32 bit<16>
value_set $prs.vs size 4 {
  key "": bit<16> exact
}
value_set $prs.ws size 4 {
  key "a": bit<16> ternary annotation "@match(ternary)"
  key "b": bit<8> exact id 5
}
"#,
        expect![[r##"
            # proto-file: p4/config/v1/p4info.proto
            # proto-message: p4.config.v1.P4Info

            pkg_info {
              arch: "v1model"
            }
            counters {
              preamble {
                id: 307230039
                name: "in.c"
                alias: "c"
              }
              spec {
                unit: PACKETS
              }
              size: 10
              index_type_name {
                name: "idx_t"
              }
            }
            meters {
              preamble {
                id: 337317101
                name: "in.m"
                alias: "in.m"
              }
              spec {
                unit: BYTES
              }
              size: 20
            }
            controller_packet_metadata {
              preamble {
                id: 81144663
                name: "packet_in"
                alias: "packet_in"
                annotations: "@controller_header(\"packet_in\")"
              }
              metadata {
                id: 1
                name: "reason"
                annotations: "@y"
                bitwidth: 8
              }
            }
            value_sets {
              preamble {
                id: 55737462
                name: "prs.vs"
                alias: "vs"
              }
              match {
                id: 1
                bitwidth: 16
                match_type: EXACT
              }
              size: 4
            }
            value_sets {
              preamble {
                id: 64139331
                name: "prs.ws"
                alias: "ws"
              }
              match {
                id: 1
                name: "a"
                bitwidth: 16
                match_type: TERNARY
              }
              match {
                id: 5
                name: "b"
                bitwidth: 8
                match_type: EXACT
              }
              size: 4
            }
            registers {
              preamble {
                id: 373316600
                name: "eg.m"
                alias: "eg.m"
              }
              type_spec {
                struct {
                  name: "pair_t"
                }
              }
              size: 30
            }
            digests {
              preamble {
                id: 385960041
                name: "pair_t"
                alias: "pair_t"
              }
              type_spec {
                struct {
                  name: "pair_t"
                }
              }
            }
            type_info {
              structs {
                key: "pair_t"
                value {
                  members {
                    name: "a"
                    type_spec {
                      bool {
                      }
                    }
                  }
                  members {
                    name: "b"
                    type_spec {
                      enum {
                        name: "e_t"
                      }
                    }
                  }
                  members {
                    name: "c"
                    type_spec {
                      tuple {
                        members {
                          bitstring {
                            bit {
                              bitwidth: 4
                            }
                          }
                        }
                        members {
                          bitstring {
                            int {
                              bitwidth: 5
                            }
                          }
                        }
                        members {
                          bitstring {
                            varbit {
                              max_bitwidth: 8
                            }
                          }
                        }
                        members {
                          error {
                          }
                        }
                      }
                    }
                  }
                  members {
                    name: "d"
                    type_spec {
                      header_stack {
                        header {
                          name: "h_t"
                        }
                        size: 3
                      }
                    }
                  }
                }
              }
              headers {
                key: "h_t"
                value {
                  members {
                    name: "f"
                    type_spec {
                      bit {
                        bitwidth: 8
                      }
                    }
                  }
                }
              }
              enums {
                key: "e_t"
                value {
                  members {
                    name: "X"
                  }
                  members {
                    name: "Y"
                  }
                }
              }
              error {
                members: "NoError"
                members: "PacketTooShort"
                members: "NoMatch"
                members: "StackOutOfBounds"
                members: "HeaderTooShort"
                members: "ParserTimeout"
                members: "ParserInvalidArgument"
              }
              new_types {
                key: "idx_t"
                value {
                  original_type {
                    bitstring {
                      bit {
                        bitwidth: 10
                      }
                    }
                  }
                }
              }
            }
        "##]],
    );
}

#[test]
fn ids_that_are_given_or_taken_are_passed_over() {
    let hash = name_hash("in.a") & 0xff_ffff;
    let text = format!("action $in.b () id {hash}\naction $in.a ()\naction $in.c () id {hash}\n");
    let ids: Vec<u32> = generate(&pipeline(&text)).actions.iter().map(|a| a.preamble.id).collect();
    assert_eq!(ids[0], 0x0100_0000 | hash);
    assert_eq!(ids[1], 0x0100_0000 | (hash + 1));
    assert_ne!(ids[2], ids[0]);
}

#[test]
fn default_arguments_are_padded_to_their_width() {
    let text = "action $a (x: bit<9>, y: bool, z: bit<128>)\ntable $t {\n  action $a\n  default $a(257, 1, 5)\n}\n";
    let table = generate(&pipeline(text)).tables.remove(0);
    let mut z = vec![0; 15];
    z.push(5);
    assert_eq!(table.initial_default_action.arguments, [(1, vec![1, 1]), (2, vec![1]), (3, z)]);
    assert_eq!((table.size, table.const_default_action_id), (1024, 0));
}

#[test]
fn differences_name_the_field() {
    let info = generate(&pipeline(
        "action $a (x: bit<9>)\ntable $t {\n  key \"k\": bit<8> exact\n  action $a\n  default $a(1)\n}\n",
    ));
    let same = to_txtpb(&info);
    let differ = |from: &str, to: &str| {
        let text = same.replacen(from, to, 1);
        assert_ne!(text, same, "{from}");
        let differences = compare(&info, &text).unwrap_or_else(|error| panic!("{error}"));
        differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    expect!["tables[t].match_fields[1].bitwidth: 8 here, 9 there"].assert_eq(&differ("bitwidth: 8", "bitwidth: 9"));
    expect![[r#"tables[t].preamble.alias: "t" here, "u" there"#]].assert_eq(&differ("alias: \"t\"", "alias: \"u\""));
    expect!["tables[t].preamble.id: 41423567 here, 7 there"].assert_eq(&differ("id: 41423567", "id: 7"));
    expect!["tables[t].is_const_table: nothing here, true there"]
        .assert_eq(&differ("size: 1024", "size: 1024 is_const_table: true"));
    expect![[r#"actions[a].params[1].annotations: nothing here, "@z" there"#]]
        .assert_eq(&differ("name: \"x\"", "name: \"x\" annotations: \"@z\""));
    let refused = |text: &str| compare(&info, text).expect_err("this is no text protobuf");
    assert_eq!(refused(&same.replacen("tables {", "tables { {", 1)), "line 7: a name or a value is missing");
    assert_eq!(refused("tables { a: \""), "line 1: a string has no end");
    // Order, defaults and layout have no meaning.
    let (head, tables) = same.split_once("tables {").expect("a table");
    let (tables, actions) = tables.split_once("actions {").expect("an action");
    let other = format!("actions: <<{actions}").replace("<<", "{")
        + &format!("tables {{ is_const_table: false {tables}")
        + head;
    assert_eq!(compare(&info, &other), Ok(Vec::new()));
}

proptest! {
    #[test]
    fn what_is_printed_compares_as_equal(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        let info = generate(&crate::generate::pipeline(&bytes));
        prop_assert_eq!(compare(&info, &to_txtpb(&info)), Ok(Vec::new()));
    }
}

#[test]
fn any_text_compares_without_harm() {
    let info = generate(&pipeline(""));
    for text in
        ["{", "}", "a", "a:", "a: [", "a: [1", "a { b { c", "\"", "a: \"\\", "a: \"\\9", "[x", "a: \"\\377\\x41\" 'b'"]
    {
        let _ = compare(&info, text);
    }
    assert!(compare(&info, &"a{".repeat(100_000)).is_err());
}
