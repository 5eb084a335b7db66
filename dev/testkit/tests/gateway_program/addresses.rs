//! Compares the gateway program's list of unusable addresses with that of the region file's
//! checker. At both ends of each range, and just beyond them, the program drops a packet from or to
//! an address as `inner_address` exactly if the checker finds the address unusable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use testkit::frame::{IpPacket, VxlanFrame, segment};
use testkit::gateway;
use testkit::model::ModelVerdict;

/// Region in which every address is routed, so that only the address itself can cause a drop.
const REGION: &str = "\
region: r
gateway: {mac: '02:00:5e:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:5e:00:00:01', peer_mac: '02:00:00:00:01:02'}]
servers: [{name: s, address: 192.0.2.11, uplinks: [u]}]
vpcs: [{name: a, vni: 1, routes: [{to: 0.0.0.0/0, internet: true}, {to: '::/0', internet: true}]}]
";

/// Returns the ends of each range, and the addresses beyond them; and some within.
fn addresses() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = ["10.0.0.1", "100.64.0.1", "169.253.255.255", "192.168.1.1", "198.18.0.1", "1.0.0.0"]
        .iter()
        .chain(&["fd00::1", "fec0::1", "100::1", "64:ff9b::a00:1", "2001:db8::1", "::1:0:0:1", "::fffe:a00:1"])
        .map(|text| text.parse().expect("an address"))
        .collect();
    for range in region::UNUSABLE_RANGES {
        let [first, last] = [range.prefix.network(), range.prefix.broadcast()];
        all.extend([first, last]);
        all.extend(step(first, -1));
        all.extend(step(last, 1));
    }
    all
}

fn step(ip: IpAddr, by: i8) -> Option<IpAddr> {
    Some(match ip {
        IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip).checked_add_signed(by.into())?).into(),
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip).checked_add_signed(by.into())?).into(),
    })
}

#[test]
fn the_program_and_the_checker_have_one_list() {
    let region = region::parse("r.yaml", REGION).expect("a region");
    let mut engine =
        gateway::gateway_engine(gateway::pipeline().expect("the gateway compiles"), &region).expect("entries");
    let outer = ("192.0.2.11".parse().expect("an address"), "192.0.2.1".parse().expect("an address"));
    let (mut refused, mut routed) = (0, 0);
    for address in addresses() {
        let other: IpAddr = if address.is_ipv4() { [10, 9, 9, 9].into() } else { [0xfd00, 9, 9, 9, 9, 9, 9, 9].into() };
        for (source, destination) in [(address, other), (other, address)] {
            let inner = IpPacket::new(source, destination, 17, segment(1, 2, 8));
            let outputs = engine.process(&VxlanFrame::new(outer, 1, inner).bytes(), 1, 0);
            let reason = match gateway::model_verdict(&engine, &outputs).expect("a verdict of the gateway's own") {
                ModelVerdict::Drop(reason) | ModelVerdict::Tell { reason, .. } => Some(reason.into_owned()),
                _ => None,
            };
            let expected = region::unusable_range_of(address).map(|_| "inner_address".to_owned());
            assert_eq!(reason, expected, "{source} to {destination}");
            *if expected.is_some() { &mut refused } else { &mut routed } += 1;
        }
    }
    assert!(refused >= 2 * 2 * region::UNUSABLE_RANGES.len() && routed >= 30, "{refused} refused, {routed} routed");
}

#[test]
fn no_two_ranges_overlap() {
    for (n, one) in region::UNUSABLE_RANGES.iter().enumerate() {
        for other in &region::UNUSABLE_RANGES[..n] {
            assert!(!one.prefix.contains(&other.prefix) && !other.prefix.contains(&one.prefix), "{one:?} {other:?}");
        }
    }
}
