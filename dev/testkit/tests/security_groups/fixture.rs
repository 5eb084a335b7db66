//! A gateway with security groups on both engines, whose region can change, and packets of its VMs.

use packet::{Batch, BatchOutput, Engine, PacketRef, PortId, Verdict};
use region::{GatewayEntries, IdAssignments};
use std::net::IpAddr;
use testkit::frame::{IpPacket, VxlanFrame, checksum};
use testkit::gateway_pair::GatewayPair;

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ESP: u8 = 50;
pub const ICMPV6: u8 = 58;
/// Flags of TCP.
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Port of the gateway to the server of all machines.
const SERVER_PORT: u32 = 1;

/// The region without its VPCs.
const UNDERLAY: &str = "
region: r
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1], flow_secret: 0}
uplinks:
- {name: s, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:01:02}
servers:
- {name: s1, address: 192.0.2.11, uplinks: [s]}
";

/// One side of a flow: VNI, address and port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Side {
    pub vni: u32,
    pub address: IpAddr,
    pub port: u16,
}

/// Returns a side.
pub fn side(vni: u32, address: &str, port: u16) -> Side {
    Side { vni, address: address.parse().expect("an address"), port }
}

/// What a packet has at layer 4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Layer4 {
    /// TCP with these flags.
    Tcp(u8),
    Udp,
    /// An echo request whose identifier is the port of the source.
    Ping,
    /// An echo reply whose identifier is the port of the destination.
    Pong,
    /// ESP, which has no ports.
    Esp,
    /// An ICMP error that quotes a packet from its destination.
    Error(Box<Packet>),
}

/// A packet of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub from: Side,
    pub to: Side,
    pub layer_4: Layer4,
}

/// Returns a TCP segment.
pub fn tcp(from: Side, to: Side, flags: u8) -> Packet {
    Packet { from, to, layer_4: Layer4::Tcp(flags) }
}

/// Returns a UDP datagram.
pub fn udp(from: Side, to: Side) -> Packet {
    Packet { from, to, layer_4: Layer4::Udp }
}

impl Packet {
    /// Returns the packet in the other direction, with the flags of TCP.
    pub fn answer(&self, flags: u8) -> Packet {
        let layer_4 = match &self.layer_4 {
            Layer4::Tcp(_) => Layer4::Tcp(flags),
            Layer4::Ping => Layer4::Pong,
            other => other.clone(),
        };
        Packet { from: self.to, to: self.from, layer_4 }
    }

    /// Returns an ICMP error about the packet, from its destination.
    pub fn error(&self) -> Packet {
        Packet { from: self.to, to: self.from, layer_4: Layer4::Error(Box::new(self.clone())) }
    }

    /// Returns the IP packet.
    pub fn bytes(&self) -> Vec<u8> {
        let v6 = self.from.address.is_ipv6();
        let [source, destination] = [self.from.port, self.to.port].map(u16::to_be_bytes);
        let echo = |kind: u8, id: [u8; 2]| [&[kind, 0, 0, 0][..], &id, &[0, 1], b"echo"].concat();
        let icmp = if v6 { ICMPV6 } else { ICMP };
        let (protocol, payload) = match &self.layer_4 {
            Layer4::Tcp(flags) => {
                let rest = [0, 0, 0, 1, 0, 0, 0, 2, 0x50, *flags, 1, 0, 0, 0, 0, 0];
                (TCP, [&source[..], &destination, &rest].concat())
            }
            Layer4::Udp => (UDP, [&source[..], &destination, &[0, 24, 0, 0], b"sixteen bytes ok"].concat()),
            Layer4::Ping => (icmp, echo(if v6 { 128 } else { 8 }, source)),
            Layer4::Pong => (icmp, echo(if v6 { 129 } else { 0 }, destination)),
            Layer4::Esp => (ESP, b"\0\0\0\x01protected".to_vec()),
            Layer4::Error(quoted) => {
                let quoted = quoted.bytes();
                let header = if v6 { [1, 3, 0, 0, 0, 0, 0, 0] } else { [3, 3, 0, 0, 0, 0, 0, 0] };
                (icmp, [&header[..], &quoted[..if v6 { 48 } else { 28 }]].concat())
            }
        };
        IpPacket::new(self.from.address, self.to.address, protocol, payload).bytes()
    }
}

/// What became of a packet: `None`, it was forwarded; else the reason for its drop.
pub type Outcome = Option<String>;

/// The gateway.
pub struct Gateway(GatewayPair);

