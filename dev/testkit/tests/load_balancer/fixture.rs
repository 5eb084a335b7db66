//! A gateway with services on both engines and a region that can change, and packets of clients and
//! backends.

use packet::{Batch, BatchOutput, Engine, PacketRef, PortId, Verdict};
use std::net::Ipv4Addr;
use testkit::frame::{IpPacket, VxlanFrame};
use testkit::gateway_pair::GatewayPair;
pub use testkit::translated::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
const IDC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);
/// Ports of the gateway.
const SERVER_PORT: u32 = 1;
const INTERNET_PORT: u32 = 2;

/// Addresses of the services.
pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
pub const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 60);
pub const WEB: Side = (VIP, 80);
pub const DNS: Side = (VIP, 53);
pub const PUBLIC_WEB: Side = (PUBLIC, 80);
pub const REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// A machine: its VNI and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vm(pub u32, pub Ipv4Addr);

/// A client, in another subnet than the backends, and one in theirs.
pub const CLIENT: Vm = Vm(100, Ipv4Addr::new(10, 0, 0, 11));
pub const NEAR_CLIENT: Vm = Vm(100, Ipv4Addr::new(10, 0, 1, 11));
/// A machine of a peer.
pub const PEER: Vm = Vm(200, Ipv4Addr::new(10, 1, 0, 11));
/// A machine of another tenant with the same addresses.
pub const OTHER_TENANT: Vm = Vm(300, Ipv4Addr::new(10, 0, 0, 11));
/// A host in the data centre, whose packets come from a remote.
pub const IN_IDC: Vm = Vm(100, Ipv4Addr::new(10, 9, 0, 5));

/// Returns the backend with this number, from 1 on.
pub fn backend(number: u8) -> Vm {
    Vm(100, Ipv4Addr::new(10, 0, 1, 100 + number))
}

/// The region. `WEB_BACKENDS`, `WEB_OPTIONS`, `DNS_BACKENDS`, `MORE_SERVICES` and `VPC_OPTIONS` are replaced.
const REGION: &str = "
region: r
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1], flow_secret: 7}
uplinks:
- {name: s, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:01:02, mtu: 1450}
- {name: isp, port: 2, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:00:02:02, mtu: 1500}
servers:
- {name: s1, address: 192.0.2.11, uplinks: [s]}
remotes:
- {name: hq, kind: idc, address: 192.0.2.50, vni: 700, mac: 02:00:00:00:05:01, uplinks: [s]}
internet: {uplinks: [isp], nats: [{name: n, addresses: 198.51.100.16/32, ports_per_vm: 64}]}
vpcs:
- name: a
  vni: 100
  subnets: [10.0.0.0/24, 10.0.1.0/24]
  nat: n
  routes: [{to: 0.0.0.0/0, internet: true}, {to: 10.9.0.0/16, remote: hq}]
VPC_OPTIONS
  services:
  - {name: web, address: 10.0.0.100, public: 198.51.100.60, protocol: tcp, port: 80, WEB_OPTIONS backends: [WEB_BACKENDS]}
  - {name: dns, address: 10.0.0.100, protocol: udp, port: 53, backends: [DNS_BACKENDS]}
MORE_SERVICES
- {name: b, vni: 200, subnets: [10.1.0.0/24]}
- {name: c, vni: 300, subnets: [10.0.0.0/24], services: [{name: web, address: 10.0.0.100, protocol: tcp, port: 80, backends: [{vm: 10.0.0.12}]}]}
peerings: [{between: [a, b]}]
vms:
- {name: client, vpc: a, server: s1, mac: 02:00:00:10:00:01, addresses: [10.0.0.11]GROUPS}
- {name: near, vpc: a, server: s1, mac: 02:00:00:10:00:02, addresses: [10.0.1.11]}
- {name: peer, vpc: b, server: s1, mac: 02:00:00:20:00:01, addresses: [10.1.0.11]}
- {name: c1, vpc: c, server: s1, mac: 02:00:00:30:00:01, addresses: [10.0.0.11]}
- {name: c2, vpc: c, server: s1, mac: 02:00:00:30:00:02, addresses: [10.0.0.12]}
";

/// Number of machines that can be backends.
const BACKEND_MACHINES: u8 = 8;

