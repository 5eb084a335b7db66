//! Whose packet it is, where it wants to go, and whether it may.

use super::parse::{Fragment, Inner, Parsed};
use super::{Model, Outcome, covers};
use region::{AclDirection, AclRule, Mac, Prefix, Protocol, Scope, Target, Verdict};
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
}

fn drop<T>(reason: &'static str) -> Result<T, Outcome> {
    Err(Outcome::Drop(reason))
}

impl Model<'_> {
    /// Is it a tenant's packet, and sound?
    pub(super) fn classify(&self, packet: &[u8], parsed: &Parsed) -> Result<(), Outcome> {
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
        vxlan(packet, parsed)
    }

    /// Where to, and may it?
    pub(super) fn decide(&self, parsed: &Parsed, inner: &Inner) -> Result<Decision, Outcome> {
        addresses(inner)?;
        let file = &self.region.file;
        let from = file.vpcs.iter().position(|v| Some(v.vni.value) == parsed.vni);
        let Some(from) = from else { return drop("unknown_vni") };
        let table = self.table(from, inner.source);
        let routes = self.region.tables[from][table].iter();
        let best = routes.filter(|r| covers(Prefix(r.prefix), inner.destination)).max_by_key(|r| r.prefix.prefix_len());
        let Some(route) = best else { return drop("no_route") };
        match route.target {
            Target::NoRoute => return drop("no_route"),
            Target::Blackhole => return drop("blackhole_route"),
            _ => {}
        }
        if !self.permits(from, true, inner) {
            return drop("acl_denied_out");
        }
        let to = match route.target {
            Target::Vpc(to) => to,
            Target::Remote(index, vni) => {
                let remote = &file.remotes[index];
                let uplinks = self.region.remote_uplinks[index].clone();
                return Ok(Decision { tunnel: remote.address.value, uplinks, mac: remote.mac.value, vni });
            }
            _ => return Err(Outcome::Cpu),
        };
        debug_assert_eq!(route.scope == Scope::Local, to == from);
        if !self.permits(to, false, inner) {
            return drop("acl_denied_in");
        }
        let vni = file.vpcs[to].vni.value;
        let Some(vm) = self.vms.get(&(vni, inner.destination)) else { return drop("unknown_vm") };
        let server = self.region.vm_places[*vm].1;
        let uplinks = self.region.server_uplinks[server].clone();
        Ok(Decision { tunnel: file.servers[server].address.value, uplinks, mac: file.vms[*vm].mac.value, vni })
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
        Some(Protocol::Icmp) => inner.protocol == if inner.source.is_ipv4() { 1 } else { 58 },
        Some(Protocol::Number(n)) => inner.protocol == n,
    };
    let within = |prefix: &Option<region::At<Prefix>>, ip| prefix.as_ref().is_none_or(|p| covers(p.value, ip));
    let ports = if inner.fragment == Fragment::Later {
        // A rule about ports: permits what it can't see, denies nothing.
        (rule.source_ports.is_none() && rule.ports.is_none()) || rule.action == Verdict::Permit
    } else {
        let in_range = |range: &Option<region::At<region::Ports>>, port| {
            range.as_ref().is_none_or(|r| (r.lo..=r.hi).contains(&port))
        };
        in_range(&rule.source_ports, inner.ports.0) && in_range(&rule.ports, inner.ports.1)
    };
    direction && protocol && ports && within(&rule.from, inner.source) && within(&rule.to, inner.destination)
}

fn vxlan(packet: &[u8], parsed: &Parsed) -> Result<(), Outcome> {
    let be16 = |at: usize| usize::from(packet[at]) << 8 | usize::from(packet[at + 1]);
    let udp = 14 + parsed.outer_ip;
    let ip_payload = if parsed.outer_ip == 20 { be16(16) - 20 } else { be16(18) };
    if be16(udp + 4) != ip_payload {
        return drop("underlay_udp_length");
    }
    if packet[udp + 8] & 8 == 0 {
        return drop("vxlan_flag_i_clear");
    }
    let frame = match &parsed.inner {
        Some(inner) if inner.source.is_ipv4() => 30 + be16(inner.at + 2),
        Some(inner) => 70 + be16(inner.at + 4),
        None if matches!(parsed.inner_type, 0x8100 | 0x88a8) => return drop("inner_vlan_tag"),
        None => return drop("inner_not_ip"),
    };
    if frame > be16(udp + 4) {
        return drop("inner_truncated");
    }
    Ok(())
}

fn addresses(inner: &Inner) -> Result<(), Outcome> {
    let routable = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => !matches!(ip.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(ip) => u128::from(ip) > 1 && ip.segments()[0] >> 6 != 0x3fa && ip.segments()[0] >> 8 != 0xff,
    };
    if !routable(inner.source) || !routable(inner.destination) {
        return drop("inner_address");
    }
    if inner.ttl <= 1 {
        return drop("inner_ttl_expired");
    }
    Ok(())
}