impl Gateway {
    /// A gateway with these VPCs, peerings and machines on server `s1`, as text of a region file.
    pub fn new(tenants: &str) -> Gateway {
        Gateway(GatewayPair::new(&region_text(tenants)))
    }

    /// A gateway with room for this number of flows over IPv4.
    pub fn with_flows(tenants: &str, flows: u64) -> Gateway {
        Gateway(GatewayPair::with_table_size("gateway.groups.groups_track.flows_v4", flows, &region_text(tenants)))
    }

    /// Changes the region.
    pub fn change_region(&mut self, tenants: &str) {
        self.0.change_region(&region_text(tenants));
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.0.wait(seconds, 60);
    }

    /// Sends IP packets, each from a machine with this VNI, as one batch.
    pub fn send_bytes(&mut self, packets: &[(u32, Vec<u8>)]) -> Vec<Outcome> {
        let frames: Vec<Vec<u8>> = packets.iter().map(|(vni, bytes)| frame(*vni, bytes)).collect();
        self.0.run(&packets, |engine, now| process(engine, &frames, now))
    }

    /// Sends a packet.
    pub fn send(&mut self, packet: &Packet) -> Outcome {
        self.send_bytes(&[(packet.from.vni, packet.bytes())]).remove(0)
    }

    /// Sends a packet that must pass.
    #[track_caller]
    pub fn pass(&mut self, packet: &Packet) {
        assert_eq!(self.send(packet), None, "{packet:?}");
    }

    /// Sends a packet that must be dropped for this reason.
    #[track_caller]
    pub fn refuse(&mut self, packet: &Packet, reason: &str) {
        assert_eq!(self.send(packet).as_deref(), Some(reason), "{packet:?}");
    }

    /// Opens a TCP connection. Returns its first packet.
    #[track_caller]
    pub fn connect(&mut self, from: Side, to: Side) -> Packet {
        let syn = tcp(from, to, SYN);
        self.pass(&syn);
        self.pass(&syn.answer(SYN | ACK));
        self.pass(&tcp(from, to, ACK));
        syn
    }
}

fn region_text(tenants: &str) -> String {
    format!("{UNDERLAY}{tenants}")
}

/// Returns the entries of a region with these tenants.
pub fn entries_of(pipeline: &ir::Pipeline, tenants: &str) -> GatewayEntries {
    let region = region::parse("region.yaml", &region_text(tenants)).unwrap_or_else(|problems| panic!("{problems}"));
    region::entries(&region, "region.yaml", pipeline, &mut IdAssignments::default()).expect("entries")
}

/// Returns an IP packet in VXLAN.
fn frame(vni: u32, bytes: &[u8]) -> Vec<u8> {
    let v6 = bytes[0] >> 4 == 6;
    let [any, other]: [IpAddr; 2] = if v6 { ["fd00::1", "fd00::2"] } else { ["10.0.0.1", "10.0.0.2"] }
        .map(|address| address.parse().expect("an address"));
    let outer = ([192, 0, 2, 11].into(), [192, 0, 2, 1].into());
    let placeholder = IpPacket::new(any, other, UDP, Vec::new());
    VxlanFrame { content: Some(bytes.to_vec()), ..VxlanFrame::new(outer, vni, placeholder) }.bytes()
}

fn process(engine: &mut dyn Engine, frames: &[Vec<u8>], now: u64) -> Vec<Outcome> {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    for frame in frames {
        batch.push_bytes(frame, PortId(SERVER_PORT), now).expect("a batch has room");
    }
    engine.process(&mut batch, &mut out);
    let names = engine.reasons().clone();
    let mut outcomes = vec![None; frames.len()];
    for (emission, _) in out.iter(&batch) {
        let PacketRef::Input(index) = emission.packet else { continue };
        outcomes[index as usize] = match emission.verdict {
            Verdict::Forward { .. } => None,
            Verdict::Drop(reason) => Some(names.drop_name(reason).into_owned()),
            Verdict::ToCpu { .. } => panic!("to the CPU"),
        };
    }
    outcomes
}

/// Returns an ICMP error of IPv4 with any content behind its header.
pub fn raw_error(from: Side, to: Side, quoted: &[u8]) -> Vec<u8> {
    let mut l4 = [&[3, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat();
    let sum = checksum(&l4).to_be_bytes();
    l4[2..4].copy_from_slice(&sum);
    IpPacket::new(from.address, to.address, ICMP, l4).bytes()
}
