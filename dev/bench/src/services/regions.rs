//! Region files with the services of the gateway, and packets that use them.
//!
//! VPCs of [`VPC_VMS`] machines each, all with the same addresses, on [`SERVERS`] servers.

use crate::ring::Template;
use crate::workload::{Flow, SERVERS, Workload};
use std::fmt::Write;

/// Machines of a VPC.
pub const VPC_VMS: usize = 250;
/// Packets of this size in bytes are within the tunnel.
const FRAME: usize = 64;
/// Backends of the service of each VPC: its last machines.
const BACKENDS: usize = 8;
/// Host part of the service's address. No machine has it.
const SERVICE_HOST: u32 = 254;
/// Port that all packets go to.
pub const PORT: u16 = 443;
/// First subnet: each VPC has 10.0.0.0/24.
const SUBNET: u32 = 0x0a00_0000;
/// Address of the service in its VPC.
pub const SERVICE_ADDRESS: &str = "10.0.0.254";
/// Bytes before the inner frame: Ethernet, IPv4, UDP, VXLAN.
const TUNNEL_HEADERS: usize = 50;
/// Hosts in the Internet: 203.0.113.0/24.
const INTERNET: u32 = 0xcb00_7100;

/// Which service the packets use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// None: packets between machines of a VPC.
    Routed,
    /// Packets between machines of a VPC that are in security groups.
    SecurityGroups,
    /// Packets of machines to the Internet, through a NAT.
    SourceNat,
    /// Packets of machines to a service of their VPC.
    LoadBalancer,
}

impl Service {
    /// All services.
    pub const ALL: [Service; 4] = [Service::Routed, Service::SecurityGroups, Service::SourceNat, Service::LoadBalancer];

    /// Returns the name for results.
    pub fn name(self) -> &'static str {
        match self {
            Service::Routed => "routed",
            Service::SecurityGroups => "security groups",
            Service::SourceNat => "source NAT",
            Service::LoadBalancer => "load balancer",
        }
    }
}

/// A region and its flows.
#[derive(Debug, Clone, Copy)]
pub struct ServiceWorkload {
    /// Service that the packets use.
    pub service: Service,
    /// Number of machines.
    pub vms: usize,
    /// Number of flows, spread evenly over the machines.
    pub flows: usize,
}

impl ServiceWorkload {
    /// Returns the number of VPCs.
    fn vpcs(&self) -> usize {
        self.vms.div_ceil(VPC_VMS)
    }

    /// Returns the text of the region file.
    pub fn region(&self) -> String {
        let mut text = String::from(
            "region: bench\n\
             gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1], flow_secret: 7}\n\
             uplinks:\n\
             - {name: in, port: 1, mac: '02:00:00:00:00:01', peer_mac: '02:00:00:00:00:0f'}\n\
             - {name: out, port: 2, mac: '02:00:00:00:00:01', peer_mac: '02:00:00:00:00:0f'}\n\
             - {name: isp, port: 3, mac: '02:00:00:00:00:01', peer_mac: '02:00:00:00:00:0f'}\n\
             internet: {uplinks: [isp], nats: [{name: public, addresses: 100.128.0.0/22}]}\nservers:\n",
        );
        for number in 0..SERVERS {
            let address = std::net::Ipv4Addr::from(Workload::server(number));
            let _ = writeln!(text, "- {{name: s{number}, address: {address}, uplinks: [out]}}");
        }
        text.push_str("vpcs:\n");
        for vpc in 0..self.vpcs() {
            self.write_vpc(vpc, &mut text);
        }
        text.push_str("vms:\n");
        let groups = if self.service == Service::SecurityGroups { ", groups: [all]" } else { "" };
        for vm in 0..self.vms {
            let (vpc, host) = (vm / VPC_VMS, vm % VPC_VMS + 1);
            let server = server_of(vm);
            let mac = format!("02:01:{:02x}:{:02x}:{:02x}:01", vm >> 16 & 255, vm >> 8 & 255, vm & 255);
            let _ = writeln!(
                text,
                "- {{name: m{vm}, vpc: v{vpc}, server: s{server}, mac: '{mac}', addresses: [10.0.0.{host}]{groups}}}"
            );
        }
        text
    }

