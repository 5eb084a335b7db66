//! Checks that unusable addresses are refused for every key with an address or prefix.

use super::{edit_accepted, edit_refused};
use ipnet::IpNet;
use proptest::prelude::*;
use region::{UNUSABLE_RANGES, enclosing_unusable_range, overlapping_unusable_range, unusable_range_of};
use std::net::IpAddr;

/// An address in each range, and words of its message.
const IN_RANGES: &[(&str, &str)] = &[
    ("0.1.2.3", "this network"),
    ("127.0.0.53", "loopback"),
    ("169.254.169.254", "link-local"),
    ("224.0.0.5", "multicast"),
    ("239.255.255.250", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::10.1.0.9", "IPv4-compatible"),
    ("::ffff:10.1.0.9", "IPv4-mapped"),
    ("fe80::1", "link-local"),
    ("febf::1", "link-local"),
    ("ff02::1", "multicast"),
];

/// Addresses next to the ranges, which are routed.
const BESIDE_RANGES: &[&str] = &[
    "1.0.0.0",
    "126.255.255.254",
    "128.0.0.1",
    "169.253.255.1",
    "169.255.0.1",
    "223.255.255.254",
    "fec0::1",
    "100::7",
];

fn whole(address: &str) -> String {
    format!("\"{address}/{}\"", if address.contains(':') { 128 } else { 32 })
}

#[test]
fn tunnel_addresses() {
    for (address, words) in IN_RANGES {
        let quoted = format!("\"{address}\"");
        edit_refused("vteps: [192.0.2.1, \"2001:db8::1\"]", &format!("vteps: [{quoted}]"), words);
        edit_refused("192.0.2.11", &quoted, words);
        edit_refused("198.51.100.1", &quoted, words);
    }
    for address in BESIDE_RANGES {
        edit_accepted("192.0.2.11", &format!("\"{address}\""));
        edit_accepted("198.51.100.1", &format!("\"{address}\""));
    }
}

#[test]
fn subnets_and_machines() {
    for (address, words) in IN_RANGES {
        let subnet = format!("subnets: [10.2.0.0/24, {}]", whole(address));
        edit_refused("subnets: [10.2.0.0/24]", &subnet, words);
        edit_refused("addresses: [10.2.0.5]", &format!("addresses: [\"{address}\"]"), words);
    }
    for address in BESIDE_RANGES {
        edit_accepted("subnets: [10.2.0.0/24]", &format!("subnets: [10.2.0.0/24, {}]", whole(address)));
    }
    // A subnet that contains a range is refused like one within a range.
    for subnet in ["0.0.0.0/0", "\"::/0\"", "126.0.0.0/7", "168.0.0.0/6", "192.0.0.0/2", "\"fe00::/8\"", "\"8000::/1\""]
    {
        edit_refused("subnets: [10.2.0.0/24]", &format!("subnets: [{subnet}]"), "can't be a subnet: it contains");
    }
}

#[test]
fn what_packets_are_compared_with() {
    for (address, words) in IN_RANGES {
        let prefix = whole(address);
        edit_refused("to: 172.16.0.0/12", &format!("to: {prefix}"), words);
        edit_refused("from: 10.1.0.64/26", &format!("from: {prefix}"), words);
        edit_refused("from: 10.2.0.0/24", &format!("from: {prefix}"), words);
        edit_refused("to: 10.1.0.0/24", &format!("to: {prefix}"), words);
    }
    // A black hole for unusable addresses is refused, because no packet can match it.
    edit_refused("{to: 172.16.0.0/12, remote: office}", "{to: 127.0.0.0/8, blackhole: true}", "inner_address");
    for prefix in ["224.0.0.0/4", "\"fe80::/10\"", "169.254.0.0/16", "\"::ffff:10.9.0.0/112\""] {
        edit_refused("to: 172.16.0.0/12", &format!("to: {prefix}"), "no packet can match");
    }
    // A prefix with some unusable addresses is accepted: a default route is one.
    for prefix in ["128.0.0.0/1", "\"::/0\"", "\"::/1\""] {
        edit_accepted("to: 172.16.0.0/12", &format!("to: {prefix}"));
        edit_accepted("from: 10.1.0.64/26", &format!("from: {prefix}"));
    }
}

#[test]
fn ipv4_in_ipv6_names_the_ipv4_address() {
    edit_refused("192.0.2.11", "\"::ffff:192.0.2.11\"", "write the IPv4 address itself: 192.0.2.11");
}

#[test]
fn the_ends_of_a_subnet() {
    let machine = "vpc: data, server: host, mac: 02:00:00:00:20:01, addresses: [10.2.0.5]";
    let with = |address: &str| machine.replace("10.2.0.5", address);
    edit_refused(machine, &with("10.2.0.0"), "network or broadcast");
    edit_refused(machine, &with("10.2.0.255"), "network or broadcast");
    let subnet = |text: &str, address: &str| {
        let (region, _) = super::edited("subnets: [10.2.0.0/24]", &format!("subnets: [{text}]"));
        region.replacen(machine, &with(address), 1)
    };
    // Two addresses are a link between two routers (RFC 3021, RFC 6164); one is a single machine.
    for (text, address) in [
        ("10.9.0.0/31", "10.9.0.0"),
        ("10.9.0.0/31", "10.9.0.1"),
        ("10.9.0.7/32", "10.9.0.7"),
        ("\"fd00:9::/127\"", "\"fd00:9::\""),
        ("\"fd00:9::/127\"", "\"fd00:9::1\""),
        ("\"fd00:9::7/128\"", "\"fd00:9::7\""),
        ("\"fd00:9::/64\"", "\"fd00:9::ffff:ffff:ffff:ffff\""),
    ] {
        super::accepted(&subnet(text, address));
    }
    for (text, address) in [("\"fd00:9::/64\"", "\"fd00:9::\""), ("\"fd00:9::4/126\"", "\"fd00:9::4\"")] {
        super::refused(&subnet(text, address), 33, "subnet-router anycast");
    }
    super::refused(&subnet("10.9.0.4/30", "10.9.0.4"), 33, "network or broadcast");
    super::refused(&subnet("10.9.0.4/30", "10.9.0.7"), 33, "network or broadcast");
}

#[test]
fn tenants_addresses_are_apart_from_the_underlays() {
    // A VPC can use the addresses of servers and of the gateway, because VXLAN separates them.
    let (text, _) = super::edited("subnets: [10.2.0.0/24]", "subnets: [192.0.2.0/24]");
    super::accepted(&text.replacen("addresses: [10.2.0.5]", "addresses: [192.0.2.1]", 1));
}

#[test]
fn each_range_is_whole() {
    for range in UNUSABLE_RANGES {
        assert_eq!(range.prefix, range.prefix.trunc(), "{range:?}");
        for end in [range.prefix.network(), range.prefix.broadcast()] {
            assert!(unusable_range_of(end).is_some(), "{end}");
        }
    }
}

/// A naive version of the list, without prefixes.
fn naive(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            a == 0 || a == 127 || (a == 169 && b == 254) || a >= 224
        }
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            let embeds_v4 = segments[..5] == [0; 5] && matches!(segments[5], 0 | 0xffff);
            embeds_v4 || segments[0] & 0xffc0 == 0xfe80 || segments[0] >> 8 == 0xff
        }
    }
}

