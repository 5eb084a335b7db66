//! Tests entries as text.

use crate::pipeline::*;
use entries::*;
use ir::KeyMatch;
use proptest::prelude::*;

#[test]
fn forms() {
    let s = sample();
    let parse = |text: &str| parse_entry(s.state.pipeline(), text).unwrap();
    let route = parse("routes: vrf=7, dst=10.1.0.0/16 -> forward(port=3, mac=02:00:00:00:00:01) timeout=30s");
    let expected = TableEntry {
        action: s.call(s.forward, &[3, 0x0200_0000_0001]),
        idle_timeout_ns: 30_000_000_000,
        ..s.route(7, 0x0a01_0000, 16, 0)
    };
    assert_eq!(route, expected);
    // By position, hexadecimal, without prefix length, names in another order.
    assert_eq!(
        parse("ingress.routes: 7, 0x0a010000/16 -> ingress.forward(mac=0x20000000001, port=3) timeout=30s"),
        expected
    );
    assert_eq!(parse("routes: 7, 10.0.0.1 -> drop()").keys[1], lpm(0x0a00_0001, 32));
    let acl = parse("acl: vpc=5, src=2001:db8::/32, port=80..443, proto=6 -> drop() priority=9");
    assert_eq!(acl.priority, 9);
    let src = ternary(0x2001_0db8 << 96, 0xffff_ffff << 96);
    assert_eq!(acl.keys, [exact(5), src, range(80, 443), range(0x80, 0x7f), KeyMatch::Optional(Some(big(6)))]);
    assert_eq!(parse("acl: 5, *, *, *, * -> drop priority=1"), s.acl(5, 1));
    assert_eq!(parse("acl: vpc=5 -> drop() priority=1"), s.acl(5, 1));
}

#[test]
fn messages() {
    let s = sample();
    let cases = [
        ("routes 7", "`routes 7`: expected `table:` first, as in `table: key=10.0.0.0/8 -> action(port=1) priority=5`"),
        (
            "route: 7 -> drop()",
            "there is no table `route`; the tables are ingress.host, ingress.routes, ingress.acl, egress.fixed",
        ),
        ("routes: vfr=7 -> drop()", "ingress.routes has no key `vfr`; it has meta.vrf, hdr.dst"),
        ("routes: dst=0/0 -> drop()", "table ingress.routes: key `meta.vrf` is missing"),
        (
            "routes: 7, ten -> drop()",
            "`ten` is no value; write a number, 0x..., an IPv4, IPv6 or MAC address, true or false",
        ),
        ("routes: 7/8, 0/0 -> drop()", "key meta.vrf is exact: `7/8` is no match for it"),
        (
            "routes: 7, 0/0 -> deny()",
            "table ingress.routes has no action `deny`; its actions are ingress.drop, ingress.forward",
        ),
        ("routes: 7, 0/0 -> forward(port=1)", "action ingress.forward: parameter `mac` is missing"),
        (
            "routes: 7, 0/0 -> drop() prio=1",
            "`prio=1`: expected `priority=N` or `timeout=N`, as in `table: key=10.0.0.0/8 -> action(port=1) priority=5`",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(parse_entry(s.state.pipeline(), text).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn default_actions() {
    let s = sample();
    let parse = |text: &str| parse_write(s.state.pipeline(), text);
    let Ok(StateUpdate::DefaultAction(table, Some(spec))) = parse(" routes: default -> forward(port=3, mac=0x2) ")
    else {
        panic!("no default action");
    };
    assert_eq!((table, spec), (s.route(7, 0, 0, 0).table, s.call(s.forward, &[3, 2])));
    assert!(matches!(parse("ingress.routes: default->drop"), Ok(StateUpdate::DefaultAction(..))));
    let Ok(StateUpdate::Entry(UpdateKind::Insert, entry)) = parse("routes: 7, 10.0.0.0/8 -> drop()") else {
        panic!("no entry")
    };
    assert_eq!(entry, parse_entry(s.state.pipeline(), "routes: 7, 10.0.0.0/8 -> drop()").unwrap());
    let message = |text: &str| parse(text).unwrap_err().to_string();
    assert!(message("routes: default").contains("expected `->` before the action"), "{}", message("routes: default"));
    assert!(message("routes: default -> member 1").contains("not a member or group"));
    assert!(message("routes: default -> drop() timeout=1s").contains("has no priority and no timeout"));
    assert!(message("nowhere: default -> drop()").contains("there is no table `nowhere`"));
    // A key cannot be `default`.
    assert!(message("routes: 7, default -> drop()").contains("`default` is no value"));
}

proptest! {
    /// A formatted entry parses to the same entry.
    #[test]
    fn round_trip(vpc in 0..1u128 << 20, src in any::<u128>(), mask in any::<u128>(), lo in any::<u16>(), port in 0..512u128,
                  proto in any::<Option<u8>>(), priority in 1..i32::MAX, timeout in any::<u32>()) {
        let s = sample();
        let keys = vec![
            exact(vpc),
            ternary(src & mask, mask),
            range(u128::from(lo), 0xffff),
            range(0x80, 0x7f),
            KeyMatch::Optional(proto.map(|p| big(u128::from(p)))),
        ];
        let mut given = TableEntry::new(s.acl, keys, s.call(s.forward, &[port, src & 0xffff])).with_priority(priority);
        given.idle_timeout_ns = u64::from(timeout);
        let text = format_entry(s.state.pipeline(), &given);
        prop_assert_eq!(parse_entry(s.state.pipeline(), &text), Ok(given), "{}", text);
    }

    /// No text causes a panic.
    #[test]
    fn any_text(text in "[a-z.:,=/&*>() 0-9-]{0,60}", tail in ".{0,20}") {
        let s = sample();
        let _ = parse_entry(s.state.pipeline(), &format!("routes: {text} -> {tail}"));
        let _ = parse_entry(s.state.pipeline(), &format!("{text}{tail}"));
    }
}
