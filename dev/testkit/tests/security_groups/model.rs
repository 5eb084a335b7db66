//! The naive model of security groups: rules as lists, flows as a map, and the rules asked for each
//! packet of a flow.

use crate::fixture::{ACK, ESP, FIN, ICMP, ICMPV6, Layer4, Outcome, Packet, RST, SYN, Side, TCP, UDP};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;

/// The other side of a rule.
#[derive(Clone, Debug)]
pub enum Peer {
    Any,
    /// An address and the number of bits that count.
    Prefix(IpAddr, u8),
    Group(usize),
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    pub is_egress: bool,
    pub peer: Peer,
    /// `None`: any. 1 is ICMP of both versions of IP.
    pub protocol: Option<u8>,
    /// Ports, if the protocol has some.
    pub ports: Option<(u16, u16)>,
}

/// A VPC: its groups by number, and its settings.
#[derive(Clone, Debug, Default)]
pub struct Vpc {
    pub vni: u32,
    pub name: &'static str,
    pub subnets: &'static str,
    pub groups: Vec<Vec<Rule>>,
    pub keeps: bool,
    pub picks_up: bool,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Vm {
    pub vpc: usize,
    pub addresses: [IpAddr; 2],
    /// Numbers of its groups.
    pub groups: Vec<usize>,
}

/// A flow, by the side that began it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Flow {
    opener: Side,
    target: Side,
    protocol: u8,
    /// An echo: the opener sends the requests. Otherwise true.
    opener_asks: bool,
}

impl Flow {
    /// Returns the flow as its answers are.
    fn reversed(self) -> Flow {
        let opener_asks = self.opener_asks != [ICMP, ICMPV6].contains(&self.protocol);
        Flow { opener: self.target, target: self.opener, opener_asks, ..self }
    }
}

/// The region, and the flows that the gateway knows.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub vpcs: Vec<Vpc>,
    pub vms: Vec<Vm>,
    /// Flows as they began, by packets of both directions.
    flows: HashMap<Flow, Flow>,
}

impl Model {
    /// Forgets all flows.
    pub fn forget(&mut self) {
        self.flows.clear();
    }

    /// Returns the number of flows.
    pub fn flow_count(&self) -> usize {
        self.flows.values().collect::<std::collections::HashSet<_>>().len()
    }

    fn vm(&self, side: Side) -> Option<&Vm> {
        self.vms.iter().find(|vm| self.vpcs[vm.vpc].vni == side.vni && vm.addresses.contains(&side.address))
    }

    /// Returns the machine if it is in a group.
    fn member(&self, side: Side) -> Option<&Vm> {
        self.vm(side).filter(|vm| !vm.groups.is_empty())
    }

    /// Returns whether a machine's rules of a direction permit a flow. `service`: the port of its target.
    fn permits(&self, own: Side, peer: Side, is_egress: bool, (protocol, service): (u8, u16)) -> bool {
        let Some(vm) = self.member(own) else { return true };
        let rules = vm.groups.iter().flat_map(|group| &self.vpcs[vm.vpc].groups[*group]);
        rules.filter(|rule| rule.is_egress == is_egress).any(|rule| {
            let of_peer = match &rule.peer {
                Peer::Any => true,
                Peer::Prefix(address, len) => is_in(peer.address, *address, *len),
                Peer::Group(group) => {
                    own.vni == peer.vni && self.member(peer).is_some_and(|vm| vm.groups.contains(group))
                }
            };
            let of_protocol = rule.protocol.is_none_or(|of| of == protocol || of == ICMP && protocol == ICMPV6);
            of_peer && of_protocol && rule.ports.is_none_or(|(lo, hi)| (lo..=hi).contains(&service))
        })
    }

    /// Returns why a flow may not begin.
    fn refusal(&self, flow: Flow) -> Outcome {
        let service = (flow.protocol, flow.target.port);
        if !self.permits(flow.opener, flow.target, true, service) {
            Some("group_denied_out".to_owned())
        } else if !self.permits(flow.target, flow.opener, false, service) {
            Some("group_denied_in".to_owned())
        } else {
            None
        }
    }

    fn all_members(&self, sides: [Side; 2], has: impl Fn(&Vpc) -> bool) -> bool {
        sides.iter().filter_map(|side| self.member(*side)).all(|vm| has(&self.vpcs[vm.vpc]))
    }

    /// Returns what becomes of a packet.
    pub fn send(&mut self, packet: &Packet) -> Outcome {
        let Some((flow, opens, unknown)) = self.flow_of(packet) else { return Some("group_error".to_owned()) };
        let sides = [flow.opener, flow.target];
        if sides.iter().all(|side| self.member(*side).is_none()) {
            return None;
        }
        let has_ports = [TCP, UDP].contains(&flow.protocol) && !matches!(packet.layer_4, Layer4::Error(_));
        if has_ports && sides.iter().any(|side| side.port == 0) {
            return Some("group_port_0".to_owned());
        }
        if let Some(known) = self.flows.get(&flow) {
            let keeps = self.all_members(sides, |vpc| vpc.keeps);
            return if keeps || self.refusal(*known).is_none() { None } else { Some("group_flow_ended".to_owned()) };
        }
        if !opens {
            return Some(unknown.to_owned());
        }
        let refusal = self.refusal(flow);
        if refusal.is_none() {
            self.flows.insert(flow, flow);
            self.flows.insert(flow.reversed(), flow);
        }
        refusal
    }

