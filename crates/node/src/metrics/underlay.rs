//! Metrics of the kernel's routes and neighbours.

use super::samples::{ValueSamples, one};
use super::scrape::ScrapeSnapshot;
use crate::underlay::{KernelPaths, ResyncReason};

/// Returns one value, if the region uses the kernel's routes.
fn of_paths(seen: &ScrapeSnapshot<'_>, value: impl FnOnce(&KernelPaths) -> usize) -> ValueSamples {
    seen.node.with_kernel_paths(|paths| value(paths)).map_or_else(Vec::new, |value| one(value as f64))
}

pub(super) fn routes(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    of_paths(seen, |paths| paths.routes.routes.len())
}

pub(super) fn next_hops(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let counts = seen.node.with_kernel_paths(|paths| paths.count_hops());
    let named = |counts: [usize; 3]| ["usable", "unresolved", "down"].into_iter().zip(counts);
    counts.into_iter().flat_map(named).map(|(state, count)| (vec![state.to_owned()], count as f64)).collect()
}

pub(super) fn unreached(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    of_paths(seen, |paths| paths.routes.unreached.len())
}

pub(super) fn overflow(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    of_paths(seen, |paths| paths.routes.overflow.len())
}

pub(super) fn resyncs(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let counts = seen.node.with_kernel_paths(|paths| {
        ResyncReason::ALL.map(|reason| (reason, paths.resyncs.get(&reason).copied().unwrap_or_default()))
    });
    counts.into_iter().flatten().map(|(reason, count)| (vec![reason.name().to_owned()], count as f64)).collect()
}

pub(super) fn path_mtus(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    one(seen.node.path_mtus().len() as f64)
}

pub(super) fn path_mtu_reports(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let lost = [("lost", seen.node.plane.host().path_reports().lost())].into_iter().filter(|(_, count)| *count > 0);
    let counts = seen.node.path_mtu_reports().into_iter().chain(lost);
    counts.map(|(result, count)| (vec![result.to_owned()], count as f64)).collect()
}
