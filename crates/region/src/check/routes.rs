//! Routes and route tables. Peerings are resolved here, so that the gateway decides with one lookup.
//!
//! A route to a peer means "the peer's main table decides". Resolving it gives, for each prefix that the peer tells apart
//! within the route, where the packet ends up; up to [`MAX_PEERINGS`] peerings in a row. A chain that comes back to a VPC
//! it has been in is a loop and is refused.

use super::{Index, MAX_PEERINGS, names, underlay, usable};
use crate::model::{Name, RegionFile, RemoteKind, Route, Vpc};
use crate::position::{At, Position};
use crate::prefix_map::PrefixMap;
use crate::problem::Report;
use ipnet::IpNet;
use std::collections::HashMap;

/// How many routes of peers are looked at in all. The gateway's tables hold two million routes; without a bound, a VPC with many routes
/// that many others route to makes more of a small file than memory holds.
pub(crate) const MAX_PEER_ROUTES: usize = 1 << 22;

/// Scope of a route, as counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Scope {
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
    /// Nowhere.
    Blackhole,
}

/// Where a route ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// A machine of the VPC with that index.
    Vpc(usize),
    /// The remote with that index; packets carry the VNI.
    Remote(usize, u32),
    /// The internet.
    Internet,
    /// Dropped, as the tenant asked for.
    Blackhole,
    /// A peer was to decide, and has no route.
    NoRoute,
}

/// A route with its peerings resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlatRoute {
    /// Destination.
    pub prefix: IpNet,
    /// Its scope.
    pub scope: Scope,
    /// Where it ends.
    pub target: Target,
    /// The VPCs that packets pass through, in order: those between the table's own VPC and the one that they end in, which is among them if
    /// they leave by its exit.
    pub via: Vec<usize>,
    /// Where in the file it comes from: the route of the table's own VPC.
    pub origin: Position,
}

impl FlatRoute {
    /// The way of its packets through other VPCs: these, and the one that they are delivered in; none if there are none.
    pub(crate) fn way(&self) -> Option<(&[usize], Option<usize>)> {
        let to = match self.target {
            Target::Vpc(to) => Some(to),
            _ => None,
        };
        (!self.via.is_empty()).then_some((&self.via, to))
    }
}

/// What routes refer to.
pub(super) struct Context<'a> {
    pub(super) vpcs: &'a Index<'a>,
    pub(super) remotes: &'a Index<'a>,
    pub(super) peers: &'a [Vec<usize>],
}

/// A route as written, its target resolved by name.
#[derive(Clone, Copy, Debug)]
struct Raw {
    prefix: IpNet,
    step: Step,
    at: Position,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    End(Scope, Target),
    Peer(usize),
}

/// A route table as written: sorted by prefix, and by longest match.
#[derive(Default)]
struct RawTable {
    sorted: Vec<Raw>,
    longest: PrefixMap<usize>,
}

/// Route tables with their peerings resolved.
pub(super) struct Checked {
    /// By VPC and table.
    pub(super) tables: Vec<Vec<Vec<FlatRoute>>>,
    /// The table of each policy route, by VPC.
    pub(super) policies: Vec<Vec<usize>>,
    /// How many routes of peers were looked at, by VPC.
    pub(super) peer_routes: Vec<usize>,
}

pub(super) fn check(report: &mut Report, file: &RegionFile, context: &Context) -> Checked {
    let raw: Vec<Vec<RawTable>> = (0..file.vpcs.len()).map(|v| vpc_tables(report, file, context, v)).collect();
    let (mut flat, mut peer_routes) = (Vec::with_capacity(raw.len()), Vec::with_capacity(raw.len()));
    let mut resolver = Resolver { report, file, raw: &raw, looked_at: 0 };
    for (v, tables) in raw.iter().enumerate() {
        let before = resolver.looked_at;
        flat.push(tables.iter().map(|table| resolver.table(v, table)).collect());
        peer_routes.push(resolver.looked_at - before);
    }
    let policies = file.vpcs.iter().map(|vpc| policy(report, vpc)).collect();
    Checked { tables: flat, policies, peer_routes }
}

/// A VPC's tables: own subnets and peers' subnets are in each of them.
fn vpc_tables(report: &mut Report, file: &RegionFile, context: &Context, v: usize) -> Vec<RawTable> {
    let vpc = &file.vpcs[v];
    names::index(report, "route table", vpc.route_tables.iter().map(|t| &t.name));
    let lists = std::iter::once(&vpc.routes).chain(vpc.route_tables.iter().map(|t| &t.routes));
    lists
        .map(|routes| {
            let mut all = implied(file, context, v);
            all.extend(routes.iter().filter_map(|route| explicit(report, file, context, v, route)));
            table(report, all)
        })
        .collect()
}

