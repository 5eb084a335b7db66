//! The gateway program's tables and actions by name.

use entries::{ActionSpec, TableEntry};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use std::net::IpAddr;

/// A program that lacks something the gateway has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the program `{program}` has no {what}; a region file needs programs/gateway/gateway.p4 or a program with its tables (programs/gateway/TABLES.md)"
)]
pub struct NotAGateway {
    /// Name of the program.
    pub program: String,
    /// What it lacks.
    pub what: String,
}

/// A table and the actions that entries of it use.
#[derive(Clone, Debug)]
pub(super) struct TableApi<const N: usize> {
    pub(super) id: TableId,
    pub(super) actions: [ActionId; N],
}

impl<const N: usize> TableApi<N> {
    /// An entry with the action of that index.
    pub(super) fn entry(&self, keys: Vec<KeyMatch>, action: usize, args: Vec<BigUint>) -> TableEntry {
        TableEntry::new(self.id, keys, self.call(action, args))
    }
    /// The action of that index with arguments.
    pub(super) fn call(&self, action: usize, args: Vec<BigUint>) -> ActionSpec {
        ActionSpec::Call(ActionCall { action: self.actions[action], args })
    }
}

/// What the first key of a tenant's table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TenantKey {
    /// A VPC's VNI.
    Vni,
    /// The number of a route table.
    RouteTable,
    /// The number of a VPC, or of a list of a path through other VPCs.
    List,
}

/// Both families of a table, IPv4 first.
pub(super) type Pair<const N: usize> = [TableApi<N>; 2];

/// The gateway's tables.
#[derive(Clone, Debug)]
pub struct Api {
    pub(super) own_mac: TableApi<1>,
    /// Servers' packets, remotes' packets.
    pub(super) tunnel: Pair<2>,
    /// Likewise.
    pub(super) source: Pair<2>,
    pub(super) own_address: Pair<1>,
    /// VPCs that take packets from all sources, strict ones.
    pub(super) tenant: TableApi<2>,
    pub(super) vpc_source: Pair<1>,
    pub(super) policy_route: Pair<1>,
    pub(super) route: Pair<7>,
    pub(super) acl_out: Pair<3>,
    pub(super) acl_in: Pair<3>,
    pub(super) vm_nc: Pair<2>,
    pub(super) remote: TableApi<2>,
    pub(super) underlay_route: Pair<2>,
    pub(super) next_hop: TableApi<1>,
    pub(super) router: TableApi<1>,
    pub(super) identity: TableApi<1>,
    /// Counters indexed by VPC.
    pub(super) vpc_counters: Vec<ExternId>,
}

impl Api {
    /// Finds the gateway's tables in a program.
    ///
    /// # Errors
    /// If one, or an action, or one of its parameters, is not there.
    pub fn new(pipeline: &Pipeline) -> Result<Api, NotAGateway> {
        let find = Finder(pipeline);
        let routes = &[
            ("local", 2),
            ("peer", 3),
            ("idc", 3),
            ("cross_region", 3),
            ("internet", 1),
            ("blackhole", 0),
            ("no_route", 0),
        ];
        let tunnels = &[("from_server", 0), ("from_remote", 0)];
        let verdicts = &[("permit", 0), ("deny", 0), ("deny_transit", 0)];
        Ok(Api {
            own_mac: find.table("classify.own_mac", 2, &[("own_port", 0)])?,
            tunnel: find.pair("classify.tunnel_v", 2, tunnels)?,
            source: find.pair("classify.source_v", 1, tunnels)?,
            own_address: find.pair("classify.own_address_v", 1, &[("tunnel_address", 0)])?,
            tenant: find.table("tenancy.tenant", 1, &[("set_vpc", 3), ("set_strict_vpc", 3)])?,
            vpc_source: find.pair("tenancy.vpc_source_v", 2, &[("allowed", 0)])?,
            policy_route: find.pair("policy_routing.policy_route_v", 2, &[("use_instance", 1)])?,
            route: find.pair("routing.route_v", 2, routes)?,
            acl_out: find.pair("acl_out.v", 7, verdicts)?,
            acl_in: find.pair("acl_in.v", 7, verdicts)?,
            vm_nc: find.pair("vm_nc.vm_nc_v", 2, &[("on_server_v4", 2), ("on_server_v6", 2)])?,
            remote: find.table("remote_end.remote", 1, &[("at_v4", 2), ("at_v6", 2)])?,
            underlay_route: find.pair("underlay.underlay_route_v", 1, &[("via_next_hop", 1), ("via_group", 2)])?,
            next_hop: find.table("underlay.next_hop", 1, &[("forward", 4)])?,
            router: find.table("inner_link.router", 0, &[("set_router", 1)])?,
            identity: find.table("encap.gateway_identity", 0, &[("set_identity", 3)])?,
            vpc_counters: vec![find.counter("tenancy.vpc_received")?, find.counter("encap.vpc_forwarded")?],
        })
    }
}

