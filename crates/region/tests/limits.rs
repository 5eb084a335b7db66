//! Regions at the limits of the gateway's id ranges.

use std::fmt::Write;

const UNDERLAY: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]
";

/// VPC `a` and four rows of `width` VPCs. Each is peered with all of the next row, and the last row
/// has an exit to the Internet. Each prefix of `a` takes a path of its own.
fn rows(width: usize) -> String {
    let mut text = format!("{UNDERLAY}vpcs:\n- name: a\n  vni: 1\n  routes:\n");
    for i in 0..width {
        writeln!(text, "  - {{to: 20.{}.0.0/12, peer: v0-{i}}}", i << 4).expect("a string");
    }
    let mut vni = 1;
    for (row, v) in (0..4).flat_map(|row| (0..width).map(move |v| (row, v))) {
        vni += 1;
        writeln!(text, "- name: v{row}-{v}\n  vni: {vni}\n  routes:").expect("a string");
        if row == 3 {
            text.push_str("  - {to: 20.0.0.0/8, internet: true}\n");
            continue;
        }
        // All paths to this VPC, each given by the VPCs of the rows before.
        for way in 0..width.pow(row) {
            let before = (0..row).fold(0, |bits, at| (bits << 4) | (way / width.pow(at) % width));
            for next in 0..width {
                let (bits, length) = (before << 8 | v << 4 | next, 8 + 4 * (row + 2));
                let address = std::net::Ipv4Addr::from(20 << 24 | (bits as u32) << (32 - length));
                writeln!(text, "  - {{to: {address}/{length}, peer: v{}-{next}}}", row + 1).expect("a string");
            }
        }
    }
    text.push_str("peerings:\n");
    for i in 0..width {
        writeln!(text, "- between: [a, v0-{i}]").expect("a string");
        for (row, j) in (0..3).flat_map(|row| (0..width).map(move |j| (row, j))) {
            writeln!(text, "- between: [v{row}-{i}, v{}-{j}]", row + 1).expect("a string");
        }
    }
    text
}

#[test]
fn as_many_ways_through_vpcs_as_there_are_numbers_for() {
    assert!(region::parse("r.yaml", &rows(15)).is_ok());
    let found = region::parse("r.yaml", &rows(16)).expect_err("there are too many").to_string();
    assert_eq!(
        found,
        "r.yaml:23:5: routes use more than 65535 different paths through other VPCs, up to the one to 20.255.255.0/24\n    \
         help: peer directly, or let fewer VPCs use the exits of others"
    );
}

#[test]
fn as_many_uplinks_as_a_group_has_room_for() {
    let text = |count: usize| {
        let mut text = String::from("region: r\ngateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}\nuplinks:\n");
        for at in 0..count {
            let macs = format!("mac: '02:00:00:01:{:02x}:{:02x}', peer_mac: '02:00:00:02:00:01'", at >> 8, at & 255);
            writeln!(text, "- {{name: u{at}, port: {}, {macs}}}", at + 1).expect("a string");
        }
        text
    };
    assert!(region::parse("r.yaml", &text(1024)).is_ok());
    let found = region::parse("r.yaml", &text(1025)).expect_err("there are too many").to_string();
    assert!(found.starts_with("r.yaml:1028:10: there are more than 1024 uplinks, up to here\n    help: "), "{found}");
}