fn prefix() -> impl Strategy<Value = IpNet> {
    // Most random addresses are in no range, so some start like a range.
    let v4 =
        (any::<u32>(), prop_oneof![any::<u8>(), Just(0), Just(127), Just(169), Just(254)], 0u8..=32, any::<bool>());
    let v4 = v4.prop_map(|(low, first, len, second)| {
        let address = low & if second { 0xffff } else { 0xff_ffff } | u32::from(first) << 24;
        let address = if second { address | 254 << 16 } else { address };
        IpNet::new(IpAddr::V4(address.into()), len).expect("a length in range").trunc()
    });
    let starts = prop_oneof![any::<u16>(), Just(0), Just(0xfe80), Just(0xff02), Just(0xfebf), Just(0xfec0)];
    let v6 = (any::<u128>(), starts, 0u8..=128, 0u32..=96).prop_map(|(low, first, len, zeros)| {
        let address = (low & (u128::MAX >> 16 >> zeros.min(111))) | u128::from(first) << 112;
        IpNet::new(IpAddr::V6(address.into()), len).expect("a length in range").trunc()
    });
    prop_oneof![v4, v6]
}

/// Returns the addresses at which a result can change: the ends of the prefix and of the ranges.
fn probes(prefix: IpNet) -> Vec<IpAddr> {
    let ranges = UNUSABLE_RANGES.iter().flat_map(|range| [range.prefix.network(), range.prefix.broadcast()]);
    let ends = [prefix.network(), prefix.broadcast()];
    ends.into_iter().chain(ranges.filter(|end| prefix.contains(end))).collect()
}

/// Returns the address after an end, if the IP version has one.
fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_add(1).map(|n| IpAddr::V4(n.into())),
        IpAddr::V6(v6) => u128::from(v6).checked_add(1).map(|n| IpAddr::V6(n.into())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn the_list_is_the_naive_one(prefix in prefix()) {
        let probes = probes(prefix);
        let behind = probes.iter().filter_map(|probe| after(*probe)).filter(|address| prefix.contains(address));
        let inside: Vec<IpAddr> = probes.iter().copied().chain(behind).collect();
        for address in &inside {
            prop_assert_eq!(unusable_range_of(*address).is_some(), naive(*address), "{}", address);
        }
        prop_assert_eq!(enclosing_unusable_range(prefix).is_some(), inside.iter().all(|a| naive(*a)), "{} within", prefix);
        prop_assert_eq!(overlapping_unusable_range(prefix).is_some(), inside.iter().any(|a| naive(*a)), "{} touches", prefix);
    }

    /// A region with random prefixes as subnet, route and policy is accepted exactly if the naive
    /// list has no objection.
    #[test]
    fn the_checker_has_the_same_list(subnet in prefix(), route in prefix(), policy in prefix(), rule in prefix()) {
        let text = format!(
            "region: r\ngateway: {{mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}}\nuplinks: []\nvpcs:\n- name: v\n  vni: 1\n  \
             subnets: ['{subnet}']\n  route_tables: [{{name: t, routes: [{{to: '{route}', blackhole: true}}]}}]\n  \
             policy: [{{from: '{policy}', table: t}}]\n  acl: [{{priority: 1, action: deny, from: '{rule}'}}]\n"
        );
        let within = |prefix: IpNet| {
            let ends = probes(prefix);
            let behind: Vec<IpAddr> = ends.iter().filter_map(|e| after(*e)).filter(|a| prefix.contains(a)).collect();
            ends.into_iter().chain(behind).map(naive).collect::<Vec<bool>>()
        };
        let touches = within(subnet).contains(&true);
        let useless = [route, policy, rule].map(|prefix| !within(prefix).contains(&false));
        // Two routes to one prefix are refused for another reason.
        prop_assume!(subnet != route);
        let lines: Vec<u32> = super::problems(&text).iter().map(|problem| problem.line).collect();
        let expected = [(7, touches), (8, useless[0]), (9, useless[1]), (10, useless[2])];
        let expected: Vec<u32> = expected.iter().filter(|(_, wrong)| *wrong).map(|(line, _)| *line).collect();
        prop_assert_eq!(lines, expected, "{}", text);
    }
}
