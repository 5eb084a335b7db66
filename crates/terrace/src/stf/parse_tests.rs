//! Tests of the syntax of each command, and of error messages.

use super::parse::parse;
use super::script::*;
use super::value::{MatchText, Number};
use num_bigint::BigUint;

fn one(line: &str) -> Command {
    let mut script = parse("t.stf", line).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(script.commands.len(), 1, "{line}");
    script.commands.remove(0).command
}

fn refused(line: &str) -> String {
    parse("t.stf", line).expect_err(line).to_string()
}

fn number(value: u64, wild: u64) -> Number {
    Number { value: value.into(), wild: wild.into() }
}

#[test]
fn add_with_priority_wildcards_and_handle() {
    let Command::Add { table, priority, keys, target, handle } =
        one("ADD ingress.test1 503 data.f1:0x****0202 extra$0.h:0b1*0 setb1(val:0x7f, port:2) = A  # comment")
    else {
        panic!("not an add")
    };
    assert_eq!((table.as_str(), priority, handle.as_deref()), ("ingress.test1", Some(503), Some("A")));
    assert_eq!(keys[0].value, MatchText::Number(number(0x0202, 0xffff_0000)));
    assert_eq!((keys[1].name.as_str(), &keys[1].value), ("extra$0.h", &MatchText::Number(number(4, 2))));
    let args = vec![(Some("val".to_owned()), 0x7f.into()), (Some("port".to_owned()), 2.into())];
    assert_eq!(target, EntryTarget::Action(ActionText { name: "setb1".into(), args }));
}

#[test]
fn add_without_priority_and_all_value_forms() {
    let Command::Add { priority, keys, target, .. } =
        one("add t a:10 b[2].c:0x0a00/16 d:0x1&&&0xf e:1..5 f:1->5 g:* h.$valid:1 i:-1 j:true \"q r\":_ act(1, x:2)")
    else {
        panic!("not an add")
    };
    assert_eq!(priority, None);
    let values: Vec<_> = keys.iter().map(|key| key.value.clone()).collect();
    let n = |value: u64| number(value, 0);
    assert_eq!(values[1], MatchText::Prefix(n(0x0a00), 16));
    assert_eq!(values[2], MatchText::Mask(n(1), BigUint::from(15u8)));
    assert_eq!(values[3], MatchText::Range(n(1), n(5)));
    assert_eq!(values[4], values[3]);
    assert_eq!(values[5], MatchText::Any);
    assert_eq!(values[7], MatchText::Number(Number { value: (-1).into(), wild: 0u8.into() }));
    assert_eq!(values[8], MatchText::Number(n(1)));
    assert_eq!((keys[9].name.as_str(), &keys[9].value), ("q r", &MatchText::Any));
    let EntryTarget::Action(action) = target else { panic!("not an action") };
    assert_eq!(action.args, [(None, n(1)), (Some("x".to_owned()), n(2))]);
}

#[test]
fn members_and_groups() {
    let target = |line| match one(line) {
        Command::Add { target, .. } => target,
        other => panic!("{other:?}"),
    };
    assert_eq!(target("add t k:1 $member(4)"), EntryTarget::Member(4));
    assert_eq!(target("add t k:1 $group(2) = g"), EntryTarget::Group(2));
}

#[test]
fn packets_and_patterns() {
    assert_eq!(one("packet 4 0102 0a FF"), Command::Packet { port: 4, bytes: vec![1, 2, 10, 255] });
    let nibbles = vec![Some(0), None, None, Some(15)];
    assert_eq!(
        one("expect 1 0*\t*f $"),
        Command::Expect { port: 1, pattern: Some(PacketPattern { nibbles: nibbles.clone(), exact_length: true }) }
    );
    assert_eq!(
        one("expect 1 0**f"),
        Command::Expect { port: 1, pattern: Some(PacketPattern { nibbles, exact_length: false }) }
    );
    assert_eq!(one("expect 7"), Command::Expect { port: 7, pattern: None });
}

