//! Determines the VPC of a packet, its destination, and whether it is permitted.

use super::parse::{Fragment, InnerPacket, ParsedPacket};
use super::{Model, ModelVerdict, covers};
use region::{
    AclAction, AclDirection, AclRule, Answer, FlatRoute, Mac, Prefix, Protocol, RouteScope, RouteTarget, Uplink,
};
use std::net::IpAddr;

/// Destination and encapsulation of a packet.
pub(super) struct ForwardingDecision {
    /// Outer destination address.
    pub(super) tunnel: IpAddr,
    /// Uplinks to that address.
    pub(super) uplinks: Vec<usize>,
    /// Inner destination MAC.
    pub(super) mac: Mac,
    /// VNI of the sent packet.
    pub(super) vni: u32,
    /// Number of hops on the path.
    pub(super) hops: u8,
    /// The VPC that sent the packet, and that it is delivered in.
    pub(super) vpcs: Vec<usize>,
}

/// Kind of the sending tunnel end point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SenderKind {
    /// A server: the packet is from a VM.
    Server,
    /// A remote.
    Remote,
}

fn drop_verdict<T>(reason: &'static str) -> Result<T, ModelVerdict> {
    Err(ModelVerdict::Drop(reason.into()))
}

/// Returns whether a packet is DHCP or DHCPv6, by its destination port.
fn is_dhcp(parsed: &ParsedPacket) -> bool {
    let port = |l4: [u8; 4]| u16::from_be_bytes([l4[2], l4[3]]);
    parsed.udp && parsed.outer_l4.is_some_and(|l4| matches!(port(l4), 67 | 68 | 546 | 547))
}

/// Returns the verdict of a packet for the gateway itself.
fn punt_verdict(parsed: &ParsedPacket) -> ModelVerdict {
    let is_v4 = parsed.destination.is_some_and(|ip| ip.is_ipv4());
    // The port is unknown, so this can be VXLAN.
    if is_v4 && parsed.protocol == 17 && !parsed.udp {
        return ModelVerdict::Drop(if parsed.fragment { "underlay_fragment" } else { "underlay_ipv4_options" }.into());
    }
    if !is_v4 && parsed.protocol == 44 {
        return ModelVerdict::Drop("underlay_fragment".into());
    }
    // Neighbour discovery must not have passed a router (RFC 4861, section 6.1).
    let is_nd = !is_v4 && parsed.protocol == 58 && parsed.outer_l4.is_some_and(|l4| (133..=137).contains(&l4[0]));
    if is_nd && parsed.outer_ttl != 255 { ModelVerdict::Drop("nd_hop_limit".into()) } else { ModelVerdict::Cpu }
}

