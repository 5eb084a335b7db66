//! A gateway with VPCs on the Internet over IPv6, on both engines, and packets in both directions.

use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use testkit::frame::{IpPacket, VxlanFrame, checksum};
use testkit::gateway_pair::GatewayPair;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ESP: u8 = 50;
pub const ICMPV6: u8 = 58;
/// Flags of TCP.
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Ports of the gateway.
pub const SERVER_PORT: u32 = 1;
pub const INTERNET_PORT: u32 = 2;

/// VPC `a` takes answers, `b` all; `n` and `l` translate a prefix of 48 bits and one of 64, of which `l`
/// takes answers; `v` has no way to the Internet over IPv6.
pub const REGION: &str = "
region: r
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1, 2001:db8:f::1], flow_secret: 0}
uplinks:
- {name: s, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:01:02}
- {name: isp, port: 2, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:02:02, mtu: 1500}
servers:
- {name: s1, address: 192.0.2.11, uplinks: [s]}
- {name: s2, address: 2001:db8:f::12, uplinks: [s]}
internet: {uplinks: [isp], refuse: [2001:db8:ee::/48]}
vpcs:
- name: a
  vni: 100
  subnets: [2001:db8:a::/64]
  ipv6_internet: {inbound: answers}
  max_flows: 100
  answer: [echo, neighbours]
  routes: [{to: '::/0', internet: true}]
  security_groups:
  - {name: web, rules: [{direction: ingress, protocol: tcp, ports: 443}, {direction: egress}]}
- name: b
  vni: 200
  subnets: [2001:db8:b::/64]
  ipv6_internet: {inbound: all}
  tcp_mss: 1200
  drop: [destination_options]
  acl: [{priority: 5, action: deny, direction: ingress, protocol: tcp, ports: 23}]
  routes: [{to: '::/0', internet: true}]
- name: n
  vni: 300
  subnets: [fd01:203:405:1::/64, fd01:203:405:ffff::/64]
  ipv6_internet: {inbound: all, translate: [{inside: fd01:203:405::/48, outside: 2001:db8:1::/48}]}
  routes: [{to: '::/0', internet: true}]
- name: l
  vni: 400
  subnets: [fd00:4:0:1::/64, fd00:5::/64]
  ipv6_internet: {subnets: [fd00:4:0:1::/64], translate: [{inside: fd00:4:0:1::/64, outside: 2001:db8:4:2::/64}]}
  routes: [{to: '::/0', internet: true}]
- {name: v, vni: 500, subnets: [fd00:6::/64], routes: [{to: '::/0', internet: true}]}
vms:
- {name: a1, vpc: a, server: s1, mac: 02:00:00:10:00:01, addresses: [2001:db8:a::11]}
- {name: a2, vpc: a, server: s2, mac: 02:00:00:10:00:02, addresses: [2001:db8:a::12]}
- {name: aw, vpc: a, server: s1, mac: 02:00:00:10:00:03, addresses: [2001:db8:a::80], groups: [web]}
- {name: b1, vpc: b, server: s1, mac: 02:00:00:20:00:01, addresses: [2001:db8:b::11]}
- {name: n1, vpc: n, server: s1, mac: 02:00:00:30:00:01, addresses: [fd01:203:405:1::1234]}
- {name: l1, vpc: l, server: s1, mac: 02:00:00:40:00:01, addresses: ['fd00:4:0:1::11', 'fd00:4:0:1:ffff:ffff::1']}
- {name: v1, vpc: v, server: s1, mac: 02:00:00:50:00:01, addresses: [fd00:6::11]}
";

pub const A: u32 = 100;
pub const B: u32 = 200;
pub const N: u32 = 300;
pub const L: u32 = 400;
pub const V: u32 = 500;

/// One side of a flow: address and port.
pub type Side = (Ipv6Addr, u16);

pub fn ip(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// A host in the Internet, and a router on the way there.
pub fn host() -> Ipv6Addr {
    ip("2001:db8:99::9")
}

pub fn router() -> Ipv6Addr {
    ip("2001:db8:98::1")
}

/// An IPv6 packet with its layer 4. Checksums are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub protocol: u8,
    pub from: Side,
    pub to: Side,
    /// Flags of TCP; type of ICMPv6.
    pub kind: u8,
    pub hop_limit: u8,
    /// Bytes behind the header of layer 4.
    pub data: Vec<u8>,
}

impl Packet {
    pub fn udp(from: Side, to: Side) -> Packet {
        Packet { protocol: UDP, from, to, kind: 0, hop_limit: 64, data: b"sixteen bytes ok".to_vec() }
    }

    pub fn tcp(from: Side, to: Side, flags: u8) -> Packet {
        Packet { protocol: TCP, kind: flags, ..Packet::udp(from, to) }
    }

    pub fn esp(from: Ipv6Addr, to: Ipv6Addr) -> Packet {
        Packet { protocol: ESP, ..Packet::udp((from, 0), (to, 0)) }
    }

