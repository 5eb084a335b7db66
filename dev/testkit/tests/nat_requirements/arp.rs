//! ARP for public addresses (`answer_arp`): a router on the link finds them without a route.

use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::net::Ipv4Addr;
use testkit::gateway_pair::GatewayPair;

const REGION: &str = "
region: r
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1], flow_secret: 0}
uplinks:
- {name: s, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:01:02}
- {name: isp, port: 2, mac: 02:00:5e:00:00:02, peer_mac: 02:00:00:00:02:02}
- {name: isp2, port: 3, mac: 02:00:5e:00:00:03, peer_mac: 02:00:00:00:03:02, vlan: 7}
servers:
- {name: s1, address: 192.0.2.11, uplinks: [s]}
internet:
  uplinks: [isp, isp2]
  answer_arp: true
  nats: [{name: n, addresses: 198.51.100.16/31}]
  elastic: [{address: 198.51.100.40, vpc: a, vm: 10.0.0.11}]
  forwards: [{address: 198.51.100.50, protocol: tcp, port: 443, vpc: a, vm: 10.0.0.12}]
vpcs:
- name: a
  vni: 100
  subnets: [10.0.0.0/24]
  nat: n
  routes: [{to: 0.0.0.0/0, internet: true}]
  services: [{name: w, public: 198.51.100.60, protocol: tcp, port: 80, backends: [{vm: 10.0.0.12}]}]
vms:
- {name: a1, vpc: a, server: s1, mac: 02:00:00:10:00:01, addresses: [10.0.0.11]}
- {name: a2, vpc: a, server: s1, mac: 02:00:00:10:00:02, addresses: [10.0.0.12]}
";

const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];
const ROUTER: [u8; 4] = [198, 51, 100, 1];

/// Returns an ARP message in a frame from the router.
fn arp(to: [u8; 6], vlan: &[u8], operation: u8, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let body = [&[0, 1, 8, 0, 6, 4, 0, operation][..], &ROUTER_MAC, &sender, &[0; 6], &target].concat();
    [&to[..], &ROUTER_MAC, vlan, &[8, 6], &body].concat()
}

/// Sends a frame. Returns the port and the frame that is sent, or `Err` with the reason.
fn send(gateway: &mut GatewayPair, port: u32, frame: &[u8]) -> Result<(u32, Vec<u8>), String> {
    gateway.run(&frame, |engine: &mut dyn Engine, now| {
        let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
        batch.push_bytes(frame, PortId(port), now).expect("a batch has room");
        engine.process(&mut batch, &mut out);
        let names = engine.reasons().clone();
        let (emission, packet) = out.iter(&batch).next().expect("each packet has a verdict");
        match emission.verdict {
            Verdict::Forward { port } => Ok((port.0, packet.bytes().to_vec())),
            Verdict::Drop(reason) => Err(names.drop_name(reason).into_owned()),
            Verdict::ToCpu { reason } => {
                assert_eq!(packet.bytes(), frame, "unchanged");
                Err(names.cpu_name(reason).into_owned())
            }
        }
    })
}

#[test]
fn requests_for_public_addresses_are_answered_on_uplinks_to_the_internet() {
    let mut gateway = GatewayPair::new(REGION);
    let links: [(u32, u8, &[u8]); 2] = [(2, 2, &[]), (3, 3, &[0x81, 0, 0, 7])];
    for (port, last, vlan) in links {
        let mac = [2, 0, 0x5e, 0, 0, last];
        for address in [16, 17, 40, 50, 60].map(|last| [198, 51, 100, last]) {
            for (to, sender) in [([0xff; 6], ROUTER), (mac, ROUTER), ([0xff; 6], [0; 4])] {
                let frame = arp(to, vlan, 1, sender, address);
                let (sent_port, sent) = send(&mut gateway, port, &frame).expect("an answer");
                let body = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &mac, &address, &ROUTER_MAC, &sender].concat();
                let answer = [&ROUTER_MAC[..], &mac, vlan, &[8, 6], &body].concat();
                assert_eq!((sent_port, sent), (port, answer), "{}", Ipv4Addr::from(address));
            }
        }
    }
    // With the padding of a short frame.
    let padded = [arp([0xff; 6], &[], 1, ROUTER, [198, 51, 100, 16]), vec![0; 18]].concat();
    assert_eq!(send(&mut gateway, 2, &padded).expect("an answer").1.len(), 60);
}

#[test]
fn all_other_arp_is_for_the_host() {
    let mut gateway = GatewayPair::new(REGION);
    let (all, public) = ([0xff; 6], [198, 51, 100, 16]);
    let to_host = [
        (2, arp(all, &[], 1, ROUTER, [198, 51, 100, 18])),
        (2, arp(all, &[], 1, ROUTER, [192, 0, 2, 1])),
        (2, arp(all, &[], 2, ROUTER, public)),
        // Announcements of a public address: another machine has it.
        (2, arp(all, &[], 1, public, public)),
        // An uplink that does not lead to the Internet.
        (1, arp(all, &[], 1, ROUTER, public)),
        (2, arp(all, &[], 1, ROUTER, public)[..41].to_vec()),
    ];
    for (port, frame) in to_host {
        assert_eq!(send(&mut gateway, port, &frame), Err("arp".to_owned()), "{frame:02x?}");
    }
    let mut of_group = arp(all, &[], 1, ROUTER, public);
    of_group[22] |= 1;
    assert_eq!(send(&mut gateway, 2, &of_group), Err("arp".to_owned()));
    let other = arp([2, 0, 0, 0, 0, 9], &[], 1, ROUTER, public);
    assert_eq!(send(&mut gateway, 2, &other), Err("underlay_other_mac".to_owned()));
    // Without the key.
    gateway.change_region(&REGION.replace("  answer_arp: true\n", ""));
    assert_eq!(send(&mut gateway, 2, &arp(all, &[], 1, ROUTER, public)), Err("arp".to_owned()));
}
