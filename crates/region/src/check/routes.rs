//! Checks routes and route tables, and resolves peerings, so that the gateway needs one lookup.
//!
//! A route to a peer means "the peer's main table decides". Resolving it produces one route for
//! each prefix that the peer distinguishes within it, with the final target, over up to
//! [`MAX_PEERINGS`] consecutive peerings. A chain that returns to a VPC is a loop and is refused.

use super::{MAX_PEERINGS, NameIndex, names, underlay, usable};
use crate::model::{Name, RegionFile, RemoteKind, Route, Vpc};
use crate::prefix_map::PrefixMap;
use crate::problem::ProblemCollector;
use crate::spanned::{SourcePos, WithPos};
use ipnet::IpNet;
use std::collections::HashMap;

/// Maximum number of peer routes that the check visits in total. The gateway's tables hold two
/// million routes. Without a limit, a small file in which many VPCs route to one with many routes
/// would exhaust memory.
pub(crate) const MAX_PEER_ROUTES: usize = 1 << 22;

/// Scope of a route, for statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum RouteScope {
    /// A machine of the same VPC.
    Local,
    /// A machine of another VPC of the region.
    Peer,
    /// A customer's data centre.
    Idc,
    /// Another region.
    CrossRegion,
    /// The internet.
    Internet,
    /// Dropped, or without a route.
    Blackhole,
}

/// Final target of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RouteTarget {
    /// A machine of the VPC with this index.
    Vpc(usize),
    /// The remote with this index, and the VNI of packets to it.
    Remote(usize, u32),
    /// The internet.
    Internet,
    /// Dropped by a route of the tenant.
    Blackhole,
    /// Dropped, because the peer has no route.
    NoRoute,
}

/// A route with resolved peerings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlatRoute {
    /// Destination.
    pub prefix: IpNet,
    /// Scope of the route.
    pub scope: RouteScope,
    /// Final target.
    pub target: RouteTarget,
    /// The VPCs that packets pass through, in order: those between the table's own VPC and the
    /// destination VPC. If packets leave by the exit of a VPC, that VPC is the last one.
    pub via: Vec<usize>,
    /// Position of the route in the file: that of the route in the table's own VPC.
    pub origin: SourcePos,
}

impl FlatRoute {
    /// Returns the transit path of its packets: the VPCs they pass through and the VPC they are
    /// delivered in. `None` if they pass through no other VPC.
    pub(crate) fn transit_path(&self) -> Option<(&[usize], Option<usize>)> {
        let to = match self.target {
            RouteTarget::Vpc(to) => Some(to),
            _ => None,
        };
        (!self.via.is_empty()).then_some((&self.via, to))
    }
}

/// The objects that routes refer to.
pub(super) struct RouteContext<'a> {
    pub(super) vpcs: &'a NameIndex<'a>,
    pub(super) remotes: &'a NameIndex<'a>,
    pub(super) peers: &'a [Vec<usize>],
}

/// A route as written, with its target resolved by name.
#[derive(Clone, Copy, Debug)]
struct UnresolvedRoute {
    prefix: IpNet,
    step: RouteStep,
    at: SourcePos,
}

#[derive(Clone, Copy, Debug)]
enum RouteStep {
    End(RouteScope, RouteTarget),
    Peer(usize),
}

/// A route table as written, sorted by prefix and indexed for longest-prefix match.
#[derive(Default)]
struct UnresolvedTable {
    sorted: Vec<UnresolvedRoute>,
    longest: PrefixMap<usize>,
}

/// Route tables with resolved peerings.
pub(super) struct FlattenedRoutes {
    /// Tables by VPC and table index.
    pub(super) tables: Vec<Vec<Vec<FlatRoute>>>,
    /// By VPC, the table index of each policy route.
    pub(super) policies: Vec<Vec<usize>>,
    /// By VPC, the number of peer routes that were visited.
    pub(super) peer_routes: Vec<usize>,
}

pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile, context: &RouteContext) -> FlattenedRoutes {
    let raw: Vec<Vec<UnresolvedTable>> = (0..file.vpcs.len()).map(|v| vpc_tables(report, file, context, v)).collect();
    let (mut flat, mut peer_routes) = (Vec::with_capacity(raw.len()), Vec::with_capacity(raw.len()));
    let mut resolver = RouteResolver { report, file, raw: &raw, visited: 0 };
    for (v, tables) in raw.iter().enumerate() {
        let before = resolver.visited;
        flat.push(tables.iter().map(|table| resolver.table(v, table)).collect());
        peer_routes.push(resolver.visited - before);
    }
    let policies = file.vpcs.iter().map(|vpc| check_policy(report, vpc)).collect();
    FlattenedRoutes { tables: flat, policies, peer_routes }
}

/// Builds the tables of a VPC. Each includes the VPC's own subnets and those of its peers.
fn vpc_tables(
    report: &mut ProblemCollector,
    file: &RegionFile,
    context: &RouteContext,
    v: usize,
) -> Vec<UnresolvedTable> {
    let vpc = &file.vpcs[v];
    names::index_names(report, "route table", vpc.route_tables.iter().map(|t| &t.name));
    let lists = std::iter::once(&vpc.routes).chain(vpc.route_tables.iter().map(|t| &t.routes));
    lists
        .map(|routes| {
            let mut all = implied_routes(file, context, v);
            all.extend(routes.iter().filter_map(|route| resolve_route(report, file, context, v, route)));
            table(report, all)
        })
        .collect()
}

/// Returns the routes to own subnets and to those of peers, which the file does not list.
fn implied_routes(file: &RegionFile, context: &RouteContext, v: usize) -> Vec<UnresolvedRoute> {
    let own = file.vpcs[v].subnets.iter().map(|subnet| UnresolvedRoute {
        prefix: subnet.network(),
        step: RouteStep::End(RouteScope::Local, RouteTarget::Vpc(v)),
        at: subnet.at,
    });
    let peers = context.peers[v].iter().flat_map(|peer| {
        let step = RouteStep::Peer(*peer);
        file.vpcs[*peer].subnets.iter().map(move |subnet| UnresolvedRoute {
            prefix: subnet.network(),
            step,
            at: subnet.at,
        })
    });
    own.chain(peers).collect()
}

/// Resolves the target of a route of the file.
fn resolve_route(
    report: &mut ProblemCollector,
    file: &RegionFile,
    context: &RouteContext,
    v: usize,
    route: &WithPos<Route>,
) -> Option<UnresolvedRoute> {
    usable::check_match(report, &route.to, "a route to");
    let targets = [route.peer.is_some(), route.remote.is_some(), route.internet, route.blackhole];
    if targets.iter().filter(|t| **t).count() != 1 {
        let help = "give exactly one of `peer`, `remote`, `internet: true`, `blackhole: true`";
        report.add(route.at, format!("the route to {} needs one target", route.to.value), help);
        return None;
    }
    if let (Some(vni), None) = (&route.vni, &route.remote) {
        report.add(vni.at, "only a route to a remote has a VNI", "remove `vni`");
    }
    let step = if let Some(peer) = &route.peer {
        RouteStep::Peer(resolve_peer(report, file, context, v, peer)?)
    } else if let Some(remote) = &route.remote {
        resolve_remote(report, file, context, route, remote)?
    } else if route.internet {
        RouteStep::End(RouteScope::Internet, RouteTarget::Internet)
    } else {
        RouteStep::End(RouteScope::Blackhole, RouteTarget::Blackhole)
    };
    Some(UnresolvedRoute { prefix: route.to.network(), step, at: route.at })
}

