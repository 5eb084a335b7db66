//! A gateway with a NAT on both engines, and packets to and from the Internet.

use interp::{Config, Interp};
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, PacketRef, PortId, Verdict};
use region::IdAssignments;
use std::net::{IpAddr, Ipv4Addr};
use testkit::frame::{IpPacket, VxlanFrame, checksum};
use testkit::gateway;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;
/// Flags of TCP.
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

pub const SECOND: u64 = 1_000_000_000;
pub const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
pub const REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
pub const OTHER_REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// Ports of the gateway.
const SERVER_PORT: u32 = 1;
const INTERNET_PORT: u32 = 2;

/// Two VPCs with the same addresses and one NAT.
const REGION: &str = "
region: r
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1], flow_secret: 0}
uplinks:
- {name: s, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:01:02}
- {name: isp, port: 2, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:02:02, mtu: 1500}
servers:
- {name: s1, address: 192.0.2.11, uplinks: [s]}
internet: {uplinks: [isp], nats: [{name: n, addresses: PUBLIC, ports_per_vm: PORTS}]}
vpcs:
- {name: a, vni: 100, subnets: [10.0.0.0/24], nat: n, routes: [{to: 0.0.0.0/0, internet: true}]}
- {name: b, vni: 200, subnets: [10.0.0.0/24], nat: n, routes: [{to: 0.0.0.0/0, internet: true}]}
vms:
- {name: a1, vpc: a, server: s1, mac: 02:00:00:10:00:01, addresses: [10.0.0.11]}
- {name: a2, vpc: a, server: s1, mac: 02:00:00:10:00:02, addresses: [10.0.0.12]}
- {name: b1, vpc: b, server: s1, mac: 02:00:00:20:00:01, addresses: [10.0.0.11]}
";

/// A machine: its VNI and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vm(pub u32, pub Ipv4Addr);

pub const A1: Vm = Vm(100, Ipv4Addr::new(10, 0, 0, 11));
pub const A2: Vm = Vm(100, Ipv4Addr::new(10, 0, 0, 12));
pub const B1: Vm = Vm(200, Ipv4Addr::new(10, 0, 0, 11));

/// One side of a flow: address and port.
pub type Side = (Ipv4Addr, u16);

/// An IPv4 packet with its layer 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub protocol: u8,
    pub from: Side,
    pub to: Side,
    pub flags: u8,
    pub ttl: u8,
    /// Bytes behind the header of layer 4.
    pub data: Vec<u8>,
}

impl Packet {
    pub fn udp(from: Side, to: Side) -> Packet {
        Packet { protocol: UDP, from, to, flags: 0, ttl: 64, data: b"sixteen bytes ok".to_vec() }
    }

    pub fn tcp(from: Side, to: Side, flags: u8) -> Packet {
        Packet { protocol: TCP, flags, ..Packet::udp(from, to) }
    }

    /// An echo request; the port of `from` is the identifier.
    pub fn ping(from: Side, to: Ipv4Addr) -> Packet {
        Packet { protocol: ICMP, ..Packet::udp(from, (to, 0)) }
    }

    /// An echo reply; the port of `to` is the identifier.
    pub fn pong(from: Ipv4Addr, to: Side) -> Packet {
        Packet { protocol: ICMP, ..Packet::udp((from, 0), to) }
    }

    /// Returns the answer to a packet.
    pub fn answer(&self, flags: u8) -> Packet {
        Packet { from: self.to, to: self.from, flags, ..self.clone() }
    }