    /// Returns the flow of a packet as if its source had begun it, whether the packet may begin it, and
    /// why it may not. `None`: an error that belongs to no flow.
    fn flow_of(&self, packet: &Packet) -> Option<(Flow, bool, &'static str)> {
        let (mut opener, mut target) = (packet.from, packet.to);
        let icmp = if opener.address.is_ipv6() { ICMPV6 } else { ICMP };
        let mut opener_asks = true;
        let (protocol, opens, unknown) = match &packet.layer_4 {
            Layer4::Udp => (UDP, true, ""),
            Layer4::Esp => {
                (opener.port, target.port) = (0, 0);
                (ESP, true, "")
            }
            Layer4::Ping => {
                target.port = 0;
                (icmp, true, "")
            }
            Layer4::Pong => {
                (opener.port, opener_asks) = (0, false);
                (icmp, false, "group_unasked")
            }
            Layer4::Tcp(flags) => {
                let picks_up = self.all_members([opener, target], |vpc| vpc.picks_up) && flags & (SYN | RST) == 0;
                (TCP, picks_up || flags & (SYN | ACK | RST | FIN) == SYN, "tcp_without_syn")
            }
            Layer4::Error(quoted) => {
                let (flow, ..) = self.flow_of(quoted)?;
                // The quoted packet went from the receiver of the error.
                if [opener, target].iter().all(|side| self.member(*side).is_none()) {
                    return Some((Flow { opener, target, protocol: icmp, opener_asks }, false, ""));
                }
                if flow.opener.address != target.address {
                    return None;
                }
                let flow = flow.reversed();
                (opener, target) = (Side { vni: opener.vni, ..flow.opener }, Side { vni: target.vni, ..flow.target });
                opener_asks = flow.opener_asks;
                (flow.protocol, false, "group_error")
            }
        };
        Some((Flow { opener, target, protocol, opener_asks }, opens, unknown))
    }

    /// Returns the region as text of a region file.
    pub fn text(&self) -> String {
        let mut text = "vpcs:\n".to_owned();
        for vpc in &self.vpcs {
            let Vpc { vni, name, subnets, keeps, picks_up, .. } = vpc;
            writeln!(text, "- name: {name}\n  vni: {vni}\n  subnets: {subnets}").expect("a text");
            writeln!(text, "  keep_established: {keeps}\n  tcp_pick_up: {picks_up}").expect("a text");
            writeln!(text, "  security_groups:").expect("a text");
            for (number, rules) in vpc.groups.iter().enumerate() {
                writeln!(text, "  - name: g{number}\n    rules:").expect("a text");
                for rule in rules {
                    writeln!(text, "    - {{{}}}", rule_text(rule)).expect("a text");
                }
            }
        }
        text += "peerings: [{between: [a, b]}]\nvms:\n";
        for (number, Vm { vpc, addresses: [v4, v6], groups }) in self.vms.iter().enumerate() {
            let groups: Vec<String> = groups.iter().map(|group| format!("g{group}")).collect();
            let (vpc, groups) = (self.vpcs[*vpc].name, groups.join(", "));
            let mac = format!("02:00:00:10:00:{number:02x}");
            writeln!(
                text,
                "- {{name: m{number}, vpc: {vpc}, server: s1, mac: '{mac}', addresses: [{v4}, '{v6}'], groups: [{groups}]}}"
            )
            .expect("a text");
        }
        text
    }
}

fn rule_text(rule: &Rule) -> String {
    let (direction, side) = if rule.is_egress { ("egress", "to") } else { ("ingress", "from") };
    let mut text = format!("direction: {direction}");
    match &rule.peer {
        Peer::Any => {}
        Peer::Prefix(address, len) => text += &format!(", {side}: '{address}/{len}'"),
        Peer::Group(group) => text += &format!(", {side}_group: g{group}"),
    }
    match rule.protocol {
        None => {}
        Some(ICMP) => text += ", protocol: icmp",
        Some(protocol) => text += &format!(", protocol: {protocol}"),
    }
    if let Some((lo, hi)) = rule.ports {
        text += &format!(", ports: {lo}-{hi}");
    }
    text
}

fn is_in(address: IpAddr, network: IpAddr, len: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u32::from(address) ^ u32::from(network)).checked_shr(32 - u32::from(len)).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            (u128::from(address) ^ u128::from(network)).checked_shr(128 - u32::from(len)).unwrap_or(0) == 0
        }
        _ => false,
    }
}
