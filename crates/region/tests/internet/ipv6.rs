//! Checks the ways of VPCs to the Internet over IPv6: their entries with the line of each, edits of
//! other items, and problems.

use crate::support::{entries_of, pipeline};
use expect_test::{Expect, expect};
use region::{Document, RegionPart, ResolvedRegion};

const REGION: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1, '2001:db8:f::1']}
uplinks:
- {name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}
servers:
- {name: s, address: 192.0.2.11, uplinks: [u]}
internet:
  uplinks: [u]
  refuse: ['2001:db8:ffff::/48']
vpcs:
- {name: a, vni: 1, subnets: [10.0.0.0/24, '2001:db8:a::/64'], ipv6_internet: {}, tcp_mss: 1300}
- name: b
  vni: 2
  subnets: ['fd00:b::/64', 'fd00:b:0:1::/64', 'fd00:c::/64', '2001:db8:b::/64']
  max_flows: 9
  keep_established: true
  drop: [routing]
  ipv6_internet:
    inbound: all
    subnets: ['fd00:b::/64', 'fd00:b:0:1::/64', '2001:db8:b::/64']
    translate:
    - {inside: 'fd00:b::/48', outside: '2001:db8:bb::/48'}
- {name: c, vni: 3, subnets: ['2001:db8:a::/64']}
vms:
- {name: a1, vpc: a, server: s, mac: '02:00:00:00:00:11', addresses: ['2001:db8:a::11']}
";

/// Returns the entries of a part for the Internet over IPv6, each with its line in the file.
fn ways(region: &ResolvedRegion, pipeline: &ir::Pipeline, part: &RegionPart) -> Vec<String> {
    entries_of(
        region,
        pipeline,
        part,
        &["vpc_prefix", "internet_v6.sources", "internet_v6.refused", "underlay_route_v6"],
    )
}

