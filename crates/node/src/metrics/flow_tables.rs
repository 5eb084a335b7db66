//! Metrics of tables to which packets add entries.

use super::samples::ValueSamples;
use super::scrape::ScrapeSnapshot;
use crate::observe::named_stats::FlowTableCounts;

fn sample_per_table(seen: &ScrapeSnapshot<'_>, value: fn(&FlowTableCounts) -> u64) -> ValueSamples {
    let tables = seen.now.stats.flow_tables.iter();
    tables.map(|(table, counts)| (vec![table.clone()], value(counts) as f64)).collect()
}

pub(super) fn added(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let tables = seen.now.stats.flow_tables.iter();
    let both = tables.flat_map(|(table, counts)| {
        let by = [("packet", counts.added_by_packets), ("controller", counts.added_by_control)];
        by.map(|(by, count)| (vec![table.clone(), by.to_owned()], count as f64))
    });
    both.collect()
}

pub(super) fn refused(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    let tables = seen.now.stats.flow_tables.iter();
    let reasons = tables.flat_map(|(table, counts)| {
        counts.refused.iter().map(|(reason, count)| (vec![table.clone(), reason.clone()], *count as f64))
    });
    reasons.collect()
}

pub(super) fn expired(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_table(seen, |counts| counts.expired)
}

pub(super) fn removed(seen: &ScrapeSnapshot<'_>) -> ValueSamples {
    sample_per_table(seen, |counts| counts.removed)
}
