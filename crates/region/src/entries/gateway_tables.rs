//! The gateway program's tables and actions.

use super::internet_tables::InternetTables;
use super::table_finder::{FamilyPair, GatewayTable, GatewayTableFinder, NotAGateway};
use ir::{ExternId, KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use std::net::IpAddr;

/// Meaning of the first key of a tenant table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TenantKey {
    /// The VNI of a VPC.
    Vni,
    /// The id of a route table.
    RouteTable,
    /// The id of a VPC or of the list of a transit path.
    List,
    /// The number of a policy.
    Policy,
}

/// The gateway's tables and actions.
#[derive(Clone, Debug)]
pub struct GatewayApi {
    pub(super) own_mac: GatewayTable<1>,
    pub(super) own_vlan: GatewayTable<1>,
    pub(super) group_vlan: GatewayTable<1>,
    /// Actions: packets of servers, packets of remotes.
    pub(super) tunnel: FamilyPair<2>,
    /// Actions: packets of servers, packets of remotes.
    pub(super) source: FamilyPair<2>,
    /// Actions over IPv4: tunnel addresses, other addresses, public addresses of NATs, those with port
    /// forwards, elastic addresses. Over IPv6, the last three are the first again.
    pub(super) own_address: FamilyPair<5>,
    /// Actions: VPCs that accept all sources, VPCs with strict sources, VPCs with more options.
    pub(super) tenant: GatewayTable<3>,
    pub(super) vpc_source: FamilyPair<1>,
    pub(super) policy_route: FamilyPair<1>,
    /// Actions: the scopes, the absence of a route, peers with a limit of TCP segments, services.
    /// Routes to hosts with IPv4 alone, the last action, are over IPv6.
    pub(super) route: FamilyPair<10>,
    pub(super) acl_out: FamilyPair<5>,
    pub(super) acl_in: FamilyPair<5>,
    /// Actions: machines on servers over IPv4 and over IPv6, addresses at which the gateway
    /// answers, and at which it only answers neighbour solicitations.
    pub(super) vm_nc: FamilyPair<4>,
    pub(super) remote: GatewayTable<2>,
    pub(super) underlay_route: FamilyPair<4>,
    /// Actions: to a neighbour, to one whose MAC address is not known, on a link that is down, to a
    /// neighbour in a VLAN.
    pub(super) next_hop: GatewayTable<4>,
    pub(super) router: GatewayTable<1>,
    pub(super) identity: GatewayTable<1>,
    pub(super) flow_secret: GatewayTable<1>,
    pub(super) subnet_gateway_v4: GatewayTable<1>,
    /// Actions: addresses of a subnet, all others (the default action).
    pub(super) subnet_gateway_v6: GatewayTable<2>,
    pub(super) icmp_limits: GatewayTable<1>,
    /// Packets to and from the Internet, and fragments.
    pub(super) internet: InternetTables,
    /// Services by their addresses and ports.
    pub(super) services: GatewayTable<1>,
    /// Eight slots of a service each.
    pub(super) service_slots: GatewayTable<1>,
    /// Backends of a service by their numbers.
    pub(super) service_backends: GatewayTable<1>,
    /// Backends by their machines and ports. Actions: those that serve, those that are down.
    pub(super) service_members: GatewayTable<2>,
    /// The policies of machines, by source and by destination.
    pub(super) members: [FamilyPair<1>; 2],
    /// The rules of policies, for what machines send and for what is sent to them.
    pub(super) group_rules: [FamilyPair<1>; 2],
    /// Counters with one cell per VPC.
    pub(super) vpc_counters: Vec<ExternId>,
}