fn resolve_peer(
    report: &mut ProblemCollector,
    file: &RegionFile,
    context: &RouteContext,
    v: usize,
    name: &Name,
) -> Option<usize> {
    let peer = names::resolve(report, "VPC", name, context.vpcs)?;
    if !context.peers[v].contains(&peer) {
        let own = &file.vpcs[v].name.value;
        let message = format!("`{own}` and `{}` are not peered", name.value);
        report.add(name.at, message, format!("add `- between: [{own}, {}]` to `peerings`", name.value));
        return None;
    }
    Some(peer)
}

fn resolve_remote(
    report: &mut ProblemCollector,
    file: &RegionFile,
    context: &RouteContext,
    route: &Route,
    name: &Name,
) -> Option<RouteStep> {
    let index = names::resolve(report, "remote", name, context.remotes)?;
    let remote = &file.remotes[index];
    if let Some(vni) = &route.vni {
        underlay::check_vni(report, vni);
    }
    let Some(vni) = route.vni.as_ref().or(remote.vni.as_ref()) else {
        let message = format!("remote `{}` has no VNI of its own, and the route gives none", name.value);
        report.add(name.at, message, "add `vni` to the route or to the remote");
        return None;
    };
    let scope = match remote.kind.value {
        RemoteKind::Idc => RouteScope::Idc,
        RemoteKind::Region => RouteScope::CrossRegion,
    };
    Some(RouteStep::End(scope, RouteTarget::Remote(index, vni.value)))
}

fn table(report: &mut ProblemCollector, mut all: Vec<UnresolvedRoute>) -> UnresolvedTable {
    all.sort_by_key(|raw| (raw.prefix, raw.at));
    let mut table = UnresolvedTable::default();
    for raw in all {
        match table.longest.insert(raw.prefix, table.sorted.len()) {
            Ok(()) => table.sorted.push(raw),
            Err(earlier) => {
                let line = table.sorted[*earlier].at.line;
                let message = format!("there are two routes to {}: see line {line}", raw.prefix);
                report.add(raw.at, message, "keep one (a VPC's subnets, and its peers', are routes too)");
            }
        }
    }
    table
}

/// Returns the table index of each policy route.
fn check_policy(report: &mut ProblemCollector, vpc: &Vpc) -> Vec<usize> {
    let tables: NameIndex = vpc.route_tables.iter().enumerate().map(|(i, t)| (&*t.name.value, i + 1)).collect();
    let mut lines: HashMap<IpNet, u32> = HashMap::new();
    let mut chosen = Vec::new();
    for rule in &vpc.policy {
        usable::check_match(report, &rule.from, "a policy for packets from");
        if let Some(line) = lines.insert(rule.from.network(), rule.from.at.line) {
            let message = format!("source {} has two route tables: see line {line}", rule.from.value);
            report.add(rule.from.at, message, "keep one of them");
        }
        chosen.extend(names::resolve(report, "route table", &rule.table, &tables));
    }
    chosen
}

struct RouteResolver<'a, 'r> {
    report: &'r mut ProblemCollector,
    file: &'a RegionFile,
    raw: &'a [Vec<UnresolvedTable>],
    /// Number of peer routes visited, for all VPCs.
    visited: usize,
}

/// A VPC in a peering chain, and the prefix for which its table delegates to the next VPC.
#[derive(Clone, Copy)]
struct PeeringHop<'a> {
    vpc: usize,
    table: &'a UnresolvedTable,
    prefix: IpNet,
}

