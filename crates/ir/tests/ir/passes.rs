//! Tests that each pass preserves visible effects and makes its transformation.

use crate::{execute, generate};
use expect_test::{Expect, expect};
use ir::passes::{PASSES, PassPhase, run_passes};
use ir::text::{PrintOptions, parse, print_with};
use ir::*;
use proptest::prelude::*;

/// Compares runs on several packets before and after.
fn same_meaning(before: &Pipeline, after: &Pipeline) -> Result<(), TestCaseError> {
    for seed in 0..4u8 {
        let packet: Vec<u8> = (0..seed * 20).map(|n| n.wrapping_mul(37) ^ seed).collect();
        let (first, second) = (execute::run(before, &packet), execute::run(after, &packet));
        if first.end.is_some() && second.end.is_some() {
            prop_assert_eq!(first, second);
        } else {
            // In a loop the number of steps at the limit differs, but the common effects must be
            // equal.
            let common = first.log.len().min(second.log.len());
            prop_assert_eq!(&first.log[..common], &second.log[..common]);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn each_pass_keeps_rules_and_meaning(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        let mut pipeline = generate::pipeline(&bytes);
        let mut before = pipeline.clone();
        let mut failure = Ok(());
        let result = run_passes(&mut pipeline, |pass, moment, now| match moment {
            PassPhase::Before => before = now.clone(),
            PassPhase::After => {
                if failure.is_ok() {
                    failure = same_meaning(&before, now).map_err(|e| format!("{}: {e}\n{}", pass.name, text::print(&before)));
                }
            }
        });
        prop_assert!(result.is_ok(), "{}\n{}", result.unwrap_err(), text::print(&pipeline));
        prop_assert!(failure.is_ok(), "{}", failure.unwrap_err());
    }

    #[test]
    fn passes_settle(bytes in prop::collection::vec(any::<u8>(), 0..800)) {
        let mut pipeline = generate::pipeline(&bytes);
        let result = run_passes(&mut pipeline, |_, _, _| {});
        prop_assert!(result.is_ok(), "{:?}", result);
        let size = |p: &Pipeline| -> usize {
            p.controls.values().flat_map(|c| c.body.blocks.values()).map(|b| b.insts.len() + 1).sum()
        };
        let once = size(&pipeline);
        let result = run_passes(&mut pipeline, |_, _, _| {});
        prop_assert!(result.is_ok(), "{:?}", result);
        prop_assert!(size(&pipeline) <= once);
    }
}

/// Generated programs must have effects, because otherwise the properties above prove nothing.
#[test]
fn runs_show_something() {
    let mut effects = 0;
    let mut changed = 0;
    for seed in 0u32..200 {
        let bytes: Vec<u8> =
            (0..1500u32).map(|n| (n.wrapping_mul(2654435761).wrapping_add(seed * 7919) >> 11) as u8).collect();
        let mut pipeline = generate::pipeline(&bytes);
        let before = pipeline.clone();
        effects += execute::run(&pipeline, &[7; 60]).log.len();
        run_passes(&mut pipeline, |_, _, _| {}).expect("valid");
        changed += usize::from(before != pipeline);
    }
    assert!(effects > 1000, "{effects} effects");
    assert!(changed > 150, "{changed} changed");
}

const HEAD: &str = r#"pipeline "p" v1model
header_type $h_t {
  f: bit<8>
}
var $hdr.h.f: bit<8> field $hdr.h 0
var $hdr.g.f: bit<8> field $hdr.g 0
var $tmp.h.f: bit<8> field $tmp.h 0
var $meta.m: bit<8> meta
var $ingress.x: bit<8> local
var $ingress.y: bit<8> local
header $hdr.h: $h_t { $hdr.h.f }
header $hdr.g: $h_t { $hdr.g.f }
header $tmp.h: $h_t { $tmp.h.f } local
action $a (p: bit<8>)
action $NoAction ()
table $t {
  key "k": bit<8> exact
  action $a
  default $a(0)
}
table $u {
  key "k": bit<8> exact
  action $a table_only
  action $NoAction default_only
  default $NoAction()
}
control "ingress" ingress {
  entry block0
"#;

/// Compares a body of the ingress control after a pass.
fn check(pass: &str, body: &str, expected: Expect) {
    let mut pipeline = parse(&format!("{HEAD}{body}}}\n")).unwrap_or_else(|e| panic!("{e:#?}"));
    verify::verify_after("writing", &pipeline).unwrap_or_else(|e| panic!("{e}"));
    let before = pipeline.clone();
    let pass = PASSES.iter().find(|p| p.name == pass).expect("a pass");
    pass.run(&mut pipeline);
    verify::verify_after(pass.name, &pipeline).unwrap_or_else(|e| panic!("{e}"));
    same_meaning(&before, &pipeline).unwrap_or_else(|e| panic!("{e}"));
    let text = print_with(&pipeline, PrintOptions { locs: true });
    let head = text.lines().filter(|l| l.starts_with("var") || l.starts_with("header $"));
    let head: String = head.filter(|_| pass.name == "unused-variables").map(|l| format!("{l}\n")).collect();
    let (_, body) = text.split_once("entry block0\n").expect("a body");
    expected.assert_eq(&format!("{head}{body}"));
}

#[test]
fn unreachable_blocks_go() {
    check(
        "unreachable-blocks",
        "block0:\n  jump block2\nblock1:\n  jump block2\nblock2:\n  return\n",
        expect![[r#"
        block0:
          jump block1
        block1:
          return
        }
    "#]],
    );
}

#[test]
fn straight_lines_become_one_block() {
    check(
        "merge-blocks",
        "block0:\n  v0: bit<8> = const 1:bit<8>\n  jump block1(v0)\nblock1(v1: bit<8>):\n  store $meta.m, v1 @0:3:1\n  jump block2\nblock2:\n  jump block3\nblock3:\n  exit @0:9:1\n",
        expect![[r#"
              unused v1: bit<8>
            block0:
              v0: bit<8> = const 1:bit<8>
              store $meta.m, v0 @0:3:1
              exit @0:9:1
            }
        "#]],
    );
}

#[test]
fn jumps_pass_over_empty_blocks_but_not_around_circles() {
    check(
        "merge-blocks",
        "block0:\n  v0: bit<8> = load $meta.m\n  apply $t (v0) {\n    $a => block1\n  }\nblock1(v1: bool, v2: bit<8>):\n  branch v1, block2, block3\nblock2:\n  jump block4\nblock3:\n  jump block3\nblock4:\n  return\n",
        expect![[r#"
            block0:
              v0: bit<8> = load $meta.m
              apply $t (v0) {
                $a => block1
              }
            block1(v1: bool, v2: bit<8>):
              branch v1, block3, block2
            block2:
              jump block2
            block3:
              return
            }
        "#]],
    );
}

#[test]
fn parser_states_are_not_merged() {
    let text = r#"pipeline "p" v1model
control "parse" parser {
  entry block0
  state "start" block0
  state "next" block1
block0:
  jump block1
block1:
  jump block2
block2:
  return
}
"#;
    let mut pipeline = parse(text).expect("parses");
    run_passes(&mut pipeline, |_, _, _| {}).expect("valid");
    let body = &pipeline.controls[ControlId(0)].body;
    assert_eq!(body.states.iter().map(|s| s.block).collect::<Vec<_>>(), [Block(0), Block(1)]);
    assert_eq!(body.blocks.len(), 2);
}

#[test]
fn constants_fold_and_decide_branches() {
    check(
        "fold-constants",
        "block0:\n  v0: bit<8> = const 250:bit<8>\n  v1: bit<8> = add v0, v0\n  v2: bit<8> = const 244:bit<8>\n  v3: bool = eq v1, v2\n  v4: bool = is_valid $hdr.h\n  v5: bool = logical_not v4\n  v6: bit<8> = select v3, v1, v0\n  branch v3, block1, block3\nblock1:\n  branch v5, block2, block3\nblock2:\n  switch v6 {\n    1:bit<8> => block1\n    244:bit<8> => block3\n    _ => block2\n  }\nblock3:\n  return\n",
        expect![[r#"
            block0:
              v0: bit<8> = const 250:bit<8>
              v1: bit<8> = const 244:bit<8>
              v2: bit<8> = const 244:bit<8>
              v3: bool = const true
              v4: bool = is_valid $hdr.h
              v5: bool = logical_not v4
              v6: bit<8> = const 244:bit<8>
              jump block1
            block1:
              branch v4, block3, block2
            block2:
              jump block3
            block3:
              return
            }
        "#]],
    );
}

#[test]
fn whether_a_packet_hit_is_constant_in_actions_of_hits_or_misses_only() {
    check(
        "fold-constants",
        "block0:\n  v0: bit<8> = load $meta.m\n  apply $u (v0) {\n    $a => block1\n    $NoAction => block2\n  }\nblock1(v1: bool, v2: bit<8>):\n  store $meta.m, v2\n  jump block3(v1, v2)\nblock2(v3: bool):\n  jump block3(v3, v0)\nblock3(v4: bool, v5: bit<8>):\n  branch v4, block4(v5), block5\nblock4(v6: bit<8>):\n  store $ingress.x, v6\n  return\nblock5:\n  store $ingress.y, v0\n  return\n",
        expect![[r#"
            block0:
              v0: bit<8> = load $meta.m
              apply $u (v0) {
                $a => block1
                $NoAction => block2
              }
            block1(v1: bool, v2: bit<8>):
              v7: bool = const true
              store $meta.m, v2
              jump block3(v7, v2)
            block2(v3: bool):
              v8: bool = const false
              jump block3(v8, v0)
            block3(v4: bool, v5: bit<8>):
              branch v4, block4(v5), block5
            block4(v6: bit<8>):
              store $ingress.x, v6
              return
            block5:
              store $ingress.y, v0
              return
            }
        "#]],
    );
}

/// The code between is copied, and what it computes has a new value in each copy.
#[test]
fn jumps_with_a_constant_pass_the_branch_on_it() {
    check(
        "thread-branches",
        "block0:\n  v0: bit<8> = load $meta.m\n  v1: bool = const true\n  v2: bool = is_valid $hdr.h\n  branch v2, block1, block2\nblock1:\n  jump block3(v1, v0)\nblock2:\n  v3: bool = const false\n  store $meta.m, v0\n  jump block3(v3, v0)\nblock3(v4: bool, v5: bit<8>):\n  v6: bit<8> = add v5, v5\n  store $ingress.x, v6\n  v7: bool = logical_not v4\n  branch v7, block4(v6), block5\nblock4(v8: bit<8>):\n  store $ingress.y, v8\n  return\nblock5:\n  store $meta.m, v0\n  return\n",
        expect![[r#"
            block0:
              v0: bit<8> = load $meta.m
              v1: bool = const true
              v2: bool = is_valid $hdr.h
              branch v2, block1, block2
            block1:
              v9: bit<8> = add v0, v0
              store $ingress.x, v9
              v10: bool = logical_not v1
              jump block5
            block2:
              v3: bool = const false
              store $meta.m, v0
              v11: bit<8> = add v0, v0
              store $ingress.x, v11
              v12: bool = logical_not v3
              jump block4(v11)
            block3(v4: bool, v5: bit<8>):
              v6: bit<8> = add v5, v5
              store $ingress.x, v6
              v7: bool = logical_not v4
              branch v7, block4(v6), block5
            block4(v8: bit<8>):
              store $ingress.y, v8
              return
            block5:
              store $meta.m, v0
              return
            }
        "#]],
    );
}

/// Hits pass the branch on `!hit && x`. Misses have to decide about `x`.
#[test]
fn one_operand_can_decide_a_branch() {
    check(
        "thread-branches",
        "block0:\n  v0: bool = const true\n  v1: bool = const false\n  v2: bool = is_valid $hdr.h\n  branch v2, block1(v0), block1(v1)\nblock1(v3: bool):\n  v4: bool = logical_not v3\n  v5: bool = is_valid $hdr.g\n  v6: bool = and v4, v5\n  branch v6, block2, block3\nblock2:\n  set_valid $hdr.h\n  return\nblock3:\n  return\n",
        expect![[r#"
            block0:
              v0: bool = const true
              v1: bool = const false
              v2: bool = is_valid $hdr.h
              branch v2, block4, block1(v1)
            block1(v3: bool):
              v4: bool = logical_not v3
              v5: bool = is_valid $hdr.g
              v6: bool = and v4, v5
              branch v6, block2, block3
            block2:
              set_valid $hdr.h
              return
            block3:
              return
            block4:
              v7: bool = logical_not v0
              v8: bool = is_valid $hdr.g
              v9: bool = and v7, v8
              jump block3
            }
        "#]],
    );
}

#[test]
fn loads_see_stores_of_variables_and_of_valid_headers_only() {
    check(
        "forward-stores",
        "block0:\n  v0: bit<8> = const 1:bit<8>\n  store $ingress.x, v0\n  v1: bit<8> = load $ingress.x\n  store $meta.m, v1\n  store $hdr.h.f, v0\n  v2: bit<8> = load $hdr.h.f\n  v3: bit<8> = load $hdr.h.f\n  v4: bit<8> = add v2, v3\n  set_valid $hdr.h\n  store $hdr.h.f, v4\n  v5: bit<8> = load $hdr.h.f\n  store $meta.m, v5\n  copy_header $hdr.h, $hdr.g\n  v6: bit<8> = load $hdr.h.f\n  store $meta.m, v6\n  return\n",
        expect![[r#"
              unused v1: bit<8>
              unused v3: bit<8>
              unused v5: bit<8>
            block0:
              v0: bit<8> = const 1:bit<8>
              store $ingress.x, v0
              store $meta.m, v0
              store $hdr.h.f, v0
              v2: bit<8> = load $hdr.h.f
              v4: bit<8> = add v2, v2
              set_valid $hdr.h
              store $hdr.h.f, v4
              store $meta.m, v4
              copy_header $hdr.h, $hdr.g
              v6: bit<8> = load $hdr.h.f
              store $meta.m, v6
              return
            }
        "#]],
    );
}

#[test]
fn what_a_branch_knows_its_arms_know() {
    check(
        "forward-stores",
        "block0:\n  v0: bit<8> = const 1:bit<8>\n  store $ingress.x, v0\n  v1: bool = is_valid $hdr.h\n  branch v1, block1, block2\nblock1:\n  v2: bit<8> = load $ingress.x\n  store $meta.m, v2\n  jump block2\nblock2:\n  v3: bit<8> = load $ingress.x\n  store $meta.m, v3\n  return\n",
        expect![[r#"
              unused v2: bit<8>
            block0:
              v0: bit<8> = const 1:bit<8>
              store $ingress.x, v0
              v1: bool = is_valid $hdr.h
              branch v1, block1, block2
            block1:
              store $meta.m, v0
              jump block2
            block2:
              v3: bit<8> = load $ingress.x
              store $meta.m, v3
              return
            }
        "#]],
    );
}

#[test]
fn dead_stores_go_and_others_stay() {
    check(
        "dead-stores",
        "block0:\n  v0: bit<8> = const 1:bit<8>\n  store $meta.m, v0 @0:1:1\n  store $meta.m, v0 @0:2:1\n  store $hdr.h.f, v0 @0:3:1\n  set_valid $hdr.h\n  store $hdr.h.f, v0 @0:4:1\n  store $ingress.x, v0 @0:5:1\n  store $ingress.y, v0 @0:6:1\n  v1: bit<8> = load $ingress.y\n  store $meta.m, v1 @0:7:1\n  store $ingress.y, v1 @0:8:1\n  call mark_to_drop ()\n  store $meta.m, v0 @0:9:1\n  return\n",
        expect![[r#"
            block0:
              v0: bit<8> = const 1:bit<8>
              store $hdr.h.f, v0 @0:3:1
              set_valid $hdr.h
              store $hdr.h.f, v0 @0:4:1
              store $ingress.y, v0 @0:6:1
              v1: bit<8> = load $ingress.y
              store $meta.m, v1 @0:7:1
              call mark_to_drop ()
              store $meta.m, v0 @0:9:1
              return
            }
        "#]],
    );
}

#[test]
fn a_local_read_before_it_is_written_keeps_its_value_between_runs() {
    check(
        "dead-stores",
        "block0:\n  v0: bit<8> = load $ingress.x\n  store $meta.m, v0\n  store $ingress.x, v0\n  return\n",
        expect![[r#"
            block0:
              v0: bit<8> = load $ingress.x
              store $meta.m, v0
              store $ingress.x, v0
              return
            }
        "#]],
    );
}

#[test]
fn unused_values_and_parameters_go_but_lookahead_and_externs_stay() {
    check(
        "dead-values",
        "block0:\n  v0: bit<8> = const 1:bit<8>\n  v1: bit<8> = load $meta.m\n  v2: bit<8> = add v0, v1\n  v3: bit<8> = call random (v0, v0)\n  jump block1(v2)\nblock1(v4: bit<8>):\n  apply $t (v0) {\n    $a => block2\n  }\nblock2(v5: bool, v6: bit<8>):\n  return\n",
        expect![[r#"
              unused v1: bit<8>
              unused v2: bit<8>
              unused v4: bit<8>
            block0:
              v0: bit<8> = const 1:bit<8>
              v3: bit<8> = call random (v0, v0)
              jump block1
            block1:
              apply $t (v0) {
                $a => block2
              }
            block2(v5: bool, v6: bit<8>):
              return
            }
        "#]],
    );
}

#[test]
fn unused_locals_go_and_metadata_stays() {
    check(
        "unused-variables",
        "block0:\n  v0: bit<8> = load $ingress.y\n  store $meta.m, v0\n  return\n",
        expect![[r#"
            var $hdr.h.f: bit<8> field $hdr.h 0
            var $hdr.g.f: bit<8> field $hdr.g 0
            var $meta.m: bit<8> meta
            var $ingress.y: bit<8> local
            header $hdr.h: $h_t { $hdr.h.f }
            header $hdr.g: $h_t { $hdr.g.f }
            block0:
              v0: bit<8> = load $ingress.y
              store $meta.m, v0
              return
            }
        "#]],
    );
}

#[test]
fn values_are_numbered_in_order() {
    check(
        "compact",
        "  unused v1: bool\nblock0:\n  v2: bit<8> = const 1:bit<8>\n  v0: bit<8> = add v2, v2\n  store $meta.m, v0\n  return\n",
        expect![[r#"
            block0:
              v0: bit<8> = const 1:bit<8>
              v1: bit<8> = add v0, v0
              store $meta.m, v1
              return
            }
        "#]],
    );
}

#[test]
fn a_broken_pipeline_is_laid_to_what_ran_last() {
    let mut pipeline = Pipeline::new("broken", Arch::Pna);
    let body = Body {
        blocks: [BlockData::default()].into_iter().fold(EntityMap::new(), |mut m, b| {
            m.push(b);
            m
        }),
        ..Body::default()
    };
    pipeline.controls.push(Control { name: "main".into(), kind: ControlKind::MainControl, body });
    let error = run_passes(&mut pipeline, |_, _, _| {}).expect_err("no terminator");
    expect![[r#"
        the IR is invalid after `lowering`; this is a bug there, not in the program:
          control `main`: there are blocks but no entry
          control `main`, block0: the block has no terminator
    "#]]
    .assert_eq(&error.to_string());
}