/// Routes that the file does not spell out.
fn implied(file: &RegionFile, context: &Context, v: usize) -> Vec<Raw> {
    let own = file.vpcs[v].subnets.iter().map(|subnet| Raw {
        prefix: subnet.network(),
        step: Step::End(Scope::Local, Target::Vpc(v)),
        at: subnet.at,
    });
    let peers = context.peers[v].iter().flat_map(|peer| {
        let step = Step::Peer(*peer);
        file.vpcs[*peer].subnets.iter().map(move |subnet| Raw { prefix: subnet.network(), step, at: subnet.at })
    });
    own.chain(peers).collect()
}

/// A route of the file.
fn explicit(report: &mut Report, file: &RegionFile, context: &Context, v: usize, route: &At<Route>) -> Option<Raw> {
    usable::matched(report, &route.to, "a route to");
    let targets = [route.peer.is_some(), route.remote.is_some(), route.internet, route.blackhole];
    if targets.iter().filter(|t| **t).count() != 1 {
        let mend = "give exactly one of `peer`, `remote`, `internet: true`, `blackhole: true`";
        report.add(route.at, format!("the route to {} needs one target", route.to.value), mend);
        return None;
    }
    if let (Some(vni), None) = (&route.vni, &route.remote) {
        report.add(vni.at, "only a route to a remote has a VNI", "remove `vni`");
    }
    let step = if let Some(peer) = &route.peer {
        Step::Peer(peered(report, file, context, v, peer)?)
    } else if let Some(remote) = &route.remote {
        to_remote(report, file, context, route, remote)?
    } else if route.internet {
        Step::End(Scope::Internet, Target::Internet)
    } else {
        Step::End(Scope::Blackhole, Target::Blackhole)
    };
    Some(Raw { prefix: route.to.network(), step, at: route.at })
}

fn peered(report: &mut Report, file: &RegionFile, context: &Context, v: usize, name: &Name) -> Option<usize> {
    let peer = names::resolve(report, "VPC", name, context.vpcs)?;
    if !context.peers[v].contains(&peer) {
        let own = &file.vpcs[v].name.value;
        let message = format!("`{own}` and `{}` are not peered", name.value);
        report.add(name.at, message, format!("add `- between: [{own}, {}]` to `peerings`", name.value));
        return None;
    }
    Some(peer)
}

fn to_remote(report: &mut Report, file: &RegionFile, context: &Context, route: &Route, name: &Name) -> Option<Step> {
    let index = names::resolve(report, "remote", name, context.remotes)?;
    let remote = &file.remotes[index];
    if let Some(vni) = &route.vni {
        underlay::vni(report, vni);
    }
    let Some(vni) = route.vni.as_ref().or(remote.vni.as_ref()) else {
        let message = format!("remote `{}` has no VNI of its own, and the route gives none", name.value);
        report.add(name.at, message, "add `vni` to the route or to the remote");
        return None;
    };
    let scope = match remote.kind.value {
        RemoteKind::Idc => Scope::Idc,
        RemoteKind::Region => Scope::CrossRegion,
    };
    Some(Step::End(scope, Target::Remote(index, vni.value)))
}

fn table(report: &mut Report, mut all: Vec<Raw>) -> RawTable {
    all.sort_by_key(|raw| (raw.prefix, raw.at));
    let mut table = RawTable::default();
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

/// For each policy route the index of its table.
fn policy(report: &mut Report, vpc: &Vpc) -> Vec<usize> {
    let tables: Index = vpc.route_tables.iter().enumerate().map(|(i, t)| (&*t.name.value, i + 1)).collect();
    let mut lines: HashMap<IpNet, u32> = HashMap::new();
    let mut chosen = Vec::new();
    for rule in &vpc.policy {
        usable::matched(report, &rule.from, "a policy for packets from");
        if let Some(line) = lines.insert(rule.from.network(), rule.from.at.line) {
            let message = format!("source {} has two route tables: see line {line}", rule.from.value);
            report.add(rule.from.at, message, "keep one of them");
        }
        chosen.extend(names::resolve(report, "route table", &rule.table, &tables));
    }
    chosen
}

struct Resolver<'a, 'r> {
    report: &'r mut Report,
    file: &'a RegionFile,
    raw: &'a [Vec<RawTable>],
    /// Routes of peers that were looked at, for all VPCs.
    looked_at: usize,
}

/// A VPC on the way, and the prefix that its table handed on to the next one.
#[derive(Clone, Copy)]
struct Hop<'a> {
    vpc: usize,
    table: &'a RawTable,
    prefix: IpNet,
}

