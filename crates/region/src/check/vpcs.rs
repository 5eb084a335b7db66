//! Checks VPCs: VNIs, subnets and peerings.

use super::{MAX_VPCS, NameIndex, names, underlay, usable};
use crate::model::{RegionFile, Vpc};
use crate::prefix_map::PrefixMap;
use crate::problem::ProblemCollector;
use crate::spanned::{NumberWithPos, SourcePos};
use crate::vpc::DATAGRAM_TABLE_SIZE;
use ipnet::IpNet;
use std::collections::{HashMap, HashSet};

/// Subnets of a VPC, with their positions.
pub(super) type VpcSubnets = PrefixMap<SourcePos>;

/// Checks VNIs and subnets. Returns the subnets of each VPC.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile) -> Vec<VpcSubnets> {
    names::check_count(report, "VPCs", MAX_VPCS, file.vpcs.iter().map(|vpc| &vpc.name));
    let mut lines: HashMap<u32, u32> = HashMap::new();
    file.vpcs
        .iter()
        .map(|vpc| {
            underlay::check_vni(report, &vpc.vni);
            if let Some(line) = lines.insert(*vpc.vni, vpc.vni.at.line) {
                let message = format!("VNI {} is used twice, first in line {line}", *vpc.vni);
                report.add(vpc.vni.at, message, "give each VPC a VNI of its own");
            }
            check_limit(report, vpc, ("max_datagrams", vpc.max_datagrams, DATAGRAM_TABLE_SIZE), (true, "", ""));
            let subnets = check_subnets(report, vpc);
            check_gateways(report, vpc, &subnets);
            subnets
        })
        .collect()
}

fn check_subnets(report: &mut ProblemCollector, vpc: &Vpc) -> VpcSubnets {
    for subnet in &vpc.subnets {
        usable::check_subnet(report, subnet);
    }
    let all = sorted_subnets(vpc, 0);
    visit_overlaps(&all, |a, b| {
        let message = format!("subnet {} overlaps {} in line {}", b.0, a.0, a.1.line);
        report.add(b.1, message, "make the subnets of a VPC disjoint");
    });
    let mut map = VpcSubnets::default();
    for (prefix, at, _) in all {
        // A repeated prefix was reported as an overlap.
        let _ = map.insert(prefix, at);
    }
    map
}

/// Checks the gateway's addresses in the VPC: one for a subnet, of a single host.
fn check_gateways(report: &mut ProblemCollector, vpc: &Vpc, subnets: &VpcSubnets) {
    let mut lines: HashMap<IpNet, u32> = HashMap::new();
    for gateway in &vpc.gateways {
        let Some((subnet, _)) = subnets.covering(&IpNet::from(gateway.value)) else {
            let message = format!("{} is in no subnet of VPC `{}`", gateway.value, vpc.name.value);
            report.add(gateway.at, message, "correct the address, or add its subnet to the VPC");
            continue;
        };
        if let Some(line) = lines.insert(subnet, gateway.at.line) {
            let message = format!("the gateway has two addresses in {subnet}, the first in line {line}");
            report.add(gateway.at, message, "remove one of the two");
        }
        if subnet.addr() == gateway.value && subnet.prefix_len() < subnet.max_prefix_len() - 1
            || subnet.broadcast() == gateway.value && subnet.addr().is_ipv4() && subnet.prefix_len() < 31
        {
            let message = format!("{} is no address of a single host in {subnet}", gateway.value);
            report.add(gateway.at, message, "use an address between the first and the last");
        }
    }
}

type OwnedSubnet = (IpNet, SourcePos, usize);

fn sorted_subnets(vpc: &Vpc, owner: usize) -> Vec<OwnedSubnet> {
    let mut all: Vec<OwnedSubnet> = vpc.subnets.iter().map(|s| (s.network(), s.at, owner)).collect();
    all.sort_by_key(|(prefix, at, _)| (*prefix, *at));
    all
}

/// Calls `found` for each prefix of a sorted list that is within an earlier one.
fn visit_overlaps(sorted: &[OwnedSubnet], mut found: impl FnMut(&OwnedSubnet, &OwnedSubnet)) {
    let mut open: Option<&OwnedSubnet> = None;
    for item in sorted {
        match open {
            Some(outer) if outer.0.contains(&item.0) => found(outer, item),
            _ => open = Some(item),
        }
    }
}

/// Checks peerings. Returns the peers of each VPC.
pub(super) fn check_peerings(report: &mut ProblemCollector, file: &RegionFile, vpcs: &NameIndex) -> Vec<Vec<usize>> {
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
        check_disjoint(report, file, a, b, left.at);
        peers[a].push(b);
        peers[b].push(a);
    }
    peers
}

/// Checks that two peers have disjoint subnets, because routing distinguishes them by address.
fn check_disjoint(report: &mut ProblemCollector, file: &RegionFile, a: usize, b: usize, at: SourcePos) {
    let mut all = sorted_subnets(&file.vpcs[a], a);
    all.extend(sorted_subnets(&file.vpcs[b], b));
    all.sort_by_key(|(prefix, at, _)| (*prefix, *at));
    visit_overlaps(&all, |outer, inner| {
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

/// Checks a limit of a VPC on entries that packets add: `key` with its number, up to `size`, for a VPC
/// that has what it limits.
pub(super) fn check_limit(
    report: &mut ProblemCollector,
    vpc: &Vpc,
    (key, limit, size): (&str, Option<NumberWithPos<u32>>, u32),
    (has_limited, missing, fix): (bool, &str, &str),
) {
    let Some(limit) = limit else { return };
    if !(1..=size).contains(&limit.value) {
        let message = format!("`{key}: {}` of VPC `{}` is out of range", limit.value, vpc.name.value);
        report.add(limit.at, message, format!("use 1 to {size}, the size of the table"));
    } else if !has_limited {
        let message = format!("VPC `{}` has `{key}`, and no {missing}", vpc.name.value);
        report.add(limit.at, message, format!("remove it, or write {fix}"));
    }
}