    /// Returns the IP packet with right checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let [source, destination] = [self.from.1, self.to.1].map(u16::to_be_bytes);
        let mut l4 = match self.protocol {
            UDP => [&source[..], &destination, &(8 + self.data.len() as u16).to_be_bytes(), &[0, 0]].concat(),
            TCP => [&source[..], &destination, &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, self.flags, 1, 0, 0, 0, 0, 0]].concat(),
            _ if self.to.1 == 0 => [&[8, 0, 0, 0][..], &source, &[0, 1]].concat(),
            _ => [&[0, 0, 0, 0][..], &destination, &[0, 1]].concat(),
        };
        l4.extend(&self.data);
        // RFC 768: 0 would mean that there is none.
        let sum = match l4_checksum(self.protocol, self.from.0, self.to.0, &l4) {
            0 if self.protocol == UDP => u16::MAX,
            sum => sum,
        };
        let at = checksum_offset(self.protocol);
        l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let (from, to) = (IpAddr::V4(self.from.0), IpAddr::V4(self.to.0));
        IpPacket { ttl: self.ttl, ..IpPacket::new(from, to, self.protocol, l4) }.bytes()
    }

    /// Reads an IP packet, and checks its checksums.
    pub fn read(bytes: &[u8]) -> Packet {
        let bytes = &bytes[..usize::from(u16::from_be_bytes([bytes[2], bytes[3]]))];
        assert_eq!(checksum(&bytes[..20]), 0, "the checksum of the IP header {bytes:02x?}");
        let address = |at: usize| Ipv4Addr::from(u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (protocol, l4, from, to) = (bytes[9], &bytes[20..], address(12), address(16));
        assert_eq!(l4_checksum(protocol, from, to, l4), 0, "the checksum of layer 4 {bytes:02x?}");
        let (ports, header) = match protocol {
            UDP => ([port(20), port(22)], 8),
            TCP => ([port(20), port(22)], 20),
            _ if bytes[20] == 8 => ([port(24), 0], 8),
            _ => ([0, port(24)], 8),
        };
        let flags = if protocol == TCP { l4[13] } else { 0 };
        let data = l4[header..].to_vec();
        Packet { protocol, from: (from, ports[0]), to: (to, ports[1]), flags, ttl: bytes[8], data }
    }
}

fn checksum_offset(protocol: u8) -> usize {
    match protocol {
        UDP => 6,
        TCP => 16,
        _ => 2,
    }
}

/// Returns the checksum over layer 4, of TCP and UDP with the pseudo-header; 0 if the one in it is
/// right.
fn l4_checksum(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, l4: &[u8]) -> u16 {
    let mut bytes = Vec::new();
    if protocol != ICMP {
        bytes.extend(from.octets());
        bytes.extend(to.octets());
        bytes.extend([0, protocol]);
        bytes.extend((l4.len() as u16).to_be_bytes());
    }
    bytes.extend(l4);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    checksum(&bytes)
}

/// Returns an ICMP error that quotes a packet.
pub fn icmp_error(from: Ipv4Addr, to: Ipv4Addr, [kind, code]: [u8; 2], quoted: &[u8]) -> Vec<u8> {
    let mut l4 = vec![kind, code, 0, 0, 0, 0, 5, 0x78];
    l4.extend(&quoted[..28]);
    let sum = checksum(&l4).to_be_bytes();
    l4[2..4].copy_from_slice(&sum);
    IpPacket::new(from.into(), to.into(), ICMP, l4).bytes()
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It left to the Internet.
    Internet(Vec<u8>),
    /// It left to the server of a machine with this VNI.
    Server(u32, Vec<u8>),
    /// It was dropped for this reason.
    Dropped(String),
}

/// The gateway.
pub struct Gateway {
    interp: Interp,
    native: Jit,
    now: u64,
}

impl Gateway {
    /// A NAT with these public addresses, and as many ports for each VM.
    pub fn new(public: &str, ports: u32) -> Gateway {
        Gateway::of_region(&REGION.replace("PUBLIC", public).replace("PORTS", &ports.to_string()))
    }

    /// A region that has other public addresses in the place of the NAT.
    pub fn with_internet(internet: &str) -> Gateway {
        let nat = "nats: [{name: n, addresses: PUBLIC, ports_per_vm: PORTS}]";
        assert!(REGION.contains(nat));
        Gateway::of_region(&REGION.replace(nat, internet))
    }

