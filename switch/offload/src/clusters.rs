//! Number of switch clusters for a region with its tenants split over them (Sailfish, section 4).
//!
//! A tenant is entirely in one cluster, because one switch looks up its routes and its VMs. Entries
//! without a tenant are in every cluster. The caller decides whether a cluster fits (by a
//! placement, not by a sum of blocks); this module assigns the tenants.

use crate::sizing::Tenants;
use asic::transform::TableSizes;
use serde::Serialize;

/// Demand of one tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// Name or VNI.
    pub name: String,
    /// Number of entries in each table.
    pub entries: TableSizes,
}

/// Cluster: tenants that share a switch.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cluster {
    /// Number of tenants.
    pub tenants: u64,
    /// Name of the largest tenant.
    pub largest: String,
    /// Number of entries in each table of the switch.
    pub entries: TableSizes,
}

/// Assignment of a region's tenants to clusters.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Clusters {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// Tenants that do not fit in a cluster; they are not assigned.
    pub too_large: Vec<String>,
    /// Whether the assignment stopped at [`MAX_CLUSTERS`].
    pub cut_off: bool,
}

impl Clusters {
    /// Returns the number of switches, with a standby for each (1:1).
    pub fn switches(&self) -> u64 {
        2 * self.clusters.len() as u64
    }
}

/// Maximum number of clusters.
pub const MAX_CLUSTERS: usize = 4096;

/// Maximum number of reported tenants that do not fit in a cluster.
const MAX_NAMED: usize = 1000;

/// Returns the tenants of a sizing, largest first, each with its share of the entries of the split
/// tables.
pub fn expand_tenants(description: &Tenants, sizes: &TableSizes) -> Vec<Tenant> {
    let weight = |rank: u64| (rank as f64).powf(-description.skew);
    let total: f64 = (1..=description.count).map(weight).sum();
    // Shares are differences of the rounded running sum, so that they add up to exactly the table's
    // size.
    let mut before = 0.0;
    let mut out = Vec::with_capacity(usize::try_from(description.count).unwrap_or(0));
    for rank in 1..=description.count {
        let after = if rank == description.count { 1.0 } else { before + weight(rank) / total };
        let entries = description.tables.iter().filter_map(|name| {
            let size = *sizes.get(name)? as f64;
            Some((name.clone(), (after * size).round() as u64 - (before * size).round() as u64))
        });
        out.push(Tenant { name: format!("tenant {rank}"), entries: entries.collect() });
        before = after;
    }
    out
}

fn add_entries(to: &mut TableSizes, entries: &TableSizes) {
    for (name, count) in entries {
        *to.entry(name.clone()).or_default() += count;
    }
}

/// Assigns tenants to clusters. `shared` are entries that every cluster holds; `fits` returns
/// whether a cluster can hold the given entries and must be monotonic.
///
/// Large tenants come first; the smallest tenants fill the rest of each cluster. Calls `fits` about
/// 2 log2(tenants) times per cluster.
pub fn assign_tenants(
    mut tenants: Vec<Tenant>,
    shared: &TableSizes,
    mut fits: impl FnMut(&TableSizes) -> bool,
) -> Clusters {
    let entry_count = |t: &Tenant| t.entries.values().sum::<u64>();
    tenants.sort_by(|a, b| entry_count(b).cmp(&entry_count(a)).then_with(|| a.name.cmp(&b.name)));
    let mut result = Clusters::default();
    let (mut first, mut end) = (0, tenants.len());
    while first < end {
        if result.clusters.len() == MAX_CLUSTERS {
            result.cut_off = true;
            break;
        }
        let large = largest_fit(&tenants[first..end], shared, &mut fits, false);
        if large == 0 {
            if result.too_large.len() < MAX_NAMED {
                result.too_large.push(tenants[first].name.clone());
            }
            first += 1;
            continue;
        }
        let mut entries = shared.clone();
        tenants[first..first + large].iter().for_each(|t| add_entries(&mut entries, &t.entries));
        let largest = tenants[first].name.clone();
        first += large;
        let small = largest_fit(&tenants[first..end], &entries, &mut fits, true);
        tenants[end - small..end].iter().for_each(|t| add_entries(&mut entries, &t.entries));
        end -= small;
        result.clusters.push(Cluster { tenants: (large + small) as u64, largest, entries });
    }
    result
}

