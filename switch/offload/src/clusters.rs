//! How many clusters of switches hold a region, when tenants are split over them (Sailfish, section 4).
//!
//! A tenant is in one cluster as a whole: its routes and its VMs are looked up in the same switch. Entries that belong to no tenant are in
//! each cluster. What fits into a cluster is decided by whoever asks (a placement, not a sum of blocks); this module only decides who goes where.

use crate::sizing::Tenants;
use asic::rewrite::Sizes;
use serde::Serialize;

/// What one tenant needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// Its name or VNI.
    pub name: String,
    /// Its entries in each table.
    pub entries: Sizes,
}

/// A cluster: tenants that share a switch.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cluster {
    /// How many tenants.
    pub tenants: u64,
    /// The largest of them.
    pub largest: String,
    /// Entries that each table of the switch holds.
    pub entries: Sizes,
}

/// A region over clusters.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Clusters {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// Tenants that are larger than a cluster: they are in none.
    pub too_large: Vec<String>,
    /// Whether it was cut off at the greatest number of clusters.
    pub cut_off: bool,
}

impl Clusters {
    /// Switches, with a standby for each (1:1).
    pub fn switches(&self) -> u64 {
        2 * self.clusters.len() as u64
    }
}

/// Greatest number of clusters that are counted.
pub const MAX_CLUSTERS: usize = 4096;

/// Greatest number of tenants too large for a cluster that are named.
const MAX_NAMED: usize = 1000;

/// The tenants that a sizing describes, largest first: each has its share of the entries of the tables that are split.
pub fn tenants(description: &Tenants, sizes: &Sizes) -> Vec<Tenant> {
    let weight = |rank: u64| (rank as f64).powf(-description.skew);
    let total: f64 = (1..=description.count).map(weight).sum();
    // Shares are cut at whole entries of the running sum, so that all of them together are exactly the table's.
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

fn add(to: &mut Sizes, entries: &Sizes) {
    for (name, count) in entries {
        *to.entry(name.clone()).or_default() += count;
    }
}

/// Spreads tenants over clusters. `shared` are the entries that each cluster has besides its tenants'; `fits` says whether a cluster can
/// hold so many entries; what it says must hold for fewer entries, too.
///
/// Large tenants come first; what is left in a cluster behind the last large one is filled with the smallest. So it asks `fits` about
/// 2 log2(tenants) times a cluster.
pub fn spread(mut tenants: Vec<Tenant>, shared: &Sizes, mut fits: impl FnMut(&Sizes) -> bool) -> Clusters {
    let total = |t: &Tenant| t.entries.values().sum::<u64>();
    tenants.sort_by(|a, b| total(b).cmp(&total(a)).then_with(|| a.name.cmp(&b.name)));
    let mut result = Clusters::default();
    let (mut head, mut tail) = (0, tenants.len());
    while head < tail {
        if result.clusters.len() == MAX_CLUSTERS {
            result.cut_off = true;
            break;
        }
        let taken = longest(&tenants[head..tail], shared, &mut fits, false);
        if taken == 0 {
            if result.too_large.len() < MAX_NAMED {
                result.too_large.push(tenants[head].name.clone());
            }
            head += 1;
            continue;
        }
        let mut entries = shared.clone();
        tenants[head..head + taken].iter().for_each(|t| add(&mut entries, &t.entries));
        let largest = tenants[head].name.clone();
        head += taken;
        let small = longest(&tenants[head..tail], &entries, &mut fits, true);
        tenants[tail - small..tail].iter().for_each(|t| add(&mut entries, &t.entries));
        tail -= small;
        result.clusters.push(Cluster { tenants: (taken + small) as u64, largest, entries });
    }
    result
}

/// How many tenants from the front (or from the back) fit together with what is there already.
fn longest(tenants: &[Tenant], there: &Sizes, fits: &mut impl FnMut(&Sizes) -> bool, back: bool) -> usize {
    let mut try_with = |count: usize| {
        let mut entries = there.clone();
        let some = if back { &tenants[tenants.len() - count..] } else { &tenants[..count] };
        some.iter().for_each(|t| add(&mut entries, &t.entries));
        fits(&entries)
    };
    let (mut good, mut bad) = (0, tenants.len() + 1);
    // Doubling first: clusters hold far fewer tenants than there are.
    let mut step = 1;
    while step < bad && try_with(step) {
        good = step;
        step = (step * 2).min(tenants.len());
        if good == tenants.len() {
            return good;
        }
    }
    bad = bad.min(step);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if try_with(middle) { good = middle } else { bad = middle }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64]) -> Vec<Tenant> {
        let one =
            |(n, count): (usize, &u64)| Tenant { name: format!("t{n}"), entries: [("vms".to_owned(), *count)].into() };
        counts.iter().enumerate().map(one).collect()
    }

    fn holds(limit: u64) -> impl FnMut(&Sizes) -> bool {
        move |sizes| sizes.get("vms").copied().unwrap_or(0) + sizes.get("shared").copied().unwrap_or(0) <= limit
    }

    #[test]
    fn every_tenant_is_in_one_cluster_and_none_is_too_full() {
        let counts: Vec<u64> = (1..=500).map(|n| n * 37 % 101 + 1).collect();
        let shared: Sizes = [("shared".to_owned(), 100)].into();
        let clusters = spread(of(&counts), &shared, holds(1_000));
        let held: u64 = clusters.clusters.iter().map(|c| c.entries["vms"]).sum();
        assert_eq!(held, counts.iter().sum::<u64>());
        assert_eq!(clusters.clusters.iter().map(|c| c.tenants).sum::<u64>(), 500);
        assert!(clusters.clusters.iter().all(|c| c.entries["vms"] <= 900 && c.entries["shared"] == 100));
        // No more than one above what the sum asks for.
        assert!(clusters.clusters.len() as u64 <= held.div_ceil(900) + 1, "{}", clusters.clusters.len());
    }

    #[test]
    fn a_tenant_larger_than_a_cluster_is_named() {
        let clusters = spread(of(&[50, 2_000, 60]), &Sizes::new(), holds(100));
        assert_eq!(clusters.too_large, ["t1"]);
        assert_eq!(clusters.clusters.len(), 2);
        assert_eq!(clusters.switches(), 4);
        let nothing = spread(of(&[1, 1]), &[("shared".to_owned(), 500)].into(), holds(100));
        assert_eq!((nothing.clusters.len(), nothing.too_large.len()), (0, 2));
    }

    #[test]
    fn shares_are_all_of_the_entries() {
        let sizes: Sizes = [("vms".to_owned(), 1_000_003), ("routes".to_owned(), 7)].into();
        for skew in [0.0, 0.8, 2.0] {
            let tables = vec!["vms".to_owned(), "routes".to_owned()];
            let all = tenants(&Tenants { count: 999, skew, tables }, &sizes);
            assert_eq!(all.iter().map(|t| t.entries["vms"]).sum::<u64>(), 1_000_003);
            assert_eq!(all.iter().map(|t| t.entries["routes"]).sum::<u64>(), 7);
            assert!(all[0].entries["vms"] >= all[998].entries["vms"]);
        }
    }
}
