//! A gateway with NAT64 on both engines: machines with IPv6, and hosts with IPv4.

use crate::fixture::{ICMPV6, Packet as V6, checksum_of, pseudo_checksum};
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::net::{Ipv4Addr, Ipv6Addr};
use testkit::frame::{IpPacket, VxlanFrame, checksum};
use testkit::gateway_pair::GatewayPair;
pub use testkit::translated::Packet as V4;

/// VPC `a` has the well-known prefix, `b` one of the operator and a limit of TCP segments; both have the same
/// subnet. A machine of `a` is in a group.
pub const REGION: &str = "
region: r
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1, 2001:db8:f::1], flow_secret: 0}
uplinks:
- {name: s, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:01:02, mtu: 9000}
- {name: isp, port: 2, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:02:02, mtu: 1500}
servers:
- {name: s1, address: 192.0.2.11, uplinks: [s]}
- {name: s2, address: 2001:db8:f::12, uplinks: [s]}
internet:
  uplinks: [isp]
  nats: [{name: n, addresses: 198.51.100.16/30, ports_per_vm: 64}]
  refuse: [10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16]
vpcs:
- name: a
  vni: 100
  subnets: [fd00:a::/64]
  nat: n
  nat64: {}
  security_groups:
  - {name: web, rules: [{direction: egress, protocol: tcp, ports: 443}]}
- name: b
  vni: 200
  subnets: [fd00:a::/64]
  nat: n
  nat64: {prefix: '2001:db8:64::/96'}
  tcp_mss: auto
  drop: [destination_options]
vms:
- {name: a1, vpc: a, server: s1, mac: 02:00:00:10:00:01, addresses: ['fd00:a::11', 'fd00:a::99']}
- {name: a2, vpc: a, server: s2, mac: 02:00:00:10:00:02, addresses: ['fd00:a::12']}
- {name: aw, vpc: a, server: s1, mac: 02:00:00:10:00:03, addresses: ['fd00:a::80'], groups: [web]}
- {name: b1, vpc: b, server: s1, mac: 02:00:00:20:00:01, addresses: ['fd00:a::11']}
";

pub const A: u32 = 100;
pub const B: u32 = 200;
pub const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const SERVER_PORT: u32 = 1;
const INTERNET_PORT: u32 = 2;

/// Returns an IPv4 address behind the prefix of a VPC.
pub fn behind(vni: u32, address: Ipv4Addr) -> Ipv6Addr {
    let prefix: Ipv6Addr = if vni == A { "64:ff9b::" } else { "2001:db8:64::" }.parse().expect("an address");
    Ipv6Addr::from_bits(prefix.to_bits() | u128::from(address.to_bits()))
}

/// The outcome of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It left to the Internet over IPv4.
    Internet(Vec<u8>),
    /// It left to a server over IPv6, with this VNI.
    Server(u32, Vec<u8>),
    /// It was dropped for this reason. The gateway sends the machine this message, if there is one.
    Dropped(String, Option<Vec<u8>>),
}

/// The gateway.
pub struct Gateway(pub GatewayPair);

impl Gateway {
    pub fn new() -> Gateway {
        Gateway(GatewayPair::new(REGION))
    }

    fn run(&mut self, port: u32, frame: &[u8]) -> Outcome {
        self.0.run(&frame, |engine, now| process(engine, port, frame, now))
    }

    /// Sends an IPv6 packet of a machine, with padding behind it.
    pub fn send_padded(&mut self, vni: u32, packet: &[u8], padding: usize) -> Outcome {
        let any = Ipv6Addr::LOCALHOST.into();
        let outer = (Ipv4Addr::new(192, 0, 2, 11).into(), Ipv4Addr::new(192, 0, 2, 1).into());
        let content = Some([packet, &vec![0; padding]].concat());
        let frame = VxlanFrame { content, ..VxlanFrame::new(outer, vni, IpPacket::new(any, any, 17, Vec::new())) };
        self.run(SERVER_PORT, &frame.bytes())
    }

    pub fn send_bytes(&mut self, vni: u32, packet: &[u8]) -> Outcome {
        self.send_padded(vni, packet, 0)
    }

    /// Sends a packet of a machine. Returns the bytes that the host gets.
    #[track_caller]
    pub fn sent_bytes(&mut self, vni: u32, packet: &[u8]) -> Vec<u8> {
        match self.send_bytes(vni, packet) {
            Outcome::Internet(bytes) => bytes,
            other => panic!("{packet:02x?}: {other:?}"),
        }
    }

    /// Sends a packet of a machine. Returns it as the host gets it; its checksums are right.
    #[track_caller]
    pub fn send(&mut self, vni: u32, packet: &V6) -> V4 {
        V4::read(&self.sent_bytes(vni, &packet.bytes()))
    }