/// Returns the number of tenants from the front (or, with `from_back`, from the back) that fit in
/// addition to the entries `present`.
fn largest_fit(
    tenants: &[Tenant],
    present: &TableSizes,
    fits: &mut impl FnMut(&TableSizes) -> bool,
    from_back: bool,
) -> usize {
    let mut try_with = |count: usize| {
        let mut entries = present.clone();
        let chosen = if from_back { &tenants[tenants.len() - count..] } else { &tenants[..count] };
        chosen.iter().for_each(|t| add_entries(&mut entries, &t.entries));
        fits(&entries)
    };
    let (mut fitting, mut failing) = (0, tenants.len() + 1);
    // Doubles first, because a cluster holds far fewer tenants than the region.
    let mut step = 1;
    while step < failing && try_with(step) {
        fitting = step;
        step = (step * 2).min(tenants.len());
        if fitting == tenants.len() {
            return fitting;
        }
    }
    failing = failing.min(step);
    while failing - fitting > 1 {
        let middle = fitting + (failing - fitting) / 2;
        if try_with(middle) { fitting = middle } else { failing = middle }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64]) -> Vec<Tenant> {
        let one =
            |(n, count): (usize, &u64)| Tenant { name: format!("t{n}"), entries: [("vms".to_owned(), *count)].into() };
        counts.iter().enumerate().map(one).collect()
    }

    fn holds(limit: u64) -> impl FnMut(&TableSizes) -> bool {
        move |sizes| sizes.get("vms").copied().unwrap_or(0) + sizes.get("shared").copied().unwrap_or(0) <= limit
    }

    #[test]
    fn every_tenant_is_in_one_cluster_and_none_is_too_full() {
        let counts: Vec<u64> = (1..=500).map(|n| n * 37 % 101 + 1).collect();
        let shared: TableSizes = [("shared".to_owned(), 100)].into();
        let clusters = assign_tenants(of(&counts), &shared, holds(1_000));
        let held: u64 = clusters.clusters.iter().map(|c| c.entries["vms"]).sum();
        assert_eq!(held, counts.iter().sum::<u64>());
        assert_eq!(clusters.clusters.iter().map(|c| c.tenants).sum::<u64>(), 500);
        assert!(clusters.clusters.iter().all(|c| c.entries["vms"] <= 900 && c.entries["shared"] == 100));
        // At most one cluster above the lower bound.
        assert!(clusters.clusters.len() as u64 <= held.div_ceil(900) + 1, "{}", clusters.clusters.len());
    }

    #[test]
    fn a_tenant_larger_than_a_cluster_is_named() {
        let clusters = assign_tenants(of(&[50, 2_000, 60]), &TableSizes::new(), holds(100));
        assert_eq!(clusters.too_large, ["t1"]);
        assert_eq!(clusters.clusters.len(), 2);
        assert_eq!(clusters.switches(), 4);
        let nothing = assign_tenants(of(&[1, 1]), &[("shared".to_owned(), 500)].into(), holds(100));
        assert_eq!((nothing.clusters.len(), nothing.too_large.len()), (0, 2));
    }

    #[test]
    fn shares_are_all_of_the_entries() {
        let sizes: TableSizes = [("vms".to_owned(), 1_000_003), ("routes".to_owned(), 7)].into();
        for skew in [0.0, 0.8, 2.0] {
            let tables = vec!["vms".to_owned(), "routes".to_owned()];
            let all = expand_tenants(&Tenants { count: 999, skew, tables }, &sizes);
            assert_eq!(all.iter().map(|t| t.entries["vms"]).sum::<u64>(), 1_000_003);
            assert_eq!(all.iter().map(|t| t.entries["routes"]).sum::<u64>(), 7);
            assert!(all[0].entries["vms"] >= all[998].entries["vms"]);
        }
    }
}
