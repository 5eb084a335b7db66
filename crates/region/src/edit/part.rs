//! Parses and checks the changed items together with the objects that they can conflict with.

use super::hunk::Hunk;
use super::name_hashes::NameHashes;
use super::{EditItems, VpcRoutes, exceeds_limits};
use crate::check::{FlatRoute, ResolvedRegion, RouteTarget, check, number_notation};
use crate::item_list::ItemList;
use crate::model::{RegionFile, Vm, Vpc};
use crate::nat64::MAX_NAT64_MACHINES;
use crate::plain::{PlainCursor, read_item};
use crate::problem::ProblemCollector;
use crate::shift::Shift;
use crate::yaml;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemsText<T> {
    items: Vec<T>,
}

/// Parses a text that consists of items and starts in line `line`. `None` if they can't be read.
fn read_items<T: DeserializeOwned + Shift>(text: &str, line: u32, indent: usize) -> Option<Vec<T>> {
    let mut items = Vec::new();
    let mut cursor = PlainCursor::new(text, 0, line);
    while cursor.line_start() < text.len() {
        let Some(item) = read_item(&mut cursor, indent) else { return read_yaml(text, line) };
        items.push(item);
    }
    Some(items)
}

/// Parses items that are not plain.
fn read_yaml<T: DeserializeOwned + Shift>(text: &str, line: u32) -> Option<Vec<T>> {
    let mut list: ItemsText<T> = yaml::read(&format!("items:\n{text}"), text.len()).ok()?;
    list.items.shift(i64::from(line) - 2);
    Some(list.items)
}

/// Returns the edit that replaces the machines of `old`. `names` has the names of all machines.
pub(super) fn edit_vms(
    region: &ResolvedRegion,
    names: &NameHashes,
    old: Range<usize>,
    hunk: &Hunk,
) -> Option<(BTreeSet<usize>, EditItems)> {
    let Hunk { new: ref text, line, indent, .. } = *hunk;
    let new: Vec<Vm> = read_items(text, line, indent)?;
    let file = &region.file;
    let vpc_indices = region.vpc_indices();
    let mut vpcs: BTreeSet<usize> = region.vm_locations[old.clone()].iter().map(|(vpc, _)| *vpc).collect();
    for vm in &new {
        vpcs.insert(*vpc_indices.get(&*vm.vpc.value)?);
    }
    // The check of machines only needs the subnets, security groups and services of their VPCs.
    let bare = |index: &usize| Vpc {
        subnets: file.vpcs[*index].subnets.clone(),
        security_groups: file.vpcs[*index].security_groups.clone(),
        services: file.vpcs[*index].services.clone(),
        ..Vpc::name_and_vni_only(&file.vpcs[*index])
    };
    let others = region.machines_of(|vpc| vpcs.contains(&vpc)).filter(|at| !old.contains(at));
    let count = new.len();
    let all: Vec<Vm> = new.iter().cloned().chain(others.map(|at| file.vms[at].clone())).collect();
    let part = RegionFile {
        vpcs: vpcs.iter().map(bare).collect(),
        vms: all.into(),
        ..underlay_only(region, |vpc| vpcs.contains(&vpc))
    };
    let checked = check("", part).ok()?;
    if are_names_taken(region, names, &old, &new) || has_too_many_machines(region, &old, &new) {
        return None;
    }
    let full: Vec<usize> = vpcs.iter().copied().collect();
    let places = checked.vm_locations[..count].iter().map(|(vpc, server)| (full[*vpc], *server));
    let new = new.into_iter().zip(places).collect();
    Some((vpcs, EditItems::Vms(old, new)))
}

/// Returns whether machines of VPCs with NAT64 could have more addresses than there are numbers.
fn has_too_many_machines(region: &ResolvedRegion, old: &Range<usize>, new: &[Vm]) -> bool {
    let kept = region.machines_of(|vpc| region.file.vpcs[vpc].nat64.is_some()).filter(|at| !old.contains(at));
    let addresses: usize = kept.map(|at| region.file.vms[at].addresses.len()).sum();
    addresses > 0 && addresses + new.iter().map(|vm| vm.addresses.len()).sum::<usize>() > MAX_NAT64_MACHINES
}

/// Returns whether a machine outside of `old` has the name of a new one.
fn are_names_taken(region: &ResolvedRegion, names: &NameHashes, old: &Range<usize>, new: &[Vm]) -> bool {
    let vms = &region.file.vms;
    let name = |at: usize| &*vms[at].name.value;
    // Names are unique, so a name of `old` belongs to no other machine.
    let own: HashSet<&str> = old.clone().map(name).collect();
    let new_names = new.iter().map(|vm| &*vm.name.value);
    let doubtful: HashSet<&str> = new_names.filter(|name| !own.contains(name) && names.may_contain(name)).collect();
    !doubtful.is_empty() && vms.iter().any(|vm| doubtful.contains(&*vm.name.value))
}

