//! Whose packet it is, where it wants to go, and whether it may.

use super::parse::{Fragment, Inner, Parsed};
use super::{Model, Outcome, covers};
use region::{AclDirection, AclRule, FlatRoute, Mac, Prefix, Protocol, Scope, Target, Verdict};
use std::net::IpAddr;

/// Where a packet goes.
pub(super) struct Decision {
    /// Outer destination.
    pub(super) tunnel: IpAddr,
    /// Uplinks that lead there.
    pub(super) uplinks: Vec<usize>,
    /// Inner destination MAC.
    pub(super) mac: Mac,
    /// VNI that it carries.
    pub(super) vni: u32,
    /// Hops that the way takes.
    pub(super) hops: u8,
}

/// Where a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// A server: a machine sent it.
    Server,
    /// A remote.
    Remote,
}

fn drop<T>(reason: &'static str) -> Result<T, Outcome> {
    Err(Outcome::Drop(reason))
}

impl Model<'_> {
    /// Is it a tenant's packet?
    pub(super) fn classify(&self, parsed: &Parsed, port: u32) -> Result<From, Outcome> {
        let Some(destination) = parsed.destination else {
            let known = matches!(parsed.ether_type, 0x0806 | 0x88cc | 0x8809);
            return if known { Err(Outcome::Cpu) } else { drop("underlay_not_ip") };
        };
        let link_local = match destination {
            IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
            IpAddr::V6(ip) => ip.segments()[0] == 0xff02 || ip.segments()[0] >> 6 == 0x3fa,
        };
        if link_local {
            return Err(Outcome::Cpu);
        }
        if !self.region.file.uplinks.iter().any(|u| u.port.value == port && u.mac.value.0 == parsed.mac) {
            return drop("underlay_other_mac");
        }
        if !self.region.file.gateway.vteps.iter().any(|v| v.value == destination) {
            return drop("not_for_gateway");
        }
        if parsed.vni.is_none() {
            if destination.is_ipv4() && parsed.protocol == 17 && !parsed.udp {
                return drop(if parsed.fragment { "underlay_fragment" } else { "underlay_ipv4_options" });
            }
            if destination.is_ipv6() && parsed.protocol == 44 {
                return drop("underlay_fragment");
            }
            return Err(Outcome::Cpu);
        }
        let from = parsed.source.and_then(|source| self.sender(source));
        from.ok_or(Outcome::Drop("unknown_source"))
    }

    /// What sends VXLAN from an address.
    fn sender(&self, source: IpAddr) -> Option<From> {
        let file = &self.region.file;
        if file.servers.iter().any(|server| server.address.value == source) {
            return Some(From::Server);
        }
        if file.remotes.iter().any(|remote| remote.address.value == source) {
            return Some(From::Remote);
        }
        let servers = file.gateway.sources.iter().map(|prefix| (prefix.value, From::Server));
        let of_remotes = file.remotes.iter().flat_map(|remote| &remote.sources);
        let all = servers.chain(of_remotes.map(|prefix| (prefix.value, From::Remote)));
        let best = all.filter(|(prefix, _)| covers(*prefix, source)).max_by_key(|(prefix, _)| prefix.0.prefix_len());
        best.map(|(_, from)| from)
    }

    /// Whether a VPC takes packets from an address.
    fn takes_from(&self, vpc: usize, source: IpAddr) -> bool {
        let file = &self.region.file;
        let places = self.region.vm_places.iter().filter(|(of, _)| *of == vpc);
        let mut servers = places.map(|(_, server)| file.servers[*server].address.value);
        let mut remotes = self.region.tables[vpc].iter().flatten().filter_map(|route| match route.target {
            Target::Remote(remote, _) => Some(&file.remotes[remote]),
            _ => None,
        });
        !file.vpcs[vpc].strict_sources
            || servers.any(|address| address == source)
            || remotes.any(|r| r.address.value == source || r.sources.iter().any(|p| covers(p.value, source)))
    }

    /// Where to, and may it?
    pub(super) fn decide(&self, parsed: &Parsed, inner: &Inner, sender: From) -> Result<Decision, Outcome> {
        let to_mac = Mac(parsed.inner_macs[0]);
        let file = &self.region.file;
        let from = file.vpcs.iter().position(|v| Some(v.vni.value) == parsed.vni);
        let Some(from) = from else { return drop("unknown_vni") };
        if !parsed.source.is_some_and(|source| self.takes_from(from, source)) {
            return drop("source_denied");
        }
        let table = self.table(from, inner.source);
        let routes = self.region.tables[from][table].iter();
        let best = routes.filter(|r| covers(Prefix(r.prefix), inner.destination)).max_by_key(|r| r.prefix.prefix_len());
        let Some(route) = best else { return drop("no_route") };
        match route.target {
            Target::NoRoute => return drop("no_route"),
            Target::Blackhole => return drop("blackhole_route"),
            _ => {}
        }
        let one_link = route.scope == Scope::Local && covers(Prefix(route.prefix), inner.source);
        let hops = if one_link { 0 } else { 1 };
        self.lists(from, sender, route, inner)?;
        let decision = match route.target {
            Target::Vpc(to) => {
                debug_assert_eq!(route.scope == Scope::Local, to == from);
                Some(self.to_vm(to, inner.destination, hops)?)
            }
            Target::Remote(index, vni) => Some(self.to_remote(index, vni, hops)),
            _ => None,
        };
        let is_vm_itself = one_link && decision.as_ref().is_some_and(|decision| decision.mac == to_mac);
        if to_mac != file.gateway.mac.value && !is_vm_itself {
            return drop("inner_other_mac");
        }
        if inner.ttl <= hops {
            return drop("inner_ttl_expired");
        }
        let delivered = match route.target {
            Target::Vpc(to) => file.vpcs[to].dropped_extensions(),
            _ => 0,
        };
        if inner.extensions & (file.vpcs[from].dropped_extensions() | delivered) != 0 {
            return drop("extension_denied");
        }
        // The Internet's packets.
        decision.ok_or(Outcome::Cpu)
    }

    fn to_vm(&self, vpc: usize, address: IpAddr, hops: u8) -> Result<Decision, Outcome> {
        let file = &self.region.file;
        let vni = file.vpcs[vpc].vni.value;
        let Some(vm) = self.vms.get(&(vni, address)) else { return drop("unknown_vm") };
        let server = self.region.vm_places[*vm].1;
        let uplinks = self.region.server_uplinks[server].clone();
        Ok(Decision { tunnel: file.servers[server].address.value, uplinks, mac: file.vms[*vm].mac.value, vni, hops })
    }

    fn to_remote(&self, index: usize, vni: u32, hops: u8) -> Decision {
        let remote = &self.region.file.remotes[index];
        let uplinks = self.region.remote_uplinks[index].clone();
        Decision { tunnel: remote.address.value, uplinks, mac: remote.mac.value, vni, hops }
    }

    /// Do all lists permit it: of the VPC that it leaves, of those that it passes through, of the one that it is delivered in?
    fn lists(&self, from: usize, sender: From, route: &FlatRoute, inner: &Inner) -> Result<(), Outcome> {
        let delivered_here = sender == From::Remote && route.scope == Scope::Local;
        if !delivered_here && !self.permits(from, true, inner) {
            return drop("acl_denied_out");
        }
        if !route.via.iter().all(|vpc| self.permits(*vpc, true, inner)) {
            return drop("acl_denied_transit");
        }
        match route.target {
            Target::Vpc(to) if !self.permits(to, false, inner) => drop("acl_denied_in"),
            _ => Ok(()),
        }
    }

    /// The route table for a source.
    fn table(&self, vpc: usize, source: IpAddr) -> usize {
        let policy = self.region.file.vpcs[vpc].policy.iter().zip(&self.region.policies[vpc]);
        let matching = policy.filter(|(rule, _)| covers(Prefix(rule.from.network()), source));
        matching.max_by_key(|(rule, _)| rule.from.0.prefix_len()).map_or(0, |(_, table)| *table)
    }

    fn permits(&self, vpc: usize, egress: bool, inner: &Inner) -> bool {
        let vpc = &self.region.file.vpcs[vpc];
        let mut rules: Vec<&AclRule> = vpc.acl.iter().map(|r| &r.value).collect();
        rules.sort_by_key(|r| std::cmp::Reverse(r.priority.value));
        let first = rules.into_iter().find(|rule| matches(rule, egress, inner));
        first.map_or(vpc.acl_default, |rule| rule.action) == Verdict::Permit
    }
}