#[test]
fn commands_of_bmv2() {
    assert_eq!(one("mirroring_add 5 4"), Command::MirroringAdd { session: 5, port: 4 });
    assert_eq!(one("mc_node_create 257 6 8"), Command::McNodeCreate { rid: 257, ports: vec![6, 8] });
    assert_eq!(one("MC_NODE_ASSOCIATE 1113 0"), Command::McNodeAssociate { group: 1113, node: 0 });
    assert_eq!(
        one("register_write c.r 5 100"),
        Command::RegisterWrite { name: "c.r".into(), index: 5, value: 100.into() }
    );
    let rates =
        vec![MeterRate { per_microsecond: 0.000005, burst: 4 }, MeterRate { per_microsecond: 0.00002, burst: 5 }];
    let cell = CellText::Index(2);
    assert_eq!(
        one("meter_set_rates c.m 2 0.000005:4 0.00002:5"),
        Command::MeterSetRates { name: "c.m".into(), cell, rates }
    );
    let check = Some((CountUnit::Packets, Comparison::Ge, 2));
    assert_eq!(
        one("check_counter cntDum($A) packets >= 2"),
        Command::CheckCounter { name: "cntDum".into(), cell: CellText::Handle("A".into()), check }
    );
}

#[test]
fn own_commands() {
    assert_eq!(one("advance_time 20ms"), Command::Own(OwnCommand::AdvanceTime { nanoseconds: 20_000_000 }));
    assert_eq!(one("check_digest d none"), Command::Own(OwnCommand::CheckDigest { name: "d".into(), fields: None }));
    let idle = |line| match one(line) {
        Command::Own(OwnCommand::CheckIdle { handle }) => handle,
        other => panic!("{other:?}"),
    };
    assert_eq!((idle("check_idle $a"), idle("check_idle none")), (Some("a".to_owned()), None));
    assert_eq!(
        one("idle_timeout $h 10 us"),
        Command::Own(OwnCommand::IdleTimeout { handle: "h".into(), nanoseconds: 10_000 })
    );
    assert_eq!(
        one("expire_time 2 1s"),
        Command::Own(OwnCommand::ExpireTime { profile: 2, nanoseconds: 1_000_000_000 })
    );
    let fields = Some(vec![(Some("a".to_owned()), 1.into()), (Some("b.c".to_owned()), 2.into())]);
    assert_eq!(one("check_digest d {a:1, b.c:2}"), Command::Own(OwnCommand::CheckDigest { name: "d".into(), fields }));
}

#[test]
fn errors_name_place_token_and_mend() {
    let text = parse("t.stf", "wait\n\n  frobnicate 1\n").unwrap_err().to_string();
    assert!(text.starts_with("t.stf:3:3: unknown command (at `frobnicate`)"), "{text}");
    assert!(text.contains("help: the commands are add"), "{text}");
    assert!(refused("packet 0 0g").starts_with("t.stf:1:11: a packet's bytes"), "{}", refused("packet 0 0g"));
    assert!(refused("packet 0 012").contains("half a byte"));
    assert!(refused("packet -1 00").contains("the port is out of range"));
    assert!(refused("expect 0 00 $ 11").contains("unexpected text"));
    assert!(refused("add t k:0x1z act()").contains("`z` is not a digit"));
    assert!(refused("add t k:1").contains("expected the key or action"));
    assert!(refused("add t k:1 act(a:0x*)").contains("without `*`"));
    assert!(refused("add t k:1 act(a:1").contains("expected `,` or `)`"));
    assert!(refused("advance_time 5").contains("no unit"));
    assert!(refused("advance_time 99999999999999s").contains("64 bits"));
    assert!(refused("check_counter c(1) packets = 2").contains("expected a comparison"));
    assert!(refused("add t \"k:1 a()").contains("does not end"));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = parse("t.stf", &text);
    }
    #[test]
    fn no_command_line_panics(word in "add|packet|expect|setdefault|check_digest|meter_set_rates|value_set_add|remove", rest in "[ -~]{0,40}") {
        let _ = parse("t.stf", &format!("{word} {rest}"));
    }
}
