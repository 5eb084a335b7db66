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