impl Model<'_> {
    /// Decides whether the packet is a tenant's, and returns its kind of sender.
    pub(super) fn classify(&self, parsed: &ParsedPacket, port: u32) -> Result<SenderKind, ModelVerdict> {
        let is_group = parsed.mac[0] & 1 == 1;
        let vlan = |uplink: &Uplink| uplink.vlan.as_ref().map(|vlan| vlan.value);
        let in_vlan = |uplink: &&Uplink| uplink.port.value == port && vlan(uplink) == parsed.vlan;
        let mut uplinks = self.region.file.uplinks.iter().filter(in_vlan);
        let is_other_vlan = parsed.vlan.is_some() && uplinks.clone().next().is_none();
        if (!is_group || parsed.vni.is_some()) && !uplinks.any(|uplink| uplink.mac.value.0 == parsed.mac) {
            let reasons = ["underlay_other_mac", "underlay_other_vlan"];
            return drop_verdict(reasons[usize::from(parsed.vlan.is_some())]);
        }
        let Some(destination) = parsed.destination else {
            let known = matches!(parsed.ether_type, 0x0806 | 0x88cc | 0x8809 | 0x888e);
            return match known {
                true if is_other_vlan => drop_verdict("underlay_other_vlan"),
                true => Err(ModelVerdict::Cpu),
                false => drop_verdict("underlay_not_ip"),
            };
        };
        let link_local = parsed.vni.is_none()
            && match destination {
                IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
                IpAddr::V6(ip) => ip.segments()[0] == 0xff02 || ip.segments()[0] >> 6 == 0x3fa,
            };
        if is_group && !link_local && !is_dhcp(parsed) {
            return drop_verdict("underlay_other_mac");
        }
        let file = &self.region.file;
        let mut host_addresses = file.uplinks.iter().flat_map(|uplink| &uplink.host).flat_map(|host| &host.addresses);
        let is_host = host_addresses.any(|address| address.value == destination);
        if !is_group && !link_local && !is_host && !file.gateway.vteps.iter().any(|v| v.value == destination) {
            return drop_verdict("not_for_gateway");
        }
        if parsed.vni.is_none() && is_other_vlan {
            return drop_verdict("underlay_other_vlan");
        }
        if parsed.vni.is_none() {
            return Err(punt_verdict(parsed));
        }
        // Tunnels of servers and remotes end at the tunnel addresses only.
        if is_host {
            return drop_verdict("unknown_source");
        }
        let sender = parsed.source.and_then(|source| self.sender_kind(source));
        sender.ok_or(ModelVerdict::Drop("unknown_source".into()))
    }

    /// Returns the kind of the tunnel end point with an address.
    fn sender_kind(&self, source: IpAddr) -> Option<SenderKind> {
        let file = &self.region.file;
        if file.servers.iter().any(|server| server.address.value == source) {
            return Some(SenderKind::Server);
        }
        if file.remotes.iter().any(|remote| remote.address.value == source) {
            return Some(SenderKind::Remote);
        }
        let servers = file.gateway.sources.iter().map(|prefix| (prefix.value, SenderKind::Server));
        let of_remotes = file.remotes.iter().flat_map(|remote| &remote.sources);
        let all = servers.chain(of_remotes.map(|prefix| (prefix.value, SenderKind::Remote)));
        let best = all.filter(|(prefix, _)| covers(*prefix, source)).max_by_key(|(prefix, _)| prefix.0.prefix_len());
        best.map(|(_, from)| from)
    }

    /// Returns whether a VPC accepts packets from an address.
    fn takes_from(&self, vpc: usize, source: IpAddr) -> bool {
        let file = &self.region.file;
        let places = self.region.vm_locations.iter().filter(|(of, _)| *of == vpc);
        let mut servers = places.map(|(_, server)| file.servers[*server].address.value);
        let mut remotes = self.region.tables[vpc].iter().flatten().filter_map(|route| match route.target {
            RouteTarget::Remote(remote, _) => Some(&file.remotes[remote]),
            _ => None,
        });
        !file.vpcs[vpc].strict_sources
            || servers.any(|address| address == source)
            || remotes.any(|r| r.address.value == source || r.sources.iter().any(|p| covers(p.value, source)))
    }

    /// Returns the VPC that a packet is from.
    pub(super) fn source_vpc(&self, parsed: &ParsedPacket) -> Result<usize, ModelVerdict> {
        let vpc = self.region.file.vpcs.iter().position(|v| Some(v.vni.value) == parsed.vni);
        let Some(vpc) = vpc else { return drop_verdict("unknown_vni") };
        let is_taken = parsed.source.is_some_and(|source| self.takes_from(vpc, source));
        if is_taken { Ok(vpc) } else { drop_verdict("source_denied") }
    }

    /// Decides the packet's destination, and whether it is permitted.
    pub(super) fn decide_destination(
        &self,
        parsed: &ParsedPacket,
        inner: &InnerPacket,
        sender: SenderKind,
    ) -> Result<ForwardingDecision, ModelVerdict> {
        let to_mac = Mac(parsed.inner_macs[0]);
        let file = &self.region.file;
        let own_vpc = self.source_vpc(parsed)?;
        let table = self.route_table(own_vpc, inner.source);
        let routes = self.region.tables[own_vpc][table].iter();
        let best = routes.filter(|r| covers(Prefix(r.prefix), inner.destination)).max_by_key(|r| r.prefix.prefix_len());
        let Some(route) = best else { return drop_verdict("no_route") };
        match route.target {
            RouteTarget::NoRoute => return drop_verdict("no_route"),
            RouteTarget::Blackhole => return drop_verdict("blackhole_route"),
            _ => {}
        }
        let is_same_subnet = route.scope == RouteScope::Local && covers(Prefix(route.prefix), inner.source);
        let ttl_decrement = if is_same_subnet { 0 } else { 1 };
        self.check_acls(own_vpc, sender, route, inner)?;
        let decision = match route.target {
            RouteTarget::Vpc(to) => {
                debug_assert_eq!(route.scope == RouteScope::Local, to == own_vpc);
                let decision = self.to_vm(to, inner.destination, ttl_decrement)?;
                Some(ForwardingDecision { vpcs: vec![own_vpc, to], ..decision })
            }
            RouteTarget::Remote(index, vni) => {
                let decision = self.to_remote(index, vni, ttl_decrement);
                Some(ForwardingDecision { vpcs: vec![own_vpc], ..decision })
            }
            _ => None,
        };
        let is_vm_itself = is_same_subnet && decision.as_ref().is_some_and(|decision| decision.mac == to_mac);
        if to_mac != file.gateway.mac.value && !is_vm_itself {
            return drop_verdict("inner_other_mac");
        }
        if inner.ttl <= ttl_decrement {
            return drop_verdict("inner_ttl_expired");
        }
        let receiver_drops = match route.target {
            RouteTarget::Vpc(to) => file.vpcs[to].dropped_extensions(),
            _ => 0,
        };
        if inner.extensions & (file.vpcs[own_vpc].dropped_extensions() | receiver_drops) != 0 {
            return drop_verdict("extension_denied");
        }
        // A packet to or from the Internet.
        decision.ok_or(ModelVerdict::Cpu)
    }

    fn to_vm(&self, vpc: usize, address: IpAddr, hops: u8) -> Result<ForwardingDecision, ModelVerdict> {
        let file = &self.region.file;
        let vni = file.vpcs[vpc].vni.value;
        let Some(vm) = self.vms.get(&(vni, address)) else {
            let answers = self.answers_at(vpc, address);
            let echo = file.vpcs[vpc].answers(Answer::Echo);
            return drop_verdict(if !answers {
                "unknown_vm"
            } else {
                ["answer_neighbour", "answer_echo"][usize::from(echo)]
            });
        };
        let server = self.region.vm_locations[*vm].1;
        let uplinks = self.region.server_uplinks[server].clone();
        Ok(ForwardingDecision {
            tunnel: file.servers[server].address.value,
            uplinks,
            mac: file.vms[*vm].mac.value,
            vni,
            hops,
            vpcs: Vec::new(),
        })
    }

    fn to_remote(&self, index: usize, vni: u32, hops: u8) -> ForwardingDecision {
        let remote = &self.region.file.remotes[index];
        let uplinks = self.region.remote_uplinks[index].clone();
        ForwardingDecision { tunnel: remote.address.value, uplinks, mac: remote.mac.value, vni, hops, vpcs: Vec::new() }
    }

    /// Checks the ACLs of all VPCs on the path: the source VPC, those that it passes, and the one
    /// that it is delivered in.
    fn check_acls(
        &self,
        from: usize,
        sender: SenderKind,
        route: &FlatRoute,
        inner: &InnerPacket,
    ) -> Result<(), ModelVerdict> {
        let delivered_here = sender == SenderKind::Remote && route.scope == RouteScope::Local;
        if !delivered_here {
            verdict(self.acl_action(from, true, inner), ["acl_denied_out", "acl_rejected_out"])?;
        }
        for vpc in &route.via {
            verdict(self.acl_action(*vpc, true, inner), ["acl_denied_transit", "acl_rejected_transit"])?;
        }
        match route.target {
            RouteTarget::Vpc(to) => verdict(self.acl_action(to, false, inner), ["acl_denied_in", "acl_rejected_in"]),
            _ => Ok(()),
        }
    }

    /// Returns the route table for a source address.
    fn route_table(&self, vpc: usize, source: IpAddr) -> usize {
        let policy = self.region.file.vpcs[vpc].policy.iter().zip(&self.region.policies[vpc]);
        let matching = policy.filter(|(rule, _)| covers(Prefix(rule.from.network()), source));
        matching.max_by_key(|(rule, _)| rule.from.0.prefix_len()).map_or(0, |(_, table)| *table)
    }

    fn acl_action(&self, vpc: usize, egress: bool, inner: &InnerPacket) -> AclAction {
        if inner.is_solicitation() && inner.fragment != Fragment::Later && self.is_own_address(vpc, inner.destination) {
            return AclAction::Permit;
        }
        let vpc = &self.region.file.vpcs[vpc];
        let mut rules: Vec<&AclRule> = vpc.acl.iter().map(|r| &r.value).collect();
        rules.sort_by_key(|r| std::cmp::Reverse(r.priority.value));
        let first = rules.into_iter().find(|rule| rule_matches(rule, egress, inner));
        first.map_or(vpc.acl_default, |rule| rule.action)
    }
}

