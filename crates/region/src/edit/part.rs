//! Items that are read by themselves, and checked with what they can be in conflict with.

use super::hunk::Hunk;
use super::name_hashes::NameHashes;
use super::{Items, Routes, are_too_many};
use crate::check::{FlatRoute, Region, Target, check, forms};
use crate::item_list::ItemList;
use crate::model::{RegionFile, Vm, Vpc};
use crate::plain::{Cursor, read_item};
use crate::problem::Report;
use crate::shift::Shift;
use crate::yaml;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List<T> {
    items: Vec<T>,
}

/// Reads items that stand in a text alone, which begins in `line`. None if they have no form.
fn read<T: DeserializeOwned + Shift>(text: &str, line: u32, indent: usize) -> Option<Vec<T>> {
    let mut items = Vec::new();
    let mut cursor = Cursor::new(text, 0, line);
    while cursor.line_start() < text.len() {
        let Some(item) = read_item(&mut cursor, indent) else { return read_yaml(text, line) };
        items.push(item);
    }
    Some(items)
}

/// The same for items that are not plain.
fn read_yaml<T: DeserializeOwned + Shift>(text: &str, line: u32) -> Option<Vec<T>> {
    let mut list: List<T> = yaml::read(&format!("items:\n{text}"), text.len()).ok()?;
    list.items.shift(i64::from(line) - 2);
    Some(list.items)
}

/// The machines of `old` become those that are new. `names` are those of all machines.
pub(super) fn vms(
    region: &Region,
    names: &NameHashes,
    old: Range<usize>,
    hunk: &Hunk,
) -> Option<(BTreeSet<usize>, Items)> {
    let Hunk { new: ref text, line, indent, .. } = *hunk;
    let new: Vec<Vm> = read(text, line, indent)?;
    let file = &region.file;
    let vpc_indices = region.vpc_indices();
    let mut vpcs: BTreeSet<usize> = region.vm_places[old.clone()].iter().map(|(vpc, _)| *vpc).collect();
    for vm in &new {
        vpcs.insert(*vpc_indices.get(&*vm.vpc.value)?);
    }
    // Nothing but their subnets counts for machines.
    let bare = |index: &usize| Vpc { subnets: file.vpcs[*index].subnets.clone(), ..Vpc::bare(&file.vpcs[*index]) };
    let others = region.machines_of(|vpc| vpcs.contains(&vpc)).filter(|at| !old.contains(at));
    let count = new.len();
    let all: Vec<Vm> = new.iter().cloned().chain(others.map(|at| file.vms[at].clone())).collect();
    let part = RegionFile { vpcs: vpcs.iter().map(bare).collect(), vms: all.into(), ..underlay(file) };
    let checked = check("", part).ok()?;
    if are_names_taken(region, names, &old, &new) {
        return None;
    }
    let full: Vec<usize> = vpcs.iter().copied().collect();
    let places = checked.vm_places[..count].iter().map(|(vpc, server)| (full[*vpc], *server));
    let new = new.into_iter().zip(places).collect();
    Some((vpcs, Items::Vms(old, new)))
}

/// Whether another machine than those of `old` has the name of a new one.
fn are_names_taken(region: &Region, names: &NameHashes, old: &Range<usize>, new: &[Vm]) -> bool {
    let vms = &region.file.vms;
    let name = |at: usize| &*vms[at].name.value;
    // These are no other machine's, because names differ.
    let own: HashSet<&str> = old.clone().map(name).collect();
    let new_names = new.iter().map(|vm| &*vm.name.value);
    let doubtful: HashSet<&str> = new_names.filter(|name| !own.contains(name) && names.may_contain(name)).collect();
    !doubtful.is_empty() && vms.iter().any(|vm| doubtful.contains(&*vm.name.value))
}

/// The VPCs of `old` become those that are new: as many, with the same names.
pub(super) fn vpcs(region: &Region, old: Range<usize>, hunk: &Hunk) -> Option<(BTreeSet<usize>, Items)> {
    let Hunk { new: ref text, line, lines, indent, .. } = *hunk;
    let new: Vec<Vpc> = read(text, line, indent)?;
    let file = &region.file;
    let mut report = Report::new("");
    let mut placed = new.clone();
    placed.shift(1 - i64::from(line));
    forms::check_vpcs(&mut report, &placed, text);
    report.finish().ok()?;
    let same_names = new.iter().map(|vpc| &vpc.name).eq(file.vpcs[old.clone()].iter().map(|vpc| &vpc.name));
    let vnis: HashSet<u32> = new.iter().map(|vpc| *vpc.vni).collect();
    let others = (0..file.vpcs.len()).filter(|at| !old.contains(at));
    if !same_names || others.into_iter().any(|at| vnis.contains(&file.vpcs[at].vni)) {
        return None;
    }
    let reached = component(region, old.clone());
    let vpc = |at: usize| {
        if old.contains(&at) {
            return new[at - old.start].clone();
        }
        let mut vpc = file.vpcs[at].clone();
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
        ..underlay(file)
    };
    let checked = check("", part).ok()?;
    let routes = routes(checked, &reached);
    if are_too_many(region, &routes) {
        return None;
    }
    Some((reached.into_iter().collect(), Items::Vpcs(old.start, new, routes)))
}

/// The routes of a part's VPCs, with their indices in the whole region.
fn routes(checked: Region, full: &[usize]) -> Vec<Routes> {
    let whole = |mut route: FlatRoute| {
        if let Target::Vpc(vpc) = &mut route.target {
            *vpc = full[*vpc];
        }
        route.via.iter_mut().for_each(|vpc| *vpc = full[*vpc]);
        route
    };
    let Region { tables, policies, peer_routes, .. } = checked;
    let mut routes = Vec::new();
    for (((vpc, tables), policies), peer_routes) in full.iter().zip(tables).zip(policies).zip(peer_routes) {
        let tables = tables.into_iter().map(|table: Vec<FlatRoute>| table.into_iter().map(whole).collect()).collect();
        routes.push(Routes { vpc: *vpc, tables, policies, peer_routes });
    }
    routes
}

/// The VPCs that peerings lead to from some, with these, in order.
fn component(region: &Region, from: Range<usize>) -> Vec<usize> {
    let mut reached: BTreeSet<usize> = from.clone().collect();
    let mut open: Vec<usize> = from.collect();
    while let Some(vpc) = open.pop() {
        open.extend(region.peers[vpc].iter().copied().filter(|peer| reached.insert(*peer)));
    }
    reached.into_iter().collect()
}

/// A region of the same servers, remotes and uplinks, without tenants.
fn underlay(file: &RegionFile) -> RegionFile {
    RegionFile {
        region: file.region.clone(),
        gateway: file.gateway.clone(),
        uplinks: file.uplinks.clone(),
        servers: file.servers.clone(),
        remotes: file.remotes.clone(),
        vpcs: Vec::new(),
        peerings: Vec::new(),
        vms: ItemList::default(),
    }
}
