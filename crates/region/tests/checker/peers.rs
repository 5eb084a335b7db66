//! Problems that users of other tools reported about configuration checks. Each row names the
//! report.

use super::{REGION, accepted, edit_accepted, edit_refused, edited, problems, refused};

#[test]
fn kube_ovn_4430_a_subnet_of_all_addresses() {
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [0.0.0.0/0]", "can't be a subnet");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [\"::/0\"]", "can't be a subnet");
}

#[test]
fn kube_ovn_2129_an_empty_prefix() {
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [\"\"]", "is not a prefix");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [~]", "a value is missing");
    edit_refused("to: 172.16.0.0/12", "to: \"\"", "is not a prefix");
}

#[test]
fn kube_ovn_4041_the_ends_of_a_subnet_are_no_hosts() {
    edit_refused("addresses: [10.2.0.5]", "addresses: [10.2.0.0]", "network or broadcast");
    edit_refused("addresses: [10.2.0.5]", "addresses: [10.2.0.255]", "network or broadcast");
    edit_refused("\"fd00:1::5\"]", "\"fd00:1::\"]", "anycast");
}

#[test]
fn kube_ovn_29_subnets_of_one_network_overlap() {
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [10.2.0.0/24, 10.2.0.128/25]", "overlaps 10.2.0.0/24");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [10.2.0.0/24, 10.0.0.0/8]", "overlaps");
    // The adjacent prefix is accepted (cfn-lint's rule E3060).
    edit_accepted("subnets: [10.2.0.0/24]", "subnets: [10.2.0.0/24, 10.2.1.0/24]");
}

#[test]
fn calico_376_pools_in_the_link_local_range() {
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [169.254.5.0/24]", "link-local");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [168.0.0.0/7]", "it contains 169.254.0.0/16");
    edit_refused("subnets: [10.2.0.0/24]", "subnets: [\"fe80::/10\"]", "link-local");
}

#[test]
fn kubernetes_108074_and_122550_sloppy_addresses() {
    for sloppy in [
        "010.2.0.0/24",
        "10.2.0.0/024",
        "10.002.0.0/24",
        "10.2.0.1/24",
        "\"::ffff:10.2.0.0/120\"",
        "224.0.0.0/24",
        "255.255.255.255/32",
    ] {
        edit_refused("subnets: [10.2.0.0/24]", &format!("subnets: [{sloppy}]"), "");
    }
}

#[test]
fn ovn_kubernetes_5238_an_mtu_below_ipv6s_least() {
    edit_refused("mtu: 9000", "mtu: 1280", "use 1350 or more");
}

#[test]
fn sonic_utilities_626_one_address_is_a_subnet() {
    edit_accepted("subnets: [10.2.0.0/24]", "subnets: [10.2.0.0/24, 10.9.9.9/32, 10.9.9.10, \"fd00:9::1/128\"]");
}

#[test]
fn hedgehog_dataplane_1326_the_checker_takes_what_is_dropped() {
    edit_refused("addresses: [10.2.0.5]", "addresses: [127.1.0.5]", "loopback");
    edit_refused("192.0.2.11", "\"::1\"", "loopback");
}

#[test]
fn netplan_343_a_problem_names_its_own_line() {
    let (text, line) = edited("addresses: [10.2.0.5]", "\n     addresses: [\n     10.2.0.5,\n     10.3.0.5]");
    refused(&text, line + 3, "10.3.0.5 is in no subnet");
}

#[test]
fn cloud_init_3331_one_anchor_twice() {
    let (text, _) = edited("mtu: 9000", "mtu: &id001 9000");
    let text = text.replacen("vni: 7000", "vni: &id001 7000", 1);
    accepted(&text.replacen("remote: office}\n", "remote: office, vni: *id001}\n", 1));
}

#[test]
fn vscode_yaml_82_two_merges_into_one_mapping() {
    let (text, _) = edited("- {to: 172.16.0.0/12, remote: office}", "- &one {to: 172.16.0.0/12, remote: office}");
    let text =
        text.replacen("- {to: 0.0.0.0/0, internet: true}", "- &two {to: 172.16.5.0/24, remote: office, vni: 9}", 1);
    accepted(&text.replacen(
        "    route_tables:\n",
        "      - <<: *one\n        <<: *two\n        to: 172.17.0.0/16\n    route_tables:\n",
        1,
    ));
}

#[test]
fn home_assistant_31451_a_key_beside_a_merge_wins_and_is_no_duplicate() {
    let (text, _) = edited("- {name: data-1", "- &machine {name: data-1");
    let more = "  - <<: *machine\n    name: data-2\n    mac: 02:00:00:00:20:02\n    addresses: [10.2.0.6]\n";
    accepted(&format!("{text}{more}"));
    let twice = format!("{text}{more}    name: data-3\n");
    refused(&twice, 38, "the key `name` occurs twice");
}

#[test]
fn docker_compose_viz_33_broken_yaml_names_a_line() {
    for (broken, line) in [
        ("vni: 20: 30", 27),
        ("vni: [20", 27),
        ("vni: \"20", 27),
        ("vni: @20", 27),
        ("vni: `20`", 27),
        ("vni: %20", 27),
        (" vni: 20", 27),
    ] {
        let found = problems(&edited("vni: 20", broken).0);
        assert!(found.len() == 1 && found[0].line >= line, "{broken}: {found:#?}");
    }
}

#[test]
fn submariner_570_every_overlap_is_told_at_once() {
    let (text, _) = edited("subnets: [10.2.0.0/24]", "subnets: [10.1.0.0/16]");
    let text = text.replacen("addresses: [10.2.0.5]", "addresses: [10.9.0.5]", 1);
    refused(&text, 30, "peered VPCs have overlapping subnets");
    refused(&text, 33, "10.9.0.5 is in no subnet");
}

#[test]
fn dissect_1302_a_section_twice() {
    let (text, line) = (format!("{REGION}uplinks: []\n"), 34);
    refused(&text, line, "the key `uplinks` occurs twice");
}
