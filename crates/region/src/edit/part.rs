//! Items that are read by themselves, and checked with what they can be in conflict with.

use super::{Items, Routes, are_too_many};
use crate::check::{FlatRoute, Region, Target, check, forms};
use crate::load;
use crate::model::{RegionFile, Vm, Vpc};
use crate::problem::Report;
use crate::shift::Shift;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List<T> {
    items: Vec<T>,
}

/// Reads items that stand in a text alone; lines count from 1 at the first. None if they have no form.
fn read<T: DeserializeOwned + Shift>(text: &str) -> Option<Vec<T>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let list: List<T> =
        serde_saphyr::from_str_with_options(&format!("items:\n{text}"), load::options(text.len())).ok()?;
    let mut items = list.items;
    items.shift(-1);
    Some(items)
}

/// The machines of `old` become those of a text that begins in `line`.
pub(super) fn vms(region: &Region, old: Range<usize>, text: &str, line: u32) -> Option<(BTreeSet<usize>, Items)> {
    let mut new: Vec<Vm> = read(text)?;
    new.shift(i64::from(line) - 1);
    let file = &region.file;
    let vpc_indices = region.vpc_indices();
    let mut vpcs: BTreeSet<usize> = region.vm_places[old.clone()].iter().map(|(vpc, _)| *vpc).collect();
    for vm in &new {
        vpcs.insert(*vpc_indices.get(&*vm.vpc.value)?);
    }
    // Nothing but their subnets counts for machines.
    let bare = |index: &usize| Vpc { subnets: file.vpcs[*index].subnets.clone(), ..Vpc::bare(&file.vpcs[*index]) };
    let is_other = |at: &usize| !old.contains(at);
    let others = (0..file.vms.len()).filter(is_other).filter(|at| vpcs.contains(&region.vm_places[*at].0));
    let count = new.len();
    let all: Vec<Vm> = new.iter().cloned().chain(others.map(|at| file.vms[at].clone())).collect();
    let part = RegionFile { vpcs: vpcs.iter().map(bare).collect(), vms: all, ..underlay(file) };
    let checked = check("", part).ok()?;
    let names: HashSet<&str> = new.iter().map(|vm| &*vm.name.value).collect();
    let same_name = |at: &usize| names.contains(&*file.vms[*at].name.value);
    if (0..file.vms.len()).filter(is_other).any(|at| same_name(&at)) {
        return None;
    }
    let full: Vec<usize> = vpcs.iter().copied().collect();
    let places = checked.vm_places[..count].iter().map(|(vpc, server)| (full[*vpc], *server));
    let new = new.into_iter().zip(places).collect();
    Some((vpcs, Items::Vms(old, new)))
}

/// The VPCs of `old` become those of a text that begins in `line`: as many, with the same names. What stands behind
/// them moves by `lines`.
pub(super) fn vpcs(
    region: &Region,
    old: Range<usize>,
    text: &str,
    (line, lines): (u32, i64),
) -> Option<(BTreeSet<usize>, Items)> {
    let new: Vec<Vpc> = read(text)?;
    let file = &region.file;
    let mut report = Report::new("");
    // As it stands in the text: behind a line with the key.
    let mut placed = new.clone();
    placed.shift(1);
    forms::check_vpcs(&mut report, &placed, &format!("items:\n{text}"));
    report.finish().ok()?;
    let mut new = new;
    new.shift(i64::from(line) - 1);
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
    let vms = (0..file.vms.len()).filter(|at| old.contains(&region.vm_places[*at].0));
    let part = RegionFile {
        vpcs: reached.iter().map(|at| vpc(*at)).collect(),
        peerings: peerings.collect(),
        vms: vms.map(|at| file.vms[at].clone()).collect(),
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
        vms: Vec::new(),
    }
}
