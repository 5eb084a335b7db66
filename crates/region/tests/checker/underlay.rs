//! Checks of the gateway's ports, the servers and the remotes.

use super::{edit_accepted, edit_refused};

#[test]
fn macs_of_no_single_host() {
    for mac in ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01", "00:00:00:00:00:00"] {
        for own in
            ["02:00:5e:00:00:01", "02:00:00:00:01:01", "02:00:00:00:01:02", "02:00:00:00:70:01", "02:00:00:00:20:01"]
        {
            edit_refused(own, mac, "not the address of one host");
        }
    }
}

#[test]
fn a_neighbour_has_another_mac_than_the_gateway() {
    // The port's own address or that of another port is refused, because a switch between them
    // would return the frame.
    edit_refused("02:00:00:00:01:02", "02:00:00:00:01:01", "the gateway's own MAC address, see line 6");
    edit_refused("02:00:00:00:01:02", "02:00:00:00:02:01", "the gateway's own MAC address, see line 7");
    // One MAC address on all ports is usual, and so is one neighbour on several ports.
    edit_accepted("mac: 02:00:00:00:02:01", "mac: 02:00:00:00:01:01");
    edit_accepted("peer_mac: 02:00:00:00:02:02", "peer_mac: 02:00:00:00:01:02");
}

#[test]
fn macs_of_machines() {
    edit_refused("02:00:00:00:20:01", "02:00:5e:00:00:01", "the gateway's MAC address");
    // VPCs are separate.
    edit_accepted("02:00:00:00:20:01", "02:00:00:00:10:01");
    // The gateway of another region can have the same MAC address inside VPCs.
    edit_accepted("02:00:00:00:70:01", "02:00:5e:00:00:01");
}

#[test]
fn an_uplink_counts_once() {
    edit_refused("uplinks: [left, right]", "uplinks: [left, right, left]", "named twice");
    edit_refused("uplinks: [right]", "uplinks: [right, right]", "named twice");
    edit_refused("uplinks: [right]", "uplinks: []", "no uplink reaches");
}

#[test]
fn vnis_are_numbers_of_their_own_kind() {
    edit_refused("vni: 20", "vni: 10", "used twice, first in line 14");
    edit_refused("vni: 20", "vni: 0", "out of range");
    edit_refused("vni: 7000", "vni: 16777216", "out of range");
    edit_refused("remote: office}", "remote: office, vni: 0}", "out of range");
    // The VNI of a remote belongs to the remote's own numbering.
    edit_accepted("vni: 7000", "vni: 20");
}

#[test]
fn mtus_have_room_for_ipv6() {
    for mtu in ["0", "68", "1280", "1349"] {
        edit_refused("mtu: 9000", &format!("mtu: {mtu}"), "too small");
    }
    for mtu in ["65536", "-1500"] {
        edit_refused("mtu: 9000", &format!("mtu: {mtu}"), "whole number from 0 to 65535");
    }
    for mtu in ["1350", "65535"] {
        edit_accepted("mtu: 9000", &format!("mtu: {mtu}"));
    }
}

#[test]
fn vlans_are_in_range_and_have_static_paths() {
    for vlan in [1, 4094] {
        edit_accepted("mtu: 9000", &format!("mtu: 9000, vlan: {vlan}"));
    }
    for vlan in ["0", "4095", "65535"] {
        edit_refused("mtu: 9000", &format!("mtu: 9000, vlan: {vlan}"), "is out of range");
    }
    edit_refused("mtu: 9000", "mtu: 9000, vlan: 0x64", "not in plain decimal digits");
}

#[test]
fn a_vlan_is_refused_where_the_kernel_decides() {
    let text = super::REGION
        .replace("  vteps:", "  underlay: kernel\n  vteps:")
        .replace("mtu: 9000", "vlan: 100, host: {tap: t1}");
    let problems = region::parse("r.yaml", &text).expect_err("it is refused").to_string();
    assert!(problems.contains("the uplink `left` has a `vlan`, and the kernel decides about paths"), "{problems}");
}

#[test]
fn limits_of_segments_are_auto_or_in_range() {
    for limit in ["auto", "536", "1360", "65495"] {
        edit_accepted("    vni: 20\n", &format!("    vni: 20\n    tcp_mss: {limit}\n"));
    }
    for limit in ["535", "65496", "0", "-1", "1360.5", "0x550", "yes", "[]", ""] {
        let text = super::REGION.replace("    vni: 20\n", &format!("    vni: 20\n    tcp_mss: {limit}\n"));
        region::parse("r.yaml", &text).expect_err("it is refused");
    }
    edit_accepted("  vteps:", "  flow_secret: 4294967295\n  vteps:");
    edit_accepted("  vteps:", "  flow_secret: 0\n  vteps:");
    let text = super::REGION.replace("  vteps:", "  flow_secret: 4294967296\n  vteps:");
    region::parse("r.yaml", &text).expect_err("it is refused");
}