impl GatewayApi {
    /// Looks up the gateway's tables in a program.
    ///
    /// # Errors
    /// A table, an action, or a parameter is missing.
    pub fn new(pipeline: &Pipeline) -> Result<GatewayApi, NotAGateway> {
        let find = GatewayTableFinder(pipeline);
        let routes = &[
            ("local", 2),
            ("peer", 3),
            ("idc", 3),
            ("cross_region", 3),
            ("internet", 1),
            ("blackhole", 0),
            ("no_route", 0),
            ("peer_limited", 4),
            ("service", 3),
            ("nat64", 1),
        ];
        let underlay_routes =
            &[("via_next_hop", 1), ("via_group", 2), ("via_limited_next_hop", 2), ("via_limited_group", 3)];
        let tunnels = &[("from_server", 0), ("from_remote", 0)];
        let own_addresses = |others: [_; 3]| {
            let [nat, forwards, elastic] = others;
            [("tunnel_address", 0), ("router_address", 0), nat, forwards, elastic]
        };
        let public = [("public_address", 0), ("forwarding_address", 0), ("elastic_address", 4)];
        let (members, rules) = (&[("in_groups", 7)], &[("allow", 0)]);
        let verdicts = &[("permit", 0), ("deny", 0), ("deny_transit", 0), ("reject", 0), ("reject_transit", 0)];
        Ok(GatewayApi {
            own_mac: find.table("classify.own_mac", 2, &[("own_port", 0)])?,
            own_vlan: find.table("classify.own_vlan", 3, &[("own_port", 0)])?,
            group_vlan: find.table("classify.group_vlan", 2, &[("own_port", 0)])?,
            tunnel: find.pair("classify.tunnel_v", 2, tunnels)?,
            source: find.pair("classify.source_v", 1, tunnels)?,
            own_address: [
                find.table("classify.own_address_v4", 1, &own_addresses(public))?,
                find.table("classify.own_address_v6", 1, &own_addresses([("tunnel_address", 0); 3]))?,
            ],
            tenant: find.table("tenancy.tenant", 1, &[("set_vpc", 3), ("set_strict_vpc", 3), ("set_vpc_with", 10)])?,
            vpc_source: find.pair("tenancy.vpc_source_v", 2, &[("allowed", 0)])?,
            policy_route: find.pair("policy_routing.policy_route_v", 2, &[("use_instance", 1)])?,
            route: find.pair("routing.route_v", 2, routes)?,
            acl_out: find.pair("acl_out.v", 7, verdicts)?,
            acl_in: find.pair("acl_in.v", 7, verdicts)?,
            vm_nc: find.pair(
                "vm_nc.vm_nc_v",
                2,
                &[("on_server_v4", 2), ("on_server_v6", 2), ("gateway_address", 0), ("neighbour_address", 0)],
            )?,
            remote: find.table("remote_end.remote", 1, &[("at_v4", 2), ("at_v6", 2)])?,
            underlay_route: find.pair("underlay.underlay_route_v", 1, underlay_routes)?,
            next_hop: find.table(
                "underlay.next_hop",
                1,
                &[("forward", 4), ("resolve", 1), ("path_down", 0), ("forward_tagged", 5)],
            )?,
            router: find.table("inner_link.router", 0, &[("set_router", 1)])?,
            identity: find.table("encap.gateway_identity", 0, &[("set_identity", 3)])?,
            flow_secret: find.table("flow_hash.flow_secret", 0, &[("set_secret", 1)])?,
            subnet_gateway_v4: find.table("icmp_source.subnet_gateway_v4", 2, &[("gateway_v4", 2)])?,
            subnet_gateway_v6: find.table(
                "icmp_source.subnet_gateway_v6",
                2,
                &[("gateway_v6", 1), ("outside_v6", 1)],
            )?,
            icmp_limits: find.table("icmp_limit.icmp_limits", 1, &[("set_limits", 4)])?,
            internet: InternetTables::new(&find)?,
            services: find.table("service_port.services", 4, &[("service", 3)])?,
            service_slots: find.table("service_choice.slots", 5, &[("eight_slots", 1)])?,
            service_backends: find.table("service_choice.backends", 5, &[("backend", 4)])?,
            service_members: find.table("service_backend.members", 4, &[("serves", 3), ("is_down", 3)])?,
            members: [find.pair("groups.member_from.v", 2, members)?, find.pair("groups.member_to.v", 2, members)?],
            group_rules: [
                find.pair("groups.judge.rules_out.v", 5, rules)?,
                find.pair("groups.judge.rules_in.v", 5, rules)?,
            ],
            vpc_counters: vec![find.counter("tenancy.vpc_received")?, find.counter("encap.vpc_forwarded")?],
        })
    }
}

