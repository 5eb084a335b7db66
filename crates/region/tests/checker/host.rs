//! Checks of the host sides of uplinks and of the rates of packets for the host.

use super::{edit_accepted, edit_refused};

const UPLINK: &str = "mtu: 9000}";

#[test]
fn a_host_side_has_one_interface_of_its_own() {
    let host = |text: &str| format!("mtu: 9000, host: {text}}}");
    edit_accepted(UPLINK, &host("{tap: tgu1}"));
    edit_accepted(UPLINK, &host("{interface: eth1.100}"));
    edit_accepted(UPLINK, &host("{tap: tgu1, addresses: [198.51.100.9, 'fd00::9']}"));
    edit_refused(UPLINK, &host("{}"), "the host side of uplink `left` has no interface");
    edit_refused(UPLINK, &host("{tap: a, interface: b}"), "two interfaces");
    edit_refused(UPLINK, &host("{tap: tap-of-the-uplink}"), "cannot name an interface");
    edit_refused(UPLINK, &host("{tap: a/b}"), "not a name for a host interface");
    for reserved in ["all", "default", "lo"] {
        edit_refused(UPLINK, &host(&format!("{{tap: {reserved}}}")), "cannot name an interface");
    }
    edit_refused(UPLINK, &host("{tap: tgu1, addresses: [192.0.2.1]}"), "taken already");
    let twice = "mtu: 9000, host: {tap: tgu1}}\n  - {name: third, port: 3, mac: 02:00:00:00:03:01, \
                 peer_mac: 02:00:00:00:03:02, host: {tap: tgu1}}";
    let (text, _) = super::edited(UPLINK, twice);
    let problems = super::problems(&text);
    assert!(problems.iter().any(|problem| problem.message.contains("is used twice, first in line 6")), "{problems:?}");
}

#[test]
fn rates_are_packets_a_second() {
    let rates = |text: &str| format!("vteps: [192.0.2.1, \"2001:db8::1\"]\n  punt_rates: {text}");
    let vteps = "vteps: [192.0.2.1, \"2001:db8::1\"]";
    edit_accepted(vteps, &rates("{arp: 1, bgp: 1000000}"));
    for (text, message) in [
        ("{arp: 0}", "the rate 0 of `arp` is out of range"),
        ("{icmp: 1000001}", "out of range"),
        ("{}", "has no rates"),
        ("{ospf: 3}", "ospf"),
    ] {
        let (text, _) = super::edited(vteps, &rates(text));
        let problems = super::problems(&text);
        assert!(problems.iter().any(|problem| problem.message.contains(message)), "{message}: {problems:?}");
    }
}