impl<'a> Resolver<'a, '_> {
    /// The table with every route's peerings resolved.
    fn table(&mut self, vpc: usize, table: &'a RawTable) -> Vec<FlatRoute> {
        let mut flat = Vec::with_capacity(table.sorted.len());
        for raw in &table.sorted {
            match raw.step {
                Step::End(scope, target) => {
                    flat.push(FlatRoute { prefix: raw.prefix, scope, target, via: Vec::new(), origin: raw.at });
                }
                Step::Peer(peer) => {
                    let mut path = vec![Hop { vpc, table, prefix: raw.prefix }];
                    self.through(raw.at, peer, raw.prefix, &mut path, &mut flat);
                }
            }
        }
        flat
    }

    /// What VPC `peer` does with packets to `prefix`, as routes whose origin is `origin`.
    fn through(
        &mut self,
        origin: Position,
        peer: usize,
        prefix: IpNet,
        path: &mut Vec<Hop<'a>>,
        flat: &mut Vec<FlatRoute>,
    ) {
        if path.iter().any(|hop| hop.vpc == peer) {
            let message = format!("the route to {prefix} is a peering loop: {}", self.chain(path, peer));
            return self.report.add(origin, message, "let one of these VPCs route the prefix elsewhere");
        }
        if path.len() > MAX_PEERINGS {
            let chain = self.chain(path, peer);
            let message = format!("the route to {prefix} passes more than {MAX_PEERINGS} peerings: {chain}");
            return self.report.add(origin, message, "peer the first and the last VPC directly");
        }
        let table = &self.raw[peer][0];
        match table.longest.covering(&prefix) {
            Some((_, index)) => self.step(origin, peer, table.sorted[*index].step, prefix, path, flat),
            None => {
                let (scope, target, via) = (Scope::Blackhole, Target::NoRoute, Vec::new());
                flat.push(FlatRoute { prefix, scope, target, via, origin });
            }
        }
        let from = table.sorted.partition_point(|r| r.prefix <= prefix);
        for inner in table.sorted[from..].iter().take_while(|r| prefix.contains(&r.prefix)) {
            if self.looked_at > MAX_PEER_ROUTES {
                return;
            }
            self.looked_at += 1;
            if self.looked_at > MAX_PEER_ROUTES {
                let message =
                    format!("peers have more than {MAX_PEER_ROUTES} routes for the routes to them, up to here");
                return self.report.add(origin, message, "route fewer VPCs to a peer that has many routes of its own");
            }
            // A prefix that a VPC on the way tells apart itself was never handed on.
            if !path.iter().any(|hop| splits(hop.table, inner.prefix, hop.prefix)) {
                self.step(origin, peer, inner.step, inner.prefix, path, flat);
            }
        }
    }

    /// One route of a peer's table.
    fn step(
        &mut self,
        origin: Position,
        vpc: usize,
        step: Step,
        prefix: IpNet,
        path: &mut Vec<Hop<'a>>,
        flat: &mut Vec<FlatRoute>,
    ) {
        match step {
            Step::End(scope, target) => {
                let between = path[1..].iter().map(|hop| hop.vpc);
                let (scope, via) = match scope {
                    Scope::Local => (Scope::Peer, between.collect()),
                    Scope::Blackhole => (scope, Vec::new()),
                    _ => (scope, between.chain([vpc]).collect()),
                };
                flat.push(FlatRoute { prefix, scope, target, via, origin });
            }
            Step::Peer(next) => {
                path.push(Hop { vpc, table: &self.raw[vpc][0], prefix });
                self.through(origin, next, prefix, path, flat);
                path.pop();
            }
        }
    }

    fn chain(&self, path: &[Hop], last: usize) -> String {
        let vpcs = path.iter().map(|hop| hop.vpc).chain([last]);
        let names = vpcs.map(|v| &*self.file.vpcs[v].name.value);
        names.collect::<Vec<_>>().join(" -> ")
    }
}

/// Whether the table has a route of its own within `outer` that covers `inner`.
fn splits(table: &RawTable, inner: IpNet, outer: IpNet) -> bool {
    let covering = table.longest.covering(&inner);
    covering.is_some_and(|(longest, _)| longest != outer && outer.contains(&longest))
}
