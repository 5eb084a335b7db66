//! VPCs: VNIs, subnets and peerings.

use super::{Index, MAX_VPCS, names, underlay, usable};
use crate::model::{RegionFile, Vpc};
use crate::position::Position;
use crate::prefix_map::PrefixMap;
use crate::problem::Report;
use ipnet::IpNet;
use std::collections::{HashMap, HashSet};

/// Subnets of a VPC, with their places.
pub(super) type Subnets = PrefixMap<Position>;

/// Checks VNIs and subnets; gives each VPC's subnets.
pub(super) fn check(report: &mut Report, file: &RegionFile) -> Vec<Subnets> {
    names::at_most(report, "VPCs", MAX_VPCS, file.vpcs.iter().map(|vpc| &vpc.name));
    let mut lines: HashMap<u32, u32> = HashMap::new();
    file.vpcs
        .iter()
        .map(|vpc| {
            underlay::vni(report, &vpc.vni);
            if let Some(line) = lines.insert(*vpc.vni, vpc.vni.at.line) {
                let message = format!("VNI {} is used twice, first in line {line}", *vpc.vni);
                report.add(vpc.vni.at, message, "give each VPC a VNI of its own");
            }
            subnets(report, vpc)
        })
        .collect()
}

fn subnets(report: &mut Report, vpc: &Vpc) -> Subnets {
    for subnet in &vpc.subnets {
        usable::subnet(report, subnet);
    }
    let all = sorted(vpc, 0);
    overlaps(&all, |a, b| {
        let message = format!("subnet {} overlaps {} in line {}", b.0, a.0, a.1.line);
        report.add(b.1, message, "make the subnets of a VPC disjoint");
    });
    let mut map = Subnets::default();
    for (prefix, at, _) in all {
        // A repeated prefix has been reported as an overlap.
        let _ = map.insert(prefix, at);
    }
    map
}

type Owned = (IpNet, Position, usize);

fn sorted(vpc: &Vpc, owner: usize) -> Vec<Owned> {
    let mut all: Vec<Owned> = vpc.subnets.iter().map(|s| (s.network(), s.at, owner)).collect();
    all.sort_by_key(|(prefix, at, _)| (*prefix, *at));
    all
}

/// Calls `found` for each prefix of a sorted list that lies within an earlier one.
fn overlaps(sorted: &[Owned], mut found: impl FnMut(&Owned, &Owned)) {
    let mut open: Option<&Owned> = None;
    for item in sorted {
        match open {
            Some(outer) if outer.0.contains(&item.0) => found(outer, item),
            _ => open = Some(item),
        }
    }
}

/// Each VPC's peers.
pub(super) fn peerings(report: &mut Report, file: &RegionFile, vpcs: &Index) -> Vec<Vec<usize>> {
    let mut peers = vec![Vec::new(); file.vpcs.len()];
    let mut seen = HashSet::new();
    for peering in &file.peerings {
        let [left, right] = &peering.between;
        let resolved = [left, right].map(|name| names::resolve(report, "VPC", name, vpcs));
        let [Some(a), Some(b)] = resolved else { continue };
        if a == b {
            report.add(right.at, format!("VPC `{}` is peered with itself", left.value), "name two different VPCs");
            continue;
        }
        if !seen.insert((a.min(b), a.max(b))) {
            let message = format!("the peering of `{}` and `{}` is declared twice", left.value, right.value);
            report.add(left.at, message, "remove one of the two");
            continue;
        }
        disjoint(report, file, a, b, left.at);
        peers[a].push(b);
        peers[b].push(a);
    }
    peers
}

/// Peers need addresses that tell them apart.
fn disjoint(report: &mut Report, file: &RegionFile, a: usize, b: usize, at: Position) {
    let mut all = sorted(&file.vpcs[a], a);
    all.extend(sorted(&file.vpcs[b], b));
    all.sort_by_key(|(prefix, at, _)| (*prefix, *at));
    overlaps(&all, |outer, inner| {
        if outer.2 != inner.2 {
            let name = |owner: usize| &*file.vpcs[owner].name.value;
            let message = format!(
                "peered VPCs have overlapping subnets: {} of `{}` (line {}) and {} of `{}` (line {})",
                outer.0,
                name(outer.2),
                outer.1.line,
                inner.0,
                name(inner.2),
                inner.1.line
            );
            report.add(at, message, "renumber one of the VPCs, or remove the peering");
        }
    });
}
