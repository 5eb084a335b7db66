//! Metrics of workers and their time.

use super::samples::{HistogramSamples, ValueSamples};
use super::scrape::ScrapeSnapshot;
use crate::counts::WorkerCounts;

fn sample_per_worker<T>(seen: &ScrapeSnapshot<'_>, value: impl Fn(&WorkerCounts) -> T) -> Vec<(Vec<String>, T)> {
    let workers = seen.now.workers.iter().enumerate();
    workers.map(|(number, counts)| (vec![number.to_string()], value(counts))).collect()
}

pub(super) fn packets(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_worker(seen, |counts| counts.received.packets as f64)
}

pub(super) fn batches(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_worker(seen, |counts| counts.batches as f64)
}

pub(super) fn run_time(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_worker(seen, |counts| counts.run_time.as_secs_f64())
}

pub(super) fn busy_time(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_worker(seen, |counts| counts.busy_time.as_secs_f64())
}

pub(super) fn engine_time(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_worker(seen, |counts| counts.engine_time.as_secs_f64())
}

pub(super) fn behind(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    seen.versions_behind
        .iter()
        .enumerate()
        .map(|(number, versions)| (vec![number.to_string()], *versions as f64))
        .collect()
}

pub(super) fn residence(seen: &ScrapeSnapshot<'_>) -> HistogramSamples {
    sample_per_worker(seen, |counts| counts.latency.clone())
}
