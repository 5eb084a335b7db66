//! A gateway with a NAT on both engines, and packets to and from the Internet.

use packet::{Batch, BatchOutput, Engine, PacketRef, PortId, Verdict};
use std::net::Ipv4Addr;
use testkit::frame::{IpPacket, VxlanFrame};
use testkit::gateway_pair::GatewayPair;
pub use testkit::translated::*;

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
pub struct Gateway(GatewayPair);

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
        Gateway(GatewayPair::new(text))
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.0.wait(seconds, 1);
    }

    /// Sends a frame through both engines.
    fn run(&mut self, port: u32, frame: &[u8]) -> Outcome {
        self.0.run(&frame, |engine, now| process(engine, port, frame, now))
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