    fn of_region(text: &str) -> Gateway {
        let pipeline = gateway::pipeline().expect("the gateway compiles");
        let region = region::parse("region.yaml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let mut numbers = IdAssignments::default();
        let entries = region::entries(&region, "region.yaml", &pipeline, &mut numbers).expect("entries");
        let batch = region::diff(region::GatewayEntries::default(), entries);
        let mut interp = Interp::new(pipeline.clone(), Config::default()).expect("it loads");
        let mut native = testkit::native::engine(&pipeline).expect("it loads");
        assert_eq!(native.fallback_reason(), None);
        interp.write(&batch).expect("entries are taken");
        native.write(&batch).expect("entries are taken");
        Gateway { interp, native, now: SECOND }
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        // The clock of idle times advances in steps, as in a node.
        for _ in 0..seconds {
            self.now += SECOND;
            self.interp.advance_time(self.now);
            self.native.advance_time(self.now);
        }
    }

    /// Sends a frame through both engines.
    fn run(&mut self, port: u32, frame: &[u8]) -> Outcome {
        let [expected, found] =
            [process(&mut self.interp, port, frame, self.now), process(&mut self.native, port, frame, self.now)];
        assert_eq!(expected, found, "native code, for {frame:02x?}");
        found
    }

    /// Sends an IP packet of a VM.
    pub fn send_bytes(&mut self, vm: Vm, packet: &[u8]) -> Outcome {
        let placeholder = IpPacket::new(vm.1.into(), REMOTE.into(), UDP, Vec::new());
        let outer = (SERVER.into(), Ipv4Addr::new(192, 0, 2, 1).into());
        let frame = VxlanFrame { content: Some(packet.to_vec()), ..VxlanFrame::new(outer, vm.0, placeholder) };
        self.run(SERVER_PORT, &frame.bytes())
    }

    /// Sends a packet of a VM. Returns it as the Internet gets it.
    pub fn send(&mut self, vm: Vm, packet: &Packet) -> Packet {
        match self.send_bytes(vm, &packet.bytes()) {
            Outcome::Internet(bytes) => Packet::read(&bytes),
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    /// Sends a packet of a VM that must be dropped. Returns the reason.
    pub fn send_refused(&mut self, vm: Vm, packet: &Packet) -> String {
        reason(self.send_bytes(vm, &packet.bytes()))
    }

    /// Sends an IP packet from the Internet.
    pub fn receive_bytes(&mut self, packet: &[u8]) -> Outcome {
        let ethernet = [&[2, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 2, 2][..], &[8, 0]].concat();
        self.run(INTERNET_PORT, &[&ethernet[..], packet].concat())
    }

    /// Sends a packet from the Internet. Returns it as the VM gets it.
    pub fn receive(&mut self, vm: Vm, packet: &Packet) -> Packet {
        match self.receive_bytes(&packet.bytes()) {
            Outcome::Server(vni, bytes) if vni == vm.0 => Packet::read(&bytes),
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    /// Sends a packet from the Internet that must be dropped. Returns the reason.
    pub fn receive_refused(&mut self, packet: &Packet) -> String {
        reason(self.receive_bytes(&packet.bytes()))
    }

    /// Opens a TCP connection. Returns its first packet as the Internet gets it.
    pub fn connect(&mut self, vm: Vm, port: u16, to: Side) -> Packet {
        let syn = Packet::tcp((vm.1, port), to, SYN);
        let sent = self.send(vm, &syn);
        assert_eq!(self.receive(vm, &sent.answer(SYN | ACK)).to, (vm.1, port));
        self.send(vm, &Packet::tcp((vm.1, port), to, ACK));
        sent
    }
}

fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Dropped(reason) => reason,
        other => panic!("not dropped: {other:?}"),
    }
}

fn process(engine: &mut dyn Engine, port: u32, frame: &[u8], now: u64) -> Outcome {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    batch.push_bytes(frame, PortId(port), now).expect("a batch has room");
    engine.process(&mut batch, &mut out);
    let names = engine.reasons().clone();
    let (emission, packet) = out.iter(&batch).next().expect("each packet has a verdict");
    assert_eq!(emission.packet, PacketRef::Input(0));
    match emission.verdict {
        Verdict::Forward { port } if port.0 == INTERNET_PORT => Outcome::Internet(packet.bytes()[14..].to_vec()),
        Verdict::Forward { .. } => {
            let bytes = packet.bytes();
            Outcome::Server(u32::from_be_bytes([0, bytes[46], bytes[47], bytes[48]]), bytes[64..].to_vec())
        }
        Verdict::Drop(reason) => Outcome::Dropped(names.drop_name(reason).into_owned()),
        Verdict::ToCpu { .. } => panic!("to the CPU"),
    }
}