    /// Sends a packet of a machine that is dropped, and tells it nothing. Returns the reason.
    #[track_caller]
    pub fn refuse_out(&mut self, vni: u32, packet: &[u8]) -> String {
        silent(self.send_bytes(vni, packet))
    }

    /// Sends an IPv4 packet from the Internet.
    pub fn receive_bytes(&mut self, packet: &[u8]) -> Outcome {
        self.run(INTERNET_PORT, &[&[2, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 2, 2, 8, 0], packet].concat())
    }

    /// Sends a packet of a host. Returns it as the machine gets it; its checksum is right.
    #[track_caller]
    pub fn received_bytes(&mut self, vni: u32, packet: &[u8]) -> Vec<u8> {
        match self.receive_bytes(packet) {
            Outcome::Server(of, bytes) if of == vni => {
                assert_eq!(checksum_of(&bytes), 0, "{bytes:02x?}");
                bytes
            }
            other => panic!("{packet:02x?}: {other:?}"),
        }
    }

    /// Sends a packet of a host that reaches the machine as this one.
    #[track_caller]
    pub fn receive(&mut self, vni: u32, packet: &V4, expected: &V6) {
        assert_eq!(self.received_bytes(vni, &packet.bytes()), without_label(&expected.bytes()), "{packet:?}");
    }

    #[track_caller]
    pub fn refuse_in(&mut self, packet: &[u8]) -> String {
        silent(self.receive_bytes(packet))
    }
}

#[track_caller]
fn silent(outcome: Outcome) -> String {
    match outcome {
        Outcome::Dropped(reason, None) => reason,
        other => panic!("{other:?}"),
    }
}

/// Returns an IPv6 packet with the flow label 0 (RFC 7915, section 4.1).
pub fn without_label(packet: &[u8]) -> Vec<u8> {
    [&[packet[0], packet[1] & 0xf0, 0, 0], &packet[4..]].concat()
}

/// Returns an ICMPv6 message about a packet.
pub fn icmpv6(from: Ipv6Addr, to: Ipv6Addr, [kind, code]: [u8; 2], rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    let mut l4 = [&[kind, code, 0, 0][..], &rest, quoted].concat();
    let sum = pseudo_checksum(from, to, ICMPV6, &l4).to_be_bytes();
    l4[2..4].copy_from_slice(&sum);
    IpPacket::new(from.into(), to.into(), ICMPV6, l4).bytes()
}

/// Returns an ICMP message about a packet.
pub fn icmpv4(from: Ipv4Addr, to: Ipv4Addr, [kind, code]: [u8; 2], rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    let mut l4 = [&[kind, code, 0, 0][..], &rest, quoted].concat();
    let even = [&l4[..], &vec![0; l4.len() % 2]].concat();
    l4[2..4].copy_from_slice(&checksum(&even).to_be_bytes());
    IpPacket::new(from.into(), to.into(), 1, l4).bytes()
}

fn process(engine: &mut dyn Engine, port: u32, frame: &[u8], now: u64) -> Outcome {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    batch.push_bytes(frame, PortId(port), now).expect("a batch has room");
    engine.process(&mut batch, &mut out);
    let names = engine.reasons().clone();
    let mut outcome = None;
    for (emission, packet) in out.iter(&batch) {
        let found = match emission.verdict {
            Verdict::Forward { port } => forwarded(port.0, packet.bytes()),
            Verdict::Drop(reason) => Outcome::Dropped(names.drop_name(reason).into_owned(), None),
            Verdict::ToCpu { reason, .. } => panic!("to the CPU: {}", names.cpu_name(reason)),
        };
        outcome = Some(match (outcome.take(), found) {
            (Some(Outcome::Dropped(reason, None)), Outcome::Server(_, bytes)) => Outcome::Dropped(reason, Some(bytes)),
            // The error that was not sent.
            (Some(first), Outcome::Dropped(..)) => first,
            (None, found) => found,
            (Some(first), found) => panic!("{first:?}, then {found:?}"),
        });
    }
    outcome.expect("each packet has a verdict")
}

fn forwarded(port: u32, bytes: &[u8]) -> Outcome {
    if port == INTERNET_PORT {
        assert_eq!(bytes[12..14], [8, 0], "EtherType");
        return Outcome::Internet(bytes[14..].to_vec());
    }
    let vxlan = 14 + if bytes[14] >> 4 == 4 { 20 } else { 40 } + 8;
    let vni = u32::from_be_bytes([0, bytes[vxlan + 4], bytes[vxlan + 5], bytes[vxlan + 6]]);
    assert_eq!(bytes[vxlan + 20..vxlan + 22], [0x86, 0xdd], "inner EtherType");
    Outcome::Server(vni, bytes[vxlan + 22..].to_vec())
}