/// Returns the edit that replaces the VPCs of `old`. `None` unless their number and names are
/// unchanged.
pub(super) fn edit_vpcs(
    region: &ResolvedRegion,
    old: Range<usize>,
    hunk: &Hunk,
) -> Option<(BTreeSet<usize>, EditItems)> {
    let Hunk { new: ref text, line, lines, indent, .. } = *hunk;
    let new: Vec<Vpc> = read_items(text, line, indent)?;
    let file = &region.file;
    let mut report = ProblemCollector::new("");
    let mut placed = new.clone();
    placed.shift(1 - i64::from(line));
    number_notation::check_vpcs(&mut report, &placed, text);
    report.finish().ok()?;
    let same_names = new.iter().map(|vpc| &vpc.name).eq(file.vpcs[old.clone()].iter().map(|vpc| &vpc.name));
    let vnis: HashSet<u32> = new.iter().map(|vpc| *vpc.vni).collect();
    let others = (0..file.vpcs.len()).filter(|at| !old.contains(at));
    // Ranges of numbers for NATs depend on all VPCs.
    let has_nat = new.iter().chain(&file.vpcs[old.clone()]).any(|vpc| vpc.nat.is_some());
    // Public addresses belong to the underlay.
    let is_public = new.iter().chain(&file.vpcs[old.clone()]).any(Vpc::has_public_services);
    // Prefixes on the Internet are of one VPC, and the underlay has a route for them.
    let has_ipv6 = new.iter().chain(&file.vpcs[old.clone()]).any(|vpc| vpc.ipv6_internet.is_some());
    if has_nat || is_public || has_ipv6 || !same_names || others.into_iter().any(|at| vnis.contains(&file.vpcs[at].vni))
    {
        return None;
    }
    let reached = connected_vpcs(region, old.clone());
    let vpc = |at: usize| {
        if old.contains(&at) {
            return new[at - old.start].clone();
        }
        let mut vpc = file.vpcs[at].clone();
        vpc.services.clear(); // without the machines that are their backends
        vpc.shift(if at < old.start { 0 } else { lines });
        vpc
    };
    let names: HashSet<&str> = reached.iter().map(|at| &*file.vpcs[*at].name.value).collect();
    let peerings = file.peerings.iter().filter(|peering| names.contains(&*peering.between[0].value)).cloned();
    let machines = region.machines_of(|vpc| old.contains(&vpc));
    let part = RegionFile {
        vpcs: reached.iter().map(|at| vpc(*at)).collect(),
        peerings: peerings.collect(),
        vms: machines.map(|at| file.vms[at].clone()).collect::<Vec<_>>().into(),
        ..underlay_only(region, |vpc| old.contains(&vpc))
    };
    let checked = check("", part).ok()?;
    let routes = routes_in_region(checked, &reached);
    if exceeds_limits(region, &routes) {
        return None;
    }
    Some((reached.into_iter().collect(), EditItems::Vpcs(old.start, new, routes)))
}

/// Converts the routes of a partial region to indices of the whole region.
fn routes_in_region(checked: ResolvedRegion, full: &[usize]) -> Vec<VpcRoutes> {
    let whole = |mut route: FlatRoute| {
        if let RouteTarget::Vpc(vpc) = &mut route.target {
            *vpc = full[*vpc];
        }
        route.via.iter_mut().for_each(|vpc| *vpc = full[*vpc]);
        route
    };
    let ResolvedRegion { tables, policies, peer_routes, .. } = checked;
    let mut routes = Vec::new();
    for (((vpc, tables), policies), peer_routes) in full.iter().zip(tables).zip(policies).zip(peer_routes) {
        let tables = tables.into_iter().map(|table: Vec<FlatRoute>| table.into_iter().map(whole).collect()).collect();
        routes.push(VpcRoutes { vpc: *vpc, tables, policies, peer_routes });
    }
    routes
}

/// Returns the VPCs that peerings connect with those of `from`, including these, in order.
fn connected_vpcs(region: &ResolvedRegion, from: Range<usize>) -> Vec<usize> {
    let mut reached: BTreeSet<usize> = from.clone().collect();
    let mut open: Vec<usize> = from.collect();
    while let Some(vpc) = open.pop() {
        open.extend(region.peers[vpc].iter().copied().filter(|peer| reached.insert(*peer)));
    }
    reached.into_iter().collect()
}

/// Returns a region with the same underlay (servers, remotes, uplinks, NATs) and without tenants. It has
/// the elastic addresses and port forwards of the VPCs that `has_machines` selects: the part has all
/// machines of these.
fn underlay_only(region: &ResolvedRegion, has_machines: impl Fn(usize) -> bool) -> RegionFile {
    let file = &region.file;
    let mut internet = file.internet.clone();
    if let Some(internet) = &mut internet {
        internet.elastic = selected(&internet.elastic, &region.elastic_vpcs, &has_machines);
        internet.forwards = selected(&internet.forwards, &region.forward_vpcs, &has_machines);
    }
    RegionFile {
        region: file.region.clone(),
        gateway: file.gateway.clone(),
        uplinks: file.uplinks.clone(),
        servers: file.servers.clone(),
        remotes: file.remotes.clone(),
        internet: internet.filter(|internet| internet.first_address().is_some()),
        vpcs: Vec::new(),
        peerings: Vec::new(),
        vms: ItemList::default(),
    }
}

/// Returns the items of the VPCs that `is_wanted` selects. `vpcs` has the VPC of each.
fn selected<T: Clone>(items: &[T], vpcs: &[usize], is_wanted: impl Fn(usize) -> bool) -> Vec<T> {
    items.iter().zip(vpcs).filter(|(_, vpc)| is_wanted(**vpc)).map(|(item, _)| item.clone()).collect()
}