fn matches(rule: &AclRule, egress: bool, inner: &Inner) -> bool {
    let direction = match rule.direction {
        AclDirection::Both => true,
        AclDirection::Egress => egress,
        AclDirection::Ingress => !egress,
    };
    let protocol = match rule.protocol.as_ref().map(|p| p.value) {
        None | Some(Protocol::Any) => true,
        Some(Protocol::Number(1)) if rule.icmp_type.is_some() => inner.protocol == 1 && inner.source.is_ipv4(),
        Some(Protocol::Icmp) if rule.icmp_type.is_some() => inner.protocol == 1 && inner.source.is_ipv4(),
        Some(Protocol::Number(58)) if rule.icmp_type.is_some() => inner.protocol == 58 && inner.source.is_ipv6(),
        Some(Protocol::Icmp) => inner.protocol == if inner.source.is_ipv4() { 1 } else { 58 },
        Some(Protocol::Number(n)) => inner.protocol == n,
    };
    let within = |prefix: &Option<region::At<Prefix>>, ip| prefix.as_ref().is_none_or(|p| covers(p.value, ip));
    let ports = if inner.fragment == Fragment::Later {
        // A rule about ports: permits what it can't see, denies nothing.
        let about_ports = rule.source_ports.is_some() || rule.ports.is_some() || rule.icmp_type.is_some();
        !about_ports || rule.action == Verdict::Permit
    } else {
        let in_range = |range: &Option<region::At<region::Ports>>, port| {
            range.as_ref().is_none_or(|r| (r.lo..=r.hi).contains(&port))
        };
        let is = |number: &Option<region::Number<u8>>, it| number.as_ref().is_none_or(|n| u16::from(n.value) == it);
        let icmp = is(&rule.icmp_type, inner.ports.0) && is(&rule.icmp_code, inner.ports.1);
        icmp && in_range(&rule.source_ports, inner.ports.0) && in_range(&rule.ports, inner.ports.1)
    };
    direction && protocol && ports && within(&rule.from, inner.source) && within(&rule.to, inner.destination)
}