#[test]
fn entries_have_their_lines() {
    // `max_flows` of VPC `b` limits nothing here.
    let text = REGION.replace("  max_flows: 9\n", "  # no limit\n");
    let (region, pipeline) = (region::parse("r.yaml", &text).unwrap(), pipeline());
    let found = ways(&region, &pipeline, &RegionPart::Whole).join("\n").replace("gateway.", "");
    expect![[r#"
        11: underlay.underlay_route_v6: destination=0x0/0 -> underlay.via_next_hop(next_hop=0x0)
        2: internet_v6.refused: destination=0x20010db8000f00000000000000000001/128 -> internet_v6.not_internet()
        9: internet_v6.refused: destination=0x20010db8ffff00000000000000000000/48 -> internet_v6.not_internet()
        11: internet_v6.refused: destination=0xfc000000000000000000000000000000/7 -> internet_v6.not_internet()
        11: internet_v6.sources: vpc=0x0, source=0x20010db8000a00000000000000000000/64 -> internet_v6.routed_source(answers_only=1, keeps=0, picks_up=0, max_flows=0x100000)
        11: internet_v6.sources: vpc=0x0, source=0x0/0 -> internet_v6.other_source()
        19: internet_v6.sources: vpc=0x1, source=0xfd00000b000000000000000000000000/64 -> internet_v6.translated_source(answers_only=0, keeps=1, picks_up=0, max_flows=0x100000, prefix=0x20010db800bb0000, mask=0xffffffffffff0000, adjustment=52887, in_subnet=1)
        19: internet_v6.sources: vpc=0x1, source=0xfd00000b000000010000000000000000/64 -> internet_v6.translated_source(answers_only=0, keeps=1, picks_up=0, max_flows=0x100000, prefix=0x20010db800bb0000, mask=0xffffffffffff0000, adjustment=52887, in_subnet=1)
        19: internet_v6.sources: vpc=0x1, source=0xfd00000c000000000000000000000000/64 -> internet_v6.closed_source()
        19: internet_v6.sources: vpc=0x1, source=0x20010db8000b00000000000000000000/64 -> internet_v6.routed_source(answers_only=0, keeps=1, picks_up=0, max_flows=0x100000)
        19: internet_v6.sources: vpc=0x1, source=0x0/0 -> internet_v6.other_source()
        11: classify.vpc_prefix: destination=0x20010db8000a00000000000000000000/64 -> classify.routed_prefix(vpc=0x0, vni=0x1, refused=0, mss=1300, answers_only=1, keeps=0, picks_up=0)
        19: classify.vpc_prefix: destination=0x20010db8000b00000000000000000000/64 -> classify.routed_prefix(vpc=0x1, vni=0x2, refused=8, mss=65535, answers_only=0, keeps=1, picks_up=0)
        22: classify.vpc_prefix: destination=0x20010db800bb00000000000000000000/48 -> classify.translated_prefix(vpc=0x1, vni=0x2, refused=8, mss=65535, answers_only=0, keeps=1, picks_up=0, prefix=0xfd00000b00000000, mask=0xffffffffffff0000, adjustment=12648, in_subnet=1)"#]].assert_eq(&found);
    let of_public = ways(&region, &pipeline, &RegionPart::PublicAddresses);
    let of_vpcs = ways(&region, &pipeline, &RegionPart::Vpcs([0, 1, 2].into()));
    assert_eq!(of_public.len(), 3, "one for each prefix on the Internet");
    assert!(of_public.iter().all(|entry| of_vpcs.contains(entry)), "they belong to the VPCs");
}

#[test]
fn a_region_without_it_has_none_of_its_entries() {
    let text = REGION
        .replace("ipv6_internet: {}, ", "nat: n, ")
        .replace("  refuse:", "  nats: [{name: n, addresses: 203.0.113.0/31}]\n  refuse:");
    let start = text.find("  max_flows: 9\n").unwrap();
    let end = text.find("- {name: c").unwrap();
    let region = region::parse("r.yaml", &format!("{}{}", &text[..start], &text[end..])).unwrap();
    assert_eq!(ways(&region, &pipeline(), &RegionPart::Whole), [""; 0]);
}

#[test]
fn machines_of_the_vpc_change_without_the_whole_file() {
    let text = REGION.replace("  max_flows: 9\n", "");
    let document = Document::parse("r.yaml", text.clone()).unwrap();
    assert!(document.edit(&text.replace("02:00:00:00:00:11", "02:00:00:00:00:21")).is_some());
    assert!(document.edit(&text.replace("inbound: all", "inbound: answers")).is_none(), "prefixes are of one VPC");
}

fn check(changes: &[(&str, &str)], expected: Expect) {
    let mut text = REGION.replace("  max_flows: 9\n", "");
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    let problems = region::parse("r.yaml", &text).map_or_else(|problems| problems.to_string(), |_| "accepted".into());
    expected.assert_eq(&problems);
}

#[test]
fn a_limit_of_flows_needs_flows_that_are_tracked() {
    check(
        &[("  keep_established", "  max_flows: 9\n  keep_established")],
        expect![[r#"
        r.yaml:15:14: VPC `b` has `max_flows`, and no security groups: its flows are not tracked
            help: remove it, or write `security_groups`"#]],
    );
    let answers = ("inbound: all", "inbound: answers");
    check(&[("  keep_established", "  max_flows: 9\n  keep_established"), answers], expect![["accepted"]]);
}

#[test]
fn a_private_prefix_has_to_be_translated() {
    check(
        &[("    translate:\n    - {inside: 'fd00:b::/48', outside: '2001:db8:bb::/48'}\n", "")],
        expect![[r#"
        r.yaml:14:13: fd00:b::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
            help: translate it (NPTv6): `translate: [{inside: "fd00:b::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
        r.yaml:14:28: fd00:b:0:1::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
            help: translate it (NPTv6): `translate: [{inside: "fd00:b:0:1::/64", outside: PREFIX}]`, or list the other subnets in `subnets`"#]],
    );
    check(
        &[("'2001:db8:a::/64'], ipv6", "'fec0::/64'], ipv6")],
        expect![[r#"
        r.yaml:11:44: fec0::/64 of VPC `a` is on no Internet: it is site-local (RFC 3879)
            help: translate it (NPTv6): `translate: [{inside: "fec0::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
        r.yaml:24:71: 2001:db8:a::11 is in no subnet of VPC `a`
            help: correct the address, or add its subnet to the VPC"#]],
    );
    check(
        &[("2001:db8:bb::/48", "fd11::/48")],
        expect![[r#"
        r.yaml:21:40: fd11::/48 is on no Internet: it is unique local (RFC 4193)
            help: use a global prefix that the next router sends to the gateway"#]],
    );
    check(
        &[(", '2001:db8:a::/64'], ipv6", "], ipv6")],
        expect![[r#"
        r.yaml:11:60: VPC `a` has `ipv6_internet`, and no subnet of IPv6
            help: add a subnet, or remove it
        r.yaml:24:71: 2001:db8:a::11 is in no subnet of VPC `a`
            help: correct the address, or add its subnet to the VPC"#]],
    );
}

#[test]
fn prefixes_belong_to_one_vpc_and_not_to_the_underlay() {
    check(
        &[("subnets: ['2001:db8:a::/64']}", "subnets: ['2001:db8:a::/64'], ipv6_internet: {}}")],
        expect![[r#"
        r.yaml:22:31: 2001:db8:a::/64 of VPC `c` overlaps 2001:db8:a::/64 of VPC `a` in line 11, and both are on the Internet
            help: give each VPC prefixes of its own"#]],
    );
    check(
        &[("2001:db8:bb::/48", "2001:db8:a::/48")],
        expect![[r#"
        r.yaml:21:40: 2001:db8:a::/48 of VPC `b` overlaps 2001:db8:a::/64 of VPC `a` in line 11, and both are on the Internet
            help: give each VPC prefixes of its own"#]],
    );
    check(
        &[("'2001:db8:f::1'", "'2001:db8:a::1'")],
        expect![[r#"
        r.yaml:11:44: 2001:db8:a::/64 contains 2001:db8:a::1 of `the gateway` in line 2
            help: packets for it would be for a machine: use a prefix that nothing else has"#]],
    );
    check(
        &[("'2001:db8:f::1'", "'2001:db8:bb::1'")],
        expect![[r#"
        r.yaml:21:40: 2001:db8:bb::/48 contains 2001:db8:bb::1 of `the gateway` in line 2
            help: packets for it would be for a machine: use a prefix that nothing else has"#]],
    );
}

#[test]
fn translations_are_of_whole_subnets_and_one_length() {
    check(
        &[("2001:db8:bb::/48", "2001:db8:bb::/56")],
        expect![[r#"
        r.yaml:21:40: fd00:b::/48 can't be translated to 2001:db8:bb::/56
            help: use two prefixes of the same length, of at most 64 bits (RFC 6296)"#]],
    );
    check(
        &[("'fd00:b::/48', outside: '2001:db8:bb::/48'", "'fd00:b::/80', outside: '2001:db8:bb::/80'")],
        expect![[r#"
            r.yaml:14:13: fd00:b::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
                help: translate it (NPTv6): `translate: [{inside: "fd00:b::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
            r.yaml:14:28: fd00:b:0:1::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
                help: translate it (NPTv6): `translate: [{inside: "fd00:b:0:1::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
            r.yaml:21:16: fd00:b::/80 is a part of the subnet fd00:b::/64
                help: translate whole subnets
            r.yaml:21:40: fd00:b::/80 can't be translated to 2001:db8:bb::/80
                help: use two prefixes of the same length, of at most 64 bits (RFC 6296)"#]],
    );
    check(
        &[("'fd00:b::/48', outside: '2001:db8:bb::/48'", "'fd00:b::/48', outside: 'fd00:b::/48'")],
        expect![[r#"
        r.yaml:21:40: fd00:b::/48 is translated to itself
            help: remove it: a subnet without a translation keeps its addresses
        r.yaml:21:40: fd00:b::/48 is on no Internet: it is unique local (RFC 4193)
            help: use a global prefix that the next router sends to the gateway"#]],
    );
    check(
        &[("outside: '2001:db8:bb::/48'", "outside: 198.51.100.0/24")],
        expect![[r#"
        r.yaml:14:13: fd00:b::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
            help: translate it (NPTv6): `translate: [{inside: "fd00:b::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
        r.yaml:14:28: fd00:b:0:1::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
            help: translate it (NPTv6): `translate: [{inside: "fd00:b:0:1::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
        r.yaml:21:40: 198.51.100.0/24 is of IPv4, and `ipv6_internet` is for IPv6
            help: use a prefix of IPv6; over IPv4, machines have a `nat`"#]],
    );
    check(
        &[("inside: 'fd00:b::/48'", "inside: 'fd00:99::/48'")],
        expect![[r#"
        r.yaml:14:13: fd00:b::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
            help: translate it (NPTv6): `translate: [{inside: "fd00:b::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
        r.yaml:14:28: fd00:b:0:1::/64 of VPC `b` is on no Internet: it is unique local (RFC 4193)
            help: translate it (NPTv6): `translate: [{inside: "fd00:b:0:1::/64", outside: PREFIX}]`, or list the other subnets in `subnets`
        r.yaml:21:16: fd00:99::/48 contains no subnet of VPC `b`
            help: correct the prefix, or add the subnet to the VPC"#]],
    );
    let twice = "    - {inside: 'fd00:b::/64', outside: '2001:db8:dd::/64'}\n- {name: c";
    check(
        &[("- {name: c", twice)],
        expect![[r#"
        r.yaml:22:16: fd00:b::/64 overlaps fd00:b::/48 in line 21
            help: translate each prefix once"#]],
    );
}

#[test]
fn the_list_of_subnets_has_subnets_of_the_vpc() {
    check(
        &[(
            "'fd00:b:0:1::/64', '2001:db8:b::/64']\n    translate",
            "'fd00:b:0:2::/64', 'fd00:b::/64', 10.0.0.0/24]\n    translate",
        )],
        expect![[r#"
            r.yaml:19:30: fd00:b:0:2::/64 is no subnet of VPC `b`
                help: name a subnet as it is in `subnets` of the VPC
            r.yaml:19:49: fd00:b::/64 is named twice, first in line 19
                help: remove one of both
            r.yaml:19:64: 10.0.0.0/24 is of IPv4, and `ipv6_internet` is for IPv6
                help: use a prefix of IPv6; over IPv4, machines have a `nat`"#]],
    );
}

#[test]
fn it_needs_the_uplinks_of_the_internet() {
    check(
        &[("internet:\n  uplinks: [u]\n  refuse: ['2001:db8:ffff::/48']\n", "")],
        expect![[r#"
        r.yaml:8:79: VPC `a` has `ipv6_internet`, and the region has no `internet`
            help: add `internet: {uplinks: [...]}`, or remove it
        r.yaml:15:5: VPC `b` has `ipv6_internet`, and the region has no `internet`
            help: add `internet: {uplinks: [...]}`, or remove it"#]],
    );
    let nothing = [
        ("ipv6_internet: {}, ", ""),
        (
            "  ipv6_internet:\n    inbound: all\n    subnets: ['fd00:b::/64', 'fd00:b:0:1::/64', '2001:db8:b::/64']\n    translate:\n    - {inside: 'fd00:b::/48', outside: '2001:db8:bb::/48'}\n",
            "",
        ),
    ];
    check(
        &nothing,
        expect![[r#"
        r.yaml:1:9: `internet` has no public addresses
            help: add some to `nats`, `elastic`, `forwards` or services, or `ipv6_internet` to a VPC, or remove `internet`"#]],
    );
}