    fn write_vpc(&self, vpc: usize, text: &mut String) {
        let vni = Workload::vni(vpc);
        let _ = writeln!(text, "- name: v{vpc}\n  vni: {vni}\n  subnets: [10.0.0.0/24]");
        match self.service {
            Service::Routed => {}
            Service::SecurityGroups => text.push_str(
                "  security_groups:\n  - {name: all, rules: [{direction: egress, protocol: udp}, \
                 {direction: ingress, protocol: udp, ports: 443}]}\n",
            ),
            Service::SourceNat => {
                text.push_str("  nat: public\n  routes: [{to: 0.0.0.0/0, internet: true}]\n");
            }
            Service::LoadBalancer => {
                let backend = |host: usize| format!("{{vm: 10.0.0.{host}}}");
                let backends: Vec<String> = (VPC_VMS - BACKENDS + 1..=VPC_VMS).map(backend).collect();
                let _ = writeln!(
                    text,
                    "  services: [{{name: web, address: 10.0.0.{SERVICE_HOST}, protocol: udp, port: {PORT}, backends: [{}]}}]",
                    backends.join(", ")
                );
            }
        }
    }

    /// Returns a packet of each flow, in random order, as they arrive at port 1.
    pub fn packets(&self, seed: u64) -> Packets {
        let template = Template::new(FRAME);
        let numbers = shuffled(self.flows, seed);
        let mut packets = Packets { len: template.packet_len(), bytes: Vec::new() };
        packets.bytes.resize(packets.len * self.flows, 0);
        for (number, bytes) in numbers.iter().zip(packets.bytes.chunks_exact_mut(packets.len)) {
            template.write(self.flow(*number as usize), bytes);
        }
        packets
    }

    /// Returns a flow of a machine. Clients of services are machines that are no backends.
    fn flow(&self, number: usize) -> Flow {
        let (vm, round) = (number % self.vms, number / self.vms);
        let (vpc, index) = (vm / VPC_VMS, vm % VPC_VMS);
        let (source, destination) = match self.service {
            Service::Routed | Service::SecurityGroups => (index, SUBNET + ((index + 1 + round) % VPC_VMS) as u32 + 1),
            Service::SourceNat => (index, INTERNET + (number as u32).wrapping_mul(0x9e37_79b1) % 250 + 1),
            Service::LoadBalancer => (index % (VPC_VMS - BACKENDS), SUBNET + SERVICE_HOST),
        };
        Flow {
            sender: Workload::server(server_of(vpc * VPC_VMS + source)),
            vni: Workload::vni(vpc),
            destination,
            source: SUBNET + source as u32 + 1,
            // Clients that stand for a backend have other ports than their own flows.
            port: 0x4000 + (round * 2) as u16 + u16::from(source != index),
            identification: number as u16,
        }
    }
}

/// Returns packets of flows to the Internet from `vms` machines of one tenant on one server, in random
/// order, for a system with one tunnel for each server and tenant.
pub fn one_tunnel_packets(flows: usize, vms: usize, seed: u64) -> impl ExactSizeIterator<Item = Vec<u8>> {
    let numbers = shuffled(flows, seed);
    let template = Template::new(FRAME);
    numbers
        .into_iter()
        .map(move |number| template.packet(one_tunnel_flow(number, vms as u32, INTERNET + number % 250 + 1)))
}

/// Returns packets without a tunnel from `vms` machines to [`SERVICE_ADDRESS`], in random order.
pub fn service_packets(flows: usize, vms: usize, seed: u64) -> impl ExactSizeIterator<Item = Vec<u8>> {
    let numbers = shuffled(flows, seed);
    let template = Template::new(FRAME);
    let flow = move |number| one_tunnel_flow(number, vms as u32, SUBNET + SERVICE_HOST);
    numbers.into_iter().map(move |number| template.packet(flow(number)).split_off(TUNNEL_HEADERS))
}

/// Returns the numbers below `count` in random order.
fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
    numbers
}

fn one_tunnel_flow(number: u32, vms: u32, destination: u32) -> Flow {
    Flow {
        sender: Workload::server(0),
        vni: Workload::vni(0),
        destination,
        source: SUBNET + 0x100 + number % vms,
        port: 0x4000 + (number / vms) as u16,
        identification: number as u16,
    }
}

/// Returns the number of a machine's server.
fn server_of(vm: usize) -> u32 {
    (vm as u32).wrapping_mul(0x9e37_79b1) >> 20
}

/// Packets of one length.
#[derive(Debug, Clone, Default)]
pub struct Packets {
    /// Length of each in bytes.
    pub len: usize,
    /// The packets, one after the other.
    pub bytes: Vec<u8>,
}

impl Packets {
    /// Returns the number of packets.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.len.max(1)
    }
}