/// Is what came in VXLAN sound? Gives the packet inside, if there is VXLAN.
pub(super) fn tunnelled<'a>(packet: &[u8], parsed: &'a Parsed) -> Result<Option<&'a Inner>, Outcome> {
    if parsed.vni.is_none() {
        return Ok(None);
    }
    let inner = vxlan(packet, parsed)?;
    if Mac(parsed.inner_macs[1]).is_group() {
        return drop("inner_source_mac");
    }
    addresses(inner)?;
    Ok(Some(inner))
}

fn vxlan<'a>(packet: &[u8], parsed: &'a Parsed) -> Result<&'a Inner, Outcome> {
    let be16 = |at: usize| usize::from(packet[at]) << 8 | usize::from(packet[at + 1]);
    let udp = 14 + parsed.outer_ip;
    let ip_payload = if parsed.outer_ip == 20 { be16(16) - 20 } else { be16(18) };
    if be16(udp + 4) != ip_payload {
        return drop("underlay_udp_length");
    }
    if packet[udp + 8] & 8 == 0 {
        return drop("vxlan_flag_i_clear");
    }
    let (inner, frame) = match &parsed.inner {
        Some(inner) if inner.source.is_ipv4() => (inner, 30 + be16(inner.at + 2)),
        Some(inner) => (inner, 70 + be16(inner.at + 4)),
        None if matches!(parsed.inner_type, 0x8100 | 0x88a8) => return drop("inner_vlan_tag"),
        None => return drop("inner_not_ip"),
    };
    if frame > be16(udp + 4) {
        return drop("inner_truncated");
    }
    Ok(inner)
}

fn addresses(inner: &Inner) -> Result<(), Outcome> {
    let usable = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => !matches!(ip.octets(), [0 | 127 | 224.., ..] | [169, 254, ..]),
        IpAddr::V6(ip) => {
            let compatible_or_mapped = matches!(ip.segments(), [0, 0, 0, 0, 0, 0 | 0xffff, _, _]);
            !compatible_or_mapped && ip.segments()[0] >> 6 != 0x3fa && ip.segments()[0] >> 8 != 0xff
        }
    };
    if usable(inner.source) && usable(inner.destination) { Ok(()) } else { drop("inner_address") }
}