/// What a region has besides the constant parts.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Backends of `web`: numbers of machines, with further keys.
    pub web: Vec<(u8, &'static str)>,
    /// Further keys of `web`, each with a comma behind it.
    pub web_options: &'static str,
    /// Backends of `dns`.
    pub dns: Vec<(u8, &'static str)>,
    /// Further services, each in a line.
    pub more_services: &'static str,
    /// Further lines of the VPC.
    pub vpc_options: &'static str,
    /// Groups of the client and of the backends.
    pub groups: [&'static str; 2],
    /// Whether the VPC has no services.
    pub without_services: bool,
}

impl Setup {
    /// Returns a setup with these backends of both services.
    pub fn of(numbers: &[u8]) -> Setup {
        let backends: Vec<(u8, &str)> = numbers.iter().map(|number| (*number, "")).collect();
        Setup { web: backends.clone(), dns: backends, ..Setup::default() }
    }

    /// Returns the setup with further keys for a backend of both services.
    pub fn with(mut self, number: u8, keys: &'static str) -> Setup {
        for (of, own) in self.web.iter_mut().chain(&mut self.dns) {
            if *of == number {
                *own = keys;
            }
        }
        self
    }

    fn text(&self) -> String {
        let list = |backends: &[(u8, &str)], port: &str| {
            let one = |(number, keys): &(u8, &str)| format!("{{vm: {}{port}{keys}}}", backend(*number).1);
            backends.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let group = |names: &str| if names.is_empty() { String::new() } else { format!(", groups: [{names}]") };
        let mut text = REGION
            .replace("WEB_BACKENDS", &list(&self.web, ", port: 8080"))
            .replace("DNS_BACKENDS", &list(&self.dns, ""))
            .replace("WEB_OPTIONS", self.web_options)
            .replace("MORE_SERVICES\n", self.more_services)
            .replace("VPC_OPTIONS\n", self.vpc_options)
            .replace("GROUPS", &group(self.groups[0]));
        if self.without_services {
            let lines = text.lines().filter(|line| !line.starts_with("  services:") && !line.starts_with("  - {name:"));
            text = lines.collect::<Vec<_>>().join("\n") + "\n";
        }
        for number in 1..=BACKEND_MACHINES {
            text += &format!(
                "- {{name: b{number}, vpc: a, server: s1, mac: 02:00:00:10:01:{number:02}, addresses: [{}]{}}}\n",
                backend(number).1,
                group(self.groups[1])
            );
        }
        text
    }
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It left to the server of a machine with this VNI, or to the remote.
    Tunnel(u32, Vec<u8>),
    /// It left to the Internet.
    Internet(Vec<u8>),
    /// It was dropped for this reason. The bytes are those of the ICMP error that its sender got.
    Dropped(String, Option<Vec<u8>>),
}

/// The gateway.
pub struct Gateway(GatewayPair);

impl Gateway {
    pub fn new(setup: &Setup) -> Gateway {
        Gateway(GatewayPair::new(&setup.text()))
    }

    /// Changes the region.
    pub fn change(&mut self, setup: &Setup) {
        self.0.change_region(&setup.text());
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: u64) {
        self.0.wait(seconds, 1);
    }

    /// Returns the number of entries of sessions.
    pub fn sessions(&self) -> usize {
        let table = entries::find_table(&self.0.pipeline, "sessions").expect("a table");
        self.0.interp.state().entry_count(table)
    }

    fn run(&mut self, port: u32, frame: &[u8]) -> Outcome {
        self.0.run(&frame, |engine, now| process(engine, port, frame, now))
    }

    /// Sends an IP packet of a machine, or of a host behind the remote.
    pub fn send_bytes(&mut self, vm: Vm, packet: &[u8]) -> Outcome {
        let placeholder = IpPacket::new(vm.1.into(), REMOTE.into(), UDP, Vec::new());
        let from = if vm == IN_IDC { IDC } else { SERVER };
        let outer = (from.into(), Ipv4Addr::new(192, 0, 2, 1).into());
        let frame = VxlanFrame { content: Some(packet.to_vec()), ..VxlanFrame::new(outer, vm.0, placeholder) };
        self.run(SERVER_PORT, &frame.bytes())
    }

    /// Sends a packet. Returns it as its receiver in a tunnel gets it, with the VNI.
    #[track_caller]
    pub fn send_to(&mut self, vm: Vm, packet: &Packet) -> (u32, Packet) {
        match self.send_bytes(vm, &packet.bytes()) {
            Outcome::Tunnel(vni, bytes) => (vni, Packet::read(&bytes)),
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    /// Sends a packet. Returns it as a machine of the VPC gets it.
    #[track_caller]
    pub fn send(&mut self, vm: Vm, packet: &Packet) -> Packet {
        let (vni, received) = self.send_to(vm, packet);
        assert_eq!(vni, 100);
        received
    }

    /// Sends a packet that must be dropped. Returns the reason.
    #[track_caller]
    pub fn refused(&mut self, vm: Vm, packet: &Packet) -> String {
        reason(self.send_bytes(vm, &packet.bytes()))
    }

    /// Sends an IP packet from the Internet.
    pub fn receive_bytes(&mut self, packet: &[u8]) -> Outcome {
        let ethernet = [&[2, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 2, 2][..], &[8, 0]].concat();
        self.run(INTERNET_PORT, &[&ethernet[..], packet].concat())
    }

    /// Sends a packet from the Internet. Returns it as a machine gets it.
    #[track_caller]
    pub fn receive(&mut self, packet: &Packet) -> Packet {
        match self.receive_bytes(&packet.bytes()) {
            Outcome::Tunnel(100, bytes) => Packet::read(&bytes),
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    /// Sends a packet to the Internet. Returns it as the Internet gets it.
    #[track_caller]
    pub fn send_out(&mut self, vm: Vm, packet: &Packet) -> Packet {
        match self.send_bytes(vm, &packet.bytes()) {
            Outcome::Internet(bytes) => Packet::read(&bytes),
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    /// Opens a TCP connection. Returns the number of its backend. Checks the addresses in both
    /// directions.
    #[track_caller]
    pub fn connect(&mut self, client: Vm, port: u16) -> u8 {
        let from = (client.1, port);
        let received = self.send(client, &Packet::tcp(from, WEB, SYN));
        assert_eq!((received.from, received.to.1), (from, 8080), "the client's address stays");
        let number = received.to.0.octets()[3] - 100;
        let answer = received.answer(SYN | ACK);
        let (_, answered) = self.send_to(backend(number), &Packet { ttl: 64, ..answer });
        assert_eq!((answered.from, answered.to), (WEB, from));
        self.send(client, &Packet::tcp(from, WEB, ACK));
        number
    }

    /// Sends data of a TCP connection. Returns the number of the backend that gets it.
    #[track_caller]
    pub fn send_data(&mut self, client: Vm, port: u16) -> u8 {
        self.send(client, &Packet::tcp((client.1, port), WEB, ACK)).to.0.octets()[3] - 100
    }

    /// Sends a datagram to `dns`. Returns the number of the backend that gets it.
    #[track_caller]
    pub fn ask(&mut self, client: Vm, port: u16) -> u8 {
        self.send(client, &Packet::udp((client.1, port), DNS)).to.0.octets()[3] - 100
    }
}

/// Returns the reason of a drop.
#[track_caller]
pub fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Dropped(reason, _) => reason,
        other => panic!("not dropped: {other:?}"),
    }
}

/// Returns the reason of a drop and the ICMP error about it.
#[track_caller]
pub fn told(outcome: Outcome) -> (String, Vec<u8>) {
    match outcome {
        Outcome::Dropped(reason, Some(told)) => (reason, told),
        other => panic!("not dropped with an ICMP error: {other:?}"),
    }
}

/// Returns the VNI and the IP packet of a frame in VXLAN.
fn content(frame: &[u8]) -> (u32, Vec<u8>) {
    (u32::from_be_bytes([0, frame[46], frame[47], frame[48]]), frame[64..].to_vec())
}

fn process(engine: &mut dyn Engine, port: u32, frame: &[u8], now: u64) -> Outcome {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    batch.push_bytes(frame, PortId(port), now).expect("a batch has room");
    engine.process(&mut batch, &mut out);
    let names = engine.reasons().clone();
    let (mut dropped, mut forwarded) = (None, None);
    for (emission, packet) in out.iter(&batch) {
        assert_eq!(emission.packet, PacketRef::Input(0));
        match emission.verdict {
            Verdict::Forward { port } => forwarded = Some((port.0, packet.bytes().to_vec())),
            Verdict::Drop(reason) => {
                // The error itself can be dropped, too: because of limits.
                dropped.get_or_insert_with(|| names.drop_name(reason).into_owned());
            }
            Verdict::ToCpu { .. } => panic!("to the CPU"),
        }
    }
    // A packet that causes an ICMP error is dropped, and becomes the error.
    match (dropped, forwarded) {
        (Some(reason), told) => Outcome::Dropped(reason, told.map(|(_, frame)| content(&frame).1)),
        (None, Some((INTERNET_PORT, frame))) => Outcome::Internet(frame[14..].to_vec()),
        (None, Some((_, frame))) => {
            let (vni, bytes) = content(&frame);
            Outcome::Tunnel(vni, bytes)
        }
        (None, None) => panic!("each packet has a verdict"),
    }
}
