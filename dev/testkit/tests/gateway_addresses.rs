//! The gateway program and the region file's checker have one list of addresses that nobody uses: at both ends of each range, and just beyond
//! them, the one drops a packet from or to an address as `inner_address` exactly if the other finds the address unusable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use testkit::frame::{Ip, Tunnelled, segment};
use testkit::gateway;

/// Everything that has an address leads somewhere, so that nothing but the address itself is in the way.
const REGION: &str = "\
region: r
gateway: {mac: '02:00:5e:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:5e:00:00:01', peer_mac: '02:00:00:00:01:02'}]
servers: [{name: s, address: 192.0.2.11, uplinks: [u]}]
vpcs: [{name: a, vni: 1, routes: [{to: 0.0.0.0/0, internet: true}, {to: '::/0', internet: true}]}]
";

/// The ends of each range, and the addresses beyond them; some between.
fn addresses() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = ["10.0.0.1", "100.64.0.1", "169.253.255.255", "192.168.1.1", "198.18.0.1", "1.0.0.0"]
        .iter()
        .chain(&["fd00::1", "fec0::1", "100::1", "64:ff9b::a00:1", "2001:db8::1", "::1:0:0:1", "::fffe:a00:1"])
        .map(|text| text.parse().expect("an address"))
        .collect();
    for range in region::UNUSABLE {
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
    let mut engine = gateway::serve(gateway::pipeline().expect("the gateway compiles"), &region).expect("entries");
    let outer = ("192.0.2.11".parse().expect("an address"), "192.0.2.1".parse().expect("an address"));
    let (mut refused, mut routed) = (0, 0);
    for address in addresses() {
        let other: IpAddr = if address.is_ipv4() { [10, 9, 9, 9].into() } else { [0xfd00, 9, 9, 9, 9, 9, 9, 9].into() };
        for (source, destination) in [(address, other), (other, address)] {
            let inner = Ip::new(source, destination, 17, segment(1, 2, 8));
            let outputs = engine.process(&Tunnelled::new(outer, 1, inner).bytes(), 1, 0);
            let (_, reason) = gateway::outcome(&engine, &outputs).expect("a verdict of the gateway's own");
            let expected = region::unusable(address).map(|_| "inner_address".to_owned());
            assert_eq!(reason, expected, "{source} to {destination}");
            *if expected.is_some() { &mut refused } else { &mut routed } += 1;
        }
    }
    assert!(refused >= 2 * 2 * region::UNUSABLE.len() && routed >= 30, "{refused} refused, {routed} routed");
}

#[test]
fn no_two_ranges_overlap() {
    for (n, one) in region::UNUSABLE.iter().enumerate() {
        for other in &region::UNUSABLE[..n] {
            assert!(!one.prefix.contains(&other.prefix) && !other.prefix.contains(&one.prefix), "{one:?} {other:?}");
        }
    }
}