    /// Returns an echo request; the port of `from` is the identifier.
    pub fn ping(from: Side, to: Ipv6Addr) -> Packet {
        Packet { protocol: ICMPV6, kind: 128, ..Packet::udp(from, (to, from.1)) }
    }

    /// Returns an ICMPv6 message of this type about a packet.
    pub fn error(from: Ipv6Addr, kind: u8, quoted: &Packet) -> Packet {
        Packet { protocol: ICMPV6, kind, data: quoted.bytes(), ..Packet::udp((from, 0), (quoted.from.0, 0)) }
    }

    /// Returns the packet in the other direction, with these flags of TCP.
    pub fn answer(&self, flags: u8) -> Packet {
        let kind = if self.protocol == ICMPV6 { 129 } else { flags };
        Packet { from: self.to, to: self.from, kind, ..self.clone() }
    }

    /// Returns the packet with one hop less.
    pub fn routed(&self) -> Packet {
        Packet { hop_limit: self.hop_limit - 1, ..self.clone() }
    }

    pub fn layer_4(&self) -> Vec<u8> {
        let [from, to] = [self.from.1, self.to.1].map(u16::to_be_bytes);
        let (mut bytes, at) = match self.protocol {
            TCP => {
                let rest = [0, 0, 0, 1, 0, 0, 0, 2, 0x50, self.kind, 1, 0, 0, 0, 0, 0];
                ([&from[..], &to, &rest, &self.data].concat(), 16)
            }
            UDP => {
                let length = (8 + self.data.len() as u16).to_be_bytes();
                ([&from[..], &to, &length, &[0, 0], &self.data].concat(), 6)
            }
            // An error has the MTU behind its checksum, an echo the identifier.
            ICMPV6 if self.kind < 128 => ([&[self.kind, 0, 0, 0, 0, 0, 5, 120][..], &self.data].concat(), 2),
            ICMPV6 => ([&[self.kind, 0, 0, 0][..], &from, &[0, 1], &self.data].concat(), 2),
            _ => return [&from[..], &to, &self.data].concat(),
        };
        let sum = pseudo_checksum(self.from.0, self.to.0, self.protocol, &bytes).to_be_bytes();
        bytes[at..at + 2].copy_from_slice(&sum);
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        let packet = IpPacket::new(self.from.0.into(), self.to.0.into(), self.protocol, self.layer_4());
        IpPacket { ttl: self.hop_limit, ..packet }.bytes()
    }
}

/// Returns the checksum of layer 4 with its pseudo-header (RFC 8200, section 8.1); 0 if it is right.
pub fn pseudo_checksum(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, layer_4: &[u8]) -> u16 {
    let length = (layer_4.len() as u32).to_be_bytes();
    let mut bytes = [&from.octets()[..], &to.octets(), &length, &[0, 0, 0, protocol], layer_4].concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    checksum(&bytes)
}

/// Returns the checksum of an IPv6 packet without extension headers; 0 if it is right.
pub fn checksum_of(packet: &[u8]) -> u16 {
    pseudo_checksum(source_of(packet), destination_of(packet), packet[6], &packet[40..])
}

pub fn source_of(packet: &[u8]) -> Ipv6Addr {
    let octets: [u8; 16] = packet[8..24].try_into().expect("a header");
    octets.into()
}

pub fn destination_of(packet: &[u8]) -> Ipv6Addr {
    let octets: [u8; 16] = packet[24..40].try_into().expect("a header");
    octets.into()
}

/// The outcome of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It left to the Internet.
    Internet(Vec<u8>),
    /// It left to a server, with this VNI.
    Server(u32, Vec<u8>),
    /// It was dropped for this reason. The gateway sends the VM this message, if there is one.
    Dropped(String, Option<Vec<u8>>),
    /// It went to the CPU.
    Cpu(String),
}

/// The gateway.
pub struct Gateway(GatewayPair);

impl Gateway {
    pub fn new() -> Gateway {
        Gateway::of(REGION)
    }

    pub fn of(region: &str) -> Gateway {
        Gateway(GatewayPair::new(region))
    }

    pub fn change_region(&mut self, region: &str) {
        self.0.change_region(region);
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.0.wait(seconds, 1);
    }

    /// Sends a frame through both engines.
    pub fn run(&mut self, port: u32, frame: &[u8]) -> Outcome {
        self.0.run(&frame, |engine, now| process(engine, port, frame, now))
    }

    /// Sends an IP packet of a VM whose server has an address of IPv4.
    pub fn send_bytes(&mut self, vni: u32, packet: &[u8]) -> Outcome {
        let outer = (Ipv4Addr::new(192, 0, 2, 11).into(), Ipv4Addr::new(192, 0, 2, 1).into());
        self.send_over(outer, vni, packet, 0)
    }