impl GatewayApi {
    /// Returns the counter cells of these VPCs.
    pub(super) fn counters_of(&self, vpcs: &[u32]) -> Vec<(ExternId, u64)> {
        self.vpc_counters.iter().flat_map(|counter| vpcs.iter().map(|vpc| (*counter, u64::from(*vpc)))).collect()
    }

    /// Iterates over all tables with entries of a region.
    pub(super) fn tables(&self) -> impl Iterator<Item = TableId> {
        let GatewayApi { own_mac, tunnel, source, own_address, tenant, vpc_source, policy_route, .. } = self;
        let GatewayApi { route, acl_out, acl_in, vm_nc, remote, underlay_route, next_hop, .. } = self;
        let icmp = [self.subnet_gateway_v4.id, self.subnet_gateway_v6.id, self.icmp_limits.id];
        let single = [own_mac.id, self.own_vlan.id, self.group_vlan.id, tenant.id, remote.id, next_hop.id];
        single
            .into_iter()
            .chain(ids(tunnel))
            .chain(ids(source))
            .chain(ids(own_address))
            .chain(ids(vpc_source))
            .chain(ids(policy_route))
            .chain(ids(route))
            .chain(ids(acl_out))
            .chain(ids(acl_in))
            .chain(ids(vm_nc))
            .chain(ids(underlay_route))
            .chain(icmp)
            .chain(self.internet.tables())
            .chain(self.service_tables())
            .chain(self.members.iter().chain(&self.group_rules).flat_map(ids))
    }
}

impl GatewayApi {
    /// Returns the tables of services. Their first key is the id of a VPC.
    fn service_tables(&self) -> [TableId; 4] {
        [self.services.id, self.service_slots.id, self.service_backends.id, self.service_members.id]
    }

    /// Returns whether entries of the table can stand for public addresses of machines.
    pub(super) fn has_public_addresses(&self, table: TableId) -> bool {
        [self.own_address[0].id, self.internet.forwards.id, self.internet.vpc_prefix.id].contains(&table)
    }

    /// Returns how the first key of a table identifies a VPC. `None` for tables of the underlay.
    pub(super) fn tenant_key(&self, table: TableId) -> Option<TenantKey> {
        let is_in = |tables: &[TableId]| tables.contains(&table);
        if table == self.tenant.id || is_in(&ids(&self.vm_nc)) || self.members.iter().any(|pair| is_in(&ids(pair))) {
            Some(TenantKey::Vni)
        } else if is_in(&ids(&self.route)) {
            Some(TenantKey::RouteTable)
        } else if self.group_rules.iter().any(|pair| is_in(&ids(pair))) {
            Some(TenantKey::Policy)
        } else if [
            ids(&self.acl_out),
            ids(&self.acl_in),
            ids(&self.policy_route),
            ids(&self.vpc_source),
            [self.subnet_gateway_v4.id, self.subnet_gateway_v6.id],
        ]
        .concat()
        .contains(&table)
            || is_in(&self.internet.tables_by_vpc())
            || is_in(&self.service_tables())
        {
            Some(TenantKey::List)
        } else {
            None
        }
    }
}

/// Returns the ids of the tables of both IP versions.
fn ids<const N: usize>(pair: &FamilyPair<N>) -> [TableId; 2] {
    [pair[0].id, pair[1].id]
}

/// Returns 0 for IPv4 and 1 for IPv6: the index into a [`FamilyPair`] and into pairs of actions.
pub(super) fn family(ip: IpAddr) -> usize {
    usize::from(ip.is_ipv6())
}

/// Returns an address as a number; the first byte is the most significant.
pub(super) fn number(ip: IpAddr) -> BigUint {
    match ip {
        IpAddr::V4(ip) => BigUint::from(u32::from(ip)),
        IpAddr::V6(ip) => BigUint::from(u128::from(ip)),
    }
}

/// Returns an exact match.
pub(super) fn exact(value: impl Into<BigUint>) -> KeyMatch {
    KeyMatch::Exact(value.into())
}

/// Returns a longest-prefix match.
pub(super) fn lpm(prefix: ipnet::IpNet) -> KeyMatch {
    KeyMatch::Lpm { value: number(prefix.network()), prefix_len: u32::from(prefix.prefix_len()) }
}