/// Returns the verdict of a list, with the reasons for a denied and for a rejected packet.
fn verdict(action: AclAction, [denied, rejected]: [&'static str; 2]) -> Result<(), ModelVerdict> {
    match action {
        AclAction::Permit => Ok(()),
        AclAction::Deny => drop_verdict(denied),
        AclAction::Reject => drop_verdict(rejected),
    }
}

/// Returns whether an ACL rule matches a packet in a direction (`egress`: from the VM). ICMP types
/// and codes are in the place of ports.
fn rule_matches(rule: &AclRule, egress: bool, inner: &InnerPacket) -> bool {
    let direction_matches = match rule.direction {
        AclDirection::Both => true,
        AclDirection::Egress => egress,
        AclDirection::Ingress => !egress,
    };
    let protocol_matches = match rule.protocol.as_ref().map(|p| p.value) {
        None | Some(Protocol::Any) => true,
        Some(Protocol::Number(1)) if rule.icmp_type.is_some() => inner.protocol == 1 && inner.source.is_ipv4(),
        Some(Protocol::Icmp) if rule.icmp_type.is_some() => inner.protocol == 1 && inner.source.is_ipv4(),
        Some(Protocol::Number(58)) if rule.icmp_type.is_some() => inner.protocol == 58 && inner.source.is_ipv6(),
        Some(Protocol::Icmp) => inner.protocol == if inner.source.is_ipv4() { 1 } else { 58 },
        Some(Protocol::Number(n)) => inner.protocol == n,
    };
    let is_within = |prefix: &Option<region::WithPos<Prefix>>, ip| prefix.as_ref().is_none_or(|p| covers(p.value, ip));
    let ports_match = if inner.fragment == Fragment::Later {
        // A rule with ports matches fragments without ports if it permits, but never if it denies.
        let names_ports = rule.source_ports.is_some() || rule.ports.is_some() || rule.icmp_type.is_some();
        !names_ports || rule.action == AclAction::Permit
    } else {
        let in_range = |range: &Option<region::WithPos<region::Ports>>, port| {
            range.as_ref().is_none_or(|r| (r.lo..=r.hi).contains(&port))
        };
        let is_number = |number: &Option<region::NumberWithPos<u8>>, value| {
            number.as_ref().is_none_or(|n| u16::from(n.value) == value)
        };
        let icmp_matches = is_number(&rule.icmp_type, inner.ports.0) && is_number(&rule.icmp_code, inner.ports.1);
        icmp_matches && in_range(&rule.source_ports, inner.ports.0) && in_range(&rule.ports, inner.ports.1)
    };
    direction_matches
        && protocol_matches
        && ports_match
        && is_within(&rule.from, inner.source)
        && is_within(&rule.to, inner.destination)
}

/// What VXLAN contains.
pub(super) enum Content<'a> {
    /// A packet that can be routed.
    Packet(&'a InnerPacket),
    /// ARP, or a neighbour solicitation that cannot be routed.
    Request(Option<&'a InnerPacket>),
}

/// Checks the VXLAN encapsulation. Returns its content if there is VXLAN.
pub(super) fn tunnelled<'a>(packet: &[u8], parsed: &'a ParsedPacket) -> Result<Option<Content<'a>>, ModelVerdict> {
    if parsed.vni.is_none() {
        return Ok(None);
    }
    let inner = inner_packet(packet, parsed)?;
    if Mac(parsed.inner_macs[1]).is_group() {
        return drop_verdict("inner_source_mac");
    }
    let Some(inner) = inner else { return Ok(Some(Content::Request(None))) };
    match check_addresses(inner) {
        Err(_) if inner.is_solicitation() => Ok(Some(Content::Request(Some(inner)))),
        checked => checked.map(|()| Some(Content::Packet(inner))),
    }
}