    /// Sends an IP packet of a VM in a tunnel with these addresses, with padding behind it.
    pub fn send_over(&mut self, outer: (IpAddr, IpAddr), vni: u32, packet: &[u8], padding: usize) -> Outcome {
        let placeholder = IpPacket::new(host().into(), host().into(), UDP, Vec::new());
        let content = Some([packet, &vec![0; padding]].concat());
        let frame = VxlanFrame { content, ..VxlanFrame::new(outer, vni, placeholder) };
        self.run(SERVER_PORT, &frame.bytes())
    }

    /// Sends a packet of a VM.
    pub fn send(&mut self, vni: u32, packet: &Packet) -> Outcome {
        self.send_bytes(vni, &packet.bytes())
    }

    /// Sends a packet of a VM that reaches the Internet as it is.
    #[track_caller]
    pub fn pass_out(&mut self, vni: u32, packet: &Packet) {
        assert_eq!(self.send(vni, packet), Outcome::Internet(packet.routed().bytes()), "{packet:?}");
    }

    /// Sends a packet of a VM. Returns it as the Internet gets it.
    #[track_caller]
    pub fn sent(&mut self, vni: u32, packet: &[u8]) -> Vec<u8> {
        match self.send_bytes(vni, packet) {
            Outcome::Internet(bytes) => bytes,
            other => panic!("{packet:02x?}: {other:?}"),
        }
    }

    /// Sends an IPv6 packet from the Internet.
    pub fn receive_bytes(&mut self, packet: &[u8]) -> Outcome {
        let ethernet = [&[2, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 2, 2][..], &[0x86, 0xdd]].concat();
        self.run(INTERNET_PORT, &[&ethernet[..], packet].concat())
    }

    pub fn receive(&mut self, packet: &Packet) -> Outcome {
        self.receive_bytes(&packet.bytes())
    }

    /// Sends a packet from the Internet that reaches a VM as it is.
    #[track_caller]
    pub fn pass_in(&mut self, vni: u32, packet: &Packet) {
        assert_eq!(self.receive(packet), Outcome::Server(vni, packet.routed().bytes()), "{packet:?}");
    }

    /// Sends a packet from the Internet. Returns it as a VM gets it.
    #[track_caller]
    pub fn received(&mut self, vni: u32, packet: &[u8]) -> Vec<u8> {
        match self.receive_bytes(packet) {
            Outcome::Server(of, bytes) if of == vni => bytes,
            other => panic!("{packet:02x?}: {other:?}"),
        }
    }

    /// Sends a packet from the Internet that is dropped for this reason.
    #[track_caller]
    pub fn refuse_in(&mut self, packet: &Packet, reason: &str) {
        assert_eq!(self.receive(packet), dropped(reason), "{packet:?}");
    }

    /// Sends a packet of a VM that is dropped for this reason.
    #[track_caller]
    pub fn refuse_out(&mut self, vni: u32, packet: &Packet, reason: &str) {
        assert_eq!(self.send(vni, packet), dropped(reason), "{packet:?}");
    }
}

/// Returns the outcome of a packet that is dropped, and its sender hears nothing.
pub fn dropped(reason: &str) -> Outcome {
    Outcome::Dropped(reason.to_owned(), None)
}

fn process(engine: &mut dyn Engine, port: u32, frame: &[u8], now: u64) -> Outcome {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    batch.push_bytes(frame, PortId(port), now).expect("a batch has room");
    engine.process(&mut batch, &mut out);
    let names = engine.reasons().clone();
    let mut outcome = None;
    for (emission, packet) in out.iter(&batch) {
        let found = match emission.verdict {
            Verdict::Forward { port } => sent(port.0, packet.bytes()),
            Verdict::Drop(reason) => dropped(&names.drop_name(reason)),
            Verdict::ToCpu { reason, .. } => Outcome::Cpu(names.cpu_name(reason).into_owned()),
        };
        // A message to the sender has a verdict of its own, behind that of the packet.
        outcome = Some(match (outcome.take(), found) {
            (Some(Outcome::Dropped(reason, None)), Outcome::Server(_, message)) => {
                Outcome::Dropped(reason, Some(message))
            }
            (None, found) => found,
            (Some(first), found) => panic!("{first:?}, then {found:?}"),
        });
    }
    outcome.expect("each packet has a verdict")
}

/// Reads a frame that was sent, with or without a VLAN tag.
fn sent(port: u32, bytes: &[u8]) -> Outcome {
    let start = if bytes[12..14] == [0x81, 0] { 18 } else { 14 };
    if port == INTERNET_PORT {
        assert_eq!(bytes[start - 2..start], [0x86, 0xdd], "EtherType");
        return Outcome::Internet(bytes[start..].to_vec());
    }
    let header = if bytes[start] >> 4 == 4 { 20 } else { 40 };
    let vxlan = start + header + 8;
    let vni = u32::from_be_bytes([0, bytes[vxlan + 4], bytes[vxlan + 5], bytes[vxlan + 6]]);
    assert_eq!(bytes[vxlan + 20..vxlan + 22], [0x86, 0xdd], "inner EtherType");
    Outcome::Server(vni, bytes[vxlan + 22..].to_vec())
}