impl<'a> RouteResolver<'a, '_> {
    /// Resolves the peerings of all routes of a table.
    fn table(&mut self, vpc: usize, table: &'a UnresolvedTable) -> Vec<FlatRoute> {
        let mut flat = Vec::with_capacity(table.sorted.len());
        for raw in &table.sorted {
            match raw.step {
                RouteStep::End(scope, target) => {
                    flat.push(FlatRoute { prefix: raw.prefix, scope, target, via: Vec::new(), origin: raw.at });
                }
                RouteStep::Peer(peer) => {
                    let mut path = vec![PeeringHop { vpc, table, prefix: raw.prefix }];
                    self.resolve_peering(raw.at, peer, raw.prefix, &mut path, &mut flat);
                }
            }
        }
        flat
    }

    /// Adds the routes of VPC `peer` within `prefix`, with the given origin.
    fn resolve_peering(
        &mut self,
        origin: SourcePos,
        peer: usize,
        prefix: IpNet,
        path: &mut Vec<PeeringHop<'a>>,
        flat: &mut Vec<FlatRoute>,
    ) {
        if path.iter().any(|hop| hop.vpc == peer) {
            let message = format!("the route to {prefix} is a peering loop: {}", self.peering_chain(path, peer));
            return self.report.add(origin, message, "let one of these VPCs route the prefix elsewhere");
        }
        if path.len() > MAX_PEERINGS {
            let chain = self.peering_chain(path, peer);
            let message = format!("the route to {prefix} passes more than {MAX_PEERINGS} peerings: {chain}");
            return self.report.add(origin, message, "peer the first and the last VPC directly");
        }
        let table = &self.raw[peer][0];
        match table.longest.covering(&prefix) {
            Some((_, index)) => self.add_or_follow(origin, peer, table.sorted[*index].step, prefix, path, flat),
            None => {
                let (scope, target, via) = (RouteScope::Blackhole, RouteTarget::NoRoute, Vec::new());
                flat.push(FlatRoute { prefix, scope, target, via, origin });
            }
        }
        let from = table.sorted.partition_point(|r| r.prefix <= prefix);
        for inner in table.sorted[from..].iter().take_while(|r| prefix.contains(&r.prefix)) {
            if self.visited > MAX_PEER_ROUTES {
                return;
            }
            self.visited += 1;
            if self.visited > MAX_PEER_ROUTES {
                let message =
                    format!("peers have more than {MAX_PEER_ROUTES} routes for the routes to them, up to here");
                return self.report.add(origin, message, "route fewer VPCs to a peer that has many routes of its own");
            }
            // Skip prefixes for which an earlier VPC of the chain has a longer match of its own,
            // because it does not delegate them.
            if !path.iter().any(|hop| has_longer_match(hop.table, inner.prefix, hop.prefix)) {
                self.add_or_follow(origin, peer, inner.step, inner.prefix, path, flat);
            }
        }
    }

    /// Adds one route of a peer's table, or follows it to the next peer.
    fn add_or_follow(
        &mut self,
        origin: SourcePos,
        vpc: usize,
        step: RouteStep,
        prefix: IpNet,
        path: &mut Vec<PeeringHop<'a>>,
        flat: &mut Vec<FlatRoute>,
    ) {
        match step {
            RouteStep::End(scope, target) => {
                let between = path[1..].iter().map(|hop| hop.vpc);
                let (scope, via) = match scope {
                    RouteScope::Local => (RouteScope::Peer, between.collect()),
                    RouteScope::Blackhole => (scope, Vec::new()),
                    _ => (scope, between.chain([vpc]).collect()),
                };
                flat.push(FlatRoute { prefix, scope, target, via, origin });
            }
            RouteStep::Peer(next) => {
                path.push(PeeringHop { vpc, table: &self.raw[vpc][0], prefix });
                self.resolve_peering(origin, next, prefix, path, flat);
                path.pop();
            }
        }
    }

    fn peering_chain(&self, path: &[PeeringHop], last: usize) -> String {
        let vpcs = path.iter().map(|hop| hop.vpc).chain([last]);
        let names = vpcs.map(|v| &*self.file.vpcs[v].name.value);
        names.collect::<Vec<_>>().join(" -> ")
    }
}

/// Returns whether the table has a route within `outer`, other than `outer`, that covers `inner`.
fn has_longer_match(table: &UnresolvedTable, inner: IpNet, outer: IpNet) -> bool {
    let covering = table.longest.covering(&inner);
    covering.is_some_and(|(longest, _)| longest != outer && outer.contains(&longest))
}