/// Returns the inner packet, or `None` for ARP, after the checks of UDP and VXLAN, in the order of the
/// program's checks. The lengths of the headers must fit in each other.
fn inner_packet<'a>(packet: &[u8], parsed: &'a ParsedPacket) -> Result<Option<&'a InnerPacket>, ModelVerdict> {
    let read_u16 = |offset: usize| usize::from(packet[offset]) << 8 | usize::from(packet[offset + 1]);
    let udp_offset = 14 + parsed.outer_ip;
    let ip_payload_len = if parsed.outer_ip == 20 { read_u16(16) - 20 } else { read_u16(18) };
    if read_u16(udp_offset + 4) != ip_payload_len {
        return drop_verdict("underlay_udp_length");
    }
    if packet[udp_offset + 8] & 8 == 0 {
        return drop_verdict("vxlan_flag_i_clear");
    }
    let (inner, needed_len) = match &parsed.inner {
        Some(inner) if inner.source.is_ipv4() => (Some(inner), 30 + read_u16(inner.at + 2)),
        Some(inner) => (Some(inner), 70 + read_u16(inner.at + 4)),
        None if parsed.inner_type == 0x0806 => (None, 30 + 28),
        None if matches!(parsed.inner_type, 0x8100 | 0x88a8) => return drop_verdict("inner_vlan_tag"),
        None => return drop_verdict("inner_not_ip"),
    };
    if needed_len > read_u16(udp_offset + 4) {
        return drop_verdict("inner_truncated");
    }
    Ok(inner)
}

fn check_addresses(inner: &InnerPacket) -> Result<(), ModelVerdict> {
    let usable = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => !matches!(ip.octets(), [0 | 127 | 224.., ..] | [169, 254, ..]),
        IpAddr::V6(ip) => {
            let compatible_or_mapped = matches!(ip.segments(), [0, 0, 0, 0, 0, 0 | 0xffff, _, _]);
            !compatible_or_mapped && ip.segments()[0] >> 6 != 0x3fa && ip.segments()[0] >> 8 != 0xff
        }
    };
    if usable(inner.source) && usable(inner.destination) { Ok(()) } else { drop_verdict("inner_address") }
}