impl Api {
    /// The elements that count for these VPCs.
    pub(super) fn counters_of(&self, vpcs: &[u32]) -> Vec<(ExternId, u64)> {
        self.vpc_counters.iter().flat_map(|counter| vpcs.iter().map(|vpc| (*counter, u64::from(*vpc)))).collect()
    }

    /// All tables that a region's entries are in.
    pub(super) fn tables(&self) -> impl Iterator<Item = TableId> {
        let Api { own_mac, tunnel, source, own_address, tenant, vpc_source, policy_route, .. } = self;
        let Api { route, acl_out, acl_in, vm_nc, remote, underlay_route, next_hop, .. } = self;
        let single = [own_mac.id, tenant.id, remote.id, next_hop.id];
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
    }
}

impl Api {
    /// How entries of a table say which VPC they belong to; none if they belong to the underlay.
    pub(super) fn tenant_key(&self, table: TableId) -> Option<TenantKey> {
        let is_in = |tables: &[TableId]| tables.contains(&table);
        if table == self.tenant.id || is_in(&ids(&self.vm_nc)) {
            Some(TenantKey::Vni)
        } else if is_in(&ids(&self.route)) {
            Some(TenantKey::RouteTable)
        } else if [ids(&self.acl_out), ids(&self.acl_in), ids(&self.policy_route), ids(&self.vpc_source)]
            .concat()
            .contains(&table)
        {
            Some(TenantKey::List)
        } else {
            None
        }
    }
}

/// The tables of both families.
fn ids<const N: usize>(pair: &Pair<N>) -> [TableId; 2] {
    [pair[0].id, pair[1].id]
}

/// The control that holds all of it.
const CONTROL: &str = "gateway";

struct Finder<'a>(&'a Pipeline);

impl Finder<'_> {
    fn table<const N: usize>(
        &self,
        name: &str,
        keys: usize,
        actions: &[(&str, usize); N],
    ) -> Result<TableApi<N>, NotAGateway> {
        let full = format!("{CONTROL}.{name}");
        let found = self.0.tables.iter().find(|(_, t)| t.preamble.name == full && t.keys.len() == keys);
        let (id, table) = found.ok_or_else(|| self.lacks(format!("table `{full}` with {keys} keys")))?;
        let mut ids = [ActionId(0); N];
        for (slot, (action, params)) in ids.iter_mut().zip(actions) {
            let is_it = |a: ActionId| {
                let a = &self.0.actions[a];
                a.preamble.name.rsplit('.').next() == Some(action) && a.params.len() == *params
            };
            let found = table.actions.iter().map(|a| a.action).find(|a| is_it(*a));
            *slot = found
                .ok_or_else(|| self.lacks(format!("action `{action}` with {params} parameters in table `{full}`")))?;
        }
        Ok(TableApi { id, actions: ids })
    }

    fn pair<const N: usize>(
        &self,
        name: &str,
        keys: usize,
        actions: &[(&str, usize); N],
    ) -> Result<Pair<N>, NotAGateway> {
        Ok([self.table(&format!("{name}4"), keys, actions)?, self.table(&format!("{name}6"), keys, actions)?])
    }

    fn counter(&self, name: &str) -> Result<ExternId, NotAGateway> {
        let full = format!("{CONTROL}.{name}");
        let found = self.0.externs.iter().find(|(_, e)| e.preamble.name == full);
        found.map(|(id, _)| id).ok_or_else(|| self.lacks(format!("counter `{full}`")))
    }

    fn lacks(&self, what: String) -> NotAGateway {
        NotAGateway { program: self.0.name.clone(), what }
    }
}

/// 0 for IPv4, 1 for IPv6: the index into a [`Pair`], and into pairs of actions.
pub(super) fn family(ip: IpAddr) -> usize {
    usize::from(ip.is_ipv6())
}

/// An address as a number, in network order.
pub(super) fn number(ip: IpAddr) -> BigUint {
    match ip {
        IpAddr::V4(ip) => BigUint::from(u32::from(ip)),
        IpAddr::V6(ip) => BigUint::from(u128::from(ip)),
    }
}

/// An exact match.
pub(super) fn exact(value: impl Into<BigUint>) -> KeyMatch {
    KeyMatch::Exact(value.into())
}

/// A longest-prefix match.
pub(super) fn lpm(prefix: ipnet::IpNet) -> KeyMatch {
    KeyMatch::Lpm { value: number(prefix.network()), prefix_len: u32::from(prefix.prefix_len()) }
}
